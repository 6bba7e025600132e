//! Where the log ends: finds the last record, and mends what a crash left behind it.
//!
//! Only the end of the newest segment is read, however long the trail is. A tail is torn, and
//! cut, if nothing that is a record follows the damage. Anything else was not done by a crash:
//! it is reported as corruption and left as it is.
#![forbid(unsafe_code)]

use super::error::Error;
use super::file::{Folder, Held, LogFile};
use super::line::{self, Entry, LINE_BYTES_MAX, LINE_HEAD, NOTHING_BEFORE, Stamp, leaf};
use super::writer::BATCH_BYTES_MAX;
use crate::record::{Body, Digest};
use sha2::{Digest as _, Sha256};

/// What is read at first: two ordinary lines.
const GLANCE_BYTES: u64 = 8 << 10;

/// What is read if that is not enough: two of the longest lines, and the newline before them.
const WINDOW_BYTES: u64 = 2 * (LINE_BYTES_MAX as u64 + 1) + 1;

/// What is read at most. A crash damages one batch, so a longer damage is no torn tail.
const WINDOW_BYTES_MAX: u64 = BATCH_BYTES_MAX as u64 + WINDOW_BYTES;

/// Most torn tails that are kept for one sequence number.
const TORN_MAX: usize = 16;

/// Where the next record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Length of the segment.
    pub(super) length: u64,
    /// Sequence number of the next record.
    pub(super) next: u64,
    /// Leaf of the last record.
    pub(super) last: Digest,
}

impl End {
    /// Encodes a record at this place onto `out`, and moves the place behind it.
    pub(super) fn write(&mut self, out: &mut String, entry: &Entry) {
        let before = out.len();
        self.last = entry.write(out, self.next, &Stamp::now(), &self.last);
        self.next += 1;
        self.length += (out.len() - before) as u64;
    }
}

/// Returns whether the segment ends in a record that continues the one before it and nothing
/// is left to mend. It may be asked without the lock: while somebody writes the answer may be
/// no, and then [`settle`] finds out.
pub(super) fn is_clean(folder: &Folder, segment: &LogFile) -> bool {
    let end = segment.len().and_then(|length| sound_end(segment, length));
    let Ok(Some(end)) = end else { return false };
    matches!(folder.read(&torn_name(end.next, 0)), Ok(None))
}

/// Finds the end of the segment, with the lock held. Cuts a torn tail, begins an empty log, and
/// writes down what was cut; all of that is durable when it returns.
pub(super) fn settle(folder: &Folder, segment: &LogFile, _lock: &Held<'_>) -> Result<End, Error> {
    let length = segment.len()?;
    let mut end = match sound_end(segment, length)? {
        Some(end) => end,
        None => sound_prefix(segment, length)?,
    };
    let mut cuts = known_cuts(folder, end.next)?;
    if end.length < length {
        put_aside(folder, segment, end, length, &mut cuts)?;
    }
    let mut text = String::new();
    let cut_at = end.length;
    if end.length == 0 {
        let origin = folder.read("id")?.unwrap_or_default();
        let origin = String::from_utf8_lossy(&origin);
        let origin = origin.lines().next().unwrap_or("pinfold");
        let origin = format!("{origin} {}", env!("CARGO_PKG_VERSION"));
        end.write(&mut text, &Entry::of_log(&Body::LogOpen { origin })?);
    }
    for (length, sha256) in cuts {
        let body = Body::LogRecovered { offset: cut_at, length, sha256 };
        end.write(&mut text, &Entry::of_log(&body)?);
    }
    if !text.is_empty() {
        segment.append(text.as_bytes())?;
        segment.sync()?;
    }
    Ok(end)
}

/// Returns the end of a segment whose last line is sound, by two hashes and one decoding;
/// `None` if the end must be looked at more closely.
fn sound_end(segment: &LogFile, length: u64) -> Result<Option<End>, Error> {
    match sound_end_within(segment, length, GLANCE_BYTES)? {
        None => sound_end_within(segment, length, WINDOW_BYTES),
        end => Ok(end),
    }
}

/// Looks at so many bytes only; a line that is not whole in them does not match its hash.
fn sound_end_within(segment: &LogFile, length: u64, most: u64) -> Result<Option<End>, Error> {
    let window = read_end(segment, length, most)?;
    let Some(text) = window.strip_suffix(b"\n") else { return Ok(None) };
    let mut lines = text.rsplitn(3, |byte| *byte == b'\n');
    let (last, before) = (lines.next().unwrap_or_default(), lines.next());
    let Ok(last) = line::decode(last) else { return Ok(None) };
    let before = match before {
        Some(before) => leaf(before),
        // The first record of the log must say that it is the first.
        None if length <= most => NOTHING_BEFORE,
        None => return Ok(None),
    };
    let fits = last.prev == before.base64url() && (last.seq == 0) == (before == NOTHING_BEFORE);
    Ok(fits.then_some(End { length, next: last.seq + 1, last: last.leaf }))
}

/// Returns the end of the longest prefix of whole records, if what follows is a torn tail.
fn sound_prefix(segment: &LogFile, length: u64) -> Result<End, Error> {
    let corrupt = |offset, why: &str| Err(Error::corrupt(segment.path(), offset, why));
    let mut size = WINDOW_BYTES;
    loop {
        let window = read_end(segment, length, size)?;
        let start = length - window.len() as u64;
        // The window begins inside a line, unless it holds the whole segment.
        let skip = match window.iter().position(|byte| *byte == b'\n') {
            _ if start == 0 => 0,
            Some(newline) => newline + 1,
            None => window.len(),
        };
        let (end, fault) = walk(&window[skip..], start == 0);
        if end.length == 0 && start > 0 {
            if size >= WINDOW_BYTES_MAX {
                return corrupt(start, "no record is found before the damage");
            }
            size = (size * 4).min(WINDOW_BYTES_MAX);
            continue;
        }
        let damage = skip + usize::try_from(end.length).unwrap_or(usize::MAX);
        let at = start + damage as u64;
        if holds_record(&window[damage..]) {
            let why = fault.unwrap_or_else(|| "the line is not a record".to_owned());
            return corrupt(at, &format!("{why}, and a whole record follows"));
        }
        return Ok(End { length: at, ..end });
    }
}

/// Walks whole lines as long as each is a record that continues the one before it. `length`
/// of the result counts the bytes walked; with it comes what is wrong with the next line.
fn walk(text: &[u8], is_start: bool) -> (End, Option<String>) {
    let mut end = End { length: 0, next: 0, last: NOTHING_BEFORE };
    for whole in text.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = whole.strip_suffix(b"\n") else { break };
        let record = match line::decode(text) {
            Ok(record) => record,
            Err(why) => return (end, Some(why)),
        };
        let is_bound = is_start || end.length > 0;
        if is_bound && (record.seq, &record.prev) != (end.next, &end.last.base64url()) {
            return (end, Some("the record does not continue the one before it".to_owned()));
        }
        end.length += whole.len() as u64;
        (end.next, end.last) = (record.seq + 1, record.leaf);
    }
    (end, None)
}

/// Returns whether a whole record, newline included, stands anywhere in damaged bytes. It may
/// be the end of a longer line, for damage may have hit the newline before it; nothing inside a
/// record looks like the beginning of one, so the last beginning in a line is enough.
fn holds_record(damage: &[u8]) -> bool {
    let head = LINE_HEAD.as_bytes();
    damage.split_inclusive(|byte| *byte == b'\n').any(|line| {
        let start = line.windows(head.len()).rposition(|window| window == head);
        let line = start.and_then(|start| line[start..].strip_suffix(b"\n"));
        line.is_some_and(|line| line::decode(line).is_ok())
    })
}

/// Copies the bytes behind `end` to a file of their own, then cuts them off. A crash between
/// the two finds the same bytes again, and does not keep them twice.
fn put_aside(
    folder: &Folder,
    segment: &LogFile,
    end: End,
    length: u64,
    cuts: &mut Vec<(u64, Digest)>,
) -> Result<(), Error> {
    let torn = read_end(segment, length, length - end.length)?;
    let cut = measure(&torn);
    if !cuts.contains(&cut) {
        if cuts.len() >= TORN_MAX {
            let why = "the end was torn too often at the same record";
            return Err(Error::corrupt(segment.path(), end.length, why));
        }
        folder.write_whole(&torn_name(end.next, cuts.len()), &torn)?;
        cuts.push(cut);
    }
    segment.truncate(end.length)?;
    segment.sync()
}

/// Returns the cuts at the next record that were kept but have no `log.recovered` yet: one
/// that had been written would have taken the sequence number.
fn known_cuts(folder: &Folder, next: u64) -> Result<Vec<(u64, Digest)>, Error> {
    let mut cuts = Vec::new();
    while let Some(torn) = folder.read(&torn_name(next, cuts.len()))? {
        cuts.push(measure(&torn));
    }
    Ok(cuts)
}

fn measure(bytes: &[u8]) -> (u64, Digest) {
    (bytes.len() as u64, Digest(Sha256::digest(bytes).into()))
}

fn torn_name(next: u64, count: usize) -> String {
    if count == 0 { format!("torn-{next}") } else { format!("torn-{next}-{count}") }
}

/// Reads the last bytes of a segment of this length, `most` of them if there are as many.
fn read_end(segment: &LogFile, length: u64, most: u64) -> Result<Vec<u8>, Error> {
    let size = length.min(most);
    segment.read_at(length - size, usize::try_from(size).unwrap_or(usize::MAX))
}
