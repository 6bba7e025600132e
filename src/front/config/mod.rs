//! The operator's configuration: `pinfold.toml`, the catalog and the profiles it names.
//!
//! Everything is read before anything is decided, and all faults of all files are shown at once.
//! Files that somebody else could change are faults too.

mod file;
mod trust;
mod values;

pub use values::{Origin, Value};

use crate::catalog::Catalog;
use crate::plan::Settings;
use crate::plan::toolchains::Homes;
use crate::profile::Profiles;
use crate::run::Rules;
use crate::source::{Faults, Source};
use file::{File, Found};
use std::fs;
use std::path::{Path, PathBuf};

/// Who reads the configuration.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The supervisor's user id: its files and root's are trusted.
    pub uid: u32,
    /// The supervisor's home, for `~`, and where its toolchains are.
    pub homes: Homes,
}

/// What was read, and where it lies.
#[derive(Debug)]
pub struct Loaded {
    /// The rules, or every fault.
    pub rules: Result<Rules, Faults>,
    /// Files and folders that must lie outside every workspace.
    pub places: Vec<PathBuf>,
}

impl Reader {
    /// Reads the configuration at `path`, or the compiled-in one where there is none.
    /// `tighten` is an overlay over its catalog.
    pub fn load(&self, path: Option<&Path>, tighten: Option<&Path>) -> Loaded {
        let mut places: Vec<PathBuf> = path.map(Path::to_owned).into_iter().collect();
        let rules = self.read(path, tighten, &mut places).map(|(rules, _)| rules);
        Loaded { rules, places }
    }

    /// Reads the configuration and returns every value in force with its origin.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn values(&self, path: Option<&Path>) -> Result<Vec<Value>, Faults> {
        let (rules, file) = self.read(path, None, &mut Vec::new())?;
        Ok(values::values(&rules, &file))
    }

    /// Reads a catalog without looking at the profiles that it names.
    ///
    /// # Errors
    /// Every fault of the file.
    pub fn catalog(&self, file: &Path) -> Result<Catalog, Faults> {
        self.source(file).and_then(|source| Catalog::load(source, None))
    }

    /// Examines a catalog: the one of `file`, or else the one of the configuration at `config`,
    /// which may be the compiled-in one. The profiles are those of the configuration.
    ///
    /// # Errors
    /// Every fault of the catalog, and where it lets more pass than the shipped one.
    pub fn examine(&self, file: Option<&Path>, config: Option<&Path>) -> Result<Catalog, Faults> {
        let mut found = Found::default();
        if let Some(config) = config {
            // What is wrong with the configuration itself is shown where it is loaded.
            drop(self.source(config).and_then(|source| self.text(source, &mut found)));
        }
        let profiles = found.profiles.unwrap_or_else(Profiles::shipped).ok();
        let source = match file.or(found.catalog.as_deref()) {
            Some(file) => self.source(file)?,
            None => Catalog::shipped_source(),
        };
        Catalog::examine(source, profiles.as_ref(), &Catalog::shipped()?)
    }

    /// Checks a configuration that is not written yet, as if it stood at `path`.
    ///
    /// # Errors
    /// Every fault of the text and of the profiles that it names.
    pub fn accepts(&self, path: &Path, text: &str) -> Result<(), Faults> {
        let mut found = Found::default();
        self.text(Source::new(path, text), &mut found)?;
        found.profiles.unwrap_or_else(Profiles::shipped).map(drop)
    }

    /// Loads these files together with the shipped profiles.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn profiles(&self, files: &[PathBuf]) -> Result<Profiles, Faults> {
        self.each(files).and_then(Profiles::load)
    }

    fn read(
        &self,
        path: Option<&Path>,
        tighten: Option<&Path>,
        places: &mut Vec<PathBuf>,
    ) -> Result<(Rules, File), Faults> {
        let mut found = Found::default();
        let file = match path {
            Some(path) => self.source(path).and_then(|source| self.text(source, &mut found)),
            None => Ok(File::default()),
        };
        // Without a readable file nobody knows which catalog and which profiles are meant.
        if file.is_err() && found.profiles.is_none() {
            return Err(file.err().unwrap_or_default());
        }
        places.extend(found.catalog.clone());
        if let Some(folder) = &found.folder {
            places.push(folder.clone());
            // Files of the folder that are links count where they really are.
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            places.extend(entries.map(|entry| entry.path()));
        }
        let profiles = found.profiles.unwrap_or_else(Profiles::shipped);
        let catalog = match &found.catalog {
            Some(path) => {
                let known = profiles.as_ref().ok();
                self.source(path).and_then(|source| Catalog::load(source, known))
            }
            None => Catalog::shipped(),
        };
        let catalog = match (catalog, tighten) {
            (Ok(catalog), Some(overlay)) => {
                places.push(overlay.to_owned());
                self.source(overlay).and_then(|source| catalog.tighten(source))
            }
            (catalog, _) => catalog,
        };
        let (file, catalog, profiles) = match (file, catalog, profiles) {
            (Ok(file), Ok(catalog), Ok(profiles)) => (file, catalog, profiles),
            (file, catalog, profiles) => {
                let mut faults = Faults::default();
                faults.merge(file.err().unwrap_or_default());
                faults.merge(catalog.err().unwrap_or_default());
                faults.merge(profiles.err().unwrap_or_default());
                return Err(faults);
            }
        };
        for toolchain in &file.toolchains {
            places.extend(toolchain.roots.iter().cloned());
            places.extend(toolchain.bin.clone());
        }
        let settings = Settings {
            path: catalog.path_in(self.homes.home.as_deref()),
            path_place: catalog.path_place(),
            toolchains: file.toolchains.clone(),
            git_identity: file.git_identity(),
            identity_place: file.places.get("git_identity").cloned(),
            rungs: file.rungs.clone(),
            worktrees: file.worktrees.clone(),
            index: file.index.clone(),
            homes: self.homes.clone(),
        };
        Ok((Rules { catalog, profiles, settings, auto_approve: true }, file))
    }
}
