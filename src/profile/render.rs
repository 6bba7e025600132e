//! A merged profile as TOML that loads again to the same profile.
#![forbid(unsafe_code)]

use super::{Entry, Make, MakeSet, Profile};
use crate::source::quoted;
use std::fmt::Display;

impl Profile {
    /// Writes the merged profile as a file of its own, without `inherits`.
    pub fn to_toml(&self) -> String {
        let mut out = Text::default();
        out.line("schema", 1);
        out.line("name", quoted(&self.name));
        out.line("why", quoted(&self.why));
        out.line("rung", quoted(&self.rung.to_string()));
        out.line("operands_only", self.operands_only);
        out.line("run_as_owner", self.run_as_owner);
        out.entries("read", &self.read);
        for write in &self.write {
            out.entry("write", &write.entry);
            if write.make != MakeSet::all() {
                out.line("make", list(write.make.iter().map(Make::as_str)));
            }
            if write.optional {
                out.line("optional", true);
            }
        }
        out.entries("execute", &self.execute);
        out.entries("protect", &self.protect);
        out.entries("mask", &self.mask);
        out.entries("absent", &self.absent);
        out.head("[network]");
        out.line("mode", quoted(self.network.mode.as_str()));
        out.line("why", quoted(&self.network.why));
        out.head("[syscalls]");
        out.line("sets", list(self.syscalls.iter().map(|set| set.as_str())));
        out.head("[limits]");
        for (name, limit) in self.limits.named() {
            let is_size = matches!(name, "memory" | "file_size" | "tmp");
            out.line(name, if is_size { size(limit) } else { limit.to_string() });
        }
        out.head("[environment]");
        for (name, value) in &self.environment {
            out.line(name, quoted(value));
        }
        out.head("[nested]");
        out.line("mode", quoted(self.nested.as_str()));
        out.0
    }
}

/// The text being written.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, head: &str) {
        self.0.push_str(&format!("\n{head}\n"));
    }

    fn line(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn entry(&mut self, list: &str, entry: &Entry) {
        self.head(&format!("[[{list}]]"));
        self.line("path", quoted(&entry.path.to_string()));
        self.line("why", quoted(&entry.why));
    }

    fn entries(&mut self, list: &str, entries: &[Entry]) {
        for entry in entries {
            self.entry(list, entry);
        }
    }
}

fn list<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.map(quoted).collect();
    format!("[{}]", words.join(", "))
}

/// Writes a size as TOML does.
fn size(bytes: u64) -> String {
    let text = size_text(bytes);
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { quoted(&text) }
}

/// Returns a size with the largest unit that keeps it exact.
pub fn size_text(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |(unit, _): &(u64, &str)| bytes >= *unit && bytes.is_multiple_of(*unit);
    match units.into_iter().find(fits) {
        Some((unit, word)) => format!("{}{word}", bytes / unit),
        None => bytes.to_string(),
    }
}
