//! `pinfold guard show|restore|accept`.

use super::args::{GuardCommand, GuardPlace};
use super::{Surroundings, print, run, say_fault};
use crate::guard::Held;
use crate::record::{Refusal, Text};
use crate::run::Cleared;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Answers a question about what runs left, or clears it.
pub(super) fn guard(command: &GuardCommand, surroundings: &Surroundings) -> u8 {
    let supervisor = match run::supervisor(surroundings) {
        Ok(supervisor) => supervisor,
        Err(fault) => return say_fault(&fault),
    };
    let (GuardCommand::Show { place, .. }
    | GuardCommand::Restore { place, .. }
    | GuardCommand::Accept { place }) = command;
    let workspace = match folder(place) {
        Ok(workspace) => workspace,
        Err(error) => return say_fault(&format!("the workspace has no path: {error}")),
    };
    let cleared = match command {
        GuardCommand::Show { json, .. } => {
            return match supervisor.held(&workspace) {
                Ok((workspace, held)) => show(&workspace, &held, *json),
                Err(refusal) => told(&refusal),
            };
        }
        GuardCommand::Restore { numbers, .. } => Cleared::Restore(numbers),
        GuardCommand::Accept { .. } => Cleared::Accept,
    };
    match supervisor.clear(&workspace, cleared) {
        Ok(()) => 0,
        Err(refusal) => told(&refusal),
    }
}

fn folder(place: &GuardPlace) -> std::io::Result<PathBuf> {
    match &place.workspace {
        Some(folder) => std::path::absolute(folder),
        None => std::env::current_dir(),
    }
}

fn told(refusal: &Refusal) -> u8 {
    say_fault(&format!("{}: {}. Next: {}.", refusal.what(), refusal.reason(), refusal.next()))
}

fn show(workspace: &Path, held: &[(Held, PathBuf)], as_json: bool) -> u8 {
    let printed = if as_json {
        let found: Vec<Value> = held.iter().map(object).collect();
        print(&json!({ "workspace": Text::from(workspace), "found": found }).to_string())
    } else if held.is_empty() {
        print("nothing is found that is not cleared")
    } else {
        print(&held.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    if printed != 0 { printed } else { u8::from(!held.is_empty()) }
}

fn object((held, moved_to): &(Held, PathBuf)) -> Value {
    json!({
        "number": held.number,
        "call": held.call,
        "path": Text::from(held.finding.path.as_path()),
        "kind": held.finding.kind.as_str(),
        "what": held.finding.what,
        "quarantined": held.is_moved,
        "put_back": held.is_put_back,
        "moved_to": held.is_moved.then(|| Text::from(moved_to.as_path())),
    })
}

fn line((held, moved_to): &(Held, PathBuf)) -> String {
    let Held { number, call, finding, is_moved, is_put_back } = held;
    let became = match (is_moved, is_put_back) {
        (false, _) => "it is where it was found".to_owned(),
        (true, put_back) => {
            let back = if *put_back { ", and what was there before is back" } else { "" };
            format!("it was moved to {}{back}", Text::from(moved_to.as_path()).escaped())
        }
    };
    format!(
        "{number:>3}  {} ({}): {}; {became}; call {call}",
        Text::from(finding.path.as_path()).escaped(),
        finding.kind.as_str(),
        Text::from(finding.what.as_str()).escaped(),
    )
}
