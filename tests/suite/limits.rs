//! Limits: each is kept, told by its name where that can be known, and met by one run while
//! another beside it goes on.

use crate::support::{Answer, Env, cgroups_of, is_root, skip};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Size of the scratch folder of profile `read`, and how many files it holds.
const SCRATCH_BYTES: u64 = 64 << 20;
const SCRATCH_FILES: u64 = 16_384;

/// Splits what a probe printed: a number, and why there was no more.
fn number_and_why(told: &str) -> (u64, String) {
    let (number, why) = told.split_once(' ').unwrap_or_else(|| panic!("not two words: {told}"));
    (number.parse().unwrap_or_else(|_| panic!("not a number: {told}")), why.to_owned())
}

/// A host whose profile `read` has these limits.
fn limited(limits: &str) -> Option<Env> {
    let env = Env::new()?;
    let file = env.path("config/profiles/read.toml");
    let profile = fs::read_to_string(&file).expect("the profile");
    fs::write(&file, format!("{profile}[limits]\n{limits}\n")).expect("the profile");
    Some(env)
}

/// Returns whether memory and processes of a run are limited for the tree as a whole.
fn by_group(answer: &Answer) -> bool {
    let layers = answer.reply["layers"].as_array().expect("layers");
    layers.contains(&json!("cgroup-limits"))
}

/// Returns whether this host gives a run a group that limits; says that a test is skipped if not.
fn has_group(env: &Env) -> bool {
    let has = by_group(&env.cmd(&["probe", "read", "ids"]));
    if !has {
        skip("this host gives a run no group that limits memory and processes");
    }
    has
}

/// The run reached this limit: outcome, reply, record and message say so.
fn told(env: &Env, answer: &Answer, limit: &str, value: &str) {
    assert_eq!((answer.outcome(), &answer.reply["limit"]), ("limit", &json!(limit)), "{answer:?}");
    let mut ends = env.records_of("end");
    ends.retain(|end| end["seq"] == answer.reply["trail"]["end"]);
    let end = ends.pop().expect("an end");
    assert_eq!((&end["outcome"], &end["limit"]), (&json!("limit"), &json!(limit)), "{end}");
    for member in ["exit_code", "signal"] {
        assert_eq!(end[member], answer.reply[member], "{end}");
    }
    let message = answer.reply["message"].as_str().expect("a message");
    assert!(message.starts_with(&format!("limit [{limit}] ")), "{message}");
    assert!(message.contains(value) && message.len() < 400, "{message}");
    let key = if limit == "output" { "output_kib" } else { limit };
    assert!(message.contains(&format!("raise `{key}`")), "{message}");
}

/// Runs lines of the shell under profile `read`.
fn shell(env: &Env, lines: &str) -> Answer {
    env.file("script", lines);
    env.cmd(&["probe", "read", "exec", "/bin/sh", "script"])
}

/// Takes the first ids for commands away from this host, so that its commands have one that those
/// of other tests' hosts do not have; the kernel counts by id.
fn with_an_id_of_its_own(env: &Env) -> Vec<fs::File> {
    env.cmd(&["probe", "read", "ids"]);
    let take = |uid: u32| {
        let file = fs::File::create(env.path("state/uids").join(uid.to_string()));
        let file = file.expect("the state folder is there");
        file.try_lock().expect("nobody has it");
        file
    };
    (60_000..60_100).map(take).collect()
}

/// A run that takes two seconds and must not notice what happens beside it.
struct Beside(Child);

impl Beside {
    fn start(env: &Env) -> Self {
        let mut run = env.start(&["--", "probe", "build", "lines", "20", "100"]);
        let mut first = String::new();
        let out = run.stdout.as_mut().expect("a pipe");
        BufReader::with_capacity(1, out).read_line(&mut first).expect("a line");
        assert_eq!(first, "line 0\n");
        Self(run)
    }

    fn went_on(self) {
        let output = self.0.wait_with_output().expect("it ends");
        let lines: String = (1..20).map(|line| format!("line {line}\n")).collect();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), lines + "ok\n");
    }
}

/// Makes a run where no group can be had; needs root.
fn without_groups(env: &Env, argv: &[&str]) -> Answer {
    let hide = "mount -t tmpfs -o ro none /sys/fs/cgroup && exec \"$@\"";
    let run = env.command(&[&["run", "--json", "--"], argv].concat());
    let mut outer = Command::new("unshare");
    outer.args(["-m", "sh", "-c", hide, "sh"]).arg(run.get_program()).args(run.get_args());
    outer.env("PINFOLD_HOME", env.path("state")).current_dir(env.workspace());
    let output = outer.output().expect("unshare starts");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
    assert_eq!(reply["rung"], "B", "{reply}");
    let code = output.status.code().expect("an exit code");
    Answer { code, reply, said: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// As [`without_groups`] where this is root; else as every run, which has no group either unless
/// one was delegated to this user.
fn on_rung_b(env: &Env, argv: &[&str]) -> Option<Answer> {
    let answer = if is_root() { without_groups(env, argv) } else { env.cmd(argv) };
    if by_group(&answer) {
        skip("this user's runs have groups");
        return None;
    }
    Some(answer)
}

#[test]
fn c03_a_memory_bomb_is_told_as_memory_and_a_run_beside_it_goes_on() {
    let Some(env) = limited("memory = \"128MiB\"") else { return };
    if !has_group(&env) {
        return;
    }
    assert_eq!(env.outside(&["eat", "200"]), "200 ok", "the control");
    let beside = Beside::start(&env);
    let answer = env.cmd(&["probe", "read", "eat", "200"]);
    told(&env, &answer, "memory", "128MiB");
    assert_eq!((&answer.reply["signal"], &answer.reply["exit_code"]), (&Value::Null, &Value::Null));
    assert_eq!(answer.code, 137);
    // A bomb in a process of its own, whose parent may go on.
    let bomb = "/usr/bin/python3 -c 'b=[]\nwhile 1: b.append(bytearray(1<<24))'; true";
    let answer = shell(&env, bomb);
    if Path::new("/usr/bin/python3").exists() {
        told(&env, &answer, "memory", "128MiB");
    } else {
        skip("no /usr/bin/python3");
    }
    beside.went_on();
    // Less than the limit is no matter, and nothing of the bombs counts for the next run.
    let answer = env.cmd(&["probe", "read", "eat", "64"]);
    assert_eq!((answer.outcome(), answer.stdout()), ("ok", "64 ok\n"));
    assert_eq!(answer.reply["limit"], Value::Null);
    let output = env.pinfold(&["run", "--", "probe", "read", "eat", "200"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("pinfold: limit [memory] "), "{said}");
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn the_memory_of_many_processes_counts_together() {
    let Some(env) = limited("memory = \"128MiB\"") else { return };
    if !has_group(&env) {
        return;
    }
    let probe = env.path("bin/probe");
    let one = format!("{} x all eat 50 , sleep 1000 &", probe.display());
    let answer = shell(&env, &format!("for i in 1 2 3 4; do {one} done; wait"));
    told(&env, &answer, "memory", "128MiB");
}

#[test]
fn without_a_group_each_process_has_the_memory_for_its_data() {
    let Some(env) = limited("memory = \"128MiB\"") else { return };
    let Some(answer) = on_rung_b(&env, &["probe", "read", "eat", "200"]) else { return };
    let (mib, why) = number_and_why(answer.stdout().trim());
    assert_eq!(why, "ENOMEM", "{answer:?}");
    assert!((64..128).contains(&mib), "{mib}");
    // The program took the refusal and went on; nobody can know that the limit was met.
    assert_eq!((answer.outcome(), &answer.reply["limit"]), ("ok", &Value::Null));
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["limits"]["memory"], 128 << 20);
}

#[test]
fn the_record_has_the_limits_that_are_kept() {
    let Some(env) = limited("memory = \"128MiB\"\npids = 33\ncpu = 50\ntmp = \"2MiB\"") else {
        return;
    };
    env.cmd(&["probe", "read", "ids"]);
    let intent = env.records_of("intent").pop().expect("an intent");
    let expected = [
        ("memory", 128 << 20),
        ("pids", 33),
        ("cpu", 50),
        ("tmp", 2 << 20),
        ("tmp_inodes", SCRATCH_FILES),
        ("output", 4096 << 10),
        ("core", 0),
    ];
    for (name, value) in expected {
        assert_eq!(intent["limits"][name], value, "{name}: {intent}");
    }
    assert_eq!(intent["limits"]["timeout"], Value::Null, "it has a member of its own");
    assert_eq!(intent["timeout_ms"], 60_000);
}

#[test]
fn c01_a_fork_bomb_is_told_as_pids() {
    let Some(env) = limited("pids = 24") else { return };
    let group = by_group(&env.cmd(&["probe", "read", "ids"]));
    let beside = Beside::start(&env);
    // Its processes are there when the program ends.
    let answer = env.cmd(&["probe", "read", "forks-stay", "100"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(number_and_why(answer.stdout().trim()).1, "EAGAIN", "{answer:?}");
    told(&env, &answer, "pids", "24");
    let answer = shell(&env, "f() { f | f & }; f; sleep 1; exit 3");
    if group {
        told(&env, &answer, "pids", "24");
        // A refusal in between is counted, too.
        told(&env, &env.cmd(&["probe", "read", "forks", "100"]), "pids", "24");
    }
    beside.went_on();
    let answer = env.cmd(&["probe", "read", "forks", "15"]);
    assert_eq!((answer.outcome(), answer.stdout()), ("ok", "15 ok\n"), "{answer:?}");
}

#[test]
fn without_a_group_the_init_tells_that_no_process_can_be_made() {
    let Some(env) = limited("pids = 24") else { return };
    let _taken = with_an_id_of_its_own(&env);
    let act = ["probe", "read", "forks-stay", "100"];
    let Some(answer) = on_rung_b(&env, &act) else { return };
    told(&env, &answer, "pids", "24");
    let Some(answer) = on_rung_b(&env, &["probe", "read", "forks-stay", "10"]) else { return };
    assert_eq!((answer.outcome(), &answer.reply["limit"]), ("ok", &Value::Null), "{answer:?}");
}

#[test]
fn processor_time_is_told_as_cpu() {
    let Some(env) = limited("cpu = 2") else { return };
    let beside = Beside::start(&env);
    let answer = env.cmd(&["probe", "read", "spin"]);
    told(&env, &answer, "cpu", "2 s");
    beside.went_on();
    assert_eq!(env.cmd(&["probe", "read", "sleep", "3000"]).outcome(), "ok", "sleep is free");
}

#[test]
fn processor_time_of_many_processes_counts_together() {
    let Some(env) = limited("cpu = 2") else { return };
    if !has_group(&env) {
        return;
    }
    let answer = env.cmd(&["probe", "read", "spin-many", "4"]);
    told(&env, &answer, "cpu", "2 s");
    let end = env.records_of("end").pop().expect("an end");
    let used = end["user_us"].as_u64().expect("a number") + end["system_us"].as_u64().expect("one");
    assert!((1_900_000..4_000_000).contains(&used), "{used} us, and no process of it had 2 s");
}

#[test]
fn without_a_group_each_process_has_its_processor_time() {
    let Some(env) = limited("cpu = 1") else { return };
    let Some(answer) = on_rung_b(&env, &["probe", "read", "spin"]) else { return };
    told(&env, &answer, "cpu", "1 s");
    assert_eq!(
        (answer.code, &answer.reply["signal"]),
        (128 + libc::SIGXCPU, &json!(libc::SIGXCPU))
    );
}

#[test]
fn c04_a_full_scratch_folder_is_told() {
    let Some(env) = limited("tmp = \"4MiB\"\ntmp_inodes = 200") else { return };
    let beside = Beside::start(&env);
    for folder in ["/tmp", "/dev/shm"] {
        let answer = env.cmd(&["probe", "read", "fill", folder, "100000000"]);
        assert_eq!((answer.code, answer.stdout()), (0, "4194304 ENOSPC\n"));
        told(&env, &answer, "tmp", "4MiB");
        let answer = env.cmd(&["probe", "read", "inodes", folder, "1000"]);
        assert_eq!(answer.code, 0);
        told(&env, &answer, "tmp_inodes", "200");
    }
    beside.went_on();
    let answer = env.cmd(&["probe", "read", "fill", "/tmp", "1000000"]);
    assert_eq!((answer.outcome(), &answer.reply["limit"]), ("ok", &Value::Null));
}

#[test]
fn of_several_limits_the_first_in_order_is_told() {
    let Some(env) = limited("pids = 24\ntmp = \"4MiB\"") else { return };
    let acts = ["all", "fill", "/tmp", "100000000", ",", "forks-stay", "100"];
    let answer = env.cmd(&[&["probe", "read"], &acts[..]].concat());
    told(&env, &answer, "pids", "24");
    let acts = ["all", "fill", "/tmp", "100000000", ",", "flood", "5000000"];
    let answer = env.cmd(&[&["probe", "read"], &acts[..]].concat());
    told(&env, &answer, "tmp", "4MiB");
    // What ends a run keeps its name; the limit is told beside it.
    let acts = ["all", "fill", "/tmp", "100000000", ",", "sleep", "60000"];
    let head = ["--json", "--timeout", "1", "--", "probe", "read"];
    let answer = env.run(&[&head, &acts[..]].concat());
    assert_eq!((answer.code, answer.outcome()), (124, "timeout"));
    assert_eq!(answer.reply["limit"], "tmp", "{answer:?}");
}

#[test]
fn g34_sixteen_jobs_of_make_fit_into_the_defaults() {
    let Some(env) = Env::new() else { return };
    let mut text = String::from("all: $(addprefix job,$(shell seq 64))\njob%:\n");
    text.push_str("\t@head -c 2000000 /dev/zero | od | sort | tail -n 1 > $@\n");
    env.file("Makefile", &text);
    let answer = env.cmd(&["make", "-j16"]);
    assert_eq!((answer.outcome(), &answer.reply["limit"]), ("ok", &Value::Null), "{answer:?}");
    assert!(env.workspace().join("job64").exists());
}

#[test]
fn c07_a_full_file_system_of_the_workspace_leaves_the_record_whole() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return skip("only root can mount a small file system");
    }
    let small = "mount -t tmpfs -o size=4m none . && cd \"$PWD\" && exec \"$@\"";
    let act = ["run", "--json", "--", "probe", "build", "fill", ".", "100000000"];
    let run = env.command(&act);
    let mut outer = Command::new("unshare");
    outer.args(["-m", "sh", "-c", small, "sh"]).arg(run.get_program()).args(run.get_args());
    outer.env("PINFOLD_HOME", env.path("state")).current_dir(env.workspace());
    let output = outer.output().expect("unshare starts");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
    let (bytes, why) = number_and_why(reply["stdout"].as_str().expect("text").trim());
    assert_eq!(why, "ENOSPC", "{reply}");
    assert!(bytes <= 4 << 20, "{reply}");
    // It is the host's disk, and no limit of the run.
    assert_eq!((&reply["outcome"], &reply["limit"]), (&json!("ok"), &Value::Null));
    assert_eq!(env.records_of("end").pop().expect("an end")["outcome"], "ok");
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

/// Starts a run that stays, and waits until it is there.
fn staying(env: &Env) -> Child {
    let mut run = env.start(&["--", "probe", "build", "up", "stays"]);
    let mut line = String::new();
    let out = run.stdout.as_mut().expect("a pipe");
    BufReader::with_capacity(1, out).read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    run
}

#[test]
fn what_a_killed_supervisor_left_is_swept_and_what_a_live_one_needs_is_not() {
    let Some(env) = Env::new() else { return };
    let (mut killed, mut live) = (staying(&env), staying(&env));
    let groups = cgroups_of(killed.id());
    if groups.is_empty() {
        killed.kill().and(live.kill()).expect("killed");
        killed.wait().and(live.wait()).expect("gone");
        return skip("this host gives a run no group");
    }
    let needed = cgroups_of(live.id());
    assert_eq!(needed.len(), groups.len());
    killed.kill().expect("killed");
    killed.wait().expect("gone");
    env.cmd(&["probe", "build", "ids"]);
    assert_eq!(cgroups_of(killed.id()), Vec::<std::path::PathBuf>::new());
    assert_eq!(cgroups_of(live.id()), needed);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(live.id()).expect("a pid")),
        nix::sys::signal::Signal::SIGTERM,
    )
    .expect("asked");
    live.wait().expect("it ends");
    assert_eq!(env.records_of("end").pop().expect("an end")["outcome"], "cancelled");
}

#[test]
fn c04_the_scratch_folders_end_at_the_profiles_size() {
    let Some(env) = Env::new() else { return };
    let most = (SCRATCH_BYTES * 2).to_string();
    let control = env.path("home");
    let control = env.outside(&["fill", control.to_str().expect("UTF-8"), &most]);
    assert_eq!(control, format!("{most} ok"), "outside there is room");
    for folder in ["/tmp", "/dev/shm"] {
        let (bytes, why) = number_and_why(&env.inside("read", &["fill", folder, &most]));
        assert_eq!((bytes, why.as_str()), (SCRATCH_BYTES, "ENOSPC"), "{folder}");
    }
    // A profile with more has more.
    let (bytes, why) = number_and_why(&env.inside("build", &["fill", "/tmp", &most]));
    assert_eq!((bytes, why.as_str()), (SCRATCH_BYTES * 2, "ok"));
    // What one run filled is not there for the next.
    assert_eq!(env.inside("read", &["list", "/dev/shm"]), "[]");
}

#[test]
fn c04_the_scratch_folders_end_at_the_profiles_number_of_files() {
    let Some(env) = Env::new() else { return };
    let most = (SCRATCH_FILES * 2).to_string();
    for folder in ["/tmp", "/dev/shm"] {
        let (files, why) = number_and_why(&env.inside("read", &["inodes", folder, &most]));
        assert_eq!(why, "ENOSPC", "{folder}");
        // The folder itself and the home folder are of the number.
        assert!((SCRATCH_FILES - 2..SCRATCH_FILES).contains(&files), "{folder}: {files}");
    }
    let few = "100";
    assert_eq!(env.inside("read", &["inodes", "/tmp", few]), "100 ok");
}

#[test]
fn a_file_cannot_grow_beyond_the_profiles_size() {
    let Some(env) = Env::new() else { return };
    for (profile, folder, size) in [("read", "/tmp", 64_u64 << 20), ("build", ".", 4 << 30)] {
        let file = format!("{folder}/big");
        let (last, beyond) = ((size - 1).to_string(), size.to_string());
        let control = env.path(&format!("home/{profile}"));
        let control = control.to_str().expect("UTF-8");
        assert_eq!(env.outside(&["grow", control, &beyond]), "ok");
        env.refused(profile, &["grow", &file, &beyond], &["EFBIG"]);
        env.allowed(profile, &["grow", &file, &last]);
        let answer = env.cmd(&["probe", profile, "grow-or-die", &file, &beyond]);
        assert_eq!(answer.code, 128 + libc::SIGXFSZ, "{profile}: {answer:?}");
        assert_eq!(answer.reply["signal"], libc::SIGXFSZ, "{profile}");
        told(&env, &answer, "file_size", if size == 4 << 30 { "4GiB" } else { "64MiB" });
    }
}

#[test]
fn descriptors_end_at_the_profiles_number() {
    let Some(env) = Env::new() else { return };
    let mut own = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut own) }, 0);
    for (profile, limit) in [("look", 1_024), ("build", 4_096)] {
        if own.rlim_max < limit {
            skip("this user may have fewer descriptors than the profile");
            continue;
        }
        let (highest, why) = number_and_why(&env.inside(profile, &["open-many", "10000"]));
        assert_eq!((highest, why.as_str()), (limit - 1, "EMFILE"), "{profile}");
    }
    assert_eq!(number_and_why(&env.inside("look", &["open-many", "100"])).1, "ok");
}

#[test]
fn no_command_leaves_a_core_file() {
    let Some(env) = Env::new() else { return };
    for profile in ["look", "build"] {
        let limits = env.inside(profile, &["print", "/proc/self/limits"]);
        let core = limits.lines().find(|line| line.starts_with("Max core file size"));
        let values: Vec<&str> = core.expect("a line").split_whitespace().skip(4).collect();
        assert_eq!(values, ["0", "0", "bytes"], "{profile}");
    }
}

#[test]
fn c01_a_fork_loop_ends_at_the_profiles_number_and_others_go_on() {
    let Some(env) = Env::new() else { return };
    const PIDS: u64 = 64;
    let control = env.outside(&["forks", "100"]);
    if control != "100 ok" {
        return skip("this user cannot have a hundred processes outside either");
    }
    let told = env.inside("read", &["forks", "1000"]);
    let (forks, why) = number_and_why(&told);
    assert_eq!(why, "EAGAIN", "{told}");
    assert!(forks < PIDS, "{told}");
    // Two loops at once: each ends at its own limit, and a third run goes on beside them.
    let words = ["--", "probe", "build", "forks", "100000"];
    let loops = [env.start(&words), env.start(&words)];
    let start = Instant::now();
    let beside = env.cmd(&["probe", "look", "ids"]);
    assert_eq!(beside.code, 0, "{beside:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    for run in loops {
        let output = run.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let (forks, why) = number_and_why(&told);
        assert_eq!(why, "EAGAIN", "{output:?}");
        assert!(forks < 512, "{told}");
    }
}
