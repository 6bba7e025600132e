//! What parent and child agree on: steps, and the report of a failed one.
//!
//! The parent builds a [`Program`]; the child walks it. Every value a step needs is owned by
//! the program, so the child allocates nothing.

use std::ffi::CString;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// How many descriptors a program can name.
pub const SLOTS: usize = 192;

/// A place for a descriptor that a step opens and later steps use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u8);

/// Where a relative path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dir {
    /// The current working folder of the child.
    Cwd,
    /// A descriptor that an earlier step opened.
    Slot(Slot),
}

/// What an opened file must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    /// The file with this device and inode number.
    Inode {
        /// Device number, as `st_dev`.
        dev: u64,
        /// Inode number.
        ino: u64,
    },
    /// The file with these numbers, not written to since.
    Pinned {
        /// Device number, as `st_dev`.
        dev: u64,
        /// Inode number.
        ino: u64,
        /// Size in bytes.
        size: i64,
        /// Change time: seconds, and nanoseconds within the second.
        ctime: (i64, i64),
    },
    /// The character device with this number.
    Device {
        /// Device number, as `st_rdev`.
        rdev: u64,
    },
}

/// One act of the child.
#[derive(Debug)]
pub enum Step {
    /// Makes every mount of the new namespace private, so that nothing done here spreads.
    PrivateMounts,
    /// Clones the mount at `path` without attaching it (`open_tree`).
    Clone {
        /// Where `path` starts.
        dir: Dir,
        /// The path; empty means `dir` itself.
        path: CString,
        /// Whether mounts below it come along.
        recursive: bool,
        /// Where the descriptor goes.
        to: Slot,
    },
    /// Opens a path without following any link or leaving `dir` (`openat2`, `O_PATH`).
    OpenBeneath {
        /// The folder that is not left.
        dir: Dir,
        /// The path below it.
        path: CString,
        /// Where the descriptor goes.
        to: Slot,
    },
    /// Opens a path with `O_PATH`, following links.
    OpenPath {
        /// The path, absolute in the view at this point.
        path: CString,
        /// Where the descriptor goes.
        to: Slot,
    },
    /// Checks that a descriptor is what the plan pinned.
    Check {
        /// The descriptor.
        fd: Slot,
        /// What it must be.
        is: Is,
    },
    /// Sets mount attributes (`mount_setattr`).
    Attributes {
        /// The mount's descriptor.
        fd: Slot,
        /// Attributes to set.
        set: u64,
        /// User namespace for `MOUNT_ATTR_IDMAP`, or -1.
        userns: RawFd,
        /// Whether mounts below it change too.
        recursive: bool,
    },
    /// Attaches a detached mount (`move_mount`).
    Attach {
        /// The detached mount.
        fd: Slot,
        /// Where `path` starts.
        dir: Dir,
        /// The mount point; empty means `dir` itself.
        path: CString,
    },
    /// Makes a new file system (`fsopen`, `fsconfig`, `fsmount`).
    NewFs {
        /// The file system type.
        kind: CString,
        /// Options; without a value it is a flag.
        options: Vec<(CString, Option<CString>)>,
        /// Mount attributes.
        attributes: u64,
        /// Where the descriptor goes.
        to: Slot,
    },
    /// Makes a folder; one that exists already is fine.
    Folder {
        /// Where `path` starts.
        dir: Dir,
        /// The path.
        path: CString,
        /// The mode.
        mode: u32,
    },
    /// Makes a file with this content.
    File {
        /// Where `path` starts.
        dir: Dir,
        /// The path.
        path: CString,
        /// The mode.
        mode: u32,
        /// The content.
        content: Vec<u8>,
    },
    /// Makes a symbolic link.
    Link {
        /// What it points at.
        target: CString,
        /// Where `path` starts.
        dir: Dir,
        /// The path.
        path: CString,
    },
    /// Writes an existing kernel file, such as an id map.
    Write {
        /// The path.
        path: CString,
        /// The content.
        content: Vec<u8>,
    },
    /// Changes the working folder to a descriptor.
    Enter {
        /// The folder.
        fd: Slot,
    },
    /// Changes the working folder to a path.
    Chdir {
        /// The path.
        path: CString,
    },
    /// Makes the working folder the root and detaches the old one.
    PivotRoot,
    /// Leaves for new namespaces (`unshare`).
    Unshare {
        /// `CLONE_NEW…` flags.
        flags: i32,
    },
    /// Names the host inside.
    HostName {
        /// The name.
        name: CString,
    },
    /// Brings the loopback interface up.
    LoopbackUp,
    /// Adds a Landlock rule for a file this child made (`landlock_add_rule`).
    Rule {
        /// The ruleset.
        ruleset: RawFd,
        /// The file or folder.
        fd: Slot,
        /// The access rights.
        access: u64,
    },
    /// Sets a resource limit.
    Limit {
        /// `RLIMIT_…`.
        resource: u32,
        /// The soft limit.
        soft: u64,
        /// The hard limit.
        hard: u64,
    },
    /// Sets the mask for new files.
    Umask {
        /// The mask.
        mask: u32,
    },
    /// Clears the bounding and ambient capability sets.
    DropBounding,
    /// Fixes the securebits so that no id gives capabilities.
    Securebits,
    /// Gives up every supplementary group.
    NoGroups,
    /// Takes user and group id, real, effective and saved.
    Ids {
        /// The user id.
        uid: u32,
        /// The group id.
        gid: u32,
    },
    /// Takes the group id, and the user id as the effective one only.
    EffectiveIds {
        /// The user id.
        uid: u32,
        /// The group id.
        gid: u32,
    },
    /// Empties effective, permitted and inheritable capabilities.
    NoCapabilities,
    /// Makes the gain of privileges by exec impossible.
    NoNewPrivileges,
    /// Asks to be killed when the thread that cloned it ends. After the last id change, which
    /// clears it.
    DeathSignal,
    /// Takes the tree's id of its own and no controlling terminal.
    NewSession,
    /// Becomes the parent of every orphan below, so that none leaves the tree.
    Subreaper,
    /// Closes a descriptor that the parent had open at the clone.
    Close {
        /// The descriptor.
        fd: RawFd,
    },
    /// Puts a descriptor at a fixed number, not closed on exec.
    Place {
        /// The descriptor.
        from: RawFd,
        /// The number.
        at: RawFd,
    },
    /// Marks every descriptor from `first` up to be closed on exec.
    CloseOnExec {
        /// The first descriptor.
        first: u32,
    },
    /// Restores default signal actions and unblocks all signals.
    DefaultSignals,
    /// Enforces a Landlock ruleset.
    Restrict {
        /// The ruleset.
        ruleset: RawFd,
        /// `LANDLOCK_RESTRICT_SELF_…` flags.
        flags: u32,
    },
    /// Installs a seccomp filter.
    Filter {
        /// The filter.
        program: Arc<[libc::sock_filter]>,
    },
    /// Installs a seccomp filter with a listener, and hands the listener to the supervisor.
    Listen {
        /// The filter.
        program: Arc<[libc::sock_filter]>,
        /// The child's end of a socket pair.
        to: RawFd,
    },
    /// Reports that every layer is in place.
    Report,
    /// Waits for the gate's byte; ends quietly if the gate closes without it.
    Gate {
        /// The pipe's read end.
        fd: RawFd,
    },
    /// Executes a descriptor.
    Exec {
        /// The descriptor: a slot, or one the parent opened.
        fd: ExecFd,
        /// What is executed and how.
        image: Image,
    },
}

/// Which descriptor is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecFd {
    /// One that an earlier step opened.
    Slot(Slot),
    /// One that the parent opened.
    Parent(RawFd),
}

/// Argument vector and environment in the form that the kernel takes.
#[derive(Debug)]
pub struct Image {
    strings: Vec<CString>,
    argv: Vec<usize>,
    envp: Vec<usize>,
}

impl Image {
    /// Lays out the pointers for `execveat`.
    pub fn new(argv: Vec<CString>, env: Vec<CString>) -> Self {
        let count = argv.len();
        let mut strings = argv;
        strings.extend(env);
        // Addresses are kept as numbers so that the value can move between threads; they stay
        // valid because a CString's bytes live on the heap and `strings` is never changed.
        let mut pointers: Vec<usize> = strings.iter().map(|text| text.as_ptr() as usize).collect();
        let mut envp = pointers.split_off(count);
        let mut argv = pointers;
        argv.push(0);
        envp.push(0);
        Self { strings, argv, envp }
    }

    /// Returns the null-terminated argument vector.
    pub fn argv(&self) -> *const usize {
        self.argv.as_ptr()
    }

    /// Returns the null-terminated environment.
    pub fn envp(&self) -> *const usize {
        self.envp.as_ptr()
    }

    /// Returns how many strings there are.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Returns whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

/// The steps between clone and exec, in three lists.
#[derive(Debug)]
pub struct Lists {
    /// The outer child's steps before it clones the inner one: the view, then the drop.
    pub outer: Vec<Step>,
    /// The inner child's steps: it becomes the program.
    pub inner: Vec<Step>,
    /// The outer child's steps after that: it becomes the tree's init.
    pub last: Vec<Step>,
}

impl Lists {
    /// Returns one of the lists.
    pub fn part(&self, part: Part) -> &[Step] {
        match part {
            Part::Outer => &self.outer,
            Part::Inner => &self.inner,
            Part::Last => &self.last,
        }
    }
}

/// Everything a launch does between clone and exec.
#[derive(Debug)]
pub struct Program {
    /// `CLONE_NEW…` flags of the outer child.
    pub namespaces: i32,
    /// Folder of the cgroup the tree is born in.
    pub cgroup: Option<OwnedFd>,
    /// The steps; whoever waits for the child keeps them too, to say which one failed.
    pub steps: Arc<Lists>,
    /// The report pipe's write end.
    pub report: OwnedFd,
    /// Where the outer child writes the process id of the inner one, as four bytes: for an init
    /// that is not the first process of a namespace.
    pub tell: Option<RawFd>,
    /// Descriptors that steps name by number; kept open until the child is made.
    pub keep: Vec<OwnedFd>,
}

/// Which list a step stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// [`Lists::outer`].
    Outer,
    /// [`Lists::inner`].
    Inner,
    /// [`Lists::last`].
    Last,
}

/// Stands for a pinned file that is another one now; no system call here gives this number.
pub const ANOTHER_FILE: i32 = libc::EIDRM;

/// A step that failed in the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The list.
    pub part: Part,
    /// Index in the list.
    pub step: u16,
    /// The error number; [`ANOTHER_FILE`] stands for a pinned file that is another one now.
    pub errno: i32,
}

/// What a child writes to the report pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Every layer is in place and the child waits at the gate.
    Ready,
    /// A step failed; nothing was executed.
    Failed(Failure),
}

/// Size of a message in bytes; small enough that a pipe write is never split.
pub const MESSAGE_BYTES: usize = 8;

impl Message {
    /// Encodes: tag, zero, step (little endian), error number (little endian).
    pub fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (tag, step, errno) = match self {
            Self::Ready => (1, 0, 0),
            Self::Failed(failure) => {
                let tag = match failure.part {
                    Part::Outer => 2,
                    Part::Inner => 3,
                    Part::Last => 4,
                };
                (tag, failure.step, failure.errno)
            }
        };
        let [step_low, step_high] = step.to_le_bytes();
        let [a, b, c, d] = errno.to_le_bytes();
        [tag, 0, step_low, step_high, a, b, c, d]
    }

    /// Decodes; `None` where the bytes are no message.
    pub fn decode(bytes: [u8; MESSAGE_BYTES]) -> Option<Self> {
        let [tag, zero, step_low, step_high, a, b, c, d] = bytes;
        let step = u16::from_le_bytes([step_low, step_high]);
        let errno = i32::from_le_bytes([a, b, c, d]);
        let part = match (tag, zero) {
            (1, 0) => return Some(Self::Ready),
            (2, 0) => Part::Outer,
            (3, 0) => Part::Inner,
            (4, 0) => Part::Last,
            _ => return None,
        };
        Some(Self::Failed(Failure { part, step, errno }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe() {
        let failures = [Part::Outer, Part::Inner, Part::Last]
            .map(|part| Message::Failed(Failure { part, step: 300, errno: 13 }));
        for message in failures.into_iter().chain([Message::Ready]) {
            assert_eq!(Message::decode(message.encode()), Some(message));
        }
        assert_eq!(Message::decode([9; MESSAGE_BYTES]), None);
    }
}
