//! What may a command touch: profiles, from their text to the merged form that a plan uses.
//!
//! A profile grants; what it does not name stays closed. Every grant has its reason (`why`),
//! which the approver and the refusal show. The room is pure: it gets texts and gives values,
//! and never looks at the file system. Every fault of every file is found before one profile
//! is handed out, so nothing runs under a profile that is only half understood.
//!
//! What never enters: the workspace of a run, the host's abilities, the decision. A crash here
//! happens before anything runs.
#![forbid(unsafe_code)]

mod inherit;
mod lint;
mod parse;
mod path;
mod render;

pub use inherit::{Origin, Profiles};
pub use path::{PathSpec, Root, expand};
pub use render::size_text;

use crate::record::{Access, Rung};
use std::collections::BTreeMap;

/// Defines an enum whose variants are written as words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$means:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$means])* $variant,)*
        }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the word that profiles write.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// How much network there is.
    NetworkMode {
        /// None, the loopback device included.
        None "none",
        /// A loopback device that the run shares with nobody.
        Loopback "loopback",
        /// The hosts that the operator's configuration names, and no other.
        Allowlist "allowlist",
    }
}

words! {
    /// A group of system calls, by what they serve.
    SyscallSet {
        /// What every program needs: memory, descriptors, signals, clocks, fork, exec and wait.
        Base "base",
        /// Threads, their scheduling and their locks.
        Threads "threads",
        /// Making, changing, copying and watching files.
        Files "files",
        /// Sockets that stay on this host: pairs, path sockets and loopback.
        SocketsLocal "sockets-local",
    }
}

words! {
    /// What happens when the command starts further programs.
    Nested {
        /// Nothing is written about them.
        Off "off",
        /// Each one is recorded.
        Record "record",
        /// Each record is on stable storage before the program's first instruction.
        Durable "durable",
        /// A program that cannot be recorded is killed before its first instruction.
        Verify "verify",
    }
}

words! {
    /// A kind of file that can be made.
    Make {
        /// A regular file.
        File "file",
        /// A folder.
        Folder "folder",
        /// A symbolic link.
        Symlink "symlink",
        /// A named pipe.
        Fifo "fifo",
        /// A path socket.
        Socket "socket",
    }
}

/// The kinds of file that may be made below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MakeSet(u8);

impl MakeSet {
    /// The set that lets nothing be made: what is there can still be changed.
    pub const fn none() -> Self {
        Self(0)
    }

    /// The set of all kinds.
    pub fn all() -> Self {
        Make::ALL.iter().fold(Self::none(), |set, kind| set.with(*kind))
    }

    /// Adds a kind.
    #[must_use]
    pub fn with(self, kind: Make) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns whether this kind may be made.
    pub fn contains(self, kind: Make) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns the kinds, in order.
    pub fn iter(self) -> impl Iterator<Item = Make> {
        Make::ALL.iter().copied().filter(move |kind| self.contains(*kind))
    }
}

/// One path that a profile names, with its reason.
#[derive(Debug, Clone, Eq)]
pub struct Entry {
    /// The path, as written.
    pub path: PathSpec,
    /// Why the profile names it.
    pub why: String,
    /// Where it stands, such as `build.toml:14:9`; for messages only.
    pub place: String,
}

/// Entries are equal if they say the same for the same reason, wherever they stand.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.why) == (&other.path, &other.why)
    }
}

/// A path that may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The path and its reason.
    pub entry: Entry,
    /// What may be made there.
    pub make: MakeSet,
    /// Whether a run may start although the path is not there; the grant is then left out.
    pub optional: bool,
}

/// The network of a profile, with its reason.
#[derive(Debug, Clone, Eq)]
pub struct Network {
    /// How much there is.
    pub mode: NetworkMode,
    /// Why.
    pub why: String,
    /// Where it stands; empty where no profile speaks of a network.
    pub place: String,
}

/// Networks are equal if they say the same for the same reason, wherever they stand.
impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        (self.mode, &self.why) == (other.mode, &other.why)
    }
}

/// How much a run may use; what is `None` has no limit from the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// Largest file that may be written, in bytes.
    pub file_size: Option<u64>,
    /// Size of the scratch folder, in bytes.
    pub tmp: Option<u64>,
    /// Processes and threads at a time.
    pub pids: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
    /// Processor time of one process, in seconds.
    pub cpu: Option<u64>,
    /// Files and folders in the scratch folder.
    pub tmp_inodes: Option<u64>,
}

impl Limits {
    /// Returns every limit that is set, by the key that profiles write.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("memory", self.memory),
            ("file_size", self.file_size),
            ("tmp", self.tmp),
            ("pids", self.pids),
            ("open_files", self.open_files),
            ("cpu", self.cpu),
            ("tmp_inodes", self.tmp_inodes),
        ];
        all.into_iter().filter_map(|(name, limit)| limit.map(|limit| (name, limit)))
    }
}

/// Where single values of a profile stand, such as `limits.pids` at `base.toml:46:14`; for messages
/// only.
#[derive(Debug, Clone, Default, Eq)]
pub struct Places(BTreeMap<String, String>);

impl Places {
    /// Returns the place of a value by its key: `rung`, `syscalls.base`, `limits.pids`,
    /// `environment.LANG`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// All are equal: profiles are equal if they say the same, wherever it stands.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a command may touch, with everything inherited merged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name that templates use.
    pub name: String,
    /// What the profile is for.
    pub why: String,
    /// The weakest rung that it accepts.
    pub rung: Rung,
    /// Whether the readable workspace is only what the call's operands name.
    pub operands_only: bool,
    /// Whether the command runs as the workspace's owner, also where that is uid 0.
    pub run_as_owner: bool,
    /// What may be read.
    pub read: Vec<Entry>,
    /// What may be written.
    pub write: Vec<Write>,
    /// What may be executed, beside the program that was decided on.
    pub execute: Vec<Entry>,
    /// What stays read-only below a writable folder.
    pub protect: Vec<Entry>,
    /// What is covered, so that its content cannot be read.
    pub mask: Vec<Entry>,
    /// What must not be there when a run starts.
    pub absent: Vec<Entry>,
    /// The network.
    pub network: Network,
    /// The system calls, each set once, in order.
    pub syscalls: Vec<SyscallSet>,
    /// How much a run may use.
    pub limits: Limits,
    /// Variables, by name; values still hold their tokens ([`expand`]).
    pub environment: BTreeMap<String, String>,
    /// What happens when the command starts further programs.
    pub nested: Nested,
    /// Where the values without a place of their own stand.
    pub places: Places,
}

impl Profile {
    /// Returns the widest access class that the profile grants.
    ///
    /// Writing at an absolute path counts as writing in the workspace: it outlives the run, too.
    /// A run's loopback reaches nothing but the run itself, so it is no network here.
    pub fn grants(&self) -> Access {
        let lasts = |path: &PathSpec| matches!(path.root, Root::Workspace | Root::Absolute);
        let inside = |path: &PathSpec| path.root == Root::Workspace;
        if self.network.mode == NetworkMode::Allowlist {
            Access::Network
        } else if self.write.iter().any(|write| lasts(&write.entry.path)) {
            Access::WorkspaceWrite
        } else if self.read.iter().chain(&self.execute).any(|entry| inside(&entry.path)) {
            Access::ReadOnly
        } else {
            Access::None
        }
    }
}

#[cfg(test)]
mod tests;
