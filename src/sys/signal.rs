//! Signals: sent by pidfd, so that a number that was given to another process is never hit.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sends a signal to the process that a pidfd names.
///
/// # Errors
/// `ESRCH` where it has ended and was reaped; otherwise as `pidfd_send_signal(2)`.
pub fn send(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: no pointer is passed but a null one, which the call allows.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, std::ptr::null::<u8>(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Kills the process that a pidfd names; for a tree's init the whole tree goes with it.
///
/// # Errors
/// As [`send`].
pub fn kill(pidfd: impl AsFd) -> io::Result<()> {
    send(pidfd, libc::SIGKILL)
}

/// Ignores the signals that would end the supervisor in the middle of a write: a reader that
/// went away, and a file that may not grow. The write then fails and says so. The signal of a
/// child's end gets its default back: where it was inherited as ignored, nobody could wait.
///
/// # Errors
/// As `sigaction(2)`.
pub fn prepare() -> io::Result<()> {
    use nix::sys::signal::{SigHandler, Signal};
    for signal in [Signal::SIGPIPE, Signal::SIGXFSZ] {
        // SAFETY: ignoring a signal installs no handler, so no code runs at a bad moment.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }?;
    }
    // SAFETY: the default action installs no handler.
    unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    Ok(())
}

/// Gives the signals that end a program their default action back.
///
/// # Errors
/// As `sigaction(2)`.
pub fn end_by_signal_again() -> io::Result<()> {
    use nix::sys::signal::{SigHandler, Signal};
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the default action installs no handler.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    }
    Ok(())
}
