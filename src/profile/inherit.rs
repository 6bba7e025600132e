//! All profiles of a supervisor: which files count, what inherits what, and the merged result.
//!
//! Lists append, the parent's entries first; tables override key by key; scalars override.
//! Parents are always made before their children, so one step of merging is all there is.
#![forbid(unsafe_code)]

use super::parse::{self, Draft};
use super::{Limits, Network, NetworkMode, Profile, Root, lint};
use crate::source::{Faults, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Most ancestors of a profile.
const ANCESTORS_MAX: usize = 8;

/// The profiles that are compiled in.
const SHIPPED: &[(&str, &str)] = &[
    ("base.toml", include_str!("../../sandbox-profiles/base.toml")),
    ("build.toml", include_str!("../../sandbox-profiles/build.toml")),
    ("fetch.toml", include_str!("../../sandbox-profiles/fetch.toml")),
    ("gate.toml", include_str!("../../sandbox-profiles/gate.toml")),
    ("look.toml", include_str!("../../sandbox-profiles/look.toml")),
    ("repo-init.toml", include_str!("../../sandbox-profiles/repo-init.toml")),
    ("repo.toml", include_str!("../../sandbox-profiles/repo.toml")),
];

/// Where a profile comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is compiled in.
    Shipped,
    /// The operator's file.
    File(PathBuf),
}

/// All profiles, by name, each with everything inherited merged in.
///
/// Shipped profiles are read when they are asked for: a test has shown that all are sound, and a
/// single call needs one. An operator's files are all read at once, since all must be sound.
#[derive(Debug)]
pub struct Profiles(BTreeMap<String, Slot>);

/// A profile that was read, or a shipped one that is read when it is needed.
type Slot = OnceLock<Option<(Profile, Origin)>>;

impl Profiles {
    /// Loads the profiles that are compiled in.
    ///
    /// # Errors
    /// All faults; a test shows that there is none.
    pub fn shipped() -> Result<Self, Faults> {
        let stem = |(name, _): &(&str, &str)| name.trim_end_matches(".toml").to_owned();
        Ok(Self(SHIPPED.iter().map(|file| (stem(file), Slot::new())).collect()))
    }

    /// Loads the shipped profiles and the operator's; one of the operator's replaces the shipped
    /// one of the same name, also for those that inherit it.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(operator: Vec<Source>) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let files = choose(operator, &mut faults);
        let loaded = read_all(files, faults)?;
        let slot = |(name, found)| (name, Slot::from(Some(found)));
        Ok(Self(loaded.into_iter().map(slot).collect()))
    }

    /// Returns the profile of this name.
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.0.get_key_value(name).and_then(found).map(|(profile, _)| profile)
    }

    /// Returns whether there is a profile of this name, without reading it.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the folders outside of the workspace that some profile lets a command write. A
    /// shipped profile that was not read yet names none, as a test shows.
    pub fn written_outside(&self) -> Vec<PathBuf> {
        let read = self.0.values().filter_map(|slot| slot.get()?.as_ref());
        let writes = read.flat_map(|(profile, _)| &profile.write);
        let outside = writes.filter(|write| write.entry.path.root == Root::Absolute);
        outside.map(|write| write.entry.path.rest.clone()).collect()
    }

    /// Returns all names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns all profiles in the order of their names, each with its origin.
    pub fn iter(&self) -> impl Iterator<Item = (&Profile, &Origin)> {
        self.0.iter().filter_map(found).map(|(profile, origin)| (profile, origin))
    }
}

/// Returns what stands in a slot, reading a shipped profile and its ancestors first.
fn found<'p>((name, slot): (&String, &'p Slot)) -> Option<&'p (Profile, Origin)> {
    slot.get_or_init(|| read_shipped(name)).as_ref()
}

fn read_shipped(name: &str) -> Option<(Profile, Origin)> {
    let mut wanted = vec![name.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(stem) = wanted.pop() {
        let text = SHIPPED.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(&stem))?.1;
        let parent = |line: &str| {
            let value = line.strip_prefix("inherits")?.trim_start().strip_prefix('=')?;
            Some(value.trim().trim_matches('"').to_owned())
        };
        wanted.extend(text.lines().find_map(parent));
        let source = Source::new(format!("{stem}.toml"), text);
        files.insert(stem, (source, Origin::Shipped));
    }
    read_all(files, Faults::default()).ok()?.remove(name)
}

type Files = BTreeMap<String, (Source, Origin)>;

/// Reads and merges files, which must hold every parent they name.
fn read_all(
    files: Files,
    mut faults: Faults,
) -> Result<BTreeMap<String, (Profile, Origin)>, Faults> {
    let known: BTreeSet<String> = files.keys().cloned().collect();
    let mut drafts = BTreeMap::new();
    for (stem, (source, origin)) in files {
        match source.read(|top| parse::draft(top, &stem, &known)) {
            Ok((draft, source)) => {
                drafts.insert(stem, Read { draft, source, origin });
            }
            Err(found) => faults.merge(found),
        }
    }
    let profiles = merge_all(&drafts);
    for read in drafts.values() {
        faults.merge(read.source.checked().err().unwrap_or_default());
    }
    if faults.is_empty() { Ok(profiles) } else { Err(faults) }
}

/// A file that has been read without a fault.
struct Read {
    draft: Draft,
    source: Source,
    origin: Origin,
}

/// Returns the files that count, by the name that each must give its profile.
fn choose(operator: Vec<Source>, faults: &mut Faults) -> Files {
    let mut chosen = BTreeMap::new();
    for source in operator {
        let path = source.name().to_path_buf();
        let Some(stem) = stem(&path) else {
            let hint = "call it NAME.toml, with a name of a-z, 0-9 and - of at most 64 bytes";
            faults.merge(Faults::whole_file(&path, "the file's name names no profile", hint));
            continue;
        };
        if chosen.contains_key(&stem) {
            let title = format!("there is a second file for the profile `{stem}`");
            faults.merge(Faults::whole_file(&path, &title, "keep one of them"));
            continue;
        }
        chosen.insert(stem, (source, Origin::File(path)));
    }
    for (name, text) in SHIPPED {
        let stem = name.trim_end_matches(".toml").to_owned();
        chosen.entry(stem).or_insert_with(|| (Source::new(name, *text), Origin::Shipped));
    }
    chosen
}

/// Returns the profile's name that a file's name stands for.
fn stem(path: &Path) -> Option<String> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".toml")?;
    parse::is_name(stem).then(|| stem.to_owned())
}

/// Merges every profile whose ancestors are all sound, and records what is wrong with the rest.
fn merge_all(drafts: &BTreeMap<String, Read>) -> BTreeMap<String, (Profile, Origin)> {
    let mut order: Vec<(usize, &str, &Read)> = Vec::new();
    for (stem, read) in drafts {
        if let Some(ancestors) = count_ancestors(drafts, stem, read) {
            order.push((ancestors, stem, read));
        }
    }
    order.sort_by_key(|(ancestors, ..)| *ancestors);
    let mut done: BTreeMap<String, (Profile, Origin)> = BTreeMap::new();
    for (_, stem, Read { draft, source, origin }) in order {
        let parent = draft.inherits.as_ref().map(|parent| done.get(&parent.value));
        // A parent with a fault has shown it; what its children would be is not known.
        let parent = match parent {
            Some(None) => continue,
            Some(Some((profile, _))) => Some(profile),
            None => None,
        };
        let Some(profile) = merge(parent, draft, source) else { continue };
        lint::check(&profile, draft, source);
        done.insert(stem.to_owned(), (profile, origin.clone()));
    }
    done
}

/// Returns how many ancestors a profile has, or nothing where that is a fault of its own or of
/// one of them. Only the profile that closes a circle or goes too deep is told so.
fn count_ancestors(drafts: &BTreeMap<String, Read>, stem: &str, read: &Read) -> Option<usize> {
    let own = read.draft.inherits.as_ref();
    let mut seen: Vec<&str> = Vec::new();
    let mut next = own;
    while let Some(parent) = next {
        let parent = parent.value.as_str();
        if parent == stem {
            seen.push(parent);
            let title = format!("`{stem}` inherits itself: {stem} → {}", seen.join(" → "));
            read.source.fault(&own?.span, title, "leave one `inherits` of the circle out");
            return None;
        }
        if seen.contains(&parent) {
            return None;
        }
        seen.push(parent);
        next = drafts.get(parent)?.draft.inherits.as_ref();
    }
    if seen.len() <= ANCESTORS_MAX {
        return Some(seen.len());
    }
    if seen.len() == ANCESTORS_MAX + 1 {
        let title = format!("`{stem}` has more than {ANCESTORS_MAX} ancestors");
        read.source.fault(&own?.span, title, "inherit one that stands nearer to the root");
    }
    None
}

/// Puts one file on top of its merged parent.
fn merge(parent: Option<&Profile>, draft: &Draft, source: &Source) -> Option<Profile> {
    let rung = draft.rung.as_ref().map(|rung| rung.value).or(parent.map(|above| above.rung));
    let mut syscalls = append(parent.map(|above| &above.syscalls), &draft.syscalls);
    syscalls.sort_unstable();
    syscalls.dedup();
    if rung.is_none() {
        let hint = "write the weakest rung that is enough: \"A\", \"B\" or \"C\"";
        source.fault(&draft.name.span, "`rung` is missing, also above", hint);
    }
    if syscalls.is_empty() {
        let hint = "write [syscalls] with sets = [\"base\"]";
        source.fault(&draft.name.span, "there is no system call set, also above", hint);
    }
    let flag = |own: Option<bool>, above: fn(&Profile) -> bool| {
        own.or(parent.map(above)).unwrap_or_default()
    };
    let operands_only = draft.operands_only.as_ref().map(|on| on.value);
    let own_network = draft.network.as_ref().map(|network| network.value.clone());
    let mut environment = parent.map(|above| above.environment.clone()).unwrap_or_default();
    environment.extend(draft.environment.clone());
    let mut places = parent.map(|above| above.places.clone()).unwrap_or_default();
    places.0.extend(draft.places.0.clone());
    Some(Profile {
        name: draft.name.value.clone(),
        why: draft.why.clone(),
        rung: rung?,
        operands_only: flag(operands_only, |above| above.operands_only),
        run_as_owner: flag(draft.run_as_owner, |above| above.run_as_owner),
        read: append(parent.map(|above| &above.read), &draft.read),
        write: append(parent.map(|above| &above.write), &draft.write),
        execute: append(parent.map(|above| &above.execute), &draft.execute),
        protect: append(parent.map(|above| &above.protect), &draft.protect),
        mask: append(parent.map(|above| &above.mask), &draft.mask),
        absent: append(parent.map(|above| &above.absent), &draft.absent),
        network: own_network
            .or_else(|| parent.map(|above| above.network.clone()))
            .unwrap_or_else(no_network),
        syscalls,
        limits: merge_limits(parent.map(|above| above.limits).unwrap_or_default(), draft.limits),
        environment,
        nested: draft.nested.or(parent.map(|above| above.nested)).unwrap_or(super::Nested::Off),
        places,
    })
}

fn append<T: Clone>(above: Option<&Vec<T>>, own: &[T]) -> Vec<T> {
    above.into_iter().flatten().chain(own).cloned().collect()
}

fn no_network() -> Network {
    let why = "nothing asks for a network".to_owned();
    Network { mode: NetworkMode::None, why, place: String::new() }
}

fn merge_limits(above: Limits, own: Limits) -> Limits {
    Limits {
        memory: own.memory.or(above.memory),
        file_size: own.file_size.or(above.file_size),
        tmp: own.tmp.or(above.tmp),
        pids: own.pids.or(above.pids),
        open_files: own.open_files.or(above.open_files),
        cpu: own.cpu.or(above.cpu),
        tmp_inodes: own.tmp_inodes.or(above.tmp_inodes),
    }
}
