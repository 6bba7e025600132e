//! Configuration text: reading TOML with spans, and faults that point at the place.
//!
//! Every file of Pinfold's configuration is read through [`Table`], which collects
//! faults instead of stopping at the first one. Nothing here knows what the keys mean.
//! A file's text never reaches a decision with a fault left in it: readers hand out
//! their result only through [`Source::read`].
#![forbid(unsafe_code)]

mod parts;
mod table;

pub use parts::in_halves;
pub use table::Table;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use toml::de::DeTable;

/// Longest configuration file that is read, in bytes. Ten thousand templates with everything that
/// a template may have are five million bytes; a file beyond this is a mistake, and reading it
/// would only fill memory.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// Largest size that a file may name, in bytes: every reader of JSON keeps it exactly.
pub const SIZE_BYTES_MAX: u64 = 1 << 53;

/// One configuration text and the faults found in it.
#[derive(Debug)]
pub struct Source {
    name: PathBuf,
    text: String,
    /// Behind a lock because a long text is read on two threads.
    faults: Mutex<Vec<Fault>>,
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

impl At<&str> {
    fn owned(self) -> At<String> {
        At { value: self.value.to_owned(), span: self.span }
    }
}

impl Source {
    /// Takes a text that is known under `name` in messages.
    pub fn new(name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), faults: Mutex::default() }
    }

    /// Returns the name shown in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Gives name and text back.
    pub fn into_parts(self) -> (PathBuf, String) {
        (self.name, self.text)
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

    fn faults(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many faults were recorded so far.
    pub fn fault_count(&self) -> usize {
        self.faults().len()
    }

    /// Records a fault at `span`, with a hint on how to mend it.
    pub fn fault(&self, span: &Range<usize>, title: impl Into<String>, hint: impl Into<String>) {
        let fault = Fault { span: span.clone(), title: title.into(), hint: hint.into() };
        self.faults().push(fault);
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
                let hint = "mend this first; other faults of the file are found after it";
                self.fault(&error.span().unwrap_or(0..0), error.message(), hint);
            }
            return Err(self.finish());
        }
        let top = Table::new(&self, table.span(), table.get_ref(), 0);
        let result = read(&top);
        top.done();
        drop(table);
        match result {
            Some(value) if self.faults().is_empty() => Ok((value, self)),
            _ => Err(self.finish()),
        }
    }

    /// Reads as [`Source::read`] does, and cheaper where most of the text is one long list of
    /// tables. `read` may be called twice.
    ///
    /// # Errors
    /// As those of [`Source::read`].
    pub fn read_list<T>(
        self,
        list: &'static str,
        read: impl Fn(&Table<'_>) -> Option<T>,
    ) -> Result<(T, Self), Faults> {
        match parts::read(&self, list, &read) {
            Some(value) => Ok((value, self)),
            None => self.read(read),
        }
    }

    /// Ends a check that was made after [`Source::read`], when other files were known too.
    ///
    /// # Errors
    /// All faults that the check recorded.
    pub fn checked(&self) -> Result<(), Faults> {
        if self.faults().is_empty() { Ok(()) } else { Err(self.finish()) }
    }

    /// Renders what was recorded.
    fn finish(&self) -> Faults {
        let mut faults = self.faults().clone();
        faults.sort_by_key(|fault| fault.span.start);
        let name = self.name.display().to_string();
        // Only the lines of a fault are shown, and only they are looked at, since a long file may
        // have many.
        let (bytes, mut line, mut counted) = (self.text.as_bytes(), 1, 0);
        let ends_line = |byte: &u8| *byte == b'\n';
        let mut show = |fault: &Fault| {
            // A span may come from a place and a length that know nothing of the characters there.
            let whole = |at| (at..bytes.len()).find(|at| self.text.is_char_boundary(*at));
            let [start, end] = [fault.span.start, fault.span.end].map(whole);
            let end = end.unwrap_or(bytes.len());
            let span = start.unwrap_or(end)..end;
            let first = bytes[..span.start].iter().rposition(ends_line).map_or(0, |at| at + 1);
            let last = bytes[end..].iter().position(ends_line);
            let last = last.map_or(bytes.len(), |at| end + at);
            line += bytes[counted..first].iter().filter(|byte| ends_line(byte)).count();
            counted = first;
            let marked = AnnotationKind::Primary.span(span.start - first..span.end - first);
            let snippet = Snippet::source(&self.text[first..last]).line_start(line);
            let snippet = snippet.path(name.as_str()).annotation(marked);
            let title = Level::ERROR.primary_title(fault.title.as_str());
            let mut group = Group::with_title(title).element(snippet);
            group = group.element(Level::HELP.with_name("hint").message(fault.hint.as_str()));
            Renderer::plain().render(&[group])
        };
        let faults: Vec<String> = faults.iter().map(&mut show).collect();
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

/// Writes a string as TOML does.
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
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
    fn a_fault_shows_its_own_lines_only() {
        let text = "\u{feff}x = 1\né = [\n  2,\n]\ny = 3\n";
        let source = Source::new("a.toml", text);
        let at = |part| text.find(part).expect("a part");
        for span in [0..1, at("é")..at("]") + 1, at("3")..at("3") + 1, 99..100] {
            source.fault(&span, "here", "h");
        }
        let shown = source.checked().expect_err("four faults").to_string();
        for place in ["a.toml:1:1", "a.toml:2:1", "a.toml:5:5", "a.toml:6:1"] {
            assert!(shown.contains(&format!("--> {place}\n")), "{place}: {shown}");
        }
        assert!(shown.contains("2 | / é = [\n3 | |   2,\n4 | | ]\n  | |_^"), "{shown}");
        assert_eq!(shown.matches("y = 3").count(), 1, "{shown}");
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
