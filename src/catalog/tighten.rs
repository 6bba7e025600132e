//! An overlay over a catalog that can only tighten it: a later verdict, a lower limit.
//!
//! It names templates by id and has nothing of its own, so nothing passes with it that does not
//! pass without. What would loosen is a fault.
#![forbid(unsafe_code)]

use super::Catalog;
use super::forms::Templates;
use super::parse::one_of;
use super::template::{Limits, Policy, Template};
use super::tool::{DECISIONS, at_least_one};
use crate::record::{Digest, Verdict};
use crate::source::{At, Faults, Source, Table};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

impl Catalog {
    /// Applies an overlay.
    ///
    /// # Errors
    /// Every fault of the overlay, what would loosen the catalog among them.
    pub fn tighten(mut self, overlay: Source) -> Result<Self, Faults> {
        let digest = Digest(Sha256::digest(overlay.text().as_bytes()).into());
        let catalog = &self;
        let (changes, _) = overlay.read(|top| Some(read(top, catalog)))?;
        self.policy = changes.policy;
        let mut templates = self.templates.into_list();
        for (index, template) in changes.templates {
            templates[index] = template;
        }
        self.templates = Templates::new(templates);
        self.overlay = Some(digest);
        Ok(self)
    }
}

/// What an overlay changes.
struct Changes {
    policy: Policy,
    /// By the index in the catalog.
    templates: Vec<(usize, Template)>,
}

fn read(top: &Table<'_>, catalog: &Catalog) -> Changes {
    top.schema();
    let mut policy = catalog.policy.clone();
    if let Some(table) = top.table("policy") {
        read_policy(&table, &mut policy);
        table.done();
    }
    let (mut templates, mut named) = (Vec::new(), HashSet::new());
    top.each_table("tool", |table| templates.extend(read_tool(table, catalog, &mut named)));
    Changes { policy, templates }
}

fn read_policy(table: &Table<'_>, policy: &mut Policy) {
    let refuse = [("refuse", Verdict::Refuse)];
    let words =
        [("unmatched", &mut policy.unmatched), ("unknown_program", &mut policy.unknown_program)];
    for (key, verdict) in words {
        *verdict = one_of(table, key, &refuse).unwrap_or(*verdict);
    }
    let Limits { args, arg_bytes, line_bytes } = &mut policy.limits;
    let limits = [("max_args", args), ("max_arg_bytes", arg_bytes), ("max_line_bytes", line_bytes)];
    for (key, limit) in limits {
        let lower = lower(table, key, u32::try_from(*limit).ok());
        *limit = lower.and_then(|lower| usize::try_from(lower).ok()).unwrap_or(*limit);
    }
    let refusals = lower(table, "refusals_per_step", Some(policy.refusals_per_step));
    policy.refusals_per_step = refusals.unwrap_or(policy.refusals_per_step);
}

fn read_tool(
    table: &Table<'_>,
    catalog: &Catalog,
    named: &mut HashSet<String>,
) -> Option<(usize, Template)> {
    let id = table.required("id");
    let found = id.as_ref().and_then(|id| find(table, catalog, id, named));
    let mut template = found.map(|index| catalog.templates[index].clone());
    let decision = one_of(table, "decision", &DECISIONS);
    let old = template.as_ref().map(|template| template.decision);
    if let (Some(new), Some(old)) = (decision, old)
        && new < old
    {
        let title = "this decision lets more pass than the catalog's";
        let hint = "an overlay goes from `auto` to `ask` and to `refuse`, never back";
        table.source().fault(&table.key_span("decision"), title, hint);
    }
    let mut limit = |key, of: fn(&mut Template) -> &mut Option<u32>| {
        let old = template.as_mut().and_then(|template| *of(template));
        let new = lower(table, key, old);
        if let (Some(template), Some(new)) = (&mut template, new) {
            *of(template) = Some(new);
        }
    };
    limit("budget", |template| &mut template.budget);
    limit("timeout_s", |template| &mut template.timeout_s);
    limit("output_kib", |template| &mut template.output_kib);
    let mut template = template?;
    template.decision = decision.unwrap_or(template.decision);
    Some((found?, template))
}

fn find(
    table: &Table<'_>,
    catalog: &Catalog,
    id: &At<String>,
    named: &mut HashSet<String>,
) -> Option<usize> {
    if !named.insert(id.value.clone()) {
        let title = format!("the id `{}` is used twice", id.value);
        table.source().fault(&id.span, title, "put all that tightens it into one entry");
    }
    let found = catalog.templates.iter().position(|template| template.id == id.value);
    if found.is_none() {
        let title = format!("the catalog has no template `{}`", id.value);
        table.source().fault(&id.span, title, "an overlay names templates of the catalog");
    }
    found
}

/// Reads a limit that must be at least 1 and not above the one that counts without the overlay.
fn lower(table: &Table<'_>, key: &'static str, old: Option<u32>) -> Option<u32> {
    let new = at_least_one(table, key, u64::from(u32::MAX))?;
    if let Some(old) = old.filter(|old| new > *old) {
        let title = format!("`{key}` is more than the catalog's {old}");
        table.source().fault(&table.key_span(key), title, "an overlay only lowers limits");
    }
    Some(new)
}
