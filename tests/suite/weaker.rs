//! What one catalog lets pass that another does not: `policy diff`, and what `policy check` shows
//! as weaker than shipped, which stops no run.

use crate::policy::{SHIPPED, catalog, is_shown, marked, says, vectors};
use crate::support::Env;
use pinfold::catalog::Catalog;
use pinfold::record::Verdict;
use pinfold::source::Source;
use serde_json::Value;
use std::fs;

/// Edits one template of the shipped catalog. Of its examples only the first is kept, and one that
/// fits nowhere stands for what must not match, so that only the edit is seen.
fn edited(id: &str, old: &str, new: &str) -> String {
    let start = SHIPPED.find(&format!("id = \"{id}\"\n")).expect("the template");
    let end = start + SHIPPED[start..].find("\n[[").expect("the next entry");
    let section = &SHIPPED[start..end];
    assert!(section.contains(old), "{id} has no {old}");
    let (kept, examples) = section.split_once("match    = [").expect("examples stand last");
    let first = examples.split(['"']).nth(1).expect("an example");
    let section = kept.replacen(old, new, 1);
    let examples = format!("match = [\"{first}\"]\nno_match = [\"zz\"]\n");
    [&SHIPPED[..start], &section, &examples, &SHIPPED[end..]].concat()
}

/// What loosens the shipped catalog: the template, what is replaced in it, by what, and what is
/// said of it.
const LOOSER: [(&str, &str, &str, &str); 35] = [
    ("npx-tsc", "required_any = [[\"--noEmit\"]]\n", "", "--noEmit is not required any more"),
    (
        "cargo",
        "[[\"--offline\"",
        "[[\"-q\", \"--offline\"",
        "--frozen or --offline is not required",
    ),
    ("node-file", "\"inspect\", ", "", "word that an operand cannot be `inspect` is gone"),
    ("node-file", ", not = [\"inspect\", \"debug\"]", "", "cannot be `debug` is gone"),
    ("cat", "max = 8", "max = 9", "most operands is 9, was 8"),
    ("cat", "min = 1", "min = 0", "least operands is 0, was 1"),
    ("gate", ", under = \"scripts\"", "", "an operand lies in another folder"),
    ("gate", ", ext = [\"sh\"]", "", "an operand has any ending"),
    ("gate", "ext = [\"sh\"]", "ext = [\"sh\", \"py\"]", "ending of an operand `py` is new"),
    ("wc", "kind = \"file\"", "kind = \"text\"", "an operand is of kind `text`, was `file`"),
    ("git-add", "dot = false", "dot = true", "`dot` of an operand is on"),
    ("cargo", ", only_sub = \"test\"", "", "operands stand behind other subcommands"),
    (
        "npm-run",
        "of = [\"build\"",
        "of = [\"deploy\", \"build\"",
        "choice of an operand `deploy` is new",
    ),
    (
        "pip-list",
        "\"json\"]",
        "\"json\", \"all\"]",
        "choice of the value of `--format` `all` is new",
    ),
    ("pip-uninstall", "decision = \"ask\"", "decision = \"auto\"", "decision is auto, was ask"),
    ("pwd", "access = \"none\"", "access = \"read-only\"", "access is readonly, was none"),
    ("ls", "access = \"read-only\"", "access = \"workspace-write\"", "access is workspacewrite"),
    ("ls", "profile = \"look\"", "profile = \"build\"", "profile is another one"),
    ("ls", "budget = 100", "budget = 101", "budget is 101, was 100"),
    ("ls", "budget = 100\n", "", "budget is none, was 100"),
    ("ls", "timeout_s = 10", "timeout_s = 11", "timeout_s is 11, was 10"),
    ("ls", "output_kib = 128\n", "", "output_kib is none, was 128"),
    ("pwd", "\"-P\"]", "\"-P\", \"-Z\"]", "option `-Z` is new"),
    (
        "cargo",
        "\"-p\", kind = \"name\", forms = [\"sep\"",
        "\"-p\", kind = \"name\", forms = [\"sep\", \"att\"",
        "form of `-p` `att` is new",
    ),
    (
        "cargo",
        "\"-p\", kind = \"name\"",
        "\"-p\", kind = \"text\"",
        "the value of `-p` is of kind `text`",
    ),
    (
        "pytest",
        "\"--maxfail\", kind = \"uint\"",
        "\"--maxfail\", kind = \"path\"",
        "value of `--maxfail` is of",
    ),
    (
        "git-init",
        "sub = [\"init\"]",
        "sub = [\"init\"]\nglobals = [\"--bare\"]",
        "global `--bare` is new",
    ),
    ("cat", "flags =", "permute = true\nflags =", "permute is on"),
    ("cat", "flags =", "cluster = true\nflags =", "cluster is on"),
    ("cargo", "repeat = [\"-p\"", "repeat = [\"--bin\", \"-p\"", "repeating `--bin` is on"),
    ("git-status", "guard = \"git\"\n", "", "no `guard` is on"),
    (
        "git-diff",
        "inject_after_sub = [\"--no-ext-diff\", \"--no-textconv\"]\n",
        "",
        "`inject_after_sub` is another",
    ),
    ("forge", "FOUNDRY_FFI = \"false\", ", "", "`env` is another one"),
    ("python", "scan = \"cpython\"", "", "no `scan` is on"),
    (
        "make",
        "program = \"make\"",
        "program = \"gmake\"\naliases = [\"make\"]",
        "program is another one",
    ),
];

#[test]
fn what_is_weaker_than_shipped_is_shown_and_stops_no_run_and_may_be_meant() {
    let Some(env) = Env::new() else { return };
    let file = env.path("config/catalog.toml");
    catalog(&env, SHIPPED);
    assert_eq!(says(&env, &["policy", "check"]).0, 0, "the control");
    for (id, old, new, what) in LOOSER {
        let text = edited(id, old, new);
        let at = text.find(&format!("id = \"{id}\"\n")).expect("the template");
        let (text, number, column, line) =
            marked(&[&text[..at], "id = »", &text[at + 5..]].concat());
        catalog(&env, &text);
        let (code, shown, said) = says(&env, &["policy", "check"]);
        assert_eq!((code, shown.as_str()), (1, ""), "{id}: {what}: {said}");
        let found =
            said.lines().find(|line| line.contains("weaker than shipped") && line.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what} is not in\n{said}"));
        let title = found.strip_prefix("pinfold: error: ").expect("a fault");
        let hint = format!("list \"{id}\" in `weaker` of [policy]");
        is_shown(&said, &file, title, &hint, (number, column, &line));
        let meant = text.replacen("max_args ", &format!("weaker = [\"{id}\"]\nmax_args "), 1);
        catalog(&env, &meant);
        let (code, _, said) = says(&env, &["policy", "check"]);
        assert_eq!((code, said.as_str()), (0, ""), "{id} is listed");
    }
    let answer = env.cmd(&["pwd"]);
    assert_eq!(answer.code, 0, "a weaker catalog runs: {answer:?}");
}

#[test]
fn what_the_head_lets_pass_more_than_shipped_is_shown_and_may_be_meant() {
    let Some(env) = Env::new() else { return };
    let ask = "ask_profile = \"look\"\nmax_args ";
    for (edits, what) in [
        (
            &[("unmatched       = \"refuse\"", "unmatched = \"ask\""), ("max_args ", ask)][..],
            "unmatched is ask, was refuse",
        ),
        (
            &[("unknown_program = \"refuse\"", "unknown_program = \"ask\""), ("max_args ", ask)],
            "unknown_program is ask, was refuse",
        ),
        (
            &[("[\"/usr/local/bin\", ", "[\"/opt/bin\", \"/usr/local/bin\", ")],
            "`path`, where programs are looked up, is another one",
        ),
        (
            &[("refusals_per_step = 10", "refusals_per_step = 11")],
            "refusals_per_step is 11, was 10",
        ),
    ] {
        let text = edits.iter().fold(SHIPPED.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replacen(old, new, 1)
        });
        catalog(&env, &text);
        let (code, _, said) = says(&env, &["policy", "check"]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("error: weaker than shipped: {what}\n")), "{said}");
        assert!(said.contains("list \"policy\" in `weaker` of [policy]"), "{said}");
        assert_eq!(env.cmd(&["pwd"]).code, 0, "it stops no run: {what}");
        catalog(&env, &text.replacen("max_args ", "weaker = [\"policy\"]\nmax_args ", 1));
        assert_eq!(says(&env, &["policy", "check"]).0, 0, "{what}");
    }
}

/// What narrows the shipped catalog, or changes it in both directions; as in [`LOOSER`].
const OTHER: [(&str, &str, &str, &str); 17] = [
    ("ls", "\"-1\", ", "", "stronger: option `-1` is gone"),
    ("cat", "max = 8", "max = 3", "stronger: most operands is 3, was 8"),
    ("git-commit", "repeat = [\"-m\"]\n", "", "stronger: repeating `-m` is off"),
    ("pip-uninstall", "flags", "required_any = [[\"-y\"]]\nflags", "stronger: -y is required"),
    (
        "wc",
        "kind = \"file\"",
        "kind = \"file\", ext = [\"rs\"]",
        "stronger: an operand has a listed",
    ),
    (
        "make",
        "kind = \"name\"",
        "kind = \"choice\", of = [\"all\"]",
        "weaker: an operand is of kind",
    ),
    ("npm-run", ", \"typecheck\"]", "]", "stronger: choice of an operand `typecheck` is gone"),
    (
        "forge",
        "\"eq\"] },\n  { name = \"--match-c",
        "\"eq\"] },\n  { name = \"--c",
        "weaker: option `--contract` is new",
    ),
    ("pwd", "decision = \"auto\"", "decision = \"ask\"", "stronger: decision is ask, was auto"),
    ("pip-install", "decision = \"ask\"", "decision = \"refuse\"", "stronger: decision is refuse"),
    ("ls", "cluster = true\n", "", "stronger: cluster is off"),
    ("ls", "permute = true\n", "", "stronger: permute is off"),
    ("cargo", "[\"check\"]]", "[\"miri\"]]", "weaker: `cargo miri` has a template"),
    ("cargo", ", [\"check\"]]", "]", "stronger: `cargo check` has no template"),
    ("pip-list", "aliases = [\"pip3\"]\n", "", "stronger: `pip3 list` has no template"),
    ("git-status", "globals = [\"--no-pager\"]\n", "", "stronger: global `--no-pager` is gone"),
    (
        "python",
        "decision = \"ask\"",
        "decision = \"refuse\"",
        "stronger: decision is refuse, was ask",
    ),
];

/// The changes that `policy diff --json` lists.
fn changes(env: &Env, old: &str, new: &str) -> Vec<Value> {
    let (code, shown, said) = says(env, &["policy", "diff", "--json", old, new]);
    assert_eq!((code, said.as_str()), (0, ""), "{shown}");
    let changes: Vec<Value> = serde_json::from_str(&shown).expect("a list");
    for change in &changes {
        let members: Vec<&String> = change.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["weaker", "template", "what"], "{change}");
    }
    changes
}

#[test]
fn a_difference_is_listed_with_its_template_and_its_direction() {
    let Some(env) = Env::new() else { return };
    let file = env.path("new.toml");
    let new = file.to_str().expect("UTF-8");
    for (id, before, after, wanted) in OTHER {
        fs::write(&file, edited(id, before, after)).expect("a catalog");
        let (direction, what) = wanted.split_once(": ").expect("a direction");
        let changes = changes(&env, "shipped", new);
        let of_it = |change: &&Value| {
            change["template"] == id && change["what"].as_str().is_some_and(|it| it.contains(what))
        };
        let found = changes.iter().find(of_it);
        let found = found.unwrap_or_else(|| panic!("{id}: {what} is not in {changes:#?}"));
        assert_eq!(found["weaker"], direction == "weaker", "{found}");
    }
    // For people a line each, and the other way round in the other direction.
    fs::write(&file, edited("cat", "max = 8", "max = 9")).expect("a catalog");
    let weaker = "weaker    cat: most operands is 9, was 8\n";
    assert_eq!(says(&env, &["policy", "diff", "shipped", new]), (0, weaker.into(), String::new()));
    let stronger = "stronger  cat: most operands is 8, was 9\n";
    assert_eq!(
        says(&env, &["policy", "diff", new, "shipped"]),
        (0, stronger.into(), String::new())
    );
}

#[test]
fn a_pin_of_a_programs_content_is_stronger_and_another_one_weaker() {
    let Some(env) = Env::new() else { return };
    let pinned = |name: &str, digit: &str| {
        let pin = format!("sha256 = \"{}\"\nbudget", digit.repeat(64));
        let file = env.path(name);
        fs::write(&file, edited("ls", "budget", &pin)).expect("a catalog");
        file.to_str().expect("UTF-8").to_owned()
    };
    let (one, two) = (pinned("one.toml", "1"), pinned("two.toml", "2"));
    let change = |weaker: bool, what: &str| {
        let change = serde_json::json!({ "weaker": weaker, "template": "ls", "what": what });
        Value::Array(vec![change])
    };
    let changed = |old: &str, new: &str| Value::Array(changes(&env, old, new));
    assert_eq!(changed("shipped", &one), change(false, "the program's content is pinned"));
    assert_eq!(changed(&one, "shipped"), change(true, "`sha256` is another one"));
    assert_eq!(changed(&one, &two), change(true, "`sha256` is another one"));
}

#[test]
fn catalogs_that_decide_alike_say_so_whatever_their_order_and_words() {
    let Some(env) = Env::new() else { return };
    let file = env.path("same.toml");
    let (tools, words) = SHIPPED.split_once("[[refuse]]").expect("word lists stand last");
    let (head, tools) = tools.split_once("[[tool]]").expect("templates");
    let mut tools: Vec<&str> = tools.split("[[tool]]").collect();
    tools.reverse();
    let turned = format!("{head}[[tool]]{}[[refuse]]{words}", tools.join("\n[[tool]]"));
    let renamed =
        SHIPPED.replace("id = \"", "id = \"our-").replace("reason = \"", "reason = \"so ");
    for text in [SHIPPED, &turned, &renamed] {
        fs::write(&file, text).expect("a catalog");
        let name = file.to_str().expect("UTF-8");
        let same = (0, "no call is decided otherwise\n".to_owned(), String::new());
        assert_eq!(says(&env, &["policy", "diff", "shipped", name]), same);
        assert_eq!(changes(&env, name, "shipped"), Vec::<Value>::new());
    }
}

#[test]
fn a_file_that_is_no_catalog_is_a_fault_of_a_comparison() {
    let Some(env) = Env::new() else { return };
    let faulty = env.path("faulty.toml");
    fs::write(&faulty, SHIPPED.replace("schema = 1", "schema = 2")).expect("a catalog");
    let (faulty, missing) = (faulty.to_str().expect("UTF-8"), env.path("missing.toml"));
    let missing = missing.to_str().expect("UTF-8");
    let (code, shown, said) = says(&env, &["policy", "diff", faulty, missing]);
    assert_eq!((code, shown.as_str()), (1, ""), "{said}");
    for part in ["faulty.toml:1:10", "missing.toml", "it cannot be read", "2 faults"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

/// The shipped catalog with `text` for its entry of an id, up to the next entry.
fn replaced(id: &str, text: &str) -> String {
    let at = SHIPPED.find(&format!("[[tool]]\nid = \"{id}\"\n")).expect("the template");
    let end = at + SHIPPED[at..].find("\n\n").expect("the next entry");
    [&SHIPPED[..at], text, &SHIPPED[end..]].concat()
}

/// Edits of the shipped catalog as a whole.
fn whole_edits() -> Vec<(String, String)> {
    let ask = "ask_profile = \"look\"\nmax_args ";
    let asking = |key: &str| {
        let text = SHIPPED.replacen(&format!("{key} = \"refuse\""), &format!("{key} = \"ask\""), 1);
        assert_ne!(text, SHIPPED, "{key}");
        text.replacen("max_args ", ask, 1)
    };
    let push = "[[tool]]\nid = \"git-push\"\nprogram = \"git\"\nsub = [\"push\"]\n\
        describe = \"Test.\"\naccess = \"network\"\ndecision = \"ask\"\nprofile = \"fetch\"\n\
        operands = { kind = \"none\" }\nmatch = [\"git push\"]\nno_match = [\"git push x\"]\n";
    let curl = push.replace("git push", "curl").replace("sub = [\"push\"]\n", "");
    let curl = curl.replace("\"git\"", "\"curl\"").replace("\"none\" }", "\"text\", max = 9 }");
    let curl = curl.replace("no_match = [\"curl x\"]", "no_match = [\"curl -x\"]");
    vec![
        ("unmatched".into(), asking("unmatched      ")),
        ("unknown_program".into(), asking("unknown_program")),
        ("no ls".into(), replaced("ls", "")),
        ("no pip install".into(), replaced("pip-install", "")),
        ("no python".into(), replaced("python", "")),
        ("push".into(), SHIPPED.replace("subs = [\"push\"]", "subs = [\"pusch\"]") + "\n" + push),
        ("curl".into(), SHIPPED.replace("\"curl\", ", "") + "\n" + &curl),
        ("short lines".into(), SHIPPED.replace("max_line_bytes = 8192", "max_line_bytes = 100")),
        ("few arguments".into(), SHIPPED.replace("max_args  = 64", "max_args  = 20")),
    ]
}

#[test]
fn where_a_vector_passes_more_easily_a_comparison_says_weaker() {
    let Some(env) = Env::new() else { return };
    let parse = |text: &str| Catalog::parse(Source::new("edited.toml", text));
    let shipped = Catalog::shipped().expect("sound");
    let verdict = |catalog: &Catalog, row: &Value| -> Verdict {
        let argv = match row["line"].as_str() {
            Some(line) => catalog.split(line.as_ref()),
            None => {
                let words = row["argv"].as_array().expect("a vector");
                Ok(words.iter().map(|word| word.as_str().expect("text").into()).collect())
            }
        };
        let decided = argv.and_then(|argv| catalog.decide(&argv).map(|matched| matched.verdict));
        decided.unwrap_or(Verdict::Refuse)
    };
    let mut edits = whole_edits();
    let lines = LOOSER.iter().chain(&OTHER);
    edits.extend(lines.map(|(id, old, new, _)| (format!("{id}: {new}"), edited(id, old, new))));
    let file = env.path("edited.toml");
    let (mut looser, mut same) = (0, 0);
    for (name, text) in &edits {
        let catalog = parse(text).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        fs::write(&file, text).expect("a catalog");
        let changes = changes(&env, "shipped", file.to_str().expect("UTF-8"));
        assert!(!changes.is_empty(), "{name} changes nothing");
        let weaker = changes.iter().any(|change| change["weaker"] == true);
        let (mut passes, mut differs) = (false, false);
        for row in vectors() {
            let (before, after) = (verdict(&shipped, &row), verdict(&catalog, &row));
            assert!(after >= before || weaker, "{name} is not said to be weaker: {row}");
            passes |= after < before;
            differs |= after != before;
        }
        looser += usize::from(passes);
        same += usize::from(!differs);
    }
    assert!(looser >= 15 && same < edits.len() / 2, "{looser} and {same} of {}", edits.len());
}
