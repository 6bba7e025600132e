//! Whether git can be started on a repository as it stands.
//!
//! The settings of a command's environment switch off what is known to start programs; a key that
//! is not known here may be one that they do not. So a repository with more than the plain
//! settings asks a person, and one that leads git elsewhere is refused.

use super::judge::{TOP, read};
use super::settings::{self, Setting};
use super::walk::{self, Kind};
use crate::plan::workspace::Workspace;
use crate::plan::worktree::Repository;
use crate::record::{Code, Refusal, Text};
use nix::errno::Errno;
use std::path::Path;

/// Most of the things that a sentence names.
const NAMED_MAX: usize = 6;

/// The settings that only a registered submodule has: git is told its folders by its environment.
const OF_SUBMODULES: &str = "core.worktree";

/// Looks at the repository of a workspace, which for a registered worktree is another folder; gives
/// why a person should be asked before git is started on it. A workspace without one is git's own
/// business.
///
/// # Errors
/// A refusal where git would be led elsewhere, or where the repository is another user's.
pub fn check(
    workspace: &Workspace,
    registered: Option<&Repository>,
) -> Result<Option<String>, Refusal> {
    let (workspace, top, own) = match registered {
        Some(it) => (&it.common, Path::new(""), Some(it.below_common(&it.admin.path))),
        None => (workspace, Path::new(TOP), None),
    };
    // What leads from a registered worktree to its repository was compared already.
    let is_own = |path: &Path| own.as_ref().is_some_and(|own| path.starts_with(own) && path != own);
    let places = match walk::repository(workspace, top) {
        Ok(places) => places,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unsafe_state(TOP, &format!("it cannot be looked into: {error}"))),
    };
    let mut asks = Vec::new();
    for (path, place) in places.iter().filter(|(path, _)| own.as_deref() != Some(path)) {
        let shown = Text::from(path.as_path()).shown();
        let owner = place.stamp.owner();
        if place.kind == Kind::Repository && owner != workspace.owner.0 && owner != 0 {
            let why = format!("it belongs to user {owner}, the workspace to {}", workspace.owner.0);
            return Err(unsafe_state(&shown, &why));
        }
        match place.kind {
            Kind::Link => return Err(unsafe_state(&shown, "it is a link")),
            Kind::Redirect
                if is_own(path) && path.file_name().is_some_and(|it| it != "alternates") => {}
            Kind::Redirect if path.parent() == Some(top) => {
                return Err(unsafe_state(&shown, "it leads git to another folder"));
            }
            Kind::Unseen => return Err(unsafe_state(&shown, "it cannot be looked into")),
            Kind::Settings => {
                let keys = keys(workspace, path)?;
                let is_known = |key: &String| registered.is_some() && key == OF_SUBMODULES;
                asks.extend(keys.into_iter().filter(|key| !is_known(key)));
            }
            Kind::Hook | Kind::Redirect | Kind::Attributes => asks.extend(says(workspace, path)),
            Kind::Repository if path != top => asks.push(shown),
            _ => {}
        }
    }
    if asks.is_empty() {
        return Ok(None);
    }
    let more = asks.len().saturating_sub(NAMED_MAX);
    asks.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(Some(format!(
        "the repository has what could start a program or lead git elsewhere: {}{more}; a person \
         decides whether git may run on it",
        asks.join(", ")
    )))
}

fn is_absent(error: &std::io::Error) -> bool {
    let absent = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP].map(|errno| errno as i32);
    error.raw_os_error().is_some_and(|number| absent.contains(&number))
}

/// Names the settings of a file that are not plain.
fn keys(workspace: &Workspace, path: &Path) -> Result<Vec<String>, Refusal> {
    let shown = Text::from(path).shown();
    let text = read(workspace, path)
        .map_err(|error| unsafe_state(&shown, &format!("it cannot be read: {error}")))?;
    let settings = settings::parse(&text).map_err(|line| {
        unsafe_state(&shown, &format!("line {line} is nothing that git's settings may have"))
    })?;
    let keys = settings.iter().filter(|setting| !setting.is_plain()).map(Setting::key);
    let mut keys: Vec<String> = keys.map(|key| Text::from(key.as_str()).shown()).collect();
    keys.dedup();
    Ok(keys)
}

/// Names a file that is not empty.
fn says(workspace: &Workspace, path: &Path) -> Option<String> {
    let is_empty = read(workspace, path).is_ok_and(|text| text.trim_ascii().is_empty());
    (!is_empty).then(|| Text::from(path).shown())
}

fn unsafe_state(what: &str, why: &str) -> Refusal {
    let next = "a person looks at the repository outside of Pinfold and mends it";
    Refusal::new(Code::GitState, what, why, next)
}
