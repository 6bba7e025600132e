//! Which folder may be a workspace, and that it is the one the command works in.

use crate::input::{refused, tree};
use crate::support::{Env, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ACT: [&str; 5] = ["--", "probe", "build", "create", "made"];

fn refuse(env: &Env, workspace: &Path) {
    let path = workspace.to_str().expect("UTF-8");
    refused(env, &[&["--json", "--workspace", path], &ACT[..]].concat(), "workspace", path);
    assert!(!workspace.join("made").exists(), "{path}");
}

#[test]
fn a_folder_of_the_system_or_a_home_is_no_workspace() {
    let Some(env) = Env::new() else { return };
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("an account");
    let home = me.map_or_else(|| PathBuf::from("/root"), |me| me.dir);
    if home.is_dir() {
        refuse(&env, &home);
    } else {
        skip("this account has no home folder");
    }
    let system =
        ["/", "/etc", "/usr", "/usr/share", "/bin", "/dev", "/dev/shm", "/proc", "/proc/self"];
    for folder in system.into_iter().chain(["/sys", "/run", "/var", "/tmp", "/home", "/boot"]) {
        refuse(&env, Path::new(folder));
    }
}

#[test]
fn what_is_missing_or_no_folder_is_no_workspace() {
    let Some(env) = Env::new() else { return };
    let file = PathBuf::from(env.outside_file("file", "x"));
    symlink("nowhere", env.path("dangling")).expect("a link");
    symlink("/etc", env.path("to-etc")).expect("a link");
    refuse(&env, &env.path("missing"));
    refuse(&env, &env.path("dangling"));
    refuse(&env, &file);
    refuse(&env, &env.path("to-etc"));
    // A name with an escape sequence is shown escaped.
    let odd = env.path("a\u{1b}[2Jb");
    let words = ["--json".into(), "--workspace".into(), odd.into_os_string()];
    let words: Vec<_> = words.into_iter().chain(ACT.map(Into::into)).collect();
    refused(&env, &words, "workspace", r"a\u{1b}[2Jb");
}

#[test]
fn pinfolds_own_files_lie_in_no_workspace_and_no_workspace_in_them() {
    let Some(env) = Env::new() else { return };
    let answer = env.cmd(&["probe", "build", "create", "made"]);
    assert_eq!(answer.stdout(), "ok\n", "the control: {answer:?}");
    fs::remove_file(env.workspace().join("made")).expect("made by the control");
    for folder in ["", "state", "state/trail", "config", "config/profiles"] {
        refuse(&env, &env.path(folder));
    }
}

#[test]
fn f25_a_state_folder_inside_the_workspace_stops_every_run() {
    let Some(env) = Env::new() else { return };
    let state = env.workspace().join("state");
    let mut command = env.command(&[&["run", "--json"], &ACT[..]].concat());
    let output = command.env("PINFOLD_HOME", &state).output().expect("it starts");
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a reply");
    assert_eq!(output.status.code(), Some(126), "{reply}");
    assert_eq!(reply["decision"]["code"], "workspace", "{reply}");
    assert!(!env.workspace().join("made").exists());
}

#[test]
fn a13_a_link_to_a_good_folder_is_a_workspace() {
    let Some(env) = Env::new() else { return };
    symlink(env.workspace(), env.path("link")).expect("a link");
    let link = env.path("link");
    let link = link.to_str().expect("UTF-8");
    let answer = env.run(&[&["--json", "--workspace", link], &ACT[..]].concat());
    assert_eq!(answer.stdout(), "ok\n", "{answer:?}");
    assert!(env.workspace().join("made").exists());
    let real = fs::canonicalize(env.workspace()).expect("a path");
    assert_eq!(answer.reply["approval"]["project"], real.to_str().expect("UTF-8"));
}

#[test]
fn a13_pointing_the_link_elsewhere_changes_nothing_for_a_run_that_has_begun() {
    let Some(env) = Env::new() else { return };
    if !Path::new("/usr/bin/make").exists() {
        return skip("there is no make");
    }
    env.file(
        "Makefile",
        "all:\n\t@touch begun; while ! test -e go; do sleep 0.1; done; touch made\n",
    );
    fs::create_dir(env.path("other")).expect("a folder");
    let link = env.path("link");
    symlink(env.workspace(), &link).expect("a link");
    let run = env.start(&["--workspace", link.to_str().expect("UTF-8"), "--", "make"]);
    let begun = Instant::now();
    while !env.workspace().join("begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "make does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(&link).expect("the link");
    symlink(env.path("other"), &link).expect("a link");
    env.file("go", "");
    let output = run.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(env.workspace().join("made").exists());
    assert_eq!(tree(&env.path("other")), Vec::<String>::new());
}

/// What a run could put there would be the policy of the next one.
#[test]
fn a_folder_where_the_configuration_would_be_is_no_workspace() {
    let Some(env) = Env::new() else { return };
    if crate::support::is_root() {
        return crate::support::skip(
            "root's default configuration lies below /etc, refused anyway",
        );
    }
    let config = env.path("home/.config");
    fs::create_dir(&config).expect("a folder");
    let mut command = env.command(&["run", "--json", "--workspace"]);
    let output = command.arg(&config).args(["--", "pwd"]).output().expect("pinfold starts");
    assert_eq!(output.status.code(), Some(126), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"workspace\""), "{output:?}");
}

/// The first run makes the state folder; its place counts before that, links on the way followed.
#[test]
fn a_state_folder_that_is_yet_to_be_made_in_the_workspace_refuses_the_first_run() {
    let Some(env) = Env::new() else { return };
    let link = env.path("link");
    std::os::unix::fs::symlink(env.workspace(), &link).expect("a link");
    for state in [link.join("state"), env.path("home/../ws/other")] {
        let mut command = env.command(&["run", "--json", "--", "probe", "build", "create", "made"]);
        let output = command.env("PINFOLD_HOME", &state).output().expect("pinfold starts");
        assert_eq!(output.status.code(), Some(126), "{state:?}: {output:?}");
        assert!(!env.workspace().join("made").exists(), "{state:?}");
    }
}
