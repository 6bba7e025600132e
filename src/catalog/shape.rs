//! Shape: whether an argument vector is well formed, before anything is looked up.
//!
//! Works on bytes and hands out text, so that what is matched later cannot be read in two
//! ways. Every limit ends in a refusal, never in a weaker check.
#![forbid(unsafe_code)]

use super::answer::{self, Unfit};
use super::template::Limits;
use crate::record::{Code, Refusal};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Most elements that an argument vector may have, whatever the catalog says.
pub const ARGS_MAX: usize = 64;

/// Most bytes that an element may have, whatever the catalog says.
pub const ARG_BYTES_MAX: usize = 4096;

/// Checks an argument vector element by element; the first fault is the one reported. Gives 1 to
/// [`ARGS_MAX`] elements of sound text, for which `room` has the place.
pub(super) fn check<'a, 'r>(
    argv: &'a [OsString],
    limits: &Limits,
    room: &'r mut [&'a str; ARGS_MAX],
) -> Result<&'r [&'a str], Refusal> {
    if argv.is_empty() {
        return Err(answer::shape(Unfit::new(Code::EmptyCall, b"", "the vector is empty")));
    }
    let args_max = limits.args.min(ARGS_MAX);
    if argv.len() > args_max {
        let reason = format!("{} elements, at most {args_max} are accepted", argv.len());
        return Err(answer::shape(Unfit::new(Code::TooManyArgs, argv[0].as_bytes(), reason)));
    }
    let words = &mut room[..argv.len()];
    for (word, element) in words.iter_mut().zip(argv) {
        *word = check_element(element.as_bytes(), limits).map_err(answer::shape)?;
    }
    check_program(words[0]).map_err(answer::shape)?;
    Ok(words)
}

fn check_element<'a>(bytes: &'a [u8], limits: &Limits) -> Result<&'a str, Unfit> {
    let unfit = |code, reason: &str| Err(Unfit::new(code, bytes, reason));
    if bytes.is_empty() {
        return unfit(Code::EmptyArg, "an argument is empty");
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return unfit(Code::NotUtf8, "an argument is not UTF-8");
    };
    if bytes.len() > limits.arg_bytes {
        let reason = format!("{} bytes, at most {} are accepted", bytes.len(), limits.arg_bytes);
        return unfit(Code::ArgTooLong, &reason);
    }
    // Almost every element is printable ASCII, of which no character needs a look of its own.
    let is_plain = bytes.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    if !is_plain && let Some((code, reason)) = text.chars().find_map(stray) {
        return unfit(code, reason);
    }
    if text == "--" {
        return unfit(Code::DoubleDash, "no template accepts `--`");
    }
    Ok(text)
}

/// Says what is wrong with a character that no element may have.
fn stray(ch: char) -> Option<(Code, &'static str)> {
    match ch {
        '\0' => Some((Code::Nul, "an argument has a NUL byte")),
        '\n' | '\t' => None,
        _ if ch.is_control() => Some((Code::ControlChar, "a control character")),
        '\u{200B}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}'
        | '\u{FEFF}' => Some((Code::InvisibleChar, "a character that a reader does not see")),
        _ => None,
    }
}

fn check_program(name: &str) -> Result<(), Unfit> {
    if name.contains('/') {
        let reason = "a program is called by its bare name, never by a path";
        return Err(Unfit::new(Code::ProgramPath, name.as_bytes(), reason));
    }
    if !is_program_name(name) {
        let reason = "no program has such a name";
        return Err(Unfit::looks_alike(Code::ProgramName, name, reason));
    }
    Ok(())
}

/// Tells whether a text can be the bare name of a program.
pub(super) fn is_program_name(name: &str) -> bool {
    let fits = |byte: u8, more: &[u8]| byte.is_ascii_alphanumeric() || more.contains(&byte);
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| fits(first, b"_.")) && bytes.all(|byte| fits(byte, b"._+-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn code(argv: &[&[u8]]) -> Option<Code> {
        let argv: Vec<_> = argv.iter().map(|arg| OsString::from_vec(arg.to_vec())).collect();
        check(&argv, &Limits::default(), &mut [""; ARGS_MAX]).err().map(|refusal| refusal.code)
    }

    #[test]
    fn each_fault_of_shape_has_its_code() {
        let long = [b'a'; 4097];
        assert_eq!(code(&[]), Some(Code::EmptyCall));
        assert_eq!(code(&[b"a".as_slice(); 65]), Some(Code::TooManyArgs));
        assert_eq!(code(&[b"a".as_slice(); 64]), None);
        assert_eq!(code(&[b"a", b""]), Some(Code::EmptyArg));
        assert_eq!(code(&[b"a", &long]), Some(Code::ArgTooLong));
        assert_eq!(code(&[b"a", &long[..4096]]), None);
        assert_eq!(code(&[b"a", b"\xff"]), Some(Code::NotUtf8));
        assert_eq!(code(&[b"a", b"\xed\xa0\x80"]), Some(Code::NotUtf8));
        assert_eq!(code(&[b"a", b"x\0"]), Some(Code::Nul));
        assert_eq!(code(&[b"a", b"x\r"]), Some(Code::ControlChar));
        assert_eq!(code(&[b"a", "\u{85}".as_bytes()]), Some(Code::ControlChar));
        assert_eq!(code(&[b"a", b"x\n\ty"]), None);
        assert_eq!(code(&[b"a", "\u{202e}".as_bytes()]), Some(Code::InvisibleChar));
        assert_eq!(code(&[b"a", b"--"]), Some(Code::DoubleDash));
        assert_eq!(code(&[b"./a"]), Some(Code::ProgramPath));
        assert_eq!(code(&[b"a b"]), Some(Code::ProgramName));
        assert_eq!(code(&[b"-a"]), Some(Code::ProgramName));
    }

    #[test]
    fn the_leftmost_fault_is_reported() {
        assert_eq!(code(&[b"/bin/ls", b"--", b""]), Some(Code::DoubleDash));
        assert_eq!(code(&[b"ls", b"", b"\xff"]), Some(Code::EmptyArg));
        assert_eq!(code(&[b"ls", b"\x01\0"]), Some(Code::ControlChar));
    }
}
