//! One record as one line: encoding for the writer, decoding for readers.
//!
//! The bytes on disk are what is hashed; nothing is ever written a second time in a canonical
//! form. In exchange the rules of reading are strict: a line that two parsers could understand
//! differently is not a record.
#![forbid(unsafe_code)]

use super::call::CallId;
use super::error::Error;
use crate::record::{Body, Digest, is_unsafe_to_show};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Longest line, in bytes and without its newline.
pub const LINE_BYTES_MAX: usize = 32 << 10;

/// What the first record of a log names as the one before it; 43 times `A` when written.
pub(super) const NOTHING_BEFORE: Digest = Digest([0; 32]);

/// What every record begins with. No string inside a record can hold these bytes, because its
/// quotes would be escaped.
pub(super) const LINE_HEAD: &str = "{\"v\":1,\"seq\":";

/// The members before the body's own, in order.
const COMMON: [&str; 8] = ["v", "seq", "ts", "mono", "boot", "kind", "sess", "id"];

/// The most that stands around an [`Entry`]: two numbers of 20 digits, a timestamp of 27
/// characters, a boot id of 36, a `prev` of 43, and the text between them.
const AROUND_BYTES_MAX: usize =
    LINE_HEAD.len() + 20 + 27 + 20 + 36 + 43 + ",'ts':'','mono':,'boot':'','prev':''}".len();

/// Returns the hash of a record, from its line without the newline: an RFC 6962 leaf.
pub(super) fn leaf(line: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update([0]).chain_update(line).finalize().into())
}

/// The part of a record that does not depend on its place, ready to be written.
#[derive(Debug, Clone)]
pub(super) struct Entry(String);

impl Entry {
    /// Encodes what a call has to say.
    pub(super) fn new(sess: &str, call: &CallId, body: &Body) -> Result<Self, Error> {
        Self::encode(Some(sess), Some(call.as_str()), body)
    }

    /// Encodes what the log says of itself.
    pub(super) fn of_log(body: &Body) -> Result<Self, Error> {
        Self::encode(None, None, body)
    }

    pub(super) fn encode(sess: Option<&str>, id: Option<&str>, body: &Body) -> Result<Self, Error> {
        let whole = json(body)?;
        let members = whole.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let members = members.ok_or_else(|| Error::Encode("it is not an object".to_owned()))?;
        let (kind, sess, id) = (json(&body.kind())?, json(&sess)?, json(&id)?);
        let mut text = String::with_capacity(members.len() + 96);
        for part in ["\"kind\":", &kind, ",\"sess\":", &sess, ",\"id\":", &id, ",", members] {
            escape_into(&mut text, part);
        }
        if !members.is_empty() {
            text.push(',');
        }
        let length = text.len() + AROUND_BYTES_MAX;
        if length > LINE_BYTES_MAX {
            return Err(Error::TooLong { length, limit: LINE_BYTES_MAX });
        }
        Ok(Self(text))
    }

    /// Returns the most bytes that the line can have, its newline included.
    pub(super) fn line_bytes_max(&self) -> usize {
        self.0.len() + AROUND_BYTES_MAX + 1
    }

    /// Appends the whole line to `out`, and returns its leaf.
    pub(super) fn write(&self, out: &mut String, seq: u64, stamp: &Stamp, prev: &Digest) -> Digest {
        let start = out.len();
        let (ts, mono, boot) = (stamp.timestamp(), stamp.mono_ns, &stamp.boot);
        out.push_str(LINE_HEAD);
        // Writing to a string cannot fail.
        write!(out, "{seq},\"ts\":\"{ts}\",\"mono\":{mono},\"boot\":\"{boot}\",").ok();
        out.push_str(&self.0);
        out.push_str("\"prev\":\"");
        out.push_str(&prev.base64url());
        out.push_str("\"}");
        assert!(out.len() - start <= LINE_BYTES_MAX, "Entry::encode keeps room for the rest");
        let leaf = leaf(&out.as_bytes()[start..]);
        out.push('\n');
        leaf
    }
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Encode(error.to_string()))
}

/// Appends JSON text with every hidden character as an escape. Outside strings JSON is plain
/// ASCII, and no escape of a string ends before a hidden character, so characters can be
/// replaced without looking at what surrounds them.
fn escape_into(out: &mut String, json: &str) {
    for ch in json.chars() {
        if is_unsafe_to_show(ch) {
            for unit in ch.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").ok();
            }
        } else {
            out.push(ch);
        }
    }
}

/// When a record was written: the wall clock for people, the boot clock for order.
#[derive(Debug, Clone)]
pub(super) struct Stamp {
    /// Microseconds since 1970, UTC.
    pub(super) wall_us: u64,
    /// Nanoseconds since the machine started, sleep included.
    pub(super) mono_ns: u64,
    /// Which start of the machine.
    pub(super) boot: &'static str,
}

impl Stamp {
    /// Reads both clocks. A clock that cannot be read counts as zero: order and proof come
    /// from the chain, so a wrong time must not stop a record.
    pub(super) fn now() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        let mono_ns = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
            let whole = u64::try_from(time.tv_sec()).unwrap_or(0);
            whole.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec()).unwrap_or(0)
        });
        Self { wall_us, mono_ns, boot: boot_id() }
    }

    /// Returns the wall clock as `2026-11-30T10:44:22.123456Z`.
    pub(super) fn timestamp(&self) -> String {
        // The form has four digits for the year; later times stay at its last second.
        let seconds = (self.wall_us / 1_000_000).min(253_402_300_799);
        let micros = self.wall_us % 1_000_000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Returns year, month and day of a day counted from 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// Returns the kernel's name for this start of the machine, read once.
fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let text = text.trim();
        let is_name =
            text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if is_name { text.to_owned() } else { "unknown".to_owned() }
    })
}

/// One record as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Its place in the log, from 0.
    pub seq: u64,
    /// When it was written, UTC.
    pub ts: String,
    /// What kind it is.
    pub kind: String,
    /// The session, for records of calls.
    pub sess: Option<String>,
    /// The call, for records of calls.
    pub id: Option<String>,
    /// The whole record.
    pub value: Value,
    /// The leaf of the record before it, base64url.
    pub prev: String,
    /// Its own leaf.
    pub leaf: Digest,
    /// The line as it stands on disk, without its newline.
    pub text: String,
}

/// Reads a line that stands without its newline.
///
/// The error says in a few words what is wrong with the line.
pub(super) fn decode(line: &[u8]) -> Result<Decoded, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err("the line is longer than 32 KiB".to_owned());
    }
    if line.contains(&0) {
        return Err("the line has a NUL byte".to_owned());
    }
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
    let Strict(value) = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let members = value.as_object().ok_or("the line is not an object")?;
    let mut names = members.keys().map(String::as_str);
    if !names.by_ref().take(COMMON.len()).eq(COMMON) || names.next_back() != Some("prev") {
        return Err("the common members are missing or out of order".to_owned());
    }
    let string = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let nullable = |name: &str| match members.get(name) {
        Some(Value::Null) => Ok(None),
        _ => string(name).map(Some).ok_or_else(|| format!("`{name}` is not a string or null")),
    };
    let (sess, id) = (nullable("sess")?, nullable("id")?);
    let needs = |name: &str| string(name).ok_or_else(|| format!("`{name}` is not a string"));
    let (ts, kind, prev) = (needs("ts")?, needs("kind")?, needs("prev")?);
    needs("boot")?;
    if members.get("mono").is_none_or(|mono| !mono.is_u64()) {
        return Err("`mono` is not a whole number".to_owned());
    }
    // The next number must exist too.
    let seq = members.get("seq").and_then(Value::as_u64).filter(|seq| *seq < u64::MAX);
    let seq = seq.ok_or("`seq` is not a whole number in range")?;
    if !text.starts_with(LINE_HEAD) || !text.ends_with(&format!(",\"prev\":\"{prev}\"}}")) {
        return Err("the line does not begin and end as a record does".to_owned());
    }
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if prev.len() != 43 || !prev.bytes().all(is_digit) {
        return Err("`prev` is not a hash".to_owned());
    }
    if !is_timestamp(ts.as_bytes()) {
        return Err("`ts` is not a timestamp".to_owned());
    }
    let (leaf, text) = (leaf(line), text.to_owned());
    Ok(Decoded { seq, ts, kind, sess, id, value, prev, leaf, text })
}

fn is_timestamp(text: &[u8]) -> bool {
    let form = b"0000-00-00T00:00:00.000000Z";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    text.len() == form.len() && text.iter().zip(form).all(fits)
}

/// A JSON value in which no object, at any depth, has the same key twice: parsers disagree
/// about which of the two counts.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON without duplicate keys")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((key, Strict(value))) = from.next_entry::<String, Strict>()? {
            if members.insert(key, value).is_some() {
                return Err(A::Error::custom("an object has the same key twice"));
            }
        }
        Ok(Value::Object(members))
    }
}
