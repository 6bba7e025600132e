//! How did it end? Watches a child from the open gate until its whole tree is gone.
//!
//! Completion is the program's exit and the end of the tree, never the end of its output: a
//! grandchild that keeps a pipe open keeps nobody waiting. Output flows one way, to a sink.
//! Nothing here decides anything; a crash here closes the life pipe, which ends the tree.
#![forbid(unsafe_code)]

mod output;
mod watch;

pub use output::{Captured, Sink, Stream};
pub use watch::{Ended, Losses, Stop, watch};
