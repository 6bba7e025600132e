//! Output and input: what a command writes is passed on as it comes and counted, what it reads
//! is what the caller gave and the record names.

use crate::support::{Env, binary};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Cap of the probe's templates, in bytes.
const CAP: usize = 4096 << 10;

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the last `output` record of a stream.
fn output_record(env: &Env, stream: &str) -> serde_json::Value {
    let mut records = env.records_of("output");
    records.retain(|record| record["stream"] == stream);
    records.pop().expect("the output is recorded")
}

#[test]
fn c05_a_flood_is_cut_at_the_cap_counted_and_costs_no_memory() {
    let Some(env) = Env::new() else { return };
    const FLOOD: u64 = 1 << 30;
    let beside = env.start(&["--", "probe", "build", "lines", "10", "100"]);
    let mut command = env.command(&["run", "--", "probe", "build", "flood", &FLOOD.to_string()]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut run = run.expect("pinfold starts");
    let mut out = run.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    let mut peak_kib = 0;
    let status = loop {
        peak_kib = peak_kib.max(peak_memory_kib(run.id()).unwrap_or(0));
        match run.try_wait().expect("it can be waited for") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(status.success(), "it ends well");
    let passed = reader.join().expect("the reader ends").expect("it reads");
    assert_eq!(passed, CAP as u64);
    let mut said = String::new();
    run.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.starts_with("pinfold: limit [output] stdout was cut: 4MiB "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let beside = beside.wait_with_output().expect("it ends");
    assert!(beside.status.success() && beside.stdout.ends_with(b"line 9\nok\n"), "{beside:?}");
    let ends = env.records_of("end");
    let cut = ends.iter().find(|end| end["limit"] == "output").expect("it is recorded");
    assert_eq!((&cut["outcome"], &cut["exit_code"]), (&"limit".into(), &0.into()));
    let records = env.records_of("output");
    let record = records.iter().find(|record| record["truncated"] == true).expect("a cut");
    assert_eq!(record["bytes"], FLOOD + 3, "the flood and the probe's `ok`");
    assert_eq!((&record["kept"], &record["truncated"]), (&CAP.into(), &true.into()));
    assert_eq!(record["sha256"], hex(&vec![b'x'; CAP]));
    assert!((1..60 << 10).contains(&peak_kib), "the supervisor took {peak_kib} KiB");
}

/// The largest resident set of a running supervisor. What `wait4` tells would count the memory
/// of this process too, from before the program was executed.
fn peak_memory_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    if value("Name:")?.trim() != "pinfold" {
        return None;
    }
    value("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()
}

#[test]
fn c05_a_flood_without_end_is_stopped_by_the_deadline() {
    let Some(env) = Env::new() else { return };
    let start = Instant::now();
    let most = u64::MAX >> 1;
    let words = ["--json", "--timeout", "1", "--", "probe", "build", "flood", &most.to_string()];
    let answer = env.run(&words);
    assert_eq!((answer.code, answer.outcome()), (124, "timeout"));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    assert_eq!(answer.stdout().len(), CAP);
    assert_eq!(answer.reply["truncated"]["stdout"], true);
    assert_eq!(answer.reply["truncated"]["stderr"], false);
    assert_eq!(answer.reply["limit"], "output", "told beside the deadline");
}

#[test]
fn output_is_passed_on_while_the_command_runs() {
    let Some(env) = Env::new() else { return };
    let mut run = env.start(&["--", "probe", "build", "lines", "3", "1500"]);
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "line 0\n");
    assert!(run.try_wait().expect("it can be waited for").is_none(), "it still runs");
    assert_eq!(env.records_of("end").len(), 0);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "line 1\nline 2\nok\n");
    assert!(run.wait().expect("it ends").success());
}

#[test]
fn a_reader_that_leaves_ends_the_command_and_not_the_record() {
    let Some(env) = Env::new() else { return };
    let start = Instant::now();
    let mut run = env.start(&["--", "probe", "build", "lines", "100000", "5"]);
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    drop(out);
    let status = run.wait().expect("it ends");
    assert!(start.elapsed() < Duration::from_secs(20), "long before its deadline");
    assert!(!status.success(), "the command learns that nobody reads");
    let end = env.records_of("end").pop().expect("the end is recorded");
    assert_eq!(end["outcome"], "nonzero", "{end}");
    let record = output_record(&env, "stdout");
    assert!(record["bytes"].as_u64() >= Some(line.len() as u64), "{record}");
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn a_reader_that_only_sleeps_delays_neither_deadline_nor_record() {
    let Some(env) = Env::new() else { return };
    let most = (64_u64 << 20).to_string();
    let mut run = env.start(&["--timeout", "1", "--", "probe", "build", "flood", &most]);
    let start = Instant::now();
    while env.records_of("end").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(15), "the end is recorded meanwhile");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(run.try_wait().expect("it can be waited for").is_none(), "output is still to come");
    let mut out = Vec::new();
    run.stdout.take().expect("a pipe").read_to_end(&mut out).expect("output");
    assert_eq!(out.len(), CAP, "nothing that was kept is lost");
    run.wait().expect("it ends");
}

#[test]
fn the_two_streams_stay_apart() {
    let Some(env) = Env::new() else { return };
    let output = env.pinfold(&["run", "--", "probe", "build", "both"]);
    assert_eq!(output.stdout, b"to standard output\n");
    assert_eq!(output.stderr, b"to standard error\n");
    let answer = env.cmd(&["probe", "build", "both"]);
    assert_eq!(answer.stdout(), "to standard output\n");
    assert_eq!(answer.reply["stderr"], "to standard error\n");
    assert_eq!(answer.said, "", "Pinfold has nothing to say of its own");
    assert_eq!(output_record(&env, "stdout")["sha256"], hex(b"to standard output\n"));
    assert_eq!(output_record(&env, "stderr")["sha256"], hex(b"to standard error\n"));
}

#[test]
fn bytes_that_are_no_text_are_passed_on_as_they_are() {
    let Some(env) = Env::new() else { return };
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
    fs::write(env.workspace().join("bytes"), &bytes).expect("a file");
    let output = env.pinfold(&["run", "--", "cat", "bytes"]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == bytes, "every byte, in order");
    let record = output_record(&env, "stdout");
    assert_eq!(record["sha256"], hex(&bytes));
    assert_eq!(record["bytes"], 100_000);
    let answer = env.cmd(&["cat", "bytes"]);
    assert_eq!(answer.code, 0, "and the reply is JSON all the same");
}

/// Runs `pinfold run --stdin` with a file as standard input.
fn with_stdin(env: &Env, content: &[u8], act: &[&str]) -> (Option<i32>, String) {
    let mut file = tempfile::tempfile_in(env.path("home")).expect("a file");
    file.write_all(content).expect("content");
    file.rewind().expect("its start");
    let words = [&["run", "--json", "--stdin", "--", "probe", "build"], act].concat();
    let output = env.command(&words).stdin(file).output().expect("pinfold starts");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn standard_input_arrives_and_its_digest_is_in_the_intent() {
    let Some(env) = Env::new() else { return };
    for content in [&b"hello input"[..], b"", &vec![b'y'; 1 << 20]] {
        let (code, told) = with_stdin(&env, content, &["stdin"]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains(&format!("\"stdout\":\"{} ", content.len())), "{told}");
        let intent = env.records_of("intent").pop().expect("an intent");
        assert_eq!(intent["stdin_sha256"], hex(content));
    }
    // Without the option nothing of it is handed on, and the record has no digest.
    let mut command = env.command(&["run", "--", "probe", "build", "stdin"]);
    let mut run =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("pinfold starts");
    // It may be gone before it could be written to; it reads none of it either way.
    drop(run.stdin.take().expect("a pipe").write_all(b"not for the command"));
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"0 \n");
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["stdin_sha256"], serde_json::Value::Null);
}

#[test]
fn standard_input_can_only_be_read() {
    let Some(env) = Env::new() else { return };
    let (code, told) =
        with_stdin(&env, &fs::read(binary("pinfold-probe")).expect("read"), &["ids"]);
    assert_eq!(code, Some(0), "{told}");
    // The control: what the probe does to its standard input works on a program of its own.
    let copy = env.path("home/copy");
    fs::copy(binary("pinfold-probe"), &copy).expect("a copy");
    fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let control = Command::new(env.path("bin/probe"))
        .args(["outside", "stdin-rights"])
        .stdin(fs::File::options().read(true).write(true).open(&copy).expect("a file"))
        .output()
        .expect("the probe starts");
    let control = String::from_utf8_lossy(&control.stdout).into_owned();
    assert_eq!(control, "ok ok ETXTBSY\n", "outside it can be written");
    let (_, told) = with_stdin(&env, b"#!/bin/sh\necho ran\n", &["stdin-rights"]);
    let expected = ["EBADF EACCES EACCES", "EBADF EPERM EACCES"];
    let found = expected.iter().any(|rights| told.contains(&format!("\"stdout\":\"{rights}")));
    assert!(found, "{told}");
}

#[test]
fn standard_input_above_its_limit_is_refused_and_recorded() {
    let Some(env) = Env::new() else { return };
    const LIMIT: usize = 16 << 20;
    let (code, told) = with_stdin(&env, &vec![b'z'; LIMIT + 1], &["create", "made"]);
    assert_eq!(code, Some(126), "{told}");
    assert!(told.contains("\"code\":\"stdin-too-large\""), "{told}");
    assert!(!env.workspace().join("made").exists());
    let refusal = env.records_of("refusal").pop().expect("a refusal");
    assert_eq!(refusal["code"], "stdin-too-large");
    let (code, told) = with_stdin(&env, &vec![b'z'; LIMIT], &["stdin"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&format!("\"stdout\":\"{LIMIT} ")), "{told}");
}
