//! Keeps what a host program can uncover: plan to helper, and what the helper tells.

use super::compile::{Layers, c_string, staged};
use super::view::{COVER_FILE, COVER_FOLDER};
use crate::plan::Plan;
use crate::plan::filesystem::Watched;
use crate::plan::rung::{CLOSES, COVERS};
use crate::record::Text;
use crate::sys::cover::{Covering, Keep, Place, Told};
use nix::errno::Errno;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The places of a plan that are watched, before their helper is started.
#[derive(Debug)]
pub(super) struct Watch {
    places: Vec<(Watched, bool)>,
    /// Whether the tree has a user namespace of its own.
    user: bool,
}

/// The helper of a tree, and what it keeps. Dropped, the helper ends.
#[derive(Debug)]
pub struct Covers {
    places: Vec<(Watched, bool)>,
    covering: Covering,
}

/// A place that was uncovered and is covered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The path.
    pub path: PathBuf,
    /// For how long; rather too long than too short.
    pub length: Duration,
    /// Whether the command's opens were refused meanwhile.
    pub refused: bool,
}

impl Lost {
    /// Returns by what one loss is worse than another.
    pub fn severity(&self) -> (bool, Duration) {
        (!self.refused, self.length)
    }
}

/// Why a place is not kept.
#[derive(Debug)]
pub struct Uncovered {
    /// The path, where it is one.
    path: Option<PathBuf>,
    error: io::Error,
}

impl fmt::Display for Uncovered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.error;
        match &self.path {
            Some(path) => {
                let path = Text::from(path.as_path()).shown();
                write!(out, "{path} cannot be kept covered: {error}")?;
            }
            None => write!(out, "masked and protected places cannot be kept covered: {error}")?,
        }
        // The kernel's words are about files and disks, and nothing of that is short.
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENOSPC) => out.write_str(
                "; a limit of the host is reached, see fs.inotify and fs.fanotify in `sysctl -a`",
            ),
            _ => Ok(()),
        }
    }
}

impl Watch {
    /// Returns what is to be watched of a plan; `None` where nothing is.
    pub(super) fn of(plan: &Plan, layers: Layers) -> Option<Self> {
        let has = |name: &str| plan.layers.iter().any(|layer| layer == name);
        if !layers.covers || !layers.mounts || !has(COVERS) {
            return None;
        }
        let closes = layers.closes && has(CLOSES);
        let watched = plan.view.watched(&plan.workspace).into_iter();
        let places = watched.map(|place| (place.can_be_closed() && closes, place));
        let places = places.map(|(refused, place)| (place, refused)).collect();
        Some(Self { places, user: plan.namespaces.contains(&"user") })
    }

    /// Starts the helper and waits until every place is covered.
    pub(super) async fn start(self, tree: impl AsFd) -> Result<Covers, Uncovered> {
        let of_all = |error| Uncovered { path: None, error };
        let place = |(watched, refused): &(Watched, bool)| {
            let (folder, name) = (watched.path.parent()?, watched.path.file_name()?);
            let keep = if watched.masked { Keep::Covered } else { Keep::ReadOnly };
            Some(Place::new(within(folder), c_string(name), keep, *refused))
        };
        let places = self.places.iter().map(place).collect::<Option<_>>();
        let places = places.ok_or_else(|| of_all(io::ErrorKind::InvalidInput.into()))?;
        let covers = [COVER_FILE, COVER_FOLDER].map(|cover| c_string(cover.as_ref()));
        let covering = Covering::start(places, covers, tree, self.user).map_err(of_all)?;
        let covers = Covers { places: self.places, covering };
        covers.took(covers.covering.next().await).map(|_| covers)
    }
}

/// A folder as it is named from the root of the view.
fn within(folder: &Path) -> std::ffi::CString {
    if folder.parent().is_none() { c".".into() } else { staged(folder) }
}

impl Covers {
    /// Waits for the next place that was uncovered. Cancel safe.
    ///
    /// # Errors
    /// Why a place is uncovered for good.
    pub async fn next(&self) -> Result<Lost, Uncovered> {
        loop {
            if let Some(lost) = self.took(self.covering.next().await)? {
                return Ok(lost);
            }
        }
    }

    /// Returns what was uncovered and nobody has taken yet, and why a place was uncovered for good;
    /// for a tree that is gone.
    pub fn left(&self) -> (Vec<Lost>, Option<Uncovered>) {
        let mut lost = Vec::new();
        for told in self.covering.left() {
            match self.took(told) {
                Ok(told) => lost.extend(told),
                Err(why) => return (lost, Some(why)),
            }
        }
        (lost, None)
    }

    fn took(&self, told: io::Result<Told>) -> Result<Option<Lost>, Uncovered> {
        let path = |place: usize| Some(self.places.get(place)?.0.path.clone());
        match told {
            Ok(Told::Ready) => Ok(None),
            Ok(Told::Lost { place, ns, refused }) => {
                let lost = self.places.get(place).map(|(watched, _)| Lost {
                    path: watched.path.clone(),
                    length: Duration::from_nanos(ns),
                    refused,
                });
                Ok(lost)
            }
            Ok(Told::Failed { place, errno }) => {
                Err(Uncovered { path: path(place), error: io::Error::from_raw_os_error(errno) })
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let error = io::Error::other("their helper has ended");
                Err(Uncovered { path: None, error })
            }
            Err(error) => Err(Uncovered { path: None, error }),
        }
    }
}
