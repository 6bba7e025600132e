//! Files that decide: read only where nobody but root and the supervisor's user could have
//! written them.

use super::Reader;
use crate::record::Text;
use crate::source::{FILE_BYTES_MAX, Faults, Source};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most profile files that are read.
const PROFILES_MAX: usize = 256;

impl Reader {
    /// Reads each file; all that cannot be read are faults at once.
    pub(super) fn each(&self, files: &[PathBuf]) -> Result<Vec<Source>, Faults> {
        let (mut sources, mut faults) = (Vec::new(), Faults::default());
        for file in files {
            match self.source(file) {
                Ok(source) => sources.push(source),
                Err(more) => faults.merge(more),
            }
        }
        if faults.is_empty() { Ok(sources) } else { Err(faults) }
    }

    /// Reads a file that nobody but root and the supervisor's user could have written.
    pub(super) fn source(&self, path: &Path) -> Result<Source, Faults> {
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
    pub(super) fn sources(&self, folder: &Path) -> Result<Vec<Source>, Faults> {
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
    pub(super) fn changeable(&self, real: &Path) -> Option<String> {
        let changeable = |place: &&Path| {
            let Ok(found) = fs::symlink_metadata(place) else { return true };
            let sticky = found.is_dir() && found.mode() & 0o1000 != 0 && found.uid() == 0;
            // With an access list, the group's bits stand for what anybody on that list may do.
            let by_group = found.mode() & 0o020 != 0
                && (found.gid() != 0 || crate::sys::fd::has_access_list(place));
            let by_others = (found.mode() & 0o002 != 0 || by_group) && !sticky;
            ![0, self.uid].contains(&found.uid()) || by_others
        };
        real.ancestors().find(changeable).map(|place| Text::from(place).escaped())
    }
}
