//! Builds the tree's init (`src/sys/init/main.rs`), a static program without a standard
//! library, so that the supervisor can carry it.

#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "cargo speaks to it in variables; rustc is started")]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "src/sys/init/main.rs";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed=src/sys/init/build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let out = PathBuf::from(variable("OUT_DIR")).join("init");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-name", "pinfold_init", "--crate-type", "bin"])
        .args(["--target", &variable("TARGET")])
        .args(["-Cpanic=abort", "-Copt-level=s", "-Crelocation-model=static", "-Cstrip=symbols"])
        .args(["-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles", "-Clink-arg=-static"])
        .args(["-Clink-arg=-Wl,--build-id=none,-z,norelro,-z,noseparate-code"])
        .arg("-o")
        .arg(&out)
        .arg(source);
    let status = rustc.status().expect("rustc runs");
    assert!(status.success(), "the tree's init does not build");
}
