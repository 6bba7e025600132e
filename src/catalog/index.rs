//! The catalog's tables, and what entries of the file say of each other.
//!
//! At most one template can fit a call: no two have the same program and subcommand, and no
//! subcommand is the start of another. Word lists never name what a template already has.
#![forbid(unsafe_code)]

use super::lint::TemplateMarks;
use super::parse::Listed;
use super::template::{Instead, ListedRefusal, Program, Route, Template};
use crate::source::{At, Source};
use std::collections::{HashMap, HashSet};

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
    templates: &[Template],
    marks: &[TemplateMarks],
    refusals: &[(ListedRefusal, Listed)],
    instead: &[(Instead, Listed)],
) -> Index {
    let mut index = Index::default();
    index.programs.reserve(templates.len());
    let mut ids = HashSet::with_capacity(templates.len());
    for (number, (template, at)) in templates.iter().zip(marks).enumerate() {
        if !ids.insert(template.id.as_str()) {
            let title = format!("the id `{}` is used twice", template.id);
            source.fault(&at.id, title, "give one of them another id");
        }
        for name in std::iter::once(&template.program).chain(&template.aliases) {
            let program = index.programs.entry(name.clone()).or_default();
            program.globals.extend(template.globals.iter().cloned());
            let route = |sub: &Vec<String>| Route { sub: sub.clone(), template: number };
            program.routes.reserve_exact(template.subs.len());
            program.routes.extend(template.subs.iter().map(route));
            let no_sub = program.routes.len() == 1 && program.routes[0].sub.is_empty();
            program.only = no_sub.then_some(number);
        }
    }
    let mut programs = std::mem::take(&mut index.programs);
    // A program with one template cannot have two that fit one call.
    let mut names: Vec<_> = programs.iter_mut().filter(|(_, it)| it.routes.len() > 1).collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    for (name, program) in names {
        program.globals.sort();
        program.globals.dedup();
        program.routes.sort();
        let both = check_overlap(source, (templates, marks), name, &program.routes);
        index.ambiguous.extend(both);
    }
    index.programs = programs;
    for (number, (entry, listed)) in refusals.iter().enumerate() {
        index.add_refusal(source, templates, (number, entry), &listed.names);
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
fn check_overlap(
    source: &Source,
    (templates, marks): (&[Template], &[TemplateMarks]),
    name: &str,
    routes: &[Route],
) -> Vec<usize> {
    let mut ambiguous = Vec::new();
    for pair in routes.windows(2) {
        let [first, second] = pair else { continue };
        if second.sub.starts_with(&first.sub) {
            ambiguous.extend([first.template, second.template]);
            let at = &marks[second.template.max(first.template)];
            let other = &templates[second.template.min(first.template)].id;
            let call = format!("{name} {}", second.sub.join(" "));
            let title = format!("`{}` fits the template `{other}` as well", call.trim_end());
            let aliases = &templates[second.template.max(first.template)].aliases;
            let alias = aliases.iter().position(|alias| alias == name);
            let span = alias.and_then(|alias| at.aliases.get(alias)).unwrap_or(&at.program);
            source.fault(span, title, "a call must select at most one template");
        }
    }
    ambiguous
}

impl Index {
    /// Adds an entry for its program and for the aliases that templates give to it.
    fn add_refusal(
        &mut self,
        source: &Source,
        templates: &[Template],
        (number, entry): (usize, &ListedRefusal),
        subs: &[At<String>],
    ) {
        let program = &entry.program;
        let same = templates.iter().filter(|template| template.program == *program);
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
