//! The mount interface of Linux 5.12 and later: constants and argument blocks that no crate
//! offers without hiding an allocation, and the one mount call that the parent makes.

use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// `open_tree`: clone the mount.
pub const OPEN_TREE_CLONE: u32 = 1;
/// `move_mount`: the source is the descriptor itself.
pub const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x04;
/// `move_mount`: the target is the descriptor itself.
pub const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;
/// `fsopen`: close on exec.
pub const FSOPEN_CLOEXEC: u32 = 1;
/// `fsmount`: close on exec.
pub const FSMOUNT_CLOEXEC: u32 = 1;
/// `fsconfig`: set a flag.
pub const FSCONFIG_SET_FLAG: u32 = 0;
/// `fsconfig`: set a string.
pub const FSCONFIG_SET_STRING: u32 = 1;
/// `fsconfig`: make the file system.
pub const FSCONFIG_CMD_CREATE: u32 = 6;

/// Mount attribute: nothing can be written.
pub const RDONLY: u64 = 0x01;
/// Mount attribute: set-id bits count for nothing.
pub const NOSUID: u64 = 0x02;
/// Mount attribute: device files cannot be opened.
pub const NODEV: u64 = 0x04;
/// Mount attribute: nothing can be executed or mapped executable.
pub const NOEXEC: u64 = 0x08;
/// Mount attribute: owners are seen through a user namespace's map.
pub const IDMAP: u64 = 0x0010_0000;

/// `struct mount_attr` of `mount_setattr(2)`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Makes the argument block of `mount_setattr`.
pub const fn attributes(set: u64, userns: Option<RawFd>, propagation: u64) -> Attributes {
    let (set, userns) = match userns {
        Some(fd) => (set | IDMAP, fd as u64),
        None => (set, 0),
    };
    Attributes { set, clear: 0, propagation, userns }
}

/// `struct open_how` of `openat2(2)`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
const RESOLVE_BENEATH: u64 = 0x08;
const RESOLVE_IN_ROOT: u64 = 0x10;

/// Opens a name below a folder with `O_PATH`, without following any link.
pub const fn open_beneath() -> OpenHow {
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    OpenHow {
        flags,
        mode: 0,
        resolve: RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
    }
}

/// Opens a name below a folder with `O_PATH`, a link in the name's own place included, without
/// following any.
pub const fn open_name() -> OpenHow {
    let OpenHow { flags, mode, resolve } = open_beneath();
    OpenHow { flags: flags | libc::O_NOFOLLOW as u64, mode, resolve }
}

/// Opens a name below a folder with `O_PATH`, without following any link.
///
/// # Errors
/// `ELOOP` where a link is on the way; otherwise as `openat2(2)`.
pub fn open_exact(dir: impl AsFd, path: &CStr) -> io::Result<OwnedFd> {
    open_how(dir, path, &open_beneath())
}

/// Opens a name below a folder with `O_PATH`, following links that stay below it.
///
/// # Errors
/// `EXDEV` where the name leads out of the folder; otherwise as `openat2(2)`.
pub fn open_resolved(dir: impl AsFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    let resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    open_how(dir, path, &OpenHow { flags, mode: 0, resolve })
}

/// Opens an absolute path of the host with `O_PATH`, following its links, but none that a process
/// can point where it likes.
///
/// # Errors
/// As `openat2(2)`.
pub fn open_host(path: &CStr) -> io::Result<OwnedFd> {
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    let resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    open_how(File::open("/")?, path, &OpenHow { flags, mode: 0, resolve })
}

/// Opens a name below a folder with `O_PATH`, following links on the way that stay below it, but
/// not one in the name's own place.
///
/// # Errors
/// `EXDEV` where the name leads out of the folder; otherwise as `openat2(2)`.
pub fn open_last(dir: impl AsFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = (libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64;
    let resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    open_how(dir, path, &OpenHow { flags, mode: 0, resolve })
}

/// Opens a name below a folder for reading, without following any link and without waiting for
/// anybody: what stands there may be a pipe.
///
/// # Errors
/// `ELOOP` where a link is on the way; otherwise as `openat2(2)`.
pub fn open_to_read(dir: impl AsFd, path: &CStr) -> io::Result<File> {
    let flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC) as u64;
    open_how(dir, path, &OpenHow { flags, ..open_beneath() }).map(File::from)
}

/// Lists the names in a folder below another one, without following any link on the way.
///
/// # Errors
/// As `openat2(2)` and `getdents64(2)`.
pub fn list_exact(dir: impl AsFd, path: &CStr) -> io::Result<Vec<PathBuf>> {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    names(open_how(dir, path, &OpenHow { flags, ..open_beneath() })?)
}

/// Lists the names in a folder of the host.
///
/// # Errors
/// As `open(2)` and `getdents64(2)`.
pub fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    names(nix::fcntl::open(path, flags, Mode::empty())?)
}

fn names(folder: OwnedFd) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    let mut folder = Dir::from_fd(folder)?;
    for entry in folder.iter() {
        let name = entry?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." {
            names.push(PathBuf::from(OsString::from_vec(name)));
        }
    }
    names.sort();
    Ok(names)
}

fn open_how(dir: impl AsFd, path: &CStr, how: &OpenHow) -> io::Result<OwnedFd> {
    let dir = dir.as_fd().as_raw_fd();
    let size = size_of::<OpenHow>();
    // SAFETY: `path` is a C string and `how` an open_how of the size passed; both outlive the
    // call, which keeps neither.
    let fd = unsafe {
        libc::syscall(libc::SYS_openat2, dir, path.as_ptr(), std::ptr::from_ref(how), size)
    };
    owned(fd)
}

/// Finds out whether the mount that holds `path` can be id-mapped, by doing it on a detached
/// clone that is thrown away.
///
/// # Errors
/// The error of `open_tree(2)` or `mount_setattr(2)`; `EINVAL` where the file system cannot.
pub fn try_idmap(path: &CStr, userns: impl AsFd) -> io::Result<()> {
    // Mounts below it come along in a run, so they are tried too.
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as u32 | libc::AT_RECURSIVE as u32;
    // SAFETY: `path` is a C string that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    let tree = owned(fd)?;
    let attr = attributes(0, Some(userns.as_fd().as_raw_fd()), 0);
    // SAFETY: the empty path is a C string and `attr` a mount_attr of the size passed; both
    // outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
