//! What this kernel and container can do, found by doing it in throw-away children.
//!
//! That namespaces can be had is remembered in the state folder for this boot and these
//! circumstances, so that a one-shot run does not pay for it again. A wrong memory cannot weaken a
//! run: every layer is put in place or the child ends before the gate.

mod advice;
mod tries;

use crate::record::{Code, Refusal, Rung};
use crate::sys;
use crate::sys::spawn::Spawner;
use crate::sys::step::Step;
use caps::{CapSet, Capability};
use nix::sched::CloneFlags;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// Oldest Landlock ABI on which a guardian keeps its promise: the first that holds signals.
const GUARDIAN_ABI: u8 = 6;

/// What the supervisor itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Root with the capabilities that namespaces need.
    Root,
    /// An ordinary user, or a root with less; each run gets a user namespace.
    User,
}

/// A layer that cannot be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The layer.
    pub layer: &'static str,
    /// Why not.
    pub why: String,
    /// What would bring it, in one sentence.
    pub fix: String,
    /// Text that the fix speaks of, such as a whole AppArmor profile.
    pub detail: Option<String>,
}

/// What can be enforced here.
#[derive(Debug)]
pub struct Host {
    /// What the supervisor is.
    pub mode: Mode,
    /// The supervisor's user id.
    pub uid: u32,
    /// The supervisor's group id.
    pub gid: u32,
    /// Whether a child can be given other ids without a user namespace.
    pub switches_ids: bool,
    /// Whether the bounding set can be emptied without a user namespace.
    pub empties_bounds: bool,
    /// Landlock's ABI version, 0 where there is none.
    pub landlock: u8,
    /// Whether a tree without namespaces can have its changes of modes and times done by the
    /// supervisor. Only asked where there are no namespaces.
    pub brokers: bool,
    /// What is missing for the rungs above.
    pub missing: Vec<Missing>,
}

impl Host {
    /// Finds out, using and updating the memory at `cache`.
    ///
    /// # Errors
    /// Those of reading `/proc`; what a layer answers is no error but the result.
    pub fn probe(spawner: &Spawner, cache: Option<&Path>) -> io::Result<Self> {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let mode = mode()?;
        let landlock = sys::landlock::abi();
        let mut missing = Vec::new();
        if uid == 0 && mode == Mode::User {
            // In a user namespace of its own the command would still be uid 0 on the host.
            missing.push(advice::capabilities());
        }
        if landlock == 0 {
            missing.push(advice::landlock());
        }
        if !sys::seccomp::is_available() {
            missing.push(advice::seccomp());
        }
        missing.extend(namespaces(spawner, mode, (uid, gid), cache)?);
        let mut host = Self {
            mode,
            uid,
            gid,
            switches_ids: holds(&[Capability::CAP_SETUID, Capability::CAP_SETGID])?,
            empties_bounds: holds(&[Capability::CAP_SETPCAP])?,
            landlock,
            brokers: false,
            missing,
        };
        if host.rung() == Rung::C {
            host.look_for_guardian(spawner);
        }
        Ok(host)
    }

    /// Finds out whether a tree can be held without namespaces.
    fn look_for_guardian(&mut self, spawner: &Spawner) {
        if self.landlock < GUARDIAN_ABI {
            self.missing.push(advice::guardian_abi(self.landlock));
            return;
        }
        match tries::guardian(spawner, true) {
            Ok(()) => self.brokers = true,
            Err(first) => match tries::guardian(spawner, false) {
                Ok(()) => self.missing.push(advice::listener(&first)),
                Err(error) => self.missing.push(advice::guardian(&error)),
            },
        }
    }

    fn lacks(&self, layer: &str) -> bool {
        self.missing.iter().any(|missing| missing.layer == layer)
    }

    /// Returns the rung without regard to a cgroup: B, C, or none.
    pub fn rung(&self) -> Rung {
        if ["landlock", "seccomp", "guardian"].into_iter().any(|layer| self.lacks(layer)) {
            Rung::None
        } else if ["namespaces", "proc", "capabilities"].into_iter().any(|layer| self.lacks(layer))
        {
            Rung::C
        } else {
            Rung::B
        }
    }

    /// Refuses a run that needs more than this host enforces. `wanted` is the weakest rung that
    /// the profile, or the operator for it, accepts.
    ///
    /// # Errors
    /// A refusal with code `rung` that names the missing layer and its fix.
    pub fn demand(&self, profile: &str, wanted: Rung) -> Result<(), Refusal> {
        let rung = self.rung();
        // A rung of its own cgroup is asked for where the cgroup is made.
        if rung <= wanted.max(Rung::B) {
            return Ok(());
        }
        let (layer, why, fix) = match self.missing.first() {
            Some(missing) => (missing.layer, missing.why.as_str(), missing.fix.as_str()),
            None => ("layers", "", "run `pinfold doctor`"),
        };
        let more = match rung {
            Rung::C => format!("; or accept [rungs] {profile} = \"C\"; see `pinfold doctor`"),
            _ => "; see `pinfold doctor`".to_owned(),
        };
        Err(Refusal::new(
            Code::Rung,
            format!("profile `{profile}`"),
            format!("it asks for rung {wanted}, this host gives {rung}: no {layer}, {why}"),
            format!("{fix}{more}"),
        ))
    }
}

/// Finds out what the supervisor is.
///
/// # Errors
/// As `capget(2)`.
pub fn mode() -> io::Result<Mode> {
    let needed = [
        Capability::CAP_SYS_ADMIN,
        Capability::CAP_SETUID,
        Capability::CAP_SETGID,
        Capability::CAP_SETPCAP,
        Capability::CAP_KILL,
        Capability::CAP_DAC_OVERRIDE,
    ];
    let root = nix::unistd::geteuid().is_root() && holds(&needed)?;
    Ok(if root { Mode::Root } else { Mode::User })
}

fn holds(needed: &[Capability]) -> io::Result<bool> {
    for capability in needed {
        if !caps::has_cap(None, CapSet::Effective, *capability).map_err(io::Error::other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `CLONE_NEW…` flags of every run that has namespaces.
pub fn namespace_flags(mode: Mode) -> i32 {
    let flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWNET;
    match mode {
        Mode::Root => flags.bits(),
        Mode::User => (flags | CloneFlags::CLONE_NEWUSER).bits(),
    }
}

/// The steps by which a child in a new user namespace becomes the user it was: its own id is
/// the only one that is mapped.
pub fn identity_map_steps(uid: u32, gid: u32) -> Vec<Step> {
    let write = |file: &str, content: String| Step::Write {
        path: c_string(&format!("/proc/self/{file}")),
        content: content.into_bytes(),
    };
    vec![
        write("setgroups", "deny".into()),
        write("uid_map", format!("{uid} {uid} 1")),
        write("gid_map", format!("{gid} {gid} 1")),
    ]
}

fn c_string(text: &str) -> std::ffi::CString {
    // Texts of this file hold no NUL; an empty path fails in the child with its step named.
    std::ffi::CString::new(text).unwrap_or_default()
}

/// Finds out whether namespaces can be made and filled.
fn namespaces(
    spawner: &Spawner,
    mode: Mode,
    ids: (u32, u32),
    cache: Option<&Path>,
) -> io::Result<Option<Missing>> {
    let key = circumstances(ids.0)?;
    if cache.is_some_and(|cache| fs::read_to_string(cache).is_ok_and(|text| text == key)) {
        return Ok(None);
    }
    match tries::namespaces(spawner, mode, ids) {
        Ok(()) => {
            if let Some(cache) = cache {
                // Only a saving: without it the next run tries again.
                drop(sys::fd::replace(cache, key.as_bytes()));
            }
            Ok(None)
        }
        Err(failed) => Ok(Some(advice::namespaces(&failed))),
    }
}

/// Describes what could change the answer. Whatever else could does so by making a step of the
/// run fail, before its gate.
fn circumstances(uid: u32) -> io::Result<String> {
    let mut text = format!("pinfold {} uid {uid}\n", env!("CARGO_PKG_VERSION"));
    text.push_str(&fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    for space in ["user", "mnt"] {
        let link = fs::read_link(format!("/proc/self/ns/{space}"))?;
        writeln!(text, "{}", link.display()).map_err(io::Error::other)?;
    }
    let held = caps::read(None, caps::CapSet::Effective).map_err(io::Error::other)?;
    let bits = held.iter().fold(0, |bits, capability| bits | capability.bitmask());
    let filters = sys::seccomp::filters();
    writeln!(text, "capabilities {bits:x} filters {filters}").map_err(io::Error::other)?;
    Ok(text)
}
