//! The helper's own code. It runs in the supervisor's memory while the supervisor goes on, so it
//! allocates, locks, formats and panics nowhere and calls no function of libc, as `sys/child.rs`.
#![deny(
    clippy::std_instead_of_core,
    clippy::alloc_instead_of_core,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use super::opens::Opens;
use super::{Job, Keep, Place, Told};
use crate::sys::child::{
    Outcome, call, call1, call2, call3, call5, exit, ignore, set_attributes, text,
};
use crate::sys::mount;
use core::ffi::{CStr, c_void};
use core::sync::atomic::Ordering::Relaxed;

/// The helper's descriptors: a pipe that ends when it shall, its report, and the tree's init.
const STOP: usize = 0;
const REPORT: usize = 1;
const TREE: usize = 2;
/// The first number that is not one of them.
const OTHERS: usize = 3;

/// How often a place is tried whose file is gone again before it is covered.
const TRIES: usize = 1_000;
const CWD: usize = libc::AT_FDCWD as usize;
const NS_PER_S: i64 = 1_000_000_000;
/// The shortest turn that the scheduler gives.
const TURN_NS: u64 = 100_000;
/// `struct statfs`, 120 bytes, and its member with the flags of the mount.
const STATFS_WORDS: usize = 15;
const STATFS_FLAGS: usize = 10;

/// What is known of an open file.
#[derive(Clone, Copy)]
pub(super) struct Found {
    id: (u32, u32, u64),
    folder: bool,
    changed_ns: i64,
    /// The mount that it was opened through.
    pub(super) mount: u64,
    /// Whether it is the root of that mount.
    root: bool,
}

/// Looks at an open file.
pub(super) fn look(file: usize) -> Result<Found, i32> {
    // SAFETY: `statx` is plain numbers, for which all zeroes is a value.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    let mask = (libc::STATX_BASIC_STATS | libc::STATX_MNT_ID) as usize;
    let flags = libc::AT_EMPTY_PATH as usize;
    call5(libc::SYS_statx, file, text(c""), flags, mask, &raw mut found as usize)?;
    let changed = found.stx_ctime;
    Ok(Found {
        id: (found.stx_dev_major, found.stx_dev_minor, found.stx_ino),
        folder: u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR,
        changed_ns: nanoseconds(changed.tv_sec, i64::from(changed.tv_nsec)),
        mount: found.stx_mnt_id,
        root: found.stx_attributes & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0,
    })
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(NS_PER_S).saturating_add(rest)
}

/// The time as files have it.
fn now_ns() -> i64 {
    let mut now = [0_i64; 2];
    let clock = libc::CLOCK_REALTIME as usize;
    ignore(call2(libc::SYS_clock_gettime, clock, now.as_mut_ptr() as usize));
    let [seconds, rest] = now;
    nanoseconds(seconds, rest)
}

/// Opens a name below a folder without following any link, also not one in the name's own place.
fn open(folder: usize, name: &CStr) -> Outcome {
    let how = mount::open_name();
    let (how_at, size) = (&raw const how as usize, size_of_val(&how));
    call(libc::SYS_openat2, [folder, text(name), how_at, size, 0, 0])
}

fn close(file: usize) {
    ignore(call1(libc::SYS_close, file));
}

/// The helper: enters the view, keeps every place, says so, and goes on keeping them.
pub(super) extern "C" fn helper(data: *const c_void) -> ! {
    // SAFETY: `Covering::start` passes a pointer to its `Job`, which outlives this process.
    let job = unsafe { &*data.cast::<Job>() };
    let told = Helper::enter(job).and_then(|helper| {
        tell(Told::Ready)?;
        helper.serve()
    });
    if let Err(Fault { place, errno }) = told {
        // If the pipe is gone, so is the supervisor; if it is full, the end says enough.
        ignore(tell(Told::Failed { place, errno }).map(|()| 0).map_err(|fault| fault.errno));
    }
    exit()
}

/// What went wrong, and at which place.
struct Fault {
    place: usize,
    errno: i32,
}

fn tell(told: Told) -> Result<(), Fault> {
    let bytes = told.encode();
    let written = call3(libc::SYS_write, REPORT, bytes.as_ptr() as usize, bytes.len());
    written.map(|_| ()).map_err(|errno| Fault { place: usize::MAX, errno })
}

struct Helper<'j> {
    job: &'j Job,
    inotify: usize,
    opens: Option<Opens<'j>>,
    /// The root of the view.
    root: usize,
    /// The covers, a file and a folder, and what they are.
    covers: [(usize, Found); 2],
}

impl<'j> Helper<'j> {
    /// Keeps nothing of the supervisor's open, enters the namespaces, and covers what was replaced
    /// before anything ran.
    fn enter(job: &'j Job) -> Result<Self, Fault> {
        let nowhere = |errno| Fault { place: job.places.len(), errno };
        for (from, at) in job.keep.iter().zip(0_usize..) {
            call3(libc::SYS_dup3, *from as usize, at, 0).map_err(nowhere)?;
        }
        call3(libc::SYS_close_range, OTHERS, u32::MAX as usize, 0).map_err(nowhere)?;
        hurry();
        // A terminal that stops its group does not stop this.
        call1(libc::SYS_setsid, 0).map_err(nowhere)?;
        let refuses = job.places.iter().any(|place| place.refuse);
        // While the host's /proc is in sight.
        let opens = refuses.then(|| Opens::new(&job.places)).transpose().map_err(nowhere)?;
        call2(libc::SYS_setns, TREE, job.namespaces as usize).map_err(nowhere)?;
        close(TREE);
        let flags = (libc::IN_CLOEXEC | libc::IN_NONBLOCK) as usize;
        let inotify = call1(libc::SYS_inotify_init1, flags).map_err(nowhere)? as usize;
        let cover = |path: &CStr| {
            let file = open(CWD, path)? as usize;
            Ok((file, look(file)?))
        };
        let [file, folder] = &job.covers;
        let covers = [cover(file).map_err(nowhere)?, cover(folder).map_err(nowhere)?];
        let root = open(CWD, c".").map_err(nowhere)? as usize;
        let helper = Self { job, inotify, opens, root, covers };
        for (place, number) in job.places.iter().zip(0..) {
            let restored = helper.restore(place, now_ns());
            restored.map_err(|errno| Fault { place: number, errno })?;
        }
        Ok(helper)
    }

    /// Returns the folder of a place, where its path leads by now; `None` where there is none. The
    /// host may have put another one there, or in the place of one above it.
    fn folder(&self, place: &Place) -> Result<Option<usize>, i32> {
        let known = place.at.load(Relaxed);
        if let Ok(known) = usize::try_from(known)
            && let Ok(now) = open(self.root, &place.folder)
        {
            let (now, found) = (now as usize, look(now as usize));
            close(now);
            if found?.id == look(known)?.id {
                return Ok(Some(known));
            }
        }
        // What changes behind a watch is told by it, so they are made from the top down.
        for above in &place.above {
            match open(self.root, above) {
                Ok(folder) => {
                    let watched = self.watch(folder as usize);
                    close(folder as usize);
                    watched?;
                }
                Err(libc::ENOENT | libc::ENOTDIR) => break,
                Err(errno) => return Err(errno),
            }
        }
        let now = match open(self.root, &place.folder) {
            Ok(folder) => {
                self.watch(folder as usize)?;
                place.mount.store(look(folder as usize)?.mount, Relaxed);
                if let Some(opens) = self.opens.as_ref().filter(|_| place.refuse) {
                    opens.watch_here()?;
                }
                Some(folder)
            }
            Err(libc::ENOENT | libc::ENOTDIR) => None,
            Err(errno) => return Err(errno),
        };
        place.at.store(now.map_or(-1, |folder| folder as i32), Relaxed);
        if let Ok(known) = usize::try_from(known) {
            close(known);
        }
        Ok(now.map(|folder| folder as usize))
    }

    /// Has the kernel tell what happens to names in a folder, which becomes the current one.
    fn watch(&self, folder: usize) -> Outcome {
        // The calls take names only, and the folder's own could lead elsewhere by now.
        call1(libc::SYS_fchdir, folder)?;
        let events = libc::IN_MOVED_TO | libc::IN_MOVED_FROM | libc::IN_CREATE | libc::IN_DELETE;
        let events = (events | libc::IN_ONLYDIR) as usize;
        call3(libc::SYS_inotify_add_watch, self.inotify, text(c"."), events)
    }

    /// Covers what is uncovered until the supervisor closes its pipe.
    fn serve(&self) -> Result<(), Fault> {
        let poll = |fd: usize| libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
        let opens = self.opens.as_ref().map_or(usize::MAX, |opens| opens.fd);
        loop {
            let mut ready = [poll(STOP), poll(self.inotify), poll(opens)];
            let nothing = (ready.as_mut_ptr() as usize, ready.len());
            if call3(libc::SYS_poll, nothing.0, nothing.1, usize::MAX).is_err() {
                continue;
            }
            let [stop, names, opened] = ready;
            if stop.revents != 0 {
                return Ok(());
            }
            if names.revents != 0 {
                self.restore_all(now_ns())?;
            }
            if let Some(opens) = self.opens.as_ref().filter(|_| opened.revents != 0) {
                opens.answer();
            }
        }
    }

    /// Takes the news, which say no more than that it is time to look, and looks at every place.
    fn restore_all(&self, woke_ns: i64) -> Result<(), Fault> {
        let mut news = [0_u64; 512];
        let at = news.as_mut_ptr() as usize;
        ignore(call3(libc::SYS_read, self.inotify, at, size_of_val(&news)));
        for (place, number) in self.job.places.iter().zip(0..) {
            let before = place.at.load(Relaxed);
            let lost = self.restore(place, woke_ns);
            if let Some(ns) = lost.map_err(|errno| Fault { place: number, errno })? {
                // Of a folder that was not watched nobody asked whether something may be opened.
                let refused = place.refuse && place.at.load(Relaxed) == before;
                tell(Told::Lost { place: number, ns, refused })?;
            }
        }
        Ok(())
    }

    /// Keeps a place that is not kept; returns for how long it was off.
    ///
    /// That began when the folder changed last, as far as that lies between the last look at the
    /// place and the news; so it is told too long rather than too short.
    fn restore(&self, place: &Place, woke_ns: i64) -> Result<Option<u64>, i32> {
        let mut began_ns = None;
        for _ in 0..TRIES {
            let Some(folder) = self.folder(place)? else { return Ok(self.kept(place, began_ns)) };
            let file = match open(folder, &place.name) {
                Ok(file) => file as usize,
                // Nothing is there that could be read.
                Err(libc::ENOENT) => return Ok(self.kept(place, began_ns)),
                Err(errno) => return Err(errno),
            };
            let found = look(file)?;
            if self.is_kept(file, &found, place.keep)? {
                close(file);
                return Ok(self.kept(place, began_ns));
            }
            if began_ns.is_none() {
                let changed_ns = look(folder)?.changed_ns.max(place.seen_ns.load(Relaxed));
                began_ns = Some(changed_ns.min(woke_ns));
            }
            let mounted = self.mount(file, &found, place.keep);
            close(file);
            match mounted {
                // Replaced once more meanwhile.
                Ok(_) | Err(libc::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(libc::EBUSY)
    }

    fn kept(&self, place: &Place, began_ns: Option<i64>) -> Option<u64> {
        let now_ns = now_ns();
        place.seen_ns.store(now_ns, Relaxed);
        // Where a file system has fine times, a folder gets them only after somebody has looked.
        ignore(look(place.at.load(Relaxed) as usize).map(|_| 0));
        began_ns.map(|began_ns| now_ns.saturating_sub(began_ns).max(0).unsigned_abs())
    }

    fn is_kept(&self, file: usize, found: &Found, keep: Keep) -> Result<bool, i32> {
        match keep {
            Keep::Covered => Ok(self.covers.iter().any(|(_, cover)| cover.id == found.id)),
            Keep::ReadOnly => Ok(found.root && is_read_only(file)?),
        }
    }

    /// Mounts a cover, or what is there once more and read-only, over an open file.
    fn mount(&self, over: usize, found: &Found, keep: Keep) -> Outcome {
        let [(file, _), (folder, _)] = self.covers;
        let source = match keep {
            Keep::Covered if found.folder => folder,
            Keep::Covered => file,
            Keep::ReadOnly => over,
        };
        let whole = libc::AT_EMPTY_PATH as usize | libc::AT_RECURSIVE as usize;
        let flags = mount::OPEN_TREE_CLONE as usize | libc::O_CLOEXEC as usize | whole;
        let clone = call3(libc::SYS_open_tree, source, text(c""), flags)? as usize;
        let read_only = mount::attributes(mount::RDONLY, None, 0);
        let flags = mount::MOVE_MOUNT_F_EMPTY_PATH | mount::MOVE_MOUNT_T_EMPTY_PATH;
        let mounted = set_attributes(clone, c"", whole as i32, &read_only).and_then(|_| {
            call5(libc::SYS_move_mount, clone, text(c""), over, text(c""), flags as usize)
        });
        close(clone);
        mounted
    }
}

/// `struct sched_attr` of `sched_setattr(2)`, 48 bytes.
#[repr(C)]
struct Schedule {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has the scheduler run the helper as soon as it is woken: a busy command on the same processor
/// would keep it waiting for milliseconds. Root may be put before all others; an ordinary user may
/// ask for short turns, which come sooner. It only saves time.
fn hurry() {
    let schedule = |policy: i32, priority, runtime| {
        let size = size_of::<Schedule>() as u32;
        let policy = policy as u32;
        Schedule { size, policy, flags: 0, nice: 0, priority, runtime, deadline: 0, period: 0 }
    };
    let first = schedule(libc::SCHED_FIFO, 1, 0);
    let short = schedule(libc::SCHED_OTHER, 0, TURN_NS);
    for schedule in [first, short] {
        if call3(libc::SYS_sched_setattr, 0, &raw const schedule as usize, 0).is_ok() {
            return;
        }
    }
}

fn is_read_only(file: usize) -> Result<bool, i32> {
    let mut found = [0_u64; STATFS_WORDS];
    call2(libc::SYS_fstatfs, file, found.as_mut_ptr() as usize)?;
    let flags = found.get(STATFS_FLAGS).copied().unwrap_or(0);
    Ok(flags & libc::ST_RDONLY != 0)
}
