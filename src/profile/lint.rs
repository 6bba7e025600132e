//! What is wrong with a profile as a whole: entries that contradict each other.
//!
//! Each check runs on the merged profile and points at the file being read. Two entries that
//! both come from a parent have been shown with the parent.
#![forbid(unsafe_code)]

use super::parse::Draft;
use super::{Entry, NetworkMode, PathSpec, Profile, Root};
use crate::record::Rung;
use crate::source::Source;

/// Records every contradiction that `draft` brings into `profile`.
pub(super) fn check(profile: &Profile, draft: &Draft, source: &Source) {
    masked_and_protected(profile, draft, source);
    absent_and_written(profile, draft, source);
    network_without_rung(profile, draft, source);
    operands_without_read(profile, draft, source);
}

/// A masked path shows other content, a protected one its own.
fn masked_and_protected(profile: &Profile, draft: &Draft, source: &Source) {
    for mask in &profile.mask {
        for protect in profile.protect.iter().filter(|protect| protect.path == mask.path) {
            let title = format!("`{}` is both masked and protected", mask.path);
            let hint = "mask what must not be read, protect what must not be written";
            clash(draft, source, [mask, protect], &title, hint);
        }
    }
}

/// A write grant needs its path, so the run could never start.
fn absent_and_written(profile: &Profile, draft: &Draft, source: &Source) {
    let needed = |path: &&Entry, absent: &PathSpec| path.path.lies_in(absent);
    for absent in &profile.absent {
        let writes = profile.write.iter().filter(|write| !write.optional);
        for write in writes.map(|write| &write.entry).filter(|e| needed(e, &absent.path)) {
            let title = format!("`{}` is to be written but must be absent", write.path);
            let hint = "grant the folder above it, or set `optional = true`";
            clash(draft, source, [absent, write], &title, hint);
        }
    }
}

/// Records a clash of two entries at the later of them that stands in this file.
fn clash(draft: &Draft, source: &Source, pair: [&Entry; 2], title: &str, hint: &str) {
    let span = |entry: &Entry| draft.spans.get(&entry.place);
    let later = pair.into_iter().filter(|entry| span(entry).is_some());
    let Some(own) = later.max_by_key(|entry| span(entry).map(|span| span.start)) else { return };
    let other = if own.place == pair[0].place { pair[1] } else { pair[0] };
    if let Some(span) = span(own) {
        source.fault(span, title, format!("{hint}; the other is at {}", other.place));
    }
}

/// Rung C cannot keep a network to named hosts: its rules know ports, no addresses.
fn network_without_rung(profile: &Profile, draft: &Draft, source: &Source) {
    if profile.network.mode != NetworkMode::Allowlist || profile.rung != Rung::C {
        return;
    }
    let network = draft.network.as_ref().map(|network| &network.span);
    if let Some(span) = draft.rung.as_ref().map(|rung| &rung.span).or(network) {
        let title = "rung C cannot keep a network to the hosts that are allowed";
        source.fault(span, title, "ask for rung \"B\" or \"A\"");
    }
}

/// Operands narrow what the profile lets be read, so without that there is nothing to narrow.
fn operands_without_read(profile: &Profile, draft: &Draft, source: &Source) {
    let reads = profile.read.iter().any(|entry| entry.path.root == Root::Workspace);
    if let Some(on) = draft.operands_only.as_ref().filter(|on| on.value && !reads) {
        let title = "`operands_only` narrows the readable workspace, but none is readable";
        source.fault(&on.span, title, "add [[read]] with path = \"{workspace}\"");
    }
}
