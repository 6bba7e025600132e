//! The policy engine against other opinions on random input: the reference decider, bash, CPython,
//! and properties that hold whatever the input is.
//!
//! `PINFOLD_SEED` repeats a run, `PINFOLD_LONG=1` makes it long.
#![allow(missing_docs, reason = "tests are named as sentences")]
#![allow(clippy::disallowed_methods, reason = "tests start programs and make files")]
#![allow(unsafe_code, reason = "what all tests stand on has a filter of its own")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod chance;
mod generated;
mod interpreter;
mod lines;
mod properties;
mod reference;
