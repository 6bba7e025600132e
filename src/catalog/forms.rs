//! The templates, and of each what nearly every call meets.
//!
//! Where there are thousands of templates, a decision waits for memory more than for anything
//! else. So the little that decides most calls is packed into two short tables, and a template
//! itself is read only where a call has a value, or operands that more than their kind bounds.
//! Whatever stands here twice is made here, from the templates, which do not change afterwards.
#![forbid(unsafe_code)]

use super::kinds::{Kind, Spec};
use super::template::{Form, Opt, Scan, Template, Value};
use crate::record::Verdict;
use std::ops::Deref;

/// The bytes of an option's name that its key holds, beside its length.
const KEY_NAME_BYTES: usize = 15;

/// The templates of a catalog, in the order of the file.
#[derive(Debug)]
pub(super) struct Templates {
    list: Vec<Template>,
    briefs: Vec<Brief>,
    /// Of every option of every template, in their order.
    keys: Vec<u128>,
}

/// A template in brief.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brief {
    pub(super) verdict: Verdict,
    pub(super) opaque: bool,
    pub(super) scan: Option<Scan>,
    pub(super) cluster: bool,
    pub(super) permute: bool,
    /// Whether some options are required.
    pub(super) grouped: bool,
    /// The operands' kind, where nothing else bounds what they are.
    pub(super) kind: Option<Kind>,
    /// How many operands at least and at most.
    pub(super) counts: (u8, u8),
    /// One bit for each option that takes a value.
    valued: u64,
    /// One bit for each option that may occur more than once.
    repeated: u64,
    first_key: usize,
    options: u8,
}

/// A template that a call selects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selected<'c> {
    pub(super) template: &'c Template,
    pub(super) brief: &'c Brief,
    keys: &'c [u128],
}

impl Deref for Templates {
    type Target = [Template];

    fn deref(&self) -> &[Template] {
        &self.list
    }
}

impl Templates {
    pub(super) fn new(list: Vec<Template>) -> Self {
        let (mut briefs, mut keys) = (Vec::with_capacity(list.len()), Vec::new());
        for template in &list {
            briefs.push(Brief::new(template, keys.len()));
            keys.extend(template.options.iter().map(|opt| key(&opt.name)));
        }
        Self { list, briefs, keys }
    }

    /// Gives the templates back, to be changed.
    pub(super) fn into_list(self) -> Vec<Template> {
        self.list
    }

    pub(super) fn select(&self, number: usize) -> Selected<'_> {
        let brief = &self.briefs[number];
        let keys = &self.keys[brief.first_key..][..usize::from(brief.options)];
        Selected { template: &self.list[number], brief, keys }
    }
}

impl Brief {
    fn new(template: &Template, first_key: usize) -> Self {
        let options = &template.options;
        let bits = |has: fn(&Opt) -> bool| {
            let bit = |(bit, opt)| u64::from(has(opt)) << bit;
            options.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
        };
        let operands = &template.operands;
        let is_plain = operands.spec == Spec::plain(operands.spec.kind);
        let byte = |count| u8::try_from(count).unwrap_or(u8::MAX);
        Self {
            verdict: template.decision,
            opaque: template.opaque,
            scan: template.scan,
            cluster: template.cluster,
            permute: template.permute,
            grouped: !template.required_any.is_empty(),
            kind: (is_plain && operands.only_sub.is_none()).then_some(operands.spec.kind),
            counts: (byte(operands.min), byte(operands.max)),
            valued: bits(|opt| opt.value.is_some()),
            repeated: bits(|opt| opt.repeat),
            first_key,
            options: byte(options.len()),
        }
    }
}

impl<'c> Selected<'c> {
    /// Finds a flag or value option by its exact name; the index is its bit in a seen-set.
    pub(super) fn option(&self, name: &str) -> Option<usize> {
        let wanted = key(name);
        let same = |index| name.len() < KEY_NAME_BYTES || self.opt(index).name == name;
        let keys = self.keys.iter().enumerate();
        keys.filter(|(_, key)| **key == wanted).map(|(index, _)| index).find(|index| same(*index))
    }

    pub(super) fn opt(&self, index: usize) -> &'c Opt {
        &self.template.options[index]
    }

    /// Returns what an option takes as its value.
    pub(super) fn value(&self, index: usize) -> Option<&'c Value> {
        let takes_one = self.brief.valued >> index & 1 == 1;
        takes_one.then(|| self.opt(index).value.as_deref()).flatten()
    }

    pub(super) fn may_repeat(&self, index: usize) -> bool {
        self.brief.repeated >> index & 1 == 1
    }

    /// Finds a value option that may be written in the given form.
    pub(super) fn value_option(&self, name: &str, form: Form) -> Option<(usize, &'c Spec)> {
        let index = self.option(name)?;
        let value = self.value(index)?;
        value.forms.contains(&form).then_some((index, &value.spec))
    }
}

/// Packs the start of a name and its length. Two names of less than [`KEY_NAME_BYTES`] bytes have
/// the same key only if they are the same.
fn key(name: &str) -> u128 {
    let start = name.len().min(KEY_NAME_BYTES);
    let mut bytes = [0; KEY_NAME_BYTES + 1];
    bytes[..start].copy_from_slice(&name.as_bytes()[..start]);
    bytes[KEY_NAME_BYTES] = u8::try_from(start).unwrap_or(u8::MAX);
    u128::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::source::Source;

    #[test]
    fn an_option_is_found_by_its_whole_name_only() {
        let name = |length: usize| format!("--{}", "x".repeat(length - 2));
        let lengths = [3, 13, 14, 15, 16, 17, 40];
        let listed: Vec<String> =
            lengths.iter().step_by(2).map(|length| format!("\"{}\"", name(*length))).collect();
        let text = format!(
            "schema = 1\nname = \"t\"\n[policy]\npath = [\"/bin\"]\nprofiles = [\"look\"]\n\
             [[tool]]\nid = \"a\"\nprogram = \"a\"\ndescribe = \"d\"\ndecision = \"auto\"\n\
             access = \"none\"\nprofile = \"look\"\nmatch = [\"a\"]\nno_match = [\"b\"]\n\
             operands = {{ kind = \"none\" }}\nflags = [\"-x\", {}]\n",
            listed.join(", ")
        );
        let catalog = Catalog::parse(Source::new("c.toml", text)).expect("sound");
        let selected = catalog.templates.select(0);
        for length in 2..50 {
            let name = name(length);
            let found = selected.option(&name).map(|index| &selected.opt(index).name);
            let wanted = selected.template.options.iter().map(|opt| &opt.name);
            assert_eq!(found, wanted.clone().find(|known| **known == name), "{name}");
            assert_eq!(found.is_some(), lengths.iter().step_by(2).any(|known| *known == length));
        }
        for name in ["-x\0", "-", "", "-X"] {
            assert_eq!(selected.option(name), None, "{name:?}");
        }
        assert!(selected.option("-x").is_some());
    }
}
