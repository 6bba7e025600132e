//! Plan to steps where there are no namespaces: a guardian, and the program in a domain below it.
//!
//! The outer child enforces a Landlock layer that holds signals and nothing else, clones the
//! program, which gives up every right, gives up its own, and becomes the tree's guardian
//! (`sys/init/main.rs`). The program's
//! own Landlock layer stands below that one, so the guardian can signal it and it cannot signal
//! the guardian.

use super::compile::{
    Compiled, Ends, Inner, Layers, c_string, inner, inode, open_program, ruleset, set_limit,
};
use crate::plan::Plan;
use crate::plan::host::Host;
use crate::plan::identity::Identity;
use crate::plan::limits::Limit;
use crate::plan::workspace::{Workspace, c_path};
use crate::sys;
use crate::sys::step::{Dir, ExecFd, Image, Lists, Slot, Step};
use nix::sys::resource::Resource;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const FOLDER: Slot = Slot(0);
const OWN_PROCESS: Slot = Slot(1);

/// What a guardian and its supervisor share beside the pipes of every run.
#[derive(Debug)]
pub(super) struct Lines {
    /// The pipe through which the guardian learns the program's process id: both ends are the
    /// child's.
    pub(super) id_read: OwnedFd,
    pub(super) id_write: OwnedFd,
    /// Where the supervisor takes the listener from, and where the child sends it; for a tree
    /// whose changes of modes and times are brokered.
    pub(super) mailbox: Option<(OwnedFd, OwnedFd)>,
}

impl Lines {
    pub(super) fn new(brokered: bool) -> io::Result<Self> {
        let (id_read, id_write) = sys::fd::pipe()?;
        let mailbox = brokered.then(sys::notify::mailbox).transpose()?;
        Ok(Self { id_read, id_write, mailbox })
    }
}

/// Compiles a plan of rung C.
///
/// # Errors
/// As for any other plan.
pub(super) fn compile(
    plan: &Plan,
    workspace: &Workspace,
    host: &Host,
    ends: &Ends,
    lines: &Lines,
    layers: Layers,
) -> io::Result<Compiled> {
    // Without it the guardian would reach processes that are not its own, so no switch leaves it
    // out.
    let scope = sys::landlock::signal_scope()?;
    let mut keep = Vec::new();
    let mut outer: Vec<Step> = ends.supervisors.iter().map(|fd| Step::Close { fd: *fd }).collect();
    // A signal to the supervisor's group must not reach the guardian too.
    outer.push(Step::NewSession);
    if host.empties_bounds {
        outer.extend([Step::DropBounding, Step::Securebits]);
    }
    outer.push(Step::NoNewPrivileges);
    outer.push(Step::Restrict { ruleset: scope.as_raw_fd(), flags: 0 });
    outer.push(Step::Subreaper);
    keep.push(scope);
    let ruleset = if layers.landlock { Some(ruleset(plan, workspace)?) } else { None };
    let number = ruleset.as_ref().map(AsRawFd::as_raw_fd);
    keep.extend(ruleset);
    let before = Inner {
        first: drop_rights(plan),
        enter: enter(plan, number),
        limits: plan.limits.iter().filter_map(|limit| set_shared_limit(plan, limit)).collect(),
        filters: if layers.seccomp { filters(plan, lines)? } else { Vec::new() },
    };
    let inner = inner(plan, ends, number, layers, before)?;
    let last = last(plan, ends, lines);
    let places = Vec::new();
    Ok(Compiled { steps: Lists { outer, inner, last }, places, keep })
}

/// The program's rights: the command's ids and no capability. The signal that ends it with its
/// guardian comes after the last change of ids, which would clear it.
fn drop_rights(plan: &Plan) -> Vec<Step> {
    let Identity { uid, gid, same_user, .. } = plan.identity;
    let mut steps = Vec::new();
    if !same_user {
        steps.extend([Step::NoGroups, Step::Ids { uid, gid }]);
    }
    steps.extend([Step::NoCapabilities, Step::DeathSignal]);
    steps
}

/// Enters the working folder and opens the program, each compared with what was planned; and
/// grants the program its own folder of `/proc`, which exists only now.
fn enter(plan: &Plan, ruleset: Option<i32>) -> Vec<Step> {
    let mut steps = vec![
        Step::OpenPath { path: c_path(&plan.workspace), to: FOLDER },
        Step::Check { fd: FOLDER, is: inode(plan.workspace_inode) },
    ];
    if let Ok(below) = plan.cwd.strip_prefix(&plan.workspace)
        && !below.as_os_str().is_empty()
    {
        let (dir, path) = (Dir::Slot(FOLDER), c_path(below));
        steps.push(Step::OpenBeneath { dir, path, to: FOLDER });
    }
    steps.push(Step::Enter { fd: FOLDER });
    steps.extend(open_program(plan));
    if let Some(ruleset) = ruleset {
        let access = sys::landlock::Rights::read().bits();
        steps.push(Step::OpenPath { path: c"/proc/self".into(), to: OWN_PROCESS });
        steps.push(Step::Rule { ruleset, fd: OWN_PROCESS, access });
    }
    steps
}

/// A limit; the number of processes is counted for the whole user, so those that there are already
/// are added.
fn set_shared_limit(plan: &Plan, limit: &Limit) -> Option<Step> {
    let mut limit = limit.clone();
    if limit.name == "pids" {
        let own = nix::sys::resource::getrlimit(Resource::RLIMIT_NPROC);
        let most = own.map_or(u64::MAX, |(_, hard)| hard);
        limit.value = limit.value.saturating_add(tasks_of(plan.identity.uid)).min(most);
    }
    set_limit(&limit)
}

/// Counts the threads of a user's processes, as far as they are shown.
fn tasks_of(uid: u32) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = |process: fs::DirEntry| {
        let name = process.file_name();
        let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let owner = process.metadata().ok().filter(|_| is_process)?.uid();
        let tasks = fs::read_dir(process.path().join("task")).ok()?;
        (owner == uid).then(|| tasks.count() as u64)
    };
    processes.filter_map(threads).sum()
}

/// Filters of this rung, before the ones that every run has.
fn filters(plan: &Plan, lines: &Lines) -> io::Result<Vec<Step>> {
    let program: Arc<[_]> = sys::seccomp::guarded_filter(plan.brokered)?.into();
    let held = match &lines.mailbox {
        Some((_, to)) => Step::Listen { program, to: to.as_raw_fd() },
        None => Step::Filter { program },
    };
    Ok(vec![held, Step::Filter { program: sys::seccomp::neighbours_filter()?.into() }])
}

/// The outer child becomes the tree's guardian. Root's takes the command's id as its effective one
/// only, which is enough to signal the tree; the real one stays, so that others of that id can
/// neither end nor stop the guardian (`sys/init/main.rs` takes the saved one back).
fn last(plan: &Plan, ends: &Ends, lines: &Lines) -> Vec<Step> {
    let image = Image::new(vec![c_string("pinfold-guardian".as_ref())], Vec::new());
    let Identity { uid, gid, same_user, .. } = plan.identity;
    let mut steps = Vec::new();
    if !same_user {
        steps.extend([Step::NoGroups, Step::EffectiveIds { uid, gid }]);
    }
    steps.extend([
        Step::NoCapabilities,
        Step::Place { from: ends.status.as_raw_fd(), at: 3 },
        Step::Place { from: ends.life.as_raw_fd(), at: 4 },
        Step::Place { from: lines.id_read.as_raw_fd(), at: 5 },
        Step::Exec { fd: ExecFd::Parent(ends.init.as_raw_fd()), image },
    ]);
    steps
}
