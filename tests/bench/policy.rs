//! Measures the catalog with ten thousand templates: loading with all examples, decisions over
//! calls of random programs, and what a decision allocates on its way to `auto`.
//!
//! `--assert` exits 1 where a limit is not met.
#![allow(unsafe_code, reason = "an allocator of the bench's own")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench says what it measured")]
#![allow(missing_docs, unreachable_pub, reason = "a program, parts of which its peers use too")]

mod measure;
#[allow(dead_code, reason = "what only the peers are told of a call and of a template")]
mod synthetic;

use measure::{Spread, decisions, micros};
use pinfold::catalog::Catalog;
use pinfold::profile::Profiles;
use pinfold::record::Verdict;
use pinfold::source::Source;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use synthetic::{Call, Fate};

const TEMPLATES: usize = 10_000;
const CALLS: usize = 20_000;
const LOADS: usize = 15;

const DECISION_MEDIAN_MAX: Duration = Duration::from_micros(1);
const DECISION_P99_MAX: Duration = Duration::from_micros(5);
const LOAD_MAX: Duration = Duration::from_millis(100);

/// Counts what this thread asks of it; everything is passed on to the system's allocator.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ASKED.with(|asked| asked.set(asked.get() + 1));
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Counts the allocations of an act.
fn allocations<T>(act: impl FnOnce() -> T) -> usize {
    let before = ASKED.get();
    drop(black_box(act()));
    ASKED.get() - before
}

fn load(text: &str, profiles: &Profiles) -> (Duration, Catalog) {
    let source = Source::new("synthetic.toml", text);
    let start = Instant::now();
    let catalog = Catalog::load(source, Some(profiles));
    (start.elapsed(), catalog.unwrap_or_else(|faults| panic!("{faults}")))
}

/// Decides every call once and holds it against what is known of it.
fn check(catalog: &Catalog, calls: &[Call]) {
    for call in calls {
        let auto = catalog.decide(&call.argv).is_ok_and(|found| {
            found.verdict == Verdict::Auto && found.template.program == call.program
        });
        assert_eq!(auto, call.fate == Fate::Auto, "{call:?}");
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo adds the word `--bench`.
    if let Some(other) = words.iter().find(|word| !["--assert", "--bench"].contains(&&***word)) {
        eprintln!("policy: no such word: {other} (--assert)");
        return ExitCode::FAILURE;
    }
    let text = synthetic::catalog(TEMPLATES);
    let profiles = Profiles::shipped().unwrap_or_else(|faults| panic!("{faults}"));
    let (_, catalog) = load(&text, &profiles);
    let calls = synthetic::calls(TEMPLATES, CALLS);
    check(&catalog, &calls);
    println!(
        "{TEMPLATES} templates, {} bytes, {} a template, two examples each; {CALLS} calls",
        text.len(),
        text.len() / TEMPLATES
    );
    let loads = (0..LOADS).map(|_| load(&text, &profiles).0).collect();
    let loads = Spread::of(loads);
    println!("load with examples: median {:.1?}, fastest {:.1?}", loads.median, loads.least);

    println!("| decision          | med µs | p99 µs |");
    println!("|-------------------|--------|--------|");
    let mut all = None;
    for (name, fate) in [
        ("all", None),
        ("auto", Some(Fate::Auto)),
        ("program unknown", Some(Fate::Unknown)),
        ("argv does not fit", Some(Fate::Unfit)),
    ] {
        let chosen: Vec<&Call> =
            calls.iter().filter(|call| fate.is_none_or(|fate| call.fate == fate)).collect();
        let argv = |call: &&Call| call.argv.clone();
        let spread = decisions(&chosen, argv, |argv| catalog.decide(argv).is_ok());
        println!("| {name:17} | {} | {} |", micros(spread.median), micros(spread.p99));
        all.get_or_insert(spread);
    }
    let all = all.expect("a row");

    let autos = calls.iter().filter(|call| call.fate == Fate::Auto);
    let made: usize = autos
        .map(|call| allocations(|| catalog.decide(&call.argv).map(|found| found.verdict)))
        .sum();
    // The control: the same count sees what is allocated for the words of a refusal.
    let refused = calls.iter().find(|call| call.fate == Fate::Unfit).expect("one");
    assert!(allocations(|| catalog.decide(&refused.argv).map(|_| ())) > 0, "nothing is counted");
    println!("allocations on the way to auto: {made}");

    let limits = [
        (all.median <= DECISION_MEDIAN_MAX, "the median decision takes more than 1 µs"),
        (all.p99 <= DECISION_P99_MAX, "the 99th percentile of decisions is above 5 µs"),
        (made == 0, "a decision allocates on its way to auto"),
        (loads.median <= LOAD_MAX, "loading takes more than 100 ms"),
    ];
    let mut failed = false;
    for (_, fault) in limits.iter().filter(|(met, _)| !met) {
        eprintln!("policy: {fault}");
        failed = words.iter().any(|word| word == "--assert");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
