//! A second name for a place gives no second answer: links, the magic links of `/proc`,
//! descriptors that were left open, and a workspace that is itself reached through a link.

use crate::support::Env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;

const HIDDEN: [&str; 2] = ["ENOENT", "EACCES"];

#[test]
fn a01_a_write_through_a_link_out_of_the_workspace_is_refused() {
    let Some(env) = Env::new() else { return };
    let canary = env.outside_file("canary", "old");
    symlink("../canary", env.workspace().join("notes")).expect("a link");
    symlink(&canary, env.workspace().join("far")).expect("a link");
    for link in ["notes", "far"] {
        assert_eq!(env.outside(&["open-mode", link, "0", "0"]), "ok");
        for act in [["write", link], ["read", link], ["truncate", link], ["utimes", link]] {
            env.refused("build", &act, &["ENOENT", "EACCES", "EROFS", "ELOOP"]);
        }
    }
    assert_eq!(fs::read_to_string(&canary).expect("there"), "old");
}

#[test]
fn a07_proc_gives_no_second_name_for_a_path_outside() {
    let Some(env) = Env::new() else { return };
    let canary = env.outside_file("canary", "old");
    for path in [
        format!("/proc/self/root{canary}"),
        format!("/proc/thread-self/root{canary}"),
        "/proc/self/cwd/../canary".to_owned(),
        format!("/proc/self/task/../root{canary}"),
    ] {
        for profile in ["read", "build"] {
            env.denied(profile, &["read", &path], &HIDDEN);
        }
    }
}

#[test]
fn a08_proc_shows_the_processes_of_this_run_only() {
    let Some(env) = Env::new() else { return };
    let pids = env.outside(&["pids"]);
    assert!(pids.split(',').count() > 2, "the control proves nothing: {pids}");
    env.repository();
    for profile in ["look", "repo", "build", "gate", "read", "none"] {
        assert_eq!(env.inside(profile, &["pids"]), "[1, 2]", "{profile}");
    }
    // The init of the tree is all there is beside the command, and keeps to itself.
    let environ = env.inside("build", &["print", "/proc/1/environ"]);
    assert!(["", "EACCES", "EPERM"].contains(&environ.as_str()), "{environ}");
    let canary = env.outside_file("canary", "old");
    let acts = [["read", &format!("/proc/1/root{canary}")], ["read", "/proc/1/cwd/../canary"]];
    for act in acts {
        env.refused("build", &act, &["ENOENT", "EACCES", "EPERM"]);
    }
}

#[test]
fn a10_no_descriptor_but_the_three_standard_ones_is_open() {
    let Some(env) = Env::new() else { return };
    env.repository();
    // A descriptor of the caller's own that is not closed on exec must not come through either.
    let shell = |words: &str| {
        let mut command = env.command(&["run", "--json", "--", "probe", "build", "fds"]);
        let program = command.get_program().to_owned();
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut shell = std::process::Command::new("/bin/sh");
        shell.arg("-c").arg(words).arg("sh").arg(program).args(args);
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        let output = shell.current_dir(env.workspace()).output();
        command.env_clear();
        String::from_utf8(output.expect("a shell").stdout).expect("UTF-8")
    };
    let answer = shell("exec 7</ 8>/dev/null; exec \"$@\"");
    assert!(answer.contains("\"stdout\":\"[0 1 2]\\n\""), "{answer}");
    for profile in ["look", "repo", "build", "gate", "read", "none"] {
        assert_eq!(env.inside(profile, &["fds"]), "[0 1 2]", "{profile}");
    }
}

#[test]
fn a13_a_workspace_reached_through_a_link_is_the_real_folder() {
    let Some(env) = Env::new() else { return };
    symlink(env.workspace(), env.path("link")).expect("a link");
    let link = env.path("link");
    let link = link.to_str().expect("UTF-8");
    let answer = env.run(&["--json", "--workspace", link, "--", "pwd"]);
    assert_eq!(answer.stdout().trim(), env.workspace().to_str().expect("UTF-8"));
    let words = ["--json", "--workspace", link, "--", "probe", "build", "create", "made"];
    assert_eq!(env.run(&words).stdout().trim(), "ok");
    assert!(env.workspace().join("made").exists());
}

#[test]
fn a13_pointing_the_link_elsewhere_during_a_run_moves_nothing() {
    let Some(env) = Env::new() else { return };
    fs::create_dir(env.path("elsewhere")).expect("a folder");
    let link = env.path("link");
    symlink(env.workspace(), &link).expect("a link");
    env.shell("tsh", "workspace-write", "build");
    let script = "echo up; while [ ! -e go ]; do sleep 0.05; done; touch after; touch $0/x || :";
    let script = script.replace("$0", link.to_str().expect("UTF-8"));
    let workspace = link.to_str().expect("UTF-8");
    let mut child = env.start(&["--workspace", workspace, "--", "tsh", "-c", &script]);
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("output");
    assert_eq!(line, "up\n");
    fs::remove_file(&link).expect("the link");
    symlink(env.path("elsewhere"), &link).expect("another link");
    fs::write(env.workspace().join("go"), "").expect("a file");
    assert!(child.wait().expect("it ends").success());
    assert!(env.workspace().join("after").exists());
    assert_eq!(fs::read_dir(env.path("elsewhere")).expect("a folder").count(), 0);
}

/// Masks, holds and grants follow no link: the name could be pointed elsewhere during the run.
#[test]
fn a33_a_granted_or_protected_name_that_is_a_link_refuses_the_run() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let target = env.path("home/.ssh");
    fs::create_dir(&target).expect("a folder");
    symlink(&target, env.workspace().join("cache")).expect("a link");
    let grant = "[[write]]\npath = \"{workspace}/cache\"\nwhy = \"w\"\n";
    env.profile("cached", "workspace-write", grant);
    let answer = env.cmd(&["probe", "cached", "create", "cache/x"]);
    assert_eq!((answer.code, answer.refusal()), (126, "workspace"), "{answer:?}");
    assert!(answer.reply["message"].to_string().contains("{workspace}/cache"), "{answer:?}");

    fs::remove_file(env.workspace().join("cache")).expect("the link");
    fs::create_dir(env.workspace().join("cache")).expect("a folder");
    env.allowed("cached", &["create", "cache/x"]);

    let hooks = env.workspace().join(".git/hooks");
    fs::remove_dir_all(&hooks).expect("the hooks");
    symlink(&target, &hooks).expect("a link");
    let answer = env.cmd(&["probe", "repo", "ids"]);
    assert_eq!((answer.code, answer.refusal()), (126, "workspace"), "{answer:?}");
    assert!(answer.reply["message"].to_string().contains(".git/hooks"), "{answer:?}");
    assert_eq!(env.records_of("intent").len(), 1, "only the granted folder led to a run");
    assert_eq!(fs::read_dir(&target).expect("a folder").count(), 0);
}

/// A link on the way to a masked file would lead the mask away from it.
#[test]
fn a33_a_masked_name_that_is_a_link_refuses_the_run() {
    let Some(env) = Env::new() else { return };
    let secret = env.file("real.env", "SECRET=1");
    symlink("real.env", env.workspace().join(".env")).expect("a link");
    let answer = env.cmd(&["probe", "build", "read", "real.env"]);
    assert_eq!((answer.code, answer.refusal()), (126, "workspace"), "{answer:?}");
    assert_eq!(fs::read_to_string(secret).expect("there"), "SECRET=1");
}
