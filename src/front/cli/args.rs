//! What was typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Keeps untrusted agents in a pinfold: decides each command against one catalog, records it,
/// and runs it confined.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, max_term_width = 100)]
pub(super) struct Low {
    /// The configuration file [default: /etc/pinfold/pinfold.toml for root, else
    /// ~/.config/pinfold/pinfold.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Say more about what Pinfold does; repeat for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
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
    /// Lines for people.
    Text,
    /// One JSON object a line.
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
    /// the reason. Then init says what this host can enforce, and runs one command that is
    /// allowed, one that asks a person and one that is refused, in a folder below the system's
    /// temporary one that it makes and removes. The three are recorded like all others, and init
    /// prints their records.
    ///
    /// Exit code 0 when the allowed command ran; 1 when it did not, or the configuration has
    /// faults; 125 when the file cannot be written.
    Init,
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Decide one command, record it, and run it confined
    Run(RunArgs),
    /// Look at profiles: what a command may touch
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Read and check the trail: what happened
    #[command(subcommand)]
    Trail(TrailCommand),
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The folder the command works in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// The working folder, below the workspace
    #[arg(long, value_name = "REL")]
    pub(super) cwd: Option<PathBuf>,
    /// The session the call belongs to [default: one of its own]
    #[arg(long, value_name = "ID", value_parser = session_id)]
    pub(super) session: Option<String>,
    /// End the command after this time: N, Ns or Nm; at most the template's own
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) timeout: Option<OsString>,
    /// Hand standard input on to the command; it is read whole first
    #[arg(long)]
    pub(super) stdin: bool,
    /// Print one JSON object instead of the command's output
    #[arg(long)]
    pub(super) json: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(super) argv: Vec<OsString>,
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
    Check {
        /// The file to check [default: the configuration that every call reads]
        file: Option<PathBuf>,
    },
    /// Print every value that counts and where it comes from
    ///
    /// The origin of a value is `default`, `compiled in`, or the place of its key as
    /// path:line:col. Also prints the configuration's path, whether it is there, the state
    /// folder, and what named the two. Exit code 0; 1 where the configuration has faults.
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
    List,
    /// Print one profile with everything inherited, as TOML that loads again
    Show {
        /// The profile
        name: String,
    },
    /// Check profile files, or those of the configuration
    Check {
        /// Files to check together with the shipped ones
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TrailCommand {
    /// Print the records
    Show {
        /// Print the records' own lines
        #[arg(long)]
        json: bool,
    },
    /// Count the records
    Stats {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check that no record was changed, removed or moved
    Verify {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// The trail folder [default: the one of the state folder]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}
