//! Carries a plan out: compiles it to steps, makes the child, and holds it at the gate.
//!
//! Nothing is decided here. [`prepare`] gives a [`Gated`] child that builds its sandbox and then
//! waits; only a receipt for the very same plan opens the gate. A gated child that is dropped,
//! or whose supervisor dies, ends without having executed anything.
#![forbid(unsafe_code)]

mod broker;
mod compile;
mod covers;
mod guardian;
mod launch;
mod scratch;
mod view;

pub use compile::Layers;
pub use covers::{Covers, Lost, Uncovered};
pub use launch::{Child, Fault, Gated, Means, Pipes, prepare};
