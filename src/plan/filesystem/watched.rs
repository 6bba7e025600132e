//! What a host program can uncover: a mount on a name of the workspace or of a granted place is
//! gone when another file is renamed onto that name from outside.

use super::{Mount, Piece, View};
use std::path::{Path, PathBuf};

/// A place that is kept by a mount on a name that the host can replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The path, the same in the view as on the host.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub folder: bool,
    /// Whether it is masked; else it is a protected file.
    pub masked: bool,
}

impl Watched {
    /// Returns whether opens of the place can be refused while it is uncovered: only those of what
    /// lies directly in a watched folder can, and what is protected may be read.
    pub fn can_be_closed(&self) -> bool {
        self.masked && !self.folder
    }
}

impl View {
    /// Returns the places that a host program can uncover. One that is itself what is mounted has
    /// its cover in the view's own file system, where the host changes nothing.
    pub fn watched(&self, workspace: &Path) -> Vec<Watched> {
        let pieces: Vec<&Piece> = self.pieces().collect();
        let below = |index: usize, rest: &Path| {
            let piece = pieces.get(index).filter(|piece| !self.is_seen_through_another(piece))?;
            (!rest.as_os_str().is_empty()).then(|| workspace.join(&piece.at).join(rest))
        };
        let watched = |mount: &Mount| {
            let (path, folder, masked) = match mount {
                Mount::Mask { piece, rest, folder, .. } => (below(*piece, rest)?, *folder, true),
                Mount::HostMask { path, folder, .. } => (path.clone(), *folder, true),
                Mount::Hold { piece, rest, writable: false, folder: false, .. } => {
                    (below(*piece, rest)?, false, false)
                }
                _ => return None,
            };
            Some(Watched { path, folder, masked })
        };
        self.mounts.iter().filter_map(watched).collect()
    }
}
