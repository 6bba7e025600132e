//! What comes back: the JSON object, the words for people, the exit code.

use crate::support::Env;
use serde_json::{Value, json};
use std::process::Output;

const KEYS: [&str; 17] = [
    "outcome",
    "exit_code",
    "signal",
    "limit",
    "decision",
    "approval",
    "profile",
    "rung",
    "layers",
    "stdout",
    "stderr",
    "truncated",
    "duration_ms",
    "denials",
    "guard",
    "trail",
    "message",
];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has_every_key(reply: &Value) {
    assert_eq!(keys(reply), KEYS);
    let decision = ["verdict", "template", "code", "reason", "next", "counted"];
    assert_eq!(keys(&reply["decision"]), decision);
    assert_eq!(keys(&reply["truncated"]), ["stdout", "stderr"]);
    assert_eq!(keys(&reply["trail"]), ["intent", "end", "size", "root"]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_reply_to_a_run_has_its_keys_in_their_order() {
    let Some(env) = Env::new() else { return };
    env.file("a.txt", "one\n");
    let answer = env.cmd(&["cat", "a.txt"]);
    let reply = &answer.reply;
    has_every_key(reply);
    assert_eq!(keys(&reply["approval"]), ["mode", "template", "project"]);
    assert_eq!((answer.code, &reply["outcome"], &reply["exit_code"]), (0, &"ok".into(), &0.into()));
    for (key, value) in [
        ("signal", Value::Null),
        ("limit", Value::Null),
        ("profile", "look".into()),
        ("stdout", "one\n".into()),
        ("stderr", "".into()),
        ("truncated", json!({"stdout": false, "stderr": false})),
        ("denials", json!([])),
        ("guard", Value::Null),
        ("message", Value::Null),
    ] {
        assert_eq!(reply[key], value, "{key}");
    }
    let decision = json!({"verdict": "auto", "template": "cat", "code": null, "reason": null,
        "next": null, "counted": false});
    assert_eq!(reply["decision"], decision);
    let project = std::fs::canonicalize(env.workspace()).expect("a path");
    let project = project.to_str().expect("UTF-8");
    assert_eq!(reply["approval"], json!({"mode": "auto", "template": "cat", "project": project}));
    let (records, trail) = (env.records(), &reply["trail"]);
    let at =
        |seq: &Value| &records[usize::try_from(seq.as_u64().expect("a number")).expect("fits")];
    assert_eq!(
        (&at(&trail["intent"])["kind"], &at(&trail["end"])["kind"]),
        (&"intent".into(), &"end".into())
    );
    assert_eq!(trail["size"], records.len());
}

#[test]
fn the_reply_to_a_refused_call_has_its_keys_in_their_order() {
    let Some(env) = Env::new() else { return };
    for argv in [&["frobnicate"][..], &["ls", "-Z"], &["python3", "x.py"]] {
        let answer = env.cmd(argv);
        has_every_key(&answer.reply);
        for key in ["exit_code", "signal", "limit", "approval", "profile", "rung", "guard"] {
            assert_eq!(answer.reply[key], Value::Null, "{argv:?}: {key}");
        }
        assert_eq!(answer.reply["layers"], json!([]));
        assert_eq!(answer.reply["trail"]["end"], Value::Null);
    }
}

#[test]
fn json_is_one_line_and_the_only_thing_on_standard_output() {
    let Some(env) = Env::new() else { return };
    for call in [&["echo", "hello"][..], &["frobnicate"], &["probe", "build", "exit", "3"]] {
        let output = env.pinfold(&[&["run", "--json", "--"], call].concat());
        let out = text(&output.stdout);
        assert_eq!((out.matches('\n').count(), out.ends_with("}\n")), (1, true), "{out}");
        assert_eq!(text(&output.stderr), "", "{call:?}");
    }
}

#[test]
fn exit_codes_are_those_of_the_command_or_say_that_none_ran() {
    let Some(env) = Env::new() else { return };
    for (call, code, outcome) in [
        (&["probe", "build", "exit", "0"][..], 0, "ok"),
        (&["probe", "build", "exit", "3"], 3, "nonzero"),
        (&["probe", "build", "exit", "125"], 125, "nonzero"),
        (&["probe", "build", "die", "9"], 137, "nonzero"),
        (&["probe", "build", "die", "15"], 143, "nonzero"),
        (&["frobnicate"], 126, "refused"),
    ] {
        let answer = env.cmd(call);
        assert_eq!((answer.code, answer.outcome()), (code, outcome), "{call:?}: {answer:?}");
        let plain = env.pinfold(&[&["run", "--"], call].concat());
        assert_eq!(plain.status.code(), Some(code), "{call:?}");
    }
    let answer = env.run(&["--json", "--timeout", "1", "--", "probe", "build", "sleep", "60000"]);
    assert_eq!((answer.code, answer.outcome()), (124, "timeout"), "{answer:?}");
}

#[test]
fn without_json_the_output_passes_through_and_pinfold_says_nothing() {
    let Some(env) = Env::new() else { return };
    env.file("bytes", "");
    let bytes: Vec<u8> = (0..=255).collect();
    std::fs::write(env.workspace().join("bytes"), &bytes).expect("a file");
    let output = env.pinfold(&["run", "--", "cat", "bytes"]);
    assert_eq!((output.stdout, output.stderr.len()), (bytes, 0));
    let output = env.pinfold(&["run", "--", "cat", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "cat: missing: No such file or directory\n");
}

fn pinfolds_lines(output: &Output) -> String {
    let said = text(&output.stderr);
    assert!(!said.is_empty() && said.lines().all(|line| line.starts_with("pinfold: ")), "{said}");
    assert_eq!(text(&output.stdout), "");
    said
}

#[test]
fn a_refusal_is_told_in_one_sentence_for_each_thing_a_reader_needs() {
    let Some(env) = Env::new() else { return };
    for (call, said) in [
        (
            &["curl", "https://x.invalid"][..],
            "pinfold: refused [instead] curl: no command has general network access. Nothing ran. \
             Next: ask the operator to bring the content in. Counts as a refusal.\n\
             pinfold: `pinfold explain instead` says more\n",
        ),
        (
            &["cat", "../x"],
            "pinfold: refused [operand-kind] ../x: the operand has a `..` component. Nothing ran. \
             Next: try: cat README.md.\n\
             pinfold: `pinfold explain operand-kind` says more\n",
        ),
        (
            &["git", "push"],
            "pinfold: refused [listed-refusal] git push: publishing needs a person. Nothing ran. \
             Next: use the git_push tool, which asks a person.\n\
             pinfold: `pinfold explain listed-refusal` says more\n",
        ),
        (
            &["python3", "x\u{1b}.py"],
            "pinfold: refused [control-char] x\\u{1b}.py: a control character. Nothing ran. \
             Next: remove the character.\n\
             pinfold: `pinfold explain control-char` says more\n",
        ),
    ] {
        let output = env.pinfold(&[&["run", "--"], call].concat());
        assert_eq!((pinfolds_lines(&output).as_str(), output.status.code()), (said, Some(126)));
    }
}

#[test]
fn a_deadline_and_a_cut_are_told() {
    let Some(env) = Env::new() else { return };
    let output = env.pinfold(&["run", "--timeout", "1s", "--", "probe", "build", "sleep", "60000"]);
    let said = pinfolds_lines(&output);
    assert!(said.starts_with("pinfold: ended by the deadline after 1"), "{said}");
    assert!(said.ends_with("nothing of it is left\n"), "{said}");
    let output = env.pinfold(&["run", "--", "probe", "build", "flood", "5000000"]);
    assert_eq!(output.stdout.len(), 4096 << 10);
    let cut = "pinfold: limit [output] stdout was cut: 4MiB of a stream are passed on, the rest is \
               only counted. Next: let it need less, or raise `output_kib` of template \
               `probe-build`.\n";
    assert_eq!(text(&output.stderr), cut);
    assert_eq!(output.status.code(), Some(0), "the command's own");
}

#[test]
fn a_fault_of_the_configuration_is_shown_with_its_line_and_a_caret() {
    let Some(env) = Env::new() else { return };
    let config = env.path("config/pinfold.toml");
    std::fs::write(&config, "schema = 1\ncatalogue = \"x\"\nprofiles = 3\n").expect("a file");
    let said = pinfolds_lines(&env.pinfold(&["run", "--", "pwd"]));
    let place = config.display();
    let expected = format!(
        "pinfold: failed [config] the configuration: it has 2 faults, the first: \
         unknown key `catalogue` --> {place}:2:1. Nothing ran. Next: correct the places shown; \
         the compiled-in rules do not step in for broken ones.\n\
         pinfold: error: unknown key `catalogue`\n\
         pinfold:  --> {place}:2:1\n\
         pinfold:   |\n\
         pinfold: 2 | catalogue = \"x\"\n\
         pinfold:   | ^^^^^^^^^\n\
         pinfold:   |\n\
         pinfold:   = hint: known keys here: \
         catalog, git_identity, index, profiles, rungs, schema, tools, worktrees\n\
         pinfold: \n\
         pinfold: error: `profiles` must be a string, found integer\n\
         pinfold:  --> {place}:3:12\n\
         pinfold:   |\n\
         pinfold: 3 | profiles = 3\n\
         pinfold:   |            ^\n\
         pinfold:   |\n\
         pinfold:   = hint: write a string\n\
         pinfold: `pinfold explain config` says more\n"
    );
    assert_eq!(said, expected);
}
