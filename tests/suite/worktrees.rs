//! A workspace whose `.git` is a file: it leads somewhere only where the operator registered it,
//! and then git can record without reaching what decides which programs git on the host starts.

use crate::config::edit;
use crate::support::{Answer, Env, is_root};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What answers where a mount or Landlock stands in the way.
const HELD: [&str; 4] = ["EROFS", "EBUSY", "EXDEV", "EACCES"];

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    let settings = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "safe.directory=*"];
    command.args(settings).args(["-c", "protocol.file.allow=always"]).args(words);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let done = command.current_dir(folder).output().expect("git is installed");
    assert!(done.status.success(), "git {words:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Makes a repository beside the workspace, and the workspace a linked worktree of it.
fn linked(env: &Env) -> PathBuf {
    let main = env.path("main");
    fs::create_dir(&main).expect("a folder");
    fs::write(main.join("tracked.txt"), "tracked\n").expect("a file");
    git(&main, &["init", "-q", "-b", "main"]);
    git(&main, &["add", "tracked.txt"]);
    git(&main, &["commit", "-q", "-m", "first"]);
    fs::remove_dir(env.workspace()).expect("the empty workspace");
    git(&main, &["worktree", "add", "-q", "-b", "side", text(&env.workspace())]);
    main.join(".git")
}

fn register(env: &Env) {
    edit(env, "pinfold.toml", |text| format!("{text}worktrees = [\"../ws\"]\n"));
}

/// A linked worktree that the operator registered, and the folder that its repository shares.
fn registered() -> Option<(Env, PathBuf)> {
    let env = Env::new()?;
    let common = linked(&env);
    register(&env);
    Some((env, common))
}

/// Every template for git is refused, says why with these words, and ran nothing.
fn refuses(env: &Env, words: &[&str]) -> Answer {
    for call in [&["git", "status"][..], &["git", "commit", "-m", "x"]] {
        let intents = env.records_of("intent").len();
        let answer = env.cmd(call);
        assert_eq!((answer.code, answer.refusal()), (126, "git-redirect"), "{answer:?}");
        let message = answer.reply["message"].as_str().expect("a message");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
        assert_eq!(env.records_of("intent").len(), intents, "something ran");
    }
    env.cmd(&["git", "status"])
}

/// Writes what `.git` of the workspace says, as its owner.
fn point(env: &Env, target: &str) {
    fs::write(env.workspace().join(".git"), format!("gitdir: {target}\n")).expect("a gitfile");
}

fn commits(env: &Env, folder: &Path) {
    for words in [&["add", "new.txt"][..], &["commit", "-m", "second"], &["status", "--short"]] {
        fs::write(folder.join("new.txt"), "new\n").expect("a file");
        let answer = env.cmd(&[&["git"], words].concat());
        assert_eq!(answer.outcome(), "ok", "{words:?}: {answer:?}");
    }
    assert_eq!(git(folder, &["log", "--format=%s"]), "second\nfirst");
    assert_eq!(git(folder, &["status", "--short"]), "");
}

#[test]
fn e26_g11_a_registered_worktree_commits_and_reaches_nothing_that_names_programs() {
    let Some((env, common)) = registered() else { return };
    commits(&env, &env.workspace());
    assert_eq!(git(&env.path("main"), &["log", "--format=%s", "main"]), "first");
    git(&env.path("main"), &["fsck", "--strict"]);
    let place = |name: &str| common.join(name).to_str().expect("UTF-8").to_owned();
    // Each is done outside first, which shows that nothing but the sandbox stands in the way.
    for (act, name) in [
        ("create", "hooks/x"),
        ("write", "config"),
        ("create", "info/attributes"),
        ("create", "commondir"),
        ("create", "config.worktree"),
        ("create", "worktrees/other"),
        ("create", "packed-refs.lock"),
        ("write", "HEAD"),
        ("write", "worktrees/ws/commondir"),
        ("write", "worktrees/ws/gitdir"),
        ("mkdir", "modules"),
        ("mkdir", "worktrees/ws/hooks"),
    ] {
        let place = place(name);
        let before = fs::read(&place).ok();
        assert_eq!(env.outside(&[act, &place]), "ok", "the control of {name}");
        match before {
            Some(content) => fs::write(&place, content).expect("as it was"),
            None if fs::symlink_metadata(&place).is_err() => {}
            None if act == "mkdir" => fs::remove_dir(&place).expect("as it was"),
            None => fs::remove_file(&place).expect("as it was"),
        }
        for profile in ["repo", "build", "read", "none"] {
            let answer = env.inside(profile, &[act, &place]);
            let none = profile == "none" && answer == "ENOENT";
            assert!(none || HELD.contains(&answer.as_str()), "{name} in {profile}: {answer}");
        }
    }
    env.allowed("repo", &["create", &place("objects/made")]);
    env.allowed("repo", &["mkdir", &place("refs/heads/made")]);
    env.allowed("repo", &["create", &place("worktrees/ws/index.lock")]);
    for profile in ["build", "read"] {
        env.allowed(profile, &["read", &place("HEAD")]);
        env.refused(profile, &["create", &place("objects/more")], &HELD);
    }
    for profile in ["look", "none"] {
        env.refused(profile, &["read", &place("HEAD")], &["ENOENT", "EACCES"]);
    }
}

/// Landlock alone holds what lies in the shared folder; mounts alone hold all of it.
#[test]
fn e26_either_layer_alone_keeps_the_shared_settings() {
    for (layer, held) in [("mounts", &["EACCES"]), ("landlock", &["EROFS"])] {
        let Some(env) = Env::without(layer) else { return };
        let common = linked(&env);
        register(&env);
        open_to_all(&common);
        let hook = common.join("hooks/x");
        env.denied("repo", &["create", text(&hook)], held);
        env.refused("repo", &["write", text(&common.join("config"))], held);
        env.refused("repo", &["create", text(&common.join("info/y"))], held);
        env.allowed("repo", &["create", text(&common.join("objects/made"))]);
    }
    let Some(env) = Env::without("mounts,landlock") else { return };
    let common = linked(&env);
    register(&env);
    open_to_all(&common);
    env.allowed("repo", &["create", text(&common.join("hooks/x"))]);
}

/// Without the mount that swaps owners the command of root is nobody, so modes would answer first.
fn open_to_all(folder: &Path) {
    let opened = Command::new("chmod").args(["-R", "a+rwX"]).arg(folder).status();
    assert!(opened.expect("chmod starts").success());
}

#[test]
fn a_submodule_that_is_registered_commits_and_keeps_its_settings() {
    let Some(env) = Env::new() else { return };
    let other = env.path("other");
    fs::create_dir(&other).expect("a folder");
    git(&other, &["init", "-q", "-b", "main"]);
    git(&other, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&env.workspace(), &["init", "-q", "-b", "main"]);
    git(&env.workspace(), &["submodule", "--quiet", "add", text(&other), "libs/sub"]);
    let sub = env.workspace().join("libs/sub");
    let call = |words: &[&str]| {
        let line: Vec<&str> =
            ["--json", "--workspace", "libs/sub", "--"].into_iter().chain(words.to_vec()).collect();
        env.run(&line)
    };
    assert_eq!(call(&["git", "status"]).refusal(), "git-redirect");
    // Git would take the nearest one from a working folder too.
    let near = env.run(&["--json", "--cwd", "libs/sub", "--", "git", "status"]);
    assert_eq!(near.refusal(), "git-redirect", "{near:?}");
    // The repository around it has what only a person answers for, and is no redirect.
    assert_eq!(env.cmd(&["git", "status"]).refusal(), "nobody-to-ask");
    edit(&env, "pinfold.toml", |text| format!("{text}worktrees = [\"../ws/libs/sub\"]\n"));
    fs::write(sub.join("new.txt"), "new\n").expect("a file");
    for words in [&["git", "add", "new.txt"][..], &["git", "commit", "-m", "second"]] {
        let answer = call(words);
        assert_eq!(answer.outcome(), "ok", "{answer:?}");
    }
    assert_eq!(git(&sub, &["log", "--format=%s"]), "second\nfirst");
    let admin = env.workspace().join(".git/modules/libs/sub");
    for (act, name) in [("create", "hooks/x"), ("write", "config"), ("create", "info/attributes")] {
        let place = admin.join(name);
        let answer = call(&["probe", "repo", act, text(&place)]);
        assert!(HELD.contains(&answer.stdout().trim()), "{name}: {answer:?}");
    }
    let lock = admin.join("index.lock");
    assert_eq!(call(&["probe", "repo", "create", text(&lock)]).stdout(), "ok\n");
}

/// The gitfile is held also by profiles that write what `.git` would be.
#[test]
fn e12_an_unregistered_gitfile_refuses_git_and_cannot_be_changed() {
    let Some(env) = Env::new() else { return };
    // The control: git on the host follows the file and starts what that repository names.
    git(&env.workspace(), &["init", "-q", "evil"]);
    let evil = env.workspace().join("evil");
    fs::rename(evil.join(".git"), env.workspace().join("store")).expect("a rename");
    let fired = env.path("fired");
    let monitor = env.file("monitor", &format!("#!/bin/sh\ntouch {}\n", fired.display()));
    fs::set_permissions(&monitor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("m");
    git(&env.workspace().join("store"), &["config", "core.fsmonitor", &monitor]);
    point(&env, "./store");
    git(&env.workspace(), &["status"]);
    assert!(fired.exists(), "plain git starts it");
    fs::remove_file(&fired).expect("the mark");
    refuses(&env, &["/ws/.git", "./store", "`worktrees`"].map(|word| word));
    assert!(!fired.exists());
    let file = env.workspace().join(".git");
    for profile in ["build", "repo", "gate"] {
        for act in [&["write", ".git"][..], &["rename", ".git", "old"], &["unlink", ".git"]] {
            env.refused(profile, act, &HELD);
        }
        env.allowed(profile, &["read", ".git"]);
    }
    assert_eq!(fs::read_to_string(&file).expect("there"), "gitdir: ./store\n");
    // The control of those acts, and that a registration does not make it a worktree's.
    register(&env);
    refuses(
        &env,
        &["neither", "./store"].map(|word| if word == "./store" { "ws/store" } else { word }),
    );
    assert_eq!(env.outside(&["write", ".git"]), "ok");
    assert_eq!(env.outside(&["rename", ".git", "old"]), "ok");
    symlink("store", &file).expect("a link");
    refuses(&env, &["a link to store"]);
}

#[test]
fn e15_what_a_gitfile_names_is_not_granted() {
    let Some((env, common)) = registered() else { return };
    let secret = env.path("home/.ssh");
    fs::create_dir(&secret).expect("a folder");
    let key = env.outside_file("home/.ssh/key", "SECRET");
    // Before it was ever seen, and unregistered places that are no worktree's folder.
    point(&env, text(&secret));
    refuses(&env, &["neither", ".ssh"]);
    assert_eq!(env.outside(&["read", &key]), "ok");
    for profile in ["repo", "build", "read"] {
        env.refused(profile, &["read", &key], &["ENOENT", "EACCES"]);
    }
    // A part of the true repository that is a link leads nowhere either.
    point(&env, text(&common.join("worktrees/ws")));
    fs::rename(common.join("objects"), env.path("objects")).expect("a rename");
    symlink(&secret, common.join("objects")).expect("a link");
    let answer = env.cmd(&["git", "commit", "-m", "x"]);
    assert_eq!((answer.code, answer.refusal()), (126, "git-state"), "{answer:?}");
    assert_eq!(env.records_of("intent").len(), 3, "the three reads above and nothing else");
    fs::remove_file(common.join("objects")).expect("the link");
    fs::rename(env.path("objects"), common.join("objects")).expect("a rename");
    commits(&env, &env.workspace());
}

#[test]
fn a_registered_worktree_that_leads_to_another_repository_is_refused() {
    let Some((env, common)) = registered() else { return };
    let admin = common.join("worktrees/ws");
    let pointer = admin.join("gitdir");
    let right = fs::read_to_string(&pointer).expect("a pointer");
    // A worktree's folder that names another worktree.
    for (name, wrong) in [("gitdir", "/elsewhere/.git\n"), ("commondir", "../../..\n")] {
        let before = fs::read_to_string(admin.join(name)).expect("a pointer");
        fs::write(admin.join(name), wrong).expect("a pointer");
        refuses(&env, &[&format!("its file {name} names"), wrong.trim()]);
        fs::write(admin.join(name), before).expect("a pointer");
    }
    assert_eq!(env.cmd(&["git", "status"]).outcome(), "ok", "the control, seen for the first time");
    // A second repository that claims the workspace: all agrees, but it is another one.
    let copy = env.path("copy");
    let copied = Command::new("cp").arg("-a").arg(&common).arg(&copy).status().expect("cp starts");
    assert!(copied.success());
    point(&env, text(&copy.join("worktrees/ws")));
    let answer = refuses(&env, &["another folder than", "state/worktrees/"]);
    // Other commands go on, and see nothing of it.
    env.refused("build", &["read", text(&copy.join("HEAD"))], &["ENOENT", "EACCES"]);
    assert!(!answer.reply["message"].as_str().expect("a message").contains('…'), "{answer:?}");
    let seen = fs::read_dir(env.path("state/worktrees")).expect("a folder");
    for file in seen {
        fs::remove_file(file.expect("an entry").path()).expect("what was seen");
    }
    assert_eq!(env.cmd(&["git", "status"]).outcome(), "ok", "as the operator wants it");
    // In the workspace itself a command could make it.
    let inside = env.workspace().join("inside");
    fs::rename(&copy, &inside).expect("a rename");
    point(&env, text(&inside.join("worktrees/ws")));
    refuses(&env, &["which commands could write themselves"]);
    // A link on the way could be pointed elsewhere.
    symlink(env.path("main"), env.path("link")).expect("a link");
    point(&env, text(&env.path("link/.git/worktrees/ws")));
    refuses(&env, &["a link stands on the way"]);
    fs::remove_file(env.workspace().join(".git")).expect("the gitfile");
    git(&env.workspace(), &["init", "-q"]);
    refuses(&env, &["it is a folder"]);
    assert_eq!(fs::read_to_string(&pointer).expect("a pointer"), right);
}

#[test]
fn a_gitfile_of_another_user_or_form_is_refused() {
    let Some((env, common)) = registered() else { return };
    let file = env.workspace().join(".git");
    let right = fs::read(&file).expect("the gitfile");
    for wrong in [&b"gitdir: /a\ngitdir: /b\n"[..], b"gitdir: /a\0b\n", b"/a\n", &[b'a'; 9_000]] {
        fs::write(&file, wrong).expect("a gitfile");
        refuses(&env, &["it is not the one line"]);
    }
    fs::remove_file(&file).expect("the gitfile");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo starts").success());
    refuses(&env, &["neither a file nor a folder"]);
    fs::remove_file(&file).expect("the pipe");
    fs::write(&file, &right).expect("the gitfile");
    if is_root() {
        chown(&file, Some(61_234), None).expect("an owner");
        refuses(&env, &["belongs to another user"]);
        chown(&file, Some(0), None).expect("an owner");
        chown(&common, Some(61_234), None).expect("an owner");
        refuses(&env, &["no folder of the workspace's owner"]);
        chown(&common, Some(0), None).expect("an owner");
    }
    commits(&env, &env.workspace());
}

#[test]
fn a_worktree_that_belongs_to_an_ordinary_user_commits_for_root() {
    let Some((env, common)) = registered() else { return };
    if !is_root() {
        return crate::support::skip("only root can give the repository to somebody");
    }
    for folder in [env.path("main"), env.workspace()] {
        let given = Command::new("chown").args(["-R", "61234:61234"]).arg(folder).status();
        assert!(given.expect("chown starts").success());
    }
    commits_as_owner(&env);
    let made = fs::metadata(common.join("refs/heads/side")).expect("the branch");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 61_234);
}

fn commits_as_owner(env: &Env) {
    let file = env.workspace().join("tracked.txt");
    fs::write(&file, "changed\n").expect("a file");
    for words in [&["git", "add", "tracked.txt"][..], &["git", "commit", "-m", "second"]] {
        let answer = env.cmd(words);
        assert_eq!(answer.outcome(), "ok", "{answer:?}");
    }
    assert_eq!(git(&env.workspace(), &["log", "--format=%s"]), "second\nfirst");
}

#[test]
fn worktrees_are_names_in_the_configuration_and_nothing_is_looked_at() {
    let Some(env) = Env::new() else { return };
    // Neither is there; a command could make them, and must not make the rules unsound.
    let named = "worktrees = [\"../a/./b/../c\", \"/srv/none\"]\n";
    let before = fs::read_to_string(env.path("config/pinfold.toml")).expect("the configuration");
    edit(&env, "pinfold.toml", |text| format!("{text}{named}"));
    let shown = env.pinfold(&["config", "show"]);
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    let line = format!("worktrees = [\"{}\",\"/srv/none\"]", env.path("a/c").display());
    assert!(shown.contains(&line), "{shown}");
    for (fault, text) in [
        ("no worktree", "[\"\"]"),
        ("named twice", "[\"/a\", \"/b/../a\"]"),
        ("a control or invisible character", "[\"/a\\u0000\"]"),
        ("must be a list of strings", "\"/a\""),
    ] {
        fs::write(env.path("config/pinfold.toml"), format!("{before}worktrees = {text}\n"))
            .expect("the configuration");
        let checked = env.pinfold(&["config", "check"]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.code(), Some(1), "{text}: {said}");
        assert!(said.contains(fault), "{text}: {said}");
    }
}

/// Only a mount keeps what decides about programs closed beside new files.
#[test]
fn without_namespaces_a_worktree_is_read_and_not_written() {
    let env = Env::contained();
    linked(&env);
    register(&env);
    if is_root() {
        let main = env.path("main");
        env.give_workspace();
        let given = Command::new("chown").args(["-R", "61234:61234"]).arg(main).status();
        assert!(given.expect("chown starts").success());
    }
    let answer = env.cmd(&["git", "status"]);
    if answer.refusal() == "rung" {
        return crate::support::skip("this host does not give rung C");
    }
    assert_eq!(answer.outcome(), "ok", "{answer:?}");
    let answer = env.cmd(&["git", "commit", "-m", "x"]);
    assert_eq!((answer.code, answer.refusal()), (126, "rung"), "{answer:?}");
}

#[test]
fn what_a_run_leaves_in_the_repository_of_a_worktree_is_found() {
    let Some(env) = Env::new() else { return };
    let common = linked(&env);
    register(&env);
    commits(&env, &env.workspace());
    let own = common.join("worktrees/ws/config.worktree");
    fs::write(&own, "").expect("a file");
    open_to_all(&own);
    // An empty one sets nothing.
    assert_eq!(env.cmd(&["git", "status"]).outcome(), "ok");
    let alternates = common.join("objects/info/alternates");
    let answer = env.cmd(&["probe", "repo", "write", text(&alternates)]);
    assert_eq!(answer.stdout().trim(), "ENOENT", "{answer:?}");
    let words = ["probe", "repo", "create", text(&alternates)];
    assert_eq!(env.cmd(&words).stdout().trim(), "ok", "only the guard stands against it");
    env.cmd(&["probe", "repo", "write", text(&alternates)]);
    let answer = env.cmd(&["git", "status"]);
    let said = answer.reply["message"].as_str().unwrap_or_default();
    assert!(answer.refusal() == "nobody-to-ask" && said.contains("alternates"), "{answer:?}");
    assert!(!alternates.exists(), "it was moved away");
    let common = text(&common);
    assert_eq!(env.pinfold(&["guard", "show", "--workspace", common]).status.code(), Some(1));
    assert_eq!(env.pinfold(&["guard", "accept", "--workspace", common]).status.code(), Some(0));
    assert_eq!(env.cmd(&["git", "status"]).outcome(), "ok");
}
