//! Landlock: the ruleset is built in the parent, the child adds rules for the mounts it made and
//! enforces it.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// `landlock_add_rule`: the rule is about a file hierarchy.
pub const RULE_PATH_BENEATH: usize = 1;

/// `landlock_restrict_self`: denials of the program after exec are logged, those before it and
/// those of domains that the program makes for itself are not (ABI 7).
const LOG_FLAGS: u32 = 0b111;

/// The newest ABI whose rights are asked for; an older kernel takes those it knows.
const NEWEST: ABI = ABI::V9;

/// `struct landlock_path_beneath_attr`, packed as the kernel has it.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed)]
pub struct PathRule {
    access: u64,
    fd: i32,
}

impl PathRule {
    /// Makes a rule that grants `access` beneath `fd`.
    pub const fn new(access: u64, fd: RawFd) -> Self {
        Self { access, fd }
    }
}

/// What may be done with files beneath a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(BitFlags<AccessFs>);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(BitFlags::EMPTY);

    /// Reading files.
    pub fn read_files() -> Self {
        Self(AccessFs::ReadFile.into())
    }

    /// Reading files and listing folders.
    pub fn read() -> Self {
        Self(AccessFs::ReadFile | AccessFs::ReadDir)
    }

    /// Executing files.
    pub fn execute() -> Self {
        Self(AccessFs::Execute.into())
    }

    /// Using device files: reading, writing, and the calls that configure them.
    pub fn devices() -> Self {
        Self(Self::read_files().0 | Self::write_files().0 | AccessFs::IoctlDev)
    }

    /// Writing to files that exist.
    pub fn write_files() -> Self {
        Self(AccessFs::WriteFile | AccessFs::Truncate)
    }

    /// Making, moving and removing regular files, and writing to them.
    pub fn make_files() -> Self {
        let make = AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Refer;
        Self(Self::write_files().0 | make)
    }

    /// Making and removing folders.
    pub fn make_folders() -> Self {
        Self(AccessFs::MakeDir | AccessFs::RemoveDir | AccessFs::Refer)
    }

    /// Making symbolic links.
    pub fn make_links() -> Self {
        Self(AccessFs::MakeSym.into())
    }

    /// Making pipes.
    pub fn make_pipes() -> Self {
        Self(AccessFs::MakeFifo.into())
    }

    /// Making sockets and connecting to them.
    pub fn make_sockets() -> Self {
        Self(AccessFs::MakeSock | AccessFs::ResolveUnix)
    }

    /// Joins two.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what of it reads, lists and executes.
    pub fn without_writing(self) -> Self {
        Self(self.0 & (Self::read().0 | AccessFs::Execute))
    }

    /// Returns whether it changes anything.
    pub fn writes(self) -> bool {
        self.without_writing() != self
    }

    /// Listing folders.
    pub fn list() -> Self {
        Self(AccessFs::ReadDir.into())
    }

    /// Returns what both have.
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns what of it means something for a file that is not a folder.
    pub fn of_file(self) -> Self {
        Self(self.0 & AccessFs::from_file(NEWEST))
    }

    /// Returns whether nothing is granted.
    pub fn is_none(self) -> bool {
        self.0.is_empty()
    }

    /// Returns what of it this kernel knows.
    pub fn known(self) -> Self {
        Self(self.0 & AccessFs::from_all(status()))
    }

    /// Returns the bits of what this kernel knows.
    pub fn bits(self) -> u64 {
        self.known().0.bits()
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, right) in self.0.iter().enumerate() {
            write!(out, "{}{right:?}", if index == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

fn status() -> ABI {
    ABI::from(i32::from(abi()))
}

/// Returns the ABI version of this kernel, 0 where there is no Landlock. Asked once.
pub fn abi() -> u8 {
    static ABI: OnceLock<u8> = OnceLock::new();
    *ABI.get_or_init(ask_abi)
}

fn ask_abi() -> u8 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the call takes a null pointer and size 0, and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u8::try_from(version).unwrap_or(0)
}

/// Returns the flags for `landlock_restrict_self`.
pub fn restrict_flags() -> u32 {
    if abi() >= 7 { LOG_FLAGS } else { 0 }
}

/// Makes a ruleset that holds signals within its domain and nothing else: who enforces it can
/// signal all below it and only that, and nobody below it can signal who enforces it.
///
/// # Errors
/// Where the kernel is older than ABI 6; otherwise as `landlock_create_ruleset(2)`.
pub fn signal_scope() -> io::Result<OwnedFd> {
    let slash = std::fs::File::open("/")?;
    // Every ruleset refuses moving files between folders, unless it says otherwise.
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(|rules| rules.handle_access(AccessFs::Refer))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(slash, AccessFs::Refer)))
        .map_err(io::Error::other)?;
    let fd: Option<OwnedFd> = rules.into();
    super::fd::high(fd.ok_or(io::ErrorKind::Unsupported)?)
}

/// A ruleset being built.
#[derive(Debug)]
pub struct Rules(RulesetCreated);

impl Rules {
    /// Starts a ruleset that refuses everything Landlock can refuse: files, signals and abstract
    /// sockets out of the domain, and TCP unless `network` is set.
    ///
    /// # Errors
    /// As `landlock_create_ruleset(2)`.
    pub fn new(network: bool) -> io::Result<Self> {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))
            .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
            .map_err(io::Error::other)?;
        if !network {
            let net = AccessNet::from_all(NEWEST);
            rules = rules.handle_access(net).map_err(io::Error::other)?;
        }
        Ok(Self(rules.create().map_err(io::Error::other)?))
    }

    /// Grants rights beneath an opened file or folder.
    ///
    /// # Errors
    /// As `landlock_add_rule(2)`.
    pub fn allow(&mut self, place: impl AsFd, rights: Rights) -> io::Result<()> {
        let rule = PathBeneath::new(place, rights.0);
        (&mut self.0).add_rule(rule).map_err(io::Error::other)?;
        Ok(())
    }

    /// Returns the ruleset's descriptor, at a high number.
    ///
    /// # Errors
    /// `Unsupported` where the kernel has no Landlock.
    pub fn finish(self) -> io::Result<OwnedFd> {
        let fd: Option<OwnedFd> = self.0.into();
        super::fd::high(fd.ok_or(io::ErrorKind::Unsupported)?)
    }
}
