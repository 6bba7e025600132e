//! The walk over the elements behind the subcommand: each is a listed option in a listed form, or
//! an operand of the listed kind.
//!
//! Nothing is allocated before a call is refused.
#![forbid(unsafe_code)]

use super::answer::Unfit;
use super::forms::Selected;
use super::kinds::{Kind, Spec};
use super::template::{Form, Group};
use super::trace::{Role, Trace};
use crate::record::Code;

/// The walk over the elements behind the subcommand.
pub(super) struct Walk<'a, 't> {
    pub(super) selected: Selected<'a>,
    pub(super) sub: &'a [String],
    pub(super) words: &'a [&'a str],
    /// The element that is read next.
    pub(super) at: usize,
    /// One bit for each option that occurred.
    pub(super) seen: u64,
    /// One bit for each element that is an operand.
    pub(super) operands: u64,
    pub(super) trace: &'t mut Trace,
}

impl<'a> Walk<'a, '_> {
    pub(super) fn run(&mut self) -> Result<(), Unfit> {
        while let Some(word) = self.words.get(self.at).copied() {
            if word.starts_with('-') {
                self.option(word)?;
            } else {
                self.operands |= 1 << self.at;
                self.trace.note(self.at, Role::Operand);
            }
            self.at += 1;
        }
        self.check_operands()?;
        self.check_groups()
    }

    fn check_groups(&self) -> Result<(), Unfit> {
        if !self.selected.brief.grouped {
            return Ok(());
        }
        let absent = |group: &&Group| self.seen & group.mask == 0;
        if let Some(group) = self.selected.template.required_any.iter().find(absent) {
            let names = group.names.join(" or ");
            let reason = format!("{names} is required");
            return Err(Unfit::new(Code::FlagRequired, names.as_bytes(), reason));
        }
        Ok(())
    }

    /// Takes one token that starts with `-`, and its value where that is a token of its own.
    fn option(&mut self, word: &'a str) -> Result<(), Unfit> {
        let selected = self.selected;
        if self.operands != 0 && !selected.brief.permute {
            return unfit(Code::OptionAfterOperand, word, "options stand before operands here");
        }
        if let Some(bit) = selected.option(word) {
            if let Some(value) = selected.value(bit) {
                if !value.forms.contains(&Form::Sep) {
                    let reason = "the value is not accepted as a token of its own";
                    return unfit(Code::ValueForm, word, reason);
                }
                self.at += 1;
                let Some(text) = self.words.get(self.at) else {
                    return unfit(Code::ValueMissing, word, "the option needs a value");
                };
                self.trace.option(self.at - 1, Role::Name, bit);
                self.check_value(bit, &value.spec, text)?;
                self.trace.option(self.at, Role::Value, bit);
            } else {
                self.trace.option(self.at, Role::Flag, bit);
            }
            return self.mark(bit);
        }
        if word.starts_with("--") {
            if let Some((name, text)) = word.split_once('=')
                && let Some((bit, spec)) = selected.value_option(name, Form::Eq)
            {
                if text.is_empty() {
                    return unfit(Code::ValueMissing, word, "the value after = is empty");
                }
                self.check_value(bit, spec, text)?;
                self.trace.option(self.at, Role::Joined, bit);
                return self.mark(bit);
            }
        } else if let Some((second, _)) = word.char_indices().nth(2) {
            let (name, text) = word.split_at(second);
            if let Some((bit, spec)) = selected.value_option(name, Form::Att) {
                self.check_value(bit, spec, text)?;
                self.trace.option(self.at, Role::Joined, bit);
                return self.mark(bit);
            }
            if selected.brief.cluster && self.is_cluster(word) {
                return self.mark_cluster(word);
            }
        }
        Err(self.unlisted(word))
    }

    fn is_cluster(&self, word: &str) -> bool {
        letters(word).all(|flag| flag.is_some_and(|flag| self.letter(&flag).is_some()))
    }

    fn letter(&self, flag: &[u8; 2]) -> Option<usize> {
        self.selected.option(std::str::from_utf8(flag).ok()?)
    }

    fn mark_cluster(&mut self, word: &str) -> Result<(), Unfit> {
        self.trace.note(self.at, Role::Cluster);
        for flag in letters(word).flatten() {
            if let Some(bit) = self.letter(&flag) {
                self.mark(bit)?;
            }
        }
        Ok(())
    }

    fn mark(&mut self, bit: usize) -> Result<(), Unfit> {
        if self.seen >> bit & 1 == 1 && !self.selected.may_repeat(bit) {
            let name = &self.selected.opt(bit).name;
            return unfit(Code::FlagRepeated, name, "the option occurs twice");
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
        let template = self.selected.template;
        if let Some((_, why)) = template.forbid.iter().find(|(flag, _)| flag == name) {
            return Unfit::new(Code::FlagForbidden, name.as_bytes(), why.as_str());
        }
        let id = &template.id;
        let short = !word.starts_with("--") && word.chars().nth(2).is_some();
        if short && !joined && !template.cluster {
            let reason = format!("template {id} does not accept it, nor options written as one");
            return Unfit::new(Code::FlagCluster, word.as_bytes(), reason);
        }
        let reason = format!("template {id} does not list this option");
        Unfit::new(Code::FlagUnknown, name.as_bytes(), reason)
    }

    fn check_value(&self, bit: usize, spec: &Spec, text: &str) -> Result<(), Unfit> {
        spec.check(text).map_err(|why| {
            let name = &self.selected.opt(bit).name;
            let reason = format!("the value of {name} {}", explain(spec, why));
            Unfit::new(Code::ValueKind, text.as_bytes(), reason)
        })
    }

    fn check_operands(&self) -> Result<(), Unfit> {
        let plain = self.selected.brief.kind.map(Spec::plain);
        let operands = || &self.selected.template.operands;
        let spec = plain.as_ref().unwrap_or_else(|| &operands().spec);
        let only = if plain.is_some() { None } else { operands().only_sub.as_deref() };
        let places = (0..self.words.len()).filter(|at| self.operands >> at & 1 == 1);
        let mut texts = places.map(|at| self.words[at]);
        let elsewhere = only.is_some_and(|only| self.sub != [only]);
        if (spec.kind == Kind::None || elsewhere)
            && let Some(first) = texts.next()
        {
            let reason = "no operand is accepted here";
            return unfit(Code::OperandUnexpected, first, reason);
        }
        self.check_count(self.operands.count_ones() as usize)?;
        for text in texts {
            if let Err(why) = spec.check(text) {
                let reason = format!("the operand {}", explain(spec, why));
                return Err(Unfit::new(Code::OperandKind, text.as_bytes(), reason));
            }
        }
        Ok(())
    }

    pub(super) fn check_count(&self, count: usize) -> Result<(), Unfit> {
        let (min, max) = self.selected.brief.counts;
        if (usize::from(min)..=usize::from(max)).contains(&count) {
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
