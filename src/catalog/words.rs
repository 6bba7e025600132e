//! Lines: one line of text to one argument vector, or a refusal.
//!
//! The accepted language is tiny, because what it yields is executed as it is and no shell ever
//! reads the line: wherever a shell would do anything but pass the characters on, the line is
//! refused. Works on bytes; every character with a meaning is ASCII, so text of any script passes
//! as it is, and the shape check judges it afterwards.
#![forbid(unsafe_code)]

use super::answer::Unfit;
use super::kinds::table;
use crate::record::Code;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Characters that a shell acts on wherever they stand outside quotes. `~` and `#` depend on the
/// place and are looked at apart.
const META: &[u8] = b"|&;<>()$`\\*?[]{}!";

/// Characters that stand for themselves wherever they stand.
const PLAIN: [bool; 256] = table(true, true, b"_-./,+%@^");

/// Splits a line of at most `bytes_max` bytes into words.
pub(super) fn split(line: &[u8], bytes_max: usize) -> Result<Vec<OsString>, Unfit> {
    if line.len() > bytes_max {
        let reason = format!("{} bytes, at most {bytes_max} are accepted", line.len());
        return Err(Unfit::new(Code::LineTooLong, line, reason));
    }
    let mut splitter = Splitter { line, at: 0, word: None, words: Vec::new() };
    loop {
        splitter.plain();
        let Some(byte) = splitter.next() else { break };
        splitter.take(byte)?;
    }
    splitter.end_word();
    if splitter.words.is_empty() {
        return Err(Unfit::new(Code::EmptyCall, line, "the line has no word"));
    }
    Ok(splitter.words)
}

struct Splitter<'l> {
    line: &'l [u8],
    at: usize,
    /// The word being read, also where it is empty so far because of a pair of quotes.
    word: Option<Vec<u8>>,
    words: Vec<OsString>,
}

impl Splitter<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.line.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes the plain bytes that come next.
    fn plain(&mut self) {
        let rest = &self.line[self.at..];
        let end = rest.iter().position(|byte| !PLAIN[usize::from(*byte)]).unwrap_or(rest.len());
        if end > 0 {
            self.word().extend_from_slice(&rest[..end]);
            self.at += end;
        }
    }

    /// Takes one byte outside quotes.
    fn take(&mut self, byte: u8) -> Result<(), Unfit> {
        match byte {
            b' ' | b'\t' => self.end_word(),
            b'\'' => self.single()?,
            b'"' => self.double()?,
            _ if byte.is_ascii_control() => {
                let reason = match byte {
                    b'\n' | b'\r' => "a line break ends a shell's command; give one command only",
                    _ => "it has a control character outside quotes",
                };
                return Err(self.unfit(Code::ShellMeta, reason));
            }
            _ if META.contains(&byte) => return Err(self.meta(byte)),
            b'#' | b'~' if self.word.is_none() => return Err(self.meta(byte)),
            // A shell expands it there in words that look like assignments.
            b'~' if matches!(self.word().last(), Some(b'=' | b':')) => {
                return Err(self.meta(byte));
            }
            b'=' if self.words.is_empty() && is_variable(self.word()) => {
                let reason = "a variable in front of the program is not accepted";
                return Err(self.unfit(Code::Assignment, reason));
            }
            _ => self.word().push(byte),
        }
        Ok(())
    }

    fn word(&mut self) -> &mut Vec<u8> {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take().map(OsString::from_vec));
    }

    /// Reads to the end of a pair of single quotes: every byte stands for itself.
    fn single(&mut self) -> Result<(), Unfit> {
        let rest = &self.line[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\'') else {
            return Err(self.unfit(Code::UnterminatedQuote, "a ' has no second one"));
        };
        self.at += end + 1;
        self.word().extend_from_slice(&rest[..end]);
        Ok(())
    }

    /// Reads to the end of a pair of double quotes: every byte stands for itself, but `\` takes
    /// the meaning of `$`, `` ` ``, `"` and `\` away.
    fn double(&mut self) -> Result<(), Unfit> {
        self.word();
        loop {
            let open = "a \" has no second one";
            let byte = self.next().ok_or_else(|| self.unfit(Code::UnterminatedQuote, open))?;
            match byte {
                b'"' => return Ok(()),
                b'$' | b'`' => return Err(self.meta(byte)),
                b'\\' => match self.next() {
                    None => return Err(self.unfit(Code::UnterminatedQuote, open)),
                    Some(b'\n') => {
                        let reason = "a \\ before a line break joins lines; write one line";
                        return Err(self.unfit(Code::ShellMeta, reason));
                    }
                    Some(escaped @ (b'$' | b'`' | b'"' | b'\\')) => self.word().push(escaped),
                    Some(other) => self.word().extend([b'\\', other]),
                },
                _ => self.word().push(byte),
            }
        }
    }

    fn meta(&self, byte: u8) -> Unfit {
        let means = match byte {
            b'|' | b'&' | b';' => "joins commands",
            b'<' | b'>' => "redirects a stream",
            b'$' | b'`' => "puts in the value of something else",
            b'*' | b'?' | b'[' | b']' => "puts in names of files",
            b'{' | b'}' => "makes several words, or a group",
            b'~' => "puts in the name of a home",
            b'#' => "starts a comment",
            b'\\' => "changes the meaning of what follows",
            _ => "has a meaning of its own",
        };
        let reason = format!("`{}` {means} in a shell, and no shell reads this", byte as char);
        self.unfit(Code::ShellMeta, &reason)
    }

    /// A fault that shows the line up to where it was found.
    fn unfit(&self, code: Code, reason: &str) -> Unfit {
        Unfit::new(code, &self.line[..self.at], reason)
    }
}

/// Returns whether a word is what stands before the `=` of an assignment: a name, with or without
/// the `+` that appends.
fn is_variable(word: &[u8]) -> bool {
    let name = word.strip_suffix(b"+").unwrap_or(word);
    let starts = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    starts && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, Code> {
        let split = split(line.as_bytes(), 8192).map_err(|unfit| unfit.code)?;
        Ok(split.into_iter().map(|word| word.into_string().expect("UTF-8")).collect())
    }

    #[test]
    fn blanks_separate_and_quotes_join() {
        let check = |line, wanted: &[&str]| {
            assert_eq!(words(line).as_deref(), Ok(&wanted.map_strings()[..]), "{line}");
        };
        check(" a\tb  c ", &["a", "b", "c"]);
        check("a'b c'd\"e f\"", &["ab cde f"]);
        check("a '' \"\"", &["a", "", ""]);
        check(r#"echo "a\$b\`c\"d\\e\nf""#, &["echo", r#"a$b`c"d\e\nf"#]);
        check("echo 'a > b' \"#\" a#b a~b", &["echo", "a > b", "#", "a#b", "a~b"]);
        check("echo A=1 a\u{a0}b 'x\ny'", &["echo", "A=1", "a\u{a0}b", "x\ny"]);
        check("1a=2 x", &["1a=2", "x"]);
    }

    trait Strings {
        fn map_strings(&self) -> Vec<String>;
    }

    impl Strings for [&str] {
        fn map_strings(&self) -> Vec<String> {
            self.iter().map(|word| (*word).to_owned()).collect()
        }
    }

    #[test]
    fn what_a_shell_would_act_on_is_refused() {
        for line in [
            "a|b",
            "a&b",
            "a;b",
            "a<b",
            "a>b",
            "(a",
            "a)",
            "$a",
            "`a`",
            "a\\ b",
            "a*",
            "a?",
            "[a",
            "a]",
            "{a",
            "a}",
            "!a",
            "#a",
            "~a",
            "a b=~c",
            "a b:~c",
            "a\nb",
            "a\rb",
            "a\0b",
            "\"$a\"",
            "\"`a`\"",
            "\"a\\\nb\"",
            "a\u{7f}",
        ] {
            assert_eq!(words(line), Err(Code::ShellMeta), "{line:?}");
        }
        for line in ["A=1 b", "_a+=1 b", "'A'=1", "A=1"] {
            assert_eq!(words(line), Err(Code::Assignment), "{line}");
        }
        for line in ["'a", "\"a", "\"a\\", "a'"] {
            assert_eq!(words(line), Err(Code::UnterminatedQuote), "{line}");
        }
        for line in ["", " ", "\t"] {
            assert_eq!(words(line), Err(Code::EmptyCall));
        }
        assert_eq!(split(&[b'a'; 9], 8).map_err(|u| u.code), Err(Code::LineTooLong));
    }
}
