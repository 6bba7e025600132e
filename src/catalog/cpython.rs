//! CPython's own option grammar: what an argument vector of the interpreter makes it run.
//!
//! Read as the interpreter reads it, from the first argument on, so that pip is found in every
//! spelling that reaches it, and in none that does not. Source: `Python/initconfig.c` and
//! `Python/getopt.c` of CPython, whose short options are [`FLAGS`] and [`WITH_VALUE`].
#![forbid(unsafe_code)]

/// Options of one letter that stand alone.
const FLAGS: &[u8] = b"bdhiqstuvxBEIOPRSV?";

/// Options of one letter that take the rest of the token, or the next one, as their value.
const WITH_VALUE: &[u8] = b"cmWX";

/// Long options after which the interpreter prints something and ends.
const INFORMING: [&str; 5] = ["--help", "--version", "--help-env", "--help-xoptions", "--help-all"];

/// The only long option with a value; it has no form with `=`.
const PYCS: &str = "--check-hash-based-pycs";

/// Modules that run other modules, and installers: behind them pip would not be seen.
pub(super) const RUNNERS: [&str; 14] = [
    "runpy",
    "pdb",
    "profile",
    "cProfile",
    "trace",
    "bdb",
    "code",
    "idlelib",
    "pipx",
    "uv",
    "ensurepip",
    "virtualenv",
    "poetry",
    "coverage",
];

/// What the interpreter would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs<'a> {
    /// The text of `-c`.
    Code,
    /// A module; its own arguments begin at this index.
    Module(&'a str, usize),
    /// A file.
    Script(&'a str),
    /// Nothing: it prints help or its version.
    Information,
    /// What it reads from its standard input.
    Input,
    /// Nothing: it refuses this option.
    Refused(&'a str),
}

/// Reads the arguments of the interpreter; `words[0]` is its name.
pub(super) fn scan<'a>(words: &[&'a str]) -> Runs<'a> {
    let mut informs = false;
    let mut at = 1;
    while let Some(word) = words.get(at).copied() {
        at += 1;
        if word == "-" {
            return Runs::Input;
        }
        let Some(letters) = word.strip_prefix('-') else { return Runs::Script(word) };
        if letters.starts_with('-') {
            match word {
                _ if INFORMING.contains(&word) => return Runs::Information,
                PYCS if at < words.len() => at += 1,
                _ => return Runs::Refused(word),
            }
            continue;
        }
        for (index, letter) in letters.bytes().enumerate() {
            if WITH_VALUE.contains(&letter) {
                let attached = &letters[index + 1..];
                let value = match (attached, words.get(at).copied()) {
                    ("", None) => return Runs::Refused(word),
                    ("", Some(next)) => {
                        at += 1;
                        next
                    }
                    _ => attached,
                };
                match letter {
                    b'c' => return Runs::Code,
                    b'm' => return Runs::Module(value, at),
                    _ => break,
                }
            }
            if !FLAGS.contains(&letter) {
                return Runs::Refused(word);
            }
            // It would print and end; reading on is the stricter way.
            informs |= matches!(letter, b'h' | b'V' | b'?');
        }
    }
    if informs { Runs::Information } else { Runs::Input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_in_every_spelling() {
        let module = |words: &[&'static str]| match scan(words) {
            Runs::Module(name, at) => Some((name, at)),
            _ => None,
        };
        assert_eq!(module(&["p", "-m", "pip", "x"]), Some(("pip", 3)));
        assert_eq!(module(&["p", "-Impip", "x"]), Some(("pip", 2)));
        assert_eq!(module(&["p", "-W", "ignore", "-m", "pip"]), Some(("pip", 5)));
        assert_eq!(module(&["p", "-X", "-mpip", "-BmX"]), Some(("X", 4)));
        assert_eq!(module(&["p", "--check-hash-based-pycs", "-m", "-mpip"]), Some(("pip", 4)));
        assert_eq!(module(&["p", "-m", "-c"]), Some(("-c", 3)));
        assert_eq!(module(&["p", "-hVmpip"]), Some(("pip", 2)));
    }

    #[test]
    fn what_is_no_module_is_told_apart() {
        assert_eq!(scan(&["p"]), Runs::Input);
        assert_eq!(scan(&["p", "-q"]), Runs::Input);
        assert_eq!(scan(&["p", "-", "-mpip"]), Runs::Input);
        assert_eq!(scan(&["p", "-hq"]), Runs::Information);
        assert_eq!(scan(&["p", "--version", "-mpip"]), Runs::Information);
        assert_eq!(scan(&["p", "-Xmpip", "x"]), Runs::Script("x"));
        assert_eq!(scan(&["p", "-cmpip"]), Runs::Code);
        assert_eq!(scan(&["p", "t.py", "-mpip"]), Runs::Script("t.py"));
        for words in [
            &["p", "-J"][..],
            &["p", "--module", "pip"],
            &["p", "--check-hash-based-pycs=always"],
            &["p", "--check-hash-based-pycs"],
            &["p", "-m"],
            &["p", "-qW"],
            &["p", "-é"],
        ] {
            assert!(matches!(scan(words), Runs::Refused(_)), "{words:?}");
        }
    }
}
