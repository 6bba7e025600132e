//! A receipt cannot be forged: code outside `trail` that tries to make, copy or change one does
//! not compile, and its twin without the forging line does.
#![allow(clippy::disallowed_methods, reason = "tests start programs and make files")]
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Finds the library that this test was linked with: the newest one beside it.
fn library() -> Option<(PathBuf, PathBuf)> {
    let deps = std::env::current_exe().ok()?.parent()?.to_owned();
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libpinfold-") && name.ends_with(".rlib")
    };
    let files = deps.read_dir().ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let newest = files
        .filter(is_library)
        .max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok())?;
    Some((newest, deps))
}

/// The compiler, the library and its dependencies; `None`, with the reason printed, where the
/// test runs without them and nobody insisted on them.
fn toolchain() -> Option<(String, PathBuf, PathBuf)> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let answers = Command::new(&rustc).arg("--version").output();
    let missing = match (answers, library()) {
        (Ok(output), Some((library, deps))) if output.status.success() => {
            return Some((rustc, library, deps));
        }
        (Ok(output), _) if output.status.success() => "libpinfold is not beside this test",
        _ => "there is no Rust compiler on PATH",
    };
    assert!(std::env::var_os("PINFOLD_REQUIRE_TOOLCHAIN").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

fn compile((rustc, library, deps): &(String, PathBuf, PathBuf), dir: &Path, code: &str) -> Output {
    let file = dir.join("case.rs");
    std::fs::write(&file, code).expect("the case can be written");
    Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-Adead_code"])
        .arg("--extern")
        .arg(format!("pinfold={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("--out-dir")
        .arg(dir)
        .arg(file)
        .output()
        .expect("the compiler runs")
}

/// A function that gets a true receipt, with a place for one more line.
fn case(line: &str) -> String {
    format!(
        "use pinfold::record::Digest;
         use pinfold::trail::{{CallId, Error, Place, Receipt, Trail}};
         fn launch(receipt: Receipt) -> u64 {{ receipt.place().size }}
         pub fn case(trail: &Trail, call: CallId, plan: Digest, place: Place,
                     intent: Box<pinfold::record::Intent>) -> Result<u64, Error> {{
             let mut receipt = trail.intent(\"s\", &call, intent)?;
             let _ = (&mut receipt, &plan, &place);
             {line}
             Ok(launch(receipt))
         }}"
    )
}

#[test]
fn a_receipt_cannot_be_forged() {
    let Some(tools) = toolchain() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let compile = |line: &str| compile(&tools, dir.path(), &case(line));
    let twin = compile("");
    assert!(twin.status.success(), "{}", String::from_utf8_lossy(&twin.stderr));
    for (what, line, code) in [
        ("made", "let receipt = Receipt { call, plan, place };", "E0451"),
        ("made from another", "let receipt = Receipt { plan, ..receipt };", "E0451"),
        ("changed", "receipt.plan = plan;", "E0616"),
        ("changed through an accessor", "*receipt.plan() = plan;", "E0594"),
        ("copied", "let other: Receipt = receipt.clone(); launch(other);", "E0599"),
        ("used twice", "launch(receipt);", "E0382"),
        ("defaulted", "let receipt = Receipt::default();", "E0599"),
        ("constructed", "let receipt = Receipt::new(call, plan, place);", "E0599"),
        ("made by an inner door", "let receipt: pinfold::trail::writer::Receipt;", "E0603"),
        (
            "made past the sync",
            "let _ = |trail: pinfold::trail::Trail| trail.commit_durably(Vec::new());",
            "E0624",
        ),
    ] {
        let output = compile(line);
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "a receipt can be {what}");
        assert!(shown.contains(&format!("error[{code}]")), "{what}: {shown}");
    }
}
