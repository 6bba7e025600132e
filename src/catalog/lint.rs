//! What is wrong with a catalog beyond its shape: what a template may do against what its profile
//! grants, examples that misbehave, advice that names no tool, and what lets more pass than the
//! shipped catalog.
//!
//! Each check points at the file, so that all faults of it are shown at once. Where a template has
//! a fault of shape, it is not there any more and nothing else of it is checked.
#![forbid(unsafe_code)]

use super::Catalog;
use super::template::Template;
use crate::profile::{NetworkMode, Profile, Profiles, Root};
use crate::record::{Access, Refusal, TOOLS};
use crate::source::{At, Source, in_halves};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::Range;

/// Fewer templates are checked before a second thread has begun.
const THREAD_TEMPLATES_MIN: usize = 512;

/// What stands in `[policy].weaker` for the `[policy]` table itself.
const POLICY: &str = "policy";

/// Where the parts of a template stand that are checked against other things than its own table.
#[derive(Debug)]
pub(super) struct TemplateMarks {
    pub(super) id: Range<usize>,
    pub(super) program: Range<usize>,
    /// In the order of the template's aliases.
    pub(super) aliases: Vec<Range<usize>>,
    pub(super) access: Range<usize>,
    /// Whether its table has a fault.
    pub(super) is_faulty: bool,
}

/// Where the parts of a catalog stand that are checked here.
#[derive(Debug)]
pub(super) struct Marks {
    /// In the order of the catalog's templates.
    pub(super) templates: Vec<TemplateMarks>,
    /// What the word lists tell an agent to do.
    pub(super) advice: Vec<At<String>>,
    /// The `[policy]` table.
    pub(super) policy: Range<usize>,
    pub(super) ask_profile: Option<At<String>>,
    /// What the file says that it is knowingly weaker in.
    pub(super) weaker: Vec<At<String>>,
    /// Templates of calls that more than one could fit.
    pub(super) ambiguous: HashSet<usize>,
}

/// Records every fault of a catalog that its shape does not show.
pub(super) fn check(
    source: &Source,
    catalog: &Catalog,
    marks: &Marks,
    profiles: Option<&Profiles>,
) {
    in_halves(catalog.templates.len(), THREAD_TEMPLATES_MIN, |numbers| {
        for number in numbers {
            let (template, at) = (&catalog.templates[number], &marks.templates[number]);
            if let Some(profiles) = profiles {
                check_profile(source, template, at, (profiles, &catalog.policy.profiles));
            }
            // Examples of a template that has a fault already would only say so again.
            if !at.is_faulty && !marks.ambiguous.contains(&number) {
                check_examples(source, catalog, template);
            }
        }
    });
    for advice in &marks.advice {
        check_advice(source, catalog, advice);
    }
    let asked = marks.ask_profile.as_ref().zip(profiles);
    if let Some((at, profiles)) = asked {
        match profiles.get(&at.value) {
            None => unknown_profile(source, &at.span, "`ask_profile`", &at.value, profiles),
            Some(profile) if profile.network.mode == NetworkMode::Allowlist => {
                let title = format!("`ask_profile` names `{}`, which has a network", at.value);
                let hint = "what no template describes runs without one; name another profile";
                source.fault(&at.span, title, hint);
            }
            Some(_) => {}
        }
    }
}

fn check_profile(
    source: &Source,
    template: &Template,
    at: &TemplateMarks,
    (profiles, listed): (&Profiles, &[String]),
) {
    match profiles.get(&template.profile) {
        // One that the file does not list either is a fault of its own already.
        None if !listed.contains(&template.profile) => {}
        None => {
            let who = format!("template `{}`", template.id);
            unknown_profile(source, &at.id, &who, &template.profile, profiles);
        }
        Some(profile) => {
            if let Some((what, hint)) = grants_more(profile, template.access) {
                let title = format!(
                    "access `{}` promises less than profile `{}` grants: {what}",
                    template.access.as_str(),
                    profile.name
                );
                source.fault(&at.access, title, hint);
            }
        }
    }
}

fn unknown_profile(
    source: &Source,
    span: &Range<usize>,
    who: &str,
    name: &str,
    profiles: &Profiles,
) {
    let known = profiles.names().collect::<Vec<_>>().join(", ");
    let title = format!("{who} names profile `{name}`, which does not exist");
    source.fault(span, title, format!("profiles: {known}"));
}

/// Says what a profile grants that no access class can take away, where the class promises less.
/// Writing in the workspace is taken away by `read-only`, seeing it by `none`.
fn grants_more(profile: &Profile, access: Access) -> Option<(String, &'static str)> {
    if profile.network.mode == NetworkMode::Allowlist && access != Access::Network {
        let hint = "set access = \"network\" and decision = \"ask\", or name another profile";
        return Some(("it reaches a network".to_owned(), hint));
    }
    // What the operator's profile writes elsewhere is no part of the workspace, which a lesser
    // class makes read-only.
    let mut outside = profile.write.iter().filter(|write| write.entry.path.root == Root::Absolute);
    let outside = outside.next().filter(|_| access < Access::WorkspaceWrite)?;
    let hint = "set access = \"workspace-write\", or name a profile that writes nothing else";
    Some((format!("it writes `{}`, outside of the workspace", outside.entry.path), hint))
}

fn check_examples(source: &Source, catalog: &Catalog, template: &Template) {
    let decide = |line: &str| -> Result<&Template, Refusal> {
        let argv = catalog.split(OsStr::new(line))?;
        catalog.decide(&argv).map(|matched| matched.template)
    };
    for At { value: line, span } in &template.matches {
        match decide(line) {
            Ok(found) if std::ptr::eq(found, template) => {}
            Ok(found) => {
                let title = format!("this `match` example fits template `{}` instead", found.id);
                source.fault(span, title, "move it there, or mend the template");
            }
            Err(refusal) => {
                let title = format!("this `match` example does not fit: [{}]", refusal.code);
                let hint = format!("{}: {}", refusal.what(), refusal.reason());
                source.fault(span, title, hint);
            }
        }
    }
    for At { value: line, span } in &template.no_matches {
        if decide(line).is_ok_and(|found| std::ptr::eq(found, template)) {
            let hint = "take out what lets it pass, or the example";
            source.fault(span, "this `no_match` example fits the template", hint);
        }
    }
}

/// Checks that the tools which an advice names exist: words of the form `name_name`, and single
/// words in backquotes that are no program of the catalog.
fn check_advice(source: &Source, catalog: &Catalog, advice: &At<String>) {
    let mut seen = HashSet::new();
    for (index, part) in advice.value.split('`').enumerate() {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit();
        let quoted = index % 2 == 1 && !part.is_empty() && part.bytes().all(is_word);
        let words = part.split(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '_' || ch == '-'));
        for word in words {
            let joined = word.split('_').count() > 1
                && word.split('_').all(|piece| {
                    !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_lowercase())
                });
            let named = joined || (quoted && !catalog.programs.contains_key(word));
            if named && !TOOLS.contains(&word) && seen.insert(word) {
                let title = format!("there is no tool `{word}`");
                source.fault(&advice.span, title, format!("tools: {}", TOOLS.join(", ")));
            }
        }
    }
}

/// Records what in a catalog lets more pass than the shipped one, and is not listed as known.
pub(super) fn weaker_than(source: &Source, catalog: &Catalog, marks: &Marks, shipped: &Catalog) {
    let mut known: HashSet<&str> = marks.weaker.iter().map(|at| at.value.as_str()).collect();
    let changes: Vec<_> = shipped.changes_to(catalog).into_iter().filter(|it| it.weaker).collect();
    let place = |change: &super::Change| {
        let Some(id) = &change.template else { return Some(marks.policy.clone()) };
        let number = catalog.templates.iter().position(|template| template.id == *id)?;
        marks.templates.get(number).map(|at| at.id.clone())
    };
    let mut used = HashSet::new();
    for change in changes.iter().filter(|change| !change.is_new) {
        let name = change.template.as_deref().unwrap_or(POLICY);
        if known.contains(name) {
            used.insert(name);
            continue;
        }
        let Some(span) = place(change) else { continue };
        let hint = format!("where that is meant, list \"{name}\" in `weaker` of [policy]");
        source.fault(&span, format!("weaker than shipped: {}", change.what), hint);
    }
    known.retain(|name| !used.contains(name));
    for at in marks.weaker.iter().filter(|at| known.contains(at.value.as_str())) {
        let title = format!("`weaker` names `{}`, which is not weaker than shipped", at.value);
        source.fault(&at.span, title, "take it out");
    }
}
