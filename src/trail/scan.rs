//! A checker of JSON text for the verifier: it builds nothing and trusts no library, so that a
//! mistake in the parser that readers use shows as a difference between the two.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;

/// How deep values may be nested.
const DEPTH_MAX: u32 = 100;

/// One member of the outermost object: its name, and where its value stands.
pub(super) type Member = (String, Range<usize>);

/// Checks that the text is one JSON object in which no object has a key twice and no string an
/// unpaired surrogate; returns the members of the outermost object, in order.
pub(super) fn members(text: &str) -> Result<Vec<Member>, &'static str> {
    let mut scan = Scan { text: text.as_bytes(), at: 0 };
    let members = scan.object(0)?;
    scan.blank();
    if scan.at == text.len() { Ok(members) } else { Err("something follows the object") }
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> u8 {
        // A zero byte is no JSON, so it can stand for the end.
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn blank(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Result<(), &'static str> {
        if depth > DEPTH_MAX {
            return Err("values are nested too deeply");
        }
        match self.peek() {
            b'{' => self.object(depth).map(drop),
            b'[' => self.array(depth),
            b'"' => self.string().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: u32) -> Result<Vec<Member>, &'static str> {
        let (mut members, mut seen) = (Vec::new(), HashSet::new());
        if !self.take(b'{') {
            return Err("an object is missing");
        }
        self.blank();
        if self.take(b'}') {
            return Ok(members);
        }
        loop {
            self.blank();
            let name = self.string()?;
            if !seen.insert(name.clone()) {
                return Err("an object has the same key twice");
            }
            self.blank();
            if !self.take(b':') {
                return Err("a colon is missing");
            }
            self.blank();
            let start = self.at;
            self.value(depth + 1)?;
            members.push((name, start..self.at));
            self.blank();
            if self.take(b'}') {
                return Ok(members);
            }
            if !self.take(b',') {
                return Err("a comma or brace is missing");
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<(), &'static str> {
        self.at += 1;
        self.blank();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.blank();
            self.value(depth + 1)?;
            self.blank();
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err("a comma or bracket is missing");
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), &'static str> {
        if !self.text[self.at..].starts_with(word) {
            return Err("a value is misspelt");
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err("a value or digit is missing") }
    }

    fn number(&mut self) -> Result<(), &'static str> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Reads a string and returns what it means, escapes resolved.
    fn string(&mut self) -> Result<String, &'static str> {
        if !self.take(b'"') {
            return Err("a string is missing");
        }
        let mut units: Vec<u8> = Vec::new();
        loop {
            let byte = self.peek();
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    let ch = self.escape()?;
                    units.extend(ch.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err("a string has a control character or no end"),
                _ => units.push(byte),
            }
        }
        String::from_utf8(units).map_err(|_| "a string is not UTF-8")
    }

    fn escape(&mut self) -> Result<char, &'static str> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unpaired = "a string has an unpaired surrogate";
                let high = self.hex()?;
                if !(0xd800..0xe000).contains(&high) {
                    return char::from_u32(high).ok_or(unpaired);
                }
                if !self.take(b'\\') || !self.take(b'u') {
                    return Err(unpaired);
                }
                let low = self.hex()?;
                if high >= 0xdc00 || !(0xdc00..0xe000).contains(&low) {
                    return Err(unpaired);
                }
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                char::from_u32(code).ok_or(unpaired)?
            }
            _ => return Err("a string has an unknown escape"),
        })
    }

    fn hex(&mut self) -> Result<u32, &'static str> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()).to_digit(16);
            value = value << 4 | digit.ok_or("an escape has too few digits")?;
            self.at += 1;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::members;

    #[test]
    fn sound_objects_are_taken_apart() {
        let text = r#"{"a":1,"b":{"c":[true,false,null,-0.5e+3,"\ud83d\ude00\n"]},"é":""}"#;
        let found = members(text).expect("sound");
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "é"]);
        assert_eq!(&text[found[0].1.clone()], "1");
        assert_eq!(members("{ } ").map(|found| found.len()), Ok(0));
    }

    #[test]
    fn everything_else_is_refused() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        for text in [
            "",
            "[]",
            "1",
            "{",
            "{}{}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":tru}"#,
            r#"{"a":"}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\udc00\ud800"}"#,
            r#"{"a":"\ud800\u0041"}"#,
            r#"{"a":"\u00g0"}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":[{"a":1,"a":1}]}"#,
            "{\"a\":1\0}",
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":-}"#,
            r#"{"a":1e}"#,
            &deep,
        ] {
            assert!(members(text).is_err(), "{text}");
        }
    }
}
