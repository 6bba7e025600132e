//! Tables: the values of one TOML table, asked for key by key, each with its place.
#![forbid(unsafe_code)]

use super::parts::Parts;
use super::{At, SIZE_BYTES_MAX, Source};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The only `schema` that this version reads, in every file.
const SCHEMA: u64 = 1;

/// One TOML table being read. A key that nobody asked for is a fault.
#[derive(Debug)]
pub struct Table<'s> {
    source: &'s Source,
    span: Range<usize>,
    pub(super) entries: Vec<Entry<'s>>,
    asked: RefCell<Vec<&'static str>>,
    /// The rest of a list that is read part by part.
    pub(super) parts: Option<&'s Parts>,
}

/// One key of a table with its value.
#[derive(Debug)]
pub(super) struct Entry<'s> {
    key: &'s Spanned<DeString<'s>>,
    value: Value<'s>,
    known: Cell<bool>,
}

/// A value, and where the text that it was parsed from begins in the whole text.
#[derive(Debug, Clone, Copy)]
struct Value<'s> {
    base: usize,
    parsed: &'s Spanned<DeValue<'s>>,
}

impl<'s> Value<'s> {
    fn get(&self) -> &'s DeValue<'s> {
        self.parsed.get_ref()
    }

    fn span(&self) -> Range<usize> {
        shifted(self.parsed.span(), self.base)
    }

    fn items(self) -> Option<impl Iterator<Item = Value<'s>>> {
        let DeValue::Array(items) = self.get() else { return None };
        Some(items.iter().map(move |parsed| Value { parsed, ..self }))
    }
}

fn shifted(span: Range<usize>, base: usize) -> Range<usize> {
    span.start + base..span.end + base
}

impl Entry<'_> {
    fn key_span(&self) -> Range<usize> {
        shifted(self.key.span(), self.value.base)
    }
}

impl<'s> Table<'s> {
    /// Takes a table of a text that begins at `base` in the whole one.
    pub(super) fn new(
        source: &'s Source,
        span: Range<usize>,
        table: &'s DeTable<'s>,
        base: usize,
    ) -> Self {
        let entry = |(key, parsed)| {
            let value = Value { base, parsed };
            Entry { key, value, known: Cell::new(false) }
        };
        let entries = table.iter().map(entry).collect();
        // Most keys that a reader knows are absent.
        let asked = RefCell::new(Vec::with_capacity(4 * table.len() + 4));
        Self { source, span, entries, asked, parts: None }
    }

    /// Returns the text this table stands in.
    pub fn source(&self) -> &'s Source {
        self.source
    }

    /// Returns the place of the table.
    pub fn span(&self) -> &Range<usize> {
        &self.span
    }

    fn entry(&self, key: &str) -> Option<&Entry<'s>> {
        self.entries.iter().find(|entry| entry.key.get_ref() == key)
    }

    /// Returns whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Returns the place of a key, or of the table where the key is absent.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.entry(key).map_or_else(|| self.span.clone(), Entry::key_span)
    }

    fn get(&self, key: &'static str) -> Option<Value<'s>> {
        self.asked.borrow_mut().push(key);
        let entry = self.entry(key)?;
        entry.known.set(true);
        Some(entry.value)
    }

    fn wrong(&self, value: Value<'_>, key: &str, wanted: &str) {
        let found = value.get().type_str();
        let title = format!("`{key}` must be {wanted}, found {found}");
        self.source.fault(&value.span(), title, format!("write {wanted}"));
    }

    /// Records that a required key is missing.
    pub fn missing(&self, key: &str) {
        let hint = format!("add `{key}`, which is required here");
        self.source.fault(&self.span, format!("`{key}` is missing"), hint);
    }

    /// Reads a string.
    pub fn string(&self, key: &'static str) -> Option<At<String>> {
        self.word(key).map(At::owned)
    }

    /// Reads a string, for a reader that keeps no text of it.
    pub fn word(&self, key: &'static str) -> Option<At<&'s str>> {
        let value = self.get(key)?;
        match value.get() {
            DeValue::String(text) => Some(At::new(text.as_ref(), value.span())),
            _ => {
                self.wrong(value, key, "a string");
                None
            }
        }
    }

    /// Reads a string that must be there and not be empty.
    pub fn required(&self, key: &'static str) -> Option<At<String>> {
        self.required_word(key).map(At::owned)
    }

    /// Reads a string as [`Table::required`] does, for a reader that keeps no text of it.
    pub fn required_word(&self, key: &'static str) -> Option<At<&'s str>> {
        let text = self.word(key);
        if text.is_none() && !self.has(key) {
            self.missing(key);
        }
        let text = text?;
        if text.value.trim().is_empty() {
            let hint = "write something, or leave the entry out";
            self.source.fault(&text.span, format!("`{key}` is empty"), hint);
            return None;
        }
        Some(text)
    }

    /// Reads a boolean; absent is `false`.
    pub fn flag(&self, key: &'static str) -> bool {
        let Some(value) = self.get(key) else { return false };
        match value.get() {
            DeValue::Boolean(on) => *on,
            _ => {
                self.wrong(value, key, "true or false");
                false
            }
        }
    }

    /// Reads a whole number from 0 to `max`.
    pub fn number(&self, key: &'static str, max: u64) -> Option<At<u64>> {
        let value = self.get(key)?;
        let DeValue::Integer(digits) = value.get() else {
            self.wrong(value, key, "a whole number");
            return None;
        };
        match u64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) if number <= max => Some(At::new(number, value.span())),
            _ => {
                let title = format!("`{key}` must be from 0 to {max}");
                self.source.fault(&value.span(), title, "write a whole number in that range");
                None
            }
        }
    }

    /// Reads `schema`, the version of the file's form, which must be there.
    pub fn schema(&self) {
        match self.number("schema", u64::MAX) {
            Some(schema) if schema.value != SCHEMA => {
                let title = format!("this version reads schema {SCHEMA} only");
                self.source.fault(&schema.span, title, format!("write schema = {SCHEMA}"));
            }
            None if !self.has("schema") => self.missing("schema"),
            _ => {}
        }
    }

    /// Reads a size: a whole number of bytes, or a string such as `"64KiB"`.
    pub fn size(&self, key: &'static str) -> Option<At<u64>> {
        let value = self.get(key)?;
        let bytes = match value.get() {
            DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
            DeValue::String(text) => size_of(text),
            _ => None,
        };
        match bytes {
            Some(bytes) if bytes <= SIZE_BYTES_MAX => Some(At::new(bytes, value.span())),
            _ => {
                let title = format!("`{key}` must be a size of at most 8192TiB");
                let hint = "write \"4GiB\", \"512MiB\", \"64KiB\" or a number of bytes";
                self.source.fault(&value.span(), title, hint);
                None
            }
        }
    }

    /// Reads a list of strings; absent is empty.
    pub fn strings(&self, key: &'static str) -> Vec<At<String>> {
        self.get(key).map_or_else(Vec::new, |value| self.string_list(value, key))
    }

    fn string_list(&self, value: Value<'s>, key: &str) -> Vec<At<String>> {
        let Some(items) = value.items() else {
            self.wrong(value, key, "a list of strings");
            return Vec::new();
        };
        let text = |item: Value<'s>| match item.get() {
            DeValue::String(text) => Some(At::new(text.as_ref().to_owned(), item.span())),
            _ => {
                self.wrong(item, key, "a list of strings");
                None
            }
        };
        items.filter_map(text).collect()
    }

    /// Reads a list of lists of strings; absent is empty.
    pub fn string_lists(&self, key: &'static str) -> Vec<Vec<At<String>>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(items) = value.items() else {
            self.wrong(value, key, "a list of lists of strings");
            return Vec::new();
        };
        items.map(|item| self.string_list(item, key)).collect()
    }

    /// Reads a string, or a list of strings, as a list; absent is empty.
    pub fn string_or_strings(&self, key: &'static str) -> Vec<At<String>> {
        match self.entry(key).map(|entry| entry.value.get()) {
            Some(DeValue::String(_)) => self.string(key).into_iter().collect(),
            _ => self.strings(key),
        }
    }

    /// Reads a table; the caller calls [`Table::done`] on it.
    pub fn table(&self, key: &'static str) -> Option<Table<'s>> {
        let value = self.get(key)?;
        self.as_table(value, key)
    }

    fn as_table(&self, value: Value<'s>, key: &str) -> Option<Table<'s>> {
        match value.get() {
            DeValue::Table(table) => Some(Table::new(self.source, value.span(), table, value.base)),
            _ => {
                self.wrong(value, key, "a table");
                None
            }
        }
    }

    /// Reads a list of tables; absent is empty. Each is handed to `act`, one after the other, and
    /// its keys that `act` did not ask for are faults.
    pub fn each_table(&self, key: &'static str, mut act: impl FnMut(&Table<'_>)) {
        if let Some(parts) = self.parts.filter(|parts| parts.list == key) {
            parts.each_table(self.source, &mut act);
        }
        self.each_item(key, &mut act);
    }

    /// Reads a list of tables as [`Table::each_table`] does; gives what `act` makes of each, in
    /// their order. A long list is read on two threads.
    pub fn map_tables<R: Send>(
        &self,
        key: &'static str,
        act: impl Fn(&Table<'_>) -> Option<R> + Sync,
    ) -> Vec<R> {
        let parts = self.parts.filter(|parts| parts.list == key);
        let mut all = parts.map_or_else(Vec::new, |parts| parts.map_tables(self.source, &act));
        self.each_item(key, &mut |table| all.extend(act(table)));
        all
    }

    pub(super) fn each_item(&self, key: &'static str, act: &mut dyn FnMut(&Table<'_>)) {
        let Some(value) = self.get(key) else { return };
        let Some(items) = value.items() else {
            return self.wrong(value, key, "a list of tables");
        };
        for table in items.filter_map(|item| self.as_table(item, key)) {
            act(&table);
            table.done();
        }
    }

    /// Reads a table whose values are all strings, with any keys; absent is empty.
    pub fn string_map(&self, key: &'static str) -> Vec<(At<String>, At<String>)> {
        self.table(key).map_or_else(Vec::new, |table| table.all_strings())
    }

    /// Reads every entry of this table as a string, with any keys.
    pub fn all_strings(&self) -> Vec<(At<String>, At<String>)> {
        let text = |entry: &Entry<'_>| match entry.value.get() {
            DeValue::String(text) => Some((
                At::new(entry.key.get_ref().as_ref().to_owned(), entry.key_span()),
                At::new(text.as_ref().to_owned(), entry.value.span()),
            )),
            _ => {
                self.wrong(entry.value, entry.key.get_ref(), "a string");
                None
            }
        };
        self.entries.iter().filter_map(text).collect()
    }

    /// Makes keys of which this version lacks what they are for into faults that say so; each
    /// comes with the end of the sentence "this version has no …".
    pub fn lacks(&self, keys: &[(&str, &str)]) {
        for (key, what) in keys {
            if let Some(entry) = self.entry(key) {
                let hint = format!("this version has no {what}; leave the key out");
                self.source.fault(&entry.key_span(), format!("unknown key `{key}`"), hint);
                entry.known.set(true);
            }
        }
    }

    /// Ends the reading: keys that nobody asked for are faults.
    pub fn done(&self) {
        for entry in self.entries.iter().filter(|entry| !entry.known.replace(true)) {
            let mut known: Vec<&str> = self.asked.borrow().clone();
            known.sort_unstable();
            known.dedup();
            let hint = format!("known keys here: {}", known.join(", "));
            let title = format!("unknown key `{}`", entry.key.get_ref());
            self.source.fault(&entry.key_span(), title, hint);
        }
    }
}

/// Returns the bytes that a written size means.
fn size_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|ch: char| !ch.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    // `parse` alone would also take a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(unit)
}
