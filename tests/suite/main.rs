//! The promises, one file each, tried through the real binary.
#![allow(missing_docs, reason = "tests are named as sentences")]
#![allow(clippy::disallowed_methods, reason = "tests start programs and make files")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

#[path = "../support/mod.rs"]
mod support;

mod config;
mod filesystem;
mod hygiene;
mod input;
mod profiles;
mod programs;
mod reply;
mod surroundings;
mod trail;
mod workspace;
