//! Filters of a tree that has no namespaces of its own, beside those of every tree.

use super::{
    ALLOW, ARCH_X86_64, Call, JUMP_EQUAL, LOAD, NO_SUCH_CALL, NOT_PERMITTED, OFFSET_ARCH,
    OFFSET_NR, RETURN, Rules, changes, compile, jump, rule, search, statement, when,
};
use seccompiler::SeccompCmpOp;
use std::collections::BTreeMap;
use std::io;

pub(super) const NOT_SUPPORTED: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOTSUP as u32;

/// Calls that change modes and times.
pub(super) const METADATA: &[Call] = calls! {
    SYS_chmod SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_utime SYS_utimes SYS_futimesat
    SYS_utimensat
};

/// Calls that change owners.
pub(super) const OWNERS: &[Call] = calls! { SYS_chown SYS_fchown SYS_lchown SYS_fchownat };

/// Calls that change extended attributes: answered as by a file system that has none, because
/// programs that copy files then go on.
pub(super) const ATTRIBUTES: &[Call] = calls! {
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
};

/// Objects that all processes of an IPC namespace share.
pub(super) const SYSTEM_V: &[Call] = calls! {
    SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semctl SYS_semtimedop
};

/// Calls that name another process, with the argument that does; 0 is the caller.
pub(super) const NEIGHBOURS: [(i64, u8); 6] = [
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Those of them that can name all processes of a user at once: the first argument that does
/// (`PRIO_USER`, `IOPRIO_WHO_USER`).
const OF_A_USER: [(i64, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Assembles what a tree without namespaces of its own is refused beside its list: owners and
/// attributes of files, which Landlock does not hold, and the System V objects of the whole host.
/// Modes and times go to the supervisor where it is `brokered`, and are refused elsewhere.
///
/// # Errors
/// Only if the list outgrew what a jump can reach, which a test rules out.
pub fn guarded_filter(brokered: bool) -> io::Result<Vec<libc::sock_filter>> {
    let metadata = if brokered { libc::SECCOMP_RET_USER_NOTIF } else { NOT_PERMITTED };
    let mut by_number = BTreeMap::new();
    for (calls, answer) in [
        (METADATA, metadata),
        (OWNERS, NOT_PERMITTED),
        (ATTRIBUTES, NOT_SUPPORTED),
        (SYSTEM_V, NO_SUCH_CALL),
    ] {
        by_number.extend(calls.iter().map(|(_, number)| (*number as u32, answer)));
    }
    let mut program = vec![
        statement(LOAD, OFFSET_ARCH),
        // Another architecture's calls are ended by the positive list.
        jump(JUMP_EQUAL, ARCH_X86_64, 1, 0),
        statement(RETURN, ALLOW),
        statement(LOAD, OFFSET_NR),
    ];
    search(&mut program, &changes(&by_number, ALLOW))?;
    Ok(program)
}

/// Compiles what a tree without namespaces must not do to other processes of its user, which no
/// Landlock scope covers: their priority, scheduling and processors (`EPERM`).
///
/// # Errors
/// Only if `seccompiler` refuses the rules, which a test rules out.
pub fn neighbours_filter() -> io::Result<Vec<libc::sock_filter>> {
    let not_self = |argument| rule(vec![when(argument, SeccompCmpOp::Ne, 0)?]);
    let mut rules = Rules::new();
    for (call, who) in NEIGHBOURS {
        rules.insert(call, vec![not_self(who)?]);
    }
    for (call, everybody) in OF_A_USER {
        let of_user = rule(vec![when(0, SeccompCmpOp::Eq, everybody)?])?;
        rules.entry(call).or_default().push(of_user);
    }
    compile(rules, libc::EPERM)
}
