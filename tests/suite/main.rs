//! The promises, one file each, tried through the real binary.
#![allow(missing_docs, reason = "tests are named as sentences")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

#[path = "../support/mod.rs"]
mod support;

mod aliases;
mod filesystem;
mod layers;
mod operands;
mod ownership;
mod paths;
mod protected;
mod set_id;
mod view;
