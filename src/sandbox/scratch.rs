//! The scratch folder of a run without mounts: made for it, and removed after it.

use crate::plan::filesystem::Scratch;
use crate::plan::identity::Identity;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A folder of the host, removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder and the command's home in it. What a supervisor that was killed left
    /// there is removed first: the place is this run's own.
    pub(super) fn new(scratch: &Scratch, identity: Identity) -> io::Result<Self> {
        remove(&scratch.path)?;
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

/// Removes a folder with all that is in it, also what a command has closed to itself.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            fs::remove_dir_all(folder)
        }
        result => result,
    }
}

/// Gives the owner every right on a folder and those in it, without following links.
fn open_up(folder: &Path) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let own = match nix::fcntl::open(folder, flags, Mode::empty()) {
        Err(Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
        own => own?,
    };
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
    fs::set_permissions(&link, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(&link)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            // Through the open folder: a name above it may be another one by now.
            open_up(&Path::new(&link).join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_closed_to_itself_is_removed_and_nothing_beyond_a_link() {
        let base = tempfile::tempdir().expect("a folder");
        let (folder, other) = (base.path().join("scratch"), base.path().join("other"));
        fs::create_dir_all(folder.join("a/b")).expect("folders");
        fs::create_dir(&other).expect("a folder");
        fs::write(other.join("kept"), "").expect("a file");
        std::os::unix::fs::symlink(&other, folder.join("link")).expect("a link");
        for closed in ["a/b", "a"] {
            let closed = folder.join(closed);
            fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).expect("a mode");
        }
        remove(&folder).expect("removed");
        assert!(!folder.exists() && other.join("kept").exists());
        remove(&folder).expect("nothing is there");
    }
}
