//! The vocabulary that is written to the trail or crosses a door: plain values, no behaviour
//! beyond their own text form.
//!
//! A type lives here if and only if it is written to the trail or handed to a front end.
//! Members stand in the order in which they are written.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Text that came from outside and need not be UTF-8: a JSON string where it is, else
/// `{"b64": …}` (RFC 4648 base64 with padding).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Vec<u8>);

impl Text {
    /// Shows the text on one line with everything escaped that could act on a terminal or
    /// mislead a reader; bytes that are not UTF-8 appear as `\xNN`.
    pub fn escaped(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for ch in chunk.valid().chars() {
                if is_unsafe_to_show(ch) || ch == '\\' {
                    out.extend(ch.escape_default());
                } else {
                    out.push(ch);
                }
            }
            for byte in chunk.invalid() {
                out.push_str(&format!("\\x{byte:02x}"));
            }
        }
        out
    }
}

/// Returns whether a character is escaped wherever it is shown or written: controls, line and
/// paragraph separators, the bidirectional controls, and what stays invisible to a reader, the
/// tag characters among it, which carry text that models read and people do not see.
pub fn is_unsafe_to_show(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

impl Text {
    /// Returns the most bytes it can take in a record, where every character may be escaped.
    fn written_bytes_max(&self) -> usize {
        match std::str::from_utf8(&self.0) {
            Err(_) => self.0.len() / 3 * 4 + 16,
            Ok(text) => {
                let size = |ch: char| match ch {
                    '"' | '\\' => 2,
                    _ if is_unsafe_to_show(ch) => 12,
                    _ => ch.len_utf8(),
                };
                text.chars().map(size).sum::<usize>() + 2
            }
        }
    }

    /// Shows the text escaped and, where it is long, cut with its length said.
    pub fn shown(&self) -> String {
        let escaped = self.escaped();
        match escaped.char_indices().nth(SHOWN_CHARS_MAX) {
            None => escaped,
            Some((at, _)) => format!("{}… ({} bytes)", &escaped[..at], self.0.len()),
        }
    }
}

/// Most characters of a text that a message shows.
const SHOWN_CHARS_MAX: usize = 160;

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&OsString> for Text {
    fn from(text: &OsString) -> Self {
        Self::from(text.as_os_str())
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Self {
        Self::from(path.as_os_str())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        Self::from_vec(text.0)
    }
}

impl Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match std::str::from_utf8(&self.0) {
            Ok(text) => out.serialize_str(text),
            Err(_) => {
                let mut map = out.serialize_map(Some(1))?;
                map.serialize_entry("b64", &base64(&self.0, BASE64, true))?;
                map.end()
            }
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8], alphabet: &[u8; 64], pad: bool) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                let index = word >> (18 - 6 * place) & 63;
                out.push(char::from(alphabet[index as usize]));
            } else if pad {
                out.push('=');
            }
        }
    }
    out
}

/// A text as it stands in a record: whole, or where it is long by its digest and length, so that
/// nothing is cut in silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// The text.
    Whole(Text),
    /// What stands for a long one.
    Digest {
        /// Its digest.
        sha256: Digest,
        /// Its length in bytes.
        n: u64,
    },
}

/// Longest text that stands whole in a record, in bytes as they are written.
const WORD_BYTES_MAX: usize = 2 << 10;
/// Most bytes of a record that the words of one list may take.
const WORDS_BYTES_MAX: usize = 12 << 10;
/// Most words of one list; the count and the digest of the whole list stand beside it.
const WORDS_MAX: usize = 64;

impl Word {
    /// Takes the words of a list, whole as far as they fit.
    pub fn list(texts: &[Text]) -> Vec<Self> {
        let mut room = WORDS_BYTES_MAX;
        let word = |text: &Text| {
            let size = text.written_bytes_max();
            if size > WORD_BYTES_MAX.min(room) {
                let sha256 = Digest(Sha256::digest(&text.0).into());
                return Self::Digest { sha256, n: text.0.len() as u64 };
            }
            room -= size;
            Self::Whole(text.clone())
        };
        texts.iter().take(WORDS_MAX).map(word).collect()
    }

    /// Takes one text.
    pub fn one(text: impl Into<Text>) -> Self {
        let text = text.into();
        if text.written_bytes_max() <= WORD_BYTES_MAX {
            return Self::Whole(text);
        }
        Self::Digest { sha256: Digest(Sha256::digest(&text.0).into()), n: text.0.len() as u64 }
    }
}

/// Digest of an argument vector: SHA-256 of `grant-argv-v1`, the number of elements, and for each
/// its length and bytes; numbers are 32 bits, big-endian.
pub fn argv_digest(argv: &[Text]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"grant-argv-v1");
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    hash.update(number(argv.len()));
    for element in argv {
        hash.update(number(element.0.len()));
        hash.update(&element.0);
    }
    Digest(hash.finalize().into())
}

/// A SHA-256 value; shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the 43-character base64url form without padding, the form of `prev`.
    pub fn base64url(&self) -> String {
        base64(&self.0, BASE64_URL, false)
    }

    /// Reads the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut out = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

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

/// Defines [`Code`] from one table: variant, name, exit code, meaning.
macro_rules! codes {
    ($($variant:ident $name:literal $exit:literal $means:literal,)*) => {
        /// Why something was refused or failed before anything ran; never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $means] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name that stands in replies and records.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the exit code of `pinfold run` for it: 125, 126 or 127.
            pub fn exit(self) -> u8 {
                match self { $(Self::$variant => $exit,)* }
            }

            /// Returns the sentence that says what the code means.
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }
        }
    };
}

codes! {
    EmptyCall "empty-call" 126 "The request has no argument vector.",
    TooManyArgs "too-many-args" 126 "The argument vector has too many elements.",
    EmptyArg "empty-arg" 126 "An argument is the empty string.",
    ArgTooLong "arg-too-long" 126 "An argument is too long.",
    NotUtf8 "not-utf8" 126 "An argument is not valid UTF-8.",
    Nul "nul" 126 "An argument contains a NUL byte.",
    ControlChar "control-char" 126 "An argument contains a control character.",
    InvisibleChar "invisible-char" 126 "An argument contains an invisible or bidi character.",
    DoubleDash "double-dash" 126 "An argument is `--`, which no template matches.",
    ProgramPath "program-path" 126 "The program is named by a path instead of its bare name.",
    ProgramName "program-name" 126 "The program's name has a character that no name has.",
    Instead "instead" 126 "The program has no template; another way is named.",
    UnknownProgram "unknown-program" 126 "No template of the catalog names this program.",
    OptionBeforeSub "option-before-sub" 126 "An option stands before the subcommand.",
    FlagRepeated "flag-repeated" 126 "An option occurs more than once.",
    SubMissing "sub-missing" 126 "The program needs a subcommand.",
    SubUnknown "sub-unknown" 126 "The subcommand is not in the catalog.",
    ListedRefusal "listed-refusal" 126 "The catalog lists this subcommand as refused.",
    OptionAfterOperand "option-after-operand" 126 "An option follows an operand.",
    ValueMissing "value-missing" 126 "An option that takes a value has none.",
    ValueForm "value-form" 126 "An option's value is written in a form that is not listed.",
    FlagUnknown "flag-unknown" 126 "An option is not listed in the template.",
    FlagCluster "flag-cluster" 126 "Several options are written as one.",
    FlagForbidden "flag-forbidden" 126 "The template names this option as forbidden.",
    ValueKind "value-kind" 126 "An option's value is not of the listed kind.",
    OperandKind "operand-kind" 126 "An operand is not of the listed kind.",
    OperandCount "operand-count" 126 "There are too few or too many operands.",
    OperandUnexpected "operand-unexpected" 126 "The template takes no operand here.",
    FlagRequired "flag-required" 126 "An option that the template requires is missing.",
    InterpreterOption "interpreter-option" 126 "The interpreter itself refuses this option.",
    InterpreterStdin "interpreter-stdin" 126 "The interpreter would read its program from standard input.",
    ModuleRunner "module-runner" 126 "The module runs other modules.",
    PipInternal "pip-internal" 126 "The call reaches the inside of pip.",
    NobodyToAsk "nobody-to-ask" 126 "The call needs a person's answer and no person is attached.",
    ProgramUnavailable "program-unavailable" 127 "The program is not installed, or not trustworthy.",
    ProfileUnavailable "profile-unavailable" 126 "The profile needs what this version or host cannot give.",
    Rung "rung" 126 "This host enforces less than the profile asks for.",
    Workspace "workspace" 126 "The folder cannot serve as a workspace.",
    Cwd "cwd" 126 "The working folder is not a folder of the workspace.",
    Operand "operand-outside" 126 "An operand leads out of the workspace.",
    Masked "mask-alias" 126 "A masked file can be reached under another name.",
    Present "already-there" 126 "The profile starts only where a path does not exist yet.",
    TimeoutValue "timeout-value" 126 "The timeout is not a whole number of seconds in range.",
    StdinTooLarge "stdin-too-large" 126 "Standard input is larger than a run may be given.",
    PlanChanged "approval-changed" 126 "What would run is no longer what was decided.",
    TrailUnavailable "trail-unavailable" 125 "The record cannot be made durable.",
    Config "config" 125 "The configuration, catalog or a profile has faults.",
    Host "host" 125 "The host or Pinfold itself failed before anything ran.",
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.as_str())
    }
}

/// Why a request was not run: the five parts that every refusal has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// What was refused, already escaped.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What to do next.
    pub next: String,
    /// Whether it counts towards the session's limit of uncatalogued calls.
    pub counted: bool,
}

impl Refusal {
    /// Makes a refusal that does not count.
    pub fn new(
        code: Code,
        what: impl Into<String>,
        reason: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, reason, next) = (what.into(), reason.into(), next.into());
        Self { code, what, reason, next, counted: false }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, what, reason, next, counted } = self;
        let word = if code.exit() == 125 { "failed" } else { "refused" };
        write!(out, "{word} [{code}] {what}: {reason}. Nothing ran. Next: {next}.")?;
        out.write_str(if *counted { " Counts as a refusal." } else { "" })
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
            reason: Some(refusal.reason.clone()),
            next: Some(refusal.next.clone()),
            counted: refusal.counted,
        }
    }

    /// The decision that lets a call run.
    pub fn allowed(template: &str) -> Self {
        let template = Some(template.to_owned());
        let verdict = Verdict::Auto;
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
    /// A limit ended it.
    Limit,
    /// The supervisor died before the end was written.
    Unknown,
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
        /// The arguments as given.
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
    /// `output`: one stream of the command.
    Output {
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// What came.
        #[serde(flatten)]
        summary: StreamSummary,
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
        limit: Option<String>,
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
            Self::Output { .. } => "output",
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
    /// Digest of the plan.
    pub plan_sha256: Digest,
    /// How it was approved.
    pub approval: Approval,
}

/// Which streams were cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Truncated {
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// Where the call stands in the trail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TrailPlace {
    /// Sequence number of the `intent` or `refusal`.
    pub intent: Option<u64>,
    /// Sequence number of the `end`.
    pub end: Option<u64>,
    /// How many records the trail has after it.
    pub size: u64,
    /// Leaf hash of the trail's last record, base64url.
    pub root: String,
}

/// The answer to a request, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply {
    /// How the call ended.
    pub outcome: Outcome,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit that was hit.
    pub limit: Option<String>,
    /// What was decided.
    pub decision: Decision,
    /// How it was approved.
    pub approval: Option<Approval>,
    /// The profile.
    pub profile: Option<String>,
    /// The rung.
    pub rung: Option<Rung>,
    /// The layers that were applied.
    pub layers: Vec<String>,
    /// Captured standard output.
    pub stdout: Text,
    /// Captured standard error.
    pub stderr: Text,
    /// Which streams were cut.
    pub truncated: Truncated,
    /// Wall time, in milliseconds.
    pub duration_ms: u64,
    /// What the kernel refused, where it tells.
    pub denials: Vec<String>,
    /// What the guard found.
    pub guard: Option<String>,
    /// Where the call stands in the trail.
    pub trail: TrailPlace,
    /// The sentence that says why nothing ran, or what failed.
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_written_as_base64() {
        let json = serde_json::to_string(&[Text(b"a\xff".to_vec()), Text(b"ab".to_vec())]);
        assert_eq!(json.expect("plain data"), r#"[{"b64":"Yf8="},"ab"]"#);
    }

    #[test]
    fn digests_have_two_forms() {
        let digest = Digest([0xfb; 32]);
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(digest.base64url().len(), 43);
        assert!(digest.base64url().starts_with("-_v7"));
    }

    #[test]
    fn escaped_text_is_one_safe_line() {
        let shown = Text(b"a\n\x1b[1m\xff\xe2\x80\xae\\".to_vec()).escaped();
        assert_eq!(shown, r"a\n\u{1b}[1m\xff\u{202e}\\");
    }

    #[test]
    fn access_classes_are_ordered_and_have_names() {
        let names = ["none", "read-only", "workspace-write", "network"];
        let classes: Vec<Access> = names.iter().filter_map(|name| Access::parse(name)).collect();
        assert!(classes.is_sorted());
        assert_eq!(classes.iter().map(|class| class.as_str()).collect::<Vec<_>>(), names);
        assert_eq!(Access::parse("Network"), None);
    }

    #[test]
    fn code_names_are_unique() {
        let names: std::collections::HashSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
