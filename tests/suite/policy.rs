//! `policy check`: every fault of an operator's catalog is shown at its place, and stops every
//! run; what lets more pass than the shipped catalog is shown too, and stops none.

use crate::support::{Env, is_root, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) const SHIPPED: &str = include_str!("../../sandbox-profiles/catalog.toml");

/// The head of a small catalog, whose lookup path is the shipped one's.
pub(crate) const HEAD: &str = "schema = 1\nname = \"small\"\n[policy]\n\
    path = [\"/usr/local/bin\", \"/usr/bin\", \"/bin\"]\n\
    profiles = [\"look\", \"fetch\", \"deposit\", \"lost\"]\n";

/// One sound template.
pub(crate) const TOOL: &str = "\n[[tool]]\nid = \"tNN\"\nprogram = \"pNN\"\n\
    describe = \"Test.\"\naccess = \"read-only\"\ndecision = \"auto\"\nprofile = \"look\"\n\
    operands = { kind = \"file\", min = 1, max = 2 }\nmatch = [\"pNN x\"]\n\
    no_match = [\"pNN\"]\n";

/// Says what a command line of Pinfold prints: exit code, standard output, standard error.
pub(crate) fn says(env: &Env, words: &[&str]) -> (i32, String, String) {
    let output = env.pinfold(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

/// The calls with the decisions that the shipped catalog must give them.
pub(crate) fn vectors() -> Vec<Value> {
    let rows = include_str!("../cases/argv-vectors.jsonl");
    rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect()
}

/// Makes a text the operator's catalog.
pub(crate) fn catalog(env: &Env, text: &str) {
    fs::write(env.path("config/catalog.toml"), text).expect("the catalog");
}

/// A text without its mark `»`, and line, column and text of the line where it stood.
pub(crate) fn marked(text: &str) -> (String, usize, usize, String) {
    let at = text.find('»').expect("a mark");
    let text = text.replace('»', "");
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default().to_owned();
    (text.clone(), text[..at].matches('\n').count() + 1, at - start + 1, line)
}

/// Checks that a fault is shown at a place with its line, a caret and a hint.
#[track_caller]
pub(crate) fn is_shown(said: &str, file: &Path, title: &str, hint: &str, at: (usize, usize, &str)) {
    let (number, column, line) = at;
    let said = said.replace("pinfold: ", "");
    let place = format!("--> {}:{number}:{column}\n", file.display());
    let mut blocks = said.split("error: ");
    let found = blocks.find(|block| block.starts_with(title) && block.contains(&place));
    let block = found.unwrap_or_else(|| panic!("no `{title}` at {place}in\n{said}"));
    let (_, below) = block.split_once(&format!("\n{number} | {line}\n")).expect(block);
    let (_, caret) = below.lines().next().expect(block).split_once("| ").expect(block);
    assert_eq!(caret.find('^'), Some(column - 1), "{block}");
    assert!(block.contains("= hint: "), "{block}");
    assert!(block.contains(hint), "{hint} is no hint of\n{block}");
}

/// What replaces what in [`TOOL`], with a `»` where the caret belongs; title and hint.
type Fault = (&'static [(&'static str, &'static str)], &'static str, &'static str);

const MATCH: &str = "match = [\"pNN x\"]\n";
const LAST: &str = "no_match = [\"pNN\"]\n";
const OPERANDS: &str = "{ kind = \"file\", min = 1, max = 2 }";
const DECISION: &str = "decision = \"auto\"";
const ACCESS: &str = "access = \"read-only\"";
const PROFILE: &str = "profile = \"look\"\n";
/// Here the fault is one of the template as a whole.
const WHOLE: (&str, &str) = ("[[tool]]", "»[[tool]]");
/// Here the id stands for the template.
const ID: (&str, &str) = ("id = ", "id = »");

/// What a word of capitals stands for in [`FAULTS`].
const ENTRIES: [(&str, &str); 4] = [
    ("LAST ", LAST),
    ("SECOND", SECOND),
    ("INSTEAD ", "[[instead]]\nreason = \"r\"\n"),
    ("REFUSE ", "[[refuse]]\nprogram = \"pNN\"\nclass = \"c\"\nreason = \"r\"\n"),
];

/// A second template.
const SECOND: &str = "[[tool]]\nid = \"uNN\"\nprogram = \"qNN\"\ndescribe = \"Test.\"\n\
    access = \"none\"\ndecision = \"ask\"\nprofile = \"look\"\n\
    operands = { kind = \"text\", max = 1 }\nmatch = [\"qNN\"]\nno_match = [\"qNN a b\"]\n";

/// Faults of one template, and of entries beside it.
const FAULTS: [Fault; 36] = [
    (
        &[(LAST, "LAST SECOND"), ("= \"qNN\"", "= »\"pNN\"")],
        "`pNN` fits the template `tNN` as well",
        "at most one template",
    ),
    (&[(LAST, "LAST SECOND"), ("\"uNN\"", "»\"tNN\"")], "the id `tNN` is used twice", ""),
    (
        &[(DECISION, "decision = »\"allow\"")],
        "`decision` has the unknown value",
        "auto, ask, refuse",
    ),
    (
        &[(PROFILE, "profile = \"look\"\n»budgets = 1\n")],
        "unknown key `budgets`",
        "known keys here: access",
    ),
    (&[(PROFILE, "profile = \"look\"\nguard = »\"hg\"\n")], "`guard` has the unknown", "git"),
    (&[("\"file\"", "»\"glob\"")], "`kind` has the unknown value `glob`", "pypi-req"),
    (&[("\"look\"", "»\"peek\"")], "the profile `peek` is not in `[policy].profiles`", "look"),
    (&[("\"look\"", "\"lost\""), ID], "template `tNN` names profile `lost`", "profiles: "),
    (&[("program = ", "program = »"), ("pNN\"\nd", "/bin/pNN\"\nd")], "`/bin/pNN` is not the", ""),
    (&[("min = 1", "min = »3")], "`min` is greater than `max`", ""),
    (&[(OPERANDS, "»{ kind = \"file\", min = 1 }")], "`max` is missing", ""),
    (&[(OPERANDS, "»{ kind = \"none\", max = 1 }")], "the kind `none` has no count", ""),
    (&[(OPERANDS, "»{ kind = \"choice\", max = 1 }")], "a `choice` needs `of`", ""),
    (&[(MATCH, ""), WHOLE], "`match` is missing", ""),
    (&[(MATCH, "»match = []\n")], "`match` lists nothing", ""),
    (&[(LAST, ""), WHOLE], "`no_match` is missing", ""),
    (&[(LAST, "»no_match = []\n")], "`no_match` lists nothing", ""),
    (&[(MATCH, "match = [»\"pNN\"]\n")], "this `match` example does not fit: [operand-c", "pNN"),
    (&[(MATCH, "match = [\"pNN x\", »\"pNN -a\"]\n")], "this `match` example does not fit", "-a"),
    (&[(MATCH, "match = [»\"pNN x | y\"]\n")], "this `match` example does not fit: [shell", "|"),
    (&[(MATCH, "match = [»\"zzz x\"]\n")], "this `match` example does not fit: [unknown", "zzz"),
    (
        &[(MATCH, "match = [\"pNN x\", »\"qNN x\"]\n"), (LAST, "LAST SECOND")],
        "this `match` example fits template `uNN` instead",
        "move it there",
    ),
    (&[(LAST, "no_match = [\"pNN\", »\"pNN y\"]\n")], "this `no_match` example fits", "take out"),
    (&[("operands", "flags = [FLAGS]\noperands"), WHOLE], "65 flags and values, at most 64", ""),
    (
        &[
            (OPERANDS, "{ kind = \"opaque\", max = 2 }\nopaque = true"),
            (DECISION, "»decision = \"auto\""),
        ],
        "`opaque` is never `auto`",
        "use decision = \"ask\"",
    ),
    (
        &[(ACCESS, "access = \"network\""), (DECISION, "»decision = \"auto\"")],
        "`network` is never `auto`",
        "use decision = \"ask\"",
    ),
    (
        &[(ACCESS, "»access = \"read-only\""), ("\"look\"", "\"fetch\"")],
        "access `read-only` promises less than profile `fetch` grants: it reaches a network",
        "set access = \"network\" and decision = \"ask\"",
    ),
    (
        &[(ACCESS, "»access = \"read-only\""), ("\"look\"", "\"deposit\"")],
        "access `read-only` promises less than profile `deposit` grants: it writes `/srv/out`",
        "set access = \"workspace-write\"",
    ),
    (
        &[(
            "operands",
            "»cluster = true\nflags = [\"-a\"]\n\
        values = [{ name = \"-n\", kind = \"uint\", forms = [\"sep\"] }]\noperands",
        )],
        "`cluster` would make other options ambiguous",
        "one letter",
    ),
    (
        &[("operands", "flags = [\"-a\"]\nforbid = { \"-a\" = \"no\" }\noperands"), ID],
        "`forbid` names `-a`, which the template accepts",
        "",
    ),
    (
        &[(LAST, "LAST INSTEAD programs = [»\"pNN\"]\nuse = \"u\"\n")],
        "`[[instead]]` names `pNN`, which has a template",
        "",
    ),
    (
        &[(LAST, "LAST INSTEAD programs = [\"qNN\"]\nuse = »\"call `fetch` once\"\n")],
        "there is no tool `fetch`",
        "tools: run_command",
    ),
    (
        &[(LAST, "LAST INSTEAD programs = [\"qNN\"]\nuse = »\"the put_file tool\"\n")],
        "there is no tool `put_file`",
        "tools: run_command",
    ),
    (
        &[(LAST, "LAST REFUSE subs = [\"s\"]\nnext = »\"`get_file` first\"\n")],
        "there is no tool `get_file`",
        "tools",
    ),
    (
        &[(LAST, "LAST »REFUSE subs = [\"s\"]\nnext = \"n\"\ngrantable = true\n")],
        "`grantable` needs `profile`",
        "granted",
    ),
    (
        &[
            ("\"pNN\"\nd", "\"pNN\"\nsub = [\"s\"]\nd"),
            ("\"pNN x\"", "\"pNN s x\""),
            (LAST, "LAST REFUSE subs = [»\"s\"]\nnext = \"n\"\n"),
        ],
        "`[[refuse]]` names `pNN s`, which has a template",
        "",
    ),
];

/// Faults of a catalog's head, which has `END` at its end; the first ones can stand together.
const HEAD_FAULTS: [Fault; 11] = [
    (&[("schema = 1", "schema = »2")], "this version reads schema 1 only", ""),
    (
        &[("END", "shell_mode = »\"compound\"\nEND")],
        "`shell_mode` = \"compound\" is not in this version",
        "use \"simple\"",
    ),
    (&[("END", "headless_ask = »\"ask\"\nEND")], "`headless_ask` has the unknown", "refuse"),
    (&[("END", "»max_lines = 1\nEND")], "unknown key `max_lines`", "max_line_bytes"),
    (&[("END", "max_args = »65\nEND")], "`max_args` must be from 0 to 64", ""),
    (&[("END", "weaker = [»\"ls\"]\nEND")], "`weaker` names `ls`, which is not weaker", "take it"),
    (
        &[(
            "END",
            "ask_profile = »\"fetch\"\nunknown_program = \"ask\"\nweaker = [\"policy\"]\nEND",
        )],
        "`ask_profile` names `fetch`, which has a network",
        "name another profile",
    ),
    (
        &[(
            "END",
            "ask_profile = »\"lost\"\nunknown_program = \"ask\"\nweaker = [\"policy\"]\nEND",
        )],
        "`ask_profile` names profile `lost`, which does not exist",
        "profiles: base, ",
    ),
    (
        &[("\"/bin\"]", "»\"bin\"]"), ("END", "weaker = [\"policy\"]\nEND")],
        "`path` has `bin`, which is not an absolute folder",
        "without `..`",
    ),
    (&[("END", "broken = »= 1\nEND")], "", ""),
    (
        &[("END", "unmatched = \"ask\"\nweaker = [\"policy\"]\nEND"), ("[policy]", "»[policy]")],
        "`ask` needs `ask_profile`",
        "name the profile of calls that no template describes",
    ),
];
/// How many of them stand together.
const TOGETHER: usize = 6;

/// A head with one of [`HEAD_FAULTS`], with its mark.
fn faulty_head(head: &str, fault: &Fault) -> String {
    fault.0.iter().fold(head.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old} is not in\n{text}");
        text.replacen(old, new, 1)
    })
}

/// One of [`FAULTS`] as a text with its mark, with a number for `NN`.
fn faulty(fault: &Fault, number: usize) -> String {
    let mut text = TOOL.to_owned();
    for (old, new) in fault.0 {
        assert!(text.contains(old), "{old} is not in\n{text}");
        text = text.replacen(old, new, 1);
        for (word, entry) in ENTRIES {
            text = text.replace(word, entry);
        }
    }
    let flags: Vec<String> = (0..65).map(|number| format!("\"--f{number}\"")).collect();
    numbered(&text.replace("FLAGS", &flags.join(", ")), number)
}

/// The text with a number for `NN`; 0 stands for a program that is on every host.
fn numbered(text: &str, number: usize) -> String {
    let text = if number == 0 { text.replace("pNN", "true") } else { text.to_owned() };
    text.replace("NN", &number.to_string())
}

/// A profile that the policy does not list and that no file defines is two faults.
/// A host whose profiles include one that writes an absolute folder.
fn host() -> Option<Env> {
    let env = Env::new()?;
    let profile = "schema = 1\nname = \"deposit\"\nwhy = \"For tests.\"\ninherits = \"look\"\n\
        rung = \"B\"\n[[write]]\npath = \"/srv/out\"\nwhy = \"a drop\"\noptional = true\n\
        [network]\nmode = \"none\"\nwhy = \"none\"\n[syscalls]\nsets = [\"base\", \"files\"]\n";
    fs::write(env.path("config/profiles/deposit.toml"), profile).expect("a profile");
    Some(env)
}

/// Checks that the configured catalog is sound and in force.
#[track_caller]
fn is_sound(env: &Env, text: &str) {
    catalog(env, text);
    let (code, shown, said) = says(env, &["policy", "check"]);
    assert_eq!((code, said.as_str()), (0, ""), "{shown}");
    assert!(shown.starts_with("catalog `small`: ") && shown.ends_with("no fault\n"), "{shown}");
}

/// Checks that nothing runs, also not what only the shipped catalog has.
#[track_caller]
fn stops_every_run(env: &Env) {
    for words in [["run", "--json", "--", "true", "x"], ["run", "--json", "--", "pwd", "-P"]] {
        let answer = crate::support::Answer::of(env.pinfold(&words));
        assert_eq!((answer.code, answer.refusal()), (125, "config"), "{answer:?}");
    }
}

#[test]
fn each_fault_of_a_template_is_shown_at_its_place_and_stops_every_run() {
    let Some(env) = host() else { return };
    let file = env.path("config/catalog.toml");
    is_sound(&env, &format!("{HEAD}{}", numbered(TOOL, 0)));
    let answer = env.cmd(&["true", "x"]);
    assert_eq!(answer.code, 0, "the control: {answer:?}");
    for fault @ (_, title, hint) in &FAULTS {
        let (text, number, column, line) = marked(&format!("{HEAD}{}", faulty(fault, 0)));
        catalog(&env, &text);
        let (code, shown, said) = says(&env, &["policy", "check"]);
        assert_eq!((code, shown.as_str()), (1, ""), "{title}: {said}");
        is_shown(&said, &file, &numbered(title, 0), &numbered(hint, 0), (number, column, &line));
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        stops_every_run(&env);
    }
}

#[test]
fn each_fault_of_a_head_is_shown_at_its_place_and_stops_every_run() {
    let Some(env) = host() else { return };
    let file = env.path("config/catalog.toml");
    is_sound(&env, &format!("{HEAD}{}", numbered(TOOL, 0)));
    for fault @ (_, title, hint) in &HEAD_FAULTS {
        let head = faulty_head(&format!("{HEAD}END"), fault).replace("END", "");
        let (text, number, column, line) = marked(&format!("{head}{}", numbered(TOOL, 0)));
        catalog(&env, &text);
        let (code, shown, said) = says(&env, &["policy", "check"]);
        assert_eq!((code, shown.as_str()), (1, ""), "{title}: {said}");
        is_shown(&said, &file, title, hint, (number, column, &line));
        assert!(said.ends_with("\npinfold: 1 fault\n"), "{said}");
        // What the file says of itself without effect is for whoever checks it.
        if !title.starts_with("`weaker` names") {
            stops_every_run(&env);
        }
    }
}

#[test]
fn all_faults_of_a_file_are_shown_in_one_answer() {
    let Some(env) = host() else { return };
    let file = env.path("faulty.toml");
    let mut text = format!("{HEAD}END");
    let mut wanted = Vec::new();
    for fault in &HEAD_FAULTS[..TOGETHER] {
        let (whole, number, column, line) = marked(&faulty_head(&text, fault));
        wanted.push((fault, 0, number, column, line));
        text = whole;
    }
    text = text.replace("END", "");
    for (index, fault) in FAULTS.iter().enumerate() {
        let (whole, number, column, line) = marked(&(text + &faulty(fault, index + 1)));
        wanted.push((fault, index + 1, number, column, line));
        text = whole;
    }
    fs::write(&file, &text).expect("a catalog");
    let (code, shown, said) = says(&env, &["policy", "check", file.to_str().expect("UTF-8")]);
    assert_eq!((code, shown.as_str()), (1, ""), "{said}");
    for ((_, title, hint), index, number, column, line) in &wanted {
        let (title, hint) = (numbered(title, *index), numbered(hint, *index));
        is_shown(&said, &file, &title, &hint, (*number, *column, line));
    }
    let count = wanted.len();
    assert!(said.ends_with(&format!("\npinfold: {count} faults\n")), "{said}");
}

#[test]
fn a_broken_catalog_of_the_operator_is_never_replaced_by_the_shipped_one() {
    let Some(env) = host() else { return };
    let rows = env.file("rows.jsonl", "{\"argv\": [\"pwd\"], \"expect\": \"auto\"}\n");
    let (explain, test) = (["policy", "explain", "--", "pwd"], ["policy", "test", &rows]);
    let render = ["policy", "render", "prompt"];
    catalog(&env, SHIPPED);
    for words in [&explain[..], &test, &render] {
        let (code, shown, said) = says(&env, words);
        assert_eq!((code, said.as_str()), (0, ""), "the control {words:?}: {shown}");
    }
    catalog(&env, &SHIPPED.replacen("cluster = true", "clutser = true", 1));
    for (words, exit) in [(&explain[..], 125), (&test, 1), (&render, 1)] {
        let (code, shown, said) = says(&env, words);
        assert_eq!(code, exit, "{words:?}: {shown}{said}");
        assert!(said.contains("unknown key `clutser`"), "{words:?}: {said}");
        assert!(!shown.contains("template pwd") && !shown.contains("ls [-1]"), "{shown}");
    }
    stops_every_run(&env);
    assert_eq!(env.records_of("intent").len(), 0);
}

#[test]
fn a_catalog_that_others_could_change_is_a_fault() {
    let Some(env) = host() else { return };
    fs::create_dir_all(env.path("rules/deep")).expect("folders");
    let file = env.path("rules/deep/catalog.toml");
    fs::write(&file, format!("{HEAD}{}", numbered(TOOL, 0))).expect("a catalog");
    let file = file.to_str().expect("UTF-8");
    let refused = |place: &str| {
        let (code, shown, said) = says(&env, &["policy", "check", file]);
        assert_eq!((code, shown.as_str()), (1, ""), "{place}: {said}");
        let place = env.path(place).display().to_string();
        let title = format!("error: {place} can be changed by others than root and this user");
        assert!(said.contains(&title) && said.contains(&format!("chmod go-w {place}")), "{said}");
    };
    let accepted = |what: &str| {
        let (code, _, said) = says(&env, &["policy", "check", file]);
        assert_eq!((code, said.as_str()), (0, ""), "the control, {what}");
    };
    accepted("as it is");
    for (place, good, bad) in [
        ("rules/deep/catalog.toml", 0o644, 0o646),
        ("rules/deep", 0o755, 0o757),
        ("rules", 0o755, 0o777),
    ] {
        let mode = |mode| fs::set_permissions(env.path(place), fs::Permissions::from_mode(mode));
        mode(bad).expect("a mode");
        refused(place);
        mode(good).expect("a mode");
        accepted(place);
    }
    if !is_root() {
        return skip("only root can give files away");
    }
    for place in ["rules/deep/catalog.toml", "rules/deep", "rules"] {
        let owner = |uid| std::os::unix::fs::chown(env.path(place), Some(uid), None);
        owner(12_345).expect("given away");
        refused(place);
        owner(0).expect("taken back");
        accepted(place);
        // A group that is not root's may write as little as others may.
        std::os::unix::fs::chown(env.path(place), None, Some(12_345)).expect("another group");
        let mode = |mode| fs::set_permissions(env.path(place), fs::Permissions::from_mode(mode));
        accepted(place);
        mode(0o775).expect("a mode");
        refused(place);
        mode(0o755).expect("a mode");
    }
}

#[test]
fn programs_that_are_not_here_or_not_trustworthy_are_listed_with_their_templates() {
    let Some(env) = host() else { return };
    let bin = env.path("bin");
    crate::support::copy_program(Path::new("/bin/true"), &bin.join("open"));
    fs::set_permissions(bin.join("open"), fs::Permissions::from_mode(0o777)).expect("a mode");
    let head = HEAD.replace("[\"/usr/", &format!("[\"{}\", \"/usr/", bin.display()));
    let head = format!("{head}weaker = [\"policy\"]\n");
    let tool = |id: &str, program: &str| TOOL.replace("tNN", id).replace("pNN", program);
    let here = ["date", "id", "true"].map(|program| tool(program, program)).concat();
    catalog(&env, &format!("{head}{here}"));
    let (code, shown, said) = says(&env, &["policy", "check", "--installed"]);
    assert_eq!((code, said.as_str()), (0, ""), "{shown}");
    assert!(shown.ends_with("\nevery program of it is here\n"), "{shown}");
    let sub = |text: String| {
        text.replace("describe", "sub = [\"s\"]\ndescribe").replace(" x\"]", " s x\"]")
    };
    let lacked = [tool("gone", "no-such"), tool("open", "open"), sub(tool("gone-s", "no-such2"))];
    let more =
        sub(tool("gone-t", "no-such2")).replace("[\"s\"]", "[\"t\"]").replace(" s x", " t x");
    let file = env.path("lacked.toml");
    fs::write(&file, format!("{head}{here}{}{more}", lacked.concat())).expect("a catalog");
    let words = ["policy", "check", "--installed", file.to_str().expect("UTF-8")];
    let (code, shown, said) = says(&env, &words);
    assert_eq!((code, said.as_str()), (1, ""), "{shown}");
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(lines.len(), 3, "{shown}");
    for (program, templates, why) in [
        ("no-such", "(gone)", "is not installed in"),
        ("no-such2", "(gone-s, gone-t)", "is not installed in"),
        ("open", "(open)", "can be written by others"),
    ] {
        let line = lines.iter().find(|line| line.starts_with(&format!("{program}: ")));
        let line = line.unwrap_or_else(|| panic!("{program} is not in {shown}"));
        assert!(line.contains(why) && line.contains(templates), "{line}");
        assert!(line.contains(". Next: "), "{line}");
    }
    assert_eq!(says(&env, &["policy", "check", words[3]]).0, 0, "without the option it is sound");
}

#[test]
fn every_example_catalog_is_sound() {
    let Some(env) = host() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sandbox-profiles/examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the examples") {
        // A copy of the host's own, which lies where others cannot change it.
        let name = entry.expect("an example").path();
        let file = env.path("example.toml");
        fs::copy(&name, &file).expect("a copy");
        let (code, shown, said) = says(&env, &["policy", "check", file.to_str().expect("UTF-8")]);
        assert_eq!((code, said.as_str()), (0, ""), "{}: {shown}", name.display());
        count += 1;
    }
    assert!(count >= 5, "{count}");
}
