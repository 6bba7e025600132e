//! Refuses the run's opens of a masked file while it has no cover (`fanotify(7)`, which only root
//! of the first namespaces may use so).
//!
//! The kernel holds each open of what lies directly in a watched folder until it was answered, the
//! host's too. What a file was opened through tells the run from the host, and its own name, as
//! the kernel has it, whether it is a masked one: while the cover is there an open of that name
//! ends at the cover and is never asked about. So every open that fits is one that came through.

use super::Place;
use super::helper::look;
use crate::sys::child::{Outcome, call, call1, call2, call3, ignore, text};
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `fanotify_init`: events are asked about before they happen.
const CLASS_CONTENT: usize = 0x4;
const CLOSE_ON_EXEC: usize = 0x1;
const NON_BLOCKING: usize = 0x2;
/// `fanotify_mark`: add, take away; opens, of what lies in the folder.
const ADD: usize = 0x1;
const REMOVE: usize = 0x2;
const OPEN_OF_CHILD: usize = 0x1_0000 | 0x0800_0000;
const ALLOW: u32 = 1;
const DENY: u32 = 2;

const PATH_BYTES_MAX: usize = 4_096;
/// What the kernel puts behind the name of a file that is gone.
const GONE: &[u8] = b" (deleted)";

/// `struct fanotify_event_metadata`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Event {
    length: u32,
    version: u8,
    reserved: u8,
    metadata: u16,
    mask: u64,
    fd: i32,
    pid: i32,
}

/// `struct fanotify_response`.
#[repr(C)]
struct Answer {
    fd: i32,
    response: u32,
}

fn listen() -> Outcome {
    let flags = CLASS_CONTENT | CLOSE_ON_EXEC | NON_BLOCKING;
    // The kernel opens each file for the listener, which must not wait for a pipe's other end.
    let access = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) as usize;
    call2(libc::SYS_fanotify_init, flags, access)
}

fn mark(listener: usize, how: usize, folder: usize) -> Outcome {
    let args = [listener, how, OPEN_OF_CHILD, folder, text(c"."), 0];
    call(libc::SYS_fanotify_mark, args)
}

/// Finds out whether opens of what lies in a folder can be refused.
///
/// It takes a mark away that is not there. A kernel that could set it says just that, and nothing
/// is held; to set one and give it up would keep the caller waiting for some ten milliseconds.
pub fn can_refuse(folder: impl AsFd) -> io::Result<()> {
    let listener = listen().map_err(io::Error::from_raw_os_error)? as usize;
    let removed = mark(listener, REMOVE, folder.as_fd().as_raw_fd() as usize);
    ignore(call1(libc::SYS_close, listener));
    match removed {
        Ok(_) | Err(libc::ENOENT) => Ok(()),
        Err(errno) => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The listener of the helper. It ends with the helper, and what it held goes on.
pub(super) struct Opens<'j> {
    pub(super) fd: usize,
    /// The helper's own folder of descriptors in the host's `/proc`.
    own: usize,
    places: &'j [Place],
}

impl<'j> Opens<'j> {
    pub(super) fn new(places: &'j [Place]) -> Result<Self, i32> {
        let fd = listen()? as usize;
        let flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
        let at = libc::AT_FDCWD as usize;
        let own = call3(libc::SYS_openat, at, text(c"/proc/self/fd"), flags)? as usize;
        Ok(Self { fd, own, places })
    }

    /// Watches the current folder.
    pub(super) fn watch_here(&self) -> Outcome {
        mark(self.fd, ADD, libc::AT_FDCWD as usize)
    }

    /// Answers what waits.
    pub(super) fn answer(&self) {
        let mut events = [Event::default(); 16];
        let (at, size) = (events.as_mut_ptr() as usize, size_of_val(&events));
        // A file that could not be opened for the listener was refused by the kernel itself.
        let Ok(read) = call3(libc::SYS_read, self.fd, at, size) else { return };
        let read = read as usize;
        for event in events.iter().take(read.wrapping_div(size_of::<Event>())) {
            // More waited than can be queued; those went through unasked, which covers record.
            if event.fd < 0 {
                continue;
            }
            let file = event.fd as usize;
            // What cannot be looked at might be what is masked.
            let open = self.is_masked(file).unwrap_or(true);
            let answer = Answer { fd: event.fd, response: if open { DENY } else { ALLOW } };
            let (at, size) = (&raw const answer as usize, size_of::<Answer>());
            // Fails only where whoever asked was killed.
            ignore(call3(libc::SYS_write, self.fd, at, size));
            ignore(call1(libc::SYS_close, file));
        }
    }

    /// Returns whether a file that is being opened is a masked one, seen through the run's mount.
    fn is_masked(&self, file: usize) -> Result<bool, i32> {
        let mount = look(file)?.mount;
        let of_run = |place: &&Place| {
            place.refuse && place.at.load(Relaxed) >= 0 && place.mount.load(Relaxed) == mount
        };
        let mut places = self.places.iter().filter(of_run).peekable();
        if places.peek().is_none() {
            return Ok(false);
        }
        let mut path = [0; PATH_BYTES_MAX];
        let path = self.path(file, &mut path)?;
        for place in places {
            // Whoever opens is waiting, so folders are asked about only where the name fits.
            let name = place.name.to_bytes();
            let whole = [
                path.strip_suffix(name),
                path.strip_suffix(GONE).and_then(|path| path.strip_suffix(name)),
            ];
            for above in whole.into_iter().flatten().filter_map(|above| above.strip_suffix(b"/")) {
                let mut folder = [0; PATH_BYTES_MAX];
                let folder = self.path(place.at.load(Relaxed) as usize, &mut folder)?;
                if above == folder || above.is_empty() && folder == b"/" {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the path by which the kernel knows an open file.
    fn path<'b>(&self, file: usize, into: &'b mut [u8]) -> Result<&'b [u8], i32> {
        let number = digits(file);
        let (at, size) = (into.as_mut_ptr() as usize, into.len());
        let args = [self.own, number.as_ptr() as usize, at, size, 0, 0];
        let length = call(libc::SYS_readlinkat, args)? as usize;
        into.get(..length).ok_or(libc::ENAMETOOLONG)
    }
}

/// Writes a descriptor's number as a name, with the zero byte that ends it.
fn digits(mut number: usize) -> [u8; 12] {
    let mut reversed = [b'0'; 12];
    let mut length = 0_usize;
    for digit in &mut reversed {
        *digit = b'0'.wrapping_add((number % 10) as u8);
        number /= 10;
        length = length.wrapping_add(1);
        if number == 0 {
            break;
        }
    }
    let mut name = [0; 12];
    let digits = reversed.iter().take(length.min(11)).rev();
    for (to, digit) in name.iter_mut().zip(digits) {
        *to = *digit;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_becomes_a_name() {
        for (number, name) in [(0, "0"), (7, "7"), (10, "10"), (4_294_967_295, "4294967295")] {
            let digits = digits(number);
            let text = std::ffi::CStr::from_bytes_until_nul(&digits).expect("it ends");
            assert_eq!(text.to_str(), Ok(name));
        }
    }
}
