//! The catalog's tables, and what entries of the file say of each other.
//!
//! At most one template can fit a call: no two have the same program and subcommand, and no
//! subcommand is the start of another. Word lists never name what a template already has.
#![forbid(unsafe_code)]

use super::lint::TemplateMarks;
use super::parse::Listed;
use super::template::{Form, Instead, ListedRefusal, Opt, Program, Route, Template};
use crate::source::{At, Source};
use std::collections::{HashMap, HashSet};

/// A template and the places that faults between templates point at.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) template: Template,
    pub(super) marks: TemplateMarks,
    /// The program's name and its aliases.
    pub(super) names: Vec<At<String>>,
}

/// The look-up tables of a catalog.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) programs: HashMap<String, Program>,
    pub(super) refusal_of: HashMap<(String, String), usize>,
    pub(super) instead_of: HashMap<String, usize>,
    /// Templates of calls that more than one could fit.
    pub(super) ambiguous: HashSet<usize>,
}

/// Builds the tables and records every fault between entries.
pub(super) fn build(
    source: &Source,
    drafts: &[Draft],
    refusals: &[(ListedRefusal, Listed)],
    instead: &[(Instead, Listed)],
) -> Index {
    let mut index = Index::default();
    let mut ids = HashSet::new();
    for (number, draft) in drafts.iter().enumerate() {
        if !ids.insert(draft.template.id.as_str()) {
            let title = format!("the id `{}` is used twice", draft.template.id);
            source.fault(&draft.marks.id, title, "give one of them another id");
        }
        check_hidden(source, draft);
        check_forbid(source, draft);
        for name in &draft.names {
            let program = index.programs.entry(name.value.clone()).or_default();
            program.globals.extend(draft.template.globals.iter().cloned());
            for sub in &draft.template.subs {
                program.routes.push(Route { sub: sub.clone(), template: number });
            }
        }
    }
    let mut programs = std::mem::take(&mut index.programs);
    let mut names: Vec<_> = programs.iter_mut().collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    for (name, program) in names {
        program.globals.sort();
        program.globals.dedup();
        program.routes.sort();
        let both = check_overlap(source, drafts, name, &program.routes);
        index.ambiguous.extend(both);
    }
    index.programs = programs;
    for (number, (entry, listed)) in refusals.iter().enumerate() {
        index.add_refusal(source, drafts, (number, entry), &listed.names);
    }
    for (number, (_, listed)) in instead.iter().enumerate() {
        for program in &listed.names {
            let name = &program.value;
            if index.programs.contains_key(name) {
                let title = format!("`[[instead]]` names `{name}`, which has a template");
                source.fault(&program.span, title, "take it out; the template decides such calls");
            } else if index.instead_of.insert(name.clone(), number).is_some() {
                source.fault(
                    &program.span,
                    format!("`[[instead]]` names `{name}` twice"),
                    "keep one of them",
                );
            }
        }
    }
    index
}

/// Checks that no subcommand of a program equals or starts another. In sorted order the one
/// that starts another stands right before it, or before others that it starts as well. Returns
/// the templates of calls that more than one could fit.
fn check_overlap(source: &Source, drafts: &[Draft], name: &str, routes: &[Route]) -> Vec<usize> {
    let mut ambiguous = Vec::new();
    for pair in routes.windows(2) {
        let [first, second] = pair else { continue };
        if second.sub.starts_with(&first.sub) {
            ambiguous.extend([first.template, second.template]);
            let draft = &drafts[second.template.max(first.template)];
            let other = &drafts[second.template.min(first.template)].template.id;
            let call = format!("{name} {}", second.sub.join(" "));
            let title = format!("`{}` fits the template `{other}` as well", call.trim_end());
            let place = draft.names.iter().find(|at| at.value == name);
            let span = place.map_or(&draft.marks.id, |at| &at.span);
            source.fault(span, title, "a call must select at most one template");
        }
    }
    ambiguous
}

/// Returns whether a text is an option with its value written as one.
fn joins(opt: &Opt, text: &str) -> bool {
    let Some(rest) = text.strip_prefix(opt.name.as_str()).filter(|rest| !rest.is_empty()) else {
        return false;
    };
    opt.value.as_ref().is_some_and(|value| {
        value.forms.iter().any(|form| match form {
            Form::Att => true,
            Form::Eq => rest.starts_with('='),
            Form::Sep => false,
        })
    })
}

/// Checks that no flag is spelled like another option with its value, which it would hide: then
/// less of a template would let more pass.
fn check_hidden(source: &Source, draft: &Draft) {
    let options = &draft.template.options;
    for flag in options {
        if let Some(hidden) = options.iter().find(|opt| joins(opt, &flag.name)) {
            let title = format!("`{}` is also `{}` with a value", flag.name, hidden.name);
            let hint = "take it out; the other one accepts it where its kind does";
            source.fault(&draft.marks.id, title, hint);
        }
    }
}

/// Checks that `forbid` names nothing that the template accepts, so that it can only choose
/// words.
fn check_forbid(source: &Source, draft: &Draft) {
    let template = &draft.template;
    let letters = |flag: &str| {
        let listed = |ch: char| template.option(&format!("-{ch}")).is_some();
        template.cluster
            && flag.len() > 2
            && !flag.starts_with("--")
            && flag.chars().skip(1).all(listed)
    };
    for (flag, _) in &template.forbid {
        let accepted = template.option(flag).is_some()
            || letters(flag)
            || template.options.iter().any(|opt| joins(opt, flag));
        if accepted {
            let title = format!("`forbid` names `{flag}`, which the template accepts");
            let hint = "take it out of `forbid`, or out of the template";
            source.fault(&draft.marks.id, title, hint);
        }
    }
}

impl Index {
    /// Adds an entry for its program and for the aliases that templates give to it.
    fn add_refusal(
        &mut self,
        source: &Source,
        drafts: &[Draft],
        (number, entry): (usize, &ListedRefusal),
        subs: &[At<String>],
    ) {
        let program = &entry.program;
        let same = drafts.iter().map(|draft| &draft.template);
        let same = same.filter(|template| template.program == *program);
        let mut names: Vec<&String> = same.flat_map(|template| &template.aliases).collect();
        names.push(program);
        names.sort();
        names.dedup();
        for sub in subs {
            for name in &names {
                let routes = self.programs.get(*name).map_or(&[][..], |found| &found.routes);
                if routes.iter().any(|route| route.sub == [sub.value.as_str()]) {
                    let title =
                        format!("`[[refuse]]` names `{name} {}`, which has a template", sub.value);
                    source.fault(&sub.span, title, "take it out; the template decides such calls");
                }
                let key = ((*name).clone(), sub.value.clone());
                if self.refusal_of.insert(key, number).is_some() && *name == program {
                    let title = format!("`[[refuse]]` names `{name} {}` twice", sub.value);
                    source.fault(&sub.span, title, "keep one of them");
                }
            }
        }
    }
}
