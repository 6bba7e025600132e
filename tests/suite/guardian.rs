//! Rung C: a host that forbids namespaces, as containers do. Landlock and seccomp alone hold the
//! command, and a guardian ends its tree.

use crate::lifetime::{assert_gone, send, start_up, tag, wait};
use crate::support::{Env, is_root, processes_with, skip};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Every way to change modes and times.
const MODES_AND_TIMES: [&str; 13] = [
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchmodat2-open",
    "chmod-link",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "utimensat-now",
    "utimensat-nofollow",
    "futimens",
];
/// Ways that are refused everywhere on this rung, with the errno.
const REFUSED: [(&str, &str); 4] =
    [("chown", "EPERM"), ("fchown", "EPERM"), ("lchown", "EPERM"), ("setxattr", "EOPNOTSUPP")];

/// The user that contained commands run as.
fn owner(env: &Env) -> (u32, u32) {
    let found = fs::metadata(env.workspace()).expect("the workspace");
    (found.uid(), found.gid())
}

/// Makes a file outside the workspace that belongs to the command's own user.
fn own_file_outside(env: &Env, name: &str) -> String {
    let path = env.outside_file(name, "outside");
    let (uid, gid) = owner(env);
    std::os::unix::fs::chown(&path, Some(uid), Some(gid)).expect("an owner");
    fs::set_permissions(env.path("config"), fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

/// Does an act outside the sandbox as the user of the contained commands.
fn as_owner(env: &Env, act: &[&str]) -> String {
    let mut probe = Command::new(env.path("bin/probe"));
    probe.arg("outside").args(act).current_dir(env.workspace()).stdin(Stdio::null());
    if is_root() {
        let (uid, gid) = owner(env);
        probe.uid(uid).gid(gid);
    }
    let output = probe.output().expect("the probe starts");
    assert!(output.status.success(), "{act:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A process of the same user that has nothing to do with Pinfold; ended when dropped.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it can be waited for");
    }
}

fn bystander(env: &Env, tag: &str) -> Bystander {
    let mut probe = Command::new(env.path("bin/probe"));
    probe.args(["outside", "up", tag]);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if is_root() {
        let (uid, gid) = owner(env);
        probe.uid(uid).gid(gid);
    }
    Bystander(probe.spawn().expect("the probe starts"))
}

#[test]
fn g03_a_container_without_namespaces_gives_rung_c_and_the_record_says_what_it_lacks() {
    let env = Env::contained();
    let answer = env.cmd(&["probe", "build", "ids"]);
    assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{answer:?}");
    assert_eq!(answer.reply["rung"], "C");
    let layers: Vec<_> = answer.reply["layers"].as_array().into_iter().flatten().collect();
    assert!(layers.iter().any(|layer| *layer == "guardian"), "{layers:?}");
    assert!(!layers.iter().any(|layer| *layer == "mount" || *layer == "pid"), "{layers:?}");
    let told = answer.stdout();
    for none in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(told.contains(&format!("{none}=0000000000000000")), "{told}");
    }
    assert!(told.contains("NoNewPrivs=1 Seccomp=2"), "{told}");
    let (uid, _) = owner(&env);
    assert!(told.contains(&format!("Uid={uid},{uid},{uid},{uid}")), "{told}");
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["rung"], "C");
    let lacks: Vec<_> = intent["lacks"].as_array().expect("a list").iter().collect();
    assert!(lacks.len() >= 8, "{lacks:?}");
    assert!(lacks.iter().any(|lack| lack.as_str().is_some_and(|l| l.contains("memory"))));
    // On a better rung the same record says less.
    let Some(env) = Env::new() else { return };
    env.cmd(&["probe", "build", "ids"]);
    let intent = env.records_of("intent").pop().expect("an intent");
    assert!(intent["lacks"].as_array().is_some_and(|lacks| lacks.len() < 4), "{intent}");
}

#[test]
fn g03_a_profile_that_asks_for_more_is_refused_with_the_layer_and_the_fix() {
    let env = Env::contained();
    let profile = env.path("config/profiles/build.toml");
    let weaker = fs::read_to_string(&profile).expect("a profile");
    fs::write(&profile, weaker.replace("rung = \"C\"", "rung = \"B\"")).expect("a profile");
    let answer = env.cmd(&["probe", "build", "ids"]);
    assert_eq!((answer.code, answer.refusal()), (126, "rung"), "{answer:?}");
    let said = answer.reply["message"].as_str().expect("a message");
    for part in
        ["gives C", "rung B", "namespaces", "seccomp profile", "[rungs] build", "Nothing ran"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.len() < 400, "{} bytes: {said}", said.len());
    // What a command of another profile asks for is another matter.
    assert_eq!(env.cmd(&["probe", "look", "ids"]).code, 0);
}

#[test]
fn modes_and_times_are_changed_inside_by_every_call() {
    let env = Env::contained();
    let file = env.file("sub/inside.txt", "inside");
    env.give_workspace();
    for way in MODES_AND_TIMES {
        let reset = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, reset).expect("a mode");
        for path in [file.as_str(), "sub/inside.txt", "./sub/../sub/inside.txt"] {
            env.allowed("build", &["change", way, path]);
        }
        let found = fs::metadata(&file).expect("the file");
        if way.contains("mod") {
            assert_eq!(found.mode() & 0o7777, 0o640, "{way}");
        } else if way != "utimensat-now" {
            assert_eq!(found.mtime(), 1_000, "{way}");
        }
    }
    // In the scratch folder too, and a folder as well as a file.
    let answer =
        env.cmd(&["probe", "build", "all", "mkdir", "made", ",", "chmod", "made", "0o700"]);
    assert_eq!(answer.stdout(), "ok\nok\n", "{answer:?}");
    // The error of a file that is not there is the file's own.
    env.refused("build", &["change", "chmod", "none"], &["ENOENT"]);
}

#[test]
fn modes_times_owners_and_attributes_outside_are_refused_by_every_way() {
    let env = Env::contained();
    let outside = own_file_outside(&env, "outside.txt");
    let inside = env.file("inside.txt", "inside");
    let link = env.workspace().join("link");
    std::os::unix::fs::symlink(&outside, &link).expect("a link");
    std::os::unix::fs::symlink("..", env.workspace().join("up")).expect("a link");
    env.give_workspace();
    let before = fs::metadata(&outside).expect("the file");
    let paths = [outside.as_str(), "../outside.txt", "link", "up/outside.txt"];
    for way in MODES_AND_TIMES {
        for path in paths {
            let control = as_owner(&env, &["change", way, path]);
            assert_eq!(control, "ok", "the control proves nothing: {way} {path}");
            let reset = fs::Permissions::from_mode(0o666);
            fs::set_permissions(&outside, reset).expect("a mode");
            if way == "utimensat-nofollow" && path == "link" {
                continue; // It is the link itself that changes, and that lies inside.
            }
            let modified = fs::metadata(&outside).expect("the file").mtime();
            env.refused("build", &["change", way, path], &["EPERM", "EACCES"]);
            let after = fs::metadata(&outside).expect("the file");
            assert_eq!((after.mode(), after.mtime()), (before.mode(), modified), "{way} {path}");
        }
    }
    for (way, errno) in REFUSED {
        for path in ["inside.txt", outside.as_str()] {
            let control = as_owner(&env, &["change", way, path]);
            if control == "EOPNOTSUPP" {
                skip("this file system has no attributes");
                continue;
            }
            assert_eq!(control, "ok", "{way} {path}");
            let allowed = [errno, "EACCES"];
            env.refused("build", &["change", way, path], &allowed);
        }
    }
    // Set-id bits are refused inside as on every rung.
    env.refused("build", &["chmod", &inside, "0o4755"], &["EPERM"]);
    // A profile that writes nothing changes nothing.
    for way in ["chmod", "utimensat"] {
        env.refused("read", &["change", way, "inside.txt"], &["EPERM"]);
    }
}

#[test]
fn a_link_that_changes_during_the_call_leads_nowhere_else() {
    let env = Env::contained();
    let outside = own_file_outside(&env, "outside.txt");
    env.file("inside.txt", "inside");
    env.give_workspace();
    let mode = || fs::metadata(&outside).expect("the file").mode() & 0o7777;
    let race = ["race-chmod", "link", "inside.txt", &outside, "700"];
    let control = as_owner(&env, &race);
    assert_eq!(mode(), 0o640, "outside it hits: {control}");
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o666)).expect("a mode");
    let told = env.inside("build", &race);
    let numbers: Vec<u32> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 10 && numbers[1] > 10, "both targets were tried: {told}");
    assert_eq!(mode(), 0o666, "{told}");
}

#[test]
fn what_is_protected_or_masked_stays_so_beside_what_may_be_written() {
    let env = Env::contained();
    env.repository();
    env.file(".env", "SECRET=1");
    env.file("src/a.txt", "a");
    env.file("other/b.txt", "b");
    env.give_workspace();
    env.refused("build", &["read", ".env"], &["EACCES"]);
    env.refused("look", &["read", ".env"], &["EACCES"]);
    for act in [
        &["write", ".git/config"] as &[&str],
        &["create", ".git/hooks/post-commit"],
        &["rename", ".git", "git2"],
        &["rename", ".env", "env2"],
        &["rename", ".env", "src/env"],
        &["link", ".env", "src/env"],
        &["unlink", ".env"],
        &["rename", "src", ".git/src"],
        &["rename", "src/a.txt", ".env"],
        &["create", "new-at-the-top"],
    ] {
        env.refused("build", act, &["EACCES", "EXDEV", "EPERM"]);
    }
    env.refused("build", &["change", "chmod", ".git/config"], &["EPERM"]);
    env.refused("build", &["change", "fchmod", ".git/config"], &["EPERM"]);
    env.refused("build", &["change", "utimensat", ".git"], &["EPERM"]);
    env.allowed("build", &["read", ".git/config"]);
    env.allowed("build", &["write", "src/a.txt"]);
    env.allowed("build", &["create", "src/new"]);
    env.allowed("build", &["rename", "src/new", "other/new"]);
    env.allowed("build", &["chmod", "other/new", "0o700"]);
    let notes = env.records_of("intent").pop().expect("an intent")["notes"].to_string();
    assert!(notes.contains("nothing new can be made directly in"), "{notes}");
    // Without something to keep closed the whole folder is free.
    let free = Env::contained();
    free.allowed("build", &["create", "new-at-the-top"]);
    // Moving and linking between folders works, as anywhere within one writable place (G07).
    for act in [
        &["mkdir", "a"] as &[&str],
        &["mkdir", "b"],
        &["rename", "new-at-the-top", "a/f"],
        &["rename", "a/f", "b/f"],
        &["link", "b/f", "a/g"],
    ] {
        free.allowed("build", act);
    }
    // A profile that must make files beside a protected one cannot be kept here.
    let answer = env.cmd(&["git", "commit", "-m", "x"]);
    assert_eq!((answer.code, answer.refusal()), (126, "rung"), "{answer:?}");
    let status = env.cmd(&["git", "status", "--porcelain"]);
    assert_eq!(status.code, 0, "what only reads runs: {status:?}");
}

#[test]
fn content_outside_is_neither_read_nor_written_nor_executed() {
    let env = Env::contained();
    let outside = own_file_outside(&env, "outside.txt");
    env.file("inside.txt", "inside");
    env.give_workspace();
    for act in [
        &["read", &outside] as &[&str],
        &["write", &outside],
        &["truncate", &outside],
        &["list", "/var/tmp"],
        &["read", "/etc/shadow"],
        &["read", "/proc/1/environ"],
    ] {
        env.refused("build", act, &["EACCES"]);
    }
    assert_eq!(as_owner(&env, &["read", &outside]), "ok");
    let made = format!("{}/made", env.path("home").display());
    env.refused("build", &["create", &made], &["EACCES"]);
    env.refused("look", &["exec", "/bin/true"], &["EACCES"]);
    for act in [
        &["read", "/proc/self/status"] as &[&str],
        &["read", "/proc/meminfo"],
        &["read", "/etc/passwd"],
        &["write", "/dev/null"],
        &["read", "inside.txt"],
    ] {
        env.allowed("build", act);
    }
    // Pinfold's own memory and state are other processes' and other folders.
    let state = env.path("state").display().to_string();
    env.refused("build", &["list", &state], &["EACCES"]);
}

#[test]
fn other_processes_are_neither_signalled_nor_slowed_nor_looked_into() {
    let env = Env::contained();
    let tag = tag();
    let bystander = bystander(&env, &tag);
    let pid = bystander.0.id().to_string();
    for act in [&["kill", &pid, "0"] as &[&str], &["renice", &pid], &["affinity", &pid]] {
        assert_eq!(as_owner(&env, act), "ok", "the control: {act:?}");
        env.refused("build", act, &["EPERM"]);
    }
    env.refused("build", &["signal-parent", "9"], &["EPERM"]);
    env.refused("build", &["read", &format!("/proc/{pid}/cmdline")], &["EACCES"]);
    env.refused("build", &["read", &format!("/proc/{pid}/environ")], &["EACCES"]);
    env.allowed("build", &["renice", "0"]);
    assert_eq!(as_owner(&env, &["shmget"]), "ok");
    env.refused("build", &["shmget"], &["ENOSYS"]);
    drop(bystander);
}

#[test]
fn there_is_no_socket_but_a_pair() {
    let env = Env::contained();
    for family in ["1", "2", "10", "16", "17", "40"] {
        env.refused("build", &["socket", family, "1", "0"], &["EAFNOSUPPORT"]);
    }
    assert_eq!(env.outside(&["socket", "2", "1", "0"]), "ok");
    env.allowed("build", &["socketpair"]);
}

/// Waits until a run has recorded its start, and returns the process id of its guardian.
fn guardian_of(env: &Env) -> i32 {
    let start = Instant::now();
    loop {
        if let Some(started) = env.records_of("started").pop() {
            return started["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a pid");
        }
        assert!(start.elapsed() < Duration::from_secs(5), "no start is recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn others_of_the_commands_id_can_do_nothing_to_roots_supervisor_and_guardian() {
    if !is_root() {
        return skip("an ordinary user's command has the user's own id");
    }
    let env = Env::contained();
    let own = tag();
    let mut run = start_up(&env, &["--", "probe", "build", "up", &own]);
    let (pinfold, guardian) = (run.id(), guardian_of(&env));
    let threads: Vec<String> = fs::read_dir(format!("/proc/{pinfold}/task"))
        .expect("threads")
        .map(|thread| thread.expect("a thread").file_name().to_string_lossy().into_owned())
        .collect();
    let name = |thread: &String| {
        let name = fs::read_to_string(format!("/proc/{pinfold}/task/{thread}/comm"));
        name.expect("a name").trim() == "broker"
    };
    assert!(threads.iter().any(name), "there is a broker");
    for signal in ["0", "19", "9"] {
        for thread in &threads {
            let act = ["tgkill", &pinfold.to_string(), thread, signal];
            assert_eq!(as_owner(&env, &act), "EPERM", "{act:?}");
        }
        let act = ["kill", &guardian.to_string(), signal];
        assert_eq!(as_owner(&env, &act), "EPERM", "{act:?}");
    }
    for process in threads.iter().cloned().chain([guardian.to_string()]) {
        assert_eq!(as_owner(&env, &["cap-files", &process]), "EPERM");
    }
    // The command itself is theirs.
    let program = processes_with(&own).into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "probe")
    });
    let program = program.expect("the program stands").to_string();
    assert_eq!(as_owner(&env, &["kill", &program, "0"]), "ok", "the control");
    send(&run, libc::SIGTERM);
    wait(&mut run, Duration::from_secs(5));
    assert_gone(&own);
}

#[test]
fn a_guardian_that_is_stopped_or_killed_from_outside_keeps_nobody_waiting() {
    let env = Env::contained();
    let own = tag();
    let mut run = start_up(&env, &["--timeout", "3", "--", "probe", "build", "up", &own]);
    let guardian = guardian_of(&env);
    assert_eq!(unsafe { libc::kill(guardian, libc::SIGSTOP) }, 0);
    let status = wait(&mut run, Duration::from_secs(8));
    assert_eq!(status.code(), Some(124), "the deadline is told all the same");
    assert_gone(&own);
    let env = Env::contained();
    let run = env.start(&["--json", "--", "probe", "build", "sleep", "3000"]);
    let guardian = guardian_of(&env);
    assert_eq!(unsafe { libc::kill(guardian, libc::SIGKILL) }, 0);
    let output = run.wait_with_output().expect("it ends");
    let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a reply");
    assert_eq!((output.status.code(), &reply["outcome"]), (Some(125), &"error".into()), "{reply}");
    let said = reply["message"].as_str().expect("a message");
    assert!(said.contains("guardian was ended from outside"), "{said}");
}

#[test]
fn what_no_landlock_right_covers_is_refused_by_seccomp() {
    let env = Env::contained();
    env.repository();
    env.file("sub/a.txt", "a");
    env.give_workspace();
    // A datagram socket of a pair can be sent to any path and bound to any name.
    for kind in ["2", "3"] {
        assert_eq!(as_owner(&env, &["socketpair-of", kind]), "ok");
        env.refused("build", &["socketpair-of", kind], &["EPERM"]);
    }
    env.allowed("build", &["socketpair-of", "1"]);
    env.allowed("build", &["socketpair-of", "5"]);
    // Flags of a file change through a descriptor that only reads.
    match as_owner(&env, &["set-flags", ".git/config"]).as_str() {
        "ok" => env.refused("build", &["set-flags", ".git/config"], &["EPERM"]),
        control => skip(&format!("this file system takes no flags: {control}")),
    }
    // A lease makes the host's writers wait.
    assert_eq!(as_owner(&env, &["lease", ".git/config"]), "ok");
    env.refused("build", &["lease", ".git/config"], &["EPERM"]);
}

#[test]
fn each_layer_is_what_refuses_on_this_rung() {
    // Without seccomp nothing holds modes, times and sockets; content stays Landlock's.
    let Some(env) = Env::contained_without("seccomp") else { return };
    let outside = own_file_outside(&env, "outside.txt");
    env.allowed("build", &["change", "chmod", &outside]);
    env.allowed("build", &["change", "utimensat", &outside]);
    env.allowed("build", &["socket", "1", "2", "0"]);
    env.allowed("build", &["socketpair-of", "2"]);
    env.allowed("build", &["shmget"]);
    env.refused("build", &["read", &outside], &["EACCES"]);
    env.refused("build", &["signal-parent", "0"], &["EPERM"]);
    // Without Landlock nothing holds content; modes and sockets stay seccomp's.
    let Some(env) = Env::contained_without("landlock") else { return };
    let outside = own_file_outside(&env, "outside.txt");
    env.file(".env", "SECRET=1");
    env.give_workspace();
    env.allowed("build", &["read", &outside]);
    env.allowed("build", &["write", &outside]);
    env.allowed("build", &["read", ".env"]);
    env.refused("build", &["change", "chmod", &outside], &["EPERM"]);
    env.refused("build", &["socket", "1", "2", "0"], &["EAFNOSUPPORT"]);
    // Its own ids keep the guardian from the program once it has taken the saved one back, which
    // the start of the program does not wait for.
    let settled = ["all", "sleep", "500", ",", "signal-parent", "0"];
    assert_eq!(env.inside("build", &settled), "ok\nEPERM");
}

#[test]
fn a_scratch_folder_nested_deeper_than_there_are_descriptors_stops_no_later_run() {
    let env = Env::contained();
    let told = env.inside("build", &["env"]);
    let tmp = told.lines().find_map(|line| line.strip_prefix("TMPDIR=")).expect("TMPDIR");
    env.allowed("build", &["deep", tmp, "3000"]);
    assert_eq!(scratch_folders(&env), Vec::<String>::new());
    // Names that the removal gives itself, and a folder that cannot be written.
    let [outer, inner] = ["0.moved", "0.moved/0.moved"].map(|name| format!("{tmp}/{name}"));
    let acts = ["all", "mkdir", &outer, ",", "mkdir", &inner, ",", "chmod", &inner, "0o555"];
    assert_eq!(env.inside("build", &acts), "ok\nok\nok");
    assert_eq!(scratch_folders(&env), Vec::<String>::new());
    env.allowed("build", &["exists", tmp]);
}

#[test]
fn c11_c13_c17_a_tree_is_gone_at_its_deadline_and_with_its_supervisor() {
    let env = Env::contained();
    let (own, others) = (tag(), tag());
    let bystander = bystander(&env, &others);
    // The deadline.
    let start = Instant::now();
    for act in [&["tree", &own] as &[&str], &["breed", &own, "6"]] {
        let words = [&["--json", "--timeout", "1", "--", "probe", "build"], act].concat();
        let answer = env.run(&words);
        assert_eq!((answer.code, answer.outcome()), (124, "timeout"), "{answer:?}");
        assert_gone(&own);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // The program's own end.
    let answer = env.cmd(&["probe", "build", "daemon", &own]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_gone(&own);
    // The supervisor's death by a signal that nobody can handle.
    for act in [&["tree", &own] as &[&str], &["breed", &own, "6"]] {
        let words = [&["--", "probe", "build"], act].concat();
        let mut run = start_up(&env, &words);
        assert!(!processes_with(&own).is_empty(), "the tree stands");
        send(&run, libc::SIGKILL);
        wait(&mut run, Duration::from_secs(2));
        assert_gone(&own);
    }
    assert_eq!(processes_with(&others).len(), 1, "who has nothing to do with it lives");
    drop(bystander);
    // The run that lost its supervisor left its scratch folder; the next one takes its place.
    let answer = env.cmd(&["probe", "build", "ids"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(scratch_folders(&env), Vec::<String>::new());
}

/// Lists the scratch folders that this host's state folder has left.
fn scratch_folders(env: &Env) -> Vec<String> {
    let own = fs::metadata(env.path("state/scratch")).expect("the folder");
    let prefix = format!("{:x}-{:x}-", own.dev(), own.ino());
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
    };
    let mut left = names(&env.path("state/scratch"));
    left.retain(|name| name.ends_with(".tmp"));
    if is_root() {
        let roots = names(Path::new("/run/pinfold"));
        left.extend(roots.into_iter().filter(|name| name.starts_with(&prefix)));
    }
    left
}

#[test]
fn the_scratch_folder_is_the_runs_own_and_gone_after_it() {
    let env = Env::contained();
    let told = env.inside("build", &["env"]);
    let value = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name}: {told}")).to_owned()
    };
    let (tmp, home) = (value("TMPDIR"), value("HOME"));
    assert!(home.starts_with(&tmp) && tmp != "/tmp", "{tmp} {home}");
    assert!(!Path::new(&tmp).exists());
    let file = format!("{home}/made");
    let acts = ["all", "create", &file, ",", "read", &file, ",", "chmod", &tmp, "0o000"];
    assert_eq!(env.inside("build", &acts), "ok\nok\nok");
    assert_eq!(scratch_folders(&env), Vec::<String>::new());
    env.refused("build", &["create", "/tmp/pinfold-probe-made"], &["EACCES"]);
    env.refused("build", &["create", "/dev/shm/pinfold-probe-made"], &["EACCES"]);
}

#[test]
fn c01_a_fork_loop_ends_at_the_profiles_number_beside_the_users_other_processes() {
    let env = Env::contained();
    let told = env.inside("read", &["forks", "1000"]);
    let (forks, why) = told.split_once(' ').expect("a number and a reason");
    assert_eq!(why, "EAGAIN", "{told}");
    // Processes of the user that end meanwhile leave room for more.
    assert!(forks.parse::<u32>().is_ok_and(|forks| (16..=200).contains(&forks)), "{told}");
}
