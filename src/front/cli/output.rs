//! The command's output on its way to the terminal.
//!
//! A thread of its own writes it, so that a reader that is slow or gone delays neither the
//! deadline nor the record of the end. What waits is bounded by the cap on a run's output.

use crate::supervise::{Sink, Stream};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Passes chunks on to standard output and standard error. The thread starts with the first.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    chunks: Option<Sender<(Stream, Vec<u8>)>>,
    writer: Option<JoinHandle<()>>,
    closed: Arc<[AtomicBool; 2]>,
}

impl Terminal {
    fn start(&mut self) -> std::io::Result<()> {
        if self.writer.is_none() {
            let (sender, receiver) = channel();
            let seen = Arc::clone(&self.closed);
            let thread = std::thread::Builder::new().name("output".to_owned());
            self.writer = Some(thread.spawn(move || write(&receiver, &seen))?);
            self.chunks = Some(sender);
        }
        Ok(())
    }

    /// Waits until everything was written.
    pub(super) fn finish(mut self) {
        self.chunks = None;
        // The writer does not panic; if it did, the output is lost and nothing else.
        drop(self.writer.take().map(JoinHandle::join));
    }
}

impl Sink for Terminal {
    fn take(&mut self, stream: Stream, chunk: &[u8]) -> bool {
        if self.start().is_err() {
            // Without the thread nothing can be shown; the command learns it as from any reader
            // that went away, and the record says how much it wrote.
            return false;
        }
        let sent = self.chunks.as_ref().map(|chunks| chunks.send((stream, chunk.to_vec())));
        sent.is_some_and(|sent| sent.is_ok()) && !self.closed[index(stream)].load(Ordering::Relaxed)
    }
}

/// Keeps nothing: the reply holds what was captured.
#[derive(Debug)]
pub(super) struct Quiet;

impl Sink for Quiet {
    fn take(&mut self, _: Stream, _: &[u8]) -> bool {
        true
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

fn write(chunks: &Receiver<(Stream, Vec<u8>)>, closed: &[AtomicBool; 2]) {
    while let Ok((stream, chunk)) = chunks.recv() {
        let at = index(stream);
        if closed[at].load(Ordering::Relaxed) {
            continue;
        }
        let written = match stream {
            Stream::Stdout => put(&mut std::io::stdout().lock(), &chunk),
            Stream::Stderr => put(&mut std::io::stderr().lock(), &chunk),
        };
        if written.is_err() {
            closed[at].store(true, Ordering::Relaxed);
        }
    }
}

fn put(out: &mut impl Write, chunk: &[u8]) -> std::io::Result<()> {
    out.write_all(chunk)?;
    out.flush()
}
