//! The vocabulary that is written to the trail or crosses a door: plain values, no behaviour
//! beyond their own text form.
//!
//! A type lives here if and only if it is written to the trail or handed to a front end.
//! Members stand in the order in which they are written.
#![forbid(unsafe_code)]

mod code;
mod guard;
mod refusal;
mod reply;
mod text;

pub use code::Code;
pub use guard::{GuardFinding, GuardList, GuardNotice, GuardReport};
pub use refusal::Refusal;
pub use reply::{Reply, TrailPlace, Truncated};
pub use text::{Digest, MESSAGE_CHARS_MAX, Text, Word, argv_digest, fit, is_unsafe_to_show};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Every tool of an agent's, by the name that stands in records and in the catalog's advice. Which
/// of them a version has is the business of its doors.
pub const TOOLS: [&str; 20] = [
    "run_command",
    "run_gate",
    "read_file",
    "write_file",
    "edit_file",
    "move_file",
    "delete_file",
    "list_dir",
    "search_text",
    "git_status",
    "git_diff",
    "git_log",
    "git_show",
    "git_add",
    "git_commit",
    "git_init",
    "git_push",
    "git_rewrite_history",
    "git_delete_branch",
    "create_project",
];

/// What the catalog and the circumstances say of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Runs without asking.
    Auto,
    /// Runs only if a person agrees.
    Ask,
    /// Does not run.
    Refuse,
}

/// What a template promises that its call may do at most, from less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// No workspace at all.
    None,
    /// Reads the workspace.
    ReadOnly,
    /// Writes in the workspace.
    WorkspaceWrite,
    /// Reaches a network.
    Network,
}

impl Access {
    /// Returns the name that stands in catalogs and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Network => "network",
        }
    }

    /// Finds the class that has this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::ReadOnly, Self::WorkspaceWrite, Self::Network]
            .into_iter()
            .find(|access| access.as_str() == name)
    }
}

/// The `decision` of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The verdict after all circumstances.
    pub verdict: Verdict,
    /// The template that gave it, if one fits.
    pub template: Option<String>,
    /// The code of a refusal.
    pub code: Option<Code>,
    /// The reason of a refusal.
    pub reason: Option<String>,
    /// The next action after a refusal.
    pub next: Option<String>,
    /// Whether the refusal counts.
    pub counted: bool,
}

impl Decision {
    /// The decision that a refusal stands for.
    pub fn refused(refusal: &Refusal, template: Option<&str>) -> Self {
        Self {
            verdict: Verdict::Refuse,
            template: template.map(str::to_owned),
            code: Some(refusal.code),
            reason: Some(refusal.reason().to_owned()),
            next: Some(refusal.next().to_owned()),
            counted: refusal.counted,
        }
    }

    /// The decision that lets a call run.
    pub fn allowed(template: &str) -> Self {
        Self::matched(Verdict::Auto, template)
    }

    /// The decision of a template that fits.
    pub fn matched(verdict: Verdict, template: &str) -> Self {
        let template = Some(template.to_owned());
        Self { verdict, template, code: None, reason: None, next: None, counted: false }
    }
}

/// How a run was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Approval {
    /// `auto`; later also `human` and `grant`.
    pub mode: &'static str,
    /// The template.
    pub template: String,
    /// The project root that the approval is scoped to.
    pub project: Text,
}

/// How much of the confinement this host can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rung {
    /// Everything, with a cgroup of its own.
    A,
    /// Everything but a cgroup of its own.
    B,
    /// Landlock and seccomp only.
    C,
    /// Less: nothing may run.
    #[serde(rename = "0")]
    None,
}

impl fmt::Display for Rung {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::None => "0",
        })
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The command ended with exit code 0.
    Ok,
    /// The command ended with another exit code, or by a signal.
    Nonzero,
    /// The deadline came first.
    Timeout,
    /// The request was refused.
    Refused,
    /// Pinfold or the host failed.
    Error,
    /// The caller cancelled.
    Cancelled,
    /// It ended, and a limit was hit.
    Limit,
    /// The supervisor died before the end was written.
    Unknown,
}

/// A limit that was reached, as far as that can be told; the one that is named where several were
/// comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    /// The kernel killed for lack of memory.
    Memory,
    /// A process or thread was not made.
    Pids,
    /// The processor time was used up.
    Cpu,
    /// A file would have grown too large.
    FileSize,
    /// A scratch folder was full.
    Tmp,
    /// A scratch folder had no room for another file.
    TmpInodes,
    /// Output was cut.
    Output,
}

impl LimitHit {
    /// All, in order.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Pids,
        Self::Cpu,
        Self::FileSize,
        Self::Tmp,
        Self::TmpInodes,
        Self::Output,
    ];

    /// Returns the limit's name, which is its key in a profile but for `output`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
            Self::Tmp => "tmp",
            Self::TmpInodes => "tmp_inodes",
            Self::Output => "output",
        }
    }
}

/// The file that a program's name was pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramFile {
    /// The final path, all links followed.
    pub path: Text,
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Change time, in nanoseconds since the epoch.
    pub ctime_ns: i128,
    /// Digest of the content.
    pub sha256: Digest,
}

/// One captured stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamSummary {
    /// Bytes that the command wrote.
    pub bytes: u64,
    /// Bytes that were passed on.
    pub kept: u64,
    /// Digest of the bytes that were passed on.
    pub sha256: Digest,
    /// Whether bytes were dropped.
    pub truncated: bool,
}

/// What is written about one call, by kind; members in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// `log.open`: the first record of a trail.
    LogOpen {
        /// Who wrote it: program name and version.
        origin: String,
    },
    /// `log.recovered`: bytes that were cut off the end before this record was written.
    LogRecovered {
        /// Where the removed bytes began in the segment.
        offset: u64,
        /// How many there were.
        length: u64,
        /// Their digest.
        sha256: Digest,
    },
    /// `refusal`: nothing ran.
    Refusal {
        /// The tool that was called.
        tool: &'static str,
        /// The line as given, where the call was one.
        line: Option<Word>,
        /// The arguments as given, or as the line was split; none where it could not be.
        argv: Vec<Word>,
        /// How many there were.
        argv_count: u64,
        /// Their digest.
        argv_sha256: Digest,
        /// The workspace as given.
        workspace: Word,
        /// The template, where one fits.
        template: Option<String>,
        /// The code.
        code: Code,
        /// Why.
        reason: String,
        /// What to do next.
        next: String,
        /// Whether it counts.
        counted: bool,
    },
    /// `intent`: written and synced before anything starts.
    Intent(Box<Intent>),
    /// `started`: the command's program was executed.
    Started {
        /// Process id of the tree's init, as the supervisor sees it.
        pid: u32,
        /// The layers that the child reported.
        layers: Vec<String>,
    },
    /// `mask.lost`: a host program uncovered a masked or protected place, and it was covered again.
    MaskLost {
        /// The place.
        path: Word,
        /// For how long, in microseconds; rather too long than too short.
        lost_us: u64,
        /// Whether the command's opens of it were refused meanwhile.
        opens_refused: bool,
    },
    /// `output`: one stream of the command.
    Output {
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// What came.
        #[serde(flatten)]
        summary: StreamSummary,
    },
    /// `guard.found`: what a run changed in the repository that is not harmless.
    GuardFound(GuardList),
    /// `guard.quarantined`: what of it was moved out of the workspace.
    GuardQuarantined(GuardList),
    /// `guard.cleared`: a person has looked.
    GuardCleared {
        /// The workspace.
        workspace: Word,
        /// `accept` or `restore`.
        how: &'static str,
        /// The numbers of what was cleared.
        numbers: Vec<u64>,
        /// User id of the person.
        by_uid: u32,
    },
    /// `end`: the tree is gone.
    End {
        /// How it ended.
        outcome: Outcome,
        /// The command's exit code.
        exit_code: Option<i32>,
        /// The signal that ended the command.
        signal: Option<i32>,
        /// The limit that was hit.
        limit: Option<LimitHit>,
        /// Why, where Pinfold or the host failed.
        error: Option<String>,
        /// Wall time from the gate to the end, in milliseconds.
        duration_ms: u64,
        /// Processor time of the tree in user mode, in microseconds.
        user_us: u64,
        /// Processor time of the tree in the kernel, in microseconds.
        system_us: u64,
        /// Largest resident set of one process of the tree, in KiB.
        max_rss_kib: u64,
    },
}

impl Body {
    /// Returns the record's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LogOpen { .. } => "log.open",
            Self::LogRecovered { .. } => "log.recovered",
            Self::Refusal { .. } => "refusal",
            Self::Intent(_) => "intent",
            Self::Started { .. } => "started",
            Self::MaskLost { .. } => "mask.lost",
            Self::Output { .. } => "output",
            Self::GuardFound(_) => "guard.found",
            Self::GuardQuarantined(_) => "guard.quarantined",
            Self::GuardCleared { .. } => "guard.cleared",
            Self::End { .. } => "end",
        }
    }
}

/// What is about to happen, exactly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Intent {
    /// The tool that was called.
    pub tool: &'static str,
    /// The template that decided.
    pub template: String,
    /// The argument vector that will be executed.
    pub argv: Vec<Word>,
    /// How many elements it has.
    pub argv_count: u64,
    /// Digest of `argv` ([`argv_digest`]).
    pub argv_sha256: Digest,
    /// The program.
    pub program: ProgramFile,
    /// The interpreter of a `#!` program.
    pub interpreter: Option<ProgramFile>,
    /// The workspace.
    pub workspace: Word,
    /// The working folder.
    pub cwd: Word,
    /// Names of the environment's variables.
    pub env: Vec<String>,
    /// Digest of the environment, names and values.
    pub env_sha256: Digest,
    /// Digest of standard input, where one is given.
    pub stdin_sha256: Option<Digest>,
    /// The profile.
    pub profile: String,
    /// The access class that narrowed it.
    pub access: Access,
    /// The rung.
    pub rung: Rung,
    /// Every layer that will be applied.
    pub layers: Vec<String>,
    /// What this rung does not hold, in words.
    pub lacks: Vec<&'static str>,
    /// Limits, by name.
    pub limits: std::collections::BTreeMap<String, u64>,
    /// User and group id of the command, as the supervisor sees them.
    pub uid: u32,
    /// The deadline, in milliseconds after the start.
    pub timeout_ms: u64,
    /// What the profile grants that is not there, and what else a reader must know.
    pub notes: Vec<String>,
    /// Digest of the catalog in force.
    pub catalog_sha256: Digest,
    /// Digest of the overlay that tightens it, where there is one.
    pub tighten_sha256: Option<Digest>,
    /// Digest of the plan.
    pub plan_sha256: Digest,
    /// How it was approved.
    pub approval: Approval,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_written_as_its_key() {
        assert!(LimitHit::ALL.is_sorted(), "the first is the one that is told");
        for limit in LimitHit::ALL {
            assert_eq!(serde_json::json!(limit), limit.as_str());
        }
    }

    #[test]
    fn access_classes_are_ordered_and_have_names() {
        let names = ["none", "read-only", "workspace-write", "network"];
        let classes: Vec<Access> = names.iter().filter_map(|name| Access::parse(name)).collect();
        assert!(classes.is_sorted());
        assert_eq!(classes.iter().map(|class| class.as_str()).collect::<Vec<_>>(), names);
        assert_eq!(Access::parse("Network"), None);
    }
}
