//! From the catalog's text to a [`Catalog`]: every structural fault of the file is collected
//! and shown with its place.
//!
//! This file reads the head and the word lists; `tool.rs` reads one template, `index.rs`
//! checks entries against each other.
#![forbid(unsafe_code)]

use super::forms::Templates;
use super::index;
use super::lint::{self, Marks};
use super::shape::{ARG_BYTES_MAX, ARGS_MAX, is_program_name};
use super::template::{Instead, LINE_BYTES_MAX, Limits, ListedRefusal, Policy, Template};
use super::{Catalog, tool};
use crate::profile::Profiles;
use crate::record::{Digest, Verdict};
use crate::source::{At, Faults, Source, Table};
use sha2::{Digest as _, Sha256};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// Most counted refusals of one step before the session stops.
const REFUSALS_MAX: u64 = 200;

impl Catalog {
    /// Reads a catalog without running its examples, and without a look at the profiles.
    ///
    /// # Errors
    /// Every structural fault of the text.
    pub fn parse(source: Source) -> Result<Self, Faults> {
        Self::read(source, |_, _, _| {})
    }

    /// Reads a catalog of the operator's, and checks it against the profiles that its templates
    /// name and against its own examples. Faulty profiles are `None`: their own faults are shown,
    /// and what they would grant is not known.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn load(source: Source, profiles: Option<&Profiles>) -> Result<Self, Faults> {
        Self::read(source, |source, catalog, marks| {
            lint::check(source, catalog, marks, profiles);
        })
    }

    /// Reads a catalog as [`Catalog::load`] does, and finds what in it lets more pass than
    /// `shipped` and is not listed in `[policy].weaker`.
    ///
    /// # Errors
    /// Every fault, and every such finding.
    pub fn examine(
        source: Source,
        profiles: Option<&Profiles>,
        shipped: &Catalog,
    ) -> Result<Self, Faults> {
        Self::read(source, |source, catalog, marks| {
            lint::check(source, catalog, marks, profiles);
            lint::weaker_than(source, catalog, marks, shipped);
        })
    }

    fn read(source: Source, check: impl Fn(&Source, &Catalog, &Marks)) -> Result<Self, Faults> {
        let (mut catalog, source) = source.read_list("tool", |top| read(top, &check))?;
        (catalog.file, catalog.text) = source.into_parts();
        catalog.digest = Digest(Sha256::digest(catalog.text.as_bytes()).into());
        Ok(catalog)
    }
}

fn read(top: &Table<'_>, check: impl Fn(&Source, &Catalog, &Marks)) -> Option<Catalog> {
    top.schema();
    let name = top.required("name");
    let head = match top.table("policy") {
        Some(table) => {
            let head = read_policy(&table);
            table.done();
            head
        }
        None => {
            if !top.has("policy") {
                top.missing("policy");
            }
            None
        }
    };
    let policy = head.as_ref().map(|head| &head.policy);
    let profiles = policy.map(|policy| policy.profiles.as_slice());
    let tools = top.map_tables("tool", |table| tool::read(table, profiles));
    let (templates, marks): (Vec<_>, Vec<_>) = tools.into_iter().unzip();
    let (mut refusals, mut instead) = (Vec::new(), Vec::new());
    top.each_table("refuse", |table| refusals.extend(read_refusal(table, policy)));
    top.each_table("instead", |table| instead.extend(read_instead(table)));
    let index = index::build(top.source(), &templates, &marks, &refusals, &instead);
    let Head { policy, path, ask_profile, weaker, span } = head?;
    let unlisted = ask_profile.as_ref().map(|at| Template::unlisted(&at.value, at.span.start));
    let advice = refusals.iter().map(|(_, listed)| &listed.advice);
    let advice = advice.chain(instead.iter().map(|(_, listed)| &listed.advice)).cloned();
    let marks = Marks {
        templates: marks,
        advice: advice.collect(),
        policy: span,
        ask_profile,
        weaker,
        ambiguous: index.ambiguous,
    };
    let catalog = Catalog {
        file: PathBuf::new(),
        text: String::new(),
        digest: Digest([0; 32]),
        overlay: None,
        name: name.map(|name| name.value).unwrap_or_default(),
        policy,
        path: path.value,
        path_offset: path.span.start,
        templates: Templates::new(templates),
        unlisted,
        refusals: refusals.into_iter().map(|(entry, _)| entry).collect(),
        instead: instead.into_iter().map(|(entry, _)| entry).collect(),
        programs: index.programs,
        refusal_of: index.refusal_of,
        instead_of: index.instead_of,
    };
    check(top.source(), &catalog, &marks);
    Some(catalog)
}

/// The `[policy]` table, with the places of what is checked against other files.
struct Head {
    policy: Policy,
    path: At<Vec<PathBuf>>,
    ask_profile: Option<At<String>>,
    weaker: Vec<At<String>>,
    span: Range<usize>,
}

fn read_policy(table: &Table<'_>) -> Option<Head> {
    let answers = [("refuse", Verdict::Refuse), ("ask", Verdict::Ask)];
    let unmatched = one_of(table, "unmatched", &answers).unwrap_or(Verdict::Refuse);
    let unknown_program = one_of(table, "unknown_program", &answers).unwrap_or(Verdict::Refuse);
    one_of(table, "headless_ask", &answers[..1]);
    read_shell_mode(table);
    let path = read_path(table);
    let profiles = required_list(table, "profiles");
    let profiles: Vec<String> = profiles.into_iter().map(|profile| profile.value).collect();
    let ask_profile = table.string("ask_profile");
    if let Some(profile) = &ask_profile {
        check_profile(table, profile, &profiles);
    } else if !table.has("ask_profile") && [unmatched, unknown_program].contains(&Verdict::Ask) {
        let hint = "name the profile of calls that no template describes";
        table.source().fault(table.span(), "`ask` needs `ask_profile`", hint);
    }
    let limits = Limits {
        args: limit(table, "max_args", ARGS_MAX),
        arg_bytes: limit(table, "max_arg_bytes", ARG_BYTES_MAX),
        line_bytes: limit(table, "max_line_bytes", LINE_BYTES_MAX),
    };
    let refusals_per_step = tool::at_least_one(table, "refusals_per_step", REFUSALS_MAX);
    let policy = Policy {
        unmatched,
        unknown_program,
        profiles,
        limits,
        refusals_per_step: refusals_per_step.unwrap_or(10),
    };
    let weaker = distinct_list(table, "weaker");
    Some(Head { policy, path, ask_profile, weaker, span: table.span().clone() })
}

fn read_shell_mode(table: &Table<'_>) {
    let Some(mode) = table.string("shell_mode") else { return };
    match mode.value.as_str() {
        "simple" => {}
        "compound" => table.source().fault(
            &mode.span,
            "`shell_mode` = \"compound\" is not in this version",
            "use \"simple\": one command, no operators",
        ),
        _ => table.source().fault(
            &mode.span,
            "`shell_mode` must be \"simple\"",
            "leave the key out, or write \"simple\"",
        ),
    }
}

fn read_path(table: &Table<'_>) -> At<Vec<PathBuf>> {
    let path = required_list(table, "path");
    for folder in &path {
        let below = folder.value.strip_prefix("~/").map(|below| format!("/{below}"));
        let whole = below.as_deref().unwrap_or(&folder.value);
        let plain = Path::new(whole).components().all(|part| part != Component::ParentDir);
        if !whole.starts_with('/') || !plain {
            let title = format!("`path` has `{}`, which is not an absolute folder", folder.value);
            let hint = "write an absolute folder without `..`, or `~/…`";
            table.source().fault(&folder.span, title, hint);
        }
    }
    let value = path.into_iter().map(|folder| folder.value.into()).collect();
    At { value, span: table.key_span("path") }
}

fn limit(table: &Table<'_>, key: &'static str, max: usize) -> usize {
    let value = tool::at_least_one(table, key, max as u64);
    value.and_then(|value| usize::try_from(value).ok()).unwrap_or(max)
}

/// What is checked of a word list's entry beside its shape.
pub(super) struct Listed {
    /// The names that it lists.
    pub(super) names: Vec<At<String>>,
    /// What it tells an agent to do.
    pub(super) advice: At<String>,
}

fn read_refusal(table: &Table<'_>, policy: Option<&Policy>) -> Option<(ListedRefusal, Listed)> {
    let program = program_name(table, "program");
    let subs = required_list(table, "subs");
    let class = table.required("class");
    let grantable = table.flag("grantable");
    let profile = table.string("profile");
    if let (Some(profile), Some(policy)) = (&profile, policy) {
        check_profile(table, profile, &policy.profiles);
    }
    if grantable && !table.has("profile") {
        let hint = "name the profile of a granted call";
        table.source().fault(table.span(), "`grantable` needs `profile`", hint);
    }
    let (reason, next) = (table.required("reason"), table.required("next"));
    let entry = ListedRefusal {
        program: program?.value,
        subs: subs.iter().map(|sub| sub.value.clone()).collect(),
        class: class?.value,
        grantable,
        profile: profile.map(|profile| profile.value),
        reason: reason?.value,
        next: next.as_ref()?.value.clone(),
    };
    Some((entry, Listed { names: subs, advice: next? }))
}

fn read_instead(table: &Table<'_>) -> Option<(Instead, Listed)> {
    let programs = required_list(table, "programs");
    for program in &programs {
        check_program_name(table, program);
    }
    let (reason, replacement) = (table.required("reason"), table.required("use"));
    let entry = Instead {
        programs: programs.iter().map(|program| program.value.clone()).collect(),
        reason: reason?.value,
        replacement: replacement.as_ref()?.value.clone(),
    };
    Some((entry, Listed { names: programs, advice: replacement? }))
}

/// Reads one of a list of words.
pub(super) fn one_of<T: Copy>(
    table: &Table<'_>,
    key: &'static str,
    known: &[(&str, T)],
) -> Option<T> {
    known_word(table, key, &table.word(key)?, known)
}

/// Reads one of a list of words that must be there.
pub(super) fn required_one_of<T: Copy>(
    table: &Table<'_>,
    key: &'static str,
    known: &[(&str, T)],
) -> Option<T> {
    known_word(table, key, &table.required_word(key)?, known)
}

/// Finds a word in a list of known ones.
pub(super) fn known_word<T: Copy>(
    table: &Table<'_>,
    key: &str,
    word: &At<impl AsRef<str>>,
    known: &[(&str, T)],
) -> Option<T> {
    let text = word.value.as_ref();
    let found = known.iter().find(|(name, _)| *name == text);
    if found.is_none() {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let title = format!("`{key}` has the unknown value `{text}`");
        table.source().fault(&word.span, title, format!("known: {}", names.join(", ")));
    }
    found.map(|(_, value)| *value)
}

/// Reads a list of strings that must be there, with none of them empty or named twice.
pub(super) fn required_list(table: &Table<'_>, key: &'static str) -> Vec<At<String>> {
    let list = distinct_list(table, key);
    if !table.has(key) {
        table.missing(key);
    } else if list.is_empty() {
        table.source().fault(
            &table.key_span(key),
            format!("`{key}` lists nothing"),
            "name at least one",
        );
    }
    list
}

/// Reads a list of strings, with none of them empty or named twice.
pub(super) fn distinct_list(table: &Table<'_>, key: &'static str) -> Vec<At<String>> {
    let list = table.strings(key);
    for (index, word) in list.iter().enumerate() {
        if word.value.is_empty() {
            table.source().fault(&word.span, format!("`{key}` has an empty string"), "take it out");
        } else if list[..index].iter().any(|before| before.value == word.value) {
            table.source().fault(
                &word.span,
                format!("`{key}` names `{}` twice", word.value),
                "keep one of them",
            );
        }
    }
    list
}

/// Reads the bare name of a program.
pub(super) fn program_name(table: &Table<'_>, key: &'static str) -> Option<At<String>> {
    let name = table.required(key)?;
    check_program_name(table, &name);
    Some(name)
}

/// Checks the bare name of a program.
pub(super) fn check_program_name(table: &Table<'_>, name: &At<String>) {
    if !is_program_name(&name.value) {
        let title = format!("`{}` is not the bare name of a program", name.value);
        table.source().fault(&name.span, title, "letters, digits and `._+-`, without a path");
    }
}

/// Checks that a profile is one of the policy's.
pub(super) fn check_profile(table: &Table<'_>, profile: &At<String>, known: &[String]) {
    if !known.contains(&profile.value) {
        let title = format!("the profile `{}` is not in `[policy].profiles`", profile.value);
        table.source().fault(&profile.span, title, format!("known: {}", known.join(", ")));
    }
}
