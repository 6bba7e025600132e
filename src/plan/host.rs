//! What this kernel and container can do, found by doing it in a throw-away child.
//!
//! The answer is remembered in the state folder for this boot and these circumstances, so that a
//! one-shot run does not pay for it again. A wrong memory cannot weaken a run: every layer is
//! put in place or the child ends before the gate.

use crate::record::{Code, Refusal, Rung};
use crate::sys;
use crate::sys::spawn::Spawner;
use crate::sys::step::{Lists, Message, Program, Slot, Step};
use nix::errno::Errno;
use nix::sched::CloneFlags;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// What the supervisor itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Root with the capabilities that confining needs.
    Root,
    /// An ordinary user; each run gets a user namespace.
    User,
}

/// A layer that cannot be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The layer.
    pub layer: &'static str,
    /// Why not.
    pub why: String,
    /// What would bring it.
    pub fix: String,
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
    /// Landlock's ABI version, 0 where there is none.
    pub landlock: u8,
    /// What is missing for the rungs above C.
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
        let mut missing = Vec::new();
        if uid == 0 && mode == Mode::User {
            // In a user namespace of its own the command would still be uid 0 on the host.
            missing.push(Missing {
                layer: "capabilities",
                why: "root here lacks capabilities that giving the command another uid needs"
                    .into(),
                fix: "start Pinfold as an ordinary user, or give it CAP_SYS_ADMIN, CAP_SETUID, \
                      CAP_SETGID, CAP_SETPCAP, CAP_KILL and CAP_DAC_OVERRIDE"
                    .into(),
            });
        }
        let landlock = sys::landlock::abi();
        if landlock == 0 {
            missing.push(Missing {
                layer: "landlock",
                why: "the kernel has no Landlock, or it is not in the boot parameter lsm=".into(),
                fix: "boot a kernel with CONFIG_SECURITY_LANDLOCK and landlock in lsm=".into(),
            });
        }
        if !sys::seccomp::is_available() {
            missing.push(Missing {
                layer: "seccomp",
                why: "the kernel takes no seccomp filter".into(),
                fix: "boot a kernel with CONFIG_SECCOMP_FILTER".into(),
            });
        }
        missing.extend(namespaces(spawner, mode, (uid, gid), cache)?);
        Ok(Self { mode, uid, gid, landlock, missing })
    }

    /// Returns the rung without regard to a cgroup: B, C, or none.
    pub fn rung(&self) -> Rung {
        let lacks = |layer| self.missing.iter().any(|missing| missing.layer == layer);
        if lacks("landlock") || lacks("seccomp") {
            Rung::None
        } else if lacks("namespaces") || lacks("capabilities") {
            Rung::C
        } else {
            Rung::B
        }
    }

    /// Refuses a run whose profile asks for more than this host enforces.
    ///
    /// # Errors
    /// A refusal with code `rung` that names the missing layer and its fix.
    pub fn demand(&self, profile: &str, wanted: Rung) -> Result<(), Refusal> {
        let rung = self.rung();
        // Without namespaces this version can run nothing, whatever the profile accepts.
        let Some(missing) = self.missing.first() else { return Ok(()) };
        Err(Refusal::new(
            Code::Rung,
            format!("profile `{profile}`, which asks for rung {wanted}"),
            format!("this host gives rung {rung}: no {}, {}", missing.layer, missing.why),
            missing.fix.clone(),
        ))
    }
}

/// Finds out what the supervisor is.
///
/// # Errors
/// As `capget(2)`.
pub fn mode() -> io::Result<Mode> {
    let uid = nix::unistd::geteuid().as_raw();
    Ok(if is_root(uid)? { Mode::Root } else { Mode::User })
}

fn is_root(uid: u32) -> io::Result<bool> {
    use caps::{CapSet, Capability};
    let has = |cap| caps::has_cap(None, CapSet::Effective, cap).map_err(io::Error::other);
    let needed = [
        Capability::CAP_SYS_ADMIN,
        Capability::CAP_SETUID,
        Capability::CAP_SETGID,
        Capability::CAP_SETPCAP,
        Capability::CAP_KILL,
        Capability::CAP_DAC_OVERRIDE,
    ];
    let mut all = uid == 0;
    for capability in needed {
        all = all && has(capability)?;
    }
    Ok(all)
}

/// `CLONE_NEW…` flags of every run.
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
    let result = try_namespaces(spawner, mode, ids);
    match result {
        Ok(()) => {
            if let Some(cache) = cache {
                // Only a saving: without it the next run tries again.
                drop(sys::fd::replace(cache, key.as_bytes()));
            }
            Ok(None)
        }
        Err((what, error)) => Ok(Some(explain(what, &error))),
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
    let filtered = sys::seccomp::is_filtered();
    writeln!(text, "capabilities {bits:x} filtered {filtered}").map_err(io::Error::other)?;
    Ok(text)
}

/// Makes the namespaces and a new `/proc` in a throw-away child.
fn try_namespaces(
    spawner: &Spawner,
    mode: Mode,
    (uid, gid): (u32, u32),
) -> Result<(), (&'static str, io::Error)> {
    let doing = "preparing the probe";
    let (read, write) = nix::unistd::pipe().map_err(|error| (doing, error.into()))?;
    let mut outer = match mode {
        Mode::User => identity_map_steps(uid, gid),
        Mode::Root => Vec::new(),
    };
    let maps = outer.len();
    outer.push(Step::PrivateMounts);
    let kind = c_string("proc");
    outer.push(Step::NewFs { kind, options: Vec::new(), attributes: 0, to: Slot(0) });
    let program = Program {
        namespaces: namespace_flags(mode),
        cgroup: None,
        steps: Arc::new(Lists { outer, inner: vec![Step::Report], last: Vec::new() }),
        report: write,
        keep: Vec::new(),
    };
    let launch = spawner.launch(program);
    let mut answer = Vec::new();
    let heard = fs::File::from(read).read_to_end(&mut answer);
    let made = launch.wait();
    if let Some(pidfd) = launch.take_pidfd() {
        sys::wait::reap(&pidfd).map_err(|error| ("reaping the probe", error))?;
    }
    heard.map_err(|error| ("hearing the probe", error))?;
    made.map_err(|error| ("making namespaces", error))?;
    let message = answer.first_chunk().copied().and_then(Message::decode);
    match message {
        Some(Message::Ready) => Ok(()),
        Some(Message::Failed(failure)) => {
            let what = match usize::from(failure.step) {
                step if step < maps => "mapping the user id",
                step if step == maps => "making mounts private",
                _ => "mounting a new /proc",
            };
            Err((what, io::Error::from_raw_os_error(failure.errno)))
        }
        None => Err(("hearing the probe", io::ErrorKind::UnexpectedEof.into())),
    }
}

fn explain(what: &'static str, error: &io::Error) -> Missing {
    let fix = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC) => {
            "raise the sysctl user.max_user_namespaces (and max_mnt, max_pid, max_net_namespaces)"
        }
        Some(Errno::ENOSYS) => {
            "boot Linux 5.14 or later, or let the container's filter pass clone3"
        }
        _ if what == "mounting a new /proc" => {
            "start the container with an unmasked /proc \
             (Docker: --security-opt systempaths=unconfined)"
        }
        _ => {
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1; on Ubuntu an \
             AppArmor profile for pinfold with `userns,`; in a container a seccomp profile that \
             lets clone and unshare make namespaces"
        }
    };
    Missing { layer: "namespaces", why: format!("{what} failed: {error}"), fix: fix.into() }
}
