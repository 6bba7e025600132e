//! The command's output: read as it comes, passed on up to a cap, counted beyond it.

use crate::record::{Digest, StreamSummary};
use sha2::{Digest as _, Sha256};
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The most that a pipe of an unprivileged process holds, by the kernel's default.
const PIPE_BYTES_MAX: u64 = 1 << 20;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where output goes, one chunk after the other.
pub trait Sink {
    /// Takes a chunk. Returns whether more is wanted: after `false` the pipe is closed, and the
    /// command learns it when it writes again.
    fn take(&mut self, stream: Stream, chunk: &[u8]) -> bool;
}

/// What came out of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The bytes that were passed on.
    pub kept: Vec<u8>,
    /// How many bytes the command wrote.
    pub bytes: u64,
}

impl Captured {
    /// Returns whether bytes were dropped.
    pub fn truncated(&self) -> bool {
        self.bytes > self.kept.len() as u64
    }

    /// Returns the form that is written to the trail.
    pub fn summary(&self) -> StreamSummary {
        StreamSummary {
            bytes: self.bytes,
            kept: self.kept.len() as u64,
            sha256: Digest(Sha256::digest(&self.kept).into()),
            truncated: self.truncated(),
        }
    }
}

/// One stream being read.
#[derive(Debug)]
pub(super) struct Reader {
    stream: Stream,
    pipe: Option<AsyncFd<OwnedFd>>,
    cap: u64,
    captured: Captured,
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn new(stream: Stream, pipe: OwnedFd, cap: u64) -> io::Result<Self> {
        let captured = Captured { kept: Vec::new(), bytes: 0 };
        let (pipe, buffer) = (Some(crate::sys::fd::watched(pipe)?), vec![0; CHUNK_BYTES]);
        Ok(Self { stream, pipe, cap, captured, buffer })
    }

    /// Returns whether the stream can still give something.
    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits until there is something to read.
    pub(super) async fn ready(&self) -> io::Result<()> {
        match &self.pipe {
            Some(pipe) => pipe.readable().await.map(|_| ()),
            None => std::future::pending().await,
        }
    }

    /// Waits for output and passes one chunk on. Cancel safe: nothing is read before it waits.
    pub(super) async fn next(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        let mut ready = pipe.readable().await?;
        let buffer = &mut self.buffer;
        match ready.try_io(|pipe| Ok(nix::unistd::read(pipe, buffer)?)) {
            Ok(read) => self.took(read, sink),
            Err(_would_block) => Ok(()),
        }
    }

    /// Passes on what is there, without waiting, up to what a pipe can hold: the tree is gone, but
    /// it may have handed its end of the pipe to somebody else.
    pub(super) fn drain(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let before = self.captured.bytes;
        while let Some(pipe) = &self.pipe {
            if self.captured.bytes - before > PIPE_BYTES_MAX {
                return Ok(());
            }
            match nix::unistd::read(pipe.get_ref(), &mut self.buffer) {
                Err(nix::errno::Errno::EAGAIN) => return Ok(()),
                read => self.took(read.map_err(io::Error::from), sink)?,
            }
        }
        Ok(())
    }

    fn took(&mut self, read: io::Result<usize>, sink: &mut dyn Sink) -> io::Result<()> {
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        };
        if count == 0 {
            self.pipe = None;
            return Ok(());
        }
        self.captured.bytes += count as u64;
        let room = self.cap.saturating_sub(self.captured.kept.len() as u64);
        let kept = count.min(usize::try_from(room).unwrap_or(usize::MAX));
        let Some(chunk) = self.buffer.get(..kept).filter(|chunk| !chunk.is_empty()) else {
            return Ok(());
        };
        self.captured.kept.extend_from_slice(chunk);
        if !sink.take(self.stream, chunk) {
            self.pipe = None;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Captured {
        self.captured
    }
}
