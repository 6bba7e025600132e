//! What surrounds a call decides nothing: not the caller's environment, not what lies in the
//! workspace, and no option that switches confinement off.

use crate::decisions::{PUSH, argvs, lines, stand_in};
use crate::support::{Env, binary, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const HOSTILE: [(&str, &str); 30] = [
    ("LD_PRELOAD", "/nonexistent/evil.so"),
    ("LD_LIBRARY_PATH", "/nonexistent"),
    ("LD_AUDIT", "/nonexistent/evil.so"),
    ("GIT_DIR", "/nonexistent"),
    ("GIT_WORK_TREE", "/nonexistent"),
    ("GIT_INDEX_FILE", "/nonexistent"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "/nonexistent"),
    ("GIT_SSH_COMMAND", "/nonexistent"),
    ("GIT_TRACE", "/nonexistent"),
    ("PYTHONPATH", "/nonexistent"),
    ("PYTHONSTARTUP", "/nonexistent"),
    ("BASH_ENV", "/nonexistent"),
    ("ENV", "/nonexistent"),
    ("NODE_OPTIONS", "--require=/nonexistent"),
    ("MAKEFLAGS", "-n"),
    ("SSH_AUTH_SOCK", "/nonexistent"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent"),
    ("XDG_RUNTIME_DIR", "/nonexistent"),
    ("TOKEN_OF_MINE", "secret-of-mine"),
    ("PINFOLD_CONFIG", "/nonexistent"),
    ("PINFOLD_CATALOG", "/nonexistent"),
    ("PINFOLD_PROFILE", "build"),
    ("PINFOLD_UNSAFE", "1"),
    ("PINFOLD_ALLOW", "1"),
    ("PINFOLD_TEST_UNKNOWN", "landlock"),
    ("TMPDIR", "/nonexistent"),
    ("LANG", "xx_XX"),
    ("IFS", "/"),
];

fn hostile(env: &Env, words: &[&str]) -> Output {
    env.command(words).envs(HOSTILE).output().expect("pinfold starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn f32_a29_a31_a_command_sees_nothing_of_the_callers_environment() {
    let Some(env) = Env::new() else { return };
    let words = ["run", "--", "probe", "build", "env"];
    let usual = text(&env.pinfold(&words).stdout);
    assert!(usual.contains("HOME=/tmp/home\n"), "{usual}");
    assert_eq!(text(&hostile(&env, &words).stdout), usual);
    assert!(!usual.contains("nonexistent") && !usual.contains("secret-of-mine"), "{usual}");
    // The twin: outside, the probe sees them.
    let mut outside = Command::new(env.path("bin/probe"));
    let outside = outside.args(["outside", "env"]).envs(HOSTILE).output().expect("the probe");
    let outside = text(&outside.stdout);
    assert!(outside.contains("TOKEN_OF_MINE=secret-of-mine\n"), "{outside}");
    // The record has the same names as the command.
    let intent = env.records_of("intent").pop().expect("an intent");
    let names: Vec<_> = usual.trim().lines().filter_map(|line| line.split_once('=')).collect();
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(intent["env"], serde_json::json!(names));
}

#[test]
fn no_variable_of_the_caller_turns_a_refusal_into_a_run() {
    let Some(env) = Env::new() else { return };
    for call in [&["frobnicate"][..], &["git", "push"], &["python3", "-c", "1"], &["ls", ".."]] {
        let words = [&["run", "--json", "--"], call].concat();
        let (usual, hostile) = (env.pinfold(&words), hostile(&env, &words));
        assert_eq!(hostile.status.code(), Some(126), "{call:?}");
        let decision = |output: &Output| {
            let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a reply");
            reply["decision"].clone()
        };
        assert_eq!(decision(&usual), decision(&hostile), "{call:?}");
    }
}

#[test]
fn e27_a_git_variable_of_the_caller_reaches_no_git() {
    let Some(env) = Env::new() else { return };
    env.repository();
    env.file("tracked.txt", "changed\n");
    let output = hostile(&env, &["run", "--", "git", "status", "--porcelain"]);
    assert_eq!(text(&output.stdout), " M tracked.txt\n", "{output:?}");
}

#[test]
fn e28_a_variable_of_the_caller_has_no_git_write_a_trace() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let traces = ["GIT_TRACE", "GIT_TRACE2_EVENT", "GIT_TRACE_SETUP"]
        .map(|name| (name, env.workspace().join(name)));
    let mut outside = Command::new("git");
    outside.arg("status").current_dir(env.workspace()).envs(traces.clone());
    assert!(outside.output().expect("git starts").status.success());
    for (name, path) in &traces {
        fs::remove_file(path).unwrap_or_else(|_| panic!("the control: {name} writes nothing"));
    }
    let words = ["run", "--json", "--", "git", "add", "tracked.txt"];
    let output = env.command(&words).envs(traces.clone()).output().expect("pinfold starts");
    assert!(output.status.success(), "{output:?}");
    assert!(traces.iter().all(|(_, path)| !path.exists()));
}

#[test]
fn a_program_in_front_on_the_callers_path_is_not_taken() {
    let Some(env) = Env::new() else { return };
    env.file("a.txt", "a");
    let fake = env.path("bin2/ls");
    fs::create_dir(env.path("bin2")).expect("a folder");
    fs::write(&fake, format!("#!/bin/sh\ntouch {}\n", env.path("fired").display()))
        .expect("a file");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = format!("{}:/usr/bin:/bin", env.path("bin2").display());
    let control = Command::new("sh").args(["-c", "ls"]).env("PATH", &path).status();
    assert!(control.expect("a shell").success() && env.path("fired").exists(), "the control");
    fs::remove_file(env.path("fired")).expect("fired by the control");
    let output = env.command(&["run", "--", "ls"]).env("PATH", &path).output().expect("it starts");
    assert_eq!(text(&output.stdout), "a.txt\n", "{output:?}");
    assert!(!env.path("fired").exists());
}

/// Calls of every verdict.
const CALLS: [&[&str]; 14] = [
    &["pwd"],
    &["ls"],
    &["cat", "a.txt"],
    &["probe", "build", "ids"],
    &["git", "push"],
    &["git", "status"],
    &["python3", "-c", "1"],
    &["pip", "install", "six"],
    &["make", "SHELL=x"],
    &["frobnicate"],
    &["curl", "x"],
    &["ls", ".."],
    &["./evil"],
    &["evil"],
];

/// What `policy explain` says of each call, asked from within the workspace: with the operator's
/// configuration, or with whatever is found where none is named.
fn told(env: &Env, is_configured: bool, variables: &[(&str, &str)]) -> Vec<Value> {
    let explain = |call: &&[&str]| {
        let words = [&["policy", "explain", "--json", "--"], *call].concat();
        let mut command = env.command(&words);
        if !is_configured {
            command = Command::new(binary("pinfold"));
            command.env_clear().env("HOME", env.path("home"));
            command.env("PINFOLD_HOME", env.path("state")).args(&words);
            command.current_dir(env.workspace());
        }
        let output = command.envs(variables.to_vec()).output().expect("pinfold starts");
        let told = serde_json::from_slice(&output.stdout);
        told.unwrap_or_else(|_| panic!("{call:?}: {output:?}"))
    };
    CALLS.iter().map(explain).collect()
}

/// The verdicts from the laxest on.
fn strictness(told: &Value) -> Option<usize> {
    ["auto", "ask", "refuse"].iter().position(|verdict| told["verdict"] == *verdict)
}

/// A host with a project, and with a configuration below `loose` that lets more pass.
fn loosened() -> Option<Env> {
    let env = Env::new()?;
    env.file("a.txt", "a");
    stand_in(&env, &["python3", "evil"]);
    let catalog = fs::read_to_string(env.path("config/catalog.toml")).expect("the catalog");
    let loose = catalog.replace("subs = [\"push\"]", "subs = [\"p\"]") + PUSH;
    fs::create_dir(env.path("loose")).expect("a folder");
    fs::write(env.path("loose/catalog.toml"), loose).expect("a catalog");
    let config = "schema = 1\ncatalog = \"catalog.toml\"\nprofiles = \"../config/profiles\"\n";
    fs::write(env.path("loose/pinfold.toml"), config).expect("a configuration");
    let mut control = Command::new(binary("pinfold"));
    control.env_clear().env("HOME", env.path("home")).env("PINFOLD_HOME", env.path("state"));
    control.arg("--config").arg(env.path("loose/pinfold.toml")).current_dir(env.workspace());
    let control = control.args(["policy", "explain", "--json", "--", "git", "push"]).output();
    let control = control.expect("pinfold starts");
    let told: Value = serde_json::from_slice(&control.stdout).expect("JSON");
    assert_eq!(told["verdict"], "auto", "the control: {control:?}");
    Some(env)
}

/// Puts everything into the workspace that could be taken for configuration.
fn plant(env: &Env) {
    let read = |name: &str| fs::read_to_string(env.path(name)).expect("a file");
    let catalog = read("loose/catalog.toml");
    let config = read("loose/pinfold.toml").replace("../config/profiles", "profiles");
    let look = include_str!("../../sandbox-profiles/build.toml").replace("\"build\"", "\"look\"");
    let tighten = "schema = 1\n[[tool]]\nid = \"python\"\ndecision = \"auto\"\n";
    for folder in [
        "",
        ".pinfold/",
        ".config/",
        ".config/pinfold/",
        "pinfold/",
        "etc/pinfold/",
        "config/",
        "sandbox-profiles/",
        "var/lib/pinfold/",
        ".local/state/pinfold/",
    ] {
        for name in ["catalog.toml", "policy.toml", "sandbox.toml"] {
            env.file(&format!("{folder}{name}"), &catalog);
        }
        for name in ["pinfold.toml", ".pinfold.toml", "config.toml", ".pinfoldrc"] {
            env.file(&format!("{folder}{name}"), &config);
        }
        for name in ["tighten.toml", "overlay.toml"] {
            env.file(&format!("{folder}{name}"), tighten);
        }
        for name in ["look.toml", "profiles/look.toml"] {
            env.file(&format!("{folder}{name}"), &look);
        }
        for name in ["profiles/read.toml", "profiles/none.toml"] {
            env.file(&format!("{folder}{name}"), &read(&format!("config/{name}")));
        }
    }
    let variables = "PINFOLD_HOME=/nonexistent\nPINFOLD_CONFIG=pinfold.toml\n\
        PINFOLD_CATALOG=catalog.toml\nPINFOLD_AUTO_APPROVE=1\nPATH=/nonexistent\n";
    for name in [".env", ".envrc", ".pinfold/env", ".profile"] {
        env.file(name, variables);
    }
}

#[test]
fn f18_nothing_in_the_workspace_changes_a_decision() {
    let Some(env) = loosened() else { return };
    let before = [true, false].map(|is_configured| told(&env, is_configured, &[]));
    for verdict in ["auto", "ask", "refuse"] {
        assert!(before[0].iter().any(|told| told["verdict"] == verdict), "{verdict}");
    }
    plant(&env);
    assert_eq!([true, false].map(|is_configured| told(&env, is_configured, &[])), before);
    argvs(&env, &[("git push", "listed-refusal"), ("evil", "unknown-program"), ("pwd", "auto")]);
    // Nor does a file of it count where it is named: the workspace must not hold any.
    let config = env.workspace().join("pinfold.toml");
    let overlay = env.workspace().join("tighten.toml");
    fs::write(&overlay, "schema = 1\n[[tool]]\nid = \"ls\"\ndecision = \"ask\"\n").expect("a file");
    for (option, path) in [("--config", config), ("--tighten", overlay)] {
        let path = path.to_str().expect("UTF-8");
        for call in [&["git", "push"][..], &["pwd"]] {
            let words = [&["run", "--json", option, path, "--"], call].concat();
            let mut command = Command::new(binary("pinfold"));
            command
                .env_clear()
                .env("HOME", env.path("home"))
                .env("PINFOLD_HOME", env.path("state"));
            let output = command.args(&words).current_dir(env.workspace()).output();
            let reply: Value =
                serde_json::from_slice(&output.expect("pinfold starts").stdout).expect("a reply");
            // Without a configuration `git push` is refused for what it is.
            let is_listed = option == "--tighten" && call[0] == "git";
            let code = if is_listed { "listed-refusal" } else { "workspace" };
            assert_eq!(reply["decision"]["code"], code, "{option} {call:?}: {reply}");
        }
    }
}

#[test]
fn f18_no_variable_loosens_a_decision() {
    let Some(env) = loosened() else { return };
    plant(&env);
    let (config, catalog) = (env.path("loose/pinfold.toml"), env.path("loose/catalog.toml"));
    let config = config.to_str().expect("UTF-8");
    let catalog = catalog.to_str().expect("UTF-8");
    let variables = [
        ("PINFOLD_CONFIG", config),
        ("PINFOLD_CATALOG", catalog),
        ("PINFOLD_POLICY", catalog),
        ("PINFOLD_TIGHTEN", catalog),
        ("PINFOLD_PROFILES", "profiles"),
        ("PINFOLD_PROFILE", "build"),
        ("PINFOLD_FORCE", "1"),
        ("PINFOLD_YES", "1"),
        ("PINFOLD_APPROVE", "1"),
        ("PINFOLD_APPROVED", "true"),
        ("PINFOLD_ALLOW", "1"),
        ("PINFOLD_UNSAFE", "1"),
        ("PINFOLD_SHELL_MODE", "compound"),
        ("PINFOLD_UNMATCHED", "auto"),
        ("FORCE", "1"),
        ("CI", "1"),
        ("YES", "1"),
        ("PWD", "/"),
        ("XDG_DATA_HOME", "/nonexistent"),
    ];
    let before = [true, false].map(|is_configured| told(&env, is_configured, &[]));
    assert_eq!([true, false].map(|is_configured| told(&env, is_configured, &variables)), before);
    // What says where the operator's files are may make a call fail, and lets none pass.
    let workspace = env.workspace();
    let folder = workspace.join(".config");
    let (workspace, folder) = (workspace.to_str().expect("UTF-8"), folder.to_str().expect("UTF-8"));
    for variable in [("HOME", workspace), ("XDG_CONFIG_HOME", folder), ("HOME", "."), ("HOME", "")]
    {
        let after = told(&env, false, &[variable]);
        for (before, after) in before[1].iter().zip(&after) {
            assert!(strictness(after) >= strictness(before), "{variable:?}: {before} {after}");
        }
    }
}

#[test]
fn pinfold_auto_approve_makes_every_call_ask_and_takes_no_other_value() {
    let Some(env) = loosened() else { return };
    let before = told(&env, true, &[]);
    let after = told(&env, true, &[("PINFOLD_AUTO_APPROVE", "0")]);
    for (before, after) in before.iter().zip(&after) {
        let wanted = if before["verdict"] == "auto" { &"ask".into() } else { &before["verdict"] };
        assert_eq!(&after["verdict"], wanted, "{before}");
        assert_eq!(after["template"], before["template"]);
    }
    for value in ["1", "", "00", " 0", "true", "false", "no", "off", "-1", "0\n"] {
        let mut command = env.command(&["policy", "explain", "--json", "--", "pwd"]);
        let output = command.env("PINFOLD_AUTO_APPROVE", value).output();
        let told: Value =
            serde_json::from_slice(&output.expect("pinfold starts").stdout).expect("JSON");
        assert_eq!((&told["verdict"], &told["code"]), (&"refuse".into(), &"config".into()));
    }
    let run = |value: &str| {
        let words = ["run", "--json", "--", "probe", "build", "create", "made"];
        let output = env.command(&words).env("PINFOLD_AUTO_APPROVE", value).output();
        let output = output.expect("pinfold starts");
        let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
        (output.status.code(), reply["decision"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(run("0"), (Some(126), "nobody-to-ask".to_owned()));
    assert_eq!(run("1"), (Some(125), "config".to_owned()));
    assert!(!env.workspace().join("made").exists());
    assert_eq!(env.inside("build", &["create", "made"]), "ok", "the control");
}

#[test]
fn no_argument_approves_or_forces_a_call() {
    let Some(env) = Env::new() else { return };
    stand_in(&env, &["python3"]);
    let words = [
        "--force",
        "--yes",
        "-y",
        "-f",
        "approved",
        "confirmed=true",
        "approved=true",
        "--approved",
        "--confirm",
        "--no-confirm",
        "--user-approved=true",
        "sandbox=off",
        "--config=loose.toml",
        "PINFOLD_FORCE=1",
        "{\"approved\":true}",
    ];
    for call in ["git push", "rm -rf", "frobnicate", "cat /etc/passwd", "ls .."] {
        let (argv, code) = (call.split(' ').collect::<Vec<_>>(), "refuse");
        let verdict = |argv: &[&str]| {
            let output = env.pinfold(&[&["policy", "explain", "--json", "--"], argv].concat());
            serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["verdict"].clone()
        };
        assert_eq!(verdict(&argv), code, "{call}");
        for word in words {
            for at in 1..=argv.len() {
                let mut longer = argv.clone();
                longer.insert(at, word);
                assert_eq!(verdict(&longer), code, "{longer:?}");
            }
        }
    }
    // Where any argument fits, it is an argument; a person would have to be asked all the same.
    let asks: Vec<String> = words.iter().map(|word| format!("python3 x.py {word}")).collect();
    let rows: Vec<_> = asks.iter().map(|text| (text.as_str(), "ask")).collect();
    argvs(&env, &rows);
    lines(&env, &[("python3 x.py --yes", "ask"), ("git push --yes", "listed-refusal")]);
    argvs(&env, &[("echo approved confirmed=true", "auto"), ("pwd", "auto")]);
}

#[test]
fn wrong_usage_is_exit_code_125_and_runs_nothing() {
    let Some(env) = Env::new() else { return };
    let act = ["--", "probe", "build", "create", "made"];
    for words in [
        &[][..],
        &["walk"],
        &["run", "probe", "build", "create", "made"],
        &["run", "--timeout"],
        &["run", "--nope", act[0], act[1], act[2], act[3], act[4]],
        &["run", "--json=yes", act[0], act[1], act[2], act[3], act[4]],
        &["run", "--log-format", "xml", act[0], act[1], act[2], act[3], act[4]],
        &["profile"],
        &["profile", "show"],
        &["profile", "show", "nope"],
        &["trail", "burn"],
    ] {
        let output = env.pinfold(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(output.stdout.is_empty() && !said.is_empty(), "{words:?}: {output:?}");
        assert!(said.lines().all(|line| line.starts_with("pinfold: ")), "{words:?}: {said}");
    }
    assert!(!env.workspace().join("made").exists());
    assert!(env.records().is_empty());
    let answer = env.run(&[&["--json"], &act[..]].concat());
    assert_eq!(answer.stdout(), "ok\n", "the twin: {answer:?}");
}

/// Collects the help of a verb and of every verb below it.
fn helps(env: &Env, verb: &[&str], found: &mut Vec<(String, String)>) {
    let output = env.pinfold(&[verb, &["--help"]].concat());
    assert_eq!(output.status.code(), Some(0), "{verb:?}: {output:?}");
    let help = text(&output.stdout);
    let below = help.split("Commands:\n").nth(1).unwrap_or_default();
    let below = below.split("\n\n").next().unwrap_or_default().to_owned();
    found.push((verb.join(" "), help));
    for line in below.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        if name != "help" {
            helps(env, &[verb, &[name]].concat(), found);
        }
    }
}

#[test]
fn f19_no_help_offers_a_way_around_confinement() {
    let Some(env) = Env::new() else { return };
    let mut found = Vec::new();
    helps(&env, &[], &mut found);
    let verbs: Vec<&str> = found.iter().map(|(verb, _)| verb.as_str()).collect();
    for verb in ["run", "profile check", "trail verify"] {
        assert!(verbs.contains(&verb), "{verbs:?}");
    }
    for (verb, help) in &found {
        let words = help.split(|ch: char| !ch.is_ascii_alphanumeric() && ch != '-');
        for word in words.map(|word| word.trim_matches('-').to_lowercase()) {
            let banned = ["force", "yes", "unsafe", "no-sandbox", "unsandboxed", "dangerously"];
            assert!(!banned.contains(&word.as_str()), "{verb}: {help}");
        }
    }
    let version = env.pinfold(&["--version"]);
    assert_eq!((version.status.code(), version.stderr.len()), (Some(0), 0), "an answer");
    for option in ["--force", "--yes", "--unsafe", "--no-sandbox", "-y", "-f"] {
        let output = env.pinfold(&["run", option, "--", "pwd"]);
        assert_eq!(output.status.code(), Some(125), "{option}");
    }
}

#[test]
fn diagnostics_are_silent_by_default_and_only_on_standard_error() {
    let Some(env) = Env::new() else { return };
    let run = ["run", "--", "echo", "hello"];
    for quiet in [&[][..], &["--log-format", "json"], &["--log-format", "text"]] {
        let output = env.pinfold(&[quiet, &run].concat());
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("hello\n".into(), String::new()));
    }
    for loud in ["-v", "-vv", "-vvv", "--verbose"] {
        for format in ["text", "json"] {
            let words = [&[loud, "--log-format", format], &run[..]].concat();
            let output = env.pinfold(&words);
            let said = text(&output.stderr);
            assert_eq!(text(&output.stdout), "hello\n", "{words:?}");
            assert!(said.contains("started"), "{words:?}: {said}");
            let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
            assert_eq!(said.lines().all(is_json), format == "json", "{words:?}: {said}");
            assert!(!said.contains('\u{1b}'), "{said:?}");
        }
    }
    let answer = env.run(&["-vv", "--json", "--", "echo", "hello"]);
    assert_eq!(answer.stdout(), "hello\n", "the reply is whole: {answer:?}");
}

#[test]
fn common_options_stand_before_or_after_the_verb() {
    let Some(env) = Env::new() else { return };
    let config = env.path("config/pinfold.toml");
    let config = config.to_str().expect("UTF-8");
    let call = ["--", "probe", "none", "sleep", "0"];
    for words in [
        [&["--config", config, "-v", "--log-format", "json", "run"], &call[..]].concat(),
        [&["run", "--config", config, "-v", "--log-format", "json"], &call[..]].concat(),
        [&["-v", "run", "--log-format", "json", "--config", config], &call[..]].concat(),
    ] {
        let mut command = Command::new(binary("pinfold"));
        command.env_clear().env("HOME", env.path("home")).env("PINFOLD_HOME", env.path("state"));
        let output = command.args(&words).current_dir(env.workspace()).output().expect("it starts");
        assert_eq!(text(&output.stdout), "ok\n", "{words:?}: {output:?}");
        assert!(text(&output.stderr).contains("\"INFO\""), "{words:?}: {output:?}");
    }
    for words in [
        &["--config", config, "profile", "list"],
        &["profile", "--config", config, "list"],
        &["profile", "list", "--config", config],
    ] {
        let mut command = Command::new(binary("pinfold"));
        let output = command.env_clear().args(words).output().expect("it starts");
        assert!(text(&output.stdout).contains("profiles/read.toml"), "{words:?}: {output:?}");
    }
}

#[test]
fn without_a_state_folder_nothing_runs() {
    let Some(env) = Env::new() else { return };
    let mut command = env.command(&["run", "--", "probe", "build", "create", "made"]);
    command.env_remove("HOME").env_remove("PINFOLD_HOME");
    if crate::support::is_root() {
        return skip("root has a state folder without any variable");
    }
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("no state folder"), "{output:?}");
    assert!(!env.workspace().join("made").exists());
}
