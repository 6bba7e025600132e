//! Waiting for a child by its pidfd, with what it used.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What a tree used, as far as its init reaped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time in user mode, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
}

/// How a process ended, from the wait status that its parent saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// Reads a wait status as `wait4(2)` gives it.
    pub fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Exit(libc::WEXITSTATUS(status))
        }
    }
}

/// What a tree's init found reached when the program had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// A scratch folder had no block left.
    pub full: bool,
    /// A scratch folder had no room for another file.
    pub no_inodes: bool,
    /// No process could be made.
    pub no_pids: bool,
}

/// Size of what the init writes, in bytes.
pub const STATUS_BYTES: usize = 8;

/// Reads what the init wrote: the program's wait status, and what was reached (`sys/init/main.rs`).
pub fn told(bytes: [u8; STATUS_BYTES]) -> (Ended, Reached) {
    let [a, b, c, d, e, f, g, h] = bytes;
    let flags = u32::from_ne_bytes([e, f, g, h]);
    let has = |flag: u32| flags & flag != 0;
    let reached = Reached { full: has(1), no_inodes: has(2), no_pids: has(4) };
    (Ended::from_status(i32::from_ne_bytes([a, b, c, d])), reached)
}

/// Waits until the process has ended, reaps it and returns what it used. Blocks; call it when
/// the pidfd is readable.
///
/// # Errors
/// As `waitid(2)`.
pub fn reap(pidfd: impl AsFd) -> io::Result<Usage> {
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: `siginfo_t` is plain numbers, for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `rusage` is plain numbers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // The raw call is used for its last argument, which libc's `waitid` does not have.
        // SAFETY: both pointers are to live values of the types that the call fills.
        let result = unsafe {
            libc::syscall(
                libc::SYS_waitid,
                libc::P_PIDFD,
                fd,
                &raw mut info,
                libc::WEXITED,
                &raw mut usage,
            )
        };
        if result == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Ok(Usage {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss as u64,
    })
}
