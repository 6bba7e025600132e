//! Calls that a filter hands to the supervisor (`seccomp_unotify(2)`): receiving and answering
//! them, and looking at the caller.
//!
//! What is read of a caller can be changed by its other threads at any moment, so it is only ever
//! input: whoever decides by it acts on a descriptor of its own. A caller that ended is told apart
//! by [`Listener::is_waiting`], after everything was read.

use caps::CapSet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// `SECCOMP_IOCTL_NOTIF_RECV`, `…_SEND` and `…_ID_VALID`, as `<linux/seccomp.h>` computes them.
const RECEIVE: u64 = 0xC050_2100;
const SEND: u64 = 0xC018_2101;
const ID_VALID: u64 = 0x4008_2102;

/// `struct seccomp_notif`.
#[derive(Debug, Default)]
#[repr(C)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    args: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[derive(Debug)]
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The numbers of the calls that change modes and times.
pub mod call {
    /// `chmod(path, mode)`.
    pub const CHMOD: i64 = libc::SYS_chmod;
    /// `fchmod(fd, mode)`.
    pub const FCHMOD: i64 = libc::SYS_fchmod;
    /// `fchmodat(fd, path, mode)`.
    pub const FCHMODAT: i64 = libc::SYS_fchmodat;
    /// `fchmodat2(fd, path, mode, flags)`.
    pub const FCHMODAT2: i64 = libc::SYS_fchmodat2;
    /// `utime(path, times)`.
    pub const UTIME: i64 = libc::SYS_utime;
    /// `utimes(path, times)`.
    pub const UTIMES: i64 = libc::SYS_utimes;
    /// `futimesat(fd, path, times)`.
    pub const FUTIMESAT: i64 = libc::SYS_futimesat;
    /// `utimensat(fd, path, times, flags)`.
    pub const UTIMENSAT: i64 = libc::SYS_utimensat;
}

/// A call that waits for its answer.
#[derive(Debug)]
pub struct Waiting {
    id: u64,
    /// The calling thread, in this process's namespace.
    pub thread: i32,
    /// The call's number.
    pub number: i64,
    /// Its arguments, as the registers held them: these cannot change any more.
    pub args: [u64; 6],
}

impl Waiting {
    /// Returns an argument as the kernel takes an `int` or a mode: its low 32 bits.
    pub fn int(&self, at: usize) -> u32 {
        self.args.get(at).map_or(0, |value| *value as u32)
    }

    /// Returns an argument that is a descriptor.
    pub fn fd(&self, at: usize) -> RawFd {
        self.int(at) as RawFd
    }
}

/// Where the calls of a tree arrive.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes a listener's descriptor.
    pub fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Waits for the next call; `None` when nobody is left who could make one.
    ///
    /// # Errors
    /// As `poll(2)` and `ioctl(2)`.
    pub fn receive(&self) -> io::Result<Option<Waiting>> {
        loop {
            let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => continue,
                polled => polled?,
            };
            let events = ready[0].revents().unwrap_or(PollFlags::empty());
            if !events.contains(PollFlags::POLLIN) {
                return Ok(None);
            }
            let mut call = Notification::default();
            match self.control(RECEIVE, (&raw mut call).cast()) {
                Ok(()) => {}
                // The caller was killed between the two calls.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let Notification { id, pid, number, args, .. } = call;
            let (thread, number) = (pid as i32, i64::from(number));
            return Ok(Some(Waiting { id, thread, number, args }));
        }
    }

    /// Returns whether the caller still waits, so that its process id is still its own.
    pub fn is_waiting(&self, call: &Waiting) -> bool {
        let mut id = call.id;
        self.control(ID_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers a call: 0, or an error number.
    ///
    /// # Errors
    /// `ENOENT` where the caller has ended; otherwise as `ioctl(2)`.
    pub fn answer(&self, call: &Waiting, errno: i32) -> io::Result<()> {
        let mut response = Response { id: call.id, value: 0, error: -errno, flags: 0 };
        self.control(SEND, (&raw mut response).cast())
    }

    fn control(&self, request: u64, argument: *mut u8) -> io::Result<()> {
        // SAFETY: each caller passes the request together with a live value of the struct that
        // the request takes.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Reads memory of a thread; returns how many bytes there were. Asked for by the rights of the
/// calling thread's file system ids, which are all that [`act_as`] changes.
///
/// # Errors
/// `EACCES` where the thread cannot be looked into, `EIO` where there is no memory; otherwise as
/// `open(2)`.
pub fn read_memory(thread: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    File::open(format!("/proc/{thread}/mem"))?.read_at(into, address)
}

/// Gives the calling thread, and no other, the rights on files that these ids have: its file
/// system ids change, its groups and capabilities go. Its real, effective and saved ids stay, so
/// that no process of these ids can signal, limit or trace it.
///
/// # Errors
/// As `setgroups(2)` and `capset(2)`; `PermissionDenied` where the ids did not change.
pub fn act_as(uid: u32, gid: u32) -> io::Result<()> {
    // The raw calls change one thread; those of libc would change them all.
    // SAFETY: no group is named, so the null pointer is not read.
    let groups = unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) };
    if groups != 0 {
        return Err(io::Error::last_os_error());
    }
    for (call, id) in [(libc::SYS_setfsgid, gid), (libc::SYS_setfsuid, uid)] {
        // The call tells the id before and never an error, so it is asked twice.
        // SAFETY: the call takes a number only.
        unsafe { libc::syscall(call, id) };
        // SAFETY: the call takes a number only.
        let now = unsafe { libc::syscall(call, id) };
        if now as u32 != id {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Makes the socket pair over which a child hands its listener out: the supervisor's end, and the
/// child's, both at high numbers.
///
/// # Errors
/// As `socketpair(2)` and `fcntl(2)`.
pub fn mailbox() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two descriptors that the call stores.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    let own = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    let childs = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((super::fd::high(&own)?, super::fd::high(&childs)?))
}

/// Takes the listener that a child has sent.
///
/// # Errors
/// As `recvmsg(2)`; `InvalidData` where no descriptor came.
pub fn take_listener(mailbox: impl AsFd) -> io::Result<Listener> {
    let mut letter = Letter::new(-1);
    let mut message = letter.message();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `message` points into `letter`, which lives; the kernel writes within the lengths
    // it names.
    let got = unsafe { libc::recvmsg(mailbox.as_fd().as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = letter.control.fd;
    if message.msg_controllen < CONTROL_BYTES || fd < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel stored this descriptor for the message just taken; nobody else owns it.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// What the kernel fills of the control part at the least: the header and one descriptor.
const CONTROL_BYTES: usize = size_of::<libc::cmsghdr>() + size_of::<RawFd>();

/// A control message of one descriptor, laid out as `CMSG_DATA(3)` says for 64-bit machines.
#[derive(Debug)]
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fd: RawFd,
    padding: u32,
}

/// A message of one byte that carries one descriptor; laid out here so that a child can send it
/// without allocating.
#[derive(Debug)]
pub(super) struct Letter {
    byte: u8,
    part: libc::iovec,
    control: Control,
}

impl Letter {
    /// Prepares a letter with this descriptor, or with -1 for receiving one.
    pub(super) fn new(fd: RawFd) -> Self {
        let part = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 1 };
        let (level, kind) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let control = Control { length: CONTROL_BYTES, level, kind, fd, padding: 0 };
        Self { byte: 0, part, control }
    }

    /// Returns the header, which points into this letter: it must not move until the header was
    /// used.
    pub(super) fn message(&mut self) -> libc::msghdr {
        self.part.iov_base = (&raw mut self.byte).cast();
        // SAFETY: `msghdr` is plain numbers and pointers, for which all zeroes is a value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut self.part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut self.control).cast();
        message.msg_controllen = size_of::<Control>();
        message
    }
}
