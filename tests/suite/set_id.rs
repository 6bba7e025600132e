//! No command can leave a file behind that runs as somebody else: set-user-id and set-group-id
//! bits are refused in every profile, and device files cannot be made.
//!
//! As root a command writes with the workspace owner's id, so a bit that it could set would make
//! a program of the owner's, who can be root.

use crate::support::{Env, has_set_id, is_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Profiles under which something in the workspace can be made, and the folder where.
const WRITING: [(&str, &str); 4] =
    [("build", "@/d"), ("gate", "@/d"), ("repo", "@/.git/objects"), ("repo-init", "@/d")];

const MODES: [&str; 3] = ["0o4755", "0o2755", "0o6755"];

/// Every call that gives a mode, with `%` for the mode and `~` for the folder.
const CALLS: [&[&str]; 9] = [
    &["chmod", "~/f", "%"],
    &["fchmod", "~/f", "%"],
    &["fchmodat2", "~/f", "%"],
    &["creat", "~/new", "%"],
    // O_CREAT, O_CREAT with O_EXCL and O_TRUNC, and O_TMPFILE.
    &["open-mode", "~/new", "0o100", "%"],
    &["open-mode", "~/new", "0o1300", "%"],
    &["open-mode", "~", "0o20200000", "%"],
    &["mknod", "~/new", "%", "0", "0"],
    &["chmod", "~", "%"],
];

/// A folder with a file and, but for `repo-init`, a repository.
fn make(folder: &Path, repository: bool) {
    fs::create_dir_all(folder.join("d")).expect("a folder");
    fs::write(folder.join("d/f"), "x").expect("a file");
    if repository {
        for name in ["hooks", "info", "modules", "objects", "refs", "logs"] {
            fs::create_dir_all(folder.join(".git").join(name)).expect("folders");
        }
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
        fs::write(folder.join(".git/config"), "").expect("a file");
        fs::write(folder.join(".git/objects/f"), "x").expect("a file");
    }
}

/// Lists everything in a folder that has one of the bits.
fn with_bits(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if has_set_id(&path) {
                found.push(path.display().to_string());
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    found
}

fn acts(folder: &str) -> Vec<Vec<String>> {
    let mut acts: Vec<Vec<String>> = Vec::new();
    for mode in MODES {
        for call in CALLS {
            let word = |word: &&str| word.replace('~', folder).replace('%', mode);
            acts.push(call.iter().map(word).collect());
        }
    }
    for mode in ["0o2777", "0o4777", "0o6777"] {
        acts.push(vec!["mkdir".into(), format!("{folder}/new"), mode.into()]);
    }
    acts
}

#[test]
fn every_call_that_would_set_a_set_id_bit_is_refused_in_every_writing_profile() {
    let Some(env) = Env::new() else { return };
    for (profile, folder) in WRITING {
        let acts = acts(folder);
        let acts: Vec<Vec<&str>> =
            acts.iter().map(|act| act.iter().map(String::as_str).collect()).collect();
        let acts: Vec<&[&str]> = acts.iter().map(Vec::as_slice).collect();
        let repository = profile != "repo-init";
        if !repository {
            fs::remove_dir_all(env.workspace().join(".git")).expect("no repository");
        }
        let fill = |folder: &Path| make(folder, repository);
        env.denied_on(profile, &env.workspace(), &fill, &acts, &["EPERM"]);
        assert_eq!(with_bits(&env.workspace()), Vec::<String>::new(), "{profile}");
    }
}

/// The library picks one call of a family; a program can pick any. The kernel reads 16 bits of a
/// mode, so bits above those must not make the filter look elsewhere.
#[test]
fn no_call_of_a_family_and_no_high_bit_goes_round_the_refusal() {
    let Some(env) = Env::new() else { return };
    let calls = [
        ("chmod", "f"),
        ("fchmodat", "f"),
        ("fchmodat2", "f"),
        ("creat", "new"),
        ("open", "new"),
        ("openat", "new"),
        ("mkdir", "new"),
        ("mkdirat", "new"),
        ("mknod", "new"),
        ("mknodat", "new"),
    ];
    let mut acts: Vec<[String; 4]> = Vec::new();
    for (call, name) in calls {
        for mode in ["0o104755", "0x1000009ed", "0xffff0000000009ed"] {
            // A type of file counts for mknod only; the others drop it.
            acts.push(["mode".into(), call.into(), format!("@/d/{name}"), mode.into()]);
        }
    }
    let acts: Vec<Vec<&str>> =
        acts.iter().map(|act| act.iter().map(String::as_str).collect()).collect();
    let acts: Vec<&[&str]> = acts.iter().map(Vec::as_slice).collect();
    let fill = |folder: &Path| make(folder, false);
    env.denied_on("build", &env.workspace(), &fill, &acts, &["EPERM"]);
    // A pointer hides the mode, so the call is not there at all; libraries fall back.
    let hiding: [&[&str]; 2] =
        [&["mode", "openat2", "@/d/new", "0o4755"], &["mode", "openat2", "@/d/new", "0o755"]];
    env.denied_on("build", &env.workspace(), &fill, &hiding, &["ENOSYS"]);
    assert_eq!(with_bits(&env.workspace()), Vec::<String>::new());
}

#[test]
fn no_command_can_give_a_file_capabilities() {
    let Some(env) = Env::new() else { return };
    let file = env.file("tool", "x");
    if is_root() {
        assert_eq!(env.outside(&["setcap", &file]), "ok", "the control proves nothing");
        fs::remove_file(&file).expect("the control's file");
        env.file("tool", "x");
    }
    for profile in ["build", "gate"] {
        env.refused(profile, &["setcap", &file], &["EPERM"]);
        env.refused(profile, &["setcap", "/tmp"], &["EPERM"]);
    }
}

/// The control above shows that each call succeeds outside; this one that it sets the bit there.
#[test]
fn the_same_calls_set_the_bit_outside() {
    let Some(env) = Env::new() else { return };
    for act in acts("d") {
        make(&env.workspace(), false);
        // A mode given to mkdir loses the bits by the kernel's own rule, and an unnamed file
        // is gone; what the filter refuses there is refused for the sake of simplicity.
        let loses = act[0] == "mkdir" || act[2] == "0o20200000";
        let words: Vec<&str> = act.iter().map(String::as_str).collect();
        assert_eq!(env.outside(&words), "ok", "{act:?}");
        assert_eq!(with_bits(&env.workspace()).is_empty(), loses, "{act:?}");
        fs::remove_dir_all(env.workspace().join("d")).expect("removed");
    }
}

/// What the filter cannot see, because the mode is given as a number: other bits are free.
#[test]
fn plain_modes_work_and_the_sticky_bit_too() {
    let Some(env) = Env::new() else { return };
    make(&env.workspace(), false);
    for act in [
        &["chmod", "d/f", "0o755"][..],
        &["fchmod", "d/f", "0o1644"],
        &["fchmodat2", "d/f", "0o700"],
        &["creat", "d/c", "0o755"],
        &["open-mode", "d/o", "0o100", "0o777"],
        &["open-mode", "d", "0o20200000", "0o600"],
        &["mkdir", "d/m", "0o1777"],
        // Without O_CREAT the mode is no mode: libraries leave anything there.
        &["open-mode", "d/f", "0", "0o6755"],
    ] {
        env.allowed("build", act);
    }
    let mode = env.workspace().join("d/c").metadata().expect("made").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

/// The group bit of a folder is the one that the kernel itself hands on: what is made in such a
/// folder gets its group, and folders made there the bit. It names no program, and nothing that
/// a command passes to the kernel decides it.
#[test]
fn in_a_setgid_folder_files_get_no_bit_and_folders_inherit_it_from_the_kernel() {
    let Some(env) = Env::new() else { return };
    let folder = env.workspace().join("shared");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2775)).expect("a mode");
    assert!(has_set_id(&folder), "the host sets it");
    for mode in MODES {
        env.refused("build", &["open-mode", "shared/x", "0o100", mode], &["EPERM"]);
        env.refused("build", &["mkdir", "shared/x", mode], &["EPERM"]);
        env.refused("build", &["chmod", "shared", mode], &["EPERM"]);
    }
    env.allowed("build", &["open-mode", "shared/file", "0o100", "0o775"]);
    env.allowed("build", &["mkdir", "shared/sub", "0o775"]);
    env.allowed("build", &["open-mode", "shared/sub/file", "0o100", "0o775"]);
    assert!(!has_set_id(&folder.join("file")) && !has_set_id(&folder.join("sub/file")));
    let sub = folder.join("sub").metadata().expect("made").permissions().mode();
    assert_eq!(sub & 0o7000, 0o2000, "inherited, and nothing more: {sub:o}");
    // A program moved or linked there keeps its own mode.
    env.file("program", "x");
    env.allowed("build", &["rename", "program", "shared/program"]);
    assert!(!has_set_id(&folder.join("program")));
}

/// Bits that were there before are not a way either: writing clears them, as anywhere.
#[test]
fn a_set_id_program_of_the_workspace_loses_its_bits_when_written() {
    let Some(env) = Env::new() else { return };
    let file = env.file("tool", "old");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4777)).expect("a mode");
    assert!(has_set_id(Path::new(&file)));
    env.allowed("build", &["write", &file]);
    assert!(!has_set_id(Path::new(&file)), "the content changed and the bit stayed");
}

#[test]
fn a38_block_and_character_devices_cannot_be_made_and_pipes_can() {
    let Some(env) = Env::new() else { return };
    for (name, mode, major, minor) in [("x", "0o60600", "8", "0"), ("y", "0o20600", "1", "1")] {
        let act = ["mknod", name, mode, major, minor];
        if is_root() {
            assert_eq!(env.outside(&act), "ok", "the control proves nothing");
            fs::remove_file(env.workspace().join(name)).expect("the control's device");
        }
        for profile in ["build", "gate", "read"] {
            env.refused(profile, &act, &["EPERM", "EACCES", "EROFS"]);
        }
        for scratch in ["/tmp/x", "/dev/shm/x"] {
            let act = ["mknod", scratch, mode, major, minor];
            env.refused("build", &act, &["EPERM", "EACCES"]);
        }
        assert!(!env.workspace().join(name).exists());
    }
    let fifo = ["mknod", "p", "0o10644", "0", "0"];
    env.allowed("build", &fifo);
    let set_id = ["mknod", "q", "0o14755", "0", "0"];
    env.denied("build", &set_id, &["EPERM"]);
}

/// Renaming can leave a device file behind, if it is asked to.
#[test]
fn a_whiteout_is_not_left_in_the_workspace() {
    let Some(env) = Env::new() else { return };
    env.file("old", "x");
    let act = |name: &str| ["whiteout".to_owned(), "old".to_owned(), name.to_owned()];
    let inside = act("inside");
    let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
    env.refused("build", &inside, &["EPERM"]);
    assert!(env.workspace().join("old").exists() && !env.workspace().join("inside").exists());
    let outside = env.outside(&["whiteout", "old", "outside"]);
    if outside != "ok" {
        return crate::support::skip(&format!("no whiteout can be made outside: {outside}"));
    }
    assert!(env.workspace().join("outside").exists());
}
