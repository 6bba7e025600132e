//! `pinfold completions` and `pinfold man`: the command line, told to shells and to `man`.

use super::args::Low;
use super::{print, say_fault};
use crate::record::{Code, Text};
use clap::builder::{PossibleValue, Resettable, TypedValueParser};
use clap::{Arg, Command, CommandFactory, Error, ValueEnum};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// A shell that completions can be made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    /// GNU Bash with bash-completion
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Prints a shell's completions.
pub(super) fn completions(shell: Shell) -> u8 {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Low::command(), "pinfold", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

/// Writes a page for each verb into a folder.
pub(super) fn man(folder: &Path) -> u8 {
    let mut command = Low::command().disable_help_subcommand(true);
    command.build();
    let written = std::fs::create_dir_all(folder).and_then(|()| write_pages(&command, folder));
    match written {
        Ok(()) => 0,
        Err(error) => {
            let folder = Text::from(folder).shown();
            say_fault(&format!(
                "the man pages cannot be written to {folder}: {error}. Next: name a folder that \
                 this user can write"
            ))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "pages for people, which nothing here reads")]
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    // The texts below the options are laid out here: their tables keep their lines.
    let man = Man::new(command.clone().after_long_help(Resettable::Reset));
    let man = man.source(concat!("pinfold ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let notes = command.get_after_long_help().map(|text| notes(&text.to_string()));
    notes.map_or(Ok(()), |notes| notes.to_writer(&mut page))?;
    std::fs::write(folder.join(man.get_filename()), page)?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}

/// Paragraphs are filled, blocks of indented lines are not.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    for block in text.split("\n\n") {
        let is_table = block.lines().all(|line| line.starts_with("  "));
        roff.control("PP", []);
        if is_table {
            roff.control("nf", []);
        }
        for line in block.lines() {
            roff.text([roman(line)]);
        }
        if is_table {
            roff.control("fi", []);
        }
    }
    roff
}

/// Reads any text as a code, so that an unknown one is answered with the nearest, and lets shells
/// complete the known ones.
#[derive(Debug, Clone)]
pub(super) struct AnyCode;

impl TypedValueParser for AnyCode {
    type Value = String;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, text: &OsStr) -> Result<String, Error> {
        Ok(text.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |code: &Code| PossibleValue::new(code.as_str()).help(code.means());
        Some(Box::new(Code::ALL.iter().map(value)))
    }
}
