//! Everything a launch will do, decided and printable before it happens.
//!
//! A plan is made from a decision, a profile and what the host can do; the sandbox only carries
//! it out. Its digest stands in the `intent`, so the record commits to exactly what is enforced.
//! The room looks at the host and at names in the workspace, at contents only where `.git` is a
//! file that names a place, and changes nothing but the probe's memory and the lock of a user id.
//! A crash here happens before anything runs.
#![forbid(unsafe_code)]

pub mod environment;
pub mod filesystem;
pub mod host;
pub mod identity;
pub mod limits;
pub mod network;
pub mod rung;
pub mod scratch;
pub mod syscalls;
pub mod toolchains;
pub mod workspace;
pub mod worktree;

use crate::catalog::Template;
use crate::catalog::identity::Program;
use crate::profile::{Nested, Profile, Root, SyscallSet};
use crate::record::{Access, Code, Digest, ProgramFile, Refusal, Rung, Text};
use crate::sys::cgroup::Kept;
use crate::sys::seccomp::Sockets;
use environment::Variable;
use filesystem::View;
use host::Host;
use identity::Identity;
use limits::Limit;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use toolchains::Homes;
use workspace::{Inode, Workspace};
use worktree::Repository;

/// Deadline where neither the template nor the caller names one, in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u64 = 300_000;
/// How much of each output stream is passed on where the template names nothing, in bytes.
pub const OUTPUT_BYTES_DEFAULT: u64 = 1 << 20;

const NO_TEMPLATE_SAYS: &str = "always: where the template says nothing";

/// A toolchain that lives outside the system folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Folders that are seen, read-only and executable.
    pub roots: Vec<PathBuf>,
    /// The folder its programs are looked up in.
    pub bin: Option<PathBuf>,
    /// The profiles that get it.
    pub profiles: Vec<String>,
    /// Variables it needs.
    pub env: Vec<(String, OsString)>,
    /// Where the configuration names it, such as `pinfold.toml:12:1`; for messages only.
    pub place: String,
}

/// Author and committer of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitIdentity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

/// What the operator's configuration says about every run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where programs are looked up.
    pub path: Vec<PathBuf>,
    /// Where the catalog names these folders; for messages only.
    pub path_place: String,
    /// Toolchains.
    pub toolchains: Vec<Toolchain>,
    /// Who commits.
    pub git_identity: GitIdentity,
    /// Where the configuration names who commits, if it does; for messages only.
    pub identity_place: Option<String>,
    /// The weakest rung that the operator accepts, by profile, where that is weaker than the
    /// profile asks.
    pub rungs: BTreeMap<String, Rung>,
    /// Folders whose `.git` is a file that may lead out of them, absolute and without `..`.
    pub worktrees: Vec<PathBuf>,
    /// The address of the package index that `pip` may reach.
    pub index: Option<String>,
    /// Where the supervisor's user has toolchains, for what to do next.
    pub homes: Homes,
}

impl Settings {
    /// Returns the toolchains that a profile gets, in the order in which they are looked up.
    pub fn toolchains_of(&self, profile: &Profile) -> impl DoubleEndedIterator<Item = &Toolchain> {
        self.toolchains.iter().filter(|tools| tools.profiles.contains(&profile.name))
    }
}

/// What was found or taken for one run before it is planned.
#[derive(Debug, Clone, Copy)]
pub struct Given<'g> {
    /// Who the command is.
    pub identity: Identity,
    /// What the run's own group keeps.
    pub kept: Kept,
    /// The host's folder that serves as its scratch folder, where there are no mounts.
    pub scratch: Option<&'g Path>,
}

/// A decided call, before it is planned.
#[derive(Debug)]
pub struct Call<'c> {
    /// The template that fits.
    pub template: &'c Template,
    /// Where the catalog has the template.
    pub place: String,
    /// What it may do.
    pub access: Access,
    /// The argument vector that will be executed, without an interpreter.
    pub argv: Vec<OsString>,
    /// Variables beside those of the template.
    pub env: &'static [(&'static str, &'static str)],
    /// The operands that are paths, as given.
    pub operands: Vec<OsString>,
    /// The workspace.
    pub workspace: &'c Workspace,
    /// The repository of a registered worktree.
    pub repository: Option<Repository>,
    /// The working folder below it, all links followed.
    pub cwd: PathBuf,
    /// The program.
    pub program: Program,
    /// The program's digest.
    pub program_sha256: Digest,
    /// The interpreter's digest.
    pub interpreter_sha256: Option<Digest>,
    /// The deadline that the caller asked for, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Digest of standard input.
    pub stdin_sha256: Option<Digest>,
}

/// Everything a launch will do.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The argument vector as the kernel gets it, an interpreter's part included.
    pub argv: Vec<Text>,
    /// The program.
    pub program: ProgramFile,
    /// The interpreter of a `#!` program.
    pub interpreter: Option<ProgramFile>,
    /// The environment.
    pub environment: BTreeMap<String, Variable>,
    /// The workspace's path.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// The workspace's device and inode.
    pub workspace_inode: Inode,
    /// The working folder.
    #[serde(serialize_with = "as_text")]
    pub cwd: PathBuf,
    /// The template.
    pub template: String,
    /// What it may do.
    pub access: Access,
    /// The profile.
    pub profile: String,
    /// The rung.
    pub rung: Rung,
    /// The layers, by name.
    pub layers: Vec<String>,
    /// What this rung does not hold, in words.
    pub lacks: Vec<&'static str>,
    /// Whether the supervisor performs the tree's changes of modes and times.
    pub brokered: bool,
    /// Who the command is.
    pub identity: Identity,
    /// Files.
    pub view: View,
    /// Namespaces of the run's own.
    pub namespaces: Vec<&'static str>,
    /// Whether the loopback interface is up; there is no other network.
    pub loopback: bool,
    /// System calls.
    pub syscalls: Vec<syscalls::Listed>,
    /// Sockets.
    #[serde(serialize_with = "debug_as_text")]
    pub sockets: Sockets,
    /// Every limit that is kept, with its keeper.
    pub limits: Vec<Limit>,
    /// The deadline, in milliseconds.
    pub timeout_ms: u64,
    /// How much of each output stream is passed on, in bytes.
    pub output_bytes: u64,
    /// Digest of standard input.
    pub stdin_sha256: Option<Digest>,
    /// What a reader of the record must know.
    pub notes: Vec<String>,
    /// Where the members without a place of their own come from, by their names.
    pub places: BTreeMap<&'static str, String>,
    #[serde(skip)]
    digest: OnceLock<Digest>,
}

impl Plan {
    /// Makes the plan of a call.
    ///
    /// # Errors
    /// Refusals, for what the profile asks and this host, version or workspace cannot give.
    pub fn make(
        call: &Call<'_>,
        profile: &Profile,
        settings: &Settings,
        host: &Host,
        given: Given<'_>,
    ) -> Result<Self, Refusal> {
        let mut notes = Vec::new();
        let rung = rung::of_run(profile, settings, host, given.kept, &mut notes)?;
        let bare = rung == Rung::C;
        let loopback = network::loopback(profile)? && !bare;
        nested_is_off(profile)?;
        let toolchains: Vec<&Toolchain> = settings.toolchains_of(profile).collect();
        let view = filesystem::view(call, profile, &toolchains, given.scratch, &mut notes)?;
        let closes = rung::closes(&view, call.workspace, &mut notes);
        let sockets = if bare { Sockets::None } else { syscalls::sockets(profile, loopback) };
        let (timeout, output) = (timeout(call), output(call));
        let (timeout_ms, output_bytes) = (timeout.0, output.0);
        let (argv, interpreter) = executed(call);
        Ok(Self {
            argv,
            program: call.program.file.record(call.program_sha256),
            interpreter,
            environment: environment::environment(
                call,
                profile,
                settings,
                &toolchains,
                &view.scratch,
            ),
            workspace: call.workspace.path.clone(),
            workspace_inode: call.workspace.inode,
            cwd: call.workspace.below(&call.cwd),
            template: call.template.id.clone(),
            access: call.access,
            profile: profile.name.clone(),
            rung,
            layers: rung::layers(host, rung, given.kept).into_iter().chain(closes).collect(),
            lacks: rung::lacks(host, rung, given.kept),
            brokered: bare && host.brokers && call.access >= Access::WorkspaceWrite,
            identity: given.identity,
            places: places(call, profile, rung),
            limits: limits::limits(profile, given.kept, &view.scratch, output, timeout),
            view,
            namespaces: rung::namespaces(host, rung),
            loopback,
            syscalls: syscalls::sets(profile),
            sockets,
            timeout_ms,
            output_bytes,
            stdin_sha256: call.stdin_sha256,
            notes,
            digest: OnceLock::new(),
        })
    }

    /// Returns a limit; where both the group and each process have it, the group's.
    pub fn limit(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().rev().find(|limit| limit.name == name)
    }

    /// Returns the digest of the plan: SHA-256 of its JSON form.
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| self.make_digest())
    }

    fn make_digest(&self) -> Digest {
        Digest(Sha256::digest(self.json()).into())
    }

    /// Returns the plan's JSON form, one line: the bytes that the digest is made of.
    pub fn json(&self) -> String {
        // Serialising plain values into memory cannot fail; if it did, every plan would get the
        // digest of nothing, and the receipt of one run would still not open another's gate,
        // because the receipt also names its call.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The argument vector with an interpreter's part, and the interpreter.
fn executed(call: &Call<'_>) -> (Vec<Text>, Option<ProgramFile>) {
    let given = || call.argv.iter().map(Text::from);
    let Some(interpreter) = &call.program.interpreter else { return (given().collect(), None) };
    let script = Text::from(call.program.file.path.as_path());
    let file = &interpreter.file;
    let argv =
        interpreter.prefix.iter().map(Text::from).chain([script]).chain(given().skip(1)).collect();
    (argv, call.interpreter_sha256.map(|digest| file.record(digest)))
}

/// Returns the deadline in milliseconds, and where it comes from.
fn timeout(call: &Call<'_>) -> (u64, String) {
    let of_template = call.template.timeout_s.map(|s| (u64::from(s) * 1_000, call.place.clone()));
    let longest = of_template.unwrap_or((TIMEOUT_MS_DEFAULT, NO_TEMPLATE_SAYS.to_owned()));
    match call.timeout_ms {
        Some(asked) if asked < longest.0 => (asked, "the call".to_owned()),
        _ => longest,
    }
}

/// Returns how much of each stream is passed on, in bytes, and where that comes from.
fn output(call: &Call<'_>) -> (u64, String) {
    let of_template =
        call.template.output_kib.map(|kib| (u64::from(kib) << 10, call.place.clone()));
    of_template.unwrap_or((OUTPUT_BYTES_DEFAULT, NO_TEMPLATE_SAYS.to_owned()))
}

/// Says where the members of a plan come from that have no place of their own.
fn places(call: &Call<'_>, profile: &Profile, rung: Rung) -> BTreeMap<&'static str, String> {
    let bare = rung == Rung::C;
    let unless = |place: Option<&str>, why: &str| place.unwrap_or(why).to_owned();
    let network = Some(profile.network.place.as_str()).filter(|place| !place.is_empty());
    let sockets = syscalls::place(profile, SyscallSet::SocketsLocal);
    let without = "always: a tree without namespaces has none";
    let executable =
        profile.execute.iter().find(|entry| matches!(entry.path.root, Root::Tmp | Root::Home));
    let executable = executable.map(|entry| entry.place.as_str());
    let (loopback, sockets) = match bare {
        true => (without.to_owned(), without.to_owned()),
        false => (
            unless(network, "always: where no profile says"),
            unless(sockets, "always: where no profile has sockets-local"),
        ),
    };
    let accepted = match rung > profile.rung {
        true => "[rungs] of the configuration".to_owned(),
        false => unless(profile.places.get("rung"), "always: what this host gives"),
    };
    BTreeMap::from([
        ("template", call.place.clone()),
        ("access", call.place.clone()),
        ("profile", call.place.clone()),
        ("rung", accepted),
        ("namespaces", "always: whatever a profile says".to_owned()),
        ("loopback", loopback),
        ("sockets", sockets),
        ("scratch.executable", unless(executable, "always: where no profile says")),
    ])
}

/// Programs that a command starts are not recorded in this version, so a profile that promises
/// it cannot be kept.
fn nested_is_off(profile: &Profile) -> Result<(), Refusal> {
    if profile.nested == Nested::Off {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ProfileUnavailable,
        format!("profile `{}`", profile.name),
        "it wants nested programs recorded, which this version cannot do",
        "set [nested] mode = \"off\" in the profile",
    ))
}

fn as_text<S: Serializer>(path: impl AsRef<OsStr>, out: S) -> Result<S::Ok, S::Error> {
    Text::from(path.as_ref()).serialize(out)
}

fn debug_as_text<S: Serializer>(value: &Sockets, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{value:?}"))
}
