//! The options of one template: flags, value options in their forms, and groups of which one must
//! be there.
#![forbid(unsafe_code)]

use super::kinds::Kind;
use super::parse::{distinct_list, known_word, required_list};
use super::template::{Form, Group, Opt, Template, Value};
use super::tool::{plain, read_spec};
use crate::source::{At, Table};
use std::ops::Range;

/// Most flags and value options of one template, so that one word of bits can hold them.
pub(super) const OPTIONS_MAX: usize = 64;

const FORMS: [(&str, Form); 3] = [("sep", Form::Sep), ("eq", Form::Eq), ("att", Form::Att)];

pub(super) fn read_options(table: &Table<'_>) -> Vec<Opt> {
    let mut options: Vec<Opt> = Vec::new();
    let mut listed = 0;
    let mut add = |name: At<String>, value| {
        check_option_name(table, &name);
        listed += 1;
        if options.iter().any(|opt| opt.name == name.value) {
            let title = format!("the option `{}` is listed twice", name.value);
            table.source().fault(&name.span, title, "keep one of them");
        } else {
            options.push(Opt { name: name.value, value, repeat: false });
        }
    };
    table.strings("flags").into_iter().for_each(|flag| add(flag, None));
    table.each_table("values", |value| {
        let name = value.required("name");
        let kind = read_spec(value, Kind::OF_VALUES);
        let forms = name.as_ref().map(|name| read_forms(value, name)).unwrap_or_default();
        if name.is_none() {
            value.strings("forms");
        }
        if let (Some(name), Some(spec)) = (name, kind) {
            add(name, Some(Box::new(Value { spec, forms })));
        }
    });
    if listed > OPTIONS_MAX {
        let title = format!("{listed} flags and values, at most {OPTIONS_MAX} fit");
        table.source().fault(
            table.span(),
            title,
            "split the template by subcommand, or leave rare options out",
        );
    }
    for name in distinct_list(table, "repeat") {
        match options.iter_mut().find(|opt| opt.name == name.value) {
            Some(opt) => opt.repeat = true,
            None => undeclared(table, "repeat", &name),
        }
    }
    options.sort_by(|a, b| a.order_to(&b.name));
    options
}

fn undeclared(table: &Table<'_>, key: &str, name: &At<String>) {
    let title = format!("`{key}` names `{}`, which is not in `flags` or `values`", name.value);
    table.source().fault(&name.span, title, "add it there, or take it out here");
}

pub(super) fn check_option_name(table: &Table<'_>, name: &At<String>) {
    let text = name.value.as_str();
    let fits = text.len() >= 2 && text != "--" && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !text.starts_with('-') || !fits {
        let title = format!("`{text}` is not an option: `-`, then printable ASCII");
        table.source().fault(
            &name.span,
            title,
            "write it as it is typed, such as `-n` or `--name`",
        );
    }
}

fn read_forms(value: &Table<'_>, name: &At<String>) -> Vec<Form> {
    let long = name.value.starts_with("--");
    if name.value.contains('=') || (!long && name.value.len() != 2) {
        let title = format!("`{}` cannot take a value", name.value);
        let hint = "a value option is `-x` or `--name`, without `=`";
        value.source().fault(&name.span, title, hint);
    }
    let mut forms = Vec::new();
    for word in required_list(value, "forms") {
        let form = known_word(value, "forms", &word, &FORMS);
        if form == Some(Form::Att) && long {
            value.source().fault(
                &word.span,
                "`att` needs an option of one letter",
                "use \"eq\" for --name=VALUE",
            );
        }
        if form == Some(Form::Eq) && !long {
            value.source().fault(
                &word.span,
                "`eq` needs an option that starts with `--`",
                "use \"att\" for -nVALUE",
            );
        }
        forms.extend(form);
    }
    forms
}

pub(super) fn check_cluster(table: &Table<'_>, options: &[Opt]) {
    let letter = |opt: &Opt| {
        opt.value.is_none()
            && matches!(opt.name.as_bytes(), [b'-', letter] if letter.is_ascii_alphanumeric())
    };
    if !options.iter().all(letter) {
        let hint = "list flags of one letter or digit only, and no values";
        table.source().fault(
            &table.key_span("cluster"),
            "`cluster` would make other options ambiguous",
            hint,
        );
    }
}

pub(super) fn read_groups(table: &Table<'_>, options: &[Opt]) -> Vec<Group> {
    let mut groups = Vec::new();
    for names in table.string_lists("required_any") {
        if names.is_empty() {
            let title = "a group of `required_any` is empty: nothing could satisfy it";
            table.source().fault(
                &table.key_span("required_any"),
                title,
                "name at least one option in each group",
            );
        }
        let mut mask = 0;
        for name in &names {
            match options.iter().position(|opt| opt.name == name.value) {
                Some(bit) if bit < OPTIONS_MAX => mask |= 1 << bit,
                Some(_) => {}
                None => undeclared(table, "required_any", name),
            }
        }
        groups.push(Group { names: plain(names), mask });
    }
    groups
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
pub(super) fn check_hidden(table: &Table<'_>, template: &Template, id: &Range<usize>) {
    let options = &template.options;
    for flag in options {
        if let Some(hidden) = options.iter().find(|opt| joins(opt, &flag.name)) {
            let title = format!("`{}` is also `{}` with a value", flag.name, hidden.name);
            let hint = "take it out; the other one accepts it where its kind does";
            table.source().fault(id, title, hint);
        }
    }
}

/// Checks that `forbid` names nothing that the template accepts, so that it can only choose
/// words.
pub(super) fn check_forbid(table: &Table<'_>, template: &Template, id: &Range<usize>) {
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
            table.source().fault(id, title, hint);
        }
    }
}
