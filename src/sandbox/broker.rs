//! Performs a tree's changes of modes and times where no mount holds them.
//!
//! Landlock does not hold these calls, so a filter hands them to this thread. It looks the named
//! file up itself, from the folder that may be written and without leaving it, and changes what it
//! has opened: what the caller's memory says afterwards, or what a name leads to by then, changes
//! nothing. It acts with the command's own ids, so it can do nothing that the command could not do
//! to a file of the workspace. Everything else gets `EPERM`.

use crate::plan::Plan;
use crate::plan::workspace::Workspace;
use crate::sys::notify::{self, Listener, Waiting, call as number};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags};
use nix::sys::time::TimeSpec;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Longest path that the kernel takes, in bytes.
const PATH_BYTES_MAX: usize = 4_096;
/// Bytes that are read at once: a string may end just before memory that is not there.
const PAGE_BYTES: usize = 4_096;
const SET_ID: u32 = 0o6000;
const MODE_BITS: u32 = 0o7777;
/// `AT_FDCWD` and the two flags that matter here, of `<fcntl.h>`.
const CWD: i32 = -100;
const NOFOLLOW: u32 = 0x100;
const EMPTY_PATH: u32 = 0x1000;

/// The folders in which files may be changed.
#[derive(Debug)]
pub(super) struct Broker {
    writable: Vec<PathBuf>,
    /// Folders that names are looked up from, each with its path.
    roots: Vec<(PathBuf, OwnedFd)>,
    /// The command's ids, where they are not the supervisor's.
    ids: Option<(u32, u32)>,
}

/// What a call is about.
#[derive(Debug)]
enum Target {
    /// An open file of the caller.
    Open(i32),
    /// A path from a folder of the caller.
    Named { from: i32, path: PathBuf, follow: bool },
}

/// What it wants.
#[derive(Debug)]
enum Change {
    Mode(u32),
    Times(TimeSpec, TimeSpec),
}

type Done<T> = Result<T, Errno>;

impl Broker {
    /// Opens the folders of a plan.
    pub(super) fn new(plan: &Plan, workspace: &Workspace) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut roots = Vec::new();
        let writable = plan.view.writable_places(&plan.workspace);
        let outside = writable.iter().filter(|path| !path.starts_with(&plan.workspace));
        for path in outside {
            if let Ok(folder) = nix::fcntl::open(path, flags, Mode::empty()) {
                roots.push((path.clone(), folder));
            }
        }
        // The folder that was opened for the plan, whatever its name leads to by now.
        roots.push((plan.workspace.clone(), workspace.as_fd().try_clone_to_owned()?));
        let ids = (plan.identity.uid, plan.identity.gid);
        let ids = Some(ids).filter(|_| !plan.identity.same_user);
        Ok(Self { writable, roots, ids })
    }

    /// Answers calls on a thread of its own until the tree is gone.
    pub(super) fn start(self, listener: Listener) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("broker".to_owned());
        thread.spawn(move || {
            // Without the command's ids it would do what the command must not; then every call
            // fails, as those of a tree whose listener is gone do.
            let taken = self.ids.map_or(Ok(()), |(uid, gid)| notify::take_ids(uid, gid));
            if let Err(error) = taken {
                tracing::warn!(%error, "no broker: modes and times cannot be changed");
                return;
            }
            while let Ok(Some(call)) = listener.receive() {
                let errno = self.perform(&listener, &call).err().map_or(0, |errno| errno as i32);
                tracing::debug!(call = call.number, errno, "brokered");
                // The caller may be gone by now.
                drop(listener.answer(&call, errno));
            }
        })?;
        Ok(())
    }

    fn perform(&self, listener: &Listener, call: &Waiting) -> Done<()> {
        let (target, change) = read_call(call)?;
        if let Change::Mode(mode) = change
            && mode & SET_ID != 0
        {
            return Err(Errno::EPERM);
        }
        let file = match target {
            Target::Open(fd) => self.open_file(call, fd)?,
            Target::Named { from, path, follow } => self.named(call, from, &path, follow)?,
        };
        // Only now is it certain that what was read and opened was the caller's.
        if !listener.is_waiting(call) {
            return Err(Errno::EPERM);
        }
        apply(&file, change)
    }

    /// The caller's open file, if its own name leads to it below a folder that may be written.
    fn open_file(&self, call: &Waiting, fd: i32) -> Done<OwnedFd> {
        let theirs = open_of(call.thread, &format!("fd/{fd}"), Errno::EBADF)?;
        let path = location(&theirs)?;
        let ours = self.look_up(&path, false).map_err(|_| Errno::EPERM)?;
        let (theirs, found) = (nix::sys::stat::fstat(&theirs)?, nix::sys::stat::fstat(&ours)?);
        let same = (theirs.st_dev, theirs.st_ino) == (found.st_dev, found.st_ino);
        if same { Ok(ours) } else { Err(Errno::EPERM) }
    }

    fn named(&self, call: &Waiting, from: i32, path: &Path, follow: bool) -> Done<OwnedFd> {
        if path.is_absolute() {
            // How libraries name an open file where an older kernel has no call for it.
            if let Ok(number) = path.strip_prefix("/proc/self/fd")
                && let Some(fd) = number.to_str().and_then(|number| number.parse().ok())
            {
                return self.open_file(call, fd);
            }
            return self.look_up(path, follow);
        }
        let base = match from {
            CWD => open_of(call.thread, "cwd", Errno::ENOENT)?,
            fd => open_of(call.thread, &format!("fd/{fd}"), Errno::EBADF)?,
        };
        self.look_up(&location(&base)?.join(path), follow)
    }

    /// Opens an absolute path below one of the folders, without leaving it on the way, and checks
    /// that the place where the file really is may be written.
    fn look_up(&self, path: &Path, follow: bool) -> Done<OwnedFd> {
        let (root, folder) =
            self.roots.iter().find(|(root, _)| path.starts_with(root)).ok_or(Errno::EPERM)?;
        let rest = path.strip_prefix(root).map_err(|_| Errno::EPERM)?;
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        let name = CString::new(rest.as_os_str().as_encoded_bytes()).map_err(|_| Errno::EINVAL)?;
        let opened = match follow {
            true => crate::sys::mount::open_resolved(folder, &name),
            false => crate::sys::mount::open_last(folder, &name),
        };
        let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EXDEV) | None => Errno::EPERM,
            Some(errno) => errno,
        })?;
        let real = location(&file)?;
        let writable = self.writable.iter().any(|place| real.starts_with(place));
        if writable { Ok(file) } else { Err(Errno::EPERM) }
    }
}

/// Opens a link of the caller's folder in `/proc`, without more rights than naming the file.
fn open_of(thread: i32, link: &str, absent: Errno) -> Done<OwnedFd> {
    let path = format!("/proc/{thread}/{link}");
    nix::fcntl::open(path.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(
        |errno| match errno {
            Errno::ENOENT => absent,
            _ => Errno::EPERM,
        },
    )
}

/// Returns where an open file is.
fn location(file: &OwnedFd) -> Done<PathBuf> {
    let link = fs::read_link(own_link(file));
    link.map_err(|_| Errno::EPERM)
}

fn own_link(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Changes the file that is open here, whatever its name leads to by now.
fn apply(file: &OwnedFd, change: Change) -> Done<()> {
    let link = own_link(file);
    match change {
        Change::Mode(mode) => {
            let mode = Mode::from_bits_truncate(mode);
            let follow = FchmodatFlags::FollowSymlink;
            nix::sys::stat::fchmodat(nix::fcntl::AT_FDCWD, link.as_str(), mode, follow)
        }
        Change::Times(accessed, modified) => nix::sys::stat::utimensat(
            nix::fcntl::AT_FDCWD,
            link.as_str(),
            &accessed,
            &modified,
            UtimensatFlags::FollowSymlink,
        ),
    }
}

/// Reads what a call is about from its registers and the caller's memory.
fn read_call(call: &Waiting) -> Done<(Target, Change)> {
    let [_, b, ..] = call.args;
    let here = |path| named(call, CWD, path, 0);
    let at = |flags| named(call, call.fd(0), 1, flags);
    let open = Target::Open(call.fd(0));
    let mode = |argument| Change::Mode(call.int(argument) & MODE_BITS);
    let times = |argument, unit| read_times(call, argument, unit);
    Ok(match call.number {
        number::CHMOD => (here(0)?, mode(1)),
        number::FCHMOD => (open, mode(1)),
        number::FCHMODAT => (at(0)?, mode(2)),
        number::FCHMODAT2 => (at(call.int(3))?, mode(2)),
        number::UTIME => (here(0)?, times(1, Unit::WholeSeconds)?),
        number::UTIMES => (here(0)?, times(1, Unit::Micros)?),
        number::FUTIMESAT if b == 0 => (open, times(2, Unit::Micros)?),
        number::FUTIMESAT => (at(0)?, times(2, Unit::Micros)?),
        number::UTIMENSAT if b == 0 => (open, times(2, Unit::Nanos)?),
        number::UTIMENSAT => (at(call.int(3))?, times(2, Unit::Nanos)?),
        _ => return Err(Errno::EPERM),
    })
}

/// Reads a call's path; an empty one can stand for the open file itself.
fn named(call: &Waiting, from: i32, argument: usize, flags: u32) -> Done<Target> {
    let path = read_path(call, call.args[argument])?;
    match (path.as_os_str().is_empty(), flags & EMPTY_PATH != 0) {
        (true, true) => Ok(Target::Open(from)),
        (true, false) => Err(Errno::ENOENT),
        (false, _) => Ok(Target::Named { from, path, follow: flags & NOFOLLOW == 0 }),
    }
}

/// Reads a path of the caller, page by page.
fn read_path(call: &Waiting, address: u64) -> Done<PathBuf> {
    let mut bytes = Vec::new();
    while bytes.len() < PATH_BYTES_MAX {
        let at = address.wrapping_add(bytes.len() as u64);
        let mut page = [0; PAGE_BYTES];
        let within = usize::try_from(at).map_or(0, |at| at % PAGE_BYTES);
        let wanted = PAGE_BYTES - within;
        let read = memory(call, at, &mut page[..wanted])?;
        let part = &page[..read];
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&part[..end]);
                return Ok(PathBuf::from(OsString::from_vec(bytes)));
            }
            None if read == 0 => return Err(Errno::EFAULT),
            None => bytes.extend_from_slice(part),
        }
    }
    Err(Errno::ENAMETOOLONG)
}

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// `struct utimbuf`: two numbers of seconds.
    WholeSeconds,
    /// Two `struct timeval`.
    Micros,
    /// Two `struct timespec`.
    Nanos,
}

/// Reads two times of the caller; none means the present.
fn read_times(call: &Waiting, argument: usize, unit: Unit) -> Done<Change> {
    let address = call.args[argument];
    if address == 0 {
        return Ok(Change::Times(TimeSpec::UTIME_NOW, TimeSpec::UTIME_NOW));
    }
    let mut bytes = [0; 32];
    let size = if unit == Unit::WholeSeconds { 16 } else { 32 };
    if memory(call, address, &mut bytes[..size])? != size {
        return Err(Errno::EFAULT);
    }
    let number = |at: usize| {
        let word = bytes[at..at + 8].first_chunk().copied().unwrap_or_default();
        i64::from_ne_bytes(word)
    };
    let time = |at: usize| match unit {
        Unit::WholeSeconds => Ok(TimeSpec::new(number(at / 2), 0)),
        Unit::Micros if !(0..1_000_000).contains(&number(at + 8)) => Err(Errno::EINVAL),
        Unit::Micros => Ok(TimeSpec::new(number(at), number(at + 8) * 1_000)),
        Unit::Nanos => Ok(TimeSpec::new(number(at), number(at + 8))),
    };
    Ok(Change::Times(time(0)?, time(16)?))
}

fn memory(call: &Waiting, address: u64, into: &mut [u8]) -> Done<usize> {
    notify::read_memory(call.thread, address, into).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EFAULT) => Errno::EFAULT,
            // A caller that cannot be looked into is not helped.
            _ => Errno::EPERM,
        }
    })
}
