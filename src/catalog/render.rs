//! The catalog as others read it: an agent's prompt, the documentation page, the description of
//! the tool that runs commands, the settings view and a schema of the commands.
//!
//! Every text comes from the table, so none can promise what the table does not have.
#![forbid(unsafe_code)]

use super::Catalog;
use super::kinds::{Kind, Spec};
use super::shape::ARGS_MAX;
use super::template::{Form, Guard, Opt, Template};
use crate::record::Verdict;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What a call must be to run without a person's word, each with its name.
const CONDITIONS: [(&str, &str); 5] = [
    ("untainted", "nothing untrusted has entered the session"),
    ("enforced", "the host enforces all that the template's profile asks for"),
    ("in-project", "the working folder is inside a project root, and its repository is clear"),
    ("confined-writes", "the command can write in that project and its scratch folder only"),
    ("recorded", "its record is on stable storage before it starts"),
];

/// What an agent must know beside the list of commands.
const RULES: &str = "\
* Call one program at a time, by its bare name, with its arguments as a list. A line of text is
  accepted too; it is split into words and never read by a shell, so pipes, redirections,
  variables, globs and `&&` are refused.
* Only what is listed here passes. Options stand exactly as listed: no abbreviations, no other
  spelling, none twice, and never `--`. Paths are relative, without `..`, and never below `.git`.
* `auto` runs at once. `ask` waits for a person, who sees exactly what will run. Nothing that you
  can write, pass or set answers for that person.
* After a refusal nothing has run. Do what its next action says. Do not try other spellings.
* After a person declines, ask what they want instead. Do not call again, in this form or another.
* Where nobody can be asked, an `ask` is refused with `nobody-to-ask`. Stop asking for it, do
  something else, or say what you need and why.
* Commands have no network, see little of the host, and end at a limit of time, memory and output.";

impl Catalog {
    /// Renders what an agent is told: the rules, and each command with what it may do.
    pub fn prompt(&self) -> String {
        let mut out = "Commands run through Pinfold, which decides each one against a list, \
             records it, and runs\nit confined.\n\nRules\n\n"
            .to_owned();
        put(&mut out, format_args!("{RULES}\n\nCommands\n\n"));
        for template in self.templates.iter().filter(|it| it.decision != Verdict::Refuse) {
            for usage in usages(template) {
                put(&mut out, format_args!("{usage}\n"));
            }
            let budget = template.budget.map(|calls| format!("; at most {calls} calls a step"));
            put(
                &mut out,
                format_args!(
                    "    {}: {} ({}{})\n",
                    verdict(template.decision),
                    template.describe,
                    promise(template),
                    budget.unwrap_or_default()
                ),
            );
        }
        put(&mut out, format_args!("\nInstead of others\n\n"));
        for entry in &self.instead {
            put(&mut out, format_args!("{}: {}\n", entry.programs.join(", "), entry.replacement));
        }
        out
    }

    /// Renders the documentation page of the catalog: one section for each template.
    pub fn page(&self) -> String {
        let mut out = format!(
            "# Catalog `{}`\n\nEvery command that may run, rendered from the catalog by `pinfold \
             policy render docs`. How a call\nis decided, and what the fields of the file mean, \
             is in [POLICY.md](POLICY.md).\n\n{}\n## Templates\n",
            self.name,
            self.head()
        );
        for template in self.templates() {
            put(&mut out, format_args!("\n{}", section(template)));
        }
        out.push_str("\n## Refused subcommands\n");
        for entry in &self.refusals {
            let grant = match (&entry.profile, entry.grantable) {
                (Some(profile), true) => format!("; grantable, profile `{profile}`"),
                _ => String::new(),
            };
            put(
                &mut out,
                format_args!(
                    "\n* `{} {}` ({}{grant}): {}. Next: {}.\n",
                    entry.program,
                    entry.subs.join("|"),
                    entry.class,
                    entry.reason,
                    entry.next
                ),
            );
        }
        out.push_str("\n## Programs with another way\n");
        for entry in &self.instead {
            let (names, reason) = (entry.programs.join("`, `"), &entry.reason);
            put(&mut out, format_args!("\n* `{names}`: {reason}. Use: {}.\n", entry.replacement));
        }
        out
    }

    fn head(&self) -> String {
        let policy = &self.policy;
        let path: Vec<_> = self.path.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "* A listed program with other arguments: {}. A program without a template: {}.\n\
             * Programs are looked up in `{}`.\n\
             * At most {} arguments of {} bytes each; a line of at most {} bytes.\n\
             * After {} refusals of programs without a template in one step the session stops.\n",
            verdict(policy.unmatched),
            verdict(policy.unknown_program),
            path.join("`, `"),
            policy.limits.args,
            policy.limits.arg_bytes,
            policy.limits.line_bytes,
            policy.refusals_per_step
        )
    }

    /// Renders the tools that the catalog decides for, as `[{name, description, inputSchema}]`.
    pub fn tools(&self) -> Value {
        let mut counts = [0; 2];
        let mut programs = BTreeSet::new();
        for template in self.templates() {
            match template.decision {
                Verdict::Auto => counts[0] += 1,
                Verdict::Ask => counts[1] += 1,
                Verdict::Refuse => continue,
            }
            programs.insert(template.program.as_str());
        }
        let programs: Vec<&str> = programs.into_iter().collect();
        let [auto, ask] = counts;
        let description = format!(
            "Runs one command, confined, and returns its exit code and output. Programs: {}. \
             {auto} forms of commands run at once, {ask} ask a person first; everything else is \
             refused, and then nothing has run.\n{RULES}",
            programs.join(", ")
        );
        let limits = &self.policy.limits;
        json!([{
            "name": "run_command",
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "argv": {
                        "description": "The program's bare name and its arguments.",
                        "type": "array",
                        "items": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": limits.arg_bytes,
                        },
                        "minItems": 1,
                        "maxItems": limits.args,
                    },
                    "line": {
                        "description": "The same as one line; no shell reads it.",
                        "type": "string",
                        "minLength": 1,
                        "maxLength": limits.line_bytes,
                    },
                    "cwd": {
                        "description": "The working folder, relative to the workspace.",
                        "type": "string",
                    },
                    "timeout_s": {
                        "description": "A shorter time limit than the command's own, in seconds.",
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 86400,
                    },
                },
                "oneOf": [{ "required": ["argv"] }, { "required": ["line"] }],
                "additionalProperties": false,
            },
        }])
    }

    /// Renders the settings view: whether calls may run without a person's word at all, what each
    /// of them needs for that, and what the catalog says of each command.
    pub fn conditions(&self, enabled: bool) -> Value {
        let conditions: Vec<Value> =
            CONDITIONS.iter().map(|(id, text)| json!({ "id": id, "text": text })).collect();
        let rules: Vec<Value> = self.templates.iter().map(|it| rule(it, enabled)).collect();
        json!({ "enabled": enabled, "conditions": conditions, "rules": rules })
    }

    /// Renders a JSON Schema of the argument vectors that pass, one definition for each template.
    /// It accepts all that the catalog accepts, and more: counts of options and what excludes each
    /// other have no place in it, so it helps who writes a call and decides nothing.
    pub fn schema(&self) -> Value {
        let passing = self.templates.iter().filter(|it| it.decision != Verdict::Refuse);
        let (mut forms, mut definitions) = (Vec::new(), serde_json::Map::new());
        for template in passing {
            forms.push(json!({ "$ref": format!("#/$defs/{}", template.id) }));
            definitions.insert(template.id.clone(), vector(template));
        }
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": format!("Commands of the catalog {}", self.name),
            "description": "An argument vector: the program's bare name and its arguments.",
            "anyOf": forms,
            "$defs": definitions,
        })
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    out.write_fmt(text).ok();
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Auto => "auto",
        Verdict::Ask => "ask",
        Verdict::Refuse => "refuse",
    }
}

/// What a call may do, in words.
fn promise(template: &Template) -> &'static str {
    use crate::record::Access;
    match template.access {
        Access::None => "sees nothing of the workspace",
        Access::ReadOnly => "reads the workspace",
        Access::WorkspaceWrite => "writes in the workspace",
        Access::Network => "reaches a network",
    }
}

/// The forms of a template's calls, one for each subcommand.
fn usages(template: &Template) -> Vec<String> {
    let usage = |sub: &Vec<String>| {
        let mut words = vec![template.program.clone()];
        words.extend(template.globals.iter().map(|flag| format!("[{flag}]")));
        words.extend(sub.iter().cloned());
        if template.opaque {
            words.push("ARGUMENT…".to_owned());
            return words.join(" ");
        }
        let required =
            |opt: &Opt| template.required_any.iter().any(|group| group.names.contains(&opt.name));
        let groups = template.required_any.iter().map(|group| {
            let options = template.options.iter().filter(|opt| group.names.contains(&opt.name));
            let forms: Vec<String> = options.map(written).collect();
            if forms.len() == 1 { forms.concat() } else { format!("({})", forms.join("|")) }
        });
        words.extend(groups);
        let free = template.options.iter().filter(|opt| !required(opt));
        words.extend(free.map(|opt| format!("[{}]", written(opt))));
        let takes = template.operands.only_sub.as_ref();
        if takes.is_none_or(|only| *sub == [only.as_str()]) {
            words.extend(operand(template));
        }
        words.join(" ")
    };
    template.subs.iter().map(usage).collect()
}

/// An option as it is written, with its value.
fn written(opt: &Opt) -> String {
    let name = &opt.name;
    let more = if opt.repeat { "…" } else { "" };
    let Some(value) = &opt.value else { return format!("{name}{more}") };
    let what = placeholder(&value.spec);
    let form = |form: &Form| match form {
        Form::Sep => format!("{name} {what}"),
        Form::Eq => format!("{name}={what}"),
        Form::Att => format!("{name}{what}"),
    };
    format!("{}{more}", value.forms.iter().map(form).collect::<Vec<_>>().join("|"))
}

fn placeholder(spec: &Spec) -> String {
    match spec.kind {
        Kind::Choice => spec.of.join("|"),
        Kind::Uint | Kind::UintPlus => "N".to_owned(),
        kind => kind.name().to_uppercase(),
    }
}

fn operand(template: &Template) -> Option<String> {
    let operands = &template.operands;
    if operands.spec.kind == Kind::None || operands.max == 0 {
        return None;
    }
    let under = operands.spec.under.as_ref().map_or(String::new(), |under| format!("{under}/"));
    let what = match operands.spec.ext.as_slice() {
        [] => format!("{under}{}", placeholder(&operands.spec)),
        ext => format!("{under}NAME.{}", ext.join("|")),
    };
    Some(match (operands.min, operands.max) {
        (0, 1) => format!("[{what}]"),
        (0, max) => format!("[{what}…{max}]"),
        (1, 1) => what,
        (min, max) => format!("{what}…{min}–{max}"),
    })
}

/// One template's section of the page. Its heading is its id, so that a difference has a name.
fn section(template: &Template) -> String {
    let mut out = format!("### {}\n\n{}\n\n```\n", template.id, template.describe);
    for usage in usages(template) {
        put(&mut out, format_args!("{usage}\n"));
    }
    out.push_str("```\n\n");
    let limit = |value: Option<u32>, unit: &str| {
        value.map_or("none of its own".to_owned(), |value| format!("{value}{unit}"))
    };
    put(
        &mut out,
        format_args!(
            "* {}; access `{}`, profile `{}`\n* calls a step: {}; time: {}; output of each stream: \
             {}\n",
            verdict(template.decision),
            template.access.as_str(),
            template.profile,
            limit(template.budget, ""),
            limit(template.timeout_s, " s"),
            limit(template.output_kib, " KiB"),
        ),
    );
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            put(&mut out, format_args!("* {name}: {text}\n"));
        }
    };
    line("also called", code(&template.aliases));
    let mut how = Vec::new();
    how.extend(template.cluster.then_some("flags of one letter may be written as one"));
    how.extend(template.permute.then_some("options may follow operands"));
    how.extend((template.guard == Some(Guard::Git)).then_some("runs with git's fixed settings"));
    how.extend(template.scan.map(|_| "pip behind it is decided as pip"));
    line("how", how.join("; "));
    line("added behind the subcommand", code(&template.inject_after_sub));
    let env: Vec<String> =
        template.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    line("variables", code(&env));
    line("never an operand", code(&template.operands.spec.not));
    let forbid: Vec<String> =
        template.forbid.iter().map(|(flag, why)| format!("`{flag}` ({why})")).collect();
    line("forbidden", forbid.join(", "));
    line("needs in the project", code(template.needs.as_slice()));
    line("program pinned", template.sha256.map_or(String::new(), |it| format!("sha256:{it}")));
    line("passes", code(template.matches.iter().map(|line| &line.value)));
    line("does not", code(template.no_matches.iter().map(|line| &line.value)));
    out
}

fn code<'t>(words: impl IntoIterator<Item = &'t String>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn rule(template: &Template, enabled: bool) -> Value {
    let counts = if enabled { template.decision } else { template.decision.max(Verdict::Ask) };
    json!({
        "template": template.id,
        "calls": usages(template),
        "describe": template.describe,
        "decision": counts,
        "access": template.access,
        "profile": template.profile,
        "budget": template.budget,
        "timeout_s": template.timeout_s,
        "output_kib": template.output_kib,
        "asks_because": asks_because(template, enabled),
    })
}

fn asks_because(template: &Template, enabled: bool) -> Option<&'static str> {
    match template.decision {
        Verdict::Auto if !enabled => Some("auto-approval is switched off"),
        Verdict::Ask if template.opaque => Some("it takes any arguments, so a person reads them"),
        Verdict::Ask => Some("the catalog says so"),
        _ => None,
    }
}

/// The schema of one template's vectors.
fn vector(template: &Template) -> Value {
    let names: Vec<&String> = std::iter::once(&template.program).chain(&template.aliases).collect();
    let mut prefix = vec![json!({ "enum": names })];
    let mut items: Vec<Value> = Vec::new();
    let flags: Vec<&String> = template.options.iter().map(|opt| &opt.name).collect();
    if template.globals.is_empty() && template.subs.len() == 1 {
        prefix.extend(template.subs[0].iter().map(|word| json!({ "const": word })));
    } else {
        let words: BTreeSet<&String> =
            template.subs.iter().flatten().chain(&template.globals).collect();
        items.push(json!({ "enum": words }));
    }
    if !flags.is_empty() {
        items.push(json!({ "enum": flags }));
    }
    if template.cluster {
        items.push(json!({ "type": "string", "pattern": "^-[A-Za-z0-9]+$" }));
    }
    for opt in &template.options {
        let Some(value) = &opt.value else { continue };
        for form in &value.forms {
            items.push(match form {
                Form::Sep => word(&value.spec),
                Form::Eq => json!({ "type": "string", "pattern": format!("^{}=", opt.name) }),
                Form::Att => json!({ "type": "string", "pattern": format!("^{}.", opt.name) }),
            });
        }
    }
    if template.operands.spec.kind != Kind::None {
        items.push(word(&template.operands.spec));
    }
    json!({
        "description": template.describe,
        "type": "array",
        "prefixItems": prefix,
        "items": if items.is_empty() { json!(false) } else { json!({ "anyOf": items }) },
        "minItems": prefix.len(),
        "maxItems": ARGS_MAX,
    })
}

/// The schema of a value or an operand.
fn word(spec: &Spec) -> Value {
    let pattern = match spec.kind {
        Kind::Choice => return json!({ "enum": spec.of }),
        Kind::Opaque => return json!({ "type": "string", "minLength": 1 }),
        Kind::Message => "^[^-]",
        Kind::Uint => "^[0-9]{1,7}$",
        Kind::UintPlus => "^[+]?[0-9]{1,7}$",
        _ => "^[^-\\n\\t][^\\n\\t]*$",
    };
    json!({ "type": "string", "pattern": pattern })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a committed page with what is rendered, section by section.
    #[track_caller]
    fn compare(name: &str, there: &str, rendered: &str) {
        if std::env::var_os("PINFOLD_BLESS").is_some() {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::fs::write(path, rendered).expect("the document can be written");
            return;
        }
        let parts = |text: &str| -> Vec<(String, String)> {
            let part = |text: &str| {
                let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
                (head.to_owned(), rest.to_owned())
            };
            text.split("\n### ").map(part).collect()
        };
        let (there, rendered) = (parts(there), parts(rendered));
        let how = "PINFOLD_BLESS=1 cargo test --lib catalog::render";
        for (entry, text) in &rendered {
            let found = there.iter().find(|(known, _)| known == entry);
            let found = found.unwrap_or_else(|| panic!("{name} lacks `{entry}`. Run: {how}"));
            assert_eq!(&found.1, text, "{name} says something else of `{entry}`. Run: {how}");
        }
        for (entry, _) in &there {
            let known = rendered.iter().any(|(other, _)| other == entry);
            assert!(known, "{name} has `{entry}`, which the catalog has not. Run: {how}");
        }
        assert_eq!(there.len(), rendered.len(), "{name} has an entry twice");
    }

    #[test]
    fn the_committed_pages_are_what_the_table_says() {
        let catalog = Catalog::shipped().expect("sound");
        compare("docs/CATALOG.md", include_str!("../../docs/CATALOG.md"), &catalog.page());
        compare("docs/PROMPT.md", include_str!("../../docs/PROMPT.md"), &catalog.prompt());
        let pretty = |value: &Value| format!("{value:#}\n");
        let tools = include_str!("../../docs/schemas/tools.json");
        compare("docs/schemas/tools.json", tools, &pretty(&catalog.tools()));
        let commands = include_str!("../../docs/schemas/commands.schema.json");
        compare("docs/schemas/commands.schema.json", commands, &pretty(&catalog.schema()));
        let conditions = include_str!("../../docs/schemas/conditions.json");
        compare("docs/schemas/conditions.json", conditions, &pretty(&catalog.conditions(true)));
    }

    #[test]
    fn every_template_is_in_every_text() {
        let catalog = Catalog::shipped().expect("sound");
        let (prompt, page) = (catalog.prompt(), catalog.page());
        let (rules, schema) = (catalog.conditions(true), catalog.schema());
        for template in catalog.templates() {
            for usage in usages(template) {
                assert!(prompt.contains(&usage) && page.contains(&usage), "{usage}");
            }
            assert!(page.contains(&format!("\n### {}\n", template.id)), "{}", template.id);
            let rule = rules["rules"].as_array().expect("a list");
            assert!(rule.iter().any(|rule| rule["template"] == template.id.as_str()));
            assert!(schema["$defs"][&template.id].is_object(), "{}", template.id);
        }
        let tool = &catalog.tools()[0];
        assert!(tool["description"].as_str().expect("text").contains("After a person declines"));
    }

    #[test]
    fn a_form_shows_options_and_counts() {
        let catalog = Catalog::shipped().expect("sound");
        let usage = |id: &str| {
            let template = catalog.templates().iter().find(|it| it.id == id).expect("listed");
            usages(template).concat()
        };
        assert_eq!(usage("git-commit"), "git commit -m MESSAGE… [-q] [--quiet]");
        assert_eq!(usage("gate"), "bash scripts/NAME.sh");
        assert_eq!(usage("npm-run"), "npm run build|test|lint|typecheck");
        assert_eq!(usage("python"), "python3 ARGUMENT…");
        assert!(usage("head").ends_with("FILE…1–8"), "{}", usage("head"));
        assert!(usage("ls").ends_with("[PATH]"), "{}", usage("ls"));
        assert!(usage("cargo").contains("(--frozen|--offline)"), "{}", usage("cargo"));
    }

    #[test]
    fn switched_off_everything_asks() {
        let catalog = Catalog::shipped().expect("sound");
        let view = catalog.conditions(false);
        assert_eq!(view["enabled"], false);
        let rules = view["rules"].as_array().expect("a list");
        assert!(rules.iter().all(|rule| rule["decision"] == "ask"), "{view}");
    }
}
