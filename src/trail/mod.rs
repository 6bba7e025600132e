//! The trail: what happened, durably, in the order in which it happened.
//!
//! The room answers one question for the launcher ("may this start?", with a [`Receipt`]) and
//! one for people ("what happened?", with [`verify()`], [`records`] and [`stats`]). A record is one
//! line of JSON; each line names the SHA-256 leaf of the line before it, so a line cannot be
//! changed, dropped, doubled or moved without the next one showing it.
//!
//! What never enters: policy (nothing here decides whether a command may run), secrets (callers
//! redact first), and file operations outside `file`, which alone knows what durable means.
//!
//! What a crash means, by the moment at which it comes:
//!
//! * Before the first segment has a line: an empty or torn segment; the next open begins it.
//! * While a batch is written: a torn tail; it is kept aside and cut off, and `log.recovered`
//!   says so.
//! * After the write, before the sync: all of the lines, a torn tail, or nothing. Nobody was
//!   told that they count, and nothing started.
//! * After the sync of an `intent`: an `intent` without `end`. The command may have run; its
//!   outcome is unknown.
//! * After the sync of an `end`: the whole call. A reply may be missing, the record is not.
//! * After torn bytes were kept as `torn-N`: they and the tail; the same is done again.
//! * After the tail was cut: `torn-N`, where N is the next record; the missing `log.recovered`
//!   is written.
//!
//! Only whoever holds an outside copy of a size and its root can show that the tail was cut or
//! rewritten afterwards by the owner of the files; a [`Place`] carries both for that reason.
#![forbid(unsafe_code)]

mod call;
mod error;
mod file;
mod line;
mod read;
mod recover;
mod scan;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use call::{CallId, session_id};
pub use error::{Cause, Error};
pub use line::{Decoded, LINE_BYTES_MAX};
pub use read::{Records, Stats, human, records, stats};
pub use verify::{Report, Verdict, verify};
pub use writer::{Place, Receipt, Trail};
