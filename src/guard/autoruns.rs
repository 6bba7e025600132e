//! Files that programs other than git act on by themselves, once somebody opens, enters or builds
//! the project. A change of one is reported; they are a project's own files, so nothing is moved
//! away for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file that a program acts on by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Autorun {
    /// The folder it lies in, by its last names; empty for any.
    pub folder: &'static str,
    /// Its name; `*` for every file of the folder.
    pub name: &'static str,
    /// What acts on it, and how.
    pub why: &'static str,
}

const fn any(name: &'static str, why: &'static str) -> Autorun {
    Autorun { folder: "", name, why }
}

const fn within(folder: &'static str, name: &'static str, why: &'static str) -> Autorun {
    Autorun { folder, name, why }
}

/// All, sorted by name, so that one is found without looking at the others.
pub const AUTORUNS: &[Autorun] = &[
    within(".circleci", "*", "CI runs the commands in it"),
    within(".claude", "*", "an agent takes its permissions, hooks and commands from it"),
    within(".codex", "*", "an agent takes its permissions and commands from it"),
    within(".cursor", "*", "an agent takes its permissions, hooks and servers from it"),
    within(".devcontainer", "*", "an editor makes a container and runs commands in it"),
    within(".gemini", "*", "an agent takes its permissions and servers from it"),
    within(".github/workflows", "*", "CI runs the commands in it"),
    within(".husky", "*", "git runs it as a hook where the project installs it"),
    within(".idea", "*", "an editor runs its configurations"),
    within(".vscode", "*", "an editor runs its tasks and takes programs' paths from it"),
    any(".Rprofile", "R runs it at every start"),
    any(".bazelrc", "bazel takes its options from it"),
    any(".dir-locals.el", "Emacs evaluates forms in it"),
    any(".envrc", "direnv runs it when a shell enters the folder"),
    any(".exrc", "vi runs the commands in it"),
    any(".gdbinit", "gdb runs the commands in it"),
    any(".ghci", "ghci runs the commands in it"),
    any(".gitattributes", "it chooses which of the configured filters git runs on a file"),
    any(".gitlab-ci.yml", "CI runs the commands in it"),
    any(".gitmodules", "git takes addresses of submodules from it"),
    any(".lfsconfig", "git-lfs takes addresses from it"),
    any(".lldbinit", "lldb runs the commands in it"),
    any(".mcp.json", "an agent starts the servers that it names"),
    any(".mise.toml", "mise sets variables and runs hooks when a shell enters the folder"),
    any(".npmrc", "npm takes its registry, scripts' shell and node options from it"),
    any(".nvim.lua", "Neovim runs it when the folder is opened"),
    any(".ocamlinit", "the OCaml toplevel runs it"),
    any(".pdbrc", "Python's debugger runs the commands in it"),
    any(".pnpmfile.cjs", "pnpm runs it before it installs"),
    any(".pre-commit-config.yaml", "pre-commit installs and runs the hooks that it names"),
    any(".tool-versions", "a version manager chooses programs by it"),
    any(".vimrc", "vim runs the commands in it"),
    any(".yarnrc", "yarn takes the path of itself from it"),
    any(".yarnrc.yml", "yarn takes the path of itself and plugins from it"),
    any("AGENTS.md", "agents take instructions from it"),
    any("CLAUDE.md", "an agent takes instructions from it"),
    any("GEMINI.md", "an agent takes instructions from it"),
    any("Jenkinsfile", "CI runs the commands in it"),
    any("bunfig.toml", "bun runs the files that it names before all others"),
    within(".cargo", "config", "cargo takes linkers, runners and wrappers of the compiler from it"),
    within(".cargo", "config.toml", "cargo takes linkers, runners and compiler wrappers from it"),
    within(".jj/repo", "config.toml", "jj takes programs from it"),
    any("conftest.py", "pytest runs it before the tests"),
    within(".hg", "hgrc", "Mercurial runs hooks and extensions that it names"),
    any("lefthook.yml", "lefthook installs and runs the hooks that it names"),
    any("mise.toml", "mise sets variables and runs hooks when a shell enters the folder"),
    any("pyproject.toml", "build back ends and plugins of test runners are chosen by it"),
    any("rust-toolchain", "rustup chooses and installs a compiler by it"),
    any("rust-toolchain.toml", "rustup chooses and installs a compiler by it"),
    any("sitecustomize.py", "Python runs it at every start"),
    any("usercustomize.py", "Python runs it at every start"),
];

/// Finds why every file of a folder is acted on.
pub fn of_folder(path: &Path) -> Option<&'static Autorun> {
    let whole = AUTORUNS.iter().take_while(|entry| entry.name == "*");
    whole.into_iter().find(|entry| path.ends_with(entry.folder))
}

/// Finds why a file is acted on, by its name and the folder it lies in.
pub fn of_file(path: &Path, name: &OsStr) -> Option<&'static Autorun> {
    let name = name.as_bytes();
    let start = AUTORUNS.partition_point(|entry| entry.name.as_bytes() < name);
    let same = AUTORUNS[start..].iter().take_while(|entry| entry.name.as_bytes() == name);
    same.into_iter().find(|entry| entry.folder.is_empty() || path.ends_with(entry.folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_name_and_folder() {
        assert!(AUTORUNS.is_sorted_by_key(|entry| entry.name), "found by halving");
        let file = |path: &str| {
            let path = Path::new(path);
            let folder = path.parent().expect("a folder");
            let name = path.file_name().expect("a name");
            of_folder(folder).or_else(|| of_file(folder, name)).is_some()
        };
        for path in [
            ".envrc",
            "a/b/.envrc",
            ".cargo/config.toml",
            "a/.cargo/config",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            "x/.hg/hgrc",
            "pyproject.toml",
        ] {
            assert!(file(path), "{path}");
        }
        for path in
            ["envrc", "config.toml", "cargo/config.toml", "vscode/tasks.json", "workflows/x"]
        {
            assert!(!file(path), "{path}");
        }
    }
}
