//! What the guard says of a workspace.

use super::{Body, Text, Word, fit};
use serde::Serialize;

/// Most characters that the message shows of where and what.
const SHOWN_CHARS_MAX: usize = 200;

/// What the guard found after a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardReport {
    /// What is not harmless; every call of the workspace asks until a person has cleared it.
    pub found: Vec<GuardFinding>,
    /// Files of the project that other programs act on by themselves, which the call changed.
    pub noticed: Vec<GuardNotice>,
}

/// A change that is not harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardFinding {
    /// Its number in `pinfold guard show`.
    pub number: u64,
    /// Where, below the workspace.
    pub path: Text,
    /// What it is.
    pub kind: &'static str,
    /// What is wrong with it.
    pub what: String,
    /// Whether it was moved out of the workspace.
    pub quarantined: bool,
    /// Whether what was there before was put back in its place.
    pub put_back: bool,
}

/// A file that another program acts on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardNotice {
    /// Where, below the workspace.
    pub path: Text,
    /// What acts on it.
    pub why: &'static str,
}

/// What stands of findings in a record: the first of them, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardList {
    /// The workspace.
    pub workspace: Word,
    /// How many there are.
    pub count: u64,
    /// Where.
    pub paths: Vec<Word>,
    /// What they are.
    pub kinds: Vec<&'static str>,
    /// What is wrong with each.
    pub what: Vec<String>,
}

impl GuardList {
    fn of<'f>(workspace: Word, found: impl Iterator<Item = &'f GuardFinding> + Clone) -> Self {
        let paths: Vec<Text> = found.clone().map(|it| it.path.clone()).collect();
        let listed = Word::list(&paths);
        let first = found.take(listed.len());
        Self {
            workspace,
            count: paths.len() as u64,
            kinds: first.clone().map(|it| it.kind).collect(),
            what: first.map(|it| Text::from(it.what.as_str()).shown()).collect(),
            paths: listed,
        }
    }
}

impl GuardReport {
    /// Makes the record of what was found.
    pub fn found(&self, workspace: Word) -> Body {
        Body::GuardFound(GuardList::of(workspace, self.found.iter()))
    }

    /// Makes the record of what was moved out of the workspace, where anything was.
    pub fn quarantined(&self, workspace: Word) -> Option<Body> {
        let moved = self.found.iter().filter(|it| it.quarantined);
        let list = GuardList::of(workspace, moved);
        (list.count > 0).then_some(Body::GuardQuarantined(list))
    }

    /// Returns the sentence for people: what, what became of it, and what to do.
    pub fn message(&self) -> Option<String> {
        let first = self.found.first()?;
        let more = match self.found.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let became = match (first.quarantined, first.put_back) {
            (true, true) => "was moved away, and what was there before is back",
            (true, false) => "was moved away",
            (false, _) => "is where it was found",
        };
        let what = Text::from(first.what.as_str()).shown();
        let [path, what] = fit([first.path.shown(), what], SHOWN_CHARS_MAX);
        Some(format!(
            "guard: {path} ({}) {became}{more}: {what}. Every call in this workspace asks until a \
             person has cleared it. Next: pinfold guard show.",
            first.kind
        ))
    }
}
