//! What is shown of a call before it runs is what is enforced and what the record commits to.

use crate::support::{Env, cgroups_of, is_root, skip};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command of Pinfold with something on standard input.
fn with_stdin(env: &Env, words: &[&str], content: &str) -> Output {
    let mut command = env.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("pinfold starts");
    let mut to = child.stdin.take().expect("a pipe");
    // A call that is refused reads nothing.
    drop(to.write_all(content.as_bytes()));
    drop(to);
    child.wait_with_output().expect("it ends")
}

/// Shows the plan of a call as JSON; the text and the object.
fn shown(env: &Env, options: &[&str], argv: &[&str]) -> (String, Value) {
    let words = [&["profile", "show", "--effective", "--json"], options, &["--"], argv].concat();
    let output = with_stdin(env, &words, "content\n");
    assert_eq!(output.status.code(), Some(0), "{argv:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let value = serde_json::from_str(&text).expect("one object");
    (text, value)
}

/// Returns the bytes of the member `plan`, which stands first.
fn plan_bytes(text: &str) -> &str {
    let rest = text.strip_prefix("{\"plan\":").expect("the plan stands first");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    values.next().expect("a value").expect("JSON");
    &rest[..values.byte_offset()]
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is shown of a call carries the digest that the next run of it records.
fn same_digest(env: &Env, options: &[&str], argv: &[&str]) {
    let before = env.records().len();
    let (text, value) = shown(env, options, argv);
    assert_eq!(env.records().len(), before, "showing records nothing");
    assert_eq!(value["decision"]["verdict"], "auto", "{argv:?}");
    assert_eq!(value["digest"], sha256(plan_bytes(&text)), "{argv:?}");
    with_stdin(env, &[&["run", "--json"], options, &["--"], argv].concat(), "content\n");
    let intents = env.records_of("intent");
    let intent = intents.last().expect("it ran");
    assert_eq!(intent["plan_sha256"], value["digest"], "{options:?} {argv:?}:\n{text}\n{intent}");
    assert_eq!(intent["uid"], value["taken"]["uid"], "{argv:?}");
}

/// Calls of every kind: profiles, working folders, deadlines, input, programs of `#!`.
fn every_kind(env: &Env) {
    env.repository();
    env.file("sub/a.txt", "a\n");
    env.file(".env", "SECRET=1\n");
    env.give_workspace();
    let script = env.path("bin/which");
    fs::write(&script, "#!/bin/sh\necho here\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
    for (options, argv) in [
        (&[][..], &["ls"][..]),
        (&["--cwd", "sub"], &["cat", "a.txt"]),
        (&["--timeout", "3s"], &["probe", "build", "ids"]),
        (&["--stdin"], &["probe", "read", "stdin"]),
        (&["--stdin", "--timeout", "2m", "--cwd", "sub"], &["probe", "build", "stdin"]),
        (&[], &["probe", "none", "ids"]),
        (&[], &["git", "status", "--short"]),
        (&[], &["which", "ls"]),
    ] {
        // On rung C git's profile asks for what only a mount could keep.
        let words = [&["profile", "show", "--effective", "--json"], options, &["--"], argv];
        let refusal = with_stdin(env, &words.concat(), "content\n");
        let value: Value = serde_json::from_slice(&refusal.stdout).expect("one object");
        if argv[0] == "git" && value["decision"]["code"] == "rung" {
            continue;
        }
        same_digest(env, options, argv);
    }
}

#[test]
fn the_digest_that_is_shown_is_the_one_that_the_next_run_records() {
    let Some(env) = Env::new() else { return };
    every_kind(&env);
}

#[test]
fn the_digest_is_the_same_on_rung_c() {
    let env = Env::contained();
    let answer = env.cmd(&["probe", "build", "ids"]);
    if answer.reply["rung"] != "C" {
        return skip("this host cannot hold a tree without namespaces");
    }
    every_kind(&env);
}

#[test]
fn a_run_beside_it_changes_no_digest() {
    for env in [Env::new(), Some(Env::contained())].into_iter().flatten() {
        env.give_workspace();
        let words = ["probe", "read", "ids"];
        let (_, alone) = shown(&env, &[], &words);
        let mut beside = env.start(&["--", "probe", "read", "sleep", "20000"]);
        let running = || !env.records_of("started").is_empty();
        let start = std::time::Instant::now();
        while !running() && start.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(running(), "it runs beside");
        let (_, other) = shown(&env, &[], &words);
        unsafe { libc::kill(beside.id().cast_signed(), libc::SIGTERM) };
        beside.wait().expect("it ends");
        assert_eq!(alone["digest"], other["digest"], "{alone}\n{other}");
        if is_root() {
            assert_ne!(alone["taken"]["uid"], other["taken"]["uid"], "each has an id of its own");
        }
    }
}

#[test]
fn another_call_has_another_digest() {
    let Some(env) = Env::new() else { return };
    env.file("sub/a.txt", "a\n");
    let digest = |options: &[&str], argv: &[&str]| shown(&env, options, argv).1["digest"].clone();
    let one = digest(&[], &["ls"]);
    assert_eq!(one, digest(&[], &["ls"]), "the control");
    for (options, argv) in [
        (&[][..], &["ls", "-l"][..]),
        (&["--cwd", "sub"], &["ls"]),
        (&["--timeout", "3"], &["ls"]),
        (&["--stdin"], &["ls"]),
    ] {
        assert_ne!(one, digest(options, argv), "{options:?} {argv:?}");
    }
    fs::write(env.path("config/profiles/look.toml"), OWN_LOOK).expect("a profile");
    assert_ne!(one, digest(&[], &["ls"]), "a profile of the operator's");
}

const OWN_LOOK: &str = "schema = 1\nname = \"look\"\nwhy = \"Looks.\"\ninherits = \"base\"\n\
                        operands_only = true\n[[read]]\npath = \"{workspace}\"\nwhy = \"w\"\n\
                        [limits]\npids = 7\n[environment]\nTERM = \"own\"\n";

#[test]
fn a_reviewer_makes_the_digest_again_from_the_plan() {
    let Some(env) = Env::new() else { return };
    env.file("e\u{301}\"\\.txt", "a\n");
    let (text, value) = shown(&env, &[], &["probe", "build", "ids", "a\"b\\c\u{e9}"]);
    let python = "import hashlib,json,sys; plan=json.load(sys.stdin)['plan']; \
                  text=json.dumps(plan,separators=(',',':'),ensure_ascii=False); \
                  print(hashlib.sha256(text.encode()).hexdigest())";
    for command in [vec!["python3", "-c", python], vec!["sh", "-c", "jq -cj .plan | sha256sum"]] {
        let tool = if command[0] == "sh" { "jq" } else { command[0] };
        let version = Command::new(tool).arg("--version").output();
        let version = version.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
        // An older jq rounds numbers above 2^53, such as a file's time in nanoseconds.
        if version.is_err() || version.is_ok_and(|told| ["jq-1.5", "jq-1.6"].contains(&told.trim()))
        {
            skip(&format!("{tool} is not installed, or too old"));
            continue;
        }
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.split_whitespace().next(), value["digest"].as_str(), "{command:?}");
    }
}

#[test]
fn a_template_that_asks_shows_what_a_person_would_be_shown() {
    let Some(env) = Env::new() else { return };
    let path = env.path("config/catalog.toml");
    let catalog = fs::read_to_string(&path).expect("the catalog");
    let asks = catalog.replacen(
        "id = \"probe-build\"\nprogram = \"probe\"\nsub = [\"build\"]\ndescribe = \"Try one \
         act.\"\naccess = \"workspace-write\"\ndecision = \"auto\"",
        "id = \"probe-build\"\nprogram = \"probe\"\nsub = [\"build\"]\ndescribe = \"Try one \
         act.\"\naccess = \"workspace-write\"\ndecision = \"ask\"",
        1,
    );
    assert_ne!(asks, catalog);
    fs::write(&path, asks).expect("the catalog");
    let argv = ["probe", "build", "ids"];
    assert_eq!(env.cmd(&argv).refusal(), "nobody-to-ask", "the control");
    let (text, value) = shown(&env, &[], &argv);
    assert_eq!(value["decision"]["verdict"], "ask");
    assert_eq!(value["digest"], sha256(plan_bytes(&text)));
    let output = env.pinfold(&["profile", "show", "--effective", "--", "probe", "build", "ids"]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(page.contains("ask: template probe-build, Try one act."), "{page}");
}

#[test]
fn a_call_that_is_refused_prints_its_refusal_and_exits_as_run_does() {
    let Some(env) = Env::new() else { return };
    let script = env.path("bin/wc");
    fs::write(&script, "#!/nonexistent/interpreter\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
    for (argv, exit) in
        [(&["rm", "-rf", "x"][..], 126), (&["ls", "/etc"], 126), (&["wc", "-l", "a.txt"], 127)]
    {
        let run = env.cmd(argv);
        assert_eq!(run.code, exit, "{argv:?}: {run:?}");
        let words = [&["profile", "show", "--effective"], &["--"][..], argv].concat();
        let output = env.pinfold(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{said}");
        assert_eq!(output.stdout, b"");
        assert!(said.contains(run.reply["message"].as_str().expect("a message")), "{said}");
        let words = [&["profile", "show", "--effective", "--json", "--"][..], argv].concat();
        let output = env.pinfold(&words);
        assert_eq!(output.status.code(), Some(exit));
        let value: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(value["decision"], run.reply["decision"], "{argv:?}");
        assert!(value["plan"].is_null() && value["digest"].is_null(), "{value}");
    }
    let before = env.records().len();
    fs::write(env.path("config/pinfold.toml"), "schema = 2\n").expect("the configuration");
    let output = env.pinfold(&["profile", "show", "--effective", "--", "ls"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(env.records().len(), before, "nothing is recorded");
}

#[test]
fn options_of_a_call_need_one_and_a_name_does_not_stand_beside_it() {
    let Some(env) = Env::new() else { return };
    for words in [
        &["--effective"][..],
        &["--effective", "build", "--", "ls"],
        &["build", "--json"],
        &["build", "--cwd", "sub"],
        &["build", "--", "ls"],
        &[],
    ] {
        let output = env.pinfold(&[&["profile", "show"], words].concat());
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
    }
}

/// Looks at one call's plan and at what the same call sees of itself.
struct Both<'e> {
    env: &'e Env,
    profile: &'e str,
    value: Value,
}

impl<'e> Both<'e> {
    fn new(env: &'e Env, profile: &'e str) -> Self {
        let (_, value) = shown(env, &[], &["probe", profile, "ids"]);
        Self { env, profile, value }
    }

    fn inside(&self, act: &[&str]) -> String {
        self.env.inside(self.profile, act)
    }

    fn plan(&self) -> &Value {
        &self.value["plan"]
    }

    fn mount_points(&self) -> BTreeSet<String> {
        let plan = self.plan();
        let workspace = plan["workspace"].as_str().expect("a path");
        let join = |parts: &[&str]| {
            let parts = parts.iter().filter(|part| !part.is_empty());
            parts.copied().collect::<Vec<_>>().join("/")
        };
        let mounts = plan["view"]["mounts"].as_array().expect("a list");
        let pieces: Vec<&str> = mounts
            .iter()
            .filter(|mount| mount["is"] == "piece")
            .map(|mount| mount["at"].as_str().expect("a path"))
            .collect();
        let at = |mount: &Value| {
            let text = |key: &str| mount[key].as_str().unwrap_or_default();
            match text("is") {
                "link" => None,
                "piece" => Some(join(&[workspace, text("at")])),
                "hold" | "mask" => {
                    let number = mount["piece"].as_u64().expect("a number");
                    let piece = pieces[usize::try_from(number).expect("a small number")];
                    Some(join(&[workspace, piece, text("rest")]))
                }
                _ => Some(text("path").to_owned()),
            }
        };
        mounts.iter().filter_map(at).collect()
    }

    fn mounts_are_as_shown(&self) {
        let points = |table: &str| -> BTreeSet<String> {
            let point = |line: &str| line.split(' ').nth(4).expect("a mount point").to_owned();
            table.lines().map(point).collect()
        };
        let table = self.inside(&["print", "/proc/self/mountinfo"]);
        let outside = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let (mut seen, outside, shown) = (points(&table), points(&outside), self.mount_points());
        // What the host has mounted below a place that is shown is seen with it.
        seen.retain(|point| shown.contains(point) || !outside.contains(point));
        assert_eq!(seen, shown, "{}:\n{table}", self.profile);
    }

    fn variables_are_as_shown(&self) {
        let seen: BTreeMap<String, String> = self
            .inside(&["env"])
            .lines()
            .map(|line| line.split_once('=').expect("a variable"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let scratch = self.value["taken"]["scratch"].as_str().unwrap_or("/tmp");
        let shown: BTreeMap<String, String> = self.plan()["environment"]
            .as_object()
            .expect("an object")
            .iter()
            .map(|(name, variable)| (name, variable["value"].as_str().expect("a text")))
            .map(|(name, value)| (name.clone(), value.replace("{tmp}", scratch)))
            .collect();
        assert_eq!(seen, shown, "{}", self.profile);
    }

    fn limits_are_as_shown(&self) {
        let table = self.inside(&["print", "/proc/self/limits"]);
        let outside = fs::read_to_string("/proc/self/limits").expect("limits");
        let values = |text: &str, head: &str| {
            let line = text.lines().find(|line| line.starts_with(head)).expect("a line").to_owned();
            let values = line[head.len()..].split_whitespace().take(2);
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let limits = self.plan()["limits"].as_array().expect("a list");
        for (name, head) in [
            ("file_size", "Max file size"),
            ("open_files", "Max open files"),
            ("pids", "Max processes"),
            ("cpu", "Max cpu time"),
            ("core", "Max core file size"),
            ("", "Max stack size"),
            ("", "Max address space"),
            ("memory", "Max data size"),
        ] {
            let seen = values(&table, head);
            // What a group keeps is no limit of a process.
            let of_process = |limit: &&Value| limit["keeper"]["rlimit"].is_u64();
            let mut of_processes = limits.iter().filter(of_process);
            match of_processes.find(|limit| limit["name"] == name) {
                // The kernel counts all of a user's processes here, so those are added.
                Some(_) if name == "pids" && self.plan()["rung"] == "C" => {}
                Some(limit) => {
                    let value = limit["value"].to_string();
                    assert_eq!(seen, [value.clone(), value], "{} {name}", self.profile);
                }
                None => assert_eq!(seen, values(&outside, head), "{} {head}", self.profile),
            }
        }
    }

    fn namespaces_are_as_shown(&self) {
        let shown: Vec<&str> = self.plan()["namespaces"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|name| name.as_str().expect("a name"))
            .collect();
        for (link, name) in [
            ("mnt", "mount"),
            ("pid", "pid"),
            ("ipc", "ipc"),
            ("uts", "uts"),
            ("cgroup", "cgroup"),
            ("net", "net"),
            ("user", "user"),
            ("time", "time"),
        ] {
            let path = format!("/proc/self/ns/{link}");
            let outside = fs::read_link(&path).expect("a link").display().to_string();
            let differs = self.inside(&["readlink", &path]) != outside;
            assert_eq!(differs, shown.contains(&name), "{} {name}", self.profile);
        }
    }

    fn calls_are_as_shown(&self) {
        let list = |key: &str| self.value["syscalls"][key].as_array().expect("a list").clone();
        let allowed: Vec<Value> = list("allowed").iter().map(|call| call["name"].clone()).collect();
        let refused: BTreeMap<String, String> = list("refused")
            .iter()
            .map(|call| (&call["name"], &call["answer"]))
            .map(|(name, answer)| (name.as_str().expect("a name"), answer.as_str().expect("text")))
            .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
            .collect();
        let told = self.inside(&["refusals"]);
        assert!(told.lines().count() > 50, "{told}");
        for line in told.lines() {
            let (name, answer) = line.split_once(' ').expect("a name and an answer");
            let name = name.trim_end_matches("-user");
            let expected = refused.get(name).map_or("ENOSYS", String::as_str);
            assert!(!allowed.iter().any(|call| call == name), "{name} is allowed");
            assert_eq!(answer, expected, "{} {name}", self.profile);
        }
        // What is listed is let through; with these numbers each fails on its own or does nothing.
        for (name, number) in LISTED {
            let listed = allowed.iter().any(|call| call == name);
            let answer = self.inside(&["syscall", &number.to_string(), NO, NO, NO, NO]);
            assert_eq!(answer != "ENOSYS", listed, "{} {name}: {answer}", self.profile);
        }
    }

    /// Tries listing, making and executing at each place that is shown.
    fn rules_are_as_shown(&self) {
        let plan = self.plan();
        let workspace = plan["workspace"].as_str().expect("a path");
        let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for rule in plan["view"]["rules"].as_array().expect("a list") {
            let at = &rule["at"];
            let inside = at["inside"][0].as_str().map(|below| {
                if below.is_empty() { workspace.to_owned() } else { format!("{workspace}/{below}") }
            });
            let named = ["host", "view"].iter().find_map(|kind| at[kind].as_str());
            let Some(path) = inside.or(named.map(str::to_owned)) else { continue };
            let rights = rule["rights"].as_str().expect("a text").split('+');
            places.entry(path).or_default().extend(rights);
        }
        // A right below a folder reaches everything in it.
        let has = |path: &str, right: &str| {
            let over = |place: &String| Path::new(path).starts_with(place);
            places.iter().any(|(place, rights)| over(place) && rights.contains(right))
        };
        assert!(places.len() > 5, "{places:?}");
        for path in places.keys() {
            let listed = self.inside(&["list", path]);
            let file = format!("{path}/made-by-a-test");
            let made = self.inside(&["create", &file]) == "ok";
            // Another profile is to make it again; most places have none outside.
            drop(fs::remove_file(&file));
            if listed == "ENOTDIR" {
                continue;
            }
            assert_eq!(listed != "EACCES", has(path, "ReadDir"), "{} {path}", self.profile);
            assert_eq!(made, has(path, "MakeReg"), "{} {file}", self.profile);
        }
    }
}

/// No descriptor, process or address.
const NO: &str = "0xffffffffffffffff";

/// Calls of the sets, one of them in none, that do nothing with every argument -1.
const LISTED: [(&str, i64); 7] = [
    ("getpid", libc::SYS_getpid),
    ("semget", libc::SYS_semget),
    ("sched_getparam", libc::SYS_sched_getparam),
    ("fsync", libc::SYS_fsync),
    ("connect", libc::SYS_connect),
    ("memfd_create", libc::SYS_memfd_create),
    ("openat2", libc::SYS_openat2),
];

#[test]
fn what_is_shown_is_what_the_kernel_enforces() {
    let Some(env) = Env::new() else { return };
    env.repository();
    env.file(".env", "SECRET=1\n");
    env.file("scripts/gate.sh", "true\n");
    for profile in ["look", "read", "none", "repo", "build", "gate"] {
        let both = Both::new(&env, profile);
        both.mounts_are_as_shown();
        both.variables_are_as_shown();
        both.limits_are_as_shown();
        both.namespaces_are_as_shown();
        both.calls_are_as_shown();
        both.rules_are_as_shown();
    }
}

#[test]
fn what_is_shown_is_what_the_kernel_enforces_on_rung_c() {
    let env = Env::contained();
    if env.cmd(&["probe", "build", "ids"]).reply["rung"] != "C" {
        return skip("this host cannot hold a tree without namespaces");
    }
    for profile in ["read", "build"] {
        let both = Both::new(&env, profile);
        assert!(both.plan()["view"]["mounts"].as_array().is_some_and(Vec::is_empty));
        both.variables_are_as_shown();
        both.limits_are_as_shown();
        both.namespaces_are_as_shown();
        both.rules_are_as_shown();
    }
}

/// Returns whether a place names a line of a file, or says that it is always so and why.
fn is_origin(place: &str) -> bool {
    let one = |place: &str| {
        let mut parts = place.rsplitn(3, ':');
        let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
        number(parts.next()) && number(parts.next()) && parts.next().is_some_and(|f| !f.is_empty())
    };
    place.strip_prefix("always: ").is_some_and(|why| why.len() > 5)
        || place == "the call"
        || place.split(", ").all(|part| one(part) || part == "guard of the template")
}

/// Walks every object that has a place.
fn every_place(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(place) if name == "place" => into.push(place.clone()),
                    other => every_place(other, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| every_place(item, into)),
        _ => {}
    }
}

#[test]
fn every_part_says_where_it_comes_from() {
    let Some(env) = Env::new() else { return };
    env.repository();
    env.file(".env", "SECRET=1\n");
    fs::write(env.path("config/profiles/look.toml"), OWN_LOOK).expect("a profile");
    for argv in [&["git", "status"][..], &["ls"], &["probe", "gate", "ids"]] {
        let (_, value) = shown(&env, &[], argv);
        let plan = &value["plan"];
        let mut places = Vec::new();
        every_place(&value, &mut places);
        let of_members = plan["places"].as_object().expect("an object").values();
        places.extend(of_members.map(|place| place.as_str().expect("a text").to_owned()));
        assert!(places.len() > 60, "{places:?}");
        assert!(places.iter().all(|place| is_origin(place)), "{argv:?}: {places:#?}");
        for (list, key) in [("mounts", "is"), ("rules", "at")] {
            for part in plan["view"][list].as_array().expect("a list") {
                assert!(!part[key].is_null() && part["place"].is_string(), "{part}");
            }
        }
        for part in plan["limits"].as_array().into_iter().chain(plan["syscalls"].as_array()) {
            assert!(part.iter().all(|part| part["place"].is_string()), "{part:?}");
        }
        for (name, variable) in plan["environment"].as_object().expect("an object") {
            assert!(variable["place"].is_string(), "{name}");
        }
    }
    let (_, value) = shown(&env, &[], &["ls"]);
    let own = env.path("config/profiles/look.toml").display().to_string();
    let plan = &value["plan"];
    let limit = |name: &str| {
        let limits = plan["limits"].as_array().expect("a list");
        limits.iter().find(|limit| limit["name"] == name).expect("a limit")["place"].clone()
    };
    assert_eq!(limit("pids"), format!("{own}:10:1"));
    assert_eq!(limit("file_size"), "base.toml:42:1");
    assert!(limit("core").as_str().is_some_and(|place| place.starts_with("always: ")));
    assert_eq!(plan["environment"]["TERM"]["place"], format!("{own}:12:1"));
    assert_eq!(plan["environment"]["LANG"]["place"], "base.toml:50:1");
    let path = plan["environment"]["PATH"]["place"].as_str().expect("a place");
    let catalog = env.path("config/catalog.toml");
    assert!(path.starts_with(catalog.to_str().expect("UTF-8")), "{path}");
}

#[test]
fn the_page_says_all_of_it_and_acts_on_no_terminal() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let odd = "a\u{1b}[2Jb";
    let workspace = env.path(odd);
    fs::create_dir(&workspace).expect("a folder");
    let workspace = workspace.to_str().expect("UTF-8");
    let words = ["profile", "show", "--effective", "--workspace", workspace, "--", "probe"];
    let output = env.pinfold(&[&words[..], &["build", "ids"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(page.contains(r"a\u{1b}[2Jb"), "{page}");
    let acts = |ch: char| ch.is_control() && ch != '\n';
    assert!(!page.contains(acts), "{page:?}");
    let (_, value) = shown(&env, &["--workspace", workspace], &["probe", "build", "ids"]);
    for group in ["call", "variables", "mounts, in order", "Landlock rules", "system calls"] {
        assert!(page.lines().any(|line| line == group), "{group}:\n{page}");
    }
    for key in ["allowed", "refused"] {
        for call in value["syscalls"][key].as_array().expect("a list") {
            let name = call["name"].as_str().expect("a name");
            assert!(page.split([' ', '\n']).any(|word| word == name), "{name}");
        }
    }
    assert!(page.trim_end().ends_with(value["digest"].as_str().expect("a digest")), "{page}");
    for mount in value["plan"]["view"]["mounts"].as_array().expect("a list") {
        if let Some(path) = mount["path"].as_str().filter(|path| Path::new(path).is_absolute()) {
            let line = format!("  {path}: ");
            assert!(page.lines().any(|found| found.starts_with(&line)), "{path}:\n{page}");
        }
    }
}

#[test]
fn showing_leaves_nothing_taken() {
    let Some(env) = Env::new() else { return };
    let (_, first) = shown(&env, &[], &["ls"]);
    let (_, second) = shown(&env, &[], &["ls"]);
    assert_eq!(first, second, "what was taken is free again");
    assert!(!env.path("state/trail").exists(), "nothing is recorded");
    let mut command = env.command(&["profile", "show", "--effective", "--", "ls"]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("pinfold starts");
    assert!(child.wait().expect("it ends").success());
    let groups = cgroups_of(child.id());
    assert!(groups.is_empty(), "{groups:?}");
}
