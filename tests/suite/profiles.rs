//! `pinfold profile`: which profiles there are, what each grants, and whether a file is sound.

use crate::support::Env;
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [&str; 9] =
    ["base", "build", "fetch", "gate", "look", "none", "read", "repo", "repo-init"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `pinfold profile` with these words; returns exit code, output and what was said.
fn profile(env: &Env, words: &[&str]) -> (Option<i32>, String, String) {
    let output = env.pinfold(&[&["profile"], words].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn show(env: &Env, name: &str) -> String {
    let (code, shown, said) = profile(env, &["show", name]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{name}");
    shown
}

fn write(env: &Env, name: &str, content: &str) -> PathBuf {
    let path = env.path(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, content).expect("a file");
    path
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn the_list_names_every_profile_with_its_reason_and_its_origin() {
    let Some(env) = Env::new() else { return };
    let (code, list, said) = profile(&env, &["list"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let names: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, NAMES);
    for line in list.lines() {
        let own = ["read ", "none "].iter().any(|name| line.starts_with(name));
        let origin = if own { "config/profiles/" } else { "(shipped)" };
        assert!(line.contains(origin) && line.contains("rung B"), "{line}");
    }
}

#[test]
fn what_is_shown_of_a_profile_loads_again_and_shows_the_same() {
    let Some(env) = Env::new() else { return };
    for name in NAMES {
        let shown = show(&env, name);
        assert!(!shown.contains("inherits"), "everything inherited stands in it: {shown}");
        let path = write(&env, &format!("copy/{name}.toml"), &shown);
        let (code, out, said) = profile(&env, &["check", utf8(&path)]);
        assert_eq!(code, Some(0), "{name}: {said}");
        assert!(out.ends_with("profiles are sound\n"), "{out}");
        // The same again when the copy takes the original's place.
        let place = env.path(&format!("config/profiles/{name}.toml"));
        let old = fs::read(&place).ok();
        fs::copy(&path, &place).expect("a copy");
        assert_eq!(show(&env, name), shown, "{name}");
        match old {
            Some(old) => fs::write(&place, old).expect("put back"),
            None => fs::remove_file(&place).expect("put back"),
        }
    }
    let files: Vec<PathBuf> = NAMES.map(|name| env.path(&format!("copy/{name}.toml"))).into();
    let words: Vec<&str> = std::iter::once("check").chain(files.iter().map(|f| utf8(f))).collect();
    assert_eq!(profile(&env, &words).0, Some(0), "all of them together");
}

#[test]
fn what_is_shown_holds_what_is_inherited() {
    let Some(env) = Env::new() else { return };
    let gate = show(&env, "gate");
    for line in [
        "path = \"{workspace}/scripts\"",
        "path = \"{workspace}/.git\"",
        "path = \"{system}\"",
        "ASAN_OPTIONS = \"detect_leaks=0\"",
        "LANG = \"C.UTF-8\"",
        "memory = \"4GiB\"",
        "mode = \"loopback\"",
    ] {
        assert!(gate.contains(line), "{line} is missing:\n{gate}");
    }
    let entries = gate.matches("\n[[").count();
    assert_eq!(gate.matches("\nwhy = ").count(), entries + 2, "each entry, network and profile");
}

#[test]
fn a_profile_of_the_operator_replaces_the_shipped_one_of_its_name() {
    let Some(env) = Env::new() else { return };
    env.file("a.txt", "a");
    assert_eq!(env.cmd(&["cat", "a.txt"]).stdout(), "a", "the control");
    let own = "schema = 1\nname = \"look\"\nwhy = \"Sees nothing.\"\ninherits = \"base\"\n";
    write(&env, "config/profiles/look.toml", own);
    assert!(show(&env, "look").contains("why = \"Sees nothing.\""));
    let answer = env.cmd(&["cat", "a.txt"]);
    assert_eq!((answer.code, answer.stdout()), (1, ""), "{answer:?}");
}

#[test]
fn an_unknown_profile_is_named_with_those_there_are() {
    let Some(env) = Env::new() else { return };
    for name in ["nope", "Build", "build.toml", "../build", ""] {
        let (code, out, said) = profile(&env, &["show", name]);
        assert_eq!((code, out.as_str()), (Some(125), ""), "{name}");
        assert_eq!(said, format!("pinfold: no profile `{name}`. Profiles: {}\n", NAMES.join(", ")));
    }
}

#[test]
fn check_shows_every_fault_of_every_file_at_its_place_and_exits_with_1() {
    let Some(env) = Env::new() else { return };
    let head = |name: &str| format!("schema = 1\nname = \"{name}\"\nwhy = \"For tests.\"\n");
    let one = format!(
        "{}colour = 1\n[[read]]\npath = \"usr\"\nwhy = \"w\"\n[[write]]\npath = \"{{tmp}}\"\n\
         [network]\nmode = \"open\"\nwhy = \"w\"\n[limits]\nmemory = \"lots\"\npids = -1\n",
        head("one")
    );
    let two = head("two").replace("schema = 1", "schema = 2") + "inherits = \"nobody\"\n";
    let three = head("three") + "[[read]\n";
    let four = head("another");
    let files = [("one", one), ("two", two), ("three", three), ("four", four)];
    let paths: Vec<PathBuf> = files
        .iter()
        .map(|(name, content)| write(&env, &format!("broken/{name}.toml"), content))
        .collect();
    let words: Vec<&str> = std::iter::once("check").chain(paths.iter().map(|f| utf8(f))).collect();
    let (code, out, said) = profile(&env, &words);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.lines().all(|line| line.starts_with("pinfold:")), "{said}");
    let places = [
        ("one", "4:1", "colour"),
        ("one", "6:8", "\"usr\""),
        ("one", "8:1", "`why` is missing"),
        ("one", "11:8", "open"),
        ("one", "14:10", "lots"),
        ("one", "15:8", "pids"),
        ("two", "1:10", "schema"),
        ("two", "4:12", "nobody"),
        ("three", "4:", "[[read]"),
        ("four", "2:8", "`another`, but the file is `four.toml`"),
    ];
    for (file, place, shown) in places {
        let place = format!("broken/{file}.toml:{place}");
        assert!(said.contains(&place) && said.contains(shown), "{place} {shown}:\n{said}");
    }
    assert!(said.contains('^') && said.ends_with(" faults\n"), "{said}");
}

#[test]
fn check_of_the_configuration_tells_its_faults_too() {
    let Some(env) = Env::new() else { return };
    let (code, out, _) = profile(&env, &["check"]);
    assert_eq!((code, out.as_str()), (Some(0), "9 profiles are sound\n"));
    let broken = env.path("config/profiles/read.toml");
    fs::write(&broken, "schema = 1\nname = \"read\"\n").expect("a file");
    for words in [&["check"][..], &["list"], &["show", "build"]] {
        let (code, out, said) = profile(&env, words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{words:?}");
        assert!(said.contains("read.toml:1:1") && said.contains("`why` is missing"), "{said}");
    }
    let (code, _, said) = profile(&env, &["check", "/nonexistent/x.toml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it cannot be read"), "{said}");
}

#[test]
fn looking_at_profiles_leaves_no_trace() {
    let Some(env) = Env::new() else { return };
    profile(&env, &["list"]);
    profile(&env, &["show", "build"]);
    profile(&env, &["check"]);
    assert!(!env.path("state").exists());
}
