//! The rung of a run: how much is enforced, by which layers, and what is not.

use super::Settings;
use super::filesystem::{View, Watched};
use super::host::{Host, Mode};
use super::workspace::Workspace;
use crate::profile::Profile;
use crate::record::{Code, Refusal, Rung, Text};
use crate::sys::cgroup::Kept;

/// What a tree without namespaces is not kept from, or not given.
const LACKS_WITHOUT_NAMESPACES: [&str; 10] = [
    "names and metadata outside, and in masked folders, can be seen, and changes of names watched",
    "the host's tables of sockets and connections can be read",
    "the scratch folder is one of the host's, without a size of its own",
    "only the private memory of each process is limited, and no processor time of the tree",
    "processes are counted with all others of the same user, and it is not told if they run out",
    "what can be read can be executed through the loader",
    "there is no socket but a pair, and no loopback interface",
    "there is no shared memory of the System V kind, and no /dev/shm",
    "nothing new can be made in a folder that directly holds a protected or masked place",
    "the tree is not ended if its guardian is killed from outside",
];

/// Most places that one note names.
const NOTED_MAX: usize = 8;

/// The layer that covers again what a host program uncovers.
pub const COVERS: &str = "covers:inotify";
/// The layer that refuses opens of a masked file meanwhile.
pub const CLOSES: &str = "covers:fanotify";

/// Returns the weakest rung that the profile accepts, or the operator for it.
pub fn wanted(profile: &Profile, settings: &Settings) -> Rung {
    settings.rungs.get(&profile.name).copied().unwrap_or(profile.rung).max(profile.rung)
}

/// Says why no command of a profile runs where the host gives this rung; `None` where they run.
pub fn refused(profile: &Profile, settings: &Settings, rung: Rung) -> Option<String> {
    let wanted = wanted(profile, settings);
    if rung > wanted {
        let may = if rung == Rung::C { "; [rungs] can accept rung C" } else { "" };
        return Some(format!("this host gives rung {rung}{may}"));
    }
    super::network::loopback(profile).err().map(|refusal| refusal.reason().to_owned())
}

/// Finds the rung of a run and notes where the operator accepted less than the profile asks.
///
/// # Errors
/// A refusal with code `rung` where the host gives less.
pub(super) fn of_run(
    profile: &Profile,
    settings: &Settings,
    host: &Host,
    kept: Kept,
    notes: &mut Vec<String>,
) -> Result<Rung, Refusal> {
    let wanted = wanted(profile, settings);
    host.demand(&profile.name, wanted)?;
    let rung = if kept.kill { Rung::A } else { host.rung() };
    if rung > wanted {
        return Err(too_weak(profile, rung));
    }
    if rung > profile.rung {
        let name = &profile.name;
        notes.push(format!(
            "[rungs] accepts rung {wanted} for {name}, which asks for {}",
            profile.rung
        ));
    }
    Ok(rung)
}

/// Names the namespaces of a run.
pub(super) fn namespaces(host: &Host, rung: Rung) -> Vec<&'static str> {
    if rung >= Rung::C {
        return Vec::new();
    }
    let user = (host.mode == Mode::User).then_some("user");
    user.into_iter().chain(["mount", "pid", "ipc", "uts", "cgroup", "net"]).collect()
}

/// Names the layers of a run.
pub fn layers(host: &Host, rung: Rung, kept: Kept) -> Vec<String> {
    let landlock = format!("landlock:{}", host.landlock);
    let mut layers = namespaces(host, rung);
    layers.extend([landlock.as_str(), "seccomp", "rlimits"]);
    layers.extend(kept.kill.then_some("cgroup-kill"));
    layers.extend((kept.memory && kept.pids).then_some("cgroup-limits"));
    layers.extend((rung == Rung::C).then_some("guardian"));
    layers.into_iter().map(str::to_owned).collect()
}

/// Names the layers of a view with places that a host program can uncover, and notes what can be
/// reached until they are covered again.
pub(super) fn closes(view: &View, workspace: &Workspace, notes: &mut Vec<String>) -> Vec<String> {
    let watched = view.watched(&workspace.path);
    if watched.is_empty() {
        return Vec::new();
    }
    let mut layers = vec![COVERS.to_owned()];
    let mut open: Vec<&Watched> = watched.iter().filter(|place| place.masked).collect();
    if open.iter().any(|place| place.can_be_closed()) {
        match crate::sys::cover::can_refuse(workspace) {
            Ok(()) => {
                layers.push(CLOSES.to_owned());
                open.retain(|place| !place.can_be_closed());
            }
            Err(error) => tracing::debug!(%error, "no opens are refused"),
        }
    }
    if !open.is_empty() {
        let few = open.iter().take(NOTED_MAX).map(|place| Text::from(place.path.as_path()).shown());
        let few = few.collect::<Vec<_>>().join(", ");
        let more = if open.len() > NOTED_MAX { ", and more" } else { "" };
        notes.push(format!(
            "if a host program replaces it, it can be opened until it is covered again: {few}{more}"
        ));
    }
    layers
}

/// Says what a run on this rung is not kept from.
pub fn lacks(host: &Host, rung: Rung, kept: Kept) -> Vec<&'static str> {
    match rung {
        Rung::A | Rung::B => {
            let lacks = [
                (
                    !kept.memory,
                    "private memory is limited for each process, not memory of the whole tree",
                ),
                (!kept.pids, "processes are counted for the user, not for the tree"),
                (!kept.cpu, "processor time of the whole tree is not limited"),
            ];
            lacks.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect()
        }
        Rung::C | Rung::None => {
            let mut lacks = LACKS_WITHOUT_NAMESPACES.to_vec();
            if !host.brokers {
                lacks.push("modes and times of files cannot be changed");
            }
            if !host.empties_bounds {
                lacks.push("the bounding set is not empty, without effect under no_new_privs");
            }
            lacks
        }
    }
}

fn too_weak(profile: &Profile, rung: Rung) -> Refusal {
    Refusal::new(
        Code::Rung,
        format!("profile `{}`", profile.name),
        format!(
            "it asks for rung {}, this host gives {rung}: no cgroup of the run's own can be made",
            profile.rung
        ),
        "run Pinfold as root, or delegate a version 2 cgroup to it; see `pinfold doctor`",
    )
}
