//! Filters of a tree that has no namespaces of its own, beside those of every tree.

use super::{
    ALLOW, ARCH_X86_64, Call, JUMP_EQUAL, LOAD, NO_SUCH_CALL, NOT_PERMITTED, OFFSET_ARCH,
    OFFSET_NR, RETURN, Rules, changes, compile, jump, rule, search, statement, when,
};
use seccompiler::{SeccompCmpOp, SeccompRule};
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

/// Calls by which a socket gets a name or looks for one.
pub(super) const NAMED_SOCKETS: &[Call] = calls! {
    SYS_bind SYS_connect SYS_listen SYS_accept SYS_accept4
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

/// The family of an `ioctl` command, and those of file systems: `f`, `v`, `X`, and that of btrfs.
const IOCTL_FAMILY: u64 = 0xFF00;
const FILE_SYSTEM_FAMILIES: [u64; 4] = [0x6600, 0x7600, 0x5800, 0x9400];
/// Commands of these families that read, or write where the file is open for writing:
/// `FS_IOC_GETFLAGS`, `FS_IOC_FIEMAP`, `FS_IOC_GETVERSION`, `FS_IOC_FSGETXATTR`, `FICLONE`,
/// `FICLONERANGE` and `FIDEDUPERANGE` of `<linux/fs.h>`.
const HARMLESS_CONTROLS: [u64; 7] =
    [0x8008_6601, 0xC020_660B, 0x8008_7601, 0x801C_581F, 0x4004_9409, 0x4020_940D, 0xC018_9436];
const SOCK_KIND: u64 = 0xF;

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
        (NAMED_SOCKETS, NOT_PERMITTED),
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

/// Refuses the commands that file systems take on an open file, but for those that only read or
/// copy: they change flags and versions of files that may only be read, and Landlock sees none.
fn file_system_controls() -> io::Result<Vec<SeccompRule>> {
    let of = |family: u64| -> io::Result<SeccompRule> {
        let mut conditions = vec![when(1, SeccompCmpOp::MaskedEq(IOCTL_FAMILY), family)?];
        for harmless in HARMLESS_CONTROLS {
            if harmless & IOCTL_FAMILY == family {
                conditions.push(when(1, SeccompCmpOp::Ne, harmless)?);
            }
        }
        rule(conditions)
    };
    FILE_SYSTEM_FAMILIES.into_iter().map(of).collect()
}

/// Compiles what a tree without namespaces must not do beside what Landlock holds (`EPERM`): to
/// other processes of its user, to sockets of the host, and to files by their file system's own
/// commands.
///
/// # Errors
/// Only if `seccompiler` refuses the rules, which a test rules out.
pub fn neighbours_filter() -> io::Result<Vec<libc::sock_filter>> {
    compile(neighbours_rules()?, libc::EPERM)
}

pub(super) fn neighbours_rules() -> io::Result<Rules> {
    let not_self = |argument| rule(vec![when(argument, SeccompCmpOp::Ne, 0)?]);
    let mut rules = Rules::new();
    for (call, who) in NEIGHBOURS {
        rules.insert(call, vec![not_self(who)?]);
    }
    // A pair of datagram sockets is no pair: each can be sent to and bound anywhere.
    let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM];
    let kind = |kind: i32| when(1, SeccompCmpOp::MaskedEq(SOCK_KIND), kind as u64);
    let kinds = kinds.map(|loose| rule(vec![kind(loose)?]));
    rules.insert(libc::SYS_socketpair, kinds.into_iter().collect::<io::Result<_>>()?);
    rules.insert(libc::SYS_ioctl, file_system_controls()?);
    for (call, everybody) in OF_A_USER {
        let of_user = rule(vec![when(0, SeccompCmpOp::Eq, everybody)?])?;
        rules.entry(call).or_default().push(of_user);
    }
    Ok(rules)
}
