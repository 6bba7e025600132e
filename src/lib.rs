//! Pinfold keeps untrusted AI agents in a pinfold on Linux.
//!
//! **The order of these lines is the law: a module uses only modules above it.** Reading order,
//! data order and dependency order are the same. `tests/layout.rs` keeps it; a later room takes
//! the place that `docs/ARCHITECTURE.md` gives it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make files and folders"))]

// The kernel; the only unsafe code; knows nothing of the product.
pub mod sys;
// Configuration text: reading it with spans, and faults that point at path:line:col.
pub mod source;
// The vocabulary that is written to the trail or crosses a door.
pub mod record;
// What may a command touch? Pure: parse, inherit, check.
pub mod profile;
// May it run? Pure: parse, match, and the pinning of programs.
pub mod catalog;
// Everything a launch will do: printable, comparable, digestible.
pub mod plan;
// What happened, durably; the only maker of receipts.
pub mod trail;
// Carries a plan out: compiles it to steps, and holds the child at the gate.
pub mod sandbox;
// How did it end? Output, deadline, the end of the tree.
pub mod supervise;
// Was the repository left safe? What a run changed that programs outside act on.
pub mod guard;
// The pipeline: the only place that calls the stages in order.
pub mod run;
// The doors: bytes to requests, replies to bytes. No decisions.
pub mod front;
