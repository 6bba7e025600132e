//! More than a run asks: each mechanism tried, for `pinfold doctor`.

use super::folder::Folder;
use super::{Host, Missing, Mode, advice, guardian, mode, tries};
use crate::plan::identity::FIRST_UID;
use crate::plan::workspace::c_path;
use crate::record::Rung;
use crate::sys;
use crate::sys::cgroup::{Ceilings, Kept, Parents};
use crate::sys::spawn::{Spawner, ThreadLayers};
use std::io;
use std::path::Path;

/// What came of trying a mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It works; with a word on how much of it there is.
    Works(String),
    /// It cannot be had.
    Missing(Missing),
    /// No run here would use it, for this reason.
    Unused(String),
}

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its name, as in replies and refusals.
    pub layer: &'static str,
    /// What came of it.
    pub state: State,
}

/// What a host gives a run in a folder.
#[derive(Debug)]
pub struct Examination {
    /// What a run finds out.
    pub host: Host,
    /// The rung of a run.
    pub rung: Rung,
    /// What the group of a run keeps.
    pub kept: Kept,
    /// Every mechanism, in the order in which it counts.
    pub findings: Vec<Finding>,
    /// The folder.
    pub folder: Folder,
}

impl Examination {
    /// Lists what is missing.
    pub fn missing(&self) -> impl Iterator<Item = &Missing> {
        self.findings.iter().filter_map(|finding| match &finding.state {
            State::Missing(missing) => Some(missing),
            State::Works(_) | State::Unused(_) => None,
        })
    }
}

/// Tries each mechanism in throw-away children, for a run in `folder`. What runs remember of this
/// host at `cache` is found out again, so that the next run agrees.
///
/// # Errors
/// Those of reading `/proc` and the folder, and of starting a thread.
pub fn examine(folder: &Path, cache: Option<&Path>) -> io::Result<Examination> {
    // Without the filters that every run's thread has: whether they can be had is asked below.
    let spawner = Spawner::start(mode()? == Mode::Root, ThreadLayers { seccomp: false })?;
    if let Some(cache) = cache {
        // One that cannot be removed cannot be written either, and counts in runs as it stands.
        std::fs::remove_file(cache).ok();
    }
    let mut host = Host::probe(&spawner, cache)?;
    if !host.lacks("landlock") {
        let refused = tries::landlock(&spawner).err();
        host.missing.extend(refused.map(|failed| advice::landlock_refused(&failed)));
    }
    if !host.lacks("seccomp") {
        let refused = tries::seccomp(&spawner).err();
        host.missing.extend(refused.map(|failed| advice::seccomp_refused(&failed)));
    }
    if host.uid == 0 && !host.lacks("ids") {
        let refused = tries::ids(&spawner, FIRST_UID).err();
        host.missing.extend(refused.map(|failed| advice::unmapped_ids(&failed, FIRST_UID)));
    }
    let folder = Folder::of(folder)?;
    let (kept, group) = match host.rung() {
        Rung::A | Rung::B => own_group(&spawner),
        Rung::C | Rung::None => (Kept::default(), Ok(())),
    };
    let rung = if kept.kill { Rung::A } else { host.rung() };
    let findings = vec![
        host.finding("landlock", || format!("ABI {}", host.landlock)),
        host.finding("seccomp", || "filters of calls and of their arguments".to_owned()),
        capabilities(&host),
        host.finding("namespaces", || namespaces(host.mode).to_owned()),
        proc(&host),
        ids(&host),
        Finding { layer: "idmap", state: idmap(&host, &folder) },
        Finding { layer: "cgroup-kill", state: placed_and_killed(&host, group) },
        Finding { layer: "cgroup-limits", state: limited(&host, kept) },
        Finding { layer: "guardian", state: guarded(&host, &spawner) },
    ];
    Ok(Examination { host, rung, kept, findings, folder })
}

impl Host {
    /// What came of a mechanism of which `missing` speaks.
    fn finding(&self, layer: &'static str, works: impl FnOnce() -> String) -> Finding {
        let missing = self.missing.iter().find(|missing| missing.layer == layer);
        let state = missing.cloned().map_or_else(|| State::Works(works()), State::Missing);
        Finding { layer, state }
    }
}

fn unused(layer: &'static str, why: &str) -> Finding {
    Finding { layer, state: State::Unused(why.to_owned()) }
}

fn capabilities(host: &Host) -> Finding {
    match host.uid {
        0 => host.finding("capabilities", || "those that confining needs".to_owned()),
        _ => unused("capabilities", "an ordinary user's run has a user namespace of its own"),
    }
}

fn namespaces(mode: Mode) -> &'static str {
    match mode {
        Mode::Root => "mount pid ipc uts cgroup net",
        Mode::User => "user mount pid ipc uts cgroup net",
    }
}

fn proc(host: &Host) -> Finding {
    match host.lacks("namespaces") {
        true => unused("proc", "it needs the namespaces"),
        false => host.finding("proc", || "one of the run's own".to_owned()),
    }
}

fn ids(host: &Host) -> Finding {
    match host.uid {
        0 => host.finding("ids", || format!("from {FIRST_UID}")),
        _ => unused("ids", "an ordinary user's command is the same user"),
    }
}

/// Whether the owners of the folder can be swapped with the ids of a command.
fn idmap(host: &Host, folder: &Folder) -> State {
    if host.mode == Mode::User {
        return State::Unused("only commands of root have another owner than their files".into());
    }
    if host.rung() > Rung::B {
        return State::Unused("only rungs A and B have mounts of the run's own".to_owned());
    }
    let swapped = sys::idmap::swapping(folder.owner, (FIRST_UID, FIRST_UID));
    match swapped.and_then(|userns| sys::mount::try_idmap(&c_path(&folder.path), &userns)) {
        Ok(()) => State::Works(format!("on {} of the current folder", folder.kind)),
        Err(error) => State::Missing(advice::idmap(&error, &folder.kind)),
    }
}

/// Makes a group with every limit, has a child born in it, and kills it. Says what the group keeps,
/// and why it is not one that can be killed.
fn own_group(spawner: &Spawner) -> (Kept, Result<(), Missing>) {
    let most = Ceilings { memory: Some(u64::MAX >> 1), pids: Some(1 << 20), cpu: true };
    let failed = |error| advice::group(&tries::Failed { doing: "making a group", error });
    let parents = match Parents::find() {
        Ok(parents) => parents,
        Err(error) => return (Kept::default(), Err(failed(error))),
    };
    let group = parents.make(most).unwrap_or_default();
    let kept = group.kept();
    if !kept.kill {
        return (kept, Err(failed(parents.refusal())));
    }
    match tries::group(spawner, &group) {
        Ok(()) => (kept, Ok(())),
        Err(failed) => (Kept { kill: false, ..kept }, Err(advice::group(&failed))),
    }
}

fn placed_and_killed(host: &Host, group: Result<(), Missing>) -> State {
    match group {
        _ if host.rung() > Rung::B => State::Unused(NO_GROUP.to_owned()),
        Ok(()) => State::Works("a group of the run's own, killed as a whole".to_owned()),
        Err(missing) => State::Missing(missing),
    }
}

fn limited(host: &Host, kept: Kept) -> State {
    match kept {
        _ if host.rung() > Rung::B => State::Unused(NO_GROUP.to_owned()),
        Kept { memory: true, pids: true, cpu: true, .. } => {
            State::Works("memory, processes and processor time of the tree".to_owned())
        }
        _ => State::Missing(advice::limits(kept)),
    }
}

const NO_GROUP: &str = "only rungs A and B have a group of the run's own";

/// Whether rung C could hold a tree. Where a better one does, it may be missing.
fn guarded(host: &Host, spawner: &Spawner) -> State {
    if host.lacks("landlock") || host.lacks("seccomp") {
        return State::Unused("it needs Landlock and seccomp".to_owned());
    }
    let tried = match host.missing.iter().find(|m| ["guardian", "metadata"].contains(&m.layer)) {
        Some(missing) => Err(missing.clone()),
        None if host.brokers => Ok(()),
        None => guardian(spawner, host.landlock),
    };
    match tried {
        Ok(()) => State::Works("with a broker for modes and times; for rung C".to_owned()),
        Err(missing) if host.rung() > Rung::B => State::Missing(missing),
        Err(missing) => State::Unused(format!("only rung C needs it ({})", missing.why)),
    }
}
