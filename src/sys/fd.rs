//! Descriptors: pipes, memory files, and copies at numbers out of the way.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tokio::io::unix::AsyncFd;

/// Descriptors that the child puts at fixed numbers are moved here first, so that no number is
/// overwritten before it was used.
const HIGH: i32 = 64;

/// Makes a pipe, closed on exec: read end and write end, both at high numbers.
///
/// # Errors
/// As `pipe2(2)` and `fcntl(2)`.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    Ok((high(&read)?, high(&write)?))
}

/// Copies a descriptor to a high number, closed on exec.
///
/// # Errors
/// As `fcntl(2)`.
pub fn high(fd: impl AsFd) -> io::Result<OwnedFd> {
    let copy = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(HIGH))?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes reads and writes return at once when they would wait.
///
/// # Errors
/// As `fcntl(2)`.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Returns whether a file or folder has an access list beside its mode; what cannot be found out
/// counts as one. A link is not followed.
pub fn has_access_list(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return true };
    let name = c"system.posix_acl_access";
    // SAFETY: both names end in NUL and live until the call returns; with a size of 0 the kernel
    // writes nothing and the pointer for the value is not used.
    let size = unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    let error = io::Error::last_os_error().raw_os_error();
    size >= 0 || !matches!(error, Some(libc::ENODATA | libc::EOPNOTSUPP))
}

/// Puts content into a memory file that nobody can change or execute, opened for reading.
///
/// # Errors
/// As `memfd_create(2)`, `write(2)`, `fcntl(2)` and `open(2)`.
pub fn sealed(name: &CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let file = memory_file(name, libc::MFD_ALLOW_SEALING, libc::MFD_NOEXEC_SEAL)?;
    (&file).write_all(content)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
    // SAFETY: the descriptor is open and the call takes numbers only.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // Opened anew through its link, so that the child's descriptor cannot write.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let reopened = File::open(path)?;
    high(&reopened)
}

/// Puts a program into a memory file that can be executed.
///
/// # Errors
/// As `memfd_create(2)` and `write(2)`.
pub fn executable(name: &CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let file = memory_file(name, 0, libc::MFD_EXEC)?;
    (&file).write_all(content)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // A file that is open for writing cannot be executed, so only a reader is kept.
    let reopened = File::open(path)?;
    drop(file);
    high(&reopened)
}

/// Replaces a small file at once: readers see the old content or the new, never a part.
///
/// # Errors
/// As `open(2)`, `write(2)` and `rename(2)`.
#[expect(clippy::disallowed_methods, reason = "what other code is told to use")]
pub fn replace(path: &std::path::Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let written = options.open(&name).and_then(|mut file| file.write_all(content));
    let replaced = written.and_then(|()| std::fs::rename(&name, path));
    if replaced.is_err() {
        // What could not be put in place is of no use.
        std::fs::remove_file(&name).ok();
    }
    replaced
}

/// Makes a new small file that everybody may read; nothing that is there is overwritten.
///
/// # Errors
/// `AlreadyExists`, and as `open(2)`, `write(2)` and `fsync(2)`.
pub fn create(path: &std::path::Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        // A part of a file would be taken for the whole.
        std::fs::remove_file(path).ok();
    }
    written
}

/// Makes a memory file; `newer` are flags of Linux 6.3, left out where the kernel is older.
fn memory_file(name: &CStr, flags: u32, newer: u32) -> io::Result<File> {
    for flags in [flags | newer, flags] {
        // SAFETY: `name` is a C string that outlives the call.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_CLOEXEC) };
        if fd >= 0 {
            // SAFETY: the kernel just returned this descriptor and nobody else owns it.
            return Ok(unsafe { File::from_raw_fd(fd) });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// Registers a descriptor with the running asynchronous runtime.
///
/// # Errors
/// As `epoll_ctl(2)`.
pub fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd owns an open descriptor, gives the same number for its whole life and
    // closes it only when it is dropped, which the AsyncFd that owns it does last.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)
}
