//! What is seen of the workspace: pieces, and what is held or covered within them.

use super::system::real_name;
use super::{
    Builder, Mount, Piece, Rule, RuleAt, linked, make_rights, missing_write, other_names, places_of,
};
use crate::plan::workspace::{Found, Lookup};
use crate::profile::{Entry, PathSpec, Root};
use crate::record::{Access, Refusal, Text};
use crate::sys::landlock::Rights;
use std::path::{Path, PathBuf};

impl Builder<'_> {
    pub(super) fn workspace(&mut self) -> Result<(), Refusal> {
        if self.call.access == Access::None {
            // Nothing is seen of the workspace; masks of other places hold all the same.
        } else if self.profile.operands_only {
            self.operands();
        } else {
            self.granted_pieces()?;
        }
        let holds = self.holds()?;
        let masks = self.masks()?;
        self.mounts.extend(self.pieces.drain(..).map(Mount::Piece));
        self.mounts.extend(holds);
        self.mounts.extend(masks);
        Ok(())
    }

    /// The call's operands are all that is seen; without any it is the working folder.
    pub(super) fn operands(&mut self) {
        let cwd = self.call.cwd.clone();
        let line = places_of(&self.profile.read, Root::Workspace);
        let mut places: Vec<PathBuf> =
            self.call.operands.iter().map(|operand| cwd.join(operand)).collect();
        if places.is_empty() {
            places.push(cwd);
        }
        for at in places {
            let at: PathBuf = at.components().filter(|part| part.as_os_str() != ".").collect();
            match self.call.workspace.resolve(&at) {
                Lookup::Found(found) => {
                    if self.pieces.iter().any(|piece| piece.at == at) {
                        continue;
                    }
                    let rights =
                        if found.is_folder { Rights::read() } else { Rights::read_files() };
                    self.allow_inside(&found, rights, &line);
                    self.pieces.push(piece(found, at, &line));
                }
                Lookup::Absent => {}
                Lookup::Outside => {
                    let shown = Text::from(at.as_path()).escaped();
                    self.notes.push(format!("{shown} leads out of the workspace: not given"));
                }
            }
        }
        // A folder among the operands shows what lies in it; a piece within it would be
        // attached twice. Order them so that the outer one is made first.
        self.pieces.sort_by_key(|piece| piece.at.components().count());
    }

    pub(super) fn allow_inside(&mut self, found: &Found, rights: Rights, place: &str) {
        let rights = if found.is_folder { rights } else { rights.of_file() };
        let (at, place) = (RuleAt::Inside(found.path.clone(), found.inode), place.to_owned());
        self.rules.push(Rule { at, rights, place });
    }

    /// Reads, writes and executes below the workspace, narrowed by the access class.
    pub(super) fn granted_pieces(&mut self) -> Result<(), Refusal> {
        let profile = self.profile;
        let inside = |spec: &PathSpec| spec.root == Root::Workspace;
        let mut grants: Vec<(&PathSpec, &str, Rights, bool)> = Vec::new();
        for entry in profile.read.iter().filter(|entry| inside(&entry.path)) {
            grants.push((&entry.path, &entry.place, Rights::read(), false));
        }
        for entry in profile.execute.iter().filter(|entry| inside(&entry.path)) {
            let rights = Rights::read().and(Rights::execute());
            grants.push((&entry.path, &entry.place, rights, false));
        }
        for write in profile.write.iter().filter(|write| inside(&write.entry.path)) {
            let (path, place) = (&write.entry.path, write.entry.place.as_str());
            // A file in the place of `.git` says where the repository is, and is never written.
            if self.call.access < Access::WorkspaceWrite || self.is_elsewhere(path) {
                continue;
            }
            let needed = !write.optional;
            grants.push((path, place, make_rights(write.make), needed));
        }
        grants.sort_by_key(|(path, ..)| path.rest.components().count());
        for (spec, place, rights, needed) in grants {
            match self.call.workspace.find(&spec.rest) {
                Lookup::Found(found) => {
                    self.allow_inside(&found, rights, place);
                    let covered = self.pieces.iter().any(|p| spec.rest.starts_with(&p.path));
                    if !covered {
                        self.pieces.push(piece(found, spec.rest.clone(), place));
                    }
                }
                Lookup::Absent if needed => return Err(missing_write(spec, place)),
                Lookup::Absent => self.notes.push(format!("{place}: {spec} is not there")),
                Lookup::Outside => return Err(linked(spec, place)),
            }
        }
        Ok(())
    }

    /// Writable places below what is read-only, and protected places below what is writable.
    pub(super) fn holds(&mut self) -> Result<Vec<Mount>, Refusal> {
        let mut holds: Vec<(PathBuf, usize, Found, bool, String)> = Vec::new();
        if self.call.access < Access::WorkspaceWrite {
            return Ok(Vec::new());
        }
        let profile = self.profile;
        let inside = |spec: &PathSpec| spec.root == Root::Workspace;
        let writes = profile.write.iter().map(|write| &write.entry);
        let mut writes: Vec<&Entry> =
            writes.filter(|e| inside(&e.path) && !self.is_elsewhere(&e.path)).collect();
        writes.sort_by_key(|entry| entry.path.rest.components().count());
        for Entry { path: spec, place, .. } in writes {
            let Lookup::Found(found) = self.call.workspace.find(&spec.rest) else { continue };
            let Some(index) = self.piece_over(&spec.rest) else { continue };
            let held = holds.iter().any(|(path, ..)| spec.rest.starts_with(path));
            if self.pieces[index].path == spec.rest {
                let piece = &mut self.pieces[index];
                piece.writable = true;
                if piece.place != *place {
                    piece.place = format!("{}, {place}", piece.place);
                }
            } else if !self.pieces[index].writable && !held {
                holds.push((spec.rest.clone(), index, found, true, place.clone()));
            }
        }
        for entry in &profile.protect {
            let Some(index) = self.piece_over(&entry.path.rest) else { continue };
            match self.call.workspace.find(&entry.path.rest) {
                Lookup::Found(found) => {
                    let place = entry.place.clone();
                    holds.push((entry.path.rest.clone(), index, found, false, place));
                }
                Lookup::Absent => {}
                Lookup::Outside => return Err(linked(&entry.path, &entry.place)),
            }
        }
        holds.sort_by_key(|(path, _, _, writable, _)| (path.components().count(), !writable));
        let mount = |(path, piece, found, writable, place): (PathBuf, usize, Found, _, _)| {
            let rest = path.strip_prefix(&self.pieces[piece].path).unwrap_or(&path).to_owned();
            let (inode, folder) = (found.inode, found.is_folder);
            Mount::Hold { piece, rest, inode, writable, folder, place }
        };
        Ok(holds.into_iter().map(mount).collect())
    }

    pub(super) fn piece_over(&self, path: &Path) -> Option<usize> {
        self.pieces.iter().position(|piece| path.starts_with(&piece.path))
    }

    pub(super) fn masks(&mut self) -> Result<Vec<Mount>, Refusal> {
        let mut masks = Vec::new();
        for entry in &self.profile.mask {
            let real = match entry.path.root {
                Root::Workspace => self.call.workspace.below(&entry.path.rest),
                _ => real_name(&entry.path.rest),
            };
            let Ok(path) = real.strip_prefix(&self.call.workspace.path) else {
                masks.extend(self.host_mask(entry, real)?);
                continue;
            };
            let path = path.to_owned();
            let before = masks.len();
            let found = match self.call.workspace.find(&path) {
                Lookup::Found(found) => found,
                Lookup::Absent => continue,
                Lookup::Outside => return Err(linked(&entry.path, &entry.place)),
            };
            if !found.is_folder && found.links > 1 {
                return Err(other_names(entry, found.links));
            }
            for (index, piece) in self.pieces.iter().enumerate() {
                let (inode, folder) = (found.inode, found.is_folder);
                if let Ok(rest) = path.strip_prefix(&piece.path) {
                    let (rest, place) = (rest.to_owned(), entry.place.clone());
                    masks.push(Mount::Mask { piece: index, rest, inode, folder, place });
                } else if piece.path.starts_with(&path) {
                    let (inode, folder, rest) = (piece.inode, piece.folder, PathBuf::new());
                    let place = entry.place.clone();
                    masks.push(Mount::Mask { piece: index, rest, inode, folder, place });
                }
            }
            // What no piece shows may still be seen through a folder around the workspace.
            if masks.len() == before {
                masks.extend(self.host_mask(entry, real)?);
            }
        }
        Ok(masks)
    }
}

fn piece(found: Found, at: PathBuf, place: &str) -> Piece {
    let Found { path, inode, is_folder, .. } = found;
    let place = place.to_owned();
    Piece { path, at, inode, folder: is_folder, writable: false, place }
}
