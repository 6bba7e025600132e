//! The promises, one file each, tried through the real binary.
#![allow(missing_docs, reason = "tests are named as sentences")]
#![allow(clippy::disallowed_methods, reason = "tests start programs and make files")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]
#![allow(unsafe_code, reason = "terminals and filters of a test's own")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

#[path = "../support/mod.rs"]
mod support;

mod aliases;
mod config;
mod decisions;
mod doctor;
mod effective;
mod everyday;
mod examples;
mod explain;
mod filesystem;
mod guarded_programs;
mod guard;
mod guardian;
mod hygiene;
mod identity;
mod init;
mod input;
mod layers;
mod lifetime;
mod limits;
mod masks;
mod messages;
mod names;
mod network;
mod operands;
mod order;
mod output;
mod overlay;
mod ownership;
mod paths;
mod policy;
mod profiles;
mod programs;
mod protected;
mod published;
mod renders;
mod reply;
mod schemas;
mod set_id;
mod surroundings;
mod syscalls;
mod tools;
mod trail;
mod view;
mod weaker;
mod workspace;
mod worktrees;
