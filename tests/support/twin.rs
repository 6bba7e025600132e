//! Acts in a twin: what a command must not do is done outside first, to a copy of the same
//! tree, and the tree that the attempts were made on must be unchanged to the last bit.

use super::{Env, copy_program, is_root};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Groups of `[[read]]` and the like that make a profile writing.
pub const WRITES: &str = "[[read]]\npath = \"{workspace}\"\nwhy = \"w\"\n\
     [[write]]\npath = \"{workspace}\"\nwhy = \"w\"\n\
     [[execute]]\npath = \"{workspace}\"\nwhy = \"w\"\n";

/// Most operands of the probe's templates.
const OPERANDS: usize = 32;

impl Env {
    /// Adds a profile that executes the system's programs and grants what `body` says, with a
    /// template of the probe under its name. `access` is the template's.
    pub fn profile(&self, name: &str, access: &str, body: &str) {
        let profile = format!(
            "schema = 1\nname = \"{name}\"\nwhy = \"For a test.\"\ninherits = \"base\"\n\
             rung = \"B\"\n{body}\n[[execute]]\npath = \"{{system}}\"\nwhy = \"a shell\"\n\
             [syscalls]\nsets = [\"base\", \"files\", \"threads\", \"sockets-local\"]\n"
        );
        let path = self.path(&format!("config/profiles/{name}.toml"));
        fs::write(path, profile).expect("a profile");
        let operands = "{ kind = \"text\", min = 0, max = 60 }";
        self.template("probe", name, (access, name), &format!("operands = {operands}\n"));
    }

    /// Adds a template: `program sub …` under a profile, with the rest of its keys.
    pub fn template(&self, program: &str, sub: &str, (access, profile): (&str, &str), keys: &str) {
        let catalog = self.path("config/catalog.toml");
        let mut text = fs::read_to_string(&catalog).expect("the catalog");
        let listed = format!(", \"{profile}\"");
        let head = text.find("profiles  = [").expect("the list of profiles");
        let end = head + text[head..].find(']').expect("its end");
        if !text[head..end].contains(&format!("\"{profile}\"")) {
            text.insert_str(end, &listed);
        }
        let sub_key = if sub.is_empty() { String::new() } else { format!("sub = [\"{sub}\"]\n") };
        let id = format!("t-{program}-{sub}");
        let example = match sub {
            "" => format!("{program} -c x"),
            _ => format!("{program} {sub} x"),
        };
        let id = id.trim_end_matches('-');
        text.push_str(&format!(
            "\n[[tool]]\nid = \"{id}\"\nprogram = \"{program}\"\n{sub_key}\
             describe = \"For a test.\"\naccess = \"{access}\"\ndecision = \"auto\"\n\
             profile = \"{profile}\"\ntimeout_s = 60\noutput_kib = 4096\n{keys}\
             match = [\"{example}\"]\nno_match = [\"{program} --no\"]\n"
        ));
        fs::write(&catalog, text).expect("the catalog");
    }

    /// Adds a shell of the test's own, `NAME -c TEXT`, under a profile; the catalog refuses the
    /// host's by name.
    pub fn shell(&self, name: &str, access: &str, profile: &str) {
        copy_program(Path::new("/bin/sh"), &self.path("bin").join(name));
        // A script is one operand, so its text may be anything.
        let keys = "flags = [\"-c\"]\noperands = { kind = \"message\", min = 1, max = 1 }\n";
        self.template(name, "", (access, profile), keys);
    }

    /// Each act succeeds in a twin of `place`, outside, and fails with one of `errnos` on
    /// `place` itself, inside. `make` fills the folder; `@` at the head of a word stands for it.
    /// Nothing at `place` may change.
    pub fn denied_on(
        &self,
        profile: &str,
        place: &Path,
        make: &dyn Fn(&Path),
        acts: &[&[&str]],
        errnos: &[&str],
    ) {
        for act in acts {
            let twin = tempfile::tempdir_in(self.path("home")).expect("a folder for the twin");
            let folder = twin.path().join("twin");
            fs::create_dir(&folder).expect("the twin");
            make(&folder);
            let control = words(act, &folder);
            assert_eq!(self.outside(&refs(&control)), "ok", "no control: {act:?}");
        }
        make(place);
        let before = tree(place);
        let attempts: Vec<Vec<String>> = acts.iter().map(|act| words(act, place)).collect();
        for (act, answer) in attempts.iter().zip(self.inside_each(profile, &attempts)) {
            assert!(errnos.contains(&answer.as_str()), "{act:?} in {profile}: {answer}");
        }
        assert_eq!(tree(place), before, "a refused act in {profile} left something");
    }

    /// Does several acts inside, as many in one run as its operands hold.
    pub fn inside_each(&self, profile: &str, acts: &[Vec<String>]) -> Vec<String> {
        let mut answers = Vec::new();
        let mut left = acts;
        while !left.is_empty() {
            let mut line = vec!["all"];
            let mut taken = 0;
            for act in left {
                if line.len() + act.len() + 1 > OPERANDS {
                    break;
                }
                if taken > 0 {
                    line.push(",");
                }
                line.extend(act.iter().map(String::as_str));
                taken += 1;
            }
            let lines = self.inside(profile, &line);
            answers.extend(lines.lines().map(str::to_owned));
            left = &left[taken..];
        }
        assert_eq!(answers.len(), acts.len(), "each act answers with a line: {acts:?}");
        answers
    }

    /// The id of a command inside as the host sees it.
    pub fn inner_uid(&self) -> u32 {
        if !is_root() {
            return nix::unistd::geteuid().as_raw();
        }
        let ids = self.inside("read", &["status", "Uid"]);
        ids.split_whitespace().next().and_then(|id| id.parse().ok()).expect("a uid")
    }

    /// Fills a folder with a file, a folder and a link, and gives all of it to the command
    /// itself, so that only the sandbox can stand between them.
    pub fn fill(&self, owner: u32) -> impl Fn(&Path) + use<> {
        move |folder: &Path| {
            fs::create_dir_all(folder.join("d")).expect("a folder");
            fs::write(folder.join("a"), "old").expect("a file");
            fs::write(folder.join("d/b"), "old").expect("a file");
            if fs::symlink_metadata(folder.join("l")).is_err() {
                std::os::unix::fs::symlink("a", folder.join("l")).expect("a link");
            }
            for path in [folder.to_owned(), folder.join("d")] {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("a mode");
            }
            for name in ["", "a", "d", "d/b"] {
                let path = folder.join(name);
                if is_root() {
                    std::os::unix::fs::chown(path, Some(owner), Some(owner)).expect("an owner");
                }
            }
        }
    }
}

fn words(act: &[&str], place: &Path) -> Vec<String> {
    let word = |word: &&str| match word.strip_prefix('@') {
        Some(rest) => format!("{}{rest}", place.display()),
        None => (*word).to_owned(),
    };
    act.iter().map(word).collect()
}

fn refs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Lists a place and everything below it, with all that can change about each but access times.
pub fn tree(place: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left: Vec<PathBuf> = vec![place.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).expect("a file");
        if found.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        lines.push(line(&path, &found));
    }
    lines.sort();
    lines
}

fn line(path: &Path, found: &fs::Metadata) -> String {
    let (mode, uid, gid) = (found.mode(), found.uid(), found.gid());
    let (links, size, times) = (found.nlink(), found.size(), (found.mtime(), found.mtime_nsec()));
    let changed = (found.ctime(), found.ctime_nsec());
    // What cannot be read, and what is neither file nor link, has no content to compare.
    let content = match found {
        found if found.is_file() => fs::read(path).ok(),
        found if found.is_symlink() => {
            fs::read_link(path).ok().map(|to| to.into_os_string().into_vec())
        }
        _ => None,
    };
    let content = content.map(Sha256::digest);
    format!("{path:?} {mode:o} {uid}:{gid} {links} {size} {times:?} {changed:?} {content:?}")
}

/// Runs a command of the host and returns whether it succeeded.
pub fn host(words: &[&str], folder: &Path) -> bool {
    let done = Command::new(words[0]).args(&words[1..]).current_dir(folder).output();
    done.is_ok_and(|output| output.status.success())
}
