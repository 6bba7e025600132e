//! Moving what was found out of a workspace, and back.
//!
//! Every name is looked up below the workspace's own descriptor without following a link, so that
//! no name in it decides what is moved or where something is written.

use super::walk::{Stamp, open_below};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat, mkdirat,
};
use nix::unistd::{Gid, Uid, UnlinkatFlags, Whence, fchownat, lseek, symlinkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The name of what was moved, in a folder of its own.
pub(super) const CONTENT: &str = "content";
/// The same while it is copied from another file system.
const PART: &str = "part";

/// Opens the folder of a place without following a link, and gives the place's name in it.
fn parent(workspace: impl AsFd, path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let name = path.file_name().ok_or_else(|| io::Error::from(Errno::EINVAL))?.to_owned();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    Ok((open_below(workspace, path.parent().unwrap_or(Path::new("")), flags)?, name))
}

/// Opens a folder of the guard's own.
fn own(folder: &Path) -> io::Result<OwnedFd> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    Ok(nix::fcntl::open(folder, flags, Mode::empty())?)
}

/// Moves a place of the workspace into a folder of the guard's.
///
/// # Errors
/// As `renameat(2)`; and, where the folder is on another file system, as copying a tree.
pub(super) fn away(workspace: impl AsFd, path: &Path, folder: &Path) -> io::Result<()> {
    let (from, name) = parent(workspace, path)?;
    let (from, to) = ((&from, name.as_os_str()), (&own(folder)?, OsStr::new(CONTENT)));
    match transfer(from, to) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(from)?;
            transfer(from, to)
        }
        done => done,
    }
}

/// Lets an ordinary user move a place: the folder it lies in must be writable, and so must the
/// place itself where it is a folder. A run could have taken that away to keep it where it is.
fn unlock((folder, name): At<'_>) -> io::Result<()> {
    let writable = |stat: FileStat| Mode::from_bits_truncate(stat.st_mode & 0o777) | Mode::S_IRWXU;
    fchmod(folder, writable(fstat(folder)?))?;
    let stat = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if kind(&stat) == SFlag::S_IFDIR {
        fchmodat(folder, name, writable(stat), FchmodatFlags::FollowSymlink)?;
    }
    Ok(())
}

/// Moves back what was moved away. Nothing that stands in its place is lost.
///
/// # Errors
/// `AlreadyExists` where something stands there, and as [`away`].
pub(super) fn back(folder: &Path, workspace: impl AsFd, path: &Path) -> io::Result<()> {
    let (to, name) = parent(workspace, path)?;
    if fstatat(&to, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() {
        return Err(io::Error::from(Errno::EEXIST));
    }
    transfer((&own(folder)?, OsStr::new(CONTENT)), (&to, &name))?;
    fs::remove_dir(folder)
}

/// Writes a file anew that was moved away, with what it held before the run.
///
/// # Errors
/// As `openat(2)`, `write(2)`, `fchmodat(2)` and `fchownat(2)`.
pub(super) fn put(
    workspace: impl AsFd,
    path: &Path,
    content: &[u8],
    stamp: &Stamp,
) -> io::Result<()> {
    let (folder, name) = parent(workspace, path)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let file = openat(&folder, name.as_os_str(), flags, Mode::from_bits_truncate(0o600))?;
    File::from(file).write_all(content)?;
    give(&folder, &name, stamp.mode(), (stamp.owner(), None))
}

/// Moves back what was moved away, and takes away what stands in its place: that was put there
/// by [`put`].
///
/// # Errors
/// As [`away`].
pub(super) fn exchange(folder: &Path, workspace: impl AsFd, path: &Path) -> io::Result<()> {
    let (to, name) = parent(workspace, path)?;
    let own = own(folder)?;
    let (old, new) = ((&own, OsStr::new("before")), (&own, OsStr::new(CONTENT)));
    match transfer((&to, &name), old) {
        // It was taken away since, by a person or by an attempt that ended here.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => done?,
    }
    transfer(new, (&to, &name))
}

type At<'a> = (&'a OwnedFd, &'a OsStr);

fn transfer(from: At<'_>, to: At<'_>) -> io::Result<()> {
    match renameat(from.0, from.1, to.0, to.1) {
        Err(Errno::EXDEV) => {}
        done => return Ok(done?),
    }
    let part = (to.0, OsStr::new(PART));
    remove(part)?;
    if let Err(error) = copy(from, part) {
        // A full disk would stay full, and nothing could be recorded any more.
        remove(part)?;
        return Err(error);
    }
    renameat(part.0, part.1, to.0, to.1)?;
    remove(from)
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn open_folder(at: At<'_>) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(at.0, at.1, flags, Mode::empty())?)
}

fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::from_fd(folder.try_clone()?)?.iter() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Copies a tree. Pipes, sockets and devices hold no content and are left out.
fn copy(from: At<'_>, to: At<'_>) -> io::Result<()> {
    let stat = fstatat(from.0, from.1, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    match kind(&stat) {
        SFlag::S_IFDIR => {
            mkdirat(to.0, to.1, Mode::from_bits_truncate(0o700))?;
            let (source, target) = (open_folder(from)?, open_folder(to)?);
            for name in names(&source)? {
                copy((&source, &name), (&target, &name))?;
            }
        }
        SFlag::S_IFREG => {
            let read = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
            let source = File::from(openat(from.0, from.1, read, Mode::empty())?);
            let write = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
            let target = openat(to.0, to.1, write, Mode::from_bits_truncate(0o600))?;
            copy_data(&source, &File::from(target), stat.st_size)?;
        }
        SFlag::S_IFLNK => {
            let target = readlinkat(from.0, from.1)?;
            return Ok(symlinkat(target.as_os_str(), to.0, to.1)?);
        }
        _ => return Ok(()),
    }
    give(to.0, to.1, stat.st_mode, (stat.st_uid, Some(stat.st_gid)))
}

/// Copies what a file holds. Its holes stay holes: a run can make files of any size out of them.
fn copy_data(source: &File, mut target: &File, size: i64) -> io::Result<()> {
    let mut at = 0;
    loop {
        let start = match lseek(source, at, Whence::SeekData) {
            Err(Errno::ENXIO) => break,
            start => start?,
        };
        at = lseek(source, start, Whence::SeekHole)?;
        lseek(source, start, Whence::SeekSet)?;
        lseek(target, start, Whence::SeekSet)?;
        io::copy(&mut source.take((at - start).unsigned_abs()), &mut target)?;
    }
    target.set_len(size.unsigned_abs())
}

/// Gives a file its mode and, as root, its owner.
fn give(
    folder: &OwnedFd,
    name: &OsStr,
    mode: u32,
    (uid, gid): (u32, Option<u32>),
) -> io::Result<()> {
    if nix::unistd::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(uid), gid.map(Gid::from_raw));
        fchownat(folder, name, Some(uid), gid, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    }
    let mode = Mode::from_bits_truncate(mode & 0o777);
    Ok(fchmodat(folder, name, mode, FchmodatFlags::FollowSymlink)?)
}

/// Removes a tree; nothing where there is none.
fn remove(at: At<'_>) -> io::Result<()> {
    let stat = match fstatat(at.0, at.1, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return Ok(()),
        stat => stat?,
    };
    if kind(&stat) != SFlag::S_IFDIR {
        return Ok(unlinkat(at.0, at.1, UnlinkatFlags::NoRemoveDir)?);
    }
    let folder = open_folder(at)?;
    for name in names(&folder)? {
        remove((&folder, &name))?;
    }
    Ok(unlinkat(at.0, at.1, UnlinkatFlags::RemoveDir)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_tree_is_moved_and_copied_as_it_is_and_comes_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let (top, held) = (dir.path().join("ws"), dir.path().join("held"));
        fs::create_dir_all(top.join("a/.git/hooks")).expect("folders");
        fs::write(top.join("a/.git/hooks/x"), "x").expect("a file");
        let holes = File::create(top.join("a/.git/holes")).expect("a file");
        holes.write_at(b"data", 1 << 30).expect("written");
        holes.set_len(1 << 32).expect("a size");
        symlink("../../..", top.join("a/.git/out")).expect("a link");
        let mode = fs::Permissions::from_mode(0o754);
        fs::set_permissions(top.join("a/.git/hooks/x"), mode).expect("a mode");
        let workspace = File::open(&top).expect("open");
        let path = Path::new("a/.git");
        away(&workspace, path, &held).expect("moved");
        assert!(!top.join(path).exists());
        // What another file system makes necessary gives the same tree.
        let folder = own(&held).expect("open");
        copy((&folder, OsStr::new(CONTENT)), (&folder, OsStr::new(PART))).expect("copied");
        remove((&folder, OsStr::new(CONTENT))).expect("removed");
        renameat(&folder, PART, &folder, CONTENT).expect("renamed");
        back(&held, &workspace, path).expect("restored");
        let hook = fs::metadata(top.join("a/.git/hooks/x")).expect("there");
        assert_eq!(hook.permissions().mode() & 0o777, 0o754);
        assert_eq!(fs::read_link(top.join("a/.git/out")).expect("a link"), Path::new("../../.."));
        let holes = File::open(top.join("a/.git/holes")).expect("there");
        let about = holes.metadata().expect("its size");
        assert!(about.len() == 1 << 32 && about.blocks() < 4096, "{about:?}");
        let mut data = [0; 6];
        holes.read_exact_at(&mut data, (1 << 30) - 1).expect("read");
        assert_eq!(&data, b"\0data\0");
        assert!(!held.exists());
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_moved_all_the_same() {
        let dir = tempfile::tempdir().expect("a folder");
        let (top, held) = (dir.path().join("ws"), dir.path().join("held"));
        fs::create_dir_all(top.join("a/.git/hooks")).expect("folders");
        for path in ["a/.git", "a"] {
            let mode = fs::Permissions::from_mode(0o555);
            fs::set_permissions(top.join(path), mode).expect("a mode");
        }
        let workspace = File::open(&top).expect("open");
        away(&workspace, Path::new("a/.git"), &held).expect("moved");
        assert!(held.join(CONTENT).join("hooks").exists() && !top.join("a/.git").exists());
    }

    #[test]
    fn no_link_leads_a_move_out_of_the_workspace() {
        let dir = tempfile::tempdir().expect("a folder");
        let (top, held) = (dir.path().join("ws"), dir.path().join("held"));
        fs::create_dir_all(&top).expect("a folder");
        fs::create_dir_all(dir.path().join("else/hooks")).expect("folders");
        symlink("../else", top.join("a")).expect("a link");
        let workspace = File::open(&top).expect("open");
        for path in ["a/hooks", "../else/hooks"] {
            away(&workspace, Path::new(path), &held).expect_err(path);
        }
        away(&workspace, Path::new("a"), &held).expect("the link itself");
        assert!(dir.path().join("else/hooks").exists());
    }
}
