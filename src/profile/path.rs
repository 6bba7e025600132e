//! Paths and values as profiles write them: a token, or an absolute path.
//!
//! A written path names one file or folder. It stays in its written form, because only a plan
//! knows the workspace and the scratch folder of a run.
#![forbid(unsafe_code)]

use crate::record::is_unsafe_to_show;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest path that is read, in bytes: one less than the kernel's own limit.
const PATH_BYTES_MAX: usize = 4095;

/// Where a written path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// `{system}`: the host's programs and libraries, and the few files of `/etc` they need.
    System,
    /// `{workspace}`: the folder the session works in.
    Workspace,
    /// `{tmp}`: the run's own scratch folder.
    Tmp,
    /// `{home}`: the run's own home folder, which is `{tmp}/home`.
    Home,
    /// An absolute path of the host.
    Absolute,
}

impl Root {
    /// Returns how the root is written; nothing for an absolute path.
    pub fn token(self) -> &'static str {
        match self {
            Self::System => "{system}",
            Self::Workspace => "{workspace}",
            Self::Tmp => "{tmp}",
            Self::Home => "{home}",
            Self::Absolute => "",
        }
    }
}

/// A path as a profile writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathSpec {
    /// Where it begins.
    pub root: Root,
    /// What follows: relative to the root and perhaps empty, or the whole of an absolute path.
    pub rest: PathBuf,
}

/// Why a text is no path: the fault's title, and its hint.
pub(super) type Misspelt = (String, &'static str);

impl PathSpec {
    /// Reads the written form.
    pub(super) fn parse(text: &str) -> Result<Self, Misspelt> {
        if text.chars().any(is_unsafe_to_show) {
            let title = "the path has a control or invisible character".to_owned();
            return Err((title, "rename the file, or name the folder above it"));
        }
        let spec = Self::split(text)?;
        let rest = text.strip_prefix(spec.root.token()).unwrap_or(text);
        let alternatives = rest.contains('{') && rest.contains(',');
        if alternatives || rest.contains(['*', '?', '[']) {
            let hint = "name the folder that holds them, which is kept with all below: files that \
                        come to match a pattern later would not be";
            return Err((format!("`{text}` is a pattern"), hint));
        }
        if rest.contains(['{', '}']) {
            return Err((format!("`{text}` has braces"), "a token stands only at the beginning"));
        }
        if rest.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
            let title = format!("`{text}` has an empty, `.` or `..` component");
            return Err((title, "write the path straight, without a slash at the end"));
        }
        if text.len() > PATH_BYTES_MAX {
            let title = format!("the path is longer than {PATH_BYTES_MAX} bytes");
            return Err((title, "the kernel takes no longer one"));
        }
        Ok(spec)
    }

    /// Splits the token off, without a look at the rest.
    fn split(text: &str) -> Result<Self, Misspelt> {
        if text == "/" {
            let title = "`/` is everything there is".to_owned();
            return Err((title, "name the folders that are needed"));
        }
        if text.starts_with('/') {
            return Ok(Self { root: Root::Absolute, rest: text.into() });
        }
        for root in [Root::System, Root::Workspace, Root::Tmp, Root::Home] {
            let Some(rest) = text.strip_prefix(root.token()) else { continue };
            if rest.is_empty() {
                return Ok(Self { root, rest: PathBuf::new() });
            }
            if root == Root::System {
                let hint = "write the absolute path, such as /usr/lib/git-core";
                return Err((format!("`{text}`: {{system}} stands alone"), hint));
            }
            if let Some(rest) = rest.strip_prefix('/') {
                return Ok(Self { root, rest: rest.into() });
            }
        }
        let title = format!("`{text}` begins with no token and is not absolute");
        Err((title, "begin with {workspace}, {tmp}, {home} or /, or write {system}"))
    }

    /// Returns whether this is the root itself, with nothing behind it.
    pub fn is_root(&self) -> bool {
        self.rest.as_os_str().is_empty()
    }

    /// Returns whether this path is `folder` or lies below it, both as written.
    pub(super) fn lies_in(&self, folder: &Self) -> bool {
        self.root == folder.root && self.rest.starts_with(&folder.rest)
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.root.token())?;
        if self.root != Root::Absolute && !self.is_root() {
            out.write_str("/")?;
        }
        write!(out, "{}", self.rest.display())
    }
}

/// One part of a variable's value.
enum Part<'v> {
    Text(&'v str),
    Token(Root),
    Stray(&'v str),
}

/// Takes the first part off a value that is not empty.
fn next_part(value: &str) -> (Part<'_>, &str) {
    let Some(at) = value.find(['{', '}']) else { return (Part::Text(value), "") };
    if at > 0 {
        return (Part::Text(&value[..at]), &value[at..]);
    }
    let end = value.find('}').map_or(value.len(), |at| at + 1);
    let (written, rest) = value.split_at(end);
    let roots = [Root::Workspace, Root::Tmp, Root::Home];
    match roots.into_iter().find(|root| root.token() == written) {
        Some(root) => (Part::Token(root), rest),
        None => (Part::Stray(written), rest),
    }
}

/// Returns the first brace of a variable's value that writes no token.
pub(super) fn stray_brace(value: &str) -> Option<&str> {
    let mut left = value;
    while !left.is_empty() {
        let (part, rest) = next_part(left);
        if let Part::Stray(written) = part {
            return Some(written);
        }
        left = rest;
    }
    None
}

/// Puts folders in the place of the tokens of a variable's value, in one pass, so that a folder
/// whose own name looks like a token stays as it is.
pub fn expand<'f>(value: &str, folder: impl Fn(Root) -> &'f Path) -> OsString {
    let mut out = OsString::new();
    let mut left = value;
    while !left.is_empty() {
        let (part, rest) = next_part(left);
        out.push(match part {
            Part::Text(text) | Part::Stray(text) => OsStr::new(text),
            Part::Token(root) => folder(root).as_os_str(),
        });
        left = rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_reads_and_shows_the_same() {
        let forms = [
            ("{system}", Root::System, ""),
            ("{workspace}", Root::Workspace, ""),
            ("{workspace}/a/.b", Root::Workspace, "a/.b"),
            ("{tmp}", Root::Tmp, ""),
            ("{tmp}/x", Root::Tmp, "x"),
            ("{home}", Root::Home, ""),
            ("/opt/tool", Root::Absolute, "/opt/tool"),
        ];
        for (text, root, rest) in forms {
            let spec = PathSpec::parse(text).expect(text);
            assert_eq!((spec.root, spec.rest.to_str()), (root, Some(rest)), "{text}");
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn what_no_mount_can_keep_is_no_path() {
        let texts = [
            "",
            "/",
            "src",
            "./src",
            "~/x",
            "{workspace}/",
            "{workspace}x",
            "{workspace}//a",
            "{workspace}/../a",
            "{workspace}/./a",
            "{workspace}/*.key",
            "/opt/?",
            "/opt/[a]",
            "{workspace}/.{env,key}",
            "{workspace}/{tmp}",
            "{system}/lib",
            "{root}/a",
            "/opt/",
            "/opt/../etc",
            "/a\nb",
            "/a\u{202e}b",
            "{tmp",
        ];
        for text in texts {
            PathSpec::parse(text).expect_err(text);
        }
        PathSpec::parse(&format!("/{}", "a".repeat(PATH_BYTES_MAX))).expect_err("too long");
    }

    #[test]
    fn a_folder_that_looks_like_a_token_is_not_read_again() {
        let folder = |root| match root {
            Root::Workspace => Path::new("/w/{tmp}"),
            _ => Path::new("/tmp"),
        };
        let value = expand("a={workspace}/x:{tmp}", folder);
        assert_eq!(value, OsStr::new("a=/w/{tmp}/x:/tmp"));
    }

    #[test]
    fn braces_write_tokens_only() {
        assert_eq!(stray_brace("{home}/a:{tmp}"), None);
        for value in ["{system}", "{}", "{workspace", "a}", "{\"a\":1}", "{Tmp}"] {
            assert!(stray_brace(value).is_some(), "{value}");
        }
    }
}
