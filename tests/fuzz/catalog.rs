//! Any text: reading it as a catalog never panics, a faulty one names its faults, and one that
//! loads decides its own examples.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold::catalog::Catalog;
use pinfold::source::{At, Source};
use std::ffi::OsStr;

fuzz_target!(|text: &str| {
    let catalog = match Catalog::load(Source::new("catalog.toml", text), None) {
        Ok(catalog) => catalog,
        Err(faults) => {
            assert!(!faults.is_empty() && !faults.to_string().is_empty());
            return;
        }
    };
    for template in catalog.templates() {
        let fits = |line: &At<String>| {
            let argv = catalog.split(OsStr::new(&line.value)).ok();
            argv.is_some_and(|argv| {
                catalog.decide(&argv).is_ok_and(|matched| matched.template.id == template.id)
            })
        };
        assert!(template.matches.iter().all(fits), "{}: {:?}", template.id, template.matches);
        assert!(!template.no_matches.iter().any(fits), "{}", template.id);
        assert!(!template.matches.is_empty() && !template.no_matches.is_empty());
    }
});
