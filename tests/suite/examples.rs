//! Every `match` example of the catalogs, run confined against the real program where that is
//! installed: the program understands the call as the template promises, and the call keeps within
//! the access class of its template.

use crate::programs::{PATH, outside, toolchain};
use crate::support::twin::tree;
use crate::support::{Answer, Env, has_programs, skip};
use pinfold::catalog::{Catalog, Guard, Template};
use pinfold::record::{Access, Verdict};
use pinfold::source::{At, Source};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A catalog of the tree: its name and its text.
type Listed = (&'static str, &'static str);

const SHIPPED: Listed = ("catalog", include_str!("../../sandbox-profiles/catalog.toml"));
const KUBERNETES: Listed =
    ("kubernetes", include_str!("../../sandbox-profiles/examples/kubernetes.toml"));
const NODE: Listed = ("node", include_str!("../../sandbox-profiles/examples/node.toml"));
const PROJECT_TOOLS: Listed =
    ("project-tools", include_str!("../../sandbox-profiles/examples/project-tools.toml"));
const PYTHON: Listed = ("python", include_str!("../../sandbox-profiles/examples/python.toml"));
const RUST: Listed = ("rust", include_str!("../../sandbox-profiles/examples/rust.toml"));
const ALL: [Listed; 6] = [SHIPPED, KUBERNETES, NODE, PROJECT_TOOLS, PYTHON, RUST];

/// Programs of the catalogs that `scripts/check` sees to.
const REQUIRED: [&str; 16] = [
    "bash", "cat", "echo", "git", "head", "ls", "make", "node", "npm", "npx", "pip", "pip3", "pwd",
    "python3", "tail", "wc",
];

/// Templates that a catalog cannot set to `auto`, and what the check of the catalog says then.
const NEVER_AUTO: [(&str, &str); 11] = [
    ("pip-install", "`network` is never `auto`"),
    ("pip-download", "`network` is never `auto`"),
    ("python", "`opaque` is never `auto`"),
    ("kubectl-get", "`network` is never `auto`"),
    ("kubectl-describe", "`network` is never `auto`"),
    ("kubectl-logs", "`network` is never `auto`"),
    ("kubectl-top-pods", "`network` is never `auto`"),
    ("kubectl-top-nodes", "`network` is never `auto`"),
    ("kubectl-version", "`network` is never `auto`"),
    ("kubectl-api-resources", "`network` is never `auto`"),
    ("python", "`opaque` is never `auto`"),
];

/// Examples that a program may answer with a failure of its own here, and what it says then: what
/// they name is not there, or their cluster is out of reach.
const SAYS_NO: [(&str, &str); 9] = [
    ("wc -lw a b", "Is a directory"),
    ("which cargo", ""),
    ("which -a python3 node", ""),
    ("pip show requests", "not found"),
    ("pip3 show -f pytest mypy", "not found"),
    ("git --no-pager show -s 0a1b2c3", "unknown revision"),
    ("kubectl ", "Unable to connect to the server"),
    ("kubectl ", "was refused"),
    // Without a compiler in its home it compiles nothing.
    ("forge ", "solc"),
];

/// Examples that may write in the workspace and have nothing to write there.
const WRITES_NOTHING: [&str; 1] = ["node --check src/a.cjs"];

/// How programs say that they do not know an option, or want one to have a value.
const USAGE: [&str; 15] = [
    "unrecognized option",
    "unrecognized argument",
    "invalid option",
    "unknown option",
    "unknown flag",
    "unknown shorthand",
    "unexpected argument",
    "illegal option",
    "bad option",
    "no such option",
    "not defined:",
    "requires an argument",
    "requires a value",
    "needs an argument",
    "usage:",
];

fn parse((name, text): Listed) -> Catalog {
    Catalog::parse(Source::new(name, text)).expect("a catalog of the tree")
}

fn program(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn is_installed(program: &str) -> bool {
    PATH.iter().any(|folder| Path::new(folder).join(program).exists())
}

/// The catalog with the keys of one template after another changed by `change`.
fn changed(listed: Listed, change: impl Fn(&Template, &str) -> String) -> String {
    let catalog = parse(listed);
    let mut parts = listed.1.split("\n[[tool]]\n");
    let mut text = parts.next().expect("a head").to_owned();
    let parts: Vec<&str> = parts.collect();
    assert_eq!(parts.len(), catalog.templates().len(), "{}", listed.0);
    for (part, template) in parts.iter().zip(catalog.templates()) {
        text.push_str("\n[[tool]]\n");
        text.push_str(&change(template, part));
    }
    text
}

fn auto(part: &str) -> String {
    part.replacen("decision = \"ask\"", "decision = \"auto\"", 1)
}

/// The keys of a template whose examples run without a person's word, where that is allowed. A
/// client of a cluster gets no network and no workspace instead: how it reads the call is seen
/// all the same.
fn unasked(template: &Template, part: &str) -> String {
    match (template.opaque, template.access, template.program.as_str()) {
        (true, ..) | (_, Access::Network, "pip") => part.to_owned(),
        (_, Access::Network, _) => {
            let part = part.replacen("access = \"network\"", "access = \"none\"", 1);
            auto(&part).replacen("profile = \"fetch\"", "profile = \"build\"", 1)
        }
        _ => auto(part),
    }
}

/// A host with a catalog of its own.
fn host(catalog: &str, more: &str) -> Option<Env> {
    let env = Env::new()?;
    fs::write(env.path("config/listed.toml"), catalog).expect("the catalog");
    let config = format!("schema = 1\ncatalog = \"listed.toml\"\n{more}");
    fs::write(env.path("config/pinfold.toml"), config).expect("the configuration");
    Some(env)
}

/// The fingerprints of the workspace and of all that lies beside it.
type Fingerprints = (Vec<String>, Vec<String>);

/// A host whose workspace is a copy of the project.
struct Copies {
    env: Env,
    /// The fingerprints of a workspace in which nothing was changed since it was copied.
    fresh: Option<Fingerprints>,
}

impl Copies {
    fn new(env: Env) -> Self {
        env.project();
        env.outside_file("beside.txt", "as it was\n");
        fs::rename(env.workspace(), env.path("project")).expect("the project");
        // No catalog of these has it, and it is large.
        fs::remove_file(env.path("bin/probe")).expect("the probe");
        Self { env, fresh: None }
    }

    /// Makes the workspace a copy of the project that nobody has worked in.
    fn fresh(&mut self, line: &str) -> Fingerprints {
        let makes_repository = line.starts_with("git init");
        if let Some(fresh) = self.fresh.take().filter(|_| !makes_repository) {
            return fresh;
        }
        let (workspace, project) = (self.env.workspace(), self.env.path("project"));
        if workspace.exists() {
            fs::remove_dir_all(&workspace).expect("the old copy");
        }
        let copied = Command::new("cp").arg("-a").args([&project, &workspace]).status();
        assert!(copied.expect("cp starts").success());
        if makes_repository {
            fs::remove_dir_all(workspace.join(".git")).expect("the repository");
        }
        self.fingerprints()
    }

    /// Covers everything but Pinfold's own state and what the workspace is copied from.
    fn fingerprints(&self) -> Fingerprints {
        let env = &self.env;
        let entries = fs::read_dir(env.path("")).expect("a folder").map(|it| it.expect("an entry"));
        let mut beside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        beside.retain(|path| !["ws", "state", "project"].map(|it| env.path(it)).contains(path));
        (tree(&env.workspace()), beside.iter().flat_map(|path| tree(path)).collect())
    }

    /// Runs an example and returns what is wrong with how it went.
    fn faults(&mut self, template: &Template, line: &str) -> Vec<String> {
        let before = self.fresh(line);
        let answer = self.env.run(&["--json", "--line", line]);
        let after = self.fingerprints();
        let (is_unchanged, is_kept) = (before.0 == after.0, before.1 == after.1);
        let mut faults = Vec::new();
        let mut hold = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("{line} ({}): {what}: {answer:?}", template.id));
            }
        };
        hold(is_kept, "it wrote outside of the workspace");
        if template.decision == Verdict::Auto {
            judge(template, line, &answer, is_unchanged, &mut hold);
        } else {
            let code = if template.opaque { "nobody-to-ask" } else { "no-index" };
            hold(is_unchanged && answer.refusal() == code, "it was to be refused");
        }
        self.fresh = Some(after).filter(|_| is_unchanged && is_kept);
        faults
    }
}

/// Judges how an example ran that needs no person's word.
fn judge(
    template: &Template,
    line: &str,
    answer: &Answer,
    is_unchanged: bool,
    hold: &mut dyn FnMut(bool, &str),
) {
    let decision = &answer.reply["decision"];
    hold(decision["verdict"] == "auto" && decision["template"] == template.id, "the decision");
    let said = format!("{}{}", answer.stdout(), answer.reply["stderr"].as_str().unwrap_or(""));
    hold(!is_usage(&said), "the program does not understand it");
    let mut fails = SAYS_NO.iter().filter(|(start, _)| line.starts_with(start));
    let may_fail = fails.any(|(_, words)| said.contains(words));
    let is_ok = answer.outcome() == "ok";
    hold(is_ok || (may_fail && answer.outcome() == "nonzero"), "it did not succeed");
    if template.access == Access::WorkspaceWrite {
        let shows = !is_unchanged || !is_ok || WRITES_NOTHING.contains(&line);
        hold(shows, "it changed nothing, so this run shows nothing");
    } else {
        hold(is_unchanged, "it changed the workspace");
    }
    if let Some(call) = line.strip_prefix("npx ") {
        hold(answer.stdout().trim_end() == call, "its program was called otherwise");
    }
}

fn is_usage(output: &str) -> bool {
    let output = output.to_lowercase();
    USAGE.iter().any(|words| output.contains(words))
}

/// Runs every example of a catalog whose program is installed.
fn examples_hold(listed: Listed) {
    if !has_programs(&["git", "cp"]) {
        return;
    }
    let text = changed(listed, unasked);
    let catalog = Catalog::parse(Source::new(listed.0, text.as_str())).expect("it is sound");
    let templates = catalog.templates();
    let has_cargo = templates.iter().any(|template| template.program == "cargo");
    let tools = has_cargo.then(toolchain).flatten();
    let more = tools.as_ref().map(|tools| tools.lines()).unwrap_or_default();
    let Some(mut copies) = host(&text, &more).map(Copies::new) else { return };
    let mut found = Vec::new();
    for template in templates {
        for At { value: line, .. } in &template.matches {
            let program = program(line);
            if is_installed(program) || (program == "cargo" && tools.is_some()) {
                found.extend(copies.faults(template, line));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn the_examples_of_the_shipped_catalog_run_and_keep_within_their_class() {
    examples_hold(SHIPPED);
}

#[test]
fn the_examples_for_kubernetes_run_and_keep_within_their_class() {
    examples_hold(KUBERNETES);
}

#[test]
fn the_examples_for_node_run_and_keep_within_their_class() {
    examples_hold(NODE);
}

#[test]
fn the_examples_for_a_projects_own_tools_run_and_keep_within_their_class() {
    examples_hold(PROJECT_TOOLS);
}

#[test]
fn the_examples_for_python_run_and_keep_within_their_class() {
    examples_hold(PYTHON);
}

#[test]
fn the_examples_for_rust_run_and_keep_within_their_class() {
    examples_hold(RUST);
}

#[test]
fn programs_of_the_catalogs_that_are_not_installed_are_listed() {
    let lines = ALL.into_iter().flat_map(|listed| {
        let templates = parse(listed).templates().to_vec();
        templates.into_iter().flat_map(|template| template.matches)
    });
    let programs: BTreeSet<String> = lines.map(|line| program(&line.value).to_owned()).collect();
    assert!(REQUIRED.iter().all(|name| programs.contains(*name)), "{programs:?}");
    has_programs(&REQUIRED);
    // A toolchain brings cargo, and says itself where there is none.
    let absent = programs.iter().filter(|name| !is_installed(name) && *name != "cargo");
    let absent: Vec<&str> = absent.map(String::as_str).collect();
    if !absent.is_empty() {
        skip(&format!("examples of programs that are not in {PATH:?}: {}", absent.join(", ")));
    }
}

/// Nothing in Pinfold starts git but a template (`tests/layout.rs` finds what starts processes
/// otherwise), and each of those gets git's fixed environment from the one place that makes it.
#[test]
fn e30_every_template_of_git_has_the_guard() {
    let mut count = 0;
    for listed in ALL {
        for template in parse(listed).templates().iter().filter(|it| it.program == "git") {
            assert_eq!(template.guard, Some(Guard::Git), "{}: {}", listed.0, template.id);
            count += 1;
        }
    }
    assert!(count >= 6, "{count} templates of git");
}

/// The control of all of the above: outside, the same code changes what it must not change, and
/// the fingerprints show it.
#[test]
fn outside_the_same_programs_change_what_the_fingerprints_cover() {
    if !has_programs(&["git", "make", "node", "npm", "npx", "bash"]) {
        return;
    }
    let Some(mut copies) = host(SHIPPED.1, "").map(Copies::new) else { return };
    for (line, writes_beside) in [
        ("git status", false),
        ("npx tsc --noEmit", true),
        ("npm run build", true),
        ("node build.js", true),
        ("make", true),
        ("bash scripts/p1_gates.sh", true),
    ] {
        let before = copies.fresh(line);
        let words: Vec<&str> = line.split(' ').collect();
        let control = outside(&copies.env, &words);
        assert!(control.status.success(), "{line}: {control:?}");
        let after = copies.fingerprints();
        assert_ne!(before.0, after.0, "{line}: {control:?}");
        // The home gets what npm remembers, so only the file counts.
        let file = |found: &Fingerprints| {
            found.1.iter().find(|line| line.contains("beside.txt")).expect("the file").clone()
        };
        assert_eq!(file(&before) != file(&after), writes_beside, "{line}: {control:?}");
    }
}

fn both(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// The control of "the program understands it": what it does not understand is recognised.
#[test]
fn an_option_that_a_program_does_not_have_is_recognised_by_what_it_says() {
    // These hand on whatever they are given, or print it.
    const TAKE_ANYTHING: [&str; 6] = ["echo", "npm", "npx", "uv", "just", "cargo xtask"];
    let Some(env) = host(SHIPPED.1, "") else { return };
    env.repository();
    let mut seen = BTreeSet::new();
    for template in ALL.into_iter().flat_map(|listed| parse(listed).templates().to_vec()) {
        let call = format!("{} {}", template.program, template.subs[0].join(" "));
        let takes_anything = TAKE_ANYTHING.iter().any(|start| call.starts_with(start));
        if takes_anything || !is_installed(&template.program) || !seen.insert(call.clone()) {
            continue;
        }
        let words: Vec<&str> = call.split_whitespace().chain(["--pinfold-none"]).collect();
        let output = outside(&env, &words);
        assert!(!output.status.success() && is_usage(&both(&output)), "{words:?}: {output:?}");
    }
    assert!(seen.len() > 15, "{seen:?}");
}

#[test]
fn what_reaches_a_network_or_takes_any_argv_cannot_be_auto() {
    let mut asking = Vec::new();
    for listed in ALL {
        for template in parse(listed).templates() {
            let is_bound = template.opaque || template.access == Access::Network;
            assert!(!is_bound || template.decision == Verdict::Ask, "{}", template.id);
            if !is_bound {
                continue;
            }
            let text = changed(listed, |other, part| match other.id == template.id {
                true => auto(part),
                false => part.to_owned(),
            });
            let faults = Catalog::parse(Source::new(listed.0, text)).expect_err("it has a fault");
            asking.push((template.id.clone(), faults.titles().join("; ")));
        }
    }
    let asking: Vec<_> = asking.iter().map(|(id, why)| (id.as_str(), why.as_str())).collect();
    assert_eq!(asking, NEVER_AUTO);
}

#[test]
fn what_pip_would_fetch_is_refused_for_want_of_an_index_and_then_of_a_network() {
    for (config, code, exit) in [
        ("", "no-index", 126),
        ("[index]\npip = \"https://index.invalid/simple\"\n", "profile-unavailable", 126),
    ] {
        let Some(env) = host(SHIPPED.1, config) else { return };
        for template in parse(SHIPPED).templates() {
            if !["pip-install", "pip-download"].contains(&template.id.as_str()) {
                continue;
            }
            for At { value: line, .. } in &template.matches {
                let answer = env.run(&["--json", "--line", line]);
                assert_eq!((answer.code, answer.refusal()), (exit, code), "{line}: {answer:?}");
            }
        }
        assert_eq!(env.records_of("intent").len(), 0);
    }
}

#[test]
fn every_example_catalog_is_sound() {
    let Some(env) = host(SHIPPED.1, "") else { return };
    for (name, text) in ALL {
        let file = env.path(&format!("config/{name}.toml"));
        fs::write(&file, text).expect("a catalog");
        let checked = env.pinfold(&["policy".as_ref(), "check".as_ref(), file.as_os_str()]);
        assert_eq!(checked.status.code(), Some(0), "{name}: {checked:?}");
        assert!(both(&checked).ends_with(", no fault\n"), "{name}: {checked:?}");
        // The control: the same text with one fault in it.
        fs::write(&file, text.replacen("access = \"", "access = \"x", 1)).expect("a catalog");
        let checked = env.pinfold(&["policy".as_ref(), "check".as_ref(), file.as_os_str()]);
        assert_eq!(checked.status.code(), Some(1), "{name}: {checked:?}");
    }
}

#[test]
fn kubectl_is_refused_whatever_opens_changes_or_reveals() {
    let Some(env) = host(&changed(KUBERNETES, unasked), "") else { return };
    let run = |line: &str| -> Answer { env.run(&["--json", "--line", line]) };
    for (line, code) in [
        ("kubectl exec shop -n web", "listed-refusal"),
        ("kubectl attach shop", "listed-refusal"),
        ("kubectl cp shop:/etc/passwd x", "listed-refusal"),
        ("kubectl port-forward shop 80", "listed-refusal"),
        ("kubectl proxy", "listed-refusal"),
        ("kubectl run shop", "listed-refusal"),
        ("kubectl apply -f a.yaml", "listed-refusal"),
        ("kubectl delete pod shop", "listed-refusal"),
        ("kubectl create token admin", "listed-refusal"),
        ("kubectl config view", "listed-refusal"),
        ("kubectl get secrets", "listed-refusal"),
        ("kubectl get secret shop -o yaml", "listed-refusal"),
        ("kubectl get configmaps", "listed-refusal"),
        ("kubectl get all", "listed-refusal"),
        ("kubectl get pods,secrets", "listed-refusal"),
        ("kubectl describe secret shop", "listed-refusal"),
        ("kubectl get --raw /api/v1/secrets", "listed-refusal"),
        ("kubectl get pods --raw=/api/v1/secrets", "flag-forbidden"),
        ("kubectl get pods secret/shop", "operand-kind"),
        ("kubectl get pods shop,secrets", "operand-kind"),
        ("kubectl get pods -f a.yaml", "flag-forbidden"),
        ("kubectl get pods -fa.yaml", "flag-cluster"),
        ("kubectl describe pod -f a.yaml", "flag-forbidden"),
        ("kubectl logs -f shop", "flag-forbidden"),
        ("kubectl logs secret/shop", "operand-kind"),
        ("kubectl get pods --kubeconfig=a", "flag-forbidden"),
        ("kubectl get pods --as=admin", "flag-forbidden"),
        ("kubectl get pods --token=x", "flag-forbidden"),
        ("kubectl --server=x get pods", "option-before-sub"),
        ("kubectl get pods -o jsonpath-file=a", "value-kind"),
        ("kubectl-get pods", "unknown-program"),
    ] {
        let answer = run(line);
        assert_eq!((answer.outcome(), answer.refusal()), ("refused", code), "{line}: {answer:?}");
    }
    assert_eq!(env.records_of("intent").len(), 0);
    // The control: the kinds that are listed fit, and as shipped they ask for a network.
    let answer = run("kubectl get pods shop -o yaml");
    assert_eq!(answer.reply["decision"]["template"], "kubectl-get", "{answer:?}");
    fs::write(env.path("config/listed.toml"), KUBERNETES.1).expect("the catalog");
    let answer = run("kubectl get pods shop -o yaml");
    assert_eq!(answer.refusal(), "profile-unavailable", "{answer:?}");
}
