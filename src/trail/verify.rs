//! A second opinion on a trail. It shares no code with the writer: it reads, parses and hashes
//! by itself, takes no lock and writes nothing, so it works on a copy anywhere.
#![forbid(unsafe_code)]

use super::scan;
use crate::record::Digest;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest line, in bytes and without its newline.
const LINE_MAX: usize = 32 * 1024;

/// A damaged end that is longer than this was not left by a crash: it is more than one write.
const TORN_MAX: u64 = 2 * 1024 * 1024;

/// How often a torn end is looked at again while it changes, because somebody writes just now.
const LOOKS_MAX: u32 = 5;

/// How long a write that is under way is given between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// What a line begins with.
const HEAD: &[u8] = b"{\"v\":1,\"seq\":";

/// What the verifier found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every line is a record and continues the one before it.
    Valid,
    /// All but the end is valid, and the end is what a crash leaves behind.
    Torn,
    /// The trail was changed, or a disk lost part of it.
    Corrupt,
    /// There is nothing to verify, or it cannot be read.
    Unreadable,
}

impl Verdict {
    /// Returns the exit code of `pinfold trail verify`.
    pub fn exit(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Corrupt => 1,
            Self::Torn => 2,
            Self::Unreadable => 125,
        }
    }

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Torn => "torn",
            Self::Corrupt => "corrupt",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The verdict and, unless it is valid, the place of the first fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdict.
    pub verdict: Verdict,
    /// How many records are valid, counted from the first.
    pub records: u64,
    /// The log's size at the last of them.
    pub size: u64,
    /// Leaf of the last of them; zero if there is none.
    pub root: Digest,
    /// The segment with the fault, or the last one.
    pub segment: PathBuf,
    /// The line of the fault in the segment, from 1; 0 if there is no fault.
    pub line: u64,
    /// The byte of the segment at which that line begins.
    pub offset: u64,
    /// What is wrong.
    pub why: String,
}

/// Verifies every segment of the trail in a folder.
pub fn verify(dir: &Path) -> Report {
    let mut report = look(dir);
    for _ in 0..LOOKS_MAX {
        if report.verdict != Verdict::Torn {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
        let again = look(dir);
        if again == report {
            break;
        }
        report = again;
    }
    report
}

fn look(dir: &Path) -> Report {
    let mut report = Report {
        verdict: Verdict::Valid,
        records: 0,
        size: 0,
        root: Digest([0; 32]),
        segment: dir.to_owned(),
        line: 0,
        offset: 0,
        why: String::new(),
    };
    let fault = match segments(dir) {
        Ok(names) if names.is_empty() => {
            Some((Verdict::Unreadable, "there is no segment in this folder".to_owned()))
        }
        Ok(names) => names.iter().enumerate().find_map(|(index, name)| {
            segment(&mut report, &dir.join(name), index + 1 == names.len()).err()
        }),
        Err(error) => Some((Verdict::Unreadable, error.to_string())),
    };
    match fault {
        Some(fault) => (report.verdict, report.why) = fault,
        None => (report.line, report.offset) = (0, 0),
    }
    report
}

/// Returns the names of the segments, in order: their numbers have a fixed width.
fn segments(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("seg-").and_then(|rest| rest.strip_suffix(".jsonl"));
        if number.is_some_and(|text| text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit())) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

type Fault = (Verdict, String);

fn unreadable(error: io::Error) -> Fault {
    (Verdict::Unreadable, error.to_string())
}

/// Verifies one segment, from the state that the one before it left in `report`.
fn segment(report: &mut Report, path: &Path, is_last: bool) -> Result<(), Fault> {
    path.clone_into(&mut report.segment);
    (report.line, report.offset) = (1, 0);
    let expected = format!("seg-{:020}.jsonl", report.size);
    if path.file_name().is_none_or(|name| name != expected.as_str()) {
        let why = format!("{expected} is missing; the segment does not begin where it should");
        return Err((Verdict::Corrupt, why));
    }
    let mut input = BufReader::with_capacity(1 << 16, File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_MAX as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        if let Err(why) = record(report, &line) {
            return Err((damage(line, &mut input, is_last)?, why));
        }
        report.offset += line.len() as u64;
        report.line += 1;
    }
    // The first record of a segment is synced before the next segment is begun.
    match report.offset {
        0 if is_last => Err((Verdict::Torn, "the segment has no record yet".to_owned())),
        0 => Err((Verdict::Corrupt, "the segment has no record".to_owned())),
        _ => Ok(()),
    }
}

/// Verifies one line, newline included, and counts it.
fn record(report: &mut Report, line: &[u8]) -> Result<(), String> {
    let text = line.strip_suffix(b"\n").ok_or(match line.len() > LINE_MAX {
        true => "the line is longer than 32 KiB",
        false => "the line has no end",
    })?;
    let (seq, prev) = parse(text)?;
    if seq != report.size {
        return Err(format!("record {} is expected here, and this is {seq}", report.size));
    }
    if prev != base64url(&report.root.0) {
        return Err("`prev` is not the hash of the record before".to_owned());
    }
    let mut hash = Sha256::new();
    hash.update([0_u8]);
    hash.update(text);
    report.root = Digest(hash.finalize().into());
    report.records += 1;
    report.size += 1;
    Ok(())
}

/// Applies the rules that hold for a line by itself; returns its number and its `prev`.
fn parse(line: &[u8]) -> Result<(u64, String), String> {
    if line.contains(&0) {
        return Err("the line has a NUL byte".to_owned());
    }
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let members = scan::members(text)?;
    let wanted = ["v", "seq", "ts", "mono", "boot", "kind", "sess", "id"];
    let found = members.iter().map(|(name, _)| name.as_str());
    if !found.clone().take(wanted.len()).eq(wanted) || found.clone().next_back() != Some("prev") {
        return Err("the common members are missing or out of order".to_owned());
    }
    let raw: Vec<&str> = members.iter().map(|(_, place)| &text[place.clone()]).collect();
    for (name, raw) in wanted.into_iter().zip(&raw) {
        let is_text = raw.starts_with('"');
        let is_sound = match name {
            "v" => *raw == "1",
            "seq" | "mono" => raw.bytes().all(|byte| byte.is_ascii_digit()),
            "sess" | "id" => is_text || *raw == "null",
            "ts" => is_time(raw.as_bytes()),
            _ => is_text,
        };
        if !is_sound {
            return Err(format!("`{name}` is not what it should be"));
        }
    }
    let prev = raw.last().and_then(|raw| raw.strip_prefix('"')?.strip_suffix('"'));
    let prev = prev.ok_or("`prev` is not a string")?;
    let tail = format!(",\"prev\":\"{prev}\"}}");
    if prev.len() != 43 || !line.starts_with(HEAD) || !text.ends_with(&tail) {
        return Err("the line does not begin and end as a record does".to_owned());
    }
    match raw[1].parse::<u64>() {
        Ok(seq) if seq < u64::MAX => Ok((seq, prev.to_owned())),
        _ => Err("`seq` is too large".to_owned()),
    }
}

/// Returns whether a raw value is a timestamp in quotes.
fn is_time(raw: &[u8]) -> bool {
    let mark = |at: usize| match at {
        0 | 28 => b'"',
        5 | 8 => b'-',
        11 => b'T',
        14 | 17 => b':',
        20 => b'.',
        27 => b'Z',
        _ => b'0',
    };
    let is_sound = |(at, byte): (usize, &u8)| match mark(at) {
        b'0' => byte.is_ascii_digit(),
        other => *byte == other,
    };
    raw.len() == 29 && raw.iter().enumerate().all(is_sound)
}

/// Decides what damage is, from the bad line and all that follows it: a torn end if no whole
/// record comes after its beginning, in the last segment and within the reach of one write.
fn damage(mut rest: Vec<u8>, input: &mut impl Read, is_last: bool) -> Result<Verdict, Fault> {
    input.take(TORN_MAX).read_to_end(&mut rest).map_err(unreadable)?;
    // Damage may have hit the newline before a record, so one may stand at the end of any line.
    let is_record = |line: &[u8]| {
        let start = line.windows(HEAD.len()).rposition(|window| window == HEAD);
        let line = start.and_then(|start| line[start..].strip_suffix(b"\n"));
        line.is_some_and(|line| line.len() <= LINE_MAX && parse(line).is_ok())
    };
    let is_torn = is_last && (rest.len() as u64) < TORN_MAX;
    let is_torn = is_torn && !rest.split_inclusive(|byte| *byte == b'\n').any(is_record);
    Ok(if is_torn { Verdict::Torn } else { Verdict::Corrupt })
}

fn base64url(bytes: &[u8; 32]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let digit = |place: usize| (0..6).fold(0, |sum, at| sum * 2 + usize::from(bit(place * 6 + at)));
    (0..43).map(|place| char::from(digits[digit(place)])).collect()
}
