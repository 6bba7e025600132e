//! Class D of the known cases: what an agent asks for, in every spelling, against the catalog. Each
//! call is tried by `pinfold run` and by `pinfold policy explain`, which must agree.

use crate::config::{TOOL, edit};
use crate::input::{is_refusal, refused, tree};
use crate::programs::{host, outside, script};
use crate::support::{Env, copy_program};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// What a call must become: `auto`, `ask`, or the code of its refusal.
type Wanted = &'static str;

/// Runs a line by a real shell, outside, in the workspace.
pub(crate) fn shell(env: &Env, line: &str) {
    let mut command = Command::new("/bin/bash");
    // The shell stays, so that it is its end that is seen, and not a closed pipe's of what it ran.
    command.args(["-c", &format!("{line}\n:")]).current_dir(env.workspace()).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", env.path("home"));
    let output = command.output().expect("bash starts");
    assert!(output.status.code().is_some(), "{line}: {output:?}");
}

/// The attack works outside: the act leaves the file `made` in the workspace, which is removed.
pub(crate) fn makes(env: &Env, what: &str, act: impl FnOnce()) {
    let made = env.workspace().join("made");
    assert!(!made.exists(), "{what}");
    act();
    fs::remove_file(&made).unwrap_or_else(|_| panic!("the control does not fire: {what}"));
}

/// Puts a program on the catalog's path that prints its arguments, for each of these names: what
/// is decided here is then decided alike on hosts that do not have the programs themselves.
pub(crate) fn stand_in(env: &Env, names: &[&str]) {
    for name in names {
        copy_program("/bin/echo".as_ref(), &env.path("bin").join(name));
    }
}

/// What `pinfold policy explain --json` says of a call, and its exit code.
fn explain(env: &Env, call: &[&str]) -> (Value, Option<i32>) {
    let output = env.pinfold(&[&["policy", "explain", "--json"], call].concat());
    let told = serde_json::from_slice(&output.stdout);
    (told.unwrap_or_else(|_| panic!("{call:?}: {output:?}")), output.status.code())
}

/// Tries one call, the tail of a command line, by `run` and by `explain`.
fn decided(env: &Env, call: &[&str], wanted: Wanted) {
    let answer = env.run(&[&["--json"], call].concat());
    let (told, exit) = explain(env, call);
    let decision = &answer.reply["decision"];
    assert_eq!(told["template"], decision["template"], "{call:?}: {told}");
    match wanted {
        "auto" => {
            assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{call:?}: {answer:?}");
            assert_eq!((&decision["verdict"], &told["verdict"]), (&"auto".into(), &"auto".into()));
            assert_eq!(exit, Some(0), "{call:?}: {told}");
        }
        "ask" => {
            assert_eq!(answer.refusal(), "nobody-to-ask", "{call:?}: {answer:?}");
            is_refusal(&answer, "nobody-to-ask", "");
            assert_eq!((&told["verdict"], exit), (&"ask".into(), Some(0)), "{call:?}: {told}");
        }
        code => {
            assert_eq!(answer.refusal(), code, "{call:?}: {answer:?}");
            is_refusal(&answer, code, "");
            for member in ["verdict", "code", "reason", "next", "counted"] {
                assert_eq!(told[member], decision[member], "{call:?}: {told}");
            }
            assert_eq!(told["message"], answer.reply["message"], "{call:?}: {told}");
            assert_eq!(exit, Some(answer.code), "{call:?}: {told}");
        }
    }
}

/// Tries calls. Each gets the decision that stands beside it, each decision has its record, and
/// the workspace is left as it was: what passes here only looks.
pub(crate) fn all_decided(env: &Env, calls: &[(Vec<&str>, Wanted)]) {
    let (before, files) = (env.records().len(), tree(&env.workspace()));
    for (call, wanted) in calls {
        decided(env, call, wanted);
    }
    assert_eq!(tree(&env.workspace()), files, "something ran");
    let records = env.records().split_off(before);
    let kinds = records.iter().filter(|it| it["kind"] == "refusal" || it["kind"] == "intent");
    let recorded: Vec<&str> = kinds.map(|it| it["code"].as_str().unwrap_or("auto")).collect();
    let asked = |wanted: &Wanted| if *wanted == "ask" { "nobody-to-ask" } else { wanted };
    let wanted: Vec<&str> = calls.iter().map(|(_, wanted)| asked(wanted)).collect();
    assert_eq!(recorded, wanted);
}

/// As [`all_decided`], for argument vectors whose words are parted by one blank.
pub(crate) fn argvs(env: &Env, rows: &[(&str, Wanted)]) {
    let calls: Vec<_> = rows
        .iter()
        .map(|(text, wanted)| (["--"].into_iter().chain(text.split(' ')).collect(), *wanted))
        .collect();
    all_decided(env, &calls);
}

/// As [`all_decided`], for argument vectors.
pub(crate) fn vectors(env: &Env, rows: &[(&[&str], Wanted)]) {
    let calls: Vec<_> =
        rows.iter().map(|(argv, wanted)| ([&["--"], *argv].concat(), *wanted)).collect();
    all_decided(env, &calls);
}

/// As [`all_decided`], for lines.
pub(crate) fn lines(env: &Env, rows: &[(&str, Wanted)]) {
    let calls: Vec<_> =
        rows.iter().map(|(line, wanted)| (vec!["--line", *line], *wanted)).collect();
    all_decided(env, &calls);
}

/// Lines that a shell makes the file `made` of. None does here.
pub(crate) fn shell_lines(env: &Env, rows: &[(&str, Wanted)]) {
    for (line, _) in rows {
        makes(env, line, || shell(env, line));
    }
    lines(env, rows);
}

/// A host with a file to look at, a repository with a change, and stand-ins.
fn project() -> Option<Env> {
    let env = host(&["git", "bash"])?;
    env.repository();
    env.file("tracked.txt", "changed\n");
    stand_in(&env, &["cargo", "forge", "node", "npm", "npx", "pip", "pytest", "python3"]);
    Some(env)
}

#[test]
fn d01_d02_d07_d08_d56_a_line_that_a_shell_takes_for_more_than_one_command_is_refused() {
    let Some(env) = project() else { return };
    let rows = [
        ("git status && touch made", "shell-meta"),
        ("git status; touch made", "shell-meta"),
        ("git status | touch made", "shell-meta"),
        ("git status & touch made", "shell-meta"),
        ("git frob || touch made", "shell-meta"),
        ("git status&&touch made", "shell-meta"),
        ("echo a\ntouch made", "shell-meta"),
        ("cat <<E\n$(touch made)\nE", "shell-meta"),
        ("cat <<<$(touch made)", "shell-meta"),
        ("cat <(touch made)", "shell-meta"),
        ("echo $((a[$(touch made)]))", "shell-meta"),
        ("x='$(touch made)'; echo ${x@P}", "assignment"),
        ("printf -v 'a[$(touch made)]' 1", "instead"),
        ("test -v 'a[$(touch made)]'", "instead"),
        ("echo x > made", "shell-meta"),
        ("echo x >>made", "shell-meta"),
        ("echo \"`touch made`\"", "shell-meta"),
    ];
    shell_lines(&env, &rows);
    lines(&env, &[("echo x > ~/.bashrc", "shell-meta"), ("git status", "auto")]);
    // Without a shell, what joins commands and redirects is text like other text.
    let echo = env.cmd(&["echo", "a", "&&", "touch", "made", ">", "made"]);
    assert_eq!(echo.stdout(), "a && touch made > made\n");
    vectors(&env, &[(&["echo", "a\ntouch made"], "operand-kind"), (&["echo", "a b;c"], "auto")]);
}

#[test]
fn d04_no_letter_that_looks_like_another_or_like_none_makes_a_listed_name() {
    let Some(env) = project() else { return };
    let rows: [(&[&str], Wanted); 9] = [
        (&["git\u{a0}status"], "program-name"),
        (&["git status"], "program-name"),
        (&["git\u{3000}status"], "program-name"),
        (&["gi\u{200b}t", "status"], "invisible-char"),
        (&["git", "status\u{200b}"], "invisible-char"),
        (&["\u{ff47}it", "status"], "program-name"),
        (&["g\u{456}t", "status"], "program-name"),
        (&["GIT", "status"], "unknown-program"),
        (&["git", "status"], "auto"),
    ];
    vectors(&env, &rows);
    lines(&env, &[("git\u{a0}status", "program-name"), ("gi\u{200b}t status", "invisible-char")]);
    let answer = env.cmd(&["gi\u{200b}t", "status"]);
    is_refusal(&answer, "invisible-char", r"gi\u{200b}t");
    is_refusal(&env.cmd(&["git\u{a0}status"]), "program-name", r"git\u{a0}status");
    is_refusal(&env.cmd(&["\u{ff47}it", "status"]), "program-name", r"\u{ff47}it");
}

#[test]
fn d05_no_quoting_hides_a_word_from_the_decision() {
    let Some(env) = project() else { return };
    let rows = [
        ("t''ouch made", "instead"),
        ("\"touch\" made", "instead"),
        ("t\\ouch made", "shell-meta"),
        ("$'\\x74ouch' made", "shell-meta"),
        ("/usr/bin/tou?h made", "shell-meta"),
        ("{touch,made}", "shell-meta"),
        ("\\touch made", "shell-meta"),
    ];
    shell_lines(&env, &rows);
    lines(&env, &[("g''it \"st\"atus", "auto")]);
}

#[test]
fn d12_d13_no_call_brings_variables() {
    let Some(env) = project() else { return };
    script(&env, "evil", "#!/bin/sh\ntouch made\n");
    let rows = [
        ("GIT_EXTERNAL_DIFF=./evil git diff", "assignment"),
        ("A=1 GIT_EXTERNAL_DIFF=./evil git diff", "assignment"),
        ("GIT_EXTERNAL_DIFF+=./evil git diff", "assignment"),
        ("env GIT_EXTERNAL_DIFF=./evil git diff", "instead"),
        ("export GIT_EXTERNAL_DIFF=./evil; git diff", "shell-meta"),
    ];
    shell_lines(&env, &rows);
    let rows = [
        ("NODE_OPTIONS=--require=./e.js npm --version", "assignment"),
        ("PAGER=./h git log", "assignment"),
        ("'GIT_EXTERNAL_DIFF=evil' git diff", "program-name"),
    ];
    lines(&env, &rows);
    let names = [
        "LD_PRELOAD",
        "BASH_ENV",
        "PYTHONPATH",
        "GIT_CONFIG_COUNT",
        "PATH",
        "IFS",
        "NODE_OPTIONS",
        "BASH_FUNC_ls%%",
        "GLIBC_TUNABLES",
    ];
    let words = names.map(|name| format!("{name}=x"));
    let rows: Vec<_> = words.iter().map(|word| [word.as_str(), "git", "status"]).collect();
    let rows: Vec<_> = rows.iter().map(|argv| (&argv[..], "program-name")).collect();
    vectors(&env, &rows);
    // A request has no member for variables; the command line knows no such option.
    for option in ["--env", "-e", "--set-env"] {
        let output = env.pinfold(&["run", option, "A=1", "--", "git", "status"]);
        assert_eq!(output.status.code(), Some(125), "{option}: {output:?}");
    }
    vectors(&env, &[(&["git", "status"], "auto")]);
}

#[test]
fn d14_nothing_of_the_environment_that_pinfold_was_started_in_reaches_a_command() {
    let Some(env) = project() else { return };
    let trap = script(&env, "evil", "#!/bin/sh\ntouch made\n");
    let names = [
        "BASH_ENV",
        "RIPGREP_CONFIG_PATH",
        "LESSOPEN",
        "PYTEST_ADDOPTS",
        "GOFLAGS",
        "MAKEFLAGS",
        "CARGO_BUILD_RUSTC_WRAPPER",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_SSH_COMMAND",
        "GLIBC_TUNABLES",
        "BASH_FUNC_ls%%",
        "LC_ALL",
        "PYTHONHOME",
        "PERL5OPT",
    ];
    let hostile = names.map(|name| (name, trap.as_str()));
    for profile in ["look", "repo", "build", "gate", "none"] {
        let words = ["run", "--", "probe", profile, "env"];
        let usual = env.pinfold(&words).stdout;
        let told = env.command(&words).envs(hostile).output().expect("pinfold starts").stdout;
        assert!(usual == told && !usual.is_empty(), "{profile}");
        let told = String::from_utf8(told).expect("UTF-8");
        assert!(!told.contains(&trap), "{profile}: {told}");
    }
    let diff = |mut command: Command| {
        command.envs(hostile).output().expect("it starts");
    };
    let mut git = Command::new("git");
    git.arg("diff").current_dir(env.workspace()).env("HOME", env.path("home"));
    makes(&env, "git diff", || diff(git));
    let output = env.command(&["run", "--", "git", "diff"]).envs(hostile).output();
    let output = output.expect("pinfold starts");
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    assert!(!env.workspace().join("made").exists());
}

#[test]
fn d15_a_wrapper_passes_nothing_on() {
    let Some(env) = project() else { return };
    let wrappers = [
        ("env", "instead"),
        ("nice", "instead"),
        ("timeout 5", "instead"),
        ("nohup", "instead"),
        ("stdbuf -o0", "instead"),
        ("setsid", "instead"),
        ("time", "instead"),
        ("chrt -o 0", "unknown-program"),
        ("taskset 1", "unknown-program"),
        ("flock f", "instead"),
        ("xargs", "instead"),
        ("script -c", "instead"),
        ("busybox", "instead"),
        ("command", "instead"),
        ("exec", "instead"),
        ("sudo", "instead"),
        ("sh -c", "instead"),
        ("bash -c", "flag-forbidden"),
        ("prlimit", "unknown-program"),
    ];
    for wrapped in ["rm tracked.txt", "git status"] {
        let texts = wrappers.map(|(wrapper, code)| (format!("{wrapper} {wrapped}"), code));
        let rows: Vec<_> = texts.iter().map(|(text, code)| (text.as_str(), *code)).collect();
        argvs(&env, &rows);
    }
    argvs(&env, &[("git status", "auto"), ("ls", "auto")]);
}

#[test]
fn d18_d20_a_listed_name_is_no_path_and_no_other_file_of_that_name() {
    let Some(env) = project() else { return };
    let body = "#!/bin/sh\ntouch made\n";
    for name in ["git", "bin/git", "n", "mynode"] {
        script(&env, name, body);
    }
    symlink("/usr/bin/npx", env.workspace().join("link")).expect("a link");
    makes(&env, "./git status", || shell(&env, "./git status"));
    let absolute = env.workspace().join("git");
    let absolute = absolute.to_str().expect("UTF-8");
    vectors(&env, &[(&[absolute, "status"], "program-path")]);
    let rows = [
        ("./git status", "program-path"),
        ("bin/../git status", "program-path"),
        ("bin/git status", "program-path"),
        ("/tmp/git status", "program-path"),
        ("/usr/bin/git status", "program-path"),
        ("git/ status", "program-path"),
        ("/proc/self/root/usr/bin/npx x", "program-path"),
        ("./link x", "program-path"),
        ("n", "unknown-program"),
        ("mynode x.js", "unknown-program"),
        ("link tsc --noEmit", "unknown-program"),
        ("node /usr/lib/node_modules/npm/bin/npx-cli.js", "operand-kind"),
        ("node ../../usr/lib/node_modules/npm/bin/npx-cli.js", "operand-kind"),
        ("npx left-pad", "sub-unknown"),
        ("node link", "auto"),
        ("git status", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn d19_the_callers_path_chooses_no_program_and_the_record_says_which_file_ran() {
    let Some(env) = project() else { return };
    let body = "#!/bin/sh\ntouch made\n";
    for name in ["git", "bin/git"] {
        script(&env, name, body);
    }
    fs::create_dir_all(env.path("home/.local/bin")).expect("folders");
    fs::copy(env.workspace().join("git"), env.path("home/.local/bin/git")).expect("a program");
    let ran = |path: Option<&str>| {
        let mut command = env.command(&["run", "--json", "--", "git", "status", "--porcelain"]);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let output = command.output().expect("pinfold starts");
        assert!(output.status.success(), "{path:?}: {output:?}");
        env.records_of("intent").pop().expect("an intent")["program"].clone()
    };
    let usual = ran(None);
    assert!(usual["path"] == "/usr/local/bin/git" || usual["path"] == "/usr/bin/git", "{usual}");
    let (ws, home) = (env.workspace(), env.path("home"));
    for path in [
        format!("{0}/bin:{1}/.local/bin:/usr/bin:/bin", ws.display(), home.display()),
        ":/usr/bin:/bin".to_owned(),
        ".:/usr/bin:/bin".to_owned(),
        "bin:/usr/bin:/bin".to_owned(),
        format!("{}/.local/bin:/usr/bin:/bin", home.display()),
    ] {
        makes(&env, &path, || {
            let mut git = Command::new("/bin/sh");
            git.args(["-c", "git status"]).env("PATH", &path).current_dir(&ws);
            git.output().expect("a shell starts");
        });
        assert_eq!(ran(Some(&path)), usual, "{path}");
        assert!(!ws.join("made").exists(), "{path}");
    }
}

#[test]
fn d22_a_link_that_leads_elsewhere_afterwards_is_looked_at_anew() {
    let Some(env) = Env::new() else { return };
    edit(&env, "catalog.toml", |text| format!("{text}{TOOL}"));
    let (link, call) = (env.path("bin/made-up"), ["--json", "--", "made-up"]);
    let lead = |to: &std::path::Path| {
        drop(fs::remove_file(&link));
        symlink(to, &link).expect("a link");
    };
    let file = |name: &str| {
        let path = env.path(name);
        copy_program("/bin/true".as_ref(), &path);
        path
    };
    let (first, second, inside) = (file("home/one"), file("home/two"), file("ws/three"));
    let ran = || {
        let answer = env.run(&call);
        assert_eq!(answer.code, 0, "{answer:?}");
        env.records_of("intent").pop().expect("an intent")["program"].clone()
    };
    lead(&first);
    let before = ran();
    assert_eq!(before["path"], first.to_str().expect("UTF-8"));
    // A file that is as trustworthy is taken, and the record tells the two apart.
    lead(&second);
    let after = ran();
    assert_eq!(after["path"], second.to_str().expect("UTF-8"));
    assert_ne!(after["ino"], before["ino"]);
    lead(&inside);
    refused(&env, &call, "program-unavailable", "is inside the workspace");
    fs::set_permissions(&first, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("a mode");
    lead(&first);
    refused(&env, &call, "program-unavailable", "can be written by others");
    lead(&second);
    ran();
    // An operator who wants one content and no other pins it.
    let pin = before["sha256"].as_str().expect("a digest");
    edit(&env, "catalog.toml", |text| format!("{text}sha256 = \"{pin}\"\n"));
    ran();
    copy_program("/bin/false".as_ref(), &env.path("home/four"));
    lead(&env.path("home/four"));
    refused(&env, &call, "program-unavailable", "not what the catalog pins");
}

/// A template that lets `git push` pass, which the shipped catalog refuses.
pub(crate) const PUSH: &str = "\n[[tool]]\nid = \"git-push\"\nprogram = \"git\"\nsub = [\"push\"]\n\
    describe = \"Test.\"\naccess = \"read-only\"\ndecision = \"auto\"\nprofile = \"repo\"\n\
    operands = { kind = \"none\" }\nmatch = [\"git push\"]\nno_match = [\"git push x\"]\n";

#[test]
fn d23_a_call_that_is_both_listed_and_refused_never_runs() {
    let Some(env) = project() else { return };
    argvs(&env, &[("git push", "listed-refusal"), ("git status", "auto")]);
    // One catalog cannot say both.
    edit(&env, "catalog.toml", |text| format!("{text}{PUSH}"));
    argvs(&env, &[("git push", "config"), ("git status", "config")]);
    let message = env.cmd(&["git", "push"]).reply["message"].to_string();
    assert!(message.contains("`[[refuse]]` names `git push`, which has a template"), "{message}");
    // Where two files say different, the stricter one counts, whatever the other one allows.
    edit(&env, "catalog.toml", |text| text.replacen("subs = [\"push\"]", "subs = [\"p\"]", 1));
    let overlay = env.path("config/tighten.toml");
    let rule = "schema = 1\n[[tool]]\nid = \"git-push\"\ndecision = \"refuse\"\n";
    fs::write(&overlay, rule).expect("an overlay");
    let overlay = overlay.to_str().expect("UTF-8");
    let call = |words: &[&'static str]| [&["--tighten", overlay, "--"], words].concat();
    let rows = [(call(&["git", "push"]), "listed-refusal"), (call(&["git", "status"]), "auto")];
    all_decided(&env, &rows);
    assert_eq!(explain(&env, &["--", "git", "push"]).0["verdict"], "auto", "the control");
    fs::write(
        overlay,
        rule.replace("git-push", "ls")
            + "[[tool]]\nid = \"python\"\n\
        decision = \"auto\"\n",
    )
    .expect("an overlay");
    all_decided(&env, &[(call(&["ls"]), "config")]);
}

#[test]
fn d24_only_whole_words_and_listed_options_fit() {
    let Some(env) = project() else { return };
    let rows = [
        ("git log-x", "sub-unknown"),
        ("git status-x", "sub-unknown"),
        ("git statusx", "sub-unknown"),
        ("git stat", "sub-unknown"),
        ("git log --output=f", "listed-refusal"),
        ("git status --output=f", "flag-unknown"),
        ("git status --porcelain=v3", "flag-unknown"),
        ("git status --porc", "flag-unknown"),
        ("git status -sx", "flag-cluster"),
        ("git status x", "operand-unexpected"),
        ("lsof", "unknown-program"),
        ("l", "unknown-program"),
        ("lss", "unknown-program"),
        ("ls -lZ", "flag-unknown"),
        ("ls --all", "flag-unknown"),
        ("ls", "auto"),
        ("ls -l", "auto"),
        ("git status --porcelain=v2", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn d25_d27_d29_d31_d57_options_of_git_that_run_write_or_destroy_are_refused() {
    let Some(env) = project() else { return };
    script(&env, "evil", "#!/bin/sh\ntouch made\n");
    for line in [
        "git -c core.fsmonitor=./evil status",
        "X=./evil git --config-env=core.fsmonitor=X status",
        "git -c alias.x='!touch made' x",
        "git -c diff.external=./evil diff",
        "git diff --output=made",
        "git log -1 -p --output=made",
        "git ls-remote --upload-pa='touch made;' .",
        "git clone -u 'touch made;' . ../copy1",
        "git archive --remote=. --exec='touch made;' HEAD",
        "git branch made && git branch -D made && touch made",
    ] {
        makes(&env, line, || shell(&env, line));
    }
    let rows = [
        ("git -c core.fsmonitor=./evil status", "option-before-sub"),
        ("git -ccore.fsmonitor=./evil status", "option-before-sub"),
        ("git --config-env=core.fsmonitor=X status", "option-before-sub"),
        ("git -c alias.x=!id x", "option-before-sub"),
        ("git -c core.pager=./evil --paginate status", "option-before-sub"),
        ("git --exec-path=. status", "option-before-sub"),
        ("git -C .. status", "option-before-sub"),
        ("git --git-dir=x status", "option-before-sub"),
        ("git diff --output=../x", "flag-forbidden"),
        ("git diff --output=made", "flag-forbidden"),
        ("git diff --output made", "flag-forbidden"),
        ("git diff --outp=made", "flag-unknown"),
        ("git diff --ext-diff", "flag-forbidden"),
        ("git diff --no-index a b", "flag-forbidden"),
        ("git log -1 -p --output=made", "listed-refusal"),
        ("git show --output=made", "listed-refusal"),
        ("git ls-remote --upload-pa=./evil .", "listed-refusal"),
        ("git clone -u ./evil . x", "listed-refusal"),
        ("git clone --template=t . x", "listed-refusal"),
        ("git clone -c core.fsmonitor=./evil . x", "listed-refusal"),
        ("git clone --config a=b --recurse-submodules . x", "listed-refusal"),
        ("git clone ext::sh x", "listed-refusal"),
        ("git init --template=t", "flag-unknown"),
        ("git fetch --upload-pack=./evil .", "listed-refusal"),
        ("git push --receive-pack=./evil .", "listed-refusal"),
        ("git push --exec=./evil .", "listed-refusal"),
        ("git archive --remote=. --exec=./evil HEAD", "listed-refusal"),
        ("git clean -fX -- tracked.txt", "double-dash"),
        ("git clean -fX", "listed-refusal"),
        ("git checkout -- .", "double-dash"),
        ("git checkout .", "listed-refusal"),
        ("git reset --hard", "listed-refusal"),
        ("git stash drop", "listed-refusal"),
        ("git branch -D main", "listed-refusal"),
        ("git restore .", "listed-refusal"),
        ("git status", "auto"),
        ("git --no-pager diff --stat", "auto"),
    ];
    argvs(&env, &rows);
    let lines_of = [
        ("GIT_TEMPLATE_DIR=t git init", "assignment"),
        ("rm -f ~/*", "shell-meta"),
        ("rm -f x", "instead"),
    ];
    lines(&env, &lines_of);
}

#[test]
fn d33_d34_d36_d37_d39_d42_programs_whose_arguments_are_a_language_have_no_template() {
    let Some(env) = project() else { return };
    env.file("f", "a\n");
    for line in [
        "find f -exec touch made ;".replace(" ;", " ';'").as_str(),
        "find f -fprint made",
        "sed '1e touch made' f",
        "sed -n 'w made' f",
        "sed 's/a/touch made/e' f",
        "tar cf made f",
        "tar cf /dev/null --checkpoint=1 --checkpoint-act=exec='touch made' f",
        "sort -o made f",
        "sort f -omade",
    ] {
        makes(&env, line, || shell(&env, line));
    }
    let no_template = |names: &str, code: Wanted| {
        let rows: Vec<(&str, Wanted)> = names.split('|').map(|text| (text, code)).collect();
        argvs(&env, &rows);
    };
    no_template(
        "find . -exec touch made|find . -execdir x|find . -ok x|find . -delete|find . -fprint made\
        |find . -fprintf x y|find . -fls x|find . -fprint0 x|find -files0-from f|find .\
        |sed -i s/a/b/ f|sed -n w f|sed 1e f|sed s/a/b/e f|rg --pre=./h x|rg --hostname-bin=./h x\
        |rg -z x|fd -x touch made|less +!id f|gdb -ex x|vim -c x|ed f|ssh -oProxyCommand=x h\
        |ssh -F f h|curl -K f|wget --use-askpass=./h x|wget -e x|gcc @resp|gcc -wrapper x f\
        |gcc -B . f|gcc -specs=f f|perl -e 1|awk 1 f|dd if=f of=made",
        "instead",
    );
    no_template(
        "tar xf a --to-command=./h|tar cf a --checkpoint-act=exec=./h f|tar -I ./h -cf a f\
        |tar --use-compress-program=./h -cf a f|tar --rsh-command=./h -cf h:a f|tar xfC a ..\
        |sort -oM f|sort f -o M|sort -S 1K --compress-prog=./h f|man -P ./h ls|zip -T -TT ./h a f",
        "unknown-program",
    );
    argvs(&env, &[("cat f", "auto"), ("ls -R", "auto")]);
}

#[test]
fn d43_npm_runs_listed_scripts_only_and_by_a_fixed_shell() {
    let Some(env) = host(&["node", "npm", "bash"]) else { return };
    let argvs_of = [
        ("npm t", "sub-unknown"),
        ("npm tst", "sub-unknown"),
        ("npm start", "listed-refusal"),
        ("npm run start", "operand-kind"),
        ("npm run", "operand-count"),
        ("npm run-script test", "sub-unknown"),
        ("npm exec x", "listed-refusal"),
        ("npm x y", "listed-refusal"),
        ("npm install", "listed-refusal"),
        ("npm i x", "listed-refusal"),
        ("npm ci", "listed-refusal"),
        ("npm pack", "sub-unknown"),
        ("npm it", "sub-unknown"),
        ("npm test --script-shell=./h", "flag-unknown"),
        ("npm --script-shell=./h test", "option-before-sub"),
        ("npm run test --script-shell=./h", "option-after-operand"),
        ("npm --prefix x test", "option-before-sub"),
        ("npx left-pad", "sub-unknown"),
    ];
    argvs(&env, &argvs_of);
    // A listed script is the project's own code; the shell that reads it is not.
    env.file("package.json", "{\"name\": \"a\", \"scripts\": {\"test\": \"echo tested\"}}\n");
    let trap = script(&env, "h", "#!/bin/sh\ntouch made\n");
    env.file(".npmrc", &format!("script-shell={trap}\n"));
    makes(&env, "npm t", || drop(outside(&env, &["npm", "t"])));
    let answer = env.cmd(&["npm", "test"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.stdout().ends_with("tested\n"), "{answer:?}");
    assert!(!env.workspace().join("made").exists());
}

#[test]
fn d44_pip_is_found_in_every_spelling_and_a_decoy_is_not_taken_for_it() {
    let Some(env) = project() else { return };
    // Without an index a call that is found to install ends here.
    let rows = [
        ("pip install foo", "no-index"),
        ("pip3 install foo", "no-index"),
        ("pip download foo", "no-index"),
        ("python3 -mpip install foo", "no-index"),
        ("python -m pip install foo", "no-index"),
        ("python3 -Im pip install foo", "no-index"),
        ("python3 -Impip install foo", "no-index"),
        ("python3 -qmpip install foo", "no-index"),
        ("python3 -W ignore -m pip install foo", "no-index"),
        ("python3 -Xutf8 -mpip install foo", "no-index"),
        ("python3 -m pip.__main__ install foo", "no-index"),
        ("python3 -m pip._internal install foo", "pip-internal"),
        ("python3 -m runpy pip install foo", "module-runner"),
        ("python3 -m cProfile -m pip install foo", "module-runner"),
        ("python3 -m ensurepip", "module-runner"),
        ("python3 --module pip install foo", "interpreter-option"),
        ("python3 -mpip install --index-u=http://x.invalid foo", "flag-unknown"),
        ("python3 -mpip install -i http://x.invalid foo", "flag-forbidden"),
        ("pip install --index-u=http://x.invalid foo", "flag-unknown"),
        ("pip install .", "operand-kind"),
        ("pip download ./a.tar.gz", "operand-kind"),
        ("pip install git+https://x.invalid/y", "operand-kind"),
        ("pip -q install foo", "option-before-sub"),
        ("uv pip install foo", "instead"),
        ("pipx install foo", "instead"),
        ("python3.11 -m pip install foo", "instead"),
        ("easy_install foo", "instead"),
        ("python3 -", "interpreter-stdin"),
        ("python3 -q", "interpreter-stdin"),
        ("python3 -Xmpip install foo", "ask"),
        ("python3 -X pip t.py", "ask"),
        ("python3 -Wmpip x.py", "ask"),
        ("python3 -cmpip install", "ask"),
        ("python3 t.py -m pip install foo", "ask"),
        ("pip list", "auto"),
        ("python3 -m pip list", "ask"),
    ];
    argvs(&env, &rows);
    // With an index, what installs waits for a network, whatever its spelling.
    let index = "[index]\npip = \"https://index.invalid/simple\"\n";
    edit(&env, "pinfold.toml", |text| format!("{text}{index}"));
    for spelling in ["pip", "python3 -mpip", "python3 -W ignore -Im pip"] {
        let text = format!("{spelling} install foo");
        argvs(&env, &[(&text, "profile-unavailable")]);
        let (told, _) =
            explain(&env, &[&["--"], &text.split(' ').collect::<Vec<_>>()[..]].concat());
        let head = format!(
            "{spelling} install --isolated --index-url https://index.invalid/simple --target \
             .pinfold/site foo"
        );
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(told["executed"], serde_json::json!(words), "{told}");
    }
}

#[test]
fn d45_d48_d50_what_runs_the_projects_code_is_never_read_only_and_takes_no_code_of_its_own() {
    let Some(env) = project() else { return };
    let rows = [
        ("cargo --config build.rustc-wrapper=x build --offline", "option-before-sub"),
        ("cargo build --offline --config build.rustc-wrapper=x", "flag-forbidden"),
        ("cargo build --offline --config=x", "flag-forbidden"),
        ("cargo +nightly build --offline", "sub-unknown"),
        ("cargo fmt", "listed-refusal"),
        ("cargo b --offline", "listed-refusal"),
        ("cargo run --offline", "listed-refusal"),
        ("cargo check", "flag-required"),
        ("pytest -p evil", "flag-forbidden"),
        ("pytest -pevil", "flag-cluster"),
        ("pytest -c x.ini", "flag-forbidden"),
        ("pytest -o addopts=x", "flag-forbidden"),
        ("pytest --confcutdir=x", "flag-unknown"),
        ("pytest @args", "operand-kind"),
        ("pytest --rootdir=..", "flag-forbidden"),
        ("node -e 1", "flag-forbidden"),
        ("node -r ./e.js b.js", "flag-forbidden"),
        ("node -pe1 b.js", "flag-cluster"),
        ("python3 -c 1", "ask"),
        ("python3 -Bc1", "ask"),
        ("python3 -m json.tool a.json", "ask"),
        ("python3 -I x.py", "ask"),
        ("cargo check --offline", "auto"),
        ("pytest -q", "auto"),
        ("node b.js", "auto"),
    ];
    argvs(&env, &rows);
    for text in ["cargo check --offline", "pytest -q", "node b.js", "python3 -c 1", "make"] {
        let words: Vec<&str> = ["--"].into_iter().chain(text.split(' ')).collect();
        let (told, _) = explain(&env, &words);
        assert_eq!(told["profile"]["access"], "workspace-write", "{text}: {told}");
        assert_eq!(told["profile"]["name"], "build", "{text}: {told}");
        assert_ne!(told["profile"]["network"], "fetch", "{text}: {told}");
    }
    // An operator may list one script of an interpreter; then that one runs and no other code.
    let start = "\n[[tool]]\nid = \"python\"\n";
    let tests = "\n[[tool]]\nid = \"python\"\nprogram = \"python3\"\ndescribe = \"Test.\"\n\
        access = \"workspace-write\"\ndecision = \"auto\"\nprofile = \"build\"\n\
        operands = { kind = \"choice\", of = [\"tests/run.py\"], min = 1, max = 1 }\n\
        match = [\"python3 tests/run.py\"]\nno_match = [\"python3 -c 1\"]\n";
    edit(&env, "catalog.toml", |text| {
        let (head, rest) = text.split_once(start).expect("the template");
        let rest = rest.split_once("\n[[").expect("more entries").1;
        format!("{head}{tests}\n[[{rest}")
    });
    let rows = [
        ("python3 -c 1", "flag-unknown"),
        ("python3 -Bc1", "flag-cluster"),
        ("python3 -m pip", "flag-unknown"),
        ("python3 tests/other.py", "operand-kind"),
        ("python3 tests/run.py x", "operand-count"),
        ("python3 ./tests/run.py", "operand-kind"),
        ("python3 tests/run.py", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn d51_a_program_name_is_never_an_option() {
    let Some(env) = project() else { return };
    let rows = [
        ("--bind / /", "program-name"),
        ("-x ls", "program-name"),
        ("-c ls", "program-name"),
        ("--help", "program-name"),
        ("--version", "program-name"),
        ("--json ls", "program-name"),
        ("--workspace / ls", "program-name"),
        ("-- ls", "double-dash"),
        ("ls --", "double-dash"),
        ("ls -- --bind", "double-dash"),
        ("ls", "auto"),
    ];
    argvs(&env, &rows);
    let rows = [("--help", "program-name"), ("-- ls", "double-dash"), ("ls", "auto")];
    lines(&env, &rows);
}

#[test]
fn d53_no_call_that_ran_and_none_that_asked_makes_another_one_pass() {
    let Some(env) = project() else { return };
    env.file("x.py", "");
    fs::create_dir(env.workspace().join("sub")).expect("a folder");
    let rows = [
        ("ls sub", "auto"),
        ("python3 x.py", "ask"),
        ("ls /tmp", "operand-kind"),
        ("rm -rf x", "instead"),
        ("ls -rf x", "flag-unknown"),
        ("shell ls", "unknown-program"),
        ("python3 x.py", "ask"),
        ("python3 -c 1", "ask"),
    ];
    argvs(&env, &rows);
    let all = env.records_of("refusal");
    argvs(&env, &rows);
    let again = env.records_of("refusal").split_off(all.len());
    let said = |records: &[Value]| -> Vec<Value> {
        records.iter().map(|it| serde_json::json!([it["argv"], it["code"], it["next"]])).collect()
    };
    assert_eq!(said(&all), said(&again));
    vectors(&env, &[(&["ls sub"], "program-name"), (&["shell ls /tmp"], "program-path")]);
}
