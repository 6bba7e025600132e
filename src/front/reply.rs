//! One table: from a reply to the exit code.

use crate::record::{Outcome, Reply};

/// Exit code after the deadline.
pub const TIMEOUT: u8 = 124;
/// Exit code for a fault of Pinfold or the host, and for wrong usage.
pub const FAULT: u8 = 125;
/// What a shell adds to a signal's number.
const SIGNAL_BASE: i32 = 128;
/// Exit code of a command that was killed at a limit and has no other: that of `SIGKILL`.
const KILLED: i32 = SIGNAL_BASE + 9;

/// Returns the exit code of `pinfold run`: the command's own; 124 after the deadline; 125, 126 or
/// 127 where nothing ran; 128 and the signal's number after a signal or a kill at a limit.
pub fn exit_code(reply: &Reply) -> u8 {
    let command = || {
        let by_signal = reply.signal.map(|signal| SIGNAL_BASE + signal);
        let killed = (reply.outcome == Outcome::Limit).then_some(KILLED);
        let code = reply.exit_code.or(by_signal).or(killed).unwrap_or(i32::from(FAULT));
        u8::try_from(code).unwrap_or(FAULT)
    };
    match reply.outcome {
        Outcome::Ok | Outcome::Nonzero | Outcome::Cancelled | Outcome::Limit => command(),
        Outcome::Timeout => TIMEOUT,
        Outcome::Refused => reply.decision.code.map_or(FAULT, |code| code.exit()),
        Outcome::Error | Outcome::Unknown => FAULT,
    }
}
