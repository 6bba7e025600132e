//! seccomp: which system calls a tree may make.
//!
//! Two kinds of filter stand on each other, and the stricter answer counts. What is refused by
//! its *arguments* is compiled by `seccompiler`; what is the same for every run is installed once,
//! on the spawning thread. The *positive list* is assembled here, because it has to be short:
//! installing costs about a microsecond an instruction.
//!
//! A call that is not listed looks like one the kernel does not have (`ENOSYS`), because
//! programs then fall back; calls that are refused by name get `EPERM`. A call by another
//! architecture's numbers ends the process.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

/// A system call: its name as `libc` writes it, with `SYS_` in front, and its number.
type Call = (&'static str, i64);

/// Writes a list of calls by the names that `libc` gives their numbers.
macro_rules! calls {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name),)*] };
}

mod guarded;
mod told;

pub use guarded::{guarded_filter, neighbours_filter};
pub use told::{Refused, always, by_arguments, refused};

/// A named group of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// What every program needs: memory, time, signals, children, reading files.
    Base,
    /// Scheduling, shared memory and process groups of threads.
    Threads,
    /// Making, changing and removing files, and watching them.
    Files,
    /// Sockets within the sandbox.
    SocketsLocal,
    /// Memory files, which can be executed: only where the workspace's code may run anyway.
    MemoryFiles,
}

/// Which socket families a tree may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// None but those of `socketpair`.
    None,
    /// Path and abstract sockets.
    Local,
    /// Those, and TCP and UDP over IPv4 and IPv6.
    Internet,
}

impl Set {
    fn calls(self) -> &'static [Call] {
        match self {
            Self::Base => BASE,
            Self::Threads => THREADS,
            Self::Files => FILES,
            Self::SocketsLocal => SOCKETS,
            Self::MemoryFiles => calls! { SYS_memfd_create },
        }
    }
}

const BASE: &[Call] = calls! {
    SYS_read SYS_write SYS_open SYS_close SYS_stat SYS_fstat SYS_lstat SYS_poll SYS_lseek SYS_mmap
    SYS_mprotect SYS_munmap SYS_brk SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_ioctl
    SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev SYS_access SYS_pipe SYS_select SYS_sched_yield
    SYS_mremap SYS_msync SYS_mincore SYS_madvise SYS_dup SYS_dup2 SYS_pause SYS_nanosleep
    SYS_getitimer SYS_alarm SYS_setitimer SYS_getpid SYS_sendfile SYS_clone SYS_fork SYS_vfork
    SYS_execve SYS_exit SYS_wait4 SYS_kill SYS_uname SYS_fcntl SYS_flock SYS_getdents SYS_getcwd
    SYS_chdir SYS_fchdir SYS_readlink SYS_umask SYS_gettimeofday SYS_getrlimit SYS_getrusage
    SYS_sysinfo SYS_times SYS_getuid SYS_getgid SYS_setuid SYS_setgid SYS_geteuid SYS_getegid
    SYS_setpgid SYS_getppid SYS_getpgrp SYS_setsid SYS_setreuid SYS_setregid SYS_getgroups
    SYS_setgroups SYS_setresuid SYS_getresuid SYS_setresgid SYS_getresgid SYS_getpgid
    SYS_setfsuid SYS_setfsgid SYS_getsid SYS_capget SYS_capset SYS_rt_sigpending
    SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_sigsuspend SYS_sigaltstack SYS_personality
    SYS_statfs SYS_fstatfs SYS_getpriority SYS_setpriority SYS_mlock SYS_munlock SYS_prctl
    SYS_arch_prctl SYS_setrlimit SYS_sync SYS_gettid SYS_readahead SYS_getxattr SYS_lgetxattr
    SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_tkill SYS_time SYS_futex
    SYS_sched_getaffinity SYS_epoll_create SYS_getdents64 SYS_set_tid_address
    SYS_restart_syscall SYS_fadvise64 SYS_timer_create SYS_timer_settime SYS_timer_gettime
    SYS_timer_getoverrun SYS_timer_delete SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep
    SYS_exit_group SYS_epoll_wait SYS_epoll_ctl SYS_tgkill SYS_waitid SYS_openat SYS_newfstatat
    SYS_readlinkat SYS_faccessat SYS_pselect6 SYS_ppoll SYS_set_robust_list SYS_get_robust_list
    SYS_splice SYS_tee SYS_epoll_pwait SYS_signalfd SYS_timerfd_create SYS_eventfd
    SYS_timerfd_settime SYS_timerfd_gettime SYS_signalfd4 SYS_eventfd2 SYS_epoll_create1 SYS_dup3
    SYS_pipe2 SYS_preadv SYS_pwritev SYS_rt_tgsigqueueinfo SYS_prlimit64 SYS_syncfs SYS_getcpu
    SYS_getrandom SYS_execveat SYS_membarrier SYS_mlock2 SYS_copy_file_range SYS_preadv2
    SYS_pwritev2 SYS_statx SYS_rseq SYS_pidfd_send_signal SYS_pidfd_open SYS_close_range
    SYS_faccessat2 SYS_epoll_pwait2 SYS_futex_waitv SYS_socket SYS_socketpair SYS_mseal
    SYS_process_mrelease SYS_vmsplice
};

/// Calls of Linux 6.6 and 6.7 that `libc` does not name yet; in every list.
const NEWER: &[Call] = &[
    ("SYS_map_shadow_stack", 453),
    ("SYS_futex_wake", 454),
    ("SYS_futex_wait", 455),
    ("SYS_futex_requeue", 456),
];

const THREADS: &[Call] = calls! {
    SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semctl SYS_semtimedop
    SYS_sched_setparam SYS_sched_getparam SYS_sched_setscheduler SYS_sched_getscheduler
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval
    SYS_sched_setaffinity SYS_sched_setattr SYS_sched_getattr SYS_ioprio_set SYS_ioprio_get
    SYS_mlockall SYS_munlockall
};

const FILES: &[Call] = calls! {
    SYS_fsync SYS_fdatasync SYS_truncate SYS_ftruncate SYS_rename SYS_mkdir SYS_rmdir SYS_creat
    SYS_link SYS_unlink SYS_symlink SYS_chmod SYS_fchmod SYS_chown SYS_fchown SYS_lchown
    SYS_utime SYS_mknod SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr
    SYS_lremovexattr SYS_fremovexattr SYS_utimes SYS_inotify_init SYS_inotify_add_watch
    SYS_inotify_rm_watch SYS_mkdirat SYS_mknodat SYS_fchownat SYS_futimesat SYS_unlinkat
    SYS_renameat SYS_linkat SYS_symlinkat SYS_fchmodat SYS_sync_file_range SYS_utimensat
    SYS_fallocate SYS_inotify_init1 SYS_renameat2 SYS_fchmodat2
};

const SOCKETS: &[Call] = calls! {
    SYS_connect SYS_accept SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_shutdown SYS_bind
    SYS_listen SYS_getsockname SYS_getpeername SYS_setsockopt SYS_getsockopt SYS_accept4
    SYS_recvmmsg SYS_sendmmsg
};

/// Refused by name in every profile: other processes' memory and descriptors, namespaces and
/// mounts, keys, kernel code and tracing, the machine's own state.
const REFUSED: &[Call] = calls! {
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_kcmp
    SYS_pidfd_getfd SYS_keyctl SYS_add_key SYS_request_key SYS_bpf SYS_userfaultfd
    SYS_perf_event_open SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_setns SYS_unshare
    SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_open_tree SYS_move_mount SYS_fanotify_init
    SYS_fanotify_mark SYS_kexec_load SYS_kexec_file_load SYS_init_module SYS_finit_module
    SYS_delete_module SYS_quotactl SYS_quotactl_fd SYS_swapon SYS_swapoff SYS_reboot SYS_acct
    SYS_settimeofday SYS_clock_settime SYS_adjtimex SYS_clock_adjtime SYS_syslog SYS_sethostname
    SYS_setdomainname SYS_iopl SYS_ioperm SYS_vhangup SYS_name_to_handle_at
    SYS_open_by_handle_at SYS_migrate_pages SYS_move_pages
};

/// Flags of `clone` that make namespaces.
const CLONE_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Personalities that are allowed: the query, Linux, 32-bit Linux, and both with the old
/// `uname` version.
const PERSONALITIES: [u64; 5] = [0xffff_ffff, 0, 8, 0x20000, 0x20008];

const SET_ID_BITS: [u64; 2] = [0o4000, 0o2000];
const O_TMPFILE_BIT: u64 = 0o20_000_000;
const RENAME_WHITEOUT: u64 = 4;
/// The lease on a folder, of kernels newer than `libc` knows.
const F_SETDELEG: u64 = 1_040;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

const ARCH_X86_64: u32 = 0xC000_003E;
const X32_BIT: u32 = 0x4000_0000;
const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARG0_LOW: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NOT_PERMITTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Assembles the positive list of these sets.
///
/// # Errors
/// Only if the list outgrew what a jump can reach, which a test rules out.
pub fn positive_list(sets: &[Set]) -> io::Result<Vec<libc::sock_filter>> {
    let answers = answers(sets);
    let mut program = vec![
        statement(LOAD, OFFSET_ARCH),
        jump(JUMP_EQUAL, ARCH_X86_64, 1, 0),
        statement(RETURN, KILL),
        statement(LOAD, OFFSET_NR),
        jump(JUMP_AT_LEAST, X32_BIT, 0, 1),
        statement(RETURN, KILL),
        jump(JUMP_EQUAL, libc::SYS_clone as u32, 0, 4),
        statement(LOAD, OFFSET_ARG0_LOW),
        jump(JUMP_ANY_BIT, CLONE_NAMESPACES, 0, 1),
        statement(RETURN, NOT_PERMITTED),
        statement(RETURN, ALLOW),
    ];
    search(&mut program, &answers)?;
    Ok(program)
}

/// Lists where the answer changes: ascending first numbers, each with the answer from there on.
fn answers(sets: &[Set]) -> Vec<(u32, u32)> {
    let mut by_number = BTreeMap::new();
    for (_, number) in REFUSED {
        by_number.insert(*number as u32, NOT_PERMITTED);
    }
    for (_, number) in NEWER.iter().chain(sets.iter().flat_map(|set| set.calls())) {
        by_number.insert(*number as u32, ALLOW);
    }
    changes(&by_number, NO_SUCH_CALL)
}

/// Turns a table into first numbers with the answer from there on.
fn changes(by_number: &BTreeMap<u32, u32>, otherwise: u32) -> Vec<(u32, u32)> {
    let last = by_number.keys().next_back().copied().unwrap_or(0);
    let mut changes: Vec<(u32, u32)> = Vec::new();
    for number in 0..=last + 1 {
        let answer = by_number.get(&number).copied().unwrap_or(otherwise);
        if changes.last().is_none_or(|(_, before)| *before != answer) {
            changes.push((number, answer));
        }
    }
    changes
}

/// Where a jump of the search goes.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// The instruction at this index.
    At(usize),
    /// The instruction that returns this answer.
    Return(u32),
}

/// Emits a binary search for the answer; the number is in the accumulator. Each answer is
/// returned in one place, at the end, so that a range of numbers costs one instruction.
fn search(program: &mut Vec<libc::sock_filter>, answers: &[(u32, u32)]) -> io::Result<()> {
    let mut jumps = Vec::new();
    let start = branch(program, answers, &mut jumps);
    let mut returns: BTreeMap<u32, usize> = BTreeMap::new();
    let targets = jumps.iter().flat_map(|(_, targets)| *targets).chain([start]);
    for target in targets {
        let Target::Return(answer) = target else { continue };
        returns.entry(answer).or_insert_with(|| {
            program.push(statement(RETURN, answer));
            program.len() - 1
        });
    }
    for (at, [below, from]) in jumps {
        let distance = |target| {
            let to = match target {
                Target::At(to) => to,
                Target::Return(answer) => returns[&answer],
            };
            u8::try_from(to - at - 1).map_err(|_| io::Error::other("the list is too long"))
        };
        (program[at].jf, program[at].jt) = (distance(below)?, distance(from)?);
    }
    Ok(())
}

/// Emits the jumps of a search and notes where each goes: below its number, and from it on.
fn branch(
    program: &mut Vec<libc::sock_filter>,
    answers: &[(u32, u32)],
    jumps: &mut Vec<(usize, [Target; 2])>,
) -> Target {
    if let [(_, answer)] = answers {
        return Target::Return(*answer);
    }
    let (low, high) = answers.split_at(answers.len() / 2);
    let at = program.len();
    let first = high.first().map_or(0, |(number, _)| *number);
    program.push(jump(JUMP_AT_LEAST, first, 0, 0));
    let below = branch(program, low, jumps);
    let from = branch(program, high, jumps);
    jumps.push((at, [below, from]));
    Target::At(at)
}

/// Compiles what is refused by other arguments in every profile: set-id modes, terminal
/// injection, personalities (`EPERM`).
///
/// # Errors
/// Only if `seccompiler` refuses the rules, which a test rules out.
pub fn set_id_filter() -> io::Result<Vec<libc::sock_filter>> {
    compile(set_id_rules()?, libc::EPERM)
}

/// Compiles which sockets are refused, by family, type and protocol (`EAFNOSUPPORT`); once for
/// each kind.
///
/// # Errors
/// Only if `seccompiler` refuses the rules, which a test rules out.
pub fn socket_filter(sockets: Sockets) -> io::Result<Arc<[libc::sock_filter]>> {
    static MADE: [OnceLock<Arc<[libc::sock_filter]>>; 3] = [const { OnceLock::new() }; 3];
    let made = &MADE[sockets as usize];
    if let Some(filter) = made.get() {
        return Ok(filter.clone());
    }
    let filter = compile(socket_rules(sockets)?, libc::EAFNOSUPPORT)?.into();
    Ok(made.get_or_init(|| filter).clone())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(rules: Rules, errno: i32) -> io::Result<Vec<libc::sock_filter>> {
    let refuse = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::x86_64);
    let program: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    let plain = |i: &seccompiler::sock_filter| jump(i.code, i.k, i.jt, i.jf);
    Ok(program.iter().map(plain).collect())
}

/// One condition on the low 32 bits of an argument, which is what the kernel uses of an int.
fn when(argument: u8, op: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value).map_err(io::Error::other)
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn set_id_rules() -> io::Result<Rules> {
    let mut rules = Rules::new();
    let bit = |argument, bit| when(argument, SeccompCmpOp::MaskedEq(bit), bit);
    let modes: [(i64, u8); 9] = [
        (libc::SYS_chmod, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_creat, 1),
        (libc::SYS_mkdir, 1),
        (libc::SYS_mkdirat, 2),
        (libc::SYS_mknod, 1),
        (libc::SYS_mknodat, 2),
    ];
    for (call, mode) in modes {
        for set_id in SET_ID_BITS {
            rules.entry(call).or_default().push(rule(vec![bit(mode, set_id)?])?);
        }
    }
    // The mode of an open is meaningless unless it makes a file.
    for (call, flags, mode) in [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)] {
        for making in [libc::O_CREAT as u64, O_TMPFILE_BIT] {
            for set_id in SET_ID_BITS {
                let conditions = vec![bit(flags, making)?, bit(mode, set_id)?];
                rules.entry(call).or_default().push(rule(conditions)?);
            }
        }
    }
    for command in [TIOCSTI, TIOCLINUX] {
        let is = when(1, SeccompCmpOp::Eq, command)?;
        rules.entry(libc::SYS_ioctl).or_default().push(rule(vec![is])?);
    }
    // A whiteout is a device file; other processes' limits are not the command's business.
    let whiteout = rule(vec![bit(4, RENAME_WHITEOUT)?])?;
    rules.entry(libc::SYS_renameat2).or_default().push(whiteout);
    let not_self = rule(vec![when(0, SeccompCmpOp::Ne, 0)?])?;
    rules.entry(libc::SYS_prlimit64).or_default().push(not_self);
    // A lease on a file that may only be read makes the host's writers wait.
    for lease in [libc::F_SETLEASE as u64, F_SETDELEG] {
        let is = when(1, SeccompCmpOp::Eq, lease)?;
        rules.entry(libc::SYS_fcntl).or_default().push(rule(vec![is])?);
    }
    let other = PERSONALITIES.map(|value| when(0, SeccompCmpOp::Ne, value));
    let other = other.into_iter().collect::<io::Result<Vec<_>>>()?;
    rules.entry(libc::SYS_personality).or_default().push(rule(other)?);
    Ok(rules)
}

/// Rules for what is refused: everything that is not one of these values.
fn none_of(argument: u8, values: &[i32]) -> io::Result<Vec<SeccompCondition>> {
    values.iter().map(|value| when(argument, SeccompCmpOp::Ne, *value as u64)).collect()
}

/// Every way to write these socket types with the two flags that may be joined to them.
fn with_flags(types: &[i32]) -> Vec<i32> {
    let flags = [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK];
    let both = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    types.iter().flat_map(|kind| flags.into_iter().chain([both]).map(move |f| kind | f)).collect()
}

fn socket_rules(sockets: Sockets) -> io::Result<Rules> {
    let local_types = with_flags(&[libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET]);
    let internet_types = with_flags(&[libc::SOCK_STREAM, libc::SOCK_DGRAM]);
    let pairs = vec![rule(none_of(0, &[libc::AF_UNIX])?)?];
    let mut refused = Vec::new();
    match sockets {
        // An empty list of rules refuses every call.
        Sockets::None => {}
        Sockets::Local => {
            refused.push(rule(none_of(0, &[libc::AF_UNIX])?)?);
            refused.push(rule(none_of(1, &local_types)?)?);
            refused.push(rule(none_of(2, &[0])?)?);
        }
        Sockets::Internet => {
            let not_local = none_of(0, &[libc::AF_UNIX])?;
            refused.push(rule(none_of(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6])?)?);
            refused.push(rule([not_local, none_of(1, &internet_types)?].concat())?);
            refused.push(rule(none_of(1, &local_types)?)?);
            let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
            refused.push(rule(none_of(2, &protocols)?)?);
        }
    }
    Ok(Rules::from([(libc::SYS_socket, refused), (libc::SYS_socketpair, pairs)]))
}

/// Returns how many filters this thread is under already, such as a container's, as the kernel
/// writes it; empty before Linux 5.9.
pub fn filters() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Returns whether this thread is under a filter already, such as a container's.
pub fn is_filtered() -> bool {
    // SAFETY: the call takes numbers only. Under a filter that refuses it, it fails, which says
    // the same.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode != 0
}

/// Returns whether this kernel takes filters.
pub fn is_available() -> bool {
    let action = ALLOW;
    // SAFETY: the pointer is to a live u32, which is what this operation reads.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    result == 0
}

#[cfg(test)]
mod tests;
