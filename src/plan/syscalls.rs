//! Profile part to plan part: system calls.

use crate::profile::{Entry, Profile, Root, SyscallSet};
use crate::sys::seccomp::{Set, Sockets};
use serde::{Serialize, Serializer};

/// A set of the positive list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The set.
    #[serde(serialize_with = "debug_as_text")]
    pub set: Set,
    /// Where it comes from.
    pub place: String,
}

/// Returns the sets of the positive list, in order.
pub fn sets(profile: &Profile) -> Vec<Listed> {
    let listed = |named: &SyscallSet| {
        let set = match named {
            SyscallSet::Base => Set::Base,
            SyscallSet::Threads => Set::Threads,
            SyscallSet::Files => Set::Files,
            SyscallSet::SocketsLocal => Set::SocketsLocal,
        };
        let place = place(profile, *named).unwrap_or_default().to_owned();
        Listed { set, place }
    };
    let mut sets: Vec<Listed> = profile.syscalls.iter().map(listed).collect();
    if let Some(entry) = own_code(profile) {
        sets.push(Listed { set: Set::MemoryFiles, place: entry.place.clone() });
    }
    sets
}

/// Returns where the profile lists a set.
pub fn place(profile: &Profile, set: SyscallSet) -> Option<&str> {
    profile.places.get(&format!("syscalls.{}", set.as_str()))
}

/// Returns which sockets may be made.
pub fn sockets(profile: &Profile, loopback: bool) -> Sockets {
    match (profile.syscalls.contains(&SyscallSet::SocketsLocal), loopback) {
        (false, _) => Sockets::None,
        (true, false) => Sockets::Local,
        (true, true) => Sockets::Internet,
    }
}

/// Returns the entry by which the profile lets a command execute what it can write. Without one
/// everything writable is mounted without execution, and there are no memory files.
fn own_code(profile: &Profile) -> Option<&Entry> {
    let own = |root| matches!(root, Root::Workspace | Root::Tmp | Root::Home);
    profile.execute.iter().find(|entry| own(entry.path.root))
}

fn debug_as_text<S: Serializer>(set: &Set, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{set:?}"))
}
