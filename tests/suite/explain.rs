//! `policy explain`: what would become of a call is what `run` makes of it, told with every
//! element; nothing is executed or recorded. Where the catalog asks about what no template fits.

use crate::config::edit;
use crate::input::tree;
use crate::policy::{SHIPPED, catalog, says, vectors};
use crate::support::{Env, has_programs};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

const INDEX: &str = "https://index.invalid/simple";

/// A host with the shipped catalog and an index.
fn host() -> Option<Env> {
    let env = Env::new()?;
    catalog(&env, SHIPPED);
    edit(&env, "pinfold.toml", |text| format!("{text}[index]\npip = \"{INDEX}\"\n"));
    Some(env)
}

/// The words behind a verb that make a vector's call, where a command line can carry it.
fn call(row: &Value) -> Option<Vec<String>> {
    if let Some(line) = row["line"].as_str() {
        return (!line.contains('\0')).then(|| vec!["--line".to_owned(), line.to_owned()]);
    }
    let argv = row["argv"].as_array().expect("a vector");
    let words = argv.iter().map(|word| word.as_str().expect("text").to_owned());
    let words: Vec<String> = [vec!["--".to_owned()], words.collect()].concat();
    (words.len() > 1 && words.iter().all(|word| !word.contains('\0'))).then_some(words)
}

/// Explains a call: exit code and the answer, whose first members are the decision.
fn explained(env: &Env, call: &[impl AsRef<str>]) -> (i32, Map<String, Value>) {
    let words = ["policy", "explain", "--json"].into_iter();
    let words: Vec<&str> = words.chain(call.iter().map(AsRef::as_ref)).collect();
    let (code, shown, said) = says(env, &words);
    let answer = serde_json::from_str(&shown);
    let answer: Value = answer.unwrap_or_else(|error| panic!("{words:?}: {error}: {shown}{said}"));
    let Value::Object(answer) = answer else { panic!("no object: {shown}") };
    assert_eq!(said, "", "{words:?}");
    (code, answer)
}

/// The decision of a run, as it stands in the reply.
fn decided(env: &Env, call: &[impl AsRef<str>]) -> (i32, String) {
    let words: Vec<&str> = ["--json"].into_iter().chain(call.iter().map(AsRef::as_ref)).collect();
    let answer = env.run(&words);
    (answer.code, answer.reply["decision"].to_string())
}

/// The first members of an answer, as they stand in it.
fn decision(answer: &Map<String, Value>) -> String {
    Value::Object(answer.iter().take(6).map(|(k, v)| (k.clone(), v.clone())).collect()).to_string()
}

/// Checks what is said of each element.
fn check_tokens(row: &Value, answer: &Map<String, Value>) {
    let tokens = answer["tokens"].as_array().expect("a list");
    let words: Vec<&Value> = tokens.iter().map(|token| &token["token"]).collect();
    if let Some(argv) = row["argv"].as_array() {
        assert!(words.iter().copied().eq(argv), "{row}: {words:?}");
    }
    const ROLES: [&str; 11] = [
        "unread", "program", "global", "sub", "flag", "cluster", "name", "value", "joined",
        "operand", "free",
    ];
    let roles: Vec<&str> = tokens.iter().map(|it| it["as"].as_str().expect("a role")).collect();
    assert!(roles.iter().all(|role| ROLES.contains(role)), "{row}: {roles:?}");
    for token in tokens {
        let role = token["as"].as_str().expect("a role");
        let option = ["flag", "name", "value", "joined"].contains(&role);
        assert_eq!(token["option"].is_string(), option, "{row}: {token}");
        let kind = ["value", "joined", "operand"].contains(&role);
        assert_eq!(token["kind"].is_string(), kind, "{row}: {token}");
    }
    if row["expect"] != "refuse" {
        assert_eq!(roles.first(), Some(&"program"), "{row}");
        assert!(!roles.contains(&"unread"), "{row}: {tokens:?}");
        // What is executed is what was asked for, with the template's words behind the subcommand.
        let executed = answer["executed"].as_array().expect("a list");
        let mut kept = executed.iter();
        assert!(words.iter().all(|word| kept.any(|it| it == *word)), "{row}: {words:?}");
    }
}

/// Checks one vector: what `explain` says of it, and that `run` decides a refused one alike. A
/// repository is made where there is none.
fn check_vector(env: &Env, row: &Value) {
    let Some(mut call) = call(row) else { return };
    if row["template"] == "git-init" {
        let folder = env.path("new").to_str().expect("UTF-8").to_owned();
        call.splice(0..0, ["--workspace".to_owned(), folder]);
    }
    let (code, answer) = explained(env, &call);
    check_tokens(row, &answer);
    let text = answer["code"].as_str().unwrap_or_default();
    if row["expect"] == "refuse" {
        assert_eq!(
            (answer["verdict"].as_str(), text),
            (Some("refuse"), row["code"].as_str().expect("a code")),
            "{row}"
        );
        assert_eq!((code, &answer["executed"]), (126, &Value::Null), "{row}");
        assert_eq!(decided(env, &call), (code, decision(&answer)), "{row}");
        return;
    }
    let wanted = row["executed"].to_string().replace("{operator_index_url}", INDEX);
    assert_eq!(answer["executed"].to_string(), wanted, "{row}");
    assert_eq!(answer["template"], row["template"], "{row}");
    let program = match row["executed"][0].as_str().expect("a program") {
        "python" => "python3",
        "pip3" => "pip",
        other => other,
    };
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"].map(|it| Path::new(it).join(program));
    // The network is looked at before the program.
    let wanted = match row["template"].as_str() {
        Some("pip-install" | "pip-download") => ("refuse", "profile-unavailable", 126),
        _ if !folders.iter().any(|place| place.exists()) => ("refuse", "program-unavailable", 127),
        _ => (row["expect"].as_str().expect("a verdict"), "", 0),
    };
    let got = (answer["verdict"].as_str().expect("a verdict"), text, code);
    assert_eq!(got, wanted, "{row}: {answer:?}");
    assert_eq!(answer["profile"].is_object(), code == 0, "{row}");
    if code != 0 {
        assert_eq!(decided(env, &call), (code, decision(&answer)), "{row}");
    }
}

#[test]
fn every_vector_is_explained_as_it_is_decided() {
    let Some(env) = host() else { return };
    fs::create_dir(env.path("new")).expect("a folder");
    if has_programs(&["git"]) {
        env.repository();
    }
    fs::create_dir_all(env.workspace().join("node_modules/.bin")).expect("folders");
    env.file("node_modules/.bin/tsc", "");
    let (rows, before) = (vectors(), tree(&env.workspace()));
    let carried = rows.iter().filter(|row| call(row).is_some()).count();
    assert!(carried >= 580, "{carried}");
    std::thread::scope(|scope| {
        for half in rows.chunks(rows.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|row| check_vector(&env, row)));
        }
    });
    assert_eq!(env.records_of("intent").len(), 0, "nothing was started");
    assert_eq!(tree(&env.workspace()), before);
}

#[test]
fn to_explain_a_call_executes_and_records_nothing() {
    let Some(env) = Env::new() else { return };
    let act = ["--", "probe", "build", "create", "made"];
    let (code, answer) = explained(&env, &act);
    assert_eq!((code, &answer["verdict"]), (0, &json!("auto")), "{answer:?}");
    assert!(!env.workspace().join("made").exists() && !env.path("state/trail").exists());
    assert_eq!(env.run(&[&["--json"], &act[..]].concat()).stdout(), "ok\n", "the control");
    fs::remove_file(env.workspace().join("made")).expect("made by the control");
    let trail = || {
        let files = fs::read_dir(env.path("state/trail")).expect("the trail");
        let read = |entry: fs::DirEntry| (entry.path(), fs::read(entry.path()).unwrap_or_default());
        let mut files: Vec<_> = files.map(|entry| read(entry.expect("a file"))).collect();
        files.sort();
        files
    };
    let before = trail();
    for call in [&act[..], &["--", "curl", "x"], &["--line", "ls | wc"], &["--", "ls", "-Z"]] {
        explained(&env, call);
        says(&env, &[&["policy", "explain"], call].concat());
    }
    assert_eq!(trail(), before);
    assert!(!env.workspace().join("made").exists());
}

#[test]
fn what_is_explained_for_people_says_what_it_was_taken_for_and_what_comes_next() {
    let Some(env) = host() else { return };
    let explain = |call: &[&str]| says(&env, &[&["policy", "explain"], call].concat());
    let (code, shown, said) = explain(&["--line", "git --no-pager diff --stat 'a b'"]);
    assert_eq!((code, said.as_str()), (0, ""));
    let workspace = fs::canonicalize(env.workspace()).expect("a path");
    for part in [
        "auto: template git-diff: Show changes",
        "  --no-pager           global\n",
        "  diff                 sub\n",
        "  --stat               flag\n",
        "  a b                  operand, kind path\n",
        "executes  [\"git\",\"--no-pager\",\"diff\",\"--no-ext-diff\",\"--no-textconv\",",
        "profile   repo, narrowed to read-only, rung ",
        &format!("workspace {} read-only\n", workspace.display()),
        "network   none\n",
        "deadline  30000 ms\n",
        "next      it runs at once",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let (_, shown, _) = explain(&["--", "tail", "-n5", "--bytes=3", "-v", "a"]);
    for part in [
        "  -n5                  joined of -n, kind uint-plus\n",
        "  --bytes=3            joined of --bytes, kind uint-plus\n",
        "  -v                   flag\n",
        "  a                    operand, kind file\n",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let (code, shown, said) = explain(&["--", "git", "commit", "-m", "x", "--amend"]);
    assert_eq!(code, 126);
    assert!(shown.starts_with("refuse: template git-commit: Commit what is staged"), "{shown}");
    assert!(shown.contains("\n  --amend              unread\n"), "{shown}");
    assert!(said.starts_with("pinfold: refused [flag-forbidden] --amend: "), "{said}");
    let (code, _, said) = explain(&["--line", "ls > x"]);
    assert_eq!(code, 126);
    assert!(said.starts_with("pinfold: refused [shell-meta] "), "{said}");
    for call in [&[][..], &["--"], &["--line", "ls", "--", "ls"]] {
        assert_eq!(explain(call).0, 125, "{call:?}");
    }
}

#[test]
fn circumstances_are_explained_as_they_are_decided() {
    let Some(env) = Env::new() else { return };
    env.file("a.txt", "a\n");
    let act = ["--", "probe", "build", "create", "made"];
    assert_eq!(explained(&env, &act).0, 0, "the control");
    for (options, code) in [
        (["--cwd", "../home"], "cwd"),
        (["--cwd", "a.txt"], "cwd"),
        (["--timeout", "0"], "timeout-value"),
        (["--workspace", "/"], "workspace"),
        (["--workspace", "missing"], "workspace"),
    ] {
        let call = [&options[..], &act].concat();
        let (exit, answer) = explained(&env, &call);
        assert_eq!((exit, answer["code"].as_str()), (126, Some(code)), "{answer:?}");
        assert_eq!(decided(&env, &call), (exit, decision(&answer)), "{options:?}");
    }
    fs::remove_file(env.path("bin/probe")).expect("the probe");
    let (exit, answer) = explained(&env, &act);
    assert_eq!((exit, &answer["code"]), (127, &json!("program-unavailable")), "{answer:?}");
    assert_eq!(decided(&env, &act), (exit, decision(&answer)));
    edit(&env, "catalog.toml", |text| text.replacen("schema = 1", "schema = 2", 1));
    let (exit, answer) = explained(&env, &act);
    assert_eq!((exit, &answer["code"]), (125, &json!("config")), "{answer:?}");
    assert_eq!(decided(&env, &act), (exit, decision(&answer)));
}

#[test]
fn what_no_template_fits_is_asked_where_the_catalog_says_so() {
    let Some(env) = Env::new() else { return };
    env.file("a.txt", "a\n");
    let shipped = fs::read_to_string(env.path("config/catalog.toml")).expect("the catalog");
    let asking = |key: &str| {
        let text = shipped.replacen("max_args ", "ask_profile = \"read\"\nmax_args ", 1);
        let asked = text.replacen(&format!("{key} = \"refuse\""), &format!("{key} = \"ask\""), 1);
        assert_ne!(asked, text, "{key}");
        catalog(&env, &asked);
    };
    let decides = |call: &[&str], verdict: &str, code: Option<&str>| {
        let call = [&["--"], call].concat();
        let (exit, answer) = explained(&env, &call);
        let got = (answer["verdict"].as_str().expect("a verdict"), answer["code"].as_str());
        assert_eq!(got, (verdict, code), "{call:?}: {answer:?}");
        let run = env.run(&[&["--json"], &call[..]].concat());
        if verdict != "ask" {
            assert_eq!(run.code == 0, verdict == "auto", "{run:?}");
            return;
        }
        assert_eq!((exit, &answer["template"]), (0, &json!("unlisted")), "{answer:?}");
        assert_eq!(answer["executed"], json!(&call[1..]), "{answer:?}");
        assert_eq!(answer["profile"]["name"], "read", "{answer:?}");
        assert_eq!((run.code, run.refusal()), (126, "nobody-to-ask"), "{run:?}");
        assert_eq!(run.reply["decision"]["template"], "unlisted", "{run:?}");
        assert_eq!(run.reply["decision"]["counted"], false, "{run:?}");
    };
    let unlisted = ["ls", "--color"];
    let unknown = ["env", "ls"];
    decides(&["ls", "-l"], "auto", None);
    decides(&unlisted, "refuse", Some("flag-unknown"));
    decides(&unknown, "refuse", Some("instead"));
    asking("unmatched      ");
    decides(&["ls", "-l"], "auto", None);
    decides(&unlisted, "ask", None);
    decides(&["cat", "/etc/passwd"], "ask", None);
    decides(&unknown, "refuse", Some("instead"));
    asking("unknown_program");
    decides(&unlisted, "refuse", Some("flag-unknown"));
    decides(&unknown, "ask", None);
    decides(&["frob"], "refuse", Some("program-unavailable"));
    // What is no well-formed call of a bare name is refused whatever the catalog says.
    decides(&["./env"], "refuse", Some("program-path"));
    decides(&["env", "--", "ls"], "refuse", Some("double-dash"));
    decides(&["env", "a\u{7}"], "refuse", Some("control-char"));
}

#[test]
fn only_what_the_template_adds_stands_for_the_operators_index() {
    let Some(env) = host() else { return };
    let word = "{operator_index_url}";
    let (code, answer) = explained(&env, &["--", "echo", word]);
    assert_eq!((code, &answer["executed"]), (0, &json!(["echo", word])), "{answer:?}");
    assert_eq!(env.cmd(&["echo", word]).stdout(), format!("{word}\n"));
    let (_, answer) = explained(&env, &["--", "pip", "install", "six"]);
    assert!(answer["executed"].as_array().expect("a list").contains(&json!(INDEX)), "{answer:?}");
    edit(&env, "pinfold.toml", |text| text.replace(&format!("[index]\npip = \"{INDEX}\"\n"), ""));
    assert_eq!(env.cmd(&["echo", word]).stdout(), format!("{word}\n"));
    assert_eq!(explained(&env, &["--", "pip", "install", "six"]).1["code"], "no-index");
}
