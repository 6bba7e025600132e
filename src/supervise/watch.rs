//! The watch over one child.

use super::output::{Captured, Reader, Sink, Stream};
use crate::plan::Plan;
use crate::plan::limits::Keeper;
use crate::record::LimitHit;
use crate::sandbox::{Child, Covers, Lost, Pipes, Uncovered};
use crate::sys::cgroup::Cgroup;
use crate::sys::wait::{self, Reached};
use nix::sys::signal::Signal;
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// How long a tree that was asked to end may take before it is killed: enough for a program to
/// remove its lock files.
const GRACE: Duration = Duration::from_millis(200);
/// How long a killed tree may take to be gone.
const KILL_WAIT: Duration = Duration::from_secs(10);

/// How often the processor time of a tree is looked at, where it is limited.
const CPU_INTERVAL: Duration = Duration::from_millis(200);

/// Most losses of covers that are recorded one by one.
const LOST_MAX: usize = 256;

/// Why the supervisor ended a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The deadline came.
    Deadline,
    /// The caller cancelled, by this signal.
    Cancelled(i32),
    /// The tree's processor time was used up.
    Cpu,
    /// A masked or protected place could not be covered again.
    Uncovered,
}

/// How a tree ended.
#[derive(Debug)]
pub struct Ended {
    /// How the program ended; `None` where it was killed with its tree.
    pub program: Option<wait::Ended>,
    /// Why the supervisor ended it, if it did.
    pub stopped: Option<Stop>,
    /// The first of the limits that were reached, as far as that can be told.
    pub limit: Option<LimitHit>,
    /// What a host program uncovered.
    pub losses: Losses,
    /// What the tree used.
    pub usage: wait::Usage,
    /// Time from the open gate to the end of the tree.
    pub duration: Duration,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
}

/// Watches a child until its tree is gone. `cancel` resolves to the signal that cancels it.
///
/// # Errors
/// Those of waiting and reading; the tree is killed all the same.
pub async fn watch(
    mut child: Child,
    plan: &Plan,
    sink: &mut dyn Sink,
    cancel: impl Future<Output = i32>,
) -> io::Result<Ended> {
    let started = Instant::now();
    let lost = || io::Error::other("the child has no pipes");
    let Pipes { stdout, stderr, status, life } = child.take_pipes().ok_or_else(lost)?;
    let mut streams = Streams {
        stdout: Reader::new(Stream::Stdout, stdout, plan.output_bytes)?,
        stderr: Reader::new(Stream::Stderr, stderr, plan.output_bytes)?,
    };
    let deadline = Duration::from_millis(plan.timeout_ms);
    let gone = crate::sys::fd::watched(child.pidfd().try_clone()?)?;
    let (covers, mut losses) = (child.take_covers(), Losses::default());
    let stop = tokio::select! {
        ended = streams.pump_until(wait_readable(&gone), sink) => ended.map(|()| None)?,
        () = tokio::time::sleep(deadline) => Some(Stop::Deadline),
        signal = cancel => Some(Stop::Cancelled(signal)),
        () = cpu_used_up(child.cgroup(), plan) => Some(Stop::Cpu),
        () = losses.collect(covers.as_ref()) => Some(Stop::Uncovered),
    };
    let mut life = Some(life);
    if stop.is_some() {
        child.wake();
        if let Some(life) = &life {
            ask_to_end(life.as_fd());
        }
        // What is open to be read is open until the tree is gone.
        let grace = if stop == Some(Stop::Uncovered) { Duration::ZERO } else { GRACE };
        let grace = tokio::time::timeout(grace, streams.pump_until(wait_readable(&gone), sink));
        if grace.await.is_err() {
            // A guardian kills its tree when this pipe ends.
            life = None;
            child.kill();
            let dying = streams.pump_until(wait_readable(&gone), sink);
            let slow = || io::Error::other("the tree was killed and is still there");
            tokio::time::timeout(KILL_WAIT, dying).await.map_err(|_| slow())??;
        }
    }
    let mut usage = child.reap()?;
    // The init saw only what it reaped; the group counts what was killed, too.
    if let Some((user_us, system_us)) = child.cgroup().and_then(Cgroup::cpu_us) {
        usage = wait::Usage { user_us, system_us, ..usage };
    }
    let duration = started.elapsed();
    drop(life);
    streams.stdout.drain(sink)?;
    streams.stderr.drain(sink)?;
    let (program, reached) = program_status(&status).unzip();
    let Streams { stdout, stderr } = streams;
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    let (stopped, limit) = (stop, None);
    // The helper holds the tree's mounts.
    losses.finish(covers);
    let ended = Ended { program, stopped, limit, losses, usage, duration, stdout, stderr };
    let hit =
        |limit: &LimitHit| is_hit(*limit, child.cgroup(), &ended, reached.unwrap_or_default());
    // A file system of the host's own, or a limit of the host's, is no limit of the run's.
    let mut kept = LimitHit::ALL.into_iter().filter(|limit| plan.limit(limit.as_str()).is_some());
    let limit = kept.find(hit);
    Ok(Ended { limit, ..ended })
}

/// Returns whether a limit was reached.
fn is_hit(limit: LimitHit, group: Option<&Cgroup>, ended: &Ended, reached: Reached) -> bool {
    let died_of = |signal| ended.program == Some(wait::Ended::Signal(signal as i32));
    match limit {
        LimitHit::Memory => group.is_some_and(Cgroup::ran_out_of_memory),
        LimitHit::Pids => reached.no_pids || group.is_some_and(Cgroup::ran_out_of_pids),
        LimitHit::Cpu => ended.stopped == Some(Stop::Cpu) || died_of(Signal::SIGXCPU),
        LimitHit::FileSize => died_of(Signal::SIGXFSZ),
        LimitHit::Tmp => reached.full,
        LimitHit::TmpInodes => reached.no_inodes,
        LimitHit::Output => ended.stdout.truncated() || ended.stderr.truncated(),
    }
}

/// Waits until a tree has used the processor time that it may have as a whole; for ever where no
/// group counts it.
async fn cpu_used_up(group: Option<&Cgroup>, plan: &Plan) {
    let limit = plan.limit("cpu").filter(|limit| limit.keeper == Keeper::Group);
    let (Some(group), Some(limit)) = (group, limit) else { return std::future::pending().await };
    let used = || group.cpu_us().map_or(0, |(user, system)| user + system);
    while used() < limit.value.saturating_mul(1_000_000) {
        tokio::time::sleep(CPU_INTERVAL).await;
    }
}

/// The masked and protected places that a host program uncovered.
#[derive(Debug, Default)]
pub struct Losses {
    /// The worst of them.
    pub lost: Vec<Lost>,
    /// How many there were beyond those.
    pub more: u64,
    /// Why a place could not be covered again.
    pub uncovered: Option<Uncovered>,
}

impl Losses {
    /// Collects until a place cannot be covered again; for ever where nothing is watched.
    async fn collect(&mut self, covers: Option<&Covers>) {
        let Some(covers) = covers else { return std::future::pending().await };
        loop {
            match covers.next().await {
                Ok(lost) => self.add(lost),
                Err(why) => {
                    self.uncovered = Some(why);
                    return;
                }
            }
        }
    }

    fn add(&mut self, lost: Lost) {
        if self.lost.len() < LOST_MAX {
            self.lost.push(lost);
            return;
        }
        self.more += 1;
        // The worst are what a reader must know of.
        if let Some(least) = self.lost.iter_mut().min_by_key(|lost| lost.severity())
            && least.severity() < lost.severity()
        {
            *least = lost;
        }
    }

    /// Takes what was told last and ends the helper. The tree may have ended by itself before
    /// anybody saw that a place was uncovered for good.
    fn finish(&mut self, covers: Option<Covers>) {
        let (left, why) = covers.map(|covers| covers.left()).unwrap_or_default();
        left.into_iter().for_each(|lost| self.add(lost));
        self.uncovered = self.uncovered.take().or(why);
    }
}

struct Streams {
    stdout: Reader,
    stderr: Reader,
}

impl Streams {
    /// Passes output on until `gone` resolves.
    async fn pump_until(
        &mut self,
        gone: impl Future<Output = io::Result<()>>,
        sink: &mut dyn Sink,
    ) -> io::Result<()> {
        tokio::pin!(gone);
        loop {
            let Self { stdout, stderr } = self;
            let (out_open, err_open) = (stdout.is_open(), stderr.is_open());
            let next = async {
                // One of the two at a time, so that the sink has one user.
                tokio::select! {
                    ready = stdout.ready(), if out_open => (true, ready),
                    ready = stderr.ready(), if err_open => (false, ready),
                    else => std::future::pending().await,
                }
            };
            tokio::select! {
                result = &mut gone => return result,
                (is_stdout, ready) = next => {
                    ready?;
                    let reader = if is_stdout { stdout } else { stderr };
                    reader.next(sink).await?;
                }
            }
        }
    }
}

async fn wait_readable(fd: &AsyncFd<OwnedFd>) -> io::Result<()> {
    fd.readable().await.map(|_| ())
}

/// Asks every process of the tree to end; the init passes it on.
fn ask_to_end(life: BorrowedFd<'_>) {
    let asked = life.try_clone_to_owned().and_then(|fd| File::from(fd).write_all(b"t"));
    tracing::debug!(?asked, "asked the tree to end");
}

/// Reads what the init wrote before it ended, if it did.
fn program_status(status: &OwnedFd) -> Option<(wait::Ended, Reached)> {
    let mut bytes = [0; wait::STATUS_BYTES];
    match nix::unistd::read(status, &mut bytes) {
        Ok(wait::STATUS_BYTES) => Some(wait::told(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_losses_the_worst_are_kept_and_the_rest_is_counted() {
        let lost =
            |us, refused| Lost { path: "/w/a".into(), length: Duration::from_micros(us), refused };
        let mut losses = Losses::default();
        (0..LOST_MAX).for_each(|_| losses.add(lost(500, true)));
        for (us, refused) in [(900, true), (1, false), (100, true)] {
            losses.add(lost(us, refused));
        }
        assert_eq!((losses.lost.len(), losses.more), (LOST_MAX, 3));
        let kept = |us, refused| losses.lost.contains(&lost(us, refused));
        assert!(kept(900, true) && kept(1, false) && !kept(100, true));
    }
}
