//! The only file operations of the trail, each with what makes it durable.
//!
//! Every name is looked up relative to the opened trail folder and no link is followed, so
//! what was checked is what is used. Readers of a copy (`read`, `verify`) do not come here: they
//! write nothing and must work where none of these checks can hold.
#![forbid(unsafe_code)]

use super::error::Error;
use crate::record::Text;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::Uid;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What every open has: no link as the last component, nothing inherited by a child.
const ALWAYS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// The opened trail folder.
#[derive(Debug)]
pub(super) struct Folder {
    handle: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, made if it is missing, and checks it and the state folder it lies in.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path)
            .map_err(|error| Error::io("find the folder", path, &error))?;
        let open = || {
            let flags = (ALWAYS | OFlag::O_DIRECTORY).bits();
            OpenOptions::new().read(true).custom_flags(flags).open(&path)
        };
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folders(&path)?;
                open()
            }
            other => other,
        };
        let handle = match opened {
            Ok(handle) => handle,
            // The kernel answers ENOTDIR or ELOOP for a link, which says little to a person.
            Err(_) if path.is_symlink() => {
                return Err(Error::Unsafe {
                    why: "is a symbolic link".to_owned(),
                    next: "name the folder that it leads to".to_owned(),
                    path,
                });
            }
            Err(error) => return Err(Error::io("open", &path, &error)),
        };
        if let Some(state) = path.parent() {
            check(state, &state.metadata().map_err(|error| Error::io("look at", state, &error))?)?;
        }
        check(&path, &handle.metadata().map_err(|error| Error::io("look at", &path, &error))?)?;
        Ok(Self { handle, path })
    }

    /// Returns the path of a file in the folder, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Lists the names in the folder that are UTF-8; all of ours are.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let list = || -> io::Result<Vec<String>> {
            let entries = std::fs::read_dir(&self.path)?;
            let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
            Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        list().map_err(|error| Error::io("list", &self.path, &error))
    }

    /// Opens a file for reading and appending; with `create` it is made if it is missing. The
    /// name is durable only after [`Folder::sync`].
    pub(super) fn append_to(&self, name: &str, create: bool) -> Result<LogFile, Error> {
        let mut flags = OFlag::O_RDWR | OFlag::O_APPEND;
        flags.set(OFlag::O_CREAT, create);
        let path = self.path_of(name);
        let file = self.open_at(name, flags).map_err(|error| Error::io("open", &path, &error))?;
        let meta = file.metadata().map_err(|error| Error::io("look at", &path, &error))?;
        if !meta.is_file() {
            return Err(Error::Unsafe {
                path,
                why: "is not a regular file".to_owned(),
                next: "move it aside".to_owned(),
            });
        }
        check(&path, &meta)?;
        Ok(LogFile { file, path })
    }

    /// Reads a small file whole; `None` if it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        match self.open_at(name, OFlag::O_RDONLY) {
            Ok(mut file) => io::Read::read_to_end(&mut file, &mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error),
        }
        .map_err(|error| Error::io("read", &self.path_of(name), &error))?;
        Ok(Some(bytes))
    }

    /// Writes a whole file so that, after any crash, it is there with all its bytes or not at
    /// all: under another name first, synced, renamed, and the folder synced.
    pub(super) fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let draft = format!("{name}.new");
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        self.open_at(&draft, flags)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .map_err(|error| Error::io("write", &self.path_of(&draft), &error))?;
        renameat(&self.handle, draft.as_str(), &self.handle, name)
            .map_err(|errno| Error::io("rename to", &self.path_of(name), &errno.into()))?;
        self.sync()
    }

    /// Makes the folder's names durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.handle.sync_all().map_err(|error| Error::io("sync", &self.path, &error))
    }

    /// Makes the names of the folders above durable, as far as they can be opened: a process
    /// that was killed may have made them without coming to their sync.
    pub(super) fn sync_above(&self) {
        for folder in self.path.ancestors().skip(1) {
            File::open(folder).and_then(|folder| folder.sync_all()).ok();
        }
    }

    fn open_at(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(File::from(openat(&self.handle, name, flags | ALWAYS, mode)?))
    }
}

/// Makes the folder and what is missing above it, each with 0700 and each synced into the one
/// above it.
fn make_folders(path: &Path) -> Result<(), Error> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make the folder", folder, &error));
            }
            _ => {}
        }
        let above = folder.parent().unwrap_or(folder);
        File::open(above)
            .and_then(|above| above.sync_all())
            .map_err(|error| Error::io("sync", above, &error))?;
    }
    Ok(())
}

/// Refuses what somebody else could change: evidence that others can write is none.
fn check(path: &Path, meta: &Metadata) -> Result<(), Error> {
    let user = Uid::effective();
    let fault = |why: String, next: String| Err(Error::Unsafe { path: path.to_owned(), why, next });
    if meta.uid() != user.as_raw() && meta.uid() != 0 {
        return fault(
            format!("belongs to user {}, not to user {user} or root", meta.uid()),
            "run as its owner, or set PINFOLD_HOME to a folder of this user".to_owned(),
        );
    }
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return fault(
            format!("can be written by others (mode {mode:04o})"),
            format!("look at who changed it, then `chmod go-w {}`", Text::from(path).escaped()),
        );
    }
    Ok(())
}

/// A file of the trail that is open for reading and appending.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
}

impl LogFile {
    /// Returns its path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length. A file that lost its name keeps nothing, so that is an error.
    pub(super) fn len(&self) -> Result<u64, Error> {
        let meta = self.file.metadata().map_err(|error| self.fail("look at", &error))?;
        if meta.nlink() == 0 {
            return Err(Error::Unsafe {
                path: self.path.clone(),
                why: "was deleted while it was in use".to_owned(),
                next: "look at who deleted it; a new trail begins with the next call".to_owned(),
            });
        }
        Ok(meta.len())
    }

    /// Reads `length` bytes from `offset`.
    pub(super) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| self.fail("read", &error))?;
        Ok(bytes)
    }

    /// Appends; not durable before [`LogFile::sync`]. After an error part of it may be there.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        (&self.file).write_all(bytes).map_err(|error| self.fail("write to", &error))
    }

    /// Makes the content durable. After an error nobody knows what is on the disk, and the
    /// kernel reports it once only: it must never be tried again.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| self.fail("sync", &error))
    }

    /// Cuts the file to a length.
    pub(super) fn truncate(&self, length: u64) -> Result<(), Error> {
        self.file.set_len(length).map_err(|error| self.fail("shorten", &error))
    }

    /// Waits for the lock of this file. Another process holds it for one write and one sync,
    /// and the kernel takes it from a process that ends.
    pub(super) fn lock(&self) -> Result<Held<'_>, Error> {
        loop {
            match self.file.lock() {
                Ok(()) => return Ok(Held(&self.file)),
                Err(error) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
                Err(error) => return Err(self.fail("lock", &error)),
            }
        }
    }

    fn fail(&self, act: &'static str, error: &io::Error) -> Error {
        Error::io(act, &self.path, error)
    }
}

/// The lock, until this value is dropped.
#[derive(Debug)]
pub(super) struct Held<'f>(&'f File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Unlocking an open file cannot fail, and closing it would unlock it anyway.
        self.0.unlock().ok();
    }
}
