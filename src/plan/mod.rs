//! Everything a launch will do, decided and printable before it happens.
//!
//! A plan is made from a decision, a profile and what the host can do; the sandbox only carries
//! it out. Its digest stands in the `intent`, so the record commits to exactly what is enforced.
//! The room looks at the host and at names in the workspace, never at contents, and changes
//! nothing but the probe's memory and the lock of a user id. A crash here happens before anything
//! runs.
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

use crate::catalog::Template;
use crate::catalog::identity::Program;
use crate::profile::{Nested, Profile};
use crate::record::{Access, Code, Digest, ProgramFile, Refusal, Rung, Text};
use crate::sys::cgroup::Kept;
use crate::sys::seccomp::{Set, Sockets};
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

/// Deadline where neither the template nor the caller names one, in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u64 = 300_000;
/// How much of each output stream is passed on where the template names nothing, in bytes.
pub const OUTPUT_BYTES_DEFAULT: u64 = 1 << 20;

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
    /// Toolchains.
    pub toolchains: Vec<Toolchain>,
    /// Who commits.
    pub git_identity: GitIdentity,
    /// The weakest rung that the operator accepts, by profile, where that is weaker than the
    /// profile asks.
    pub rungs: BTreeMap<String, Rung>,
    /// Where the supervisor's user has toolchains, for what to do next.
    pub homes: Homes,
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
    /// What it may do.
    pub access: Access,
    /// The argument vector that will be executed, without an interpreter.
    pub argv: Vec<OsString>,
    /// The operands that are paths, as given.
    pub operands: Vec<OsString>,
    /// The workspace.
    pub workspace: &'c Workspace,
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
    #[serde(serialize_with = "variables_as_text")]
    pub environment: BTreeMap<String, OsString>,
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
    /// Whether the loopback interface is up; there is no other network.
    pub loopback: bool,
    /// System calls.
    #[serde(serialize_with = "sets_as_text")]
    pub syscalls: Vec<Set>,
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
        let toolchains: Vec<&Toolchain> =
            settings.toolchains.iter().filter(|t| t.profiles.contains(&profile.name)).collect();
        let view = filesystem::view(call, profile, &toolchains, given.scratch, &mut notes)?;
        let sockets = if bare { Sockets::None } else { syscalls::sockets(profile, loopback) };
        let template_ms = call.template.timeout_s.map(|s| u64::from(s) * 1_000);
        let longest = template_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        let timeout_ms = call.timeout_ms.map_or(longest, |asked| asked.min(longest));
        let output_kib = call.template.output_kib.map(|kib| u64::from(kib) << 10);
        let output_bytes = output_kib.unwrap_or(OUTPUT_BYTES_DEFAULT);
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
            layers: rung::layers(host, rung, given.kept),
            lacks: rung::lacks(host, rung, given.kept),
            brokered: bare && host.brokers && call.access >= Access::WorkspaceWrite,
            identity: given.identity,
            limits: limits::limits(profile, given.kept, &view.scratch, output_bytes, timeout_ms),
            view,
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
    pub fn limit(&self, name: &str) -> Option<Limit> {
        self.limits.iter().rev().find(|limit| limit.name == name).copied()
    }

    /// Returns the digest of the plan: SHA-256 of its JSON form.
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| self.make_digest())
    }

    fn make_digest(&self) -> Digest {
        // Serialising plain values into memory cannot fail; if it did, every plan would get the
        // digest of nothing, and the receipt of one run would still not open another's gate,
        // because the receipt also names its call.
        let json = serde_json::to_vec(self).unwrap_or_default();
        Digest(Sha256::digest(json).into())
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

fn variables_as_text<S: Serializer>(
    variables: &BTreeMap<String, OsString>,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_map(variables.iter().map(|(name, value)| (name, Text::from(value))))
}

fn sets_as_text<S: Serializer>(sets: &[Set], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(sets.iter().map(|set| format!("{set:?}")))
}

fn debug_as_text<S: Serializer>(value: &Sockets, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{value:?}"))
}
