//! Throw-away children that do what a run would do, and say what failed.

use super::{Mode, c_string, identity_map_steps, namespace_flags};
use crate::sys;
use crate::sys::seccomp::{Set, Sockets};
use crate::sys::spawn::Spawner;
use crate::sys::step::{Failure, Lists, Message, Part, Program, Slot, Step};
use nix::errno::Errno;
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
    outer.push(("making mounts private", Step::PrivateMounts));
    let kind = c_string("proc");
    let proc = Step::NewFs { kind, options: Vec::new(), attributes: 0, to: Slot(0) };
    outer.push((MOUNTING_PROC, proc));
    let flags = namespace_flags(mode);
    run(spawner, ("making namespaces", flags), outer, Vec::new(), Vec::new())
}

/// Puts everything in place that holds a tree without namespaces; with a listener if `brokered`.
pub(super) fn guardian(spawner: &Spawner, brokered: bool) -> Result<(), Failed> {
    let doing = "preparing the guardian";
    let prepared = |error: io::Error| Failed { doing, error };
    let scope = sys::landlock::signal_scope().map_err(prepared)?;
    let ruleset = sys::landlock::Rules::new(false).and_then(|rules| rules.finish());
    let ruleset = ruleset.map_err(prepared)?;
    let (own, childs) = sys::notify::mailbox().map_err(prepared)?;
    let flags = sys::landlock::restrict_flags();
    let restrict = |fd: &OwnedFd, flags| Step::Restrict { ruleset: fd.as_raw_fd(), flags };
    let outer: Named = vec![
        ("leaving the session", Step::NewSession),
        ("giving up capabilities", Step::NoCapabilities),
        ("setting no_new_privs", Step::NoNewPrivileges),
        ("holding signals by Landlock", restrict(&scope, 0)),
        ("adopting orphans", Step::Subreaper),
    ];
    let filter = |made: io::Result<Vec<_>>| made.map(Arc::from).map_err(prepared);
    let program = filter(sys::seccomp::guarded_filter(brokered))?;
    let held = match brokered {
        true => ("listening to calls", Step::Listen { program, to: childs.as_raw_fd() }),
        false => ("filtering calls on metadata", Step::Filter { program }),
    };
    let list = filter(sys::seccomp::positive_list(&[Set::Base]))?;
    let sockets = sys::seccomp::socket_filter(Sockets::None).map_err(prepared)?;
    let inner: Named = vec![
        held,
        ("enforcing Landlock", restrict(&ruleset, flags)),
        ("filtering sockets", Step::Filter { program: sockets }),
        ("filtering system calls", Step::Filter { program: list }),
    ];
    run(spawner, ("making the child", 0), outer, inner, vec![scope, ruleset, own, childs])
}

/// Runs the steps in a child that ends after them.
fn run(
    spawner: &Spawner,
    (cloning, namespaces): (&'static str, i32),
    outer: Named,
    inner: Named,
    keep: Vec<OwnedFd>,
) -> Result<(), Failed> {
    let fault = |doing, error: io::Error| Failed { doing, error };
    let (read, report) =
        nix::unistd::pipe().map_err(|error| fault("preparing the probe", error.into()))?;
    let (outer_names, outer): (Vec<_>, Vec<_>) = outer.into_iter().unzip();
    let (inner_names, mut inner): (Vec<_>, Vec<_>) = inner.into_iter().unzip();
    inner.push(Step::Report);
    let steps = Arc::new(Lists { outer, inner, last: Vec::new() });
    let program = Program { namespaces, cgroup: None, steps, report, tell: None, keep };
    let launch = spawner.launch(program);
    let mut answer = Vec::new();
    let heard = fs::File::from(read).read_to_end(&mut answer);
    let made = launch.wait();
    if let Some(pidfd) = launch.take_pidfd() {
        sys::wait::reap(&pidfd).map_err(|error| fault("reaping the probe", error))?;
    }
    heard.map_err(|error| fault("hearing the probe", error))?;
    made.map_err(|error| fault(cloning, error))?;
    match answer.first_chunk().copied().and_then(Message::decode) {
        Some(Message::Ready) => Ok(()),
        Some(Message::Failed(Failure { part, step, errno })) => {
            let names = if part == Part::Inner { inner_names } else { outer_names };
            let doing = names.get(usize::from(step)).copied().unwrap_or("cloning the program");
            Err(fault(doing, io::Error::from_raw_os_error(errno)))
        }
        None => Err(fault("hearing the probe", io::ErrorKind::UnexpectedEof.into())),
    }
}
