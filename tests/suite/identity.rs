//! A bare name stands for one file that nobody but root and this user could have put there, and
//! that file, its interpreter and its loader are all that a looking command may execute.

use crate::config::{TOOL, edit};
use crate::input::{hex, refused};
use crate::support::{Answer, Env, copy_program, is_root, skip};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CALL: [&str; 3] = ["--json", "--", "made-up"];

/// A user that is neither root nor the one who runs this.
const STRANGER: u32 = 12_345;

/// A template of `made-up` for a shell that is given its text.
const SHELL: &str = "flags = [\"-c\"]\noperands = { kind = \"message\", min = 1, max = 1 }\n";

/// A host whose catalog lists `made-up`, which is not there yet.
fn host() -> Option<Env> {
    let env = Env::new()?;
    edit(&env, "catalog.toml", |text| format!("{text}{TOOL}"));
    Some(env)
}

fn real(env: &Env, name: &str) -> PathBuf {
    fs::canonicalize(env.path(name)).expect("it is there")
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Puts a program at a path of the host, and makes the folders on the way.
fn put(env: &Env, from: &str, name: &str) {
    let path = env.path(name);
    let folder = path.parent().expect("a folder");
    fs::create_dir_all(folder).expect("folders");
    copy_program(Path::new(from), &path);
    for above in folder.ancestors().take_while(|above| *above != env.path("")) {
        mode(above, 0o755);
    }
    mode(&path, 0o755);
}

/// Puts a script at a path of the host.
fn script(env: &Env, name: &str, text: &str) {
    fs::write(env.path(name), text).expect("a script");
    mode(&env.path(name), 0o755);
}

fn runs(env: &Env, why: &str) -> Answer {
    let answer = env.run(&CALL);
    assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{why}: {answer:?}");
    answer
}

/// The program is unavailable, by a reason that names this place.
fn unavailable(env: &Env, place: &Path, reason: &str) {
    refused(env, &CALL, "program-unavailable", &format!("{} {reason}", place.display()));
}

/// Each way to let others change one of these places makes the program unavailable, and taken
/// back it runs again.
fn each_place_is_looked_at(env: &Env, places: &[&str]) {
    runs(env, "nothing is wrong yet");
    let own_gid = fs::metadata(env.path("home")).expect("a folder").gid();
    for name in places {
        let place = real(env, name);
        for bits in [0o757, 0o777, 0o1757] {
            mode(&place, bits);
            // In a sticky folder of root nobody can replace what is another's.
            if bits == 0o1757 && is_root() && place.is_dir() {
                runs(env, "a sticky folder of root");
            } else {
                unavailable(env, &place, "can be written by others");
            }
        }
        mode(&place, 0o775);
        if own_gid != 0 {
            unavailable(env, &place, "can be written by others");
        } else {
            runs(env, "the group is root's own");
        }
        if is_root() {
            chown(&place, None, Some(STRANGER)).expect("a group");
            unavailable(env, &place, "can be written by others");
            mode(&place, 0o755);
            runs(env, "a group that may not write");
            chown(&place, None, Some(0)).expect("a group");
            chown(&place, Some(STRANGER), None).expect("given away");
            unavailable(env, &place, "belongs to another user");
            chown(&place, Some(0), None).expect("taken back");
        }
        mode(&place, 0o755);
        runs(env, "taken back");
    }
    if !is_root() {
        skip("only root can give files away");
    }
}

#[test]
fn every_folder_and_link_on_the_way_to_a_program_is_looked_at() {
    let Some(env) = host() else { return };
    put(&env, "/bin/true", "store/deep/true");
    fs::create_dir_all(env.path("links")).expect("a folder");
    mode(&env.path("links"), 0o755);
    symlink("../store/deep/../deep/true", env.path("links/true")).expect("a link");
    symlink(env.path("links/true"), env.path("bin/made-up")).expect("a link");
    let on_the_way = ["bin", "links", "store", "store/deep", "store/deep/true"];
    each_place_is_looked_at(&env, &on_the_way);
    if is_root() {
        let link = env.path("links/true");
        nix::unistd::fchownat(
            AT_FDCWD,
            &link,
            Some(STRANGER.into()),
            None,
            nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .expect("given away");
        let link = real(&env, "links").join("true");
        unavailable(&env, &link, "belongs to another user");
    }
}

/// An access list as `acl(5)` has it: the owner, one more user, group, mask and others may all
/// read and execute, and the user may write.
fn let_another_user_write(path: &Path) {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 7, u32::MAX),
        (0x02, 7, 12_345),
        (0x04, 5, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 5, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(may.to_le_bytes()));
        list.extend(id.to_le_bytes());
    }
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL");
    let name = c"system.posix_acl_access";
    let set = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), list.as_ptr().cast(), list.len(), 0)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_program_or_rule_that_an_access_list_lets_another_user_write_is_not_trusted() {
    let Some(env) = host() else { return };
    put(&env, "/bin/echo", "bin/made-up");
    runs(&env, "no access list");
    let program = real(&env, "bin/made-up");
    let_another_user_write(&program);
    unavailable(&env, &program, "can be written by others");
    put(&env, "/bin/echo", "bin/made-up");
    runs(&env, "a file of its own again");
    let_another_user_write(&env.path("config/catalog.toml"));
    let answer = env.run(&CALL);
    assert_eq!((answer.code, answer.refusal()), (125, "config"), "{answer:?}");
}

#[test]
fn every_folder_on_the_way_to_the_interpreter_of_a_script_is_looked_at() {
    let Some(env) = host() else { return };
    put(&env, "/bin/sh", "store/deep/shell");
    script(&env, "bin/made-up", &format!("#!{}\n", env.path("store/deep/shell").display()));
    each_place_is_looked_at(&env, &["bin/made-up", "store", "store/deep", "store/deep/shell"]);
}

#[test]
fn a_program_that_a_link_of_the_workspace_leads_to_is_unavailable() {
    let Some(env) = host() else { return };
    let link = env.workspace().join("link");
    symlink("/bin/true", &link).expect("a link");
    symlink(&link, env.path("bin/made-up")).expect("a link");
    let inside = "is inside the workspace";
    unavailable(&env, &real(&env, "ws"), inside);
    let interpreter = env.workspace().join("shell");
    copy_program(Path::new("/bin/sh"), &interpreter);
    fs::remove_file(env.path("bin/made-up")).expect("the link");
    script(&env, "bin/made-up", &format!("#!{}\n", interpreter.display()));
    unavailable(&env, &real(&env, "ws"), inside);
    // The same program for another workspace.
    fs::create_dir(env.path("other")).expect("a folder");
    let other = env.path("other");
    let words = ["--json", "--workspace", other.to_str().expect("UTF-8"), "--", "made-up"];
    assert_eq!(env.run(&words).code, 0);
}

#[test]
fn a_program_in_a_folder_that_any_profile_may_write_is_unavailable() {
    let Some(env) = host() else { return };
    put(&env, "/bin/sh", "kept/deep/shell");
    symlink(env.path("kept"), env.path("alias")).expect("a link");
    let shell = env.path("kept/deep/shell");
    symlink(&shell, env.path("bin/made-up")).expect("a link");
    let as_script = |env: &Env| {
        fs::remove_file(env.path("bin/made-up")).expect("the link");
        script(env, "bin/made-up", &format!("#!{}\n", shell.display()));
    };
    let profile = env.path("config/profiles/writer.toml");
    // No template names the profile: another catalog, or a session, could.
    let writes = |place: &str| {
        let text = format!(
            "schema = 1\nname = \"writer\"\nwhy = \"For a test.\"\ninherits = \"base\"\n\
             rung = \"B\"\n[[write]]\npath = \"{}\"\nwhy = \"w\"\n",
            env.path(place).display()
        );
        fs::write(&profile, text).expect("a profile");
    };
    let reason = "is inside a folder that a profile lets commands write";
    for of_script in [false, true] {
        if of_script {
            as_script(&env);
        }
        for place in ["kept", "kept/deep", "kept/deep/shell", "alias"] {
            writes(place);
            unavailable(&env, &real(&env, place), reason);
        }
        // Beside it, and below its folder, are other places.
        for place in ["home", "kept/none", "kept/deep/shell2"] {
            writes(place);
            runs(&env, place);
        }
    }
}

#[test]
fn env_in_a_script_stands_for_a_name_that_is_looked_up_as_programs_are() {
    let Some(env) = host() else { return };
    let call = || env.command(&["run", "--json", "--", "made-up"]);
    script(&env, "bin/made-up", "#!/usr/bin/env own-shell\necho \"$0\"\n");
    // It is only on the caller's own path, or in the workspace.
    put(&env, "/bin/sh", "callers/own-shell");
    copy_program(Path::new("/bin/sh"), &env.workspace().join("own-shell"));
    let path = format!("{}:{}:/usr/bin", env.path("callers").display(), env.workspace().display());
    let mut control = std::process::Command::new(env.path("bin/made-up"));
    let control = control.env("PATH", &path).output().expect("the script starts");
    assert!(control.status.success(), "outside, env finds it: {control:?}");
    let answer = Answer::of(call().env("PATH", &path).output().expect("pinfold starts"));
    assert_eq!((answer.code, answer.refusal()), (127, "program-unavailable"), "{answer:?}");
    refused(&env, &CALL, "program-unavailable", "own-shell is not installed in");
    put(&env, "/bin/sh", "bin/own-shell");
    let answer = runs(&env, "it is where programs are");
    assert_eq!(answer.stdout().trim(), real(&env, "bin/made-up").to_str().expect("UTF-8"));
    let intent = env.records_of("intent").pop().expect("an intent");
    let shell = real(&env, "bin/own-shell");
    assert_eq!(intent["interpreter"]["path"], shell.to_str().expect("UTF-8"), "{intent}");
    let digest = hex(&Sha256::digest(fs::read(shell).expect("a program")));
    assert_eq!(intent["interpreter"]["sha256"], digest, "{intent}");
    for (text, why) in [
        ("#!/usr/bin/env -S own-shell -e\n", "uses env for more than a name"),
        ("#!/usr/bin/env ./own-shell\n", "it is not a bare name"),
        ("#!own-shell\n", "names a relative interpreter"),
        ("#!/usr/bin/env none-such\n", "none-such is not installed in"),
    ] {
        script(&env, "bin/made-up", text);
        refused(&env, &CALL, "program-unavailable", why);
    }
}

/// One file under several names: what it does depends on the name, and so does the decision.
#[test]
fn of_a_program_with_many_names_only_the_listed_ones_pass_and_each_is_called_by_its_own() {
    let Some(env) = Env::new() else { return };
    put(&env, "/bin/sh", "store/multi");
    for name in ["pick", "peek", "drop"] {
        symlink("../store/multi", env.path("bin").join(name)).expect("a link");
    }
    fs::hard_link(env.path("store/multi"), env.path("bin/multi")).expect("a second name");
    for name in ["pick", "peek"] {
        env.template(name, "", ("none", "none"), SHELL);
    }
    for name in ["pick", "peek"] {
        assert_eq!(env.cmd(&[name, "-c", "echo $0"]).stdout(), format!("{name}\n"));
    }
    let intents = env.records_of("intent");
    assert_eq!(intents[0]["program"], intents[1]["program"], "one file, one digest");
    for (name, code) in [
        ("drop", "unknown-program"),
        ("multi", "unknown-program"),
        ("./pick", "program-path"),
        ("Pick", "unknown-program"),
    ] {
        let answer = env.cmd(&[name, "-c", "echo $0"]);
        assert_eq!((answer.outcome(), answer.refusal()), ("refused", code), "{answer:?}");
    }
    assert_eq!(env.records_of("intent").len(), 2);
}

#[test]
fn busybox_is_the_listed_program_and_none_of_its_others() {
    let Some(busybox) =
        ["/usr/bin/busybox", "/bin/busybox"].into_iter().find(|path| Path::new(path).exists())
    else {
        return skip("busybox is not installed");
    };
    let Some(env) = Env::new() else { return };
    put(&env, busybox, "bin/busybox");
    for name in ["cat", "rm", "sh"] {
        symlink("busybox", env.path("bin").join(name)).expect("a link");
    }
    env.file("a.txt", "a\n");
    let answer = env.cmd(&["cat", "a.txt"]);
    assert_eq!((answer.code, answer.stdout()), (0, "a\n"), "{answer:?}");
    let intent = env.records_of("intent").pop().expect("an intent");
    let file = real(&env, "bin/busybox");
    assert_eq!(intent["program"]["path"], file.to_str().expect("UTF-8"), "{intent}");
    for call in [&["rm", "a.txt"][..], &["sh", "-c", "rm a.txt"], &["busybox", "rm", "a.txt"]] {
        assert_eq!(env.cmd(call).refusal(), "instead", "{call:?}");
    }
    // The control: by its other name the same file removes it.
    let mut rm = std::process::Command::new(env.path("bin/rm"));
    assert!(rm.arg("a.txt").current_dir(env.workspace()).status().expect("it starts").success());
    assert!(!env.workspace().join("a.txt").exists());
}

/// The digest of a file is remembered; what tells that it is old is nothing that a writer can set.
#[test]
fn a_pinned_program_that_is_rewritten_with_its_old_size_and_time_is_unavailable() {
    let Some(env) = host() else { return };
    put(&env, "/bin/true", "bin/made-up");
    let path = env.path("bin/made-up");
    let content = fs::read(&path).expect("the program");
    let good = hex(&Sha256::digest(&content));
    edit(&env, "catalog.toml", |text| format!("{text}sha256 = \"sha256:{good}\"\n"));
    let found = fs::metadata(&path).expect("the program");
    let entry = env.path("state/cache").join(format!("{}-{}", found.dev(), found.ino()));
    let start = Instant::now();
    while !entry.exists() {
        runs(&env, "the digest is the pinned one");
        assert!(start.elapsed() < Duration::from_secs(20), "the digest is never remembered");
        std::thread::sleep(Duration::from_millis(300));
    }
    let mut other = content.clone();
    *other.last_mut().expect("a byte") ^= 1;
    let file = fs::File::options().write(true).open(&path).expect("the program");
    std::io::Write::write_all(&mut &file, &other).expect("rewritten");
    file.set_modified(found.modified().expect("a time")).expect("the old time");
    drop(file);
    let now = fs::metadata(&path).expect("the program");
    assert_eq!((now.ino(), now.size(), now.mtime()), (found.ino(), found.size(), found.mtime()));
    refused(&env, &CALL, "program-unavailable", &hex(&Sha256::digest(&other)));
    let file = fs::File::options().write(true).open(&path).expect("the program");
    std::io::Write::write_all(&mut &file, &content).expect("rewritten");
    drop(file);
    runs(&env, "the pinned content again");
}

/// Two programs change places all the time. Which of them a call gets is a matter of luck; that
/// the record names the one that ran is not.
#[test]
fn a_program_that_is_exchanged_between_the_pin_and_the_start_is_not_started() {
    let Some(env) = host() else { return };
    put(&env, "/bin/echo", "bin/made-up");
    put(&env, "/bin/pwd", "bin/other");
    let digest = |from: &str| hex(&Sha256::digest(fs::read(from).expect("a program")));
    let (echo, pwd) = (digest("/bin/echo"), digest("/bin/pwd"));
    let (stop, mut ran, mut stopped) = (AtomicBool::new(false), 0, 0);
    std::thread::scope(|scope| {
        let exchanges = scope.spawn(|| {
            let (one, other) = (env.path("bin/made-up"), env.path("bin/other"));
            while !stop.load(Ordering::Relaxed) {
                let flag = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &one, AT_FDCWD, &other, flag).expect("exchanged");
                std::thread::sleep(Duration::from_millis(7));
            }
        });
        let start = Instant::now();
        while (ran == 0 || stopped == 0 || ran + stopped < 30)
            && start.elapsed() < Duration::from_secs(60)
        {
            let answer = env.run(&CALL);
            if answer.outcome() != "ok" {
                let told = answer.reply["message"].as_str().unwrap_or_default();
                assert!(told.contains(". Nothing ran. "), "{answer:?}");
                assert_eq!(answer.stdout(), "", "something ran");
                stopped += 1;
                continue;
            }
            let intent = env.records_of("intent").pop().expect("an intent");
            let wanted = if answer.stdout() == "\n" { &echo } else { &pwd };
            assert_eq!(intent["program"]["sha256"], *wanted, "{answer:?}");
            ran += 1;
        }
        stop.store(true, Ordering::Relaxed);
        exchanges.join().expect("no exchange failed");
    });
    assert!(ran > 0 && stopped > 0, "{ran} ran, {stopped} were stopped");
    // The control: left alone, it runs.
    runs(&env, "nothing is exchanged");
}

#[test]
fn a_looking_command_executes_the_pinned_program_and_no_other_that_it_can_read() {
    let Some(env) = Env::new() else { return };
    let probe = real(&env, "bin/probe");
    let probe = probe.to_str().expect("UTF-8");
    for profile in ["look", "repo"] {
        if profile == "repo" {
            env.repository();
        }
        env.denied(profile, &["exec", "/bin/echo", "ok"], &["EACCES"]);
        env.allowed(profile, &["read", "/bin/echo"]);
        env.allowed(profile, &["exec", probe, "again", "read", "/bin/echo"]);
    }
    env.allowed("build", &["exec", "/bin/echo", "ok"]);
}

#[test]
fn the_interpreter_of_a_script_may_be_executed_and_the_script_may_not() {
    let Some(env) = Env::new() else { return };
    put(&env, "/bin/sh", "bin/own-shell");
    let shell = real(&env, "bin/own-shell");
    let shell = shell.to_str().expect("UTF-8");
    let text = format!(
        "#!/usr/bin/env own-shell\n{shell} -c 'echo shell'\n/bin/echo echo\n\"$0\" again\n"
    );
    script(&env, "bin/made-up", &text);
    let keys = "operands = { kind = \"none\" }\n";
    env.template("made-up", "", ("none", "look"), keys);
    edit(&env, "catalog.toml", |text| {
        text.replace("match = [\"made-up -c x\"]", "match = [\"made-up\"]")
    });
    let answer = env.run(&CALL);
    assert_eq!((answer.code, answer.stdout()), (126, "shell\n"), "{answer:?}");
    let said = answer.reply["stderr"].as_str().unwrap_or_default();
    assert_eq!(said.matches("Permission denied").count(), 2, "{said}");
}

/// The tests above would see it if this layer were missing.
#[test]
fn without_landlock_a_looking_command_executes_whatever_it_can_read() {
    let Some(env) = Env::without("landlock") else { return };
    for profile in ["look", "repo"] {
        if profile == "repo" {
            env.repository();
        }
        env.allowed(profile, &["exec", "/bin/echo", "ok"]);
    }
}
