//! Measures what the guard costs: the fingerprint of a repository with 50,000 objects in a project
//! of 200 folders, once it is in the kernel's caches.
//!
//! `--assert` exits 1 where the limit is not met.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench says what it measured")]
#![allow(clippy::disallowed_methods, reason = "it makes the files that it measures")]
#![allow(missing_docs, unreachable_pub, reason = "a program")]

#[allow(dead_code, reason = "what only another bench uses")]
mod measure;

use measure::Spread;
use pinfold::guard::fingerprint;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const OBJECTS: usize = 50_000;
const FOLDERS: usize = 200;
const LOOKS: usize = 50;
const LOOK_MAX: Duration = Duration::from_millis(5);

/// Makes what git would have: names and sizes count, contents do not.
fn fill(top: &Path) {
    let git = top.join(".git");
    for folder in ["hooks", "info", "refs/heads", "refs/tags", "logs/refs/heads", "objects/info"] {
        fs::create_dir_all(git.join(folder)).expect("a folder");
    }
    for (name, content) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", "[core]\n\trepositoryformatversion = 0\n"),
        ("info/exclude", "# none\n"),
        ("hooks/pre-commit.sample", "#!/bin/sh\n"),
    ] {
        fs::write(git.join(name), content).expect("a file");
    }
    for number in 0..OBJECTS {
        let folder = git.join(format!("objects/{:02x}", number % 256));
        if number < 256 {
            fs::create_dir(&folder).expect("a folder");
        }
        File::create(folder.join(format!("{number:038x}"))).expect("an object");
    }
    let mut folder = top.to_owned();
    for number in 0..FOLDERS {
        folder = if number % 10 == 0 { top.join(format!("d{number}")) } else { folder.join("d") };
        fs::create_dir(&folder).expect("a folder");
        for file in ["a.rs", "b.rs", "c.md"] {
            File::create(folder.join(file)).expect("a file");
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(other) = words.iter().find(|word| !["--assert", "--bench"].contains(&&***word)) {
        eprintln!("guard: no such word: {other} (--assert)");
        return ExitCode::FAILURE;
    }
    let base = std::env::var_os("BENCHDIR").unwrap_or_else(|| "/var/tmp".into());
    let folder = tempfile::tempdir_in(base).expect("a folder");
    eprintln!("guard: making {OBJECTS} objects and {FOLDERS} folders");
    fill(folder.path());
    let top = File::open(folder.path()).expect("the folder");
    let look = || {
        let start = Instant::now();
        let places = fingerprint(&top).expect("a fingerprint");
        assert!(places.len() >= 3, "{places:?}");
        start.elapsed()
    };
    look();
    let looks = Spread::of((0..LOOKS).map(|_| look()).collect());
    println!("fingerprint: median {:.2?}, 99 of 100 within {:.2?}", looks.median, looks.p99);
    if looks.median <= LOOK_MAX {
        return ExitCode::SUCCESS;
    }
    eprintln!("guard: a fingerprint takes more than {LOOK_MAX:?}");
    ExitCode::from(u8::from(words.iter().any(|word| word == "--assert")))
}
