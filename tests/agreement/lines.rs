//! bash gives the same words for every line that is accepted.

use crate::chance::{Chance, is_long, tell};
use crate::support::has_programs;
use pinfold::catalog::Catalog;
use pinfold::record::Text;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

/// Characters that mean nothing to a shell, and some that mean something in some places.
const PLAIN: [&str; 26] = [
    "a", "b", "Z", "0", "9", "_", "-", ".", "/", ",", "+", "%", "@", "^", ":", "=", "~", "#", "é",
    "中", "\u{a0}", "\u{3000}", "\u{85}", "\u{301}", "😀", "if",
];

/// Characters that a shell acts on outside quotes, and control characters.
const HOT: [&str; 28] = [
    "|", "&", ";", "<", ">", "(", ")", "$", "`", "\\", "*", "?", "[", "]", "{", "}", "!", "'",
    "\"", "\n", "\r", "\u{1}", "\u{7f}", "\u{1b}", "~", "#", "=", "A=",
];

/// Most lines that one bash reads.
const BATCH: usize = 1_500;

/// Makes a line of quoted and bare pieces.
pub(crate) fn random_line(chance: &mut Chance) -> String {
    let mut line = String::new();
    for _ in 0..=chance.below(10) {
        let within = |chance: &mut Chance, hot: usize, but: &[&str]| {
            let pieces = (0..chance.below(6)).map(|_| {
                let piece =
                    if chance.happens(hot) { chance.pick(&HOT) } else { chance.pick(&PLAIN) };
                if but.contains(&piece) { "x" } else { piece }
            });
            pieces.collect::<String>()
        };
        match chance.below(20) {
            0..=7 => line += &within(chance, 2, &[]),
            8..=11 => line += chance.pick(&[" ", " ", "\t", "  "]),
            12..=14 => line += &format!("'{}'", within(chance, 50, &["'"])),
            15..=17 => {
                let text = within(chance, 50, &["\"", "$", "`", "\\"]);
                let escape = chance.pick(&["", "", "\\$", "\\\\", "\\\"", "\\`", "\\a", "\\'"]);
                line += &format!("\"{text}{escape}\"");
            }
            18 => line += chance.pick(&["a=~", "a:~", "a=b:~", "--x=~/y", " ~", " #", "a#b", "a~"]),
            _ if chance.happens(20) => line += chance.pick(&HOT),
            _ => {}
        }
    }
    line
}

/// Writes a line so that every character of it is seen.
pub(crate) fn shown(line: &[u8]) -> String {
    Text(line.to_vec()).escaped()
}

/// Says for each line what words bash makes of it. Every line is a file of its own, read in a
/// process of its own: what one does ends with it, and a syntax error is told as its status.
const READER: &str = r#"
words() { printf 'n%s\0' "$#"; [ "$#" = 0 ] || printf '%s\0' "$@"; }
for ((i = 0; i < $1; i++)); do
	( . "./$i" ) 2>/dev/null </dev/null
	printf 's%s\0' "$?"
done
"#;

/// Returns what bash makes of each line, or what else it does with the first that it reads
/// otherwise than as words.
fn words_of_bash(lines: &[&[u8]], locale: &str) -> Result<Vec<Vec<OsString>>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, line) in lines.iter().enumerate() {
        let text = [b"words ", *line, b"\n"].concat();
        fs::write(folder.path().join(number.to_string()), text).expect("a file");
    }
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", READER, "bash", &lines.len().to_string()])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", locale)
        .env("HOME", "/home/of/bash")
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    assert!(output.status.success(), "{output:?}");
    let mut told = output.stdout.split(|byte| *byte == 0);
    let mut next = || told.next().unwrap_or_default();
    let mut words_of = |line: &&[u8]| {
        let first = next();
        let Some(count) = first.strip_prefix(b"n") else {
            return Err(format!("bash does not read {}: {}", shown(line), shown(first)));
        };
        let count = std::str::from_utf8(count).expect("digits").parse().expect("a number");
        let words = (0_usize..count).map(|_| OsStr::from_bytes(next()).to_owned()).collect();
        match next() {
            b"s0" => Ok(words),
            other => Err(format!("bash does more with {}: {}", shown(line), shown(other))),
        }
    };
    lines.iter().map(&mut words_of).collect()
}

#[test]
fn bash_makes_the_same_words_of_every_line_that_is_accepted() {
    if !has_programs(&["bash"]) {
        return;
    }
    let catalog = Catalog::shipped().expect("it is sound");
    let mut chance = Chance::of("bash");
    let (tried_max, wanted) = if is_long() { (100_000, usize::MAX) } else { (100_000, 3_000) };
    let (mut tried, mut accepted) = (0, Vec::new());
    while tried < tried_max && accepted.len() < wanted {
        tried += 1;
        let mut line = random_line(&mut chance).into_bytes();
        if chance.happens(5) {
            // Bytes that are no text: bash passes them on, and so does the splitter.
            line.insert(chance.below(line.len() + 1), *chance.one_of(&[0x80, 0xc3, 0xff]));
        }
        if let Ok(words) = catalog.split(OsStr::from_bytes(&line)) {
            accepted.push((line, words));
        }
    }
    tell(&format!("agreement: {} of {tried} lines were accepted", accepted.len()));
    assert!(accepted.len() > tried / 5, "{} of {tried} were accepted", accepted.len());
    for (number, batch) in accepted.chunks(BATCH).enumerate() {
        let locale = if number.is_multiple_of(2) { "C.UTF-8" } else { "C" };
        let lines: Vec<&[u8]> = batch.iter().map(|(line, _)| line.as_slice()).collect();
        let theirs = words_of_bash(&lines, locale).unwrap_or_else(|fault| panic!("{fault}"));
        for ((line, ours), theirs) in batch.iter().zip(theirs) {
            assert_eq!(*ours, theirs, "of {} in {locale}", shown(line));
        }
    }
}

#[test]
fn what_bash_makes_of_lines_that_are_refused_is_seen_to_differ() {
    if !has_programs(&["bash"]) {
        return;
    }
    let catalog = Catalog::shipped().expect("it is sound");
    let words =
        |line: &str| words_of_bash(&[line.as_bytes()], "C").map(|mut words| words.remove(0));
    assert_eq!(words("a '\n'b \"\""), Ok(["a", "\nb", ""].map(OsString::from).into()));
    for line in ["a=~", "~", "a:~", "{a,b}", "a$HOME", "a\\b", "#a", "/*"] {
        assert!(catalog.split(OsStr::new(line)).is_err(), "{line}");
        let theirs = words(line).expect("words");
        let same = theirs == [OsString::from(line)];
        assert_eq!(same, line == "a:~", "only a word like an assignment is expanded: {line}");
    }
    for line in ["a; false", "a | cat", "a) (b", "if'", "a\nfalse", "a >/dev/stdout"] {
        assert!(catalog.split(OsStr::new(line)).is_err(), "{line}");
        assert!(words(line).is_err() || words(line) == Ok(vec!["a".into()]), "{line}");
    }
}
