//! Whether a change of what programs outside act on is harmless.
//!
//! Only what differs is read, and what cannot be read or understood is not harmless.

use super::autoruns;
use super::named::{self, Named};
use super::settings::{self, Setting};
use super::walk::{self, Fingerprint, Kind, Place};
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Largest file that is read or kept, in bytes; git's own are a few hundred.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Most that is kept of one workspace, in bytes; a change of what is not kept is one of something
/// new.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The repository of a workspace.
pub(super) const TOP: &str = ".git";

/// Returns whether a place is never moved away as a whole, so that what lies in it has to be found
/// by itself: the project's own repository. What leads to one in its place is moved away.
pub(super) fn is_kept_whole(path: &Path, kind: Kind) -> bool {
    path == Path::new(TOP) && !matches!(kind, Kind::Link | Kind::Gitfile)
}

/// What a workspace looked like: names and stamps, and the content of what may have to be put
/// back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Names and stamps.
    pub places: Fingerprint,
    /// Contents.
    pub kept: BTreeMap<PathBuf, Vec<u8>>,
    /// What settings name in the workspace.
    pub named: Named,
}

/// A change that is not harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Where, below the workspace.
    #[serde(with = "super::memory::path")]
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// What is wrong with it.
    pub what: String,
    /// Whether there is something to move away.
    pub is_there: bool,
}

/// What became of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// What is not harmless.
    pub found: Vec<Finding>,
    /// Files that other programs act on, and why they do.
    pub noticed: Vec<(PathBuf, &'static str)>,
}

impl Snapshot {
    /// Looks at a workspace, whose own path is `path`, and reads what may have to be put back.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub fn take(workspace: impl AsFd, path: &Path) -> io::Result<Self> {
        let mut places = walk::fingerprint(&workspace)?;
        walk::add(&workspace, path, &Named::new(), &mut places);
        let mut kept = BTreeMap::new();
        // Settings come first: by them it is known where else to look.
        keep(&workspace, &places, &mut kept, |kind| kind == Kind::Settings);
        let named = named::follow(&workspace, path, &mut places, &mut kept);
        keep(&workspace, &places, &mut kept, is_kept);
        Ok(Self { places, kept, named })
    }

    /// Looks at the workspace once more.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub(super) fn again(&self, workspace: impl AsFd, path: &Path) -> io::Result<Fingerprint> {
        let mut places = walk::fingerprint(&workspace)?;
        walk::add(workspace, path, &self.named, &mut places);
        Ok(places)
    }
}

/// Reads the contents of places that are not read yet, as far as there is room.
fn keep(
    workspace: impl AsFd,
    places: &Fingerprint,
    kept: &mut BTreeMap<PathBuf, Vec<u8>>,
    chosen: fn(Kind) -> bool,
) {
    let mut size: usize = kept.values().map(Vec::len).sum();
    for (path, _) in places.iter().filter(|(_, place)| chosen(place.kind)) {
        if size >= KEPT_BYTES_MAX {
            return;
        }
        if !kept.contains_key(path)
            && let Ok(content) = read(&workspace, path)
        {
            size += content.len();
            kept.insert(path.clone(), content);
        }
    }
}

fn is_kept(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Settings
            | Kind::Hook
            | Kind::Attributes
            | Kind::Excludes
            | Kind::Redirect
            | Kind::Remote
            | Kind::Gitfile
            | Kind::Todo
            | Kind::Strategy
    )
}

/// Reads a small file below the workspace, without a link on the way.
pub(super) fn read(workspace: impl AsFd, path: &Path) -> io::Result<Vec<u8>> {
    // A pipe would make the opening wait.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::from(walk::open_below(workspace, path, flags)?);
    let mode = nix::sys::stat::fstat(&file)?.st_mode;
    if SFlag::from_bits_truncate(mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is too large"));
    }
    Ok(content)
}

/// Says what of the changes since `before` is not harmless.
pub(super) fn changes(before: &Snapshot, after: &Fingerprint, workspace: impl AsFd) -> Changes {
    let mut judge = Judge { before, workspace, changes: Changes::default(), covered: None };
    for (path, place) in after {
        let known = before.places.get(path);
        // What lies in a folder follows it directly.
        if known != Some(place) && !judge.covered.as_ref().is_some_and(|it| path.starts_with(it)) {
            judge.place(path, place, known);
        }
    }
    for (path, place) in before.places.iter().filter(|(path, _)| !after.contains_key(*path)) {
        judge.gone(path, place, after);
    }
    judge.changes
}

struct Judge<'j, W> {
    before: &'j Snapshot,
    workspace: W,
    changes: Changes,
    /// The last folder that was found as a whole.
    covered: Option<PathBuf>,
}

impl<W: AsFd> Judge<'_, W> {
    fn find(&mut self, path: &Path, kind: Kind, what: impl Into<String>) {
        let (path, what) = (path.to_owned(), what.into());
        self.changes.found.push(Finding { path, kind, what, is_there: true });
    }

    fn place(&mut self, path: &Path, place: &Place, known: Option<&Place>) {
        if let Some(known) = known
            && !known.stamp.has_same_owner(&place.stamp)
        {
            return self.find(path, place.kind, "it belongs to another user than before");
        }
        match place.kind {
            Kind::Autorun => {
                let (folder, name) = (path.parent(), path.file_name());
                let folder = folder.unwrap_or(Path::new(""));
                let by_name = || autoruns::of_file(folder, name?);
                if let Some(entry) = path.ancestors().find_map(autoruns::of_folder).or_else(by_name)
                {
                    self.changes.noticed.push((path.to_owned(), entry.why));
                }
            }
            Kind::Repository => self.repository(path, place, known),
            Kind::Link => self.find(path, Kind::Link, "a symbolic link where git has its own"),
            Kind::Unseen => self.find(path, Kind::Unseen, "a folder that cannot be looked into"),
            kind => self.file(path, kind, known.is_some_and(|it| same_mode(it, place))),
        }
    }

    fn repository(&mut self, path: &Path, place: &Place, known: Option<&Place>) {
        if known.is_some_and(|known| known.stamp.is_same_file(&place.stamp)) {
            return;
        }
        let what = match known {
            Some(_) => "a repository that another one was put in place of",
            // The project's own repository is judged by what lies in it.
            None if path == Path::new(TOP) => return,
            // The workspace itself cannot be moved away; without this file it is no repository.
            None if path.as_os_str().is_empty() => {
                let what = "it makes the workspace a bare repository";
                return self.find(Path::new("HEAD"), Kind::Repository, what);
            }
            None if path.starts_with(TOP) => "a repository of a submodule or a worktree",
            None if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(TOP)) => {
                "a repository inside of the project"
            }
            None => "a folder that git takes for a bare repository",
        };
        self.find(path, Kind::Repository, what);
        if !is_kept_whole(path, Kind::Repository) {
            self.covered = Some(path.to_owned());
        }
    }

    /// Judges a file by its content; `same_mode` says that owner and mode are what they were.
    fn file(&mut self, path: &Path, kind: Kind, same_mode: bool) {
        let before = self.before.kept.get(path);
        let now = match read(&self.workspace, path) {
            Ok(now) => now,
            // It is gone already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.find(path, kind, format!("it cannot be read: {error}")),
        };
        if same_mode && before == Some(&now) {
            return;
        }
        if let Some(what) = harm(kind, before.map(Vec::as_slice), &now) {
            self.find(path, kind, what);
        }
    }

    /// Judges what is not there any more: where the repository is, a check of the project's may
    /// have been taken away.
    fn gone(&mut self, path: &Path, place: &Place, after: &Fingerprint) {
        if place.kind == Kind::Autorun {
            return self.changes.noticed.push((path.to_owned(), "it is gone"));
        }
        let counts = matches!(place.kind, Kind::Hook | Kind::Settings | Kind::Attributes);
        let places = &self.before.places;
        let is_repository =
            |path: &&Path| places.get(*path).is_some_and(|it| it.kind == Kind::Repository);
        let repository = path.ancestors().skip(1).find(is_repository);
        let named = &self.before.named;
        let is_named = named.contains_key(path)
            || path.parent().is_some_and(|above| named.get(above) == Some(&Kind::Hooks));
        if counts && (is_named || repository.is_some_and(|path| after.contains_key(path))) {
            let (path, kind, what) = (path.to_owned(), place.kind, "it is gone".to_owned());
            self.changes.found.push(Finding { path, kind, what, is_there: false });
        }
    }
}

fn same_mode(known: &Place, place: &Place) -> bool {
    known.stamp.mode() == place.stamp.mode()
}

/// Says what is wrong with the content of a file, if anything is.
fn harm(kind: Kind, before: Option<&[u8]>, now: &[u8]) -> Option<String> {
    let lines = || now.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let says = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#");
    let is_empty = now.trim_ascii().is_empty();
    match kind {
        Kind::Settings => new_settings(before, now),
        Kind::Hook => Some("git runs it".to_owned()),
        Kind::Gitfile => Some("it leads git to another folder".to_owned()),
        Kind::Redirect => (!is_empty).then(|| "it leads git to another folder".to_owned()),
        Kind::Remote => (!is_empty).then(|| "git takes an address from it".to_owned()),
        Kind::Attributes => {
            let names = |line: &[u8]| {
                line.split(u8::is_ascii_whitespace).skip(1).any(|word| word.contains(&b'='))
            };
            let what = "it chooses programs that git runs on files";
            lines().filter(says).any(names).then(|| what.to_owned())
        }
        Kind::Excludes => {
            let what = "it hides files or history from who looks";
            lines().find(says).map(|_| what.to_owned())
        }
        Kind::Todo => {
            let runs = |line: &[u8]| {
                let word = line.split(u8::is_ascii_whitespace).next();
                word.is_some_and(|word| [b"exec".as_slice(), b"x"].contains(&word))
            };
            lines().any(runs).then(|| "git runs commands in it when it goes on".to_owned())
        }
        // Git runs `git-merge-` and this name; with a slash it is looked up in the working folder.
        Kind::Strategy => now.contains(&b'/').then(|| "it names a program to merge by".to_owned()),
        _ => Some("it changed".to_owned()),
    }
}

/// Says how the settings that could start a program or lead elsewhere differ.
fn new_settings(before: Option<&[u8]>, now: &[u8]) -> Option<String> {
    let known = before.and_then(|text| settings::parse(text).ok()).unwrap_or_default();
    let settings = match settings::parse(now) {
        Ok(settings) => settings,
        Err(line) => return Some(format!("line {line} is nothing that git's settings may have")),
    };
    let counts = |settings: Vec<Setting>| -> Vec<Setting> {
        settings.into_iter().filter(|setting| !setting.is_plain()).collect()
    };
    let (known, settings) = (counts(known), counts(settings));
    let only = |these: &[Setting], those: &[Setting]| {
        let these = these.iter().filter(|setting| !those.contains(setting));
        let mut keys: Vec<String> = these.map(Setting::key).collect();
        keys.dedup();
        keys.join(", ")
    };
    let (new, gone) = (only(&settings, &known), only(&known, &settings));
    match (new.is_empty(), gone.is_empty()) {
        (false, _) => Some(format!("it sets {new}")),
        // The last of several values counts, so one that is taken away lets another one through.
        (true, false) => Some(format!("it sets {gone} no more")),
        (true, true) => (known != settings).then(|| "its settings have another order".to_owned()),
    }
}
