//! Any line: splitting and deciding it never panics, and its words, quoted and joined, split to
//! the same words again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold::catalog::{Catalog, LINE_BYTES_MAX};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::shipped().expect("it is sound"));

/// Writes words as a line: each in single quotes, in which only they themselves cannot stand.
fn joined(words: &[OsString]) -> Vec<u8> {
    let mut line = Vec::new();
    for word in words {
        line.push(b'\'');
        for byte in word.as_bytes() {
            match byte {
                b'\'' => line.extend(b"'\"'\"'"),
                _ => line.push(*byte),
            }
        }
        line.extend(b"' ");
    }
    line
}

fuzz_target!(|line: &[u8]| {
    let Ok(words) = CATALOG.split(OsStr::from_bytes(line)) else { return };
    assert!(!words.is_empty() && line.len() <= LINE_BYTES_MAX);
    let again = joined(&words);
    if again.len() <= LINE_BYTES_MAX {
        assert_eq!(CATALOG.split(OsStr::from_bytes(&again)).expect("it is quoted"), words);
    }
    let decided = CATALOG.decide(&words).map_err(|refusal| refusal.code);
    let explained = CATALOG.explain(&words).result.map_err(|refusal| refusal.code);
    assert_eq!(decided, explained);
});
