//! What can go wrong with the trail, as sentences that a person can act on.
#![forbid(unsafe_code)]

use super::line::LINE_BYTES_MAX;
use crate::record::{Text, fit};
use nix::errno::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Most characters of an error with its remedy; Pinfold's name goes in front.
const CHARS_MAX: usize = 380;

/// Why the trail cannot be opened, written or read. It can be cloned because a writer that
/// failed once gives the same answer to everyone from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A file operation failed.
    Io {
        /// What was tried, as a verb: "write to", "lock".
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// A folder or file could be changed by somebody else, or is not what it should be.
    Unsafe {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What mends it.
        next: String,
    },
    /// The trail does not continue itself: no crash of Pinfold leaves this behind.
    Corrupt {
        /// The segment.
        path: PathBuf,
        /// Where in the segment the fault begins.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// A record would be longer than a line may be, or a batch longer than a write may be.
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// A record cannot be written as JSON.
    Encode(String),
    /// A writer of this process panicked in the middle of its work.
    Writer(String),
}

/// The causes of a failed file operation that have a remedy of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The disk or the quota is full.
    NoSpace,
    /// The filesystem is mounted read-only.
    ReadOnly,
    /// The user may not do this.
    Permission,
    /// The file would be larger than RLIMIT_FSIZE or the filesystem allows.
    FileSize,
    /// The device failed.
    Device,
    /// Anything else.
    Other,
}

impl Error {
    pub(super) fn io(act: &'static str, path: &Path, error: &io::Error) -> Self {
        let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
        Self::Io { act, path: path.to_owned(), errno }
    }

    pub(super) fn corrupt(path: &Path, offset: u64, why: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), offset, why: why.into() }
    }

    /// Returns which kind of failure it is, for a failed file operation.
    pub fn cause(&self) -> Option<Cause> {
        let Self::Io { errno, .. } = self else { return None };
        Some(match errno {
            Errno::ENOSPC | Errno::EDQUOT => Cause::NoSpace,
            Errno::EROFS => Cause::ReadOnly,
            Errno::EACCES | Errno::EPERM => Cause::Permission,
            Errno::EFBIG => Cause::FileSize,
            Errno::EIO => Cause::Device,
            _ => Cause::Other,
        })
    }

    /// Returns what went wrong, as a clause without a full stop.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { act, path, errno } => {
                let cause = match self.cause().unwrap_or(Cause::Other) {
                    Cause::NoSpace if *errno == Errno::EDQUOT => "no space left in the disk quota",
                    Cause::NoSpace => "no space left on the filesystem",
                    Cause::ReadOnly => "the filesystem is read-only",
                    Cause::Permission => "no permission",
                    Cause::FileSize => "the file-size limit (RLIMIT_FSIZE) is reached",
                    Cause::Device => "the device reported an input/output error",
                    Cause::Other => errno.desc(),
                };
                format!("cannot {act} {}: {cause} ({errno:?})", shown(path))
            }
            Self::Unsafe { path, why, .. } => format!("{} {why}", shown(path)),
            Self::Corrupt { path, offset, why } => {
                format!("the trail is corrupt at {}, byte {offset}: {why}", shown(path))
            }
            Self::TooLong { length, limit } if *limit == LINE_BYTES_MAX => {
                format!("the record needs {length} bytes and a line holds at most {limit}")
            }
            Self::TooLong { length, limit } => {
                format!("the records need {length} bytes and one write holds at most {limit}")
            }
            Self::Encode(why) => format!("the record cannot be written as JSON: {why}"),
            Self::Writer(why) => format!("the trail's writer is not running: {why}"),
        }
    }

    /// Returns what to do about it, as an imperative without a full stop.
    pub fn next(&self) -> String {
        match self {
            Self::Io { .. } => match self.cause().unwrap_or(Cause::Other) {
                Cause::NoSpace => {
                    "free space there, or set PINFOLD_HOME to a filesystem with \
                    free space"
                }
                Cause::ReadOnly => {
                    "mount it read-write, or set PINFOLD_HOME to a folder that \
                    can be written"
                }
                Cause::Permission => {
                    "run as the owner of the trail, or set PINFOLD_HOME to a \
                    folder of this user"
                }
                Cause::FileSize => "raise the file-size limit of this process (`ulimit -f`)",
                Cause::Device => {
                    "check the device and its cables; what was not acknowledged may \
                    be lost"
                }
                Cause::Other => "check the state folder and the filesystem it lies on",
            }
            .to_owned(),
            Self::Unsafe { next, .. } => next.clone(),
            Self::Corrupt { path, .. } => {
                let folder = shown(path.parent().unwrap_or(path));
                format!("keep the evidence and move the folder {folder} aside; a new trail begins")
            }
            Self::TooLong { .. } => "pass less on the command line, for example by a file".into(),
            Self::Encode(_) => "report this".to_owned(),
            Self::Writer(_) => "start the supervisor again".to_owned(),
        }
    }
}

fn shown(path: &Path) -> String {
    Text::from(path).shown()
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [reason, next] = fit([self.reason(), self.next()], CHARS_MAX);
        write!(out, "{reason}; {next}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { errno, .. } => Some(errno),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_makes_an_error_too_long() {
        let path = PathBuf::from("/\u{1b}x".repeat(2_000));
        let errors = [
            Error::Io { act: "write to", path: path.clone(), errno: Errno::EDQUOT },
            Error::Unsafe { path: path.clone(), why: "w".repeat(900), next: "n".repeat(900) },
            Error::corrupt(&path, u64::MAX, "w".repeat(900)),
            Error::Encode("e".repeat(900)),
        ];
        for error in errors {
            let shown = format!("pinfold: {error}");
            assert!(shown.chars().count() <= crate::record::MESSAGE_CHARS_MAX, "{shown}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }

    #[test]
    fn each_cause_is_named_and_has_a_remedy() {
        let shown = |errno| {
            let error = io::Error::from_raw_os_error(errno as i32);
            Error::io("write to", Path::new("/s/trail/x"), &error).to_string()
        };
        assert!(shown(Errno::ENOSPC).contains("no space left on the filesystem (ENOSPC); free sp"));
        assert!(shown(Errno::EDQUOT).contains("quota (EDQUOT)"));
        assert!(shown(Errno::EROFS).contains("read-only"));
        assert!(shown(Errno::EACCES).contains("no permission"));
        assert!(shown(Errno::EPERM).contains("no permission"));
        assert!(shown(Errno::EFBIG).contains("file-size limit (RLIMIT_FSIZE)"));
        assert!(shown(Errno::EIO).contains("(EIO)"));
        assert!(shown(Errno::ENXIO).contains("/s/trail/x"));
    }
}
