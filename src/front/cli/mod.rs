//! The operator's command line: the only place that reads environment variables, and the only
//! one that writes to the terminal.

mod args;
mod config;
mod doctor;
mod effective;
mod explain;
mod guard;
mod help;
mod init;
mod log;
mod names;
mod output;
#[cfg(test)]
mod pages;
mod policy;
mod profile;
mod run;
mod trail;

use super::config::{Loaded, Reader};
use super::reply::FAULT;
use crate::plan::toolchains::Homes;
use crate::record::{Code, MESSAGE_CHARS_MAX, fit, is_unsafe_to_show};
use crate::run::Rules;
use crate::source::Faults;
use args::{Command, Low};
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Runs one command line and returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let low = match Low::try_parse_from(words) {
        Ok(low) => low,
        // Help and version are answers, everything else is wrong usage.
        Err(error) if error.use_stderr() => return say_fault(&error.to_string()),
        Err(answer) => {
            drop(answer.print());
            return 0;
        }
    };
    log::start(low.verbose, low.log_format);
    if let Err(error) = crate::sys::signal::prepare() {
        return say_fault(&format!("signals cannot be set: {error}"));
    }
    let surroundings = Surroundings::read(low.config.clone());
    match low.command {
        Command::Init => init::init(&surroundings),
        Command::Doctor { json } => doctor::doctor(json, &surroundings),
        Command::Config(command) => config::config(&command, &surroundings),
        Command::Run(args) => run::run(args, &surroundings),
        Command::Policy(command) => policy::policy(command, &surroundings),
        Command::Profile(command) => profile::profile(command, &surroundings),
        Command::Guard(command) => guard::guard(&command, &surroundings),
        Command::Trail(command) => trail::trail(&command, &surroundings),
        Command::Explain { code, json } => explain::explain(code.as_deref(), json),
        Command::Completions { shell } => names::completions(shell),
        Command::Man { folder } => names::man(&folder),
    }
}

/// What the command line takes from its surroundings.
#[derive(Debug, Clone)]
struct Surroundings {
    reader: Reader,
    /// The configuration file, where there is one.
    config: Option<PathBuf>,
    /// What names the configuration file.
    config_from: &'static str,
    /// Where the default one is or would be; nobody may put one there by a run.
    default_config: Option<PathBuf>,
    /// The state folder; `None` where no variable names a home.
    state: Option<PathBuf>,
    /// What names the state folder.
    state_from: &'static str,
    /// The overlay that tightens the catalog.
    tighten: Option<PathBuf>,
    /// `PINFOLD_AUTO_APPROVE`, which takes `0` only.
    auto_approve: Option<OsString>,
}

impl Surroundings {
    fn read(config: Option<PathBuf>) -> Self {
        let uid = nix::unistd::geteuid().as_raw();
        let value = |name: &str| variable(name).map(PathBuf::from);
        // The base folder specification says to ignore a relative path in its variables.
        let folder = |name: &str| value(name).filter(|path| path.is_absolute());
        let home = folder("HOME");
        let below = |variable: &str, default: &str| {
            folder(variable).or_else(|| home.as_ref().map(|home| home.join(default)))
        };
        let from = |variable: &'static str| match (uid, folder(variable)) {
            (0, _) => "default of root",
            (_, Some(_)) => variable,
            _ => "HOME",
        };
        let mise = below("XDG_DATA_HOME", ".local/share").map(|data| data.join("mise"));
        let homes = Homes {
            home: home.clone(),
            cargo: below("CARGO_HOME", ".cargo"),
            rustup: below("RUSTUP_HOME", ".rustup"),
            pyenv: below("PYENV_ROOT", ".pyenv"),
            nvm: below("NVM_DIR", ".nvm"),
            mise: folder("MISE_DATA_DIR").or(mise),
        };
        let own = |path: PathBuf| path.join("pinfold");
        let named = value("PINFOLD_HOME").filter(|path| !path.as_os_str().is_empty());
        let named = named.map(|path| std::path::absolute(&path).unwrap_or(path));
        let state_from = if named.is_some() { "PINFOLD_HOME" } else { from("XDG_STATE_HOME") };
        let state = named.or_else(|| match uid {
            0 => Some(PathBuf::from("/var/lib/pinfold")),
            _ => below("XDG_STATE_HOME", ".local/state").map(own),
        });
        let default = match uid {
            0 => Some(PathBuf::from("/etc/pinfold/pinfold.toml")),
            _ => below("XDG_CONFIG_HOME", ".config").map(|path| own(path).join("pinfold.toml")),
        };
        // A file that is named must be there; the default one may be absent, but one that cannot
        // be looked at is not absent.
        let there = |path: &PathBuf| match std::fs::symlink_metadata(path) {
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        let config_from = if config.is_some() { "--config" } else { from("XDG_CONFIG_HOME") };
        let config = config.or_else(|| default.clone().filter(there));
        let config = config.map(|path| std::path::absolute(&path).unwrap_or(path));
        let (reader, default_config) = (Reader { uid, homes }, default);
        let (tighten, auto_approve) = (None, variable(AUTO_APPROVE));
        Self {
            reader,
            config,
            config_from,
            default_config,
            state,
            state_from,
            tighten,
            auto_approve,
        }
    }

    /// The same with an overlay over the catalog.
    fn tightened(&self, overlay: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or(path.to_owned());
        Self { tighten: overlay.map(absolute), ..self.clone() }
    }

    fn load(&self) -> Loaded {
        let mut loaded = self.reader.load(self.config.as_deref(), self.tighten.as_deref());
        match self.auto_approve.as_deref() {
            None => {}
            Some(value) if value == "0" => {
                loaded.rules = loaded.rules.map(|rules| Rules { auto_approve: false, ..rules });
            }
            Some(_) => {
                let (title, hint) = ("it takes no value but 0", "unset it, or set it to 0");
                let mut faults = Faults::whole_file(Path::new(AUTO_APPROVE), title, hint);
                faults.merge(loaded.rules.err().unwrap_or_default());
                loaded.rules = Err(faults);
            }
        }
        loaded.places.extend(self.default_config.clone());
        loaded
    }

    fn trail(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("trail"))
    }
}

/// Reads a variable of the operator's environment.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The variable that makes every call ask.
const AUTO_APPROVE: &str = "PINFOLD_AUTO_APPROVE";

/// What stands in front of each line of Pinfold's own words.
const NAME: &str = "pinfold: ";

/// Says something of Pinfold's own: each line on standard error with its name in front.
fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    for line in text.lines() {
        // Nobody is left to tell if standard error is gone.
        drop(writeln!(out, "{NAME}{}", shown(line)));
    }
}

/// A line as it may be shown: nothing in it acts on a terminal, and it is not too long to be read,
/// whatever a path, a name or a line of a file brought into it.
fn shown(line: &str) -> String {
    let escape = |mut out: String, ch: char| {
        if is_unsafe_to_show(ch) {
            out.extend(ch.escape_default());
        } else {
            out.push(ch);
        }
        out
    };
    let line = line.chars().fold(String::new(), escape);
    let [line] = fit([line], MESSAGE_CHARS_MAX - NAME.len());
    line
}

/// Says a refusal, and where its code is explained.
fn say_refusal(message: &str, code: Code) {
    say(message);
    say(&format!("`pinfold explain {code}` says more"));
}

fn say_fault(text: &str) -> u8 {
    say(text);
    FAULT
}

/// Says every fault of the operator's files, and how many there are.
fn say_faults(faults: &Faults) -> u8 {
    let count = faults.len();
    say(&format!("{faults}\n{count} {}", if count == 1 { "fault" } else { "faults" }));
    1
}

/// Prints an answer on standard output.
fn print(text: &str) -> u8 {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => 0,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => say_fault(&format!("the answer cannot be written: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_acts_on_a_terminal_or_is_too_long_to_be_read() {
        assert_eq!(shown("no `a\u{1b}[2J\u{202e}`: \\x"), r"no `a\u{1b}[2J\u{202e}`: \x");
        for text in ["é", "\u{1b}", "\\"] {
            let line = format!("{NAME}{}", shown(&text.repeat(5_000)));
            assert_eq!(line.chars().count(), MESSAGE_CHARS_MAX, "{line}");
        }
    }
}
