//! Whose a group is: its name says it, so that what a dead supervisor left can be told from what
//! a live one needs.

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io;

/// A supervisor: its namespaces of processes and of time, process id, and start time in ticks
/// since boot, which the namespace of time shifts. A process id alone comes round again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    namespaces: [u64; 2],
    pid: i32,
    start: u64,
}

impl Owner {
    /// Returns this process.
    pub(super) fn current() -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let inode = |space| fs::metadata(format!("/proc/self/ns/{space}")).map(|ns| ns.ino());
        // Kernels before 5.6 have one time for all.
        let namespaces = [inode("pid")?, inode("time").unwrap_or(0)];
        let stat = fs::read_to_string("/proc/self/stat")?;
        let (_, start) = state(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { namespaces, pid: Pid::this().as_raw(), start })
    }

    /// Returns the name of this owner's group with a number.
    pub(super) fn name(self, number: u32) -> String {
        let Self { namespaces: [processes, time], pid, start } = self;
        format!("pinfold-{processes}-{time}-{pid}-{start}-{number}")
    }

    /// Reads a name; `None` where it is no group's.
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("pinfold-")?.split('-');
        let namespaces = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
        let pid = parts.next()?.parse().ok().filter(|pid| *pid > 0)?;
        let start = parts.next()?.parse().ok()?;
        let number: Option<u32> = parts.next()?.parse().ok();
        (number.is_some() && parts.next().is_none()).then_some(Self { namespaces, pid, start })
    }

    /// Returns whether a name is that of a group whose owner, of this one's process namespace, is
    /// gone for certain. Of other namespaces nothing can be known.
    pub(super) fn is_left_behind(self, name: &OsStr) -> bool {
        let owner = name.to_str().and_then(Self::parse);
        owner.is_some_and(|owner| owner.namespaces == self.namespaces && !owner.may_live())
    }

    fn may_live(self) -> bool {
        if kill(Pid::from_raw(self.pid), None) == Err(Errno::ESRCH) {
            return false;
        }
        // A process that this user may not look at is taken for the owner.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        match stat.ok().as_deref().and_then(state) {
            Some((state, start)) => start == self.start && !matches!(state, 'Z' | 'X'),
            None => true,
        }
    }
}

/// Reads state and start time off `/proc/PID/stat`. The name in brackets can hold anything.
fn state(stat: &str) -> Option<(char, u64)> {
    let mut after = stat.rsplit_once(')')?.1.split_whitespace();
    let state = after.next()?.chars().next()?;
    Some((state, after.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_group_it_is() {
        let owner = Owner { namespaces: [4026531836, 4026531834], pid: 17, start: 987_654 };
        assert_eq!(owner.name(3), "pinfold-4026531836-4026531834-17-987654-3");
        assert_eq!(Owner::parse(&owner.name(3)), Some(owner));
        for other in
            ["pinfold-17-0", "pinfold-1-2-3-4", "pinfold-1-2-3-4-5-6", "x-1-2-3-4-5", "pinfold"]
        {
            assert_eq!(Owner::parse(other), None, "{other}");
        }
        assert_eq!(Owner::parse("pinfold-1-2-0-3-4"), None, "0 stands for a whole process group");
        assert_eq!(Owner::parse("pinfold-1-2--5-3-4"), None);
    }

    #[test]
    fn only_owners_that_are_gone_are_left_behind() {
        let own = Owner::current().expect("/proc");
        let left = |owner: Owner| own.is_left_behind(OsStr::new(&owner.name(0)));
        assert!(!left(own), "this process lives");
        assert!(left(Owner { start: own.start + 1, ..own }), "its id was another's before");
        assert!(left(Owner { pid: i32::MAX, ..own }), "there is no such process");
        let [processes, time] = own.namespaces;
        let elsewhere = Owner { namespaces: [processes + 1, time], pid: i32::MAX, ..own };
        assert!(!left(elsewhere), "of another namespace nothing is known");
        assert!(!own.is_left_behind(OsStr::new("user.slice")));
    }

    #[test]
    fn a_processes_name_does_not_confuse_its_state() {
        let numbers: Vec<String> = (4..53).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) R 1 (b)) S {}", numbers.join(" "));
        assert_eq!(state(&stat), Some(('S', 22)));
        assert_eq!(state("7 (a) S 1"), None);
    }
}
