//! The house rules, read off the source: the order of the rooms, where unsafe code, clones and
//! libc may stand, lengths, and what the text must not hold.
#![allow(clippy::disallowed_methods, reason = "tests read files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 500;

/// Every room there will be, in the order that is the law. A room that is not built yet has its
/// place all the same, so that nothing has to move when it comes.
const ROOMS: [&str; 17] = [
    "sys",
    "source",
    "record",
    "redact",
    "profile",
    "catalog",
    "session",
    "plan",
    "approval",
    "trail",
    "sandbox",
    "supervise",
    "tools",
    "guard",
    "run",
    "probe",
    "front",
];

const TOP_LEVEL: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "docs",
    "sandbox-profiles",
    "scripts",
    "src",
    "tests",
];

/// The folders of the packages.
const MANIFESTS: [&str; 2] = ["", "tests/fuzz"];

fn top() -> PathBuf {
    let top =
        std::env::var_os("PINFOLD_SOURCE").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(top)
}

fn files_below(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                files_below(&path, ending, into);
            }
        } else if path.extension().is_some_and(|found| found == ending) {
            into.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "tests"] {
        files_below(&top().join(folder), "rs", &mut paths);
    }
    assert!(paths.len() > 40, "the source is there: {}", paths.len());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("UTF-8");
        (path.strip_prefix(top()).expect("below the top").to_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Lines of code: comments and the tests at the end of a file are left out.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let comment = |line: &str| line.trim_start().starts_with("//");
    code.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(move |(_, line)| !comment(line))
}

fn room_of(path: &Path) -> Option<String> {
    let below = path.strip_prefix("src").ok()?;
    let first = below.iter().next()?.to_str()?;
    let name = first.trim_end_matches(".rs");
    (!["main", "lib"].contains(&name)).then(|| name.to_owned())
}

#[test]
fn the_rooms_stand_in_their_order() {
    let lib = fs::read_to_string(top().join("src/lib.rs")).expect("lib.rs");
    let rooms: Vec<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let known: Vec<&str> = ROOMS.into_iter().filter(|room| rooms.contains(room)).collect();
    assert_eq!(rooms, known, "lib.rs names rooms out of order, or one without a place");
}

#[test]
fn a_room_uses_only_rooms_above_it() {
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let Some(room) = room_of(&path) else { continue };
        let own = place(&room).unwrap_or_else(|| panic!("{path:?} is in no room"));
        for (line, code) in code_lines(&text) {
            for after in code.split("crate::").skip(1) {
                let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                let used = after.split(word).next().unwrap_or_default();
                if place(used).is_some_and(|used| used > own) {
                    faults.push(format!("{}:{line} uses {used}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn unsafe_code_and_libc_stand_in_sys_only() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        if path.starts_with("src/sys") || !path.starts_with("src") {
            continue;
        }
        for (line, code) in code_lines(&text) {
            let words = ["unsafe {", "unsafe fn", "unsafe impl", "libc::"];
            if words.iter().any(|word| code.contains(word)) {
                faults.push(format!("{}:{line} {}", path.display(), code.trim()));
            }
        }
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let room_head = room_of(&path).is_some() && file != "main.rs";
        if room_head && path.iter().count() == 3 && file == "mod.rs" {
            assert!(text.contains("#![forbid(unsafe_code)]"), "{path:?} forbids unsafe code");
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn only_one_file_clones_and_nothing_starts_processes_another_way() {
    for (path, text) in sources() {
        let apart = ["sys/spawn.rs", "sys/init/build.rs", "sys/seccomp/tests.rs"];
        if !path.starts_with("src") || apart.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let words = [
            "SYS_clone",
            "libc::fork",
            "libc::vfork",
            "nix::unistd::fork",
            "posix_spawn",
            "process::Command",
        ];
        for (line, code) in code_lines(&text) {
            let listed = path.ends_with("sys/seccomp.rs");
            let found = words.iter().find(|word| code.contains(**word) && !listed);
            assert!(found.is_none(), "{}:{line} {found:?}", path.display());
        }
    }
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    for (path, text) in sources() {
        if !path.starts_with("src/sys") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.contains("unsafe {") {
                let before = &lines[at.saturating_sub(8)..=at];
                let said = before.iter().any(|line| line.contains("SAFETY:"));
                assert!(said, "{}:{} has no SAFETY comment", path.display(), at + 1);
            }
        }
    }
}

#[test]
fn lines_functions_and_files_keep_their_lengths() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        for (at, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX {
                faults.push(format!("{}:{} is too wide", path.display(), at + 1));
            }
        }
        let is_test = path.starts_with("tests") || path.ends_with("tests.rs");
        let lines = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text).lines().count();
        if lines > FILE_LINES_MAX && !is_test {
            faults.push(format!("{} has {lines} lines", path.display()));
        }
        faults.extend(long_functions(&path, &text));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn long_functions(path: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line.trim_start();
        let starts = [
            "fn ",
            "pub fn ",
            "pub(super) fn ",
            "pub(crate) fn ",
            "async fn ",
            "pub async fn ",
            "pub(super) async fn ",
        ];
        if starts.iter().any(|start| head.starts_with(start)) && open.is_none() {
            open = Some((at, indent, head.to_owned()));
        } else if let Some((start, depth, name)) = &open
            && indent == *depth
            && head.starts_with('}')
        {
            if at - start + 1 > FUNCTION_LINES_MAX {
                found.push(format!(
                    "{}:{} {name} has {} lines",
                    path.display(),
                    start + 1,
                    at - start + 1
                ));
            }
            open = None;
        }
    }
    found
}

#[test]
fn no_text_is_unfinished_or_a_switch_around_the_sandbox() {
    // Written in two halves so that this list is not found by itself.
    let words = [
        ["to", "do!"],
        ["unimpl", "emented!"],
        ["FIX", "ME"],
        ["XX", "X:"],
        ["for n", "ow"],
        ["no-sand", "box"],
        ["no_sand", "box"],
    ]
    .map(|halves| halves.concat());
    for (path, text) in sources() {
        if path.ends_with("layout.rs") || path.starts_with("tests/cases") {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let found = words.iter().find(|word| line.contains(word.as_str()));
            let named = path.starts_with("tests") && line.contains('"');
            assert!(found.is_none() || named, "{}:{} {found:?}", path.display(), at + 1);
        }
    }
}

#[test]
fn every_file_is_part_of_the_tree() {
    let mut named = BTreeSet::new();
    let all = sources();
    for (path, text) in &all {
        let folder = match path.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs" | "lib.rs" | "main.rs") => path.parent().expect("a folder").to_owned(),
            _ => path.with_extension(""),
        };
        for line in text.lines() {
            let words = line.trim().trim_start_matches("pub ").strip_prefix("mod ");
            if let Some(name) = words.and_then(|rest| rest.strip_suffix(';')) {
                named.insert(folder.join(format!("{name}.rs")));
                named.insert(folder.join(name).join("mod.rs"));
            }
        }
    }
    let roots = [
        "src/lib.rs",
        "src/main.rs",
        "src/sys/init/main.rs",
        "tests/layout.rs",
        "tests/receipt.rs",
        "tests/suite/main.rs",
        "tests/probe/main.rs",
        "tests/support/mod.rs",
        "tests/bench-peers/main.rs",
        "tests/bench/measure.rs",
        "tests/bench/synthetic.rs",
    ];
    let manifests = MANIFESTS.map(|folder| {
        let text = fs::read_to_string(top().join(folder).join("Cargo.toml"));
        (folder, text.expect("Cargo.toml"))
    });
    for (path, _) in &all {
        let shown = path.to_str().expect("UTF-8");
        let target = manifests.iter().any(|(folder, text)| {
            let file = path.strip_prefix(folder).ok().and_then(Path::to_str);
            file.is_some_and(|file| text.contains(&format!("\"{file}\"")))
        });
        let root = roots.contains(&shown) || target;
        assert!(root || named.contains(path), "{shown} is part of nothing");
    }
}

#[test]
fn the_top_level_holds_what_it_should() {
    let mut found = Vec::new();
    for entry in fs::read_dir(top()).expect("the top") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && name != "target" {
            found.push(name);
        }
    }
    found.sort();
    assert_eq!(found, TOP_LEVEL);
}

#[test]
fn every_dependency_has_its_reason() {
    let reasons = fs::read_to_string(top().join("docs/DEPENDENCIES.md")).expect("the reasons");
    let read = |folder| fs::read_to_string(top().join(folder).join("Cargo.toml"));
    let cargo = MANIFESTS.map(|folder| read(folder).expect("Cargo.toml")).concat();
    let mut within = false;
    for line in cargo.lines() {
        if line.starts_with('[') {
            within = line.ends_with("dependencies]");
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| within) {
            assert!(reasons.contains(&format!("`{name}`")), "{name} has no reason");
        }
    }
}
