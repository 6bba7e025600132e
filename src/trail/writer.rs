//! The writer: group commit, and the only maker of receipts.
//!
//! One caller at a time writes, for all: it takes what is queued and gives the lot one lock, one
//! write and, if anyone waits for it, one sync. Those who come meanwhile queue up and find their
//! records written, or the first of them writes for the rest. There is no timer: while one sync
//! runs, the next batch gathers. There is no thread either: a call that is alone pays for no
//! hand-over. Two locks are at work: the writer's puts the threads of this process in order, the
//! lock file the processes.
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
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard};

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

/// Proof that an intent is on stable storage. Only [`Trail::intent`] makes one, after the sync
/// returned; it cannot be copied, so one intent starts one command.
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

/// The trail, open for writing.
#[derive(Debug)]
pub struct Trail {
    /// Requests that nobody has written yet. Each of their callers waits for the writer, so there
    /// are never more than callers.
    queue: Mutex<VecDeque<Request>>,
    writer: Mutex<Writer>,
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
        Ok(Self { queue: Mutex::default(), writer: Mutex::new(writer) })
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
        self.commit_durably(encode(sess, call, &bodies)?)
    }

    /// Appends records of a call without a sync. They are durable after the next durable
    /// append of this trail has returned, which is also where a failure to write them shows.
    ///
    /// # Errors
    /// A record is too long, or a writer has panicked.
    pub fn append(&self, sess: &str, call: &CallId, bodies: Vec<Body>) -> Result<(), Error> {
        self.queue(Request { entries: encode(sess, call, &bodies)?, answer: None })?;
        let mut writer = locked(&self.writer)?;
        let batch = self.take()?;
        writer.serve(batch);
        Ok(())
    }

    /// Records an intent and waits until it is on stable storage.
    ///
    /// # Errors
    /// The record is too long or could not be made durable; nothing may start.
    pub fn intent(&self, sess: &str, call: &CallId, intent: Box<Intent>) -> Result<Receipt, Error> {
        let plan = intent.plan_sha256;
        let place = self.commit_durably(encode(sess, call, &[Body::Intent(intent)])?)?;
        assert!(place.seqs.end == place.seqs.start + 1, "an intent is one record");
        Ok(Receipt { call: call.clone(), plan, place })
    }

    /// Queues records and returns when they are on stable storage: written by this caller
    /// together with all that is queued, or by another one meanwhile.
    fn commit_durably(&self, entries: Vec<Entry>) -> Result<Place, Error> {
        let (sender, answer) = sync_channel(1);
        self.queue(Request { entries, answer: Some(sender) })?;
        let mut writer = locked(&self.writer)?;
        loop {
            if let Ok(place) = answer.try_recv() {
                return place;
            }
            // The own request is still queued, so a batch makes headway until it is in one.
            let batch = self.take()?;
            assert!(!batch.is_empty(), "a request is queued or answered");
            writer.serve(batch);
        }
    }

    fn queue(&self, request: Request) -> Result<(), Error> {
        locked(&self.queue)?.push_back(request);
        Ok(())
    }

    /// Takes what is queued, up to the limits of one write.
    fn take(&self) -> Result<Vec<Request>, Error> {
        let mut queue = locked(&self.queue)?;
        let (mut batch, mut records, mut bytes) = (Vec::new(), 0, 0);
        while let Some(next) = queue.front() {
            records += next.entries.len();
            bytes += bytes_max(&next.entries);
            let full = records > BATCH_RECORDS_MAX || bytes > BATCH_BYTES_MAX;
            if full && !batch.is_empty() {
                break;
            }
            batch.extend(queue.pop_front());
        }
        Ok(batch)
    }
}

/// A lock that a panic left behind says that nobody knows what was written.
fn locked<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>, Error> {
    lock.lock().map_err(|_| Error::Writer("a writer of this process has panicked".to_owned()))
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

#[derive(Debug)]
struct Writer {
    folder: Folder,
    lock: LogFile,
    segment: LogFile,
    /// Where this process left the log. Others may have written since.
    end: Option<End>,
    poison: Option<Error>,
}

impl Writer {
    /// Writes a batch and answers everyone in it.
    fn serve(&mut self, batch: Vec<Request>) {
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
