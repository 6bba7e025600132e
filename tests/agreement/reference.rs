//! The reference decider gives the same answers: verdict, template, code, executed argv, words.

use crate::calls::{Argv, Calls, VECTORS, edit_characters};
use crate::chance::{Chance, tell};
use crate::generated;
use crate::lines::{random_line, shown};
use crate::support::{has_programs, lacking};
use pinfold::catalog::Catalog;
use pinfold::record::{Refusal, Verdict};
use pinfold::source::Source;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Codes of matching and of the shape of an argv, each of which some mutant must get.
const CODES: [&str; 33] = [
    "empty-call",
    "too-many-args",
    "empty-arg",
    "arg-too-long",
    "not-utf8",
    "nul",
    "control-char",
    "invisible-char",
    "double-dash",
    "program-path",
    "program-name",
    "instead",
    "unknown-program",
    "option-before-sub",
    "flag-repeated",
    "sub-missing",
    "sub-unknown",
    "listed-refusal",
    "option-after-operand",
    "value-missing",
    "value-form",
    "value-kind",
    "flag-unknown",
    "flag-cluster",
    "flag-forbidden",
    "operand-count",
    "operand-unexpected",
    "operand-kind",
    "flag-required",
    "interpreter-option",
    "interpreter-stdin",
    "module-runner",
    "pip-internal",
];

/// Codes of lines.
const LINE_CODES: [&str; 5] =
    ["line-too-long", "shell-meta", "assignment", "unterminated-quote", "empty-call"];

const TOP: &str = env!("CARGO_MANIFEST_DIR");

fn shipped() -> PathBuf {
    Path::new(TOP).join("sandbox-profiles/catalog.toml")
}

/// Returns whether the reference can be asked here.
fn has_reference() -> bool {
    if !has_programs(&["python3"]) {
        return false;
    }
    let reads_toml = Command::new("python3").args(["-c", "import tomllib"]).output();
    reads_toml.is_ok_and(|output| output.status.success())
        || lacking("the reference decider needs Python 3.11 or later")
}

/// Asks the reference decider, which reads the catalog itself.
fn asked(catalog: &Path, requests: &[Value]) -> Vec<Value> {
    let mut reference = Command::new("python3")
        .arg(Path::new(TOP).join("tests/cases/decide.py"))
        .arg(catalog)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut input = BufWriter::new(reference.stdin.take().expect("a pipe"));
    let output = BufReader::new(reference.stdout.take().expect("a pipe"));
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for request in requests {
                writeln!(input, "{request}").expect("the reference reads");
            }
        });
        let answer = |line: std::io::Result<String>| {
            serde_json::from_str(&line.expect("UTF-8")).expect("JSON")
        };
        output.lines().map(answer).collect::<Vec<Value>>()
    });
    assert!(reference.wait().expect("it ends").success());
    assert_eq!(answers.len(), requests.len(), "one answer for each request");
    answers
}

fn request(argv: &[OsString]) -> Value {
    let element = |word: &OsString| match word.to_str() {
        Some(text) => json!(text),
        None => json!(word.as_bytes()),
    };
    json!({ "argv": argv.iter().map(element).collect::<Vec<_>>() })
}

fn texts(words: &[OsString]) -> Vec<&str> {
    words.iter().map(|word| word.to_str().expect("what fits is UTF-8")).collect()
}

/// The catalog's answer, in the form of the reference's.
pub(crate) fn answer(catalog: &Catalog, argv: Result<&[OsString], &Refusal>) -> Value {
    let decided = argv.map_err(Refusal::clone).and_then(|argv| catalog.decide(argv));
    match (argv, decided) {
        (Ok(argv), Ok(matched)) => json!({
            "verdict": matched.verdict,
            "template": matched.template.id,
            "code": null,
            "executed": texts(&matched.executed(argv)),
        }),
        (_, Err(refusal)) => json!({
            "verdict": Verdict::Refuse,
            "template": null,
            "code": refusal.code.as_str(),
            "executed": null,
        }),
        (Err(_), Ok(_)) => unreachable!("nothing was decided"),
    }
}

/// What a run of answers reached.
#[derive(Default)]
struct Reached {
    verdicts: BTreeMap<String, usize>,
    templates: BTreeSet<String>,
    codes: BTreeSet<String>,
}

impl Reached {
    fn note(&mut self, answer: &Value) {
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        *self.verdicts.entry(text("verdict").expect("a verdict")).or_default() += 1;
        self.templates.extend(text("template"));
        self.codes.extend(text("code"));
    }

    fn percent(&self, verdict: &str) -> usize {
        let all: usize = self.verdicts.values().sum();
        self.verdicts.get(verdict).copied().unwrap_or_default() * 100 / all
    }
}

/// Compares answers; `shows` writes what was asked.
fn compare(ours: &[Value], theirs: &[Value], shows: impl Fn(usize) -> String) {
    let differing: Vec<usize> = (0..ours.len()).filter(|at| ours[*at] != theirs[*at]).collect();
    let told: Vec<String> = differing
        .iter()
        .take(10)
        .map(|at| format!("{}\n  ours      {}\n  reference {}", shows(*at), ours[*at], theirs[*at]))
        .collect();
    assert!(told.is_empty(), "{} differ:\n{}", differing.len(), told.join("\n"));
}

#[test]
fn mutated_calls_get_the_answers_of_the_reference_decider() {
    const CALLS: usize = 100_000;
    if !has_reference() {
        return;
    }
    let calls = Calls::shipped();
    let mut chance = Chance::of("calls");
    let mut mutant = || {
        let edits: Vec<u64> = (0..=chance.below(4)).map(|_| chance.number()).collect();
        calls.mutant(chance.number(), &edits)
    };
    let argvs: Vec<Argv> = (0..CALLS).map(|_| mutant()).collect();
    let distinct = argvs.iter().collect::<HashSet<_>>().len();
    let requests: Vec<Value> = argvs.iter().map(|argv| request(argv)).collect();
    let ours: Vec<Value> = argvs.iter().map(|argv| answer(&calls.catalog, Ok(argv))).collect();
    compare(&ours, &asked(&shipped(), &requests), |at| format!("{:?}", argvs[at]));

    let mut reached = Reached::default();
    ours.iter().for_each(|answer| reached.note(answer));
    tell(&format!("agreement: {distinct} different of {CALLS} calls, {:?}", reached.verdicts));
    assert!(distinct > CALLS / 2, "too many calls are alike: {distinct}");
    assert!(reached.percent("auto") >= 20 && reached.percent("ask") >= 5, "{:?}", reached.verdicts);
    let ids = calls.catalog.templates().iter().map(|template| &template.id);
    let missed: Vec<_> = ids.filter(|id| !reached.templates.contains(*id)).collect();
    assert!(missed.is_empty(), "no call came to {missed:?}");
    let wanted = CODES.map(str::to_owned).into();
    assert_eq!(reached.codes, wanted, "the codes that calls came to, and those they should");
}

#[test]
fn calls_of_generated_catalogs_get_the_answers_of_the_reference_decider() {
    const CATALOGS: usize = 10;
    if !has_reference() {
        return;
    }
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    let mut chance = Chance::of("generated");
    let (mut reached, mut sound) = (Reached::default(), 0);
    while sound < CATALOGS {
        let numbers: Vec<u64> = (0..6).map(|_| chance.number()).collect();
        let table = generated::catalog(&numbers);
        let text = toml::to_string(&table).expect("TOML");
        let Ok(catalog) = Catalog::parse(Source::new("made.toml", text.as_str())) else { continue };
        sound += 1;
        std::fs::write(file.path(), &text).expect("a file");
        let argvs: Vec<Argv> = (0..500).map(|_| generated::call(&table, chance.number())).collect();
        let requests: Vec<Value> = argvs.iter().map(|argv| request(argv)).collect();
        let ours: Vec<Value> = argvs.iter().map(|argv| answer(&catalog, Ok(argv))).collect();
        let theirs = asked(file.path(), &requests);
        compare(&ours, &theirs, |at| format!("{text}\n{:?}", argvs[at]));
        ours.iter().for_each(|answer| reached.note(answer));
    }
    tell(&format!("agreement: generated catalogs, {:?}", reached.verdicts));
    assert!(reached.percent("auto") >= 5, "{:?}", reached.verdicts);
    let missed = ["flag-cluster", "flag-required", "value-form", "value-kind", "value-missing"];
    let missed = missed.into_iter().find(|code| !reached.codes.contains(*code));
    assert_eq!(missed, None, "a code that no call came to");
}

/// Random lines, and lines of the vectors and the examples with some characters changed.
fn lines(catalog: &Catalog, count: usize) -> Vec<String> {
    let rows = VECTORS.lines().map(|row| serde_json::from_str::<Value>(row).expect("JSON"));
    let mut known: Vec<String> =
        rows.filter_map(|row| Some(row["line"].as_str()?.to_owned())).collect();
    assert!(known.len() > 50, "the vectors have lines");
    for template in catalog.templates() {
        let examples = template.matches.iter().chain(&template.no_matches);
        known.extend(examples.map(|line| line.value.clone()));
    }
    let mut chance = Chance::of("lines");
    let mut line = |at: usize| {
        if at.is_multiple_of(2) {
            return random_line(&mut chance);
        }
        let mut line = chance.one_of(&known).clone();
        for _ in 0..chance.below(4) {
            line = edit_characters(&mut chance, &line);
        }
        let long = chance.happens(1);
        if long { line.repeat(8192_usize.div_ceil(line.len().max(1))) } else { line }
    };
    (0..count).map(&mut line).collect()
}

#[test]
fn random_lines_are_split_and_decided_as_the_reference_does() {
    if !has_reference() {
        return;
    }
    let catalog = Catalog::shipped().expect("it is sound");
    let lines = lines(&catalog, 20_000);
    let requests: Vec<Value> = lines.iter().map(|line| json!({ "line": line })).collect();
    let mut reached = Reached::default();
    let ours: Vec<Value> = lines
        .iter()
        .map(|line| {
            let words = catalog.split(OsStr::new(line));
            let mut told = answer(&catalog, words.as_deref());
            reached.note(&told);
            let words = words.as_ref().ok().map(|words| texts(words));
            told["words"] = json!(words);
            told
        })
        .collect();
    compare(&ours, &asked(&shipped(), &requests), |at| shown(lines[at].as_bytes()));
    let missed = LINE_CODES.into_iter().find(|code| !reached.codes.contains(*code));
    assert_eq!(missed, None, "a code that no line came to");
    let split = ours.iter().filter(|answer| !answer["words"].is_null()).count();
    tell(&format!("agreement: {split} of {} lines were split", lines.len()));
    assert!(split > lines.len() / 5 && split < lines.len() * 4 / 5, "{split} lines were split");
}
