//! Plan to steps: everything that can fail for lack of memory, a bad name or a missing file
//! happens here, in the parent.

use crate::plan::Plan;
use crate::plan::filesystem::{HOME, Mount, Piece, Rule, RuleAt, TMP};
use crate::plan::host::identity_map_steps;
use crate::plan::workspace::{Inode, Lookup, Workspace, c_path};
use crate::sys;
use crate::sys::landlock::Rules;
use crate::sys::mount::{NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::step::{Dir, ExecFd, Image, Is, SLOTS, Slot, Step};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the new root is attached while it is filled: a folder that every system has and that
/// the view covers anyway.
const STAGING: &str = "/tmp";
/// Size of the file system that holds the view's own folders and files, in bytes.
const ROOT_BYTES: &str = "4m";
/// Covers for masked files and folders.
const COVER_FILE: &str = ".cover/file";
const COVER_FOLDER: &str = ".cover/folder";

const ROOT: Slot = Slot(0);
const SCRATCH: Slot = Slot(1);
const SHM: Slot = Slot(2);
const PROC: Slot = Slot(3);
const TERMINALS: Slot = Slot(4);
const PROGRAM: Slot = Slot(5);
/// Used by one group of steps and free again after it.
const TEMPORARY: Slot = Slot(6);
const COVERS: [Slot; 2] = [Slot(7), Slot(8)];
/// A place that is held or covered.
const FOUND: Slot = Slot(9);
/// Sources of mounts keep their slots to the end.
const FIRST_SOURCE: usize = 16;

/// Which layers are put in place. All of them, except in a build for tests that shows each
/// layer alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    mounts: bool,
    landlock: bool,
    seccomp: bool,
}

impl Layers {
    /// Every layer.
    pub const ALL: Self = Self { mounts: true, landlock: true, seccomp: true };

    /// Leaves out the layers that `names` lists, separated by commas.
    #[cfg(feature = "test-layers")]
    pub fn without(names: &str) -> Self {
        let on = |layer| !names.split(',').any(|name| name == layer);
        Self { mounts: on("mounts"), landlock: on("landlock"), seccomp: on("seccomp") }
    }
}

/// The child's ends of the pipes, all at high numbers.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) gate: OwnedFd,
    pub(super) status: OwnedFd,
    pub(super) life: OwnedFd,
    pub(super) init: OwnedFd,
    /// The supervisor's ends, which the child closes at once: a copy of a write end in the
    /// child would keep it from seeing the supervisor die.
    pub(super) supervisors: Vec<RawFd>,
}

/// The three lists of steps, and the ruleset they name.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) outer: Vec<Step>,
    pub(super) inner: Vec<Step>,
    pub(super) last: Vec<Step>,
    pub(super) keep: Vec<OwnedFd>,
}

/// Compiles a plan.
///
/// # Errors
/// Those of opening what the rules name; `EIDRM` where the workspace holds another file now.
pub(super) fn compile(
    plan: &Plan,
    workspace: &Workspace,
    userns: Option<RawFd>,
    ends: &Ends,
    layers: Layers,
) -> io::Result<Compiled> {
    let sources = sources(plan)?;
    let mut steps = Steps { plan, userns, outer: Vec::new(), landlock: None, sources };
    let mut keep = Vec::new();
    if layers.landlock {
        let ruleset = ruleset(plan, workspace)?;
        steps.landlock = Some(ruleset.as_raw_fd());
        keep.push(ruleset);
    }
    steps.outer.extend(ends.supervisors.iter().map(|fd| Step::Close { fd: *fd }));
    steps.enter_namespaces();
    if layers.mounts {
        steps.build_view();
    } else {
        steps.outer.push(Step::PrivateMounts);
    }
    steps.open_program();
    steps.drop_rights();
    let inner = inner(plan, ends, steps.landlock, layers)?;
    Ok(Compiled { inner, last: last(ends), outer: steps.outer, keep })
}

/// The program becomes itself: descriptors, limits, then the two layers that bind it for good.
fn inner(
    plan: &Plan,
    ends: &Ends,
    landlock: Option<RawFd>,
    layers: Layers,
) -> io::Result<Vec<Step>> {
    let mut steps = vec![Step::NewSession];
    for (fd, at) in [(&ends.stdin, 0), (&ends.stdout, 1), (&ends.stderr, 2)] {
        steps.push(Step::Place { from: fd.as_raw_fd(), at });
    }
    steps.push(Step::CloseOnExec { first: 3 });
    steps.push(Step::Chdir { path: c_path(&plan.cwd) });
    steps.push(Step::Umask { mask: 0o022 });
    steps.extend(
        plan.limits
            .iter()
            .map(|(_, resource, value)| Step::Limit { resource: *resource, value: *value }),
    );
    if let Some(ruleset) = landlock {
        steps.push(Step::Restrict { ruleset, flags: sys::landlock::restrict_flags() });
    }
    if layers.seccomp {
        let arguments = sys::seccomp::argument_filters(plan.sockets)?;
        steps.extend(arguments.into_iter().map(|program| Step::Filter { program }));
        steps.push(Step::Filter { program: sys::seccomp::positive_list(&plan.syscalls)? });
    }
    steps.push(Step::DefaultSignals);
    steps.push(Step::Report);
    steps.push(Step::Gate { fd: ends.gate.as_raw_fd() });
    let argv = plan.argv.iter().map(|arg| c_string(&OsString::from(arg.clone())));
    let variable = |(name, value): (&String, &OsString)| {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(value);
        c_string(&pair)
    };
    let image = Image::new(argv.collect(), plan.environment.iter().map(variable).collect());
    steps.push(Step::Exec { fd: ExecFd::Slot(PROGRAM), image });
    Ok(steps)
}

/// The outer child becomes the tree's init.
fn last(ends: &Ends) -> Vec<Step> {
    let image = Image::new(vec![c_string("pinfold-init".as_ref())], Vec::new());
    vec![
        Step::Place { from: ends.status.as_raw_fd(), at: 3 },
        Step::Place { from: ends.life.as_raw_fd(), at: 4 },
        Step::Exec { fd: ExecFd::Parent(ends.init.as_raw_fd()), image },
    ]
}

/// Builds the Landlock ruleset of everything that exists before the view is made.
fn ruleset(plan: &Plan, workspace: &Workspace) -> io::Result<OwnedFd> {
    let mut rules = Rules::new(plan.loopback)?;
    for Rule { at, rights } in &plan.view.rules {
        if rights.is_none() {
            continue;
        }
        match at {
            RuleAt::Host(path) => {
                let slash = std::fs::File::open("/")?;
                let below = path.strip_prefix("/").unwrap_or(path);
                match sys::mount::open_resolved(&slash, &c_path(below)) {
                    Ok(file) => rules.allow(&file, *rights)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            RuleAt::Inside(path, inode) => {
                let file = sys::mount::open_exact(workspace, &c_path(path))?;
                match workspace.find(path) {
                    Lookup::Found(found) if found.inode == *inode => rules.allow(&file, *rights)?,
                    _ => return Err(io::Error::from_raw_os_error(libc::EIDRM)),
                }
            }
            RuleAt::View(_) => {}
        }
    }
    rules.finish()
}

/// Gives each mount that has a source a slot.
fn sources(plan: &Plan) -> io::Result<Vec<(Slot, &Mount)>> {
    let with_source = plan.view.mounts.iter().filter(|mount| {
        matches!(mount, Mount::Host { .. } | Mount::Device { .. } | Mount::Piece(_))
    });
    let numbered = with_source.enumerate().map(|(index, mount)| {
        let slot = u8::try_from(FIRST_SOURCE + index).ok().filter(|n| usize::from(*n) < SLOTS);
        slot.map(|slot| (Slot(slot), mount))
    });
    let too_many = || io::Error::other("the profile names more places than a view can hold");
    let sources: Vec<_> = numbered.collect::<Option<_>>().ok_or_else(too_many)?;
    // Those of the writable holds come behind.
    let held = |mount: &&Mount| matches!(mount, Mount::Hold { writable: true, .. });
    let holds = plan.view.mounts.iter().filter(held).count();
    if FIRST_SOURCE + sources.len() + holds > SLOTS {
        return Err(too_many());
    }
    Ok(sources)
}

fn c_string(text: &std::ffi::OsStr) -> CString {
    // Arguments passed the catalog's shape and the rest is Pinfold's own, so there is no NUL.
    CString::new(text.as_bytes()).unwrap_or_default()
}

/// A path as it is named from the staged root.
fn staged(path: &Path) -> CString {
    c_path(path.strip_prefix("/").unwrap_or(path))
}

fn inode(inode: Inode) -> Is {
    Is::Inode { dev: inode.dev, ino: inode.ino }
}

struct Steps<'p> {
    plan: &'p Plan,
    userns: Option<RawFd>,
    outer: Vec<Step>,
    landlock: Option<RawFd>,
    /// Every mount that has a source, with the slot of its clone.
    sources: Vec<(Slot, &'p Mount)>,
}

impl<'p> Steps<'p> {
    fn push(&mut self, step: Step) {
        self.outer.push(step);
    }

    fn enter_namespaces(&mut self) {
        let identity = self.plan.identity;
        if identity.same_user {
            self.outer.extend(identity_map_steps(identity.uid, identity.gid));
        }
        // Now that the child is in its group, that group is the root it sees.
        self.push(Step::Unshare { flags: libc::CLONE_NEWCGROUP });
        self.push(Step::HostName { name: c_string("pinfold".as_ref()) });
        if self.plan.loopback {
            self.push(Step::LoopbackUp);
        }
    }

    /// Builds the view: every source is cloned while the old root is whole, then the new root is
    /// filled where it was attached, and becomes the root.
    fn build_view(&mut self) {
        self.push(Step::PrivateMounts);
        for (slot, mount) in self.sources.clone() {
            match mount {
                Mount::Host { path, writable, .. } => self.clone_host(slot, path, *writable),
                Mount::Device { path, rdev } => self.clone_device(slot, path, *rdev),
                Mount::Piece(piece) => self.clone_piece(slot, piece),
                _ => {}
            }
        }
        self.stage_root();
        self.fresh_file_systems();
        for (slot, mount) in self.sources.clone() {
            match mount {
                Mount::Host { path, folder, .. } => self.attach(slot, path, *folder),
                Mount::Device { path, .. } => self.attach(slot, path, false),
                _ => {}
            }
        }
        for mount in &self.plan.view.mounts {
            if let Mount::Link { path, to } = mount {
                self.folders_above(path);
                let target = c_string(to.as_os_str());
                self.push(Step::Link { target, dir: Dir::Cwd, path: staged(path) });
            }
        }
        self.attach_pieces();
        self.holds_and_masks();
        self.finish_root();
    }

    fn pieces(&self) -> Vec<(Slot, &'p Piece)> {
        let piece = |(slot, mount): &(Slot, &'p Mount)| match mount {
            Mount::Piece(piece) => Some((*slot, piece)),
            _ => None,
        };
        self.sources.iter().filter_map(piece).collect()
    }

    /// Opens a piece without following a link, checks it, and clones its mount.
    fn clone_piece(&mut self, slot: Slot, piece: &Piece) {
        let workspace = c_path(&self.plan.workspace);
        self.push(Step::OpenPath { path: workspace, to: TEMPORARY });
        self.push(Step::Check { fd: TEMPORARY, is: inode(self.plan.workspace_inode) });
        if !piece.path.as_os_str().is_empty() {
            let (dir, path) = (Dir::Slot(TEMPORARY), c_path(&piece.path));
            self.push(Step::OpenBeneath { dir, path, to: TEMPORARY });
            self.push(Step::Check { fd: TEMPORARY, is: inode(piece.inode) });
        }
        let (dir, path) = (Dir::Slot(TEMPORARY), CString::default());
        self.push(Step::Clone { dir, path, recursive: true, to: slot });
        let noexec = if self.plan.view.workspace_executable { 0 } else { NOEXEC };
        let set = NOSUID | NODEV | noexec;
        let userns = self.userns.unwrap_or(-1);
        self.push(Step::Attributes { fd: slot, set, userns, recursive: true });
    }

    fn clone_host(&mut self, slot: Slot, path: &Path, writable: bool) {
        let source = c_string(path.as_os_str());
        self.push(Step::Clone { dir: Dir::Cwd, path: source, recursive: true, to: slot });
        let set = NOSUID | NODEV | if writable { NOEXEC } else { RDONLY };
        self.push(Step::Attributes { fd: slot, set, userns: -1, recursive: true });
    }

    /// A device is bound from the host only if it has the number it should have: a name under
    /// `/dev` can be anything.
    fn clone_device(&mut self, slot: Slot, path: &Path, rdev: u64) {
        let source = c_string(path.as_os_str());
        self.push(Step::Clone { dir: Dir::Cwd, path: source, recursive: false, to: slot });
        self.push(Step::Check { fd: slot, is: Is::Device { rdev } });
        let set = NOSUID | NOEXEC;
        self.push(Step::Attributes { fd: slot, set, userns: -1, recursive: false });
    }

    fn stage_root(&mut self) {
        // Modes in the view are as they are written here.
        self.push(Step::Umask { mask: 0 });
        let options = vec![
            (c"size".into(), Some(c_string(ROOT_BYTES.as_ref()))),
            (c"mode".into(), Some(c"0755".into())),
        ];
        let (kind, attributes) = (c"tmpfs".into(), NOSUID | NODEV);
        self.push(Step::NewFs { kind, options, attributes, to: ROOT });
        let path = c_string(STAGING.as_ref());
        self.push(Step::Attach { fd: ROOT, dir: Dir::Cwd, path });
        self.push(Step::Enter { fd: ROOT });
        self.make_folder("/.cover", 0o700);
        self.make_folder("/.cover/folder", 0o000);
        self.make_file(Path::new("/.cover/file"), 0o000, Vec::new());
        let covers = [COVER_FILE, COVER_FOLDER];
        for (slot, cover) in COVERS.into_iter().zip(covers) {
            let path = c_string(cover.as_ref());
            self.push(Step::Clone { dir: Dir::Cwd, path, recursive: false, to: slot });
        }
        for path in ["/etc", "/proc", "/dev", "/dev/pts", "/dev/shm", "/tmp"] {
            self.make_folder(path, 0o755);
        }
        let (uid, gid) = (self.plan.identity.uid, self.plan.identity.gid);
        let root = if uid == 0 { "" } else { "root:x:0:0:root:/:/usr/sbin/nologin\n" };
        let passwd = format!("{root}agent:x:{uid}:{gid}:agent:{HOME}:/usr/sbin/nologin\n");
        let root = if gid == 0 { "" } else { "root:x:0:\n" };
        let group = format!("{root}agent:x:{gid}:\n");
        self.make_file(Path::new("/etc/passwd"), 0o644, passwd.into_bytes());
        self.make_file(Path::new("/etc/group"), 0o644, group.into_bytes());
    }

    fn make_folder(&mut self, path: impl AsRef<Path>, mode: u32) {
        let path = staged(path.as_ref());
        self.push(Step::Folder { dir: Dir::Cwd, path, mode });
    }

    fn make_file(&mut self, path: &Path, mode: u32, content: Vec<u8>) {
        self.push(Step::File { dir: Dir::Cwd, path: staged(path), mode, content });
    }

    fn folders_above(&mut self, path: &Path) {
        let above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
        for folder in above.iter().rev().filter(|folder| folder.parent().is_some()) {
            self.make_folder(folder, 0o755);
        }
    }

    /// Makes the place at which something is attached.
    fn mount_point(&mut self, path: &Path, folder: bool) {
        self.folders_above(path);
        if folder {
            self.make_folder(path, 0o755);
        } else {
            self.make_file(path, 0o644, Vec::new());
        }
    }

    /// Attaches a clone at the place it has on the host.
    fn attach(&mut self, slot: Slot, path: &Path, folder: bool) {
        self.mount_point(path, folder);
        self.push(Step::Attach { fd: slot, dir: Dir::Cwd, path: staged(path) });
    }

    fn fresh_file_systems(&mut self) {
        let attributes = NOSUID | NODEV | NOEXEC | RDONLY;
        self.fresh("proc", Vec::new(), attributes, PROC, "/proc");
        let terminals = vec![("newinstance", None), ("ptmxmode", Some("0666".to_owned()))];
        self.fresh("devpts", terminals, NOSUID | NOEXEC, TERMINALS, "/dev/pts");
        for (link, to) in [
            ("/dev/ptmx", "pts/ptmx"),
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
        ] {
            let target = c_string(to.as_ref());
            self.push(Step::Link { target, dir: Dir::Cwd, path: staged(link.as_ref()) });
        }
        let scratch = &self.plan.view.scratch;
        let noexec = if scratch.executable { 0 } else { NOEXEC };
        let attributes = NOSUID | NODEV | noexec;
        let (uid, gid) = (self.plan.identity.uid, self.plan.identity.gid);
        let options = || {
            vec![
                ("size", Some(scratch.size.to_string())),
                ("nr_inodes", Some(scratch.inodes.to_string())),
                ("mode", Some("0700".to_owned())),
                ("uid", Some(uid.to_string())),
                ("gid", Some(gid.to_string())),
            ]
        };
        let (tmp, shm) = (options(), options());
        self.fresh("tmpfs", tmp, attributes, SCRATCH, TMP);
        self.fresh("tmpfs", shm, attributes, SHM, "/dev/shm");
    }

    fn fresh(
        &mut self,
        kind: &str,
        options: Vec<(&str, Option<String>)>,
        attributes: u64,
        to: Slot,
        at: &str,
    ) {
        let option = |(key, value): (&str, Option<String>)| {
            (c_string(key.as_ref()), value.map(|value| c_string(value.as_ref())))
        };
        let options = options.into_iter().map(option).collect();
        let kind = c_string(kind.as_ref());
        self.push(Step::NewFs { kind, options, attributes, to });
        self.push(Step::Attach { fd: to, dir: Dir::Cwd, path: staged(at.as_ref()) });
        self.view_rule(at, to);
    }

    /// Adds the Landlock rule of a place that exists only now.
    fn view_rule(&mut self, at: &str, fd: Slot) {
        let Some(ruleset) = self.landlock else { return };
        for Rule { at: rule_at, rights } in &self.plan.view.rules {
            let here = matches!(rule_at, RuleAt::View(path) if path == Path::new(at));
            if here && rights.bits() != 0 {
                self.push(Step::Rule { ruleset, fd, access: rights.bits() });
            }
        }
    }

    fn attach_pieces(&mut self) {
        let workspace = self.plan.workspace.clone();
        self.folders_above(&workspace);
        self.make_folder(&workspace, 0o755);
        self.folders_above(&self.plan.cwd);
        self.make_folder(&self.plan.cwd, 0o755);
        for (slot, piece) in self.pieces() {
            if piece.at.as_os_str().is_empty() {
                self.push(Step::Attach { fd: slot, dir: Dir::Cwd, path: staged(&workspace) });
            } else if !self.is_seen_through_another(piece) {
                self.attach(slot, &workspace.join(&piece.at), piece.folder);
            }
        }
    }

    /// A piece below another one that is a folder is seen through that, and never attached.
    fn is_seen_through_another(&self, piece: &Piece) -> bool {
        self.pieces().iter().any(|(_, other)| {
            other.folder && other.at != piece.at && piece.at.starts_with(&other.at)
        })
    }

    /// Held and covered places are found again below the attached piece, without following a
    /// link, and checked, so that no name the workspace controls decides where a mount goes.
    fn holds_and_masks(&mut self) {
        let mut writable = Vec::new();
        let mut rest = Vec::new();
        for mount in &self.plan.view.mounts {
            match mount {
                Mount::Hold { writable: true, .. } => writable.push(mount),
                Mount::Hold { .. } | Mount::Mask { .. } => rest.push(mount),
                _ => {}
            }
        }
        // What stays writable is cloned before the pieces become read-only with all that the
        // host has mounted below them.
        let first = FIRST_SOURCE + self.sources.len();
        let slots = (first..).map(|index| Slot(u8::try_from(index).unwrap_or(u8::MAX)));
        let writable: Vec<(Slot, &Mount)> = slots.zip(writable).collect();
        for (slot, mount) in &writable {
            if let Some(here) = self.find_again(mount) {
                self.clone_slot(here, *slot, true);
            }
        }
        for (slot, piece) in self.pieces() {
            if !piece.writable {
                self.push(Step::Attributes { fd: slot, set: RDONLY, userns: -1, recursive: true });
            }
        }
        for (slot, mount) in writable {
            if let Some(here) = self.find_again(mount) {
                self.attach_over(slot, here);
            }
        }
        for mount in rest {
            self.hold_or_cover(mount);
        }
    }

    /// Finds the place of a hold or a mask and checks it; `None` where it is not attached.
    fn find_again(&mut self, mount: &Mount) -> Option<Slot> {
        let (piece, rest, is) = match mount {
            Mount::Hold { piece, rest, inode, .. } => (*piece, rest, *inode),
            Mount::Mask { piece, rest, inode, .. } => (*piece, rest, *inode),
            _ => return None,
        };
        let (slot, over) = self.pieces().get(piece).copied()?;
        // The piece through which it is seen has the same entry.
        if self.is_seen_through_another(over) {
            return None;
        }
        // The piece itself can be a file, beneath which nothing can be opened.
        let here = if rest.as_os_str().is_empty() { slot } else { FOUND };
        if here == FOUND {
            let (dir, path) = (Dir::Slot(slot), c_path(rest));
            self.push(Step::OpenBeneath { dir, path, to: here });
        }
        self.push(Step::Check { fd: here, is: inode(is) });
        Some(here)
    }

    /// Attaches a read-only clone of a place onto itself, or a cover.
    fn hold_or_cover(&mut self, mount: &Mount) {
        let Some(here) = self.find_again(mount) else { return };
        match mount {
            Mount::Mask { folder, .. } => {
                let cover = if *folder { COVERS[1] } else { COVERS[0] };
                self.clone_slot(cover, TEMPORARY, false);
            }
            _ => self.clone_slot(here, TEMPORARY, true),
        }
        let set = RDONLY;
        self.push(Step::Attributes { fd: TEMPORARY, set, userns: -1, recursive: true });
        self.attach_over(TEMPORARY, here);
    }

    fn clone_slot(&mut self, from: Slot, to: Slot, recursive: bool) {
        let (dir, path) = (Dir::Slot(from), CString::default());
        self.push(Step::Clone { dir, path, recursive, to });
    }

    fn attach_over(&mut self, fd: Slot, here: Slot) {
        self.push(Step::Attach { fd, dir: Dir::Slot(here), path: CString::default() });
    }

    fn finish_root(&mut self) {
        let home = c_string("home".as_ref());
        self.push(Step::Folder { dir: Dir::Slot(SCRATCH), path: home, mode: 0o777 });
        let etc = c_string("etc".as_ref());
        self.push(Step::OpenBeneath { dir: Dir::Slot(ROOT), path: etc, to: TEMPORARY });
        self.view_rule("/etc", TEMPORARY);
        self.push(Step::Attributes { fd: ROOT, set: RDONLY, userns: -1, recursive: false });
        self.push(Step::PivotRoot);
    }

    /// Opens what will be executed inside the new view and compares it with what was pinned.
    fn open_program(&mut self) {
        let file = self.plan.interpreter.as_ref().unwrap_or(&self.plan.program);
        let path = c_string(&OsString::from(file.path.clone()));
        self.push(Step::OpenPath { path, to: PROGRAM });
        let is = Is::Inode { dev: file.dev, ino: file.ino };
        self.push(Step::Check { fd: PROGRAM, is });
    }

    /// Gives up every right. The signal that ends the tree with its supervisor comes after the
    /// last change of ids, which would clear it.
    fn drop_rights(&mut self) {
        let identity = self.plan.identity;
        if identity.same_user {
            self.push(Step::DropBounding);
        }
        self.push(Step::Securebits);
        if !identity.same_user {
            self.push(Step::NoGroups);
        }
        self.push(Step::Ids { uid: identity.uid, gid: identity.gid });
        self.push(Step::NoCapabilities);
        self.push(Step::NoNewPrivileges);
        self.push(Step::DeathSignal);
    }
}

/// Says what a step does, for the message about one that failed.
pub(super) fn describe(step: &Step) -> String {
    let show = |path: &CString| path.to_string_lossy().escape_default().to_string();
    match step {
        Step::PrivateMounts => "make mounts private".into(),
        Step::Clone { path, .. } if path.is_empty() => "clone a mount".into(),
        Step::Clone { path, .. } => format!("bind {}", show(path)),
        Step::OpenBeneath { path, .. } | Step::OpenPath { path, .. } => {
            format!("open {}", show(path))
        }
        Step::Check { .. } => "find the file that was pinned".into(),
        Step::Attributes { .. } => "restrict a mount".into(),
        Step::Attach { path, .. } => format!("mount at {}", show(path)),
        Step::NewFs { kind, .. } => format!("make a new {}", show(kind)),
        Step::Folder { path, .. } | Step::File { path, .. } | Step::Link { path, .. } => {
            format!("make {} in the view", show(path))
        }
        Step::Write { path, .. } => format!("write {}", show(path)),
        Step::Chdir { path } => format!("enter {}", show(path)),
        Step::PivotRoot => "make the view the root".into(),
        Step::Limit { .. } => "set a resource limit".into(),
        Step::Rule { .. } => "add a Landlock rule".into(),
        Step::Restrict { .. } => "enforce Landlock".into(),
        Step::Filter { .. } => "install a seccomp filter".into(),
        Step::Exec { .. } => "execute the program".into(),
        Step::Ids { .. } => "take the command's user id".into(),
        Step::NoCapabilities | Step::DropBounding => "give up capabilities".into(),
        Step::NoNewPrivileges => "set no_new_privs".into(),
        Step::LoopbackUp => "bring the loopback interface up".into(),
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or("step").to_lowercase(),
    }
}
