//! In which order things happen, as the kernel sees it: one run under `strace`.

use crate::support::{Env, binary, is_root, skip};
use std::fs;
use std::process::Command;

/// One system call of the log.
struct Call {
    pid: u32,
    name: String,
    /// The whole line, with arguments and, where it returned at once, the result.
    text: String,
    /// Index of the line where it began, and of the line where it returned.
    began: usize,
    returned: usize,
}

/// Reads a log of `strace -f`: a call that others interrupted stands on two lines.
fn read_log(log: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (at, line) in log.lines().enumerate() {
        let Some((pid, text)) = line.split_once(' ') else { continue };
        let Ok(pid) = pid.parse() else { continue };
        let text = text.trim_start();
        if text.starts_with("<...") {
            let open = calls.iter_mut().rev().find(|call| call.pid == pid);
            let open = open.expect("what is resumed began");
            open.returned = at;
            open.text.push_str(text);
        } else if let Some((name, _)) = text.split_once('(').filter(|_| !text.starts_with('-')) {
            let (name, text) = (name.to_owned(), text.to_owned());
            calls.push(Call { pid, name, text, began: at, returned: at });
        }
    }
    calls
}

/// Runs `pinfold run -- ls` under strace and returns the calls of that run.
fn traced(env: &Env) -> Option<Vec<Call>> {
    if Command::new("strace").arg("-V").output().is_err() {
        let required = std::env::var_os("PINFOLD_REQUIRE_STRACE").is_some();
        assert!(!required, "PINFOLD_REQUIRE_STRACE is set, and there is no strace");
        skip("strace is not installed");
        return None;
    }
    env.file("a.txt", "a");
    // The first run asks what this host can do, by children that are not of interest here.
    assert_eq!(env.cmd(&["ls"]).code, 0);
    let log = env.path("home/log");
    let plain = env.command(&["run", "--", "ls"]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-o"]).arg(&log).arg(binary("pinfold")).args(plain.get_args());
    strace.current_dir(env.workspace()).env_clear();
    let variables = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = strace.envs(variables).output().expect("strace starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a.txt\n", "{output:?}");
    Some(read_log(&fs::read_to_string(log).expect("the log")))
}

/// Finds the one call that executes this program.
fn execution<'c>(calls: &'c [Call], program: &str) -> &'c Call {
    let argv = format!("[\"{program}\"");
    let mut found = calls.iter().filter(|c| c.name == "execveat" && c.text.contains(&argv));
    let first = found.next().expect("it is executed");
    assert!(found.next().is_none(), "{program} is executed once");
    first
}

#[test]
fn the_intent_is_synced_before_the_program_is_executed_and_the_end_before_the_supervisor_exits() {
    let Some(env) = Env::new() else { return };
    let Some(calls) = traced(&env) else { return };
    let program = execution(&calls, "ls");
    let trail = env.path("state/trail").display().to_string();
    let synced = |call: &&Call| {
        let kind = ["fdatasync", "fsync"].contains(&call.name.as_str());
        kind && call.text.contains(&trail) && call.text.ends_with("= 0")
    };
    let before = calls.iter().filter(synced).find(|sync| sync.returned < program.began);
    let before = before.expect("the intent is synced before the execution");
    let gate = calls.iter().find(|c| c.name == "write" && c.text.contains(", \"g\", 1)"));
    let gate = gate.expect("the gate opens");
    assert!(before.returned < gate.began, "the gate opens after the sync");
    assert!(gate.began < program.began, "and the program is executed after that");
    let own: Vec<&Call> = calls.iter().filter(|call| call.pid == program.pid).collect();
    let layer = |name: &str| {
        let made = own.iter().filter(|c| c.name == name && c.text.ends_with("= 0"));
        made.filter(|c| c.returned < program.began).count()
    };
    assert_eq!((layer("landlock_restrict_self"), layer("seccomp")), (1, 2));
    // The third filter is inherited from the thread that made the child.
    let inherited = calls.iter().filter(|c| c.name == "seccomp" && c.pid != program.pid);
    assert!(inherited.filter(|c| c.returned < program.began).any(|c| c.text.ends_with("= 0")));
    let exit = |pid| calls.iter().rev().find(|c| c.name == "exit_group" && c.pid == pid);
    let program_exit = exit(program.pid).expect("the program ends");
    let supervisor = calls.first().expect("a call").pid;
    let supervisor_exit = exit(supervisor).expect("the supervisor ends");
    let mut after = calls.iter().filter(synced).filter(|sync| sync.began > program_exit.began);
    let after = after.next().expect("the end is synced");
    assert!(after.returned < supervisor_exit.began, "before the supervisor exits");
}

/// Calls by which the outer child builds the view.
const BUILDING: [&str; 21] = [
    "close",
    "openat",
    "write",
    "unshare",
    "sethostname",
    "mount_setattr",
    "open_tree",
    "openat2",
    "newfstatat",
    "umask",
    "fsopen",
    "fsconfig",
    "fsmount",
    "move_mount",
    "fchdir",
    "mkdirat",
    "symlinkat",
    "landlock_add_rule",
    "chdir",
    "socket",
    "ioctl",
];

/// Names of a process's calls up to and with its execution.
fn names_until_execution<'c>(calls: &'c [Call], execution: &Call) -> Vec<&'c str> {
    let own = calls.iter().filter(|call| call.pid == execution.pid);
    own.filter(|call| call.began <= execution.began).map(|call| call.name.as_str()).collect()
}

#[test]
fn the_inner_child_makes_the_calls_of_its_steps_and_no_other() {
    let Some(env) = Env::new() else { return };
    let Some(calls) = traced(&env) else { return };
    let mut names = names_until_execution(&calls, execution(&calls, "ls"));
    let limits = names.iter().filter(|name| **name == "prlimit64").count();
    assert!((3..=5).contains(&limits), "{limits} limits");
    let signals = names.iter().filter(|name| **name == "rt_sigaction").count();
    assert_eq!(signals, 62, "all but SIGKILL and SIGSTOP");
    names.dedup();
    let expected = [
        "setsid",
        "dup3",
        "close_range",
        "chdir",
        "umask",
        "prlimit64",
        "landlock_restrict_self",
        "seccomp",
        "rt_sigaction",
        "rt_sigprocmask",
        "write",
        "read",
        "execveat",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_outer_child_makes_the_calls_of_its_steps_and_no_other() {
    let Some(env) = Env::new() else { return };
    let Some(calls) = traced(&env) else { return };
    let init = execution(&calls, "pinfold-init");
    let mut names = names_until_execution(&calls, init);
    let pivot = names.iter().position(|name| *name == "pivot_root").expect("it has a new root");
    let mut dropping = names.split_off(pivot);
    for name in &names {
        assert!(BUILDING.contains(name), "{name} is no step of the view");
    }
    dropping.dedup();
    let groups: &[&str] = if is_root() { &["setgroups"] } else { &[] };
    let root = ["pivot_root", "umount2", "chdir", "openat", "newfstatat", "prctl"];
    let ids = ["setresgid", "setresuid", "capset", "prctl", "clone3", "dup3"];
    let intent = env.records_of("intent").pop().expect("an intent");
    let layers = intent["layers"].as_array().expect("layers");
    // Where no group counts processes, the init has the command's limit.
    let counted = layers.iter().any(|layer| layer == "cgroup-limits");
    let last: &[&str] = if counted { &["execveat"] } else { &["prlimit64", "execveat"] };
    assert_eq!(dropping, [&root[..], groups, &ids, last].concat());
    // A change of ids would clear the signal that ends the tree with its supervisor.
    let of = |text: &str| {
        let mut own = calls.iter().filter(|call| call.pid == init.pid);
        own.find(|call| call.text.starts_with(text)).expect("it is made").began
    };
    assert!(of("setresuid(") < of("capset("));
    assert!(of("capset(") < of("prctl(PR_SET_PDEATHSIG, SIGKILL"));
    assert!(of("prctl(PR_SET_NO_NEW_PRIVS, 1") < of("clone3("));
}
