//! Toolchains that live in homes: where rustup, pyenv, nvm, mise and node put what they install.
//!
//! Nothing is executed and nothing is changed: names, links and small files say what is there.
//! What is found here is a proposal and grants nothing; only lines of the operator's
//! configuration do.

use crate::record::Text;
use crate::source::quoted;
use std::fs;
use std::path::{Path, PathBuf};

/// Most bytes of a file that names a version.
const NAME_BYTES_MAX: usize = 4096;
/// Most aliases of nvm that lead to one another.
const ALIASES_MAX: usize = 5;

/// Stores: manager, store, and the folders that link programs, in a home and of the system.
const STORES: [(&str, &str, &str, &str); 2] = [
    ("nix", "nix/store", ".nix-profile/bin", "run/current-system/sw/bin"),
    ("guix", "gnu/store", ".guix-profile/bin", "run/current-system/profile/bin"),
];

/// The folders of one user in which toolchains are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Homes {
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `CARGO_HOME`.
    pub cargo: Option<PathBuf>,
    /// `RUSTUP_HOME`.
    pub rustup: Option<PathBuf>,
    /// `PYENV_ROOT`.
    pub pyenv: Option<PathBuf>,
    /// `NVM_DIR`.
    pub nvm: Option<PathBuf>,
    /// `MISE_DATA_DIR`.
    pub mise: Option<PathBuf>,
}

/// A toolchain that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What installed it, such as `rustup`.
    pub manager: &'static str,
    /// What it is, such as `python 3.12.1`.
    pub version: String,
    /// The folders it needs.
    pub roots: Vec<PathBuf>,
    /// The folder of its programs.
    pub bin: PathBuf,
    /// The profiles whose templates use it.
    pub profiles: Vec<String>,
    /// Variables it needs; each value is a path.
    pub env: Vec<(&'static str, PathBuf)>,
}

/// Profiles that build and test.
const BUILDS: &[&str] = &["build", "gate"];
/// Python's programs also list packages.
const LOOKS_AND_BUILDS: &[&str] = &["look", "build", "gate"];

impl Homes {
    /// Finds every toolchain; of several versions the one that its manager would choose, else
    /// the highest.
    pub fn find(&self) -> Vec<Found> {
        let mut found = Vec::new();
        found.extend(self.rustup());
        found.extend(self.pyenv());
        found.extend(self.nvm());
        found.extend(self.mise());
        found.extend(self.node());
        found
    }

    /// Finds the stores outside the system folders, below `top` (`/`): a root to propose for each,
    /// with the folder that links its programs.
    pub fn stores(&self, top: &Path) -> Vec<Found> {
        let store = |(manager, store, own, system): (&'static str, &str, &str, &str)| {
            let own = self.home.as_ref().map(|home| home.join(own));
            let bins = own.into_iter().chain([top.join(system)]);
            let (root, bin) = (top.join(store), bins.into_iter().find(|bin| bin.is_dir())?);
            root.is_dir().then(|| Found {
                manager,
                version: "all of its store".to_owned(),
                roots: vec![root],
                bin,
                profiles: names(LOOKS_AND_BUILDS),
                env: Vec::new(),
            })
        };
        STORES.into_iter().filter_map(store).collect()
    }

    /// Finds a toolchain that has this program.
    pub fn with_program(&self, name: &str) -> Option<Found> {
        self.find().into_iter().find(|found| has_program(&found.bin, name))
    }

    /// Writes a path as configuration does: `~/…` where it lies in the home. `None` where it is
    /// not UTF-8.
    pub fn shown(&self, path: &Path) -> Option<String> {
        let below = self.home.as_deref().and_then(|home| path.strip_prefix(home).ok());
        match below {
            Some(below) => Some(format!("~/{}", below.to_str()?)),
            None => path.to_str().map(str::to_owned),
        }
    }

    /// Writes the `[[tools]]` lines of a toolchain. `None` where a path is not UTF-8.
    pub fn toml(&self, found: &Found) -> Option<String> {
        let path = |path: &PathBuf| self.shown(path).map(|text| quoted(&text));
        let roots: Vec<String> = found.roots.iter().map(path).collect::<Option<_>>()?;
        let root = match roots.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let profiles: Vec<String> = found.profiles.iter().map(|name| quoted(name)).collect();
        let mut text = format!(
            "[[tools]]\nroot = {root}\nbin = {}\nprofiles = [{}]\n",
            path(&found.bin)?,
            profiles.join(", ")
        );
        let variable = |(name, value): &(&str, PathBuf)| Some(format!("{name} = {}", path(value)?));
        let env: Vec<String> = found.env.iter().map(variable).collect::<Option<_>>()?;
        if !env.is_empty() {
            text.push_str(&format!("env = {{ {} }}\n", env.join(", ")));
        }
        Some(text)
    }

    fn rustup(&self) -> Option<Found> {
        let (rustup, cargo) = (self.rustup.as_ref()?, self.cargo.as_ref()?);
        let bin = cargo.join("bin");
        let installed = folders(&rustup.join("toolchains"));
        if installed.is_empty() || !has_program(&bin, "cargo") {
            return None;
        }
        let settings = first_line_with(&rustup.join("settings.toml"), "default_toolchain");
        let chosen = settings.as_deref().and_then(|line| line.split('"').nth(1));
        let version = chosen.map(str::to_owned).or_else(|| installed.into_iter().next_back())?;
        // Not the whole of cargo's home: a token for the registry may lie in it.
        let parts = ["registry", "git", "config.toml"].map(|name| cargo.join(name));
        let parts = parts.into_iter().filter(|path| path.exists());
        let roots = [rustup.clone(), bin.clone()].into_iter().chain(parts).collect();
        let env = vec![("CARGO_HOME", cargo.clone()), ("RUSTUP_HOME", rustup.clone())];
        Some(Found { manager: "rustup", version, roots, bin, profiles: names(BUILDS), env })
    }

    fn pyenv(&self) -> Option<Found> {
        let root = self.pyenv.as_ref()?;
        let versions = root.join("versions");
        let has_python = |name: &String| has_program(&versions.join(name).join("bin"), "python3");
        let chosen = first_line_with(&root.join("version"), "");
        let chosen = chosen.and_then(|line| line.split_whitespace().next().map(str::to_owned));
        let is_folder = |name: &String| !name.contains('/') && has_python(name);
        let version = chosen
            .filter(is_folder)
            .or_else(|| highest(folders(&versions).into_iter().filter(has_python)))?;
        let bin = versions.join(&version).join("bin");
        // A virtual environment is a link into the version that it was made with.
        let real = fs::canonicalize(versions.join(&version)).ok()?;
        let below = fs::canonicalize(&versions).ok()?;
        let own = real.strip_prefix(&below).ok()?.components().next()?;
        let roots = vec![versions.join(own)];
        let version = format!("python {version}");
        Some(Found {
            manager: "pyenv",
            version,
            roots,
            bin,
            profiles: names(LOOKS_AND_BUILDS),
            env: Vec::new(),
        })
    }

    fn nvm(&self) -> Option<Found> {
        let root = self.nvm.as_ref()?;
        let versions = root.join("versions/node");
        let has_node = |name: &String| has_program(&versions.join(name).join("bin"), "node");
        let installed: Vec<String> = folders(&versions).into_iter().filter(has_node).collect();
        let mut wanted = "default".to_owned();
        for _ in 0..ALIASES_MAX {
            match first_line_with(&root.join("alias").join(&wanted), "") {
                Some(next) => wanted = next.trim().to_owned(),
                None => break,
            }
        }
        let wanted = format!("v{}", wanted.trim_start_matches('v'));
        let is_it = |name: &&String| **name == wanted || name.starts_with(&format!("{wanted}."));
        let chosen = highest(installed.iter().filter(is_it).cloned());
        let version = chosen.or_else(|| highest(installed.into_iter()))?;
        Some(one_folder("nvm", format!("node {version}"), versions.join(&version), BUILDS))
    }

    fn mise(&self) -> Vec<Found> {
        let Some(root) = &self.mise else { return Vec::new() };
        let installs = root.join("installs");
        let tool = |tool: String| {
            let folder = installs.join(&tool);
            let has_bin = |name: &String| folder.join(name).join("bin").is_dir();
            let version = highest(folders(&folder).into_iter().filter(has_bin))?;
            let profiles = if tool == "python" { LOOKS_AND_BUILDS } else { BUILDS };
            Some(one_folder("mise", format!("{tool} {version}"), folder.join(&version), profiles))
        };
        folders(&installs).into_iter().filter_map(tool).collect()
    }

    /// Finds node unpacked into a folder of its own.
    fn node(&self) -> Option<Found> {
        let home = self.home.as_ref()?;
        let above = [home.clone(), home.join(".local"), home.join("opt"), "/opt".into()];
        above.iter().find_map(|above| {
            let is_node = |name: &String| {
                name.starts_with("node") && has_program(&above.join(name).join("bin"), "node")
            };
            let name = highest(folders(above).into_iter().filter(is_node))?;
            Some(one_folder("node", name.clone(), above.join(&name), BUILDS))
        })
    }
}

/// A toolchain whose programs lie in `bin` of its one folder.
fn one_folder(manager: &'static str, version: String, root: PathBuf, profiles: &[&str]) -> Found {
    let bin = root.join("bin");
    Found { manager, version, roots: vec![root], bin, profiles: names(profiles), env: Vec::new() }
}

fn names(profiles: &[&str]) -> Vec<String> {
    profiles.iter().map(|name| (*name).to_owned()).collect()
}

/// A program that only starts another one, which lies in a folder that has to be seen as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    /// The manager that it calls.
    pub manager: String,
    /// The folder that the manager looks into.
    pub needs: PathBuf,
    /// The variable that tells the manager its folder; the command's home is another one.
    pub variable: Option<&'static str>,
}

impl Homes {
    /// Tells whether the file that a name leads to is a shim: a script in a folder `shims`, as
    /// pyenv and asdf write them, or the manager itself under another name, as with rustup and
    /// mise.
    pub fn shim(&self, name: &str, file: &Path) -> Option<Shim> {
        let own = file.file_name()?.to_str()?;
        let (needs, variable) = match own {
            "rustup" if name != own => (self.rustup.clone()?, "RUSTUP_HOME"),
            "mise" if name != own => (self.mise.clone()?, "MISE_DATA_DIR"),
            _ => {
                let above = file.parent().filter(|folder| folder.ends_with("shims"))?;
                let needs = above.parent()?.to_owned();
                let manager = needs.file_name()?.to_str()?.trim_start_matches('.').to_owned();
                return Some(Shim { manager, needs, variable: None });
            }
        };
        Some(Shim { manager: own.to_owned(), needs, variable: Some(variable) })
    }
}

fn has_program(bin: &Path, name: &str) -> bool {
    fs::metadata(bin.join(name)).is_ok_and(|found| found.is_file())
}

/// Returns the names of a folder's own folders, links left out, in order.
fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folder = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().into_string().ok()?;
        let shown = Text::from(name.as_str()).escaped() == name;
        (is_folder && shown).then_some(name)
    };
    let mut names: Vec<String> = entries.filter_map(folder).collect();
    names.sort();
    names
}

/// Returns the first line of a small file that begins with this text.
fn first_line_with(file: &Path, start: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(file).ok()?.take(NAME_BYTES_MAX as u64).read_to_string(&mut text).ok()?;
    text.lines().find(|line| line.starts_with(start)).map(str::to_owned)
}

/// Returns the highest version; one with letters, such as a candidate, only where there is no
/// other.
fn highest(names: impl Iterator<Item = String>) -> Option<String> {
    let key = |name: &String| {
        let digits = name.trim_start_matches(['v', '-']);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let parts = name.split(|ch: char| !ch.is_ascii_digit());
        let numbers: Vec<u64> = parts.filter_map(|part| part.parse().ok()).collect();
        (plain, numbers)
    };
    names.max_by_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(names: &[&str]) -> Option<String> {
        highest(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(pick(&["3.9.18", "3.13.0", "3.10.1"]).as_deref(), Some("3.13.0"));
        assert_eq!(pick(&["v9.1.0", "v20.1.0"]).as_deref(), Some("v20.1.0"));
        assert_eq!(pick(&["3.12.1", "3.14.0rc1", "pypy3.10-7.3"]).as_deref(), Some("3.12.1"));
        assert_eq!(pick(&["3.14.0rc1"]).as_deref(), Some("3.14.0rc1"));
        assert_eq!(pick(&[]), None);
    }

    fn put(home: &Path, name: &str, content: &str) {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    #[test]
    fn the_version_that_a_manager_would_choose_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = dir.path();
        let homes = Homes {
            home: Some(home.to_owned()),
            pyenv: Some(home.join(".pyenv")),
            nvm: Some(home.join(".nvm")),
            ..Homes::default()
        };
        assert_eq!(homes.find(), []);
        for version in ["3.9.1", "3.12.2"] {
            put(home, &format!(".pyenv/versions/{version}/bin/python3"), "");
        }
        for version in ["v18.2.0", "v18.10.0", "v20.1.0"] {
            put(home, &format!(".nvm/versions/node/{version}/bin/node"), "");
        }
        let versions = || homes.find().into_iter().map(|found| found.version).collect::<Vec<_>>();
        assert_eq!(versions(), ["python 3.12.2", "node v20.1.0"]);
        put(home, ".pyenv/version", "3.9.1\n");
        put(home, ".nvm/alias/default", "lts/hydrogen\n");
        put(home, ".nvm/alias/lts/hydrogen", "18\n");
        assert_eq!(versions(), ["python 3.9.1", "node v18.10.0"]);
        put(home, ".pyenv/version", "../../etc\n");
        put(home, ".nvm/alias/lts/hydrogen", "lts/hydrogen\n");
        assert_eq!(versions(), ["python 3.12.2", "node v20.1.0"]);
        let text = homes.toml(&homes.find()[1]).expect("UTF-8");
        let root = "~/.nvm/versions/node/v20.1.0";
        let lines = format!("[[tools]]\nroot = \"{root}\"\nbin = \"{root}/bin\"\n");
        assert!(text.starts_with(&lines), "{text}");
        assert_eq!(homes.with_program("node").map(|found| found.manager), Some("nvm"));
        assert_eq!(homes.with_program("cargo"), None);
    }

    #[test]
    fn g23_a_store_is_proposed_with_the_folder_that_links_its_programs() {
        let dir = tempfile::tempdir().expect("a folder");
        let (top, home) = (dir.path(), dir.path().join("home"));
        let homes = Homes { home: Some(home.clone()), ..Homes::default() };
        assert_eq!(homes.stores(top), []);
        put(top, "nix/store/x-hello/bin/hello", "");
        assert_eq!(homes.stores(top), [], "nothing links its programs");
        put(top, "run/current-system/sw/bin/hello", "");
        let bins = || homes.stores(top).into_iter().map(|found| found.bin).collect::<Vec<_>>();
        assert_eq!(bins(), [top.join("run/current-system/sw/bin")]);
        put(&home, ".nix-profile/bin/hello", "");
        assert_eq!(bins(), [home.join(".nix-profile/bin")]);
        let lines = homes.toml(&homes.stores(top)[0]).expect("UTF-8");
        let root = top.join("nix/store").display().to_string();
        let wanted = format!("[[tools]]\nroot = \"{root}\"\nbin = \"~/.nix-profile/bin\"\n");
        assert!(lines.starts_with(&wanted), "{lines}");
    }

    #[test]
    fn a_token_for_the_registry_is_not_among_the_roots() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = dir.path();
        put(home, ".rustup/toolchains/stable-x/bin/rustc", "");
        put(home, ".rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"nightly-x\"\n");
        for name in ["bin/cargo", "credentials.toml", "registry/index/x"] {
            put(home, &format!(".cargo/{name}"), "");
        }
        let (rustup, cargo) = (Some(home.join(".rustup")), Some(home.join(".cargo")));
        let homes = Homes { rustup, cargo, ..Homes::default() };
        let found = homes.find().remove(0);
        assert_eq!((found.manager, found.version.as_str()), ("rustup", "nightly-x"));
        let token = home.join(".cargo/credentials.toml");
        assert!(!found.roots.iter().any(|root| token.starts_with(root)), "{found:?}");
        assert!(found.roots.contains(&home.join(".cargo/registry")), "{found:?}");
    }

    #[test]
    fn shims_are_known_by_their_folder_or_their_manager() {
        let homes =
            Homes { rustup: Some("/r".into()), mise: Some("/m".into()), ..Homes::default() };
        let needs = |name: &str, file: &str| homes.shim(name, Path::new(file)).map(|s| s.needs);
        assert_eq!(needs("cargo", "/h/bin/rustup"), Some("/r".into()));
        assert_eq!(needs("rustup", "/h/bin/rustup"), None);
        assert_eq!(needs("node", "/usr/bin/mise"), Some("/m".into()));
        assert_eq!(needs("python3", "/h/.pyenv/shims/python3"), Some("/h/.pyenv".into()));
        assert_eq!(needs("python3", "/usr/bin/python3"), None);
    }
}
