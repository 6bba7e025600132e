//! Profile part to plan part: limits that the kernel keeps for each process.

use crate::profile::Profile;
use nix::sys::resource::Resource;

/// A resource limit: its name in a profile, the kernel's number for it, and the value.
pub type Limit = (&'static str, u32, u64);

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
        value.map(|value| (name, resource as u32, value.min(own)))
    };
    numbered.into_iter().filter_map(set).collect()
}
