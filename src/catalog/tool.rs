//! From one `[[tool]]` table to a [`Template`].
//!
//! What a table says is checked against itself here; what two tables say of each other is
//! checked in `index.rs`.
#![forbid(unsafe_code)]

use super::kinds::{Kind, Spec};
use super::lint::TemplateMarks;
use super::options::{
    OPTIONS_MAX, check_cluster, check_forbid, check_hidden, check_option_name, read_groups,
    read_options,
};
use super::parse::{
    check_profile, check_program_name, distinct_list, known_word, one_of, program_name,
    required_list, required_one_of,
};
use super::shape::ARGS_MAX;
use super::template::{Guard, Operands, Scan, Template, UNLISTED};
use crate::record::{Access, Digest, Verdict};
use crate::source::{At, Table, check_variable};

pub(super) const DECISIONS: [(&str, Verdict); 3] =
    [("auto", Verdict::Auto), ("ask", Verdict::Ask), ("refuse", Verdict::Refuse)];

/// Reads one template; `profiles` is absent where the policy itself is faulty.
pub(super) fn read(
    table: &Table<'_>,
    profiles: Option<&[String]>,
) -> Option<(Template, TemplateMarks)> {
    let before = table.source().fault_count();
    let (template, mut marks) = read_all(table, profiles)?;
    table.done();
    check_opaque(table, &template);
    check_hidden(table, &template, &marks.id);
    check_forbid(table, &template, &marks.id);
    marks.is_faulty = table.source().fault_count() > before;
    Some((template, marks))
}

/// Every key is read before a missing one ends the reading, so that none of the others is
/// taken for an unknown one.
fn read_all(table: &Table<'_>, profiles: Option<&[String]>) -> Option<(Template, TemplateMarks)> {
    let (id, describe) = (read_id(table), table.required("describe"));
    let program = program_name(table, "program");
    let aliases = distinct_list(table, "aliases");
    aliases.iter().for_each(|alias| check_program_name(table, alias));
    let subs = read_subs(table);
    let globals = read_globals(table, &subs);
    let (access, decision) = read_decision(table);
    let profile = table.required("profile");
    if let (Some(profile), Some(known)) = (&profile, profiles) {
        check_profile(table, profile, known);
    }
    let options = read_options(table);
    let cluster = table.flag("cluster");
    if cluster {
        check_cluster(table, &options);
    }
    let required_any = read_groups(table, &options);
    let (forbid, permute) = (table.string_map("forbid"), table.flag("permute"));
    let operands = read_operands(table, &subs);
    let limit = |key| at_least_one(table, key, u64::from(u32::MAX));
    let (budget, timeout_s, output_kib) =
        (limit("budget"), limit("timeout_s"), limit("output_kib"));
    let guard = one_of(table, "guard", &[("git", Guard::Git)]);
    let scan = one_of(table, "scan", &[("cpython", Scan::Cpython)]);
    let opaque = table.flag("opaque");
    let (env, sha256, needs) = (read_env(table), read_digest(table), read_needs(table));
    let inject_after_sub = plain(table.strings("inject_after_sub"));
    let (matches, no_matches) = (required_list(table, "match"), required_list(table, "no_match"));
    let (id, program, operands) = (id?, program?, operands?);
    let marks = TemplateMarks {
        id: id.span,
        program: program.span,
        aliases: aliases.iter().map(|alias| alias.span.clone()).collect(),
        access: table.key_span("access"),
        is_faulty: false,
    };
    let template = Template {
        id: id.value,
        program: program.value,
        aliases: plain(aliases),
        subs: subs.into_iter().map(plain).collect(),
        globals,
        describe: describe?.value,
        access: access?,
        decision: decision?,
        profile: profile?.value,
        budget,
        timeout_s,
        output_kib,
        inject_after_sub,
        env,
        guard,
        opaque,
        scan,
        sha256,
        needs,
        matches,
        no_matches,
        operands,
        // More have a fault, but examples of other templates are run all the same.
        options: options.into_iter().take(OPTIONS_MAX).collect(),
        cluster,
        permute,
        required_any,
        forbid: forbid.into_iter().map(|(name, why)| (name.value, why.value)).collect(),
        offset: table.span().start,
    };
    Some((template, marks))
}

fn read_id(table: &Table<'_>) -> Option<At<String>> {
    let id = table.required("id")?;
    if id.value == UNLISTED {
        let title = format!("the id `{UNLISTED}` stands for calls that no template describes");
        table.source().fault(&id.span, title, "give the template another id");
    }
    Some(id)
}

/// Drops the places.
pub(super) fn plain(list: Vec<At<String>>) -> Vec<String> {
    list.into_iter().map(|word| word.value).collect()
}

/// Reads a whole number that is not 0.
pub(super) fn at_least_one(table: &Table<'_>, key: &'static str, max: u64) -> Option<u32> {
    let number = table.number(key, max)?;
    if number.value == 0 {
        table.source().fault(
            &number.span,
            format!("`{key}` must be from 1 to {max}"),
            "leave the key out for no limit of its own",
        );
    }
    u32::try_from(number.value).ok()
}

fn read_subs(table: &Table<'_>) -> Vec<Vec<At<String>>> {
    let (one, mut subs) = (table.strings("sub"), table.string_lists("sub_any"));
    if table.has("sub") && table.has("sub_any") {
        let span = table.key_span("sub_any");
        table.source().fault(
            &span,
            "`sub` and `sub_any` exclude each other",
            "put every alternative into `sub_any`",
        );
    }
    if table.has("sub_any") {
        if subs.is_empty() || subs.iter().any(Vec::is_empty) {
            let span = table.key_span("sub_any");
            table.source().fault(
                &span,
                "`sub_any` must list subcommands of at least one word",
                "write it as [[\"build\"], [\"test\"]]",
            );
        }
    } else {
        subs = vec![one];
    }
    for word in subs.iter().flatten() {
        if word.value.is_empty() || word.value.starts_with('-') {
            let title = "a subcommand is a word that does not start with `-`";
            table.source().fault(
                &word.span,
                title,
                "list options in `flags`, and those before the subcommand in `globals`",
            );
        }
    }
    subs
}

fn read_globals(table: &Table<'_>, subs: &[Vec<At<String>>]) -> Vec<String> {
    let globals = distinct_list(table, "globals");
    globals.iter().for_each(|flag| check_option_name(table, flag));
    if !globals.is_empty() && subs.iter().all(Vec::is_empty) {
        let hint = "without a subcommand, list them in `flags`";
        table.source().fault(&table.key_span("globals"), "`globals` needs `sub`", hint);
    }
    plain(globals)
}

fn read_decision(table: &Table<'_>) -> (Option<Access>, Option<Verdict>) {
    let access = table.required_word("access").and_then(|word| {
        let known = [Access::None, Access::ReadOnly, Access::WorkspaceWrite, Access::Network]
            .map(|access| (access.as_str(), access));
        known_word(table, "access", &word, &known)
    });
    let decision = required_one_of(table, "decision", &DECISIONS);
    if decision == Some(Verdict::Auto) && access == Some(Access::Network) {
        let span = table.key_span("decision");
        let hint = "use decision = \"ask\"";
        table.source().fault(&span, "`network` is never `auto`", hint);
    }
    (access, decision)
}

/// Reads a kind, which is one of `known`, and its refinements.
pub(super) fn read_spec(table: &Table<'_>, known: &[(&str, Kind)]) -> Option<Spec> {
    let kind = required_one_of(table, "kind", known);
    let spec = Spec {
        kind: kind.unwrap_or(Kind::None),
        of: plain(distinct_list(table, "of")),
        not: plain(distinct_list(table, "not")),
        dot: table.flag("dot"),
        under: table.string("under").map(|under| under.value),
        ext: plain(distinct_list(table, "ext")),
    };
    let kind = kind?;
    for (key, fits) in [
        ("of", kind == Kind::Choice),
        ("not", kind.is_path()),
        ("dot", kind == Kind::Path),
        ("under", kind.is_path()),
        ("ext", kind.is_path()),
    ] {
        if table.has(key) && !fits {
            let title = format!("`{key}` has no meaning for this kind");
            table.source().fault(
                &table.key_span(key),
                title,
                "take it out, or choose the kind that has it",
            );
        }
    }
    if kind == Kind::Choice && spec.of.is_empty() {
        table.source().fault(
            table.span(),
            "a `choice` needs `of`",
            "list the accepted words in `of`",
        );
    }
    let one_part = |part: &String| !part.is_empty() && !part.contains('/') && part != "..";
    if !spec.under.iter().all(one_part) {
        table.source().fault(
            &table.key_span("under"),
            "`under` must be the name of one folder",
            "name one folder, without `/`",
        );
    }
    if !spec.ext.iter().all(|ext| one_part(ext) && !ext.starts_with('.')) {
        table.source().fault(
            &table.key_span("ext"),
            "`ext` lists endings without their dot",
            "write \"sh\" for names that end in .sh",
        );
    }
    Some(spec)
}

fn read_operands(table: &Table<'_>, subs: &[Vec<At<String>>]) -> Option<Operands> {
    let Some(operands) = table.table("operands") else {
        if !table.has("operands") {
            table.missing("operands");
        }
        return None;
    };
    let spec = read_spec(&operands, Kind::ALL);
    // The program itself is one element of the vector.
    let counts_max = ARGS_MAX as u64 - 1;
    let (min, max) = (operands.number("min", counts_max), operands.number("max", counts_max));
    let only_sub = operands.string("only_sub");
    operands.done();
    let spec = spec?;
    let is_none = spec.kind == Kind::None;
    if is_none && (min.is_some() || max.is_some() || only_sub.is_some()) {
        table.source().fault(
            operands.span(),
            "the kind `none` has no count",
            "take `min`, `max` and `only_sub` out",
        );
    } else if !is_none && !operands.has("max") {
        operands.missing("max");
    }
    if let (Some(min), Some(max)) = (&min, &max)
        && min.value > max.value
    {
        table.source().fault(
            &min.span,
            "`min` is greater than `max`",
            "no call could fit; lower `min` or raise `max`",
        );
    }
    if let Some(only) = &only_sub
        && !subs.iter().any(|sub| matches!(sub.as_slice(), [word] if word.value == only.value))
    {
        table.source().fault(
            &only.span,
            "`only_sub` is not a subcommand of this template",
            "name one of `sub_any`, as one word",
        );
    }
    let count = |at: Option<At<u64>>| at.and_then(|at| usize::try_from(at.value).ok());
    let (min, max) = (count(min).unwrap_or(0), count(max).unwrap_or(0));
    Some(Operands { spec, min, max, only_sub: only_sub.map(|only| only.value) })
}

fn read_env(table: &Table<'_>) -> Vec<(String, String)> {
    let mut env = Vec::new();
    for (name, value) in table.string_map("env") {
        if let Err(fault) = check_variable(&name.value) {
            table.source().fault(
                &name.span,
                format!("`{}`: {fault}", name.value),
                "letters, digits and _, not a digit first; no LD_*, no GLIBC_TUNABLES",
            );
        }
        if value.value.contains('\0') {
            table.source().fault(&value.span, "the value contains NUL", "take it out");
        }
        env.push((name.value, value.value));
    }
    env
}

fn read_digest(table: &Table<'_>) -> Option<Digest> {
    let text = table.string("sha256")?;
    let digest = Digest::from_hex(text.value.strip_prefix("sha256:").unwrap_or(&text.value));
    if digest.is_none() {
        table.source().fault(
            &text.span,
            "`sha256` must be 64 hexadecimal digits",
            "write what `sha256sum FILE` prints",
        );
    }
    digest
}

fn read_needs(table: &Table<'_>) -> Option<String> {
    let path = table.string("needs")?;
    if let Err(why) = Spec::plain(Kind::File).check(&path.value) {
        let title = format!("`needs` {why}");
        table.source().fault(&path.span, title, "name a file of the project by a relative path");
    }
    Some(path.value)
}

fn check_opaque(table: &Table<'_>, template: &Template) {
    let source = table.source();
    if template.opaque != (template.operands.spec.kind == Kind::Opaque) {
        let title = "`opaque` and operands of the kind `opaque` need each other";
        source.fault(
            &table.key_span("operands"),
            title,
            "an interpreter has both; others list their options and operands",
        );
    }
    if !template.opaque {
        if table.has("scan") {
            source.fault(
                &table.key_span("scan"),
                "`scan` needs `opaque`",
                "take it out, or set opaque = true",
            );
        }
        return;
    }
    if template.decision == Verdict::Auto {
        let span = table.key_span("decision");
        source.fault(&span, "`opaque` is never `auto`", "use decision = \"ask\"");
    }
    let unread = ["flags", "values", "repeat", "cluster", "permute", "required_any", "forbid"];
    for key in unread.into_iter().chain(["inject_after_sub"]) {
        if table.has(key) {
            let title = format!("`{key}` has no meaning in an opaque template");
            source.fault(
                &table.key_span(key),
                title,
                "take it out: any arguments fit, and a person reads them",
            );
        }
    }
}
