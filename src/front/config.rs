//! The operator's configuration: `pinfold.toml`, the catalog and the profiles it names.
//!
//! Everything is read before anything is decided, and all faults of all files are shown at once.
//! Files that somebody else could change are faults too.

use crate::catalog::Catalog;
use crate::plan::{GitIdentity, Settings, Toolchain};
use crate::profile::Profiles;
use crate::record::Text;
use crate::run::Rules;
use crate::source::{At, FILE_BYTES_MAX, Faults, Source, Table, check_variable};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most profile files that are read.
const PROFILES_MAX: usize = 256;
const SCHEMA: u64 = 1;
const GIT_NAME: &str = "Pinfold agent";
const GIT_EMAIL: &str = "agent@pinfold.invalid";

/// Who reads the configuration.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The supervisor's user id: its files and root's are trusted.
    pub uid: u32,
    /// The supervisor's home folder, for `~`.
    pub home: Option<PathBuf>,
}

/// What was read, and where it lies.
#[derive(Debug)]
pub struct Loaded {
    /// The rules, or every fault.
    pub rules: Result<Rules, Faults>,
    /// Files and folders that must lie outside every workspace.
    pub places: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct File {
    catalog: Option<PathBuf>,
    profiles: Option<PathBuf>,
    toolchains: Vec<Toolchain>,
    git_identity: Option<GitIdentity>,
}

impl Reader {
    /// Reads the configuration at `path`, or the compiled-in one where there is none.
    pub fn load(&self, path: Option<&Path>) -> Loaded {
        let mut places: Vec<PathBuf> = path.map(Path::to_owned).into_iter().collect();
        let rules = self.rules(path, &mut places);
        Loaded { rules, places }
    }

    /// Loads these files together with the shipped profiles.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn profiles(&self, files: &[PathBuf]) -> Result<Profiles, Faults> {
        self.each(files).and_then(Profiles::load)
    }

    /// Reads each file; all that cannot be read are faults at once.
    fn each(&self, files: &[PathBuf]) -> Result<Vec<Source>, Faults> {
        let (mut sources, mut faults) = (Vec::new(), Faults::default());
        for file in files {
            match self.source(file) {
                Ok(source) => sources.push(source),
                Err(more) => faults.merge(more),
            }
        }
        if faults.is_empty() { Ok(sources) } else { Err(faults) }
    }

    fn rules(&self, path: Option<&Path>, places: &mut Vec<PathBuf>) -> Result<Rules, Faults> {
        let file = match path {
            Some(path) => self.file(path)?,
            None => File::default(),
        };
        places.extend(file.catalog.clone());
        places.extend(file.profiles.clone());
        if let Some(folder) = &file.profiles {
            // Files of the folder that are links count where they really are.
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            places.extend(entries.map(|entry| entry.path()));
        }
        for toolchain in &file.toolchains {
            places.extend(toolchain.roots.iter().cloned());
            places.extend(toolchain.bin.clone());
        }
        let catalog = match &file.catalog {
            Some(path) => self.source(path).and_then(Catalog::parse),
            None => Catalog::shipped(),
        };
        let profiles = match &file.profiles {
            Some(folder) => self.sources(folder).and_then(Profiles::load),
            None => Profiles::shipped(),
        };
        let (catalog, profiles) = match (catalog, profiles) {
            (Ok(catalog), Ok(profiles)) => (catalog, profiles),
            (catalog, profiles) => {
                let mut faults = Faults::default();
                faults.merge(catalog.err().unwrap_or_default());
                faults.merge(profiles.err().unwrap_or_default());
                return Err(faults);
            }
        };
        every_profile_exists(&catalog, &profiles)?;
        let git_identity = file.git_identity.unwrap_or_else(|| GitIdentity {
            name: GIT_NAME.to_owned(),
            email: GIT_EMAIL.to_owned(),
        });
        every_tool_profile_exists(&file.toolchains, &profiles, path)?;
        let path = catalog.path_in(self.home.as_deref());
        let (toolchains, rungs) = (file.toolchains, Default::default());
        let settings = Settings { path, toolchains, git_identity, rungs };
        Ok(Rules { catalog, profiles, settings })
    }

    fn file(&self, path: &Path) -> Result<File, Faults> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let source = self.source(path)?;
        let (file, _) = source.read(|top| {
            match top.number("schema", u64::MAX) {
                Some(schema) if schema.value != SCHEMA => {
                    top.source().fault(&schema.span, format!("`schema` must be {SCHEMA}"));
                }
                None if !top.has("schema") => top.missing("schema"),
                _ => {}
            }
            let at = |key| top.string(key).map(|text| self.path(folder, &text.value));
            let (catalog, profiles) = (at("catalog"), at("profiles"));
            let git_identity = top.string("git_identity").and_then(|text| {
                let identity = git_identity(&text.value);
                if identity.is_none() {
                    top.source().fault(&text.span, "`git_identity` must be NAME <ADDRESS>");
                }
                identity
            });
            let tools = top.tables("tools");
            let toolchains = tools.iter().filter_map(|table| self.toolchain(folder, table));
            Some(File { catalog, profiles, toolchains: toolchains.collect(), git_identity })
        })?;
        Ok(file)
    }

    fn toolchain(&self, folder: &Path, table: &Table<'_>) -> Option<Toolchain> {
        let roots = table.string_or_strings("root");
        if !table.has("root") {
            table.missing("root");
        }
        let bin = table.string("bin").map(|bin| self.path(folder, &bin.value));
        let profiles = table.strings("profiles").into_iter().map(|name| name.value).collect();
        let value = |text: &str| match text.strip_prefix("~/") {
            Some(_) => self.path(folder, text).into_os_string(),
            None => OsString::from(text),
        };
        let env = table.string_map("env").into_iter();
        let env = env.filter_map(|(name, text)| {
            if let Err(fault) = check_variable(&name.value) {
                table.source().fault(&name.span, fault);
                return None;
            }
            Some((name.value, value(&text.value)))
        });
        let env = env.collect();
        let found = roots.iter().filter_map(|root| self.tool_root(folder, table, root));
        let roots = found.collect();
        table.done();
        Some(Toolchain { roots, bin, profiles, env })
    }

    /// A tool root is executed from, so nobody else may be able to change it.
    fn tool_root(&self, folder: &Path, table: &Table<'_>, root: &At<String>) -> Option<PathBuf> {
        let refuse = |fault: String| {
            table.source().fault(&root.span, fault);
            None
        };
        match fs::canonicalize(self.path(folder, &root.value)) {
            Err(error) => refuse(format!("no tool root: {error}")),
            Ok(real) if real.parent().is_none() => refuse("a tool root cannot be `/`".to_owned()),
            Ok(real) => match self.changeable(&real) {
                Some(place) => refuse(format!("{place} can be changed by others")),
                None => Some(real),
            },
        }
    }

    /// Relative paths start at the configuration's folder, `~/` at the supervisor's home.
    fn path(&self, folder: &Path, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => folder.join(text),
        }
    }

    /// Reads a file that nobody but root and the supervisor's user could have written.
    fn source(&self, path: &Path) -> Result<Source, Faults> {
        let cannot = |error: io::Error| {
            let hint = "correct the path, or give this user the right to read it";
            Faults::whole_file(path, &format!("it cannot be read: {error}"), hint)
        };
        let real = fs::canonicalize(path).map_err(cannot)?;
        self.trusted(&real)?;
        let mut text = String::new();
        let file = fs::File::open(&real).map_err(cannot)?;
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
        if read as u64 > FILE_BYTES_MAX {
            let title = format!("it is larger than {FILE_BYTES_MAX} bytes");
            return Err(Faults::whole_file(path, &title, "split it, or remove what is not needed"));
        }
        Ok(Source::new(path, text))
    }

    /// Reads every `*.toml` of a folder.
    fn sources(&self, folder: &Path) -> Result<Vec<Source>, Faults> {
        let cannot = |error: io::Error| {
            let hint = "`profiles` names a folder of *.toml files";
            Faults::whole_file(folder, &format!("it cannot be listed: {error}"), hint)
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.len() > PROFILES_MAX {
            let title = format!("it holds more than {PROFILES_MAX} profiles");
            return Err(Faults::whole_file(folder, &title, "remove what is not needed"));
        }
        self.each(&paths)
    }

    /// Checks that a file and every folder above it can be changed by root and the supervisor's
    /// user only. A sticky folder of root, such as `/tmp`, lets nobody replace another's file.
    fn trusted(&self, real: &Path) -> Result<(), Faults> {
        let Some(shown) = self.changeable(real) else { return Ok(()) };
        let title = format!("{shown} can be changed by others than root and this user");
        let hint = format!("chown root {shown} and chmod go-w {shown}");
        Err(Faults::whole_file(real, &title, &hint))
    }

    /// Names the place on the way to a file that others could change, if there is one.
    fn changeable(&self, real: &Path) -> Option<String> {
        let changeable = |place: &&Path| {
            let Ok(found) = fs::symlink_metadata(place) else { return true };
            let sticky = found.is_dir() && found.mode() & 0o1000 != 0 && found.uid() == 0;
            let by_group = found.mode() & 0o020 != 0 && found.gid() != 0;
            let by_others = (found.mode() & 0o002 != 0 || by_group) && !sticky;
            ![0, self.uid].contains(&found.uid()) || by_others
        };
        real.ancestors().find(changeable).map(|place| Text::from(place).escaped())
    }
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

/// Tools that are given to a profile nobody has would be missing without a word.
fn every_tool_profile_exists(
    toolchains: &[Toolchain],
    profiles: &Profiles,
    path: Option<&Path>,
) -> Result<(), Faults> {
    let mut faults = Faults::default();
    for name in toolchains.iter().flat_map(|toolchain| &toolchain.profiles) {
        if !profiles.contains(name) {
            let title = format!("[[tools]] names profile `{name}`, which does not exist");
            let known = profiles.names().collect::<Vec<_>>().join(", ");
            let path = path.unwrap_or(Path::new("pinfold.toml"));
            faults.merge(Faults::whole_file(path, &title, &format!("profiles: {known}")));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// A template whose profile does not exist is a fault of the catalog.
fn every_profile_exists(catalog: &Catalog, profiles: &Profiles) -> Result<(), Faults> {
    let mut faults = Faults::default();
    for template in catalog.templates() {
        if !profiles.contains(&template.profile) {
            let title = format!(
                "template `{}` names profile `{}`, which does not exist",
                template.id, template.profile
            );
            let known = profiles.names().collect::<Vec<_>>().join(", ");
            faults.merge(catalog.fault_at(template, &title, &format!("profiles: {known}")));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
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
