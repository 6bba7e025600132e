//! Walks the steps between clone and exec, in the supervisor's memory and on a stack of its own.
//!
//! The thread that cloned it sleeps meanwhile, but other threads of the supervisor run: nothing
//! here may allocate, lock, format or panic, and no function of libc is called, because those
//! keep an error number and locks in memory that belongs to a sleeping thread. Every act is one
//! raw system call on values that the parent prepared. The functions never return.
#![deny(
    clippy::std_instead_of_core,
    clippy::alloc_instead_of_core,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use super::mount;
use super::spawn;
use super::step::{Dir, ExecFd, Failure, Is, Message, Part, Program, SLOTS, Slot, Step};
use core::arch::asm;
use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};

/// What the outer child is started with; lives in the memory of the sleeping thread.
#[derive(Debug)]
pub(super) struct Start<'p> {
    /// The program to walk.
    pub(super) program: &'p Program,
    /// Top of the inner child's stack and its size in bytes.
    pub(super) inner_stack: (usize, usize),
}

/// What the inner child is started with; lives on the stack of the outer one, which sleeps.
#[derive(Debug)]
struct InnerStart<'p> {
    program: &'p Program,
    slots: *mut [RawFd; SLOTS],
}

pub(super) type Outcome = Result<isize, i32>;

/// Makes one system call; the error is the error number.
pub(super) fn call(number: i64, args: [usize; 6]) -> Outcome {
    let [a, b, c, d, e, f] = args;
    let result: isize;
    // SAFETY: the `syscall` instruction clobbers only rcx, r11 and its result. Each caller in
    // this file passes pointers that are live and large enough for the call it names; memory of
    // the sleeping parent is only read.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b,
             in("rdx") c, in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _,
             lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) {
        return Err((result as i32).wrapping_neg());
    }
    Ok(result)
}

pub(super) fn call1(number: i64, a: usize) -> Outcome {
    call(number, [a, 0, 0, 0, 0, 0])
}

pub(super) fn call2(number: i64, a: usize, b: usize) -> Outcome {
    call(number, [a, b, 0, 0, 0, 0])
}

pub(super) fn call3(number: i64, a: usize, b: usize, c: usize) -> Outcome {
    call(number, [a, b, c, 0, 0, 0])
}

pub(super) fn call5(number: i64, a: usize, b: usize, c: usize, d: usize, e: usize) -> Outcome {
    call(number, [a, b, c, d, e, 0])
}

pub(super) fn text(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// Takes an outcome that changes nothing.
pub(super) fn ignore(_: Outcome) {}

/// Sleeps until killed; what a throw-away process does while others use it.
///
/// It keeps nothing of the supervisor open and ends with it. `data` is the supervisor's process
/// id as a number: a child whose parent is another one by now has been left behind.
pub(super) extern "C" fn sleep_for_ever(data: *const c_void) -> ! {
    ignore(call3(libc::SYS_close_range, 0, u32::MAX as usize, 0));
    ignore(prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize, 0));
    if call1(libc::SYS_getppid, 0) != Ok(data as isize) {
        exit();
    }
    loop {
        ignore(call1(libc::SYS_pause, 0));
    }
}

pub(super) fn exit() -> ! {
    loop {
        // There is nobody to tell if this fails; the loop makes the type true.
        ignore(call1(libc::SYS_exit_group, 125));
    }
}

/// Reports a failed step and ends.
fn fail(program: &Program, part: Part, step: usize, errno: i32) -> ! {
    let message = Message::Failed(Failure { part, step: step as u16, errno }).encode();
    let to = program.report.as_raw_fd() as usize;
    // If the pipe is gone, so is the supervisor, and the end of this process says enough.
    ignore(call3(libc::SYS_write, to, message.as_ptr() as usize, message.len()));
    exit()
}

/// The outer child: becomes process 1 of the tree.
pub(super) extern "C" fn outer(data: *const c_void) -> ! {
    // SAFETY: `spawn` passes a pointer to a `Start` on the stack of the cloning thread, which
    // sleeps until this process executes or ends.
    let start = unsafe { &*data.cast::<Start<'_>>() };
    let program = start.program;
    let mut slots = [-1; SLOTS];
    walk(program, Part::Outer, &mut slots);
    let inner_start = InnerStart { program, slots: &raw mut slots };
    let (stack, size) = start.inner_stack;
    let made = spawn::clone_inner(inner, (&raw const inner_start).cast(), stack, size);
    if let Err(errno) = made.and_then(|pid| tell(program, pid)) {
        fail(program, Part::Last, usize::from(u16::MAX), errno);
    }
    walk(program, Part::Last, &mut slots);
    exit()
}

/// The inner child: becomes the program.
extern "C" fn inner(data: *const c_void) -> ! {
    // SAFETY: `outer` passes a pointer to its own `InnerStart` and sleeps until this process
    // executes or ends.
    let start = unsafe { &*data.cast::<InnerStart<'_>>() };
    // SAFETY: the slots live on the stack of `outer`, which sleeps; nobody else uses them.
    let slots = unsafe { &mut *start.slots };
    walk(start.program, Part::Inner, slots);
    exit()
}

/// Writes the inner child's process id for the init to read.
fn tell(program: &Program, pid: isize) -> Outcome {
    let Some(to) = program.tell else { return Ok(0) };
    let pid = pid as i32;
    call3(libc::SYS_write, to as usize, &raw const pid as usize, size_of::<i32>())
}

fn walk(program: &Program, part: Part, slots: &mut [RawFd; SLOTS]) {
    for (index, step) in program.steps.part(part).iter().enumerate() {
        let result = match step {
            Step::Report => report(program),
            _ => act(step, slots),
        };
        if let Err(errno) = result {
            fail(program, part, index, errno);
        }
    }
}

fn report(program: &Program) -> Outcome {
    let message = Message::Ready.encode();
    let to = program.report.as_raw_fd() as usize;
    call3(libc::SYS_write, to, message.as_ptr() as usize, message.len())
}

fn get(slots: &[RawFd; SLOTS], slot: Slot) -> usize {
    slots.get(usize::from(slot.0)).map_or(usize::MAX, |fd| *fd as usize)
}

fn put(slots: &mut [RawFd; SLOTS], slot: Slot, fd: isize) -> Outcome {
    let place = slots.get_mut(usize::from(slot.0)).ok_or(libc::EBADF)?;
    *place = fd as RawFd;
    Ok(fd)
}

fn dir(slots: &[RawFd; SLOTS], dir: Dir) -> usize {
    match dir {
        Dir::Cwd => libc::AT_FDCWD as usize,
        Dir::Slot(slot) => get(slots, slot),
    }
}

/// Does one step.
fn act(step: &Step, slots: &mut [RawFd; SLOTS]) -> Outcome {
    match step {
        Step::PrivateMounts
        | Step::Clone { .. }
        | Step::OpenBeneath { .. }
        | Step::OpenPath { .. }
        | Step::Check { .. }
        | Step::Attributes { .. }
        | Step::Attach { .. }
        | Step::NewFs { .. }
        | Step::PivotRoot => act_on_mounts(step, slots),
        Step::Folder { .. }
        | Step::File { .. }
        | Step::Link { .. }
        | Step::Write { .. }
        | Step::Enter { .. }
        | Step::Chdir { .. } => act_on_files(step, slots),
        Step::DropBounding
        | Step::Securebits
        | Step::NoGroups
        | Step::Ids { .. }
        | Step::EffectiveIds { .. }
        | Step::NoCapabilities
        | Step::NoNewPrivileges
        | Step::DeathSignal
        | Step::Limit { .. }
        | Step::Umask { .. } => act_on_rights(step),
        _ => act_on_process(step, slots),
    }
}

fn act_on_mounts(step: &Step, slots: &mut [RawFd; SLOTS]) -> Outcome {
    match step {
        Step::PrivateMounts => {
            let attr = mount::attributes(0, None, libc::MS_PRIVATE);
            set_attributes(libc::AT_FDCWD as usize, c"/", libc::AT_RECURSIVE, &attr)
        }
        Step::Clone { dir: at, path, recursive, to } => {
            let mut flags = mount::OPEN_TREE_CLONE | libc::O_CLOEXEC as u32;
            flags |= if *recursive { libc::AT_RECURSIVE as u32 } else { 0 };
            flags |= if path.is_empty() { libc::AT_EMPTY_PATH as u32 } else { 0 };
            let at = dir(slots, *at);
            let fd = call3(libc::SYS_open_tree, at, text(path), flags as usize)?;
            put(slots, *to, fd)
        }
        Step::OpenBeneath { dir: at, path, to } => {
            let how = mount::open_beneath();
            let (how_at, size) = (&raw const how as usize, size_of_val(&how));
            let args = [dir(slots, *at), text(path), how_at, size, 0, 0];
            let fd = call(libc::SYS_openat2, args)?;
            put(slots, *to, fd)
        }
        Step::OpenPath { path, to } => {
            let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
            let fd = call3(libc::SYS_openat, libc::AT_FDCWD as usize, text(path), flags)?;
            put(slots, *to, fd)
        }
        Step::Check { fd, is } => check(get(slots, *fd), *is),
        Step::Attributes { fd, set, userns, recursive } => {
            let flags = if *recursive { libc::AT_RECURSIVE } else { 0 };
            let attr = mount::attributes(*set, (*userns >= 0).then_some(*userns), 0);
            set_attributes(get(slots, *fd), c"", flags | libc::AT_EMPTY_PATH, &attr)
        }
        Step::Attach { fd, dir: at, path } => {
            let mut flags = mount::MOVE_MOUNT_F_EMPTY_PATH;
            flags |= if path.is_empty() { mount::MOVE_MOUNT_T_EMPTY_PATH } else { 0 };
            let (from, at) = (get(slots, *fd), dir(slots, *at));
            call5(libc::SYS_move_mount, from, text(c""), at, text(path), flags as usize)
        }
        Step::NewFs { kind, options, attributes, to } => {
            let fd = new_fs(kind, options, *attributes)?;
            put(slots, *to, fd)
        }
        Step::PivotRoot => {
            call2(libc::SYS_pivot_root, text(c"."), text(c"."))?;
            call2(libc::SYS_umount2, text(c"."), libc::MNT_DETACH as usize)?;
            call1(libc::SYS_chdir, text(c"/"))
        }
        _ => Err(libc::ENOTSUP),
    }
}

pub(super) fn set_attributes(
    fd: usize,
    path: &CStr,
    flags: i32,
    attr: &mount::Attributes,
) -> Outcome {
    let (attr_at, size) = (&raw const *attr as usize, size_of_val(attr));
    call5(libc::SYS_mount_setattr, fd, text(path), flags as usize, attr_at, size)
}

fn check(fd: usize, is: Is) -> Outcome {
    // SAFETY: `stat` is plain numbers, for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH as usize;
    let stat_at = &raw mut stat as usize;
    call(libc::SYS_newfstatat, [fd, text(c""), stat_at, flags, 0, 0])?;
    let same = match is {
        Is::Inode { dev, ino } => stat.st_dev == dev && stat.st_ino == ino,
        Is::Pinned { dev, ino, size, ctime } => {
            let now = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec);
            now == (dev, ino, size, ctime.0, ctime.1)
        }
        Is::Device { rdev } => stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == rdev,
    };
    if same { Ok(0) } else { Err(super::step::ANOTHER_FILE) }
}

fn new_fs(kind: &CString, options: &[(CString, Option<CString>)], attributes: u64) -> Outcome {
    let fs = call2(libc::SYS_fsopen, text(kind), mount::FSOPEN_CLOEXEC as usize)? as usize;
    for (key, value) in options {
        let (command, value) = match value {
            Some(value) => (mount::FSCONFIG_SET_STRING, text(value)),
            None => (mount::FSCONFIG_SET_FLAG, 0),
        };
        call5(libc::SYS_fsconfig, fs, command as usize, text(key), value, 0)?;
    }
    call5(libc::SYS_fsconfig, fs, mount::FSCONFIG_CMD_CREATE as usize, 0, 0, 0)?;
    let cloexec = mount::FSMOUNT_CLOEXEC as usize;
    let fd = call3(libc::SYS_fsmount, fs, cloexec, attributes as usize)?;
    call1(libc::SYS_close, fs)?;
    Ok(fd)
}

fn act_on_files(step: &Step, slots: &mut [RawFd; SLOTS]) -> Outcome {
    match step {
        Step::Folder { dir: at, path, mode } => {
            let made = call3(libc::SYS_mkdirat, dir(slots, *at), text(path), *mode as usize);
            if made == Err(libc::EEXIST) { Ok(0) } else { made }
        }
        Step::File { dir: at, path, mode, content } => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let mode = *mode as usize;
            let args = [dir(slots, *at), text(path), flags as usize, mode, 0, 0];
            let fd = call(libc::SYS_openat, args)? as usize;
            write_all(fd, content)?;
            call1(libc::SYS_close, fd)
        }
        Step::Link { target, dir: at, path } => {
            call3(libc::SYS_symlinkat, text(target), dir(slots, *at), text(path))
        }
        Step::Write { path, content } => {
            let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
            let at = libc::AT_FDCWD as usize;
            let fd = call3(libc::SYS_openat, at, text(path), flags)? as usize;
            write_all(fd, content)?;
            call1(libc::SYS_close, fd)
        }
        Step::Enter { fd } => call1(libc::SYS_fchdir, get(slots, *fd)),
        Step::Chdir { path } => call1(libc::SYS_chdir, text(path)),
        _ => Err(libc::ENOTSUP),
    }
}

/// Writes the whole content in one call, as kernel files demand; a short write is an error.
fn write_all(fd: usize, content: &[u8]) -> Outcome {
    if content.is_empty() {
        return Ok(0);
    }
    let written = call3(libc::SYS_write, fd, content.as_ptr() as usize, content.len())?;
    if written as usize == content.len() { Ok(written) } else { Err(libc::EIO) }
}

fn prctl(option: i32, a: usize, b: usize) -> Outcome {
    call5(libc::SYS_prctl, option as usize, a, b, 0, 0)
}

fn act_on_rights(step: &Step) -> Outcome {
    match step {
        Step::DropBounding => {
            for capability in 0..64 {
                match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
                    Err(libc::EINVAL) => break,
                    result => result?,
                };
            }
            prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as usize, 0)
        }
        // Every bit and its lock but "keep capabilities", whose lock is set all the same.
        Step::Securebits => prctl(libc::PR_SET_SECUREBITS, 0xEF, 0),
        Step::NoGroups => call2(libc::SYS_setgroups, 0, 0),
        Step::Ids { uid, gid } => {
            let (uid, gid) = (*uid as usize, *gid as usize);
            call3(libc::SYS_setresgid, gid, gid, gid)?;
            call3(libc::SYS_setresuid, uid, uid, uid)
        }
        Step::EffectiveIds { uid, gid } => {
            let (uid, gid) = (*uid as usize, *gid as usize);
            call3(libc::SYS_setresgid, gid, gid, gid)?;
            call3(libc::SYS_setresuid, usize::MAX, uid, usize::MAX)
        }
        Step::NoCapabilities => {
            // Version 3 of the interface: a header, and two sets of 32 bits for each kind.
            let header: [u32; 2] = [0x2008_0522, 0];
            let data = [0_u32; 6];
            call2(libc::SYS_capset, header.as_ptr() as usize, data.as_ptr() as usize)
        }
        Step::NoNewPrivileges => prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0),
        Step::DeathSignal => prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize, 0),
        Step::Limit { resource, soft, hard } => {
            let limit = [*soft, *hard];
            let limit_at = limit.as_ptr() as usize;
            call(libc::SYS_prlimit64, [0, *resource as usize, limit_at, 0, 0, 0])
        }
        Step::Umask { mask } => call1(libc::SYS_umask, *mask as usize),
        _ => Err(libc::ENOTSUP),
    }
}

fn act_on_process(step: &Step, slots: &mut [RawFd; SLOTS]) -> Outcome {
    match step {
        Step::Unshare { flags } => call1(libc::SYS_unshare, *flags as usize),
        Step::HostName { name } => call2(libc::SYS_sethostname, text(name), name.as_bytes().len()),
        Step::LoopbackUp => loopback_up(),
        Step::Rule { ruleset, fd, access } => {
            let rule = super::landlock::PathRule::new(*access, get(slots, *fd) as RawFd);
            let (kind, rule_at) = (super::landlock::RULE_PATH_BENEATH, &raw const rule as usize);
            let args = [*ruleset as usize, kind, rule_at, 0, 0, 0];
            call(libc::SYS_landlock_add_rule, args)
        }
        Step::NewSession => call1(libc::SYS_setsid, 0),
        Step::Subreaper => prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0),
        Step::Close { fd } => call1(libc::SYS_close, *fd as usize),
        Step::Place { from, at } => call3(libc::SYS_dup3, *from as usize, *at as usize, 0),
        Step::CloseOnExec { first } => {
            let flags = libc::CLOSE_RANGE_CLOEXEC as usize;
            call3(libc::SYS_close_range, *first as usize, u32::MAX as usize, flags)
        }
        Step::DefaultSignals => default_signals(),
        Step::Restrict { ruleset, flags } => {
            call2(libc::SYS_landlock_restrict_self, *ruleset as usize, *flags as usize)
        }
        Step::Filter { program } => filter(program, 0),
        Step::Listen { program, to } => listen(program, *to),
        Step::Gate { fd } => gate(*fd),
        Step::Exec { fd, image } => {
            let fd = match fd {
                ExecFd::Slot(slot) => get(slots, *slot),
                ExecFd::Parent(fd) => *fd as usize,
            };
            let (argv, envp) = (image.argv() as usize, image.envp() as usize);
            let flags = libc::AT_EMPTY_PATH as usize;
            call5(libc::SYS_execveat, fd, text(c""), argv, envp, flags)
        }
        _ => Err(libc::ENOTSUP),
    }
}

fn filter(program: &[libc::sock_filter], flags: libc::c_ulong) -> Outcome {
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let mode = libc::SECCOMP_SET_MODE_FILTER as usize;
    call3(libc::SYS_seccomp, mode, flags as usize, &raw const filter as usize)
}

/// Installs a filter with a listener and sends the listener over a socket. A signal must not
/// break a call that was received already, so the wait for its answer ends by a kill only.
fn listen(program: &[libc::sock_filter], to: RawFd) -> Outcome {
    let killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | killable;
    let listener = filter(program, flags)?;
    let mut letter = super::notify::Letter::new(listener as RawFd);
    let message = letter.message();
    call3(libc::SYS_sendmsg, to as usize, &raw const message as usize, 0)?;
    call1(libc::SYS_close, listener as usize)
}

/// Waits for the byte that opens the gate; a gate that closes without it means that the
/// supervisor is gone or decided otherwise, so the child ends and nothing ran.
fn gate(fd: RawFd) -> Outcome {
    let mut byte = 0_u8;
    loop {
        match call3(libc::SYS_read, fd as usize, &raw mut byte as usize, 1) {
            Ok(1) => return Ok(0),
            Err(libc::EINTR) => {}
            _ => exit(),
        }
    }
}

fn default_signals() -> Outcome {
    // The kernel's own layout: handler, flags, restorer, mask; all zero is the default action.
    let action = [0_u64; 4];
    for signal in 1..65 {
        if signal == libc::SIGKILL as usize || signal == libc::SIGSTOP as usize {
            continue;
        }
        let action_at = action.as_ptr() as usize;
        call(libc::SYS_rt_sigaction, [signal, action_at, 0, size_of::<u64>(), 0, 0])?;
    }
    let none = 0_u64;
    let (how, mask_at) = (libc::SIG_SETMASK as usize, &raw const none as usize);
    call(libc::SYS_rt_sigprocmask, [how, mask_at, 0, size_of::<u64>(), 0, 0])
}

fn loopback_up() -> Outcome {
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
    let fd = call3(libc::SYS_socket, libc::AF_INET as usize, kind, 0)? as usize;
    let request = super::netns::loopback_request();
    let request_at = &raw const request as usize;
    call3(libc::SYS_ioctl, fd, libc::SIOCSIFFLAGS as usize, request_at)?;
    call1(libc::SYS_close, fd)
}
