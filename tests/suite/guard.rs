//! What a run leaves in a repository is found, moved away and blocks the workspace until a person
//! has cleared it; git itself is not started on a repository that leads it elsewhere.

use crate::support::{Answer, Env, has_programs, is_root};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Has a person's terminal in front of what follows.
macro_rules! terminal {
    () => {
        "python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "
    };
}

/// Has git apply a patch from a mail.
const MAIL: &str = "git commit -qam m; git format-patch -1 --stdout side > ../p; git am -q ../p";

/// The ways in which git starts a program: a name, what makes a repository do it, what a person
/// types then, and the kind that the guard gives it. `$MARK` is left by the program `./h`.
///
/// Not from a repository's own settings come templates (`init.templateDir`), what packs objects
/// (`uploadpack.packObjectsHook`) and programs that fetch bundles (`fetch.bundleURI`).
const POISON: &[(&str, &str, &str, &str)] = &[
    ("hook pre-commit", "cp h .git/hooks/pre-commit", "git commit -qam m", "hook"),
    ("hook commit-msg", "cp h .git/hooks/commit-msg", "git commit -qam m", "hook"),
    ("hook post-commit", "cp h .git/hooks/post-commit", "git commit -qam m", "hook"),
    ("hook prepare-commit-msg", "cp h .git/hooks/prepare-commit-msg", "git commit -qam m", "hook"),
    ("hook post-checkout", "cp h .git/hooks/post-checkout", "git checkout -q -b x", "hook"),
    ("hook post-index-change", "cp h .git/hooks/post-index-change", "git add f", "hook"),
    ("hook reference-transaction", "cp h .git/hooks/reference-transaction", "git branch x", "hook"),
    ("hook post-merge", "cp h .git/hooks/post-merge", "git merge -q side", "hook"),
    ("hook pre-rebase", "cp h .git/hooks/pre-rebase", "git stash -q; git rebase side", "hook"),
    ("hook post-rewrite", "cp h .git/hooks/post-rewrite", "git commit -q --amend -m x", "hook"),
    ("hook pre-push", "cp h .git/hooks/pre-push", "git push -q ../bare.r main", "hook"),
    ("hook pre-receive", "cp h .git/hooks/pre-receive", "git push -q \"$PWD\" main:zz", "hook"),
    ("hook update", "cp h .git/hooks/update", "git push -q \"$PWD\" main:zz", "hook"),
    ("hook post-receive", "cp h .git/hooks/post-receive", "git push -q \"$PWD\" main:zz", "hook"),
    ("hook post-update", "cp h .git/hooks/post-update", "git push -q \"$PWD\" main:zz", "hook"),
    (
        "hook pre-merge-commit",
        "cp h .git/hooks/pre-merge-commit",
        "git commit -qam m; git merge -q --no-ff side",
        "hook",
    ),
    ("hook applypatch-msg", "cp h .git/hooks/applypatch-msg", MAIL, "hook"),
    ("hook pre-applypatch", "cp h .git/hooks/pre-applypatch", MAIL, "hook"),
    ("hook post-applypatch", "cp h .git/hooks/post-applypatch", MAIL, "hook"),
    (
        "hook proc-receive",
        "cp h .git/hooks/proc-receive; git config receive.procReceiveRefs refs/for",
        "git push -q \"$PWD\" main:refs/for/x",
        "hook",
    ),
    (
        "hook push-to-checkout",
        "cp h .git/hooks/push-to-checkout; git config receive.denyCurrentBranch updateInstead",
        "git checkout -qf .; git push -q \"$PWD\" side:main",
        "hook",
    ),
    (
        "core.hooksPath",
        "mkdir hk; cp h hk/pre-commit; git config core.hooksPath hk",
        "git commit -qam m",
        "settings",
    ),
    ("core.fsmonitor", "git config core.fsmonitor ./h", "git status", "settings"),
    ("core.editor", "git config core.editor ./h", "git commit -qa", "settings"),
    (
        "sequence.editor",
        "git config sequence.editor ./h",
        "git stash -q; git rebase -q -i HEAD~1",
        "settings",
    ),
    (
        "core.sshCommand",
        "git config core.sshCommand ./h",
        "git fetch ssh://a.invalid/x",
        "settings",
    ),
    ("core.gitProxy", "git config core.gitProxy ./h", "git fetch git://a.invalid/x", "settings"),
    (
        "credential.helper",
        "git config credential.helper \"!$PWD/h\"",
        "printf 'protocol=https\\nhost=a.invalid\\n\\n' | git credential fill",
        "settings",
    ),
    (
        "core.askPass",
        "git config core.askPass ./h",
        "printf 'protocol=https\\nhost=a.invalid\\n\\n' | git credential fill",
        "settings",
    ),
    ("diff.external", "git config diff.external ./h", "git diff", "settings"),
    (
        "diff.x.command",
        "git config diff.x.command ./h; echo 'f diff=x' > .git/info/attributes",
        "git diff",
        "settings",
    ),
    (
        "diff.x.textconv",
        "git config diff.x.textconv ./h; echo 'f diff=x' > .git/info/attributes",
        "git diff",
        "settings",
    ),
    (
        "filter.x.clean",
        "git config filter.x.clean ./h; echo 'f filter=x' > .gitattributes",
        "git diff",
        "settings",
    ),
    (
        "filter.x.process",
        "git config filter.x.process ./h; echo 'f filter=x' > .gitattributes",
        "git diff",
        "settings",
    ),
    (
        "filter.x.smudge",
        "git config filter.x.smudge ./h; echo 'f filter=x' > .gitattributes",
        "git checkout -qf -- f",
        "settings",
    ),
    (
        "merge.x.driver",
        "git config merge.x.driver ./h; echo 'f merge=x' > .git/info/attributes",
        "git commit -qam m; git merge -q clash",
        "settings",
    ),
    (
        "gpg.program",
        "git config gpg.program ./h; git config commit.gpgSign true",
        "git commit -qam m",
        "settings",
    ),
    (
        "gpg.ssh.program",
        "git config gpg.format ssh; git config gpg.ssh.program ./h; \
        git config user.signingKey key::x; git config commit.gpgSign true",
        "git commit -qam m",
        "settings",
    ),
    ("alias", "git config alias.s '!./h'", "git s", "settings"),
    (
        "include.path",
        "printf '[core]\\nfsmonitor = ./h\\n' > inc; git config include.path ../inc",
        "git status",
        "settings",
    ),
    (
        "includeIf",
        "printf '[core]\\nfsmonitor = ./h\\n' > inc; \
        git config includeIf.onbranch:main.path ../inc",
        "git status",
        "settings",
    ),
    (
        "remote.o.uploadpack",
        "git config remote.o.url ../bare.r; git config remote.o.uploadpack ./h",
        "git fetch o",
        "settings",
    ),
    (
        "remote.o.receivepack",
        "git config remote.o.url ../bare.r; \
        git config remote.o.receivepack ./h",
        "git push o main",
        "settings",
    ),
    (
        "interactive.diffFilter",
        "git config interactive.diffFilter ./h",
        "echo n | git -c color.ui=always add -p",
        "settings",
    ),
    (
        "trailer.x.cmd",
        "git config trailer.x.cmd ./h",
        "git commit -qam m --trailer x=1",
        "settings",
    ),
    ("tar.x.command", "git config tar.x.command ./h", "git archive --format=x HEAD", "settings"),
    ("core.pager", "git config core.pager ./h", concat!(terminal!(), "git log"), "settings"),
    ("pager.status", "git config pager.status ./h", concat!(terminal!(), "git status"), "settings"),
    (
        "core.alternateRefsCommand",
        "cp -r .git alt; git config core.alternateRefsCommand ./h; \
        echo \"$PWD/alt/objects\" > .git/objects/info/alternates",
        "git fetch ../bare.r main",
        "settings",
    ),
    (
        "submodule.x.update",
        "git init -q s; export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t.invalid \
        GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t.invalid; \
        git -C s commit -q --allow-empty -m 1; git submodule add -q ./s s; git commit -qm s; \
        git -C s commit -q --allow-empty -m 2; git config submodule.s.update '!../h'",
        "git submodule update",
        "settings",
    ),
    (
        "mergetool.x.cmd",
        "git config mergetool.x.cmd ./h; git config merge.tool x",
        "git commit -qam m; git merge -q clash; git mergetool -y",
        "settings",
    ),
    ("difftool.x.cmd", "git config difftool.x.cmd ./h", "git difftool -y -t x", "settings"),
    ("browser.x.cmd", "git config browser.x.cmd ./h", "git web--browse -b x http://a", "settings"),
    (
        "man.x.cmd",
        "git config man.x.cmd ./h; git config man.viewer x",
        "git help -m git",
        "settings",
    ),
    (
        "a transport that is a program",
        "git config protocol.ext.allow always; git config remote.o.url ext::./h",
        "git fetch o",
        "settings",
    ),
    (
        "url.x.insteadOf",
        "git config protocol.ext.allow always; \
        git config 'url.ext::./h .insteadOf' https://",
        "git fetch https://a.invalid/x",
        "settings",
    ),
    (
        "credential.x.helper",
        "git config credential.https://a.invalid.helper \"!$PWD/h\"",
        "printf 'protocol=https\\nhost=a.invalid\\n\\n' | git credential fill",
        "settings",
    ),
    (
        "core.attributesFile",
        "echo 'f filter=x' > at; git config core.attributesFile ../at; \
        git config core.attributesFile \"$PWD/at\"; git config filter.x.clean ./h",
        "git diff",
        "settings",
    ),
    (
        "config.worktree",
        "git config extensions.worktreeConfig true; \
        git config --worktree core.fsmonitor ./h",
        "git status",
        "settings",
    ),
    (
        "commondir",
        "cp -r .git els; git config -f els/config core.fsmonitor ./h; \
        echo ../els > .git/commondir",
        "git status",
        "redirect",
    ),
];

/// Makes a repository with something to commit, merge and show; `./h` leaves `$MARK`.
macro_rules! setup {
    () => {
        "set -e\n\
         git init -q -b main .; git config user.name t; git config user.email t@t.invalid\n\
         echo a > f; echo Makefile > .gitignore; git add f; git commit -qm 1; echo b >> f\n\
         git commit -qam 2; git checkout -q -b side; echo c > g; git add g; git commit -qm 3\n\
         git checkout -q -b clash HEAD~1; echo d > f; git commit -qam 4; git checkout -q main\n\
         echo e >> f\n\
         printf '#!/bin/sh\\necho x >> %s 2>/dev/null\\nexit 0\\n' \"$MARK\" > h; chmod 755 h\n"
    };
}
const SETUP: &str = setup!();

/// Runs a script of the host's shell in the workspace, as a person would.
fn person(env: &Env, script: &str) -> bool {
    let done = Command::new("timeout")
        .args(["-k", "1", "10", "sh", "-c", script])
        .current_dir(env.workspace())
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", env.path("home"))
        .env("MARK", env.path("mark"))
        .env("GIT_TERMINAL_PROMPT", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("a shell");
    done.status.success()
}

fn fires(env: &Env, trigger: &str) -> bool {
    let mark = env.path("mark");
    fs::remove_file(&mark).ok();
    person(env, &format!("git clone -q --bare . ../bare.r; rm -f {}", mark.display()));
    person(env, trigger);
    mark.exists()
}

/// Has a build run do what a script does: it runs the project's own code.
fn build(env: &Env, script: &str) -> Answer {
    env.file("plant.sh", &format!("MARK={}\n{script}", env.path("mark").display()));
    env.file("Makefile", "all:\n\tGIT_CONFIG_COUNT=0 sh plant.sh\n");
    let answer = env.cmd(&["make"]);
    assert_eq!(answer.code, 0, "{script}: {answer:?}");
    answer
}

fn found(answer: &Answer) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let list = answer.reply["guard"]["found"].as_array().cloned().unwrap_or_default();
    list.iter().map(|it| (text(&it["path"]), text(&it["kind"]))).collect()
}

#[test]
fn e01_every_hook_of_gits_is_found_and_moved_away() {
    poison(|kind| kind == "hook");
}

#[test]
fn e03_e05_e07_e08_e11_every_setting_by_which_git_starts_a_program_is_found_and_moved_away() {
    poison(|kind| kind != "hook");
}

fn poison(chosen: fn(&str) -> bool) {
    if !has_programs(&["git", "make", "python3"]) {
        return;
    }
    let mut idle = Vec::new();
    for (name, plant, trigger, kind) in POISON.iter().filter(|row| chosen(row.3)) {
        let Some(env) = Env::new() else { return };
        // The control: outside of Pinfold it fires.
        assert!(person(&env, &format!("{SETUP}{plant}")), "{name}: the setup");
        if !fires(&env, trigger) {
            idle.push(name);
            continue;
        }
        fs::remove_file(env.path("mark")).expect("the mark");
        // Git of a template does not start it: a person is asked, and told why.
        for argv in [&["git", "status"][..], &["git", "diff"], &["git", "add", "f"]] {
            let answer = env.cmd(argv);
            assert!(
                ["nobody-to-ask", "git-state"].contains(&answer.refusal()),
                "{name}: {answer:?}"
            );
            assert!(!env.path("mark").exists(), "{name}: {argv:?} started it");
        }
        let Some(env) = Env::new() else { return };
        let answer = build(&env, &format!("{SETUP}{plant}"));
        assert!(found(&answer).iter().any(|(_, it)| it == kind), "{name}: {answer:?}");
        assert!(!fires(&env, trigger), "{name}: it fires after the guard has looked");
    }
    assert!(idle.is_empty(), "the controls do not fire: {idle:?}");
}

/// What a person's settings name in the project: the setting, what a run does to the file, what a
/// person types then, and the file with the kind that the guard gives it.
const NAMED: &[(&str, &str, &str, &str, &str)] = &[
    (
        "mkdir hk; echo : > hk/pre-push; git config core.hooksPath hk",
        "cp h hk/pre-commit",
        "git commit -qam m",
        "hk/pre-commit",
        "hook",
    ),
    (
        "git config core.hooksPath .husky/_",
        "mkdir -p .husky/_; cp h .husky/_/pre-commit",
        "git commit -qam m",
        ".husky/_/pre-commit",
        "hook",
    ),
    (
        "echo '[user]' > inc; git config include.path ../inc",
        "printf '[core]\\n\\tfsmonitor = ./h\\n' >> inc",
        "git status",
        "inc",
        "settings",
    ),
    (
        "echo '[user]' > one; echo '[include]path = two' >> one; git config include.path ../one",
        "printf '[core]\\n\\tfsmonitor = ./h\\n' > two",
        "git status",
        "two",
        "settings",
    ),
    (
        "mkdir tools; echo cat > tools/clean.sh; git config filter.x.clean 'sh tools/clean.sh'; \
         echo 'f filter=x' > .git/info/attributes",
        "cp h tools/clean.sh",
        "git diff",
        "tools/clean.sh",
        "hook",
    ),
    (
        "echo cat > own; git config filter.x.clean \"sh $PWD/own\"; \
         echo 'f filter=x' > .git/info/attributes",
        "cp h own",
        "git diff",
        "own",
        "hook",
    ),
    (
        "echo '* text' > at; git config core.attributesFile \"$PWD/at\"; \
         git config filter.x.clean ./h",
        "echo 'f filter=x' > at",
        "git diff",
        "at",
        "attributes",
    ),
];

#[test]
fn e04_a_file_of_the_project_that_settings_name_is_looked_after() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    for (host, plant, trigger, path, kind) in NAMED {
        let Some(env) = Env::new() else { return };
        assert!(person(&env, &format!("{SETUP}{host}\n")), "{host}");
        assert!(!fires(&env, trigger), "{host}: it fires before anything is planted");
        let Some(env) = Env::new() else { return };
        assert!(person(&env, &format!("{SETUP}{host}\n{plant}\n")), "{host}");
        assert!(fires(&env, trigger), "{host}: the control does not fire");
        let Some(env) = Env::new() else { return };
        assert!(person(&env, &format!("{SETUP}{host}\n")), "{host}");
        let quiet = build(&env, "echo more > plain.txt");
        assert_eq!(quiet.reply["guard"], Value::Null, "{host}: {quiet:?}");
        let answer = build(&env, plant);
        let wanted = [((*path).to_owned(), (*kind).to_owned())];
        assert_eq!(found(&answer), wanted, "{host}: {answer:?}");
        assert!(!fires(&env, trigger), "{host}: it fires after the guard has looked");
        // One that is taken away is put back.
        assert_eq!(env.pinfold(&["guard", "accept"]).status.code(), Some(0));
        if env.path("ws").join(path).exists() {
            let answer = build(&env, &format!("rm {path}"));
            assert_eq!(found(&answer), wanted, "{host}: {answer:?}");
            assert!(env.path("ws").join(path).exists(), "{host}: {answer:?}");
        }
    }
}

#[test]
fn what_is_found_blocks_the_workspace_until_a_person_clears_it() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    let plant = "mkdir -p n; cd n; git init -q .; cp ../h .git/hooks/pre-commit; cd ..\n";
    assert_eq!(found(&build(&env, SETUP)), [], "a plain repository is nothing to report");
    let answer = build(&env, plant);
    assert_eq!(found(&answer), [("n/.git".to_owned(), "repository".to_owned())], "{answer:?}");
    assert!(!env.path("ws/n/.git").exists());
    for argv in [&["ls"][..], &["git", "status"], &["make"]] {
        let answer = env.cmd(argv);
        assert_eq!(answer.refusal(), "nobody-to-ask", "{answer:?}");
        let message = answer.reply["message"].as_str().unwrap_or_default();
        assert!(message.contains("n/.git") && message.contains("guard show"), "{message}");
    }
    for kind in ["guard.found", "guard.quarantined"] {
        let records = env.records_of(kind);
        assert_eq!(records.len(), 1, "{kind}");
        assert_eq!(records[0]["paths"], serde_json::json!(["n/.git"]));
    }
    let shown = env.pinfold(&["guard", "show", "--json"]);
    assert_eq!(shown.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let moved = shown["found"][0]["moved_to"].as_str().expect("a place");
    assert!(Path::new(moved).join("content/hooks/pre-commit").exists(), "{shown}");
    // Something stands in its place: nothing is lost.
    fs::create_dir(env.path("ws/n/.git")).expect("a folder");
    assert_eq!(env.pinfold(&["guard", "restore", "1"]).status.code(), Some(125));
    fs::remove_dir(env.path("ws/n/.git")).expect("empty");
    assert_eq!(env.pinfold(&["guard", "restore", "2"]).status.code(), Some(125));
    assert_eq!(env.pinfold(&["guard", "restore", "1"]).status.code(), Some(0));
    assert!(env.path("ws/n/.git/hooks/pre-commit").exists());
    assert_eq!(env.pinfold(&["guard", "show"]).status.code(), Some(0));
    assert_eq!(env.cmd(&["ls"]).code, 0);
    // What a person has restored is the person's own.
    assert_eq!(found(&build(&env, "true")), []);
    let answer = build(&env, &plant.replace("mkdir -p n; cd n", "mkdir m; cd m"));
    assert_eq!(found(&answer).len(), 1);
    assert_eq!(env.pinfold(&["guard", "accept"]).status.code(), Some(0));
    assert_eq!(env.cmd(&["ls"]).code, 0);
    let cleared = env.records_of("guard.cleared");
    let how: Vec<&str> = cleared.iter().filter_map(|it| it["how"].as_str()).collect();
    assert_eq!(how.last(), Some(&"accept"), "{cleared:?}");
    assert!(how.contains(&"restore"), "{cleared:?}");
}

#[test]
fn a_supervisor_that_dies_before_it_looked_is_made_up_for() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    env.file("plant.sh", "git init -q n; touch ready; sleep 60\n");
    env.file("Makefile", "all:\n\tsh plant.sh\n");
    let mut run = env.start(&["--", "make"]);
    let start = std::time::Instant::now();
    while !env.path("ws/ready").exists() {
        assert!(start.elapsed().as_secs() < 20, "the run does not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill().expect("killed");
    run.wait().expect("waited for");
    let answer = env.cmd(&["ls"]);
    assert_eq!(answer.refusal(), "nobody-to-ask", "{answer:?}");
    assert!(!env.path("ws/n/.git").exists());
    assert_eq!(env.records_of("guard.found").len(), 1);
}

/// What is left of a note when the host lost its power says what to do.
#[test]
fn a_note_that_is_not_whole_refuses_and_names_itself() {
    if !has_programs(&["make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    build(&env, "true");
    let folder = fs::read_dir(env.path("state/guard")).expect("a folder").flatten().next();
    let note = folder.expect("one workspace").path().join("runs/empty");
    fs::write(&note, "").expect("a note");
    let answer = env.cmd(&["ls"]);
    assert_eq!(answer.refusal(), "host", "{answer:?}");
    let message = answer.reply["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("runs/empty is not whole") && message.contains("remove it"),
        "{message}"
    );
    fs::remove_file(&note).expect("removed");
    assert_eq!(env.cmd(&["ls"]).code, 0);
}

#[test]
fn a_changed_hook_and_changed_settings_are_put_back_as_they_were() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    // A nested repository of the project's own, which no profile protects.
    let host = "mkdir n; cd n; git init -q .; git config core.fsmonitor mine\n\
                echo mine > .git/hooks/pre-push; chmod 755 .git/hooks/pre-push";
    assert!(person(&env, host));
    let before = fs::read(env.path("ws/n/.git/config")).expect("settings");
    let answer = build(&env, "cd n; git config alias.x '!y'; echo theirs > .git/hooks/pre-push");
    let mut kinds: Vec<_> = found(&answer).into_iter().map(|(_, kind)| kind).collect();
    kinds.sort();
    assert_eq!(kinds, ["hook", "settings"], "{answer:?}");
    assert_eq!(fs::read(env.path("ws/n/.git/config")).expect("settings"), before);
    assert_eq!(fs::read(env.path("ws/n/.git/hooks/pre-push")).expect("a hook"), b"mine\n");
    assert_eq!(env.pinfold(&["guard", "restore", "1", "2"]).status.code(), Some(0));
    assert_eq!(fs::read(env.path("ws/n/.git/hooks/pre-push")).expect("a hook"), b"theirs\n");
    // A plain setting, and one that was there before, pass in silence.
    let answer = build(&env, "cd n; git config user.name someone; git config core.fsmonitor mine");
    assert_eq!(answer.reply["guard"], Value::Null, "{answer:?}");
}

#[test]
fn e16_a_bare_repository_in_a_folder_is_found() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    let plant = "mkdir -p docs/a; cd docs/a; git init -q --bare .; git config core.bare false\n\
                 git config core.worktree ..; git config core.fsmonitor \"$PWD/../../h\"\n";
    let trigger = "cd docs/a; git status";
    assert!(person(&env, &format!("{SETUP}{plant}")));
    assert!(fires(&env, trigger), "the control does not fire");
    fs::remove_file(env.path("mark")).expect("the mark");
    env.run(&["--json", "--cwd", "docs/a", "--", "git", "status"]);
    assert!(!env.path("mark").exists(), "a template's git started it");
    let Some(env) = Env::new() else { return };
    let answer = build(&env, &format!("{SETUP}{plant}"));
    assert_eq!(found(&answer), [("docs/a".to_owned(), "repository".to_owned())], "{answer:?}");
    assert!(!fires(&env, trigger));
}

/// What is planted where the workspace has no repository yet is moved away too, and nothing else
/// is overlooked beside it.
#[test]
fn a17_a_workspace_that_becomes_a_repository_is_none_afterwards() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let setup = format!("{SETUP}rm -rf .git; mkdir sub\n");
    let bare = "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD\n\
                printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\n' > config\n\
                printf 'fsmonitor = ./h\\nworktree = .\\n' >> config\n";
    let link =
        "git init -q els; git -C els config core.fsmonitor \"$PWD/h\"; ln -s els/.git .git\n";
    let file = "git init -q els; git -C els config core.fsmonitor \"$PWD/h\"; mv els/.git els/x\n\
                git config -f els/x/config core.worktree ../..; echo 'gitdir: els/x' > .git\n";
    let own = "git init -q .; git config core.fsmonitor ./h\n";
    let beside = "git init -q n; git -C n config core.fsmonitor ../h\n";
    for (plant, paths) in [
        (bare, &["HEAD", "config"][..]),
        (link, &[".git", "els/.git"]),
        (file, &[".git", "els/x"]),
        (own, &[".git/config"]),
    ] {
        let Some(env) = Env::new() else { return };
        assert!(person(&env, &format!("{setup}{plant}")));
        assert!(fires(&env, "git status"), "{plant}: the control does not fire");
        let Some(env) = Env::new() else { return };
        assert!(person(&env, &setup));
        let answer = build(&env, &format!("{plant}{beside}"));
        let found: Vec<String> = found(&answer).into_iter().map(|(path, _)| path).collect();
        let wanted: Vec<&str> = paths.iter().copied().chain(["n/.git"]).collect();
        assert_eq!(found, wanted, "{plant}: {answer:?}");
        assert!(!fires(&env, "git status; cd n; git status"), "{plant}");
        let moved = answer.reply["guard"]["found"].as_array().expect("a list").iter();
        assert!(moved.clone().all(|it| it["quarantined"] == true), "{plant}: {answer:?}");
    }
}

#[test]
fn e19_a_repository_above_the_workspace_is_not_used() {
    if !has_programs(&["git"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    let above = "git init -q ..; git -C .. config core.fsmonitor \"$PWD/h\"";
    assert!(person(&env, &format!("{SETUP}rm -rf .git\n{above}")));
    assert!(fires(&env, "git status"), "the control does not fire");
    fs::remove_file(env.path("mark")).expect("the mark");
    let answer = env.cmd(&["git", "status"]);
    assert_eq!(answer.code, 128, "there is no repository: {answer:?}");
    assert!(!env.path("mark").exists(), "a template's git used the one above");
}

/// Only the workspace's own repository is looked at before git is started, so it is the only one
/// that git uses.
#[test]
fn a_repository_between_the_workspace_and_the_working_folder_is_not_used() {
    if !has_programs(&["git"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    let nested = "git init -q n; git -C n config core.fsmonitor \"$PWD/h\"; mkdir n/deep\n";
    assert!(person(&env, &format!("{SETUP}{nested}")));
    assert!(fires(&env, "cd n/deep; git status"), "the control does not fire");
    fs::remove_file(env.path("mark")).expect("the mark");
    for cwd in ["n", "n/deep"] {
        let answer = env.run(&["--json", "--cwd", cwd, "--", "git", "status"]);
        assert_eq!(answer.refusal(), "git-state", "{answer:?}");
        let message = answer.reply["message"].as_str().unwrap_or_default();
        assert!(message.contains("n/.git") && message.contains("--workspace"), "{message}");
    }
    // One that comes between the look and the start is not used either.
    fs::create_dir(env.path("ws/plain")).expect("a folder");
    let answer = env.run(&["--json", "--cwd", "plain", "--", "git", "status"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let intent = env.records_of("intent").pop().expect("an intent");
    let names = intent["env"].to_string();
    assert!(names.contains("GIT_DIR") && names.contains("GIT_WORK_TREE"), "{names}");
    assert!(!env.path("mark").exists());
}

#[test]
fn e14_e18_git_is_not_started_where_it_would_be_led_elsewhere() {
    if !has_programs(&["git"]) {
        return;
    }
    let refused = |act: &dyn Fn(&Env)| {
        let env = Env::new()?;
        env.repository();
        assert_eq!(env.cmd(&["git", "status"]).code, 0, "the control");
        act(&env);
        let answer = env.cmd(&["git", "status"]);
        let message = answer.reply["message"].as_str().unwrap_or_default().to_owned();
        Some((answer.refusal().to_owned(), message))
    };
    let acts: [&dyn Fn(&Env); 4] = [
        &|env| drop(env.file(".git/commondir", "../x\n")),
        &|env| {
            fs::rename(env.path("ws/.git/refs"), env.path("ws/r")).expect("moved");
            std::os::unix::fs::symlink("../r", env.path("ws/.git/refs")).expect("a link");
        },
        &|env| drop(env.file(".git/config", "[core\n")),
        &|env| drop(env.file(".git/refs/x/y", "") + &env.file(".git/config", "no section = x")),
    ];
    for act in acts {
        let Some((code, said)) = refused(act) else { return };
        assert_eq!(code, "git-state", "{said}");
    }
    if is_root() {
        let other = |env: &Env| {
            std::os::unix::fs::chown(env.path("ws/.git"), Some(54_321), None).expect("an owner");
        };
        let Some((code, said)) = refused(&other) else { return };
        assert!(code == "git-state" && said.contains("54321"), "{said}");
    }
}

#[test]
fn files_that_run_by_themselves_are_reported_and_block_nothing() {
    if !has_programs(&["make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    env.file("pyproject.toml", "[project]\n");
    let script = "echo use > .envrc; mkdir -p .vscode .cargo; echo {} > .vscode/tasks.json\n\
                  echo > .cargo/config.toml; echo >> pyproject.toml; echo > plain.txt\n\
                  mkdir -p .claude/commands; echo > .claude/commands/x.md; ln -s plain .cursor";
    let answer = build(&env, script);
    let noticed = answer.reply["guard"]["noticed"].as_array().expect("a list").clone();
    let paths: Vec<&str> = noticed.iter().filter_map(|it| it["path"].as_str()).collect();
    let wanted = [
        ".cargo/config.toml",
        ".claude/commands/x.md",
        ".cursor",
        ".envrc",
        ".vscode/tasks.json",
        "pyproject.toml",
    ];
    assert_eq!(paths, wanted);
    env.file("plant.sh", "echo use it > .envrc\n");
    let told = env.pinfold(&["run", "--", "make"]).stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(".envrc changed: direnv"), "{told}");
    let answer = build(&env, "echo > plain.txt");
    assert_eq!(answer.reply["guard"], Value::Null, "{answer:?}");
}

#[test]
fn real_work_raises_no_alarm_and_leaves_sound_repositories() {
    if !has_programs(&["git"]) {
        return;
    }
    let long = std::env::var_os("PINFOLD_LONG").is_some();
    let mut state = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |it| it.as_secs()) | 1;
    let seed = state;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    for _ in 0..if long { 300 } else { 6 } {
        let Some(env) = Env::new() else { return };
        assert_eq!(env.cmd(&["git", "init"]).code, 0);
        for step in 0..8 {
            let files = if random(8) == 0 { 200 } else { 1 + random(3) };
            for _ in 0..files {
                let name = format!("d{}/f{}", random(5), random(50));
                env.file(&name, &format!("{step} {}\n", random(1000)));
            }
            let steps: &[&[&str]] = &[&["git", "add", "."], &["git", "commit", "-m", "a step"]];
            let host = match random(5) {
                0 => format!("git checkout -q -b b{step}"),
                1 => "git mv -k d0/f1 d1/moved".to_owned(),
                2 => "git commit -q --allow-empty -m empty".to_owned(),
                3 => format!(
                    "git checkout -q -b m{step} && git checkout -q - && git merge -q m{step}"
                ),
                _ => "true".to_owned(),
            };
            for argv in steps {
                let argv = if argv[1] == "add" {
                    &["git", "add", "d0", "d1", "d2", "d3", "d4"]
                } else {
                    *argv
                };
                let there: Vec<&str> = argv
                    .iter()
                    .copied()
                    .filter(|word| !word.starts_with('d') || env.workspace().join(word).exists())
                    .collect();
                let answer = env.cmd(&there);
                // Nothing to commit is exit code 1.
                assert!([0, 1].contains(&answer.code), "{answer:?}");
                assert_eq!(answer.reply["guard"], Value::Null, "{answer:?}");
            }
            let identity = "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t.invalid \
                            GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t.invalid; ";
            person(&env, &format!("{identity}{host}"));
        }
        assert!(person(&env, "git fsck --strict"), "git fsck, seed {seed}");
        assert_eq!(env.records_of("guard.found").len(), 0);
    }
}

/// Ways around a look at the plain places: a name, what the host had before, what a run does then,
/// and what a person types.
const AROUND: &[(&str, &str, &str, &str)] = &[
    (
        "a bare repository whose references are a file that can be executed",
        SETUP,
        "mkdir -p docs/a; cd docs/a; echo 'ref: refs/heads/m' > HEAD; mkdir objects\n\
         : > refs; chmod 755 refs; git config -f config core.repositoryformatversion 0\n\
         git config -f config core.worktree ..\n\
        git config -f config core.fsmonitor \"$PWD/../../h\"",
        "cd docs/a; git status",
    ),
    (
        "the workspace as a bare repository",
        "git init -q n; printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h",
        "mkdir objects refs; echo 'ref: refs/heads/m' > HEAD\n\
         git config -f config core.repositoryformatversion 0\n\
        git config -f config core.worktree .\n\
         git config -f config core.fsmonitor \"$PWD/h\"",
        "git status",
    ),
    (
        "a nested one next to the workspace as a bare repository",
        SETUP,
        "mkdir objects refs; cp .git/HEAD HEAD; git init -q n; cp h n/.git/hooks/post-index-change",
        "cd n; touch x; git add x",
    ),
    (
        "a file that the project's own settings include",
        "set -e; mkdir n; cd n; git init -q .; git config include.path ../../shared; cd ..\n\
         printf '[include]\\npath = more\\n' > shared; printf '[alias]\\na = status\\n' > more\n\
         printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h",
        "git config -f more core.fsmonitor \"$PWD/h\"",
        "cd n; git status",
    ),
    (
        "the folder of hooks that the project's own settings name",
        "set -e; mkdir -p n/.githooks; cd n; git init -q .; git config core.hooksPath .githooks",
        "printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h\n\
         cp h n/.githooks/post-index-change",
        "cd n; touch x; git add x",
    ),
    (
        "the workspace's folder as that of hooks",
        "set -e; git init -q .; git config core.hooksPath \"$PWD\"",
        "printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > post-index-change\n\
         chmod 755 post-index-change",
        "touch x; git add x",
    ),
    (
        "the folder of hooks that the project's own link leads to",
        "set -e; mkdir -p n/shared; cd n; git init -q .; rm -r .git/hooks\n\
         ln -s ../link .git/hooks; ln -s shared link",
        "printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h\n\
         cp h n/shared/post-index-change",
        "cd n; touch x; git add x",
    ),
    (
        "the hook that the project's own link leads to",
        "set -e; git init -q n; echo '#!/bin/sh' > lint; chmod 755 lint\n\
         ln -s ../../../lint n/.git/hooks/post-index-change",
        "echo \"echo x >> $MARK\" >> lint",
        "cd n; touch x; git add x",
    ),
    (
        "the second of two values, taken away",
        "set -e; printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h; git init -q n\n\
         cd n; git config core.fsmonitor ../h; git config --add core.fsmonitor false",
        "sed -i '/fsmonitor = false/d' n/.git/config",
        "cd n; git status",
    ),
    (
        "two values in another order",
        "set -e; printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h; git init -q n\n\
         cd n; git config core.fsmonitor ../h; git config --add core.fsmonitor false",
        "cd n; sed -i '/fsmonitor = false/d' .git/config\n\
         printf '[core]\\nfsmonitor = false\\nfsmonitor = ../h\\n' >> .git/config",
        "cd n; git status",
    ),
    (
        "a link that git writes a conflict through",
        "set -e; git init -q -b main n; cd n; git config user.name t\n\
         git config user.email t@t.invalid; echo a > f; git add f; git commit -qm 1\n\
         git checkout -q -b side; echo b > f; git commit -qam 2; git checkout -q main\n\
         echo c > f; git commit -qam 3; mkdir .git/rr-cache; git merge side || echo d > f\n\
         git commit -qam 4; git reset -q --hard HEAD~1",
        "cd n/.git/rr-cache/*; ln -s $MARK thisimage",
        "cd n; git merge side",
    ),
    (
        "a key that a zero byte ends",
        "mkdir n",
        "printf '#!/bin/sh\\necho x >> %s\\n' \"$MARK\" > h; chmod 755 h; git init -q .\n\
         printf '[remote \"x\"]\\nurl=.\\n' >> .git/config\n\
        printf '[remote \"x.uploadpack\\000\"]\\nurl=./h\\n' >> .git/config",
        "git fetch x",
    ),
    (
        "a line of a rebase with a tab",
        "mkdir n",
        concat!(
            setup!(),
            "git stash -q; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1\n\
             printf 'exec\\t./h\\n' >> .git/rebase-merge/git-rebase-todo"
        ),
        "git rebase --continue",
    ),
    (
        "the name of how a rebase merges",
        "mkdir n",
        concat!(
            setup!(),
            "git stash -q; mkdir git-merge-x; cp h git-merge-x/h\n\
             GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1\n\
             echo x/h > .git/rebase-merge/strategy"
        ),
        "git commit -q --allow-empty -m z; git rebase --continue",
    ),
];

#[test]
fn a_way_around_the_plain_places_is_found_and_moved_away() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let mut idle = Vec::new();
    for (name, host, plant, trigger) in AROUND {
        let Some(env) = Env::new() else { return };
        assert!(person(&env, host), "{name}: what was there before");
        person(&env, plant);
        if !fires(&env, trigger) {
            idle.push(name);
            continue;
        }
        let Some(env) = Env::new() else { return };
        assert!(person(&env, host), "{name}: what was there before");
        let answer = build(&env, plant);
        assert_ne!(found(&answer), [], "{name}: {answer:?}");
        assert!(!fires(&env, trigger), "{name}: it fires after the guard has looked");
    }
    assert!(idle.is_empty(), "the controls do not fire: {idle:?}");
}

#[test]
fn what_is_found_after_an_acceptance_is_moved_away_too() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    for (name, number) in [("m", 1), ("n", 2)] {
        let answer = build(&env, &format!("git init -q {name}; echo {name} > {name}/.git/mine"));
        assert_eq!(answer.reply["guard"]["found"][0]["number"], number, "{answer:?}");
        assert!(!env.path(&format!("ws/{name}/.git")).exists(), "{answer:?}");
        assert_eq!(env.pinfold(&["guard", "accept"]).status.code(), Some(0));
    }
    let kept = fs::read_dir(env.path("state/guard")).expect("a folder").flatten().next();
    let kept = kept.expect("one workspace").path().join("moved");
    assert_eq!(fs::read(kept.join("1/content/mine")).expect("kept"), b"m\n");
}

#[test]
fn what_was_moved_away_comes_back_after_a_crash_and_where_nothing_stands_any_more() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    let Some(env) = Env::new() else { return };
    assert!(person(&env, "git init -q n; echo mine > n/.git/hooks/pre-push"));
    let answer = build(&env, "git init -q m; echo theirs > n/.git/hooks/pre-push");
    assert_eq!(found(&answer).len(), 2, "{answer:?}");
    // As if the supervisor had died between the move and what it writes of it.
    let state = fs::read_dir(env.path("state/guard")).expect("a folder").flatten().next();
    let list = state.expect("one workspace").path().join("found.json");
    let text = fs::read_to_string(&list).expect("findings");
    let crashed = text.replacen("\"is_moved\":true", "\"is_moved\":false", 1);
    assert_ne!(text, crashed);
    fs::write(&list, crashed).expect("written");
    fs::remove_file(env.path("ws/n/.git/hooks/pre-push")).expect("put back");
    assert_eq!(env.pinfold(&["guard", "restore", "1", "2"]).status.code(), Some(0));
    assert!(env.path("ws/m/.git/HEAD").exists());
    assert_eq!(fs::read(env.path("ws/n/.git/hooks/pre-push")).expect("a hook"), b"theirs\n");
}

/// Also where the other run has a folder of the first one's workspace for its own, or the other way
/// round: then the findings of either block both.
#[test]
fn one_run_cannot_hide_what_another_planted() {
    if !has_programs(&["git", "make"]) {
        return;
    }
    for (one, two) in [("", ""), ("", "sub"), ("sub", "")] {
        let Some(env) = Env::new() else { return };
        let path = |workspace: &str| env.workspace().join(workspace).display().to_string();
        let sub = path("sub");
        let script = format!(
            "cd {sub}\nwait() {{ while [ ! -e $1 ]; do sleep 0.01; done; }}\ncase $0 in\n\
             *one*) git init -q n; touch planted; wait hidden;;\n\
             *) mv n/.git/HEAD n/head; mv n/.git n/x; touch hidden; wait looked\n\
             mv n/x n/.git; mv n/head n/.git/HEAD;;\nesac\n"
        );
        for workspace in ["", "sub/"] {
            env.file(&format!("{workspace}one.sh"), &script);
            env.file(&format!("{workspace}two.sh"), &script);
            env.file(&format!("{workspace}Makefile"), "one two:\n\tsh $@.sh\n");
        }
        let appears = |name: &str| {
            let start = std::time::Instant::now();
            while !env.workspace().join("sub").join(name).exists() {
                assert!(start.elapsed().as_secs() < 20, "no {name}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        let mut first = env.start(&["--workspace", &path(one), "--", "make", "one"]);
        appears("planted");
        let second = env.start(&["--json", "--workspace", &path(two), "--", "make", "two"]);
        appears("hidden");
        assert!(first.wait().expect("it ends").success());
        assert_eq!(env.records_of("guard.found").len(), 0, "the first look sees nothing");
        env.file("sub/looked", "");
        let answer = Answer::of(second.wait_with_output().expect("it ends"));
        let place = if two.is_empty() { "sub/n/.git" } else { "n/.git" };
        assert_eq!(found(&answer), [(place.to_owned(), "repository".to_owned())], "{answer:?}");
        for workspace in ["", "sub"] {
            let answer = env.run(&["--json", "--workspace", &path(workspace), "--", "ls"]);
            assert_eq!(answer.refusal(), "nobody-to-ask", "{workspace}: {answer:?}");
        }
    }
}
