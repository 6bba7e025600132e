//! What a catalog says, as values: the policy head, the templates and the words of refusals.
//!
//! Only the parser makes these, so that a value that exists has passed every structural
//! check.
#![forbid(unsafe_code)]

use super::kinds::{Kind, Spec};
use super::shape::{ARG_BYTES_MAX, ARGS_MAX};
use crate::record::{Access, Digest, Verdict};
use crate::source::At;

/// Longest line that a request may give instead of a vector, in bytes.
pub const LINE_BYTES_MAX: usize = 8192;

/// The id of what a call gets that no template accepts, where a person is asked about such calls.
/// No template of a file has it.
pub const UNLISTED: &str = "unlisted";

/// The `[policy]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What a listed program with an argv that fits no template gets: `Refuse` or `Ask`.
    pub unmatched: Verdict,
    /// What a program without a template gets: `Refuse` or `Ask`.
    pub unknown_program: Verdict,
    /// The names of the profiles that templates may use.
    pub profiles: Vec<String>,
    /// How large a request may be.
    pub limits: Limits,
    /// After how many counted refusals of one step the session stops.
    pub refusals_per_step: u32,
}

/// How large a request may be; a catalog can lower these, never raise them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Elements of an argument vector.
    pub args: usize,
    /// Bytes of one element.
    pub arg_bytes: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { args: ARGS_MAX, arg_bytes: ARG_BYTES_MAX, line_bytes: LINE_BYTES_MAX }
    }
}

/// A named extra procedure around a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The repository's configuration, hooks and attributes are checked before and after.
    Git,
}

/// A named reading of an opaque argv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// CPython's own option grammar, to find pip behind it.
    Cpython,
}

/// One `[[tool]]`: the whole argv that it accepts, and what a call may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The stable name.
    pub id: String,
    /// The program's bare name.
    pub program: String,
    /// Other bare names for it.
    pub aliases: Vec<String>,
    /// The alternatives for the words behind the program; a single empty one if there are none.
    pub subs: Vec<Vec<String>>,
    /// Flags accepted between the program and its subcommand.
    pub globals: Vec<String>,
    /// One line for the prompt.
    pub describe: String,
    /// What the call may do at most.
    pub access: Access,
    /// The decision for an argv that fits.
    pub decision: Verdict,
    /// The confinement profile.
    pub profile: String,
    /// Calls in one step of a session.
    pub budget: Option<u32>,
    /// The time limit of one call, in seconds.
    pub timeout_s: Option<u32>,
    /// The output limit of one call, in KiB.
    pub output_kib: Option<u32>,
    /// Tokens added behind the subcommand; `{operator_index_url}` stands unexpanded.
    pub inject_after_sub: Vec<String>,
    /// Variables set for the call, by name; `{workspace}` stands unexpanded.
    pub env: Vec<(String, String)>,
    /// The procedure around the call.
    pub guard: Option<Guard>,
    /// Whether any argv fits, to be read by a person.
    pub opaque: bool,
    /// How an opaque argv is read further.
    pub scan: Option<Scan>,
    /// The only content that the program's file may have.
    pub sha256: Option<Digest>,
    /// A file of the project without which the program would do something else: a path below the
    /// working folder or one above it, within the workspace.
    pub needs: Option<String>,
    /// The operands.
    pub operands: Operands,
    /// Lines that must fit this template.
    pub matches: Vec<At<String>>,
    /// Lines that must not fit this template.
    pub no_matches: Vec<At<String>>,
    pub(super) options: Vec<Opt>,
    pub(super) cluster: bool,
    pub(super) permute: bool,
    pub(super) required_any: Vec<Group>,
    pub(super) forbid: Vec<(String, String)>,
    /// Where the template stands in the catalog's text, in bytes.
    pub(super) offset: usize,
}

impl Template {
    /// What a call gets that no template accepts, where a person is asked about such calls;
    /// `offset` is where the catalog names the profile. The profile alone says what it may touch.
    pub(super) fn unlisted(profile: &str, offset: usize) -> Self {
        let operands =
            Operands { spec: Spec::plain(Kind::Opaque), min: 0, max: 63, only_sub: None };
        Self {
            id: UNLISTED.to_owned(),
            program: String::new(),
            aliases: Vec::new(),
            subs: vec![Vec::new()],
            globals: Vec::new(),
            describe: "A call that no template of the catalog describes.".to_owned(),
            access: Access::WorkspaceWrite,
            decision: Verdict::Ask,
            profile: profile.to_owned(),
            budget: None,
            timeout_s: None,
            output_kib: None,
            inject_after_sub: Vec::new(),
            env: Vec::new(),
            guard: None,
            opaque: true,
            scan: None,
            sha256: None,
            needs: None,
            operands,
            matches: Vec::new(),
            no_matches: Vec::new(),
            options: Vec::new(),
            cluster: false,
            permute: false,
            required_any: Vec::new(),
            forbid: Vec::new(),
            offset,
        }
    }

    /// Finds a flag or value option by its exact name.
    pub(super) fn option(&self, name: &str) -> Option<&Opt> {
        self.options.iter().find(|opt| opt.name == name)
    }
}

/// What operands a template takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operands {
    /// What each may be.
    pub spec: Spec,
    /// How many at least.
    pub min: usize,
    /// How many at most.
    pub max: usize,
    /// The only subcommand that takes operands at all.
    pub only_sub: Option<String>,
}

/// An option: a flag, or a name with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opt {
    pub(super) name: String,
    /// Apart, since most options have none and all of them are searched.
    pub(super) value: Option<Box<Value>>,
    /// Whether it may occur more than once.
    pub(super) repeat: bool,
}

impl Opt {
    /// Orders by length, then by bytes.
    pub(super) fn order_to(&self, name: &str) -> std::cmp::Ordering {
        let mine = self.name.as_str();
        mine.len().cmp(&name.len()).then_with(|| mine.cmp(name))
    }
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) spec: Spec,
    pub(super) forms: Vec<Form>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `-n V`: two tokens.
    Sep,
    /// `--name=V`.
    Eq,
    /// `-nV`.
    Att,
}

/// Options of which one must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) names: Vec<String>,
    /// One bit for each member.
    pub(super) mask: u64,
}

/// One `[[refuse]]`: better words for subcommands that no template has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRefusal {
    /// The program.
    pub program: String,
    /// Its subcommands.
    pub subs: Vec<String>,
    /// What sort of harm it is.
    pub class: String,
    /// Whether an operator's one-use grant may lift it.
    pub grantable: bool,
    /// The profile of a granted call.
    pub profile: Option<String>,
    /// Why it is refused.
    pub reason: String,
    /// What to do.
    pub next: String,
}

/// One `[[instead]]`: better words for programs that no template has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instead {
    /// The programs.
    pub programs: Vec<String>,
    /// Why they have no template.
    pub reason: String,
    /// What to use.
    pub replacement: String,
}

/// The templates of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The template, where the program has one only and that has no subcommand.
    pub(super) only: Option<usize>,
    /// Sorted by `sub`; no `sub` is the start of another, so at most one can fit.
    pub(super) routes: Vec<Route>,
    /// Every flag that some template accepts before the subcommand.
    pub(super) globals: Vec<String>,
}

/// From the words behind a program to a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) sub: Vec<String>,
    /// Index of the template.
    pub(super) template: usize,
}
