//! The file system of a folder, and what cannot be had on it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Kinds of file systems with a limit for runs: the beginning of the kind's name, and the limit.
const LIMITS: [(&str, &str); 7] = [
    (
        "overlay",
        "overlay: Landlock and mounts hold the merged tree only; keep upperdir and lowerdir out of \
         what commands see",
    ),
    ("nfs", NETWORK),
    ("cifs", NETWORK),
    ("smb3", NETWORK),
    ("ceph", NETWORK),
    (
        "9p",
        "9p: the server decides about owners, and files that are removed while they are open may \
         be lost",
    ),
    (
        "fuse",
        "fuse: without the option allow_other nobody but who mounted it can enter, root's commands \
         neither; its daemon sees every access and runs outside the sandbox",
    ),
];
const NETWORK: &str = "a network file system: the server decides about owners and may take root \
    for nobody; another host can change files during a run, and locks hold as far as the server \
    keeps them";

/// A folder as a run would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its real path.
    pub path: PathBuf,
    /// Owner and group.
    pub owner: (u32, u32),
    /// The kind of its file system, such as `ext4` or `fuse.sshfs`.
    pub kind: String,
}

impl Folder {
    /// Looks at a folder.
    ///
    /// # Errors
    /// Those of opening it and of reading `/proc`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let opened = File::open(&path)?;
        let found = opened.metadata()?;
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.as_raw_fd()))?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let kind = kind(&about, &mounts).unwrap_or("an unknown file system").to_owned();
        Ok(Self { path, owner: (found.uid(), found.gid()), kind })
    }

    /// Returns what cannot be had on this kind of file system.
    pub fn limit(&self) -> Option<&'static str> {
        let of =
            |(name, limit): &(&str, &'static str)| self.kind.starts_with(name).then_some(*limit);
        LIMITS.iter().find_map(of)
    }
}

/// The kind of the mount that a descriptor lies on, from its `fdinfo` and `mountinfo`.
fn kind<'a>(about: &str, mounts: &'a str) -> Option<&'a str> {
    let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(id))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
23 22 0:40 / /mnt/a\\040b rw shared:5 master:1 - fuse.sshfs host:/ rw,user_id=0\n\
230 22 0:41 / /ws rw - overlay overlay rw,lowerdir=/l\n";

    #[test]
    fn the_kind_is_that_of_the_descriptors_own_mount() {
        let of = |id: &str| kind(&format!("pos:\t0\nflags:\t02\nmnt_id:\t{id}\nino:\t9\n"), MOUNTS);
        assert_eq!(of("22"), Some("ext4"));
        assert_eq!(of("23"), Some("fuse.sshfs"));
        assert_eq!(of("230"), Some("overlay"));
        assert_eq!(of("2"), None);
        assert_eq!(kind("", MOUNTS), None);
    }

    #[test]
    fn g31_special_file_systems_have_their_limit_said() {
        let limit = |kind: &str| {
            Folder { path: "/ws".into(), owner: (0, 0), kind: kind.to_owned() }.limit()
        };
        for (kind, part) in [
            ("overlay", "merged tree"),
            ("nfs4", "server decides"),
            ("9p", "server decides"),
            ("fuse.sshfs", "allow_other"),
        ] {
            assert!(limit(kind).is_some_and(|limit| limit.contains(part)), "{kind}");
        }
        for kind in ["ext4", "xfs", "btrfs", "tmpfs"] {
            assert_eq!(limit(kind), None, "{kind}");
        }
    }
}
