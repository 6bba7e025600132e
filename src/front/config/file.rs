//! `pinfold.toml`: what its keys mean.
//!
//! Reading goes on after a fault, so that all faults of the file are shown at once, those that
//! need the profiles among them.

use super::Reader;
use crate::plan::worktree::without_dots;
use crate::plan::{GitIdentity, Toolchain};
use crate::profile::Profiles;
use crate::record::{Rung, is_unsafe_to_show};
use crate::source::{At, Faults, Source, Table, check_variable};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const GIT_NAME: &str = "Pinfold agent";
const GIT_EMAIL: &str = "agent@pinfold.invalid";
/// Folders of the host that a view has its own of, in part or whole, and `/`.
const NO_ROOTS: [&str; 7] = ["/", "/dev", "/etc", "/proc", "/run", "/sys", "/tmp"];

/// Keys of the design whose feature does not exist, as ends of "this version has no …".
const LACKED: [(&str, &str); 10] = [
    ("projects", "doors for agents, whose project roots it would name"),
    ("gates", "folder of gate scripts outside the workspace"),
    ("gate_pins", "pins for gate scripts"),
    ("git", "way for git to reach a remote"),
    ("redact", "redaction"),
    ("mcp", "MCP door"),
    ("approvers", "approval by a person"),
    ("network", "network that reaches named hosts"),
    ("trail", "keys and rotation of the trail"),
    ("audit", "use for the host's audit"),
];

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) catalog: Option<PathBuf>,
    pub(super) profiles: Option<PathBuf>,
    pub(super) toolchains: Vec<Toolchain>,
    pub(super) rungs: BTreeMap<String, Rung>,
    pub(super) worktrees: Vec<PathBuf>,
    /// The address of the package index for pip.
    pub(super) index: Option<String>,
    named_identity: Option<GitIdentity>,
    /// From the name of a value, such as `tools[0].bin`, to the place of its key.
    pub(super) places: BTreeMap<String, String>,
}

impl File {
    /// Returns author and committer of commits.
    pub(super) fn git_identity(&self) -> GitIdentity {
        let compiled_in = || GitIdentity { name: GIT_NAME.to_owned(), email: GIT_EMAIL.to_owned() };
        self.named_identity.clone().unwrap_or_else(compiled_in)
    }

    fn note(&mut self, name: impl Into<String>, table: &Table<'_>, key: &str) {
        if table.has(key) {
            let place = table.source().place(table.key_span(key).start);
            self.places.insert(name.into(), place);
        }
    }
}

/// What the file leads to, also where it has a fault.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) catalog: Option<PathBuf>,
    /// The folder of profiles.
    pub(super) folder: Option<PathBuf>,
    /// The profiles; `None` where the file could not be read at all.
    pub(super) profiles: Option<Result<Profiles, Faults>>,
}

impl Reader {
    /// Reads the file's text.
    pub(super) fn text(&self, source: Source, found: &mut Found) -> Result<File, Faults> {
        let folder = source.name().parent().unwrap_or(Path::new("/")).to_owned();
        let (file, _) = source.read(|top| Some(self.top(&folder, top, found)))?;
        Ok(file)
    }

    fn top(&self, folder: &Path, top: &Table<'_>, found: &mut Found) -> File {
        let mut file = File::default();
        top.schema();
        let at = |key| top.string(key).map(|text| self.path(folder, &text.value));
        (file.catalog, file.profiles) = (at("catalog"), at("profiles"));
        (found.catalog, found.folder) = (file.catalog.clone(), file.profiles.clone());
        file.named_identity = top.string("git_identity").and_then(|text| {
            let identity = git_identity(&text.value);
            if identity.is_none() {
                let title = "`git_identity` must be NAME <ADDRESS>";
                let hint = "write \"Build agent <agent@build.example>\"";
                top.source().fault(&text.span, title, hint);
            }
            identity
        });
        file.worktrees = self.worktrees(folder, top);
        for key in ["schema", "catalog", "profiles", "git_identity", "worktrees"] {
            file.note(key, top, key);
        }
        let profiles = match &file.profiles {
            Some(folder) => self.sources(folder).and_then(Profiles::load),
            None => Profiles::shipped(),
        };
        // Faulty profiles show their own faults; which names and rungs are meant is not known.
        let known = profiles.as_ref().ok();
        top.each_table("tools", |table| {
            let index = file.toolchains.len();
            for key in ["root", "bin", "profiles", "env"] {
                file.note(format!("tools[{index}].{key}"), table, key);
            }
            file.toolchains.push(self.toolchain(folder, table, known));
        });
        file.rungs = rungs(top, known, &mut file.places);
        if let Some(table) = top.table("index") {
            file.note("index.pip", &table, "pip");
            file.index = index(&table);
            table.done();
        }
        top.lacks(&LACKED);
        found.profiles = Some(profiles);
        file
    }

    /// Reads names only: what stands there is looked at when a call comes, and a command may have
    /// made it.
    fn worktrees(&self, folder: &Path, top: &Table<'_>) -> Vec<PathBuf> {
        let mut worktrees = Vec::new();
        for text in top.strings("worktrees") {
            let refuse = |title: &str, hint: &str| top.source().fault(&text.span, title, hint);
            let path = without_dots(&self.path(folder, &text.value));
            if text.value.is_empty() {
                refuse("no worktree", "name the top folder of a linked worktree or submodule");
            } else if text.value.chars().any(is_unsafe_to_show) {
                let title = "the path has a control or invisible character";
                refuse(title, "give the folder another name");
            } else if worktrees.contains(&path) {
                refuse("this worktree is named twice", "name it once");
            } else {
                worktrees.push(path);
            }
        }
        worktrees
    }

    fn toolchain(&self, folder: &Path, table: &Table<'_>, known: Option<&Profiles>) -> Toolchain {
        if !table.has("root") {
            table.missing("root");
        }
        let written = table.string_or_strings("root");
        let root = |root| self.tool_root(folder, table, root);
        let roots: Vec<PathBuf> = written.iter().filter_map(root).collect();
        let bin = table.string("bin");
        let whole = roots.len() == written.len() && !roots.is_empty();
        let bin = bin.and_then(|bin| self.bin(folder, table, &bin, &roots, whole));
        let profiles = table.strings("profiles");
        for name in &profiles {
            check_profile(table, name, known);
        }
        let env = self.env(folder, table);
        let place = table.source().place(table.span().start);
        let profiles = profiles.into_iter().map(|name| name.value).collect();
        Toolchain { roots, bin, profiles, env, place }
    }

    /// A tool root is executed from, so nobody else may be able to change it.
    fn tool_root(&self, folder: &Path, table: &Table<'_>, root: &At<String>) -> Option<PathBuf> {
        let refuse = |fault: String, hint: String| {
            table.source().fault(&root.span, fault, hint);
            None
        };
        match fs::canonicalize(self.path(folder, &root.value)) {
            Err(error) => {
                refuse(format!("no tool root: {error}"), "name a folder that exists".to_owned())
            }
            Ok(real) if !real.is_dir() && real.exists() => {
                let hint = "name the folder that holds it".to_owned();
                refuse("a tool root is a folder, and this is a file".to_owned(), hint)
            }
            Ok(real) if NO_ROOTS.iter().any(|taken| real == Path::new(taken)) => {
                let hint = "name the toolchain's own folder".to_owned();
                let shown = real.display();
                refuse(
                    format!("a tool root cannot be `{shown}`, which a view has its own of"),
                    hint,
                )
            }
            Ok(real) => match self.changeable(&real) {
                Some(place) => {
                    let hint =
                        format!("chmod go-w {place}, and let it belong to root or this user");
                    refuse(format!("{place} can be changed by others"), hint)
                }
                None => Some(real),
            },
        }
    }

    /// The folder of programs; `whole` where every root is sound, so that it must lie in one.
    fn bin(
        &self,
        folder: &Path,
        table: &Table<'_>,
        bin: &At<String>,
        roots: &[PathBuf],
        whole: bool,
    ) -> Option<PathBuf> {
        let refuse = |fault: String, hint: &str| {
            table.source().fault(&bin.span, fault, hint);
            None
        };
        let real = match fs::canonicalize(self.path(folder, &bin.value)) {
            Err(error) => return refuse(format!("no `bin`: {error}"), "name a folder that exists"),
            Ok(real) => real,
        };
        if !real.is_dir() {
            return refuse("`bin` is not a folder".to_owned(), "name the folder of the programs");
        }
        if real.as_os_str().as_encoded_bytes().contains(&b':') {
            let hint = "`:` parts the folders of PATH; give it another name";
            return refuse("`bin` has a `:`".to_owned(), hint);
        }
        if whole && !roots.iter().any(|root| real.starts_with(root)) {
            let hint = "only what lies in a `root` is seen; name a folder below one";
            return refuse(format!("`bin` is {}, in none of the roots", real.display()), hint);
        }
        Some(real)
    }

    fn env(&self, folder: &Path, table: &Table<'_>) -> Vec<(String, OsString)> {
        let source = table.source();
        let variable = |(name, text): (At<String>, At<String>)| {
            if let Err(fault) = check_variable(&name.value) {
                let hint = "letters, digits and _, not a digit first; no LD_*, no GLIBC_TUNABLES";
                source.fault(&name.span, fault, hint);
                return None;
            }
            if name.value == "PATH" {
                let hint = "`bin` puts a folder first on PATH";
                source.fault(&name.span, "PATH is not set here", hint);
                return None;
            }
            if text.value.chars().any(is_unsafe_to_show) {
                let title = "the value has a control or invisible character";
                source.fault(&text.span, title, "take the character out");
                return None;
            }
            Some((name.value, self.env_value(folder, &text.value)))
        };
        table.string_map("env").into_iter().filter_map(variable).collect()
    }

    /// A value that begins with `~/` is a path, by its real name where it exists: under that
    /// name, and no other, a root is seen.
    fn env_value(&self, folder: &Path, text: &str) -> OsString {
        if !text.starts_with("~/") {
            return OsString::from(text);
        }
        let path = self.path(folder, text);
        fs::canonicalize(&path).unwrap_or(path).into_os_string()
    }

    /// Relative paths start at the configuration's folder, `~/` at the supervisor's home.
    fn path(&self, folder: &Path, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.homes.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => folder.join(text),
        }
    }
}

/// A profile that nobody has would be left without its tools or rung and without a word.
fn check_profile(table: &Table<'_>, name: &At<String>, known: Option<&Profiles>) -> bool {
    let Some(known) = known else { return false };
    let exists = known.contains(&name.value);
    if !exists {
        let names = known.names().collect::<Vec<_>>().join(", ");
        let title = format!("there is no profile `{}`", name.value);
        table.source().fault(&name.span, title, format!("profiles: {names}"));
    }
    exists
}

/// Reads the weakest rung that the operator accepts for each profile.
fn rungs(
    top: &Table<'_>,
    known: Option<&Profiles>,
    places: &mut BTreeMap<String, String>,
) -> BTreeMap<String, Rung> {
    let Some(table) = top.table("rungs") else { return BTreeMap::new() };
    let source = table.source();
    let mut rungs = BTreeMap::new();
    for (name, word) in table.all_strings() {
        let rung = [Rung::A, Rung::B, Rung::C].into_iter().find(|r| r.to_string() == word.value);
        let Some(rung) = rung else {
            let title = format!("`{}` is not a rung", word.value);
            source.fault(&word.span, title, "one of: A, B, C");
            continue;
        };
        if !check_profile(&table, &name, known) {
            continue;
        }
        let asked = known.and_then(|known| known.get(&name.value)).map(|profile| profile.rung);
        if let Some(asked) = asked.filter(|asked| rung < *asked) {
            let title = format!("profile `{}` asks for rung {asked} already", name.value);
            let hint = "this table only lowers; ask for a stronger rung in the profile itself";
            source.fault(&word.span, title, hint);
        }
        places.insert(format!("rungs.{}", name.value), source.place(name.span.start));
        rungs.insert(name.value, rung);
    }
    rungs
}

/// Reads the address of the package index. It stands in what is executed and in its record, so it
/// has room for a place only, and none for a password.
fn index(table: &Table<'_>) -> Option<String> {
    let url = table.required("pip")?;
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.value.strip_prefix(scheme));
    let is_plain = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let parts = rest.map(|rest| rest.split_once('/').unwrap_or((rest, "")));
    let sound = parts.is_some_and(|(host, path)| {
        !host.is_empty() && is_plain(host, b".-:[]") && is_plain(path, b"/._-~+%")
    });
    if !sound {
        let hint = "write https://HOST/PATH, without a user, a password or a query";
        table.source().fault(&url.span, "`pip` is not the address of an index", hint);
        return None;
    }
    Some(url.value)
}

fn git_identity(text: &str) -> Option<GitIdentity> {
    if text.contains(char::is_control) {
        return None;
    }
    let (name, rest) = text.split_once('<')?;
    let email = rest.strip_suffix('>')?;
    let bad = ['<', '>'];
    let (name, email) = (name.trim(), email.trim());
    let sound =
        !name.is_empty() && !email.is_empty() && !name.contains(bad) && !email.contains(bad);
    sound.then(|| GitIdentity { name: name.to_owned(), email: email.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_name_and_an_address() {
        let identity = git_identity("A B <a@b.invalid>").expect("sound");
        assert_eq!((identity.name.as_str(), identity.email.as_str()), ("A B", "a@b.invalid"));
        for bad in ["", "A", "A <>", "<a@b>", "A <a@b> x", "A\n <a@b>"] {
            assert_eq!(git_identity(bad), None, "{bad}");
        }
    }
}
