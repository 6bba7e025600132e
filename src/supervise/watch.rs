//! The watch over one child.

use super::output::{Captured, Reader, Sink, Stream};
use crate::sandbox::{Child, Pipes};
use crate::sys::wait;
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

/// Why the supervisor ended a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The deadline came.
    Deadline,
    /// The caller cancelled, by this signal.
    Cancelled(i32),
}

/// How a tree ended.
#[derive(Debug)]
pub struct Ended {
    /// How the program ended; `None` where it was killed with its tree.
    pub program: Option<wait::Ended>,
    /// Why the supervisor ended it, if it did.
    pub stopped: Option<Stop>,
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
    deadline: Duration,
    output_cap: u64,
    sink: &mut dyn Sink,
    cancel: impl Future<Output = i32>,
) -> io::Result<Ended> {
    let started = Instant::now();
    let lost = || io::Error::other("the child has no pipes");
    let Pipes { stdout, stderr, status, life } = child.take_pipes().ok_or_else(lost)?;
    let mut streams = Streams {
        stdout: Reader::new(Stream::Stdout, stdout, output_cap)?,
        stderr: Reader::new(Stream::Stderr, stderr, output_cap)?,
    };
    let gone = crate::sys::fd::watched(child.pidfd().try_clone()?)?;
    let stop = tokio::select! {
        ended = streams.pump_until(wait_readable(&gone), sink) => ended.map(|()| None)?,
        () = tokio::time::sleep(deadline) => Some(Stop::Deadline),
        signal = cancel => Some(Stop::Cancelled(signal)),
    };
    let mut life = Some(life);
    if stop.is_some() {
        if let Some(life) = &life {
            ask_to_end(life.as_fd());
        }
        let grace = tokio::time::timeout(GRACE, streams.pump_until(wait_readable(&gone), sink));
        if grace.await.is_err() {
            // A guardian kills its tree when this pipe ends.
            life = None;
            child.kill();
            let dying = streams.pump_until(wait_readable(&gone), sink);
            let slow = || io::Error::other("the tree was killed and is still there");
            tokio::time::timeout(KILL_WAIT, dying).await.map_err(|_| slow())??;
        }
    }
    let usage = child.reap()?;
    let duration = started.elapsed();
    drop(life);
    streams.stdout.drain(sink)?;
    streams.stderr.drain(sink)?;
    let program = program_status(&status);
    let Streams { stdout, stderr } = streams;
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    Ok(Ended { program, stopped: stop, usage, duration, stdout, stderr })
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

/// Reads the wait status that the init wrote before it ended, if it did.
fn program_status(status: &OwnedFd) -> Option<wait::Ended> {
    let mut bytes = [0; 4];
    match nix::unistd::read(status, &mut bytes) {
        Ok(4) => Some(wait::Ended::from_status(i32::from_ne_bytes(bytes))),
        _ => None,
    }
}
