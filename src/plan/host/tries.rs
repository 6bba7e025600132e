//! Throw-away children that do what a run would do, and say what failed.

use super::{Mode, c_string, identity_map_steps, namespace_flags};
use crate::sys;
use crate::sys::cgroup::Cgroup;
use crate::sys::seccomp::{Set, Sockets};
use crate::sys::spawn::Spawner;
use crate::sys::step::{Failure, Lists, MESSAGE_BYTES, Message, Part, Program, Slot, Step};
use nix::errno::Errno;
use nix::sched::CloneFlags;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// What could not be done.
#[derive(Debug)]
pub(super) struct Failed {
    /// The act, such as `mounting a new /proc`.
    pub(super) doing: &'static str,
    /// The error.
    pub(super) error: io::Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.raw_os_error().map(Errno::from_raw) {
            Some(errno) => write!(out, "{} failed: {}", self.doing, errno.desc()),
            None => write!(out, "{} failed: {}", self.doing, self.error),
        }
    }
}

/// What the last step of a view does; the advice for it is one of its own.
pub(super) const MOUNTING_PROC: &str = "mounting a new /proc";

/// Steps, each with its name.
type Named = Vec<(&'static str, Step)>;

/// Makes the namespaces and a new `/proc`.
pub(super) fn namespaces(
    spawner: &Spawner,
    mode: Mode,
    (uid, gid): (u32, u32),
) -> Result<(), Failed> {
    let mut outer: Named = match mode {
        Mode::User => {
            let steps = identity_map_steps(uid, gid).into_iter();
            steps.map(|step| ("mapping the user id", step)).collect()
        }
        Mode::Root => Vec::new(),
    };
    let own_group = CloneFlags::CLONE_NEWCGROUP.bits();
    outer.push(("making a cgroup namespace", Step::Unshare { flags: own_group }));
    outer.push(("making mounts private", Step::PrivateMounts));
    let kind = c_string("proc");
    let proc = Step::NewFs { kind, options: Vec::new(), attributes: 0, to: Slot(0) };
    outer.push((MOUNTING_PROC, proc));
    Trial { namespaces: namespace_flags(mode), outer, ..Trial::default() }.run(spawner)
}

/// Enforces a ruleset that refuses everything.
pub(super) fn landlock(spawner: &Spawner) -> Result<(), Failed> {
    let (ruleset, restrict) = closed()?;
    let inner: Named = vec![("setting no_new_privs", Step::NoNewPrivileges), restrict];
    Trial { inner, keep: vec![ruleset], ..Trial::default() }.run(spawner)
}

/// Installs the filters of a run.
pub(super) fn seccomp(spawner: &Spawner) -> Result<(), Failed> {
    let mut inner: Named = vec![("setting no_new_privs", Step::NoNewPrivileges)];
    inner.extend(filters()?);
    Trial { inner, ..Trial::default() }.run(spawner)
}

/// A ruleset that refuses everything, and the step that enforces it.
fn closed() -> Result<(OwnedFd, (&'static str, Step)), Failed> {
    let ruleset = sys::landlock::Rules::new(false).and_then(|rules| rules.finish());
    let ruleset = ruleset.map_err(|error| Failed { doing: "making a ruleset", error })?;
    let (number, flags) = (ruleset.as_raw_fd(), sys::landlock::restrict_flags());
    let step = ("enforcing Landlock", Step::Restrict { ruleset: number, flags });
    Ok((ruleset, step))
}

/// The filters of a run that may do the least.
fn filters() -> Result<[(&'static str, Step); 2], Failed> {
    let filter = |made: io::Result<Arc<[_]>>| {
        let program = made.map_err(|error| Failed { doing: "compiling a filter", error })?;
        Ok(("filtering system calls", Step::Filter { program }))
    };
    Ok([
        filter(sys::seccomp::socket_filter(Sockets::None))?,
        filter(sys::seccomp::positive_list(&[Set::Base]).map(Arc::from))?,
    ])
}

/// Takes the id of another user.
pub(super) fn ids(spawner: &Spawner, id: u32) -> Result<(), Failed> {
    let outer: Named = vec![
        ("giving up groups", Step::NoGroups),
        ("taking another user id", Step::Ids { uid: id, gid: id }),
    ];
    Trial { outer, ..Trial::default() }.run(spawner)
}

/// Has a child born in a group and killed with it.
pub(super) fn group(spawner: &Spawner, group: &Cgroup) -> Result<(), Failed> {
    let did = |doing| move |error| Failed { doing, error };
    let cgroup = group.open().map_err(did("opening the group"))?;
    let (gate, opener) =
        nix::unistd::pipe().map_err(|error| did("preparing the probe")(error.into()))?;
    // With a copy of the opener the child would hold its own gate open.
    let outer: Named = vec![("closing a pipe", Step::Close { fd: opener.as_raw_fd() })];
    let last = Some(Step::Gate { fd: gate.as_raw_fd() });
    let trial = Trial { cgroup, outer, last, keep: vec![gate], ..Trial::default() };
    trial.run_until(spawner, || {
        let killed = group.kill().map_err(did("killing the group"));
        // The child of a group that cannot be killed ends by this.
        drop(opener);
        killed
    })
}

/// Puts everything in place that holds a tree without namespaces; with a listener if `brokered`.
pub(super) fn guardian(spawner: &Spawner, brokered: bool) -> Result<(), Failed> {
    let doing = "preparing the guardian";
    let prepared = |error: io::Error| Failed { doing, error };
    let scope = sys::landlock::signal_scope().map_err(prepared)?;
    let (ruleset, restrict) = closed()?;
    let (own, childs) = sys::notify::mailbox().map_err(prepared)?;
    let hold = Step::Restrict { ruleset: scope.as_raw_fd(), flags: 0 };
    let outer: Named = vec![
        ("leaving the session", Step::NewSession),
        ("giving up capabilities", Step::NoCapabilities),
        ("setting no_new_privs", Step::NoNewPrivileges),
        ("holding signals by Landlock", hold),
        ("adopting orphans", Step::Subreaper),
    ];
    let program = sys::seccomp::guarded_filter(brokered).map_err(prepared)?.into();
    let held = match brokered {
        true => ("listening to calls", Step::Listen { program, to: childs.as_raw_fd() }),
        false => ("filtering calls on metadata", Step::Filter { program }),
    };
    let mut inner: Named = vec![held, restrict];
    inner.extend(filters()?);
    Trial { outer, inner, keep: vec![scope, ruleset, own, childs], ..Trial::default() }.run(spawner)
}

/// A child that ends after its steps.
#[derive(Default)]
struct Trial {
    namespaces: i32,
    cgroup: Option<OwnedFd>,
    outer: Named,
    inner: Named,
    /// Done after the report, that all steps before it were done.
    last: Option<Step>,
    keep: Vec<OwnedFd>,
}

impl Trial {
    fn run(self, spawner: &Spawner) -> Result<(), Failed> {
        self.run_until(spawner, || Ok(()))
    }

    /// Does `then` when every step is done, and waits for the end of the child.
    fn run_until(
        self,
        spawner: &Spawner,
        then: impl FnOnce() -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let Self { namespaces, cgroup, outer, inner, last, keep } = self;
        let fault = |doing, error: io::Error| Failed { doing, error };
        let (read, report) =
            nix::unistd::pipe().map_err(|error| fault("preparing the probe", error.into()))?;
        let (outer_names, outer): (Vec<_>, Vec<_>) = outer.into_iter().unzip();
        let (inner_names, mut inner): (Vec<_>, Vec<_>) = inner.into_iter().unzip();
        inner.push(Step::Report);
        inner.extend(last);
        let steps = Arc::new(Lists { outer, inner, last: Vec::new() });
        let launch =
            spawner.launch(Program { namespaces, cgroup, steps, report, tell: None, keep });
        let mut answer = Vec::new();
        let heard = fs::File::from(read).take(MESSAGE_BYTES as u64).read_to_end(&mut answer);
        let message = answer.first_chunk().copied().and_then(Message::decode);
        let done = if message == Some(Message::Ready) { then() } else { Ok(()) };
        let made = launch.wait();
        if let Some(pidfd) = launch.take_pidfd() {
            sys::wait::reap(&pidfd).map_err(|error| fault("reaping the probe", error))?;
        }
        heard.map_err(|error| fault("hearing the probe", error))?;
        let cloning = if namespaces == 0 { "making the child" } else { "making namespaces" };
        made.map_err(|error| fault(cloning, error))?;
        match message {
            Some(Message::Ready) => done,
            Some(Message::Failed(Failure { part, step, errno })) => {
                let names = if part == Part::Inner { inner_names } else { outer_names };
                let doing = names.get(usize::from(step)).copied().unwrap_or("cloning the program");
                Err(fault(doing, io::Error::from_raw_os_error(errno)))
            }
            None => Err(fault("hearing the probe", io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
