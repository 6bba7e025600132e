//! Any argument vector, its elements parted by NUL as `/proc` writes them: deciding and
//! explaining it never panic and agree, and what would be executed is what was requested but for
//! the tokens that its template injects.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold::catalog::{Catalog, Role, Via};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::shipped().expect("it is sound"));

fuzz_target!(|bytes: &[u8]| {
    let words = bytes.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
    let argv: Vec<OsString> = words.collect();
    let explained = CATALOG.explain(&argv);
    match (CATALOG.decide(&argv), &explained.result) {
        (Ok(decided), Ok(told)) => {
            assert_eq!(decided, *told);
            let injected = &decided.template.inject_after_sub;
            let mut executed = decided.executed(&argv);
            let added = executed.splice(decided.inject_at..decided.inject_at + injected.len(), []);
            assert!(added.eq(injected.iter().map(OsString::from)));
            assert_eq!(executed, argv);
            if decided.via == Via::Itself {
                let read = |at: usize| explained.trace.role(at) != Role::Unread;
                assert!((0..argv.len()).all(read), "an element was accepted unread: {argv:?}");
            }
        }
        (Err(refusal), Err(told)) => {
            assert_eq!(refusal, *told);
            assert!(!refusal.next().is_empty());
        }
        (decided, told) => panic!("{argv:?}: {decided:?} and {told:?}"),
    }
});
