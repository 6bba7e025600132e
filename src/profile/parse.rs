//! One profile file: from TOML to what this file alone says.
//!
//! Reading goes on after a fault, so that all faults of a file are shown at once.
#![forbid(unsafe_code)]

use super::path::{PathSpec, Root, stray_brace};
use super::{
    Entry, Limits, Make, MakeSet, Nested, Network, NetworkMode, Places, SyscallSet, Write,
};
use crate::record::{Rung, is_unsafe_to_show};
use crate::source::{At, Source, Table, check_variable};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Longest name of a profile, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most processes that Linux can number.
const PIDS_MAX: u64 = 1 << 22;
/// Most descriptors that Linux lets a process have unless the host was set otherwise.
const OPEN_FILES_MAX: u64 = 1 << 20;
/// Most processor seconds: more than a hundred years.
const CPU_SECONDS_MAX: u64 = u32::MAX as u64;
/// Most files of a scratch folder.
const TMP_INODES_MAX: u64 = 1 << 32;

/// What one file says; `None` and empty lists leave the word to what it inherits.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: At<String>,
    pub(super) why: String,
    pub(super) inherits: Option<At<String>>,
    pub(super) rung: Option<At<Rung>>,
    pub(super) operands_only: Option<At<bool>>,
    pub(super) run_as_owner: Option<bool>,
    pub(super) read: Vec<Entry>,
    pub(super) write: Vec<Write>,
    pub(super) execute: Vec<Entry>,
    pub(super) protect: Vec<Entry>,
    pub(super) mask: Vec<Entry>,
    pub(super) absent: Vec<Entry>,
    pub(super) network: Option<At<Network>>,
    pub(super) syscalls: Vec<SyscallSet>,
    pub(super) limits: Limits,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) nested: Option<Nested>,
    /// Where values without a place of their own stand.
    pub(super) places: Places,
    /// Place of every entry of this file, and where that is in the text.
    pub(super) spans: BTreeMap<String, Range<usize>>,
}

/// Reads the top table of the file `stem.toml`; `known` are the stems of all files.
pub(super) fn draft(top: &Table<'_>, stem: &str, known: &BTreeSet<String>) -> Option<Draft> {
    let mut spans = BTreeMap::new();
    let mut places = Places::default();
    top.schema();
    let name = name(top, stem);
    let why = why(top);
    let inherits = inherits(top, known);
    let rung = rung(top);
    if let Some(rung) = &rung {
        note(&mut places, top, "rung", &rung.span);
    }
    let operands_only = flag(top, "operands_only");
    let run_as_owner = flag(top, "run_as_owner").map(|on| on.value);
    let read = entries(top, "read", anywhere, &mut spans);
    let write = writes(top, &mut spans);
    let execute = entries(top, "execute", anywhere, &mut spans);
    let protect = entries(top, "protect", below_workspace, &mut spans);
    let mask = entries(top, "mask", below_workspace_or_absolute, &mut spans);
    let absent = entries(top, "absent", below_workspace, &mut spans);
    let network = network(top);
    let syscalls = syscalls(top, &mut places);
    let limits = limits(top, &mut places);
    let environment = environment(top, &mut places);
    let nested = nested(top);
    Some(Draft {
        name: name?,
        why: why?,
        inherits,
        rung,
        operands_only,
        run_as_owner,
        read,
        write,
        execute,
        protect,
        mask,
        absent,
        network,
        syscalls,
        limits,
        environment,
        nested,
        places,
        spans,
    })
}

/// Remembers where a value stands.
fn note(places: &mut Places, table: &Table<'_>, key: &str, span: &Range<usize>) {
    places.0.insert(key.to_owned(), table.source().place(span.start));
}

/// Returns whether a name can be a profile's.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('-')
        && name.bytes().all(plain)
}

fn name(top: &Table<'_>, stem: &str) -> Option<At<String>> {
    let name = top.required("name")?;
    if name.value != stem {
        let title = format!("`name` is `{}`, but the file is `{stem}.toml`", name.value);
        top.source().fault(&name.span, title, "give both the same name");
    }
    Some(name)
}

/// Reads the reason that an entry, the network and the profile itself must have.
fn why(table: &Table<'_>) -> Option<String> {
    let why = table.required("why")?;
    if why.value.chars().any(is_unsafe_to_show) {
        let title = "`why` has a control or invisible character";
        table.source().fault(&why.span, title, "write one plain line");
    }
    Some(why.value)
}

fn inherits(top: &Table<'_>, known: &BTreeSet<String>) -> Option<At<String>> {
    let parent = top.string("inherits")?;
    if !known.contains(&parent.value) {
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = format!("known profiles: {}", names.join(", "));
        let title = format!("there is no profile `{}`", parent.value);
        top.source().fault(&parent.span, title, hint);
    }
    Some(parent)
}

/// Reads one of a few words; any other word is a fault that shows them all.
fn word<T: Copy>(
    source: &Source,
    text: &At<String>,
    all: &[T],
    written: impl Fn(T) -> &'static str,
) -> Option<At<T>> {
    let found = all.iter().copied().find(|one| written(*one) == text.value);
    if found.is_none() {
        let words: Vec<&str> = all.iter().copied().map(written).collect();
        let hint = format!("one of: {}", words.join(", "));
        source.fault(&text.span, format!("unknown word `{}`", text.value), hint);
    }
    found.map(|value| At { value, span: text.span.clone() })
}

fn rung(top: &Table<'_>) -> Option<At<Rung>> {
    let text = top.string("rung")?;
    word(top.source(), &text, &[Rung::A, Rung::B, Rung::C], |rung| match rung {
        Rung::A => "A",
        Rung::B => "B",
        Rung::C => "C",
        Rung::None => "0",
    })
}

fn flag(top: &Table<'_>, key: &'static str) -> Option<At<bool>> {
    let value = top.flag(key);
    top.has(key).then(|| At { value, span: top.key_span(key) })
}

/// Says why a list does not take a path.
type Place = fn(&PathSpec) -> Result<(), &'static str>;

fn anywhere(_: &PathSpec) -> Result<(), &'static str> {
    Ok(())
}

fn not_system(path: &PathSpec) -> Result<(), &'static str> {
    match path.root {
        Root::System => Err("{system} is never writable: it stands only in read and execute"),
        _ => Ok(()),
    }
}

fn below_workspace(path: &PathSpec) -> Result<(), &'static str> {
    match path.root {
        Root::Workspace if !path.is_root() => Ok(()),
        _ => Err("name something below the workspace: {workspace}/…"),
    }
}

fn below_workspace_or_absolute(path: &PathSpec) -> Result<(), &'static str> {
    match path.root {
        Root::Absolute => Ok(()),
        _ => below_workspace(path).map_err(|_| "write {workspace}/… or an absolute path"),
    }
}

/// Reads one entry's `path` and `why`; the caller ends the table.
fn entry(
    table: &Table<'_>,
    list: &str,
    takes: Place,
    spans: &mut BTreeMap<String, Range<usize>>,
) -> Option<Entry> {
    let (path, why) = (table.required("path"), why(table));
    let path = path?;
    let spec = match PathSpec::parse(&path.value) {
        Ok(spec) => spec,
        Err((title, hint)) => {
            table.source().fault(&path.span, title, hint);
            return None;
        }
    };
    if let Err(hint) = takes(&spec) {
        let title = format!("`{spec}` cannot stand in `{list}`");
        table.source().fault(&path.span, title, hint);
    }
    let place = table.source().place(path.span.start);
    spans.insert(place.clone(), path.span);
    Some(Entry { path: spec, why: why?, place })
}

fn entries(
    top: &Table<'_>,
    list: &'static str,
    takes: Place,
    spans: &mut BTreeMap<String, Range<usize>>,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    top.each_table(list, |table| entries.extend(entry(table, list, takes, spans)));
    entries
}

fn writes(top: &Table<'_>, spans: &mut BTreeMap<String, Range<usize>>) -> Vec<Write> {
    let mut writes = Vec::new();
    top.each_table("write", |table| {
        let entry = entry(table, "write", not_system, spans);
        let (make, optional) = (make(table), table.flag("optional"));
        writes.extend(entry.map(|entry| Write { entry, make, optional }));
    });
    writes
}

fn make(table: &Table<'_>) -> MakeSet {
    let kinds = table.strings("make");
    if !table.has("make") {
        return MakeSet::all();
    }
    let kind = |text| word(table.source(), text, Make::ALL, Make::as_str);
    kinds.iter().filter_map(kind).fold(MakeSet::none(), |set, kind| set.with(kind.value))
}

fn network(top: &Table<'_>) -> Option<At<Network>> {
    let table = top.table("network")?;
    let (mode, why) = (table.required("mode"), why(&table));
    table.done();
    let mode = word(table.source(), &mode?, NetworkMode::ALL, NetworkMode::as_str)?;
    let place = table.source().place(mode.span.start);
    Some(At { value: Network { mode: mode.value, why: why?, place }, span: mode.span })
}

fn syscalls(top: &Table<'_>, places: &mut Places) -> Vec<SyscallSet> {
    let Some(table) = top.table("syscalls") else { return Vec::new() };
    let sets = table.strings("sets");
    table.done();
    if !table.has("sets") {
        table.missing("sets");
    } else if sets.is_empty() {
        let hint = "leave the table out to have only what is inherited";
        table.source().fault(&table.key_span("sets"), "`sets` is empty", hint);
    }
    let set = |text| word(table.source(), text, SyscallSet::ALL, SyscallSet::as_str);
    let sets: Vec<At<SyscallSet>> = sets.iter().filter_map(set).collect();
    for set in &sets {
        note(places, &table, &format!("syscalls.{}", set.value.as_str()), &set.span);
    }
    sets.into_iter().map(|set| set.value).collect()
}

fn limits(top: &Table<'_>, places: &mut Places) -> Limits {
    let Some(table) = top.table("limits") else { return Limits::default() };
    // A limit of nothing would stop every run, and does not mean "no limit".
    let above_zero = |limit: Option<At<u64>>| {
        let limit = limit?;
        if limit.value == 0 {
            let hint = "leave the key out to have what is inherited";
            table.source().fault(&limit.span, "a limit of 0 lets nothing run", hint);
        }
        Some(limit.value)
    };
    let limits = Limits {
        memory: above_zero(table.size("memory")),
        file_size: above_zero(table.size("file_size")),
        tmp: above_zero(table.size("tmp")),
        pids: above_zero(table.number("pids", PIDS_MAX)),
        open_files: above_zero(table.number("open_files", OPEN_FILES_MAX)),
        cpu: above_zero(table.number("cpu", CPU_SECONDS_MAX)),
        tmp_inodes: above_zero(table.number("tmp_inodes", TMP_INODES_MAX)),
    };
    table.done();
    for (name, _) in limits.named() {
        note(places, &table, &format!("limits.{name}"), &table.key_span(name));
    }
    limits
}

fn environment(top: &Table<'_>, places: &mut Places) -> BTreeMap<String, String> {
    let variables = top.string_map("environment");
    for (name, value) in &variables {
        variable(top.source(), name, value);
        note(places, top, &format!("environment.{}", name.value), &name.span);
    }
    variables.into_iter().map(|(name, value)| (name.value, value.value)).collect()
}

/// Checks one variable.
fn variable(source: &Source, name: &At<String>, value: &At<String>) {
    if let Err(fault) = check_variable(&name.value) {
        let hint = "letters, digits and _, not a digit first; no LD_*, no GLIBC_TUNABLES";
        source.fault(&name.span, fault, hint);
    }
    if let Some(stray) = stray_brace(&value.value) {
        let hint = "braces write only {workspace}, {tmp} and {home}";
        source.fault(&value.span, format!("`{stray}` is no token"), hint);
    }
    if value.value.chars().any(is_unsafe_to_show) {
        source.fault(
            &value.span,
            "the value has a control or invisible character",
            "take the character out",
        );
    }
}

fn nested(top: &Table<'_>) -> Option<Nested> {
    let table = top.table("nested")?;
    let mode = table.required("mode");
    table.done();
    word(table.source(), &mode?, Nested::ALL, Nested::as_str).map(|mode| mode.value)
}
