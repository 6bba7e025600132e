//! A tree's own cgroup: where it is born, what it may use as a whole, and by which it is killed.
//!
//! Version 2 places and kills. Memory and the number of processes are limited where the host has
//! these controllers: in version 2, or each in a version 1 hierarchy of its own. Every controller
//! can be absent; [`Cgroup::kept`] says what a group really keeps.

mod owner;
mod places;

use owner::Owner;
use places::{Places, places};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often the removal of an emptied group is tried.
const REMOVE_TRIES: u32 = 50;
/// Pause between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(2);
/// The controllers that limit.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// What a tree may use as a whole; what is `None` is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceilings {
    /// Memory, swap included, in bytes.
    pub memory: Option<u64>,
    /// Processes and threads at a time.
    pub pids: Option<u64>,
    /// Whether the processor time is to be counted.
    pub cpu: bool,
}

/// What a group keeps of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// It can be killed as a whole.
    pub kill: bool,
    /// Memory is limited.
    pub memory: bool,
    /// The number of processes is limited.
    pub pids: bool,
    /// Processor time is counted.
    pub cpu: bool,
}

/// The groups below which this process makes groups for its trees. Found once.
#[derive(Debug)]
pub struct Parents {
    owner: Owner,
    /// Version 2, nearest first, with the controllers that groups below have there.
    unified: Vec<(PathBuf, Vec<&'static str>)>,
    /// Version 1: controller and the own group's folder.
    single: Vec<(&'static str, PathBuf)>,
}

impl Parents {
    /// Finds the groups.
    ///
    /// # Errors
    /// Those of reading `/proc/self`.
    pub fn find() -> io::Result<Self> {
        let owner = Owner::current()?;
        let read = |file| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned());
        let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
        let Places { unified, single } = places(&groups, &mounts);
        let bound = |name: &str| single.iter().any(|(controller, _)| *controller == name);
        let wanted: Vec<&str> = CONTROLLERS.into_iter().filter(|name| !bound(name)).collect();
        let unified = unified.map_or_else(Vec::new, |(top, own)| above(&top, &own, &wanted));
        Ok(Self { owner, unified, single })
    }

    /// Kills and removes what supervisors of this process namespace left behind that are gone. A
    /// failure leaves a group for the next time.
    pub fn sweep(&self) {
        let unified = self.unified.iter().map(|(parent, _)| parent);
        for parent in unified.chain(self.single.iter().map(|(_, parent)| parent)) {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| self.owner.is_left_behind(&entry.file_name())) {
                // There is no such file in version 1; what its group holds dies by the other.
                let killed = write(&entry.path().join("cgroup.kill"), "1");
                remove(&entry.path());
                tracing::info!(group = %entry.path().display(), ?killed, "swept");
            }
        }
    }

    /// Makes a fresh group; `None` where this host or user cannot have one of any kind.
    pub fn make(&self, ceilings: Ceilings) -> Option<Cgroup> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = self.owner.name(COUNT.fetch_add(1, Ordering::Relaxed));
        let mut group = Cgroup::default();
        let named =
            |(parent, has): &(PathBuf, Vec<&'static str>)| (parent.join(&name), has.clone());
        for (folder, controllers) in self.unified.iter().map(named) {
            // Without this file (before Linux 5.14) the group could not do what it is made for.
            if make_folder(&folder, "cgroup.kill") {
                group.cpu = Some(folder.clone());
                for controller in controllers {
                    group.limit(controller, &folder, ceilings, true);
                }
                group.unified = Some(folder);
                break;
            }
        }
        for (controller, parent) in &self.single {
            let folder = parent.join(&name);
            let is_needed = *controller != "cpuacct" || (ceilings.cpu && group.unified.is_none());
            let is_made = || group.single.contains(&folder);
            if !is_needed || !(is_made() || make_folder(&folder, "tasks")) {
                continue;
            }
            if !is_made() {
                group.single.push(folder.clone());
            }
            group.limit(controller, &folder, ceilings, false);
        }
        (group.unified.is_some() || !group.single.is_empty()).then_some(group)
    }

    /// Says why no version 2 group can be made, where [`Parents::make`] could not make one:
    /// `NotFound` where there is no such hierarchy, or none that kills.
    pub fn refusal(&self) -> io::Error {
        let none = || io::ErrorKind::NotFound.into();
        let Some((own, _)) = self.unified.last() else { return none() };
        let writable = nix::unistd::access(own, nix::unistd::AccessFlags::W_OK);
        writable.err().map_or_else(none, Into::into)
    }
}

/// Lists where version 2 groups can be tried, nearest first: ancestors of the own group that hand
/// on every wanted controller, then the own group, which hands on none because it has processes.
fn above(top: &Path, own: &Path, wanted: &[&'static str]) -> Vec<(PathBuf, Vec<&'static str>)> {
    let hands_on = |folder: &Path| {
        let names = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        wanted.iter().all(|wanted| names.split_whitespace().any(|name| name == *wanted))
    };
    let mut found = Vec::new();
    if !wanted.is_empty() {
        let ancestors = own.ancestors().take_while(|folder| folder.starts_with(top));
        let able = ancestors.filter(|folder| hands_on(folder) && is_writable(folder));
        found.extend(able.map(|folder| (folder.to_owned(), wanted.to_vec())));
    }
    found.push((own.to_owned(), Vec::new()));
    found
}

/// Moving a process into a group asks for this file of the group above both.
fn is_writable(folder: &Path) -> bool {
    let flags = nix::unistd::AccessFlags::W_OK;
    nix::unistd::access(&folder.join("cgroup.procs"), flags).is_ok()
}

/// Makes a group's folder; one without `file` is no group of the kind that is wanted.
fn make_folder(folder: &Path, file: &str) -> bool {
    let made = fs::create_dir(folder).and_then(|()| fs::symlink_metadata(folder.join(file)));
    if let Err(error) = &made {
        tracing::info!(folder = %folder.display(), %error, "no group there");
        // Where the file is missing the folder is this call's own, and of no use.
        if error.kind() == io::ErrorKind::NotFound {
            remove(folder);
        }
    }
    made.is_ok()
}

fn write(file: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(file)?.write_all(value.as_bytes())
}

/// Removes a group's folder.
fn remove(folder: &Path) {
    for _ in 0..REMOVE_TRIES {
        // Processes that were killed leave the group a moment after they were reaped.
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            _ => return,
        }
    }
}

/// A fresh group, removed when dropped. A group that was ever killed kills whatever is born in
/// it, so none is used twice.
#[derive(Debug, Default)]
pub struct Cgroup {
    /// The version 2 folder.
    unified: Option<PathBuf>,
    /// The version 1 folders.
    single: Vec<PathBuf>,
    /// Where the kernel counts its kills for lack of memory.
    memory: Option<PathBuf>,
    /// Where it counts the processes that it did not make.
    pids: Option<PathBuf>,
    /// The folder where it counts processor time.
    cpu: Option<PathBuf>,
}

impl Cgroup {
    /// Sets what a controller limits, and keeps where it tells of it.
    fn limit(&mut self, controller: &str, folder: &Path, ceilings: Ceilings, unified: bool) {
        let (set, place, told) = match (controller, ceilings.memory, ceilings.pids) {
            ("memory", Some(most), _) if unified => {
                (memory(folder, most), &mut self.memory, "memory.events")
            }
            ("memory", Some(most), _) => {
                (single_memory(folder, most), &mut self.memory, "memory.oom_control")
            }
            ("pids", _, Some(most)) => {
                // The tree's init is one of them, and not the command's.
                let set = write(&folder.join("pids.max"), &(most + 1).to_string());
                (set, &mut self.pids, "pids.events")
            }
            ("cpuacct", ..) => (Ok(()), &mut self.cpu, ""),
            _ => return,
        };
        match set {
            Ok(()) => *place = Some(folder.join(told)),
            Err(error) => tracing::info!(controller, %error, "the group does not take its limit"),
        }
    }

    /// Returns what the group keeps.
    pub fn kept(&self) -> Kept {
        Kept {
            kill: self.unified.is_some(),
            memory: self.memory.is_some(),
            pids: self.pids.is_some(),
            cpu: self.cpu.is_some(),
        }
    }

    /// Opens the version 2 folder, for `CLONE_INTO_CGROUP`.
    ///
    /// # Errors
    /// As `open(2)`.
    pub fn open(&self) -> io::Result<Option<OwnedFd>> {
        let folder = self.unified.as_ref();
        folder.map(|folder| super::fd::high(&File::open(folder)?)).transpose()
    }

    /// Returns the files to which a process with one thread writes `0` to enter the version 1
    /// groups. Not `cgroup.procs`: that waits until every process of the host may be moved, which
    /// takes ten milliseconds.
    pub fn entrances(&self) -> impl Iterator<Item = CString> {
        let name = |folder: &PathBuf| folder.join("tasks").into_os_string();
        // A path that the kernel gave has no NUL.
        let text = |name: &OsStr| CString::new(name.as_bytes()).unwrap_or_default();
        self.single.iter().map(move |folder| text(&name(folder)))
    }

    /// Kills every process of the group with `SIGKILL`.
    ///
    /// # Errors
    /// As `write(2)`; `NotFound` where the group is of version 1 only.
    pub fn kill(&self) -> io::Result<()> {
        let folder = self.unified.as_ref().ok_or(io::ErrorKind::NotFound)?;
        write(&folder.join("cgroup.kill"), "1")
    }

    /// Returns whether the kernel killed a process of the group for lack of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        counted(self.memory.as_deref(), "oom_kill") > 0
    }

    /// Returns whether a process was not made because the group had as many as it may have.
    pub fn ran_out_of_pids(&self) -> bool {
        counted(self.pids.as_deref(), "max") > 0
    }

    /// Returns the processor time that the group used, in user mode and in the kernel, in
    /// microseconds; `None` where it is not counted.
    pub fn cpu_us(&self) -> Option<(u64, u64)> {
        let folder = self.cpu.as_deref()?;
        if self.unified.is_some() {
            let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
            return Some((number(&text, "user_usec")?, number(&text, "system_usec")?));
        }
        let read = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        Some((read("cpuacct.usage_user")? / 1_000, read("cpuacct.usage_sys")? / 1_000))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.unified.iter().chain(&self.single).for_each(|folder| remove(folder));
    }
}

/// Limits memory in version 2: a tree that has no more is killed whole, its init included.
fn memory(folder: &Path, most: u64) -> io::Result<()> {
    write(&folder.join("memory.max"), &most.to_string())?;
    optional(write(&folder.join("memory.swap.max"), "0"))?;
    optional(write(&folder.join("memory.oom.group"), "1"))
}

/// Limits memory in version 1, where the kernel kills one process of the tree.
fn single_memory(folder: &Path, most: u64) -> io::Result<()> {
    write(&folder.join("memory.limit_in_bytes"), &most.to_string())?;
    // The file is there only where swap is counted.
    optional(write(&folder.join("memory.memsw.limit_in_bytes"), &most.to_string()))
}

/// Takes the absence of a file for success: the kernel has nothing to limit there.
fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Reads a number from a file of lines `key number`; 0 where it is not there.
fn counted(file: Option<&Path>, key: &str) -> u64 {
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    number(&text, key).unwrap_or(0)
}

fn number(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}
