//! What lies in a workspace that a program outside acts on, by names and stamps alone: no file is
//! read here, and no link is followed.
//!
//! Repositories are looked for in every folder, because git looks for them in every folder it is
//! started in. Inside of one, objects are passed over: they only hold content.

use super::autoruns::{self, Autorun};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a place is, and with it what a change of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A folder that git takes for a repository: `.git`, or a bare one.
    Repository,
    /// A file `.git`, which leads to a repository.
    Gitfile,
    /// `config` or `config.worktree`.
    Settings,
    /// A file that git would run: in `hooks`, or named by a setting.
    Hook,
    /// A folder that a setting names in the place of `hooks`; each file in it is a hook.
    Hooks,
    /// `info/attributes`.
    Attributes,
    /// `info/exclude`, `info/sparse-checkout`, `info/grafts`: what hides files or history.
    Excludes,
    /// `commondir`, `gitdir`, `objects/info/alternates` and the like: leads elsewhere.
    Redirect,
    /// A file of the old folders `remotes` and `branches`: an address.
    Remote,
    /// The list of what is left to do of a rebase or the like: it can name programs.
    Todo,
    /// A symbolic link where git has files and folders.
    Link,
    /// A folder that cannot be looked into.
    Unseen,
    /// A file that another program than git acts on by itself.
    Autorun,
}

impl Kind {
    /// Returns the name that stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Gitfile => "gitfile",
            Self::Settings => "settings",
            Self::Hook => "hook",
            Self::Hooks => "hooks",
            Self::Attributes => "attributes",
            Self::Excludes => "excludes",
            Self::Redirect => "redirect",
            Self::Remote => "remote",
            Self::Todo => "todo",
            Self::Link => "link",
            Self::Unseen => "unseen",
            Self::Autorun => "autorun",
        }
    }
}

/// What `fstatat(2)` says of a place, as far as a change of it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    dev: u64,
    ino: u64,
    /// Not of folders: what lies in one is looked at by itself.
    ctime: (i64, i64),
    size: i64,
    mode: u32,
    uid: u32,
}

impl Stamp {
    /// Returns whether two stamps are those of one file or folder of one owner.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.uid) == (other.dev, other.ino, other.uid)
    }

    /// Returns whether two stamps have one owner.
    pub(super) fn has_same_owner(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    pub(super) fn mode(&self) -> u32 {
        self.mode
    }

    pub(super) fn owner(&self) -> u32 {
        self.uid
    }
}

/// A place that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What it is.
    pub kind: Kind,
    /// What is known of it.
    pub stamp: Stamp,
}

/// Every place that counts, by its path below the workspace.
pub type Fingerprint = BTreeMap<PathBuf, Place>;

/// Names of git's folders in which only links count.
const LINKS_ONLY: [&[u8]; 2] = [b"refs", b"logs"];
/// Folders that hold what is left to do, and the files in them that can name programs.
const TODO: [(&[u8], &[u8]); 2] = [(b"rebase-merge", b"git-rebase-todo"), (b"sequencer", b"todo")];

/// Walks a workspace.
///
/// # Errors
/// The workspace itself cannot be read.
pub fn fingerprint(workspace: impl AsFd) -> io::Result<Fingerprint> {
    let mut walk = Walk { top: workspace.as_fd(), found: BTreeMap::new(), folders: Vec::new() };
    let whole = walk.list(Path::new(""))?;
    walk.folder(Path::new(""), &whole);
    while let Some(path) = walk.folders.pop() {
        if let Some(listed) = walk.seen(&path) {
            walk.folder(&path, &listed);
        }
    }
    Ok(walk.found)
}

/// Adds the files that settings name, where they are none that count already. Links within the
/// workspace are followed, as git follows them.
pub(super) fn add(workspace: impl AsFd, named: &BTreeMap<PathBuf, Kind>, to: &mut Fingerprint) {
    let mut walk = Walk { top: workspace.as_fd(), found: std::mem::take(to), folders: Vec::new() };
    for (path, kind) in named {
        if *kind == Kind::Hooks {
            let Some(listed) = walk.seen(path) else { continue };
            for (name, kind) in &listed.entries {
                let kind = if *kind == Type::Symlink { Kind::Link } else { Kind::Hook };
                walk.stamp(&listed.folder, name, path.join(&**name), kind);
            }
        } else if walk.found.get(path).is_none_or(|known| known.kind == Kind::Autorun)
            && let Ok(stat) = open_within(walk.top, path).and_then(|file| fstat(&file))
            && type_of(&stat) != SFlag::S_IFDIR
        {
            walk.place(&stat, path.clone(), *kind);
        }
    }
    *to = walk.found;
}

/// Returns whether a path of the workspace leads to a regular file in it.
pub(super) fn is_file(workspace: impl AsFd, path: &Path) -> bool {
    let stat = open_within(workspace.as_fd(), path).and_then(|file| fstat(&file));
    stat.is_ok_and(|stat| type_of(&stat) == SFlag::S_IFREG)
}

fn type_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn open_within(top: BorrowedFd<'_>, path: &Path) -> nix::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
    openat2(top, path, how)
}

/// Looks at the one repository of a workspace.
///
/// # Errors
/// As `openat2(2)` and `getdents64(2)`; `ENOENT` where there is none.
pub(super) fn repository(workspace: impl AsFd, path: &Path) -> io::Result<Fingerprint> {
    let mut walk = Walk { top: workspace.as_fd(), found: BTreeMap::new(), folders: Vec::new() };
    let listed = walk.list(path)?;
    walk.repository(path, &listed);
    Ok(walk.found)
}

struct Walk<'w> {
    top: BorrowedFd<'w>,
    found: Fingerprint,
    /// Folders that are still to be looked into.
    folders: Vec<PathBuf>,
}

/// An open folder with what is in it.
struct Listed {
    folder: OwnedFd,
    entries: Vec<(Box<OsStr>, Type)>,
}

impl Listed {
    fn has(&self, name: &[u8], kind: Type) -> bool {
        self.entries.iter().any(|(known, is)| known.as_bytes() == name && *is == kind)
    }

    fn is_repository(&self) -> bool {
        let folder = |name| self.has(name, Type::Directory) || self.has(name, Type::Symlink);
        let head = self.has(b"HEAD", Type::File) || self.has(b"HEAD", Type::Symlink);
        let common = self.has(b"commondir", Type::File) || self.has(b"commondir", Type::Symlink);
        head && ((folder(b"objects") && folder(b"refs")) || common)
    }
}

impl Walk<'_> {
    /// Opens a folder below the workspace, without a link on the way, and lists it.
    fn list(&self, path: &Path) -> io::Result<Listed> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let how = OpenHow::new().flags(flags).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        );
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let folder = openat2(self.top, path, how)?;
        let mut dir = Dir::from_fd(folder.try_clone()?)?;
        let mut entries = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            entries.push((Box::from(name), entry_type(&folder, name, entry.file_type())));
        }
        Ok(Listed { folder, entries })
    }

    /// Lists a folder; one that is gone is nothing, one that cannot be looked into is a place.
    fn seen(&mut self, path: &Path) -> Option<Listed> {
        match self.list(path) {
            Ok(listed) => Some(listed),
            Err(error) => {
                let gone = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP].map(|it| it as i32);
                if error.raw_os_error().is_none_or(|number| !gone.contains(&number)) {
                    let stamp = Stamp { dev: 0, ino: 0, ctime: (0, 0), size: 0, mode: 0, uid: 0 };
                    self.found.insert(path.to_owned(), Place { kind: Kind::Unseen, stamp });
                }
                None
            }
        }
    }

    fn stamp(&mut self, folder: impl AsFd, name: &OsStr, path: PathBuf, kind: Kind) {
        // What is gone by now is no place.
        if let Ok(stat) = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            self.place(&stat, path, kind);
        }
    }

    fn place(&mut self, stat: &FileStat, path: PathBuf, kind: Kind) {
        let counts = !matches!(kind, Kind::Repository | Kind::Unseen);
        let stamp = Stamp {
            dev: stat.st_dev,
            ino: stat.st_ino,
            ctime: if counts { (stat.st_ctime, stat.st_ctime_nsec) } else { (0, 0) },
            size: if counts { stat.st_size } else { 0 },
            mode: stat.st_mode,
            uid: stat.st_uid,
        };
        self.found.insert(path, Place { kind, stamp });
    }

    /// Looks at a folder of the project, and notes those in it.
    fn folder(&mut self, path: &Path, listed: &Listed) {
        let bare = listed.is_repository();
        if bare {
            self.repository(path, listed);
        }
        let all_run = autoruns::of_folder(path);
        for (name, kind) in &listed.entries {
            let below = || path.join(&**name);
            let is_git = name.as_bytes().eq_ignore_ascii_case(b".git");
            match kind {
                Type::Directory if is_git => {
                    if let Some(listed) = self.seen(&below()) {
                        self.repository(&below(), &listed);
                    }
                }
                Type::Symlink if is_git => self.stamp(&listed.folder, name, below(), Kind::Link),
                _ if is_git => self.stamp(&listed.folder, name, below(), Kind::Gitfile),
                Type::Directory if bare && is_gits(name) => {}
                Type::Directory => self.folders.push(below()),
                _ => {
                    let found: Option<&Autorun> = all_run.or_else(|| autoruns::of_file(path, name));
                    if found.is_some() {
                        self.stamp(&listed.folder, name, below(), Kind::Autorun);
                    }
                }
            }
        }
    }

    /// Looks at a repository.
    fn repository(&mut self, path: &Path, listed: &Listed) {
        self.stamp(&listed.folder, OsStr::new("."), path.to_owned(), Kind::Repository);
        for (name, kind) in &listed.entries {
            let below = || path.join(&**name);
            let file = match (name.as_bytes(), kind) {
                (_, Type::Symlink) => Some(Kind::Link),
                (_, Type::Directory) => None,
                (b"config" | b"config.worktree", _) => Some(Kind::Settings),
                (b"commondir" | b"gitdir", _) => Some(Kind::Redirect),
                _ => continue,
            };
            match (file, name.as_bytes()) {
                (Some(kind), _) => self.stamp(&listed.folder, name, below(), kind),
                (None, b"modules") => self.modules(&below()),
                (None, b"worktrees") => self.worktrees(&below()),
                (None, b"objects") => self.objects(&below()),
                (None, of_git) => self.files(&below(), of_git),
            }
        }
    }

    /// Looks at the files of one of git's folders.
    fn files(&mut self, path: &Path, folder: &[u8]) {
        let todo = TODO.iter().find(|(name, _)| *name == folder);
        let known = [b"hooks".as_slice(), b"info", b"remotes", b"branches"];
        let deep = LINKS_ONLY.contains(&folder) || folder == b"hooks";
        if !deep && !known.contains(&folder) && todo.is_none() {
            return;
        }
        let Some(listed) = self.seen(path) else { return };
        for (name, kind) in &listed.entries {
            let kind = match (kind, folder, name.as_bytes()) {
                (Type::Directory, ..) if deep => {
                    self.files(&path.join(&**name), folder);
                    continue;
                }
                (Type::Directory, ..) => continue,
                (Type::Symlink, ..) => Kind::Link,
                // Git gives these names as examples, and runs none of them.
                (_, b"hooks", name) if name.ends_with(b".sample") => continue,
                (_, b"hooks", _) => Kind::Hook,
                (_, b"info", b"attributes") => Kind::Attributes,
                (_, b"info", b"exclude" | b"sparse-checkout" | b"grafts") => Kind::Excludes,
                (_, b"remotes" | b"branches", _) => Kind::Remote,
                (_, _, name) if todo.is_some_and(|(_, file)| *file == name) => Kind::Todo,
                _ => continue,
            };
            self.stamp(&listed.folder, name, path.join(&**name), kind);
        }
    }

    /// Looks at what leads from the store of objects to another one.
    fn objects(&mut self, path: &Path) {
        let Some(listed) = self.seen(path) else { return };
        for (name, kind) in &listed.entries {
            if *kind == Type::Symlink {
                self.stamp(&listed.folder, name, path.join(&**name), Kind::Link);
            }
        }
        let info = path.join("info");
        let Some(listed) = self.seen(&info) else { return };
        for (name, kind) in &listed.entries {
            let kind = match (kind, name.as_bytes()) {
                (Type::Symlink, _) => Kind::Link,
                (_, b"alternates" | b"http-alternates") => Kind::Redirect,
                _ => continue,
            };
            self.stamp(&listed.folder, name, info.join(&**name), kind);
        }
    }

    /// Looks at the repositories of submodules, whose names may have slashes.
    fn modules(&mut self, path: &Path) {
        let Some(listed) = self.seen(path) else { return };
        if listed.is_repository() {
            return self.repository(path, &listed);
        }
        for (name, kind) in &listed.entries {
            match kind {
                Type::Directory => self.modules(&path.join(&**name)),
                Type::Symlink => {
                    self.stamp(&listed.folder, name, path.join(&**name), Kind::Link);
                }
                _ => {}
            }
        }
    }

    /// Looks at what a repository keeps for its linked worktrees.
    fn worktrees(&mut self, path: &Path) {
        let Some(listed) = self.seen(path) else { return };
        for (name, kind) in &listed.entries {
            let below = path.join(&**name);
            if *kind == Type::Symlink {
                self.stamp(&listed.folder, name, below, Kind::Link);
            } else if let Some(listed) = self.seen(&below) {
                self.repository(&below, &listed);
            }
        }
    }
}

/// Returns what an entry is; some file systems do not say it in the list.
fn entry_type(folder: impl AsFd, name: &OsStr, listed: Option<Type>) -> Type {
    if let Some(kind) = listed {
        return kind;
    }
    let Ok(stat) = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return Type::File };
    match type_of(&stat) {
        SFlag::S_IFDIR => Type::Directory,
        SFlag::S_IFLNK => Type::Symlink,
        _ => Type::File,
    }
}

/// Returns whether a bare repository has this folder for itself.
fn is_gits(name: &OsStr) -> bool {
    let known = ["objects", "refs", "logs", "hooks", "info", "modules", "worktrees"];
    known.iter().any(|known| name == *known)
}
