//! What lies in a workspace that a program outside acts on, by names and stamps alone: no file is
//! read here, and no link is followed.
//!
//! Repositories are looked for in every folder, because git looks for them in every folder it is
//! started in. Inside of one, objects are passed over: they only hold content.

use super::autoruns::{self, Autorun};
use super::named::{self, Named};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstatat};
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
    /// How that is merged: it can name a program.
    Strategy,
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
            Self::Strategy => "strategy",
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

/// Folders that hold what is left to do, and the files in them that can name programs.
const TODO: [(&[u8], &[u8], Kind); 4] = [
    (b"rebase-merge", b"git-rebase-todo", Kind::Todo),
    (b"rebase-merge", b"strategy", Kind::Strategy),
    (b"sequencer", b"todo", Kind::Todo),
    (b"sequencer", b"opts", Kind::Strategy),
];

/// Most links on the way to one place, as in the kernel.
const LINKS_MAX: usize = 40;

/// Walks a workspace.
///
/// # Errors
/// The workspace itself cannot be read.
pub fn fingerprint(workspace: impl AsFd) -> io::Result<Fingerprint> {
    let mut walk = Walk { top: workspace.as_fd(), found: BTreeMap::new(), folders: Vec::new() };
    let whole = walk.list(Path::new(""))?;
    walk.folder(Path::new(""), &whole, None);
    while let Some((path, all_run)) = walk.folders.pop() {
        if let Some(listed) = walk.seen(&path) {
            walk.folder(&path, &listed, all_run);
        }
    }
    Ok(walk.found)
}

/// Opens what lies below a workspace, or the workspace itself, without a link on the way.
pub(super) fn open_below(workspace: impl AsFd, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(workspace, path, how)
}

/// Adds to a fingerprint what settings name, and what git's own links lead to; `path` is the
/// workspace's own.
pub(super) fn add(workspace: impl AsFd, path: &Path, named: &Named, to: &mut Fingerprint) {
    let mut walk = Walk { top: workspace.as_fd(), found: std::mem::take(to), folders: Vec::new() };
    let links = walk.found.iter().filter(|(_, place)| place.kind == Kind::Link);
    let links = links.filter_map(|(link, _)| Some((link.clone(), linked(link)?)));
    let named = named.iter().map(|(place, kind)| (place.clone(), *kind));
    let mut leads: Vec<Lead> = links.chain(named).collect();
    // A link to a link, and so on, is followed as often as git may follow it, and no further.
    for _ in 0..LINKS_MAX {
        leads = leads.into_iter().filter_map(|lead| walk.lead(path, lead)).collect();
    }
    *to = walk.found;
}

/// A place below the workspace, and what git would take it for.
type Lead = (PathBuf, Kind);

/// What git takes from behind a link of its own.
fn linked(path: &Path) -> Option<Kind> {
    let is_hooks = |path: &Path| path.file_name().is_some_and(|name| name == "hooks");
    let name = path.file_name()?;
    match path.parent() {
        _ if is_hooks(path) => Some(Kind::Hooks),
        Some(above) if is_hooks(above) => Some(Kind::Hook),
        _ if name == "config" || name == "config.worktree" => Some(Kind::Settings),
        _ => None,
    }
}

fn type_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
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
    /// Folders that are still to be looked into, and why every file of one is acted on.
    folders: Vec<(PathBuf, Option<&'static Autorun>)>,
}

/// An open folder with what is in it.
struct Listed {
    folder: OwnedFd,
    entries: Vec<(Box<OsStr>, Type)>,
}

impl Listed {
    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Returns whether git takes the folder for a repository. It asks of `objects` and `refs` only
    /// whether they may be searched, which a file that can be executed may, too.
    fn is_repository(&self) -> bool {
        self.has("HEAD") && ((self.has("objects") && self.has("refs")) || self.has("commondir"))
    }
}

impl Walk<'_> {
    fn open(&self, path: &Path) -> nix::Result<OwnedFd> {
        open_below(self.top, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK)
    }

    /// Opens a folder below the workspace, without a link on the way, and lists it.
    fn list(&self, path: &Path) -> io::Result<Listed> {
        let folder = self.open(path)?;
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

    /// Looks at what is led to, unless it counts already; where that is a link, gives what it leads
    /// to in turn.
    fn lead(&mut self, workspace: &Path, (path, kind): Lead) -> Option<Lead> {
        if kind == Kind::Hooks
            && let Ok(listed) = self.list(&path)
        {
            for (name, entry) in &listed.entries {
                let kind = match entry {
                    Type::Directory => continue,
                    Type::Symlink => Kind::Link,
                    _ => Kind::Hook,
                };
                self.stamp(&listed.folder, name, path.join(&**name), kind);
            }
            return None;
        }
        // A folder that cannot be opened is a place of its own already.
        let (name, above) = (path.file_name()?, path.parent()?);
        let folder = self.open(above).ok()?;
        let stat = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        match type_of(&stat) {
            SFlag::S_IFLNK => {
                self.place(&stat, path.clone(), Kind::Link);
                let to = readlinkat(&folder, name).ok()?;
                return Some((named::below(workspace, above, Path::new(&to))?, kind));
            }
            SFlag::S_IFDIR => {}
            _ if self.found.get(&path).is_none_or(|known| known.kind == Kind::Autorun) => {
                self.place(&stat, path, kind);
            }
            _ => {}
        }
        None
    }

    /// Looks at a folder of the project, and notes those in it.
    fn folder(&mut self, path: &Path, listed: &Listed, above: Option<&'static Autorun>) {
        let bare = listed.is_repository();
        if bare {
            self.repository(path, listed);
        }
        let all_run = above.or_else(|| autoruns::of_folder(path));
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
                Type::Directory => self.folders.push((below(), all_run)),
                _ => {
                    let found = all_run.or_else(|| autoruns::of_file(path, name));
                    // A link can stand in the place of a folder.
                    let is_link = *kind == Type::Symlink;
                    if found.is_some() || is_link && autoruns::of_folder(&below()).is_some() {
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
            // On some file systems git finds a name in whatever letters it is written.
            let lower = name.as_bytes().to_ascii_lowercase();
            let file = match (lower.as_slice(), kind) {
                (_, Type::Symlink) => Some(Kind::Link),
                (_, Type::Directory) => None,
                (b"config" | b"config.worktree", _) => Some(Kind::Settings),
                (b"commondir" | b"gitdir", _) => Some(Kind::Redirect),
                _ => continue,
            };
            match (file, lower.as_slice()) {
                (Some(kind), _) => self.stamp(&listed.folder, name, below(), kind),
                (None, b"modules") => self.modules(&below()),
                (None, b"worktrees") => self.worktrees(&below()),
                (None, b"objects") => self.objects(&below()),
                (None, of_git) => self.files(&below(), of_git),
            }
        }
    }

    /// Looks at the files of one of git's folders. Links count in all of them: git writes through
    /// some, such as those of `rr-cache`.
    fn files(&mut self, path: &Path, folder: &[u8]) {
        let todo = TODO.iter().filter(|(name, ..)| *name == folder);
        let Some(listed) = self.seen(path) else { return };
        for (name, kind) in &listed.entries {
            let lower = name.as_bytes().to_ascii_lowercase();
            let kind = match (kind, folder, lower.as_slice()) {
                (Type::Directory, ..) => {
                    self.files(&path.join(&**name), folder);
                    continue;
                }
                (Type::Symlink, ..) => Kind::Link,
                // Git gives these names as examples, and runs none of them.
                (_, b"hooks", name) if name.ends_with(b".sample") => continue,
                (_, b"hooks", _) => Kind::Hook,
                (_, b"info", b"attributes") => Kind::Attributes,
                (_, b"info", b"exclude" | b"sparse-checkout" | b"grafts") => Kind::Excludes,
                (_, b"remotes" | b"branches", _) => Kind::Remote,
                (_, _, name) => match todo.clone().find(|(_, file, _)| *file == name) {
                    Some((_, _, kind)) => *kind,
                    None => continue,
                },
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
            let kind = match (kind, name.as_bytes().to_ascii_lowercase().as_slice()) {
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
