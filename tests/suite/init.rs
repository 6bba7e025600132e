//! The first five minutes: `pinfold init` in a made-up home, against the README's own words, and
//! what it leaves.

use crate::support::{Env, binary, copy_program, is_root, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The configuration of a made-up home.
fn config(env: &Env) -> PathBuf {
    env.path("home/.config/pinfold/pinfold.toml")
}

/// A command line in the made-up home, with the configuration that init writes.
pub(crate) fn command(env: &Env, words: &[&str]) -> Command {
    let mut command = Command::new(binary("pinfold"));
    command.env_clear().env("HOME", env.path("home")).env("PINFOLD_HOME", env.path("state"));
    command.arg("--config").arg(config(env)).args(words);
    command.current_dir(env.workspace()).stdin(Stdio::null());
    command
}

pub(crate) fn pinfold(env: &Env, words: &[&str]) -> Output {
    command(env, words).output().expect("pinfold starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Puts a script of the home in place.
pub(crate) fn script(env: &Env, name: &str, content: &str) -> PathBuf {
    let path = env.path("home").join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(&path, content).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

/// Puts a copy of a shell in place: a real program that runs what it is given.
pub(crate) fn shell(env: &Env, name: &str) -> PathBuf {
    let path = env.path("home").join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    copy_program(Path::new("/bin/sh"), &path);
    path
}

/// A home with rustup, pyenv and nvm.
fn home(env: &Env) {
    shell(env, ".rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin/cargo");
    shell(env, ".cargo/bin/cargo");
    fs::create_dir_all(env.path("home/.cargo/registry")).expect("a folder");
    shell(env, ".pyenv/versions/3.12.1/bin/python3");
    shell(env, ".nvm/versions/node/v22.11.0/bin/node");
}

/// Takes the part that says what the host gives out of a transcript.
fn without_host(text: &str) -> (String, String) {
    let (before, rest) = text.split_once("can enforce\n").expect("the host is examined");
    let (host, after) = rest.split_once("pinfold: trying").expect("commands are tried");
    (format!("{before}can enforce\npinfold: trying{after}"), host.to_owned())
}

/// Puts what differs from run to run into one form.
fn normal(text: &str, env: &Env) -> String {
    let state = env.path("state").display().to_string();
    let text = text.replace(&state, "/home/me/.local/state/pinfold");
    let text = text.replace(&env.path("home").display().to_string(), "/home/me");
    let word = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_time = word.ends_with('Z') && digits == 20;
        let upper = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        match word.split_once('=') {
            _ if is_time => "TIME".to_owned(),
            _ if word.len() == 26 && word.bytes().all(upper) => "CALL".to_owned(),
            Some((name @ ("pid" | "duration_ms" | "rung" | "origin"), _)) => format!("{name}=…"),
            _ => match word.split_once("pinfold-init-") {
                Some((before, rest)) => {
                    let rest = rest.trim_start_matches(|ch: char| ch.is_ascii_digit());
                    format!("{before}pinfold-init-1{rest}")
                }
                None => word.to_owned(),
            },
        }
    };
    let line = |line: &str| {
        let line = match line.split_once("layers=[") {
            Some((before, _)) => format!("{before}layers=…"),
            None => line.to_owned(),
        };
        let line = match ["landlock ", "folder ", "examined in "].iter().find(|n| line.contains(*n))
        {
            Some(name) => format!("{name}…"),
            None => line,
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_readme_shows_what_init_prints() {
    let Some(env) = Env::new() else { return };
    home(&env);
    // One file for both streams keeps the order in which a terminal shows them.
    let both = fs::File::options().create_new(true).append(true).open(env.path("both"));
    let both = both.expect("a file");
    let mut init = command(&env, &["init"]);
    init.env("TMPDIR", "/tmp").stdout(both.try_clone().expect("a copy")).stderr(both);
    assert!(init.status().expect("pinfold starts").success(), "init succeeds");
    let shown = fs::read_to_string(env.path("both")).expect("what it printed");
    let readme = include_str!("../../README.md");
    let block = readme.split("$ pinfold init\n").nth(1).expect("the transcript");
    let block = block.split("```").next().expect("its end");
    let ((shown_rest, host), (rest, readme_host)) = (without_host(&shown), without_host(block));
    assert_eq!(normal(&shown_rest, &env), normal(&rest, &env), "as it was printed:\n{shown}");
    // What the host gives is that of an ordinary user who has no group.
    if is_root() || !host.contains("this host gives rung B") {
        assert!(host.contains("\nthis host gives rung "), "{host}");
        return skip("the README shows rung B");
    }
    assert_eq!(normal(&host, &env), normal(&readme_host, &env), "as it was printed:\n{shown}");
}

#[test]
fn init_leaves_a_sound_configuration_three_recorded_calls_and_no_folder() {
    let Some(env) = Env::new() else { return };
    home(&env);
    fs::create_dir(env.path("tmp")).expect("a folder");
    let init = command(&env, &["init"]).env("TMPDIR", env.path("tmp")).output();
    let init = init.expect("pinfold starts");
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    assert_eq!(fs::read_dir(env.path("tmp")).expect("a folder").count(), 0, "its folder is gone");
    let written = fs::read_to_string(config(&env)).expect("the configuration");
    assert!(written.lines().filter(|line| line.starts_with('#')).count() > 10, "{written}");
    assert_eq!(fs::metadata(config(&env)).expect("there").permissions().mode() & 0o777, 0o644);
    let check = pinfold(&env, &["config", "check"]);
    assert!(check.status.success() && text(&check.stdout).ends_with("is sound\n"), "{check:?}");
    // What is in force is what was written, each value at its line.
    let show = pinfold(&env, &["config", "show", "--json"]);
    let show: Value = serde_json::from_slice(&show.stdout).expect("JSON");
    assert_eq!(show["configuration"]["path"], config(&env).to_str().expect("UTF-8"));
    assert_eq!(show["configuration"]["exists"], true);
    let home = fs::canonicalize(env.path("home")).expect("a folder");
    let lines: Vec<&str> = written.lines().collect();
    let values = show["values"].as_array().expect("values");
    let of_tools = values.iter().filter(|value| {
        value["key"].as_str().expect("a name").starts_with("tools[") && value["origin"] != "default"
    });
    let mut bins = Vec::new();
    for value in of_tools {
        let origin = value["origin"].as_str().expect("an origin");
        let mut place = origin.rsplit(':').skip(1);
        let line: usize = place.next().expect("a line").parse().expect("a number");
        let (key, written) = lines[line - 1].split_once(" = ").expect("a key");
        assert!(value["key"].as_str().expect("a name").ends_with(&format!(".{key}")), "{value}");
        if key == "bin" {
            let below = written.trim_matches('"').strip_prefix("~/").expect("in the home");
            assert_eq!(value["value"], home.join(below).to_str().expect("UTF-8"));
            bins.push(below.to_owned());
        }
    }
    let wanted = [".cargo/bin", ".pyenv/versions/3.12.1/bin", ".nvm/versions/node/v22.11.0/bin"];
    assert_eq!(bins, wanted);
    // The trail is the real one, and holds the three.
    let (intents, refusals) = (env.records_of("intent"), env.records_of("refusal"));
    assert_eq!((intents.len(), refusals.len(), env.records_of("end").len()), (1, 2, 1));
    assert_eq!(intents[0]["argv"], serde_json::json!(["ls"]));
    assert_eq!(refusals[0]["code"], "nobody-to-ask");
    assert_eq!(refusals[1]["code"], "instead");
    assert!(pinfold(&env, &["trail", "verify"]).status.success());
}

#[test]
fn init_never_writes_over_a_configuration() {
    let Some(env) = Env::new() else { return };
    home(&env);
    let own = "schema = 1\n# mine\n";
    fs::create_dir_all(config(&env).parent().expect("a parent")).expect("folders");
    fs::write(config(&env), own).expect("a configuration");
    let init = pinfold(&env, &["init"]);
    let said = text(&init.stdout);
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    assert!(said.contains("pinfold.toml as it is") && !said.contains("wrote"), "{said}");
    // It goes on with the rest, and says what the file could have.
    assert!(said.contains("[[tools]]\nroot = \"~/.nvm/versions/node/v22.11.0\""), "{said}");
    assert!(said.contains("allowed: pinfold run -- ls\nhello.txt\n"), "{said}");
    assert_eq!(fs::read_to_string(config(&env)).expect("there"), own);
    // Also a link that leads nowhere is there.
    fs::remove_file(config(&env)).expect("the file");
    std::os::unix::fs::symlink(env.path("elsewhere"), config(&env)).expect("a link");
    let init = pinfold(&env, &["init"]);
    assert_eq!(init.status.code(), Some(1), "{init:?}");
    assert!(!env.path("elsewhere").exists());
    // A broken one is shown, and nothing runs.
    fs::remove_file(config(&env)).expect("the link");
    fs::write(config(&env), "schema = 1\ncatalgo = 1\n").expect("a configuration");
    let before = env.records().len();
    let init = pinfold(&env, &["init"]);
    assert_eq!(init.status.code(), Some(1), "{init:?}");
    assert!(text(&init.stderr).contains("pinfold.toml:2:1"), "{init:?}");
    assert_eq!(env.records().len(), before);
}

#[test]
fn a_toolchain_that_others_could_change_is_written_as_a_comment_with_the_reason() {
    let Some(env) = Env::new() else { return };
    home(&env);
    let nvm = env.path("home/.nvm");
    fs::set_permissions(&nvm, fs::Permissions::from_mode(0o777)).expect("a mode");
    let init = pinfold(&env, &["init"]);
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    let why = format!("{} can be changed by others", nvm.display());
    assert!(text(&init.stdout).contains(&format!("left nvm out: {why}")), "{init:?}");
    let written = fs::read_to_string(config(&env)).expect("the configuration");
    assert!(written.contains(&format!("# Left out: {why}.\n# [[tools]]\n")), "{written}");
    assert!(pinfold(&env, &["config", "check"]).status.success());
}

#[test]
fn without_toolchains_and_without_a_place_init_says_so() {
    let Some(env) = Env::new() else { return };
    let init = pinfold(&env, &["init"]);
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    assert!(text(&init.stdout).contains("found no toolchain"), "{init:?}");
    assert!(pinfold(&env, &["config", "check"]).status.success());
    // A place that cannot be written.
    let file = env.path("home/file");
    fs::write(&file, "").expect("a file");
    let mut init = Command::new(binary("pinfold"));
    init.env_clear().env("HOME", env.path("home")).env("PINFOLD_HOME", env.path("state"));
    let init = init.arg("--config").arg(file.join("x.toml")).arg("init").output();
    let init = init.expect("pinfold starts");
    assert_eq!(init.status.code(), Some(125), "{init:?}");
    assert!(text(&init.stderr).contains("cannot be written"), "{init:?}");
    if is_root() {
        return skip("root's default place is /etc, which tests leave alone");
    }
    let mut init = Command::new(binary("pinfold"));
    let init = init.env_clear().env("PINFOLD_HOME", env.path("state")).arg("init").output();
    let init = init.expect("pinfold starts");
    assert_eq!(init.status.code(), Some(125), "{init:?}");
    assert!(text(&init.stderr).contains("--config"), "{init:?}");
    let mut init = Command::new(binary("pinfold"));
    init.env_clear().env("PINFOLD_HOME", env.path("state")).arg("init");
    let init = init.env("XDG_CONFIG_HOME", env.path("xdg")).output().expect("pinfold starts");
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    assert!(env.path("xdg/pinfold/pinfold.toml").exists());
}
