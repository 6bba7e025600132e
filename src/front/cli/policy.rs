//! `pinfold policy check|explain|test|render|diff`.

use super::args::{ExplainArgs, PolicyCommand, Rendering};
use super::{Surroundings, print, run, say, say_fault, say_faults, say_refusal};
use crate::catalog::{Catalog, Difference, Malformed};
use crate::plan::Plan;
use crate::record::Text;
use crate::run::{Explanation, Rules, Token, Words};
use crate::source::Faults;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::string::FromUtf8Error;

/// Answers a question about the catalog.
pub(super) fn policy(command: PolicyCommand, surroundings: &Surroundings) -> u8 {
    match command {
        PolicyCommand::Check { installed, file } => check(file.as_deref(), installed, surroundings),
        PolicyCommand::Explain(args) => explain(args, surroundings),
        PolicyCommand::Test { file } => test(&file, surroundings),
        PolicyCommand::Render { what, json } => render(what, json, surroundings),
        PolicyCommand::Diff { old, new, json } => diff([&old, &new], json, surroundings),
    }
}

fn check(file: Option<&Path>, installed: bool, surroundings: &Surroundings) -> u8 {
    let rules = surroundings.load().rules;
    let file = file.map(|file| std::path::absolute(file).unwrap_or(file.to_owned()));
    let examined = surroundings.reader.examine(file.as_deref(), surroundings.config.as_deref());
    let (catalog, rules) = match (examined, rules) {
        (Ok(catalog), Ok(rules)) => (catalog, rules),
        (Err(faults), Ok(_)) => return say_faults(&faults),
        // The configuration's catalog is the one that was examined where no file is named.
        (Ok(_), Err(faults)) => return say_faults(&faults),
        (Err(mut faults), Err(more)) => {
            // Where no file is named, both have the faults of the one catalog.
            faults.merge_others(more);
            return say_faults(&faults);
        }
    };
    let examples = catalog.templates().iter().map(|it| it.matches.len() + it.no_matches.len());
    let text = format!(
        "catalog `{}`: {} templates and {} examples, no fault",
        Text::from(catalog.name()).escaped(),
        catalog.templates().len(),
        examples.sum::<usize>()
    );
    let printed = print(&text);
    if !installed || printed != 0 {
        return printed;
    }
    not_installed(&Rules { catalog, ..rules })
}

/// Lists programs that this host does not have, or that are not trustworthy.
fn not_installed(rules: &Rules) -> u8 {
    let missing = rules.unavailable();
    if missing.is_empty() {
        return print("every program of it is here");
    }
    for (templates, refusal) in &missing {
        let shown = format!(
            "{}: {} ({}). Next: {}",
            refusal.what(),
            refusal.reason(),
            templates.join(", "),
            refusal.next()
        );
        let printed = print(&shown);
        if printed != 0 {
            return printed;
        }
    }
    1
}

fn explain(args: ExplainArgs, surroundings: &Surroundings) -> u8 {
    let ExplainArgs { call, json, line, argv } = args;
    let words = line.map_or(Words::Argv(argv), Words::Line);
    let (supervisor, request) = match run::ready(call, words, surroundings) {
        Ok(ready) => ready,
        Err(fault) => return say_fault(&fault),
    };
    let explanation = supervisor.explain(&request);
    let printed = print(&if json { object(&explanation).to_string() } else { text(&explanation) });
    if printed != 0 {
        return printed;
    }
    let Some(refusal) = &explanation.refusal else { return 0 };
    if !json {
        say_refusal(&refusal.to_string(), refusal.code);
    }
    refusal.code.exit()
}

fn object(explanation: &Explanation) -> Value {
    let mut members = match json!(explanation.decision) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let message = explanation.refusal.as_ref().map(ToString::to_string);
    for (name, value) in [
        ("tokens", json!(explanation.matching.tokens)),
        ("selected", json!(explanation.matching.selected)),
        ("executed", json!(explanation.matching.executed)),
        ("profile", explanation.plan.as_ref().map_or(Value::Null, narrowed)),
        ("message", json!(message)),
    ] {
        members.insert(name.to_owned(), value);
    }
    Value::Object(members)
}

/// The profile as the template narrows it.
fn narrowed(plan: &Plan) -> Value {
    let pieces = pieces(plan).map(|(path, writable)| json!({ "path": path, "writable": writable }));
    let limits: Map<String, Value> =
        plan.limits.iter().map(|limit| (limit.name.to_owned(), json!(limit.value))).collect();
    json!({
        "name": plan.profile,
        "access": plan.access,
        "rung": plan.rung,
        "workspace": pieces.collect::<Vec<_>>(),
        "network": if plan.loopback { "loopback" } else { "none" },
        "timeout_ms": plan.timeout_ms,
        "limits": limits,
    })
}

/// The parts of the workspace that the command sees, and whether it can write there.
fn pieces(plan: &Plan) -> impl Iterator<Item = (Text, bool)> {
    plan.view.pieces().map(|piece| {
        // Joining nothing would end the path in a slash.
        let whole = piece.at.as_os_str().is_empty();
        let path = if whole { plan.workspace.clone() } else { plan.workspace.join(&piece.at) };
        (Text::from(path.as_path()), piece.writable)
    })
}

fn text(explanation: &Explanation) -> String {
    let mut lines = Vec::new();
    let verdict = json!(explanation.decision.verdict);
    let matching = &explanation.matching;
    let template = match (&matching.selected, &matching.describe) {
        (Some(id), Some(describe)) => {
            format!("template {id}: {}", Text::from(describe.as_str()).escaped())
        }
        _ => "no template".to_owned(),
    };
    lines.push(format!("{}: {template}", verdict.as_str().unwrap_or_default()));
    lines.extend(matching.tokens.iter().map(token));
    let words = |list: &[Text]| json!(list.iter().map(Text::escaped).collect::<Vec<_>>());
    if let Some(executed) = &matching.executed {
        lines.push(format!("executes  {}", words(executed)));
    }
    if let Some(plan) = &explanation.plan {
        let pieces = pieces(plan).map(|(path, writable)| {
            format!("{} {}", path.escaped(), if writable { "writable" } else { "read-only" })
        });
        let pieces: Vec<String> = pieces.collect();
        let pieces = if pieces.is_empty() { "nothing".to_owned() } else { pieces.join(", ") };
        let access = plan.access.as_str();
        lines.push(format!("profile   {}, narrowed to {access}, rung {}", plan.profile, plan.rung));
        lines.push(format!("workspace {pieces}"));
        let network = if plan.loopback { "loopback of its own" } else { "none" };
        lines.push(format!("network   {network}"));
        lines.push(format!("deadline  {} ms", plan.timeout_ms));
    }
    let next = match (&explanation.decision.next, &explanation.decision.verdict) {
        (Some(next), _) => next.as_str(),
        (None, crate::record::Verdict::Ask) => {
            "a person decides; where none is attached, it is refused with `nobody-to-ask`"
        }
        (None, _) => "it runs at once, after its record is on stable storage",
    };
    lines.push(format!("next      {next}"));
    lines.join("\n")
}

fn token(token: &Token) -> String {
    let role = json!(token.role);
    let role = role.as_str().unwrap_or_default();
    let option = token.option.iter().filter(|option| Text::from(option.as_str()) != token.token);
    let option: String = option.map(|option| format!(" of {option}")).collect();
    let kind = token.kind.map_or(String::new(), |kind| format!(", kind {kind}"));
    format!("  {:<20} {role}{option}{kind}", token.token.escaped())
}

fn test(file: &Path, surroundings: &Surroundings) -> u8 {
    let catalog = match surroundings.load().rules {
        Ok(rules) => rules.catalog,
        Err(faults) => return say_faults(&faults),
    };
    let name = Text::from(file).escaped();
    let text = match std::fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes),
        Err(error) => return say_fault(&format!("{name} cannot be read: {error}")),
    };
    let tested = text.map_err(|error| not_text(&error)).and_then(|text| catalog.test(&text));
    let tested = match tested {
        Ok(tested) => tested,
        Err(Malformed { line, column, fault }) => {
            let next = "each line is an object with `argv` or `line`, and `expect`";
            let fault = format!("{fault}. Nothing was compared. Next: {next}.");
            return say_fault(&format!("{name}:{line}:{column}: {fault}"));
        }
    };
    for other in &tested.other_catalogs {
        let other = Text::from(other.as_str()).escaped();
        say(&format!("rows are meant for the catalog `{other}`; this one is `{}`", catalog.name()));
    }
    for difference in &tested.differing {
        let printed = print(&differs(&name, difference));
        if printed != 0 {
            return printed;
        }
    }
    let printed = print(&format!("{} rows, {} differ", tested.rows, tested.differing.len()));
    if printed != 0 { printed } else { u8::from(!tested.differing.is_empty()) }
}

fn not_text(error: &FromUtf8Error) -> Malformed {
    let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    Malformed { line, column, fault: "it is not UTF-8".to_owned() }
}

fn differs(file: &str, difference: &Difference) -> String {
    let member = |(name, wanted, got): &(&str, Value, Value)| {
        let shown = |value: &Value| Text::from(value.to_string().as_str()).shown();
        format!("{name} should be {}, is {}", shown(wanted), shown(got))
    };
    let members: Vec<String> = difference.members.iter().map(member).collect();
    let name = Text::from(difference.name.as_str()).shown();
    format!("{file}:{}: {name}: {}", difference.line, members.join("; "))
}

fn render(what: Rendering, as_json: bool, surroundings: &Surroundings) -> u8 {
    let rules = match surroundings.load().rules {
        Ok(rules) => rules,
        Err(faults) => return say_faults(&faults),
    };
    let catalog = &rules.catalog;
    let words = |name: &str, text: String| match as_json {
        true => print(&json!({ name: text }).to_string()),
        false => print(text.trim_end()),
    };
    let value =
        |value: Value| print(&if as_json { value.to_string() } else { format!("{value:#}") });
    match what {
        Rendering::Prompt => words("prompt", catalog.prompt()),
        Rendering::Docs => words("docs", catalog.page()),
        Rendering::Tools => value(catalog.tools()),
        Rendering::Conditions => value(catalog.conditions(rules.auto_approve)),
        Rendering::Schema => value(catalog.schema()),
    }
}

fn diff(files: [&Path; 2], as_json: bool, surroundings: &Surroundings) -> u8 {
    let read = |file: &Path| match file.to_str() {
        Some("shipped") => Catalog::shipped(),
        _ => {
            let file = std::path::absolute(file).unwrap_or(file.to_owned());
            surroundings.reader.catalog(&file)
        }
    };
    let (old, new) = match files.map(read) {
        [Ok(old), Ok(new)] => (old, new),
        [old, new] => {
            let mut faults = Faults::default();
            faults.merge(old.err().unwrap_or_default());
            faults.merge(new.err().unwrap_or_default());
            return say_faults(&faults);
        }
    };
    let changes = old.changes_to(&new);
    if as_json {
        return print(&json!(changes).to_string());
    }
    if changes.is_empty() {
        return print("no call is decided otherwise");
    }
    let line = |change: &crate::catalog::Change| {
        let word = if change.weaker { "weaker  " } else { "stronger" };
        let name = change.template.as_deref().unwrap_or("[policy]");
        format!("{word}  {name}: {}", change.what)
    };
    let lines: Vec<String> = changes.iter().map(line).collect();
    print(&lines.join("\n"))
}
