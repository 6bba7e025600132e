//! The workspace: which folder may be one, and names inside it.

use crate::record::{Code, Refusal, Text};
use crate::sys;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag};
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Folders that can never be a workspace, with everything below them.
const SYSTEM: [&str; 13] = [
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev",
    "/proc", "/sys", "/run",
];
/// Folders that cannot be a workspace themselves; one below them can.
const TOPS: [&str; 4] = ["/", "/var", "/tmp", "/home"];

/// Device and inode number of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Inode {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// The one folder a session works in, opened once; its name is not looked up again.
#[derive(Debug)]
pub struct Workspace {
    /// The path, all links followed.
    pub path: PathBuf,
    /// Device and inode.
    pub inode: Inode,
    /// Owner and group on disk.
    pub owner: (u32, u32),
    folder: OwnedFd,
}

/// A name inside the workspace that exists.
#[derive(Debug)]
pub struct Found {
    /// The path below the workspace with all links followed; empty for the workspace itself.
    pub path: PathBuf,
    /// Device and inode.
    pub inode: Inode,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// How many names the file has.
    pub links: u64,
}

/// A name inside the workspace, looked up.
#[derive(Debug)]
pub enum Lookup {
    /// It exists.
    Found(Found),
    /// It does not exist, or may not be searched.
    Absent,
    /// It leads out of the workspace, or through a link where none is followed.
    Outside,
}

impl Workspace {
    /// Opens a folder as workspace. `kept_out` are folders that must lie neither in it nor
    /// around it, such as the state folder and the configuration's.
    ///
    /// # Errors
    /// A refusal with code `workspace` that says why and which folder would do.
    pub fn open(path: &Path, kept_out: &[PathBuf], passwd: &str) -> Result<Self, Refusal> {
        let refuse = |reason: String| {
            let next = "name a project folder of its own, such as /srv/agents/app";
            Refusal::new(Code::Workspace, Text::from(path).shown(), reason, next)
        };
        let unusable = |error: std::io::Error| refuse(format!("it cannot be opened: {error}"));
        let real = fs::canonicalize(path).map_err(unusable)?;
        if let Some(reason) = unfit(&real, kept_out, passwd) {
            return Err(refuse(reason));
        }
        let name = c_path(&real);
        let slash = fs::File::open("/").map_err(unusable)?;
        let below = real.strip_prefix("/").map(c_path).unwrap_or(name);
        // Opened without following links: what was checked is what is used.
        let folder = sys::mount::open_exact(&slash, &below).map_err(unusable)?;
        let stat = nix::sys::stat::fstat(&folder).map_err(|error| unusable(error.into()))?;
        if !is_folder(&stat) {
            return Err(refuse("it is not a folder".into()));
        }
        let inode = Inode { dev: stat.st_dev, ino: stat.st_ino };
        Ok(Self { path: real, inode, owner: (stat.st_uid, stat.st_gid), folder })
    }

    /// Returns the absolute path of a place below the workspace; the empty one is the workspace.
    pub fn below(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.path.clone() } else { self.path.join(path) }
    }

    /// Looks up a name below the workspace, following links that stay inside.
    pub fn resolve(&self, path: &Path) -> Lookup {
        self.look_up(sys::mount::open_resolved(&self.folder, &c_path(path)))
    }

    /// Looks up a name below the workspace without following any link.
    pub fn find(&self, path: &Path) -> Lookup {
        self.look_up(sys::mount::open_exact(&self.folder, &c_path(path)))
    }

    /// Lists the names in a folder below the workspace, without following any link on the way.
    ///
    /// # Errors
    /// As `openat2(2)` and `getdents64(2)`.
    pub fn list(&self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        sys::mount::list_exact(&self.folder, &c_path(path))
    }

    /// Opens a file below the workspace for reading, without following any link.
    ///
    /// # Errors
    /// As `openat2(2)`.
    pub fn read(&self, path: &Path) -> std::io::Result<fs::File> {
        sys::mount::open_to_read(&self.folder, &c_path(path))
    }

    fn look_up(&self, opened: std::io::Result<OwnedFd>) -> Lookup {
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) => {
                let leads_out = [Errno::EXDEV as i32, Errno::ELOOP as i32];
                let outside = error.raw_os_error().is_some_and(|n| leads_out.contains(&n));
                return if outside { Lookup::Outside } else { Lookup::Absent };
            }
        };
        self.describe(&fd).map_or(Lookup::Outside, Lookup::Found)
    }

    fn describe(&self, fd: impl AsFd) -> Option<Found> {
        let stat = nix::sys::stat::fstat(fd.as_fd()).ok()?;
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
        let path = fs::read_link(link).ok()?.strip_prefix(&self.path).ok()?.to_owned();
        Some(Found {
            path,
            inode: Inode { dev: stat.st_dev, ino: stat.st_ino },
            is_folder: is_folder(&stat),
            links: stat.st_nlink,
        })
    }
}

impl AsFd for Workspace {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

fn is_folder(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

/// Makes a C string of a path below something; the empty path is the place itself.
pub fn c_path(path: &Path) -> CString {
    let bytes = path.as_os_str().as_bytes();
    let bytes = if bytes.is_empty() { b"." } else { bytes };
    // Paths here come from the kernel or passed the catalog's shape, so they hold no NUL; the
    // empty string is no path and fails where it is used.
    CString::new(bytes).unwrap_or_default()
}

/// Checks a working folder as the caller writes it: relative, without `..`.
pub fn is_plain_relative(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Says why a folder cannot be a workspace.
fn unfit(path: &Path, kept_out: &[PathBuf], passwd: &str) -> Option<String> {
    if TOPS.iter().any(|top| path == Path::new(top)) {
        return Some("a workspace must be narrower than this folder".into());
    }
    if let Some(system) = SYSTEM.iter().find(|system| path.starts_with(system)) {
        return Some(format!("{system} belongs to the system"));
    }
    let home = |line: &str| line.split(':').nth(5).map(PathBuf::from);
    if passwd.lines().filter_map(home).any(|home| home == path) {
        return Some("it is the home folder of an account, where credentials lie".into());
    }
    let clash = |kept: &&PathBuf| path.starts_with(kept) || kept.starts_with(path);
    let kept = Text::from(kept_out.iter().find(clash)?.as_path()).shown();
    Some(format!("Pinfold's own files lie in {kept}, which must be outside"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1:1::/home/ann:/bin/sh\n";

    #[test]
    fn system_and_home_folders_are_no_workspace() {
        let kept = [PathBuf::from("/var/lib/pinfold")];
        let bad = ["/", "/home", "/tmp", "/var", "/etc", "/usr/src/app", "/root", "/home/ann"];
        let around = ["/var/lib", "/var/lib/pinfold", "/var/lib/pinfold/trail"];
        for path in bad.iter().chain(&around) {
            assert!(unfit(Path::new(path), &kept, PASSWD).is_some(), "{path}");
        }
        for path in ["/home/ann/app", "/tmp/x", "/srv/app", "/var/app", "/root/app", "/etcetera"] {
            assert_eq!(unfit(Path::new(path), &kept, PASSWD), None, "{path}");
        }
    }

    #[test]
    fn names_are_looked_up_beneath() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().join("ws");
        fs::create_dir_all(top.join("a/b")).expect("folders");
        fs::write(dir.path().join("secret"), "s").expect("a file");
        std::os::unix::fs::symlink("a/b", top.join("in")).expect("a link");
        std::os::unix::fs::symlink("../secret", top.join("out")).expect("a link");
        let workspace = Workspace::open(&top, &[], PASSWD).expect("a workspace");
        let found = |lookup| match lookup {
            Lookup::Found(found) => found.path,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(workspace.resolve(Path::new("in"))), Path::new("a/b"));
        assert_eq!(found(workspace.find(Path::new("a/b"))), Path::new("a/b"));
        assert_eq!(found(workspace.resolve(Path::new(""))), Path::new(""));
        for (lookup, outside) in [
            (workspace.resolve(Path::new("out")), true),
            (workspace.resolve(Path::new("../secret")), true),
            (workspace.find(Path::new("in")), true),
            (workspace.find(Path::new("none")), false),
        ] {
            assert_eq!(matches!(lookup, Lookup::Outside), outside, "{lookup:?}");
            assert!(!matches!(lookup, Lookup::Found(_)), "{lookup:?}");
        }
    }
}
