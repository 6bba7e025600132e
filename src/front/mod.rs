//! The doors: bytes to requests, replies to bytes. No decision is made here.
//!
//! A door that dies loses nothing: what it asked for is in the trail, and the tree of a run
//! ends with its supervisor.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod reply;
