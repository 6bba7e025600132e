//! Calls made by mutating others: those of the vectors and of the catalog's own examples.

use crate::chance::Chance;
use pinfold::catalog::{Catalog, Role};
use pinfold::record::Verdict;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub(crate) const VECTORS: &str = include_str!("../cases/argv-vectors.jsonl");

pub(crate) type Argv = Vec<OsString>;

/// What an edit is put in from. Of text that is not ASCII there is none on which Python's
/// `str.isalnum` and Rust's `char::is_alphanumeric` differ (marks that belong to letters, letters
/// in circles): the policy means Rust's.
const PIECES: [&str; 56] = [
    "a", "Z", "0", "9", "_", "-", "=", ".", "/", ":", ",", "@", "~", "^", "+", "*", "!", "?", "#",
    "$", "%", "&", "'", "\"", "`", "\\", "|", "<", ">", "(", ")", "[", "]", "{", "}", ";", " ",
    "\t", "\n", "\r", "\0", "\u{1b}", "\u{7f}", "\u{85}", "\u{200b}", "\u{202e}", "\u{feff}", "é",
    "ß", "中", "١", "²", "Ⅷ", "\u{301}", "\u{a0}", "😀",
];

/// What reaches pip through an interpreter, or looks as if it did.
const INTERPRETERS: [&[&str]; 18] = [
    &["python", "-m", "pip"],
    &["python3", "-m", "pip"],
    &["python3", "-mpip"],
    &["python", "-Impip"],
    &["python3", "-SEmpip"],
    &["python3", "-W", "ignore", "-m", "pip"],
    &["python", "-Xutf8", "-mpip"],
    &["python3", "-m", "pip.__main__"],
    &["python3", "--check-hash-based-pycs", "always", "-mpip"],
    &["python3", "-hm", "pip"],
    &["python3", "-Xmpip"],
    &["python3", "-m=pip"],
    &["python3", "-m", "pip._internal"],
    &["python3", "-m", "runpy", "pip"],
    &["python3", "-Jmpip"],
    &["python3", "-q"],
    &["python3", "-"],
    &["python3", "lib/site-packages/pip"],
];

/// One way to change a call, and how often it is taken.
type Edit = (usize, fn(&Calls, &mut Chance, &mut Argv));

const EDITS: [Edit; 19] = [
    (40, Calls::put_another_that_fits),
    (10, Calls::add_a_listed_flag),
    (8, Calls::put_behind_an_interpreter),
    (4, |calls, chance, argv| insert(chance, argv, &calls.words)),
    (4, |calls, chance, argv| replace(chance, argv, &calls.words)),
    (3, |calls, chance, argv| argv[0].clone_from(chance.one_of(&calls.programs))),
    (4, |_, chance, argv| drop(argv.remove(chance.below(argv.len())))),
    (4, |_, chance, argv| {
        let word = chance.one_of(argv).clone();
        argv.insert(chance.below(argv.len() + 1), word);
    }),
    (4, |_, chance, argv| {
        let (one, other) = (chance.below(argv.len()), chance.below(argv.len()));
        argv.swap(one, other);
    }),
    (8, |_, chance, argv| edit_text(chance, argv, edit_characters)),
    (3, |_, chance, argv| edit_text(chance, argv, change_case)),
    (2, |_, chance, argv| join(chance, argv, "=")),
    (2, |_, chance, argv| join(chance, argv, "")),
    (2, |_, chance, argv| join(chance, argv, "/")),
    (2, |_, chance, argv| make_cluster(chance, argv)),
    (2, |_, chance, argv| split(chance, argv)),
    (1, |_, chance, argv| {
        let word = argv[chance.below(argv.len())].clone();
        argv.resize(chance.below(80).max(1), word);
    }),
    (1, |_, chance, argv| {
        let at = chance.below(argv.len());
        let times = *chance.one_of(&[63, 128, 1024, 4096, 4097]);
        argv[at] = OsString::from(chance.pick(&["a", "1", "é", "a/", "."]).repeat(times));
    }),
    (1, |_, chance, argv| {
        let at = chance.below(argv.len());
        argv[at].push(OsStr::from_bytes(chance.pick(&[&b"\xff"[..], b"\xc3", b"\xed\xa0\x80"])));
    }),
];

/// Calls to begin with, and what to change them with.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) catalog: Catalog,
    /// Those that run, those that ask, those that are refused.
    pub(crate) bases: [Vec<Argv>; 3],
    words: Vec<OsString>,
    programs: Vec<OsString>,
    /// Texts that fit, by template and option; operands have the option "".
    fitting: HashMap<(String, String), Vec<OsString>>,
    /// Options by template.
    options: HashMap<String, Vec<String>>,
}

impl Calls {
    /// Those of the shipped catalog.
    pub(crate) fn shipped() -> Self {
        let catalog = Catalog::shipped().expect("it is sound");
        let table: toml::Table = toml::from_str(Catalog::shipped_source().text()).expect("TOML");
        let mut calls = Self {
            catalog,
            bases: Default::default(),
            words: Vec::new(),
            programs: Vec::new(),
            fitting: HashMap::new(),
            options: HashMap::new(),
        };
        let mut words = BTreeSet::new();
        strings(&toml::Value::Table(table.clone()), &mut words);
        for tool in table["tool"].as_array().expect("tools") {
            let id = tool["id"].as_str().expect("an id").to_owned();
            calls.options.insert(id, options(tool));
        }
        let templates = calls.catalog.templates().iter();
        let names = templates.flat_map(|it| it.aliases.iter().chain([&it.program]));
        calls.programs = names.map(OsString::from).collect();
        for argv in calls.given() {
            words.extend(argv.iter().cloned());
            calls.take(argv);
        }
        calls.words = words.into_iter().collect();
        calls
    }

    /// The calls of the vectors and of the catalog's examples.
    fn given(&self) -> Vec<Argv> {
        let mut argvs = Vec::new();
        let mut lines: Vec<String> = Vec::new();
        for row in VECTORS.lines() {
            let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
            if let Some(words) = row["argv"].as_array().filter(|words| !words.is_empty()) {
                let word = |word: &serde_json::Value| word.as_str().expect("a string").into();
                argvs.push(words.iter().map(word).collect());
            }
            lines.extend(row["line"].as_str().map(str::to_owned));
        }
        for template in self.catalog.templates() {
            let examples = template.matches.iter().chain(&template.no_matches);
            lines.extend(examples.map(|line| line.value.clone()));
        }
        let split = lines.iter().filter_map(|line| self.catalog.split(OsStr::new(line)).ok());
        argvs.extend(split);
        argvs
    }

    /// Takes a call to begin with.
    fn take(&mut self, argv: Argv) {
        let explained = self.catalog.explain(&argv);
        let Ok(matched) = explained.result else { return self.bases[2].push(argv) };
        for (at, word) in argv.iter().enumerate() {
            let role = explained.trace.role(at);
            if matches!(role, Role::Operand | Role::Value) {
                let option = explained.trace.option_and_kind(at, matched.template).0;
                let place = (matched.template.id.clone(), option.unwrap_or_default().to_owned());
                self.fitting.entry(place).or_default().push(word.clone());
            }
        }
        self.bases[usize::from(matched.verdict == Verdict::Ask)].push(argv);
    }

    /// Makes a call; `number` says from which, and each of `edits` what is changed in it.
    pub(crate) fn mutant(&self, number: u64, edits: &[u64]) -> Argv {
        let mut chance = Chance::from_number(number);
        let class: &usize = chance.one_of(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 2]);
        let mut argv = chance.one_of(&self.bases[*class]).clone();
        for edit in edits {
            let mut chance = Chance::from_number(*edit);
            let mut left = chance.below(EDITS.iter().map(|(weight, _)| weight).sum());
            let fits = |(weight, _): &&Edit| {
                let found = left < *weight;
                left = left.wrapping_sub(*weight);
                found
            };
            let (_, change) = EDITS.iter().find(fits).expect("one of them");
            if !argv.is_empty() {
                change(self, &mut chance, &mut argv);
            }
        }
        argv
    }

    /// Puts another text that fits in the place of an operand or a value.
    fn put_another_that_fits(&self, chance: &mut Chance, argv: &mut Argv) {
        let explained = self.catalog.explain(argv);
        let Some(template) = explained.selected else { return };
        let at = chance.below(argv.len());
        // The places behind the first that comes to hand are looked at as well.
        for at in (at..argv.len()).chain(0..at) {
            let option = explained.trace.option_and_kind(at, template).0.unwrap_or_default();
            let place = (template.id.clone(), option.to_owned());
            let known = matches!(explained.trace.role(at), Role::Operand | Role::Value);
            if let Some(others) = self.fitting.get(&place).filter(|_| known) {
                let other = chance.one_of(others).clone();
                drop(explained);
                argv[at] = other;
                return;
            }
        }
    }

    fn add_a_listed_flag(&self, chance: &mut Chance, argv: &mut Argv) {
        let Some(template) = self.catalog.explain(argv).selected else { return };
        let words = template.subs.first().map_or(0, Vec::len) + 1;
        let options = &self.options[&template.id];
        if !options.is_empty() {
            let at = if chance.happens(80) { words } else { chance.below(argv.len() + 1) };
            argv.insert(at.min(argv.len()), chance.one_of(options).into());
        }
    }

    fn put_behind_an_interpreter(&self, chance: &mut Chance, argv: &mut Argv) {
        let words = chance.pick(&INTERPRETERS).iter().map(OsString::from);
        if argv[0].as_bytes().starts_with(b"pip") || chance.happens(20) {
            argv.splice(..1, words);
        } else if argv[0].as_bytes().starts_with(b"python") {
            argv.splice(1..1, words.skip(1));
        }
    }
}

/// Every string of one word in a catalog.
fn strings(value: &toml::Value, into: &mut BTreeSet<OsString>) {
    match value {
        toml::Value::String(text) if !text.contains(' ') => drop(into.insert(text.into())),
        toml::Value::Array(list) => list.iter().for_each(|value| strings(value, into)),
        toml::Value::Table(table) => {
            into.extend(table.keys().filter(|key| key.starts_with('-')).map(OsString::from));
            table.values().for_each(|value| strings(value, into));
        }
        _ => {}
    }
}

/// The options that a `[[tool]]` lists.
pub(crate) fn options(tool: &toml::Value) -> Vec<String> {
    let list = |key: &str| tool.get(key).and_then(toml::Value::as_array).into_iter().flatten();
    let flags = list("flags").chain(list("globals")).filter_map(toml::Value::as_str);
    let names = list("values").filter_map(|value| value["name"].as_str());
    flags.chain(names).map(str::to_owned).collect()
}

fn insert(chance: &mut Chance, argv: &mut Argv, words: &[OsString]) {
    argv.insert(chance.below(argv.len() + 1), chance.one_of(words).clone());
}

fn replace(chance: &mut Chance, argv: &mut Argv, words: &[OsString]) {
    let at = chance.below(argv.len());
    argv[at].clone_from(chance.one_of(words));
}

fn join(chance: &mut Chance, argv: &mut Argv, with: &str) {
    if argv.len() > 1 {
        let at = chance.below(argv.len() - 1);
        let second = argv.remove(at + 1);
        argv[at].push(with);
        argv[at].push(second);
    }
}

/// Splits an element in two, at its `=` where it has one.
fn split(chance: &mut Chance, argv: &mut Argv) {
    let at = chance.below(argv.len());
    let bytes = argv[at].as_bytes().to_vec();
    let middle = bytes.iter().position(|byte| *byte == b'=').unwrap_or(2.min(bytes.len()));
    let rest = bytes[middle..].strip_prefix(b"=").unwrap_or(&bytes[middle..]).to_vec();
    argv[at] = OsString::from_vec(bytes[..middle].to_vec());
    argv.insert(at + 1, OsString::from_vec(rest));
}

/// Writes two options of one letter as one.
fn make_cluster(chance: &mut Chance, argv: &mut Argv) {
    let is_short = |word: &OsString| word.len() > 1 && word.as_bytes()[0] == b'-';
    let short: Vec<usize> = (0..argv.len()).filter(|at| is_short(&argv[*at])).collect();
    if short.len() > 1 {
        let first = chance.below(short.len() - 1);
        let second = argv.remove(short[first + 1]);
        argv[short[first]].push(OsStr::from_bytes(&second.as_bytes()[1..]));
    }
}

fn edit_text(chance: &mut Chance, argv: &mut Argv, edit: fn(&mut Chance, &str) -> String) {
    let at = chance.below(argv.len());
    if let Some(text) = argv[at].to_str() {
        argv[at] = edit(chance, text).into();
    }
}

fn change_case(chance: &mut Chance, text: &str) -> String {
    if chance.happens(50) { text.to_uppercase() } else { text.to_lowercase() }
}

/// Inserts, takes out or replaces one character.
pub(crate) fn edit_characters(chance: &mut Chance, text: &str) -> String {
    let mut pieces: Vec<String> = text.chars().map(String::from).collect();
    let at = chance.below(pieces.len() + 1);
    let end = (at + chance.below(2)).min(pieces.len());
    let new = if chance.happens(70) { Some((chance.pick(&PIECES)).to_owned()) } else { None };
    pieces.splice(at..end, new);
    pieces.concat()
}
