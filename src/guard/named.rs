//! What the settings of a project's repositories name in the project itself: files that git
//! includes, runs or takes attributes from, whatever they are called.
//!
//! The settings are those from before the run; a run that changes them is found for that.

use super::judge::{TOP, read};
use super::settings::{self, Setting};
use super::walk::{self, Fingerprint, Kind};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Most places that are followed; a repository names a handful.
const NAMED_MAX: usize = 1_024;

/// Settings that are not plain and whose files only hold text for people, or lists.
const DATA: [(&str, &str); 5] = [
    ("commit", "template"),
    ("blame", "ignorerevsfile"),
    ("core", "excludesfile"),
    ("core", "worktree"),
    ("mailmap", "file"),
];

/// Paths below the workspace, and what git takes them for.
pub(super) type Named = BTreeMap<PathBuf, Kind>;

/// Finds what the settings in `kept` name, `path` being the workspace's own, and adds it to
/// `places`. What git includes is read and followed too.
pub(super) fn follow(
    workspace: impl AsFd,
    path: &Path,
    places: &mut Fingerprint,
    kept: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Named {
    let mut named = Named::new();
    let settings = |(file, _): &(&PathBuf, &Vec<u8>)| {
        places.get(*file).is_some_and(|place| place.kind == Kind::Settings)
    };
    let files: Vec<PathBuf> = kept.iter().filter(settings).map(|(file, _)| file.clone()).collect();
    let mut files: Vec<(PathBuf, PathBuf)> =
        files.into_iter().map(|file| (top_of(&file), file)).collect();
    while let Some((top, file)) = files.pop() {
        let Some(settings) = kept.get(&file).and_then(|text| settings::parse(text).ok()) else {
            continue;
        };
        let folder = file.parent().unwrap_or(Path::new(""));
        for (kind, from_file, word) in settings.iter().flat_map(names) {
            let from = if from_file { folder } else { top.as_path() };
            let Some(place) = below(path, from, Path::new(OsStr::from_bytes(word))) else {
                continue;
            };
            let exists = is_file(&workspace, &place);
            // A word without a slash is more often an argument than a file that is yet to be made.
            let counts = exists || kind != Kind::Hook || word.contains(&b'/');
            if !counts || named.contains_key(&place) || named.len() >= NAMED_MAX {
                continue;
            }
            named.insert(place.clone(), kind);
            if kind == Kind::Settings
                && !kept.contains_key(&place)
                && let Ok(content) = read(&workspace, &place)
            {
                kept.insert(place.clone(), content);
                files.push((top.clone(), place));
            }
        }
    }
    walk::add(workspace, path, &named, places);
    named
}

/// Returns whether a path of the workspace leads to a regular file in it.
fn is_file(workspace: impl AsFd, path: &Path) -> bool {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
    let stat = openat2(workspace.as_fd(), path, how).and_then(|file| fstat(&file));
    stat.is_ok_and(|it| SFlag::from_bits_truncate(it.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG)
}

/// The folder from which a repository's programs are started.
fn top_of(settings: &Path) -> PathBuf {
    let is_git = |part: &Component<'_>| part.as_os_str().eq_ignore_ascii_case(TOP);
    if settings.components().any(|part| is_git(&part)) {
        settings.components().take_while(|part| !is_git(part)).collect()
    } else {
        settings.parent().unwrap_or(Path::new("")).to_owned()
    }
}

/// Returns what a setting may name: what it would be, whether it is relative to the file of the
/// setting, and the name.
fn names(setting: &Setting) -> Vec<(Kind, bool, &[u8])> {
    let Some(value) = setting.value.as_deref() else { return Vec::new() };
    match (setting.section.as_str(), setting.name.as_str()) {
        ("include" | "includeif", "path") => vec![(Kind::Settings, true, value)],
        ("core", "hookspath") => vec![(Kind::Hooks, false, value)],
        ("core", "attributesfile") => vec![(Kind::Attributes, false, value)],
        key if setting.is_plain() || DATA.contains(&key) => Vec::new(),
        _ => {
            let ends = |byte: &u8| byte.is_ascii_whitespace() || b"!'\"`$(){};&|<>=".contains(byte);
            let words = value.split(ends).filter(|word| !word.is_empty());
            words.map(|word| (Kind::Hook, false, word)).collect()
        }
    }
}

/// Makes a path of one below the workspace, by its names alone; none where it leads out.
pub(super) fn below(workspace: &Path, base: &Path, path: &Path) -> Option<PathBuf> {
    let whole = workspace.join(base).join(path);
    let mut clean = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            part => clean.push(part),
        }
    }
    clean.strip_prefix(workspace).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_into_the_workspace_or_nowhere() {
        let lead =
            |from: &str, name: &str| below(Path::new("/srv/app"), Path::new(from), Path::new(name));
        for (from, name, place) in [
            ("", "./tools/x", Some("tools/x")),
            (".git", "../inc", Some("inc")),
            ("a/.git", "../../b", Some("b")),
            ("", "/srv/app/hooks", Some("hooks")),
            ("", "/usr/bin/x", None),
            ("", "../outside", None),
            (".git", "../../outside", None),
            ("", "../../../../srv/app/x", Some("x")),
            ("", ".", Some("")),
        ] {
            assert_eq!(lead(from, name), place.map(PathBuf::from), "{from} {name}");
        }
    }

    #[test]
    fn the_programs_of_a_repository_are_started_from_its_top() {
        for (file, top) in [
            (".git/config", ""),
            ("a/.git/config.worktree", "a"),
            ("a/.git/modules/b/config", "a"),
            ("bare/config", "bare"),
        ] {
            assert_eq!(top_of(Path::new(file)), Path::new(top), "{file}");
        }
    }

    #[test]
    fn a_setting_names_files_by_its_kind() {
        let text = "[include]path = inc\n[core]hooksPath = hk\nattributesFile = at\n\
                    fsmonitor = ./f --x=./y\n[alias]s = !sh tools/a.sh && b\n[user]name = ./n\n";
        let settings = settings::parse(text.as_bytes()).expect("sound");
        let all: Vec<_> = settings.iter().flat_map(names).collect();
        let name = |at: &(Kind, bool, &[u8])| {
            (at.0, at.1, std::str::from_utf8(at.2).expect("text").to_owned())
        };
        let all: Vec<_> = all.iter().map(name).collect();
        let hook = |text: &str| (Kind::Hook, false, text.to_owned());
        let mut wanted = vec![
            (Kind::Settings, true, "inc".to_owned()),
            (Kind::Hooks, false, "hk".to_owned()),
            (Kind::Attributes, false, "at".to_owned()),
        ];
        wanted.extend(["./f", "--x", "./y", "sh", "tools/a.sh", "b"].map(hook));
        assert_eq!(all, wanted);
    }
}
