//! Profile part to plan part: limits that the kernel keeps for each process.

use crate::profile::Profile;
use nix::sys::resource::Resource;
use serde::Serialize;

/// A resource limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Its name: the profile's key, or `core`.
    pub name: &'static str,
    /// The kernel's number for it.
    pub resource: u32,
    /// The value, in the profile's unit.
    pub value: u64,
    /// Where it comes from.
    pub place: String,
}

/// Returns where the profile sets a limit, or why every run has it.
pub fn place(profile: &Profile, name: &str) -> String {
    let set = profile.places.get(&format!("limits.{name}")).map(str::to_owned);
    set.unwrap_or_else(|| match name {
        "core" => "always: a core file would hold what the command read".to_owned(),
        _ => "always: where no profile says".to_owned(),
    })
}

/// Returns the resource limits of a run. What a profile says of memory is for a cgroup and is
/// not among them; a plan lists only what is enforced.
pub fn resource_limits(profile: &Profile) -> Vec<Limit> {
    let limits = &profile.limits;
    let numbered = [
        ("file_size", Resource::RLIMIT_FSIZE, limits.file_size),
        ("open_files", Resource::RLIMIT_NOFILE, limits.open_files),
        ("pids", Resource::RLIMIT_NPROC, limits.pids),
        ("cpu", Resource::RLIMIT_CPU, limits.cpu),
        ("core", Resource::RLIMIT_CORE, Some(0)),
    ];
    let set = |(name, resource, value): (&'static str, Resource, Option<u64>)| {
        // No more than this process may have itself; only root could raise it.
        let own = nix::sys::resource::getrlimit(resource).map_or(u64::MAX, |(_, hard)| hard);
        let place = || place(profile, name);
        let resource = resource as u32;
        value.map(|value| Limit { name, resource, value: value.min(own), place: place() })
    };
    numbered.into_iter().filter_map(set).collect()
}
