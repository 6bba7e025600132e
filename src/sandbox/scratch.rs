//! The scratch folder of a run without mounts: made for it, and removed after it.

use crate::plan::filesystem::Scratch;
use crate::plan::identity::Identity;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags};
use nix::sys::stat::{FchmodatFlags, Mode};
use nix::unistd::{Gid, Uid, UnlinkatFlags};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder of the host, removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder and the command's home in it. What a supervisor that was killed left
    /// there is removed first: the place is this run's own.
    pub(super) fn new(scratch: &Scratch, identity: Identity) -> io::Result<Self> {
        if let Err(error) = remove(&scratch.path) {
            // What cannot be removed must not stand in the way of every later run.
            let aside = set_aside(&scratch.path)?;
            tracing::warn!(%error, folder = %aside.display(), "a scratch folder stays");
        }
        let (outer, home) = (scratch.path.as_path(), scratch.home());
        for folder in [outer, &home] {
            // A name that somebody else has put there meanwhile makes this fail.
            fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        if !identity.same_user {
            // The outer one last: until then nobody else can reach what lies in it.
            let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
            for folder in [&home, outer] {
                let no_link = AtFlags::AT_SYMLINK_NOFOLLOW;
                nix::unistd::fchownat(AT_FDCWD, folder, Some(uid), Some(gid), no_link)?;
            }
        }
        Ok(Self(scratch.path.clone()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "the scratch folder stays");
        }
    }
}

/// Gives a folder a name of its own beside the old one.
fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    for number in 0..u32::MAX {
        let mut name = folder.as_os_str().to_owned();
        name.push(format!(".left-{number}"));
        match nix::fcntl::renameat2(
            AT_FDCWD,
            folder,
            AT_FDCWD,
            Path::new(&name),
            RenameFlags::RENAME_NOREPLACE,
        ) {
            Err(Errno::EEXIST) => {}
            renamed => return renamed.map(|()| PathBuf::from(name)).map_err(io::Error::from),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes a folder with all that is in it, also what a command has closed to itself or nested
/// deeper than there are descriptors: each folder in it gives what it holds to the topmost one and
/// goes, so two are open at a time. No name is looked up but in an open folder, and no link is
/// followed.
fn remove(folder: &Path) -> io::Result<()> {
    let top = match open_folder(AT_FDCWD, folder) {
        Err(Errno::ENOENT) => return Ok(()),
        // Something else has its place; that is not removed by the way.
        top => top?,
    };
    let mut moved = 0_u64;
    loop {
        let folders = empty(&top)?;
        if folders.is_empty() {
            return fs::remove_dir(folder);
        }
        for name in folders {
            let inner = open_folder(&top, &name)?;
            for deeper in empty(&inner)? {
                // A folder that changes its parent must be writable itself.
                drop(open_folder(&inner, &deeper)?);
                lift(&inner, &deeper, &top, &mut moved)?;
            }
            nix::unistd::unlinkat(&top, &name, UnlinkatFlags::RemoveDir)?;
        }
    }
}

/// Moves a folder to the topmost one, under the next number that is free there.
fn lift(from: &OwnedFd, name: &Path, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        let fresh = format!("{moved}.moved");
        *moved += 1;
        match nix::fcntl::renameat(from, name, top, fresh.as_str()) {
            Err(Errno::EEXIST | Errno::ENOTEMPTY) => {}
            renamed => return Ok(renamed?),
        }
    }
}

/// Opens a folder, having given its owner every right on it.
fn open_folder(at: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let kind = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let place = nix::fcntl::openat(at, name, kind | OFlag::O_PATH, Mode::empty())?;
    // The open folder itself, whatever its name leads to by now.
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let owners = FchmodatFlags::FollowSymlink;
    nix::sys::stat::fchmodat(AT_FDCWD, link.as_str(), Mode::S_IRWXU, owners)?;
    nix::fcntl::openat(&place, ".", kind | OFlag::O_RDONLY, Mode::empty())
}

/// Removes all from an open folder but the folders in it, and names those.
fn empty(folder: &OwnedFd) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for name in crate::sys::mount::list_exact(folder, c".")? {
        match nix::unistd::unlinkat(folder, &name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR | Errno::EPERM) => folders.push(name),
            Err(Errno::ENOENT) => {}
            removed => removed?,
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_a_command_closed_to_itself_is_removed_and_nothing_beyond_a_link() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, other) = (base.path().join("scratch"), base.path().join("other"));
        fs::create_dir_all(folder.join("a/b")).expect("folders");
        // Names that the removal itself gives, one within the other.
        fs::create_dir_all(folder.join("0.moved/1.moved/x")).expect("folders");
        fs::write(folder.join("0.moved/1.moved/x/f"), "").expect("a file");
        fs::create_dir(&other).expect("a folder");
        fs::write(other.join("kept"), "").expect("a file");
        std::os::unix::fs::symlink(&other, folder.join("link")).expect("a link");
        for (closed, mode) in [("0.moved/1.moved", 0o555), ("a/b", 0o000), ("a", 0o000)] {
            let closed = folder.join(closed);
            fs::set_permissions(closed, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        remove(&folder).expect("removed");
        assert!(!folder.exists() && other.join("kept").exists());
        remove(&folder).expect("nothing is there");
        std::os::unix::fs::symlink(&other, &folder).expect("a link");
        remove(&folder).expect_err("a link is not what is removed");
        assert!(other.join("kept").exists());
    }

    #[test]
    fn what_is_nested_deeper_than_there_are_descriptors_is_removed() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = base.path().join("scratch");
        fs::create_dir(&folder).expect("a folder");
        let mut at = nix::fcntl::open(&folder, OFlag::O_DIRECTORY, Mode::empty()).expect("open");
        for _ in 0..3_000 {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).expect("a folder");
            let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            at = nix::fcntl::openat(&at, "d", flags, Mode::empty()).expect("open");
        }
        remove(&folder).expect("removed");
        assert!(!folder.exists());
    }
}
