//! The shipped profiles, and what is said about files that are not sound.
#![forbid(unsafe_code)]

use super::*;
use crate::source::Source;
use std::path::PathBuf;

/// The least that a profile must say, for a file called `a.toml`.
const LEAST: &str = "schema = 1\nname = 'a'\nwhy = 'a test'\nrung = 'B'\n\
    [syscalls]\nsets = ['base']\n";

fn shipped(name: &str) -> Profile {
    let profiles = Profiles::shipped().unwrap_or_else(|faults| panic!("{faults}"));
    profiles.get(name).unwrap_or_else(|| panic!("{name} is shipped")).clone()
}

fn load(files: &[(&str, &str)]) -> Result<Profiles, String> {
    let sources = files.iter().map(|(name, text)| Source::new(*name, *text)).collect();
    Profiles::load(sources).map_err(|faults| faults.to_string())
}

/// Loads the least profile with `more` behind it.
fn with(more: &str) -> Result<Profile, String> {
    let profiles = load(&[("a.toml", &format!("{LEAST}{more}"))])?;
    Ok(profiles.get("a").expect("it was loaded").clone())
}

/// Shows the faults of the least profile with `more` behind it, which must have some.
fn faults(more: &str) -> String {
    match with(more) {
        Ok(_) => panic!("no fault in: {more}"),
        Err(shown) => shown,
    }
}

fn paths<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.path.to_string()).collect()
}

fn written(profile: &Profile) -> Vec<String> {
    paths(profile.write.iter().map(|write| &write.entry))
}

#[test]
fn the_shipped_profiles_load_and_have_their_class() {
    let profiles = Profiles::shipped().unwrap_or_else(|faults| panic!("{faults}"));
    let classes: Vec<_> =
        profiles.iter().map(|(profile, _)| (profile.name.as_str(), profile.grants())).collect();
    let promised = [
        ("base", Access::None),
        ("build", Access::WorkspaceWrite),
        ("fetch", Access::Network),
        ("gate", Access::WorkspaceWrite),
        ("look", Access::ReadOnly),
        ("repo", Access::WorkspaceWrite),
        ("repo-init", Access::WorkspaceWrite),
    ];
    assert_eq!(classes, promised);
    assert!(profiles.iter().all(|(_, origin)| *origin == Origin::Shipped));
    assert!(profiles.names().eq(promised.iter().map(|(name, _)| *name)));
}

#[test]
fn every_shipped_profile_has_the_start_of_base() {
    let profiles = Profiles::shipped().unwrap_or_else(|faults| panic!("{faults}"));
    for (profile, _) in profiles.iter() {
        let name = &profile.name;
        assert_eq!(paths(&profile.read)[..2], ["{system}", "{tmp}"], "{name}");
        assert_eq!(written(profile)[0], "{tmp}", "{name}");
        assert_eq!(profile.rung, Rung::B, "{name}");
        assert!(!profile.run_as_owner, "{name}");
        assert_eq!(profile.nested, Nested::Off, "{name}");
        assert_eq!(profile.syscalls[0], SyscallSet::Base, "{name}");
        let base = [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("HOME", "{home}")];
        for (variable, value) in base.into_iter().chain([("TMPDIR", "{tmp}")]) {
            assert_eq!(profile.environment.get(variable).map(String::as_str), Some(value));
        }
        let limits: Vec<&str> = profile.limits.named().map(|(key, _)| key).collect();
        for key in ["memory", "file_size", "tmp", "pids", "open_files", "tmp_inodes"] {
            assert!(limits.contains(&key), "{name} has no {key}");
        }
        let masked = paths(&profile.mask);
        assert!(name == "base" || masked == ["{workspace}/.env"], "{name}: {masked:?}");
    }
}

#[test]
fn look_reads_operands_and_starts_nothing() {
    let look = shipped("look");
    assert!(look.operands_only);
    assert_eq!(paths(&look.read)[2..], ["{workspace}"]);
    assert_eq!(written(&look), ["{tmp}"]);
    assert!(look.execute.is_empty() && look.protect.is_empty() && look.absent.is_empty());
    assert_eq!(look.network.mode, NetworkMode::None);
    assert_eq!(look.syscalls, [SyscallSet::Base, SyscallSet::Files]);
    assert_eq!(look.limits.memory, Some(1 << 30));
    assert_eq!(look.limits.pids, Some(64));
    assert_eq!(look.limits.file_size, Some(64 << 20));
    assert_eq!(look.limits.open_files, Some(1024));
    assert_eq!(look.limits.tmp, Some(64 << 20));
}

#[test]
fn repo_writes_below_git_but_not_what_names_programs() {
    let repo = shipped("repo");
    assert!(!repo.operands_only);
    let git = "{workspace}/.git";
    let below = |names: &[&str]| names.iter().map(|n| format!("{git}/{n}")).collect::<Vec<_>>();
    assert_eq!(written(&repo)[..2], ["{tmp}", git]);
    assert_eq!(written(&repo)[2..], below(&["objects", "refs", "logs"]));
    assert_eq!(repo.write[1].make, MakeSet::none().with(Make::File));
    assert!(!repo.write[1].optional);
    for write in &repo.write[2..] {
        assert_eq!(write.make, MakeSet::none().with(Make::File).with(Make::Folder));
        assert!(write.optional);
    }
    assert_eq!(paths(&repo.protect), below(&["hooks", "config", "info", "modules"]));
    let helpers = ["/usr/lib/git-core", "/usr/libexec/git-core", "/usr/local/libexec/git-core"];
    assert_eq!(paths(&repo.execute), helpers);
    assert_eq!(repo.network.mode, NetworkMode::None);
    assert_eq!(repo.limits.memory, Some(2 << 30));
}

#[test]
fn repo_init_starts_only_where_there_is_no_repository() {
    let init = shipped("repo-init");
    assert_eq!(paths(&init.absent), ["{workspace}/.git"]);
    assert_eq!(written(&init), ["{tmp}", "{workspace}"]);
    assert!(!init.write[1].make.contains(Make::Socket));
    assert_eq!(paths(&init.execute), paths(&shipped("repo").execute));
    assert_eq!(init.network.mode, NetworkMode::None);
}

#[test]
fn build_runs_what_it_built_and_keeps_git() {
    let build = shipped("build");
    assert_eq!(paths(&build.read), ["{system}", "{tmp}", "{workspace}"]);
    assert_eq!(written(&build), ["{tmp}", "{workspace}"]);
    assert_eq!(build.write[1].make, MakeSet::all());
    assert_eq!(paths(&build.execute), ["{system}", "{workspace}", "{tmp}"]);
    assert_eq!(paths(&build.protect), ["{workspace}/.git"]);
    assert_eq!(build.network.mode, NetworkMode::Loopback);
    assert_eq!(build.syscalls, SyscallSet::ALL);
    let limits = build.limits;
    assert_eq!((limits.memory, limits.file_size), (Some(4 << 30), Some(4 << 30)));
    assert_eq!((limits.pids, limits.open_files), (Some(512), Some(4096)));
    assert_eq!(limits.tmp, Some(1 << 30));
    assert_eq!(build.environment["ASAN_OPTIONS"], "detect_leaks=0");
}

#[test]
fn gate_is_a_build_that_keeps_its_scripts() {
    let (gate, build) = (shipped("gate"), shipped("build"));
    assert_eq!(paths(&gate.protect), ["{workspace}/.git", "{workspace}/scripts"]);
    let same = Profile { name: build.name.clone(), why: build.why.clone(), ..gate };
    assert_eq!(Profile { protect: build.protect.clone(), ..same }, build);
}

#[test]
fn fetch_has_the_only_network_and_one_folder() {
    let fetch = shipped("fetch");
    assert_eq!(fetch.network.mode, NetworkMode::Allowlist);
    assert_eq!(written(&fetch), ["{tmp}", "{workspace}/.pinfold/site"]);
    assert_eq!(paths(&fetch.read)[2..], ["{workspace}/.pinfold/site"]);
    for name in ["base", "look", "repo", "repo-init", "build", "gate"] {
        assert_ne!(shipped(name).network.mode, NetworkMode::Allowlist, "{name}");
    }
}

#[test]
fn a_profile_written_out_loads_to_the_same() {
    let profiles = Profiles::shipped().unwrap_or_else(|faults| panic!("{faults}"));
    let odd = "[[write]]\npath = '/srv/\u{e9} \"x\\'\nwhy = 'odd \"names\" and \\ too'\nmake = []\n\
        [[execute]]\npath = '/opt/x'\nwhy = \"it's\"\n[limits]\ntmp = 1025\ncpu = 7\n\
        [environment]\n_A1 = 'a = \"{tmp}\" # \\'\n[nested]\nmode = 'verify'\n";
    let odd = with(odd).unwrap_or_else(|shown| panic!("{shown}"));
    for profile in profiles.iter().map(|(profile, _)| profile).chain([&odd]) {
        let text = profile.to_toml();
        assert!(!text.contains("inherits"), "{text}");
        let file = format!("{}.toml", profile.name);
        let again = load(&[(&file, &text)]).unwrap_or_else(|shown| panic!("{shown}\n{text}"));
        assert_eq!(again.get(&profile.name), Some(profile), "{text}");
    }
}

#[test]
fn an_operators_file_replaces_the_shipped_one_also_for_its_children() {
    let text = LEAST.replace("'a'", "'base'") + "[environment]\nLANG = 'C'\n";
    let profiles = load(&[("/etc/p/base.toml", &text)]).unwrap_or_else(|shown| panic!("{shown}"));
    let build = profiles.get("build").expect("shipped");
    assert_eq!(build.environment["LANG"], "C");
    assert_eq!(written(build), ["{workspace}"]);
    let origins: Vec<&Origin> = profiles.iter().map(|(_, origin)| origin).collect();
    assert_eq!(*origins[0], Origin::File(PathBuf::from("/etc/p/base.toml")));
    assert_eq!(*origins[1], Origin::Shipped);
    assert!(profiles.get("none-such").is_none());
}

#[test]
fn lists_append_tables_and_scalars_override() {
    let parent = LEAST.to_owned()
        + "[[read]]\npath = '/opt/a'\nwhy = 'a'\n[limits]\npids = 5\ncpu = 9\n\
        [environment]\nA = '1'\nB = '2'\n[network]\nmode = 'loopback'\nwhy = 'l'\n\
        [nested]\nmode = 'record'\n";
    let parent = format!("run_as_owner = true\n{parent}");
    let child = "schema = 1\nname = 'b'\nwhy = 'b'\ninherits = 'a'\nrung = 'A'\n\
        run_as_owner = false\n[[read]]\npath = '/opt/b'\nwhy = 'b'\n\
        [syscalls]\nsets = ['files', 'base', 'files']\n[limits]\npids = 6\n\
        [environment]\nB = '3'\nC = '4'\n";
    let loaded = load(&[("a.toml", &parent), ("/p/b.toml", child)]);
    let profiles = loaded.unwrap_or_else(|shown| panic!("{shown}"));
    let (a, b) = (profiles.get("a").expect("a"), profiles.get("b").expect("b"));
    assert_eq!(paths(&b.read), ["/opt/a", "/opt/b"]);
    assert_eq!(b.read[0].place, "a.toml:9:8");
    assert_eq!(b.read[1].place, "/p/b.toml:8:8");
    assert_eq!((a.rung, b.rung), (Rung::B, Rung::A));
    assert_eq!((a.run_as_owner, b.run_as_owner), (true, false));
    assert_eq!((b.limits.pids, b.limits.cpu), (Some(6), Some(9)));
    let variables: Vec<_> = b.environment.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(variables, ["A=1", "B=3", "C=4"]);
    assert_eq!((&b.network, b.nested), (&a.network, Nested::Record));
    assert_eq!(b.syscalls, [SyscallSet::Base, SyscallSet::Files]);
    assert_eq!((b.name.as_str(), b.why.as_str()), ("b", "b"));
}

#[test]
fn a_circle_is_shown_at_each_of_its_inherits() {
    let file = |name: &str, parent: &str| {
        LEAST
            .replace("'a'", &format!("'{name}'"))
            .replace("rung", &format!("inherits = '{parent}'\nrung"))
    };
    let (a, b, c) = (file("a", "b"), file("b", "a"), file("c", "a"));
    let shown = load(&[("a.toml", &a), ("b.toml", &b), ("c.toml", &c)]).expect_err("a circle");
    assert!(shown.contains("a.toml:4:12") && shown.contains("b.toml:4:12"), "{shown}");
    assert!(shown.contains("`a` inherits itself: a → b → a"), "{shown}");
    assert!(!shown.contains("c.toml"), "{shown}");
    let shown = load(&[("d.toml", &file("d", "d"))]).expect_err("the smallest circle");
    assert!(shown.contains("`d` inherits itself: d → d"), "{shown}");
}

#[test]
fn a_ninth_ancestor_is_one_too_many() {
    let chain = |length: usize| {
        let text = |n: usize| {
            let parent = if n == 0 { String::new() } else { format!("inherits = 'p{}'\n", n - 1) };
            parent + &LEAST.replace("'a'", &format!("'p{n}'"))
        };
        let sources = (0..=length).map(|n| Source::new(format!("p{n}.toml"), text(n))).collect();
        Profiles::load(sources).map_err(|faults| (faults.len(), faults.to_string()))
    };
    chain(8).unwrap_or_else(|(_, shown)| panic!("{shown}"));
    let (count, shown) = chain(10).expect_err("nine ancestors, then ten");
    assert_eq!(count, 1, "{shown}");
    assert!(shown.contains("p9.toml:1:12"), "{shown}");
}

#[test]
fn an_unknown_parent_is_shown_with_those_there_are() {
    let shown = load(&[("a.toml", &format!("inherits = 'bace'\n{LEAST}"))]).expect_err("no such");
    assert!(shown.contains("there is no profile `bace`"), "{shown}");
    assert!(shown.contains("a.toml:1:12") && shown.contains("^^^^^^"), "{shown}");
    assert!(shown.contains("hint: known profiles: a, base, build"), "{shown}");
}

#[test]
fn all_faults_of_all_files_are_shown_at_once() {
    let a = "schema = 1\nname = 'a'\nwhy = ''\nrung = 'D'\nrun_as_owner = 'yes'\n\
        [[read]]\npath = '{workspace}/*.rs'\n";
    let b = "schema = 2\nname = 'c'\nwhy = 'b'\ninherits = 'none'\n[limits]\npids = 0\n";
    let shown = load(&[("a.toml", a), ("b.toml", b)]).expect_err("many");
    let expected = [
        ("a.toml:3:7", "`why` is empty"),
        ("a.toml:4:8", "unknown word `D`"),
        ("a.toml:5:16", "`run_as_owner` must be true or false"),
        ("a.toml:6:1", "`why` is missing"),
        ("a.toml:7:8", "`{workspace}/*.rs` is a pattern"),
        ("b.toml:1:10", "reads schema 1"),
        ("b.toml:2:8", "the file is `b.toml`"),
        ("b.toml:4:12", "there is no profile `none`"),
        ("b.toml:6:8", "a limit of 0"),
    ];
    for (place, title) in expected {
        assert!(shown.contains(place) && shown.contains(title), "{place} {title}:\n{shown}");
    }
}

#[test]
fn a_fault_shows_its_line_with_a_caret_and_a_hint() {
    let shown = faults("[[mask]]\npath = '{workspace}/*.pem'\nwhy = 'keys'\n");
    let expected = "error: `{workspace}/*.pem` is a pattern\n \
        --> a.toml:8:8\n  \
        |\n\
        8 | path = '{workspace}/*.pem'\n  \
        |        ^^^^^^^^^^^^^^^^^^^\n  \
        |\n  \
        = hint: name the folder that holds them, which is kept with all below: files that come to \
        match a pattern later would not be";
    assert_eq!(shown, expected);
}

#[test]
fn unknown_keys_are_faults_in_every_table() {
    let unknown = |more: &str| {
        let shown = faults(more);
        assert!(shown.contains("unknown key `extra`"), "{more}: {shown}");
    };
    for list in ["read", "write", "execute", "protect", "mask", "absent"] {
        unknown(&format!("[[{list}]]\npath = '{{workspace}}/a'\nwhy = 'w'\nextra = 1\n"));
    }
    unknown("[network]\nmode = 'none'\nwhy = 'w'\nextra = 1\n");
    unknown("[limits]\nextra = 1\n");
    unknown("[nested]\nmode = 'off'\nextra = 1\n");
    unknown("[extra]\n");
    for text in [format!("extra = 1\n{LEAST}"), format!("{LEAST}extra = 1\n")] {
        let shown = load(&[("a.toml", &text)]).expect_err("top, then syscalls");
        assert!(shown.contains("unknown key `extra`"), "{shown}");
    }
    for list in ["read", "execute", "protect", "mask", "absent"] {
        let entry = format!("[[{list}]]\npath = '{{workspace}}/a'\nwhy = 'w'\noptional = true\n");
        assert!(faults(&entry).contains("unknown key `optional`"), "{list}");
    }
}

#[test]
fn every_entry_and_the_network_need_a_reason() {
    for list in ["read", "write", "execute", "protect", "mask", "absent"] {
        let shown = faults(&format!("[[{list}]]\npath = '{{workspace}}/a'\n"));
        assert!(shown.contains("`why` is missing") && shown.contains("a.toml:7:1"), "{shown}");
        let shown = faults(&format!("[[{list}]]\nwhy = 'w'\n"));
        assert!(shown.contains("`path` is missing"), "{shown}");
    }
    assert!(faults("[network]\nmode = 'none'\n").contains("`why` is missing"));
    assert!(faults("[network]\nwhy = 'w'\n").contains("`mode` is missing"));
    assert!(faults("[[read]]\npath = '/opt/a'\nwhy = \"a\\u001b[0m\"\n").contains("control"));
}

#[test]
fn the_top_keys_must_be_there() {
    let shown = load(&[("a.toml", "")]).expect_err("nothing");
    for key in ["schema", "name", "why"] {
        assert!(shown.contains(&format!("`{key}` is missing")), "{shown}");
    }
    let shown = load(&[("a.toml", "schema = 1\nname = 'a'\nwhy = 'w'\n")]).expect_err("no rung");
    assert!(shown.contains("`rung` is missing, also above"), "{shown}");
    assert!(shown.contains("no system call set, also above"), "{shown}");
}

#[test]
fn each_list_takes_only_paths_that_it_can_keep() {
    let takes = |list: &str, path: &str| {
        with(&format!("[[{list}]]\npath = '{path}'\nwhy = 'w'\n")).map(|_| ())
    };
    let paths = ["{system}", "{workspace}", "{workspace}/a", "{tmp}", "{tmp}/a", "{home}", "/a"];
    let table = [
        ("read", [true; 7]),
        ("write", [false, true, true, true, true, true, true]),
        ("execute", [true; 7]),
        ("protect", [false, false, true, false, false, false, false]),
        ("mask", [false, false, true, false, false, false, true]),
        ("absent", [false, false, true, false, false, false, false]),
    ];
    for (list, expected) in table {
        for (path, expected) in paths.iter().zip(expected) {
            let result = takes(list, path);
            assert_eq!(result.is_ok(), expected, "{list} {path}: {result:?}");
        }
        let shown = takes(list, "{workspace}/../x").expect_err("leads out");
        assert!(shown.contains("a.toml:8:8"), "{shown}");
    }
}

#[test]
fn what_may_be_made_is_all_or_what_is_listed() {
    let make = |more: &str| {
        let text = format!("[[write]]\npath = '/opt/a'\nwhy = 'w'\n{more}\n");
        with(&text).map(|profile| profile.write[0].make)
    };
    assert_eq!(make(""), Ok(MakeSet::all()));
    assert_eq!(make("make = ['file','folder','symlink','fifo','socket']"), Ok(MakeSet::all()));
    assert_eq!(make("make = []"), Ok(MakeSet::none()));
    let some = MakeSet::none().with(Make::Fifo).with(Make::File);
    assert_eq!(make("make = ['fifo', 'file', 'fifo']"), Ok(some));
    assert!(some.iter().eq([Make::File, Make::Fifo]));
    assert!(!some.contains(Make::Folder) && MakeSet::none().iter().next().is_none());
    let shown = make("make = ['file', 'device']").expect_err("no such kind");
    assert!(shown.contains("a.toml:10:17") && shown.contains("one of: file, folder"), "{shown}");
}

#[test]
fn words_are_the_known_ones() {
    for mode in NetworkMode::ALL {
        let text = format!("[network]\nmode = '{}'\nwhy = 'w'\n", mode.as_str());
        assert_eq!(with(&text).map(|profile| profile.network.mode), Ok(*mode));
    }
    for mode in Nested::ALL {
        let text = format!("[nested]\nmode = '{}'\n", mode.as_str());
        assert_eq!(with(&text).map(|profile| profile.nested), Ok(*mode));
    }
    assert!(faults("[network]\nmode = 'host'\nwhy = 'w'\n").contains("none, loopback, allowlist"));
    assert!(faults("[nested]\nmode = 'all'\n").contains("off, record, durable, verify"));
    let sets = |sets: &str| {
        let text = LEAST.replace("sets = ['base']", sets);
        load(&[("a.toml", &text)]).map(|profiles| profiles.get("a").expect("a").syscalls.clone())
    };
    let all = "sets = ['sockets-local', 'files', 'threads', 'base']";
    assert_eq!(sets(all).as_deref(), Ok(SyscallSet::ALL));
    assert!(sets("sets = ['mount']").expect_err("none such").contains("unknown word `mount`"));
    assert!(sets("sets = []").expect_err("empty").contains("`sets` is empty"));
    assert!(sets("").expect_err("no sets").contains("`sets` is missing"));
    for rung in ["0", "b", ""] {
        let text = LEAST.replace("'B'", &format!("'{rung}'"));
        load(&[("a.toml", &text)]).map(|_| ()).expect_err(rung);
    }
}

#[test]
fn limits_have_sizes_counts_and_bounds() {
    let text = "[limits]\nmemory = '4GiB'\nfile_size = 4096\ntmp = '64KiB'\npids = 7\n\
        open_files = 8\ncpu = 9\ntmp_inodes = 10\n";
    let limits = with(text).map(|profile| profile.limits);
    let named = limits.map(|limits| limits.named().collect::<Vec<_>>());
    let expected = [
        ("memory", 4 << 30),
        ("file_size", 4096),
        ("tmp", 64 << 10),
        ("pids", 7),
        ("open_files", 8),
        ("cpu", 9),
        ("tmp_inodes", 10),
    ];
    assert_eq!(named.as_deref(), Ok(&expected[..]));
    for (key, _) in expected {
        assert!(faults(&format!("[limits]\n{key} = 0\n")).contains("a limit of 0"), "{key}");
        assert!(faults(&format!("[limits]\n{key} = -1\n")).contains("a.toml:8:"), "{key}");
        faults(&format!("[limits]\n{key} = '4GB'\n"));
        faults(&format!("[limits]\n{key} = {}\n", i64::MAX));
    }
}

#[test]
fn variables_have_plain_names_and_known_tokens() {
    let text = "[environment]\n_x9 = ''\nCACHE = '{workspace}/c:{tmp}/d:{home}'\n";
    let variables = with(text).map(|profile| profile.environment.len());
    assert_eq!(variables, Ok(2));
    let bad = [
        ("LD_PRELOAD = 'a'", "a.toml:8:1", "how every program is loaded"),
        ("GLIBC_TUNABLES = 'a'", "a.toml:8:1", "how every program is loaded"),
        ("'A=B' = 'a'", "a.toml:8:1", "no name of a variable"),
        ("'' = 'a'", "a.toml:8:1", "no name of a variable"),
        ("9A = 'a'", "a.toml:8:1", "no name of a variable"),
        ("A-B = 'a'", "a.toml:8:1", "no name of a variable"),
        ("A = '{system}/a'", "a.toml:8:5", "`{system}` is no token"),
        ("A = '{Tmp}'", "a.toml:8:5", "`{Tmp}` is no token"),
        ("A = \"a\\u0000b\"", "a.toml:8:5", "control"),
        ("A = 1", "a.toml:8:5", "must be a string"),
    ];
    for (line, place, title) in bad {
        let shown = faults(&format!("[environment]\n{line}\n"));
        assert!(shown.contains(place) && shown.contains(title), "{line}: {shown}");
    }
}

#[test]
fn contradictions_are_shown_with_both_places() {
    let mask = "[[mask]]\npath = '{workspace}/k'\nwhy = 'w'\n";
    let protect = "[[protect]]\npath = '{workspace}/k'\nwhy = 'w'\n";
    let shown = faults(&format!("{mask}{protect}"));
    assert!(shown.contains("a.toml:11:8") && shown.contains("other is at a.toml:8:8"), "{shown}");
    let parent = format!("{LEAST}{mask}");
    let child = format!("schema = 1\nname = 'b'\nwhy = 'b'\ninherits = 'a'\n{protect}");
    let grandchild = "schema = 1\nname = 'c'\nwhy = 'c'\ninherits = 'b'\n";
    let files = [("a.toml", parent.as_str()), ("b.toml", &child), ("c.toml", grandchild)];
    let shown = load(&files).expect_err("inherited contradiction");
    assert!(shown.contains("b.toml:6:8") && shown.contains("other is at a.toml:8:8"), "{shown}");
    assert_eq!(shown.matches("both masked and protected").count(), 1, "{shown}");

    let absent = "[[absent]]\npath = '{workspace}/.git'\nwhy = 'w'\n";
    let write = "[[write]]\npath = '{workspace}/.git/x'\nwhy = 'w'\n";
    assert!(faults(&format!("{absent}{write}")).contains("must be absent"));
    with(&format!("{absent}{write}optional = true\n")).expect("it may be missing");
    with(&format!("{absent}{}", write.replace("/.git/x", ""))).expect("the folder above");
}

#[test]
fn a_rung_must_be_able_to_keep_the_network() {
    let allowlist = "[network]\nmode = 'allowlist'\nwhy = 'w'\n";
    let text = LEAST.replace("'B'", "'C'");
    let shown = load(&[("a.toml", &format!("{text}{allowlist}"))]).expect_err("rung C");
    assert!(shown.contains("a.toml:4:8") && shown.contains("rung C cannot keep"), "{shown}");
    load(&[("a.toml", &text)]).map(|_| ()).expect("rung C without a network");
    let child = format!("schema = 1\nname = 'b'\nwhy = 'b'\ninherits = 'a'\n{allowlist}");
    let shown = load(&[("a.toml", &text), ("b.toml", &child)]).expect_err("rung from above");
    assert!(shown.contains("b.toml:6:8"), "{shown}");
}

#[test]
fn operands_narrow_only_what_is_readable() {
    let text = format!("operands_only = true\n{LEAST}");
    let shown = load(&[("a.toml", &text)]).expect_err("nothing to narrow");
    assert!(shown.contains("a.toml:1:1") && shown.contains("none is readable"), "{shown}");
    let read = "[[read]]\npath = '{workspace}'\nwhy = 'w'\n";
    load(&[("a.toml", &format!("{text}{read}"))]).map(|_| ()).expect("narrows");
}

#[test]
fn a_file_name_must_name_one_profile() {
    for name in ["A.toml", "a.tml", ".toml", "a b.toml", "-a.toml", "a.b.toml"] {
        let shown = load(&[(name, LEAST)]).expect_err(name);
        assert!(shown.contains("names no profile"), "{shown}");
    }
    let shown = load(&[("x/a.toml", LEAST), ("y/a.toml", LEAST)]).expect_err("two");
    assert!(shown.contains("second file for the profile `a`"), "{shown}");
    assert!(shown.contains("y/a.toml"), "{shown}");
}

#[test]
fn the_class_is_the_widest_grant() {
    let class = |more: &str| with(more).map(|profile| profile.grants());
    let entry = |list: &str, path: &str| format!("[[{list}]]\npath = '{path}'\nwhy = 'w'\n");
    assert_eq!(class(""), Ok(Access::None));
    assert_eq!(class(&entry("read", "{system}")), Ok(Access::None));
    assert_eq!(class(&entry("write", "{tmp}")), Ok(Access::None));
    assert_eq!(class(&entry("read", "{workspace}/a")), Ok(Access::ReadOnly));
    assert_eq!(class(&entry("execute", "{workspace}")), Ok(Access::ReadOnly));
    assert_eq!(class(&entry("write", "{workspace}/a")), Ok(Access::WorkspaceWrite));
    assert_eq!(class(&entry("write", "/srv/a")), Ok(Access::WorkspaceWrite));
    let network = |mode: &str| format!("[network]\nmode = '{mode}'\nwhy = 'w'\n");
    assert_eq!(class(&network("loopback")), Ok(Access::None));
    assert_eq!(class(&network("allowlist")), Ok(Access::Network));
}

#[test]
fn every_shipped_profile_is_sound_and_reads_the_same_alone() {
    let (all, lazy) =
        (Profiles::load(Vec::new()).expect("sound"), Profiles::shipped().expect("sound"));
    assert_eq!(all.names().collect::<Vec<_>>(), lazy.names().collect::<Vec<_>>());
    for (profile, _) in all.iter() {
        assert_eq!(lazy.get(&profile.name), Some(profile));
    }
}
