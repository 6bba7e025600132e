//! What the guard remembers in the state folder: how a workspace looked before each run that is
//! under way, and what was found and not cleared yet.
//!
//! A run's file is locked while its supervisor lives. One that can be locked was left by a
//! supervisor that died, and whoever comes next looks at the workspace in its place.

use super::judge::{Finding, Snapshot};
use super::quarantine::CONTENT;
use super::walk::{Kind, Place};
use nix::fcntl::{AT_FDCWD, OFlag, renameat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The guard's folder for one workspace.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    state: PathBuf,
    workspace: PathBuf,
    folder: PathBuf,
}

/// A finding that a person has not cleared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its number, by which it is restored.
    pub number: u64,
    /// The call that it was found after.
    pub call: String,
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// Whether it was moved into the state folder.
    pub is_moved: bool,
    /// Whether what was there before was put back in its place.
    pub is_put_back: bool,
}

/// What is remembered of a run that is under way; forgotten only when the workspace was looked at.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    _locked: File,
    /// How the workspace looked before it.
    pub before: Snapshot,
}

/// The form of a snapshot in a file.
#[derive(Serialize, Deserialize)]
struct Written {
    places: Vec<(Bytes, Place)>,
    kept: Vec<(Bytes, Bytes)>,
    named: Vec<(Bytes, Kind)>,
}

/// Bytes as a string of the characters with their numbers, which JSON can hold.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Bytes(String);

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|byte| char::from(*byte)).collect())
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let byte = |ch| u8::try_from(ch).map_err(io::Error::other);
        self.0.chars().map(byte).collect()
    }

    fn path(&self) -> io::Result<PathBuf> {
        Ok(std::ffi::OsStr::from_bytes(&self.bytes()?).into())
    }
}

/// Paths in files, which need not be UTF-8.
pub(super) mod path {
    use super::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    pub(in super::super) fn serialize<S: Serializer>(
        path: &Path,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Bytes::of(path.as_os_str().as_bytes()).serialize(to)
    }

    pub(in super::super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        Bytes::deserialize(from)?.path().map_err(D::Error::custom)
    }
}

impl Memory {
    /// Returns the memory of a workspace, whose folder may not be there yet.
    pub(super) fn of(state: &Path, workspace: &Path) -> Self {
        let (state, workspace) = (state.to_owned(), workspace.to_owned());
        let folder = state.join("guard").join(name_of(&workspace));
        Self { state, workspace, folder }
    }

    /// Returns the folder that lists the workspaces that lie in another one.
    fn inner(&self, outer: &Path) -> PathBuf {
        self.state.join("nested").join(name_of(outer))
    }

    /// Lists this workspace with every folder that it lies in, so that whoever has one of those for
    /// a workspace finds it.
    fn register(&self) -> io::Result<()> {
        for outer in self.workspace.ancestors().skip(1) {
            let folder = self.inner(outer);
            let file = folder.join(name_of(&self.workspace));
            if !file.exists() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
                crate::sys::fd::replace(&file, self.workspace.as_os_str().as_bytes())?;
            }
        }
        Ok(())
    }

    /// Returns the memories of the workspaces that this one lies in, from the inside out, and then
    /// of those that lie in it.
    fn around(&self) -> io::Result<Vec<Self>> {
        let mut others: Vec<PathBuf> =
            self.workspace.ancestors().skip(1).map(Path::to_owned).collect();
        match fs::read_dir(self.inner(&self.workspace)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                for entry in entries? {
                    let path = fs::read(entry?.path())?;
                    others.push(std::ffi::OsStr::from_bytes(&path).into());
                }
            }
        }
        Ok(others.iter().map(|other| Self::of(&self.state, other)).collect())
    }

    /// Returns what is not cleared in workspaces that lie in this one or that it lies in.
    pub(super) fn held_around(&self) -> io::Result<Vec<(PathBuf, Held)>> {
        let mut all = Vec::new();
        for other in self.around()? {
            all.extend(other.held()?.into_iter().map(|held| (other.workspace.clone(), held)));
        }
        Ok(all)
    }

    /// Returns the folder of what was moved away, by the number of its finding.
    pub(super) fn moved(&self, number: u64) -> PathBuf {
        self.folder.join("moved").join(number.to_string())
    }

    /// Returns the first number from which on no finding has one and nothing lies in the place
    /// that goes with it: what was moved away stays there when a person accepts it.
    pub(super) fn free_number(&self, held: &[Held]) -> io::Result<u64> {
        let mut last = held.iter().map(|it| it.number).max().unwrap_or(0);
        match fs::read_dir(self.folder.join("moved")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                for entry in entries? {
                    let name = entry?.file_name();
                    last = last.max(name.to_str().and_then(|it| it.parse().ok()).unwrap_or(0));
                }
            }
        }
        Ok(last + 1)
    }

    fn make(&self, below: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(below);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(folder)
    }

    /// Remembers how a workspace looks before a run. Where another one is under way, that is how it
    /// looked before that: else one could plant what the other hides while the first is looked
    /// after, and neither would have changed anything. A run in a workspace that lies in this one,
    /// or that it lies in, counts as far as both reach.
    ///
    /// # Errors
    /// The state folder cannot be read or written.
    pub(super) fn begin(&self, call: &str, before: Snapshot) -> io::Result<Running> {
        self.register()?;
        let path = self.make("runs")?.join(call);
        // A run whose note is not here any more was looked after before this one starts, and one
        // whose note is not here yet had changed nothing when `before` was taken.
        let mut before = before;
        for other in self.around()? {
            let Some(theirs) = other.under_way()? else { continue };
            match self.workspace.strip_prefix(&other.workspace) {
                Ok(here) => before = theirs.within(here),
                Err(_) => {
                    let there = other.workspace.strip_prefix(&self.workspace);
                    before.put(there.map_err(io::Error::other)?, theirs);
                }
            }
        }
        let before = self.under_way()?.unwrap_or(before);
        let unfinished = path.with_extension("new");
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(&unfinished)?;
        // Locked before it has its name: nobody can take it for one that was left behind.
        file.try_lock()?;
        let places = before.places.iter().map(|(path, it)| (bytes_of(path), *it)).collect();
        let kept = before.kept.iter().map(|(path, it)| (bytes_of(path), Bytes::of(it))).collect();
        let named = before.named.iter().map(|(path, it)| (bytes_of(path), *it)).collect();
        file.write_all(&serde_json::to_vec(&Written { places, kept, named })?)?;
        renameat(AT_FDCWD, &unfinished, AT_FDCWD, &path)?;
        Ok(Running { path, _locked: file, before })
    }

    /// Returns how the workspace looked before a run that is under way, if there is one.
    fn under_way(&self) -> io::Result<Option<Snapshot>> {
        let entries = match fs::read_dir(self.folder.join("runs")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            match File::open(&path) {
                _ if path.extension().is_some() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => return Snapshot::of_note(file?, &path).map(Some),
            }
        }
        Ok(None)
    }

    /// Takes over the runs whose supervisors died.
    pub(super) fn left_behind(&self) -> io::Result<Vec<Running>> {
        let mut left = Vec::new();
        let entries = match fs::read_dir(self.folder.join("runs")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(left),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            // One that has no name any more was just forgotten by its own supervisor.
            if file.try_lock().is_err() || file.metadata()?.nlink() == 0 {
                continue;
            }
            if path.extension().is_some() {
                // Its supervisor died before it was whole, and so before anything started.
                fs::remove_file(&path)?;
                continue;
            }
            let before = Snapshot::of_note(&file, &path)?;
            left.push(Running { path, _locked: file, before });
        }
        Ok(left)
    }

    /// Returns what is not cleared.
    ///
    /// # Errors
    /// The state folder cannot be read, or what stands there is nothing that was written there.
    pub(super) fn held(&self) -> io::Result<Vec<Held>> {
        let mut held: Vec<Held> = match fs::read(self.folder.join("found.json")) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A supervisor can die after it moved something away and before it wrote that down.
        for it in &mut held {
            it.is_moved |= self.moved(it.number).join(CONTENT).symlink_metadata().is_ok();
        }
        Ok(held)
    }

    /// Changes what is not cleared, while nobody else does.
    pub(super) fn change<T>(
        &self,
        act: impl FnOnce(&mut Vec<Held>) -> io::Result<T>,
    ) -> io::Result<T> {
        let lock = self.make("")?.join("lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(lock)?;
        lock.lock()?;
        let mut held = self.held()?;
        let result = act(&mut held);
        let file = self.folder.join("found.json");
        if held.is_empty() {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        } else {
            crate::sys::fd::replace(&file, &serde_json::to_vec(&held)?)?;
        }
        result
    }
}

/// What belongs to a folder, by paths from there.
fn within<T>(all: BTreeMap<PathBuf, T>, folder: &Path) -> BTreeMap<PathBuf, T> {
    let below = |(path, it): (PathBuf, T)| Some((path.strip_prefix(folder).ok()?.to_owned(), it));
    all.into_iter().filter_map(below).collect()
}

/// Replaces what belongs to a folder.
fn put<T>(all: &mut BTreeMap<PathBuf, T>, folder: &Path, new: BTreeMap<PathBuf, T>) {
    all.retain(|path, _| !path.starts_with(folder));
    all.extend(new.into_iter().map(|(path, it)| (folder.join(path), it)));
}

impl Snapshot {
    fn within(self, folder: &Path) -> Self {
        let Self { places, kept, named } = self;
        let (places, kept) = (within(places, folder), within(kept, folder));
        Self { places, kept, named: within(named, folder) }
    }

    fn put(&mut self, folder: &Path, new: Self) {
        put(&mut self.places, folder, new.places);
        put(&mut self.kept, folder, new.kept);
        put(&mut self.named, folder, new.named);
    }

    /// Reads a note, which is whole unless the host lost its power.
    fn of_note(file: impl Read, path: &Path) -> io::Result<Self> {
        Self::read(file).map_err(|error| {
            tracing::error!(%error, "what was noted before a run is not whole");
            let path = path.display();
            io::Error::other(format!("{path} is not whole; look at the workspace and remove it"))
        })
    }

    fn read(mut file: impl Read) -> io::Result<Self> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let written: Written = serde_json::from_slice(&text)?;
        let mut before = Self::default();
        for (path, place) in &written.places {
            before.places.insert(path.path()?, *place);
        }
        for (path, content) in &written.kept {
            before.kept.insert(path.path()?, content.bytes()?);
        }
        for (path, kind) in &written.named {
            before.named.insert(path.path()?, *kind);
        }
        Ok(before)
    }
}

impl Running {
    /// Forgets the run: the workspace was looked at after it.
    ///
    /// # Errors
    /// As `unlink(2)`.
    pub(super) fn done(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

fn name_of(workspace: &Path) -> String {
    let digest = Sha256::digest(workspace.as_os_str().as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(path: &Path) -> Bytes {
    Bytes::of(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_left_behind_only_when_nobody_holds_it() {
        let state = tempfile::tempdir().expect("a folder");
        let memory = Memory::of(state.path(), Path::new("/srv/app"));
        let mut before = Snapshot::default();
        let odd = PathBuf::from(std::ffi::OsStr::from_bytes(b"a\xff/hooks"));
        before.named.insert(odd.clone(), Kind::Hook);
        before.kept.insert(odd, b"\0\x80\xff".to_vec());
        let running = memory.begin("call", before.clone()).expect("written");
        assert!(memory.left_behind().expect("read").is_empty(), "it is held");
        let other = memory.begin("other", Snapshot::default()).expect("written");
        assert_eq!(other.before, before, "what one of two changed is no start for the other");
        other.done().expect("removed");
        drop(running);
        let left = memory.left_behind().expect("read");
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].before, before);
        for running in left {
            running.done().expect("removed");
        }
        assert!(memory.left_behind().expect("read").is_empty());
    }
}
