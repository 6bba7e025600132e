//! Reading a long list of tables part by part, so that what was parsed of one part is read and
//! dropped before the next one is parsed, while all of it is still in the processor's caches.
//!
//! What comes out is what comes out of the whole text. A text is cut before lines `[[list]]`
//! only, and each part must be sound TOML by itself. A sound part ends outside of every string,
//! list and table, so no cut lies inside of a value, and the line behind it opens a new table of
//! the list. The first part must not have the list, the ones in between must have nothing else,
//! and the last must not repeat a key of the first; then no part could change what another one
//! says. Where any of this does not hold, and where the text has a fault of any kind, nothing
//! comes out of here and the text is read again as a whole: all faults are found and shown there.
#![forbid(unsafe_code)]

use super::{Source, Table};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use toml::Spanned;
use toml::de::DeTable;

/// About how many bytes one part has; what is parsed of it takes thirty times as many.
const PART_BYTES: usize = 4 << 10;

/// Fewer parts are read before a second thread has begun.
const THREAD_PARTS_MIN: usize = 32;

/// The list that is read part by part, and what lies between the first part and the last.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) list: &'static str,
    between: Vec<Range<usize>>,
    unsuited: AtomicBool,
}

impl Parts {
    /// Hands each table of the parts in between to `act`.
    pub(super) fn each_table(&self, source: &Source, act: &mut dyn FnMut(&Table<'_>)) {
        self.each_table_of(&self.between, source, act);
    }

    fn each_table_of(
        &self,
        ranges: &[Range<usize>],
        source: &Source,
        act: &mut dyn FnMut(&Table<'_>),
    ) {
        for range in ranges {
            let part = sound(&source.text[range.clone()]);
            let suited = part.filter(|part| part.get_ref().keys().all(|key| is(key, self.list)));
            let Some(part) = suited else { return self.unsuited.store(true, Ordering::Relaxed) };
            Table::new(source, part.span(), part.get_ref(), range.start).each_item(self.list, act);
        }
    }

    /// Gives what `act` makes of each table of the parts in between, on two threads where they are
    /// many.
    pub(super) fn map_tables<R: Send>(
        &self,
        source: &Source,
        act: &(impl Fn(&Table<'_>) -> Option<R> + Sync),
    ) -> Vec<R> {
        let read = |numbers: Range<usize>| {
            let mut all = Vec::new();
            let ranges = &self.between[numbers];
            self.each_table_of(ranges, source, &mut |table| all.extend(act(table)));
            all
        };
        let (mut all, rest) = in_halves(self.between.len(), THREAD_PARTS_MIN, read);
        all.extend(rest.into_iter().flatten());
        all
    }
}

/// Hands the numbers from 0 up to `count` to `act`: both halves on a thread of their own where
/// they are at least `count_min`, and all of them at once where they are fewer.
pub fn in_halves<R: Send>(
    count: usize,
    count_min: usize,
    act: impl Fn(Range<usize>) -> R + Sync,
) -> (R, Option<R>) {
    if count < count_min {
        return (act(0..count), None);
    }
    let (first, second) = (0..count / 2, count / 2..count);
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || act(second.clone()));
        let first = act(first);
        let second = match other.map(|other| other.join()) {
            Ok(Ok(second)) => second,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // A host that gives no thread gives the time instead.
            Err(_) => act(second.clone()),
        };
        (first, Some(second))
    })
}

/// Reads a text part by part; nothing where that is not possible or where it has a fault.
pub(super) fn read<T>(
    source: &Source,
    list: &'static str,
    read: impl Fn(&Table<'_>) -> Option<T>,
) -> Option<T> {
    read_parts(source, list, PART_BYTES, read)
}

fn read_parts<T>(
    source: &Source,
    list: &'static str,
    part_bytes: usize,
    read: impl Fn(&Table<'_>) -> Option<T>,
) -> Option<T> {
    let cuts = cuts(&source.text, list, part_bytes);
    let [first, .., last] = cuts[..] else { return None };
    let (head, tail) = (sound(&source.text[..first])?, sound(&source.text[last..])?);
    let repeated = |key| head.get_ref().contains_key(key);
    if repeated(list) || tail.get_ref().keys().any(|key| repeated(key.get_ref().as_ref())) {
        return None;
    }
    let between = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    let parts = Parts { list, between, unsuited: AtomicBool::new(false) };
    let mut top = Table::new(source, head.span(), head.get_ref(), 0);
    top.entries.extend(Table::new(source, tail.span(), tail.get_ref(), last).entries);
    top.parts = Some(&parts);
    let result = read(&top);
    top.done();
    let faults = std::mem::take(&mut *source.faults());
    result.filter(|_| faults.is_empty() && !parts.unsuited.load(Ordering::Relaxed))
}

/// Finds the places before which a text may be cut: the first line that opens a table of the
/// list, and such lines after about as many bytes as a part has.
fn cuts(text: &str, list: &str, part_bytes: usize) -> Vec<usize> {
    let line = format!("\n[[{list}]]\n");
    let mut cuts = Vec::new();
    for (at, _) in text.match_indices(&line) {
        if cuts.last().is_none_or(|last| at - last >= part_bytes) {
            cuts.push(at + 1);
        }
    }
    cuts
}

fn sound(text: &str) -> Option<Spanned<DeTable<'_>>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    errors.is_empty().then_some(table)
}

fn is(key: &Spanned<toml::de::DeString<'_>>, name: &str) -> bool {
    key.get_ref() == name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a reader can see, with its places.
    fn seen(top: &Table<'_>) -> Option<Vec<String>> {
        let mut seen = vec![format!("{:?}", top.string("name"))];
        for list in ["tool", "refuse"] {
            top.each_table(list, |table| {
                let (id, span) = (table.required("id"), table.span());
                let sub = table.string_map("sub");
                seen.push(format!("{list} {span:?} {:?} {id:?} {sub:?}", table.key_span("id")));
            });
        }
        Some(seen)
    }

    /// Everything that a reader on two threads can see.
    fn seen_by_two(top: &Table<'_>) -> Option<Vec<String>> {
        let read = |table: &Table<'_>| {
            let (id, span) = (table.required("id"), table.span());
            let sub = table.string_map("sub");
            Some(format!("{span:?} {:?} {id:?} {sub:?}", table.key_span("id")))
        };
        Some(top.map_tables("tool", read))
    }

    /// Reads as a whole, and part by part where that is possible, with every cut that there is.
    fn both(text: &str) -> (Result<Vec<String>, String>, Option<Vec<String>>) {
        let whole = Source::new("a.toml", text).read(seen);
        let whole = whole.map(|(seen, _)| seen).map_err(|faults| faults.to_string());
        let source = Source::new("a.toml", text);
        let parted = read_parts(&source, "tool", 0, seen);
        assert_eq!(source.fault_count(), 0, "nothing is left behind: {text}");
        let again = source.read(seen).map(|(seen, _)| seen);
        assert_eq!(again.map_err(|faults| faults.to_string()), whole, "{text}");
        (whole, parted)
    }

    const TOOLS: &str = "\n[[tool]]\nid = \"a\"\n\n[[tool]]\nid = \"é\"\nsub = { x = 'y' }\n\
                         \n[[tool]]\nid = \"c\"\n[tool.sub]\nz = \"w\"\n\n[[tool]]\nid = \"d\"\n";

    #[test]
    fn parts_say_what_the_whole_text_says() {
        for text in [
            format!("name = \"n\"\n{TOOLS}"),
            format!("name = \"n\"\n{TOOLS}\n[[refuse]]\nid = \"r\"\n[[refuse]]\nid = \"s\"\n"),
            format!("{TOOLS}\n[[tool]]\nid = '''\n[tool]\n'''\n{TOOLS}"),
        ] {
            let (whole, parted) = both(&text);
            assert_eq!(whole.as_ref().ok(), parted.as_ref(), "{text}");
            assert!(parted.is_some_and(|seen| seen.len() > 4), "{text}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_cut_is_read_as_a_whole() {
        for text in [
            // The lines stand inside of a string, which the last of them does not end.
            format!("name = '''{TOOLS}'''\n"),
            format!("name = '''{TOOLS}'''\n{TOOLS}"),
            format!("{TOOLS}\n[[tool]]\nid = \"\"\"{TOOLS}\"\"\"\n{TOOLS}"),
            // Other lists stand before, between and on both sides.
            format!("[[refuse]]\nid = 'r'\n{TOOLS}\n[[refuse]]\nid = 's'\n"),
            format!("{TOOLS}\n[[refuse]]\nid = 'r'\n{TOOLS}"),
        ] {
            let (whole, parted) = both(&text);
            assert!(whole.is_ok(), "{text}: {whole:?}");
            assert_eq!(parted, None, "{text}");
        }
    }

    #[test]
    fn a_text_with_a_fault_is_never_read_in_parts() {
        for text in [
            format!("tool = []\n{TOOLS}"),
            format!("[tool]\nid = 'a'\n{TOOLS}"),
            format!("name = [\n{TOOLS}]\n"),
            format!("name = 'n'\nname = 'n'\n{TOOLS}"),
            format!("name = 'n'\n{TOOLS}\n[name]\n"),
            format!("{TOOLS}id = 'd'\n{TOOLS}"),
            format!("{TOOLS}idd = 'd'\n{TOOLS}"),
            format!("{TOOLS}\n[name]\n{TOOLS}"),
            format!("{TOOLS}\n[other]\n"),
            format!("{TOOLS}\n[tool]\n{TOOLS}"),
            format!("{TOOLS}\n[[tool]]\n\n[[tool]]\nid = 'd'\n"),
            format!("{TOOLS}\nsub = '''\n{TOOLS}"),
        ] {
            let (whole, parted) = both(&text);
            assert!(whole.is_err(), "{text}: {whole:?}");
            assert_eq!(parted, None, "{text}");
        }
    }

    #[test]
    fn two_threads_say_what_one_says() {
        let text = TOOLS.repeat(THREAD_PARTS_MIN);
        let whole = Source::new("a.toml", text.as_str()).read(seen_by_two);
        let (whole, source) = whole.expect("sound");
        assert_eq!(whole.len(), 4 * THREAD_PARTS_MIN);
        assert_eq!(read_parts(&source, "tool", 0, seen_by_two), Some(whole));
        for share in [1, 3] {
            let (before, after) = text.split_at(text.len() / 4 * share);
            let faulty = format!("{before}{}", after.replacen("\nid = ", "\nidd = ", 1));
            let source = Source::new("a.toml", faulty);
            assert_eq!(read_parts(&source, "tool", 0, seen_by_two), None);
            let faults = source.read_list("tool", seen_by_two).expect_err("an unknown key");
            assert_eq!(faults.titles(), ["`id` is missing", "unknown key `idd`"]);
        }
    }
}
