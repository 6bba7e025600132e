//! The scratch folder of a run that has no mounts: a place of the host that no other run has now.

use super::host::Host;
use super::identity::take_number;
use crate::record::{Code, Refusal};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where root's commands have their scratch folders, each open to its own command only.
const ROOTS_FOLDER: &str = "/run/pinfold";

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
    /// command may pass but not use. Root's command is another user, so its place is in a folder
    /// that all may pass and only root may write, where nobody can put a name in its way.
    ///
    /// # Errors
    /// A refusal with code `host` where the state folder cannot be written.
    pub fn take(host: &Host, state: &Path) -> Result<Self, Refusal> {
        let take = || -> io::Result<Self> {
            let folder = state.join("scratch");
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            if host.uid == 0 {
                roots_folder()?;
            }
            let (number, held) = take_number(&folder, 0..SLOTS)?;
            let path = if host.uid == 0 {
                let own = std::fs::metadata(&folder)?;
                let name = format!("{:x}-{:x}-{number}", own.dev(), own.ino());
                Path::new(ROOTS_FOLDER).join(name)
            } else {
                std::fs::canonicalize(&folder)?.join(format!("{number}.tmp"))
            };
            Ok(Self { path, _held: held })
        };
        take().map_err(|error| {
            let next = "see that the state folder is writable, and as root /run/pinfold too";
            Refusal::new(Code::Host, "a scratch folder", error.to_string(), next)
        })
    }
}

/// Makes the folder of root's scratch folders, or checks the one that is there.
fn roots_folder() -> io::Result<()> {
    let made = std::fs::DirBuilder::new().mode(0o711).create(ROOTS_FOLDER);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let found = std::fs::symlink_metadata(ROOTS_FOLDER)?;
    if found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0 {
        // The supervisor's own mask may have closed it to the commands that must pass.
        let passable = std::fs::Permissions::from_mode(0o711);
        return std::fs::set_permissions(ROOTS_FOLDER, passable);
    }
    Err(io::Error::other(format!("{ROOTS_FOLDER} is not a folder that only root can change")))
}
