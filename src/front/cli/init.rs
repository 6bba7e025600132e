//! `pinfold init`: the first five minutes, each step shown as it is done.

use super::{Surroundings, doctor, print, run, say, say_fault, say_faults};
use crate::plan::toolchains::Found;
use crate::record::{Outcome, Reply, Text, Verdict};
use crate::run::{Request, Rules, Stdin, Supervisor, Words};
use crate::trail;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the file says before the toolchains.
const HEAD: &str = "\
# pinfold.toml: what the operator of this machine decides.
#
# `pinfold config check` checks it, `pinfold config show` prints every value in force with where it
# comes from, `pinfold config schema config` prints its JSON Schema. Every key but `schema` is
# optional, and an unknown key is a fault. Relative paths start at this file's folder, `~/` is your
# home. Nobody but you and root may be able to write this file.
schema = 1

# A catalog of your own. It replaces the compiled-in one whole.
# catalog = \"catalog.toml\"

# A folder of profiles of your own, NAME.toml. One of the same name replaces the compiled-in one.
# profiles = \"profiles\"

# Author and committer of the commits that are made.
# git_identity = \"Pinfold agent <agent@pinfold.invalid>\"

# Linked worktrees and submodules, whose `.git` is a file, in which git may run.
# worktrees = [\"/srv/agents/app-wt\"]

# Toolchains that live in homes: seen read-only and executable, in the named profiles only.
";

/// What it says after them.
const TAIL: &str = "
# The weakest rung that you accept for a profile, where that is weaker than the profile asks.
# [rungs]
# build = \"C\"
";

/// Commands that show the three answers: the first of each that the catalog answers so is run.
const SHOWS: [(&str, &[&[&str]]); 3] = [
    ("allowed", &[&["ls"], &["pwd"]]),
    ("asked", &[&["python3", "-c", "print(6 * 7)"], &["pip", "uninstall", "-y", "example"]]),
    ("refused", &[&["curl", "https://example.invalid"], &["rm", "hello.txt"]]),
];

/// Sets Pinfold up for this user.
pub(super) fn init(surroundings: &Surroundings) -> u8 {
    let Some(path) = surroundings.config.as_ref().or(surroundings.default_config.as_ref()) else {
        return say_fault("no place for a configuration: set HOME, or name one with --config FILE");
    };
    say("looking for toolchains of this user");
    let found = surroundings.reader.homes.find();
    for toolchain in &found {
        let bin = shown(surroundings, &toolchain.bin);
        print(&format!("found {}: {} in {bin}", toolchain.manager, toolchain.version));
    }
    if found.is_empty() {
        print("found no toolchain in a home; the system's own programs need no configuration");
    }
    let is_there = path.symlink_metadata().is_ok();
    if !is_there && let Err(fault) = write(surroundings, path, &found) {
        return say_fault(&fault);
    }
    let rules = match surroundings.reader.load(Some(path), None).rules {
        Ok(rules) => rules,
        Err(faults) => return say_faults(&faults),
    };
    if is_there {
        keep(surroundings, path, &found, &rules);
    }
    let written = Surroundings { config: Some(path.clone()), ..surroundings.clone() };
    let supervisor = match run::supervisor(&written) {
        Ok(supervisor) => supervisor,
        Err(fault) => return say_fault(&fault),
    };
    say("finding out what this host can enforce");
    match doctor::Answer::find(&written) {
        Ok(answer) => print(&answer.text()),
        Err(fault) => return say_fault(&fault),
    };
    match show(&written, &supervisor, &rules) {
        Ok(ran) => u8::from(!ran),
        Err(fault) => say_fault(&fault),
    }
}

/// A path as people and configuration write it.
fn shown(surroundings: &Surroundings, path: &Path) -> String {
    let homes = &surroundings.reader.homes;
    homes.shown(path).unwrap_or_else(|| Text::from(path).escaped())
}

/// Writes the configuration; one that is there is never touched.
fn write(surroundings: &Surroundings, path: &Path, found: &[Found]) -> Result<(), String> {
    let mut text = HEAD.to_owned();
    for toolchain in found {
        text.push_str(&lines(surroundings, path, toolchain));
    }
    if found.is_empty() {
        text.push_str("# None was found.\n");
    }
    text.push_str(TAIL);
    let name = Text::from(path).escaped();
    surroundings
        .reader
        .accepts(path, &text)
        .map_err(|faults| format!("the configuration would have faults; not written:\n{faults}"))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.and_then(|()| crate::sys::fd::create(path, text.as_bytes())).map_err(|error| {
        format!("{name} cannot be written: {error}. Nothing ran. Next: name another with --config")
    })?;
    print(&format!("wrote {name}"));
    Ok(())
}

/// The lines of one toolchain: as comments with the reason where they would be a fault.
fn lines(surroundings: &Surroundings, path: &Path, toolchain: &Found) -> String {
    let head = format!("\n# {}: {}\n", toolchain.manager, toolchain.version);
    let Some(lines) = surroundings.reader.homes.toml(toolchain) else {
        return format!("{head}# Left out: its path is not UTF-8.\n");
    };
    match surroundings.reader.accepts(path, &format!("schema = 1\n{lines}")) {
        Ok(()) => format!("{head}{lines}"),
        Err(faults) => {
            let title = faults.titles().join("; ");
            let off: Vec<String> = lines.lines().map(|line| format!("# {line}\n")).collect();
            print(&format!("left {} out: {title}", toolchain.manager));
            format!("{head}# Left out: {title}.\n{}", off.concat())
        }
    }
}

/// Says that a configuration stays as it is, and what it could have more.
fn keep(surroundings: &Surroundings, path: &Path, found: &[Found], rules: &Rules) {
    print(&format!("kept {} as it is", Text::from(path).escaped()));
    for toolchain in found {
        let real = std::fs::canonicalize(&toolchain.bin).ok();
        let has = rules.settings.toolchains.iter().any(|given| given.bin == real);
        if !has {
            let lines = lines(surroundings, path, toolchain);
            print(&format!("it could have these lines more:\n{}", lines.trim_end()));
        }
    }
}

/// A folder to show commands in, removed when dropped.
struct Project(PathBuf);

impl Project {
    fn make() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("pinfold-init-{}", std::process::id()));
        // As root the command is another user, who has to be able to look at it.
        DirBuilder::new().mode(0o755).create(&path)?;
        let project = Self(path);
        crate::sys::fd::create(&project.0.join("hello.txt"), b"hello\n")?;
        Ok(project)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What is left of two small files in a temporary folder hurts nobody.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs the three commands and shows their trail; tells whether the allowed one ran.
fn show(
    surroundings: &Surroundings,
    supervisor: &Supervisor,
    rules: &Rules,
) -> Result<bool, String> {
    let project = Project::make().map_err(|error| format!("no folder to try in: {error}"))?;
    let session = trail::session_id().map_err(|error| error.to_string())?;
    say(&format!("trying three commands in {}", Text::from(project.0.as_path()).escaped()));
    let mut ran = false;
    for (answer, choice) in SHOWS {
        let Some(words) = choice.iter().find(|words| answers(rules, words) == answer) else {
            print(&format!("\n{answer}: this catalog has no such answer for the usual commands"));
            continue;
        };
        print(&format!("\n{answer}: pinfold run -- {}", line(words)));
        let request = Request {
            tool: "run_command",
            session: Some(session.clone()),
            words: Words::Argv(words.iter().map(OsString::from).collect()),
            workspace: project.0.clone(),
            cwd: None,
            timeout: None,
            stdin: Stdin::None,
        };
        let reply = run::reply(supervisor, request, true)?;
        ran |= reply.outcome == Outcome::Ok;
        tell(&reply);
    }
    let folder = surroundings.trail().unwrap_or_default();
    print(&format!("\nthe trail of the three, in {}", Text::from(folder.as_path()).escaped()));
    for record in trail::records(&folder).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        if record.sess.as_deref() == Some(&session) {
            print(&trail::human(&record));
        }
    }
    Ok(ran)
}

/// What the catalog answers, in the words of the three.
fn answers(rules: &Rules, words: &[&str]) -> &'static str {
    let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    match rules.catalog.decide(&argv) {
        Ok(matched) if matched.verdict == Verdict::Auto => "allowed",
        Ok(matched) if matched.verdict == Verdict::Ask => "asked",
        _ => "refused",
    }
}

/// A command as it would be typed into a shell.
fn line(words: &[&str]) -> String {
    let plain =
        |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:/".contains(&b));
    let typed = |word: &&str| if plain(word) { (*word).to_owned() } else { format!("'{word}'") };
    words.iter().map(typed).collect::<Vec<_>>().join(" ")
}

fn tell(reply: &Reply) {
    let output = OsString::from(reply.stdout.clone());
    let output = output.to_string_lossy();
    if !output.is_empty() {
        print(output.trim_end());
    }
    if let Some(message) = &reply.message {
        say(message);
    }
}
