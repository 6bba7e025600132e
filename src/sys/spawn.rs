//! The only file that clones.
//!
//! A child is made by `clone3`, or by `clone` where a container refuses that, with
//! `CLONE_VM | CLONE_VFORK` on a stack of its own: nothing is copied, however large the supervisor
//! is, and the cloning thread sleeps until the child executes or ends. The signal that ends a tree
//! with its supervisor (`PDEATHSIG`) fires when the cloning *thread* ends, so children are made by
//! a [`Spawner`] thread that never ends, and never by a thread of the asynchronous runtime.

use super::child;
use super::seccomp::{self, Sockets};
use super::step::Program;
use nix::sched::{CloneFlags, CpuSet};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;

/// Size of a child's stack, in bytes; the deepest walk uses a few kilobytes.
const STACK_BYTES: usize = 64 << 10;
/// Size of the unmapped guard below a stack, in bytes.
const GUARD_BYTES: usize = 4 << 10;
/// Jobs that may wait for a spawning thread.
const JOBS_MAX: usize = 64;

/// `struct clone_args` of `clone3(2)`, 88 bytes.
#[derive(Debug, Default)]
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

type Entry = extern "C" fn(*const c_void) -> !;

impl CloneArgs {
    /// Returns the arguments in the form of the older `clone(2)`: flags with the exit signal, the
    /// stack's top, and where the pidfd goes. It cannot clear handlers, which the child's blocked
    /// signals keep from running until its steps have reset them.
    fn of_older_call(&self) -> [usize; 3] {
        let flags = self.flags & !CLONE_CLEAR_SIGHAND | self.exit_signal;
        [flags as usize, (self.stack + self.stack_size) as usize, self.pidfd as usize]
    }
}

/// Makes a child that starts in `entry` on the stack named in `args`. Filters of containers answer
/// `ENOSYS` to `clone3`, whose flags they cannot see; then `clone` is asked, which can do all of it
/// but a cgroup.
///
/// # Safety
/// `args.stack` must be an unused stack that stays mapped until the child executes or ends;
/// `data` must stay valid as long; with `CLONE_VM`, `entry` may touch only that stack and what
/// nobody else writes. Every signal must be blocked on this thread.
unsafe fn clone(args: &CloneArgs, entry: Entry, data: *const c_void) -> Result<isize, i32> {
    // SAFETY: the caller vouches for all that the call asks.
    let made = unsafe { raw_clone(libc::SYS_clone3, newer(args), entry, data) };
    if made != Err(libc::ENOSYS) || args.flags & CLONE_INTO_CGROUP != 0 {
        return made;
    }
    // SAFETY: as above; the arguments mean the same.
    unsafe { raw_clone(libc::SYS_clone, args.of_older_call(), entry, data) }
}

/// Returns the arguments of `clone3(2)`.
fn newer(args: &CloneArgs) -> [usize; 3] {
    [std::ptr::from_ref(args) as usize, size_of::<CloneArgs>(), 0]
}

/// Makes one of the two calls.
///
/// # Safety
/// As [`clone`]; `args` must be what the call of this number takes.
unsafe fn raw_clone(
    number: i64,
    [a, b, c]: [usize; 3],
    entry: Entry,
    data: *const c_void,
) -> Result<isize, i32> {
    let result: isize;
    // SAFETY: the caller vouches for the stack and the data. In the parent the instruction
    // clobbers rcx, r11 and the result only. The child, on its own empty stack, calls `entry`,
    // which never returns, so it never runs the code after this block.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") 0,
            in("r8") 0,
            in("r12") data,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 { Err((result as i32).wrapping_neg()) } else { Ok(result) }
}

/// Makes the inner child; called by the outer one, which sleeps until it executes or ends.
///
/// # Errors
/// The error number of `clone3(2)`.
pub(super) fn clone_inner(
    entry: Entry,
    data: *const c_void,
    stack: usize,
    size: usize,
) -> Result<isize, i32> {
    let args = CloneArgs {
        flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack as u64,
        stack_size: size as u64,
        ..CloneArgs::default()
    };
    // SAFETY: the spawning thread mapped this stack for this one child and keeps it; `data` is
    // on the stack of the caller, which CLONE_VFORK holds asleep meanwhile.
    unsafe { clone(&args, entry, data) }
}

/// A child's stack: mapped memory with an unmapped guard below it.
#[derive(Debug)]
struct Stack {
    base: *mut c_void,
}

impl Stack {
    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), STACK_BYTES + GUARD_BYTES, protection, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { base };
        // SAFETY: the lowest page of the mapping just made, which nobody uses yet.
        let guarded = unsafe { libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) };
        if guarded == 0 { Ok(stack) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the lowest usable address.
    fn start(&self) -> usize {
        self.base as usize + GUARD_BYTES
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping and no child runs on it any more when it is dropped.
        let result = unsafe { libc::munmap(self.base, STACK_BYTES + GUARD_BYTES) };
        debug_assert_eq!(result, 0, "a mapping of our own can be unmapped");
    }
}

struct Job {
    program: Program,
    pidfd: Arc<AtomicI32>,
    done: mpsc::SyncSender<io::Result<i32>>,
}

fn lost(_: mpsc::RecvError) -> io::Error {
    io::Error::other("the spawning thread is gone")
}

/// A thread that makes children and never ends while the process lives.
#[derive(Debug, Clone)]
pub struct Spawner {
    jobs: mpsc::SyncSender<Job>,
}

/// A child that is being made.
#[derive(Debug)]
pub struct Launch {
    pidfd: Arc<AtomicI32>,
    done: mpsc::Receiver<io::Result<i32>>,
}

impl Spawner {
    /// Starts the thread, which prepares what every child inherits while the caller goes on:
    /// no signals, no set-id bits; and as `root` an empty bounding set and a network namespace
    /// for the first child. A child in a new user namespace has a full bounding set again and
    /// must empty it itself.
    ///
    /// # Errors
    /// Those of making a thread.
    pub fn start(root: bool, layers: ThreadLayers) -> io::Result<Self> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))?;
        let builder = std::thread::Builder::new().name("spawner".to_owned());
        let thread = builder.spawn(move || {
            let ready = prepare_thread(root, layers);
            // Compiled while the caller reads its rules; a failure shows where it is used.
            for sockets in [Sockets::Internet, Sockets::None, Sockets::Local] {
                drop(seccomp::socket_filter(sockets));
            }
            let mut stock = Stock::new(root && ready.is_ok());
            while let Ok(job) = queue.recv() {
                // Children may run wherever this process may.
                let placed = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &allowed);
                debug_assert!(placed.is_ok(), "a thread may use what its process may");
                let made = match &ready {
                    Ok(()) => make(&job.program, &job.pidfd, stock.take()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // Dropping the program closes this process's copies of the child's pipes, so
                // that their other ends see the child end; only then is the result told.
                drop(job.program);
                // Whoever asked may have given up; the child is theirs to end all the same.
                drop(job.done.send(made));
            }
            // The sender lives as long as the process; a thread that ended would end its
            // children with it, so it never does.
            loop {
                std::thread::park();
            }
        })?;
        start_elsewhere(&thread, allowed);
        Ok(Self { jobs })
    }

    /// Hands over a program; the child is made in the background.
    pub fn launch(&self, program: Program) -> Launch {
        let pidfd = Arc::new(AtomicI32::new(-1));
        let (done_sender, done) = mpsc::sync_channel(1);
        let job = Job { program, pidfd: Arc::clone(&pidfd), done: done_sender };
        // A closed queue means that the thread died; the dropped job then closes the report
        // pipe and `done`, which `Launch` tells as an error.
        drop(self.jobs.send(job));
        Launch { pidfd, done }
    }
}

/// Which of the layers that children inherit the thread takes on; all, except in a build for
/// tests that shows each layer alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLayers {
    /// The filter that refuses set-id bits and other calls by their arguments.
    pub seccomp: bool,
}

/// A network namespace made ahead, which one child gets.
///
/// Making one takes longer than all the rest of a child, so the thread enters a fresh one while
/// it has nothing else to do, and the next child inherits it. None is used twice.
struct Stock {
    fresh: bool,
    enabled: bool,
}

impl Stock {
    fn new(enabled: bool) -> Self {
        let mut stock = Self { fresh: false, enabled };
        stock.fill();
        stock
    }

    /// Enters a fresh namespace. Where that fails the child's own clone tries, and says why.
    fn fill(&mut self) {
        self.fresh = self.enabled && nix::sched::unshare(CloneFlags::CLONE_NEWNET).is_ok();
    }

    /// Hands the fresh namespace to the child that is cloned next; returns whether there is one.
    fn take(&mut self) -> bool {
        std::mem::take(&mut self.fresh)
    }
}

impl Launch {
    /// Takes the child's pidfd; there is one as soon as the child has written to its report
    /// pipe.
    pub fn take_pidfd(&self) -> Option<OwnedFd> {
        let fd = self.pidfd.swap(-1, Ordering::AcqRel);
        // SAFETY: the kernel stored this descriptor at the clone; the swap hands it out once.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Waits until the cloning thread is awake again: the outer child executed or ended.
    /// Returns its process id.
    ///
    /// # Errors
    /// Those of `clone3(2)` and of preparing the thread.
    pub fn wait(&self) -> io::Result<i32> {
        self.done.recv().map_err(lost)?
    }
}

/// Moves a thread that has just been made to another processor than this one.
///
/// The kernel starts it here and lets it wait, or this thread instead, for about a millisecond
/// while another processor idles; all that it prepares would come too late. It gets the whole set
/// back with its first job, which is sent after this.
fn start_elsewhere(thread: &std::thread::JoinHandle<()>, allowed: CpuSet) {
    let mut others = allowed;
    // SAFETY: the call takes nothing and gives a number.
    let here = unsafe { libc::sched_getcpu() };
    let removed = usize::try_from(here).ok().and_then(|here| others.unset(here).ok());
    let any = (0..CpuSet::count()).any(|cpu| others.is_set(cpu).unwrap_or(false));
    if removed.is_none() || !any {
        return;
    }
    // SAFETY: the thread lives as long as the process, so its handle is valid; the set is plain
    // data of the size passed, and only read.
    let moved = unsafe {
        libc::pthread_setaffinity_np(
            thread.as_pthread_t(),
            size_of::<CpuSet>(),
            (&raw const others).cast(),
        )
    };
    // It only saves time.
    tracing::trace!(moved, "moved the spawning thread");
}

/// Gives the thread no signals, no capability to hand on, and the filter that every child needs
/// and the thread itself does not notice.
fn prepare_thread(root: bool, layers: ThreadLayers) -> io::Result<()> {
    // Each act is named, because an error without a name helps nobody.
    let did = |what, result: io::Result<()>| {
        result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
    };
    let mask = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    did("block signals", mask.map_err(io::Error::from))?;
    if root {
        let cleared = caps::clear(None, caps::CapSet::Ambient).map_err(io::Error::other);
        did("give up ambient capabilities", cleared)?;
        did("give up the bounding set", drop_bounding_set())?;
    }
    if layers.seccomp {
        let bound = nix::sys::prctl::set_no_new_privs().map_err(io::Error::from);
        did("set no_new_privs", bound)?;
        let filter = seccomp::set_id_filter()?;
        did("install a seccomp filter", install(&filter))?;
    }
    Ok(())
}

/// Installs a filter on this thread.
fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` names a live filter of the length it says; the kernel copies it.
    let installed = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Drops every capability that this kernel knows from the bounding set, also those that are
/// newer than any list.
fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: the call takes numbers only.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if dropped != 0 {
            let error = io::Error::last_os_error();
            let past_the_last = error.raw_os_error() == Some(libc::EINVAL) && capability > 0;
            return if past_the_last { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

fn make(program: &Program, pidfd: &AtomicI32, in_fresh_network: bool) -> io::Result<i32> {
    let (outer_stack, inner_stack) = (Stack::new()?, Stack::new()?);
    let start = child::Start { program, inner_stack: (inner_stack.start(), STACK_BYTES) };
    let shared = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let made_ahead = if in_fresh_network { libc::CLONE_NEWNET } else { 0 };
    let mut flags = (shared | program.namespaces & !made_ahead) as u32 as u64;
    flags |= CLONE_CLEAR_SIGHAND;
    let cgroup = program.cgroup.as_ref().map(std::os::fd::AsRawFd::as_raw_fd);
    flags |= if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags,
        pidfd: pidfd.as_ptr() as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: outer_stack.start() as u64,
        stack_size: STACK_BYTES as u64,
        cgroup: cgroup.map_or(0, |fd| fd as u64),
        ..CloneArgs::default()
    };
    let data = (&raw const start).cast();
    // SAFETY: both stacks and `start` live until this function returns, and CLONE_VFORK holds
    // this thread here until the child executed or ended. The kernel stores the pidfd, an int,
    // into the atomic's memory. `outer` reads the program and writes only its own stacks.
    let made = unsafe { clone(&args, child::outer, data) };
    made.map(|pid| pid as i32).map_err(io::Error::from_raw_os_error)
}

/// `clone3` flag: handlers become the default action. Without it a handler of the supervisor
/// could run in the child.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
/// `clone3` flag: the child is born in the cgroup named by `cgroup`.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A process beside the trees that shares this one's memory, on a stack of its own. Dropped, it is
/// killed and reaped, so whatever it reads may be freed after it.
#[derive(Debug)]
pub(super) struct Companion {
    /// Its process id.
    pub(super) pid: i32,
    pidfd: OwnedFd,
    _stack: Stack,
}

impl Companion {
    /// Makes a companion in the new namespaces that `namespaces` names. No signal reaches it, so
    /// that one to the terminal's group does not end it before its work is done.
    ///
    /// # Safety
    /// `data` must be what `entry` takes and stay valid until the companion is dropped. `entry` may
    /// touch only its own stack and what nobody else writes without an atomic.
    ///
    /// # Errors
    /// Those of `clone3(2)`, for example `EPERM` where user namespaces are forbidden.
    pub(super) unsafe fn start(
        namespaces: i32,
        entry: Entry,
        data: *const c_void,
    ) -> io::Result<Self> {
        let stack = Stack::new()?;
        let pidfd = AtomicI32::new(-1);
        let flags = libc::CLONE_VM | libc::CLONE_PIDFD | namespaces;
        let args = CloneArgs {
            flags: flags as u32 as u64 | CLONE_CLEAR_SIGHAND,
            pidfd: pidfd.as_ptr() as u64,
            exit_signal: libc::SIGCHLD as u64,
            stack: stack.start() as u64,
            stack_size: STACK_BYTES as u64,
            ..CloneArgs::default()
        };
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
        // SAFETY: the stack lives until the companion was killed and reaped; every signal is
        // blocked on this thread; the caller vouches for `entry` and `data`.
        let made = unsafe { clone(&args, entry, data) };
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        let pid = made.map_err(io::Error::from_raw_os_error)? as i32;
        // SAFETY: the kernel stored a descriptor of this child, owned by nobody else.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd.into_inner()) };
        Ok(Self { pid, pidfd, _stack: stack })
    }
}

impl Companion {
    /// Kills it without waiting for its end.
    pub(super) fn kill(&self) {
        // Only a process that is gone already cannot be killed.
        let killed = super::signal::kill(&self.pidfd);
        tracing::trace!(?killed, "ended a companion");
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.kill();
        super::wait::reap(&self.pidfd).ok();
    }
}

// SAFETY: the stack is memory of the process, which any of its threads may unmap; nothing in it is
// read or written by the thread that owns it.
unsafe impl Send for Stack {}

/// Makes a throw-away process in a new user namespace and calls `use_it` with its process id
/// while it sleeps.
///
/// # Errors
/// Those of `clone3(2)`, for example `EPERM` where user namespaces are forbidden, and those of
/// `use_it`.
pub(super) fn with_user_namespace<T>(use_it: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
    // Not an address: the child compares the number with its parent's.
    let parent = std::ptr::without_provenance(std::process::id() as usize);
    // SAFETY: `sleep_for_ever` takes a number, touches nothing but its stack, and is killed below.
    let sleeper = unsafe { Companion::start(libc::CLONE_NEWUSER, child::sleep_for_ever, parent)? };
    use_it(sleeper.pid)
}
