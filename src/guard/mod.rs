//! Whether a run left the repository safe.
//!
//! Git, editors and agents on the host act by themselves on files of a project, outside of every
//! sandbox. So before a run that may write to a workspace its dangerous state is noted, and after
//! it the state is looked at again: a fingerprint by names and stamps, and only what differs is
//! read. What is not harmless is **found**: it blocks `auto` for the workspace until a person has
//! cleared it, and it is moved into the state folder, where it cannot act.
//!
//! The block is written before anything is moved, so a crash here leaves a workspace blocked and
//! never one that only looks clean. A crash of the supervisor before it looked leaves the note
//! behind, and the next call in the workspace looks in its place.
#![forbid(unsafe_code)]

pub mod autoruns;
mod judge;
mod memory;
mod named;
pub mod precheck;
mod quarantine;
pub mod settings;
mod walk;

pub use judge::{Changes, Finding, Snapshot};
pub use memory::{Held, Running};
pub use walk::{Fingerprint, Kind, fingerprint};

use crate::plan::workspace::Workspace;
use memory::Memory;
use std::io;
use std::path::{Path, PathBuf};

/// What looks after a workspace.
#[derive(Debug, Clone)]
pub struct Guard {
    memory: Memory,
}

impl Guard {
    /// Returns the guard of a workspace, which is named by its path; `state` is Pinfold's state
    /// folder.
    pub fn of(state: &Path, workspace: &Path) -> Self {
        Self { memory: Memory::of(state, workspace) }
    }

    /// Notes how a workspace looks before a run that may write to it.
    ///
    /// # Errors
    /// The workspace cannot be read, or the state folder cannot be written.
    pub fn begin(&self, workspace: &Workspace, call: &str) -> io::Result<Running> {
        self.memory.begin(call, Snapshot::take(workspace, &workspace.path)?)
    }

    /// Takes over the runs in this workspace whose supervisors died before they looked.
    ///
    /// # Errors
    /// The state folder cannot be read.
    pub fn left_behind(&self) -> io::Result<Vec<Running>> {
        self.memory.left_behind()
    }

    /// Says what a run changed that is not harmless, and what it changed that other programs act
    /// on.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub fn look(&self, running: &Running, workspace: &Workspace) -> io::Result<Changes> {
        let after = running.before.again(workspace, &workspace.path)?;
        if after == running.before.places {
            return Ok(Changes::default());
        }
        Ok(judge::changes(&running.before, &after, workspace))
    }

    /// Blocks the workspace for what was found, then moves it away. What cannot be moved stays
    /// where it is and stands in the list as such.
    ///
    /// # Errors
    /// The block cannot be written; nothing was moved then.
    pub fn hold(
        &self,
        running: &Running,
        workspace: &Workspace,
        call: &str,
        found: Vec<Finding>,
    ) -> io::Result<Vec<Held>> {
        let numbers = self.memory.change(|held| {
            let first = self.memory.free_number(held)?;
            let numbers = first..first + found.len() as u64;
            held.extend(numbers.clone().zip(found).map(|(number, finding)| Held {
                number,
                call: call.to_owned(),
                finding,
                is_moved: false,
                is_put_back: false,
            }));
            Ok(numbers)
        })?;
        self.memory.change(|held| {
            let new = held.iter_mut().filter(|it| numbers.contains(&it.number));
            let new = new.map(|held| {
                self.quarantine(running, workspace, held);
                held.clone()
            });
            Ok(new.collect())
        })
    }

    fn quarantine(&self, running: &Running, workspace: &Workspace, held: &mut Held) {
        let path = &held.finding.path;
        if held.finding.is_there && !judge::is_kept_whole(path, held.finding.kind) {
            match quarantine::away(workspace, path, &self.memory.moved(held.number)) {
                Ok(()) => held.is_moved = true,
                Err(error) => tracing::warn!(%error, path = %path.display(), "stays in place"),
            }
        }
        let before = &running.before;
        let known = before.kept.get(path).zip(before.places.get(path));
        if let Some((content, place)) = known.filter(|_| held.is_moved || !held.finding.is_there) {
            match quarantine::put(workspace, path, content, &place.stamp) {
                Ok(()) => held.is_put_back = true,
                Err(error) => tracing::warn!(%error, path = %path.display(), "not put back"),
            }
        }
    }

    /// Forgets a run after the look.
    ///
    /// # Errors
    /// As `unlink(2)`.
    pub fn done(&self, running: Running) -> io::Result<()> {
        running.done()
    }

    /// Returns what is found and not cleared.
    ///
    /// # Errors
    /// The state folder cannot be read, or holds what nobody wrote there.
    pub fn held(&self) -> io::Result<Vec<Held>> {
        self.memory.held()
    }

    /// Returns what is found and not cleared in workspaces that lie in this one or that it lies in,
    /// each with its workspace.
    ///
    /// # Errors
    /// As [`Guard::held`].
    pub fn held_around(&self) -> io::Result<Vec<(PathBuf, Held)>> {
        self.memory.held_around()
    }

    /// Returns the folder of what was moved away for a finding.
    pub fn moved(&self, number: u64) -> PathBuf {
        self.memory.moved(number)
    }

    /// Clears everything that was found. What was moved away stays in the state folder.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub fn accept(&self) -> io::Result<()> {
        self.memory.change(|held| {
            held.clear();
            Ok(())
        })
    }

    /// Moves one finding back to where it was found, and clears it.
    ///
    /// # Errors
    /// There is no such finding, something else stands in its place, or it cannot be moved.
    pub fn restore(&self, workspace: &Workspace, number: u64) -> io::Result<()> {
        self.memory.change(|held| {
            let found = held.iter().position(|it| it.number == number);
            let at = found.ok_or_else(|| io::Error::other("there is no finding of this number"))?;
            let Held { finding, is_moved, is_put_back, .. } = &held[at];
            if *is_moved {
                let folder = self.memory.moved(number);
                if *is_put_back {
                    quarantine::exchange(&folder, workspace, &finding.path)?;
                } else {
                    quarantine::back(&folder, workspace, &finding.path)?;
                }
            }
            held.remove(at);
            Ok(())
        })
    }
}
