//! What each element of an argument vector was taken for, so that a decision can be explained.
//!
//! The matcher notes it while it decides, so what is explained is what happened.
#![forbid(unsafe_code)]

use super::shape::ARGS_MAX;
use super::template::Template;
use serde::Serialize;

/// What one element was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing: the decision fell before it, or it is what the call was refused for.
    #[default]
    Unread,
    /// The program's name.
    Program,
    /// A flag before the subcommand.
    Global,
    /// A word of the subcommand.
    Sub,
    /// A flag.
    Flag,
    /// Several flags of one letter.
    Cluster,
    /// An option whose value is the next element.
    Name,
    /// The value of the option before it.
    Value,
    /// An option and its value in one.
    Joined,
    /// An operand.
    Operand,
    /// An argument of an interpreter, which a person reads.
    Free,
}

/// The element's role, and the option of the template that it names or belongs to.
#[derive(Debug, Clone, Copy, Default)]
struct Note {
    role: Role,
    option: u8,
}

/// What the matcher took each element for.
#[derive(Debug, Clone)]
pub struct Trace {
    notes: [Note; ARGS_MAX],
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { notes: [Note::default(); ARGS_MAX] }
    }

    pub(super) fn note(&mut self, at: usize, role: Role) {
        if let Some(note) = self.notes.get_mut(at) {
            note.role = role;
        }
    }

    pub(super) fn option(&mut self, at: usize, role: Role, option: usize) {
        if let (Some(note), Ok(option)) = (self.notes.get_mut(at), u8::try_from(option)) {
            *note = Note { role, option };
        }
    }

    /// Returns what an element of the vector was taken for.
    pub fn role(&self, at: usize) -> Role {
        self.notes.get(at).map_or(Role::Unread, |note| note.role)
    }

    /// Returns the name of the option that an element is, or whose value it is, and the name of
    /// the kind that its value or the operand was checked by. `template` is the selected one.
    pub fn option_and_kind<'t>(
        &self,
        at: usize,
        template: &'t Template,
    ) -> (Option<&'t str>, Option<&'static str>) {
        let Some(note) = self.notes.get(at) else { return (None, None) };
        let option = || template.options.get(usize::from(note.option));
        let kind = || option()?.value.as_ref().map(|value| value.spec.kind.name());
        match note.role {
            Role::Flag | Role::Name => (option().map(|opt| opt.name.as_str()), None),
            Role::Value | Role::Joined => (option().map(|opt| opt.name.as_str()), kind()),
            Role::Operand => (None, Some(template.operands.spec.kind.name())),
            _ => (None, None),
        }
    }
}
