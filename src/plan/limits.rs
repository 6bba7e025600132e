//! Profile part to plan part: every limit, and who keeps it.
//!
//! A limit is kept by the run's group where there is one that can, for the whole tree; else, as
//! far as that goes, by the kernel for each process. What nobody keeps is not listed.

use super::filesystem::Scratch;
use crate::profile::Profile;
use crate::sys::cgroup::{Ceilings, Kept};
use nix::sys::resource::Resource;
use serde::Serialize;

/// Returns where the profile sets a limit, or why every run has it.
fn place(profile: &Profile, name: &str) -> String {
    let set = profile.places.get(&format!("limits.{name}")).map(str::to_owned);
    set.unwrap_or_else(|| match name {
        "core" => "always: a core file would hold what the command read".to_owned(),
        _ => "always: where no profile says".to_owned(),
    })
}

/// Who keeps a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// The run's cgroup, for the whole tree.
    Group,
    /// The kernel, for each process or for the command's user; the resource's number.
    Rlimit(u32),
    /// The scratch file systems, each by its own size.
    Scratch,
    /// The supervisor, which counts.
    Supervisor,
}

/// A limit as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Its name: the profile's key, or `core`, `output`, `timeout`.
    pub name: &'static str,
    /// Its value: bytes, a number, or seconds for `cpu` and milliseconds for `timeout`.
    pub value: u64,
    /// Who keeps it.
    pub keeper: Keeper,
    /// Where it comes from.
    pub place: String,
}

/// Returns what a run's group is asked to keep.
pub fn ceilings(profile: &Profile) -> Ceilings {
    let limits = &profile.limits;
    Ceilings { memory: limits.memory, pids: limits.pids, cpu: limits.cpu.is_some() }
}

/// Returns every limit of a run whose group keeps `kept`. `output`, in bytes, and `timeout`, in
/// milliseconds, come with their places.
pub fn limits(
    profile: &Profile,
    kept: Kept,
    scratch: &Scratch,
    output: (u64, String),
    timeout: (u64, String),
) -> Vec<Limit> {
    let limits = &profile.limits;
    let of_profile = |name, value, keeper| {
        let place = place(profile, name);
        Limit { name, value, keeper, place }
    };
    let unless = |kept: bool, value: Option<u64>| value.filter(|_| !kept);
    let numbered = [
        // Of every process for itself, and only what it can write to.
        ("memory", Resource::RLIMIT_DATA, unless(kept.memory, limits.memory)),
        // It would count the init too and come before the group, which tells when it refuses.
        ("pids", Resource::RLIMIT_NPROC, unless(kept.pids, limits.pids)),
        ("file_size", Resource::RLIMIT_FSIZE, limits.file_size),
        ("open_files", Resource::RLIMIT_NOFILE, limits.open_files),
        ("cpu", Resource::RLIMIT_CPU, limits.cpu),
        ("core", Resource::RLIMIT_CORE, Some(0)),
    ];
    let rlimits = numbered.into_iter().filter_map(|(name, resource, value)| {
        // No more than this process may have itself; only root could raise it.
        let own = nix::sys::resource::getrlimit(resource).map_or(u64::MAX, |(_, hard)| hard);
        // A second stays for the signal that tells; at the hard limit the kernel just kills.
        let own = if resource == Resource::RLIMIT_CPU { own.saturating_sub(1) } else { own };
        let keeper = Keeper::Rlimit(resource as u32);
        value.map(|value| of_profile(name, value.min(own), keeper))
    });
    let grouped = [
        ("memory", kept.memory, limits.memory),
        ("pids", kept.pids, limits.pids),
        ("cpu", kept.cpu, limits.cpu),
    ];
    let grouped = grouped.into_iter().filter_map(|(name, kept, value)| {
        value.filter(|_| kept).map(|value| of_profile(name, value, Keeper::Group))
    });
    let others =
        [("tmp", scratch.size, Keeper::Scratch), ("tmp_inodes", scratch.inodes, Keeper::Scratch)];
    let others = others
        .into_iter()
        .filter_map(|(name, value, keeper)| value.map(|value| of_profile(name, value, keeper)));
    let counted = [("output", output), ("timeout", timeout)];
    let counted = counted.map(|(name, (value, place))| {
        let keeper = Keeper::Supervisor;
        Limit { name, value, keeper, place }
    });
    rlimits.chain(grouped).chain(others).chain(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keepers of each limit of the shipped profile `build` with a `cpu` of 9 s.
    fn keepers(kept: Kept) -> Vec<(&'static str, Keeper)> {
        let shipped = crate::profile::Profiles::shipped().expect("they are sound");
        let mut profile = shipped.get("build").expect("build").clone();
        profile.limits.cpu = Some(9);
        let (path, size, inodes) = ("/tmp".into(), Some(1), Some(2));
        let scratch = Scratch { path, written: "/tmp", size, inodes, executable: false };
        let (output, timeout) = ((3, String::new()), (4, String::new()));
        let all = limits(&profile, kept, &scratch, output, timeout);
        let rlimit = |keeper| if matches!(keeper, Keeper::Rlimit(_)) { RLIMIT } else { keeper };
        all.into_iter().map(|limit| (limit.name, rlimit(limit.keeper))).collect()
    }

    const RLIMIT: Keeper = Keeper::Rlimit(0);
    const OTHERS: [(&str, Keeper); 4] = [
        ("tmp", Keeper::Scratch),
        ("tmp_inodes", Keeper::Scratch),
        ("output", Keeper::Supervisor),
        ("timeout", Keeper::Supervisor),
    ];

    #[test]
    fn a_group_keeps_what_it_can_and_each_process_the_rest() {
        let of_processes = ["file_size", "open_files", "cpu", "core"].map(|name| (name, RLIMIT));
        let alone = [("memory", RLIMIT), ("pids", RLIMIT)];
        assert_eq!(keepers(Kept::default()), [&alone[..], &of_processes, &OTHERS].concat());
        let kept = Kept { kill: true, memory: true, pids: true, cpu: true };
        let group = ["memory", "pids", "cpu"].map(|name| (name, Keeper::Group));
        assert_eq!(keepers(kept), [&of_processes[..], &group, &OTHERS].concat());
        let kept = Kept { pids: true, ..Kept::default() };
        let some = keepers(kept);
        assert!(some.contains(&("memory", RLIMIT)) && some.contains(&("pids", Keeper::Group)));
    }

    #[test]
    fn the_plans_form_names_the_keeper() {
        let (keeper, place) = (Keeper::Rlimit(6), "a.toml:1:1".to_owned());
        let limit = Limit { name: "pids", value: 5, keeper, place };
        let text = serde_json::json!({
            "name": "pids", "value": 5, "keeper": {"rlimit": 6}, "place": "a.toml:1:1",
        });
        assert_eq!(serde_json::json!(limit), text);
        assert_eq!(serde_json::json!(Keeper::Group), "group");
    }
}
