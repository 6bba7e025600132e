//! Protected paths keep their content, masked paths hide it, and neither leaves a trace.

use crate::support::twin::{WRITES, tree};
use crate::support::{Env, skip};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// What answers where a mount or Landlock stands in the way.
const HELD: [&str; 4] = ["EROFS", "EBUSY", "EXDEV", "EACCES"];
const UNREADABLE: [&str; 1] = ["EACCES"];

fn repository(folder: &Path) {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t.invalid"]).args(words);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let done = command.current_dir(folder).output().expect("git is installed");
        assert!(done.status.success(), "git {words:?}: {done:?}");
    };
    if !folder.join(".git").exists() {
        fs::write(folder.join("tracked.txt"), "tracked\n").expect("a file");
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "tracked.txt"]);
        git(&["commit", "-q", "-m", "first"]);
        fs::create_dir(folder.join("d")).expect("a folder");
        fs::create_dir_all(folder.join(".git/modules/m")).expect("a folder");
        fs::write(folder.join(".git/hooks/old"), "x").expect("a hook");
    }
}

/// `.git` is read-only for what runs the project's own code.
#[test]
fn a20_a21_a_build_can_neither_write_nor_move_the_repository() {
    let Some(env) = Env::new() else { return };
    let acts: [&[&str]; 13] = [
        &["rename", "@/.git", "@/old"],
        &["exchange", "@/.git", "@/d"],
        &["create", "@/.git/x"],
        &["mkdir", "@/.git/hooks/x"],
        &["create", "@/.git/hooks/pre-commit"],
        &["write", "@/.git/config"],
        &["unlink", "@/.git/HEAD"],
        &["rename", "@/tracked.txt", "@/.git/hooks/pre-commit"],
        &["rename", "@/.git/HEAD", "@/HEAD"],
        &["link", "@/tracked.txt", "@/.git/hooks/pre-commit"],
        &["symlink", "/etc", "@/.git/hooks/x"],
        &["chmod", "@/.git/hooks/old", "0o755"],
        &["setxattr", "@/.git/config"],
    ];
    for profile in ["build", "gate"] {
        env.denied_on(profile, &env.workspace(), &repository, &acts, &HELD);
    }
    env.allowed("build", &["read", ".git/config"]);
    env.allowed("build", &["rename", "tracked.txt", "moved.txt"]);
}

#[test]
fn a20_a21_git_itself_can_write_records_and_nothing_that_names_programs() {
    let Some(env) = Env::new() else { return };
    let acts: [&[&str]; 14] = [
        &["rename", "@/.git", "@/old"],
        &["exchange", "@/.git", "@/d"],
        &["rename", "@/.git/objects", "@/.git/gone"],
        &["rename", "@/.git/hooks", "@/.git/gone"],
        &["rename", "@/.git/config", "@/.git/gone"],
        &["rename", "@/.git/HEAD", "@/.git/hooks/pre-commit"],
        &["create", "@/.git/hooks/pre-commit"],
        &["write", "@/.git/config"],
        &["create", "@/.git/info/attributes"],
        &["create", "@/.git/modules/m/config"],
        &["unlink", "@/.git/config"],
        &["mkdir", "@/.git/worktrees"],
        &["symlink", "/etc", "@/.git/x"],
        &["write", "@/tracked.txt"],
    ];
    env.denied_on("repo", &env.workspace(), &repository, &acts, &HELD);
    // What a commit needs.
    env.allowed("repo", &["create", ".git/index.lock"]);
    env.allowed("repo", &["rename", ".git/index.lock", ".git/index2"]);
    env.allowed("repo", &["mkdir", ".git/objects/zz"]);
    env.allowed("repo", &["create", ".git/objects/zz/blob"]);
    env.allowed("repo", &["mkdir", ".git/refs/heads/a"]);
    env.allowed("repo", &["write", ".git/HEAD"]);
}

#[test]
fn a_gate_cannot_rewrite_the_script_that_judges_it() {
    let Some(env) = Env::new() else { return };
    let make = |folder: &Path| {
        fs::create_dir_all(folder.join("scripts")).expect("a folder");
        fs::create_dir_all(folder.join("d")).expect("a folder");
        fs::write(folder.join("scripts/p1.sh"), "exit 1").expect("a script");
        fs::write(folder.join("new"), "exit 0").expect("a script");
    };
    let acts: [&[&str]; 6] = [
        &["write", "@/scripts/p1.sh"],
        &["rename", "@/new", "@/scripts/p1.sh"],
        &["unlink", "@/scripts/p1.sh"],
        &["rename", "@/scripts", "@/gone"],
        &["exchange", "@/scripts", "@/d"],
        &["create", "@/scripts/p2.sh"],
    ];
    env.denied_on("gate", &env.workspace(), &make, &acts, &HELD);
    env.allowed("build", &["write", "scripts/p1.sh"]);
}

/// Runs leave no mount point, cover or marker on the disk, also where the supervisor is killed.
#[test]
fn a18_nothing_is_left_in_the_repository_after_runs() {
    let Some(env) = Env::new() else { return };
    repository(&env.workspace());
    fs::remove_dir(env.workspace().join("d")).expect("the empty folder");
    let mut before = tree(&env.workspace());
    for profile in ["look", "repo", "build", "read", "none"] {
        env.inside(profile, &["ids"]);
        assert_eq!(tree(&env.workspace()), before, "{profile}");
    }
    for profile in ["build", "repo"] {
        let mut child = env.start(&["--", "probe", profile, "closed"]);
        // The record of the start is written when the command runs.
        let running = || env.records_of("started").len();
        let started = running();
        for _ in 0..100 {
            if running() > started {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it is gone");
        assert_eq!(tree(&env.workspace()), before, "{profile}");
        assert_eq!(env.git(&["status", "--porcelain", "-uall"]), "", "{profile}");
        // The host's git may have refreshed its index.
        before = tree(&env.workspace());
    }
}

/// With a mask whose file is there, and with one whose file is not.
#[test]
fn a19_git_inside_sees_the_repository_as_outside() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let masks = "[[mask]]\npath = \"{workspace}/.env\"\nwhy = \"m\"\n\
                 [[mask]]\npath = \"{workspace}/.absent\"\nwhy = \"m\"\n";
    env.profile("free", "workspace-write", &format!("{WRITES}{masks}"));
    env.shell("tsh", "workspace-write", "free");
    let git = |words: &str| {
        let script = format!("git -c user.name=t -c user.email=t@t.invalid {words}");
        let answer = env.cmd(&["tsh", "-c", &script]);
        assert_eq!(answer.outcome(), "ok", "{words}: {answer:?}");
        answer.stdout().to_owned()
    };
    let status = "status --porcelain -uall";
    assert_eq!(git(status), "");
    assert_eq!(env.cmd(&["git", "status", "--porcelain"]).stdout(), "");
    env.file(".env", "SECRET=1");
    env.file("new.txt", "new");
    let outside = env.git(&["status", "--porcelain", "-uall"]);
    assert_eq!(outside, "?? .env\n?? new.txt\n");
    assert_eq!(git(status), outside);
    env.file("tracked.txt", "changed\n");
    git("stash -q");
    assert_eq!(fs::read_to_string(env.workspace().join("tracked.txt")).expect("t"), "tracked\n");
    git("stash pop -q");
    assert_eq!(fs::read_to_string(env.workspace().join("tracked.txt")).expect("t"), "changed\n");
    assert_eq!(git("format-patch -1 HEAD"), "0001-first.patch\n");
    assert_eq!(
        env.git(&["status", "--porcelain", "-uall"]),
        " M tracked.txt\n?? .env\n?? 0001-first.patch\n?? new.txt\n"
    );
}

/// By raw calls, and by the programs that would do it in a namespace of their own.
#[test]
fn a36_protected_and_masked_places_cannot_be_uncovered() {
    let Some(env) = Env::new() else { return };
    repository(&env.workspace());
    env.file(".env", "SECRET=1");
    let probe = env.path("bin/probe");
    let probe = probe.to_str().expect("UTF-8");
    for act in ["umount", "remount"] {
        let words = format!("mount --bind d d && [ \"$({probe} outside {act} d)\" = ok ]");
        let control = ["unshare", "-Urm", "sh", "-c", &words];
        if !crate::support::twin::host(&control, &env.workspace()) {
            skip("no user namespace for the control of a36");
        }
        for (profile, place) in
            [("build", ".git"), ("build", ".env"), ("repo", ".git/hooks"), ("repo", ".env")]
        {
            env.refused(profile, &[act, place], &["EPERM"]);
        }
    }
    env.shell("tsh", "workspace-write", "build");
    for script in [
        "unshare -Urm sh -c 'umount .git; umount .env'",
        "unshare -m umount .git",
        "umount .git",
        "mount -o remount,bind,rw .git",
        "nsenter -t 1 -m umount .git",
    ] {
        let answer = env.cmd(&["tsh", "-c", script]);
        assert_eq!(answer.outcome(), "nonzero", "{script}: {answer:?}");
    }
    env.refused("build", &["create", ".git/x"], &HELD);
    env.refused("build", &["read", ".env"], &UNREADABLE);
}

#[test]
fn a_masked_file_can_be_neither_read_nor_moved_nor_replaced_under_any_profile() {
    let Some(env) = Env::new() else { return };
    let make = |folder: &Path| {
        repository(folder);
        fs::write(folder.join(".env"), "SECRET=1").expect("a file");
    };
    let reads: [&[&str]; 2] = [&["read", "@/.env"], &["open-mode", "@/.env", "0", "0"]];
    let changes: [&[&str]; 8] = [
        &["rename", "@/.env", "@/x"],
        &["rename", "@/tracked.txt", "@/.env"],
        &["exchange", "@/.env", "@/tracked.txt"],
        &["link", "@/.env", "@/x"],
        &["unlink", "@/.env"],
        &["truncate", "@/.env"],
        &["chmod", "@/.env", "0o644"],
        &["utimes", "@/.env"],
    ];
    for profile in ["look", "repo", "build", "gate"] {
        env.denied_on(profile, &env.workspace(), &make, &reads, &["EACCES", "EROFS"]);
        env.denied_on(profile, &env.workspace(), &make, &changes, &HELD);
    }
    let secret = fs::read_to_string(env.workspace().join(".env")).expect("there");
    assert_eq!(secret, "SECRET=1");
    // A profile that masks nothing reads it, so the mask is what hides it.
    env.allowed("read", &["read", ".env"]);
}

#[test]
fn a_mask_moves_along_when_a_folder_above_it_is_renamed() {
    let Some(env) = Env::new() else { return };
    let masks = "[[mask]]\npath = \"{workspace}/sub/deep/secret\"\nwhy = \"m\"\n";
    env.profile("nest", "workspace-write", &format!("{WRITES}{masks}"));
    env.shell("tsh", "workspace-write", "nest");
    let file = env.file("sub/deep/secret", "SECRET=1");
    assert_eq!(env.outside(&["read", &file]), "ok");
    env.refused("nest", &["read", "sub/deep/secret"], &UNREADABLE);
    for script in [
        "mv sub/deep sub/d2 && cat sub/d2/secret; mv sub/d2 sub/deep",
        "mv sub s2 && cat s2/deep/secret; mv s2 sub",
        "cp -r sub copy; cat copy/deep/secret; rm -rf copy; true",
    ] {
        let answer = env.cmd(&["tsh", "-c", script]);
        assert_eq!((answer.outcome(), answer.stdout()), ("ok", ""), "{script}: {answer:?}");
    }
    assert_eq!(fs::read_to_string(&file).expect("back in its place"), "SECRET=1");
}

#[test]
fn a_masked_folder_shows_nothing_of_what_is_in_it() {
    let Some(env) = Env::new() else { return };
    let masks = "[[mask]]\npath = \"{workspace}/secrets\"\nwhy = \"m\"\n";
    env.profile("vault", "workspace-write", &format!("{WRITES}{masks}"));
    let key = env.file("secrets/key", "SECRET=1");
    env.denied("vault", &["read", &key], &["EACCES", "ENOENT"]);
    env.denied("vault", &["exists", &key], &["EACCES", "ENOENT"]);
    env.denied("vault", &["create", "secrets/new"], &["EACCES", "EROFS"]);
    let listed = env.inside("vault", &["list", "secrets"]);
    assert!(["[]", "EACCES"].contains(&listed.as_str()), "{listed}");
    for act in [&["rename", "secrets", "x"][..], &["rmdir", "secrets"]] {
        env.refused("vault", act, &["EBUSY", "EACCES", "EROFS"]);
    }
    assert_eq!(fs::read_to_string(&key).expect("there"), "SECRET=1");
}

/// Only one of the names would be covered.
#[test]
fn a_masked_file_with_a_second_name_refuses_the_run() {
    let Some(env) = Env::new() else { return };
    env.file(".env", "SECRET=1");
    let alias = env.workspace().join("alias");
    fs::hard_link(env.workspace().join(".env"), &alias).expect("a link");
    let answer = env.cmd(&["probe", "build", "read", "alias"]);
    assert_eq!((answer.code, answer.refusal()), (126, "mask-alias"), "{answer:?}");
    assert_eq!(env.records_of("intent").len(), 0);
    fs::remove_file(&alias).expect("the alias");
    env.refused("build", &["read", ".env"], &UNREADABLE);
}

/// Whatever shows the place: an absolute grant, and names that lead to it through a link.
#[test]
fn a_mask_outside_the_workspace_hides_as_one_inside() {
    let Some(env) = Env::new() else { return };
    let other = env.path("home/other");
    fs::create_dir(&other).expect("a folder");
    let seen = env.outside_file("home/other/seen", "seen");
    let secret = env.outside_file("home/other/secret", "SECRET=1");
    symlink(&other, env.path("home/link")).expect("a link");
    symlink(env.workspace(), env.path("home/ws")).expect("a link");
    let read = format!("[[read]]\npath = \"{}\"\nwhy = \"r\"\n", other.display());
    let mask = |path: &str| format!("[[mask]]\npath = \"{path}\"\nwhy = \"m\"\n");
    let home = env.path("home");
    let home = home.to_str().expect("UTF-8");
    // Hidden, or no run at all: never shown.
    let hidden = |profile: &str, path: &str| {
        assert_eq!(env.outside(&["read", path]), "ok");
        let answer = env.cmd(&["probe", profile, "read", path]);
        let hidden = ["EACCES", "ENOENT"].contains(&answer.stdout().trim());
        assert!(hidden || answer.outcome() == "refused", "{path} in {profile}: {answer:?}");
    };
    for (name, masked) in [("near", secret.clone()), ("linked", format!("{home}/link/secret"))] {
        env.profile(name, "read-only", &format!("{read}{}", mask(&masked)));
        hidden(name, &secret);
    }
    // A template that sees nothing of the workspace still sees what its profile names.
    env.profile("blind", "none", &format!("{read}{}", mask(&secret)));
    env.allowed("blind", &["read", &seen]);
    env.denied("blind", &["read", &secret], &UNREADABLE);
    // A grant inside what is masked contradicts it.
    let deep = env.path("home/other/deep");
    fs::create_dir(&deep).expect("a folder");
    let within = format!("[[read]]\npath = \"{}\"\nwhy = \"r\"\n", deep.display());
    env.profile("within", "read-only", &format!("{within}{}", mask(&format!("{home}/other"))));
    let answer = env.cmd(&["probe", "within", "ids"]);
    assert_eq!((answer.code, answer.refusal()), (126, "profile-unavailable"), "{answer:?}");
    // The folder around the workspace shows it a second time.
    let inner = env.file(".env", "SECRET=1");
    let around = env.path("").to_str().expect("UTF-8").trim_end_matches('/').to_owned();
    let around = format!("[[read]]\npath = \"{around}\"\nwhy = \"r\"\n");
    env.profile("around", "read-only", &format!("{around}{}", mask("{workspace}/.env")));
    hidden("around", &inner);
    // What is not seen anyway needs no cover.
    env.profile("unseen", "read-only", &format!("{read}{}", mask(&format!("{home}/none"))));
    env.allowed("unseen", &["read", &seen]);
    // An absolute path that leads into the workspace covers there.
    env.file("keys", "SECRET=1");
    env.profile(
        "inside",
        "workspace-write",
        &format!("{WRITES}{}", mask(&format!("{home}/ws/keys"))),
    );
    env.denied("inside", &["read", "keys"], &UNREADABLE);
}

/// A host program that makes the file while the command runs is not hidden: a mask covers what
/// was there. What is tested is that the command cannot make the host believe in a cover.
#[test]
fn an_absent_masked_file_is_not_made_on_the_host() {
    let Some(env) = Env::new() else { return };
    let mut content = String::new();
    env.allowed("build", &["create", "other"]);
    assert!(!env.workspace().join(".env").exists());
    env.allowed("build", &["create", ".env"]);
    let file = fs::File::open(env.workspace().join(".env"))
        .and_then(|mut file| file.read_to_string(&mut content));
    assert!(file.is_ok() && content == "probe", "the command's own file, not a cover: {content}");
    symlink("x", env.workspace().join("still-usable")).expect("a link");
}
