//! Does one act and prints `ok` or the name of the errno. Run inside the sandbox as the attempt,
//! outside as the control.
//!
//! `probe WHERE ACT [ARG…]`: WHERE is ignored, it is the subcommand of the probe's template.
//! `probe WHERE --do=ACT:ARG:… OPERAND…` does the act of its first word; the operands are there
//! for the template only. `probe WHERE all ACT [ARG…] , ACT [ARG…]` does several, a line each.
#![allow(unsafe_code, missing_docs, reason = "a program for tests; raw calls are its purpose")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(unreachable_pub)]
#![allow(clippy::disallowed_methods, clippy::collapsible_if)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless
)]

mod calls;
mod files;
mod neighbours;
mod processes;
mod sockets;

use std::io;

/// What an act gives: a line to print on success.
pub(crate) type Act = io::Result<String>;

fn main() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let words: Vec<&str> = match words.first().and_then(|word| word.strip_prefix("--do=")) {
        Some(act) => act.split(':').collect(),
        None => words.iter().map(String::as_str).collect(),
    };
    if words.first() == Some(&"all") {
        words[1..].split(|word| *word == ",").for_each(|words| println!("{}", done(words)));
    } else {
        println!("{}", done(&words));
    }
}

/// Does an act and says how it went.
fn done(words: &[&str]) -> String {
    let Some((act, args)) = words.split_first() else {
        eprintln!("usage: probe WHERE ACT [ARG...]");
        std::process::exit(2);
    };
    let done = files::act(act, args)
        .or_else(|| sockets::act(act, args))
        .or_else(|| neighbours::act(act, args))
        .or_else(|| processes::act(act, args))
        .or_else(|| calls::act(act, args));
    match done {
        Some(Ok(text)) => text,
        Some(Err(error)) => errno_name(&error),
        None => {
            eprintln!("no such act, or wrong arguments: {words:?}");
            std::process::exit(2);
        }
    }
}

pub(crate) fn ok() -> Act {
    Ok("ok".to_owned())
}

/// Turns the result of a raw call into an act's.
pub(crate) fn result(value: i64) -> Act {
    if value < 0 { Err(io::Error::last_os_error()) } else { ok() }
}

/// Reads a number: decimal, `0x…` or `0o…`.
pub(crate) fn number(text: &str) -> u64 {
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (_, Some(octal)) => u64::from_str_radix(octal, 8),
        _ => text.parse::<i64>().map(|number| number as u64),
    };
    parsed.unwrap_or_else(|_| panic!("not a number: {text}"))
}

pub(crate) fn c(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).expect("no NUL")
}

pub(crate) fn errno_name(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return format!("{error}") };
    format!("{:?}", nix::errno::Errno::from_raw(number))
}
