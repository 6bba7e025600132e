//! A cgroup of a tree's own: where it is born and by which it is killed as a whole.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the removal of an emptied group is tried.
const REMOVE_TRIES: u32 = 50;

/// A fresh version 2 cgroup, removed when dropped. A group that was ever killed kills whatever
/// is born in it, so none is used twice.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes a group below the supervisor's own one.
    ///
    /// # Errors
    /// `NotFound` where there is no version 2 hierarchy; `EACCES` or `EROFS` where this user may
    /// not make groups.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let parent = own_group()?;
        let path = parent.join(format!("pinfold-{}-{count}", std::process::id()));
        match fs::create_dir(&path) {
            // Left behind by a supervisor that was killed and had this process id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&path)?;
                fs::create_dir(&path)?;
            }
            result => result?,
        }
        let group = Self { path };
        // Without this file (before Linux 5.14) the group could not do what it is made for.
        fs::symlink_metadata(group.path.join("cgroup.kill"))?;
        Ok(group)
    }

    /// Opens the group's folder, for `CLONE_INTO_CGROUP`.
    ///
    /// # Errors
    /// As `open(2)`.
    pub fn open(&self) -> io::Result<OwnedFd> {
        super::fd::high(&File::open(&self.path)?)
    }

    /// Kills every process of the group with `SIGKILL`.
    ///
    /// # Errors
    /// As `write(2)`; `NotFound` on kernels before 5.14.
    pub fn kill(&self) -> io::Result<()> {
        use std::io::Write;
        File::options().write(true).open(self.path.join("cgroup.kill"))?.write_all(b"1")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            // Processes that were killed leave the group a moment after they were reaped.
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                _ => return,
            }
        }
    }
}

/// Finds the folder of this process's own version 2 group.
fn own_group() -> io::Result<PathBuf> {
    let membership = fs::read_to_string("/proc/self/cgroup")?;
    let inside = membership.lines().find_map(|line| line.strip_prefix("0::/"));
    let top = USUAL_TOPS.into_iter().map(PathBuf::from).find(|top| is_version_2(top));
    let top = top.map_or_else(mounted_top, Ok)?;
    Ok(top.join(inside.ok_or(io::ErrorKind::NotFound)?))
}

/// Where the hierarchy is on nearly every system: alone, or beside version 1.
const USUAL_TOPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

fn is_version_2(top: &Path) -> bool {
    let magic = nix::sys::statfs::CGROUP2_SUPER_MAGIC;
    nix::sys::statfs::statfs(top).is_ok_and(|found| found.filesystem_type() == magic)
}

/// Looks for the hierarchy among all mounts.
fn mounted_top() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let top = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        (kind.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(point))
    });
    top.ok_or_else(|| io::ErrorKind::NotFound.into())
}
