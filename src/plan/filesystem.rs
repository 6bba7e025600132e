//! Profile part to plan part: what the command sees and what it may do with it.
//!
//! The mounts and the Landlock rules are two answers to the same question, made from the same
//! entries: what is not mounted cannot be named, and what has no rule cannot be used. Neither
//! is assumed to be complete.

use super::syscalls::runs_own_code;
use super::workspace::{Found, Inode, Lookup};
use super::{Call, Toolchain, as_text};
use crate::profile::{Make, MakeSet, PathSpec, Profile, Root};
use crate::record::{Access, Code, Refusal, Text};
use crate::sys::landlock::Rights;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Where the command's scratch folder is.
pub const TMP: &str = "/tmp";
/// Where the command's home folder is.
pub const HOME: &str = "/tmp/home";

/// Size of the scratch folder where the profile names none, in bytes.
const TMP_BYTES: u64 = 64 << 20;
/// Files and folders in it where the profile names no number.
const TMP_INODES: u64 = 16_384;

/// Folders at the root that are links into `/usr` on some systems and folders on others.
const ROOT_NAMES: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What of `/etc` is seen.
const ETC: [&str; 9] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/hosts",
    "/etc/mime.types",
];
const OS_RELEASE: &str = "/etc/os-release";
/// Device files that are seen, with their numbers.
const DEVICES: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
];

/// One mount or file of the view, in the order in which they are made.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Mount {
    /// A folder or file of the host, read-only unless `writable`, at its own path.
    Host {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// Whether it can be written.
        writable: bool,
        /// Whether it is a folder.
        folder: bool,
    },
    /// A symbolic link.
    Link {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// What it points at.
        #[serde(serialize_with = "as_text")]
        to: PathBuf,
    },
    /// A device file of the host.
    Device {
        /// The path.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// Its device number.
        rdev: u64,
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
}

/// The scratch folder.
#[derive(Debug, Serialize)]
pub struct Scratch {
    /// Its size, in bytes.
    pub size: u64,
    /// How many files and folders it holds.
    pub inodes: u64,
    /// Whether what lies in it can be executed.
    pub executable: bool,
}

/// What a Landlock rule is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAt {
    /// A path of the host.
    Host(#[serde(serialize_with = "as_text")] PathBuf),
    /// A path below the workspace, which must be this file.
    Inside(#[serde(serialize_with = "as_text")] PathBuf, Inode),
    /// A path that only exists in the view.
    View(#[serde(serialize_with = "as_text")] PathBuf),
}

/// A Landlock rule.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// The place.
    pub at: RuleAt,
    /// What may be done there.
    #[serde(serialize_with = "rights_as_text")]
    pub rights: Rights,
}

fn rights_as_text<S: serde::Serializer>(rights: &Rights, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(rights)
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

/// Makes the view. `notes` gets what a reader of the record must know.
///
/// # Errors
/// Refusals for a missing writable path, a link where none may be, a masked file with other
/// names, and a path that must not exist yet.
pub fn view(
    call: &Call<'_>,
    profile: &Profile,
    toolchains: &[&Toolchain],
    notes: &mut Vec<String>,
) -> Result<View, Refusal> {
    let mut build =
        Builder { call, profile, mounts: Vec::new(), rules: Vec::new(), pieces: Vec::new(), notes };
    build.system();
    build.entries_of_host(toolchains)?;
    build.absent()?;
    build.workspace()?;
    build.programs();
    let limits = &profile.limits;
    let scratch = Scratch {
        size: limits.tmp.unwrap_or(TMP_BYTES),
        inodes: limits.tmp_inodes.unwrap_or(TMP_INODES),
        executable: executes(profile, |root| matches!(root, Root::Tmp | Root::Home)),
    };
    build.scratch_rules(&scratch);
    let Builder { mounts, rules, .. } = build;
    Ok(View { mounts, scratch, workspace_executable: runs_own_code(profile), rules })
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
    fn allow(&mut self, path: impl Into<PathBuf>, rights: Rights) {
        self.rules.push(Rule { at: RuleAt::Host(path.into()), rights });
    }

    fn allow_view(&mut self, path: &str, rights: Rights) {
        self.rules.push(Rule { at: RuleAt::View(path.into()), rights });
    }

    /// The system's folders: seen always, because no program runs without them, but readable
    /// and executable only as the profile says.
    fn system(&mut self) {
        let reads = self.profile.read.iter().any(|entry| entry.path.root == Root::System);
        let executes = executes(self.profile, |root| root == Root::System);
        let mut rights = if reads { Rights::read() } else { Rights::NONE };
        rights = if executes { rights.and(Rights::execute()) } else { rights };
        self.host(Path::new("/usr"), false, rights);
        for name in ROOT_NAMES.map(Path::new) {
            if let Ok(to) = std::fs::read_link(name) {
                self.mounts.push(Mount::Link { path: name.into(), to });
            } else if name.is_dir() {
                self.host(name, false, rights);
            }
        }
        let etc = if reads { Rights::read() } else { Rights::NONE };
        for name in ETC.into_iter().chain([OS_RELEASE]) {
            self.etc(Path::new(name), etc);
        }
        self.allow_view("/etc", etc);
        self.allow_view("/proc", Rights::read());
        self.allow_view("/dev/pts", Rights::devices());
        for (path, major, minor) in DEVICES {
            let rdev = nix::sys::stat::makedev(major.into(), minor.into());
            self.mounts.push(Mount::Device { path: path.into(), rdev });
            self.allow(path, Rights::devices());
        }
    }

    /// A file of `/etc`: a link where it leads into `/usr` anyway, else the file itself.
    fn etc(&mut self, path: &Path, rights: Rights) {
        let Ok(real) = std::fs::canonicalize(path) else { return };
        if real != path && real.starts_with("/usr") {
            self.mounts.push(Mount::Link { path: path.into(), to: real });
        } else {
            self.host(path, false, rights);
        }
    }

    fn host(&mut self, path: &Path, writable: bool, rights: Rights) {
        let folder = path.is_dir();
        self.mounts.push(Mount::Host { path: path.into(), writable, folder });
        self.allow(path, if folder { rights } else { rights.of_file() });
    }

    /// Entries with absolute paths, and tool roots.
    fn entries_of_host(&mut self, toolchains: &[&Toolchain]) -> Result<(), Refusal> {
        let profile = self.profile;
        let absolute = |spec: &PathSpec| spec.root == Root::Absolute;
        let mut wanted: Vec<(PathBuf, bool, Rights, String)> = Vec::new();
        for entry in profile.read.iter().filter(|entry| absolute(&entry.path)) {
            wanted.push((entry.path.rest.clone(), false, Rights::read(), entry.place.clone()));
        }
        for entry in profile.execute.iter().filter(|entry| absolute(&entry.path)) {
            let rights = Rights::read().and(Rights::execute());
            wanted.push((entry.path.rest.clone(), false, rights, entry.place.clone()));
        }
        let writes = self.call.access >= Access::WorkspaceWrite;
        for write in profile.write.iter().filter(|write| writes && absolute(&write.entry.path)) {
            let (path, place) = (write.entry.path.rest.clone(), write.entry.place.clone());
            if !path.exists() && !write.optional {
                return Err(missing_write(&write.entry.path, &place));
            }
            wanted.push((path, true, make_rights(write.make), place));
        }
        for root in toolchains.iter().flat_map(|toolchain| &toolchain.roots) {
            let rights = Rights::read().and(Rights::execute());
            wanted.push((root.clone(), false, rights, "[[tools]]".to_owned()));
        }
        for (path, writable, rights, place) in wanted {
            self.host_entry(&path, writable, rights, &place);
        }
        Ok(())
    }

    fn host_entry(&mut self, path: &Path, writable: bool, rights: Rights, place: &str) {
        if !path.exists() {
            self.notes.push(format!("{place}: {} is not there", Text::from(path).escaped()));
            return;
        }
        let seen = self.mounts.iter().any(|mount| match mount {
            Mount::Host { path: mounted, writable: w, .. } => {
                path.starts_with(mounted) && *w == writable
            }
            _ => false,
        });
        if seen {
            let rights = if path.is_dir() { rights } else { rights.of_file() };
            self.allow(path, rights);
        } else {
            self.host(path, writable, rights);
        }
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

    fn workspace(&mut self) -> Result<(), Refusal> {
        if self.call.access == Access::None {
            return Ok(());
        }
        if self.profile.operands_only {
            self.operands();
        } else {
            self.granted_pieces()?;
        }
        let holds = self.holds()?;
        let masks = self.masks()?;
        self.mounts.extend(self.pieces.drain(..).map(Mount::Piece));
        self.mounts.extend(holds);
        self.mounts.extend(masks);
        Ok(())
    }

    /// The call's operands are all that is seen; without any it is the working folder.
    fn operands(&mut self) {
        let cwd = self.call.cwd.clone();
        let mut places: Vec<PathBuf> =
            self.call.operands.iter().map(|operand| cwd.join(operand)).collect();
        if places.is_empty() {
            places.push(cwd);
        }
        for at in places {
            let at: PathBuf = at.components().filter(|part| part.as_os_str() != ".").collect();
            match self.call.workspace.resolve(&at) {
                Lookup::Found(found) => {
                    if self.pieces.iter().any(|piece| piece.at == at) {
                        continue;
                    }
                    let rights =
                        if found.is_folder { Rights::read() } else { Rights::read_files() };
                    self.allow_inside(&found, rights);
                    self.pieces.push(piece(found, at));
                }
                Lookup::Absent => {}
                Lookup::Outside => {
                    let shown = Text::from(at.as_path()).escaped();
                    self.notes.push(format!("{shown} leads out of the workspace: not given"));
                }
            }
        }
        // A folder among the operands shows what lies in it; a piece within it would be
        // attached twice. Order them so that the outer one is made first.
        self.pieces.sort_by_key(|piece| piece.at.components().count());
    }

    fn allow_inside(&mut self, found: &Found, rights: Rights) {
        let rights = if found.is_folder { rights } else { rights.of_file() };
        self.rules.push(Rule { at: RuleAt::Inside(found.path.clone(), found.inode), rights });
    }

    /// Reads, writes and executes below the workspace, narrowed by the access class.
    fn granted_pieces(&mut self) -> Result<(), Refusal> {
        let profile = self.profile;
        let inside = |spec: &PathSpec| spec.root == Root::Workspace;
        let mut grants: Vec<(&PathSpec, &str, Rights, bool)> = Vec::new();
        for entry in profile.read.iter().filter(|entry| inside(&entry.path)) {
            grants.push((&entry.path, &entry.place, Rights::read(), false));
        }
        for entry in profile.execute.iter().filter(|entry| inside(&entry.path)) {
            let rights = Rights::read().and(Rights::execute());
            grants.push((&entry.path, &entry.place, rights, false));
        }
        for write in profile.write.iter().filter(|write| inside(&write.entry.path)) {
            let (path, place) = (&write.entry.path, write.entry.place.as_str());
            if self.call.access < Access::WorkspaceWrite {
                continue;
            }
            let needed = !write.optional;
            grants.push((path, place, make_rights(write.make), needed));
        }
        grants.sort_by_key(|(path, ..)| path.rest.components().count());
        for (spec, place, rights, needed) in grants {
            match self.call.workspace.find(&spec.rest) {
                Lookup::Found(found) => {
                    self.allow_inside(&found, rights);
                    let covered = self.pieces.iter().any(|p| spec.rest.starts_with(&p.path));
                    if !covered {
                        self.pieces.push(piece(found, spec.rest.clone()));
                    }
                }
                Lookup::Absent if needed => return Err(missing_write(spec, place)),
                Lookup::Absent => self.notes.push(format!("{place}: {spec} is not there")),
                Lookup::Outside => return Err(linked(spec, place)),
            }
        }
        Ok(())
    }

    /// Writable places below what is read-only, and protected places below what is writable.
    fn holds(&mut self) -> Result<Vec<Mount>, Refusal> {
        let mut holds: Vec<(PathBuf, usize, Inode, bool)> = Vec::new();
        if self.call.access < Access::WorkspaceWrite {
            return Ok(Vec::new());
        }
        let profile = self.profile;
        let inside = |spec: &PathSpec| spec.root == Root::Workspace;
        let mut writes: Vec<&PathSpec> =
            profile.write.iter().map(|write| &write.entry.path).filter(|p| inside(p)).collect();
        writes.sort_by_key(|path| path.rest.components().count());
        for spec in writes {
            let Lookup::Found(found) = self.call.workspace.find(&spec.rest) else { continue };
            let Some(index) = self.piece_over(&spec.rest) else { continue };
            let held = holds.iter().any(|(path, ..)| spec.rest.starts_with(path));
            if self.pieces[index].path == spec.rest {
                self.pieces[index].writable = true;
            } else if !self.pieces[index].writable && !held {
                holds.push((spec.rest.clone(), index, found.inode, true));
            }
        }
        for entry in &profile.protect {
            let Some(index) = self.piece_over(&entry.path.rest) else { continue };
            match self.call.workspace.find(&entry.path.rest) {
                Lookup::Found(found) => {
                    holds.push((entry.path.rest.clone(), index, found.inode, false));
                }
                Lookup::Absent => {}
                Lookup::Outside => return Err(linked(&entry.path, &entry.place)),
            }
        }
        holds.sort_by_key(|(path, _, _, writable)| (path.components().count(), !writable));
        let mount = |(path, piece, inode, writable): (PathBuf, usize, Inode, bool)| {
            let rest = path.strip_prefix(&self.pieces[piece].path).unwrap_or(&path).to_owned();
            Mount::Hold { piece, rest, inode, writable }
        };
        Ok(holds.into_iter().map(mount).collect())
    }

    fn piece_over(&self, path: &Path) -> Option<usize> {
        self.pieces.iter().position(|piece| path.starts_with(&piece.path))
    }

    fn masks(&mut self) -> Result<Vec<Mount>, Refusal> {
        let mut masks = Vec::new();
        for entry in &self.profile.mask {
            let path = match entry.path.root {
                Root::Workspace => entry.path.rest.clone(),
                _ => {
                    let real = real_name(&entry.path.rest);
                    match real.strip_prefix(&self.call.workspace.path) {
                        Ok(below) => below.to_owned(),
                        Err(_) if self.is_seen_outside(&real) => {
                            return Err(unmaskable(&entry.path, &entry.place));
                        }
                        Err(_) => continue,
                    }
                }
            };
            let found = match self.call.workspace.find(&path) {
                Lookup::Found(found) => found,
                Lookup::Absent => continue,
                Lookup::Outside => return Err(linked(&entry.path, &entry.place)),
            };
            if !found.is_folder && found.links > 1 {
                return Err(Refusal::new(
                    Code::Masked,
                    entry.path.to_string(),
                    format!("it has {} names, and only this one would be covered", found.links),
                    "give the file a single name, or move it out of the workspace",
                ));
            }
            let covers = masks.len();
            for (index, piece) in self.pieces.iter().enumerate() {
                let (inode, folder) = (found.inode, found.is_folder);
                if let Ok(rest) = path.strip_prefix(&piece.path) {
                    let rest = rest.to_owned();
                    masks.push(Mount::Mask { piece: index, rest, inode, folder });
                } else if piece.path.starts_with(&path) {
                    let (inode, folder) = (piece.inode, piece.folder);
                    masks.push(Mount::Mask { piece: index, rest: PathBuf::new(), inode, folder });
                }
            }
            let real = self.call.workspace.path.join(&path);
            if masks.len() == covers && self.is_seen_outside(&real) {
                return Err(unmaskable(&entry.path, &entry.place));
            }
        }
        Ok(masks)
    }

    /// Returns whether a place of the host, or something in it, is mounted in the view.
    fn is_seen_outside(&self, real: &Path) -> bool {
        std::fs::symlink_metadata(real).is_ok()
            && self.mounts.iter().any(|mount| match mount {
                Mount::Host { path, .. } => {
                    let mounted = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                    real.starts_with(&mounted) || mounted.starts_with(real)
                }
                _ => false,
            })
    }

    /// The program itself, its interpreter and its loader: executable whatever the profile says.
    fn programs(&mut self) {
        let rights = Rights::read_files().and(Rights::execute());
        let program = &self.call.program;
        let interpreter = program.interpreter.as_ref().map(|interpreter| &interpreter.file);
        let script = interpreter.is_some();
        let run = [Some(&program.file).filter(|_| !script), interpreter, program.loader.as_ref()];
        for file in run.into_iter().flatten() {
            self.allow(&file.path, rights);
        }
        if script {
            self.allow(&program.file.path, Rights::read_files());
        }
        for file in [Some(&program.file), interpreter, program.loader.as_ref()] {
            let Some(file) = file else { continue };
            let seen = self.mounts.iter().any(|mount| match mount {
                Mount::Host { path, .. } => file.path.starts_with(path),
                _ => false,
            });
            if !seen {
                self.mounts.push(Mount::Host {
                    path: file.path.clone(),
                    writable: false,
                    folder: false,
                });
            }
        }
    }

    fn scratch_rules(&mut self, scratch: &Scratch) {
        let tmp = |spec: &PathSpec| matches!(spec.root, Root::Tmp | Root::Home);
        let mut rights = Rights::NONE;
        if self.profile.read.iter().any(|entry| tmp(&entry.path)) {
            rights = rights.and(Rights::read());
        }
        for write in self.profile.write.iter().filter(|write| tmp(&write.entry.path)) {
            rights = rights.and(make_rights(write.make));
        }
        rights = if scratch.executable { rights.and(Rights::execute()) } else { rights };
        self.allow_view(TMP, rights);
        self.allow_view("/dev/shm", rights);
    }
}

fn piece(found: Found, at: PathBuf) -> Piece {
    let Found { path, inode, is_folder, .. } = found;
    Piece { path, at, inode, folder: is_folder, writable: false }
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

/// The path with the links on the way to its last name followed.
fn real_name(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn unmaskable(spec: &PathSpec, place: &str) -> Refusal {
    Refusal::new(
        Code::ProfileUnavailable,
        spec.to_string(),
        format!(
            "{place} masks it, and only what is granted as part of the workspace can be covered"
        ),
        "grant narrower paths, so that what is to stay hidden is in none of them",
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
