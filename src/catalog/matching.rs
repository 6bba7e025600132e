//! Matching: from a well-formed argument vector to the one template that can fit it.
//!
//! Allow by shape: a token that the template does not list refuses the call. Steps never
//! backtrack, order in the file never matters, and `[[refuse]]`, `[[instead]]` and `forbid`
//! choose words only. Nothing is allocated before a call is refused.
#![forbid(unsafe_code)]

use super::Catalog;
use super::answer::{self, Unfit};
use super::kinds::{Kind, Spec};
use super::shape;
use super::template::{Form, Group, Opt, Program, Route, Template};
use crate::record::{Code, Refusal, Verdict};
use std::ffi::OsString;

/// A call that fits a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only the verdict says whether the call may run"]
pub struct Matched<'c> {
    /// The template.
    pub template: &'c Template,
    /// Its decision.
    pub verdict: Verdict,
    /// How many elements stand before the rest: program, flags before the subcommand, and
    /// the subcommand.
    pub sub_len: usize,
    /// One bit for each element of the requested argv that is an operand.
    operands: u64,
}

impl Matched<'_> {
    /// Returns the argv to execute: the requested one with the template's tokens added
    /// behind the subcommand. `{operator_index_url}` stays as it is.
    pub fn executed(&self, argv: &[OsString]) -> Vec<OsString> {
        let (head, rest) = argv.split_at(self.sub_len.min(argv.len()));
        let injected = self.template.inject_after_sub.iter().map(OsString::from);
        head.iter().cloned().chain(injected).chain(rest.iter().cloned()).collect()
    }

    /// Returns the positions, in the requested argv, of the operands that name paths;
    /// values of options are not among them.
    pub fn operand_indices(&self) -> impl Iterator<Item = usize> + use<> {
        let is_path = self.template.operands.spec.kind.is_path();
        let bits = if is_path { self.operands } else { 0 };
        (0..shape::ARGS_MAX).filter(move |index| bits >> index & 1 == 1)
    }

    /// Returns the refusal, where the template's decision is to refuse.
    pub fn refusal(&self, argv: &[OsString]) -> Option<Refusal> {
        let refuses = self.verdict == Verdict::Refuse;
        refuses.then(|| answer::template_refuses(argv, self.template))
    }
}

impl Catalog {
    /// Decides a call. A template that fits gives its decision, which may be to refuse.
    ///
    /// An opaque template's `scan` is not evaluated: every argv of the right count gets the
    /// template's decision, which is never `auto`. Nor do `unmatched` and `unknown_program`
    /// count: what no template accepts is refused, which is never laxer than they are.
    ///
    /// # Errors
    /// Why no template fits.
    pub fn decide<'c>(&'c self, argv: &[OsString]) -> Result<Matched<'c>, Refusal> {
        let words = shape::check(argv, &self.policy.limits)?;
        let name = words[0];
        let Some(program) = self.programs.get(name) else {
            let instead = self.instead_of.get(name).map(|index| &self.instead[*index]);
            return Err(answer::unknown(name, instead));
        };
        let (template, sub, sub_len) = self.select(program, &words)?;
        let mut walk = Walk { template, sub, words: &words, at: sub_len, seen: 0, operands: 0 };
        let fits =
            if template.opaque { walk.check_count(words.len() - sub_len) } else { walk.run() };
        fits.map_err(|unfit| answer::argv(unfit, template))?;
        let operands = walk.operands;
        Ok(Matched { template, verdict: template.decision, sub_len, operands })
    }

    /// Selects by program and subcommand alone; gives the template, its subcommand and how
    /// many elements both take.
    fn select<'c>(
        &'c self,
        program: &'c Program,
        words: &[&str],
    ) -> Result<(&'c Template, &'c [String], usize), Refusal> {
        if let [route] = program.routes.as_slice()
            && route.sub.is_empty()
        {
            return Ok((&self.templates[route.template], &[], 1));
        }
        let refuse = |code, what: &str, reason: &str| {
            let unfit = Unfit::new(code, what.as_bytes(), reason);
            Err(answer::subcommand(unfit, words[0], program))
        };
        let is_flag = |word: &&&str| word.starts_with('-');
        let globals = &words[1..1 + words[1..].iter().take_while(is_flag).count()];
        for (index, flag) in globals.iter().enumerate() {
            if !program.globals.iter().any(|global| global == flag) {
                let reason = "no option is accepted before the subcommand here";
                return refuse(Code::OptionBeforeSub, flag, reason);
            }
            if globals[..index].contains(flag) {
                return refuse(Code::FlagRepeated, flag, "the option occurs twice");
            }
        }
        let rest = &words[1 + globals.len()..];
        let Some(sub) = rest.first() else {
            return refuse(Code::SubMissing, words[0], "the program needs a subcommand");
        };
        let Some(route) = program.route(rest) else {
            return match self.listed_refusal(words[0], sub) {
                Some(entry) => Err(answer::listed(words[0], sub, entry)),
                None => refuse(Code::SubUnknown, sub, "the catalog has no such subcommand"),
            };
        };
        let template = &self.templates[route.template];
        let foreign = |flag: &&&str| !template.globals.iter().any(|global| global == **flag);
        if let Some(flag) = globals.iter().find(foreign) {
            let reason = "this subcommand accepts no such option before it";
            return refuse(Code::OptionBeforeSub, flag, reason);
        }
        Ok((template, &route.sub, 1 + globals.len() + route.sub.len()))
    }
}

impl Program {
    /// Finds the route whose words start `rest`.
    ///
    /// Because no route's words start another's, only the last one that sorts at or before
    /// `rest` can fit.
    fn route(&self, rest: &[&str]) -> Option<&Route> {
        let words = |sub: &[String]| sub.iter().map(String::as_str).cmp(rest.iter().copied());
        let after = self.routes.partition_point(|route| words(&route.sub).is_le());
        let route = &self.routes[after.checked_sub(1)?];
        let given = rest.get(..route.sub.len())?;
        (route.sub.iter().eq(given.iter().copied())).then_some(route)
    }
}

/// The walk over the elements behind the subcommand.
struct Walk<'a> {
    template: &'a Template,
    sub: &'a [String],
    words: &'a [&'a str],
    at: usize,
    /// One bit for each option that occurred.
    seen: u64,
    /// One bit for each element that is an operand.
    operands: u64,
}

impl<'a> Walk<'a> {
    fn run(&mut self) -> Result<(), Unfit> {
        while let Some(word) = self.words.get(self.at).copied() {
            if word.starts_with('-') {
                self.option(word)?;
            } else {
                self.operands |= 1 << self.at;
            }
            self.at += 1;
        }
        self.check_operands()?;
        let absent = |group: &&Group| self.seen & group.mask == 0;
        if let Some(group) = self.template.required_any.iter().find(absent) {
            let names = group.names.join(" or ");
            let reason = format!("{names} is required");
            return Err(Unfit::new(Code::FlagRequired, names.as_bytes(), reason));
        }
        Ok(())
    }

    /// Takes one token that starts with `-`, and its value where that is a token of its own.
    fn option(&mut self, word: &'a str) -> Result<(), Unfit> {
        let template = self.template;
        if self.operands != 0 && !template.permute {
            return unfit(Code::OptionAfterOperand, word, "options stand before operands here");
        }
        if let Some((bit, opt)) = template.option(word) {
            if let Some(value) = &opt.value {
                if !value.forms.contains(&Form::Sep) {
                    let reason = "the value is not accepted as a token of its own";
                    return unfit(Code::ValueForm, word, reason);
                }
                self.at += 1;
                let Some(text) = self.words.get(self.at) else {
                    return unfit(Code::ValueMissing, word, "the option needs a value");
                };
                check_value(opt, &value.spec, text)?;
            }
            return self.mark(bit, opt);
        }
        if word.starts_with("--") {
            if let Some((name, text)) = word.split_once('=')
                && let Some((bit, opt, spec)) = template.value_option(name, Form::Eq)
            {
                if text.is_empty() {
                    return unfit(Code::ValueMissing, word, "the value after = is empty");
                }
                check_value(opt, spec, text)?;
                return self.mark(bit, opt);
            }
        } else if let Some((second, _)) = word.char_indices().nth(2) {
            let (name, text) = word.split_at(second);
            if let Some((bit, opt, spec)) = template.value_option(name, Form::Att) {
                check_value(opt, spec, text)?;
                return self.mark(bit, opt);
            }
            if template.cluster && self.is_cluster(word) {
                return self.mark_cluster(word);
            }
        }
        Err(self.unlisted(word))
    }

    fn is_cluster(&self, word: &str) -> bool {
        letters(word).all(|flag| flag.is_some_and(|flag| self.is_listed(&flag)))
    }

    fn is_listed(&self, flag: &[u8; 2]) -> bool {
        std::str::from_utf8(flag).is_ok_and(|flag| self.template.option(flag).is_some())
    }

    fn mark_cluster(&mut self, word: &str) -> Result<(), Unfit> {
        for flag in letters(word).flatten() {
            let name = std::str::from_utf8(&flag).unwrap_or_default();
            if let Some((bit, opt)) = self.template.option(name) {
                self.mark(bit, opt)?;
            }
        }
        Ok(())
    }

    fn mark(&mut self, bit: usize, opt: &Opt) -> Result<(), Unfit> {
        if self.seen >> bit & 1 == 1 && !opt.repeat {
            return unfit(Code::FlagRepeated, &opt.name, "the option occurs twice");
        }
        self.seen |= 1 << bit;
        Ok(())
    }

    /// Finds the words for an option that is not accepted.
    fn unlisted(&self, word: &str) -> Unfit {
        let (name, joined) = match word.split_once('=') {
            Some((name, _)) if word.starts_with("--") => (name, true),
            _ => (word, false),
        };
        if let Some((_, why)) = self.template.forbid.iter().find(|(flag, _)| flag == name) {
            return Unfit::new(Code::FlagForbidden, name.as_bytes(), why.as_str());
        }
        let id = &self.template.id;
        let short = !word.starts_with("--") && word.chars().nth(2).is_some();
        if short && !joined && !self.template.cluster {
            let reason = format!("template {id} does not accept it, nor options written as one");
            return Unfit::new(Code::FlagCluster, word.as_bytes(), reason);
        }
        let reason = format!("template {id} does not list this option");
        Unfit::new(Code::FlagUnknown, name.as_bytes(), reason)
    }

    fn check_operands(&self) -> Result<(), Unfit> {
        let wanted = &self.template.operands;
        let places = (0..self.words.len()).filter(|at| self.operands >> at & 1 == 1);
        let mut texts = places.map(|at| self.words[at]);
        let elsewhere = wanted.only_sub.as_ref().is_some_and(|only| self.sub != [only.as_str()]);
        if (wanted.spec.kind == Kind::None || elsewhere)
            && let Some(first) = texts.next()
        {
            let reason = "no operand is accepted here";
            return unfit(Code::OperandUnexpected, first, reason);
        }
        self.check_count(self.operands.count_ones() as usize)?;
        for text in texts {
            if let Err(why) = wanted.spec.check(text) {
                let reason = format!("the operand {}", explain(&wanted.spec, why));
                return Err(Unfit::new(Code::OperandKind, text.as_bytes(), reason));
            }
        }
        Ok(())
    }

    fn check_count(&self, count: usize) -> Result<(), Unfit> {
        let (min, max) = (self.template.operands.min, self.template.operands.max);
        if (min..=max).contains(&count) {
            return Ok(());
        }
        let reason = format!("{count} operands, from {min} to {max} are accepted");
        Err(Unfit::new(Code::OperandCount, self.words.join(" ").as_bytes(), reason))
    }
}

/// Splits a cluster into its flags; a letter that is not ASCII is nothing.
fn letters(word: &str) -> impl Iterator<Item = Option<[u8; 2]>> {
    let flag = |ch: char| Some([b'-', u8::try_from(ch).ok().filter(u8::is_ascii)?]);
    word.chars().skip(1).map(flag)
}

fn unfit(code: Code, what: &str, reason: &str) -> Result<(), Unfit> {
    Err(Unfit::new(code, what.as_bytes(), reason))
}

fn check_value(opt: &Opt, spec: &Spec, text: &str) -> Result<(), Unfit> {
    spec.check(text).map_err(|why| {
        let reason = format!("the value of {} {}", opt.name, explain(spec, why));
        Unfit::new(Code::ValueKind, text.as_bytes(), reason)
    })
}

/// Completes why a text does not fit with what would.
fn explain(spec: &Spec, why: &str) -> String {
    let list = match spec.kind {
        Kind::Choice => spec.of.join(" "),
        _ => spec.ext.iter().map(|ext| format!(".{ext} ")).collect(),
    };
    let under = spec.under.as_ref().map_or_else(String::new, |under| format!(", in {under}/"));
    let wanted = format!("{}{under}", list.trim_end());
    if wanted.is_empty() { why.to_owned() } else { format!("{why} (wanted: {wanted})") }
}
