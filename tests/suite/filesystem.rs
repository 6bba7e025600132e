//! What a command of each kind of profile can read and write.

use crate::support::twin::{WRITES, host, tree};
use crate::support::{Env, is_root, skip};
use std::fs;
use std::path::Path;

const HIDDEN: [&str; 2] = ["ENOENT", "EACCES"];
const UNWRITABLE: [&str; 2] = ["EROFS", "EACCES"];
/// What a rename or link answers in addition where it would cross from one mount to another.
const UNLINKABLE: [&str; 4] = ["EROFS", "EACCES", "EXDEV", "EBUSY"];
const SHIPPED: [&str; 4] = ["look", "repo", "build", "gate"];

/// Every way to change a folder, its files, or what is known about them. The owner may do each.
const CHANGES: [&[&str]; 14] = [
    &["write", "@/a"],
    &["create", "@/new"],
    &["truncate", "@/a"],
    &["open-mode", "@/a", "0", "0"],
    &["mkdir", "@/new"],
    &["rename", "@/a", "@/new"],
    &["exchange", "@/a", "@/d/b"],
    &["link", "@/a", "@/new"],
    &["symlink", "a", "@/new"],
    &["unlink", "@/a"],
    &["chmod", "@/a", "0o600"],
    &["utimes", "@/a"],
    &["setxattr", "@/a"],
    &["chown", "@/a", "0xffffffff", "0xffffffff"],
];

const SYSTEM: [&[&str]; 8] = [
    &["create", "/usr/pinfold-probe"],
    &["mkdir", "/usr/lib/pinfold-probe"],
    &["create", "/etc/pinfold-probe"],
    &["create", "/pinfold-probe"],
    &["create", "/dev/pinfold-probe"],
    &["write", "/etc/passwd"],
    &["write", "/usr/bin/env"],
    &["chmod", "/etc/passwd", "0o666"],
];

#[test]
fn a_file_outside_cannot_be_read_or_written() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let canary = env.outside_file("canary", "old");
    for profile in SHIPPED.into_iter().chain(["read", "none"]) {
        env.denied(profile, &["read", &canary], &HIDDEN);
        env.denied(profile, &["write", &canary], &["ENOENT", "EACCES", "EROFS"]);
    }
}

#[test]
fn a_read_only_command_cannot_write_the_workspace_and_a_build_can() {
    let Some(env) = Env::new() else { return };
    let file = env.file("a.txt", "a");
    env.denied("read", &["write", &file], &UNWRITABLE);
    env.denied("read", &["create", "new.txt"], &UNWRITABLE);
    env.allowed("build", &["write", &file]);
    env.allowed("build", &["create", "new.txt"]);
    assert_eq!(fs::read_to_string(env.workspace().join("new.txt")).expect("made"), "probe");
}

#[test]
fn a_read_only_command_cannot_change_the_workspace_in_any_way() {
    let Some(env) = Env::new() else { return };
    let make = env.fill(nix::unistd::geteuid().as_raw());
    for profile in ["look", "read"] {
        env.denied_on(profile, &env.workspace(), &make, &CHANGES, &UNLINKABLE);
    }
}

#[test]
fn read_only_access_narrows_a_profile_that_may_write() {
    let Some(env) = Env::new() else { return };
    env.profile("narrow", "read-only", WRITES);
    let make = env.fill(nix::unistd::geteuid().as_raw());
    env.denied_on("narrow", &env.workspace(), &make, &CHANGES, &UNLINKABLE);
}

/// The control of every refusal above that the sandbox is not simply broken.
#[test]
fn a_build_can_change_the_workspace_in_every_way_but_give_it_away() {
    let Some(env) = Env::new() else { return };
    let workspace = env.workspace();
    let make = env.fill(nix::unistd::geteuid().as_raw());
    let path = |name: &str| name.replacen('@', workspace.to_str().expect("UTF-8"), 1);
    for act in CHANGES {
        make(&workspace);
        let words: Vec<String> = act.iter().map(|word| path(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        env.allowed("build", &words);
        for name in ["new", "a"] {
            let made = workspace.join(name);
            if made.is_dir() {
                fs::remove_dir(made).expect("removed");
            } else if fs::symlink_metadata(&made).is_ok() {
                fs::remove_file(made).expect("removed");
            }
        }
    }
}

#[test]
fn every_command_can_use_its_own_scratch_folders() {
    let Some(env) = Env::new() else { return };
    env.repository();
    for profile in SHIPPED.into_iter().chain(["read", "none"]) {
        env.allowed(profile, &["create", "/tmp/x"]);
        env.allowed(profile, &["mkdir", "/tmp/home/x"]);
        env.allowed(profile, &["create", "/dev/shm/x"]);
    }
    assert!(fs::symlink_metadata("/tmp/home/x").is_err(), "the scratch folder is the host's");
}

/// As the owner of the files, to whom the host would refuse nothing.
#[test]
fn no_command_can_change_anything_outside_the_workspace() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let make = env.fill(env.inner_uid());
    let errnos = ["ENOENT", "EACCES", "EROFS", "EXDEV", "EBUSY"];
    for profile in SHIPPED.into_iter().chain(["repo-init", "read", "none"]) {
        if profile == "repo-init" {
            fs::remove_dir_all(env.workspace().join(".git")).expect("no repository");
        }
        env.denied_on(profile, &env.path("home/other"), &make, &CHANGES, &errnos);
        if profile == "repo-init" {
            env.repository();
        }
    }
}

#[test]
fn no_command_can_write_system_folders_or_sees_the_rest_of_the_host() {
    let Some(env) = Env::new() else { return };
    let before = fs::read_dir("/usr").expect("/usr").count();
    for profile in ["read", "build", "none"] {
        // Done outside they would change the host; that root could is known.
        let acts = SYSTEM.map(|act| act.iter().map(|&word| word.to_owned()).collect());
        for (act, answer) in SYSTEM.iter().zip(env.inside_each(profile, &acts)) {
            assert!(["EROFS", "EACCES", "EPERM"].contains(&answer.as_str()), "{act:?}: {answer}");
        }
        for hidden in ["/root", "/home", "/run", "/sys", "/boot", "/mnt", "/etc/shadow"] {
            if Path::new(hidden).exists() {
                assert_eq!(env.outside(&["exists", hidden]), "ok");
                env.refused(profile, &["exists", hidden], &["ENOENT"]);
            }
        }
    }
    assert_eq!(fs::read_dir("/usr").expect("/usr").count(), before);
}

#[test]
fn a_command_without_access_sees_an_empty_workspace_it_cannot_fill() {
    let Some(env) = Env::new() else { return };
    let file = env.file("a.txt", "a");
    let before = tree(&env.workspace());
    for act in [&["read", file.as_str()][..], &["exists", &file], &["write", &file]] {
        env.refused("none", act, &HIDDEN);
    }
    assert_eq!(env.inside("read", &["list", "."]), "[a.txt]");
    let listed = env.inside("none", &["list", "."]);
    assert!(["[]", "EACCES"].contains(&listed.as_str()), "{listed}");
    env.refused("none", &["create", "new"], &UNWRITABLE);
    assert_eq!(tree(&env.workspace()), before);
}

/// The name of another folder begins with the workspace's own.
#[test]
fn a04_a_folder_whose_name_begins_like_the_workspace_is_outside() {
    let Some(env) = Env::new() else { return };
    fs::create_dir(env.path("ws-secret")).expect("a folder");
    let path = env.outside_file("ws-secret/f", "secret");
    for profile in ["read", "build"] {
        env.denied(profile, &["read", "../ws-secret/f"], &HIDDEN);
        env.denied(profile, &["read", &path], &HIDDEN);
        env.denied(profile, &["write", &path], &HIDDEN);
    }
    for operand in ["../ws-secret/f", &path] {
        let answer = env.cmd(&["cat", operand]);
        assert_eq!((answer.code, answer.outcome()), (126, "refused"), "{answer:?}");
    }
}

/// Landlock knows nothing of these calls: the mount must refuse them. The files belong to the
/// command and a profile lets it see them.
#[test]
fn a25_what_landlock_does_not_know_is_refused_on_visible_files_outside() {
    let Some(env) = Env::new() else { return };
    let other = env.path("home/other");
    let read = format!("[[read]]\npath = \"{}\"\nwhy = \"seen\"\n", other.display());
    env.profile("pry", "workspace-write", &format!("{read}{WRITES}"));
    let make = env.fill(env.inner_uid());
    make(&other);
    env.allowed("pry", &["read", other.join("a").to_str().expect("UTF-8")]);
    env.denied_on("pry", &other, &make, &CHANGES, &UNLINKABLE);
}

/// A hard link would give a read-only or hidden file a second, writable name.
#[test]
fn a23_no_hard_link_leads_out_of_a_read_only_or_hidden_place() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let secret = env.file(".env", "secret");
    let canary = env.outside_file("canary", "old");
    let read = format!("[[read]]\npath = \"{canary}\"\nwhy = \"seen\"\n");
    let protect = "[[protect]]\npath = \"{workspace}/.git\"\nwhy = \"p\"\n\
                   [[mask]]\npath = \"{workspace}/.env\"\nwhy = \"m\"\n";
    env.profile("pry", "workspace-write", &format!("{read}{WRITES}{protect}"));
    env.allowed("pry", &["read", &canary]);
    let head = env.workspace().join(".git/HEAD");
    for from in [canary.as_str(), head.to_str().expect("UTF-8"), &secret] {
        let alias = env.workspace().join("alias");
        let act = ["link", from, "alias"];
        assert_eq!(env.outside(&act), "ok");
        fs::remove_file(&alias).expect("the control's link");
        env.refused("pry", &act, &["EXDEV", "EPERM", "EACCES"]);
        assert!(fs::symlink_metadata(&alias).is_err(), "{from} has a second name");
    }
    env.allowed("pry", &["link", "tracked.txt", "alias"]);
}

/// A mount that the host has within the workspace is as read-only as the rest of it.
#[test]
fn a_mount_within_a_read_only_workspace_is_read_only_too() {
    let Some(env) = Env::new() else { return };
    let Some(nested) = Nested::mount(&env) else {
        return skip("mounting within the workspace needs root");
    };
    env.repository();
    let fill = env.fill(0);
    for profile in ["read", "look"] {
        env.denied_on(profile, &nested.0, &fill, &CHANGES, &UNLINKABLE);
    }
    // Beside a part that may be written, as well.
    env.denied_on("repo", &nested.0, &fill, &CHANGES, &UNLINKABLE);
    env.allowed("repo", &["create", ".git/index.lock"]);
    fill(&nested.0);
    env.allowed("build", &["chmod", "nested/a", "0o600"]);
}

/// A file system of its own within the workspace; unmounted when dropped.
struct Nested(std::path::PathBuf);

impl Nested {
    fn mount(env: &Env) -> Option<Self> {
        let folder = env.workspace().join("nested");
        fs::create_dir(&folder).expect("a folder");
        let path = folder.to_str().expect("UTF-8");
        let mount = ["mount", "-t", "tmpfs", "tmpfs", path];
        (is_root() && host(&mount, &env.workspace())).then(|| Self(folder.clone()))
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let path = self.0.to_str().expect("UTF-8");
        assert!(host(&["umount", path], Path::new("/")), "{path} stays mounted");
    }
}
