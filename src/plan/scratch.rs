//! The scratch folder of a run that has no mounts: a place of the host that no other run has now.

use super::host::Host;
use super::identity::take_number;
use crate::record::{Code, Refusal};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most runs at once that have a scratch folder on the host.
const SLOTS: u32 = 4_096;

/// A folder that this run may make and must remove; given back when dropped.
#[derive(Debug)]
pub struct ScratchSlot {
    /// Where it is.
    pub path: PathBuf,
    _held: File,
}

impl ScratchSlot {
    /// Takes the first free place. An ordinary user's is below the state folder, which the
    /// command may pass but not use; root's command is another user, so its place is below `/tmp`.
    ///
    /// # Errors
    /// A refusal with code `host` where the state folder cannot be written.
    pub fn take(host: &Host, state: &Path) -> Result<Self, Refusal> {
        let take = || -> io::Result<Self> {
            let folder = state.join("scratch");
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let (number, held) = take_number(&folder, 0..SLOTS)?;
            let path = if host.uid == 0 {
                let own = std::fs::metadata(&folder)?;
                let name = format!("pinfold-{:x}-{:x}-{number}", own.dev(), own.ino());
                Path::new("/tmp").join(name)
            } else {
                std::fs::canonicalize(&folder)?.join(format!("{number}.tmp"))
            };
            Ok(Self { path, _held: held })
        };
        take().map_err(|error| {
            let next = "see that the state folder is writable";
            Refusal::new(Code::Host, "a scratch folder", error.to_string(), next)
        })
    }
}
