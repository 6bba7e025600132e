//! The view: every source is cloned while the old root is whole, then a new root is filled where
//! it was attached, and becomes the root.

use super::compile::{Steps, c_string, inode, staged};
use crate::plan::filesystem::{HOME, Mount, Piece, Rule, RuleAt, TMP};
use crate::plan::workspace::{Inode, c_path};
use crate::sys::mount::{NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::step::{Dir, Is, Slot, Step};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Where the new root is attached while it is filled: a folder that every system has and that
/// the view covers anyway.
const STAGING: &str = "/tmp";
/// Size of the file system that holds the view's own folders and files, in bytes.
const ROOT_BYTES: &str = "4m";
/// Covers for masked files and folders.
pub(super) const COVER_FILE: &str = ".cover/file";
pub(super) const COVER_FOLDER: &str = ".cover/folder";

const ROOT: Slot = Slot(0);
const SCRATCH: Slot = Slot(1);
const SHM: Slot = Slot(2);
const PROC: Slot = Slot(3);
const TERMINALS: Slot = Slot(4);
/// Used by one group of steps and free again after it.
const TEMPORARY: Slot = Slot(6);
const FOUND: Slot = Slot(9);
const COVERS: [Slot; 2] = [Slot(7), Slot(8)];

impl<'p> Steps<'p> {
    /// Builds the view: every source is cloned while the old root is whole, then the new root is
    /// filled where it was attached, and becomes the root.
    pub(super) fn build_view(&mut self) {
        self.push(Step::PrivateMounts);
        for (slot, mount) in self.sources.clone() {
            self.serve(mount);
            match mount {
                Mount::Host { path, writable, .. } => self.clone_host(slot, path, *writable),
                Mount::Device { path, rdev, .. } => self.clone_device(slot, path, *rdev),
                Mount::Repository { path, inode, writable, .. } => {
                    self.clone_repository(slot, path, *inode, *writable);
                }
                Mount::Piece(piece) => self.clone_piece(slot, piece),
                _ => {}
            }
        }
        self.place = None;
        self.stage_root();
        self.fresh_file_systems();
        for (slot, mount) in self.sources.clone() {
            self.serve(mount);
            match mount {
                Mount::Host { path, folder, .. } => self.attach(slot, path, *folder),
                Mount::Device { path, .. } => self.attach(slot, path, false),
                Mount::Repository { path, inode, .. } => self.attach_repository(slot, path, *inode),
                _ => {}
            }
        }
        for mount in &self.plan.view.mounts {
            if let Mount::Link { path, to, .. } = mount {
                self.folders_above(path);
                let target = c_string(to.as_os_str());
                self.push(Step::Link { target, dir: Dir::Cwd, path: staged(path) });
            }
        }
        self.place = None;
        self.attach_pieces();
        self.holds_and_masks();
        self.place = None;
        self.finish_root();
    }

    fn pieces(&self) -> Vec<(Slot, &'p Piece)> {
        let piece = |(slot, mount): &(Slot, &'p Mount)| match mount {
            Mount::Piece(piece) => Some((*slot, piece)),
            _ => None,
        };
        self.sources.iter().filter_map(piece).collect()
    }

    /// Opens a piece without following a link, checks it, and clones its mount.
    fn clone_piece(&mut self, slot: Slot, piece: &Piece) {
        let workspace = c_path(&self.plan.workspace);
        self.push(Step::OpenPath { path: workspace, to: TEMPORARY });
        self.push(Step::Check { fd: TEMPORARY, is: inode(self.plan.workspace_inode) });
        if !piece.path.as_os_str().is_empty() {
            let (dir, path) = (Dir::Slot(TEMPORARY), c_path(&piece.path));
            self.push(Step::OpenBeneath { dir, path, to: TEMPORARY });
            self.push(Step::Check { fd: TEMPORARY, is: inode(piece.inode) });
        }
        let (dir, path) = (Dir::Slot(TEMPORARY), CString::default());
        self.push(Step::Clone { dir, path, recursive: true, to: slot });
        let noexec = if self.plan.view.workspace_executable { 0 } else { NOEXEC };
        let set = NOSUID | NODEV | noexec;
        let userns = self.userns.unwrap_or(-1);
        self.push(Step::Attributes { fd: slot, set, userns, recursive: true });
    }

    /// Opens a part of the repository, checks it, and clones its mount. Nothing in it is executed
    /// by any profile.
    fn clone_repository(&mut self, slot: Slot, path: &Path, is: Inode, writable: bool) {
        self.push(Step::OpenPath { path: c_path(path), to: TEMPORARY });
        self.push(Step::Check { fd: TEMPORARY, is: inode(is) });
        self.clone_slot(TEMPORARY, slot);
        let set = NOSUID | NODEV | NOEXEC | if writable { 0 } else { RDONLY };
        let userns = self.userns.unwrap_or(-1);
        self.push(Step::Attributes { fd: slot, set, userns, recursive: true });
    }

    /// Attaches the folder that all worktrees share, or a part of it over what that shows.
    fn attach_repository(&mut self, slot: Slot, path: &Path, is: Inode) {
        let first = self.plan.view.mounts.iter().find_map(|mount| match mount {
            Mount::Repository { path, .. } => Some(path.as_path()),
            _ => None,
        });
        if first == Some(path) {
            return self.attach(slot, path, true);
        }
        self.push(Step::OpenBeneath { dir: Dir::Cwd, path: staged(path), to: FOUND });
        self.push(Step::Check { fd: FOUND, is: inode(is) });
        self.attach_over(slot, FOUND);
    }

    fn clone_host(&mut self, slot: Slot, path: &Path, writable: bool) {
        let source = c_string(path.as_os_str());
        self.push(Step::Clone { dir: Dir::Cwd, path: source, recursive: true, to: slot });
        let set = NOSUID | NODEV | if writable { NOEXEC } else { RDONLY };
        self.push(Step::Attributes { fd: slot, set, userns: -1, recursive: true });
    }

    /// A device is bound from the host only if it has the number it should have: a name under
    /// `/dev` can be anything.
    fn clone_device(&mut self, slot: Slot, path: &Path, rdev: u64) {
        let source = c_string(path.as_os_str());
        self.push(Step::Clone { dir: Dir::Cwd, path: source, recursive: false, to: slot });
        self.push(Step::Check { fd: slot, is: Is::Device { rdev } });
        let set = NOSUID | NOEXEC;
        self.push(Step::Attributes { fd: slot, set, userns: -1, recursive: false });
    }

    fn stage_root(&mut self) {
        // Modes in the view are as they are written here.
        self.push(Step::Umask { mask: 0 });
        let options = vec![
            (c"size".into(), Some(c_string(ROOT_BYTES.as_ref()))),
            (c"mode".into(), Some(c"0755".into())),
        ];
        let (kind, attributes) = (c"tmpfs".into(), NOSUID | NODEV);
        self.push(Step::NewFs { kind, options, attributes, to: ROOT });
        let path = c_string(STAGING.as_ref());
        self.push(Step::Attach { fd: ROOT, dir: Dir::Cwd, path });
        self.push(Step::Enter { fd: ROOT });
        self.make_folder("/.cover", 0o700);
        self.make_folder("/.cover/folder", 0o000);
        self.make_file(Path::new("/.cover/file"), 0o000, Vec::new());
        let covers = [COVER_FILE, COVER_FOLDER];
        for (slot, cover) in COVERS.into_iter().zip(covers) {
            let path = c_string(cover.as_ref());
            // Each use clones it from here: before Linux 6.15 a clone cannot be cloned again.
            self.push(Step::OpenBeneath { dir: Dir::Cwd, path, to: slot });
        }
        for path in ["/etc", "/proc", "/dev", "/dev/pts", "/dev/shm", "/tmp"] {
            self.make_folder(path, 0o755);
        }
        let (uid, gid) = (self.plan.identity.uid, self.plan.identity.gid);
        let root = if uid == 0 { "" } else { "root:x:0:0:root:/:/usr/sbin/nologin\n" };
        let passwd = format!("{root}agent:x:{uid}:{gid}:agent:{TMP}/{HOME}:/usr/sbin/nologin\n");
        let root = if gid == 0 { "" } else { "root:x:0:\n" };
        let group = format!("{root}agent:x:{gid}:\n");
        self.make_file(Path::new("/etc/passwd"), 0o644, passwd.into_bytes());
        self.make_file(Path::new("/etc/group"), 0o644, group.into_bytes());
        for place in ["/etc", "/dev"] {
            self.view_rule_of_folder(place);
        }
    }

    fn make_folder(&mut self, path: impl AsRef<Path>, mode: u32) {
        if !self.made.insert(path.as_ref().to_owned()) {
            return;
        }
        let path = staged(path.as_ref());
        self.push(Step::Folder { dir: Dir::Cwd, path, mode });
    }

    fn make_file(&mut self, path: &Path, mode: u32, content: Vec<u8>) {
        self.push(Step::File { dir: Dir::Cwd, path: staged(path), mode, content });
    }

    fn folders_above(&mut self, path: &Path) {
        let above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
        for folder in above.iter().rev().filter(|folder| folder.parent().is_some()) {
            self.make_folder(folder, 0o755);
        }
    }

    /// Makes the place at which something is attached.
    fn mount_point(&mut self, path: &Path, folder: bool) {
        self.folders_above(path);
        if folder {
            self.make_folder(path, 0o755);
        } else {
            self.make_file(path, 0o644, Vec::new());
        }
    }

    /// Attaches a clone at the place it has on the host.
    fn attach(&mut self, slot: Slot, path: &Path, folder: bool) {
        self.mount_point(path, folder);
        self.push(Step::Attach { fd: slot, dir: Dir::Cwd, path: staged(path) });
    }

    fn fresh_file_systems(&mut self) {
        let attributes = NOSUID | NODEV | NOEXEC | RDONLY;
        self.fresh("proc", Vec::new(), attributes, PROC, "/proc");
        let terminals = vec![("newinstance", None), ("ptmxmode", Some("0666".to_owned()))];
        self.fresh("devpts", terminals, NOSUID | NOEXEC, TERMINALS, "/dev/pts");
        for (link, to) in [
            ("/dev/ptmx", "pts/ptmx"),
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
        ] {
            let target = c_string(to.as_ref());
            self.push(Step::Link { target, dir: Dir::Cwd, path: staged(link.as_ref()) });
        }
        let scratch = &self.plan.view.scratch;
        let noexec = if scratch.executable { 0 } else { NOEXEC };
        let attributes = NOSUID | NODEV | noexec;
        let (uid, gid) = (self.plan.identity.uid, self.plan.identity.gid);
        // A view's scratch folder has both; 0 would mean no limit.
        let number = |value: Option<u64>| value.unwrap_or(1).to_string();
        let options = || {
            vec![
                ("size", Some(number(scratch.size))),
                ("nr_inodes", Some(number(scratch.inodes))),
                ("mode", Some("0700".to_owned())),
                ("uid", Some(uid.to_string())),
                ("gid", Some(gid.to_string())),
            ]
        };
        let (tmp, shm) = (options(), options());
        self.fresh("tmpfs", tmp, attributes, SCRATCH, TMP);
        self.fresh("tmpfs", shm, attributes, SHM, "/dev/shm");
    }

    fn fresh(
        &mut self,
        kind: &str,
        options: Vec<(&str, Option<String>)>,
        attributes: u64,
        to: Slot,
        at: &str,
    ) {
        let option = |(key, value): (&str, Option<String>)| {
            (c_string(key.as_ref()), value.map(|value| c_string(value.as_ref())))
        };
        let options = options.into_iter().map(option).collect();
        let kind = c_string(kind.as_ref());
        self.push(Step::NewFs { kind, options, attributes, to });
        self.push(Step::Attach { fd: to, dir: Dir::Cwd, path: staged(at.as_ref()) });
        self.view_rule(at, to);
    }

    /// Adds the Landlock rule of a place that exists only now.
    pub(super) fn view_rule(&mut self, at: &str, fd: Slot) {
        let Some(ruleset) = self.landlock else { return };
        for Rule { at: rule_at, rights, .. } in &self.plan.view.rules {
            let here = matches!(rule_at, RuleAt::View(path) if path == Path::new(at));
            if here && rights.bits() != 0 {
                self.push(Step::Rule { ruleset, fd, access: rights.bits() });
            }
        }
    }

    /// Adds the rule of a folder that was just made in the root of the view.
    fn view_rule_of_folder(&mut self, at: &str) {
        let path = staged(at.as_ref());
        self.push(Step::OpenBeneath { dir: Dir::Cwd, path, to: TEMPORARY });
        self.view_rule(at, TEMPORARY);
    }

    fn attach_pieces(&mut self) {
        let workspace = self.plan.workspace.clone();
        self.folders_above(&workspace);
        self.make_folder(&workspace, 0o755);
        self.folders_above(&self.plan.cwd);
        self.make_folder(&self.plan.cwd, 0o755);
        for (index, (slot, piece)) in self.pieces().into_iter().enumerate() {
            if piece.at.as_os_str().is_empty() {
                self.push(Step::Attach { fd: slot, dir: Dir::Cwd, path: staged(&workspace) });
            } else if self.plan.view.is_seen_through_another(piece) {
                continue;
            } else if self.is_masked_file(index) {
                self.mount_point(&workspace.join(&piece.at), false);
            } else {
                self.attach(slot, &workspace.join(&piece.at), piece.folder);
            }
        }
    }

    /// Returns whether a piece is a file that is masked itself. Its cover is mounted in its place:
    /// one on top of it would be gone when the host replaces the file, and the old one be seen.
    fn is_masked_file(&self, index: usize) -> bool {
        self.plan.view.mounts.iter().any(|mount| match mount {
            Mount::Mask { piece, rest, folder: false, .. } => {
                *piece == index && rest.as_os_str().is_empty()
            }
            _ => false,
        })
    }

    /// Held and covered places are found again below the attached piece, without following a
    /// link, and checked, so that no name the workspace controls decides where a mount goes.
    ///
    /// Writable places are cloned while the piece can still be written; then what is not writable
    /// becomes read-only with every mount below it; then everything is attached, writable places
    /// first, so that what is protected inside one lies on top of it.
    fn holds_and_masks(&mut self) {
        let writable_holds: Vec<(Slot, &Mount)> =
            self.sources.iter().filter(|(_, m)| matches!(m, Mount::Hold { .. })).copied().collect();
        for (slot, mount) in &writable_holds {
            if let Some(here) = self.find(mount) {
                self.clone_slot(here, *slot);
            }
        }
        for (slot, piece) in self.pieces() {
            if !piece.writable {
                self.read_only(slot);
            }
        }
        for (slot, mount) in writable_holds {
            if let Some(here) = self.find(mount) {
                self.attach_over(slot, here);
            }
        }
        for mount in &self.plan.view.mounts {
            let cover = match mount {
                Mount::Hold { writable: false, .. } => None,
                Mount::Mask { folder, .. } | Mount::HostMask { folder, .. } => {
                    Some(COVERS[usize::from(*folder)])
                }
                _ => continue,
            };
            if let Some(here) = self.find(mount) {
                self.clone_slot(cover.unwrap_or(here), TEMPORARY);
                self.read_only(TEMPORARY);
                match mount {
                    Mount::Mask { piece, .. } if here != FOUND && self.is_masked_file(*piece) => {
                        let at = self.plan.workspace.join(&self.pieces()[*piece].1.at);
                        let (dir, path) = (Dir::Cwd, staged(&at));
                        self.push(Step::Attach { fd: TEMPORARY, dir, path });
                    }
                    _ => self.attach_over(TEMPORARY, here),
                }
            }
        }
    }

    /// Finds the place of a hold or a mask and checks it; `None` where its piece is seen through
    /// another one, which has the same entry.
    fn find(&mut self, mount: &Mount) -> Option<Slot> {
        self.serve(mount);
        let (piece, rest, is) = match mount {
            Mount::Hold { piece, rest, inode, .. } | Mount::Mask { piece, rest, inode, .. } => {
                (*piece, rest, *inode)
            }
            Mount::HostMask { path, inode: is, .. } => {
                let path = staged(path);
                self.push(Step::OpenBeneath { dir: Dir::Cwd, path, to: FOUND });
                self.push(Step::Check { fd: FOUND, is: inode(*is) });
                return Some(FOUND);
            }
            _ => return None,
        };
        let (slot, over) = self.pieces().get(piece).copied()?;
        if self.plan.view.is_seen_through_another(over) {
            return None;
        }
        // The piece itself can be a file, beneath which nothing can be opened.
        let here = if rest.as_os_str().is_empty() { slot } else { FOUND };
        if here == FOUND {
            self.push(Step::OpenBeneath { dir: Dir::Slot(slot), path: c_path(rest), to: here });
        }
        self.push(Step::Check { fd: here, is: inode(is) });
        Some(here)
    }

    fn clone_slot(&mut self, from: Slot, to: Slot) {
        let (dir, path) = (Dir::Slot(from), CString::default());
        self.push(Step::Clone { dir, path, recursive: true, to });
    }

    fn attach_over(&mut self, fd: Slot, here: Slot) {
        self.push(Step::Attach { fd, dir: Dir::Slot(here), path: CString::default() });
    }

    fn read_only(&mut self, fd: Slot) {
        self.push(Step::Attributes { fd, set: RDONLY, userns: -1, recursive: true });
    }

    fn finish_root(&mut self) {
        let home = c_string(HOME.as_ref());
        self.push(Step::Folder { dir: Dir::Slot(SCRATCH), path: home, mode: 0o777 });
        self.push(Step::Attributes { fd: ROOT, set: RDONLY, userns: -1, recursive: false });
        self.push(Step::PivotRoot);
    }
}
