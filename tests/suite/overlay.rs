//! `--tighten FILE` and `PINFOLD_AUTO_APPROVE=0`: an operator's call can have less than the
//! catalog gives, and never more.

use crate::config::edit;
use crate::input::hex;
use crate::policy::{is_shown, marked, says};
use crate::support::{Answer, Env, is_root, skip};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Writes an overlay outside of the workspace and returns its path.
fn overlay(env: &Env, text: &str) -> String {
    let file = env.path("tighten.toml");
    fs::write(&file, format!("schema = 1\n{text}")).expect("an overlay");
    file.to_str().expect("UTF-8").to_owned()
}

/// Runs a call under an overlay.
fn under(env: &Env, text: &str, call: &[&str]) -> Answer {
    let file = overlay(env, text);
    env.run(&[&["--json", "--tighten", &file], call].concat())
}

/// An overlay over one template.
fn tool(id: &str, more: &str) -> String {
    format!("[[tool]]\nid = \"{id}\"\n{more}\n")
}

#[test]
fn a_decision_becomes_a_later_one_and_others_stay() {
    let Some(env) = Env::new() else { return };
    let pwd = ["--", "pwd"];
    assert_eq!(under(&env, "", &pwd).code, 0, "the control");
    let answer = under(&env, &tool("pwd", "decision = \"ask\""), &pwd);
    assert_eq!((answer.code, answer.refusal()), (126, "nobody-to-ask"), "{answer:?}");
    let answer = under(&env, &tool("pwd", "decision = \"refuse\""), &pwd);
    assert_eq!((answer.code, answer.refusal()), (126, "listed-refusal"), "{answer:?}");
    assert_eq!(answer.reply["decision"]["counted"], false, "{answer:?}");
    let both = tool("pwd", "decision = \"refuse\"") + &tool("echo", "decision = \"auto\"");
    assert_eq!(under(&env, &both, &["--", "echo", "a"]).stdout(), "a\n");
    // The same is explained, also of a line, and of a template that asks anyway.
    let explain = |text: &str, call: &[&str]| -> Value {
        let file = overlay(&env, text);
        let words = [&["policy", "explain", "--json", "--tighten", &file], call].concat();
        serde_json::from_str(&says(&env, &words).1).expect("JSON")
    };
    let asked = tool("echo", "decision = \"ask\"");
    assert_eq!(explain(&asked, &["--line", "echo a"])["verdict"], "ask");
    assert_eq!(explain("", &["--line", "echo a"])["verdict"], "auto", "the control");
    let python = explain(&tool("python", "decision = \"refuse\""), &["--", "python3", "x.py"]);
    assert_eq!((&python["verdict"], &python["code"]), (&"refuse".into(), &"listed-refusal".into()));
    let python = explain("", &["--", "python3", "-m", "pip", "uninstall", "-y", "x"]);
    assert_eq!(python["template"], "pip-uninstall", "the control");
    let pip = tool("pip-uninstall", "decision = \"refuse\"");
    let python = explain(&pip, &["--", "python3", "-m", "pip", "uninstall", "-y", "x"]);
    assert_eq!((&python["verdict"], &python["code"]), (&"refuse".into(), &"listed-refusal".into()));
}

#[test]
fn limits_become_lower_in_the_plan_and_in_what_a_run_gets() {
    let Some(env) = Env::new() else { return };
    let big = "0123456789abcde\n".repeat(256);
    env.file("big.txt", &big);
    let cat = ["--", "cat", "big.txt"];
    let answer = under(&env, &tool("cat", "output_kib = 4"), &cat);
    assert_eq!((answer.code, answer.stdout()), (0, big.as_str()), "the control fits");
    let answer = under(&env, &tool("cat", "output_kib = 1"), &cat);
    assert_eq!(answer.stdout(), &big[..1024], "{answer:?}");
    assert_eq!(answer.reply["truncated"]["stdout"], true, "{answer:?}");
    let plan = |text: &str| -> Value {
        let file = overlay(&env, text);
        let words = ["policy", "explain", "--json", "--tighten", &file, "--", "cat", "big.txt"];
        let answer: Value = serde_json::from_str(&says(&env, &words).1).expect("JSON");
        answer["profile"].clone()
    };
    let plain = plan("");
    let lower = plan(&tool("cat", "timeout_s = 2\noutput_kib = 3\nbudget = 1"));
    assert_eq!((&plain["timeout_ms"], &lower["timeout_ms"]), (&10_000.into(), &2_000.into()));
    assert_eq!(lower["limits"]["output"], 3 << 10, "{lower}");
    let answer = under(
        &env,
        &tool("probe-build", "timeout_s = 1"),
        &["--", "probe", "build", "sleep", "30000"],
    );
    assert_eq!(answer.outcome(), "timeout", "{answer:?}");
}

#[test]
fn limits_of_all_calls_and_words_for_what_is_not_listed_become_stricter() {
    let Some(env) = Env::new() else { return };
    let echo = ["--", "echo", "one", "two"];
    for (policy, call, code) in [
        ("max_args = 2", &echo[..], "too-many-args"),
        ("max_arg_bytes = 3", &echo, "arg-too-long"),
        ("max_line_bytes = 11", &["--line", "echo one two"], "line-too-long"),
    ] {
        let number: u32 = policy.rsplit(' ').next().expect("a number").parse().expect("one");
        let fits = policy.replace(&number.to_string(), &(number + 1).to_string());
        let answer = under(&env, &format!("[policy]\n{fits}\n"), call);
        assert_eq!(answer.code, 0, "the control {fits}: {answer:?}");
        let answer = under(&env, &format!("[policy]\n{policy}\n"), call);
        assert_eq!((answer.code, answer.refusal()), (126, code), "{answer:?}");
    }
    edit(&env, "catalog.toml", |text| {
        let text = text.replacen("max_args ", "ask_profile = \"look\"\nmax_args ", 1);
        let text = text.replacen("unmatched       = \"refuse\"", "unmatched = \"ask\"", 1);
        text.replacen("unknown_program = \"refuse\"", "unknown_program = \"ask\"", 1)
    });
    for (call, key, code) in [
        (["--", "ls", "--color"], "unmatched", "flag-unknown"),
        (["--", "env", "ls"], "unknown_program", "instead"),
    ] {
        let answer = under(&env, "", &call);
        assert_eq!(answer.refusal(), "nobody-to-ask", "the control: {answer:?}");
        let answer = under(&env, &format!("[policy]\n{key} = \"refuse\"\n"), &call);
        assert_eq!((answer.code, answer.refusal()), (126, code), "{answer:?}");
    }
}

/// What is no overlay, behind `schema = 1`, with a `»` where the caret belongs; title and hint.
const FAULTS: [(&str, &str, &str); 24] = [
    (
        "[[tool]]\nid = \"python\"\n»decision = \"auto\"\n",
        "this decision lets more pass",
        "never back",
    ),
    (
        "[[tool]]\nid = \"declined\"\n»decision = \"ask\"\n",
        "this decision lets more pass",
        "never back",
    ),
    (
        "[[tool]]\nid = \"declined\"\n»decision = \"auto\"\n",
        "this decision lets more",
        "never back",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n»budget = 51\n",
        "`budget` is more than the catalog's 50",
        "only lowers",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n»timeout_s = 6\n",
        "`timeout_s` is more than the catalog's 5",
        "only",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n»output_kib = 5\n",
        "`output_kib` is more than the catalog's 4",
        "only",
    ),
    ("[[tool]]\nid = \"pwd\"\nbudget = »0\n", "`budget` must be from 1", ""),
    (
        "[[tool]]\nid = »\"pwdd\"\nbudget = 1\n",
        "the catalog has no template `pwdd`",
        "names templates",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n[[tool]]\nid = »\"pwd\"\nbudget = 1\n",
        "the id `pwd` is used twice",
        "",
    ),
    ("»[[tool]]\nbudget = 1\n", "`id` is missing", ""),
    ("[[tool]]\nid = \"pwd\"\ndecision = »\"no\"\n", "`decision` has the unknown value", "refuse"),
    (
        "[[tool]]\nid = \"pwd\"\n»profile = \"build\"\n",
        "unknown key `profile`",
        "known keys here: budget",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n»access = \"none\"\n",
        "unknown key `access`",
        "known keys here: budget",
    ),
    (
        "[[tool]]\nid = \"pwd\"\n»flags = [\"-Z\"]\n",
        "unknown key `flags`",
        "known keys here: budget",
    ),
    ("[[tool]]\nid = \"pwd\"\n»match = [\"pwd x\"]\n", "unknown key `match`", "known keys here"),
    ("[policy]\nunmatched = »\"ask\"\n", "`unmatched` has the unknown value `ask`", "refuse"),
    ("[policy]\nunknown_program = »\"ask\"\n", "`unknown_program` has the unknown value", "refuse"),
    (
        "[policy]\n»max_arg_bytes = 4097\n",
        "`max_arg_bytes` is more than the catalog's 4096",
        "lowers",
    ),
    (
        "[policy]\n»refusals_per_step = 11\n",
        "`refusals_per_step` is more than the catalog's",
        "lowers",
    ),
    ("[policy]\n»path = [\"/tmp\"]\n", "unknown key `path`", "known keys here: max_arg_bytes"),
    ("[policy]\n»weaker = [\"pwd\"]\n", "unknown key `weaker`", "known keys here: max_arg_bytes"),
    ("»name = \"mine\"\n", "unknown key `name`", "known keys here: policy, schema, tool"),
    ("[[»instead]]\nprograms = [\"pwd\"]\n", "unknown key `instead`", "known keys here"),
    ("broken = »= 1\n", "", ""),
];

#[test]
fn what_would_loosen_is_a_fault_at_its_place_and_nothing_runs() {
    let Some(env) = Env::new() else { return };
    let declined =
        crate::config::TOOL.replace("\"auto\"", "\"refuse\"").replace("made-up", "declined");
    edit(&env, "catalog.toml", |text| text.to_owned() + &declined);
    let echo = ["--", "echo", "a"];
    assert_eq!(under(&env, "", &echo).code, 0, "the control");
    for (text, title, hint) in FAULTS {
        let (text, number, column, line) = marked(&format!("schema = 1\n{text}"));
        let file = overlay(&env, text.strip_prefix("schema = 1\n").expect("the head"));
        let (code, shown, said) = says(&env, &[&["run", "--tighten", &file], &echo[..]].concat());
        assert_eq!((code, shown.as_str()), (125, ""), "{title}: {said}");
        assert!(said.starts_with("pinfold: failed [config] the configuration: "), "{said}");
        is_shown(&said, file.as_ref(), title, hint, (number, column, &line));
    }
    // All that is wrong is shown at once.
    let all = "[policy]\nmax_args = 65\nx = 1\n".to_owned()
        + &tool("python", "decision = \"auto\"\nbudget = 99")
        + &tool("python", "timeout_s = 0");
    let answer = under(&env, &all, &echo);
    let message = answer.reply["message"].as_str().expect("a message");
    assert_eq!((answer.code, message.matches("error: ").count()), (125, 6), "{message}");
    assert_eq!(env.records_of("intent").len(), 1, "only the control ran");
}

#[test]
fn an_overlay_that_others_or_the_command_could_change_is_refused() {
    let Some(env) = Env::new() else { return };
    let pwd = ["--", "pwd"];
    let run = |file: &str| env.run(&[&["--json", "--tighten", file], &pwd[..]].concat());
    let file = overlay(&env, "");
    assert_eq!(run(&file).code, 0, "the control");
    // A relative name is one of the folder that the operator is in.
    assert_eq!(run("../tighten.toml").code, 0, "the control");
    for (place, good, bad) in [("tighten.toml", 0o644, 0o646), ("", 0o755, 0o777)] {
        let mode = |mode| fs::set_permissions(env.path(place), fs::Permissions::from_mode(mode));
        mode(bad).expect("a mode");
        let answer = run(&file);
        assert_eq!((answer.code, answer.refusal()), (125, "config"), "{answer:?}");
        let message = answer.reply["message"].as_str().expect("a message");
        assert!(message.contains("can be changed by others than root and this user"), "{message}");
        mode(good).expect("a mode");
    }
    for missing in [env.path("nowhere.toml"), env.path("home")] {
        let answer = run(missing.to_str().expect("UTF-8"));
        assert_eq!((answer.code, answer.refusal()), (125, "config"), "{answer:?}");
    }
    // In the workspace the command of one run could write the overlay of the next.
    let inside = env.file("tighten.toml", "schema = 1\n");
    let link = env.path("link.toml");
    std::os::unix::fs::symlink(&inside, &link).expect("a link");
    for name in [inside.as_str(), "tighten.toml", link.to_str().expect("UTF-8")] {
        let answer = run(name);
        assert_eq!((answer.code, answer.refusal()), (126, "workspace"), "{name}: {answer:?}");
    }
    if !is_root() {
        return skip("only root can give files away");
    }
    std::os::unix::fs::chown(&file, Some(12_345), None).expect("given away");
    assert_eq!(run(&file).refusal(), "config");
}

#[test]
fn an_overlay_is_never_read_without_being_named() {
    let Some(env) = Env::new() else { return };
    let refuse = format!("schema = 1\n{}", tool("pwd", "decision = \"refuse\""));
    for name in ["tighten.toml", ".pinfold/tighten.toml", "pinfold.toml", "catalog.toml"] {
        env.file(name, &refuse);
    }
    fs::write(env.path("config/tighten.toml"), &refuse).expect("a file");
    assert_eq!(env.cmd(&["pwd"]).code, 0);
}

#[test]
fn the_intent_has_the_digest_of_the_overlay_and_none_without() {
    let Some(env) = Env::new() else { return };
    assert_eq!(env.cmd(&["pwd"]).code, 0);
    let text = tool("echo", "budget = 3");
    assert_eq!(under(&env, &text, &["--", "pwd"]).code, 0);
    assert_eq!(under(&env, "", &["--", "pwd"]).code, 0);
    let intents = env.records_of("intent");
    let digests: Vec<&Value> = intents.iter().map(|intent| &intent["tighten_sha256"]).collect();
    let digest = |text: &str| Value::from(hex(&Sha256::digest(format!("schema = 1\n{text}"))));
    assert_eq!(digests, [&Value::Null, &digest(&text), &digest("")]);
    let catalogs: Vec<&Value> = intents.iter().map(|intent| &intent["catalog_sha256"]).collect();
    assert!(
        catalogs[0].is_string() && catalogs.iter().all(|it| *it == catalogs[0]),
        "{catalogs:?}"
    );
}

#[test]
fn the_switch_makes_every_call_ask_and_takes_no_other_value() {
    let Some(env) = Env::new() else { return };
    let run = |value: &str, words: &[&str]| {
        let mut command = env.command(&[&["run", "--json", "--"], words].concat());
        command.env("PINFOLD_AUTO_APPROVE", value);
        Answer::of(command.output().expect("pinfold starts"))
    };
    assert_eq!(env.cmd(&["pwd"]).code, 0, "the control");
    for words in [&["pwd"][..], &["echo", "a"], &["probe", "build", "create", "made"]] {
        let answer = run("0", words);
        assert_eq!((answer.code, answer.refusal()), (126, "nobody-to-ask"), "{answer:?}");
        let message = answer.reply["message"].as_str().expect("a message");
        assert!(message.contains("PINFOLD_AUTO_APPROVE=0"), "{message}");
    }
    // What is refused stays refused.
    assert_eq!(run("0", &["curl", "x"]).refusal(), "instead");
    for value in ["", "1", "true", "false", "no", "00", "0 ", "off"] {
        let answer = run(value, &["pwd"]);
        assert_eq!((answer.code, answer.refusal()), (125, "config"), "{value:?}: {answer:?}");
        let message = answer.reply["message"].as_str().expect("a message");
        assert!(message.contains("PINFOLD_AUTO_APPROVE"), "{message}");
        assert!(message.contains("it takes no value but 0"), "{message}");
    }
    assert!(!env.workspace().join("made").exists());
}
