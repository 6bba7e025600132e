//! Profile part to plan part: system calls.

use crate::profile::{Profile, Root, SyscallSet};
use crate::sys::seccomp::{Set, Sockets};

/// Returns the sets of the positive list, in order.
pub fn sets(profile: &Profile) -> Vec<Set> {
    let set = |set: &SyscallSet| match set {
        SyscallSet::Base => Set::Base,
        SyscallSet::Threads => Set::Threads,
        SyscallSet::Files => Set::Files,
        SyscallSet::SocketsLocal => Set::SocketsLocal,
    };
    let mut sets: Vec<Set> = profile.syscalls.iter().map(set).collect();
    if runs_own_code(profile) {
        sets.push(Set::MemoryFiles);
    }
    sets
}

/// Returns which sockets may be made.
pub fn sockets(profile: &Profile, loopback: bool) -> Sockets {
    match (profile.syscalls.contains(&SyscallSet::SocketsLocal), loopback) {
        (false, _) => Sockets::None,
        (true, false) => Sockets::Local,
        (true, true) => Sockets::Internet,
    }
}

/// Returns whether the profile lets a command execute what it can write. Elsewhere everything
/// writable is mounted without execution, and there are no memory files.
pub fn runs_own_code(profile: &Profile) -> bool {
    let own = |root| matches!(root, Root::Workspace | Root::Tmp | Root::Home);
    profile.execute.iter().any(|entry| own(entry.path.root))
}
