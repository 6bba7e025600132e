//! Reading a trail for people: its records one by one, its counts, and one line a record.
//!
//! Like the verifier it takes no lock and writes nothing. A last line without its newline is
//! left out: either it is being written, or the next open of the trail cuts it off.
#![forbid(unsafe_code)]

use super::error::Error;
use super::line::{Decoded, LINE_BYTES_MAX, decode};
use crate::record::Digest;
use crate::record::is_unsafe_to_show;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest value that [`human`] shows in full, in characters.
const SHOWN_MAX: usize = 400;

/// What a trail holds, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// How many records there are.
    pub records: u64,
    /// How many are intents.
    pub intents: u64,
    /// How many are ends.
    pub ends: u64,
    /// How many are refusals.
    pub refusals: u64,
    /// The log's size at its last record.
    pub size: u64,
    /// Leaf of the last record.
    pub root: Digest,
}

/// Counts the records of the trail in a folder.
///
/// # Errors
/// The trail cannot be read, or a line is not a record.
pub fn stats(dir: &Path) -> Result<Stats, Error> {
    let root = Digest([0; 32]);
    let mut stats = Stats { records: 0, intents: 0, ends: 0, refusals: 0, size: 0, root };
    for record in records(dir)? {
        let record = record?;
        stats.records += 1;
        match record.kind.as_str() {
            "intent" => stats.intents += 1,
            "end" => stats.ends += 1,
            "refusal" => stats.refusals += 1,
            _ => {}
        }
        (stats.size, stats.root) = (record.seq + 1, record.leaf);
    }
    Ok(stats)
}

/// Opens the trail in a folder for reading from its first record.
///
/// # Errors
/// The folder cannot be listed, or has no segment.
pub fn records(dir: &Path) -> Result<Records, Error> {
    let fail = |error| Error::io("list", dir, &error);
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("seg-") && name.ends_with(".jsonl") {
            segments.push(path);
        }
    }
    if segments.is_empty() {
        return Err(Error::Unsafe {
            path: dir.to_owned(),
            why: "holds no trail".to_owned(),
            next: "name the folder that holds seg-….jsonl".to_owned(),
        });
    }
    segments.sort_unstable();
    Ok(Records { segments: segments.into(), open: None })
}

/// The records of a trail, in order; it ends after the first error.
#[derive(Debug)]
pub struct Records {
    segments: VecDeque<PathBuf>,
    open: Option<(PathBuf, BufReader<File>, u64)>,
}

impl Iterator for Records {
    type Item = Result<Decoded, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step();
        if !matches!(item, Some(Ok(_))) {
            self.segments.clear();
            self.open = None;
        }
        item
    }
}

impl Records {
    fn step(&mut self) -> Option<Result<Decoded, Error>> {
        loop {
            let Some((path, input, offset)) = &mut self.open else {
                let path = self.segments.pop_front()?;
                match File::open(&path) {
                    Ok(file) => self.open = Some((path, BufReader::new(file), 0)),
                    Err(error) => return Some(Err(Error::io("open", &path, &error))),
                }
                continue;
            };
            let mut line = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            if let Err(error) = input.by_ref().take(limit).read_until(b'\n', &mut line) {
                return Some(Err(Error::io("read", path, &error)));
            }
            let length = line.len() as u64;
            if line.pop_if(|last| *last == b'\n').is_none() && length < limit {
                self.open = None;
                continue;
            }
            let record = decode(&line).map_err(|why| Error::corrupt(path, *offset, why));
            *offset += length;
            return Some(record);
        }
    }
}

/// Shows a record on one line: time, number, kind, call, and what matters most in its kind.
/// Everything that could act on a terminal or mislead a reader is escaped.
pub fn human(record: &Decoded) -> String {
    let members: &[&str] = match record.kind.as_str() {
        "log.open" => &["origin"],
        "log.recovered" => &["offset", "length", "sha256"],
        "refusal" => &["line", "argv", "code", "reason", "next"],
        "intent" => &["argv", "template", "profile", "rung", "workspace", "cwd"],
        "started" => &["pid", "layers"],
        "mask.lost" => &["path", "lost_us", "opens_refused"],
        "output" => &["stream", "bytes", "kept", "truncated"],
        "guard.found" | "guard.quarantined" => &["workspace", "count", "paths", "what"],
        "guard.cleared" => &["workspace", "how", "numbers", "by_uid"],
        "end" => &["outcome", "exit_code", "signal", "limit", "error", "duration_ms"],
        _ => &[],
    };
    let id = record.id.as_deref().unwrap_or("-");
    let mut out = format!("{} {:>6} ", record.ts, record.seq);
    show_text(&mut out, &format!("{:<13} {id}", record.kind));
    for name in members {
        match record.value.get(*name) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let mut shown = String::new();
                show(&mut shown, value);
                let cut = shown.char_indices().nth(SHOWN_MAX).map_or(shown.len(), |(at, _)| at);
                let more = if cut < shown.len() { "…" } else { "" };
                out.push_str(&format!(" {name}={}{more}", &shown[..cut]));
            }
        }
    }
    out
}

/// Shows a value; words that could be mistaken for something else stand in quotes.
fn show(out: &mut String, value: &Value) {
    match value {
        Value::String(text) if text.is_empty() || text.contains([' ', '"', '[', ']', '=', '{']) => {
            out.push('"');
            show_text(out, text);
            out.push('"');
        }
        Value::String(text) => show_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                show(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, item)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                show_text(out, name);
                out.push('=');
                show(out, item);
            }
            out.push('}');
        }
        other => show_text(out, &other.to_string()),
    }
}

fn show_text(out: &mut String, text: &str) {
    for ch in text.chars() {
        match ch {
            '\\' | '"' => out.extend(['\\', ch]),
            _ if is_unsafe_to_show(ch) => out.extend(ch.escape_default()),
            _ => out.push(ch),
        }
    }
}
