//! What a command finds around its workspace: nothing of the host that could be used or changed.

use crate::support::{Env, binary, is_root, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const HIDDEN: [&str; 2] = ["ENOENT", "EACCES"];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Opens for writing without writing: root can do that to each of these outside.
#[test]
fn a40_the_switches_of_the_kernel_cannot_be_turned() {
    let Some(env) = Env::new() else { return };
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
    ] {
        if !Path::new(path).exists() {
            continue;
        }
        let act = ["open-mode", path, "0", "0"];
        if is_root() {
            assert_eq!(env.outside(&act), "ok", "the control proves nothing: {path}");
        }
        for profile in ["read", "build", "none"] {
            env.refused(profile, &act, &["EROFS", "EACCES", "ENOENT", "EPERM"]);
        }
    }
    for folder in ["/sys", "/sys/kernel/debug", "/sys/fs/bpf", "/sys/fs/cgroup"] {
        env.refused("build", &["list", folder], &["ENOENT", "EACCES"]);
    }
}

#[test]
fn a42_no_running_program_of_the_sandbox_can_be_overwritten() {
    let Some(env) = Env::new() else { return };
    let pinfold = binary("pinfold");
    let before = [fs::read(&pinfold), fs::read(env.path("bin/probe"))].map(|b| b.expect("bytes"));
    let refused = ["EACCES", "EROFS", "ETXTBSY", "EPERM", "ENOENT"];
    for path in ["/proc/self/exe", "/proc/1/exe", "/proc/2/exe", "/proc/thread-self/exe"] {
        for profile in ["read", "build"] {
            env.refused(profile, &["write", path], &refused);
            env.refused(profile, &["truncate", path], &refused);
        }
    }
    // The init of the tree comes from a memory file, so its link leads to no file of the host.
    let init = env.inside("build", &["readlink", "/proc/1/exe"]);
    assert!(init.starts_with("/memfd:") || init == "EACCES", "{init}");
    assert_eq!(env.outside(&["exists", text(&pinfold)]), "ok");
    env.refused("build", &["exists", text(&pinfold)], &["ENOENT"]);
    let after = [fs::read(&pinfold), fs::read(env.path("bin/probe"))].map(|b| b.expect("bytes"));
    assert!(before == after, "a program changed");
}

#[test]
fn a51_the_scratch_folder_is_not_the_hosts() {
    let Some(env) = Env::new() else { return };
    let planted = tempfile::NamedTempFile::new_in("/tmp").expect("a file in /tmp");
    let path = text(planted.path());
    for profile in ["look", "read", "build"] {
        env.denied(profile, &["read", path], &["ENOENT"]);
        assert_eq!(env.inside(profile, &["list", "/tmp"]), "[home]");
        // The same name can be made inside, and is another file.
        env.allowed(profile, &["create", path]);
        env.allowed(profile, &["symlink", text(&env.path("home")), "/tmp/pinfold-probe-link"]);
    }
    assert_eq!(fs::read(planted.path()).expect("there"), b"");
    assert!(fs::symlink_metadata("/tmp/pinfold-probe-link").is_err());
}

/// What the supervisor keeps is for its own user alone.
#[test]
fn a51_the_supervisors_files_are_private_and_lie_in_its_own_folder() {
    let Some(env) = Env::new() else { return };
    use std::os::unix::fs::PermissionsExt;
    env.allowed("build", &["create", "x"]);
    let mut folders = vec![env.path("state")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let found = entry.metadata().expect("a file");
            let mode = found.permissions().mode();
            assert!(!found.is_symlink(), "{entry:?}");
            assert_eq!(mode & 0o022, 0, "others can write {entry:?}");
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                assert_eq!(mode & 0o077, 0, "others can read {entry:?}: {mode:o}");
            }
        }
    }
    assert!(files > 0, "the supervisor keeps something");
    let mode = env.path("state").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o077, 0, "the state folder is open to others");
}

/// Dotfiles, autostart files and tool caches of the home folder: what runs on the host later.
#[test]
fn a52_a53_nothing_in_the_home_folder_can_be_made_or_changed() {
    let Some(env) = Env::new() else { return };
    let make = |home: &Path| {
        for file in [
            ".bashrc",
            ".config/autostart/x.desktop",
            ".config/systemd/user/x.service",
            ".cargo/bin/x",
            ".local/bin/git",
            ".npm/_cacache/x",
            ".cache/go-build/x",
        ] {
            let path = home.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(&path, "old").expect("a file");
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))
                .expect("a mode");
        }
    };
    let acts: [&[&str]; 8] = [
        &["write", "@/.bashrc"],
        &["create", "@/.profile"],
        &["write", "@/.config/autostart/x.desktop"],
        &["write", "@/.config/systemd/user/x.service"],
        &["write", "@/.cargo/bin/x"],
        &["create", "@/.local/bin/new"],
        &["write", "@/.npm/_cacache/x"],
        &["rename", "@/.cache/go-build/x", "@/.cache/go-build/y"],
    ];
    // The home folder of the supervisor's user, as far as this test is concerned.
    let home = env.path("home/of-the-user");
    fs::create_dir(&home).expect("a folder");
    for profile in ["look", "read", "build"] {
        env.denied_on(profile, &home, &make, &acts, &HIDDEN);
    }
    env.shell("tsh", "workspace-write", "build");
    let answer = env.cmd(&["tsh", "-c", "echo x >> ~/.bashrc && echo $HOME"]);
    assert_eq!(answer.stdout(), "/tmp/home\n", "{answer:?}");
    for spool in ["/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/at", "/etc/cron.d"] {
        if Path::new(spool).exists() {
            env.denied("build", &["exists", spool], &["ENOENT"]);
        }
    }
}

#[test]
fn a55_only_harmless_devices_are_there() {
    let Some(env) = Env::new() else { return };
    let there = ["null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "ptmx"];
    for name in there {
        env.allowed("build", &["exists", &format!("/dev/{name}")]);
    }
    for name in ["null", "zero", "urandom"] {
        env.allowed("build", &["read", &format!("/dev/{name}")]);
    }
    env.allowed("build", &["write", "/dev/null"]);
    let links = ["fd", "stdin", "stdout", "stderr"];
    let mut tried = 0;
    for entry in fs::read_dir("/dev").expect("/dev") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if there.contains(&name.as_str()) || links.contains(&name.as_str()) {
            continue;
        }
        tried += 1;
        let acts = [vec!["exists".to_owned(), format!("/dev/{name}")]];
        if tried < 40 {
            assert_eq!(env.inside_each("build", &acts), ["ENOENT"], "/dev/{name}");
        }
    }
    assert!(tried > 0, "the host has no other device, so nothing was shown");
    for name in ["mem", "kmsg", "kvm", "fuse", "sda", "dri/card0", "vda", "loop-control"] {
        env.refused("build", &["read", &format!("/dev/{name}")], &HIDDEN);
    }
}

/// The whole of it, which Landlock does not let anybody list.
#[test]
fn a55_the_device_folder_holds_nothing_else() {
    let Some(env) = Env::without("landlock") else { return };
    let listed = env.inside("build", &["list", "/dev"]);
    let all = "[fd full null ptmx pts random shm stderr stdin stdout tty urandom zero]";
    assert_eq!(listed, all);
    assert_eq!(env.inside("build", &["list", "/"]).matches(".cover").count(), 1, "own root");
}

/// Nobody cleans up by name: the scratch folder ends with its mount.
#[test]
fn a58_a_scratch_folder_replaced_by_a_link_costs_nobody_anything() {
    let Some(env) = Env::new() else { return };
    let canary = env.path("home/canary");
    fs::create_dir(&canary).expect("a folder");
    fs::write(canary.join("keep"), "old").expect("a file");
    fs::set_permissions(&canary, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("a mode");
    env.shell("tsh", "workspace-write", "build");
    let script = format!(
        "rmdir /tmp/home && ln -s {} /tmp/home && mv /tmp /tmp2; rmdir /tmp; ls /tmp/home/; true",
        canary.display()
    );
    let answer = env.cmd(&["tsh", "-c", &script]);
    assert_eq!((answer.outcome(), answer.stdout()), ("ok", ""), "{answer:?}");
    let said = answer.reply["stderr"].as_str().expect("text");
    assert!(said.contains("/tmp/home/"), "the link leads nowhere inside: {said}");
    assert!(said.contains("mv: ") && said.contains("rmdir: "), "/tmp itself stays: {said}");
    assert_eq!(fs::read_to_string(canary.join("keep")).expect("there"), "old");
    // The same with no home folder known to the supervisor.
    let mut command = env.command(&["run", "--", "tsh", "-c", script.as_str()]);
    let done = command.env_remove("HOME").output().expect("pinfold starts");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read_to_string(canary.join("keep")).expect("there"), "old");
    assert!(Path::new("/tmp").is_dir());
}

#[test]
fn a43_names_are_protected_on_a_folder_that_folds_case() {
    let Some(env) = Env::new() else { return };
    let Some(folder) = Folding::mount(&env) else {
        return skip(
            "no file system that folds case can be made here (needs root, mkfs.ext4 and casefold)",
        );
    };
    let workspace = text(&folder.0);
    fs::create_dir_all(folder.0.join(".git/hooks")).expect("folders");
    fs::write(folder.0.join(".ENV"), "SECRET=1").expect("a file");
    assert!(folder.0.join(".env").exists(), "the folder folds case");
    for act in [["create", ".GIT/hooks/pre-commit"], ["create", ".Git/x"], ["read", ".ENV"]] {
        let words = [&["--json", "--workspace", workspace, "--", "probe", "build"], &act[..]];
        let answer = env.run(&words.concat());
        let denied = ["EROFS", "EACCES"].contains(&answer.stdout().trim());
        assert!(denied || answer.outcome() == "refused", "{act:?}: {answer:?}");
    }
    assert_eq!(fs::read_dir(folder.0.join(".git/hooks")).expect("hooks").count(), 0);
}

/// A mounted folder that folds case; unmounted when dropped.
struct Folding(std::path::PathBuf);

impl Folding {
    fn mount(env: &Env) -> Option<Self> {
        use crate::support::twin::host;
        let (image, folder) = (env.path("image"), env.path("folding"));
        fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).ok()?;
        fs::create_dir(&folder).ok()?;
        let here = env.path("");
        let make = ["mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8", text(&image)];
        let mounted = is_root()
            && host(&make, &here)
            && host(&["mount", "-o", "loop", text(&image), text(&folder)], &here);
        if !mounted {
            return None;
        }
        let made = Self(folder.join("ws"));
        fs::create_dir(&made.0).ok()?;
        host(&["chattr", "+F", text(&made.0)], &here).then_some(made)
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        let folder = self.0.parent().expect("a parent");
        assert!(crate::support::twin::host(&["umount", text(folder)], Path::new("/")));
    }
}

/// A name of the workspace may hold any byte but a slash; no record is torn by one.
#[test]
fn a45_names_that_are_not_utf8_or_have_line_breaks_stay_apart_and_whole() {
    let Some(env) = Env::new() else { return };
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    env.shell("tsh", "workspace-write", "build");
    let script = r#"touch "$(printf 'a\377')" "$(printf 'a\376')" "$(printf 'new\nline')""#;
    assert_eq!(env.cmd(&["tsh", "-c", script]).outcome(), "ok");
    let names = [&b"a\xff"[..], b"a\xfe", b"new\nline"];
    for name in names {
        assert!(env.workspace().join(OsStr::from_bytes(name)).exists(), "{name:?}");
    }
    assert_eq!(fs::read_dir(env.workspace()).expect("a folder").count(), 3);
    // The names come back in output, and as operands they get an answer that is recorded.
    assert_eq!(env.cmd(&["ls"]).outcome(), "ok");
    for name in names {
        let answer = env.cmd(&[OsStr::new("cat"), OsStr::from_bytes(name)]);
        assert!(["ok", "refused"].contains(&answer.outcome()), "{answer:?}");
    }
    let shown = env.pinfold(&["trail", "show", "--json"]);
    let lines = String::from_utf8(shown.stdout).expect("UTF-8");
    assert_eq!(lines.lines().count(), env.records().len());
    assert!(env.pinfold(&["trail", "verify"]).status.success(), "the trail verifies");
    symlink("x", env.workspace().join("still-usable")).expect("a link");
}
