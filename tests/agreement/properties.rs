//! What holds for every catalog and every call: what is taken out of a catalog never lets more
//! pass, words decide nothing, an option that no template lists is refused wherever it stands,
//! order decides nothing, and what is executed is what was requested.

use crate::calls::{Argv, Calls, options};
use crate::chance::{Chance, tell};
use crate::generated;
use crate::reference::answer;
use pinfold::catalog::{Catalog, Matched, Role, Via};
use pinfold::record::{Refusal, Verdict};
use pinfold::source::Source;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use toml::{Table, Value};

/// Catalogs and calls that are tried for one property.
const CASES: u32 = 15;

/// Runs a property on values of a strategy, from the seed of this run.
fn check<S: Strategy>(
    name: &str,
    cases: u32,
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let mut chance = Chance::of(name);
    let seed: Vec<u8> = (0..4).flat_map(|_| chance.number().to_le_bytes()).collect();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    match TestRunner::new_with_rng(config, rng).run(strategy, property) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{name}: {reason}\nfor {value:?}"),
        Err(TestError::Abort(reason)) => panic!("{name}: {reason}"),
    }
}

/// A catalog as a table, and calls: the shipped one with mutants, or one made at random.
#[derive(Debug, Clone)]
struct Tried {
    table: Table,
    argvs: Vec<Argv>,
}

fn shipped_table() -> Table {
    toml::from_str(Catalog::shipped_source().text()).expect("TOML")
}

fn shipped(calls: &Calls) -> impl Strategy<Value = Tried> {
    let call = (any::<u64>(), vec(any::<u64>(), 0..3));
    let table = shipped_table();
    vec(call, 50..150).prop_map(move |numbers| {
        let argvs = numbers.iter().map(|(base, edits)| calls.mutant(*base, edits));
        Tried { table: table.clone(), argvs: argvs.collect() }
    })
}

fn made() -> impl Strategy<Value = Tried> {
    let numbers = (vec(any::<u64>(), 1..6), vec(any::<u64>(), 30..120));
    let tried = numbers.prop_map(|(tools, calls)| {
        let table = generated::catalog(&tools);
        let argvs = calls.iter().map(|number| generated::call(&table, *number)).collect();
        Tried { table, argvs }
    });
    tried.prop_filter("no catalog", |tried| parsed(&tried.table).is_ok())
}

fn parsed(table: &Table) -> Result<Catalog, String> {
    let text = toml::to_string(table).expect("TOML");
    Catalog::parse(Source::new("c.toml", text)).map_err(|faults| faults.to_string())
}

fn verdict(catalog: &Catalog, argv: &[OsString]) -> Verdict {
    catalog.decide(argv).map_or(Verdict::Refuse, |matched| matched.verdict)
}

/// Checks a property on both sorts of catalogs.
fn check_both(name: &str, property: impl Fn(&Tried) -> Result<(), TestCaseError>) {
    let calls = Calls::shipped();
    check(name, CASES, &shipped(&calls), |tried| property(&tried));
    check(name, CASES * 10, &made(), |tried| property(&tried));
}

fn array<'t>(table: &'t mut Table, key: &str) -> Option<&'t mut Vec<Value>> {
    table.get_mut(key)?.as_array_mut().filter(|list| !list.is_empty())
}

/// Takes a name out of the lists that may only name options.
fn forget(tool: &mut Table, name: &str) {
    let is_name = |value: &Value| value.as_str() == Some(name);
    for key in ["repeat", "globals"] {
        array(tool, key).into_iter().for_each(|list| list.retain(|value| !is_name(value)));
    }
    for group in array(tool, "required_any").into_iter().flatten() {
        group.as_array_mut().expect("a group").retain(|value| !is_name(value));
    }
}

/// Takes a tool, a flag, a value, a form or an example out.
fn take_out(table: &mut Table, number: u64) {
    let mut chance = Chance::from_number(number);
    let Some(tools) = array(table, "tool") else { return };
    let at = chance.below(tools.len());
    if chance.happens(15) {
        tools.remove(at);
        return;
    }
    let tool = tools[at].as_table_mut().expect("a tool");
    let key = chance.pick(&["flags", "flags", "values", "values", "globals", "match", "no_match"]);
    let Some(list) = array(tool, key) else { return };
    let place = chance.below(list.len());
    let forms = list[place].as_table_mut().and_then(|value| array(value, "forms"));
    if let Some(forms) = forms.filter(|forms| forms.len() > 1 && chance.happens(60)) {
        forms.remove(chance.below(forms.len()));
        return;
    }
    let name = match list.remove(place) {
        Value::String(name) => name,
        value => value["name"].as_str().expect("a name").to_owned(),
    };
    if !key.ends_with("match") {
        forget(tool, &name);
    }
}

#[test]
fn taking_anything_listed_out_of_a_catalog_never_lets_more_pass() {
    let (sound, stricter) = (Cell::new(0), Cell::new(0));
    let calls = Calls::shipped();
    let property = |(tried, numbers): (Tried, Vec<u64>)| {
        let full = parsed(&tried.table).expect("sound");
        let mut less = tried.table.clone();
        numbers.iter().for_each(|number| take_out(&mut less, *number));
        // A template without examples, or a group that nothing satisfies, does not load at all.
        let Ok(less) = parsed(&less) else { return Ok(()) };
        sound.set(sound.get() + 1);
        for argv in &tried.argvs {
            let (before, after) = (verdict(&full, argv), verdict(&less, argv));
            prop_assert!(after >= before, "{argv:?}: {before:?} became {after:?}");
            stricter.set(stricter.get() + usize::from(after > before));
        }
        Ok(())
    };
    let name = "what is taken out";
    check(name, CASES, &(shipped(&calls), vec(any::<u64>(), 1..30)), property);
    check(name, CASES * 10, &(made(), vec(any::<u64>(), 1..4)), property);
    let (sound, stricter) = (sound.get(), stricter.get());
    tell(&format!("agreement: {sound} smaller catalogs, {stricter} calls got stricter"));
    assert!(sound > 120 && stricter > 100, "{sound} loaded, {stricter} got stricter");
}

#[test]
fn taking_every_word_list_out_changes_no_verdict() {
    let reworded = Cell::new(0);
    check_both("words", |tried| {
        let full = parsed(&tried.table).expect("sound");
        let mut bare = tried.table.clone();
        bare.remove("refuse");
        bare.remove("instead");
        for tool in array(&mut bare, "tool").expect("tools") {
            tool.as_table_mut().expect("a tool").remove("forbid");
        }
        let bare = parsed(&bare).expect("sound");
        for argv in &tried.argvs {
            prop_assert_eq!(verdict(&full, argv), verdict(&bare, argv), "{:?}", argv);
            let code = |catalog: &Catalog| catalog.decide(argv).err().map(|refusal| refusal.code);
            reworded.set(reworded.get() + usize::from(code(&full) != code(&bare)));
        }
        Ok(())
    });
    assert!(reworded.get() > 100, "the lists chose the words of {} calls", reworded.get());
}

/// Whether a template accepts this token as an option in some place.
fn lists(tool: &Value, token: &str) -> bool {
    if options(tool).iter().any(|name| name == token) {
        return true;
    }
    let has_form = |name: &str, form: &str| {
        let values = tool.get("values").and_then(Value::as_array).into_iter().flatten();
        let mut named = values.filter(|value| value["name"].as_str() == Some(name));
        named.any(|value| value["forms"].as_array().expect("forms").contains(&form.into()))
    };
    let eq = token.split_once('=').is_some_and(|(name, _)| has_form(name, "eq"));
    let att = token.is_char_boundary(2) && has_form(&token[..2], "att");
    let cluster = tool.get("cluster").and_then(Value::as_bool).unwrap_or(false);
    let is_flag = |letter: char| options(tool).contains(&format!("-{letter}"));
    eq || att || (cluster && token.chars().skip(1).all(is_flag))
}

#[test]
fn an_option_that_the_template_does_not_list_is_refused_wherever_it_stands() {
    const TOKENS: [&str; 12] =
        ["-", "-z", "-a", "-nx", "-la", "-é", "--", "--a", "--a=b", "--no-pager", "-qi", "--of"];
    let inserted = Cell::new(0);
    check_both("unlisted", |tried| {
        let catalog = parsed(&tried.table).expect("sound");
        for argv in &tried.argvs {
            let Ok(matched) = catalog.decide(argv) else { continue };
            if matched.template.opaque {
                continue;
            }
            let tools = tried.table["tool"].as_array().expect("tools");
            let id = matched.template.id.as_str();
            let tool = tools.iter().find(|tool| tool["id"].as_str() == Some(id)).expect("it");
            // What stands before the template's own words belongs to the interpreter.
            let words = matched.template.subs.iter().map(Vec::len).max().unwrap_or(0);
            let first = match matched.via {
                Via::Interpreter(_) => matched.inject_at - words,
                _ => 0,
            };
            for token in TOKENS.iter().filter(|token| !lists(tool, token)) {
                for at in first..=argv.len() {
                    let mut longer = argv.clone();
                    longer.insert(at, token.into());
                    let got = verdict(&catalog, &longer);
                    prop_assert_eq!(got, Verdict::Refuse, "{:?}", longer);
                    inserted.set(inserted.get() + 1);
                }
            }
        }
        Ok(())
    });
    assert!(inserted.get() > 5_000, "{} were tried", inserted.get());
}

/// Puts every list of a catalog whose order may mean nothing in another order.
fn shuffle(table: &mut Table, chance: &mut Chance) {
    for (key, value) in table.iter_mut() {
        if let Value::Table(inner) = value {
            shuffle(inner, chance);
        }
        let Value::Array(list) = value else { continue };
        list.iter_mut().filter_map(Value::as_table_mut).for_each(|inner| shuffle(inner, chance));
        if !["sub", "inject_after_sub", "path"].contains(&key.as_str()) {
            for at in (1..list.len()).rev() {
                list.swap(at, chance.below(at + 1));
            }
        }
    }
}

#[test]
fn the_order_of_a_file_decides_nothing() {
    let moved = Cell::new(0);
    check_both("order", |tried| {
        let catalog = parsed(&tried.table).expect("sound");
        let mut table = tried.table.clone();
        shuffle(&mut table, &mut Chance::from_number(tried.argvs.len() as u64));
        moved.set(moved.get() + usize::from(table != tried.table));
        let shuffled = parsed(&table).expect("sound");
        for argv in &tried.argvs {
            let of = |catalog| answer(catalog, Ok(argv));
            prop_assert_eq!(of(&catalog), of(&shuffled), "{:?}", argv);
        }
        Ok(())
    });
    assert!(moved.get() > 100, "{} files had another order", moved.get());
}

/// What holds for one call: explained as decided, every element accounted for, and executed as
/// requested but for what is injected behind the subcommand.
fn check_call(catalog: &Catalog, argv: &[OsString]) -> Result<bool, TestCaseError> {
    let (decided, explained) = (catalog.decide(argv), catalog.explain(argv));
    let same = match (&decided, &explained.result) {
        (Ok(decided), Ok(told)) => decided == told,
        (Err(refusal), Err(told)) => refusal == told,
        _ => false,
    };
    prop_assert!(same, "{:?}: {:?} and {:?}", argv, decided, explained.result);
    let Ok(matched) = decided else { return Ok(false) };
    let role = |at: usize| explained.trace.role(at);
    prop_assert!((1..argv.len()).all(|at| role(at) != Role::Unread), "{:?}", argv);
    let paired =
        (1..argv.len()).all(|at| (role(at) == Role::Value) == (role(at - 1) == Role::Name));
    prop_assert!(paired, "{:?}", argv);
    let operands = matched.operand_indices().all(|at| role(at) == Role::Operand);
    prop_assert!(operands, "{:?}", argv);

    let injected = &matched.template.inject_after_sub;
    let mut executed = matched.executed(argv);
    let end = matched.inject_at + injected.len();
    let removed: Vec<_> = executed.splice(matched.inject_at..end, []).collect();
    prop_assert!(removed == words(injected), "{:?}: {:?}", argv, removed);
    prop_assert_eq!(&executed[..], argv);
    let behind = |sub: &Vec<String>| argv[..matched.inject_at].ends_with(&words(sub));
    prop_assert!(matched.template.subs.iter().any(behind), "{:?}", argv);
    Ok(true)
}

fn words(sub: &[String]) -> Vec<OsString> {
    sub.iter().map(OsString::from).collect()
}

#[test]
fn what_is_executed_is_what_was_requested_and_is_explained_as_it_is_decided() {
    let accepted = Cell::new(0);
    check_both("executed", |tried| {
        let catalog = parsed(&tried.table).expect("sound");
        for argv in &tried.argvs {
            accepted.set(accepted.get() + usize::from(check_call(&catalog, argv)?));
        }
        Ok(())
    });
    assert!(accepted.get() > 1_000, "{} were accepted", accepted.get());
}

/// A word of a catalog, or any bytes, behind something that looks like an option or not.
fn any_word(number: u64) -> OsString {
    const WORDS: [&str; 17] = [
        "ls",
        "git",
        "pip",
        "python3",
        "head",
        "cargo",
        "make",
        "diff",
        "install",
        "list",
        "status",
        "-m",
        "-n",
        "--lines",
        "--lines=",
        "--no-pager",
        "build",
    ];
    let mut chance = Chance::from_number(number);
    let mut word = chance.pick(&["", "", "-", "--", "--a="]).as_bytes().to_vec();
    match chance.below(4) {
        0 | 1 => word = chance.pick(&WORDS).into(),
        2 => word.extend((0..chance.below(9)).map(|_| b' ' + chance.byte() % 95)),
        _ => word.extend((0..chance.below(9)).map(|_| chance.byte())),
    }
    OsString::from_vec(word)
}

#[test]
fn no_bytes_make_the_matcher_panic() {
    let catalog = Catalog::shipped().expect("it is sound");
    let numbers = (vec(any::<u64>(), 1..8), vec(any::<u64>(), 0..80));
    // Short ones come to the templates, long ones to the limits.
    check("bytes", 4_000, &numbers, |(short, long)| {
        for numbers in [&short, &long] {
            let argv: Vec<OsString> = numbers.iter().map(|number| any_word(*number)).collect();
            check_call(&catalog, &argv)?;
        }
        Ok(())
    });
    let refusal: Result<Matched<'_>, Refusal> = catalog.decide(&[]);
    assert_eq!(refusal.expect_err("nothing").code.as_str(), "empty-call");
}
