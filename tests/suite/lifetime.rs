//! How long a command lives: until it ends, until its deadline, and never longer than its
//! supervisor; and what is told of its end.

use crate::support::{Answer, Env, processes_with};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How soon a tree must be gone after its end.
const SOON: Duration = Duration::from_secs(1);
/// How much later than its deadline a run may answer on a busy machine: the grace, the kill,
/// the record.
const SLACK: Duration = Duration::from_secs(4);

/// A word for a command line that no other process has.
pub(super) fn tag() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("tag-{}-{count}-{:?}", std::process::id(), Instant::now().elapsed().as_nanos())
}

/// Waits until no process has the tag; fails after `SOON`.
pub(super) fn assert_gone(tag: &str) {
    let start = Instant::now();
    loop {
        let left = processes_with(tag);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < SOON, "left: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a probe that prints `up` and waits for that line.
pub(super) fn start_up(env: &Env, words: &[&str]) -> Child {
    let mut run = env.start(words);
    let mut line = String::new();
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    run
}

/// Waits until the probe's tree stands: the supervisor, the probe, and five below it.
pub(super) fn wait_for_tree(tag: &str) {
    let start = Instant::now();
    while processes_with(tag).len() < 7 {
        assert!(start.elapsed() < SOON, "{:?}", processes_with(tag));
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn send(run: &Child, signal: i32) {
    let pid = i32::try_from(run.id()).expect("a process id");
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Waits for a run, not for ever.
pub(super) fn wait(run: &mut Child, at_most: Duration) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = run.try_wait().expect("it can be waited for") {
            return status;
        }
        assert!(start.elapsed() < at_most, "still there after {at_most:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn last_end(env: &Env) -> Value {
    env.records_of("end").pop().expect("an end is recorded")
}

/// Runs a command with a deadline of one second, and checks that it was kept.
fn with_deadline(env: &Env, argv: &[&str]) -> Answer {
    let start = Instant::now();
    let answer = env.run(&[&["--json", "--timeout", "1", "--"], argv].concat());
    assert!(start.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", start.elapsed());
    assert_eq!((answer.code, answer.outcome()), (124, "timeout"), "{answer:?}");
    let end = last_end(env);
    assert_eq!(end["outcome"], "timeout");
    assert!(end["duration_ms"].as_u64().is_some_and(|ms| ms >= 1_000), "{end}");
    answer
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let Some(env) = Env::new() else { return };
    for code in [0, 1, 2, 42, 124, 125, 126, 127, 255] {
        let answer = env.cmd(&["probe", "build", "exit", &code.to_string()]);
        let outcome = if code == 0 { "ok" } else { "nonzero" };
        assert_eq!((answer.code, answer.outcome()), (code, outcome));
        assert_eq!(answer.reply["exit_code"], code);
        assert_eq!(answer.reply["signal"], Value::Null);
        assert_eq!(last_end(&env)["exit_code"], code);
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_its_number() {
    let Some(env) = Env::new() else { return };
    for signal in [libc::SIGABRT, libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGPIPE] {
        let answer = env.cmd(&["probe", "build", "die", &signal.to_string()]);
        assert_eq!((answer.code, answer.outcome()), (128 + signal, "nonzero"), "{answer:?}");
        assert_eq!(answer.reply["signal"], signal);
        assert_eq!(answer.reply["exit_code"], Value::Null);
        assert_eq!(last_end(&env)["signal"], signal);
    }
    // An exit code above 128 is no signal.
    let answer = env.cmd(&["probe", "build", "exit", "137"]);
    assert_eq!((answer.code, &answer.reply["signal"]), (137, &Value::Null));
}

#[test]
fn c09_c13_a_grandchild_that_holds_the_output_open_keeps_nobody_waiting() {
    let Some(env) = Env::new() else { return };
    for which in ["both", "stderr", "none"] {
        let tag = tag();
        let start = Instant::now();
        let answer = env.cmd(&["probe", "build", "hold", which, &tag]);
        assert!(start.elapsed() < SLACK, "{which}: {:?}", start.elapsed());
        assert_eq!((answer.code, answer.stdout()), (0, "ok\n"), "{which}");
        assert_gone(&tag);
    }
}

#[test]
fn c10_every_byte_of_the_command_arrives_every_time() {
    let Some(env) = Env::new() else { return };
    const BYTES: usize = 1_000_000;
    for _ in 0..25 {
        let answer = env.cmd(&["probe", "build", "flood", &BYTES.to_string()]);
        assert_eq!(answer.stdout().len(), BYTES + "ok\n".len());
        assert!(answer.stdout().ends_with("xok\n"));
        assert_eq!(answer.reply["truncated"]["stdout"], false);
    }
}

#[test]
fn c11_a_daemon_does_not_outlive_the_run() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    let answer = env.cmd(&["probe", "build", "daemon", &tag]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_gone(&tag);
}

#[test]
fn c14_a_command_that_ignores_every_signal_is_killed_at_the_deadline() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    let answer = with_deadline(&env, &["probe", "build", "deaf", &tag]);
    assert_eq!(answer.stdout(), "up\n", "what it wrote before survives");
    assert_gone(&tag);
}

#[test]
fn c14_a_command_that_listens_is_asked_before_it_is_killed() {
    let Some(env) = Env::new() else { return };
    let answer = with_deadline(&env, &["probe", "build", "up", "x"]);
    assert_eq!(answer.reply["signal"], libc::SIGTERM, "{answer:?}");
    assert_eq!(answer.stdout(), "up\n");
    let start = Instant::now();
    with_deadline(&env, &["probe", "build", "up", "x"]);
    assert!(start.elapsed() < Duration::from_secs(1) + SLACK);
}

#[test]
fn c16_a_command_that_closes_its_output_runs_on_to_its_deadline() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    with_deadline(&env, &["probe", "build", "closed", &tag]);
    assert_gone(&tag);
}

#[test]
fn c30_a_command_that_spins_or_stops_itself_ends_at_the_deadline() {
    let Some(env) = Env::new() else { return };
    for act in ["spin", "stop-and-up"] {
        let tag = tag();
        with_deadline(&env, &["probe", "build", act, &tag]);
        assert_gone(&tag);
    }
}

#[test]
fn c30_a_command_that_asks_for_input_finds_its_end_at_once() {
    let Some(env) = Env::new() else { return };
    for profile in ["look", "build"] {
        let answer = env.cmd(&["probe", profile, "stdin"]);
        assert_eq!((answer.code, answer.stdout()), (0, "0 \n"), "{answer:?}");
    }
}

#[test]
fn a_tree_of_stopped_and_deaf_processes_is_gone_after_the_deadline() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    let mut run = start_up(&env, &["--timeout", "2", "--", "probe", "build", "tree", &tag]);
    wait_for_tree(&tag);
    assert_eq!(wait(&mut run, Duration::from_secs(2) + SLACK).code(), Some(124));
    assert_gone(&tag);
    assert_eq!(last_end(&env)["outcome"], "timeout");
}

#[test]
fn c17_nothing_is_left_of_a_tree_whose_supervisor_was_killed() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    let mut run = start_up(&env, &["--", "probe", "build", "tree", &tag]);
    wait_for_tree(&tag);
    send(&run, libc::SIGKILL);
    let status = wait(&mut run, SOON);
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert_gone(&tag);
    // What it could not write is missing, and the trail is sound: the next run goes on with it.
    assert_eq!(env.records_of("end").len(), 0);
    assert_eq!(env.cmd(&["probe", "build", "exit", "0"]).code, 0);
    assert_eq!(env.records_of("intent").len(), 2);
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn c17_nothing_is_left_whenever_in_the_run_the_supervisor_is_killed() {
    let Some(env) = Env::new() else { return };
    assert_eq!(env.cmd(&["probe", "build", "ids"]).code, 0);
    for ms in [1, 20, 40, 60, 80, 100, 120, 140, 160, 200, 250, 300] {
        let tag = tag();
        let mut run = env.start(&["--", "probe", "build", "tree", &tag]);
        std::thread::sleep(Duration::from_millis(ms));
        send(&run, libc::SIGKILL);
        wait(&mut run, SOON);
        assert_gone(&tag);
    }
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn a_cancelled_run_says_so_and_leaves_nothing() {
    let Some(env) = Env::new() else { return };
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let tag = tag();
        let mut run = start_up(&env, &["--", "probe", "build", "tree", &tag]);
        wait_for_tree(&tag);
        send(&run, signal);
        assert_eq!(wait(&mut run, SLACK).code(), Some(code));
        assert_gone(&tag);
        let end = last_end(&env);
        assert_eq!((&end["outcome"], &end["signal"]), (&"cancelled".into(), &signal.into()));
    }
}

#[test]
fn a_run_that_is_cancelled_before_its_command_started_leaves_nothing() {
    let Some(env) = Env::new() else { return };
    // Digests are remembered, so that the next runs start as fast as they usually do.
    assert_eq!(env.cmd(&["probe", "build", "ids"]).code, 0);
    for ms in [1, 30, 60, 90, 120] {
        let tag = tag();
        let mut run = env.start(&["--", "probe", "build", "up", &tag]);
        std::thread::sleep(Duration::from_millis(ms));
        // A shell starts programs in the background with SIGINT ignored.
        send(&run, libc::SIGTERM);
        wait(&mut run, SLACK);
        assert_gone(&tag);
    }
    let (intents, ends) = (env.records_of("intent").len(), env.records_of("end").len());
    assert_eq!(intents, ends, "each intent has its end");
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn a_run_that_is_cancelled_before_the_gate_opens_executes_nothing() {
    let Some(env) = Env::new() else { return };
    assert_eq!(env.cmd(&["probe", "build", "ids"]).code, 0);
    // While somebody else holds the trail, the intent is not durable and the gate stays shut.
    let trail = std::fs::File::options().write(true).open(env.path("state/trail/LOCK"));
    let trail = trail.expect("the trail's lock");
    for cancelled in [true, false] {
        trail.lock().expect("the lock");
        let mut run = env.start(&["--", "probe", "build", "mkdir", "made"]);
        std::thread::sleep(Duration::from_millis(500));
        if cancelled {
            send(&run, libc::SIGINT);
            std::thread::sleep(Duration::from_millis(100));
        }
        trail.unlock().expect("the lock");
        let code = wait(&mut run, SLACK).code();
        let made = env.workspace().join("made").exists();
        let outcome = &last_end(&env)["outcome"];
        let expected =
            if cancelled { (Some(130), false, "cancelled") } else { (Some(0), true, "ok") };
        assert_eq!((code, made), (expected.0, expected.1));
        assert_eq!(outcome, expected.2);
    }
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn a_stopped_supervisor_that_goes_on_keeps_its_deadline() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    let mut run = start_up(&env, &["--timeout", "1", "--", "probe", "build", "up", &tag]);
    send(&run, libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(processes_with(&tag).len() >= 2, "nobody ends it meanwhile");
    send(&run, libc::SIGCONT);
    assert_eq!(wait(&mut run, SLACK).code(), Some(124));
    assert_gone(&tag);
}

#[test]
fn c20_orphans_are_reaped() {
    let Some(env) = Env::new() else { return };
    let answer = env.cmd(&["probe", "build", "orphans", "2000"]);
    assert_eq!((answer.code, answer.stdout()), (0, "[1, 2]\n"), "{answer:?}");
}

#[test]
fn c21_c22_a_supervisor_that_was_killed_leaves_nothing_that_stops_or_hits_another() {
    let Some(env) = Env::new() else { return };
    let tag = tag();
    // Its process id is free after this, and what it left names it.
    let mut run = start_up(&env, &["--", "probe", "build", "up", &tag]);
    send(&run, libc::SIGKILL);
    wait(&mut run, SOON);
    assert_gone(&tag);
    let mut other = std::process::Command::new("sleep");
    let mut other = other.arg("600").spawn().expect("sleep starts");
    for _ in 0..3 {
        assert_eq!(env.cmd(&["probe", "build", "exit", "0"]).code, 0);
    }
    assert!(other.try_wait().expect("it can be waited for").is_none(), "it was let alone");
    other.kill().expect("it can be ended");
    other.wait().expect("it ends");
}

#[test]
fn a_deadline_that_is_none_is_refused_and_recorded() {
    let Some(env) = Env::new() else { return };
    let bad = ["0", "0s", "-1", "x", "1h", "99999999999", "1.5", "", "86401", "1441m"];
    for value in bad {
        let words = ["--json", "--timeout", value, "--", "probe", "build", "create", "made"];
        let answer = env.run(&words);
        assert_eq!((answer.code, answer.refusal()), (126, "timeout-value"), "{value}: {answer:?}");
        let next = answer.reply["decision"]["next"].as_str().unwrap_or_default();
        assert!(next.contains("Nm"), "{value}: {answer:?}");
    }
    assert!(!env.workspace().join("made").exists());
    let refusals = env.records_of("refusal");
    assert_eq!(refusals.len(), bad.len());
    assert!(refusals.iter().all(|refusal| refusal["code"] == "timeout-value"));
    for value in ["1", "1s", "1m"] {
        let answer = env.run(&["--json", "--timeout", value, "--", "probe", "build", "ids"]);
        assert_eq!(answer.code, 0, "{value}: {answer:?}");
    }
}

#[test]
fn a_deadline_beyond_the_templates_own_is_cut_to_it() {
    let Some(env) = Env::new() else { return };
    // The probe's templates have 60 seconds.
    for (asked, given) in [(None, 60_000), (Some("5m"), 60_000), (Some("7"), 7_000)] {
        let mut words = vec!["--json"];
        words.extend(asked.map(|_| "--timeout").into_iter().chain(asked));
        words.extend(["--", "probe", "build", "ids"]);
        assert_eq!(env.run(&words).code, 0);
        let intent = env.records_of("intent").pop().expect("an intent");
        assert_eq!(intent["timeout_ms"], given, "{asked:?}");
    }
}

#[test]
fn what_a_command_wrote_before_its_deadline_is_passed_on_and_recorded() {
    let Some(env) = Env::new() else { return };
    let answer = with_deadline(&env, &["probe", "build", "lines", "100000", "50"]);
    assert!(answer.stdout().starts_with("line 0\nline 1\n"), "{answer:?}");
    let output = env.records_of("output");
    let stdout = output.iter().find(|record| record["stream"] == "stdout").expect("recorded");
    assert_eq!(stdout["bytes"].as_u64(), Some(answer.stdout().len() as u64));
}

/// Where the end of a child is ignored, nobody could wait for one; the supervisor takes the
/// default back.
#[test]
fn an_inherited_ignored_child_signal_changes_nothing() {
    use std::os::unix::process::CommandExt;
    let Some(env) = Env::new() else { return };
    let mut command = env.command(&["run", "--json", "--", "probe", "build", "exit", "7"]);
    let ignore = || {
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        Ok(())
    };
    unsafe { command.pre_exec(ignore) };
    assert_eq!(command.output().expect("pinfold starts").status.code(), Some(7));
}
