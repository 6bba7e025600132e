//! Makes the child of a plan and holds it at the gate.

use super::broker::Broker;
use super::compile::{Compiled, Ends, Layers, compile, describe};
use super::covers::{Covers, Uncovered, Watch};
use super::guardian::{self, Lines};
use super::scratch::Folder;
use crate::plan::Plan;
use crate::plan::host::{Host, namespace_flags};
use crate::plan::workspace::Workspace;
use crate::record::{Digest, Rung};
use crate::sys::cgroup::Cgroup;
use crate::sys::spawn::{Launch, Spawner};
use crate::sys::step::{Failure, Lists, MESSAGE_BYTES, Message, Part, Program};
use crate::sys::{self, fd};
use crate::trail::Receipt;
use nix::sys::signal::Signal;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How long a guardian may take to end its tree before more is done.
const GUARDIAN_WAIT: Duration = Duration::from_secs(2);

/// The tree's init, built by `build.rs`.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// Why a child did not come to the gate, or not past it.
#[derive(Debug)]
pub enum Fault {
    /// The parent could not prepare it.
    Prepare(io::Error),
    /// The clone failed.
    Clone(io::Error),
    /// A step failed in the child; nothing was executed.
    Step {
        /// The profile's line it served, such as `build.toml:14:9`.
        place: Option<String>,
        /// What it was doing.
        doing: String,
        /// The error.
        error: io::Error,
    },
    /// The child ended without a word.
    Silent,
    /// The child did not come to the gate in time.
    Slow,
    /// The receipt is for another plan or another call.
    Receipt,
    /// A masked or protected place cannot be kept.
    Uncovered(Uncovered),
}

impl Fault {
    /// Returns whether the kernel refused to make the child at all, so that this host may give
    /// less than was thought.
    pub fn is_of_the_host(&self) -> bool {
        matches!(self, Self::Clone(error) if error.raw_os_error().is_some())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare(error) => write!(out, "the sandbox could not be prepared: {error}"),
            Self::Clone(error) => write!(out, "the child could not be made: {error}"),
            Self::Step { place, doing, error } => {
                if let Some(place) = place {
                    write!(out, "{place}: ")?;
                }
                write!(out, "the child could not {doing}: ")?;
                match error.raw_os_error() {
                    Some(sys::step::ANOTHER_FILE) => out.write_str("another file is there now"),
                    _ => write!(out, "{error}"),
                }
            }
            Self::Silent => out.write_str("the child ended before every layer was in place"),
            Self::Slow => out.write_str("the child could not put its layers in place in time"),
            Self::Uncovered(why) => write!(out, "{why}"),
            Self::Receipt => out.write_str("the record is of another plan than the child's"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Prepare(error) | Self::Clone(error) | Self::Step { error, .. } => Some(error),
            Self::Uncovered(_) | Self::Silent | Self::Slow | Self::Receipt => None,
        }
    }
}

/// The supervisor's ends of a child's pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Where the command's standard output comes out.
    pub stdout: OwnedFd,
    /// Where its standard error comes out.
    pub stderr: OwnedFd,
    /// Where the init writes the command's wait status.
    pub status: OwnedFd,
    /// Held open while the tree may live; a byte asks the tree to end.
    pub life: OwnedFd,
}

/// A child that builds its sandbox and waits at the gate. Dropped, it ends without having
/// executed anything, and is reaped.
#[derive(Debug)]
pub struct Gated {
    call: String,
    plan: Digest,
    report: AsyncFd<OwnedFd>,
    /// The steps and the profile's lines they serve, to say which one failed.
    steps: Arc<Lists>,
    places: Vec<Option<Arc<str>>>,
    /// Taken when the gate opens.
    held: Option<Held>,
    /// Whether the gate was opened, so that something may have run.
    opened: bool,
}

#[derive(Debug)]
struct Held {
    launch: Launch,
    gate: OwnedFd,
    pipes: Pipes,
    own: Own,
    /// What the host can uncover; its helper starts when every layer is in place.
    watch: Option<Watch>,
    covers: Option<Covers>,
    /// The outer child, taken when it is needed.
    pidfd: Option<OwnedFd>,
    /// Where the listener of a tree without namespaces comes out, and who answers its calls.
    brokered: Option<(OwnedFd, Broker)>,
}

/// What the tree has of its own, in the order in which it goes after the tree.
#[derive(Debug)]
struct Own {
    cgroup: Option<Cgroup>,
    /// Removed when dropped.
    _scratch: Option<Folder>,
    /// Whether the tree ends with its guardian's own act, instead of with a namespace.
    guarded: bool,
}

impl Drop for Gated {
    fn drop(&mut self) {
        let Some(Held { launch, gate, pipes, own, pidfd, .. }) = self.held.take() else { return };
        // The child sees the gate close without its byte, or the init its life pipe, and ends.
        drop((gate, pipes));
        // It may hang in a step; then only a signal ends it, and with it the cloning thread's
        // sleep. A guardian whose program may run already must live to end the tree.
        let early = pidfd.or_else(|| launch.take_pidfd());
        if let Some(pidfd) = &early
            && !(own.guarded && self.opened)
        {
            let killed = sys::signal::kill(pidfd);
            tracing::trace!(?killed, "ended a child before its gate");
        }
        if launch.wait().is_err() {
            return;
        }
        if let Some(pidfd) = early.or_else(|| launch.take_pidfd()) {
            end(&pidfd, own.guarded && self.opened);
        }
    }
}

/// Kills and reaps a tree's init, and the kernel with it the whole tree. A guardian kills the tree
/// itself when its life pipe has ended, and is waited for; if somebody has stopped it, it is woken,
/// and killed only when that does not help.
fn end(pidfd: &OwnedFd, guarded: bool) {
    let ended = || sys::wait::is_gone_within(pidfd, GUARDIAN_WAIT);
    if guarded && !ended() {
        let woken = sys::signal::send(pidfd, Signal::SIGCONT as i32);
        tracing::warn!(?woken, "the guardian did not end its tree in time");
    }
    // Both fail only where the process is gone already, which is what is wanted.
    let killed = (!guarded || !ended()).then(|| sys::signal::kill(pidfd));
    let reaped = sys::wait::reap(pidfd);
    tracing::trace!(?killed, ?reaped, "ended a tree");
}

/// A child whose gate was opened and whose program was executed. Dropped, its tree is killed.
#[derive(Debug)]
pub struct Child {
    pidfd: OwnedFd,
    pid: u32,
    pipes: Option<Pipes>,
    covers: Option<Covers>,
    own: Own,
    reaped: bool,
}

impl Child {
    /// Returns the process id of the tree's init, as the supervisor sees it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the tree's init.
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Takes the pipes. Closing the life pipe ends the tree.
    pub fn take_pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    /// Takes what keeps the places that the host can uncover, where there are any.
    pub fn take_covers(&mut self) -> Option<Covers> {
        self.covers.take()
    }

    /// Returns the group, which tells what the tree used and reached.
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.own.cgroup.as_ref()
    }

    /// Wakes a guardian that somebody has stopped, so that it does what it is asked to.
    pub fn wake(&self) {
        if self.own.guarded {
            let woken = sys::signal::send(&self.pidfd, Signal::SIGCONT as i32);
            tracing::trace!(?woken, "woke the guardian");
        }
    }

    /// Kills the whole tree. A guardian does that when the life pipe ends, and must not be killed
    /// before.
    pub fn kill(&self) {
        if self.own.guarded {
            return;
        }
        let group = self.own.cgroup.as_ref().map(Cgroup::kill);
        let init = sys::signal::kill(&self.pidfd);
        tracing::debug!(?group, ?init, "killed the tree");
    }

    /// Reaps the tree's init, which has ended, and tells what the tree used.
    ///
    /// # Errors
    /// As `waitid(2)`.
    pub fn reap(&mut self) -> io::Result<sys::wait::Usage> {
        let usage = sys::wait::reap(&self.pidfd)?;
        self.reaped = true;
        Ok(usage)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.pipes = None;
            self.kill();
            end(&self.pidfd, self.own.guarded);
        }
    }
}

/// What the child of a run gets beside its plan.
#[derive(Debug)]
pub struct Means<'m> {
    /// The workspace that the plan names.
    pub workspace: &'m Workspace,
    /// What can be enforced here.
    pub host: &'m Host,
    /// The user namespace whose maps swap the workspace owner and the command.
    pub userns: Option<&'m OwnedFd>,
    /// A group of the run's own.
    pub cgroup: Option<Cgroup>,
    /// Standard input.
    pub stdin: Option<&'m [u8]>,
    /// Who makes the child.
    pub spawner: &'m Spawner,
    /// Which layers are put in place.
    pub layers: Layers,
}

/// Starts making the child of a plan. Returns at once; the child builds its sandbox while the
/// record of it is synced.
///
/// # Errors
/// [`Fault::Prepare`] where the parent's part failed; then there is no child.
pub fn prepare(plan: &Plan, call: &str, means: Means<'_>) -> Result<Gated, Fault> {
    let Means { workspace, host, userns, cgroup, stdin, spawner, layers } = means;
    let guarded = plan.rung == Rung::C;
    let made = || -> io::Result<Gated> {
        let (mut ends, pipes, gate) = pipes(stdin)?;
        let lines = guarded.then(|| Lines::new(plan.brokered && layers.seccomp)).transpose()?;
        let mailbox = lines.as_ref().and_then(|lines| lines.mailbox.as_ref());
        ends.supervisors.extend(mailbox.map(|(own, _)| own.as_raw_fd()));
        // Its rule is made of the folder itself, so it is there before the rules are.
        let scratch =
            guarded.then(|| Folder::new(&plan.view.scratch, plan.identity)).transpose()?;
        let (report_read, report) = fd::pipe()?;
        fd::set_nonblocking(&report_read)?;
        let userns = userns.map(fd::high).transpose()?;
        let number = userns.as_ref().map(AsRawFd::as_raw_fd);
        let mut compiled = match &lines {
            Some(lines) => guardian::compile(plan, workspace, host, &ends, lines, layers)?,
            None => compile(plan, workspace, number, cgroup.as_ref(), &ends, layers)?,
        };
        let Ends { stdin, stdout, stderr, gate: gate_read, status, life, init, .. } = ends;
        compiled.keep.extend([stdin, stdout, stderr, gate_read, status, life, init]);
        compiled.keep.extend(userns);
        let tell = lines.as_ref().map(|lines| lines.id_write.as_raw_fd());
        let mut brokered = None;
        if let Some(Lines { id_read, id_write, mailbox }) = lines {
            compiled.keep.extend([id_read, id_write]);
            if let Some((own, childs)) = mailbox {
                compiled.keep.push(childs);
                brokered = Some((own, Broker::new(plan, workspace)?));
            }
        }
        let Compiled { steps, places, keep } = compiled;
        let steps = Arc::new(steps);
        let program = Program {
            namespaces: if guarded { 0 } else { namespace_flags(host.mode) },
            cgroup: cgroup.as_ref().map(Cgroup::open).transpose()?.flatten(),
            steps: Arc::clone(&steps),
            report,
            tell,
            keep,
        };
        // From here on the child is being made; what follows happens meanwhile.
        let launch = spawner.launch(program);
        Ok(Gated {
            call: call.to_owned(),
            plan: plan.digest(),
            report: fd::watched(report_read)?,
            steps,
            places,
            held: Some(Held {
                launch,
                gate,
                pipes,
                own: Own { cgroup, _scratch: scratch, guarded },
                watch: Watch::of(plan, layers),
                covers: None,
                pidfd: None,
                brokered,
            }),
            opened: false,
        })
    };
    made().map_err(Fault::Prepare)
}

impl Gated {
    /// Waits until the child reports that every layer is in place, and what the host can uncover is
    /// watched.
    ///
    /// # Errors
    /// The step that failed, why there is no child, or which place cannot be kept.
    pub async fn ready(&mut self) -> Result<(), Fault> {
        match self.next_message().await? {
            Some(Message::Ready) => {}
            Some(Message::Failed(failure)) => return Err(self.step(failure)),
            None => return Err(self.silent()),
        }
        let Some(held) = &mut self.held else { return Err(Fault::Silent) };
        if let Some(watch) = held.watch.take() {
            let pidfd = held.launch.take_pidfd().ok_or(Fault::Silent)?;
            let pidfd = held.pidfd.insert(pidfd);
            held.covers = Some(watch.start(pidfd).await.map_err(Fault::Uncovered)?);
        }
        Ok(())
    }

    /// Opens the gate and waits until the program was executed.
    ///
    /// # Errors
    /// [`Fault::Receipt`] where the receipt is for something else, and the step that failed,
    /// which can only be the execution itself.
    pub async fn open(mut self, receipt: &Receipt) -> Result<Child, Fault> {
        if *receipt.plan() != self.plan || receipt.call().as_str() != self.call {
            return Err(Fault::Receipt);
        }
        let held = self.held.as_mut().ok_or(Fault::Silent)?;
        if let Some((mailbox, broker)) = held.brokered.take() {
            let listener = sys::notify::take_listener(mailbox).map_err(Fault::Prepare)?;
            broker.start(listener).map_err(Fault::Prepare)?;
        }
        let gate = held.gate.try_clone().map_err(Fault::Prepare)?;
        self.opened = true;
        File::from(gate).write_all(b"g").map_err(Fault::Prepare)?;
        // The pipe closes when both children have executed their programs.
        if let Some(Message::Failed(failure)) = self.next_message().await? {
            return Err(self.step(failure));
        }
        let held = self.held.take().ok_or(Fault::Silent)?;
        let Held { launch, gate, pipes, own, covers, pidfd, .. } = held;
        drop(gate);
        let pid = launch.wait().map_err(Fault::Clone)?;
        let pidfd = pidfd.or_else(|| launch.take_pidfd()).ok_or(Fault::Silent)?;
        let pid = u32::try_from(pid).map_err(|_| Fault::Silent)?;
        Ok(Child { pidfd, pid, pipes: Some(pipes), covers, own, reaped: false })
    }

    fn step(&self, failure: Failure) -> Fault {
        let index = usize::from(failure.step);
        let place = match failure.part {
            Part::Outer => self.places.get(index).cloned().flatten(),
            Part::Inner | Part::Last => None,
        };
        let doing = self.steps.part(failure.part).get(index).map(describe);
        let doing = doing.unwrap_or_else(|| "make the command's process".to_owned());
        let error = io::Error::from_raw_os_error(failure.errno);
        Fault::Step { place: place.map(|place| place.to_string()), doing, error }
    }

    fn silent(&self) -> Fault {
        match self.held.as_ref().map(|held| held.launch.wait()) {
            Some(Err(error)) => Fault::Clone(error),
            _ => Fault::Silent,
        }
    }

    /// Reads one message; `None` where the pipe closed.
    async fn next_message(&mut self) -> Result<Option<Message>, Fault> {
        loop {
            let mut guard = self.report.readable().await.map_err(Fault::Prepare)?;
            let mut message = [0; MESSAGE_BYTES];
            let read = guard.try_io(|fd| Ok(nix::unistd::read(fd, &mut message)?));
            match read {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(MESSAGE_BYTES)) => return Ok(Message::decode(message)),
                Ok(Ok(_)) => return Err(Fault::Silent),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(Fault::Prepare(error)),
                Err(_would_block) => {}
            }
        }
    }
}

/// Makes every pipe of a run: the child's ends, the supervisor's, and the gate.
fn pipes(stdin: Option<&[u8]>) -> io::Result<(Ends, Pipes, OwnedFd)> {
    let stdin = match stdin {
        Some(content) => fd::sealed(c"stdin", content)?,
        None => fd::high(&File::open("/dev/null")?)?,
    };
    let (stdout_read, stdout) = fd::pipe()?;
    let (stderr_read, stderr) = fd::pipe()?;
    let (gate_read, gate) = fd::pipe()?;
    let (status_read, status) = fd::pipe()?;
    let (life_read, life) = fd::pipe()?;
    for read in [&stdout_read, &stderr_read, &status_read] {
        fd::set_nonblocking(read)?;
    }
    let supervisors: Vec<RawFd> = vec![gate.as_raw_fd(), life.as_raw_fd()];
    let init = fd::executable(c"pinfold-init", INIT)?;
    let ends =
        Ends { stdin, stdout, stderr, gate: gate_read, status, life: life_read, init, supervisors };
    let pipes = Pipes { stdout: stdout_read, stderr: stderr_read, status: status_read, life };
    Ok((ends, pipes, gate))
}
