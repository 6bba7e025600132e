//! Who the command is: another, unprivileged user where the supervisor is root, the same one
//! where it is not.

use super::Call;
use super::host::{Host, Mode};
use super::workspace::{Workspace, c_path};
use crate::profile::Profile;
use crate::record::{Access, Code, Refusal, Rung, Text};
use crate::sys;
use nix::fcntl::OFlag;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// First user id of commands that root starts.
pub const FIRST_UID: u32 = 60_000;
/// How many commands of root can run at once under ids of their own.
const SLOTS: u32 = 4_096;

/// A user id that no other run uses now; given back when dropped.
#[derive(Debug)]
pub struct UidSlot {
    uid: u32,
    _held: File,
}

impl UidSlot {
    /// Takes the first free id below `folder`, where a locked file stands for each.
    ///
    /// # Errors
    /// Those of making and locking the file; `ResourceBusy` where every id is taken.
    pub fn take(folder: &Path, passwd: &str) -> io::Result<Self> {
        let named = |uid: u32| {
            let of = |line: &str| line.split(':').nth(2).and_then(|id| id.parse().ok());
            passwd.lines().any(|line| of(line) == Some(uid))
        };
        let numbers = (FIRST_UID..FIRST_UID + SLOTS).filter(|uid| !named(*uid));
        let (uid, held) = take_number(folder, numbers)?;
        let exists = sys::idmap::exists(uid)?;
        if exists { Ok(Self { uid, _held: held }) } else { Err(io::ErrorKind::ResourceBusy.into()) }
    }
}

/// Takes the first number that nobody holds below `folder`, where a locked file stands for each.
///
/// # Errors
/// Those of making and locking the file; `ResourceBusy` where every number is taken.
pub(super) fn take_number(
    folder: &Path,
    numbers: impl Iterator<Item = u32>,
) -> io::Result<(u32, File)> {
    for number in numbers {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(folder.join(number.to_string()))?;
        match file.try_lock() {
            Ok(()) => return Ok((number, file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Who the command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// User id, as the supervisor sees it.
    pub uid: u32,
    /// Group id, as the supervisor sees it.
    pub gid: u32,
    /// Owner and group on disk that the workspace's mount swaps with the command's ids.
    pub swapped_with: Option<(u32, u32)>,
    /// Whether the supervisor is an ordinary user and the command the same one.
    pub same_user: bool,
    /// Whether the ids belong to no account and were free when they were taken.
    pub taken: bool,
}

/// Ids that were taken are written as `null`: all of them are alike, and which one is free depends
/// on what else runs, so a plan must not differ by them. The record names them beside the plan.
impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let steady = |id: u32| (!self.taken).then_some(id);
        let mut fields = out.serialize_struct("Identity", 5)?;
        fields.serialize_field("uid", &steady(self.uid))?;
        fields.serialize_field("gid", &steady(self.gid))?;
        fields.serialize_field("swapped_with", &self.swapped_with)?;
        fields.serialize_field("same_user", &self.same_user)?;
        fields.serialize_field("taken", &self.taken)?;
        fields.end()
    }
}

/// The identity and what it needs.
#[derive(Debug)]
pub struct Chosen {
    /// The identity.
    pub identity: Identity,
    /// The user namespace whose maps swap the ids.
    pub userns: Option<OwnedFd>,
    /// The user id taken for this run.
    pub slot: Option<UidSlot>,
}

/// Chooses the identity for a run.
///
/// # Errors
/// A refusal with code `workspace` where a writing command of root would have to be uid 0, with
/// code `host` where no id can be had.
pub fn choose(
    host: &Host,
    slots: &Path,
    passwd: &str,
    call: &Call<'_>,
    profile: &Profile,
) -> Result<Chosen, Refusal> {
    let (workspace, access) = (call.workspace, call.access);
    if host.rung() == Rung::C {
        return without_namespaces(host, slots, passwd, workspace, profile, access);
    }
    if host.mode == Mode::User {
        let (uid, gid) = (host.uid, host.gid);
        let identity = Identity { uid, gid, swapped_with: None, same_user: true, taken: false };
        return Ok(Chosen { identity, userns: None, slot: None });
    }
    let plain = of_its_own(slots, passwd)?;
    let ids = (plain.identity.uid, plain.identity.gid);
    if access == Access::None || workspace.owner == ids {
        return Ok(plain);
    }
    let mapped = sys::idmap::swapping(workspace.owner, ids).and_then(|userns| {
        sys::mount::try_idmap(&c_path(&workspace.path), &userns)?;
        if let Some(repository) = &call.repository {
            sys::mount::try_idmap(&c_path(&repository.common.path), &userns)?;
        }
        Ok(userns)
    });
    match mapped {
        Ok(userns) => {
            let identity = Identity { swapped_with: Some(workspace.owner), ..plain.identity };
            Ok(Chosen { identity, userns: Some(userns), slot: plain.slot })
        }
        // What only reads needs no map: it sees files as they are.
        Err(_) if access <= Access::ReadOnly => Ok(plain),
        Err(error) => {
            let why = format!("its file system cannot be mounted with swapped owners ({error})");
            as_owner(workspace, profile, &why)
        }
    }
}

/// Without namespaces and mounts an ordinary user's command is the same user. Root's is an id of
/// its own where it writes nothing of the workspace, else the workspace's owner.
fn without_namespaces(
    host: &Host,
    slots: &Path,
    passwd: &str,
    workspace: &Workspace,
    profile: &Profile,
    access: Access,
) -> Result<Chosen, Refusal> {
    if host.uid != 0 {
        let (uid, gid) = (host.uid, host.gid);
        let identity = Identity { uid, gid, swapped_with: None, same_user: true, taken: false };
        return Ok(Chosen { identity, userns: None, slot: None });
    }
    if access >= Access::WorkspaceWrite {
        return as_owner(workspace, profile, "there are no mounts here that could swap owners");
    }
    of_its_own(slots, passwd)
}

/// An id that no other run has now.
fn of_its_own(slots: &Path, passwd: &str) -> Result<Chosen, Refusal> {
    let slot = UidSlot::take(slots, passwd).map_err(|error| {
        let next = "see that the state folder is writable and user ids from 60000 are mapped here";
        Refusal::new(Code::Host, "a user id for the command", error.to_string(), next)
    })?;
    let (uid, gid) = (slot.uid, slot.uid);
    let identity = Identity { uid, gid, swapped_with: None, same_user: false, taken: true };
    Ok(Chosen { identity, userns: None, slot: Some(slot) })
}

/// Where the file system cannot be id-mapped, only the owner can write what the owner has.
fn as_owner(workspace: &Workspace, profile: &Profile, why: &str) -> Result<Chosen, Refusal> {
    let (uid, gid) = workspace.owner;
    if (uid == 0 || gid == 0) && !profile.run_as_owner {
        return Err(Refusal::new(
            Code::Workspace,
            Text::from(workspace.path.as_path()).shown(),
            format!("it belongs to root, and {why}: a command that writes there would be uid 0"),
            format!(
                "chown -R it to an ordinary user, or set run_as_owner = true in profile {}",
                profile.name
            ),
        ));
    }
    let identity = Identity { uid, gid, swapped_with: None, same_user: false, taken: false };
    Ok(Chosen { identity, userns: None, slot: None })
}
