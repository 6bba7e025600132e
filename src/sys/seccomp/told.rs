//! The filters in words, for people who want to know what a tree may call.

use super::guarded::{ATTRIBUTES, METADATA, NAMED_SOCKETS, OWNERS, SYSTEM_V};
use super::{Call, NEWER, REFUSED, Set, Sockets};

/// Calls that get another answer than the rest: which, and what they get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// What they get: an errno, or who performs them instead.
    pub answer: &'static str,
    calls: &'static [Call],
}

impl Refused {
    /// Returns the names of the calls.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names(self.calls)
    }
}

impl Set {
    /// Returns the names of the calls that it allows.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names(self.calls())
    }
}

fn names(calls: &'static [Call]) -> impl Iterator<Item = &'static str> {
    calls.iter().map(|(name, _)| name.strip_prefix("SYS_").unwrap_or(name))
}

/// Returns the names of the calls that every list allows, whichever sets it has.
pub fn always() -> impl Iterator<Item = &'static str> {
    names(NEWER).chain(["clone"])
}

/// Lists what is refused by name. `guarded` is for a tree without namespaces of its own, and says
/// whether the supervisor performs its changes of modes and times.
pub fn refused(guarded: Option<bool>) -> Vec<Refused> {
    let mut all = vec![Refused { answer: "EPERM", calls: REFUSED }];
    if let Some(brokered) = guarded {
        let metadata = if brokered { "the supervisor" } else { "EPERM" };
        all.extend([
            Refused { answer: metadata, calls: METADATA },
            Refused { answer: "EPERM", calls: OWNERS },
            Refused { answer: "ENOTSUP", calls: ATTRIBUTES },
            Refused { answer: "ENOSYS", calls: SYSTEM_V },
            Refused { answer: "EPERM", calls: NAMED_SOCKETS },
        ]);
    }
    all
}

/// What every tree is refused by its arguments: calls, and when they get which answer.
const EVERYWHERE: [(&str, &str); 7] = [
    ("clone", "EPERM with a flag that makes a namespace"),
    (
        "chmod fchmod fchmodat fchmodat2 creat mkdir mkdirat mknod mknodat open openat",
        "EPERM with a mode that has a set-user-id or set-group-id bit",
    ),
    ("ioctl", "EPERM for TIOCSTI and TIOCLINUX, which write into a terminal's input"),
    ("renameat2", "EPERM with RENAME_WHITEOUT, which makes a device file"),
    ("prlimit64", "EPERM for another process than the caller"),
    ("fcntl", "EPERM for F_SETLEASE and F_SETDELEG, which make others wait for a file"),
    ("personality", "EPERM but for the query, Linux, and 32-bit Linux, each also with UNAME26"),
];

/// What a tree without namespaces is refused beside.
const NEIGHBOURS: [(&str, &str); 4] = [
    (
        "setpriority ioprio_set sched_setparam sched_setscheduler sched_setaffinity sched_setattr",
        "EPERM for another process than the caller",
    ),
    ("setpriority ioprio_set", "EPERM for all processes of a user"),
    ("socketpair", "EPERM but for streams and packets in sequence"),
    ("ioctl", "EPERM for commands of file systems but those that read, clone or share content"),
];

/// Lists what is refused by its arguments: names of calls with spaces between them, and when they
/// get which answer. `guarded` is for a tree without namespaces of its own.
pub fn by_arguments(sockets: Sockets, guarded: bool) -> Vec<(&'static str, &'static str)> {
    let made = match sockets {
        Sockets::None => "EAFNOSUPPORT always",
        Sockets::Local => "EAFNOSUPPORT but for AF_UNIX streams, datagrams and packets, protocol 0",
        Sockets::Internet => {
            "EAFNOSUPPORT but for AF_UNIX streams, datagrams and packets, and AF_INET and AF_INET6 \
             streams and datagrams; protocol 0, TCP or UDP"
        }
    };
    let sockets = [("socket", made), ("socketpair", "EAFNOSUPPORT but for AF_UNIX")];
    let neighbours = NEIGHBOURS.into_iter().filter(|_| guarded);
    EVERYWHERE.into_iter().chain(sockets).chain(neighbours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the numbers of the calls that the words name.
    fn told(words: &[(&'static str, &'static str)]) -> BTreeSet<i64> {
        let all = [super::super::BASE, super::super::THREADS, super::super::FILES].concat();
        let number = |name| {
            let call = all.iter().find(|(known, _)| known.strip_prefix("SYS_") == Some(name));
            call.unwrap_or_else(|| panic!("{name} is in no set")).1
        };
        words.iter().flat_map(|(calls, _)| calls.split(' ')).map(number).collect()
    }

    #[test]
    fn the_words_name_every_call_that_is_refused_by_its_arguments_and_no_other() {
        let rules = super::super::set_id_rules().expect("rules");
        let mut filtered: BTreeSet<i64> = rules.keys().copied().collect();
        // Its flags are looked at by the positive list itself.
        filtered.extend(told(&[("clone", "")]));
        assert_eq!(told(&EVERYWHERE), filtered);
        let rules = super::super::guarded::neighbours_rules().expect("rules");
        assert_eq!(told(&NEIGHBOURS), rules.keys().copied().collect());
    }

    #[test]
    fn names_are_plain_and_each_stands_once_in_a_set() {
        for set in [Set::Base, Set::Threads, Set::Files, Set::SocketsLocal, Set::MemoryFiles] {
            let names: Vec<&str> = set.names().collect();
            let once: BTreeSet<&&str> = names.iter().collect();
            assert_eq!(once.len(), names.len(), "{set:?}");
            assert!(names.iter().all(|name| !name.starts_with("SYS_")), "{names:?}");
        }
    }
}
