//! The shipped catalog against its vectors and examples, and broken texts against their
//! diagnostics.

use super::*;
use crate::profile::Profiles;
use crate::record::{Code, Refusal, Verdict};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

const VECTORS: &str = include_str!("../../tests/cases/argv-vectors.jsonl");

fn shipped() -> Catalog {
    Catalog::shipped().unwrap_or_else(|faults| panic!("{faults}"))
}

fn argv(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn strings(value: &Value) -> Vec<OsString> {
    let words = value.as_array().expect("a list");
    words.iter().map(|word| word.as_str().expect("a string").into()).collect()
}

/// A vector, and its argument vector, which a line may have given.
fn request(catalog: &Catalog, vector: &Value) -> Result<Vec<OsString>, Refusal> {
    match vector["line"].as_str() {
        Some(line) => catalog.split(OsStr::new(line)),
        None => Ok(strings(&vector["argv"])),
    }
}

fn vectors() -> Vec<Value> {
    let vectors: Vec<Value> =
        VECTORS.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(vectors.len(), 587);
    vectors
}

fn verdict(result: &Result<Matched<'_>, Refusal>) -> Verdict {
    result.as_ref().map_or(Verdict::Refuse, |matched| matched.verdict)
}

#[test]
fn every_vector_gets_its_decision_template_code_and_argv() {
    let catalog = shipped();
    for vector in vectors() {
        let request = request(&catalog, &vector);
        let result = request.clone().and_then(|argv| catalog.decide(&argv));
        let request = request.unwrap_or_default();
        let decision = serde_json::to_value(verdict(&result)).expect("a word");
        assert_eq!(decision, vector["expect"], "{vector}");
        match result {
            Ok(matched) => {
                assert_eq!(matched.template.id, vector["template"].as_str().expect("an id"));
                assert_eq!(matched.executed(&request), strings(&vector["executed"]), "{vector}");
            }
            Err(refusal) => {
                assert_eq!(refusal.code.as_str(), vector["code"], "{vector}");
                check_words(&refusal);
            }
        }
    }
}

fn check_words(refusal: &Refusal) {
    let counts = matches!(refusal.code, Code::UnknownProgram | Code::Instead);
    assert_eq!(refusal.counted, counts, "{refusal}");
    let is_empty = refusal.what().is_empty() && refusal.code != Code::EmptyCall;
    let is_empty = is_empty && refusal.code != Code::EmptyArg;
    assert!(!is_empty && !refusal.reason().is_empty() && !refusal.next().is_empty(), "{refusal}");
    for part in [refusal.what(), refusal.reason(), refusal.next()] {
        assert!(!part.ends_with('.') || part == refusal.what(), "{refusal}");
        assert!(!part.contains(char::is_control), "{refusal}");
    }
}

/// Removes every entry that may only choose words.
fn without_words(mut catalog: Catalog) -> Catalog {
    catalog.refusals.clear();
    catalog.refusal_of.clear();
    catalog.instead.clear();
    catalog.instead_of.clear();
    let mut templates = catalog.templates.into_list();
    templates.iter_mut().for_each(|template| template.forbid.clear());
    catalog.templates = forms::Templates::new(templates);
    catalog
}

#[test]
fn word_lists_change_no_decision() {
    // Also where the operator wants a person asked about what no template accepts.
    let asking = include_str!("../../sandbox-profiles/catalog.toml")
        .replace("unmatched       = \"refuse\"", "unmatched = \"ask\"\nask_profile = \"look\"")
        .replace("unknown_program = \"refuse\"", "unknown_program = \"ask\"");
    for text in [include_str!("../../sandbox-profiles/catalog.toml"), asking.as_str()] {
        let full = parse(text).expect("sound");
        let bare = without_words(parse(text).expect("sound"));
        for vector in vectors() {
            let Ok(request) = request(&full, &vector) else { continue };
            let (with, without) = (full.decide(&request), bare.decide(&request));
            let id = |result: &Result<Matched<'_>, Refusal>| {
                result.as_ref().ok().map(|matched| matched.template.id.clone())
            };
            assert_eq!((verdict(&with), id(&with)), (verdict(&without), id(&without)), "{vector}");
        }
    }
}

#[test]
fn where_the_catalog_asks_what_no_template_accepts_is_asked_under_its_profile() {
    let text = include_str!("../../sandbox-profiles/catalog.toml")
        .replace("unmatched       = \"refuse\"", "unmatched = \"ask\"\nask_profile = \"look\"");
    let catalog = parse(&text).expect("sound");
    let decide = |words: &[&str]| {
        let request = argv(words);
        let explained = catalog.explain(&request);
        explained.result.map(|it| (it.verdict, it.template.id.clone(), it.template.profile.clone()))
    };
    let asks = Ok((Verdict::Ask, UNLISTED.to_owned(), "look".to_owned()));
    for words in [&["ls", "--color"][..], &["git", "push"], &["git"], &["cat"]] {
        assert_eq!(decide(words).map_err(|refusal| refusal.code), asks, "{words:?}");
    }
    // The shape, the program's name and what is found behind an interpreter stay as they are.
    for words in [&["ls", "--"][..], &["frob"], &["python3", "-m", "runpy"], &["python3", "-J"]] {
        assert!(decide(words).is_err(), "{words:?}");
    }
    let request = argv(&["ls", "--color"]);
    let matched = catalog.decide(&request).expect("asked");
    assert_eq!(
        (matched.program(&request), matched.executed(&request)),
        (OsStr::new("ls"), request.clone())
    );
    let unknown = text.replace("unknown_program = \"refuse\"", "unknown_program = \"ask\"");
    let catalog = parse(&unknown).expect("sound");
    for words in [&["frob"][..], &["curl", "x"]] {
        assert_eq!(verdict(&catalog.decide(&argv(words))), Verdict::Ask, "{words:?}");
    }
    assert_eq!(verdict(&catalog.decide(&argv(&["./frob"]))), Verdict::Refuse);
}

#[test]
fn the_order_of_the_file_changes_nothing() {
    let text = include_str!("../../sandbox-profiles/catalog.toml");
    let (tools, words) = text.split_once("[[refuse]]").expect("word lists stand last");
    let (head, tools) = tools.split_once("[[tool]]").expect("templates");
    let mut tools: Vec<_> = tools.split("[[tool]]").collect();
    tools.reverse();
    let turned = format!("{head}[[tool]]{}[[refuse]]{words}", tools.join("[[tool]]"));
    let turned = parse(&turned).expect("sound");
    assert_ne!(turned.templates()[0].id, shipped().templates()[0].id);
    let shipped = shipped();
    for vector in vectors() {
        let Ok(request) = request(&shipped, &vector) else { continue };
        let outcome = |catalog: &Catalog| match catalog.decide(&request) {
            Ok(matched) => (Some(matched.template.id.clone()), None),
            Err(refusal) => (None, Some(refusal.code)),
        };
        assert_eq!(outcome(&turned), outcome(&shipped), "{vector}");
    }
}

#[test]
fn no_template_accepts_an_option_that_it_does_not_list() {
    let catalog = shipped();
    let mut tried = 0;
    for vector in vectors().iter().filter(|vector| vector["expect"] != "refuse") {
        let request = request(&catalog, vector).expect("no fault of a line");
        let matched = catalog.decide(&request).expect("it fits");
        // A person reads what an interpreter is given.
        if matched.template.opaque || matched.via != Via::Itself {
            continue;
        }
        for at in 1..=request.len() {
            for token in ["-", "-x9", "--unlisted", "--unlisted=x", "-\u{e9}", "--", "-=", "---"] {
                let mut longer = request.clone();
                longer.insert(at, token.into());
                assert_eq!(verdict(&catalog.decide(&longer)), Verdict::Refuse, "{longer:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

#[test]
fn the_shipped_catalog_passes_every_check_of_an_operators_file() {
    let (profiles, shipped) = (Profiles::shipped().expect("sound"), shipped());
    let examined = Catalog::examine(Catalog::shipped_source(), Some(&profiles), &shipped);
    let examined = examined.unwrap_or_else(|faults| panic!("{faults}"));
    let examples = examined.templates().iter().map(|it| it.matches.len() + it.no_matches.len());
    assert_eq!(examples.sum::<usize>(), 211);
}

#[test]
fn a_line_and_its_vector_get_the_same_decision() {
    let catalog = shipped();
    let line = catalog.split(OsStr::new("git commit -m 'a b'")).expect("a line");
    assert_eq!(line, argv(&["git", "commit", "-m", "a b"]));
    let code = |line: &str| catalog.split(OsStr::new(line)).expect_err("refused").code;
    assert_eq!(code("ls | wc"), Code::ShellMeta);
    assert_eq!(code(&"a".repeat(8193)), Code::LineTooLong);
    assert_eq!(catalog.split(OsStr::new(&"a".repeat(8192))).expect("fits").len(), 1);
}

#[test]
fn only_operands_that_are_paths_are_named_as_such() {
    let catalog = shipped();
    let operands = |words: &[&str]| {
        let matched = catalog.decide(&argv(words)).expect("fits");
        matched.operand_indices().collect::<Vec<_>>()
    };
    assert_eq!(operands(&["ls", "-l", "src", "-a"]), [2]);
    assert_eq!(operands(&["head", "-n", "5", "a", "b"]), [3, 4]);
    assert_eq!(operands(&["git", "--no-pager", "diff", "--stat", "a"]), [4]);
    assert!(operands(&["echo", "a"]).is_empty());
    assert!(operands(&["forge", "test", "--match-path", "a"]).is_empty());
}

#[test]
fn injected_tokens_stand_behind_the_subcommand() {
    let catalog = shipped();
    let request = argv(&["git", "--no-pager", "diff", "a"]);
    let matched = catalog.decide(&request).expect("fits");
    assert_eq!(matched.inject_at, 3);
    let wanted = ["git", "--no-pager", "diff", "--no-ext-diff", "--no-textconv", "a"];
    assert_eq!(matched.executed(&request), argv(&wanted));
}

#[test]
fn a_refusal_names_the_next_action() {
    let catalog = shipped();
    let shown = |words: &[&str]| catalog.decide(&argv(words)).expect_err("refused").to_string();
    let unknown = shown(&["cowsay"]);
    assert!(unknown.contains("[[tool]] id = \"cowsay\", program = \"cowsay\""), "{unknown}");
    assert!(unknown.ends_with("Counts as a refusal."), "{unknown}");
    assert!(shown(&["curl", "x"]).contains("ask the operator to bring the content in"));
    assert!(shown(&["git", "push"]).contains("use the git_push tool"));
    assert!(shown(&["pip3", "config"]).starts_with("refused [listed-refusal] pip3 config:"));
    assert!(shown(&["git", "status", "."]).contains("try: git status"));
    assert!(shown(&["git", "frob"]).contains("git status"));
    assert!(shown(&["pwd", "-\x1b"]).contains("[control-char]"));
    let raw = catalog.decide(&[OsString::from("ls"), OsString::from_vec(vec![0xff])]);
    assert_eq!(raw.expect_err("not UTF-8").what(), r"\xff");
}

#[test]
fn the_digest_is_that_of_the_file_and_templates_have_a_place() {
    let catalog = shipped();
    let text = include_bytes!("../../sandbox-profiles/catalog.toml");
    use sha2::Digest as _;
    assert_eq!(catalog.digest().0, <[u8; 32]>::from(sha2::Sha256::digest(text)));
    let place = catalog.source_place(&catalog.templates()[0]);
    assert_eq!(place, "sandbox-profiles/catalog.toml:17:1");
    let home = catalog.path_in(Some(Path::new("/home/a")));
    assert_eq!(home, ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
    assert_eq!(catalog.profiles().len(), 6);
}

const HEAD: &str = "schema = 1\nname = \"t\"\n[policy]\npath = [\"/bin\", \"~/bin\"]\n\
                    profiles = [\"look\"]\n";

/// One sound template; `more` is added to it.
fn tool(id: &str, program: &str, more: &str) -> String {
    let operands = if more.contains("operands") { "" } else { "operands = { kind = \"none\" }\n" };
    let decision = if more.contains("decision") { "" } else { "decision = \"auto\"\n" };
    format!(
        "[[tool]]\nid = \"{id}\"\nprogram = \"{program}\"\ndescribe = \"d\"\n{decision}\
         access = \"none\"\nprofile = \"look\"\nmatch = [\"a\"]\nno_match = [\"b\"]\n\
         {operands}{more}\n"
    )
}

fn parse(text: &str) -> Result<Catalog, Faults> {
    Catalog::parse(Source::new("c.toml", text))
}

/// Checks that a text has exactly these faults, each given as the start of its message and
/// the line that it points at.
#[track_caller]
fn check_faults(text: &str, wanted: &[(&str, &str)]) {
    let faults = parse(text).expect_err("a faulty text");
    let shown = faults.to_string();
    assert_eq!(faults.len(), wanted.len(), "{shown}");
    for (title, line) in wanted {
        let number = text.lines().position(|candidate| candidate.contains(line));
        let number = number.expect("a line of the text") + 1;
        let place = format!("--> c.toml:{number}:");
        let mut parts = shown.split("\n\n");
        let found = parts.any(|part| part.contains(title) && part.contains(&place));
        assert!(found, "{title} at {place} in\n{shown}");
    }
}

#[track_caller]
fn check_tool_fault(more: &str, title: &str, line: &str) {
    check_faults(&format!("{HEAD}{}", tool("t", "t", more)), &[(title, line)]);
}

#[test]
fn a_small_sound_catalog_is_read() {
    let tools = [tool("a", "a", "sub = [\"x\", \"y\"]"), tool("b", "a", "sub = [\"x\", \"z\"]")];
    let catalog = parse(&format!("{HEAD}{}", tools.concat())).expect("sound");
    let matched = catalog.decide(&argv(&["a", "x", "z"])).expect("fits");
    assert_eq!((matched.template.id.as_str(), matched.inject_at), ("b", 3));
    let code = |words: &[&str]| catalog.decide(&argv(words)).expect_err("refused").code;
    assert_eq!(code(&["a", "x"]), Code::SubUnknown);
    assert_eq!(code(&["a"]), Code::SubMissing);
    assert_eq!(code(&["a", "z"]), Code::SubUnknown);
    assert_eq!(catalog.path_in(Some(Path::new("/h")))[1], Path::new("/h/bin"));
    assert_eq!(catalog.path_in(None), [Path::new("/bin")]);
}

#[test]
fn a_template_that_refuses_is_a_refusal() {
    let text = format!("{HEAD}{}", tool("a", "a", "decision = \"refuse\""));
    let catalog = parse(&text).expect("sound");
    let request = argv(&["a"]);
    let matched = catalog.decide(&request).expect("fits");
    assert_eq!(matched.verdict, Verdict::Refuse);
    assert_eq!(matched.refusal(&request).expect("words").code, Code::ListedRefusal);
}

#[test]
fn a_long_catalog_is_read_like_a_short_one() {
    let tools = |count: usize| -> String {
        let name = |number| format!("t{number}");
        (0..count).map(|number| tool(&name(number), &name(number), "flags = [\"-é\"]")).collect()
    };
    // What an option may not have makes the whole text be read at once, where all is the same.
    let faulty = parse(&format!("{HEAD}{}", tools(300))).expect_err("300 options that are none");
    assert_eq!(faulty.len(), 300);
    let text = format!("{HEAD}{}", tools(300).replace("-é", "-e").replace("\"d\"", "\"é\""));
    let catalog = parse(&text).expect("sound");
    assert_eq!(catalog.templates().len(), 300);
    let heads = text.lines().enumerate().filter(|(_, line)| *line == "[[tool]]");
    for (number, (line, _)) in heads.enumerate() {
        let program = format!("t{number}");
        let found = catalog.decide(&argv(&[&program, "-e"])).expect("fits").template;
        assert_eq!(found.program, program);
        assert_eq!(catalog.source_place(found), format!("c.toml:{}:1", line + 1));
    }
}

#[test]
fn an_example_may_call_a_template_with_too_many_options() {
    let flags: Vec<_> = (0..65).map(|number| format!("\"--f{number}\"")).collect();
    let many = tool("b", "b", &format!("flags = [{}]", flags.join(", ")));
    let other = tool("a", "a", "").replace("[\"b\"]", "[\"b --f64\"]");
    let source = Source::new("c.toml", format!("{HEAD}{many}{other}"));
    let faults = Catalog::load(source, None).expect_err("too many").to_string();
    assert!(faults.contains("65 flags and values, at most 64 fit"), "{faults}");
}

#[test]
fn faults_of_the_head_are_collected() {
    let text = "schema = 2\nname = \"t\"\nextra = 1\n[policy]\nunmatched = \"allow\"\n\
                unknown_program = \"ask\"\nheadless_ask = \"ask\"\npath = [\"bin\"]\n\
                profiles = [\"a\", \"a\"]\nmax_args = 65\nmax_arg_bytes = 0\n\
                shell_mode = \"compound\"\nfrob = 1\n";
    let wanted = [
        ("this version reads schema 1 only", "schema"),
        ("unknown key `extra`", "extra"),
        ("`unmatched` has the unknown value `allow`", "unmatched"),
        ("`ask` needs `ask_profile`", "[policy]"),
        ("`headless_ask` has the unknown value `ask`", "headless_ask"),
        ("`path` has `bin`, which is not an absolute folder", "path ="),
        ("`profiles` names `a` twice", "profiles"),
        ("`max_args` must be from 0 to 64", "max_args"),
        ("`max_arg_bytes` must be from 1 to 4096", "max_arg_bytes"),
        ("`shell_mode` = \"compound\" is not in this version", "shell_mode"),
        ("unknown key `frob`", "frob"),
    ];
    check_faults(text, &wanted);
    check_faults("name = \"t\"\n", &[("`schema` is missing", "name"), ("`policy` is", "name")]);
}

#[test]
fn a_template_names_every_key_that_it_needs() {
    let text = format!("{HEAD}[[tool]]\nprogram = \"t\"\nflags = [\"-a\"]\nbudget = 1\n");
    let keys = ["id", "describe", "access", "decision", "profile", "operands", "match", "no_match"];
    let titles = keys.map(|key| format!("`{key}` is missing"));
    let wanted: Vec<_> = titles.iter().map(|title| (title.as_str(), "[[tool]]")).collect();
    check_faults(&text, &wanted);
}

#[test]
fn a_template_with_an_unknown_word_is_a_fault() {
    for (more, title) in [
        ("operands = { kind = \"glob\", max = 1 }", "`kind` has the unknown value `glob`"),
        ("decision = \"maybe\"", "`decision` has the unknown value `maybe`"),
        ("guard = \"svn\"", "`guard` has the unknown value `svn`"),
        ("colour = \"red\"", "unknown key `colour`"),
        ("flags = \"-a\"", "`flags` must be a list of strings, found string"),
        ("budget = 0", "`budget` must be from 1"),
        ("sha256 = \"12\"", "`sha256` must be 64 hexadecimal digits"),
        ("env = { \"A-B\" = \"x\" }", "`A-B`: this is no name of a variable"),
        ("env = { LD_PRELOAD = \"x\" }", "`LD_PRELOAD`: this variable changes how every"),
        ("aliases = [\"/bin/t\"]", "`/bin/t` is not the bare name of a program"),
        ("scan = \"cpython\"", "`scan` needs `opaque`"),
    ] {
        check_tool_fault(more, title, more);
    }
    let text = format!("{HEAD}{}", tool("t", "t", "")).replace("\"none\"\np", "\"all\"\np");
    check_faults(&text, &[("`access` has the unknown value `all`", "access")]);
    let text =
        format!("{HEAD}{}", tool("t", "t", "")).replace("profile = \"look\"", "profile = \"x\"");
    check_faults(&text, &[("the profile `x` is not in `[policy].profiles`", "profile = \"x\"")]);
}

#[test]
fn options_that_could_be_read_in_two_ways_are_faults() {
    let value = |name: &str, form: &str| {
        format!("values = [{{ name = \"{name}\", kind = \"text\", forms = [\"{form}\"] }}]")
    };
    for (more, title) in [
        (value("--n", "att"), "`att` needs an option of one letter"),
        (value("-n", "eq"), "`eq` needs an option that starts with `--`"),
        (value("-n", "glued"), "`forms` has the unknown value `glued`"),
        (value("-nn", "sep"), "`-nn` cannot take a value"),
        (value("n", "sep"), "`n` is not an option"),
        ("flags = [\"--\"]".into(), "`--` is not an option"),
        ("flags = [\"-a\", \"-a\"]".into(), "the option `-a` is listed twice"),
        ("repeat = [\"-a\"]".into(), "`repeat` names `-a`, which is not in"),
        ("required_any = [[\"-a\"]]".into(), "`required_any` names `-a`, which is not in"),
        ("required_any = [[]]".into(), "a group of `required_any` is empty"),
        ("globals = [\"-a\"]".into(), "`globals` needs `sub`"),
    ] {
        let cannot = if more.contains("\"n\"") || more.contains("-nn") { 2 } else { 1 };
        let text = format!("{HEAD}{}", tool("t", "t", &more));
        let shown = parse(&text).expect_err("a fault");
        assert!(shown.len() <= cannot && shown.to_string().contains(title), "{shown}");
    }
    let long = "cluster = true\nflags = [\"-a\", \"--b\"]";
    check_tool_fault(long, "`cluster` would make other options ambiguous", "cluster");
    let valued = format!("cluster = true\n{}", value("-n", "sep"));
    check_tool_fault(&valued, "`cluster` would make other options ambiguous", "cluster");
    let flags: Vec<_> = (0..65).map(|number| format!("\"--f{number}\"")).collect();
    let many = format!("flags = [{}]", flags.join(", "));
    check_tool_fault(&many, "65 flags and values, at most 64 fit", "[[tool]]");
    for (name, form, flag) in [("-n", "att", "-nx"), ("--a", "eq", "--a=x")] {
        let hides = format!("flags = [\"{flag}\"]\n{}", value(name, form));
        check_tool_fault(&hides, &format!("`{flag}` is also `{name}` with a value"), "id =");
        let apart = format!("flags = [\"{flag}\"]\n{}", value(name, "sep"));
        parse(&format!("{HEAD}{}", tool("t", "t", &apart))).expect("nothing is hidden");
    }
    let forbid = "cluster = true\nflags = [\"-a\", \"-b\"]\nforbid = { \"-ab\" = \"no\" }";
    check_tool_fault(forbid, "`forbid` names `-ab`, which the template accepts", "id =");
    let joined = format!("{}\nforbid = {{ \"-nx\" = \"no\" }}", value("-n", "att"));
    check_tool_fault(&joined, "`forbid` names `-nx`, which the template accepts", "id =");
}

#[test]
fn operands_have_a_sound_count_and_kind() {
    for (operands, title) in [
        ("{ kind = \"path\", min = 2, max = 1 }", "`min` is greater than `max`"),
        ("{ kind = \"path\" }", "`max` is missing"),
        ("{ kind = \"path\", max = 64 }", "`max` must be from 0 to 63"),
        ("{ kind = \"none\", max = 1 }", "the kind `none` has no count"),
        ("{ kind = \"choice\", max = 1 }", "a `choice` needs `of`"),
        ("{ kind = \"uint\", max = 1, dot = true }", "`dot` has no meaning for this kind"),
        ("{ kind = \"file\", max = 1, ext = [\".sh\"] }", "`ext` lists endings without"),
        ("{ kind = \"file\", max = 1, under = \"a/b\" }", "`under` must be the name of one"),
        ("{ kind = \"path\", max = 1, only_sub = \"x\" }", "`only_sub` is not a subcommand"),
        ("{ kind = \"opaque\", max = 1 }", "`opaque` and operands of the kind `opaque`"),
    ] {
        check_tool_fault(&format!("operands = {operands}"), title, "operands");
    }
    let opaque = "opaque = true\noperands = { kind = \"opaque\", max = 1 }";
    check_tool_fault(opaque, "`opaque` is never `auto`", "decision");
    let flags = format!("{opaque}\ndecision = \"ask\"\nflags = [\"-a\"]");
    check_tool_fault(&flags, "`flags` has no meaning in an opaque template", "flags");
    let network = format!("{HEAD}{}", tool("t", "t", "")).replace("\"none\"\np", "\"network\"\np");
    check_faults(&network, &[("`network` is never `auto`", "decision")]);
}

#[test]
fn two_templates_never_fit_one_call() {
    let pair = |first: &str, second: &str| {
        format!("{HEAD}{}{}", tool("a", "p", first), tool("b", "q", second))
    };
    let same = pair("", "aliases = [\"p\"]");
    check_faults(&same, &[("`p` fits the template `a` as well", "aliases")]);
    let prefix = pair("sub = [\"x\"]", "aliases = [\"p\"]\nsub = [\"x\", \"y\"]");
    check_faults(&prefix, &[("`p x y` fits the template `a` as well", "aliases")]);
    let empty = pair("sub = [\"x\"]", "aliases = [\"p\"]");
    check_faults(&empty, &[("`p x` fits the template `a` as well", "aliases")]);
    let twice = pair("", "").replace("id = \"b\"", "id = \"a\"  # again");
    check_faults(&twice, &[("the id `a` is used twice", "# again")]);
    let both = pair("", "sub = [\"x\"]\nsub_any = [[\"y\"]]");
    check_faults(&both, &[("`sub` and `sub_any` exclude each other", "sub_any")]);
    let flag = pair("", "sub = [\"-x\"]");
    check_faults(&flag, &[("a subcommand is a word that does not start", "-x")]);
}

#[test]
fn word_lists_never_shadow_a_template() {
    let tools = tool("a", "p", "aliases = [\"p2\"]\nsub = [\"x\"]");
    let list = |more: &str| format!("{HEAD}{tools}{more}\nreason = \"r\"\n");
    let instead = list("[[instead]]\nprograms = [\"p2\"]\nuse = \"u\"");
    check_faults(&instead, &[("`[[instead]]` names `p2`, which has a template", "programs")]);
    let refuse = "[[refuse]]\nprogram = \"p\"\nclass = \"c\"\nnext = \"n\"\n";
    let shadow = list(&format!("{refuse}subs = [\"x\"]"));
    let titles = ["p", "p2"].map(|name| format!("`[[refuse]]` names `{name} x`, which has a"));
    check_faults(&shadow, &[(&titles[0], "subs"), (&titles[1], "subs")]);
    let grant = list(&format!("{refuse}subs = [\"y\"]\ngrantable = true"));
    check_faults(&grant, &[("`grantable` needs `profile`", "[[refuse]]")]);
    let good = parse(&list(&format!("{refuse}subs = [\"y\"]"))).expect("sound");
    let refusal = good.decide(&argv(&["p2", "y"])).expect_err("listed");
    assert_eq!((refusal.code, refusal.next()), (Code::ListedRefusal, "n"));
    assert_eq!(OsStr::new("p2 y"), refusal.what());
}
