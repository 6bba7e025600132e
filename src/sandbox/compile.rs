//! Plan to steps: everything that can fail for lack of memory, a bad name or a missing file
//! happens here, in the parent.

use crate::plan::Plan;
use crate::plan::environment::Variable;
use crate::plan::filesystem::{Mount, Rule, RuleAt};
use crate::plan::host::identity_map_steps;
use crate::plan::limits::{Keeper, Limit};
use crate::plan::workspace::{Inode, Workspace, c_path};
use crate::record::ProgramFile;
use crate::sys;
use crate::sys::cgroup::Cgroup;
use crate::sys::landlock::Rules;
use crate::sys::spawn::ThreadLayers;
use crate::sys::step::{ExecFd, Image, Is, Lists, SLOTS, Slot, Step};
use nix::sched::CloneFlags;
use nix::sys::stat::SFlag;
use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The descriptor of what will be executed.
pub(super) const PROGRAM: Slot = Slot(5);
/// Sources of mounts keep their slots to the end; the ones before belong to the view.
const FIRST_SOURCE: usize = 16;
const NS_PER_S: i128 = 1_000_000_000;

/// Which layers are put in place. All of them, except in a build for tests that shows each
/// layer alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    pub(super) mounts: bool,
    pub(super) landlock: bool,
    pub(super) seccomp: bool,
    /// Whether the guard looks, before git is started and after a run.
    pub guard: bool,
    /// Covering again what the host uncovers, and refusing opens meanwhile.
    pub(super) covers: bool,
    pub(super) closes: bool,
}

impl Layers {
    /// Returns those that the spawning thread takes on for its children.
    pub fn of_thread(self) -> ThreadLayers {
        ThreadLayers { seccomp: self.seccomp }
    }

    /// Every layer.
    pub const ALL: Self = Self {
        mounts: true,
        landlock: true,
        seccomp: true,
        guard: true,
        covers: true,
        closes: true,
    };

    /// Leaves out the layers that `names` lists, separated by commas.
    #[cfg(feature = "test-layers")]
    pub fn without(names: &str) -> Self {
        let on = |layer| !names.split(',').any(|name| name == layer);
        Self {
            mounts: on("mounts"),
            landlock: on("landlock"),
            seccomp: on("seccomp"),
            guard: on("guard"),
            covers: on("covers"),
            closes: on("closes"),
        }
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
    pub(super) steps: Lists,
    /// The profile's line of each outer step, where it serves one.
    pub(super) places: Vec<Option<Arc<str>>>,
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
    group: Option<&Cgroup>,
    ends: &Ends,
    layers: Layers,
) -> io::Result<Compiled> {
    let sources = sources(plan)?;
    let mut steps = Steps {
        plan,
        userns,
        outer: Vec::new(),
        landlock: None,
        sources,
        made: HashSet::new(),
        place: None,
        places: Vec::new(),
    };
    let mut keep = Vec::new();
    if layers.landlock {
        let ruleset = ruleset(plan, workspace)?;
        steps.landlock = Some(ruleset.as_raw_fd());
        keep.push(ruleset);
    }
    steps.outer.extend(ends.supervisors.iter().map(|fd| Step::Close { fd: *fd }));
    // While the host's names are there, and before its own group becomes the root that it sees.
    let entrances = group.into_iter().flat_map(Cgroup::entrances);
    steps.outer.extend(entrances.map(|path| Step::Write { path, content: b"0".into() }));
    steps.enter_namespaces();
    if layers.mounts {
        steps.build_view();
    } else {
        steps.outer.push(Step::PrivateMounts);
    }
    steps.open_program();
    steps.drop_rights();
    let own = Inner {
        first: Vec::new(),
        enter: vec![Step::Chdir { path: c_path(&plan.cwd) }],
        limits: plan.limits.iter().filter_map(set_limit).collect(),
        filters: Vec::new(),
    };
    let inner = inner(plan, ends, steps.landlock, layers, own)?;
    let Steps { outer, places, .. } = steps;
    Ok(Compiled { steps: Lists { outer, inner, last: last(plan, ends) }, places, keep })
}

/// The steps in which the inner child of a view and that of a guardian differ.
pub(super) struct Inner {
    /// Before everything else.
    pub(super) first: Vec<Step>,
    /// How the working folder is entered.
    pub(super) enter: Vec<Step>,
    pub(super) limits: Vec<Step>,
    /// Filters that stand below those of every run; made before Landlock binds the child.
    pub(super) filters: Vec<Step>,
}

/// The program becomes itself: descriptors, limits, then the two layers that bind it for good.
pub(super) fn inner(
    plan: &Plan,
    ends: &Ends,
    landlock: Option<RawFd>,
    layers: Layers,
    own: Inner,
) -> io::Result<Vec<Step>> {
    let mut steps = own.first;
    steps.push(Step::NewSession);
    for (fd, at) in [(&ends.stdin, 0), (&ends.stdout, 1), (&ends.stderr, 2)] {
        steps.push(Step::Place { from: fd.as_raw_fd(), at });
    }
    steps.push(Step::CloseOnExec { first: 3 });
    steps.extend(own.enter);
    steps.push(Step::Umask { mask: 0o022 });
    steps.extend(own.limits);
    steps.extend(own.filters);
    if let Some(ruleset) = landlock {
        steps.push(Step::Restrict { ruleset, flags: sys::landlock::restrict_flags() });
    }
    if layers.seccomp {
        // The filter of set-id bits was inherited from the spawning thread.
        steps.push(Step::Filter { program: sys::seccomp::socket_filter(plan.sockets)? });
        let sets: Vec<_> = plan.syscalls.iter().map(|listed| listed.set).collect();
        let program = sys::seccomp::positive_list(&sets)?.into();
        steps.push(Step::Filter { program });
    }
    steps.push(Step::DefaultSignals);
    steps.push(Step::Report);
    steps.push(Step::Gate { fd: ends.gate.as_raw_fd() });
    let argv = plan.argv.iter().map(|arg| c_string(&OsString::from(arg.clone())));
    let variable = |(name, variable): (&String, &Variable)| {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(&variable.value);
        c_string(&pair)
    };
    let image = Image::new(argv.collect(), plan.environment.iter().map(variable).collect());
    steps.push(Step::Exec { fd: ExecFd::Slot(PROGRAM), image });
    Ok(steps)
}

/// A limit that the kernel keeps for each process.
pub(super) fn set_limit(limit: &Limit) -> Option<Step> {
    let Keeper::Rlimit(resource) = limit.keeper else { return None };
    let soft = limit.value;
    // The signal that tells of it comes at the soft limit, and only below the hard one.
    let hard = if limit.name == "cpu" { soft.saturating_add(1) } else { soft };
    Some(Step::Limit { resource, soft, hard })
}

/// Opens what will be executed and compares it with what was pinned: a script first, which its
/// interpreter opens by name, then the file that is started.
pub(super) fn open_program(plan: &Plan) -> Vec<Step> {
    let files = [Some(&plan.program), plan.interpreter.as_ref()];
    files.into_iter().flatten().flat_map(open_pinned).collect()
}

fn open_pinned(file: &ProgramFile) -> [Step; 2] {
    let path = c_string(&OsString::from(file.path.clone()));
    let number = |ns: i128| i64::try_from(ns).unwrap_or(-1);
    let ctime =
        (number(file.ctime_ns.div_euclid(NS_PER_S)), number(file.ctime_ns.rem_euclid(NS_PER_S)));
    // A size that no file can have equals none.
    let size = i64::try_from(file.size).unwrap_or(-1);
    let is = Is::Pinned { dev: file.dev, ino: file.ino, size, ctime };
    [Step::OpenPath { path, to: PROGRAM }, Step::Check { fd: PROGRAM, is }]
}

/// The outer child becomes the tree's init. Where no group counts processes, it has the command's
/// limit and tries at the end whether that is reached.
fn last(plan: &Plan, ends: &Ends) -> Vec<Step> {
    let mut argv = vec![c_string("pinfold-init".as_ref())];
    let mut steps = vec![
        Step::Place { from: ends.status.as_raw_fd(), at: 3 },
        Step::Place { from: ends.life.as_raw_fd(), at: 4 },
    ];
    if let Some(limit) = plan.limit("pids").and_then(set_limit) {
        steps.push(limit);
        argv.push(c_string("pids".as_ref()));
    }
    let image = Image::new(argv, Vec::new());
    steps.push(Step::Exec { fd: ExecFd::Parent(ends.init.as_raw_fd()), image });
    steps
}

/// Builds the Landlock ruleset of everything that exists before the view is made.
pub(super) fn ruleset(plan: &Plan, workspace: &Workspace) -> io::Result<OwnedFd> {
    let mut rules = Rules::new(plan.loopback)?;
    for Rule { at, rights, .. } in &plan.view.rules {
        if rights.is_none() {
            continue;
        }
        match at {
            RuleAt::Host(path) | RuleAt::Scratch(path) => {
                match sys::mount::open_host(&c_path(path)) {
                    Ok(file) => rules.allow(&file, *rights)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            RuleAt::Inside(path, inode) => {
                let file = sys::mount::open_exact(workspace, &c_path(path))?;
                rules.allow(&same(file, *inode)?, *rights)?;
            }
            RuleAt::Repository(path, inode) => {
                let file = sys::mount::open_host(&c_path(path))?;
                rules.allow(&same(file, *inode)?, *rights)?;
            }
            RuleAt::Device(path, rdev) => {
                // A name under /dev can be anything, so it is the number that counts.
                let file = sys::mount::open_host(&c_path(path))?;
                let found = nix::sys::stat::fstat(&file)?;
                let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
                if kind == SFlag::S_IFCHR && found.st_rdev == *rdev {
                    rules.allow(&file, *rights)?;
                }
            }
            RuleAt::View(_) => {}
        }
    }
    rules.finish()
}

/// The very file that a rule is about is compared, not its name once more.
fn same(file: OwnedFd, inode: Inode) -> io::Result<OwnedFd> {
    let found = nix::sys::stat::fstat(&file)?;
    if (Inode { dev: found.st_dev, ino: found.st_ino }) == inode {
        return Ok(file);
    }
    Err(io::Error::from_raw_os_error(sys::step::ANOTHER_FILE))
}

/// Gives each mount whose source is cloned before it is attached a slot.
fn sources(plan: &Plan) -> io::Result<Vec<(Slot, &Mount)>> {
    let with_source = plan.view.mounts.iter().filter(|mount| {
        let writable_hold = matches!(mount, Mount::Hold { writable: true, .. });
        writable_hold
            || matches!(
                mount,
                Mount::Host { .. }
                    | Mount::Device { .. }
                    | Mount::Repository { .. }
                    | Mount::Piece(_)
            )
    });
    let numbered = with_source.enumerate().map(|(index, mount)| {
        let slot = u8::try_from(FIRST_SOURCE + index).ok().filter(|n| usize::from(*n) < SLOTS);
        slot.map(|slot| (Slot(slot), mount))
    });
    let too_many = || io::Error::other("the profile names more places than a view can hold");
    numbered.collect::<Option<_>>().ok_or_else(too_many)
}

pub(super) fn c_string(text: &std::ffi::OsStr) -> CString {
    // Arguments passed the catalog's shape and the rest is Pinfold's own, so there is no NUL.
    CString::new(text.as_bytes()).unwrap_or_default()
}

/// A path as it is named from the staged root.
pub(super) fn staged(path: &Path) -> CString {
    c_path(path.strip_prefix("/").unwrap_or(path))
}

pub(super) fn inode(inode: Inode) -> Is {
    Is::Inode { dev: inode.dev, ino: inode.ino }
}

/// The outer child's steps being made.
pub(super) struct Steps<'p> {
    pub(super) plan: &'p Plan,
    pub(super) userns: Option<RawFd>,
    pub(super) outer: Vec<Step>,
    pub(super) landlock: Option<RawFd>,
    /// Every mount that has a source, with the slot of its clone.
    pub(super) sources: Vec<(Slot, &'p Mount)>,
    /// Folders of the view that were made.
    pub(super) made: HashSet<PathBuf>,
    /// The profile's line that the next steps serve.
    pub(super) place: Option<Arc<str>>,
    /// The line of each step of the outer list.
    pub(super) places: Vec<Option<Arc<str>>>,
}

impl<'p> Steps<'p> {
    pub(super) fn push(&mut self, step: Step) {
        self.places.resize(self.outer.len(), None);
        self.places.push(self.place.clone());
        self.outer.push(step);
    }

    /// Says which line of the profile the next steps serve.
    pub(super) fn serve(&mut self, mount: &Mount) {
        self.place = match mount {
            Mount::Host { place, .. }
            | Mount::HostMask { place, .. }
            | Mount::Repository { place, .. }
            | Mount::Hold { place, .. }
            | Mount::Mask { place, .. } => Some(place.as_str().into()),
            _ => None,
        };
    }

    fn enter_namespaces(&mut self) {
        let identity = self.plan.identity;
        if identity.same_user {
            self.outer.extend(identity_map_steps(identity.uid, identity.gid));
        }
        // Now that the child is in its group, that group is the root it sees.
        self.push(Step::Unshare { flags: CloneFlags::CLONE_NEWCGROUP.bits() });
        self.push(Step::HostName { name: c_string("pinfold".as_ref()) });
        if self.plan.loopback {
            self.push(Step::LoopbackUp);
        }
    }

    /// Opens what will be executed inside the new view.
    fn open_program(&mut self) {
        open_program(self.plan).into_iter().for_each(|step| self.push(step));
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
