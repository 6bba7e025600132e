//! A host that gives less: what a container's default filter refuses, put over a command.

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::MaskedEq;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What Docker's default profile refuses to a process without capabilities, of what matters here.
const REFUSED: [i64; 24] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kcmp,
    libc::SYS_userfaultfd,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_open_by_handle_at,
];

/// Calls that make namespaces, by the flags of `clone`.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Puts Docker's default refusals over a command.
pub fn docker(command: &mut Command) {
    refuse(command, &REFUSED, libc::EPERM);
    without_namespaces(command);
}

/// Has every call that makes a namespace refused to a command.
pub fn without_namespaces(command: &mut Command) {
    let flag = |bit: i32| {
        let bit = u64::from(bit.cast_unsigned());
        let condition = SeccompCondition::new(0, Dword, MaskedEq(bit), bit).expect("a condition");
        SeccompRule::new(vec![condition]).expect("a rule")
    };
    let clone = (libc::SYS_clone, NAMESPACES.map(flag).into());
    under(command, [clone, (libc::SYS_unshare, Vec::new())].into(), libc::EPERM);
    // A filter cannot see the flags of the newer call.
    refuse(command, &[libc::SYS_clone3], libc::ENOSYS);
}

/// Has some calls refused to a command with one errno.
pub fn refuse(command: &mut Command, calls: &[i64], errno: i32) {
    under(command, calls.iter().map(|call| (*call, Vec::new())).collect(), errno);
}

/// Has the calls that fit these rules refused to a command with one errno.
pub fn under(command: &mut Command, rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::x86_64);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    let install = move || {
        let applied = seccompiler::apply_filter(&filter);
        applied.map_err(|_| std::io::Error::from_raw_os_error(libc::EINVAL))
    };
    unsafe { command.pre_exec(install) };
}
