//! Git's configuration files, read by a parser of Pinfold's own: no include is followed and no
//! program is started to read one.
//!
//! The grammar is that of git-config(1), section "Syntax". What it does not accept, git does not
//! either, or reads in a way that is not known here: both are a fault.

/// A setting as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Section, in lower case.
    pub section: String,
    /// Subsection, as it is written.
    pub subsection: Option<Vec<u8>>,
    /// Name, in lower case.
    pub name: String,
    /// Value; a name alone has none and means true.
    pub value: Option<Vec<u8>>,
}

/// Reads a configuration file.
///
/// # Errors
/// The line of the first thing that is not of the grammar.
pub fn parse(text: &[u8]) -> Result<Vec<Setting>, usize> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    // Git ends a key at a zero byte: `[remote "x.uploadpack\0"]url` would be another one for it.
    if let Some(zero) = text.iter().position(|byte| *byte == 0) {
        reader.at = zero;
        return Err(reader.line());
    }
    let (mut section, mut subsection) = (String::new(), None);
    let mut settings = Vec::new();
    loop {
        reader.blanks();
        match reader.peek() {
            None => return Ok(settings),
            Some(b'\n') => reader.at += 1,
            Some(b'#' | b';') => reader.rest_of_line(),
            Some(b'[') => {
                let head = reader.header().ok_or_else(|| reader.line())?;
                (section, subsection) = head;
            }
            Some(byte) if byte.is_ascii_alphabetic() && !section.is_empty() => {
                let (name, value) = reader.setting().ok_or_else(|| reader.line())?;
                let (section, subsection) = (section.clone(), subsection.clone());
                settings.push(Setting { section, subsection, name, value });
            }
            Some(_) => return Err(reader.line()),
        }
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    /// Returns the next byte; a carriage return before the end of a line is a part of that.
    fn peek(&self) -> Option<u8> {
        match self.text.get(self.at) {
            Some(b'\r') if self.text.get(self.at + 1) == Some(&b'\n') => Some(b'\n'),
            byte => byte.copied(),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1 + usize::from(byte == b'\n' && self.text[self.at] == b'\r');
        Some(byte)
    }

    /// Returns the number of the line, from 1.
    fn line(&self) -> usize {
        let before = &self.text[..self.at.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn rest_of_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// Reads `[section]`, `[section "subsection"]` or the old `[section.subsection]`.
    fn header(&mut self) -> Option<(String, Option<Vec<u8>>)> {
        self.at += 1;
        let mut name = Vec::new();
        let mut subsection = None;
        loop {
            match self.next()? {
                b']' => break,
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(byte.to_ascii_lowercase());
                }
                b' ' | b'\t' => {
                    self.blanks();
                    subsection = Some(self.subsection()?);
                    (self.next()? == b']').then_some(())?;
                    break;
                }
                _ => return None,
            }
        }
        let name = String::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        match (subsection, name.split_once('.')) {
            (None, Some((section, rest))) => Some((section.to_owned(), Some(rest.into()))),
            (subsection, _) => Some((name, subsection)),
        }
    }

    fn subsection(&mut self) -> Option<Vec<u8>> {
        (self.next()? == b'"').then_some(())?;
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => text.push(self.next().filter(|byte| *byte != b'\n')?),
                b'\n' => return None,
                byte => text.push(byte),
            }
        }
    }

    /// Reads a name, and its value where it has one.
    fn setting(&mut self) -> Option<(String, Option<Vec<u8>>)> {
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|b| b.is_ascii_alphanumeric() || *b == b'-') {
            name.push(char::from(byte.to_ascii_lowercase()));
            self.at += 1;
        }
        self.blanks();
        match self.peek() {
            None | Some(b'\n' | b'#' | b';') => {
                self.rest_of_line();
                Some((name, None))
            }
            Some(b'=') => {
                self.at += 1;
                self.blanks();
                Some((name, Some(self.value()?)))
            }
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut quoted, mut end) = (Vec::new(), false, 0);
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return None,
                None | Some(b'\n') => break,
                Some(b'"') => {
                    quoted = !quoted;
                    end = value.len();
                    continue;
                }
                Some(b'#' | b';') if !quoted => {
                    self.rest_of_line();
                    break;
                }
                Some(b'\\') => match self.next()? {
                    b'\n' => {}
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    byte @ (b'"' | b'\\') => value.push(byte),
                    _ => return None,
                },
                // A carriage return is a blank for git, too. It keeps none before the first
                // character, which may stand on the next line or behind an empty pair of quotes.
                Some(byte @ (b' ' | b'\t' | b'\r')) if !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(byte) => value.push(byte),
            }
            end = value.len();
        }
        // Blanks behind the last character outside of quotes are no part of the value.
        value.truncate(end);
        Some(value)
    }
}

impl Setting {
    /// Returns the whole key, for people.
    pub fn key(&self) -> String {
        let Self { section, subsection, name, .. } = self;
        match subsection {
            Some(text) => format!("{section}.{}.{name}", String::from_utf8_lossy(text)),
            None => format!("{section}.{name}"),
        }
    }

    /// Returns whether the setting is one that every repository has, and that starts no program
    /// and leads nowhere else.
    pub fn is_plain(&self) -> bool {
        let (value, is_sub) = (self.value.as_deref(), self.subsection.is_some());
        match (self.section.as_str(), self.name.as_str()) {
            ("core", "bare") => !is_sub && is_false(value),
            (
                "core",
                "repositoryformatversion" | "filemode" | "logallrefupdates" | "ignorecase",
            )
            | ("init", "defaultbranch")
            | ("user", _)
            // Which program signs is another key; a template's git signs nothing.
            | ("commit" | "tag", "gpgsign") => !is_sub,
            ("branch", _) => !names_a_helper(value),
            ("remote", "url" | "pushurl" | "fetch") => is_sub && !names_a_helper(value),
            _ => false,
        }
    }
}

fn is_false(value: Option<&[u8]>) -> bool {
    let value = value.map(<[u8]>::to_ascii_lowercase);
    matches!(value.as_deref(), Some(b"false" | b"no" | b"off" | b"0" | b""))
}

/// Returns whether an address is of the form `helper::rest`, which names a program to start, or
/// could be taken for an option.
fn names_a_helper(value: Option<&[u8]>) -> bool {
    let value = value.unwrap_or_default();
    let of_scheme = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(*byte);
    let word = value.iter().take_while(of_scheme).count();
    value[word..].starts_with(b"::") || value.starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<Vec<(String, Option<String>)>, usize> {
        let shown = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let pair = |it: &Setting| (it.key(), it.value.as_ref().map(shown));
        Ok(parse(text.as_bytes())?.iter().map(pair).collect())
    }

    #[test]
    fn every_form_of_a_setting_is_read() {
        let check = |text: &str, wanted: &[(&str, Option<&str>)]| {
            let owned =
                |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(str::to_owned));
            assert_eq!(keys(text), Ok(wanted.iter().map(owned).collect()), "{text}");
        };
        check("[core]\n\tbare = false\n", &[("core.bare", Some("false"))]);
        check("[Core] BARE\n; c\n# d\n", &[("core.bare", None)]);
        check("\u{feff}[a]b=c\r\n", &[("a.b", Some("c"))]);
        check("[a \"B c\\\"\"]\nd-1 = e", &[("a.B c\".d-1", Some("e"))]);
        check("[a.B] c = d", &[("a.b.c", Some("d"))]);
        check("[a]b = \" x \" y  # z\nc = d;e\n", &[("a.b", Some(" x  y")), ("a.c", Some("d"))]);
        check("[a]b = c\\\n  d\\n\\\"\n", &[("a.b", Some("c  d\n\""))]);
        check("[a]b = \rc \\\n\r\n", &[("a.b", Some("c "))]);
        check("[a]b = \\\n  \"\" c\r", &[("a.b", Some("c"))]);
        check("[a]b =\n[a]c = 1", &[("a.b", Some("")), ("a.c", Some("1"))]);
        check("[include] path = ../x", &[("include.path", Some("../x"))]);
    }

    #[test]
    fn what_is_not_of_the_grammar_is_a_fault_with_its_line() {
        for (text, line) in [
            ("b = c", 1),
            ("\n[a\n", 2),
            ("[]x", 1),
            ("[a] 1 = 2", 1),
            ("[a]\nb = \"c\n", 3),
            ("[a]\nb = \\x", 2),
            ("[a]b c", 1),
            ("[a \"b]\nc = d", 1),
            ("[a]\0", 1),
            ("[a]b = c\0", 1),
            ("[a]\n[remote \"x.uploadpack\0\"]\nurl = ./h", 2),
        ] {
            let found = keys(text).expect_err(text);
            assert!(found.abs_diff(line) <= 1, "{text:?}: {found}");
        }
    }

    #[test]
    fn plain_settings_start_nothing() {
        let plain =
            |text: &str| parse(text.as_bytes()).expect("sound").iter().all(Setting::is_plain);
        for text in [
            "[core]\nrepositoryformatversion = 0\nfilemode = true\nbare = false\n\
             logallrefupdates = true\n[user]\nname = A\n[init]defaultBranch=main",
            "[remote \"origin\"]\nurl = https://a.example/b.git\n\
             fetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[remote \"o\"]\nurl = git@a.example:b.git\n[branch \"main\"]\nremote = origin",
            "[remote \"o\"]\nurl = ssh://[::1]/b",
        ] {
            assert!(plain(text), "{text}");
        }
        for text in [
            "[core]bare = true",
            "[core]bare",
            "[core]fsmonitor = x",
            "[core]worktree = /",
            "[core \"x\"]filemode = true",
            "[alias]a = !x",
            "[include]path = x",
            "[includeIf \"gitdir:/\"]path = x",
            "[remote \"o\"]uploadpack = x",
            "[remote \"o\"]url = ext::sh -c x",
            "[remote \"o\"]url = a-b.c+d::x",
            "[remote \"o\"]url = \rext::sh -c x",
            "[remote \"o\"]url = \\\n ext::sh -c x",
            "[remote \"o\"]url = \"\" -x",
            "[remote \"o\"]url = -x",
            "[branch \"m\"]remote = ext::x",
            "[remote]url = x",
        ] {
            assert!(!plain(text), "{text}");
        }
    }
}
