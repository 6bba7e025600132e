//! `pinfold trail show|stats|verify`.

use super::args::TrailCommand;
use super::{Surroundings, print, say_fault};
use crate::trail;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Answers a question about the trail.
pub(super) fn trail(command: &TrailCommand, surroundings: &Surroundings) -> u8 {
    let named = match command {
        TrailCommand::Verify { folder: Some(folder), .. } => Some(folder.clone()),
        _ => surroundings.trail(),
    };
    let Some(folder) = named else {
        return say_fault("no state folder: set HOME or PINFOLD_HOME");
    };
    match command {
        TrailCommand::Show { json } => show(&folder, *json),
        TrailCommand::Stats { json } => stats(&folder, *json),
        TrailCommand::Verify { json, .. } => verify(&folder, *json),
    }
}

fn show(folder: &Path, json: bool) -> u8 {
    let records = match trail::records(folder) {
        Ok(records) => records,
        Err(error) => return say_fault(&error.to_string()),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                drop(out.flush());
                return say_fault(&error.to_string());
            }
        };
        let line = if json { record.text.clone() } else { trail::human(&record) };
        if writeln!(out, "{line}").is_err() {
            return 0;
        }
    }
    match out.flush() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say_fault(&format!("the answer cannot be written: {error}"))
        }
        _ => 0,
    }
}

fn stats(folder: &Path, json: bool) -> u8 {
    let stats = match trail::stats(folder) {
        Ok(stats) => stats,
        Err(error) => return say_fault(&error.to_string()),
    };
    let root = stats.root.base64url();
    if json {
        let answer = json!({
            "records": stats.records, "intents": stats.intents, "ends": stats.ends,
            "refusals": stats.refusals, "size": stats.size, "root": root,
        });
        return print(&answer.to_string());
    }
    print(&format!(
        "records {}  intents {}  ends {}  refusals {}  size {}  root {root}",
        stats.records, stats.intents, stats.ends, stats.refusals, stats.size
    ))
}

fn verify(folder: &Path, json: bool) -> u8 {
    let report = trail::verify(folder);
    let (verdict, root) = (report.verdict.as_str(), report.root.base64url());
    let printed = if json {
        let answer = json!({
            "verdict": verdict, "records": report.records, "size": report.size, "root": root,
            "segment": report.segment, "line": report.line, "offset": report.offset,
            "why": report.why,
        });
        print(&answer.to_string())
    } else if report.verdict.exit() == 0 {
        print(&format!(
            "{verdict}: {} records, root {root}; unsealed, not anchored",
            report.records
        ))
    } else {
        print(&format!(
            "{verdict}: {} at line {}, byte {}: {}; {} records before it are sound",
            report.segment.display(),
            report.line,
            report.offset,
            report.why,
            report.records
        ))
    };
    if printed == 0 { report.verdict.exit() } else { printed }
}
