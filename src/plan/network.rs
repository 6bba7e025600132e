//! Profile part to plan part: the network.

use crate::profile::{NetworkMode, Profile};
use crate::record::{Code, Refusal};

/// Returns whether the command's network namespace has its loopback interface up.
///
/// # Errors
/// A refusal with code `profile-unavailable` for the mode that this version cannot give.
pub fn loopback(profile: &Profile) -> Result<bool, Refusal> {
    match profile.network.mode {
        NetworkMode::None => Ok(false),
        NetworkMode::Loopback => Ok(true),
        NetworkMode::Allowlist => Err(Refusal::new(
            Code::ProfileUnavailable,
            format!("profile `{}`", profile.name),
            "its network reaches named hosts, which this version cannot confine",
            "ask the operator to bring the content in",
        )),
    }
}
