//! Text and digests as they stand in records: never cut in silence, never acting on a terminal.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Text that came from outside and need not be UTF-8: a JSON string where it is, else
/// `{"b64": …}` (RFC 4648 base64 with padding).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Vec<u8>);

impl Text {
    /// Shows the text on one line with everything escaped that could act on a terminal or
    /// mislead a reader; bytes that are not UTF-8 appear as `\xNN`.
    pub fn escaped(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for ch in chunk.valid().chars() {
                if is_unsafe_to_show(ch) || ch == '\\' {
                    out.extend(ch.escape_default());
                } else {
                    out.push(ch);
                }
            }
            for byte in chunk.invalid() {
                out.push_str(&format!("\\x{byte:02x}"));
            }
        }
        out
    }
}

/// Returns whether a character is escaped wherever it is shown or written: controls, line and
/// paragraph separators, the bidirectional controls, and what stays invisible to a reader, the
/// tag characters among it, which carry text that models read and people do not see.
pub fn is_unsafe_to_show(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

impl Text {
    /// Returns the most bytes it can take in a record, where every character may be escaped.
    fn written_bytes_max(&self) -> usize {
        match std::str::from_utf8(&self.0) {
            Err(_) => self.0.len() / 3 * 4 + 16,
            Ok(text) => {
                let size = |ch: char| match ch {
                    '"' | '\\' => 2,
                    _ if is_unsafe_to_show(ch) => 12,
                    _ => ch.len_utf8(),
                };
                text.chars().map(size).sum::<usize>() + 2
            }
        }
    }

    /// Shows the text escaped and, where it is long, cut with its length said.
    pub fn shown(&self) -> String {
        let escaped = self.escaped();
        match escaped.char_indices().nth(SHOWN_CHARS_MAX) {
            None => escaped,
            Some((at, _)) => format!("{}… ({} bytes)", &escaped[..at], self.0.len()),
        }
    }
}

/// Most characters of a text that a message shows.
const SHOWN_CHARS_MAX: usize = 160;
/// Most characters of one message of Pinfold's own, its name in front included; what shows the
/// place of a fault in a file may follow on more lines.
pub const MESSAGE_CHARS_MAX: usize = 399;

/// Cuts the parts of one message so that they have at most `room` characters together. Short ones
/// stay whole; each long one ends in `…` and gets its share of what they leave.
pub fn fit<const N: usize>(parts: [String; N], room: usize) -> [String; N] {
    // No text has more characters than bytes.
    if parts.iter().map(String::len).sum::<usize>() <= room {
        return parts;
    }
    let mut lengths = parts.each_ref().map(|part| part.chars().count());
    lengths.sort_unstable();
    let (mut room, mut left) = (room, N);
    for length in lengths {
        if length * left > room {
            break;
        }
        (room, left) = (room - length, left - 1);
    }
    let share = room.checked_div(left).unwrap_or(usize::MAX);
    parts.map(|part| match part.char_indices().nth(share) {
        None => part,
        Some(_) => part.chars().take(share.saturating_sub(1)).chain(['…']).collect(),
    })
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&OsString> for Text {
    fn from(text: &OsString) -> Self {
        Self::from(text.as_os_str())
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Self {
        Self::from(path.as_os_str())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        Self::from_vec(text.0)
    }
}

impl Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match std::str::from_utf8(&self.0) {
            Ok(text) => out.serialize_str(text),
            Err(_) => {
                let mut map = out.serialize_map(Some(1))?;
                map.serialize_entry("b64", &base64(&self.0, BASE64, true))?;
                map.end()
            }
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8], alphabet: &[u8; 64], pad: bool) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                let index = word >> (18 - 6 * place) & 63;
                out.push(char::from(alphabet[index as usize]));
            } else if pad {
                out.push('=');
            }
        }
    }
    out
}

/// A text as it stands in a record: whole, or where it is long by its digest and length, so that
/// nothing is cut in silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// The text.
    Whole(Text),
    /// What stands for a long one.
    Digest {
        /// Its digest.
        sha256: Digest,
        /// Its length in bytes.
        n: u64,
    },
}

/// Longest text that stands whole in a record, in bytes as they are written.
const WORD_BYTES_MAX: usize = 2 << 10;
/// Most bytes of a record that the words of one list may take.
const WORDS_BYTES_MAX: usize = 12 << 10;
/// Most words of one list; the count and the digest of the whole list stand beside it.
const WORDS_MAX: usize = 64;

impl Word {
    /// Takes the words of a list, whole as far as they fit.
    pub fn list(texts: &[Text]) -> Vec<Self> {
        let mut room = WORDS_BYTES_MAX;
        let word = |text: &Text| {
            let size = text.written_bytes_max();
            if size > WORD_BYTES_MAX.min(room) {
                let sha256 = Digest(Sha256::digest(&text.0).into());
                return Self::Digest { sha256, n: text.0.len() as u64 };
            }
            room -= size;
            Self::Whole(text.clone())
        };
        texts.iter().take(WORDS_MAX).map(word).collect()
    }

    /// Takes one text.
    pub fn one(text: impl Into<Text>) -> Self {
        let text = text.into();
        if text.written_bytes_max() <= WORD_BYTES_MAX {
            return Self::Whole(text);
        }
        Self::Digest { sha256: Digest(Sha256::digest(&text.0).into()), n: text.0.len() as u64 }
    }
}

/// Digest of an argument vector: SHA-256 of `grant-argv-v1`, the number of elements, and for each
/// its length and bytes; numbers are 32 bits, big-endian.
pub fn argv_digest(argv: &[Text]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"grant-argv-v1");
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    hash.update(number(argv.len()));
    for element in argv {
        hash.update(number(element.0.len()));
        hash.update(&element.0);
    }
    Digest(hash.finalize().into())
}

/// A SHA-256 value; shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the 43-character base64url form without padding, the form of `prev`.
    pub fn base64url(&self) -> String {
        base64(&self.0, BASE64_URL, false)
    }

    /// Reads the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut out = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_written_as_base64() {
        let json = serde_json::to_string(&[Text(b"a\xff".to_vec()), Text(b"ab".to_vec())]);
        assert_eq!(json.expect("plain data"), r#"[{"b64":"Yf8="},"ab"]"#);
    }

    #[test]
    fn digests_have_two_forms() {
        let digest = Digest([0xfb; 32]);
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(digest.base64url().len(), 43);
        assert!(digest.base64url().starts_with("-_v7"));
    }

    #[test]
    fn escaped_text_is_one_safe_line() {
        let shown = Text(b"a\n\x1b[1m\xff\xe2\x80\xae\\".to_vec()).escaped();
        assert_eq!(shown, r"a\n\u{1b}[1m\xff\u{202e}\\");
    }

    #[test]
    fn parts_of_a_message_share_its_room() {
        let parts = |lengths: [usize; 3]| lengths.map(|length| "é".repeat(length));
        let fitted = |lengths| fit(parts(lengths), 30).map(|part| part.chars().count());
        assert_eq!(fit(parts([5, 20, 5]), 30), parts([5, 20, 5]));
        assert_eq!(fitted([5, 21, 5]), [5, 20, 5]);
        assert_eq!(fitted([100, 0, 12]), [18, 0, 12]);
        assert_eq!(fitted([100, 100, 100]), [10, 10, 10]);
        assert!(fit(parts([100, 5, 5]), 30)[0].ends_with("é…"));
    }

    #[test]
    fn a_long_word_stands_by_its_digest_and_the_list_is_bounded() {
        let long = Text(vec![b'x'; 4096]);
        let many = vec![Text::from("word"); 5_000];
        assert!(matches!(Word::one(long), Word::Digest { n: 4096, .. }));
        assert_eq!(Word::list(&many).len(), WORDS_MAX);
        let hidden = Text("\u{202e}".repeat(WORD_BYTES_MAX / 12).into_bytes());
        let list = Word::list(&vec![hidden; WORDS_MAX]);
        let whole = list.iter().filter(|word| matches!(word, Word::Whole(_))).count();
        assert!(whole * WORD_BYTES_MAX <= WORDS_BYTES_MAX + WORD_BYTES_MAX, "{whole}");
        assert_ne!(argv_digest(&many[..1]), argv_digest(&many[..2]));
    }
}
