//! Failures of other engines that were published, each with the rule that it bought: the attack,
//! shown outside where its program is here, is refused in its spellings, and its harmless
//! neighbour passes.

use crate::config::edit;
use crate::decisions::{all_decided, argvs, lines, makes, shell, shell_lines, stand_in, vectors};
use crate::input::{asked, call, tree};
use crate::programs::{config, host, outside, script};
use crate::support::{Env, has_programs};
use pinfold::run::Words;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

/// Far more than a refusal takes, also on a busy host; an unbounded check would need more.
const REFUSAL_MAX: Duration = Duration::from_secs(20);

/// A workspace with a file to look at.
fn project() -> Option<Env> {
    let env = host(&["bash"])?;
    env.file("a.txt", "a\n");
    Some(env)
}

/// The same as a repository with a change.
fn repository() -> Option<Env> {
    host(&["git", "bash"]).map(changed)
}

/// Makes the workspace a repository with a change that is not committed.
fn changed(env: Env) -> Env {
    env.repository();
    env.file("tracked.txt", "changed\n");
    env
}

#[test]
fn sudo_cve_2010_0426_a_name_with_a_slash_is_refused_whatever_its_last_part() {
    let Some(env) = project() else { return };
    script(&env, "ls", "#!/bin/sh\ntouch made\n");
    makes(&env, "./ls", || shell(&env, "./ls"));
    let rows = [
        ("./ls", "program-path"),
        ("/bin/ls", "program-path"),
        ("/usr/bin/ls a.txt", "program-path"),
        ("sub/../ls", "program-path"),
        ("ls/", "program-path"),
        ("/ls", "program-path"),
        ("../bin/probe none ids", "program-path"),
        ("./sudoedit /etc/shadow", "program-path"),
        ("ls", "auto"),
    ];
    argvs(&env, &rows);
    lines(&env, &[("./ls", "program-path"), ("'./'ls", "program-path"), ("ls", "auto")]);
}

#[test]
fn cursor_cve_2026_22708_a_builtin_runs_nowhere_and_no_call_inherits_from_another() {
    let Some(env) = repository() else { return };
    script(&env, "evil", "#!/bin/sh\ntouch made\n");
    let rows = [
        ("export GIT_EXTERNAL_DIFF=./evil; git diff", "shell-meta"),
        ("export GIT_EXTERNAL_DIFF=./evil\ngit diff", "shell-meta"),
        ("typeset -x GIT_EXTERNAL_DIFF=./evil && git diff", "shell-meta"),
    ];
    shell_lines(&env, &rows);
    let environment = || env.pinfold(&["run", "--", "probe", "repo", "env"]).stdout;
    let before = environment();
    let rows = [
        ("export GIT_EXTERNAL_DIFF=./evil", "instead"),
        ("typeset -x PAGER=./evil", "instead"),
        ("declare -x PAGER=./evil", "instead"),
        ("readonly PAGER=./evil", "unknown-program"),
        ("alias git=./evil", "instead"),
        ("set -a", "instead"),
        ("source evil", "instead"),
        (". evil", "instead"),
        ("eval ls", "instead"),
        ("trap ./evil EXIT", "instead"),
        ("hash -p ./evil git", "unknown-program"),
        ("enable -f ./evil x", "unknown-program"),
        ("git diff --stat", "auto"),
    ];
    argvs(&env, &rows);
    assert!(!before.is_empty() && environment() == before);
}

/// Sixty parts, the last of which is denied.
fn sixty_parts() -> String {
    "true && ".repeat(59) + "touch made"
}

#[test]
fn claude_code_d09_a_line_of_sixty_parts_is_refused_and_so_is_one_of_ten_mebibytes() {
    let Some(env) = project() else { return };
    let sixty = sixty_parts();
    shell_lines(&env, &[(&sixty, "shell-meta"), ("ls && touch made", "shell-meta")]);
    let long = format!("echo {}", "a ".repeat(60 << 10));
    let begin = Instant::now();
    lines(&env, &[(&long, "line-too-long")]);
    // More than a command line can carry: by a file of rows, and as another door would ask.
    let huge = sixty_parts() + &" && true".repeat((10 << 20) / 8);
    let row = |line: &str, code: &str| json!({"line": line, "expect": "refuse", "code": code});
    let rows = [row(&huge, "line-too-long"), row(&sixty, "shell-meta")].map(|row| row.to_string());
    same_decisions(&env, &rows.join("\n"));
    let length = huge.len();
    let reply = asked(&env, Words::Line(huge.into()));
    assert!(begin.elapsed() < REFUSAL_MAX, "{:?}", begin.elapsed());
    assert_eq!(reply["decision"]["code"], "line-too-long", "{reply}");
    let record = env.records_of("refusal").pop().expect("it is recorded");
    assert_eq!((&record["code"], &record["line"]["n"]), (&"line-too-long".into(), &length.into()));
    assert!(!env.workspace().join("made").exists());
}

#[test]
fn claude_code_every_limit_ends_in_a_refusal_and_what_keeps_within_it_passes() {
    let Some(env) = project() else { return };
    stand_in(&env, &["python3"]);
    let words = |count: usize| [vec!["python3", "x.py"], vec!["a"; count - 2]].concat();
    let long = |bytes: usize| "x".repeat(bytes);
    let (fits, over) = (long(4096), long(4097));
    let line = |bytes: usize| format!("echo {} {}", long(4000), long(bytes - 4006));
    let (line_fits, line_over) = (line(8000), line(8193));
    let echo = |count: usize| [vec!["echo"], vec!["a"; count]].concat();
    let vectors_of = [
        (words(64), "ask"),
        (words(65), "too-many-args"),
        (words(2000), "too-many-args"),
        (echo(32), "auto"),
        (echo(33), "operand-count"),
        (vec!["echo", &fits], "auto"),
        (vec!["echo", &over], "arg-too-long"),
    ];
    let rows: Vec<_> = vectors_of.iter().map(|(argv, wanted)| (&argv[..], *wanted)).collect();
    vectors(&env, &rows);
    lines(&env, &[(&line_fits, "auto"), (&line_over, "line-too-long")]);
}

#[test]
fn gemini_cli_no_operator_follows_a_listed_command() {
    let Some(env) = project() else { return };
    let rows = [
        "ls && touch made",
        "ls&&touch made",
        "ls; touch made",
        "ls;touch made",
        "ls frob || touch made",
        "ls | touch made",
        "ls |& touch made",
        "ls & touch made",
        "ls > made",
        "ls >made",
        "ls >> made",
        "ls >| made",
        "ls 1> made",
        "ls 2> made",
        "ls &> made",
        "ls <> made",
        "> made ls",
        "ls $(touch made)",
        "ls `touch made`",
        "ls \"$(touch made)\"",
        "(touch made)",
        "{ touch made; }",
        "! touch made",
        "ls\ntouch made",
        "ls \\\n; touch made",
        "cat <<E\n`touch made`\nE",
    ];
    shell_lines(&env, &rows.map(|line| (line, "shell-meta")));
    lines(&env, &[("ls", "auto"), ("echo 'a && b; c > made'", "auto")]);
    let rows: [(&[&str], &str); 4] = [
        (&["ls", "&&", "touch", "made"], "operand-count"),
        (&["ls", ">made"], "operand-kind"),
        (&["ls;touch", "made"], "program-name"),
        (&["echo", "&&", "touch", "made"], "auto"),
    ];
    vectors(&env, &rows);
}

#[test]
fn claude_code_what_one_splitter_reads_is_decided_recorded_and_executed_word_for_word() {
    let Some(env) = project() else { return };
    let rows: [(&str, &[&str]); 9] = [
        ("a  b\tc ", &["a", "b", "c"]),
        ("'a > b' \"c && d\"", &["a > b", "c && d"]),
        (r#""\$(touch made)" '$(touch made)' "\`x\`""#, &["$(touch made)", "$(touch made)", "`x`"]),
        (r#"a'b c'"d \"e\" \\ \n""#, &[r#"ab cd "e" \ \n"#]),
        ("a#b a~b A=1 x:y %s", &["a#b", "a~b", "A=1", "x:y", "%s"]),
        ("'*' \"?\" '[a]' '{a,b}' '~' '#x'", &["*", "?", "[a]", "{a,b}", "~", "#x"]),
        ("a\u{a0}b c\u{3000}d", &["a\u{a0}b", "c\u{3000}d"]),
        ("'é' ü\u{301} 漢字", &["é", "ü\u{301}", "漢字"]),
        ("\"it's\" 'say \"x\"'", &["it's", "say \"x\""]),
    ];
    for (line, words) in rows {
        let argv = [&["probe", "none", "argv"], words].concat();
        let line = format!("probe none argv {line}");
        let explained = env.pinfold(&["policy", "explain", "--json", "--line", &line]).stdout;
        let explained: Value = serde_json::from_slice(&explained).expect("JSON");
        assert_eq!(explained["executed"], json!(argv), "{line}");
        for answer in [env.run(&["--json", "--line", &line]), env.cmd(&argv)] {
            assert_eq!(answer.stdout().trim_end(), format!("{argv:?}"), "{line}: {answer:?}");
            let intent = env.records_of("intent").pop().expect("an intent");
            assert_eq!(intent["argv"], json!(argv), "{line}");
        }
    }
    // A carriage return parts no words, and no other reading of it lets the line pass.
    let rows = [
        ("echo a\rtouch made", "shell-meta"),
        ("echo 'a\rb'", "control-char"),
        ("echo a\u{b}b", "shell-meta"),
        ("echo a\u{85}b", "control-char"),
        ("echo a\u{2028}b", "invisible-char"),
        ("echo a", "auto"),
    ];
    lines(&env, &rows);
    vectors(&env, &[(&["echo", "a\rb"], "control-char"), (&["echo\ra"], "control-char")]);
}

#[test]
fn claude_code_a_commit_message_lets_nothing_else_of_the_line_pass() {
    let Some(env) = repository() else { return };
    let rows = [
        ("git commit -m x > made", "shell-meta"),
        ("git commit -m x; touch made", "shell-meta"),
        ("git commit -m \"$(touch made)\"", "shell-meta"),
        ("git commit -m x --dry-run >made", "shell-meta"),
        ("git commit -m \"`touch made`\"", "shell-meta"),
    ];
    shell_lines(&env, &rows);
    lines(&env, &[("git commit -m x --amend", "flag-forbidden"), ("git status", "auto")]);
    env.git(&["add", "tracked.txt"]);
    let message = "$(touch made) > made; `touch made`";
    let line = format!("git commit -q -m '{message}'");
    let answer = env.run(&["--json", "--line", &line]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(env.git(&["log", "-1", "--format=%B"]).trim_end(), message);
    assert!(!env.workspace().join("made").exists());
}

/// Has the binary compare decisions with what a file of rows wants; returns what it says.
fn tested(env: &Env, rows: &str) -> (Option<i32>, String) {
    let file = env.path("config/rows.jsonl");
    fs::write(&file, rows).expect("a file");
    let Output { status, stdout, stderr } =
        env.pinfold(&["policy", "test", file.to_str().expect("UTF-8")]);
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn same_decisions(env: &Env, rows: &str) {
    let (code, said) = tested(env, rows);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with(&format!("{} rows, 0 differ\n", rows.lines().count())), "{said}");
}

#[test]
fn socks_a_nul_and_every_control_character_is_refused_before_anything_else() {
    let Some(env) = project() else { return };
    let row = |argv: &[&str], code: Option<&str>| {
        let expect = if code.is_some() { "refuse" } else { "auto" };
        json!({"argv": argv, "expect": expect, "code": code}).to_string()
    };
    let mut rows = vec![
        row(&["cat", "a.txt\0.invalid"], Some("nul")),
        row(&["cat\0", "a.txt"], Some("nul")),
        row(&["frob", "a\0"], Some("nul")),
        row(&["echo", "\0"], Some("nul")),
        row(&["cat", "a.txt"], None),
    ];
    let controls = ('\u{1}'..' ').chain('\u{7f}'..'\u{a0}');
    for control in controls.filter(|ch| !['\n', '\t'].contains(ch)) {
        // An unknown program with such a character is refused for the character.
        for argv in [["echo", &format!("a{control}b")], ["frob", &format!("{control}")]] {
            rows.push(row(&argv, Some("control-char")));
        }
    }
    assert!(rows.len() > 100);
    same_decisions(&env, &rows.join("\n"));
    let before = tree(&env.workspace());
    let reply = call(&env, ["cat", "a.txt\0.invalid"].map(Into::into).to_vec());
    assert_eq!(reply["decision"]["code"], "nul", "{reply}");
    let record = env.records_of("refusal").pop().expect("it is recorded");
    assert_eq!(
        (&record["code"], record["argv"][1].as_str()),
        (&"nul".into(), Some("a.txt\0.invalid"))
    );
    assert_eq!(tree(&env.workspace()), before);
}

#[test]
fn gogs_cve_2024_39930_39932_nothing_that_starts_with_a_dash_is_an_operand_or_a_value() {
    let Some(env) = repository() else { return };
    stand_in(&env, &["cargo", "pip"]);
    makes(&env, "--output=", || drop(outside(&env, &["git", "diff", "--output=made"])));
    let rows = [
        ("git diff --output=made", "flag-forbidden"),
        ("git diff HEAD --output=made", "option-after-operand"),
        ("git add --pathspec-from-file=x", "flag-unknown"),
        ("git add -", "flag-unknown"),
        ("git add tracked.txt --chmod=+x", "option-after-operand"),
        ("git commit -m --amend", "value-kind"),
        ("git commit -m -", "value-kind"),
        ("git commit -m x -m --file=x", "value-kind"),
        ("head -n -5 tracked.txt", "value-kind"),
        ("head --lines=-5 tracked.txt", "value-kind"),
        ("cat --split-string=x", "flag-unknown"),
        ("cat tracked.txt -n", "option-after-operand"),
        ("cat -", "flag-unknown"),
        ("wc -", "flag-unknown"),
        ("echo --version", "flag-unknown"),
        ("which --version", "flag-unknown"),
        ("pip show --index-url=x", "flag-unknown"),
        ("cargo build --offline -p --config", "value-kind"),
        ("cargo test --offline --no-such", "flag-unknown"),
        ("git diff -- --output=made", "double-dash"),
        ("env --split-string=x", "instead"),
        ("git diff HEAD", "auto"),
        ("head -n 5 tracked.txt", "auto"),
        ("cat -n tracked.txt", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn git_diff_output_writes_nothing_into_the_state_of_git() {
    let Some(env) = repository() else { return };
    let planted = env.workspace().join(".git/hooks-x");
    outside(&env, &["git", "diff", "--output=.git/hooks-x"]);
    assert!(planted.exists(), "the control");
    fs::remove_file(planted).expect("made by the control");
    let rows = [
        ("git diff --output=.git/hooks-x", "flag-forbidden"),
        ("git diff --output .git/hooks-x", "flag-forbidden"),
        ("git diff --outpu=.git/x", "flag-unknown"),
        ("git diff --stat --output=.git/x", "flag-forbidden"),
        ("git diff -o .git/x", "flag-unknown"),
        ("git diff -o.git/x", "flag-cluster"),
        ("git diff --stat", "auto"),
        ("git diff tracked.txt", "auto"),
    ];
    argvs(&env, &rows);
    // Whatever a command does: every profile but one sees git's state read-only or not at all.
    for profile in ["look", "build", "gate", "read", "none"] {
        let act = ["create", ".git/objects/x"];
        env.refused(profile, &act, &["EROFS", "EACCES", "ENOENT", "EPERM"]);
    }
    env.allowed("repo", &["create", ".git/objects/x"]);
    env.refused("repo", &["create", ".git/hooks/pre-commit"], &["EROFS", "EACCES", "EPERM"]);
}

#[test]
fn make_takes_no_variable_and_no_abbreviation() {
    let Some(env) = host(&["make", "bash"]) else { return };
    env.file("Makefile", "test:\n\t@echo tested\n");
    env.file("other.mk", "test:\n\t@touch made\n");
    script(&env, "evil", "#!/bin/sh\ntouch made\n");
    for words in [
        &["make", "SHELL=./evil"][..],
        &["make", "--ev=$(shell touch made)"],
        &["make", "--eval=$(shell touch made)"],
        &["make", "-E", "$(shell touch made)"],
        &["make", "-fother.mk"],
        &["make", "--fil=other.mk"],
        &["make", "-f", "other.mk"],
    ] {
        makes(&env, &format!("{words:?}"), || drop(outside(&env, words)));
    }
    let rows = [
        ("make SHELL=./evil", "operand-kind"),
        ("make SHELL=./evil test", "operand-kind"),
        ("make test SHELL=./evil", "operand-kind"),
        ("make .SHELLFLAGS=x", "operand-kind"),
        ("make A:=x", "operand-kind"),
        ("make A+=x", "operand-kind"),
        ("make MAKEFLAGS=-k", "operand-kind"),
        ("make --ev=$(shell", "flag-unknown"),
        ("make --eva=x", "flag-unknown"),
        ("make --eval=x", "flag-forbidden"),
        ("make --eval x", "flag-forbidden"),
        ("make -E x", "flag-forbidden"),
        ("make -Ex", "flag-cluster"),
        ("make -f other.mk", "flag-forbidden"),
        ("make -fother.mk", "flag-cluster"),
        ("make --file=other.mk", "flag-forbidden"),
        ("make --fil=other.mk", "flag-unknown"),
        ("make --makefile=other.mk", "flag-unknown"),
        ("make -C ..", "flag-forbidden"),
        ("make -I x", "flag-unknown"),
        ("make --jobs=x", "value-kind"),
        ("make -kn", "flag-cluster"),
        ("make", "auto"),
        ("make -s -j2 test", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn wc_reads_no_list_of_names() {
    let Some(env) = project() else { return };
    let secret = env.outside_file("secret", "one two three\n");
    env.file("list", &format!("{secret}\0"));
    let control = outside(&env, &["wc", "-w", "--files0-from=list"]);
    assert!(String::from_utf8_lossy(&control.stdout).starts_with("3 "), "{control:?}");
    let rows = [
        ("wc --files0-from=list", "flag-unknown"),
        ("wc -w --files0-from=list", "flag-unknown"),
        ("wc --files0-from list", "flag-unknown"),
        ("wc --files0-fr=list", "flag-unknown"),
        ("wc --files0-from=-", "flag-unknown"),
        ("wc list --files0-from=list", "flag-unknown"),
        ("wc @list", "operand-kind"),
        ("wc -w a.txt list", "auto"),
    ];
    argvs(&env, &rows);
}

#[test]
fn npx_tsc_fetches_nothing_where_the_project_has_no_typescript() {
    let Some(env) = host(&["node", "npx", "bash"]) else { return };
    env.file("package.json", "{\"name\": \"a\", \"version\": \"1.0.0\"}\n");
    let (asked, address) = listener();
    let npmrc = format!("registry=http://{address}/\nfetch-retries=0\nfetch-timeout=1000\n");
    env.file(".npmrc", &npmrc);
    outside(&env, &["npx", "--yes", "tsc", "--noEmit"]);
    assert!(was_reached(&asked), "the control: outside, npx asks the registry");
    let answer = env.cmd(&["npx", "tsc", "--noEmit"]);
    assert_eq!((answer.code, answer.refusal()), (127, "program-unavailable"), "{answer:?}");
    assert!(!was_reached(&asked), "{answer:?}");
    let rows = [
        ("npx --yes tsc --noEmit", "option-before-sub"),
        ("npx -y tsc --noEmit", "option-before-sub"),
        ("npx -p typescript tsc --noEmit", "option-before-sub"),
        ("npx tsc@latest --noEmit", "sub-unknown"),
        ("npx typescript", "sub-unknown"),
        ("npx TSC --noEmit", "sub-unknown"),
    ];
    argvs(&env, &rows);
    // The twin: with a TypeScript of its own, the project is checked by that.
    script(&env, "node_modules/.bin/tsc", "#!/bin/sh\necho checked \"$@\"\n");
    let answer = env.cmd(&["npx", "tsc", "--noEmit"]);
    assert_eq!(answer.stdout(), "checked --noEmit\n", "{answer:?}");
}

#[test]
fn tsc_no_emit_is_a_switch_that_nothing_turns_back() {
    let Some(env) = project() else { return };
    stand_in(&env, &["npx"]);
    script(&env, "node_modules/.bin/tsc", "#!/bin/sh\n");
    let rows = [
        ("npx tsc --noEmit false", "operand-unexpected"),
        ("npx tsc --noEmit=false", "flag-unknown"),
        ("npx tsc --noEmit --noEmit", "flag-repeated"),
        ("npx tsc --noEmit --noEmit false", "flag-repeated"),
        ("npx tsc --noEmit true", "operand-unexpected"),
        ("npx tsc", "flag-required"),
        ("npx tsc --noEmit --outDir x", "flag-unknown"),
        ("npx tsc --noEmi", "flag-unknown"),
        ("npx tsc --NOEMIT", "flag-unknown"),
        ("npx tsc --noEmit a.ts", "operand-unexpected"),
        ("npx tsc @a.txt --noEmit", "option-after-operand"),
        ("npx tsc --noEmit -p x", "flag-unknown"),
        ("npx tsc --noEmit", "auto"),
    ];
    argvs(&env, &rows);
}

/// A place on the loopback that answers nobody, and its address.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a mode");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// Returns whether somebody has come since this was asked last.
fn was_reached(listener: &TcpListener) -> bool {
    std::iter::from_fn(|| listener.accept().ok()).count() > 0
}

#[test]
fn pip_reads_no_file_that_can_name_an_index() {
    let Some(env) = host(&["pip", "python3", "bash"]) else { return };
    let ((pinned, pin), (other, address)) = (listener(), listener());
    env.file("r.txt", &format!("--index-url http://{address}/simple\nsix\n"));
    let index = format!("http://{pin}/simple");
    let words = ["pip", "download", "--isolated", "--no-deps", "--retries", "0", "--timeout", "1"];
    let words = [&words[..], &["--index-url", &index]].concat();
    outside(&env, &[&words[..], &["six"]].concat());
    assert!(was_reached(&pinned) && !was_reached(&other), "the control: a pin holds");
    outside(&env, &[&words[..], &["-r", "r.txt"]].concat());
    assert!(!was_reached(&pinned) && was_reached(&other), "the control: a file replaces the pin");
    edit(&env, "pinfold.toml", |text| format!("{text}[index]\npip = \"https://{pin}/simple\"\n"));
    let rows = [
        ("pip install -r r.txt", "flag-forbidden"),
        ("pip install six -r r.txt", "flag-forbidden"),
        ("pip install -rr.txt", "flag-cluster"),
        ("pip install -qrr.txt", "flag-cluster"),
        ("pip install --requirement r.txt", "flag-forbidden"),
        ("pip install --requirement=r.txt", "flag-forbidden"),
        ("pip install --requirem=r.txt", "flag-unknown"),
        ("pip install -c r.txt six", "flag-unknown"),
        ("pip install --cons=r.txt six", "flag-unknown"),
        ("pip download -r r.txt", "flag-forbidden"),
        ("python3 -m pip install -r r.txt", "flag-forbidden"),
        ("python3 -Impip download -rr.txt", "flag-cluster"),
        ("pip install -e .", "flag-forbidden"),
        ("pip install @r.txt", "operand-kind"),
        ("pip install six", "profile-unavailable"),
        ("pip list", "auto"),
    ];
    argvs(&env, &rows);
    assert!(!was_reached(&pinned) && !was_reached(&other));
}

#[test]
fn pip_takes_no_requirement_that_could_be_a_file() {
    let Some(env) = host(&["pip", "python3", "bash"]) else { return };
    env.file("foo==1.0.zip", "no archive\n");
    let words = ["pip", "download", "--isolated", "--no-deps", "--no-index"];
    let control = outside(&env, &[&words[..], &["foo==1.0.zip"]].concat());
    let said = String::from_utf8_lossy(&control.stdout).into_owned();
    assert!(said.contains("Processing ./foo==1.0.zip"), "{control:?}");
    let rows = [
        ("pip install foo==1.0.zip", "operand-kind"),
        ("pip download foo==1.0.zip", "operand-kind"),
        ("pip install foo==1.0.ZIP", "operand-kind"),
        ("pip install foo==1.0.tar.gz", "operand-kind"),
        ("pip install foo==1.0.tgz", "operand-kind"),
        ("pip install foo==1.0.tar", "operand-kind"),
        ("pip install foo==1.0.tar.bz2", "operand-kind"),
        ("pip install foo==1.0.tar.xz", "operand-kind"),
        ("pip install foo-1.0-py3-none-any.whl", "operand-kind"),
        ("pip install foo.zip", "operand-kind"),
        ("pip install ./foo==1.0", "operand-kind"),
        ("pip install foo@x", "operand-kind"),
        ("python3 -m pip install foo==1.0.zip", "operand-kind"),
        ("pip install foo==1.0", "no-index"),
    ];
    argvs(&env, &rows);
}

/// The shipped vectors without their codes, which word lists choose.
fn verdicts() -> String {
    let rows = include_str!("../cases/argv-vectors.jsonl").lines();
    let without_code = |row: &str| {
        let mut row: Value = serde_json::from_str(row).expect("a row");
        row.as_object_mut().expect("an object").remove("code");
        row.to_string()
    };
    rows.map(without_code).collect::<Vec<_>>().join("\n")
}

#[test]
fn cmdneedle_an_operators_catalog_without_its_lists_of_words_decides_the_same() {
    let Some(env) = repository() else { return };
    let whole = include_str!("../cases/argv-vectors.jsonl").trim_end();
    same_decisions(&env, whole);
    let denied = [
        "rm -rf tracked.txt",
        "curl -K x",
        "git push",
        "git -C .. status",
        "sh -c ls",
        "git commit --amend -m x",
        "pip install -r x",
        "bash -c ls",
        "tail -f tracked.txt",
    ];
    let refused = |env: &Env| -> Vec<Value> {
        let words = denied.map(|text| text.split(' ').collect::<Vec<_>>());
        words.iter().map(|argv| env.cmd(argv).reply["decision"]["code"].clone()).collect()
    };
    let before = refused(&env);
    edit(&env, "catalog.toml", |text| {
        let blocks = text
            .split("\n[[")
            .enumerate()
            .filter(|(_, block)| !block.starts_with("refuse]]") && !block.starts_with("instead]]"));
        let text: Vec<&str> = blocks.map(|(_, block)| block).collect();
        let lines = text.join("\n[[");
        let lines = lines.lines().filter(|line| !line.starts_with("forbid "));
        lines.collect::<Vec<_>>().join("\n")
    });
    let text = fs::read_to_string(env.path("config/catalog.toml")).expect("the catalog");
    for gone in ["[[refuse]]", "[[instead]]", "forbid"] {
        assert!(!text.contains(gone), "{gone} is left");
    }
    same_decisions(&env, &verdicts());
    let (code, said) = tested(&env, whole);
    assert!(
        code == Some(1) && said.contains("code should be"),
        "the control: words differ: {said}"
    );
    let files = tree(&env.workspace());
    let after = refused(&env);
    assert_ne!(before, after, "the control: other codes");
    assert!(after.iter().all(Value::is_string), "each is refused: {after:?}");
    assert_eq!(tree(&env.workspace()), files);
    all_decided(&env, &[(vec!["--", "git", "status"], "auto")]);
}

#[test]
fn codex_no_program_that_git_is_told_of_is_started_with_two_settings_or_none() {
    // The guard refuses to start git here; what is shown is what holds without it.
    let env = has_programs(&["git", "bash"]).then(|| Env::without("guard")).flatten();
    let Some(env) = env.map(changed) else { return };
    let trap = script(&env, ".git/trap", "#!/bin/sh\ntouch made\n");
    let keys = ["filter.evil.clean", "diff.external", "gpg.program"];
    keys.iter().for_each(|key| config(&env, key, &trap));
    config(&env, "commit.gpgSign", "true");
    env.file(".gitattributes", "*.txt filter=evil\n");
    let two = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
    let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
    let calls: [(&[&str], &str); 4] = [
        (&["status"], "a clean filter"),
        (&["diff"], "an external diff"),
        (&["add", "tracked.txt"], "a clean filter"),
        (&["commit", "-m", "x"], "a signer"),
    ];
    let touch = |content: &str| env.file("tracked.txt", content);
    for (call, what) in calls {
        touch("outside\n");
        let words = [&["git"], &two[..], &identity, call].concat();
        makes(&env, what, || drop(outside(&env, &words)));
        touch("inside!\n");
        let answer = env.cmd(&[&["git"], call].concat());
        assert!(!env.workspace().join("made").exists(), "{what}: {answer:?}");
        assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{what}: {answer:?}");
    }
}
