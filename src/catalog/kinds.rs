//! Kinds: what the text of a value or an operand may be.
//!
//! Every kind is a closed grammar over characters. None of them looks at a file: where a
//! path leads is decided by the profile, not by its spelling.
#![forbid(unsafe_code)]

/// Longest path that the path kinds accept, in bytes.
pub const PATH_BYTES_MAX: usize = 1024;

/// The kinds of values and operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A relative path.
    Path,
    /// A relative path of a file.
    File,
    /// One of a list of words.
    Choice,
    /// One to seven digits.
    Uint,
    /// One to seven digits, with or without a leading `+`.
    UintPlus,
    /// A plain name.
    Name,
    /// The name of a Python distribution.
    Pkgname,
    /// A Python distribution with optional extras and version bounds.
    PypiReq,
    /// An identifier, parts joined by `:`.
    Ident,
    /// A list of cargo features.
    Features,
    /// The name of a branch.
    Branch,
    /// A path, then `::identifier` parts.
    Testnode,
    /// Anything on one line.
    Text,
    /// Anything that the shape check lets through.
    Message,
    /// No operand at all.
    None,
    /// Anything, a leading `-` included; only for opaque templates.
    Opaque,
}

impl Kind {
    /// Every kind with its name in the catalog; those that no value of an option has are last.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("path", Self::Path),
        ("file", Self::File),
        ("choice", Self::Choice),
        ("uint", Self::Uint),
        ("uint-plus", Self::UintPlus),
        ("name", Self::Name),
        ("pkgname", Self::Pkgname),
        ("pypi-req", Self::PypiReq),
        ("ident", Self::Ident),
        ("features", Self::Features),
        ("branch", Self::Branch),
        ("testnode", Self::Testnode),
        ("text", Self::Text),
        ("message", Self::Message),
        ("none", Self::None),
        ("opaque", Self::Opaque),
    ];

    /// The kinds that the value of an option may have.
    pub const OF_VALUES: &'static [(&'static str, Self)] = Self::ALL.split_at(14).0;

    /// Returns the kind's name in the catalog.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns whether the whole text of a fitting operand names a path.
    pub fn is_path(self) -> bool {
        matches!(self, Self::Path | Self::File)
    }
}

/// A kind with its refinements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The kind.
    pub kind: Kind,
    /// The words of a `choice`.
    pub of: Vec<String>,
    /// Path kinds: spellings that the program would read as something else.
    pub not: Vec<String>,
    /// `path`: whether `.` is accepted.
    pub dot: bool,
    /// Path kinds: the folder that the path stands directly in.
    pub under: Option<String>,
    /// Path kinds: accepted endings, without the dot; empty accepts any.
    pub ext: Vec<String>,
}

impl Spec {
    /// Returns a kind without refinements.
    pub fn plain(kind: Kind) -> Self {
        let (of, not, ext) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, of, not, dot: false, under: None, ext }
    }

    /// Checks a text that has passed the shape check and is not empty.
    ///
    /// # Errors
    /// Why the text does not fit, as the end of a sentence.
    pub fn check(&self, text: &str) -> Result<(), &'static str> {
        if self.kind == Kind::Opaque {
            return Ok(());
        }
        refuse_if(text.starts_with('-'), "starts with -")?;
        if self.kind == Kind::Message {
            return Ok(());
        }
        let bytes = text.as_bytes();
        let breaks = bytes.iter().any(|byte| matches!(byte, b'\n' | b'\t'));
        refuse_if(breaks, "has a line break or a tab")?;
        let word = |fits: bool, why| refuse_if(!fits, why);
        match self.kind {
            Kind::Path => self.check_path(text),
            Kind::File => self.check_file(text),
            Kind::Testnode => check_testnode(text),
            Kind::Choice => word(self.of.iter().any(|of| of == text), "is not one of the choices"),
            Kind::Uint => word(is_uint(bytes), "is not a number of 1 to 7 digits"),
            Kind::UintPlus => {
                let digits = bytes.strip_prefix(b"+").unwrap_or(bytes);
                word(is_uint(digits), "is not a number of 1 to 7 digits")
            }
            Kind::Name => word(is_name(text), "is not a plain name"),
            Kind::Pkgname => word(is_package(bytes), "is not a package name"),
            Kind::PypiReq => check_requirement(text),
            Kind::Ident => word(is_word(bytes, &IDENT_FIRST, &IDENT, 128), "is not an identifier"),
            Kind::Features => {
                let fits = is_word(bytes, &FEATURE_FIRST, &FEATURE, 256);
                word(fits, "is not a list of features")
            }
            Kind::Branch => word(is_branch(text), "is not a branch name"),
            Kind::None => Err("is not expected"),
            Kind::Text | Kind::Message | Kind::Opaque => Ok(()),
        }
    }

    fn check_path(&self, text: &str) -> Result<(), &'static str> {
        let last = check_path_text(text, self.dot)?;
        refuse_if(self.not.iter().any(|not| not == text), "is a word of the program itself")?;
        if let Some(under) = &self.under {
            let mut real = text.split('/').filter(|part| !matches!(*part, "" | "."));
            let fits = real.next() == Some(under) && real.next().is_some() && real.next().is_none();
            refuse_if(!fits, "is not directly in the listed folder")?;
        }
        // A name that is nothing but the ending has none.
        let ends = |ext: &String| {
            let stem = last.strip_suffix(ext.as_str()).and_then(|stem| stem.strip_suffix('.'));
            !text.ends_with('/') && stem.is_some_and(|stem| !stem.is_empty())
        };
        refuse_if(!self.ext.is_empty() && !self.ext.iter().any(ends), "has another ending")
    }

    fn check_file(&self, text: &str) -> Result<(), &'static str> {
        let folder = text.ends_with('/') || text.ends_with("/.");
        refuse_if(folder, "names a folder, not a file")?;
        self.check_path(text)
    }
}

fn refuse_if(unfit: bool, why: &'static str) -> Result<(), &'static str> {
    if unfit { Err(why) } else { Ok(()) }
}

/// Which bytes a grammar accepts: ASCII letters and digits where asked for, and `more`.
pub(super) const fn table(letters: bool, digits: bool, more: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        table[byte as usize] =
            (letters && byte.is_ascii_alphabetic()) || (digits && byte.is_ascii_digit());
        byte += 1;
    }
    let mut at = 0;
    while at < more.len() {
        table[more[at] as usize] = true;
        at += 1;
    }
    table
}

const ALNUM: [bool; 256] = table(true, true, b"");
const PATH: [bool; 256] = table(true, true, b"_.-+/,@~^ ");
const NAME: [bool; 256] = table(true, true, b"._-");
const BRANCH: [bool; 256] = table(true, true, b"._/-");
const VERSION: [bool; 256] = table(true, true, b".*+!_-");
const IDENT_FIRST: [bool; 256] = table(true, false, b"_");
const IDENT: [bool; 256] = table(true, true, b"_:");
const TEST_ID: [bool; 256] = table(true, true, b"_");
const FEATURE_FIRST: [bool; 256] = table(true, true, b"_");
const FEATURE: [bool; 256] = table(true, true, b"_/,-");

/// Tells whether `bytes` has 1 to `max` bytes, the first in `first`, the others in `rest`.
fn is_word(bytes: &[u8], first: &[bool; 256], rest: &[bool; 256], max: usize) -> bool {
    let [head, tail @ ..] = bytes else { return false };
    bytes.len() <= max
        && first[usize::from(*head)]
        && tail.iter().all(|byte| rest[usize::from(*byte)])
}

fn is_uint(bytes: &[u8]) -> bool {
    (1..=7).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit)
}

fn is_name(text: &str) -> bool {
    is_word(text.as_bytes(), &ALNUM, &NAME, 64) && !text.contains("..")
}

fn is_branch(text: &str) -> bool {
    is_word(text.as_bytes(), &ALNUM, &BRANCH, 64)
        && !text.contains("..")
        && !text.contains("//")
        && ![".lock", ".", "/"].iter().any(|end| text.ends_with(end))
}

fn is_package(bytes: &[u8]) -> bool {
    is_word(bytes, &ALNUM, &NAME, 64) && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Endings that make pip look for a file of that name before it looks for a package.
const ARCHIVE_ENDINGS: [&str; 12] = [
    ".zip",
    ".whl",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tlz",
    ".tar.lz",
    ".tar.lzma",
];

/// The comparisons of a version bound; one that is the start of another stands after it.
const COMPARISONS: [&str; 8] = ["===", "==", ">=", "<=", "~=", "!=", ">", "<"];

fn check_requirement(text: &str) -> Result<(), &'static str> {
    let ends_with = |end: &&str| {
        let at = text.len().checked_sub(end.len());
        at.and_then(|at| text.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    refuse_if(ARCHIVE_ENDINGS.iter().any(ends_with), "looks like an archive file")?;
    refuse_if(!is_requirement(text), "is not a package name with optional version bounds")
}

fn is_requirement(text: &str) -> bool {
    let name_end = text.bytes().position(|byte| !NAME[usize::from(byte)]);
    let (name, mut rest) = text.split_at(name_end.unwrap_or(text.len()));
    if let Some(after) = rest.strip_prefix('[') {
        let Some((extras, after)) = after.split_once(']') else { return false };
        if !extras.split(',').all(|extra| is_package(extra.as_bytes())) {
            return false;
        }
        rest = after;
    }
    let is_bound = |bound: &str| {
        let version = COMPARISONS.iter().find_map(|sign| bound.strip_prefix(sign));
        version.is_some_and(|text| is_word(text.as_bytes(), &ALNUM, &VERSION, usize::MAX))
    };
    is_package(name.as_bytes()) && (rest.is_empty() || rest.split(',').all(is_bound))
}

fn check_testnode(text: &str) -> Result<(), &'static str> {
    let mut parts = text.split("::");
    let path = parts.next().unwrap_or_default();
    refuse_if(path.is_empty(), "names no path")?;
    let is_id = |id: &str| is_word(id.as_bytes(), &IDENT_FIRST, &TEST_ID, 128);
    refuse_if(!parts.all(is_id), "has a part that is not a test's name")?;
    check_path_text(path, true).map(|_| ())
}

/// Checks what all path kinds share; gives the last component that is not `.`, or nothing
/// where there is none.
fn check_path_text(text: &str, dot: bool) -> Result<&str, &'static str> {
    refuse_if(text.len() > PATH_BYTES_MAX, "is longer than 1024 bytes")?;
    refuse_if(text.starts_with('/'), "is an absolute path; use one relative to the folder")?;
    let starts_well = |ch: char| ch.is_alphanumeric() || matches!(ch, '_' | '.');
    refuse_if(!text.starts_with(starts_well), "starts with a character that no path may")?;
    let fits = if text.is_ascii() {
        text.bytes().all(|byte| PATH[usize::from(byte)])
    } else {
        text.chars().all(|ch| match u8::try_from(ch) {
            Ok(byte) if ch.is_ascii() => PATH[usize::from(byte)],
            _ => ch.is_alphanumeric(),
        })
    };
    refuse_if(!fits, "has a character that no path may have")?;
    let mut last = "";
    for part in text.strip_suffix('/').unwrap_or(text).split('/') {
        match part {
            "" => return Err("has an empty component"),
            ".." => return Err("has a `..` component"),
            "." => {}
            _ if part.eq_ignore_ascii_case(".git") => return Err("reaches into .git"),
            _ => last = part,
        }
    }
    refuse_if(last.is_empty() && !dot, "names the folder itself; name a path in it")?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(kind: Kind, text: &str) -> bool {
        Spec::plain(kind).check(text).is_ok()
    }

    fn check(kind: Kind, accepted: &[&str], refused: &[&str]) {
        for text in accepted {
            assert!(fits(kind, text), "{kind:?} {text}");
        }
        for text in refused {
            assert!(!fits(kind, text), "{kind:?} {text}");
        }
    }

    #[test]
    fn paths_stay_below_the_folder_and_out_of_git_state() {
        let refused =
            ["/a", "../a", "a/..", "a//b", ".git", "a/.GIT/x", ".", "./.", "~a", "-a", "a:b"];
        check(Kind::Path, &["a", "a/b/", "./a", "..a", "é/ü", "a b", "HEAD~1", ".gitx"], &refused);
        check(Kind::File, &["a", "./a.b"], &["a/", "a/.", ".", "é/"]);
        assert!(fits(Kind::Path, &"a".repeat(1024)) && !fits(Kind::Path, &"a".repeat(1025)));
    }

    #[test]
    fn refinements_narrow_a_path() {
        let mut spec = Spec::plain(Kind::File);
        spec.under = Some("scripts".into());
        spec.ext = vec!["sh".into()];
        for text in ["scripts/a.sh", "./scripts/./a.sh"] {
            assert_eq!(spec.check(text), Ok(()), "{text}");
        }
        for text in ["a.sh", "scripts/.sh", "scripts/sh", "scripts/a/b.sh", "x/a.sh"] {
            assert!(spec.check(text).is_err(), "{text}");
        }
        spec = Spec::plain(Kind::Path);
        spec.dot = true;
        assert!(spec.check("./.").is_ok());
    }

    #[test]
    fn words_have_bounds() {
        check(Kind::Uint, &["0", "1234567"], &["12345678", "+1", "1a", "٣"]);
        check(Kind::UintPlus, &["+1", "1"], &["+", "++1"]);
        check(Kind::Name, &["a.b-c_1"], &["a..b", "_a", "a/b", "é"]);
        check(Kind::Ident, &["a::b", "_x"], &["1a", "a-b"]);
        check(Kind::Features, &["a/b,c-d"], &["/a", "a b"]);
        check(Kind::Branch, &["main", "a/b"], &["a..b", "a//b", "a/", "a.", "a.lock", "/a"]);
        check(Kind::Testnode, &["t/a.py::T::t_1", ".", "t"], &["::a", "t::", "t::a-b", "/t"]);
        check(Kind::Text, &["a; b"], &["a\tb", "-a"]);
        check(Kind::Message, &["a\n\nb"], &["-a"]);
        check(Kind::Opaque, &["-a", "\t"], &[]);
    }

    #[test]
    fn requirements_name_packages_only() {
        let accepted = ["a", "a[b,c]==1.0", "a>=1,<2", "a===1", "a~=1.*", "a!=1!2+x"];
        let refused = ["a@b", "a ==1", "a=1", "a==", "a,b", "a[", "a[]", "a.zip", "a==1.TAR.GZ"];
        check(Kind::PypiReq, &accepted, &refused);
        check(Kind::PypiReq, &[], &["./a", "git+https://x", "a;b", "a.", "[a]", "a[b]c", "é"]);
        check(Kind::Pkgname, &["a", "a-b"], &["a-", ".a", "a==1", "é"]);
    }
}
