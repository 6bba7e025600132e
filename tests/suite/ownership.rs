//! Whose files a command makes, and who it is meanwhile.

use crate::support::twin::host;
use crate::support::{Answer, Env, has_set_id, is_root, skip};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

const ALL: [&str; 6] = ["look", "repo", "build", "gate", "read", "none"];

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).expect("a file");
    (found.uid(), found.gid())
}

/// What a command can tell about itself.
fn facts(env: &Env, profile: &str) -> BTreeMap<String, String> {
    let ids = env.inside(profile, &["ids"]);
    let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.into(), value.into()));
    ids.split(' ').filter_map(pair).collect()
}

#[test]
fn a_command_has_no_rights_groups_or_way_to_get_any() {
    let Some(env) = Env::new() else { return };
    env.repository();
    for profile in ALL {
        let facts = facts(&env, profile);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(facts[set], "0000000000000000", "{set} in {profile}");
        }
        assert_eq!(facts["NoNewPrivs"], "1", "{profile}");
        assert_eq!(facts["Seccomp"], "2", "{profile}");
        if is_root() {
            assert_eq!(facts["Groups"], "", "{profile}");
        }
        // The four of each kind are equal: real, effective, saved, file system.
        for ids in [&facts["Uid"], &facts["Gid"]] {
            let mut four = ids.split(',');
            let first = four.next().expect("an id");
            assert!(four.all(|id| id == first), "{ids}");
        }
    }
}

#[test]
fn roots_commands_are_another_user_and_a_users_are_the_same_one() {
    let Some(env) = Env::new() else { return };
    for profile in ["look", "build", "none"] {
        let facts = facts(&env, profile);
        let id = |key: &str| -> u32 {
            facts[key].split(',').next().and_then(|id| id.parse().ok()).expect("an id")
        };
        if is_root() {
            assert!(id("Uid") >= 60_000 && id("Gid") >= 60_000, "{facts:?}");
        } else {
            assert_eq!(id("Uid"), nix::unistd::geteuid().as_raw());
            assert_eq!(id("Gid"), nix::unistd::getegid().as_raw());
        }
        let recorded = env.records_of("intent").pop().expect("an intent");
        assert_eq!(recorded["uid"], id("Uid"), "the record names the same id");
    }
}

/// Two runs at once share neither an id nor what the kernel counts by it.
#[test]
fn two_runs_of_root_at_once_have_different_ids() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return skip("an ordinary user has one id");
    }
    let mut first = env.start(&["--", "probe", "build", "closed"]);
    for _ in 0..100 {
        if env.records_of("started").len() == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    env.inside("build", &["ids"]);
    let uids: Vec<_> = env.records_of("intent").iter().map(|i| i["uid"].clone()).collect();
    first.kill().expect("SIGKILL");
    first.wait().expect("it is gone");
    assert_eq!(uids.len(), 2);
    assert_ne!(uids[0], uids[1]);
}

#[test]
fn a_command_finds_itself_in_the_account_files() {
    let Some(env) = Env::new() else { return };
    env.shell("tsh", "workspace-write", "build");
    let answer = env.cmd(&["tsh", "-c", "whoami; id -gn; getent passwd \"$(id -u)\""]);
    let lines: Vec<&str> = answer.stdout().lines().collect();
    let [user, group, entry] = lines[..] else { panic!("{answer:?}") };
    assert_eq!((user, group), ("agent", "agent"));
    assert!(entry.contains(":/tmp/home:"), "{entry}");
    let passwd = env.inside("build", &["print", "/etc/passwd"]);
    assert!(passwd.lines().count() <= 2, "nobody else of the host is listed: {passwd}");
}

/// Owners tried: root, and one that no account of the host has.
#[test]
fn what_roots_commands_make_belongs_to_the_owner_of_the_workspace() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return skip("only root's commands are another user");
    }
    for id in [0, 1234] {
        let workspace = env.workspace();
        fs::remove_dir_all(&workspace).expect("the last one's");
        fs::create_dir(&workspace).expect("a workspace");
        env.repository();
        let mut all = vec![workspace.clone()];
        while let Some(next) = all.pop() {
            chown(&next, Some(id), Some(id)).expect("an owner");
            if next.is_dir() {
                all.extend(fs::read_dir(next).expect("a folder").map(|e| e.expect("one").path()));
            }
        }
        for (profile, act) in [
            ("build", &["create", "made"][..]),
            ("build", &["mkdir", "folder"]),
            ("build", &["symlink", "made", "link"]),
            ("build", &["mknod", "pipe", "0o10644", "0", "0"]),
            ("build", &["write", "tracked.txt"]),
            ("repo", &["create", ".git/index.lock"]),
        ] {
            env.allowed(profile, act);
        }
        let names = ["made", "folder", "link", "pipe", "tracked.txt", ".git/index.lock"];
        for name in names {
            assert_eq!(owner(&workspace.join(name)), (id, id), "{name}");
        }
        // To the command the files are its own.
        env.allowed("build", &["chmod", "made", "0o600"]);
        env.refused("build", &["chmod", "made", "0o4755"], &["EPERM"]);
        env.refused("build", &["chown", "made", "0", "0"], &["EPERM"]);
        assert!(!has_set_id(&workspace.join("made")));
    }
}

/// A file of a third owner stays with it, and is as closed as its mode says.
#[test]
fn a_foreign_file_in_the_workspace_keeps_its_owner() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return skip("only root can give files away");
    }
    let foreign = env.file("foreign", "x");
    chown(&foreign, Some(4321), Some(4321)).expect("an owner");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o600)).expect("a mode");
    assert_eq!(env.outside(&["read", &foreign]), "ok");
    env.refused("build", &["read", &foreign], &["EACCES"]);
    env.refused("build", &["chmod", &foreign, "0o666"], &["EPERM"]);
    assert_eq!(owner(Path::new(&foreign)), (4321, 4321));
}

/// A workspace on overlayfs, which takes no swapped owners; unmounted when dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn mount(env: &Env, owner: u32) -> Option<Self> {
        let base = env.path(&format!("overlay-{owner}"));
        for name in ["lower", "upper", "work", "ws"] {
            fs::create_dir_all(base.join(name)).ok()?;
        }
        fs::write(base.join("lower/a"), "old").ok()?;
        for name in ["lower", "lower/a", "upper"] {
            chown(base.join(name), Some(owner), Some(owner)).ok()?;
        }
        let at = |name: &str| base.join(name).display().to_string();
        let (lower, upper, work) = (at("lower"), at("upper"), at("work"));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mount = ["mount", "-t", "overlay", "overlay", "-o", &options, &at("ws")];
        (is_root() && host(&mount, &base)).then(|| Self(base.join("ws")))
    }

    fn run(&self, env: &Env, profile: &str, act: &[&str]) -> Answer {
        let workspace = self.0.to_str().expect("UTF-8");
        let head = ["--json", "--workspace", workspace, "--", "probe", profile];
        env.run(&[&head, act].concat())
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let path = self.0.to_str().expect("UTF-8");
        assert!(host(&["umount", path], Path::new("/")), "the overlay stays mounted");
    }
}

#[test]
fn where_owners_cannot_be_swapped_reading_works_and_writing_as_root_is_refused_with_the_fix() {
    let Some(env) = Env::new() else { return };
    let Some(overlay) = Overlay::mount(&env, 0) else {
        return skip("an overlay needs root and a kernel that has it");
    };
    let read = overlay.run(&env, "read", &["read", "a"]);
    assert_eq!((read.outcome(), read.stdout().trim()), ("ok", "ok"), "{read:?}");
    let denied = overlay.run(&env, "read", &["write", "a"]);
    assert!(["EROFS", "EACCES"].contains(&denied.stdout().trim()), "{denied:?}");
    for profile in ["build", "gate"] {
        let answer = overlay.run(&env, profile, &["write", "a"]);
        assert_eq!((answer.code, answer.refusal()), (126, "workspace"), "{answer:?}");
        let next = answer.reply["decision"]["next"].as_str().expect("a fix");
        assert!(next.contains("chown") && next.contains("run_as_owner"), "{next}");
    }
    assert_eq!(fs::read_to_string(overlay.0.join("a")).expect("there"), "old");
}

#[test]
fn where_owners_cannot_be_swapped_a_writing_command_is_the_ordinary_owner() {
    let Some(env) = Env::new() else { return };
    let Some(overlay) = Overlay::mount(&env, 1234) else {
        return skip("an overlay needs root and a kernel that has it");
    };
    let done = |act: &[&str]| overlay.run(&env, "build", act).stdout().trim().to_owned();
    assert_eq!(done(&["write", "a"]), "ok");
    assert_eq!(done(&["create", "made"]), "ok");
    assert_eq!(owner(&overlay.0.join("made")), (1234, 1234));
    let ids = done(&["ids"]);
    assert!(ids.contains("Uid=1234,1234,1234,1234") && ids.contains("Groups= "), "{ids}");
    assert!(ids.contains("CapEff=0000000000000000"), "{ids}");
    assert_eq!(done(&["chmod", "made", "0o4755"]), "EPERM");
    assert!(!has_set_id(&overlay.0.join("made")));
}

#[test]
fn run_as_owner_lets_a_command_of_root_be_root_without_any_right() {
    let Some(env) = Env::new() else { return };
    let Some(overlay) = Overlay::mount(&env, 0) else {
        return skip("an overlay needs root and a kernel that has it");
    };
    let body = format!("run_as_owner = true\n{}", crate::support::twin::WRITES);
    env.profile("owner", "workspace-write", &body);
    let canary = env.outside_file("canary", "old");
    let done = |act: &[&str]| overlay.run(&env, "owner", act).stdout().trim().to_owned();
    assert_eq!(done(&["write", "a"]), "ok");
    let ids = done(&["ids"]);
    assert!(ids.contains("Uid=0,0,0,0") && ids.contains("Groups= "), "{ids}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(ids.contains(&format!("{set}=0000000000000000")), "{ids}");
    }
    for mode in ["0o4755", "0o2755"] {
        assert_eq!(done(&["chmod", "a", mode]), "EPERM");
        assert_eq!(done(&["open-mode", "new", "0o100", mode]), "EPERM");
    }
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"] {
        let answer = done(&["open-mode", path, "0", "0"]);
        assert!(["EROFS", "EACCES"].contains(&answer.as_str()), "{path}: {answer}");
    }
    let device = done(&["mknod", "x", "0o60600", "8", "0"]);
    assert!(["EPERM", "EACCES"].contains(&device.as_str()), "{device}");
    assert!(["ENOENT", "EACCES"].contains(&done(&["read", &canary]).as_str()));
    assert!(!has_set_id(&overlay.0.join("a")));
    assert_eq!(env.records_of("intent").pop().expect("one")["uid"], 0, "every record says so");
}
