//! What happened is written down before it happens, durably, in a chain that anybody can check.

use crate::input::{hex, is_refusal, refused};
use crate::support::{Answer, Env, is_root, processes_with, skip};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const ACT: [&str; 6] = ["--json", "--", "probe", "build", "create", "made"];
const FIRST_PREV: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn segment(env: &Env) -> PathBuf {
    env.path("state/trail/seg-00000000000000000000.jsonl")
}

fn bytes(env: &Env) -> Vec<u8> {
    fs::read(segment(env)).expect("the segment")
}

/// The leaf hash of a line, by the words of the format alone.
fn leaf(line: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let hash = Sha256::new().chain_update([0]).chain_update(line).finalize();
    let bit = |at: usize| hash.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let digit = |place: usize| (0..6).fold(0, |value, at| value << 1 | bit(6 * place + at));
    (0..43).map(|place| char::from(DIGITS[usize::from(digit(place))])).collect()
}

/// Walks the chain: every line is an object with the next number and the hash of the line
/// before. Returns the number of lines and the hash of the last one.
fn walk(text: &[u8]) -> (u64, String) {
    let text = text.strip_suffix(b"\n").expect("the last line is whole");
    let (mut count, mut prev) = (0, FIRST_PREV.to_owned());
    for line in text.split(|byte| *byte == b'\n') {
        assert!(line.len() <= 32 << 10, "the line is too long");
        assert!(line.iter().all(|byte| *byte >= 0x20 && *byte != 0x7f), "{line:?}");
        let record: Value = serde_json::from_slice(line).expect("an object");
        assert_eq!((&record["v"], &record["seq"]), (&json!(1), &json!(count)), "{record}");
        assert!(line.ends_with(format!(",\"prev\":\"{prev}\"}}").as_bytes()), "{record}");
        (count, prev) = (count + 1, leaf(line));
    }
    (count, prev)
}

fn verify(env: &Env) -> (i32, Value) {
    let output = env.pinfold(&["trail", "verify", "--json"]);
    (output.status.code().unwrap_or(-1), serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn stats(env: &Env) -> Value {
    serde_json::from_slice(&env.pinfold(&["trail", "stats", "--json"]).stdout).expect("JSON")
}

/// The verifier, the statistics and the test's own walk agree that the trail is whole.
fn is_whole(env: &Env) {
    let (count, root) = walk(&bytes(env));
    let (code, report) = verify(env);
    assert_eq!((code, &report["verdict"]), (0, &json!("valid")), "{report}");
    let stats = stats(env);
    for answer in [&report, &stats] {
        assert_eq!((&answer["records"], &answer["size"]), (&json!(count), &json!(count)));
        assert_eq!(answer["root"], root);
    }
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["kind"].as_str().expect("a kind")).collect()
}

fn made(env: &Env) -> bool {
    env.workspace().join("made").exists()
}

fn runs(env: &Env) {
    let answer = env.run(&ACT);
    assert_eq!(answer.stdout(), "ok\n", "the control: {answer:?}");
    fs::remove_file(env.workspace().join("made")).expect("made");
}

#[test]
fn a_run_is_an_intent_a_start_two_outputs_and_an_end() {
    let Some(env) = Env::new() else { return };
    let answer = env.cmd(&["echo", "hello"]);
    let records = env.records();
    let run = ["log.open", "intent", "started", "output", "output", "end"];
    assert_eq!(kinds(&records), run);
    let [_, intent, started, out, err, end] = records.as_slice() else { panic!("{records:?}") };
    for record in &records[1..] {
        assert_eq!((&record["id"], &record["sess"]), (&intent["id"], &intent["sess"]));
    }
    let monos: Vec<u64> = records.iter().filter_map(|record| record["mono"].as_u64()).collect();
    assert!(monos.len() == 6 && monos.is_sorted(), "{monos:?}");
    assert_eq!(intent["argv"], json!(["echo", "hello"]));
    assert_eq!(intent["layers"], answer.reply["layers"]);
    assert_eq!(started["layers"], answer.reply["layers"]);
    let digest = hex(&Sha256::digest("hello\n"));
    assert_eq!(
        (&out["stream"], &out["bytes"], &out["sha256"]),
        (&"stdout".into(), &6.into(), &digest.into())
    );
    assert_eq!((&err["stream"], &err["bytes"]), (&"stderr".into(), &0.into()));
    assert_eq!((&end["outcome"], &end["exit_code"]), (&"ok".into(), &0.into()));
    is_whole(&env);
    let expected = json!({"records": 6, "intents": 1, "ends": 1, "refusals": 0, "size": 6,
        "root": answer.reply["trail"]["root"]});
    assert_eq!(stats(&env), expected);
}

#[test]
fn a_refusal_is_one_record() {
    let Some(env) = Env::new() else { return };
    env.cmd(&["frobnicate"]);
    assert_eq!(kinds(&env.records()), ["log.open", "refusal"]);
    is_whole(&env);
    assert_eq!(stats(&env)["refusals"], 1);
}

#[test]
fn the_intent_commits_to_the_program_and_to_the_plan() {
    let Some(env) = Env::new() else { return };
    for words in [["probe", "none", "ids"], ["probe", "none", "ids"], ["probe", "none", "fds"]] {
        assert_eq!(env.cmd(&words).code, 0);
    }
    let intents = env.records_of("intent");
    let program = &intents[0]["program"];
    let file = fs::canonicalize(env.path("bin/probe")).expect("the probe");
    let meta = fs::metadata(&file).expect("the probe");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(program["path"], file.to_str().expect("UTF-8"));
    assert_eq!((&program["dev"], &program["ino"]), (&meta.dev().into(), &meta.ino().into()));
    assert_eq!(program["size"], meta.size());
    assert_eq!(program["sha256"], hex(&Sha256::digest(fs::read(&file).expect("the probe"))));
    let plan = |at: usize| intents[at]["plan_sha256"].as_str().expect("a digest");
    assert_eq!(plan(0).len(), 64);
    assert_eq!(plan(0), plan(1), "the same call, the same plan");
    assert_ne!(plan(0), plan(2), "another call, another plan");
    // A program that has changed is another program.
    let mut content = fs::read(&file).expect("the probe");
    content.extend(b"more");
    fs::write(&file, content).expect("the probe");
    assert_eq!(env.cmd(&["probe", "none", "ids"]).code, 0);
    let intents = env.records_of("intent");
    assert_eq!(intents[3]["program"]["sha256"], hex(&Sha256::digest(fs::read(&file).expect("it"))));
    assert_ne!(intents[3]["program"]["sha256"], intents[0]["program"]["sha256"]);
}

#[test]
fn c29_two_processes_at_once_write_one_chain() {
    let Some(env) = Env::new() else { return };
    let one = |word: &str| {
        for _ in 0..50 {
            let answer = env.cmd(&["echo", word]);
            assert_eq!((answer.code, answer.stdout().trim()), (0, word), "{answer:?}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| one("left"));
        scope.spawn(|| one("right"));
    });
    is_whole(&env);
    let stats = stats(&env);
    assert_eq!((&stats["intents"], &stats["ends"]), (&100.into(), &100.into()));
    assert_eq!(stats["records"], 501, "{stats}");
}

#[test]
fn f20_no_word_of_a_caller_becomes_a_record_or_a_control_character() {
    let Some(env) = Env::new() else { return };
    let forged = "x\n{\"v\":1,\"seq\":2,\"kind\":\"end\",\"prev\":\"\"}\u{1b}[2J\u{202e}\u{85}";
    let words = ["--json", "--cwd", forged, "--", "echo", forged];
    assert_eq!(env.run(&words).code, 126);
    // A session's id is a plain word, or the call is wrong usage.
    let usage = env.pinfold(&["run", "--session", forged, "--", "echo", "a"]);
    assert_eq!(usage.status.code(), Some(125), "{usage:?}");
    assert_eq!(env.run(&["--json", "--session", "s-1.a", "--", "echo", "a"]).code, 0);
    let odd = env.path("odd\u{1b}[2J\nname");
    fs::create_dir(&odd).expect("a folder");
    let odd = odd.to_str().expect("UTF-8");
    assert_eq!(env.run(&["--json", "--workspace", odd, "--", "pwd"]).code, 0);
    // Characters that models read and people do not see are a word like any other for `echo`.
    assert_eq!(env.cmd(&["echo", "a\u{e0041}b"]).stdout(), "a\u{e0041}b\n");
    assert_eq!(env.records_of("end").len(), 3);
    is_whole(&env);
    let text = String::from_utf8(bytes(&env)).expect("UTF-8");
    let hidden =
        |ch: char| (ch.is_control() && ch != '\n') || "\u{202e}\u{2028}\u{e0041}".contains(ch);
    assert!(!text.contains(hidden));
    let shown = env.pinfold(&["trail", "show"]).stdout;
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert!(!shown.contains(hidden), "{shown:?}");
    assert_eq!(shown.lines().count(), env.records().len());
}

/// Runs the act behind a command that takes something away from it.
fn hampered(env: &Env, wrapper: &[&str]) -> Answer {
    let inner = env.command(&[&["run"], &ACT[..]].concat());
    let (first, rest) = wrapper.split_first().expect("a program");
    let mut outer = Command::new(first);
    outer.args(rest).arg(inner.get_program()).args(inner.get_args());
    outer.env("PINFOLD_HOME", env.path("state")).env("HOME", env.path("home"));
    to_answer(outer.current_dir(env.workspace()).output().expect("the wrapper starts"))
}

fn to_answer(output: Output) -> Answer {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let reply = serde_json::from_slice(&output.stdout);
    let reply = reply.unwrap_or_else(|error| panic!("no reply ({error}): {said}"));
    Answer { code: output.status.code().unwrap_or(-1), reply, said }
}

/// The call failed with `trail-unavailable` for this reason, and nothing ran.
fn unrecorded(env: &Env, answer: &Answer, reason: &str) {
    is_refusal(answer, "trail-unavailable", reason);
    assert!(!made(env), "something ran without a record: {answer:?}");
}

#[test]
fn c25_a_file_size_limit_lets_nothing_run() {
    let Some(env) = Env::new() else { return };
    let limit = |bytes: usize| format!("--fsize={bytes}:");
    let reason = "the file-size limit (RLIMIT_FSIZE) is reached";
    // No room for the first record of the trail; then room for that, and not for an intent.
    unrecorded(&env, &hampered(&env, &["prlimit", &limit(60)]), reason);
    unrecorded(&env, &hampered(&env, &["prlimit", &limit(1000)]), reason);
    runs(&env);
    let length = bytes(&env).len();
    unrecorded(&env, &hampered(&env, &["prlimit", &limit(length)]), reason);
    unrecorded(&env, &hampered(&env, &["prlimit", &limit(length + 100)]), reason);
    // A refusal that cannot be recorded is no refusal either.
    let inner = env.command(&["run", "--json", "--", "frobnicate"]);
    let mut outer = Command::new("prlimit");
    outer.arg(limit(length)).arg(inner.get_program()).args(inner.get_args());
    outer.env("PINFOLD_HOME", env.path("state")).current_dir(env.workspace());
    is_refusal(&to_answer(outer.output().expect("it starts")), "trail-unavailable", reason);
    is_whole(&env);
    runs(&env);
    is_whole(&env);
}

#[test]
fn an_end_that_cannot_be_recorded_is_told() {
    let Some(env) = Env::new() else { return };
    let before = env.cmd(&["pwd"]);
    assert_eq!(before.code, 0);
    runs(&env);
    let lines = bytes(&env);
    let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    let intent = lines[lines.len() - 5];
    assert!(intent.windows(15).any(|text| text == b"\"kind\":\"intent\""));
    let room = bytes(&env).len() + intent.len() + 40;
    let answer = hampered(&env, &["prlimit", &format!("--fsize={room}:")]);
    let message = answer.reply["message"].as_str().unwrap_or_default();
    assert_eq!((answer.code, answer.outcome()), (125, "error"), "{answer:?}");
    assert!(message.contains("its end cannot be recorded"), "{message}");
    assert!(message.contains("RLIMIT_FSIZE"), "{message}");
    assert!(made(&env), "the command ran: its intent was durable");
    assert_eq!(env.records_of("intent").len(), env.records_of("end").len() + 1);
    is_whole(&env);
}

#[test]
fn a_trail_that_cannot_be_written_lets_nothing_run() {
    let Some(env) = Env::new() else { return };
    runs(&env);
    let records = env.records().len();
    if is_root() {
        let state = env.path("state");
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
        let state = state.to_str().expect("UTF-8");
        let answer = hampered(&env, &["unshare", "-m", "sh", "-c", script, state]);
        unrecorded(&env, &answer, "the filesystem is read-only");
    } else {
        for (place, mode) in [("state/trail/LOCK", 0o400), ("state/trail", 0o000)] {
            let path = env.path(place);
            let old = fs::metadata(&path).expect("there").permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let answer = env.run(&ACT);
            fs::set_permissions(&path, old).expect("a mode");
            unrecorded(&env, &answer, "no permission");
        }
        fs::set_permissions(segment(&env), fs::Permissions::from_mode(0o400)).expect("a mode");
        let answer = env.run(&ACT);
        fs::set_permissions(segment(&env), fs::Permissions::from_mode(0o600)).expect("a mode");
        unrecorded(&env, &answer, "no permission");
    }
    assert_eq!(env.records().len(), records);
    runs(&env);
}

#[test]
fn a_state_folder_that_cannot_be_made_lets_nothing_run() {
    let Some(env) = Env::new() else { return };
    let file = env.outside_file("file", "");
    for state in [format!("{file}/state"), "/proc/pinfold".to_owned()] {
        let mut command = env.command(&[&["run"], &ACT[..]].concat());
        let answer = to_answer(command.env("PINFOLD_HOME", &state).output().expect("it starts"));
        unrecorded(&env, &answer, &state);
    }
}

#[test]
fn a_trail_that_others_could_have_written_lets_nothing_run() {
    let Some(env) = Env::new() else { return };
    runs(&env);
    for (place, mode) in [("state", 0o777), ("state/trail", 0o770), ("state/trail", 0o702)] {
        let path = env.path(place);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let answer = env.run(&ACT);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a mode");
        unrecorded(&env, &answer, "can be written by others");
    }
    fs::rename(env.path("state/trail"), env.path("moved")).expect("moved");
    std::os::unix::fs::symlink(env.path("moved"), env.path("state/trail")).expect("a link");
    unrecorded(&env, &env.run(&ACT), "is a symbolic link");
    fs::remove_file(env.path("state/trail")).expect("the link");
    fs::rename(env.path("moved"), env.path("state/trail")).expect("moved back");
    runs(&env);
    if !is_root() {
        return skip("only root can give folders away");
    }
    for place in ["state/trail", "state"] {
        std::os::unix::fs::chown(env.path(place), Some(12_345), None).expect("given away");
        unrecorded(&env, &env.run(&ACT), "belongs to user 12345");
        std::os::unix::fs::chown(env.path(place), Some(0), None).expect("taken back");
    }
    runs(&env);
}

#[test]
fn c25_a_full_disk_lets_nothing_run() {
    let Some(env) = Env::new() else { return };
    if !is_root() {
        return skip("only root can mount a small disk");
    }
    fs::create_dir(env.path("state")).expect("a folder");
    let state = env.path("state");
    let state = state.to_str().expect("UTF-8");
    // One page: not even the trail's own files fit.
    let tiny = "mount -t tmpfs -o size=4k,mode=700 none \"$0\" && exec \"$@\"";
    let answer = hampered(&env, &["unshare", "-m", "sh", "-c", tiny, state]);
    unrecorded(&env, &answer, "no space left on the filesystem");
    // A disk that fills up between two runs. What is left of the last page may hold some records,
    // so each run makes a file of its own: it is there if and only if its intent is.
    let fills = "mount -t tmpfs -o size=128k,mode=700 none \"$0\" || exit 9\n\
        \"$@\" first >&2 || exit 8\n\
        dd if=/dev/zero of=\"$0\"/fill bs=4k 2>/dev/null\n\
        for n in 1 2 3 4 5; do \"$@\" made-$n; done; cp \"$0\"/trail/seg-* copy";
    let mut inner = env.command(&["run", "--json", "--", "probe", "build", "create"]);
    inner.env("PINFOLD_HOME", state);
    let mut outer = Command::new("unshare");
    outer.args(["-m", "sh", "-c", fills, state]).arg(inner.get_program()).args(inner.get_args());
    outer.env("PINFOLD_HOME", state).current_dir(env.workspace());
    let output = outer.output().expect("unshare starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let replies = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a reply"));
    let replies: Vec<Value> = replies.collect();
    assert_eq!(replies.len(), 5, "{output:?}");
    assert!(env.workspace().join("first").exists());
    let trail = fs::read_to_string(env.workspace().join("copy")).expect("the trail's copy");
    for (n, reply) in replies.iter().enumerate() {
        let name = format!("made-{}", n + 1);
        let of_run = |line: &str| {
            line.contains("\"kind\":\"intent\"") && line.contains(&format!("\"{name}\"]"))
        };
        let recorded = trail.lines().any(of_run);
        assert_eq!(env.workspace().join(&name).exists(), recorded, "{reply}");
        // Either the record or the guard's note had no room.
        let code = reply["decision"]["code"].as_str();
        let refused = code.is_some_and(|code| ["trail-unavailable", "host"].contains(&code));
        assert_eq!(refused, !recorded, "{reply}");
    }
    let last = replies[4]["message"].as_str().unwrap_or_default();
    assert!(last.contains("no space left on the filesystem (ENOSPC)"), "{last}");
}

#[test]
fn c26_a_torn_last_record_is_kept_aside_recorded_and_does_not_stop_the_next_run() {
    let Some(env) = Env::new() else { return };
    runs(&env);
    let places: [fn(usize) -> usize; 6] =
        [|_| 1, |_| 2, |_| 14, |length| length / 2, |length| length - 2, |length| length - 1];
    for place in places {
        let whole = bytes(&env);
        let start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n');
        let start = start.expect("more than one line") + 1;
        let cut = start + place(whole.len() - start);
        fs::write(segment(&env), &whole[..cut]).expect("the segment");
        let (code, report) = verify(&env);
        assert_eq!((code, &report["verdict"]), (2, &json!("torn")), "{report}");
        assert_eq!(report["offset"], start, "{report}");
        torn(&env, &whole[start..cut], start);
    }
    // What a file system leaves of blocks that were never written.
    let length = bytes(&env).len();
    let zeroes = vec![0; 4096];
    fs::write(segment(&env), [bytes(&env), zeroes.clone()].concat()).expect("the segment");
    torn(&env, &zeroes, length);
}

/// The next run works, and the tail that was cut off is kept and recorded.
fn torn(env: &Env, tail: &[u8], offset: usize) {
    let sound = bytes(env)[..offset].to_vec();
    runs(env);
    is_whole(env);
    assert!(bytes(env).starts_with(&sound), "what was sound is as it was");
    let recovered = env.records_of("log.recovered").pop().expect("a record of it");
    let number = recovered["seq"].as_u64().expect("a number");
    assert_eq!(number, walk(&sound).0, "it is the next record");
    assert_eq!((&recovered["offset"], &recovered["length"]), (&offset.into(), &tail.len().into()));
    assert_eq!(recovered["sha256"], hex(&Sha256::digest(tail)));
    let kept = fs::read(env.path(&format!("state/trail/torn-{number}"))).expect("it is kept");
    assert_eq!(kept, tail);
}

#[test]
fn a_record_changed_before_the_last_one_stops_every_run_until_the_trail_is_moved_aside() {
    let Some(env) = Env::new() else { return };
    runs(&env);
    let mut text = bytes(&env);
    let starts: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    let place = starts[starts.len() - 3] + 20;
    text[place] ^= 1;
    fs::write(segment(&env), &text).expect("the segment");
    let (code, report) = verify(&env);
    assert_eq!((code, &report["verdict"]), (1, &json!("corrupt")), "{report}");
    for _ in 0..2 {
        let answer = env.run(&ACT);
        unrecorded(&env, &answer, "the trail is corrupt at");
        let next = answer.reply["decision"]["next"].as_str().expect("a next action");
        assert!(next.contains("aside; a new trail begins"), "{next}");
        assert_eq!(bytes(&env), text, "the evidence is as it was");
    }
    fs::rename(env.path("state/trail"), env.path("state/trail.damaged")).expect("moved aside");
    runs(&env);
    is_whole(&env);
}

#[test]
fn f23_whatever_is_changed_the_verifier_tells_where() {
    let Some(env) = Env::new() else { return };
    runs(&env);
    env.cmd(&["frobnicate"]);
    runs(&env);
    let whole = bytes(&env);
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let changed = |edit: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        edit(&mut lines);
        let folder = tempfile::tempdir_in(env.path("")).expect("a folder");
        fs::write(folder.path().join(segment(&env).file_name().expect("a name")), lines.concat())
            .expect("a copy");
        let words = ["trail".as_ref(), "verify".as_ref(), "--json".as_ref(), folder.path()];
        let output = env.pinfold(&words.map(Path::as_os_str));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code().unwrap_or(-1), report["line"].as_u64().unwrap_or(0))
    };
    assert_eq!(changed(&|_| ()), (0, 0), "the control: an untouched copy");
    let digit = |lines: &mut Vec<Vec<u8>>| {
        let at = lines[3].windows(8).position(|text| text == b"\"kind\":\"");
        lines[3][at.expect("a kind") + 8] ^= 1;
    };
    assert_eq!(changed(&digit), (1, 5), "a changed byte shows in the line behind it");
    assert_eq!(changed(&|lines| lines.swap(3, 4)), (1, 4), "two lines changed places");
    assert_eq!(changed(&|lines| lines.insert(4, lines[3].clone())), (1, 5), "a doubled line");
    assert_eq!(changed(&|lines| drop(lines.remove(3))), (1, 4), "a removed line");
    assert_eq!(changed(&|lines| drop(lines.remove(0))), (1, 1), "the first line removed");
    let foreign = b"{\"v\":1,\"seq\":4,\"kind\":\"end\"}\n".to_vec();
    assert_eq!(changed(&|lines| lines[4].clone_from(&foreign)), (1, 5), "a foreign line");
    let output = env.pinfold(&["trail", "verify", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(125), "unreadable is another exit code");
}

#[test]
fn c17_a_killed_supervisor_leaves_an_intent_without_an_end_and_a_sound_trail() {
    let Some(env) = Env::new() else { return };
    let tag = format!("{}", 700_000 + std::process::id());
    let mut run = env.start(&["--", "probe", "build", "sleep", &tag]);
    let begun = Instant::now();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("the run does not start", &|| env.records_of("started").len() == 1);
    run.kill().expect("killed");
    run.wait().expect("gone");
    wait("the tree is still there", &|| processes_with(&tag).is_empty());
    is_whole(&env);
    assert_eq!((&stats(&env)["intents"], &stats(&env)["ends"]), (&1.into(), &0.into()));
    runs(&env);
    is_whole(&env);
    assert_eq!((&stats(&env)["intents"], &stats(&env)["ends"]), (&2.into(), &1.into()));
    refused(&env, &["--json", "--", "frobnicate"], "unknown-program", "frobnicate");
}

#[test]
fn reading_the_trail_writes_nothing_and_needs_a_trail() {
    let Some(env) = Env::new() else { return };
    for words in [["trail", "show"], ["trail", "stats"], ["trail", "verify"]] {
        assert_eq!(env.pinfold(&words).status.code(), Some(125), "{words:?}");
    }
    assert!(!env.path("state").exists(), "a question made a state folder");
    env.cmd(&["pwd"]);
    let before = (bytes(&env), crate::input::tree(&env.path("state")));
    for words in [["trail", "show"], ["trail", "stats"], ["trail", "verify"]] {
        assert_eq!(env.pinfold(&words).status.code(), Some(0), "{words:?}");
    }
    assert_eq!((bytes(&env), crate::input::tree(&env.path("state"))), before);
}
