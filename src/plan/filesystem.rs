//! Profile part to plan part: what the command sees and what it may do with it.
//!
//! The mounts and the Landlock rules are two answers to the same question, made from the same
//! entries: what is not mounted cannot be named, and what has no rule cannot be used. Neither
//! is assumed to be complete.

mod alone;
mod pieces;
mod repository;
mod system;
mod watched;

use super::workspace::{Inode, Lookup};
use super::{Call, Toolchain, as_text};
use crate::profile::{Entry, Make, MakeSet, PathSpec, Profile, Root};
use crate::record::{Code, Refusal};
use crate::sys::landlock::Rights;
use serde::Serialize;
use std::path::{Path, PathBuf};
pub use watched::Watched;

/// How a plan writes a scratch folder that is one of the host's.
pub const TMP_TOKEN: &str = "{tmp}";
/// Where a view has the command's scratch folder.
pub const TMP: &str = "/tmp";
/// Why every view has the system's files.
const SYSTEM_PLACE: &str = "always: no program runs without the system's files";
/// Why every view has file systems of its own.
const NEW_PLACE: &str = "always: a view has these for itself";
/// File systems that every view has of its own: what kind, where, and what it holds.
const NEW: [(&str, &str, &str); 5] = [
    ("tmpfs", "/", "folders and links on the way, /etc/passwd, /etc/group; read-only"),
    ("proc", "/proc", "the run's own processes; read-only"),
    ("devpts", "/dev/pts", "terminals of the run's own"),
    ("tmpfs", TMP, "the scratch folder"),
    ("tmpfs", "/dev/shm", "shared memory, with the size and rights of the scratch folder"),
];

/// The command's home folder, below its scratch folder.
pub const HOME: &str = "home";

/// Size of the scratch folder where the profile names none, in bytes.
const TMP_BYTES: u64 = 64 << 20;
/// Files and folders in it where the profile names no number.
const TMP_INODES: u64 = 16_384;

/// One mount or file of the view, in the order in which they are made.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Mount {
    /// A file system of the view's own; which ones there are is the same for every run.
    New {
        /// Its kind.
        kind: &'static str,
        /// Where it is seen.
        path: &'static str,
        /// What it holds.
        holds: &'static str,
        /// Why it is there.
        place: &'static str,
    },
    /// A folder or file of the host, read-only unless `writable`, at its own path.
    Host {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// Whether it can be written.
        writable: bool,
        /// Whether it is a folder.
        folder: bool,
        /// The profile's line.
        place: String,
    },
    /// A place of the host that is covered.
    HostMask {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// What it must be.
        inode: Inode,
        /// Whether it is a folder.
        folder: bool,
        /// The profile's line.
        place: String,
    },
    /// A symbolic link.
    Link {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// What it points at.
        #[serde(serialize_with = "as_text")]
        to: PathBuf,
        /// Why it is there.
        place: &'static str,
    },
    /// A device file of the host.
    Device {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// Its device number.
        rdev: u64,
        /// Why it is there.
        place: &'static str,
    },
    /// A folder or file of a registered worktree's repository, at its own path. The first is the
    /// folder that all worktrees share, the others lie on top of it.
    Repository {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// What it must be.
        inode: Inode,
        /// Whether it can be written.
        writable: bool,
        /// The profile's line.
        place: String,
    },
    /// A part of the workspace.
    Piece(Piece),
    /// A place below a piece that is held by a mount of its own, so that it cannot be renamed.
    Hold {
        /// Index of the piece.
        piece: usize,
        /// The path below the piece.
        #[serde(serialize_with = "as_text")]
        rest: PathBuf,
        /// What it must be.
        inode: Inode,
        /// Whether it can be written.
        writable: bool,
        /// Whether it is a folder.
        folder: bool,
        /// The profile's line.
        place: String,
    },
    /// A place below a piece that is covered.
    Mask {
        /// Index of the piece.
        piece: usize,
        /// The path below the piece.
        #[serde(serialize_with = "as_text")]
        rest: PathBuf,
        /// What it must be.
        inode: Inode,
        /// Whether it is a folder.
        folder: bool,
        /// The profile's line.
        place: String,
    },
}

/// A part of the workspace that is seen.
#[derive(Debug, Clone, Serialize)]
pub struct Piece {
    /// The path below the workspace, all links followed; empty for the whole.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Where it is seen, below the workspace.
    #[serde(serialize_with = "as_text")]
    pub at: PathBuf,
    /// What it must be.
    pub inode: Inode,
    /// Whether it is a folder.
    pub folder: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// The profile's lines.
    pub place: String,
}

/// The scratch folder.
#[derive(Debug, Serialize)]
pub struct Scratch {
    /// Where it is: `/tmp` in a view, else a folder of the host.
    #[serde(skip)]
    pub path: PathBuf,
    /// How a plan writes where it is: `/tmp`, or `{tmp}` for a folder of the host. Which folder
    /// that is depends on what else runs, so a plan must not differ by it.
    #[serde(rename = "path")]
    pub written: &'static str,
    /// Its size in bytes, where it is a file system of its own.
    pub size: Option<u64>,
    /// How many files and folders it holds, likewise.
    pub inodes: Option<u64>,
    /// Whether what lies in it can be executed.
    pub executable: bool,
}

/// What a Landlock rule is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAt {
    /// A path of the host.
    Host(#[serde(serialize_with = "as_text")] PathBuf),
    /// The scratch folder, where it is one of the host's.
    Scratch(#[serde(serialize_with = "as_token")] PathBuf),
    /// A path below the workspace, which must be this file.
    Inside(#[serde(serialize_with = "as_text")] PathBuf, Inode),
    /// An absolute path of a registered worktree's repository, which must be this file.
    Repository(#[serde(serialize_with = "as_text")] PathBuf, Inode),
    /// A path that only exists in the view, or for the process itself.
    View(#[serde(serialize_with = "as_text")] PathBuf),
    /// A device file of the host, which must have this number.
    Device(#[serde(serialize_with = "as_text")] PathBuf, u64),
}

/// A Landlock rule.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// The place.
    pub at: RuleAt,
    /// What may be done there.
    #[serde(serialize_with = "rights_as_text")]
    pub rights: Rights,
    /// Where it comes from.
    pub place: String,
}

fn as_token<S: serde::Serializer>(_: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(TMP_TOKEN)
}

fn rights_as_text<S: serde::Serializer>(rights: &Rights, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&rights.known())
}

/// Everything about files.
#[derive(Debug, Serialize)]
pub struct View {
    /// Mounts, in order.
    pub mounts: Vec<Mount>,
    /// The scratch folder.
    pub scratch: Scratch,
    /// Whether what lies in the workspace can be executed.
    pub workspace_executable: bool,
    /// Landlock rules.
    pub rules: Vec<Rule>,
}

impl View {
    /// Returns the pieces of the workspace, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Piece(piece) => Some(piece),
            _ => None,
        })
    }

    /// Returns whether a piece lies below another one that is a folder: then it is seen through
    /// that, and never attached.
    pub fn is_seen_through_another(&self, piece: &Piece) -> bool {
        self.pieces()
            .any(|other| other.folder && other.at != piece.at && piece.at.starts_with(&other.at))
    }
}

impl Scratch {
    /// Returns the command's home folder.
    pub fn home(&self) -> PathBuf {
        self.path.join(HOME)
    }
}

/// Makes the view. `notes` gets what a reader of the record must know. With `scratch`, a folder of
/// the host, there are no mounts and the rules stand alone.
///
/// # Errors
/// Refusals for a missing writable path, a link where none may be, a masked file with other
/// names, and a path that must not exist yet.
pub fn view(
    call: &Call<'_>,
    profile: &Profile,
    toolchains: &[&Toolchain],
    scratch: Option<&Path>,
    notes: &mut Vec<String>,
) -> Result<View, Refusal> {
    let mut build =
        Builder { call, profile, mounts: Vec::new(), rules: Vec::new(), pieces: Vec::new(), notes };
    let place = NEW_PLACE;
    let new = |(kind, path, holds)| Mount::New { kind, path, holds, place };
    build.mounts.extend(NEW.map(new));
    build.system();
    build.entries_of_host(toolchains)?;
    build.absent()?;
    build.repository()?;
    build.workspace()?;
    build.programs();
    let limits = &profile.limits;
    let host_folder = scratch;
    let scratch = Scratch {
        path: host_folder.unwrap_or(Path::new(TMP)).to_owned(),
        written: if host_folder.is_some() { TMP_TOKEN } else { TMP },
        size: host_folder.is_none().then(|| limits.tmp.unwrap_or(TMP_BYTES)),
        inodes: host_folder.is_none().then(|| limits.tmp_inodes.unwrap_or(TMP_INODES)),
        executable: executes(profile, |root| matches!(root, Root::Tmp | Root::Home)),
    };
    build.scratch_rules(&scratch);
    if let Some(folder) = host_folder {
        build.rules = build.rules_alone(folder)?;
        build.mounts.clear();
    }
    let Builder { mounts, mut rules, .. } = build;
    rules.retain(|rule| !rule.rights.known().is_none());
    let workspace_executable = executes(profile, |root| root == Root::Workspace);
    Ok(View { mounts, scratch, workspace_executable, rules })
}

fn executes(profile: &Profile, root: impl Fn(Root) -> bool) -> bool {
    profile.execute.iter().any(|entry| root(entry.path.root))
}

struct Builder<'b> {
    call: &'b Call<'b>,
    profile: &'b Profile,
    mounts: Vec<Mount>,
    rules: Vec<Rule>,
    pieces: Vec<Piece>,
    notes: &'b mut Vec<String>,
}

impl Builder<'_> {
    fn allow(&mut self, path: impl Into<PathBuf>, rights: Rights, place: &str) {
        let place = place.to_owned();
        self.rules.push(Rule { at: RuleAt::Host(path.into()), rights, place });
    }

    fn allow_view(&mut self, path: &str, rights: Rights, place: &str) {
        let place = place.to_owned();
        self.rules.push(Rule { at: RuleAt::View(path.into()), rights, place });
    }

    fn absent(&self) -> Result<(), Refusal> {
        for entry in &self.profile.absent {
            if !matches!(self.call.workspace.find(&entry.path.rest), Lookup::Absent) {
                return Err(Refusal::new(
                    Code::Present,
                    entry.path.to_string(),
                    format!("it exists already ({}: {})", entry.place, entry.why),
                    "use what is there, or let a person remove it first",
                ));
            }
        }
        Ok(())
    }

    fn scratch_rules(&mut self, scratch: &Scratch) {
        let tmp = |spec: &PathSpec| matches!(spec.root, Root::Tmp | Root::Home);
        let (mut rights, mut places) = (Rights::NONE, Vec::new());
        for entry in self.profile.read.iter().filter(|entry| tmp(&entry.path)) {
            rights = rights.and(Rights::read());
            places.push(entry.place.as_str());
        }
        for write in self.profile.write.iter().filter(|write| tmp(&write.entry.path)) {
            rights = rights.and(make_rights(write.make));
            places.push(&write.entry.place);
        }
        for entry in self.profile.execute.iter().filter(|entry| tmp(&entry.path)) {
            places.push(&entry.place);
        }
        rights = if scratch.executable { rights.and(Rights::execute()) } else { rights };
        let place = places.join(", ");
        self.allow_view(TMP, rights, &place);
        self.allow_view("/dev/shm", rights, &place);
    }
}

/// Joins the places of entries with this root.
fn places_of(entries: &[Entry], root: Root) -> String {
    let of_root = entries.iter().filter(|entry| entry.path.root == root);
    of_root.map(|entry| entry.place.as_str()).collect::<Vec<_>>().join(", ")
}

/// What may be done at a writable place.
fn make_rights(make: MakeSet) -> Rights {
    let kind = |kind| match kind {
        Make::File => Rights::make_files(),
        Make::Folder => Rights::make_folders(),
        Make::Symlink => Rights::make_links(),
        Make::Fifo => Rights::make_pipes(),
        Make::Socket => Rights::make_sockets(),
    };
    let start = Rights::read().and(Rights::write_files());
    make.iter().map(kind).fold(start, Rights::and)
}

fn missing_write(spec: &PathSpec, place: &str) -> Refusal {
    Refusal::new(
        Code::ProfileUnavailable,
        spec.to_string(),
        format!("{place} lets the command write there, and it does not exist"),
        match spec.rest.to_str() {
            Some(".git") => "make the repository first: git init",
            _ => "create it, or name a path that exists",
        },
    )
}

fn other_names(entry: &Entry, links: u64) -> Refusal {
    Refusal::new(
        Code::Masked,
        entry.path.to_string(),
        format!("it has {links} names, and only this one would be covered"),
        "give the file a single name, or move it out of reach",
    )
}

fn linked(spec: &PathSpec, place: &str) -> Refusal {
    Refusal::new(
        Code::Workspace,
        spec.to_string(),
        format!("{place} names it, and a link stands in its place or on the way"),
        "put the real file or folder there; a link could be pointed elsewhere during the run",
    )
}
