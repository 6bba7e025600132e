//! What is seen of a registered worktree's repository, which lies outside the workspace.
//!
//! The profile's entries for `.git` are about it: what reads `.git` sees the repository, what
//! writes there writes this worktree's own folder and the contents, branches and logs that all
//! worktrees share. The rest of the shared folder stays read-only whatever a profile says, also
//! for new files: git on the host finds its programs there.

use super::{Builder, Mount, Rule, RuleAt, make_rights, missing_write};
use crate::plan::workspace::{Found, Lookup};
use crate::plan::worktree::{DECIDES, DOT_GIT, Repository, is_redirected};
use crate::profile::{PathSpec, Root, Write};
use crate::record::{Access, Code, Refusal, Text};
use crate::sys::landlock::Rights;
use std::path::{Path, PathBuf};

const DECIDES_PLACE: &str = "always: it decides which programs git on the host starts, and where";

impl Builder<'_> {
    /// Adds the mounts and rules of the repository.
    pub(super) fn repository(&mut self) -> Result<(), Refusal> {
        let (call, profile) = (self.call, self.profile);
        let Some(repository) = &call.repository else { return Ok(()) };
        // Operands are names in the workspace, so a profile that sees nothing else sees none of it.
        let sees = |spec: &PathSpec| {
            spec.root == Root::Workspace && Path::new(DOT_GIT).starts_with(&spec.rest)
        };
        let reads = profile.read.iter().filter(|entry| sees(&entry.path));
        let places: Vec<&str> = reads.map(|entry| entry.place.as_str()).collect();
        if call.access == Access::None || profile.operands_only || places.is_empty() {
            return Ok(());
        }
        let place = places.join(", ");
        self.grant(repository, PathBuf::new(), Rights::read(), &place)?;
        if call.access >= Access::WorkspaceWrite {
            self.written(repository)?;
        }
        Ok(())
    }

    fn written(&mut self, repository: &Repository) -> Result<(), Refusal> {
        let profile = self.profile;
        let mut writes: Vec<(PathBuf, &Write)> = Vec::new();
        for write in &profile.write {
            let spec = &write.entry.path;
            if spec.root == Root::Workspace
                && let Some(to) = repository.written(&spec.rest)
            {
                writes.push((to, write));
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        writes.sort_by_key(|(to, _)| to.components().count());
        for (to, write) in writes {
            let (spec, place) = (&write.entry.path, write.entry.place.as_str());
            match self.grant(repository, to, make_rights(write.make), place)? {
                true => {}
                false if write.optional => self.notes.push(format!("{place}: {spec} is not there")),
                false => return Err(missing_write(spec, place)),
            }
        }
        let admin = repository.below_common(&repository.admin.path);
        for name in DECIDES {
            self.grant(repository, admin.join(name), Rights::NONE, DECIDES_PLACE)?;
        }
        Ok(())
    }

    /// Adds a place below the folder that all worktrees share; tells whether it is there.
    fn grant(
        &mut self,
        repository: &Repository,
        to: PathBuf,
        rights: Rights,
        place: &str,
    ) -> Result<bool, Refusal> {
        let path = repository.common.below(&to);
        match repository.common.find(&to) {
            Lookup::Absent => Ok(false),
            Lookup::Outside => Err(Refusal::new(
                Code::GitRedirect,
                Text::from(&*path).shown(),
                "it is part of the worktree's repository, and a link stands in its place",
                "put the real file or folder there; a link could be pointed elsewhere",
            )),
            Lookup::Found(Found { inode, is_folder, .. }) => {
                let (rights, place) =
                    (if is_folder { rights } else { rights.of_file() }, place.to_owned());
                let (at, writes) = (RuleAt::Repository(path.clone(), inode), rights.writes());
                self.rules.push(Rule { at, rights, place: place.clone() });
                let known = self.mounts.iter_mut().find_map(|mount| match mount {
                    Mount::Repository { path: known, writable, place, .. } if *known == path => {
                        Some((writable, place))
                    }
                    _ => None,
                });
                match known {
                    // A submodule's own folder is the shared one.
                    Some((writable, known)) => {
                        (*writable, *known) = (*writable || writes, format!("{known}, {place}"));
                    }
                    None => {
                        let writable = writes;
                        self.mounts.push(Mount::Repository { path, inode, writable, place });
                    }
                }
                Ok(true)
            }
        }
    }

    /// Returns whether an entry is about a repository that does not lie in the workspace.
    pub(super) fn is_elsewhere(&self, spec: &PathSpec) -> bool {
        spec.rest.starts_with(DOT_GIT) && is_redirected(self.call.workspace)
    }
}
