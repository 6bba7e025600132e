//! Identity: from a program's bare name to the one file that it stands for.
//!
//! A file counts only if nobody but root and the supervisor's user could have put it there:
//! every folder on the way, every link and the file itself are looked at. What is found is
//! pinned by device, inode, size and times, so that a later difference is seen. Nothing is
//! executed here, and nothing is written but the cache of digests.
#![forbid(unsafe_code)]

use super::image::{self, Image};
use crate::record::{Code, Digest, ProgramFile, Refusal, Text};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most symbolic links that are followed for one file.
const LINKS_MAX: usize = 40;

/// Most bytes of one entry of the digest cache.
const CACHE_BYTES_MAX: u64 = 256;

/// How old a file's change time must be before its digest is cached, in nanoseconds. A file
/// that changes again within the clock's own step would keep its change time.
const SETTLED_NS: i128 = 2_000_000_000;

const NS_PER_S: i128 = 1_000_000_000;

/// A program that a call may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The bare name, which is also what the program gets as its own name.
    pub name: String,
    /// The file.
    pub file: PinnedFile,
    /// What runs the file, if it is a script.
    pub interpreter: Option<Interpreter>,
    /// The dynamic loader of the file, or of its interpreter.
    pub loader: Option<PinnedFile>,
}

/// The interpreter of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Its file.
    pub file: PinnedFile,
    /// The elements that stand before the script's path in its argv: its own name as
    /// written, and the optional argument.
    pub prefix: Vec<OsString>,
}

/// A file with what tells it from any other, and from itself after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedFile {
    /// The final path, all links followed.
    pub path: PathBuf,
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Change time, in nanoseconds since the epoch.
    pub ctime_ns: i128,
    /// Modification time, in nanoseconds since the epoch.
    pub mtime_ns: i128,
}

impl PinnedFile {
    fn new(path: PathBuf, found: &Metadata) -> Self {
        let (dev, ino, size) = (found.dev(), found.ino(), found.size());
        let ns = |s: i64, ns: i64| i128::from(s) * NS_PER_S + i128::from(ns);
        let ctime_ns = ns(found.ctime(), found.ctime_nsec());
        let mtime_ns = ns(found.mtime(), found.mtime_nsec());
        Self { path, dev, ino, size, ctime_ns, mtime_ns }
    }

    /// Returns whether a file's metadata is still that of the pinned one.
    pub fn is_still(&self, found: &Metadata) -> bool {
        *self == Self::new(self.path.clone(), found)
    }

    /// Opens the file for reading, if it is still the pinned one.
    ///
    /// # Errors
    /// The error of the system, or one of kind `InvalidData` if the file has changed.
    pub fn open(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        self.check(&file)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> io::Result<()> {
        if self.is_still(&file.metadata()?) {
            return Ok(());
        }
        let path = Text::from(self.path.as_path()).escaped();
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{path} has changed")))
    }

    /// Returns the form that is written to the trail.
    pub fn record(&self, sha256: Digest) -> ProgramFile {
        let Self { path, dev, ino, size, ctime_ns, .. } = self;
        let path = Text::from(path.as_path());
        ProgramFile { path, dev: *dev, ino: *ino, size: *size, ctime_ns: *ctime_ns, sha256 }
    }
}

/// Why a name stands for no file that may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The name that was looked up.
    pub name: String,
    /// Why.
    pub reason: String,
    /// What would make it available.
    pub next: String,
    /// The bare name that no folder has: the program's, or that of its interpreter.
    pub absent: Option<String>,
}

impl From<Unavailable> for Refusal {
    fn from(fault: Unavailable) -> Self {
        let what = Text::from(fault.name.as_str()).escaped();
        Refusal::new(Code::ProgramUnavailable, what, fault.reason, fault.next)
    }
}

/// Where programs are looked up, and which folders they must not come from.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The folders in which a name is looked up, in order.
    pub path: &'a [PathBuf],
    /// The supervisor's user: what belongs to it or to root counts as trustworthy.
    pub owner_uid: u32,
    /// The workspace of the call.
    pub workspace: Option<&'a Path>,
    /// Folders outside of the workspace that some profile lets a command write.
    pub written: &'a [PathBuf],
}

/// Looks a bare name up and pins what a start of it needs.
///
/// The first folder that has the name decides: a file that is not trustworthy does not fall
/// back to a later folder. Files count only if they and every folder and link on the way
/// belong to root or the supervisor's user, others cannot write them, and no command could have
/// written them, in the workspace or elsewhere. A folder of root with the sticky bit counts as
/// not writable by others, since they cannot replace what others have in it.
///
/// # Errors
/// Why the program cannot be started, with what would change that.
pub fn resolve(name: &str, places: &Places<'_>) -> Result<Program, Unavailable> {
    let workspace = places.workspace.map(|path| Closed::new(path, "inside the workspace"));
    let written = "inside a folder that a profile lets commands write";
    let written = places.written.iter().map(|path| Closed::new(path, written));
    let closed = workspace.into_iter().chain(written).collect();
    let rules = Rules { path: places.path, owner_uid: places.owner_uid, closed };
    rules.program(name).map_err(|Fault { reason, next, absent }| {
        let name = name.to_owned();
        Unavailable { name, reason, next: next.to_owned(), absent }
    })
}

/// Why a name stands for no file that may be started: parts of sentences, without a full stop.
#[derive(Debug)]
pub(super) struct Fault {
    reason: String,
    next: &'static str,
    absent: Option<String>,
}

impl Fault {
    pub(super) fn new(reason: String, next: &'static str) -> Self {
        Self { reason, next, absent: None }
    }
}

fn fault<T>(reason: String, next: &'static str) -> Result<T, Fault> {
    Err(Fault::new(reason, next))
}

fn show(path: &Path) -> String {
    Text::from(path).escaped()
}

/// A folder that no program may come from.
struct Closed {
    path: PathBuf,
    /// Device and inode, so that the folder is known under another name as well.
    id: Option<(u64, u64)>,
    /// What is said of a file in it.
    why: &'static str,
}

impl Closed {
    fn new(path: &Path, why: &'static str) -> Self {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let id = fs::metadata(&path).ok().map(|found| (found.dev(), found.ino()));
        Self { path, id, why }
    }
}

struct Rules<'a> {
    path: &'a [PathBuf],
    owner_uid: u32,
    closed: Vec<Closed>,
}

impl Rules<'_> {
    fn program(&self, name: &str) -> Result<Program, Fault> {
        let file = self.look_up(name)?;
        let program = |interpreter, loader| Program {
            name: name.to_owned(),
            file: file.clone(),
            interpreter,
            loader,
        };
        match image::read(&file)? {
            Image::Elf { loader } => {
                let loader = loader.map(|loader| self.follow(&loader)).transpose()?;
                Ok(program(None, loader))
            }
            Image::Script { interpreter, argument } => {
                let (interpreter, loader) = self.interpreter(&file, interpreter, argument)?;
                Ok(program(Some(interpreter), loader))
            }
        }
    }

    fn look_up(&self, name: &str) -> Result<PinnedFile, Fault> {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return fault("it is not a bare name".to_owned(), "name a program without a path");
        }
        for folder in self.path {
            let file = folder.join(name);
            match fs::symlink_metadata(&file) {
                Err(error) if is_absent(&error) => {}
                _ => return self.follow(&file),
            }
        }
        let folders: Vec<_> = self.path.iter().map(|folder| show(folder)).collect();
        let reason = format!("{name} is not installed in {}", folders.join(", "));
        let next = "ask the operator to install it there, or to add its folder to `path`";
        Err(Fault { absent: Some(name.to_owned()), ..Fault::new(reason, next) })
    }

    /// Pins what runs a script. `env NAME` is taken for NAME itself, found by the same
    /// rules; `env` gives the program the name as its own.
    fn interpreter(
        &self,
        script: &PinnedFile,
        written: OsString,
        argument: Option<OsString>,
    ) -> Result<(Interpreter, Option<PinnedFile>), Fault> {
        let next = "ask the operator to install the program in another form";
        let is_env = written == "/usr/bin/env" || written == "/bin/env";
        let (file, prefix) = if is_env {
            let name = argument.as_deref().and_then(OsStr::to_str);
            let is_plain = |name: &&str| !name.starts_with('-') && !name.contains(['=', ' ', '\t']);
            let Some(name) = name.filter(is_plain) else {
                let reason = format!("{} uses env for more than a name", show(&script.path));
                return fault(reason, next);
            };
            (self.look_up(name)?, vec![OsString::from(name)])
        } else {
            let file = Path::new(&written);
            if !file.is_absolute() {
                let reason = format!("{} names a relative interpreter", show(&script.path));
                return fault(reason, next);
            }
            (self.follow(file)?, std::iter::once(written).chain(argument).collect())
        };
        let Image::Elf { loader } = image::read(&file)? else {
            let reason = format!("the interpreter {} is a script itself", show(&file.path));
            return fault(reason, next);
        };
        let loader = loader.map(|loader| self.follow(&loader)).transpose()?;
        Ok((Interpreter { file, prefix }, loader))
    }

    /// Follows an absolute path to its final file, one component at a time.
    fn follow(&self, start: &Path) -> Result<PinnedFile, Fault> {
        if !start.is_absolute() {
            let reason = format!("{} is not an absolute path", show(start));
            return fault(reason, "ask the operator to mend `path`");
        }
        let mut at = PathBuf::from("/");
        let mut found = self.look_at(&at)?;
        let mut pending = names(start);
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if !found.is_dir() {
                return fault(format!("{} is not a folder", show(&at)), "ask the operator");
            }
            if name == ".." {
                at.pop();
                found = self.look_at(&at)?;
                continue;
            }
            let entry = at.join(&name);
            found = self.look_at(&entry)?;
            if !found.is_symlink() {
                at = entry;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                let reason = format!("{} leads through too many links", show(start));
                return fault(reason, "ask the operator to mend the links");
            }
            let target = fs::read_link(&entry).map_err(|error| unreadable(&entry, &error))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            let mut target = names(&target);
            target.append(&mut pending);
            pending = target;
            found = self.look_at(&at)?;
        }
        if !found.is_file() || found.mode() & 0o111 == 0 {
            let reason = format!("{} is not an executable file", show(&at));
            return fault(reason, "ask the operator to install the program properly");
        }
        Ok(PinnedFile::new(at, &found))
    }

    /// Looks at one folder, link or file on the way, and refuses what is not trustworthy.
    fn look_at(&self, entry: &Path) -> Result<Metadata, Fault> {
        let found = fs::symlink_metadata(entry).map_err(|error| unreadable(entry, &error))?;
        if found.uid() != 0 && found.uid() != self.owner_uid {
            let reason = format!("{} belongs to another user", show(entry));
            return fault(reason, "ask the operator to install the program as root");
        }
        // With an access list, the group's bits stand for what anybody on that list may do.
        let by_group = found.gid() != 0
            || (found.mode() & 0o020 != 0 && crate::sys::fd::has_access_list(entry));
        let writers = if by_group { 0o022 } else { 0o002 };
        let is_sticky = found.is_dir() && found.uid() == 0 && found.mode() & 0o1000 != 0;
        // A link's own mode says nothing: the folder that holds it decides who may change it.
        if !found.is_symlink() && found.mode() & writers != 0 && !is_sticky {
            let reason = format!("{} can be written by others", show(entry));
            return fault(reason, "ask the operator to take that permission away");
        }
        let lies = |closed: &&Closed| {
            closed.id == Some((found.dev(), found.ino())) || entry.starts_with(&closed.path)
        };
        if let Some(closed) = self.closed.iter().find(lies) {
            let reason = format!("{} is {}", show(entry), closed.why);
            return fault(reason, "ask the operator to install the program outside of it");
        }
        Ok(found)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let reason = format!("{} cannot be looked at: {error}", show(path));
    Fault::new(reason, "ask the operator to install the program properly")
}

/// Splits a path into names and `..`; `.` and empty parts fall away.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

/// Returns the SHA-256 of a pinned file's content, from the cache where the file has not
/// changed since.
///
/// `cache_dir` must be a folder that only the supervisor's user can write; a fault of the
/// cache costs time and nothing else.
///
/// # Errors
/// The file cannot be read, or is not the pinned one any more (`InvalidData`).
pub fn digest(file: &PinnedFile, cache_dir: Option<&Path>) -> io::Result<Digest> {
    let mut open = file.open()?;
    let entry = cache_dir.map(|folder| folder.join(format!("{}-{}", file.dev, file.ino)));
    if let Some(digest) = entry.as_deref().and_then(|entry| cached(entry, file)) {
        return Ok(digest);
    }
    let mut hash = Sha256::new();
    let mut buffer = [0; 1 << 14];
    loop {
        match open.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.check(&open)?;
    let digest = Digest(hash.finalize().into());
    if let Some(entry) = entry.filter(|_| is_settled(file)) {
        // Without the entry the next start hashes again: slower, and just as right.
        let text = format!("{}{digest}\n", cache_key(file));
        crate::sys::fd::replace(&entry, text.as_bytes()).ok();
    }
    Ok(digest)
}

fn is_settled(file: &PinnedFile) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ns = i128::from(now.as_secs()) * NS_PER_S + i128::from(now.subsec_nanos());
    file.ctime_ns.saturating_add(SETTLED_NS) < now_ns
}

/// The part of a cache entry that must be equal for the entry to count.
fn cache_key(file: &PinnedFile) -> String {
    format!("{} {} {} ", file.size, file.mtime_ns, file.ctime_ns)
}

fn cached(entry: &Path, file: &PinnedFile) -> Option<Digest> {
    let mut text = String::new();
    File::open(entry).ok()?.take(CACHE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Digest::from_hex(text.strip_prefix(&cache_key(file))?.strip_suffix('\n')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// A folder with programs, outside of any workspace.
    struct Home {
        dir: TempDir,
        uid: u32,
    }

    impl Home {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let uid = fs::metadata(dir.path()).expect("just made").uid();
            let home = Self { dir, uid };
            home.chmod("", 0o755);
            for folder in ["bin", "lib", "lib/deep"] {
                fs::create_dir(home.at(folder)).expect("a new folder");
                home.chmod(folder, 0o755);
            }
            home
        }

        fn at(&self, name: &str) -> PathBuf {
            fs::canonicalize(self.dir.path()).expect("a folder").join(name)
        }

        fn chmod(&self, name: &str, mode: u32) {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(self.at(name), mode).expect("our own file");
        }

        fn put(&self, name: &str, content: &[u8]) {
            fs::write(self.at(name), content).expect("a new file");
            self.chmod(name, 0o755);
        }

        /// Puts a copy of a real program.
        fn put_elf(&self, name: &str) {
            fs::copy(std::env::current_exe().expect("this test"), self.at(name)).expect("a copy");
            self.chmod(name, 0o755);
        }

        fn link(&self, target: &str, name: &str) {
            symlink(target, self.at(name)).expect("a new link");
        }

        fn path(&self) -> Vec<PathBuf> {
            vec![self.at("none"), self.at("bin")]
        }

        fn find(&self, name: &str) -> Result<Program, Unavailable> {
            self.look(name, self.uid, None, &[])
        }

        fn look(
            &self,
            name: &str,
            owner_uid: u32,
            workspace: Option<&Path>,
            written: &[PathBuf],
        ) -> Result<Program, Unavailable> {
            let path = self.path();
            resolve(name, &Places { path: &path, owner_uid, workspace, written })
        }

        #[track_caller]
        fn check_fault(&self, name: &str, reason: &str) {
            let fault = self.find(name).expect_err("not available");
            assert!(fault.reason.contains(reason), "{fault:?}");
            assert!(!fault.next.is_empty());
        }
    }

    #[test]
    fn links_are_followed_to_the_final_file() {
        let home = Home::new();
        home.put_elf("lib/deep/tool");
        home.link("../lib/./tool", "bin/tool");
        home.link(home.at("lib/deep/../deep/tool").to_str().expect("UTF-8"), "lib/tool");
        let program = home.find("tool").expect("available");
        assert_eq!((program.name.as_str(), program.interpreter), ("tool", None));
        assert_eq!(program.file.path, home.at("lib/deep/tool"));
        let found = fs::metadata(home.at("bin/tool")).expect("there");
        assert!(program.file.is_still(&found));
        home.put("bin/script", b"#!/bin/sh\n");
        assert!(!program.file.is_still(&fs::metadata(home.at("bin/script")).expect("there")));
    }

    #[test]
    fn the_loader_of_a_program_is_pinned() {
        let home = Home::new();
        home.put_elf("bin/tool");
        let program = home.find("tool").expect("available");
        if cfg!(target_feature = "crt-static") {
            assert_eq!(program.loader, None);
        } else {
            let loader = program.loader.expect("a dynamic program");
            assert!(fs::symlink_metadata(&loader.path).expect("there").is_file());
        }
    }

    #[test]
    fn a_script_has_an_interpreter() {
        let home = Home::new();
        home.put_elf("lib/run");
        home.put_elf("bin/named");
        let run = home.at("lib/run");
        home.put("bin/plain", format!("#! {}\n", run.display()).as_bytes());
        home.put("bin/argued", format!("#!{}\t-a b \nx", run.display()).as_bytes());
        home.put("bin/env1", b"#!/usr/bin/env named");
        let interpreter = |name: &str| {
            let program = home.find(name).expect("available");
            assert_eq!(program.file.path, home.at("bin").join(name));
            program.interpreter.expect("a script")
        };
        let plain = interpreter("plain");
        assert_eq!((plain.file.path, plain.prefix), (run.clone(), vec![run.clone().into()]));
        assert_eq!(interpreter("argued").prefix, [run.into_os_string(), "-a b".into()]);
        let env = interpreter("env1");
        assert_eq!((env.file.path, env.prefix), (home.at("bin/named"), vec!["named".into()]));
    }

    #[test]
    fn a_script_that_cannot_be_started_exactly_is_unavailable() {
        let home = Home::new();
        home.put_elf("bin/named");
        home.put("bin/nested", format!("#!{}\n", home.at("bin/plain").display()).as_bytes());
        home.put("bin/plain", format!("#!{}\n", home.at("bin/named").display()).as_bytes());
        home.put("bin/relative", b"#!named\n");
        home.put("bin/option", b"#!/usr/bin/env -S named x\n");
        home.put("bin/setting", b"#!/usr/bin/env A=b\n");
        home.put("bin/alone", b"#!/usr/bin/env\n");
        home.put("bin/slash", b"#!/usr/bin/env ./named\n");
        home.put("bin/absent", b"#!/usr/bin/env absent-program\n");
        home.put("bin/text", b"echo\n");
        home.check_fault("nested", "is a script itself");
        home.check_fault("relative", "names a relative interpreter");
        home.check_fault("option", "uses env for more than a name");
        home.check_fault("setting", "uses env for more than a name");
        home.check_fault("alone", "uses env for more than a name");
        home.check_fault("slash", "it is not a bare name");
        home.check_fault("absent", "absent-program is not installed");
        home.check_fault("text", "neither a 64-bit ELF program nor a script");
    }

    #[test]
    fn what_others_can_write_is_unavailable() {
        let home = Home::new();
        home.put_elf("lib/deep/tool");
        home.link("../lib/deep/tool", "bin/tool");
        home.find("tool").expect("available");
        for (mode, name, sound) in
            [(0o777, "lib", 0o755), (0o1777, "bin", 0o755), (0o757, "lib/deep/tool", 0o755)]
        {
            home.chmod(name, mode);
            if mode == 0o1777 && home.uid == 0 {
                home.find("tool").expect("a sticky folder of root");
            } else {
                home.check_fault("tool", "can be written by others");
            }
            home.chmod(name, sound);
        }
        let gid = fs::metadata(home.at("lib")).expect("there").gid();
        home.chmod("lib", 0o775);
        assert_eq!(home.find("tool").is_ok(), gid == 0);
        if home.uid != 0 {
            home.chmod("lib", 0o755);
            let fault = home.look("tool", home.uid + 1, None, &[]).expect_err("foreign");
            assert!(fault.reason.contains("belongs to another user"), "{fault:?}");
        } else {
            std::os::unix::fs::chown(home.at("lib/deep"), Some(4242), None).expect("as root");
            home.chmod("lib", 0o755);
            home.check_fault("tool", "belongs to another user");
        }
    }

    #[test]
    fn what_is_inside_the_workspace_is_unavailable() {
        let home = Home::new();
        home.put_elf("lib/deep/tool");
        home.link("../lib/deep/tool", "bin/tool");
        for workspace in ["lib", "lib/deep", "bin"] {
            let workspace = home.at(workspace);
            let fault = home.look("tool", home.uid, Some(&workspace), &[]);
            let fault = fault.expect_err("inside");
            assert!(fault.reason.contains("is inside the workspace"), "{fault:?}");
        }
        home.link("lib", "alias");
        let fault = home.look("tool", home.uid, Some(&home.at("alias")), &[]);
        assert!(fault.is_err(), "a workspace by another name");
        fs::create_dir(home.at("work")).expect("a new folder");
        let elsewhere = home.at("work");
        home.look("tool", home.uid, Some(&elsewhere), &[]).expect("outside");
    }

    #[test]
    fn what_is_no_program_is_unavailable() {
        let home = Home::new();
        home.put("bin/data", b"#!/bin/sh\n");
        home.chmod("bin/data", 0o644);
        home.link("loop", "bin/loop");
        home.link("nowhere", "bin/dangling");
        home.link("../lib", "bin/folder");
        home.check_fault("data", "is not an executable file");
        home.check_fault("folder", "is not an executable file");
        home.check_fault("loop", "too many links");
        home.check_fault("dangling", "cannot be looked at");
        home.check_fault("missing", "missing is not installed in");
        home.check_fault("../bin/data", "it is not a bare name");
        let refusal = Refusal::from(home.find("missing").expect_err("missing"));
        assert_eq!((refusal.code, refusal.counted), (Code::ProgramUnavailable, false));
        assert!(refusal.next().contains("install it"), "{refusal}");
    }

    #[test]
    fn a_digest_is_of_the_pinned_content_only() {
        let home = Home::new();
        home.put("bin/script", b"#!/bin/sh\n");
        let found = fs::metadata(home.at("bin/script")).expect("there");
        let file = PinnedFile::new(home.at("bin/script"), &found);
        let wanted = Digest(Sha256::digest(b"#!/bin/sh\n").into());
        assert_eq!(digest(&file, None).expect("readable"), wanted);
        assert_eq!(digest(&file, Some(&home.at("no-cache"))).expect("readable"), wanted);
        assert_eq!(file.record(wanted).size, 10);
        home.put("bin/script", b"#!/bin/dash\n");
        let error = digest(&file, None).expect_err("changed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_cache_entry_counts_only_for_the_same_file() {
        let home = Home::new();
        home.put("bin/script", b"#!/bin/sh\n");
        let found = fs::metadata(home.at("bin/script")).expect("there");
        let file = PinnedFile::new(home.at("bin/script"), &found);
        let entry = home.at(&format!("lib/{}-{}", file.dev, file.ino));
        let odd = Digest([7; 32]);
        let text = format!("{}{odd}\n", cache_key(&file));
        crate::sys::fd::replace(&entry, text.as_bytes()).expect("a new entry");
        assert_eq!(fs::metadata(&entry).expect("there").mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.at("lib")).expect("a folder").count(), 2);
        assert_eq!(digest(&file, Some(&home.at("lib"))).expect("readable"), odd);
        let mut other = file.clone();
        other.ctime_ns += 1;
        assert_eq!(cached(&entry, &other), None);
        fs::write(&entry, "torn").expect("our own file");
        let wanted = Digest(Sha256::digest(b"#!/bin/sh\n").into());
        assert_eq!(digest(&file, Some(&home.at("lib"))).expect("readable"), wanted);
        assert_eq!(fs::read(&entry).expect("there"), b"torn", "too young to be cached");
        other.ctime_ns = 0;
        assert!(is_settled(&other) && !is_settled(&file));
    }
}
