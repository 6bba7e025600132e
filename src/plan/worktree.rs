//! A workspace whose `.git` is a file: where that leads, and whether the operator meant it.
//!
//! What stands in the file can be written by whoever writes the workspace, so it grants nothing
//! by itself. It counts only where the operator registered the workspace, and only where the
//! place that it names has the form of a linked worktree or of a submodule, belongs to the
//! workspace's owner, and for a linked worktree names this workspace in turn.

use super::workspace::{Inode, Lookup, Workspace};
use crate::record::{Code, Refusal, Text};
use serde::Serialize;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Where a repository stands, or says where it stands.
pub const DOT_GIT: &str = ".git";
/// Longest content of a file that names a place, in bytes: the longest path, and a word before it.
const POINTER_BYTES_MAX: u64 = 4_096 + 16;
/// What of a linked worktree's records lies in the folder that all worktrees share.
const SHARED: [&str; 3] = ["objects", "refs", "logs"];
/// What decides which programs git starts and which repository it uses, by its name in a
/// repository's folder or in a worktree's.
pub const DECIDES: [&str; 8] =
    ["commondir", "config", "config.worktree", "gitdir", "hooks", "info", "modules", "worktrees"];

/// A folder of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    /// The path, without links.
    #[serde(serialize_with = "super::as_text")]
    pub path: PathBuf,
    /// Device and inode.
    pub inode: Inode,
}

/// The repository of a registered worktree or submodule.
#[derive(Debug)]
pub struct Repository {
    /// The folder that all worktrees share; a submodule's only one. Names are looked up in it as in
    /// a workspace.
    pub common: Workspace,
    /// The folder of this worktree alone; for a submodule the common one.
    pub admin: Folder,
}

impl Repository {
    /// Returns the folder that all worktrees share.
    pub fn common(&self) -> Folder {
        Folder { path: self.common.path.clone(), inode: self.common.inode }
    }

    /// Returns a path of the repository's as one below the common folder.
    pub fn below_common(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.common.path).unwrap_or(path).to_owned()
    }

    /// Returns where a path at or below `.git` of the workspace stands for, where that may be
    /// written at all: a path below the common folder.
    pub fn written(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(DOT_GIT).ok()?;
        let first = rest.components().next().map(|part| part.as_os_str());
        if first.is_some_and(|name| DECIDES.iter().any(|decides| name == *decides)) {
            return None;
        }
        if first.is_some_and(|name| SHARED.iter().any(|shared| name == *shared)) {
            return Some(rest.to_owned());
        }
        let admin = self.below_common(&self.admin.path);
        Some(if rest.as_os_str().is_empty() { admin } else { admin.join(rest) })
    }

    /// Returns whether changes of branches can be logged without making a folder.
    pub fn has_logs(&self) -> bool {
        let admin = self.below_common(&self.admin.path).join("logs");
        let is_folder =
            |path: &Path| matches!(self.common.find(path), Lookup::Found(it) if it.is_folder);
        is_folder(Path::new("logs")) && is_folder(&admin)
    }
}

/// Returns whether `.git` of a workspace is something that is no folder and no link.
pub fn is_redirected(workspace: &Workspace) -> bool {
    matches!(workspace.find(Path::new(DOT_GIT)), Lookup::Found(found) if !found.is_folder)
}

/// Finds the repository that a workspace's `.git` leads to; `None` where it is a folder or absent.
/// `registered` are the folders that the operator named; `kept_out` and `passwd` are those of
/// [`Workspace::open`].
///
/// # Errors
/// A refusal with code `git-redirect` where it leads elsewhere and was not registered, or does
/// not lead to a repository of this workspace.
pub fn repository(
    workspace: &Workspace,
    registered: &[PathBuf],
    kept_out: &[PathBuf],
    passwd: &str,
) -> Result<Option<Repository>, Refusal> {
    let is_registered = registered.contains(&workspace.path);
    let dot_git = Path::new(DOT_GIT);
    match workspace.find(dot_git) {
        Lookup::Absent => return Ok(None),
        Lookup::Found(found) if found.is_folder && !is_registered => return Ok(None),
        Lookup::Found(found) if !found.is_folder && !is_registered => {
            return Err(unregistered(workspace, dot_git));
        }
        Lookup::Outside => return Err(unregistered(workspace, dot_git)),
        Lookup::Found(_) => {}
    }
    let opened = target(workspace).and_then(|target| open(workspace, &target, kept_out, passwd));
    opened.map(Some).map_err(|reason| {
        let next = "let a person look at it; the operator takes it out of `worktrees` in \
                    pinfold.toml where it is not a worktree's";
        refusal(workspace, dot_git, reason, next)
    })
}

/// Checks that no folder between the workspace and the working folder has a `.git`: git would take
/// the nearest, and only the workspace's own was looked at.
///
/// # Errors
/// A refusal with code `git-state` where it is a folder, otherwise `git-redirect`.
pub fn none_on_the_way(workspace: &Workspace, cwd: &Path) -> Result<(), Refusal> {
    for folder in cwd.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        let at = folder.join(DOT_GIT);
        match workspace.find(&at) {
            Lookup::Found(found) if found.is_folder => {
                let next = format!(
                    "give the call `--workspace {}`, which is looked after by itself",
                    Text::from(&*workspace.below(folder)).shown()
                );
                let what = Text::from(&*workspace.below(&at)).shown();
                let reason = "it is another repository than the workspace's";
                return Err(Refusal::new(Code::GitState, what, reason, next));
            }
            Lookup::Absent => {}
            _ => return Err(unregistered(workspace, &at)),
        }
    }
    Ok(())
}

/// Makes the refusal of a `.git` that leads elsewhere.
pub fn refusal(workspace: &Workspace, at: &Path, reason: String, next: &str) -> Refusal {
    Refusal::new(Code::GitRedirect, Text::from(&*workspace.below(at)).shown(), reason, next)
}

fn unregistered(workspace: &Workspace, at: &Path) -> Refusal {
    if let Lookup::Outside = workspace.find(at) {
        let leads = fs::read_link(workspace.below(at)).map_or_else(
            |_| "a link stands on the way to it".to_owned(),
            |to| format!("it is a link to {}", Text::from(&*to).escaped()),
        );
        let next = "let a person put the folder itself there: a link is never followed, also \
                    where `worktrees` in pinfold.toml names the folder";
        return refusal(workspace, at, leads, next);
    }
    let leads = match pointer(workspace, at, "gitdir: ") {
        Ok(to) => format!("it leads to {}", Text::from(&*to).escaped()),
        Err(why) => why,
    };
    let reason = format!("{leads}, and the operator registered no worktree there");
    let next = "use the repository's own folder, or ask the operator to add this one to \
                `worktrees` in pinfold.toml, and make it the workspace";
    refusal(workspace, at, reason, next)
}

/// Reads where a registered workspace's `.git` leads.
fn target(workspace: &Workspace) -> Result<PathBuf, String> {
    if !is_redirected(workspace) {
        return Err("it is a folder, and the operator registered a worktree".to_owned());
    }
    let written = pointer(workspace, Path::new(DOT_GIT), "gitdir: ")?;
    Ok(without_dots(&workspace.path.join(written)))
}

/// Opens the repository at a place, if it has one of the two forms.
fn open(
    workspace: &Workspace,
    target: &Path,
    kept_out: &[PathBuf],
    passwd: &str,
) -> Result<Repository, String> {
    let shown = Text::from(target).escaped();
    let linked = linked_common(target);
    let Some(common) = linked.or_else(|| submodule(workspace, target)) else {
        return Err(format!(
            "it leads to {shown}, which is neither REPOSITORY/worktrees/NAME nor .git/modules/NAME \
             of a folder above"
        ));
    };
    if common.starts_with(&workspace.path) || workspace.path.starts_with(common) {
        return Err(format!("it leads to {shown}, which commands could write themselves"));
    }
    let opened = Workspace::open(common, kept_out, passwd)
        .map_err(|refusal| format!("it leads to {shown}: {}", refusal.reason()))?;
    if opened.path != common {
        return Err(format!("it leads to {shown}, and a link stands on the way"));
    }
    let Lookup::Found(found) = opened.find(target.strip_prefix(common).unwrap_or(target)) else {
        return Err(format!("it leads to {shown}, which is not there, or a link on the way to it"));
    };
    let real = target.symlink_metadata().map_err(|error| format!("{shown}: {error}"))?;
    let same = (real.dev(), real.ino()) == (found.inode.dev, found.inode.ino);
    if !found.is_folder
        || !same
        || [opened.owner.0, real.uid()].iter().any(|uid| *uid != workspace.owner.0)
    {
        return Err(format!("it leads to {shown}, which is no folder of the workspace's owner"));
    }
    let admin = Folder { path: target.to_owned(), inode: found.inode };
    let repository = Repository { common: opened, admin };
    if linked.is_some() {
        points_back(workspace, &repository).map_err(|why| format!("it leads to {shown}: {why}"))?;
    } else if !matches!(repository.common.find(Path::new("commondir")), Lookup::Absent) {
        return Err(format!("it leads to {shown}, which leads on by its file commondir"));
    }
    Ok(repository)
}

/// The repository of which this would be a linked worktree's folder.
fn linked_common(target: &Path) -> Option<&Path> {
    let worktrees = target.parent()?;
    (worktrees.file_name()? == "worktrees").then(|| worktrees.parent()).flatten()
}

/// The folder itself, where it would be a submodule's of a repository around the workspace.
fn submodule<'t>(workspace: &Workspace, target: &'t Path) -> Option<&'t Path> {
    let around = workspace.path.ancestors().skip(1);
    let mut modules = around.map(|folder| folder.join(DOT_GIT).join("modules"));
    modules.any(|folder| target != folder && target.starts_with(&folder)).then_some(target)
}

/// Checks that a linked worktree's folder names this workspace and its own repository.
fn points_back(workspace: &Workspace, repository: &Repository) -> Result<(), String> {
    let Repository { common, admin } = repository;
    let below = repository.below_common(&admin.path);
    for (name, wanted) in
        [("gitdir", workspace.path.join(DOT_GIT)), ("commondir", common.path.clone())]
    {
        let written = pointer(common, &below.join(name), "")
            .map_err(|why| format!("of its file {name}: {why}"))?;
        if without_dots(&admin.path.join(&written)) != wanted {
            let found = Text::from(&*written).escaped();
            return Err(format!("its file {name} names {found} instead"));
        }
    }
    Ok(())
}

/// Reads a file of one line that names a place. It must be the folder's owner's or root's.
fn pointer(folder: &Workspace, at: &Path, word: &str) -> Result<PathBuf, String> {
    let cannot = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = folder.read(at).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    if ![0, folder.owner.0].contains(&found.uid()) {
        return Err("it belongs to another user than its folder".to_owned());
    }
    let mut content = Vec::new();
    file.take(POINTER_BYTES_MAX + 1).read_to_end(&mut content).map_err(cannot)?;
    parse(content, word).ok_or_else(|| format!("it is not the one line `{word}PATH`"))
}

fn parse(mut content: Vec<u8>, word: &str) -> Option<PathBuf> {
    let fits = content.len() as u64 <= POINTER_BYTES_MAX;
    if content.last() == Some(&b'\n') {
        content.pop();
    }
    let path = content.strip_prefix(word.as_bytes())?;
    let sound = fits && !path.is_empty() && !path.iter().any(|byte| b"\0\r\n".contains(byte));
    sound.then(|| PathBuf::from(OsString::from_vec(path.to_owned())))
}

/// Returns a path without `.` and `..`: the same place where no link is on the way.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_one_line_with_its_word() {
        let read = |text: &[u8]| parse(text.to_vec(), "gitdir: ");
        for sound in [&b"gitdir: ../a b\n"[..], b"gitdir: ../a b"] {
            assert_eq!(read(sound), Some(PathBuf::from("../a b")));
        }
        let long = [b"gitdir: ".to_vec(), vec![b'a'; 5_000]].concat();
        let bad: [&[u8]; 9] = [
            b"",
            b"\n",
            b"gitdir: ",
            b"gitdir:/a\n",
            b"/a\n",
            b"gitdir: /a\r\n",
            b"gitdir: /a\n\n",
            b"gitdir: /a\0b",
            &long,
        ];
        for text in bad {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn dots_are_taken_out_of_a_path() {
        let plain = |from, to| without_dots(&Path::new(from).join(to));
        assert_eq!(plain("/s/sub", "../.git/modules/sub"), Path::new("/s/.git/modules/sub"));
        assert_eq!(plain("/s", "/a/./b/../c/"), Path::new("/a/c"));
        assert_eq!(plain("/s", "../../../x"), Path::new("/x"));
    }

    #[test]
    fn a_linked_worktrees_folder_names_its_repository() {
        let common = |text| linked_common(Path::new(text));
        assert_eq!(common("/a/.git/worktrees/w"), Some(Path::new("/a/.git")));
        assert_eq!(common("/a/bare/worktrees/w"), Some(Path::new("/a/bare")));
        for text in ["/a/.git", "/a/.git/worktrees", "/a/.git/worktrees/w/x", "/"] {
            assert_eq!(common(text), None, "{text}");
        }
    }
}
