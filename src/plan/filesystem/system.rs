//! What is seen of the host: the system's folders, devices, tool roots and named places.

use super::{
    Builder, Mount, SYSTEM_PLACE, executes, linked, make_rights, missing_write, other_names,
    places_of,
};
use crate::plan::Toolchain;
use crate::plan::workspace::Inode;
use crate::profile::{Entry, PathSpec, Root};
use crate::record::{Access, Code, Refusal, Text};
use crate::sys::landlock::Rights;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders at the root that are links into `/usr` on some systems and folders on others.
const ROOT_NAMES: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What of `/etc` is seen.
const ETC: [&str; 9] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/hosts",
    "/etc/mime.types",
];
const PROC_PLACE: &str = "always: programs look at themselves and at the machine";
const DEVICES_PLACE: &str = "always: devices that hold nothing of the host";
const PROGRAM_PLACE: &str = "always: the call's program, its interpreter and its loader";
const OS_RELEASE: &str = "/etc/os-release";
/// Device files that are seen, with their numbers.
const DEVICES: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
];

impl Builder<'_> {
    /// The system's folders: seen always, because no program runs without them, but readable
    /// and executable only as the profile says.
    pub(super) fn system(&mut self) {
        let reads = self.profile.read.iter().any(|entry| entry.path.root == Root::System);
        let executes = executes(self.profile, |root| root == Root::System);
        let mut rights = if reads { Rights::read() } else { Rights::NONE };
        rights = if executes { rights.and(Rights::execute()) } else { rights };
        let readers = places_of(&self.profile.read, Root::System);
        let executors = places_of(&self.profile.execute, Root::System);
        let both = [readers.as_str(), executors.as_str()];
        let both: Vec<&str> = both.into_iter().filter(|place| !place.is_empty()).collect();
        let both = both.join(", ");
        self.system_folder(Path::new("/usr"), rights, &both);
        for name in ROOT_NAMES.map(Path::new) {
            if let Ok(to) = std::fs::read_link(name) {
                self.mounts.push(Mount::Link { path: name.into(), to, place: SYSTEM_PLACE });
            } else if name.is_dir() {
                self.system_folder(name, rights, &both);
            }
        }
        for name in ETC.into_iter().chain([OS_RELEASE]) {
            self.etc(Path::new(name));
        }
        // What the view has of these folders was chosen one by one, so one rule each is enough.
        self.allow_view("/etc", if reads { Rights::read() } else { Rights::NONE }, &readers);
        self.allow_view("/proc", Rights::read(), PROC_PLACE);
        self.allow_view("/dev", Rights::devices(), DEVICES_PLACE);
        for (path, major, minor) in DEVICES {
            let rdev = nix::sys::stat::makedev(major.into(), minor.into());
            self.mounts.push(Mount::Device { path: path.into(), rdev, place: DEVICES_PLACE });
        }
    }

    /// A file of `/etc`: a link where it leads into `/usr` anyway, else the file itself.
    pub(super) fn etc(&mut self, path: &Path) {
        let Ok(found) = std::fs::symlink_metadata(path) else { return };
        let real = found.is_symlink().then(|| std::fs::canonicalize(path));
        match real {
            Some(Ok(real)) if real.starts_with("/usr") => {
                self.mounts.push(Mount::Link { path: path.into(), to: real, place: SYSTEM_PLACE });
            }
            Some(Err(_)) => {}
            _ => {
                let (path, folder) = (path.to_owned(), path.is_dir());
                let place = SYSTEM_PLACE.to_owned();
                self.mounts.push(Mount::Host { path, writable: false, folder, place });
            }
        }
    }

    /// A folder of the system is seen always; what may be done there is the profile's word.
    fn system_folder(&mut self, path: &Path, rights: Rights, grants: &str) {
        let (path, place) = (path.to_owned(), SYSTEM_PLACE.to_owned());
        self.allow(&path, rights, grants);
        self.mounts.push(Mount::Host { path, writable: false, folder: true, place });
    }

    pub(super) fn host(&mut self, path: &Path, writable: bool, rights: Rights, place: &str) {
        let folder = path.is_dir();
        self.allow(path, if folder { rights } else { rights.of_file() }, place);
        let (path, place) = (path.to_owned(), place.to_owned());
        self.mounts.push(Mount::Host { path, writable, folder, place });
    }

    /// Entries with absolute paths, and tool roots.
    pub(super) fn entries_of_host(&mut self, toolchains: &[&Toolchain]) -> Result<(), Refusal> {
        let profile = self.profile;
        let absolute = |spec: &PathSpec| spec.root == Root::Absolute;
        let mut wanted: Vec<(PathBuf, bool, Rights, String)> = Vec::new();
        for entry in profile.read.iter().filter(|entry| absolute(&entry.path)) {
            wanted.push((entry.path.rest.clone(), false, Rights::read(), entry.place.clone()));
        }
        for entry in profile.execute.iter().filter(|entry| absolute(&entry.path)) {
            let rights = Rights::read().and(Rights::execute());
            wanted.push((entry.path.rest.clone(), false, rights, entry.place.clone()));
        }
        let writes = self.call.access >= Access::WorkspaceWrite;
        for write in profile.write.iter().filter(|write| writes && absolute(&write.entry.path)) {
            let (path, place) = (write.entry.path.rest.clone(), write.entry.place.clone());
            if !path.exists() && !write.optional {
                return Err(missing_write(&write.entry.path, &place));
            }
            wanted.push((path, true, make_rights(write.make), place));
        }
        for toolchain in toolchains {
            let rights = Rights::read().and(Rights::execute());
            let seen = |root: &PathBuf| (root.clone(), false, rights, toolchain.place.clone());
            wanted.extend(toolchain.roots.iter().map(seen));
        }
        for (path, writable, rights, place) in wanted {
            self.host_entry(&path, writable, rights, &place)?;
        }
        Ok(())
    }

    fn host_entry(
        &mut self,
        path: &Path,
        writable: bool,
        rights: Rights,
        place: &str,
    ) -> Result<(), Refusal> {
        if !path.exists() {
            self.notes.push(format!("{place}: {} is not there", Text::from(path).escaped()));
            return Ok(());
        }
        // A link on the way could be put there by what another profile lets write.
        // Links of the system's own folders are the system's.
        let real = std::fs::canonicalize(path).unwrap_or_default();
        let of_system = path.starts_with("/usr") && real.starts_with("/usr");
        if real != path && !of_system {
            return Err(linked_host(path, place));
        }
        let seen = self.mounts.iter().any(|mount| match mount {
            Mount::Host { path: mounted, writable: w, .. } => {
                path.starts_with(mounted) && *w == writable
            }
            _ => false,
        });
        if seen {
            let rights = if path.is_dir() { rights } else { rights.of_file() };
            self.allow(path, rights, place);
        } else {
            self.host(path, writable, rights, place);
        }
        Ok(())
    }

    /// A place outside the workspace is covered where something that is seen holds it.
    pub(super) fn host_mask(&self, entry: &Entry, path: PathBuf) -> Result<Option<Mount>, Refusal> {
        let Ok(found) = std::fs::symlink_metadata(&path) else { return Ok(None) };
        let mut inside = false;
        for mount in &self.mounts {
            let (Mount::Host { path: host, .. } | Mount::Repository { path: host, .. }) = mount
            else {
                continue;
            };
            inside |= path.starts_with(host);
            if host != &path && host.starts_with(&path) {
                return Err(unmaskable(&entry.path, &entry.place));
            }
        }
        if !inside {
            return Ok(None);
        }
        if found.is_symlink() {
            return Err(linked(&entry.path, &entry.place));
        }
        if found.is_file() && found.nlink() > 1 {
            return Err(other_names(entry, found.nlink()));
        }
        let place = entry.place.clone();
        let inode = Inode { dev: found.dev(), ino: found.ino() };
        Ok(Some(Mount::HostMask { inode, path, folder: found.is_dir(), place }))
    }

    /// The program itself, its interpreter and its loader: executable whatever the profile says.
    pub(super) fn programs(&mut self) {
        let rights = Rights::read_files().and(Rights::execute());
        let program = &self.call.program;
        let interpreter = program.interpreter.as_ref().map(|interpreter| &interpreter.file);
        let script = interpreter.is_some();
        let run = [Some(&program.file).filter(|_| !script), interpreter, program.loader.as_ref()];
        for file in run.into_iter().flatten() {
            self.allow(&file.path, rights, PROGRAM_PLACE);
        }
        if script {
            self.allow(&program.file.path, Rights::read_files(), PROGRAM_PLACE);
        }
        for file in [Some(&program.file), interpreter, program.loader.as_ref()] {
            let Some(file) = file else { continue };
            let seen = self.mounts.iter().any(|mount| match mount {
                Mount::Host { path, .. } => file.path.starts_with(path),
                _ => false,
            });
            if !seen {
                self.mounts.push(Mount::Host {
                    path: file.path.clone(),
                    writable: false,
                    folder: false,
                    place: PROGRAM_PLACE.to_owned(),
                });
            }
        }
    }
}

/// The path with the links on the way to its last name followed.
pub(super) fn real_name(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn unmaskable(spec: &PathSpec, place: &str) -> Refusal {
    Refusal::new(
        Code::ProfileUnavailable,
        spec.to_string(),
        format!("{place} masks it, and the profile grants something inside it"),
        "grant narrower paths, or mask only what is granted as part of something wider",
    )
}

fn linked_host(path: &Path, place: &str) -> Refusal {
    Refusal::new(
        Code::ProfileUnavailable,
        Text::from(path).shown(),
        format!("{place} names it, and a link stands in its place or on the way"),
        "write the path without links into the profile",
    )
}
