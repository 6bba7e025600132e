//! A run leaves nothing behind but its records.

use crate::input::tree;
use crate::support::{Env, cgroups_of, is_root, processes_with};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const CALLS: [&[&str]; 6] = [
    &["probe", "build", "create", "made"],
    &["probe", "look", "ids"],
    &["probe", "repo-init", "ids"],
    &["frobnicate"],
    &["probe", "none", "die", "9"],
    &["probe", "gate", "exit", "7"],
];

/// Starts a run that lasts, and waits until its command runs.
fn running(env: &Env) -> Child {
    let before = env.records_of("started").len();
    let run = env.start(&["--", "probe", "build", "sleep", "60000"]);
    let begun = Instant::now();
    while env.records_of("started").len() == before {
        assert!(begun.elapsed() < Duration::from_secs(30), "the run does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    run
}

/// Places of Pinfold outside its state folder, and of the account.
fn elsewhere(env: &Env) -> Vec<PathBuf> {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("an account");
    let home = me.map_or_else(|| PathBuf::from("/root"), |me| me.dir);
    let below = [".local/state/pinfold", ".config/pinfold"].map(|name| home.join(name));
    let system = ["/var/lib/pinfold", "/etc/pinfold", "/run/pinfold"].map(PathBuf::from);
    below.into_iter().chain(system).chain([env.path("home"), env.path("config")]).collect()
}

#[test]
fn with_a_state_folder_of_its_own_pinfold_touches_no_other_place() {
    let Some(env) = Env::new() else { return };
    let look = || {
        let places = elsewhere(&env);
        places.iter().flat_map(|path| tree(path)).collect::<BTreeSet<_>>()
    };
    let (before, entries) = (look(), names(env.path("").as_path()));
    for call in CALLS {
        env.cmd(call);
    }
    env.pinfold(&["run", "--timeout", "1", "--", "probe", "build", "sleep", "60000"]);
    env.pinfold(&["trail", "show"]);
    env.pinfold(&["profile", "check"]);
    // Other tests run beside this one, and their runs have folders of their own for a moment.
    // What these calls left would stay: it is new, and there each time one looks.
    let mut left: BTreeSet<_> = look().difference(&before).cloned().collect();
    let begun = Instant::now();
    while !left.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
        left = look().intersection(&left).cloned().collect();
    }
    let mut expected = entries;
    expected.insert("state".to_owned());
    assert_eq!(names(env.path("").as_path()), expected);
    let state = names(&env.path("state"));
    let known = ["cache", "guard", "nested", "trail", "uids"].map(str::to_owned);
    assert!(state.iter().all(|name| known.contains(name)), "{state:?}");
    assert_eq!(names(&env.workspace()), ["made".to_owned()].into());
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
}

/// Mounts whose place or source belongs to this test's host.
fn mounts(env: &Env) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let own = env.path("").display().to_string();
    let own = own.trim_end_matches('/');
    text.lines().filter(|line| line.contains(own)).map(str::to_owned).collect()
}

fn all_mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").expect("/proc").lines().count()
}

#[test]
fn a_run_leaves_no_mount_on_the_host() {
    let Some(env) = Env::new() else { return };
    env.repository();
    env.file(".env", "secret");
    let before = all_mounts();
    for call in CALLS {
        env.cmd(call);
    }
    env.cmd(&["git", "status"]);
    // While one runs, the host sees none either.
    let mut run = running(&env);
    assert_eq!(mounts(&env), Vec::<String>::new());
    run.kill().expect("killed");
    run.wait().expect("gone");
    assert_eq!(mounts(&env), Vec::<String>::new());
    // Others may mount something for a moment; what a run left would stay.
    let begun = Instant::now();
    while all_mounts() != before {
        assert!(begun.elapsed() < Duration::from_secs(20), "{before} mounts, now {}", all_mounts());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_run_leaves_no_process_and_no_cgroup() {
    let Some(env) = Env::new() else { return };
    let mut pids = Vec::new();
    for call in CALLS {
        let mut command = env.command(&[&["run", "--"], call].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().expect("it starts");
        pids.push(run.id());
        run.wait().expect("it ends");
    }
    let own = env.path("bin").display().to_string();
    assert_eq!(processes_with(&own), Vec::<i32>::new());
    for pid in pids {
        assert_eq!(cgroups_of(pid), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_run_under_a_cgroup_has_one_while_it_lasts() {
    let Some(env) = Env::new() else { return };
    let answer = env.cmd(&["probe", "build", "ids"]);
    if answer.reply["rung"] != "A" {
        return crate::support::skip("this host gives a run no cgroup of its own");
    }
    let mut run = running(&env);
    assert!(!cgroups_of(run.id()).is_empty(), "the control");
    // Asked to end, it removes its group.
    let pid = nix::unistd::Pid::from_raw(i32::try_from(run.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("asked");
    run.wait().expect("it ends");
    assert_eq!(cgroups_of(run.id()), Vec::<PathBuf>::new());
}

#[test]
fn an_id_is_free_again_after_every_run() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return crate::support::skip("an ordinary user's command is the same user");
    }
    let uids = || env.records_of("intent").iter().map(|i| i["uid"].clone()).collect::<Vec<_>>();
    for call in CALLS {
        env.cmd(call);
    }
    let first = uids();
    assert!(first.iter().all(|uid| uid == &first[0] && uid != 0), "{first:?}");
    // While one runs its id is taken, and after a kill it is free again.
    let mut run = running(&env);
    env.cmd(&["probe", "build", "ids"]);
    run.kill().expect("killed");
    run.wait().expect("gone");
    env.cmd(&["probe", "build", "ids"]);
    let later = uids().split_off(first.len());
    assert_eq!(later[0], first[0]);
    assert_ne!(later[1], first[0], "two runs at once share no id");
    assert_eq!(later[2], first[0]);
}
