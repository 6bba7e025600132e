//! Configuration text: reading TOML with spans, and faults that point at the place.
//!
//! Every file of Pinfold's configuration is read through [`Table`], which collects
//! faults instead of stopping at the first one. Nothing here knows what the keys mean.
//! A file's text never reaches a decision with a fault left in it: readers hand out
//! their result only through [`Source::read`].
#![forbid(unsafe_code)]

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest configuration file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Largest size that a file may name, in bytes: every reader of JSON keeps it exactly.
pub const SIZE_BYTES_MAX: u64 = 1 << 53;

/// One configuration text and the faults found in it.
#[derive(Debug)]
pub struct Source {
    name: PathBuf,
    text: String,
    faults: RefCell<Vec<Fault>>,
}

#[derive(Debug, Clone)]
struct Fault {
    span: Range<usize>,
    title: String,
    hint: String,
}

/// The faults of one or more files, shown one after the other with their source lines.
#[derive(Debug, Default)]
pub struct Faults(Vec<String>);

impl Faults {
    /// Returns how many faults there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no fault.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the title and the place of the first fault, on one line.
    pub fn first_line(&self) -> String {
        let first = self.0.first().map_or("", |first| first.trim_start_matches("error: "));
        let lines: Vec<&str> = first.lines().take(2).map(str::trim).collect();
        lines.join(" ")
    }

    /// Returns the titles of all faults, one line each.
    pub fn titles(&self) -> Vec<&str> {
        let lines = self.0.iter().filter_map(|fault| fault.lines().next());
        lines.map(|line| line.trim_start_matches("error: ")).collect()
    }

    /// Adds the faults of another file.
    pub fn merge(&mut self, other: Faults) {
        self.0.extend(other.0);
    }

    /// Adds the faults of another reading that are not among these.
    pub fn merge_others(&mut self, mut other: Faults) {
        other.0.retain(|fault| !self.0.contains(fault));
        self.merge(other);
    }

    /// Makes a fault that has no place inside a text, such as a file that cannot be read.
    pub fn whole_file(name: &Path, title: &str, hint: &str) -> Self {
        Self(vec![format!("error: {title}\n --> {}\n  = hint: {hint}", name.display())])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join("\n\n"))
    }
}

impl std::error::Error for Faults {}

/// A value with its place in the text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Range<usize>,
}

impl<T> At<T> {
    fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }
}

impl Source {
    /// Takes a text that is known under `name` in messages.
    pub fn new(name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), faults: RefCell::default() }
    }

    /// Returns the name shown in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns line and column of a byte offset, both from 1; the column counts characters.
    pub fn line_col(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// Returns `path:line:col` of a byte offset.
    pub fn place(&self, offset: usize) -> String {
        let (line, col) = self.line_col(offset);
        format!("{}:{line}:{col}", self.name.display())
    }

    /// Returns how many faults were recorded so far.
    pub fn fault_count(&self) -> usize {
        self.faults.borrow().len()
    }

    /// Records a fault at `span`, with a hint on how to mend it.
    pub fn fault(&self, span: &Range<usize>, title: impl Into<String>, hint: impl Into<String>) {
        let fault = Fault { span: span.clone(), title: title.into(), hint: hint.into() };
        self.faults.borrow_mut().push(fault);
    }

    /// Parses the text and lets `read` walk its top table; gives the result of `read`
    /// only if neither the parser nor `read` found a fault.
    ///
    /// # Errors
    /// All syntax faults, or else all faults that `read` recorded.
    pub fn read<T>(self, read: impl FnOnce(&Table<'_>) -> Option<T>) -> Result<(T, Self), Faults> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        if !errors.is_empty() {
            for error in errors.iter().take(1) {
                self.fault(
                    &error.span().unwrap_or(0..0),
                    error.message(),
                    "mend this first; other faults of the file are found after it",
                );
            }
            return Err(self.finish());
        }
        let span = table.span();
        let top = Table::new(&self, span, table.get_ref());
        let result = read(&top);
        top.done();
        drop(table);
        match result {
            Some(value) if self.faults.borrow().is_empty() => Ok((value, self)),
            _ => Err(self.finish()),
        }
    }

    /// Ends a check that was made after [`Source::read`], when other files were known too.
    ///
    /// # Errors
    /// All faults that the check recorded.
    pub fn checked(&self) -> Result<(), Faults> {
        if self.faults.borrow().is_empty() { Ok(()) } else { Err(self.finish()) }
    }

    /// Renders what was recorded.
    fn finish(&self) -> Faults {
        let mut faults = self.faults.borrow().clone();
        faults.sort_by_key(|fault| fault.span.start);
        let name = self.name.display().to_string();
        let show = |fault: &Fault| {
            let end = fault.span.end.min(self.text.len());
            let span = fault.span.start.min(end)..end;
            let marked = AnnotationKind::Primary.span(span);
            let snippet = Snippet::source(&self.text).path(name.as_str()).annotation(marked);
            let title = Level::ERROR.primary_title(fault.title.as_str());
            let mut group = Group::with_title(title).element(snippet);
            group = group.element(Level::HELP.with_name("hint").message(fault.hint.as_str()));
            Renderer::plain().render(&[group])
        };
        let faults: Vec<String> = faults.iter().map(show).collect();
        if faults.is_empty() {
            return Faults::whole_file(&self.name, "the file gave no result", "report this");
        }
        Faults(faults)
    }
}

/// Checks the name of a variable that a configuration sets for commands.
///
/// # Errors
/// What is wrong with it: it is no name, or it changes how every program is loaded.
pub fn check_variable(name: &str) -> Result<(), &'static str> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    if !starts || !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("this is no name of a variable");
    }
    if name.starts_with("LD_") || name == "GLIBC_TUNABLES" {
        return Err("this variable changes how every program is loaded");
    }
    Ok(())
}

/// One TOML table being read. A key that nobody asked for is a fault.
#[derive(Debug)]
pub struct Table<'s> {
    source: &'s Source,
    span: Range<usize>,
    entries: BTreeMap<&'s str, (Range<usize>, &'s Spanned<DeValue<'s>>)>,
    asked: RefCell<Vec<&'static str>>,
    lacked: RefCell<Vec<&'static str>>,
}

impl<'s> Table<'s> {
    fn new(source: &'s Source, span: Range<usize>, table: &'s DeTable<'s>) -> Self {
        let entries =
            table.iter().map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value)));
        let (asked, lacked) = (RefCell::default(), RefCell::default());
        Self { source, span, entries: entries.collect(), asked, lacked }
    }

    /// Returns the text this table stands in.
    pub fn source(&self) -> &'s Source {
        self.source
    }

    /// Returns the place of the table.
    pub fn span(&self) -> &Range<usize> {
        &self.span
    }

    /// Returns whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns the place of a key, or of the table where the key is absent.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.entries.get(key).map_or_else(|| self.span.clone(), |(span, _)| span.clone())
    }

    fn get(&self, key: &'static str) -> Option<&'s Spanned<DeValue<'s>>> {
        self.asked.borrow_mut().push(key);
        self.entries.get(key).map(|(_, value)| *value)
    }

    fn wrong(&self, value: &Spanned<DeValue<'_>>, key: &str, wanted: &str) {
        let found = value.get_ref().type_str();
        self.source.fault(
            &value.span(),
            format!("`{key}` must be {wanted}, found {found}"),
            format!("write {wanted}"),
        );
    }

    /// Records that a required key is missing.
    pub fn missing(&self, key: &str) {
        self.source.fault(
            &self.span,
            format!("`{key}` is missing"),
            format!("add `{key}`, which is required here"),
        );
    }

    /// Reads a string.
    pub fn string(&self, key: &'static str) -> Option<At<String>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(At::new(text.to_string(), value.span())),
            _ => {
                self.wrong(value, key, "a string");
                None
            }
        }
    }

    /// Reads a string that must be there and not be empty.
    pub fn required(&self, key: &'static str) -> Option<At<String>> {
        if !self.has(key) {
            self.get(key);
            self.missing(key);
            return None;
        }
        let text = self.string(key)?;
        if text.value.trim().is_empty() {
            self.source.fault(
                &text.span,
                format!("`{key}` is empty"),
                "write something, or leave the entry out",
            );
            return None;
        }
        Some(text)
    }

    /// Reads a boolean; absent is `false`.
    pub fn flag(&self, key: &'static str) -> bool {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => false,
            Some((_, DeValue::Boolean(on))) => *on,
            Some((value, _)) => {
                self.wrong(value, key, "true or false");
                false
            }
        }
    }

    /// Reads a whole number from 0 to `max`.
    pub fn number(&self, key: &'static str, max: u64) -> Option<At<u64>> {
        let value = self.get(key)?;
        let DeValue::Integer(digits) = value.get_ref() else {
            self.wrong(value, key, "a whole number");
            return None;
        };
        match u64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) if number <= max => Some(At::new(number, value.span())),
            _ => {
                self.source.fault(
                    &value.span(),
                    format!("`{key}` must be from 0 to {max}"),
                    "write a whole number in that range",
                );
                None
            }
        }
    }

    /// Reads a size: a whole number of bytes, or a string such as `"64KiB"`.
    pub fn size(&self, key: &'static str) -> Option<At<u64>> {
        let value = self.get(key)?;
        let bytes = match value.get_ref() {
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

    fn string_list(&self, value: &'s Spanned<DeValue<'s>>, key: &str) -> Vec<At<String>> {
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, "a list of strings");
            return Vec::new();
        };
        let text = |item: &'s Spanned<DeValue<'s>>| match item.get_ref() {
            DeValue::String(text) => Some(At::new(text.to_string(), item.span())),
            _ => {
                self.wrong(item, key, "a list of strings");
                None
            }
        };
        items.iter().filter_map(text).collect()
    }

    /// Reads a list of lists of strings; absent is empty.
    pub fn string_lists(&self, key: &'static str) -> Vec<Vec<At<String>>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, "a list of lists of strings");
            return Vec::new();
        };
        items.iter().map(|item| self.string_list(item, key)).collect()
    }

    /// Reads a string, or a list of strings, as a list; absent is empty.
    pub fn string_or_strings(&self, key: &'static str) -> Vec<At<String>> {
        match self.entries.get(key).map(|(_, value)| value.get_ref()) {
            Some(DeValue::String(_)) => self.string(key).into_iter().collect(),
            _ => self.strings(key),
        }
    }

    /// Reads a table; the caller calls [`Table::done`] on it.
    pub fn table(&self, key: &'static str) -> Option<Table<'s>> {
        let value = self.get(key)?;
        self.as_table(value, key)
    }

    fn as_table(&self, value: &'s Spanned<DeValue<'s>>, key: &str) -> Option<Table<'s>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Table::new(self.source, value.span(), table)),
            _ => {
                self.wrong(value, key, "a table");
                None
            }
        }
    }

    /// Reads a list of tables; absent is empty. The caller calls [`Table::done`] on each.
    pub fn tables(&self, key: &'static str) -> Vec<Table<'s>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, "a list of tables");
            return Vec::new();
        };
        items.iter().filter_map(|item| self.as_table(item, key)).collect()
    }

    /// Reads a table whose values are all strings, with any keys; absent is empty.
    pub fn string_map(&self, key: &'static str) -> Vec<(At<String>, At<String>)> {
        self.table(key).map_or_else(Vec::new, |table| table.all_strings())
    }

    /// Reads every entry of this table as a string, with any keys.
    pub fn all_strings(&self) -> Vec<(At<String>, At<String>)> {
        let text =
            |(key, (key_span, value)): (&&str, &(Range<usize>, &Spanned<DeValue<'_>>))| match value
                .get_ref()
            {
                DeValue::String(text) => Some((
                    At::new((*key).to_owned(), key_span.clone()),
                    At::new(text.to_string(), value.span()),
                )),
                _ => {
                    self.wrong(value, key, "a string");
                    None
                }
            };
        self.entries.iter().filter_map(text).collect()
    }

    /// Makes keys of which this version lacks what they are for into faults that say so; each
    /// comes with the end of the sentence "this version has no …".
    pub fn lacks(&self, keys: &[(&'static str, &str)]) {
        for (key, what) in keys {
            if let Some((span, _)) = self.entries.get(key) {
                let hint = format!("this version has no {what}; leave the key out");
                self.source.fault(span, format!("unknown key `{key}`"), hint);
                self.lacked.borrow_mut().push(key);
            }
        }
    }

    /// Ends the reading: keys that nobody asked for are faults.
    pub fn done(&self) {
        let (asked, lacked) = (self.asked.borrow(), self.lacked.borrow());
        for (key, (span, _)) in &self.entries {
            if !asked.contains(key) && !lacked.contains(key) {
                let mut known: Vec<&str> = asked.clone();
                known.sort_unstable();
                known.dedup();
                let hint = format!("known keys here: {}", known.join(", "));
                self.source.fault(span, format!("unknown key `{key}`"), hint);
            }
        }
    }
}

/// Writes a string as TOML does.
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let source = Source::new("a.toml", text);
        let result = source.read(|top| {
            let name = top.required("name");
            top.number("n", 9);
            name.map(|name| name.value)
        });
        result.map(|(name, _)| name).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_sound_text_is_read() {
        assert_eq!(read("name = 'x'\nn = 3\n").as_deref(), Ok("x"));
    }

    #[test]
    fn all_faults_are_shown_at_once_with_place_and_caret() {
        let shown = read("n = 12\nnmae = 'x'\n").expect_err("two faults and a missing key");
        assert!(shown.contains("a.toml:1:5"), "{shown}");
        assert!(shown.contains("a.toml:2:1"), "{shown}");
        assert!(shown.contains("unknown key `nmae`"), "{shown}");
        assert!(shown.contains("`name` is missing"), "{shown}");
        assert!(shown.contains("^^^^"), "{shown}");
    }

    #[test]
    fn a_key_of_another_version_is_told_once_with_what_is_lacking() {
        let source = Source::new("a.toml", "name = 'x'\nwings = 2\n");
        let read = source.read(|top| {
            top.lacks(&[("wings", "flight"), ("fins", "water")]);
            top.required("name")
        });
        let shown = read.expect_err("a key without effect").to_string();
        assert!(shown.contains("this version has no flight"), "{shown}");
        assert!(!shown.contains("known keys") && !shown.contains("fins"), "{shown}");
    }

    #[test]
    fn a_syntax_fault_is_shown_alone() {
        let shown = read("name = \nn = 12\n").expect_err("no value");
        assert!(shown.contains("a.toml:1:"), "{shown}");
        assert!(!shown.contains("missing"), "{shown}");
    }

    #[test]
    fn sizes_have_binary_units_and_a_limit() {
        let read = |text: &str| {
            let source = Source::new("a.toml", format!("n = {text}"));
            source.read(|top| top.size("n")).map(|(size, _)| size.value)
        };
        assert_eq!(read("\"4GiB\"").expect("sound"), 4 << 30);
        assert_eq!(read("\"64KiB\"").expect("sound"), 64 << 10);
        assert_eq!(read("\"12\"").expect("sound"), 12);
        assert_eq!(read("1_024").expect("sound"), 1024);
        for text in ["'4GB'", "'+4KiB'", "'4 GiB'", "''", "'GiB'", "-1", "1.5", "'9000TiB'"] {
            let shown = read(text).expect_err(text).to_string();
            assert!(shown.contains("`n` must be a size"), "{shown}");
            assert!(shown.contains("a.toml:1:5"), "{shown}");
        }
        read("'99999999999999999999TiB'").expect_err("more than 64 bits");
        read("'18446744073709551615TiB'").expect_err("overflows");
    }
}
