//! May it run? The catalog of commands: one file that lists, for each program, the whole
//! argument vectors that are accepted, and what such a call may do.
//!
//! What never enters here: circumstances (who asks, what the session did before, what the
//! host can enforce), which can only tighten a decision made here, and any shell. A faulty
//! file gives no catalog at all; there is no fallback to a part of it. Only [`identity`]
//! looks at the file system; everything else is a pure function of text.
#![forbid(unsafe_code)]

mod answer;
mod cpython;
mod diff;
mod forms;
pub mod identity;
mod image;
mod index;
mod kinds;
mod lint;
mod matching;
mod options;
mod parse;
mod render;
mod shape;
mod template;
mod tighten;
mod tool;
mod trace;
mod vectors;
mod walk;
mod words;

pub use diff::Change;
pub use kinds::{Kind, PATH_BYTES_MAX, Spec};
pub use matching::{Explained, INDEX, Matched, Via};
pub use shape::{ARG_BYTES_MAX, ARGS_MAX};
pub use template::{
    Guard, Instead, LINE_BYTES_MAX, Limits, ListedRefusal, Operands, Policy, Scan, Template,
    UNLISTED,
};
pub use trace::{Role, Trace};
pub use vectors::{Difference, Malformed, Tested};

use crate::record::Digest;
use crate::source::{Faults, Source};
use forms::Templates;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use template::Program;

/// A catalog without a structural fault.
#[derive(Debug)]
pub struct Catalog {
    file: PathBuf,
    text: String,
    digest: Digest,
    /// Digest of the overlay that tightens it.
    overlay: Option<Digest>,
    /// The `name` key.
    name: String,
    policy: Policy,
    path: Vec<PathBuf>,
    /// Where the `path` key stands in the text, in bytes.
    path_offset: usize,
    templates: Templates,
    /// What a call gets that no template accepts, where a person is asked about such calls.
    unlisted: Option<Template>,
    refusals: Vec<ListedRefusal>,
    instead: Vec<Instead>,
    /// From a program's name or alias to its templates.
    programs: HashMap<String, Program>,
    /// From program and subcommand to an entry of `refusals`.
    refusal_of: HashMap<(String, String), usize>,
    /// From a program to an entry of `instead`.
    instead_of: HashMap<String, usize>,
}

impl Catalog {
    /// Reads the catalog that is compiled in.
    ///
    /// # Errors
    /// Its faults; a test shows that it has none.
    pub fn shipped() -> Result<Self, Faults> {
        Self::parse(Self::shipped_source())
    }

    /// Returns the text of the catalog that is compiled in.
    pub fn shipped_source() -> Source {
        let text = include_str!("../../sandbox-profiles/catalog.toml");
        Source::new("sandbox-profiles/catalog.toml", text)
    }

    /// Returns the SHA-256 of the file's text.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the SHA-256 of the text of the overlay that tightens it, if there is one.
    pub fn overlay(&self) -> Option<Digest> {
        self.overlay
    }

    /// Returns the name that the file gives itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the `[policy]` table but for the lookup path.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the templates in the order of the file, which decides nothing.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// Returns the names of the profiles that templates may use.
    pub fn profiles(&self) -> &[String] {
        &self.policy.profiles
    }

    /// Returns the folders in which programs are looked up, as written: absolute, or `~/…`
    /// for the home of the supervisor's user.
    pub fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// Returns [`Catalog::path`] with `~` replaced; without a home its entries are left out.
    pub fn path_in(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let expand = |folder: &PathBuf| match folder.strip_prefix("~") {
            Ok(below) => home.map(|home| home.join(below)),
            Err(_) => Some(folder.clone()),
        };
        self.path.iter().filter_map(expand).collect()
    }

    /// Returns the `[[refuse]]` entries, which choose words and decide nothing.
    pub fn listed_refusals(&self) -> &[ListedRefusal] {
        &self.refusals
    }

    /// Returns the `[[instead]]` entries, which choose words and decide nothing.
    pub fn instead(&self) -> &[Instead] {
        &self.instead
    }

    /// Returns where a template of this catalog stands, as `path:line:col`.
    pub fn source_place(&self, template: &Template) -> String {
        self.place(template.offset)
    }

    /// Returns where the lookup path stands, as `path:line:col`.
    pub fn path_place(&self) -> String {
        self.place(self.path_offset)
    }

    fn place(&self, offset: usize) -> String {
        Source::new(self.file.as_path(), self.text.as_str()).place(offset)
    }

    /// Finds the `[[instead]]` entry for a program.
    fn instead_for(&self, program: &str) -> Option<&Instead> {
        self.instead_of.get(program).map(|index| &self.instead[*index])
    }

    /// Finds the `[[refuse]]` entry for a subcommand.
    fn listed_refusal(&self, program: &str, sub: &str) -> Option<&ListedRefusal> {
        let index = self.refusal_of.get(&(program.to_owned(), sub.to_owned()))?;
        Some(&self.refusals[*index])
    }
}

#[cfg(test)]
mod tests;
