//! Covers a place of a run's view again when a host program has replaced what was there.
//!
//! A mount on a name is gone when another file is renamed onto that name from outside. A
//! **helper**, a process beside the tree that shares the supervisor's memory, has entered the run's
//! mount namespace, because only from inside can anything be mounted there; as an ordinary user it
//! enters the run's user namespace first, which only a process with one thread may. The kernel
//! tells it each change of names in the folders that hold the places and in those above them
//! (`inotify(7)`); it then looks at every place, whatever the news said, and mounts what is
//! missing.
//!
//! It holds nothing of the supervisor's but three descriptors, and ends with it. A crash of the
//! helper closes its report, which its reader must take for a place that is open.

mod helper;
mod opens;

use super::fd;
use super::spawn::Companion;
use nix::sched::CloneFlags;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64};
use tokio::io::unix::AsyncFd;

pub use opens::can_refuse;

/// Size of a report in bytes; a pipe takes it whole or not at all.
const REPORT_BYTES: usize = 16;

/// What keeps a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// A cover, an empty file or folder.
    Covered,
    /// A read-only mount of what is there.
    ReadOnly,
}

/// A name in a folder of the view that is kept.
#[derive(Debug)]
pub struct Place {
    /// The folders above the folder, from the top down.
    above: Vec<CString>,
    /// The folder, from the root of the view.
    folder: CString,
    name: CString,
    keep: Keep,
    /// Whether the run's opens are refused while it is off.
    refuse: bool,
    // What only the helper uses: the folder's descriptor and mount, and when the place was last
    // seen to be kept.
    at: AtomicI32,
    mount: AtomicU64,
    seen_ns: AtomicI64,
}

impl Place {
    /// Names a place in a folder, which is `.` or a path below it. With `refuse` the run's opens of
    /// it are refused while it is not kept, which only [`can_refuse`] tells to be possible.
    pub fn new(folder: CString, name: CString, keep: Keep, refuse: bool) -> Self {
        let (at, mount, seen_ns) = (AtomicI32::new(-1), AtomicU64::new(0), AtomicI64::new(0));
        let bytes = folder.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = slashes.filter_map(|(end, _)| CString::new(&bytes[..end]).ok()).collect();
        Self { above, folder, name, keep, refuse, at, mount, seen_ns }
    }
}

/// Where the covers lie, from the root of the view: a file and a folder.
pub type Covers = [CString; 2];

/// What the helper works with. It lives in the supervisor's memory, which they share.
#[derive(Debug)]
struct Job {
    places: Vec<Place>,
    covers: Covers,
    namespaces: i32,
    /// The descriptors that the helper keeps, in the order of their new numbers.
    keep: [RawFd; 3],
}

/// What the helper tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It has entered the view and every place is kept.
    Ready,
    /// A place was off and is kept again.
    Lost {
        /// Which.
        place: usize,
        /// For how long it was off, in nanoseconds.
        ns: u64,
        /// Whether the run's opens of it were refused meanwhile.
        refused: bool,
    },
    /// A place cannot be kept; the helper has ended.
    Failed {
        /// Which; one past the last where it was about none of them.
        place: usize,
        /// The error number.
        errno: i32,
    },
}

impl Told {
    fn encode(self) -> [u8; REPORT_BYTES] {
        let (kind, place, value) = match self {
            Self::Ready => (0, 0, 0),
            Self::Lost { place, ns, refused } => (1 + u64::from(refused), place, ns),
            Self::Failed { place, errno } => (3, place, u64::from(errno.unsigned_abs())),
        };
        let head: u64 = kind << 32 | place as u64;
        let mut bytes = [0; REPORT_BYTES];
        let (first, second) = bytes.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&head.to_ne_bytes());
        second.copy_from_slice(&value.to_ne_bytes());
        bytes
    }

    fn decode(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let [head, value] =
            [bytes.first_chunk()?, bytes.last_chunk()?].map(|b| u64::from_ne_bytes(*b));
        let place = (head & u64::from(u32::MAX)) as usize;
        match head >> 32 {
            0 => Some(Self::Ready),
            kind @ (1 | 2) => Some(Self::Lost { place, ns: value, refused: kind == 2 }),
            3 => Some(Self::Failed { place, errno: value as i32 }),
            _ => None,
        }
    }
}

/// A helper at work. Dropped, it ends, and with it its hold on the run's namespaces.
#[derive(Debug)]
pub struct Covering {
    report: AsyncFd<OwnedFd>,
    _stop: OwnedFd,
    /// The helper stands before the job that it reads, and so is dropped first.
    work: Option<(Companion, Box<Job>)>,
}

impl Drop for Covering {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        work.0.kill();
        // The kernel takes ten milliseconds to put a watch on folders away, for which no reply
        // waits. Without a thread it is waited for here.
        let reaper = std::thread::Builder::new().name("reaper".to_owned());
        let started = reaper.spawn(move || drop(work)).is_ok();
        tracing::trace!(started, "reaps the helper of the covers");
    }
}

impl Covering {
    /// Starts a helper for the view of the tree whose init `tree` names. `user` says that the tree
    /// has a user namespace of its own.
    ///
    /// # Errors
    /// Those of making pipes and of `clone3(2)`. What the helper fails at it reports.
    pub fn start(
        places: Vec<Place>,
        covers: Covers,
        tree: impl AsFd,
        user: bool,
    ) -> io::Result<Self> {
        let mut namespaces = CloneFlags::CLONE_NEWNS;
        namespaces.set(CloneFlags::CLONE_NEWUSER, user);
        let ((stop_read, stop), (report, told)) = (fd::pipe()?, fd::pipe()?);
        let tree = fd::high(tree)?;
        // A helper that waited for its reader would not cover meanwhile.
        fd::set_nonblocking(&told)?;
        fd::set_nonblocking(&report)?;
        let keep = [stop_read.as_raw_fd(), told.as_raw_fd(), tree.as_raw_fd()];
        let job = Box::new(Job { places, covers, namespaces: namespaces.bits(), keep });
        let data = std::ptr::from_ref(job.as_ref()).cast();
        // SAFETY: `helper` takes a `Job`, which is boxed and freed only after the companion was
        // reaped; it writes the atomics of the places only, and allocates nothing.
        let helper = unsafe { Companion::start(0, helper::helper, data)? };
        Ok(Self { report: fd::watched(report)?, _stop: stop, work: Some((helper, job)) })
    }

    /// Waits for what the helper tells next. Cancel safe.
    ///
    /// # Errors
    /// `UnexpectedEof` where it has ended; otherwise as `read(2)`.
    pub async fn next(&self) -> io::Result<Told> {
        loop {
            let mut ready = self.report.readable().await?;
            match ready.try_io(|report| read(report.get_ref())) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(told) => return told,
                Err(_would_block) => {}
            }
        }
    }

    /// Returns what it has told by now and nobody has taken. The last is an error where the helper
    /// has ended or tells what nobody understands, as of [`Covering::next`].
    pub fn left(&self) -> Vec<io::Result<Told>> {
        let mut left = Vec::new();
        loop {
            match read(self.report.get_ref()) {
                Ok(told) => left.push(Ok(told)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return left,
                Err(error) => {
                    left.push(Err(error));
                    return left;
                }
            }
        }
    }
}

fn read(report: &OwnedFd) -> io::Result<Told> {
    let mut bytes = [0; REPORT_BYTES];
    match nix::unistd::read(report, &mut bytes)? {
        REPORT_BYTES => Told::decode(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_helper_tells_arrives() {
        let failed = Told::Failed { place: 7, errno: libc::EIO };
        let lost = |refused| Told::Lost { place: 3, ns: 1 << 40, refused };
        for told in [Told::Ready, lost(true), lost(false), failed] {
            assert_eq!(Told::decode(told.encode()), Some(told));
        }
        assert_eq!(Told::decode([0xff; REPORT_BYTES]), None);
    }

    #[tokio::test]
    async fn what_is_left_of_a_helper_says_that_it_has_ended() {
        let ((report, told), (_, stop)) = (fd::pipe().expect("a pipe"), fd::pipe().expect("one"));
        fd::set_nonblocking(&report).expect("a flag");
        let report = fd::watched(report).expect("it is watched");
        let covering = Covering { report, _stop: stop, work: None };
        let tells = [
            Told::Lost { place: 0, ns: 1, refused: true },
            Told::Failed { place: 0, errno: libc::EIO },
        ];
        for tell in tells {
            assert_eq!(nix::unistd::write(&told, &tell.encode()), Ok(REPORT_BYTES));
        }
        let left: Vec<Told> = covering.left().into_iter().filter_map(Result::ok).collect();
        assert_eq!(left, tells);
        assert!(covering.left().is_empty(), "a helper that is there has told everything");
        drop(told);
        let [Err(error)] = &covering.left()[..] else { panic!("its end is an error") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
