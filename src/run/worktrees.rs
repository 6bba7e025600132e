//! The repository of a registered worktree, and whether it is the one that was seen first.

use super::{Rules, Supervisor};
use crate::catalog::{Guard, Template};
use crate::plan::Call;
use crate::plan::workspace::Workspace;
use crate::plan::worktree::{self, DOT_GIT, Folder, Repository};
use crate::record::{Code, Digest, Refusal, Text};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where a worktree led when it was first seen.
#[derive(Debug, Serialize)]
struct Seen {
    worktree: Text,
    common: Folder,
    admin: Folder,
}

impl Supervisor {
    /// Finds the repository that the workspace's `.git` leads to, where the operator registered it.
    /// A call that is not about a repository goes on without one.
    pub(super) fn repository(
        &self,
        rules: &Rules,
        template: &Template,
        workspace: &Workspace,
        cwd: &Path,
    ) -> Result<Option<Repository>, Refusal> {
        let registered = &rules.settings.worktrees;
        let found = worktree::repository(workspace, registered, &self.kept_out, &self.passwd);
        let same = found.and_then(|found| match found {
            Some(repository) => self.same(workspace, repository).map(Some),
            None => Ok(None),
        });
        if template.guard != Some(Guard::Git) {
            return Ok(same.unwrap_or_default());
        }
        worktree::none_on_the_way(workspace, cwd)?;
        same
    }

    /// Compares a repository with the one that was seen first.
    fn same(&self, workspace: &Workspace, repository: Repository) -> Result<Repository, Refusal> {
        let (path, now) = (self.seen_file(workspace), seen(workspace, &repository));
        match std::fs::read_to_string(&path) {
            Ok(first) if first == now => Ok(repository),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(repository),
            Err(error) => Err(unusable(&path, &error)),
            Ok(_) => {
                let to = Text::from(&*repository.admin.path).escaped();
                let reason =
                    format!("it leads to {to}, another folder than when it was first seen");
                let next = format!(
                    "the operator looks at it, and removes {} if it is right",
                    Text::from(&*path).escaped()
                );
                Err(worktree::refusal(workspace, Path::new(DOT_GIT), reason, &next))
            }
        }
    }

    /// Keeps where a registered worktree leads, when it is seen first.
    pub(super) fn first_seen(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let Some(repository) = &call.repository else { return Ok(()) };
        let path = self.seen_file(call.workspace);
        if path.exists() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.state);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let content = seen(call.workspace, repository);
        made.and_then(|()| crate::sys::fd::replace(&path, content.as_bytes()))
            .map_err(|error| unusable(&path, &error))
    }

    fn seen_file(&self, workspace: &Workspace) -> PathBuf {
        let name = Sha256::digest(workspace.path.as_os_str().as_bytes());
        self.state.join("worktrees").join(Digest(name.into()).to_string())
    }
}

fn seen(workspace: &Workspace, repository: &Repository) -> String {
    let seen = Seen {
        worktree: Text::from(&*workspace.path),
        common: repository.common(),
        admin: repository.admin.clone(),
    };
    // Plain values into memory: this cannot fail, and what it gave then would equal nothing.
    serde_json::to_string(&seen).unwrap_or_default() + "\n"
}

fn unusable(path: &Path, error: &io::Error) -> Refusal {
    let reason = format!("where a worktree led first cannot be kept or read there: {error}");
    let next = "give Pinfold's user the right to read and write its state folder";
    Refusal::new(Code::Host, Text::from(path).shown(), reason, next)
}
