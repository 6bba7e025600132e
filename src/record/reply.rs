//! What a caller is told of a call.

use super::{Approval, Decision, GuardReport, LimitHit, Outcome, Rung, Text};
use serde::Serialize;

/// Which streams were cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Truncated {
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// Where the call stands in the trail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TrailPlace {
    /// Sequence number of the `intent` or `refusal`.
    pub intent: Option<u64>,
    /// Sequence number of the `end`.
    pub end: Option<u64>,
    /// How many records the trail has after it.
    pub size: u64,
    /// Leaf hash of the trail's last record, base64url.
    pub root: String,
}

/// The answer to a request, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply {
    /// How the call ended.
    pub outcome: Outcome,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit that was hit.
    pub limit: Option<LimitHit>,
    /// What was decided.
    pub decision: Decision,
    /// How it was approved.
    pub approval: Option<Approval>,
    /// The profile.
    pub profile: Option<String>,
    /// The rung.
    pub rung: Option<Rung>,
    /// The layers that were applied.
    pub layers: Vec<String>,
    /// Captured standard output.
    pub stdout: Text,
    /// Captured standard error.
    pub stderr: Text,
    /// Which streams were cut.
    pub truncated: Truncated,
    /// Wall time, in milliseconds.
    pub duration_ms: u64,
    /// What the kernel refused, where it tells.
    pub denials: Vec<String>,
    /// What the guard found.
    pub guard: Option<GuardReport>,
    /// Where the call stands in the trail.
    pub trail: TrailPlace,
    /// The sentence that says why nothing ran, what failed, which limit was hit, what a host
    /// program uncovered, or that a commit has the identity that nobody configured.
    pub message: Option<String>,
}
