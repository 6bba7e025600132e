//! The documents that are rendered from the program's own tables, and the tests that compare them.
//! With `PINFOLD_BLESS=1` the tests write the documents instead.

use super::args::Low;
use crate::record::Code;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;
use std::path::Path;

/// Widest line of help, in characters; options stand in front of what they mean.
const WIDTH_MAX: usize = 125;

#[test]
fn docs_codes_is_what_the_table_of_codes_says() {
    compare("docs/CODES.md", include_str!("../../../docs/CODES.md"), &codes());
}

#[test]
fn docs_cli_is_what_the_command_line_says() {
    compare("docs/CLI.md", include_str!("../../../docs/CLI.md"), &cli());
}

#[test]
fn short_help_stays_short_and_long_help_keeps_its_width() {
    let mut all = vec![built()];
    while let Some(mut command) = all.pop() {
        let (name, short) = (command.get_name().to_owned(), command.render_help().to_string());
        assert!(short.lines().count() <= 30, "{name}:\n{short}");
        let long = command.render_long_help().to_string();
        let wide = long.lines().chain(short.lines()).find(|line| line.chars().count() > WIDTH_MAX);
        assert_eq!(wide, None, "{name}");
        all.extend(command.get_subcommands().cloned());
    }
}

fn compare(name: &str, there: &str, rendered: &str) {
    if std::env::var_os("PINFOLD_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::write(path, rendered).expect("the document can be written");
    } else {
        let differs = there.lines().zip(rendered.lines()).find(|(there, here)| there != here);
        let how = "PINFOLD_BLESS=1 cargo test --lib pages";
        assert!(there == rendered, "{name} is not what is rendered: {differs:?}. Run: {how}");
    }
}

fn codes() -> String {
    let mut out = "# Codes\n\n\
        Each refusal and fault has a code: in brackets in its message, as `decision.code` in the \
        reply,\nand as `code` in its record. Codes are never reused. `pinfold explain CODE` prints \
        the same.\n\nThis page is rendered from the table in `src/record/code.rs`; \
        [CONTRIBUTING.md](CONTRIBUTING.md)\nsays how.\n"
        .to_owned();
    for (exit, title) in [
        (126, "Refused; exit code 126 of `pinfold run`"),
        (127, "The program cannot be had; exit code 127"),
        (125, "A fault of Pinfold, the host or the configuration; exit code 125"),
    ] {
        put(&mut out, &format!("\n## {title}\n"));
        for code in Code::ALL.iter().filter(|code| code.exit() == exit) {
            let (means, example, next) = (code.means(), code.example(), code.next());
            put(&mut out, &format!("\n### `{code}`\n\n{means}\n"));
            put(&mut out, &format!("\n* Example: {example}\n* What to do: {next}\n"));
        }
    }
    out
}

fn cli() -> String {
    let mut out = "# Command line\n\n\
        This page is rendered from the definition of the command line in `src/front/cli`, like \
        `--help`,\nthe completions and the man pages; [CONTRIBUTING.md](CONTRIBUTING.md) says \
        how.\n"
        .to_owned();
    verb(&mut out, &built(), true);
    out
}

fn built() -> Command {
    let mut command = Low::command().disable_help_subcommand(true);
    command.build();
    command
}

/// One verb with those below it.
fn verb(out: &mut String, command: &Command, is_top: bool) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    put(out, &format!("\n## `{usage}`\n"));
    let about = command.get_long_about().or(command.get_about());
    let about = about.expect("every verb says what it does").to_string();
    let (first, rest) = about.split_once("\n\n").unwrap_or((&about, ""));
    put(out, &markdown(&format!("{}.\n\n{rest}", first.trim_end_matches('.'))));
    // The options that every verb has stand at the top.
    let ours = |arg: &&Arg| !arg.is_hide_set() && (is_top || is_own(arg));
    let rows: String = command.get_arguments().filter(ours).map(row).collect();
    if !rows.is_empty() {
        put(out, &format!("\n| argument | meaning |\n|---|---|\n{rows}"));
    }
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    put(out, &markdown(&after));
    for below in command.get_subcommands() {
        verb(out, below, false);
    }
}

fn is_own(arg: &Arg) -> bool {
    !arg.is_global_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

fn row(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let takes = arg.get_action().takes_values();
    let values = arg.get_value_names().filter(|_| takes).unwrap_or_default();
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    let flags: Vec<_> = short.into_iter().chain(long).collect();
    let name = [flags.join(", "), values.join(" ")].join(" ");
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let help = help.unwrap_or_default().replace("\n\n", ". ").replace('\n', " ");
    let choices: Vec<_> = match arg.is_hide_possible_values_set() || !takes {
        true => Vec::new(),
        false => arg.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect(),
    };
    let choices = match choices.as_slice() {
        [] => String::new(),
        some => format!(": {}", some.join(", ")),
    };
    format!("| `{}` | {}{choices} |\n", name.trim(), help.replace('|', "\\|"))
}

/// Paragraphs as they are; a block of indented lines keeps its lines.
fn markdown(text: &str) -> String {
    let mut out = String::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        if block.lines().all(|line| line.starts_with("  ")) {
            let lines: Vec<_> = block.lines().map(|line| &line[2..]).collect();
            put(&mut out, &format!("\n```text\n{}\n```\n", lines.join("\n")));
        } else {
            put(&mut out, &format!("\n{}\n", block.trim_end()));
        }
    }
    out
}

fn put(out: &mut String, text: &str) {
    out.write_str(text).expect("a string takes everything");
}
