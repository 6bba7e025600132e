//! What was typed. `--help`, the completions, the man pages and `docs/CLI.md` all come from the
//! comments here and the longer texts of `help`.
//!
//! The first paragraph of a comment is what `-h` says, one line without a full stop; `--help` says
//! all of it. A comment of more than one paragraph that is to keep its lines is `verbatim`.

use super::{help, names};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Keeps untrusted agents in a pinfold
///
/// Decides each command against one catalog, records it, and runs it confined. The command line
/// is the operator's door.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, verbatim_doc_comment, after_long_help = help::ALL)]
pub(super) struct Low {
    /// The configuration file
    ///
    /// It must be there. Without this option it is /etc/pinfold/pinfold.toml for root, else
    /// $XDG_CONFIG_HOME/pinfold/pinfold.toml (~/.config/pinfold/pinfold.toml), if that exists.
    #[arg(long, global = true, value_name = "FILE", verbatim_doc_comment)]
    pub(super) config: Option<PathBuf>,
    /// Say more about what Pinfold does; repeat for more
    ///
    /// Pinfold's own diagnostics on standard error: info, with -vv debug, with -vvv trace. Without
    /// it there are none.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, verbatim_doc_comment)]
    pub(super) verbose: u8,
    /// How Pinfold's own messages of -v are written
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(super) log_format: LogFormat,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The form of Pinfold's own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Find toolchains, write a configuration, and try three commands
    ///
    /// Looks for toolchains of this user (rustup, pyenv, nvm, mise, node) and writes a commented
    /// pinfold.toml that gives them to the profiles that build: to the file of --config, else to
    /// the default place. A file that is there already stays as it is; then the lines that it
    /// lacks are printed. Toolchains that others could change stand in the file as comments with
    /// the reason. Then init says what doctor says of this host, and runs one command that is
    /// allowed, one that asks a person and one that is refused, in a folder below the system's
    /// temporary one that it makes and removes. The three are recorded like all others, and init
    /// prints their records.
    ///
    /// Exit code 0 when the allowed command ran; 1 when it did not, or the configuration has
    /// faults; 125 when the file cannot be written.
    #[command(verbatim_doc_comment)]
    Init,
    /// Say what this host can enforce, and what would bring the rest
    ///
    /// Tries each mechanism in throw-away children, for a run in the current folder, and says what
    /// works, what is missing, why, and what to do. Then it says the rung of a run, what that rung
    /// does not keep, and which profiles run here. Nothing is recorded, and nothing is changed but
    /// what runs remember of this host.
    ///
    /// Exit code 0 on rung A or B, 1 on rung C, 2 on rung 0; 125 where the host cannot be tried.
    /// Faults of the configuration are said, and change nothing of that.
    #[command(verbatim_doc_comment, after_long_help = help::DOCTOR)]
    Doctor {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Decide one command, record it, and run it confined
    ///
    /// Output is passed through as it comes, each stream up to the template's cap; what is beyond
    /// is counted and dropped, which is the limit `output`. A limit that was reached is said at the
    /// end in one line. A run is complete when the program has exited and its tree is gone, also
    /// where a process that it left behind kept a pipe open.
    ///
    /// SIGINT, SIGTERM and SIGHUP cancel. A call that is cancelled before its gate opens ends as
    /// `cancelled`, and nothing runs. At the deadline and when it is cancelled, the tree gets
    /// SIGTERM, 200 ms, then SIGKILL. If Pinfold itself is killed, the tree is killed at once.
    #[command(verbatim_doc_comment, after_long_help = help::RUN)]
    Run(RunArgs),
    /// Look at the catalog: what may run
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Look at profiles: what a command may touch
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Look at what runs left in a repository, and clear it
    #[command(subcommand)]
    Guard(GuardCommand),
    /// Read and check the trail: what happened
    #[command(subcommand)]
    Trail(TrailCommand),
    /// Say what the code of a refusal or fault means, with an example and what to do
    ///
    /// The code is what stands in brackets in a message, such as `operand-kind`. Without one, every
    /// code is listed with its meaning.
    ///
    /// Exit 0; 125 for an unknown code, with the nearest ones.
    #[command(verbatim_doc_comment)]
    Explain {
        /// The code
        #[arg(value_parser = names::AnyCode, hide_possible_values = true)]
        code: Option<String>,
        /// Print one JSON object, or a list of them
        ///
        /// Members: `code`, `exit`, `means`, `example`, `next`.
        #[arg(long, verbatim_doc_comment)]
        json: bool,
    },
    /// Print what lets a shell complete Pinfold's verbs and options
    ///
    /// To use it at once: `source <(pinfold completions bash)`; in fish
    /// `pinfold completions fish | source`. For every session, write it to a file that the shell
    /// reads, such as `~/.local/share/bash-completion/completions/pinfold`,
    /// `~/.config/fish/completions/pinfold.fish`, or, for zsh, `_pinfold` in a folder of `$fpath`.
    #[command(verbatim_doc_comment)]
    Completions {
        /// The shell
        shell: names::Shell,
    },
    /// Write the man pages, one for each verb
    ///
    /// To read one at once: `pinfold man DIR && man -l DIR/pinfold-run.1`. Exit 0; 125 where the
    /// folder or a page cannot be written.
    #[command(verbatim_doc_comment)]
    Man {
        /// The folder to write them to; made if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) call: CallArgs,
    /// The session the call belongs to [default: one of its own]
    ///
    /// 1 to 64 letters, digits, `-`, `_` and `.`, written into the call's records. Nothing is
    /// counted by session in this version.
    #[arg(long, value_name = "ID", value_parser = session_id, verbatim_doc_comment)]
    pub(super) session: Option<String>,
    /// Print one JSON object instead of the command's output
    #[arg(long)]
    pub(super) json: bool,
    /// The call as one line, split into words; no shell reads it
    ///
    /// Words are parted by blanks; quotes work as in a shell. What a shell would act on outside of
    /// quotes (`|`, `>`, `$`, `*` and the like) is refused and named.
    #[arg(long, value_name = "TEXT", conflicts_with = "argv", allow_hyphen_values = true)]
    #[arg(verbatim_doc_comment)]
    pub(super) line: Option<OsString>,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "line", value_name = "CMD")]
    pub(super) argv: Vec<OsString>,
}

/// What a call is, beside its argument vector.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The folder the command works in [default: the current folder]
    ///
    /// Links are followed once, at the start.
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub(super) workspace: Option<PathBuf>,
    /// The working folder, below the workspace
    ///
    /// Relative, without `..`.
    #[arg(long, value_name = "REL", verbatim_doc_comment)]
    pub(super) cwd: Option<PathBuf>,
    /// End the command after this time: N, Ns or Nm; at most the template's own
    ///
    /// From 1 second to a day. At most the template's own counts, or 300 seconds where it names
    /// none; a longer one is shortened to that.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, verbatim_doc_comment)]
    pub(super) timeout: Option<OsString>,
    /// Hand standard input on to the command; it is read whole first
    ///
    /// At most 16 MiB, read before the record, which holds its digest. Without it the command reads
    /// the null device.
    #[arg(long, verbatim_doc_comment)]
    pub(super) stdin: bool,
    /// An overlay that tightens the catalog for this call
    ///
    /// A file with `schema`, `[policy]` and `[[tool]]` entries, each with the `id` of a template: a
    /// later decision, a lower `budget`, `timeout_s` or `output_kib`. What would loosen is a fault.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub(super) tighten: Option<PathBuf>,
}

/// A session's id stands in every record of it: 1 to 64 letters, digits, `-`, `_` and `.`.
fn session_id(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err("1 to 64 letters, digits, `-`, `_` and `.`".to_owned())
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the configuration with its catalog and its profiles
    ///
    /// Prints every fault of every file with path:line:col, the line and a caret. Exit code 0
    /// where there is none, 1 where there is one.
    #[command(verbatim_doc_comment)]
    Check {
        /// The file to check [default: the configuration that every call reads]
        file: Option<PathBuf>,
    },
    /// Print every value that counts and where it comes from
    ///
    /// The origin of a value is `default`, `compiled in`, or the place of its key as
    /// path:line:col. Also prints the configuration's path, whether it is there, the state
    /// folder, and what named the two. Exit code 0; 1 where the configuration has faults.
    #[command(verbatim_doc_comment)]
    Show {
        /// Print one JSON object with `configuration`, `state` and `values`
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema (draft 2020-12) of a file
    Schema {
        /// The file
        #[arg(value_enum, value_name = "FILE")]
        of: SchemaOf,
    },
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaOf {
    /// pinfold.toml.
    Config,
    /// A catalog.
    Catalog,
    /// A profile.
    Profile,
}

#[derive(Debug, Subcommand)]
pub(super) enum ProfileCommand {
    /// List the profiles
    ///
    /// Exit 0; 1 where the configuration, catalog or a profile has faults.
    #[command(verbatim_doc_comment)]
    List,
    /// Print one profile, or all that one command would get
    ///
    /// With a name: the profile with everything inherited, as TOML that loads again. Exit 0; 1
    /// where the configuration, catalog or a profile has faults; 125 for an unknown name.
    ///
    /// With --effective and a command: the whole plan of that call, each part with the line of the
    /// profile, catalog or configuration that it comes from, or `always` and why every run has it.
    /// The call is decided and planned like one of `pinfold run`, and nothing is executed or
    /// recorded. A template that asks prints its plan too. Exit 0; a call that would be refused
    /// prints its refusal and exits as `pinfold run` would.
    #[command(verbatim_doc_comment, after_long_help = help::SHOW)]
    #[command(group = ArgGroup::new("effectively")
        .args(["workspace", "cwd", "timeout", "stdin", "tighten", "json", "argv"])
        .multiple(true).conflicts_with("name"))]
    Show(ShowArgs),
    /// Check profile files, or those of the configuration
    ///
    /// Exit 0; 1 where the configuration, catalog or a profile has faults.
    #[command(verbatim_doc_comment)]
    Check {
        /// Files to check together with the shipped ones
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The profile
    #[arg(required_unless_present = "effective", conflicts_with = "effective")]
    pub(super) name: Option<String>,
    /// Print the plan of a command
    #[arg(long, requires = "argv")]
    pub(super) effective: bool,
    #[command(flatten)]
    pub(super) call: CallArgs,
    /// Print one JSON object
    ///
    /// Members: `plan`, `decision`, `taken`, `syscalls`, `message`, `digest`.
    #[arg(long, verbatim_doc_comment)]
    pub(super) json: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(super) argv: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Check a catalog, or the one of the configuration
    ///
    /// Prints every fault with path:line:col, the line, a caret and a hint: of the file's form, of
    /// entries against each other and against the profiles, examples that misbehave, advice that
    /// names a tool that does not exist, a file that others could change. A fault stops every run.
    ///
    /// It also prints where the catalog lets more pass than the shipped one for the same program
    /// and subcommand ("weaker than shipped"), which stops no run. The id of such a template, or
    /// `policy`, in `[policy].weaker` says that it is meant.
    ///
    /// Exit code 0 where there is nothing to print, 1 where there is.
    #[command(verbatim_doc_comment)]
    Check {
        /// Also list programs of the catalog that this host does not have, or that are not
        /// trustworthy
        #[arg(long, verbatim_doc_comment)]
        installed: bool,
        /// The catalog [default: the one that every call is decided by]
        file: Option<PathBuf>,
    },
    /// Say what would become of a call, and why
    ///
    /// The call is decided and planned like one of `pinfold run` with a person attached, and
    /// nothing is executed or recorded. Prints the decision, each element with what it was taken
    /// for, what would be executed, what it could touch, and what to do next. Exit 0; a call that
    /// would be refused exits as `pinfold run` would.
    #[command(verbatim_doc_comment, after_long_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Compare the decisions of the catalog with those that a file wants
    ///
    /// One JSON object a line: `argv` (a list) or `line`, `expect` (auto, ask or refuse), and where
    /// they are to be compared `template`, `code` and `executed`; `id` and others are for people.
    /// Only the catalog decides: all programs count as there, a person as attached, an index as
    /// configured.
    ///
    /// Exit code 0 where every row agrees, 1 with the rows that differ, 125 where the file has no
    /// row or something that is none.
    #[command(verbatim_doc_comment)]
    Test {
        /// The file of rows
        file: PathBuf,
    },
    /// Print the catalog as others read it
    Render {
        /// What to print
        #[arg(value_enum, value_name = "WHAT")]
        what: Rendering,
        /// Print JSON; a text as an object of one member
        #[arg(long)]
        json: bool,
    },
    /// List what one catalog lets pass that another does not
    ///
    /// Templates are compared by program and subcommand. A change whose direction the text does not
    /// tell, such as another profile, counts as weaker. Exit 0; 1 where a file has faults.
    #[command(verbatim_doc_comment)]
    Diff {
        /// The old catalog; `shipped` is the one that is compiled in
        old: PathBuf,
        /// The new catalog
        new: PathBuf,
        /// Print one JSON list of objects with `weaker`, `template` and `what`
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) call: CallArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// The call as one line
    #[arg(long, value_name = "TEXT", conflicts_with = "argv", allow_hyphen_values = true)]
    pub(super) line: Option<OsString>,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "line", value_name = "CMD")]
    pub(super) argv: Vec<OsString>,
}

/// Forms of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Rendering {
    /// What an agent is told: the rules, and each command.
    Prompt,
    /// The documentation page.
    Docs,
    /// The tools that it decides for: name, description, inputSchema.
    Tools,
    /// The settings view: enabled, conditions, rules.
    Conditions,
    /// A JSON Schema of the argument vectors that pass.
    Schema,
}

#[derive(Debug, Subcommand)]
pub(super) enum GuardCommand {
    /// List what was found in a workspace and is not cleared
    ///
    /// Each with its number, where it was, what it is, the call, and whether it was moved into the
    /// state folder. As long as there is anything, every call in the workspace asks.
    ///
    /// Exit 0 when there is nothing, 1 when there is; 125 where that cannot be told.
    #[command(verbatim_doc_comment)]
    Show {
        #[command(flatten)]
        place: GuardPlace,
        /// Print one JSON object
        ///
        /// Members: `workspace`, `found`: each with `number`, `call`, `path`, `kind`, `what`,
        /// `quarantined`, `put_back`, `moved_to`.
        #[arg(long, verbatim_doc_comment)]
        json: bool,
    },
    /// Move findings back to where they were, and clear them
    ///
    /// For what a person has looked at and wants. What was put in their place is kept beside them
    /// in the state folder. Exit 0; 125 where one cannot be moved; those before it are restored.
    #[command(verbatim_doc_comment)]
    Restore {
        #[command(flatten)]
        place: GuardPlace,
        /// The numbers that `show` prints
        #[arg(required = true, value_name = "NUMBER")]
        numbers: Vec<u64>,
    },
    /// Clear everything that was found: calls no longer ask because of it
    ///
    /// What was moved into the state folder stays there. Exit 0; 125 where that cannot be recorded.
    #[command(verbatim_doc_comment)]
    Accept {
        #[command(flatten)]
        place: GuardPlace,
    },
}

/// Which workspace a question of the guard is about.
#[derive(Debug, Args)]
pub(super) struct GuardPlace {
    /// The workspace [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum TrailCommand {
    /// Print the records
    ///
    /// One a line, for people. Exit 0; 125 where the trail cannot be read or a line is not a
    /// record.
    #[command(verbatim_doc_comment)]
    Show {
        /// Print the records' own lines, as they stand on disk
        #[arg(long)]
        json: bool,
    },
    /// Count the records
    ///
    /// Prints `records`, `intents`, `ends`, `refusals`, `size` and `root`. Exit 0; 125 where the
    /// trail cannot be read or a line is not a record.
    #[command(verbatim_doc_comment)]
    Stats {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check that no record was changed, removed or moved
    #[command(after_long_help = help::VERIFY)]
    Verify {
        /// Print one JSON object
        ///
        /// Members: `verdict`, `records`, `size`, `root`, `segment`, `line`, `offset`, `why`.
        #[arg(long, verbatim_doc_comment)]
        json: bool,
        /// The trail folder, such as a copy [default: the one of the state folder]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}
