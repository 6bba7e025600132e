//! What one catalog lets pass that another does not.
//!
//! Compared is what a call meets: program and subcommand, not the id or the order. A change whose
//! direction cannot be told from the text, such as another profile, counts as weaker, so that
//! somebody looks at it.
#![forbid(unsafe_code)]

use super::Catalog;
use super::kinds::{Kind, Spec};
use super::template::{Operands, Opt, Template};
use crate::record::Verdict;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;

/// One difference between two catalogs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// Whether the new catalog lets more pass; otherwise less.
    pub weaker: bool,
    /// The template, by its id in the new catalog, or in the old one where only that has it; the
    /// `[policy]` table has none.
    pub template: Option<String>,
    /// What changed, as a part of a sentence.
    pub what: String,
    /// Whether it is a call that the old catalog had no template for.
    #[serde(skip)]
    pub is_new: bool,
}

/// Collects changes of one template or of the policy.
struct Changes {
    template: Option<String>,
    list: Vec<Change>,
}

impl Changes {
    fn of(template: Option<&str>) -> Self {
        Self { template: template.map(str::to_owned), list: Vec::new() }
    }

    fn add(&mut self, weaker: bool, what: impl Into<String>) {
        let (template, what) = (self.template.clone(), what.into());
        self.list.push(Change { weaker, template, what, is_new: false });
    }

    /// Adds a change of a verdict; one that comes first lets more pass.
    fn verdict(&mut self, what: &str, old: Verdict, new: Verdict) {
        if old != new {
            self.add(new < old, format!("{what} is {new:?}, was {old:?}").to_lowercase());
        }
    }

    /// Adds a change of an ordered value; a greater one is weaker.
    fn compare<T: Ord + Debug>(&mut self, what: &str, old: &T, new: &T) {
        if old != new {
            self.add(new > old, format!("{what} is {new:?}, was {old:?}").to_lowercase());
        }
    }

    /// Adds a change of a limit; a greater one, or none, is weaker.
    fn limit(&mut self, what: &str, old: Option<u32>, new: Option<u32>) {
        let order = |limit: Option<u32>| limit.map_or(u64::MAX, u64::from);
        let word = |limit: Option<u32>| limit.map_or("none".to_owned(), |limit| limit.to_string());
        if old != new {
            let text = format!("{what} is {}, was {}", word(new), word(old));
            self.add(order(new) > order(old), text);
        }
    }

    /// Adds what a list has more, which is `weaker`, and what it has less, which is the opposite.
    fn list<'a>(
        &mut self,
        what: &str,
        weaker: bool,
        old: impl IntoIterator<Item = &'a String>,
        new: impl IntoIterator<Item = &'a String>,
    ) {
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (old.into_iter().collect(), new.into_iter().collect());
        for more in new.difference(&old) {
            self.add(weaker, format!("{what} `{more}` is new"));
        }
        for less in old.difference(&new) {
            self.add(!weaker, format!("{what} `{less}` is gone"));
        }
    }

    /// Adds a switch; turned on it is weaker.
    fn switch(&mut self, what: &str, old: bool, new: bool) {
        if old != new {
            self.add(new, format!("{what} is {}", if new { "on" } else { "off" }));
        }
    }

    /// Adds a change whose direction the text does not tell.
    fn other<T: PartialEq>(&mut self, what: &str, old: &T, new: &T) {
        if old != new {
            self.add(true, format!("{what} is another one"));
        }
    }
}

impl Catalog {
    /// Lists what changes for calls from this catalog to a new one, by template.
    pub fn changes_to(&self, new: &Catalog) -> Vec<Change> {
        let mut all = policy(self, new);
        // Where a person is asked about what no template accepts, less of a template that refuses
        // is more that asks.
        let asks = [new.policy.unmatched, new.policy.unknown_program].contains(&Verdict::Ask);
        let frees = |template: &Template| asks && template.decision == Verdict::Refuse;
        let (olds, news) = (self.calls(), new.calls());
        let mut compared = HashSet::new();
        for (call, after) in &news {
            let Some(before) = olds.get(call) else {
                all.push(appeared(call, after, &olds));
                continue;
            };
            if compared.insert((&before.id, &after.id)) {
                let mut changes = template(before, after);
                changes.iter_mut().for_each(|change| change.weaker |= frees(before));
                all.extend(changes);
            }
        }
        for (call, before) in olds.iter().filter(|(call, _)| !news.contains_key(*call)) {
            let (weaker, template) = (frees(before), Some(before.id.clone()));
            let what = format!("`{call}` has no template");
            all.push(Change { weaker, template, what, is_new: false });
        }
        all
    }

    /// From program and subcommand, as they are called, to the template.
    fn calls(&self) -> BTreeMap<String, &Template> {
        let mut calls = BTreeMap::new();
        for (name, program) in &self.programs {
            for route in &program.routes {
                let call = [std::slice::from_ref(name), &route.sub].concat().join(" ");
                calls.insert(call, &self.templates[route.template]);
            }
        }
        calls
    }
}

/// A call that the old catalog had no template for. Where the old one had templates for parts of
/// what it takes, it takes their place and is nothing new.
fn appeared(call: &str, after: &Template, olds: &BTreeMap<String, &Template>) -> Change {
    let starts = |longer: &str, shorter: &str| {
        longer.strip_prefix(shorter).is_some_and(|rest| rest.starts_with(' '))
    };
    let replaced = olds.keys().find(|old| starts(old, call) || starts(call, old));
    let what = match replaced {
        Some(old) => format!("`{call}` has a template, in place of `{old}`"),
        None => format!("`{call}` has a template"),
    };
    Change { weaker: true, template: Some(after.id.clone()), what, is_new: replaced.is_none() }
}

fn policy(old: &Catalog, new: &Catalog) -> Vec<Change> {
    let mut changes = Changes::of(None);
    changes.other("`path`, where programs are looked up,", &old.path, &new.path);
    let asked = |catalog: &Catalog| catalog.unlisted.as_ref().map(|it| it.profile.clone());
    if let (Some(old), Some(new)) = (asked(old), asked(new)) {
        changes.other("`ask_profile`", &old, &new);
    }
    let (old, new) = (&old.policy, &new.policy);
    changes.verdict("unknown_program", old.unknown_program, new.unknown_program);
    changes.verdict("unmatched", old.unmatched, new.unmatched);
    changes.compare("max_args", &old.limits.args, &new.limits.args);
    changes.compare("max_arg_bytes", &old.limits.arg_bytes, &new.limits.arg_bytes);
    changes.compare("max_line_bytes", &old.limits.line_bytes, &new.limits.line_bytes);
    changes.compare("refusals_per_step", &old.refusals_per_step, &new.refusals_per_step);
    changes.list
}

fn template(old: &Template, new: &Template) -> Vec<Change> {
    let mut changes = Changes::of(Some(&new.id));
    changes.verdict("decision", old.decision, new.decision);
    changes.compare("access", &old.access, &new.access);
    changes.other("profile", &old.profile, &new.profile);
    // An alias is another file's name or another grammar: which file is started is the program's.
    changes.other("program", &old.program, &new.program);
    changes.limit("budget", old.budget, new.budget);
    changes.limit("timeout_s", old.timeout_s, new.timeout_s);
    changes.limit("output_kib", old.output_kib, new.output_kib);
    changes.list("global", true, &old.globals, &new.globals);
    options(&mut changes, old, new);
    changes.switch("cluster", old.cluster, new.cluster);
    changes.switch("permute", old.permute, new.permute);
    required(&mut changes, old, new);
    operands(&mut changes, &old.operands, &new.operands);
    changes.switch("opaque", old.opaque, new.opaque);
    changes.switch("no `scan`", old.scan.is_none(), new.scan.is_none());
    changes.switch("no `guard`", old.guard.is_none(), new.guard.is_none());
    changes.other("`inject_after_sub`", &old.inject_after_sub, &new.inject_after_sub);
    changes.other("`env`", &old.env, &new.env);
    match (&old.needs, &new.needs) {
        (None, Some(path)) => changes.add(false, format!("the project must have `{path}`")),
        (old, new) => changes.other("`needs`", old, new),
    }
    match (old.sha256, new.sha256) {
        (None, Some(_)) => changes.add(false, "the program's content is pinned"),
        (old, new) => changes.other("`sha256`", &old, &new),
    }
    changes.list
}

fn options(changes: &mut Changes, old: &Template, new: &Template) {
    let names = |template: &Template| -> Vec<String> {
        template.options.iter().map(|opt| opt.name.clone()).collect()
    };
    changes.list("option", true, &names(old), &names(new));
    for after in &new.options {
        let Some(before) = old.option(&after.name) else { continue };
        option(changes, before, after);
    }
}

fn option(changes: &mut Changes, old: &Opt, new: &Opt) {
    let name = &new.name;
    changes.switch(&format!("repeating `{name}`"), old.repeat, new.repeat);
    match (&old.value, &new.value) {
        (Some(old), Some(new)) => {
            spec(changes, &format!("the value of `{name}`"), &old.spec, &new.spec);
            let words = |forms: &[super::template::Form]| -> Vec<String> {
                forms.iter().map(|form| format!("{form:?}").to_lowercase()).collect()
            };
            changes.list(
                &format!("form of `{name}`"),
                true,
                &words(&old.forms),
                &words(&new.forms),
            );
        }
        (None, None) => {}
        (old, _) => {
            let what = if old.is_some() { "takes no value any more" } else { "takes a value" };
            changes.add(true, format!("option `{name}` {what}"));
        }
    }
}

/// A group that holds another asks for less than it.
fn required(changes: &mut Changes, old: &Template, new: &Template) {
    let groups = |template: &Template| -> Vec<BTreeSet<String>> {
        template.required_any.iter().map(|group| group.names.iter().cloned().collect()).collect()
    };
    let (old, new) = (groups(old), groups(new));
    let named = |group: &BTreeSet<String>| {
        group.iter().map(String::as_str).collect::<Vec<_>>().join(" or ")
    };
    for group in old.iter().filter(|group| !new.iter().any(|kept| kept.is_subset(group))) {
        changes.add(true, format!("{} is not required any more", named(group)));
    }
    for group in new.iter().filter(|group| !old.iter().any(|kept| kept.is_subset(group))) {
        changes.add(false, format!("{} is required", named(group)));
    }
}

fn operands(changes: &mut Changes, old: &Operands, new: &Operands) {
    match (old.spec.kind, new.spec.kind) {
        (Kind::None, Kind::None) => return,
        (_, Kind::None) => return changes.add(false, "no operand is taken any more"),
        (Kind::None, _) => return changes.add(true, "operands are taken"),
        _ => {}
    }
    spec(changes, "an operand", &old.spec, &new.spec);
    changes.compare("most operands", &old.max, &new.max);
    if old.min != new.min {
        changes.add(new.min < old.min, format!("least operands is {}, was {}", new.min, old.min));
    }
    match (&old.only_sub, &new.only_sub) {
        (old, new) if old == new => {}
        (None, Some(sub)) => changes.add(false, format!("operands stand behind `{sub}` only")),
        _ => changes.add(true, "operands stand behind other subcommands"),
    }
}

fn spec(changes: &mut Changes, what: &str, old: &Spec, new: &Spec) {
    if old.kind != new.kind {
        let (old, new) = (old.kind.name(), new.kind.name());
        changes.add(true, format!("{what} is of kind `{new}`, was `{old}`"));
    }
    changes.list(&format!("choice of {what}"), true, &old.of, &new.of);
    changes.list(&format!("word that {what} cannot be"), false, &old.not, &new.not);
    changes.switch(&format!("`dot` of {what}"), old.dot, new.dot);
    match (&old.under, &new.under) {
        (old, new) if old == new => {}
        (None, Some(under)) => changes.add(false, format!("{what} lies in `{under}` only")),
        _ => changes.add(true, format!("{what} lies in another folder")),
    }
    match (old.ext.is_empty(), new.ext.is_empty()) {
        (true, false) => changes.add(false, format!("{what} has a listed ending")),
        (false, true) => changes.add(true, format!("{what} has any ending")),
        _ => changes.list(&format!("ending of {what}"), true, &old.ext, &new.ext),
    }
}
