//! The words of a refusal: what did not fit, and what to do next.
//!
//! Nothing here decides. Text is built only once a call is refused, and every piece of the
//! request in it is escaped and cut.
#![forbid(unsafe_code)]

use super::template::{Instead, ListedRefusal, Program, Template};
use crate::record::{Code, Refusal, Text};

/// Most bytes of one element that a refusal shows.
const SHOWN_BYTES_MAX: usize = 200;

/// What did not fit, before the next action is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) code: Code,
    what: String,
    reason: String,
}

impl Unfit {
    pub(super) fn new(code: Code, what: &[u8], reason: impl Into<String>) -> Self {
        Self { code, what: shown(what), reason: reason.into() }
    }

    /// Shows every character that is not ASCII by its number: it could pass for one that is.
    pub(super) fn looks_alike(code: Code, what: &str, reason: &str) -> Self {
        let plain = |ch: char| ch.is_ascii_graphic() || ch == ' ';
        let escape = |ch: char| {
            if plain(ch) && ch != '\\' { ch.to_string() } else { ch.escape_default().to_string() }
        };
        let what = what.chars().take(SHOWN_BYTES_MAX).map(escape).collect();
        Self { code, what, reason: reason.to_owned() }
    }

    fn next(self, next: impl Into<String>) -> Refusal {
        Refusal::new(self.code, self.what, self.reason, next)
    }
}

/// Escapes an element of the request and cuts it.
pub(super) fn shown(bytes: &[u8]) -> String {
    let Some(start) = bytes.get(..SHOWN_BYTES_MAX) else {
        return Text(bytes.to_vec()).escaped();
    };
    let end = std::str::from_utf8(start).map_or_else(|fault| fault.valid_up_to(), str::len);
    // A cut inside a character loses at most three bytes; more is text that is not UTF-8.
    let end = if end + 3 < start.len() { start.len() } else { end };
    Text(start[..end].to_vec()).escaped() + "…"
}

/// A vector that is not well formed.
pub(super) fn shape(unfit: Unfit) -> Refusal {
    let next = match unfit.code {
        Code::EmptyCall => "give the program and its arguments as a list of strings",
        Code::TooManyArgs | Code::ArgTooLong => "split the call into smaller ones",
        Code::EmptyArg => "leave the empty argument out",
        Code::DoubleDash => "leave `--` out; no operand starts with `-`",
        Code::ProgramPath => "call the program by its bare name",
        Code::ProgramName => "name one program; variables, paths and shell text are not accepted",
        _ => "remove the character",
    };
    unfit.next(next)
}

/// A line that is no argument vector.
pub(super) fn line(unfit: Unfit) -> Refusal {
    let next = match unfit.code {
        Code::LineTooLong => "split the call, or put the text into a file of the workspace",
        Code::EmptyCall => "name a program and its arguments",
        Code::Assignment => "leave it out; the operator's catalog sets a command's variables",
        Code::UnterminatedQuote => "close the quotation, or give the arguments as a list",
        _ => "call one program per request; quote what is meant as it is; use write_file for files",
    };
    unfit.next(next)
}

/// An interpreter's argv that reaches what only its own template may reach.
pub(super) fn interpreter(code: Code, what: &str) -> Refusal {
    let (reason, next) = match code {
        Code::InterpreterOption => {
            ("the interpreter itself refuses this option", "leave the option out")
        }
        Code::InterpreterStdin => (
            "it would read its program from standard input",
            "put the program into a file of the workspace and name the file",
        ),
        Code::ModuleRunner => (
            "this module runs other modules, or installs some",
            "run the module that is meant by its own name, or a file of the workspace",
        ),
        _ => ("this reaches the inside of an installed package", "call pip by one of its commands"),
    };
    Unfit::new(code, what.as_bytes(), reason).next(next)
}

/// A program that has no template.
pub(super) fn unknown(name: &str, instead: Option<&Instead>) -> Refusal {
    let shown = shown(name.as_bytes());
    let mut refusal = match instead {
        Some(entry) => {
            Refusal::new(Code::Instead, shown, entry.reason.as_str(), entry.replacement.as_str())
        }
        None => {
            let next = format!(
                "ask the operator to add an entry for it to the catalog: [[tool]] \
                 id = \"{shown}\", program = \"{shown}\", with describe, access, decision, \
                 profile, operands, match and no_match"
            );
            let reason = "the catalog has no template for this program";
            Refusal::new(Code::UnknownProgram, shown, reason, next)
        }
    };
    refusal.counted = true;
    refusal
}

/// A subcommand that the catalog lists as refused.
pub(super) fn listed(program: &str, sub: &str, entry: &ListedRefusal) -> Refusal {
    let what = shown(format!("{program} {sub}").as_bytes());
    Refusal::new(Code::ListedRefusal, what, entry.reason.as_str(), entry.next.as_str())
}

/// The words behind a program that lead to no template.
pub(super) fn subcommand(unfit: Unfit, name: &str, program: &Program) -> Refusal {
    const SHOWN_MAX: usize = 16;
    let all = program.routes.iter().take(SHOWN_MAX);
    let list: Vec<_> = all.map(|route| format!("{name} {}", route.sub.join(" "))).collect();
    let more = if program.routes.len() > SHOWN_MAX { ", …" } else { "" };
    unfit.next(format!("the catalog has: {}{more}", list.join(", ")))
}

/// An argv that does not fit the template that its program and subcommand select.
pub(super) fn argv(unfit: Unfit, template: &Template) -> Refusal {
    let example = template.matches.first().map_or("", |line| &line.value);
    let mut next = format!("try: {example}");
    let is_flag = matches!(
        unfit.code,
        Code::FlagUnknown | Code::FlagCluster | Code::ValueForm | Code::FlagForbidden
    );
    if is_flag {
        let names: Vec<_> = template.options.iter().map(|opt| opt.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        next = format!("{next}; accepted options: {names}");
    }
    unfit.next(next)
}

/// An argv that fits a template whose decision is to refuse.
pub(super) fn template_refuses(argv: &[std::ffi::OsString], template: &Template) -> Refusal {
    use std::os::unix::ffi::OsStrExt;
    let argv: Vec<_> = argv.iter().map(|word| word.as_bytes()).collect();
    let reason = format!("the catalog refuses what fits its template {}", template.id);
    let next = "ask the operator to run it, or to change the template's decision";
    Unfit::new(Code::ListedRefusal, &argv.join(&b' '), reason).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_request_is_escaped_and_cut() {
        assert_eq!(shown(b"a\x1b"), r"a\u{1b}");
        let long = shown("é".repeat(150).as_bytes());
        assert_eq!(long, "é".repeat(100) + "…");
        let odd = format!("a{}", "é".repeat(150));
        assert_eq!(shown(odd.as_bytes()), format!("a{}…", "é".repeat(99)));
        assert!(shown(&[0xff; 9000]).len() < 1000);
    }
}
