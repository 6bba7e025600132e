//! Broken configuration: every fault at once, at its place; nothing runs, and nothing else steps
//! in for it. Programs that cannot be trusted or found.

use crate::input::refused;
use crate::support::{Env, is_root, skip};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ACT: [&str; 6] = ["--json", "--", "probe", "build", "create", "made"];
/// What the compiled-in catalog would run.
const SHIPPED: [&str; 3] = ["--json", "--", "pwd"];

pub(crate) fn edit(env: &Env, file: &str, edit: impl Fn(&str) -> String) {
    let path = env.path(&format!("config/{file}"));
    let before = fs::read_to_string(&path).expect("a configuration file");
    let after = edit(&before);
    assert_ne!(before, after, "the edit changes nothing");
    fs::write(&path, after).expect("a configuration file");
}

/// Checks that nothing runs, also not what the compiled-in catalog allows, and that the message
/// shows every one of these texts.
fn broken(env: &Env, shown: &[&str]) {
    for words in [&ACT[..], &SHIPPED] {
        refused(env, words, "config", "the configuration");
        let message = env.run(words).reply["message"].clone();
        let message = message.as_str().expect("a message");
        for text in shown {
            assert!(message.contains(text), "{text} is not shown:\n{message}");
        }
        assert!(message.contains("compiled-in rules do not step in"), "{message}");
    }
    // People see the same, each line with Pinfold's name in front.
    let output = env.pinfold(&["run", "--", "pwd"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{said}");
    assert!(said.lines().all(|line| line.starts_with("pinfold:")), "{said}");
    assert!(shown.iter().all(|text| said.contains(text)), "{said}");
}

fn sound_host() -> Option<Env> {
    let env = Env::new()?;
    let answer = env.run(&ACT);
    assert_eq!(answer.stdout(), "ok\n", "the control: {answer:?}");
    fs::remove_file(env.workspace().join("made")).expect("made by the control");
    Some(env)
}

#[test]
fn every_fault_of_a_configuration_is_shown_at_its_place() {
    let Some(env) = sound_host() else { return };
    let path = env.path("config/pinfold.toml");
    let text = "schema = 1\ncatalog = 7\nprofiels = \"profiles\"\ngit_identity = \"nobody\"\n";
    fs::write(&path, text).expect("a file");
    let at = |place: &str| format!("{}:{place}", path.display());
    let shown = [&at("2:11"), "catalog = 7", "^", &at("3:1"), "profiels", &at("4:16"), "NAME"];
    broken(&env, &shown);
}

#[test]
fn every_fault_of_tools_and_rungs_is_shown_at_its_place_with_those_of_other_files() {
    let Some(env) = sound_host() else { return };
    fs::create_dir_all(env.path("home/kit/bin")).expect("folders");
    fs::create_dir_all(env.path("home/open/bin")).expect("folders");
    fs::set_permissions(env.path("home/open"), fs::Permissions::from_mode(0o777)).expect("a mode");
    fs::write(env.path("home/kit/file"), "").expect("a file");
    edit(&env, "catalog.toml", |text| text.replacen("cluster = true", "clutser = true", 1));
    let text = [
        "schema = 1",
        "catalog = \"catalog.toml\"",
        "profiles = \"profiles\"",
        "projects = [\"/srv\"]",
        "[[tools]]",
        "root = [\"~/none\", \"/\", \"~/open\"]",
        "bin = \"~/none/bin\"",
        "profiles = [\"build\", \"biuld\"]",
        "[[tools]]",
        "root = \"~/kit\"",
        "bin = \"~/open/bin\"",
        "env = { LD_LIBRARY_PATH = \"x\", \"a b\" = \"x\", PATH = \"x\", A = \"\\u202e\" }",
        "[[tools]]",
        "root = \"~/kit\"",
        "bin = \"~/kit/file\"",
        "[[tools]]",
        "bin = \"/usr/bin\"",
        "[rungs]",
        "build = \"D\"",
        "buidl = \"C\"",
        "look = \"A\"",
        "[index]",
        "pip = \"https://me:secret@index.invalid/simple\"",
        "[audit]",
    ];
    fs::write(env.path("config/pinfold.toml"), text.join("\n") + "\n").expect("a file");
    let path = env.path("config/pinfold.toml");
    let at = |place: &str| format!("--> {}:{place}", path.display());
    let places = [
        "4:1", "6:9", "6:19", "6:24", "7:7", "8:22", "11:7", "12:9", "12:32", "12:45", "12:61",
        "15:7", "16:1", "19:9", "20:1", "21:8", "23:7", "24:2",
    ];
    let places: Vec<String> = places.iter().map(|place| at(place)).collect();
    let mut shown: Vec<&str> = places.iter().map(String::as_str).collect();
    let open = format!("{} can be changed by others", env.path("home/open").display());
    shown.extend([
        "this version has no doors for agents",
        "`pip` is not the address of an index",
        "this version has no use for the host's audit",
        "a tool root cannot be `/`",
        &open,
        "there is no profile `biuld`",
        "in none of the roots",
        "this variable changes how every program is loaded",
        "`bin` puts a folder first on PATH",
        "`bin` is not a folder",
        "`root` is missing",
        "`D` is not a rung",
        "there is no profile `buidl`",
        "profile `look` asks for rung B already",
        "unknown key `clutser`",
    ]);
    broken(&env, &shown);
    let message = env.run(&SHIPPED).reply["message"].clone();
    let message = message.as_str().expect("a message");
    assert_eq!(message.matches("error: ").count(), places.len() + 1, "no fault twice: {message}");
}

#[test]
fn a_sound_configuration_with_rungs_and_tools_is_in_force_with_its_origins() {
    let Some(env) = sound_host() else { return };
    fs::create_dir_all(env.path("home/kit/bin")).expect("folders");
    let lines = "git_identity = \"A <a@b.invalid>\"\n[[tools]]\nroot = \"~/kit\"\n\
        bin = \"~/kit/bin\"\nprofiles = [\"build\"]\n\
        env = { KIT = \"~/kit\", N = \"1\" }\n[rungs]\nbuild = \"C\"\nlook = \"B\"\n";
    edit(&env, "pinfold.toml", |text| format!("{text}{lines}"));
    assert_eq!(env.pinfold(&["config", "check"]).status.code(), Some(0));
    let show = env.pinfold(&["config", "show", "--json"]);
    let show: serde_json::Value = serde_json::from_slice(&show.stdout).expect("JSON");
    let path = env.path("config/pinfold.toml").display().to_string();
    assert_eq!(show["configuration"]["path"], path);
    assert_eq!(show["configuration"]["from"], "--config");
    assert_eq!(show["state"]["path"], env.path("state").to_str().expect("UTF-8"));
    assert_eq!(show["state"]["from"], "PINFOLD_HOME");
    let value = |key: &str| {
        let values = show["values"].as_array().expect("values");
        let found = values.iter().find(|value| value["key"] == key).expect(key);
        let origin = found["origin"].as_str().expect("an origin").replace(&path, "pinfold.toml");
        (found["value"].clone(), origin)
    };
    let kit = env.path("home/kit").display().to_string();
    let at = |line: usize| format!("pinfold.toml:{line}:1");
    assert_eq!(value("schema"), (1.into(), at(1)));
    assert_eq!(value("git_identity"), ("A <a@b.invalid>".into(), at(4)));
    assert_eq!(value("tools[0].root"), (serde_json::json!([kit]), at(6)));
    assert_eq!(value("tools[0].env"), (serde_json::json!({"KIT": kit, "N": "1"}), at(9)));
    assert_eq!(value("rungs.build"), ("C".into(), at(11)));
    assert_eq!(value("path").1, env.path("config/catalog.toml").to_str().expect("UTF-8"));
    // For people the same, a line each.
    let shown = env.pinfold(&["config", "show"]).stdout;
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert!(shown.contains(&format!("\nrungs.build = \"C\"  # {path}:11:1\n")), "{shown}");
    // Another file can be checked, and one with faults is shown with all of them.
    fs::write(env.path("other.toml"), "schema = 2\nx = 1\n").expect("a file");
    let other = env.path("other.toml");
    let check = env.pinfold(&["config", "check", other.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains("other.toml:1:10") && said.contains("other.toml:2:1"), "{said}");
    assert!(said.ends_with("pinfold: 2 faults\n"), "{said}");
}

#[test]
fn without_a_configuration_everything_is_compiled_in_or_default() {
    let Some(env) = Env::new() else { return };
    if is_root() && Path::new("/etc/pinfold/pinfold.toml").exists() {
        return skip("this host has a configuration of its own");
    }
    let mut show = std::process::Command::new(crate::support::binary("pinfold"));
    show.args(["config", "show", "--json"]).env_clear().env("HOME", env.path("home"));
    let show = show.output().expect("pinfold starts");
    let show: serde_json::Value = serde_json::from_slice(&show.stdout).expect("JSON");
    assert_eq!(show["configuration"]["exists"], false);
    let from = if is_root() { "default of root" } else { "HOME" };
    assert_eq!(
        (&show["configuration"]["from"], &show["state"]["from"]),
        (&from.into(), &from.into())
    );
    for value in show["values"].as_array().expect("values") {
        assert!(value["origin"] == "default" || value["origin"] == "compiled in", "{value}");
    }
}

#[test]
fn a_syntax_fault_of_each_file_is_shown_with_its_line_and_a_caret() {
    for file in ["pinfold.toml", "catalog.toml", "profiles/read.toml"] {
        let Some(env) = sound_host() else { return };
        edit(&env, file, |text| format!("{text}\nbroken = = 1\n"));
        let path = env.path(&format!("config/{file}"));
        let lines = fs::read_to_string(&path).expect("a file").lines().count();
        let place = format!("{}:{lines}:10", path.display());
        broken(&env, &[&place, "broken = = 1", "         ^"]);
    }
}

#[test]
fn faults_of_the_catalog_and_of_profiles_are_shown_together() {
    let Some(env) = sound_host() else { return };
    edit(&env, "catalog.toml", |text| {
        let text = text.replacen("cluster = true", "clutser = true", 1);
        text.replacen("timeout_s = 10\n", "timeout_s = \"10\"\n", 1)
    });
    edit(&env, "profiles/none.toml", |text| text.replacen("why = \"For tests.\"", "", 1));
    edit(&env, "profiles/read.toml", |text| text.replacen("{workspace}", "{workspce}", 1));
    let line = |file: &str, needle: &str| {
        let path = env.path(&format!("config/{file}"));
        let text = fs::read_to_string(&path).expect("a file");
        let line = text.lines().position(|line| line.contains(needle)).expect("the line") + 1;
        format!("{}:{line}:", path.display())
    };
    let shown = [
        &line("catalog.toml", "clutser"),
        "`clutser`",
        &line("catalog.toml", "timeout_s = \"10\""),
        "must be a whole number, found string",
        "none.toml:1:1",
        "`why` is missing",
        &line("profiles/read.toml", "workspce"),
        "{workspce}",
        "^",
    ];
    broken(&env, &shown);
}

#[test]
fn a_missing_file_and_a_profile_that_no_file_defines_are_faults() {
    let Some(env) = sound_host() else { return };
    edit(&env, "pinfold.toml", |text| text.replacen("catalog.toml", "no-catalog.toml", 1));
    broken(&env, &["config/no-catalog.toml", "it cannot be read"]);
    let Some(env) = sound_host() else { return };
    edit(&env, "catalog.toml", |text| {
        text.replacen("\"read\", \"none\"]", "\"read\", \"none\", \"nope\"]", 1).replacen(
            "profile = \"none\"",
            "profile = \"nope\"",
            1,
        )
    });
    broken(&env, &["`probe-none` names profile `nope`, which does not exist"]);
    let Some(env) = sound_host() else { return };
    fs::remove_file(env.path("config/pinfold.toml")).expect("the file");
    broken(&env, &["config/pinfold.toml", "it cannot be read"]);
}

#[test]
fn a_configuration_that_others_can_change_is_refused() {
    for (place, mode) in [
        ("config/pinfold.toml", 0o666),
        ("config/catalog.toml", 0o646),
        ("config/profiles/read.toml", 0o646),
        ("config/profiles", 0o777),
        ("config", 0o757),
        ("", 0o777),
    ] {
        let Some(env) = sound_host() else { return };
        fs::set_permissions(env.path(place), fs::Permissions::from_mode(mode)).expect("a mode");
        let path = env.path(place);
        let path = path.to_str().expect("UTF-8").trim_end_matches('/');
        broken(&env, &[&format!("{path} can be changed by others than root and this user")]);
    }
}

#[test]
fn a_configuration_of_another_user_is_refused() {
    if !is_root() {
        return skip("only root can give files away");
    }
    for place in ["config/pinfold.toml", "config/catalog.toml", "config"] {
        let Some(env) = sound_host() else { return };
        std::os::unix::fs::chown(env.path(place), Some(12_345), None).expect("given away");
        broken(&env, &["can be changed by others than root and this user", place]);
    }
}

pub(crate) const TOOL: &str = "\n[[tool]]\nid = \"made-up\"\nprogram = \"made-up\"\n\
    describe = \"Test.\"\naccess = \"none\"\ndecision = \"auto\"\nprofile = \"none\"\n\
    operands = { kind = \"none\" }\nmatch = [\"made-up\"]\nno_match = [\"made-up x\"]\n";

#[test]
fn a_listed_program_that_is_not_installed_is_unavailable() {
    let Some(env) = sound_host() else { return };
    edit(&env, "catalog.toml", |text| format!("{text}{TOOL}"));
    let call = ["--json", "--", "made-up"];
    let record = refused(&env, &call, "program-unavailable", "made-up is not installed in");
    assert_eq!((&record["template"], &record["counted"]), (&"made-up".into(), &false.into()));
    fs::copy("/bin/true", env.path("bin/made-up")).expect("a program");
    assert_eq!(env.run(&call).code, 0, "the twin: installed, it runs");
}

#[test]
fn a_program_that_others_can_change_is_unavailable() {
    let Some(env) = sound_host() else { return };
    for (place, good, bad) in [("bin", 0o755, 0o777), ("bin/probe", 0o755, 0o757)] {
        fs::set_permissions(env.path(place), fs::Permissions::from_mode(bad)).expect("a mode");
        refused(&env, &ACT, "program-unavailable", "can be written by others");
        fs::set_permissions(env.path(place), fs::Permissions::from_mode(good)).expect("a mode");
    }
    assert_eq!(env.run(&ACT).stdout(), "ok\n", "the twin");
}

#[test]
fn a_program_in_the_workspace_or_of_another_user_is_unavailable() {
    let Some(env) = sound_host() else { return };
    let probe = env.path("bin/probe");
    fs::rename(&probe, env.workspace().join("probe")).expect("moved");
    std::os::unix::fs::symlink(env.workspace().join("probe"), &probe).expect("a link");
    refused(&env, &ACT, "program-unavailable", "is inside the workspace");
    if !is_root() {
        return skip("only root can give files away");
    }
    fs::remove_file(&probe).expect("the link");
    fs::copy(env.workspace().join("probe"), &probe).expect("the probe");
    std::os::unix::fs::chown(&probe, Some(12_345), None).expect("given away");
    refused(&env, &ACT, "program-unavailable", "belongs to another user");
}

#[test]
fn a_program_with_another_digest_than_the_catalog_pins_is_unavailable() {
    let Some(env) = sound_host() else { return };
    fs::copy("/bin/true", env.path("bin/made-up")).expect("a program");
    let good = crate::input::hex(&Sha256::digest(fs::read("/bin/true").expect("a program")));
    let pin = |digest: &str| format!("{TOOL}sha256 = \"{digest}\"\n");
    let call = ["--json", "--", "made-up"];
    edit(&env, "catalog.toml", |text| text.to_owned() + &pin(&good));
    assert_eq!(env.run(&call).code, 0, "the control");
    edit(&env, "catalog.toml", |text| text.replace(&good, &"0".repeat(64)));
    refused(&env, &call, "program-unavailable", &good);
}

#[test]
fn a_host_that_enforces_less_than_the_profile_asks_is_refused() {
    let Some(env) = sound_host() else { return };
    edit(&env, "profiles/read.toml", |text| text.replacen("rung = \"B\"", "rung = \"A\"", 1));
    let call = ["--json", "--", "probe", "read", "ids"];
    let rung = env.run(&ACT).reply["rung"].clone();
    fs::remove_file(env.workspace().join("made")).expect("made");
    if rung == "B" {
        refused(&env, &call, "rung", "asks for rung A");
        return;
    }
    assert_eq!(env.run(&call).code, 0, "the control: this host gives rung A");
    if !is_root() || !Path::new("/usr/bin/unshare").exists() {
        return skip("only root can take the cgroup away from a run");
    }
    let hide = "mount -t tmpfs -o ro none /sys/fs/cgroup && exec \"$@\"";
    let run = env.command(&[&["run"], &call[..]].concat());
    let mut outer = std::process::Command::new("unshare");
    outer.args(["-m", "sh", "-c", hide, "sh"]).arg(run.get_program()).args(run.get_args());
    outer.env("PINFOLD_HOME", env.path("state")).current_dir(env.workspace());
    let output = outer.output().expect("unshare starts");
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a reply");
    assert_eq!(output.status.code(), Some(126), "{reply}");
    assert_eq!(reply["decision"]["code"], "rung", "{reply}");
    let record = env.records_of("refusal").pop().expect("it is recorded");
    assert_eq!(record["code"], "rung");
}
