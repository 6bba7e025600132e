//! Each layer alone: what one holds without the others, and that the tests of a promise see the
//! layers that speak for it, because with these gone the attempt succeeds.
//!
//! A build for tests leaves layers out by a variable. A child that root starts has no share in
//! the workspace then, so what is tried is open to everybody and only the layers can refuse it.

use crate::support::{Env, is_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Changes that Landlock knows.
const CHANGES: [&[&str]; 10] = [
    &["write", "@/a"],
    &["create", "@/new"],
    &["truncate", "@/a"],
    &["mkdir", "@/new"],
    &["rename", "@/a", "@/new"],
    &["exchange", "@/a", "@/d/b"],
    &["link", "@/a", "@/new"],
    &["symlink", "a", "@/new"],
    &["unlink", "@/a"],
    &["mknod", "@/new", "0o10644", "0", "0"],
];

/// Changes that it does not know; the owner may do them.
const METADATA: [&[&str]; 4] = [
    &["chmod", "@/a", "0o600"],
    &["utimes", "@/a"],
    &["setxattr", "@/a"],
    &["chown", "@/a", "0xffffffff", "0xffffffff"],
];

/// Calls that nothing but seccomp refuses to a process without rights: `ptrace(TRACEME)`,
/// a user namespace by two calls, a netlink socket, a personality, the session's keys, and a
/// comparison of two processes.
const CALLS: [&[&str]; 7] = [
    &["syscall", "ptrace", "0", "0", "0", "0"],
    &["syscall", "unshare", "0x10000000"],
    &["clone", "0x10000000"],
    &["socket", "16", "3", "0"],
    &["personality", "0x400000"],
    &["syscall", "keyctl", "0", "0xfffffffd", "1"],
    &["syscall", "kcmp", "0", "0", "0", "0", "0"],
];

/// The id of the first command of a host, where no mount swaps it with the workspace's owner.
fn owner() -> u32 {
    if is_root() { 60_000 } else { nix::unistd::geteuid().as_raw() }
}

/// A host whose workspace and a folder beside it anybody may change.
fn open(env: Env) -> Env {
    let fill = env.fill(owner());
    fill(&env.workspace());
    fs::create_dir(env.path("home/other")).expect("a folder");
    fill(&env.path("home/other"));
    for name in ["ws/a", "ws/d/b", "home/other/a"] {
        let open = fs::Permissions::from_mode(0o666);
        fs::set_permissions(env.path(name), open).expect("a mode");
    }
    env
}

fn without(layers: &'static str) -> Option<Env> {
    Env::without(layers).map(open)
}

fn other(env: &Env) -> String {
    env.path("home/other/a").to_str().expect("UTF-8").to_owned()
}

fn each(env: &Env, profile: &str, acts: &[&[&str]], place: &Path) -> Vec<String> {
    let word = |word: &&str| word.replacen('@', place.to_str().expect("UTF-8"), 1);
    let acts: Vec<Vec<String>> = acts.iter().map(|act| act.iter().map(word).collect()).collect();
    env.inside_each(profile, &acts)
}

#[test]
fn mounts_alone_keep_everything_outside_out_of_reach() {
    let Some(env) = without("landlock") else { return };
    let path = other(&env);
    for profile in ["look", "read", "build", "none"] {
        env.denied(profile, &["read", &path], &["ENOENT"]);
        env.denied(profile, &["write", &path], &["ENOENT"]);
        env.denied(profile, &["exists", &path], &["ENOENT"]);
    }
}

#[test]
fn mounts_alone_keep_a_read_only_workspace_unchanged() {
    let Some(env) = without("landlock") else { return };
    let acts: Vec<&[&str]> = CHANGES.into_iter().chain(METADATA).collect();
    let fill = env.fill(nix::unistd::geteuid().as_raw());
    let errnos = ["EROFS", "EXDEV", "EBUSY"];
    for profile in ["look", "read"] {
        env.denied_on(profile, &env.workspace(), &fill, &acts, &errnos);
    }
    env.refused("none", &["read", "a"], &["ENOENT"]);
}

#[test]
fn mounts_alone_hold_protected_and_masked_places() {
    let Some(env) = Env::without("landlock") else { return };
    env.repository();
    env.file(".env", "SECRET=1");
    env.denied("build", &["create", ".git/x"], &["EROFS"]);
    env.refused("build", &["rename", ".git", "old"], &["EBUSY"]);
    env.refused("build", &["rename", "tracked.txt", ".git/hooks/pre-commit"], &["EXDEV"]);
    env.denied("build", &["read", ".env"], &["EACCES"]);
    env.refused("build", &["rename", ".env", "x"], &["EBUSY"]);
    env.refused("repo", &["create", ".git/hooks/pre-commit"], &["EROFS"]);
}

#[test]
fn landlock_alone_keeps_everything_outside_out_of_reach() {
    let Some(env) = without("mounts") else { return };
    let path = other(&env);
    for profile in ["look", "read", "build", "none"] {
        env.denied(profile, &["read", &path], &["EACCES"]);
        env.denied(profile, &["write", &path], &["EACCES"]);
        env.refused(profile, &["list", "/var"], &["EACCES"]);
    }
    env.refused("build", &["read", "/etc/passwd"], &["EACCES"]);
    env.refused("build", &["create", "/tmp/pinfold-probe"], &["EACCES"]);
}

#[test]
fn landlock_alone_keeps_a_read_only_workspace_unchanged() {
    let Some(env) = without("mounts") else { return };
    let owner = owner();
    let fill = env.fill(owner);
    for profile in ["look", "read", "none"] {
        env.denied_on(profile, &env.workspace(), &fill, &CHANGES, &["EACCES", "EXDEV"]);
    }
    env.allowed("build", &["create", "made"]);
    env.allowed("read", &["read", "a"]);
}

#[test]
fn landlock_alone_gives_a_looking_command_its_operands_only() {
    let Some(env) = without("mounts") else { return };
    let answer = env.cmd(&["cat", "a"]);
    assert_eq!(answer.stdout(), "old", "{answer:?}");
    let keys = "values = [{ name = \"--do\", kind = \"text\", forms = [\"eq\"] }]\n\
                operands = { kind = \"path\", dot = true, min = 0, max = 4 }\n";
    env.template("probe", "see", ("read-only", "look"), keys);
    let see = |act: &str| env.cmd(&["probe", "see", act, "a"]).stdout().trim().to_owned();
    assert_eq!(see("--do=read:a"), "ok");
    for act in ["--do=read:d/b", "--do=list:d", "--do=list:."] {
        assert_eq!(see(act), "EACCES", "{act}");
    }
}

/// The tests above would see it if both layers were missing.
#[test]
fn without_either_layer_the_files_are_open() {
    let Some(env) = without("landlock,mounts") else { return };
    let path = other(&env);
    for profile in ["look", "read", "build", "none"] {
        env.allowed(profile, &["read", &path]);
        env.allowed(profile, &["write", &path]);
        env.allowed(profile, &["read", "d/b"]);
    }
    let owner = owner();
    for act in CHANGES.into_iter().chain(METADATA) {
        let place = tempfile::tempdir_in(env.path("home")).expect("a folder");
        let folder = place.path().join("x");
        env.fill(owner)(&folder);
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(each(&env, "read", &[act], &folder), ["ok"], "{act:?}");
    }
}

/// What Landlock does not know is the mounts' alone: with them gone the owner may do it.
#[test]
fn metadata_is_held_by_mounts_and_by_no_other_layer() {
    let Some(env) = without("mounts") else { return };
    let owner = owner();
    env.fill(owner)(&env.workspace());
    for act in METADATA {
        assert_eq!(each(&env, "read", &[act], &env.workspace()), ["ok"], "{act:?}");
    }
}

/// Within a writable folder Landlock can grant but not take back.
#[test]
fn protected_and_masked_places_are_held_by_mounts_and_by_no_other_layer() {
    let Some(env) = Env::without("mounts,guard") else { return };
    env.fill(owner())(&env.workspace());
    for (name, content) in [(".git/config", "x"), (".env", "SECRET=1")] {
        let file = env.file(name, content);
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).expect("a mode");
    }
    env.allowed("build", &["write", ".git/config"]);
    env.allowed("build", &["read", ".env"]);
    env.allowed("build", &["rename", ".env", "x"]);
}

#[test]
fn seccomp_alone_refuses_calls_that_no_other_layer_knows() {
    let Some(env) = without("landlock,mounts") else { return };
    for profile in ["look", "build", "none"] {
        let answers = each(&env, profile, &CALLS, Path::new("/"));
        for (act, answer) in CALLS.iter().zip(answers) {
            let refused = ["EPERM", "EAFNOSUPPORT"].contains(&answer.as_str());
            assert!(refused, "{act:?} in {profile}: {answer}");
        }
    }
    for act in [["chmod", "a", "0o4755"], ["chmod", "a", "0o2755"], ["creat", "new", "0o6755"]] {
        env.refused("build", &act, &["EPERM"]);
    }
}

#[test]
fn without_seccomp_the_same_calls_succeed() {
    let Some(env) = without("seccomp") else { return };
    for act in CALLS {
        // Each in a process of its own: a namespace or a tracer would change the next answer.
        let answer = each(&env, "build", &[act], Path::new("/")).remove(0);
        assert!(
            !["EPERM", "ENOSYS", "EAFNOSUPPORT"].contains(&answer.as_str()),
            "{act:?}: {answer}"
        );
    }
}

/// The bit that makes a program run as the workspace's owner, who here is root where the test is.
#[test]
fn without_seccomp_a_set_id_bit_reaches_the_host() {
    let Some(env) = Env::without("seccomp") else { return };
    let file = env.file("tool", "x");
    for act in [["chmod", file.as_str(), "0o4755"], ["creat", "made", "0o4755"]] {
        env.allowed("build", &act);
    }
    assert!(crate::support::has_set_id(Path::new(&file)));
    assert!(crate::support::has_set_id(&env.workspace().join("made")));
}
