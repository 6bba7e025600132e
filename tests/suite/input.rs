//! What bad input gets: a sentence that says what was refused, why, that nothing ran and what to
//! do next; a code; an exit code of its own; and a record.

use crate::support::{Answer, Env};
use pinfold::front::config::Reader;
use pinfold::plan::toolchains::Homes;
use pinfold::run::{Request, Stdin, Supervisor, Words};
use pinfold::supervise::{Sink, Stream};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Lists a folder with everything below it: names and sizes.
pub(crate) fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        // Places that tests share lose entries while one looks.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        found.push(format!("{} {}", path.display(), if meta.is_file() { meta.len() } else { 0 }));
        if meta.is_dir() {
            found.extend(tree(&path));
        }
    }
    found.sort();
    found
}

fn exit_of(code: &str) -> i32 {
    match code {
        "program-unavailable" => 127,
        "config" | "trail-unavailable" | "host" => 125,
        _ => 126,
    }
}

/// What every refusal owes, of a reply: five parts, an exit code, and that nothing ran.
pub(crate) fn is_refusal(answer: &Answer, code: &str, what: &str) {
    let message = answer.reply["message"].as_str().unwrap_or_default();
    assert_eq!(answer.refusal(), code, "{answer:?}");
    assert_eq!(answer.code, exit_of(code), "{answer:?}");
    assert_eq!(answer.outcome(), "refused", "{answer:?}");
    assert_eq!(answer.reply["decision"]["verdict"], "refuse", "{answer:?}");
    let word = if answer.code == 125 { "failed" } else { "refused" };
    assert!(message.starts_with(&format!("{word} [{code}] ")), "{message}");
    assert!(message.contains(what), "{what} is not named: {message}");
    for part in ["reason", "next"] {
        let text = answer.reply["decision"][part].as_str().unwrap_or_default();
        assert!(!text.is_empty() && message.contains(text), "no {part}: {message}");
    }
    assert!(message.contains(". Nothing ran. Next: "), "{message}");
    let counted = answer.reply["decision"]["counted"] == true;
    assert_eq!(counted, message.ends_with("Counts as a refusal."), "{message}");
    assert!(!message.contains(|ch: char| ch.is_control() && ch != '\n'), "{message:?}");
    assert_eq!((answer.stdout(), answer.said.as_str()), ("", ""), "{answer:?}");
}

/// Makes a call that must be refused: the reply is a refusal, the trail has grown by one
/// `refusal` that says the same, and the workspace is as it was.
pub(crate) fn refused(env: &Env, words: &[impl AsRef<OsStr>], code: &str, what: &str) -> Value {
    let (before, files) = (env.records().len(), tree(&env.workspace()));
    let answer = env.run(words);
    is_refusal(&answer, code, what);
    let records = env.records().split_off(before);
    let new: Vec<_> = records.iter().filter(|record| record["kind"] != "log.open").collect();
    let [record] = new.as_slice() else { panic!("not one record: {records:?}") };
    assert_eq!(record["kind"], "refusal", "{record}");
    assert_eq!(record["tool"], "run_command", "{record}");
    assert_eq!(record["code"], code, "{record}");
    assert_eq!(record["template"], answer.reply["decision"]["template"], "{record}");
    assert_eq!(record["counted"], answer.reply["decision"]["counted"], "{record}");
    assert_eq!(record["seq"], answer.reply["trail"]["intent"], "{record}");
    assert_eq!(tree(&env.workspace()), files, "something ran");
    (*record).clone()
}

/// As [`refused`], for an argument vector.
fn refused_call(env: &Env, argv: &[impl AsRef<OsStr>], code: &str, what: &str) -> Value {
    let head: [&OsStr; 2] = ["--json".as_ref(), "--".as_ref()];
    let words: Vec<&OsStr> = head.into_iter().chain(argv.iter().map(AsRef::as_ref)).collect();
    refused(env, &words, code, what)
}

fn host() -> Option<Env> {
    let env = Env::new()?;
    env.file("a.txt", "a\n");
    Some(env)
}

#[test]
fn an_unknown_program_is_refused_and_counted_and_the_missing_entry_is_named() {
    let Some(env) = host() else { return };
    let record = refused_call(&env, &["frobnicate", "--now"], "unknown-program", "frobnicate");
    assert_eq!(record["counted"], true);
    assert_eq!(record["argv"], serde_json::json!(["frobnicate", "--now"]));
    let next = record["next"].as_str().expect("a next action");
    assert!(next.contains("[[tool]] id = \"frobnicate\", program = \"frobnicate\""), "{next}");
    let record = refused_call(&env, &["curl", "x"], "instead", "curl");
    assert_eq!(record["counted"], true);
}

#[test]
fn a_listed_program_with_other_arguments_is_refused_and_not_counted() {
    let Some(env) = host() else { return };
    for (line, code, what) in [
        ("ls -Z", "flag-unknown", "-Z"),
        ("ls --color=always", "flag-unknown", "--color"),
        ("ls a.txt b", "operand-count", "b"),
        ("cat", "operand-count", "cat"),
        ("pwd x", "operand-unexpected", "x"),
        ("head -n", "value-missing", "-n"),
        ("head -n x a.txt", "value-kind", "x"),
        ("tail -f a.txt", "flag-forbidden", "-f"),
        ("bash -c ls", "flag-forbidden", "-c"),
        ("cargo build", "flag-required", "--offline"),
        ("git", "sub-missing", "git"),
        ("git frob", "sub-unknown", "frob"),
        ("git push", "listed-refusal", "git push"),
        ("git -C .. status", "option-before-sub", "-C"),
        ("./ls", "program-path", "./ls"),
        ("/bin/ls", "program-path", "/bin/ls"),
        ("A=1 ls", "program-name", "A=1"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let record = refused_call(&env, &words, code, what);
        assert_eq!(record["counted"], false, "{line}");
    }
}

#[test]
fn a_path_outside_the_workspace_is_refused() {
    let Some(env) = host() else { return };
    env.outside_file("canary", "secret");
    for (line, code, what) in [
        ("cat ../canary", "operand-kind", "../canary"),
        ("cat a.txt ./../canary", "operand-kind", "./../canary"),
        ("cat /etc/passwd", "operand-kind", "/etc/passwd"),
        ("ls ..", "operand-kind", ".."),
        ("ls /", "operand-kind", "/"),
        ("cat .git/config", "operand-kind", ".git/config"),
    ] {
        refused_call(&env, &line.split(' ').collect::<Vec<_>>(), code, what);
    }
    assert_eq!(env.cmd(&["cat", "a.txt"]).stdout(), "a\n", "the control");
}

#[test]
fn a_link_that_leads_out_is_not_followed_and_the_record_says_so() {
    let Some(env) = host() else { return };
    env.outside_file("canary", "secret");
    std::os::unix::fs::symlink("../canary", env.workspace().join("out")).expect("a link");
    std::os::unix::fs::symlink("a.txt", env.workspace().join("in")).expect("a link");
    assert_eq!(env.cmd(&["cat", "in"]).stdout(), "a\n", "the control");
    let answer = env.cmd(&["cat", "out"]);
    assert!(answer.code != 0 && !answer.reply.to_string().contains("secret"), "{answer:?}");
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["notes"], serde_json::json!(["out leads out of the workspace: not given"]));
}

#[test]
fn a_double_dash_is_refused_wherever_it_stands() {
    let Some(env) = host() else { return };
    for argv in [&["cat", "--", "a.txt"][..], &["--", "cat"], &["echo", "a", "--"]] {
        refused_call(&env, argv, "double-dash", "--");
    }
}

#[test]
fn an_argument_that_is_not_plain_text_is_refused_shown_escaped_and_recorded_exactly() {
    let Some(env) = host() else { return };
    let cases: [(&[u8], &str, &str); 7] = [
        (b"", "empty-arg", "an argument is empty"),
        (b"a\xff", "not-utf8", r"a\xff"),
        (b"\x1b[2J\x1b]52;c;AAAA\x07", "control-char", r"\u{1b}[2J\u{1b}]52;c;AAAA\u{7}"),
        (b"a\rb", "control-char", r"a\rb"),
        ("a\u{85}b".as_bytes(), "control-char", r"a\u{85}b"),
        ("a\u{202e}b".as_bytes(), "invisible-char", r"a\u{202e}b"),
        ("a\u{200b}b".as_bytes(), "invisible-char", r"a\u{200b}b"),
    ];
    for (bytes, code, what) in cases {
        let record = refused_call(&env, &["echo".as_ref(), OsStr::from_bytes(bytes)], code, what);
        assert_eq!(record["argv_count"], 2);
        let given = match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::json!(text),
            Err(_) => serde_json::json!({"b64": "Yf8="}),
        };
        assert_eq!(record["argv"][1], given);
    }
    for argument in ["two\nlines", "a\ttab"] {
        refused_call(
            &env,
            &["echo", argument],
            "operand-kind",
            &argument.escape_debug().to_string(),
        );
    }
}

#[test]
fn b45_an_empty_argument_vector_is_wrong_usage_and_an_empty_name_a_refusal() {
    let Some(env) = host() else { return };
    for words in [&["run"][..], &["run", "--"], &["run", "--json", "--"]] {
        let output = env.pinfold(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("CMD") && !said.contains("panicked"), "{said}");
    }
    assert!(env.records().is_empty(), "nothing was asked");
    refused_call(&env, &[""], "empty-arg", "an argument is empty");
    let reply = call(&env, Vec::new());
    assert_eq!(reply["decision"]["code"], "empty-call", "{reply}");
}

/// Makes a call as any door does, with a vector that no command line could carry.
pub(crate) fn call(env: &Env, argv: Vec<OsString>) -> Value {
    asked(env, Words::Argv(argv))
}

/// As [`call`], for a line too.
pub(crate) fn asked(env: &Env, words: Words) -> Value {
    struct Silent;
    impl Sink for Silent {
        fn take(&mut self, _: Stream, _: &[u8]) -> bool {
            panic!("something ran")
        }
    }
    let reader = Reader { uid: nix::unistd::geteuid().as_raw(), homes: Homes::default() };
    let rules = reader.load(None, None).rules;
    let supervisor = Supervisor::start(&env.path("state"), || (rules, Vec::new()));
    let supervisor = supervisor.expect("it starts");
    let request = Request {
        tool: "run_command",
        session: None,
        words,
        workspace: env.workspace(),
        cwd: None,
        timeout: None,
        stdin: Stdin::None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut silent = Silent;
    let run = supervisor.run(request, &mut silent, std::future::pending());
    let reply = runtime.expect("a runtime").block_on(run);
    serde_json::to_value(reply).expect("plain values")
}

#[test]
fn c23_a_huge_argument_vector_is_refused_at_once_and_recorded_by_its_digest() {
    let Some(env) = host() else { return };
    let huge = vec![b'x'; 3 << 20];
    let reply = call(&env, vec!["echo".into(), OsStr::from_bytes(&huge).into()]);
    assert_eq!(reply["decision"]["code"], "arg-too-long", "{reply}");
    let long = "y".repeat(120 << 10);
    refused_call(&env, &["echo", &long], "arg-too-long", "yyy");
    let many: Vec<String> = (0..5_000).map(|n| format!("argument-{n}")).collect();
    let many = [&["echo".to_owned()], many.as_slice()].concat();
    refused_call(&env, &many, "too-many-args", "echo");
    let words: Vec<&str> = many.iter().map(String::as_str).collect();
    let argvs: [&[&str]; 3] =
        [&["echo", std::str::from_utf8(&huge).expect("text")], &["echo", &long], &words];
    let records = env.records_of("refusal");
    assert_eq!(records.len(), 3);
    for (record, argv) in records.iter().zip(argvs) {
        assert_eq!(record["argv_count"], argv.len());
        assert_eq!(record["argv_sha256"], argv_digest(argv));
        assert!(record.to_string().len() < 32 << 10, "one line of the trail");
        for (word, given) in record["argv"].as_array().expect("a list").iter().zip(argv) {
            match word.as_str() {
                Some(whole) => assert_eq!(whole, *given),
                None => {
                    assert_eq!(word["n"], given.len());
                    assert_eq!(word["sha256"], hex(&Sha256::digest(given)));
                }
            }
        }
    }
}

/// The digest of an argument vector, computed from its description alone.
fn argv_digest(argv: &[&str]) -> String {
    let number = |n: usize| u32::try_from(n).expect("a small number").to_be_bytes();
    let mut bytes = b"grant-argv-v1".to_vec();
    bytes.extend(number(argv.len()));
    for word in argv {
        bytes.extend(number(word.len()));
        bytes.extend(word.as_bytes());
    }
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a11_a12_a_working_folder_outside_the_workspace_is_refused() {
    let Some(env) = host() else { return };
    fs::create_dir(env.workspace().join("sub")).expect("a folder");
    std::os::unix::fs::symlink("../home", env.workspace().join("out")).expect("a link");
    let act = ["--", "probe", "build", "create", "made"];
    let home = env.path("home");
    let home = home.to_str().expect("UTF-8");
    let inside = env.workspace().join("sub");
    let inside = inside.to_str().expect("UTF-8");
    for cwd in
        ["../..", "..", "sub/../..", "/proc/self/fd/7", "/proc/1/cwd", "/", home, inside, "missing"]
    {
        refused(&env, &[&["--json", "--cwd", cwd], &act[..]].concat(), "cwd", cwd);
    }
    for cwd in ["a.txt", "out", "sub\u{1b}[2J"] {
        let what = cwd.escape_default().to_string();
        refused(&env, &[&["--json", "--cwd", cwd], &act[..]].concat(), "cwd", &what);
    }
    assert_eq!(tree(&env.path("home")), Vec::<String>::new());
    let answer = env.run(&[&["--json", "--cwd", "sub"], &act[..]].concat());
    assert_eq!(answer.stdout(), "ok\n", "the control: {answer:?}");
    assert!(env.workspace().join("sub/made").exists());
}

#[test]
fn a_deadline_that_is_no_time_is_refused() {
    let Some(env) = host() else { return };
    let act = ["--", "probe", "build", "create", "made"];
    for timeout in ["0", "0s", "-1", "-5s", "1.5", "soon", "", "1h", "99999999999999999999"] {
        let words = [&["--json", "--timeout", timeout], &act[..]].concat();
        refused(&env, &words, "timeout-value", timeout);
    }
    let answer = env.run(&[&["--json", "--timeout", "30s"], &act[..]].concat());
    assert_eq!(answer.stdout(), "ok\n", "the control: {answer:?}");
}

#[test]
fn standard_input_is_bounded_and_the_intent_has_its_digest() {
    let Some(env) = host() else { return };
    let run = |words: &[&str], length: usize| {
        let mut command = env.command(&[&["run", "--json", "--stdin", "--"], words].concat());
        let mut input = tempfile::tempfile().expect("a file");
        input.write_all(&vec![b'x'; length]).expect("written");
        input.rewind().expect("rewound");
        let output = command.stdin(input).output().expect("pinfold starts");
        let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
        (output.status.code(), reply)
    };
    let (code, reply) = run(&["probe", "build", "create", "made"], (16 << 20) + 1);
    assert_eq!((code, &reply["decision"]["code"]), (Some(126), &"stdin-too-large".into()));
    let message = reply["message"].as_str().expect("a message");
    assert!(message.contains(". Nothing ran. Next: write it to a file"), "{message}");
    assert!(!env.workspace().join("made").exists());
    assert_eq!(env.records_of("refusal")[0]["code"], "stdin-too-large");
    let (code, reply) = run(&["probe", "build", "read", "/dev/stdin"], 16 << 20);
    assert_eq!(code, Some(0), "{reply}");
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["stdin_sha256"], hex(&Sha256::digest(vec![b'x'; 16 << 20])));
}

#[test]
fn what_asks_a_person_is_refused_while_nobody_is_attached() {
    let Some(env) = host() else { return };
    env.file("x.py", "open('made', 'w')\n");
    if Path::new("/usr/bin/python3").exists() {
        let record = refused_call(&env, &["python3", "x.py"], "nobody-to-ask", "python3 x.py");
        assert_eq!(record["template"], "python");
    } else {
        crate::support::skip("there is no python3");
    }
    let record = refused_call(&env, &["pip", "install", "six"], "no-index", "`[index]`");
    assert_eq!((&record["template"], &record["counted"]), (&"pip-install".into(), &false.into()));
    // With an index it is the network that this version cannot give.
    let config = env.path("config/pinfold.toml");
    let text = fs::read_to_string(&config).expect("a configuration");
    let index = "[index]\npip = \"https://index.invalid/simple\"\n";
    fs::write(&config, format!("{text}{index}")).expect("a file");
    refused_call(&env, &["pip", "install", "six"], "profile-unavailable", "`fetch`");
}
