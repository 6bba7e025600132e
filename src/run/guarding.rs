//! Where the guard stands in the pipeline: before a run that may write, and after it, before
//! anything else may start.

use super::circumstances::Decided;
use super::recording::{Ending, Recorder};
use super::{Refused, Request, Supervisor};
use crate::catalog::{self, Template};
use crate::guard::{Changes, Guard, Held, Running, precheck};
use crate::plan::workspace::Workspace;
use crate::plan::worktree::Repository;
use crate::plan::{Call, Plan};
use crate::record::{
    Access, Body, Code, GuardFinding, GuardNotice, GuardReport, Refusal, Text, Verdict, Word,
};
use crate::trail::{CallId, Trail};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

impl Supervisor {
    fn guard(&self, workspace: &Workspace) -> Guard {
        Guard::of(&self.state, &workspace.path)
    }

    /// Looks at a folder in the place of supervisors that died before they did; says whether there
    /// was any.
    ///
    /// # Errors
    /// A refusal: as long as nobody has looked, nothing else may start there.
    pub(super) fn catch_up(
        &self,
        workspace: &Workspace,
        recorder: &Recorder,
    ) -> Result<bool, Refused> {
        let guard = self.guard(workspace);
        let left = guard.left_behind().map_err(blind)?;
        let any = !left.is_empty();
        for running in left {
            self.look(&guard, running, workspace, recorder).map_err(blind)?;
        }
        Ok(any)
    }

    /// Does the same for the repository of a registered worktree, which is known once the call is
    /// decided; where there was anything to look at, the call is decided once more.
    ///
    /// # Errors
    /// As [`Supervisor::catch_up`], and the refusal of the new decision.
    pub(super) fn caught_up<'r>(
        &'r self,
        decided: Decided<'r>,
        call: (&Request, &[OsString]),
        opened: &'r Result<Workspace, Refusal>,
        recorder: &Recorder,
    ) -> Result<Decided<'r>, Refused> {
        match &decided.call.repository {
            Some(it) if self.catch_up(&it.common, recorder)? => self.decide(call, opened, false),
            _ => Ok(decided),
        }
    }

    /// Says why a person must be asked first, as far as the workspace and its repository go.
    ///
    /// # Errors
    /// A refusal where git cannot be started on the repository as it stands.
    pub(super) fn guarded(
        &self,
        workspace: &Workspace,
        registered: Option<&Repository>,
        template: &Template,
    ) -> Result<Option<String>, Refusal> {
        if !self.layers.guard {
            return Ok(None);
        }
        for folder in std::iter::once(workspace).chain(registered.map(|it| &it.common)) {
            let guard = self.guard(folder);
            let here = |held: Held| (folder.path.clone(), held);
            let mut held = guard.held().map_err(blind)?.into_iter().map(here).collect::<Vec<_>>();
            held.extend(guard.held_around().map_err(blind)?);
            if let Some((place, first)) = held.first() {
                return Ok(Some(format!(
                    "a run left {}: {}; until a person has cleared it (`pinfold guard show \
                     --workspace {}`), every call asks",
                    Text::from(first.finding.path.as_path()).shown(),
                    Text::from(first.finding.what.as_str()).shown(),
                    Text::from(place.as_path()).shown(),
                )));
            }
        }
        match template.guard {
            Some(catalog::Guard::Git) => precheck::check(workspace, registered),
            None => Ok(None),
        }
    }

    /// Notes how the workspace, and the repository of a registered worktree, look before a run that
    /// may write to them.
    ///
    /// # Errors
    /// A refusal: what cannot be noted cannot be compared afterwards.
    pub(super) fn note(
        &self,
        plan: &Plan,
        call: &Call<'_>,
        recorder: &Recorder,
    ) -> Result<Vec<Running>, Refusal> {
        if plan.access < Access::WorkspaceWrite || !self.layers.guard {
            return Ok(Vec::new());
        }
        let id = recorder.call().as_str();
        let begin = |folder| self.guard(folder).begin(folder, id).map_err(blind);
        watched(call).map(begin).collect()
    }

    /// Forgets how a workspace looked before a run that did not come to be.
    pub(super) fn forget(&self, running: Vec<Running>, call: &Call<'_>) {
        for (running, folder) in running.into_iter().zip(watched(call)) {
            if let Err(error) = self.guard(folder).done(running) {
                tracing::warn!(%error, "the next call looks at the workspace once more");
            }
        }
    }

    /// Looks at a workspace after a run. Where that fails, the note stays behind, and no other
    /// call starts before somebody has looked.
    pub(super) fn look_after(
        &self,
        (running, ending): (Vec<Running>, &Ending),
        call: &Call<'_>,
        recorder: &Recorder,
    ) -> io::Result<Option<GuardReport>> {
        let mut report = GuardReport { found: Vec::new(), noticed: Vec::new() };
        for (running, folder) in running.into_iter().zip(watched(call)) {
            let guard = self.guard(folder);
            match ending {
                // Nothing was executed.
                Ending::Cancelled { .. } => guard.done(running)?,
                // One that never ran can have failed after its gate was opened.
                Ending::Ran { .. } | Ending::Lost { .. } | Ending::NeverRan { .. } => {
                    let mut seen = self.look(&guard, running, folder, recorder)?;
                    if !std::ptr::eq(folder, call.workspace) {
                        seen.found.iter_mut().for_each(|it| it.path = whole(folder, &it.path));
                    }
                    report.found.extend(seen.found);
                    report.noticed.extend(seen.noticed);
                }
            }
        }
        Ok(Some(report).filter(|it| !it.found.is_empty() || !it.noticed.is_empty()))
    }

    fn look(
        &self,
        guard: &Guard,
        running: Running,
        workspace: &Workspace,
        recorder: &Recorder,
    ) -> io::Result<GuardReport> {
        let Changes { found, noticed } = guard.look(&running, workspace)?;
        let notice = |(path, why): &(PathBuf, &'static str)| GuardNotice {
            path: Text::from(path.as_path()),
            why,
        };
        let mut report =
            GuardReport { found: Vec::new(), noticed: noticed.iter().map(notice).collect() };
        if !found.is_empty() {
            let held = guard.hold(&running, workspace, recorder.call().as_str(), found)?;
            report.found = held.iter().map(finding).collect();
            let here = || Word::one(workspace.path.as_path());
            let mut records = vec![report.found(here())];
            records.extend(report.quarantined(here()));
            if let Err(error) = recorder.append(records) {
                // The block stands all the same, and the end that follows says that the trail
                // takes nothing.
                tracing::error!(%error, "what the guard found is not recorded");
            }
        }
        guard.done(running)?;
        Ok(report)
    }
}

/// The path of a place that is not in the workspace.
fn whole(folder: &Workspace, path: &Text) -> Text {
    Text::from(folder.path.join(OsString::from(path.clone())).as_path())
}

/// The folders that a call may change: the workspace, and the repository of a registered worktree.
fn watched<'w>(call: &'w Call<'_>) -> impl Iterator<Item = &'w Workspace> {
    std::iter::once(call.workspace).chain(call.repository.as_ref().map(|it| &it.common))
}

/// How a person clears what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleared<'n> {
    /// All of it, as it is now.
    Accept,
    /// These, moved back to where they were.
    Restore(&'n [u64]),
}

/// What a person asks of the guard, outside of any call.
impl Supervisor {
    fn open_workspace(&self, path: &Path) -> Result<Workspace, Refusal> {
        Workspace::open(path, &self.kept_out, &self.passwd)
    }

    /// Returns the workspace's own path, and what was found in it and is not cleared, each with
    /// the place it was moved to.
    ///
    /// # Errors
    /// A refusal: this is no workspace, or the state folder cannot be read.
    pub fn held(&self, path: &Path) -> Result<(PathBuf, Vec<(Held, PathBuf)>), Refusal> {
        let workspace = self.open_workspace(path)?;
        let guard = self.guard(&workspace);
        let held = guard.held().map_err(blind)?;
        let with_place = |held: Held| {
            let place = guard.moved(held.number);
            (held, place)
        };
        Ok((workspace.path, held.into_iter().map(with_place).collect()))
    }

    /// Clears what was found, after its record is durable.
    ///
    /// # Errors
    /// A refusal: it cannot be recorded, there is no such finding, or it cannot be moved back.
    pub fn clear(&self, path: &Path, how: Cleared<'_>) -> Result<(), Refusal> {
        let workspace = self.open_workspace(path)?;
        let guard = self.guard(&workspace);
        let held: Vec<u64> = guard.held().map_err(blind)?.iter().map(|it| it.number).collect();
        let (how, numbers, name) = match how {
            Cleared::Accept => (None, held, "accept"),
            Cleared::Restore(numbers) => {
                if let Some(unknown) = numbers.iter().find(|number| !held.contains(number)) {
                    let next = "see `pinfold guard show` for those that there are";
                    let what = format!("finding {unknown}");
                    return Err(Refusal::new(Code::Host, what, "there is none", next));
                }
                (Some(numbers), numbers.to_vec(), "restore")
            }
        };
        if numbers.is_empty() {
            return Ok(());
        }
        let body = Body::GuardCleared {
            workspace: Word::one(workspace.path.as_path()),
            how: name,
            numbers,
            by_uid: nix::unistd::getuid().as_raw(),
        };
        let recorded = Trail::open(&self.state.join("trail")).and_then(|trail| {
            let (session, call) = (crate::trail::session_id()?, CallId::new()?);
            trail.append_durable(&session, &call, vec![body])
        });
        recorded.map_err(|error| super::recording::unavailable(&error))?;
        match how {
            None => guard.accept().map_err(blind),
            Some(numbers) => numbers.iter().try_for_each(|number| {
                guard.restore(&workspace, *number).map_err(|error| {
                    let next = "look at both, move away what stands in its place, and call again";
                    let what = format!("finding {number}");
                    Refusal::new(Code::Host, what, error.to_string(), next)
                })
            }),
        }
    }
}

fn finding(held: &Held) -> GuardFinding {
    GuardFinding {
        number: held.number,
        path: Text::from(held.finding.path.as_path()),
        kind: held.finding.kind.as_str(),
        what: held.finding.what.clone(),
        quarantined: held.is_moved,
        put_back: held.is_put_back,
    }
}

fn blind(error: io::Error) -> Refusal {
    let next = "see that the workspace can be read and the state folder's `guard` be written";
    Refusal::new(Code::Host, "the guard of the workspace", error.to_string(), next)
}

/// The stricter of two verdicts, with its reason.
pub(super) fn stricter(
    (verdict, why): (Verdict, String),
    guarded: Option<String>,
) -> (Verdict, String) {
    match guarded {
        Some(guarded) if verdict == Verdict::Auto => (Verdict::Ask, guarded),
        _ => (verdict, why),
    }
}
