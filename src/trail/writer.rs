//! The writer: group commit, and the only maker of receipts.
//!
//! One thread writes. It takes one request, adds what is queued already, and gives the lot one
//! lock, one write and, if anyone waits for it, one sync. There is no timer: while one sync
//! runs, the next batch gathers. Two locks are at work: the queue puts the threads of this
//! process in order, the lock file the processes.
//!
//! After a failed write or sync the writer is poisoned: it answers everything from then on
//! with the same error, because nobody knows what of the batch is on the disk.
#![forbid(unsafe_code)]

use super::call::{CallId, random_bits};
use super::error::Error;
use super::file::{Folder, LogFile};
use super::line::{Entry, Stamp};
use super::recover::{End, is_clean, settle};
use crate::record::{Body, Digest, Intent};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Most requests that wait for the writer; a caller that brings one more waits.
const QUEUE_MAX: usize = 256;

/// Most records that are taken into one write.
const BATCH_RECORDS_MAX: usize = 4096;

/// Most bytes that are taken into one write, unless one request alone needs them.
pub(super) const BATCH_BYTES_MAX: usize = 1 << 20;

/// The first segment's name.
const SEGMENT: &str = "seg-00000000000000000000.jsonl";

/// Where records came to stand, and the log's state just behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Sequence numbers of the records.
    pub seqs: Range<u64>,
    /// How many records the log has, up to and with the last of them.
    pub size: u64,
    /// Leaf of the last record.
    pub root: Digest,
}

/// Proof that an intent is on stable storage. Only [`Trail::intent`] and
/// [`PendingIntent::wait`] make one, after the sync returned; it cannot be copied, so one
/// intent starts one command.
#[derive(Debug)]
#[must_use = "a receipt lets exactly one command start"]
pub struct Receipt {
    call: CallId,
    plan: Digest,
    place: Place,
}

impl Receipt {
    /// Returns the call that it was given for.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// Returns the digest of the plan that the record commits to.
    pub fn plan(&self) -> &Digest {
        &self.plan
    }

    /// Returns where the intent stands.
    pub fn place(&self) -> &Place {
        &self.place
    }
}

/// An intent on its way to the disk.
#[derive(Debug)]
#[must_use = "nothing may start before the wait returned a receipt"]
pub struct PendingIntent {
    call: CallId,
    plan: Digest,
    answer: Receiver<Result<Place, Error>>,
}

impl PendingIntent {
    /// Waits until the intent is on stable storage.
    ///
    /// # Errors
    /// The record could not be made durable; nothing may start.
    pub fn wait(self) -> Result<Receipt, Error> {
        let Self { call, plan, answer } = self;
        let place = receive(&answer)?;
        assert!(place.seqs.end == place.seqs.start + 1, "an intent is one record");
        Ok(Receipt { call, plan, place })
    }
}

/// The trail, open for writing.
///
/// Dropping it writes what is still queued, without a sync.
#[derive(Debug)]
pub struct Trail {
    // An option only so that the drop can close the queue before it joins the thread.
    queue: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Trail {
    /// Opens the trail in a folder; what is missing is made, a torn tail is mended.
    ///
    /// Only the end of the newest segment is read, and without the lock if it is sound.
    ///
    /// # Errors
    /// The folder is not safe or cannot be used, or the trail is corrupt.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let folder = Folder::open(dir)?;
        let lock = folder.append_to("LOCK", true)?;
        let segment = match newest_segment(&folder)? {
            true => folder.append_to(SEGMENT, false)?,
            false => begin(&folder, &lock)?,
        };
        if !is_clean(&folder, &segment) {
            settle(&folder, &segment, &lock.lock()?)?;
        }
        let writer = Writer { folder, lock, segment, end: None, poison: None };
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("trail".to_owned())
            .spawn(move || writer.serve(&receiver))
            .map_err(|error| Error::Writer(error.to_string()))?;
        Ok(Self { queue: Some(sender), thread: Some(thread) })
    }

    /// Appends records of a call and waits until they, and all that was appended before them,
    /// are on stable storage.
    ///
    /// # Errors
    /// A record is too long, or the records could not be made durable.
    pub fn append_durable(
        &self,
        sess: &str,
        call: &CallId,
        bodies: Vec<Body>,
    ) -> Result<Place, Error> {
        receive(&self.send_durable(sess, call, &bodies)?)
    }

    /// Appends records of a call without waiting. They are durable after the next durable
    /// append of this trail has returned, which is also where a failure to write them shows.
    ///
    /// # Errors
    /// A record is too long, or the writer has ended.
    pub fn append(&self, sess: &str, call: &CallId, bodies: Vec<Body>) -> Result<(), Error> {
        self.send(Request { entries: encode(sess, call, &bodies)?, answer: None })
    }

    /// Records an intent and waits until it is on stable storage.
    ///
    /// # Errors
    /// The record is too long or could not be made durable; nothing may start.
    pub fn intent(&self, sess: &str, call: &CallId, intent: Box<Intent>) -> Result<Receipt, Error> {
        self.intent_start(sess, call, intent)?.wait()
    }

    /// Starts to record an intent, so that other work can be done while the disk syncs.
    ///
    /// # Errors
    /// The record is too long, or the writer has ended; nothing may start.
    pub fn intent_start(
        &self,
        sess: &str,
        call: &CallId,
        intent: Box<Intent>,
    ) -> Result<PendingIntent, Error> {
        let plan = intent.plan_sha256;
        let answer = self.send_durable(sess, call, &[Body::Intent(intent)])?;
        Ok(PendingIntent { call: call.clone(), plan, answer })
    }

    fn send_durable(
        &self,
        sess: &str,
        call: &CallId,
        bodies: &[Body],
    ) -> Result<Receiver<Result<Place, Error>>, Error> {
        let (sender, answer) = sync_channel(1);
        let entries = encode(sess, call, bodies)?;
        self.send(Request { entries, answer: Some(sender) })?;
        Ok(answer)
    }

    fn send(&self, request: Request) -> Result<(), Error> {
        let sent = self.queue.as_ref().map(|queue| queue.send(request));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(writer_ended()) }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has shown itself to whoever waited for an answer.
            thread.join().ok();
        }
    }
}

fn writer_ended() -> Error {
    Error::Writer("it ended before its time".to_owned())
}

fn receive(answer: &Receiver<Result<Place, Error>>) -> Result<Place, Error> {
    answer.recv().unwrap_or_else(|_| Err(writer_ended()))
}

/// Encodes in the caller's thread, so that what is too long never enters the queue.
fn encode(sess: &str, call: &CallId, bodies: &[Body]) -> Result<Vec<Entry>, Error> {
    let entries = bodies.iter().map(|body| Entry::new(sess, call, body));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let length = bytes_max(&entries);
    if length > BATCH_BYTES_MAX {
        return Err(Error::TooLong { length, limit: BATCH_BYTES_MAX });
    }
    Ok(entries)
}

fn bytes_max(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::line_bytes_max).sum()
}

/// Returns whether the folder has its segment. This version keeps one segment, so a second
/// one means that a later version wrote here, and this one would append in the wrong place.
fn newest_segment(folder: &Folder) -> Result<bool, Error> {
    let names = folder.names()?;
    let is_segment = |name: &&String| name.starts_with("seg-") && name.ends_with(".jsonl");
    match names.iter().filter(is_segment).max() {
        None => Ok(false),
        Some(name) if name == SEGMENT => Ok(true),
        Some(name) => Err(Error::Unsafe {
            path: folder.path_of(name),
            why: "is a segment that this version of Pinfold does not continue".to_owned(),
            next: "use the newer version, or move the trail folder aside".to_owned(),
        }),
    }
}

/// Makes the identity and the first segment. A segment that has a line was made durable, name
/// and all, before the line was written.
fn begin(folder: &Folder, lock: &LogFile) -> Result<LogFile, Error> {
    let held = lock.lock()?;
    if folder.read("id")?.is_none() {
        let created = Stamp::now().timestamp();
        let id = format!("pinfold/{:032x}\ncreated {created}\n", random_bits()?);
        folder.write_whole("id", id.as_bytes())?;
    }
    let segment = folder.append_to(SEGMENT, true)?;
    folder.sync()?;
    folder.sync_above();
    settle(folder, &segment, &held)?;
    Ok(segment)
}

/// What a caller asks of the writer; with an answer to give it is durable before that.
#[derive(Debug)]
struct Request {
    entries: Vec<Entry>,
    answer: Option<SyncSender<Result<Place, Error>>>,
}

struct Writer {
    folder: Folder,
    lock: LogFile,
    segment: LogFile,
    /// Where this process left the log. Others may have written since.
    end: Option<End>,
    poison: Option<Error>,
}

impl Writer {
    fn serve(mut self, queue: &Receiver<Request>) {
        let mut held_over = None;
        while let Some(first) = held_over.take().or_else(|| queue.recv().ok()) {
            let batch;
            (batch, held_over) = drain(first, queue);
            let result = match &self.poison {
                Some(error) => Err(error.clone()),
                None => self.commit(&batch),
            };
            self.poison = result.as_ref().err().cloned();
            for (index, request) in batch.into_iter().enumerate() {
                let place = result.as_ref().map(|places| places[index].clone());
                if let Some(answer) = request.answer {
                    // A caller that no longer waits has given the call up.
                    answer.send(place.map_err(Clone::clone)).ok();
                }
            }
        }
    }

    /// Writes a batch, and syncs it if anyone waits for that.
    fn commit(&mut self, batch: &[Request]) -> Result<Vec<Place>, Error> {
        let held = self.lock.lock()?;
        let length = self.segment.len()?;
        let before = match self.end {
            Some(end) if end.length == length => end,
            _ => settle(&self.folder, &self.segment, &held)?,
        };
        let (mut end, mut text, mut places) = (before, String::new(), Vec::new());
        for request in batch {
            let first = end.next;
            request.entries.iter().for_each(|entry| end.write(&mut text, entry));
            places.push(Place { seqs: first..end.next, size: end.next, root: end.last });
        }
        if let Err(error) = self.segment.append(text.as_bytes()) {
            // Others can go on only behind a whole line. If the cut fails too, the next one
            // to open the trail finds a torn tail.
            self.segment.truncate(before.length).ok();
            return Err(error);
        }
        if batch.iter().any(|request| request.answer.is_some()) {
            self.segment.sync()?;
        }
        self.end = Some(end);
        Ok(places)
    }
}

/// Takes what is queued already, up to the limits of one write; what would not fit any more
/// is held over for the next one.
fn drain(first: Request, queue: &Receiver<Request>) -> (Vec<Request>, Option<Request>) {
    let mut records = first.entries.len();
    let mut bytes = bytes_max(&first.entries);
    let mut batch = vec![first];
    while let Ok(next) = queue.try_recv() {
        records += next.entries.len();
        bytes += bytes_max(&next.entries);
        if records > BATCH_RECORDS_MAX || bytes > BATCH_BYTES_MAX {
            return (batch, Some(next));
        }
        batch.push(next);
    }
    (batch, None)
}
