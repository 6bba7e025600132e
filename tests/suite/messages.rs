//! Every message of Pinfold's own, brought about for real and compared with one file that people
//! can read: `tests/snapshots/messages.txt`. With `PINFOLD_BLESS=1` the file is written instead.

use crate::config::{TOOL, edit};
use crate::input::call;
use crate::support::{Env, contained, copy_program, is_root, lacking, skip};
use crate::syscalls::where_the_kernel_refuses;
use pinfold::record::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Fewer characters than this has every message, Pinfold's name in front included.
const CHARS: usize = 400;
const SNAPSHOT: &str = include_str!("../snapshots/messages.txt");
const HEAD: &str = "What Pinfold says, by code or situation. Written by tests/suite/messages.rs.\n\
    HOST is the folder of the test; the last line of a refusal, which names `pinfold explain`,\n\
    is left out.\n";

/// What was said, by code (`workspace`) or by code and situation (`workspace: missing`).
#[derive(Default)]
struct Messages {
    said: BTreeMap<String, String>,
    /// What this host cannot bring about.
    skipped: BTreeSet<String>,
}

impl Messages {
    fn skip(&mut self, name: &str, why: &str) {
        skip(&format!("{name}: {why}"));
        self.skipped.insert(name.to_owned());
    }

    /// Takes what a command said in a host, which must end with this exit code.
    fn take(&mut self, env: &Env, name: &str, exit: i32, command: &mut Command) {
        self.output(env, name, exit, &command.output().expect("it starts"));
    }

    fn output(&mut self, env: &Env, name: &str, exit: i32, output: &Output) {
        let said = String::from_utf8(output.stderr.clone()).expect("UTF-8");
        assert_eq!(output.status.code(), Some(exit), "{name}: {said}");
        assert!(said.lines().all(|line| line.starts_with("pinfold: ")), "{name}: {said}");
        let code = name.split(':').next().expect("a name");
        let more = format!("pinfold: `pinfold explain {code}` says more\n");
        match said.strip_suffix(&more) {
            Some(said) => {
                let word = if exit == 125 { "failed" } else { "refused" };
                assert!(said.starts_with(&format!("pinfold: {word} [{code}] ")), "{name}: {said}");
                self.put(env, name, said);
            }
            None => {
                assert!(Code::ALL.iter().all(|known| known.as_str() != code), "{name}: {said}");
                self.put(env, name, &said);
            }
        }
    }

    fn put(&mut self, env: &Env, name: &str, said: &str) {
        for line in said.lines() {
            assert!(line.chars().count() < CHARS, "{name}: too long: {line}");
        }
        // What shows the places of faults in files stands below the message.
        let message = said.split("\npinfold: error: ").next().unwrap_or_default();
        assert!(message.chars().count() < CHARS, "{name}: too long: {message}");
        let host = env.path("");
        let host = host.to_str().expect("UTF-8").trim_end_matches('/');
        let text = plain(&said.replace(host, "HOST"));
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert!(self.said.insert(name.to_owned(), text.join("\n")).is_none(), "{name} twice");
    }

    /// Takes what a command line says in a host of its own, made ready by `prepare`.
    fn situation(
        &mut self,
        name: &str,
        exit: i32,
        prepare: impl FnOnce(&Env),
        words: &[&str],
    ) -> Env {
        let env = Env::new().expect("the host was there before");
        prepare(&env);
        self.take(&env, name, exit, &mut env.command(words));
        env
    }
}

/// Digests, times and places in the trail are others with each run or host.
fn plain(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let before = words.last().map_or("", String::as_str);
        let number = word.trim_end_matches([',', ':', ';']);
        let rest = &word[number.len()..];
        let hex = number.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() == 64 {
            words.push(format!("sha256:DIGEST{rest}"));
        } else if ["after", "byte"].contains(&before) && number.bytes().all(|b| b.is_ascii_digit())
        {
            words.push(format!("N{rest}"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

/// The examples of the table of codes that are command lines, as a shell reads them.
fn examples(all: &mut Messages) {
    let env = Env::new().expect("the host was there before");
    for code in Code::ALL {
        let line = code.example().strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        let Some(line) = line.filter(|line| !line.contains('`')) else { continue };
        let name = code.as_str();
        if line.contains("python3") && !Path::new("/usr/bin/python3").exists() {
            assert!(!lacking("python3 is not installed"));
            all.skip(name, "python3 is not installed");
            continue;
        }
        let inner = env.command(&[] as &[&str]);
        let mut shell = Command::new("bash");
        let function = "pinfold() { \"$BIN\" --config \"$CONFIG\" \"$@\"; }\n";
        shell.arg("-c").arg(format!("{function}{line}")).env_clear();
        shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("BIN", inner.get_program()).env("CONFIG", env.path("config/pinfold.toml"));
        shell.current_dir(env.workspace()).stdin(Stdio::null());
        all.take(&env, name, code.exit().into(), &mut shell);
    }
    assert_eq!(env.records_of("intent").len(), 0, "an example ran");
}

/// What no command line can carry, asked as every door asks.
fn doors(all: &mut Messages) {
    let env = Env::new().expect("the host was there before");
    let reply = call(&env, vec![OsString::from_vec(b"a\0b".to_vec())]);
    assert_eq!(reply["decision"]["code"], "nul", "{reply}");
    let message = format!("pinfold: {}", reply["message"].as_str().expect("a message"));
    all.put(&env, "nul", &message);
}

fn programs_and_profiles(all: &mut Messages) {
    let listed = |env: &Env| edit(env, "catalog.toml", |text| format!("{text}{TOOL}"));
    let run = ["run", "--", "made-up"];
    all.situation("program-unavailable", 127, listed, &run);
    all.situation(
        "program-unavailable: others can write it",
        127,
        |env| {
            listed(env);
            let path = env.path("bin/made-up");
            copy_program(Path::new("/bin/true"), &path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o757)).expect("a mode");
        },
        &run,
    );
    all.situation(
        "program-unavailable: another digest",
        127,
        |env| {
            let pin = format!("{TOOL}sha256 = \"{}\"\n", "0".repeat(64));
            edit(env, "catalog.toml", |text| format!("{text}{pin}"));
            copy_program(Path::new("/bin/true"), &env.path("bin/made-up"));
        },
        &run,
    );
    let profile = |name: &str, body: &'static str, all: &mut Messages| {
        let body = |env: &Env| env.profile("own", "workspace-write", body);
        let name = format!("profile-unavailable: {name}");
        all.situation(&name, 126, body, &["run", "--", "probe", "own", "ids"]);
    };
    let missing = "[[write]]\npath = \"{workspace}/missing\"\nwhy = \"w\"\n";
    profile("a missing place to write", missing, all);
    profile("nested programs", "[nested]\nmode = \"record\"\n", all);
    let needs_a = |env: &Env| {
        edit(env, "profiles/read.toml", |text| text.replacen("rung = \"B\"", "rung = \"A\"", 1));
    };
    // Without Landlock no host gives anything, whoever Pinfold's user is.
    let env = Env::new().expect("the host was there before");
    let mut command = env.command(&["run", "--", "pwd"]);
    let landlock = libc::SYS_landlock_create_ruleset;
    where_the_kernel_refuses(landlock, None, libc::EOPNOTSUPP, &mut command);
    all.take(&env, "rung", 126, &mut command);
    let mut command = env.command(&["run", "--", "pwd"]);
    crate::support::contained::docker(&mut command);
    all.take(&env, "rung: no namespaces", 126, &mut command);
    let contained = Env::contained();
    contained.repository();
    contained.give_workspace();
    let mut command = contained.command(&["run", "--", "git", "commit", "-m", "x"]);
    all.take(&contained, "rung: needs mounts", 126, &mut command);
    let name = "rung: no cgroup";
    if env.cmd(&["pwd"]).reply["rung"] == "A" {
        all.skip(name, "this host can make a cgroup of the run's own");
    } else {
        all.situation(name, 126, needs_a, &["run", "--", "probe", "read", "ids"]);
    }
}

fn workspaces(all: &mut Messages) {
    let folder = |name: &'static str| {
        move |env: &Env| {
            fs::create_dir(env.workspace().join(name)).expect("a folder");
        }
    };
    let run = ["run", "--", "probe", "build", "ids"];
    all.situation("workspace: missing", 126, |_| (), &["run", "--workspace", "no", "--", "pwd"]);
    let own = |_: &Env| ();
    all.situation(
        "workspace: around the state folder",
        126,
        own,
        &["run", "--workspace", "..", "--", "pwd"],
    );
    all.situation(
        "workspace: the home folder",
        126,
        own,
        &["run", "--workspace", "/root", "--", "pwd"],
    );
    let link = |env: &Env| {
        std::os::unix::fs::symlink("elsewhere", env.workspace().join(".git")).expect("a link");
    };
    all.situation("workspace: a link at a protected place", 126, link, &run);
    all.situation("cwd: missing", 126, own, &["run", "--cwd", "no", "--", "pwd"]);
    let alias = |env: &Env| {
        fs::hard_link(env.file(".env", "secret"), env.workspace().join("copy")).expect("a link");
    };
    all.situation("mask-alias", 126, alias, &run);
    let redirect = |env: &Env| {
        env.repository();
        env.file(".git/commondir", "../other\n");
    };
    all.situation("git-state", 126, redirect, &["run", "--", "git", "status"]);
    all.situation("already-there", 126, folder(".git"), &["run", "--", "git", "init"]);
    let gitfile = |env: &Env| drop(env.file(".git", "gitdir: ./elsewhere\n"));
    let status = ["run", "--", "git", "status"];
    all.situation("git-redirect", 126, gitfile, &status);
    all.situation("git-redirect: a link", 126, link, &status);
    let registered = |env: &Env| {
        gitfile(env);
        edit(env, "pinfold.toml", |text| format!("{text}worktrees = [\"../ws\"]\n"));
    };
    all.situation("git-redirect: no worktree's folder", 126, registered, &status);
    all.situation("timeout-value: zero", 126, own, &["run", "--timeout", "0", "--", "pwd"]);
}

fn configurations(all: &mut Messages) {
    let run = ["run", "--", "pwd"];
    let faulty = |file: &'static str, from: &'static str, to: &'static str| {
        move |env: &Env| {
            edit(env, file, |text| text.replacen(from, to, 1));
        }
    };
    let key = faulty("pinfold.toml", "catalog = ", "catalogue = ");
    all.situation("config", 125, key, &run);
    let syntax = faulty("pinfold.toml", "catalog = ", "catalog = = ");
    all.situation("config: not TOML", 125, syntax, &run);
    let kind = faulty("catalog.toml", "timeout_s = 10\n", "timeout_s = \"10\"\n");
    all.situation(
        "config: a catalog and a profile",
        125,
        |env| {
            kind(env);
            faulty("profiles/read.toml", "{workspace}", "{workspce}")(env);
        },
        &run,
    );
    let unknown = faulty("catalog.toml", "profile = \"look\"", "profile = \"nope\"");
    all.situation(
        "config: a profile that does not exist",
        125,
        |env| {
            unknown(env);
            faulty("catalog.toml", "\"none\"]", "\"none\", \"nope\"]")(env);
        },
        &run,
    );
    all.situation(
        "config: a missing file",
        125,
        |env| {
            fs::remove_file(env.path("config/catalog.toml")).expect("the file");
        },
        &run,
    );
    all.situation(
        "config: others can change it",
        125,
        |env| {
            let open = fs::Permissions::from_mode(0o666);
            fs::set_permissions(env.path("config/pinfold.toml"), open).expect("a mode");
        },
        &run,
    );
    let key = faulty("pinfold.toml", "catalog = ", "catalogue = ");
    all.situation("profile: a faulty configuration", 1, key, &["profile", "list"]);
    let own = |_: &Env| ();
    all.situation("profile: an unknown name", 125, own, &["profile", "show", "frob"]);
    let faulty = "schema = 1\nname = \"x\"\nwhy = \"w\"\ninherits = \"nope\"\nrung = \"B\"\n";
    let file = |env: &Env| drop(env.file("x.toml", faulty));
    all.situation("profile: a faulty file", 1, file, &["profile", "check", "x.toml"]);
}

fn policies(all: &mut Messages) {
    let index = |env: &Env| {
        let index = "[index]\npip = \"https://index.invalid/simple\"\n";
        edit(env, "pinfold.toml", |text| format!("{text}{index}"));
    };
    let pip = ["run", "--", "pip", "install", "six"];
    if Path::new("/usr/bin/pip").exists() {
        all.situation("profile-unavailable", 126, index, &pip);
    } else {
        assert!(!lacking("pip is not installed"));
        all.skip("profile-unavailable", "pip is not installed");
    }
    let run = ["run", "--", "pwd"];
    for (name, value, exit) in [
        ("nobody-to-ask: switched off", "0", 126),
        ("config: a value that does not exist", "1", 125),
    ] {
        let env = Env::new().expect("the host was there before");
        let mut command = env.command(&run);
        command.env("PINFOLD_AUTO_APPROVE", value);
        all.take(&env, name, exit, &mut command);
    }
    let looser = |env: &Env| {
        let text = "schema = 1\n[[tool]]\nid = \"pwd\"\nbudget = 51\n";
        fs::write(env.path("config/tighten.toml"), text).expect("a file");
    };
    let words = ["run", "--tighten", "../config/tighten.toml", "--", "pwd"];
    all.situation("config: an overlay that loosens", 125, looser, &words);
    let example = |env: &Env| {
        let from = "match    = [\"pwd\", ";
        edit(env, "catalog.toml", |text| text.replacen(from, "match = [\"pwd x\", ", 1));
    };
    all.situation("config: an example that misbehaves", 125, example, &run);
    all.situation("policy: a faulty catalog", 1, example, &["policy", "check"]);
    let rows = |text: &'static str| move |env: &Env| drop(env.file("rows.jsonl", text));
    let test = ["policy", "test", "rows.jsonl"];
    all.situation("policy: no row", 125, rows(""), &test);
    all.situation("policy: something that is no row", 125, rows("{\"argv\": [}\n"), &test);
    all.situation("policy: no file", 125, |_| (), &test);
    let other = "{\"argv\": [\"pwd\"], \"expect\": \"auto\", \"policy\": \"other\"}\n";
    all.situation("policy: rows for another catalog", 0, rows(other), &test);
}

fn trails(all: &mut Messages) {
    let run = ["run", "--", "pwd"];
    let state = |name: &'static str| {
        move |env: &Env| {
            fs::create_dir(env.path("state")).expect("a folder");
            fs::set_permissions(env.path("state"), fs::Permissions::from_mode(0o700))
                .expect("a mode");
            fs::write(env.path("state").join(name), "").expect("a file");
        }
    };
    let recorded = |env: &Env| assert_eq!(env.pinfold(&run).status.code(), Some(0));
    all.situation("trail-unavailable", 125, state("trail"), &run);
    if is_root() {
        all.situation("host", 125, state("uids"), &run);
    } else {
        all.skip("host", "an ordinary user's command needs no id of its own");
    }
    let own = |_: &Env| ();
    all.situation("trail: none there", 125, own, &["trail", "show"]);
    let segment = |env: &Env| env.path("state/trail/seg-00000000000000000000.jsonl");
    let corrupt = |env: &Env| {
        recorded(env);
        let text = fs::read_to_string(segment(env)).expect("the segment");
        let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let start = starts[starts.len() - 3];
        let text = format!("{}{}", &text[..start], text[start..].replacen('{', "[", 1));
        fs::write(segment(env), text).expect("the segment");
    };
    let env = all.situation("trail: a line that is no record", 125, corrupt, &["trail", "show"]);
    all.take(&env, "trail-unavailable: a corrupt trail", 125, &mut env.command(&run));
    // Verdicts are answers, on standard output.
    let mut verdict = |env: &Env, name: &str, exit: i32| {
        let output = env.pinfold(&["trail", "verify"]);
        assert_eq!((output.status.code(), output.stderr.len()), (Some(exit), 0), "{output:?}");
        all.put(env, name, std::str::from_utf8(&output.stdout).expect("UTF-8"));
    };
    verdict(&env, "trail verify: corrupt", 1);
    let env = Env::new().expect("the host was there before");
    verdict(&env, "trail verify: unreadable", 125);
    recorded(&env);
    let text = fs::read(segment(&env)).expect("the segment");
    fs::write(segment(&env), &text[..text.len() - 10]).expect("the segment");
    verdict(&env, "trail verify: torn", 2);
}

fn runs(all: &mut Messages) {
    let own = |_: &Env| ();
    let sleep = ["probe", "build", "sleep", "60000"];
    let words = [&["run", "--timeout", "1", "--"], &sleep[..]].concat();
    all.situation("run: the deadline", 124, own, &words);
    let env = Env::new().expect("the host was there before");
    let run = env.start(&[&["--"], &sleep[..]].concat());
    std::thread::sleep(Duration::from_millis(500));
    let pid = i32::try_from(run.id()).expect("a process id");
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    all.output(&env, "run: cancelled", 143, &run.wait_with_output().expect("it ends"));
    let flood = ["run", "--", "probe", "build", "flood", "5000000"];
    all.situation("run: cut output", 0, own, &flood);
    let env = Env::new().expect("the host was there before");
    let mut command = env.command(&["run", "--", "pwd"]);
    let call = libc::SYS_landlock_restrict_self;
    where_the_kernel_refuses(call, None, libc::EOPNOTSUPP, &mut command);
    all.take(&env, "run: failed before the gate", 125, &mut command);
    let name = "run: no state folder";
    if is_root() {
        all.skip(name, "the state folder of root needs no variable");
    } else {
        let mut command = env.command(&["run", "--", "pwd"]);
        command.env_remove("HOME").env_remove("PINFOLD_HOME");
        all.take(&env, name, 125, &mut command);
    }
}

fn usage(all: &mut Messages) {
    for (name, words) in [
        ("usage: no command", &["run"][..]),
        ("usage: no such verb", &["frobnicate"]),
        ("usage: no session's name", &["run", "--session", "a b", "--", "pwd"]),
        ("usage: no such shell", &["completions", "tcsh"]),
        ("explain: no such code", &["explain", "operand-kinds"]),
        ("man: not a folder", &["man", "file/man"]),
    ] {
        all.situation(name, 125, |env| drop(env.file("file", "")), words);
    }
}

/// What doctor says is missing, which is the same for root and for an ordinary user.
fn doctors(all: &mut Messages) {
    let refused = |command: &mut Command| {
        where_the_kernel_refuses(libc::SYS_landlock_create_ruleset, None, libc::ENOSYS, command);
    };
    let container: fn(&mut Command) = contained::docker;
    for (name, exit, less) in
        [("a container's refusals", 1, container), ("no Landlock", 2, refused)]
    {
        let env = Env::new().expect("the host was there before");
        let mut command = env.command(&["doctor"]);
        less(&mut command);
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(exit), "{name}: {output:?}");
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        let of_missing = |line: &&str| {
            ["missing", "         to have it"].iter().any(|head| line.starts_with(head))
        };
        let said: Vec<&str> = said.lines().filter(of_missing).collect();
        all.put(&env, &format!("doctor: {name}"), &said.join("\n"));
    }
}

#[test]
fn every_message_is_short_and_as_it_stands_in_the_snapshot() {
    if Env::new().is_none() {
        return;
    }
    let mut all = Messages::default();
    examples(&mut all);
    doors(&mut all);
    programs_and_profiles(&mut all);
    workspaces(&mut all);
    configurations(&mut all);
    policies(&mut all);
    trails(&mut all);
    runs(&mut all);
    usage(&mut all);
    doctors(&mut all);
    every_code_has_a_situation(&all);
    let mut known: BTreeMap<String, String> = SNAPSHOT.split("\n## ").skip(1).map(entry).collect();
    if std::env::var_os("PINFOLD_BLESS").is_some() {
        known.retain(|name, _| all.skipped.contains(name));
        known.extend(all.said);
        let text = known.iter().map(|(name, said)| format!("\n## {name}\n\n{said}\n"));
        let text = HEAD.to_owned() + &text.collect::<String>();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/messages.txt");
        return fs::write(path, text).expect("the snapshot can be written");
    }
    let how = "PINFOLD_BLESS=1 cargo test --features test-layers --test suite messages";
    let mut faults = Vec::new();
    for (name, said) in &all.said {
        match known.remove(name) {
            Some(there) if there == *said => {}
            Some(there) => faults.push(format!("## {name}\n{said}\n\nand there:\n{there}")),
            None => faults.push(format!("## {name} is missing\n{said}")),
        }
    }
    let gone = known.keys().filter(|name| !all.skipped.contains(*name));
    faults.extend(gone.map(|name| format!("## {name}\nNothing says this.")));
    let faults = faults.join("\n\n");
    assert!(faults.is_empty(), "not as in the snapshot:\n{faults}\n\nIf it is right: {how}");
}

fn entry(text: &str) -> (String, String) {
    let (name, said) = text.split_once("\n\n").expect("a name and a message");
    (name.to_owned(), said.trim_end().to_owned())
}

fn every_code_has_a_situation(all: &Messages) {
    let names = all.said.keys().chain(&all.skipped);
    let shown: BTreeSet<&str> = names.filter_map(|name| name.split(':').next()).collect();
    for code in Code::ALL {
        assert!(shown.contains(code.as_str()), "nothing gives {code}");
    }
}
