//! Promises of the room as a whole: what one part writes, the others find.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr)]

use super::file::Folder;
use super::line::{self, Entry, NOTHING_BEFORE, Stamp};
use super::*;
use crate::record::{
    Access, Approval, Body, Code, Digest, Intent, Outcome, ProgramFile, Rung, StreamSummary, Text,
    Word, is_unsafe_to_show,
};
use nix::unistd::Uid;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const SEGMENT: &str = "seg-00000000000000000000.jsonl";

/// A state folder for one test, and the trail folder in it, not yet made.
fn state() -> (tempfile::TempDir, PathBuf) {
    let state = tempfile::tempdir().expect("a temporary folder");
    let dir = state.path().join("trail");
    (state, dir)
}

fn intent(argv: &[&str]) -> Box<Intent> {
    let sha256 = Digest([7; 32]);
    let program = ProgramFile {
        path: Text::from("/usr/bin/git"),
        dev: 1,
        ino: 2,
        size: 3,
        ctime_ns: 1_700_000_000_123_456_789,
        sha256,
    };
    Box::new(Intent {
        tool: "run_command",
        template: "git-status".to_owned(),
        argv: argv.iter().map(|arg| Word::one(*arg)).collect(),
        argv_count: argv.len() as u64,
        argv_sha256: sha256,
        program,
        interpreter: None,
        workspace: Word::one("/home/me/app"),
        cwd: Word::Whole(Text(b"sub\xff".to_vec())),
        env: vec!["PATH".to_owned()],
        env_sha256: sha256,
        stdin_sha256: None,
        profile: "repo".to_owned(),
        access: Access::ReadOnly,
        rung: Rung::B,
        layers: vec!["user".to_owned(), "landlock:7".to_owned()],
        lacks: vec![],
        limits: [("memory".to_owned(), 1 << 30)].into(),
        uid: 1000,
        timeout_ms: 30_000,
        notes: Vec::new(),
        catalog_sha256: sha256,
        tighten_sha256: None,
        plan_sha256: Digest([9; 32]),
        approval: Approval {
            mode: "auto",
            template: "git-status".to_owned(),
            project: Text::from("/home/me/app"),
        },
    })
}

/// An intent with a long member; arguments would be written by their digest.
fn noted(note: &str) -> Box<Intent> {
    Box::new(Intent { notes: vec![note.to_owned()], ..*intent(&["git"]) })
}

fn started() -> Body {
    Body::Started { pid: 7, layers: vec!["seccomp".to_owned()] }
}

fn end() -> Vec<Body> {
    let summary = StreamSummary { bytes: 1, kept: 1, sha256: Digest([1; 32]), truncated: false };
    let end = Body::End {
        outcome: Outcome::Ok,
        exit_code: Some(0),
        signal: None,
        limit: None,
        error: None,
        duration_ms: 12,
        user_us: 1,
        system_us: 2,
        max_rss_kib: 3,
    };
    vec![Body::Output { stream: "stdout", summary }, end]
}

fn call() -> CallId {
    CallId::new().expect("random bytes")
}

/// Makes a trail of one call: `log.open`, `intent`, `started`, `output`, `end`.
fn one_call(dir: &Path) {
    let (trail, call) = (Trail::open(dir).expect("a new trail"), call());
    let receipt = trail.intent("s-1", &call, intent(&["git", "status"])).expect("a receipt");
    assert_eq!(receipt.place().seqs, 1..2);
    trail.append("s-1", &call, vec![started()]).expect("queued");
    let place = trail.append_durable("s-1", &call, end()).expect("durable");
    assert_eq!((place.seqs, place.size), (3..5, 5));
}

fn text_of(dir: &Path) -> Vec<u8> {
    fs::read(dir.join(SEGMENT)).expect("the segment")
}

fn lines_of(dir: &Path) -> Vec<Vec<u8>> {
    let text = text_of(dir);
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn put(dir: &Path, text: &[u8]) {
    fs::write(dir.join(SEGMENT), text).expect("the segment can be written");
}

/// Makes a trail folder that holds exactly this text.
fn with_text(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let (state, dir) = state();
    fs::create_dir(&dir).expect("a folder");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("its mode");
    put(&dir, text);
    (state, dir)
}

fn kinds(dir: &Path) -> Vec<String> {
    records(dir).expect("readable").map(|record| record.expect("a record").kind).collect()
}

fn valid(dir: &Path) -> Report {
    let report = verify(dir);
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    report
}

#[test]
fn a_line_has_exactly_this_form() {
    let argv = [Text::from("rm\n\u{7f}\u{85}\u{202e}\u{feff}\"\\"), Text(b"\xff".to_vec())];
    let body = Body::Refusal {
        tool: "run_command",
        line: None,
        argv: Word::list(&argv),
        argv_count: 2,
        argv_sha256: Digest([7; 32]),
        workspace: Word::one("/w\u{e0041}é"),
        template: None,
        code: Code::UnknownProgram,
        reason: "r".to_owned(),
        next: "n".to_owned(),
        counted: true,
    };
    let entry = Entry::encode(Some("s-1"), Some("01J"), &body).expect("encodes");
    let stamp = Stamp {
        wall_us: 1_796_035_462_123_456,
        mono_ns: 55,
        boot: "01234567-89ab-cdef-0123-456789abcdef",
    };
    let mut text = String::new();
    let leaf = entry.write(&mut text, 0, &stamp, &NOTHING_BEFORE);
    let wanted = concat!(
        r#"{"v":1,"seq":0,"ts":"2026-11-30T10:44:22.123456Z","mono":55,"#,
        r#""boot":"01234567-89ab-cdef-0123-456789abcdef","kind":"refusal","sess":"s-1","#,
        r#""id":"01J","tool":"run_command","line":null,"#,
        r#""argv":["rm\n\u007f\u0085\u202e\ufeff\"\\","#,
        r#"{"b64":"/w=="}],"argv_count":2,"#,
        r#""argv_sha256":"0707070707070707070707070707070707070707070707070707070707070707","#,
        r#""workspace":"/w\udb40\udc41é","template":null,"#,
        r#""code":"unknown-program","reason":"r","next":"n","counted":true,"#,
        r#""prev":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
        "\n",
    );
    assert_eq!(text, wanted);
    let record = line::decode(wanted.trim_end().as_bytes()).expect("a record");
    assert_eq!((record.seq, record.leaf, record.kind.as_str()), (0, leaf, "refusal"));
    assert_eq!(record.value["workspace"], Value::from("/w\u{e0041}é"));
    // The leaf of this line, taken by another SHA-256 over a zero byte and the line.
    assert_eq!(
        leaf.to_string(),
        "eacb59f905178690e1b7d62843998da79c9b26591a723bbcdea3de8e77a8dfe5"
    );
}

#[test]
fn timestamps_are_dates_of_the_calendar() {
    let shown =
        |seconds: u64| Stamp { wall_us: seconds * 1_000_000, mono_ns: 0, boot: "" }.timestamp();
    assert_eq!(shown(0), "1970-01-01T00:00:00.000000Z");
    assert_eq!(shown(951_782_399), "2000-02-28T23:59:59.000000Z");
    assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000000Z");
    assert_eq!(shown(951_868_800), "2000-03-01T00:00:00.000000Z");
    assert_eq!(shown(1_735_689_599), "2024-12-31T23:59:59.000000Z");
    assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    assert_eq!(shown(u64::MAX / 1_000_000), "9999-12-31T23:59:59.000000Z");
}

#[test]
fn lines_that_two_parsers_could_understand_differently_are_no_records() {
    let (_state, dir) = state();
    one_call(&dir);
    let sound = String::from_utf8(lines_of(&dir).remove(1)).expect("text");
    let sound = sound.trim_end();
    assert!(line::decode(sound.as_bytes()).is_ok());
    let long = format!("\"notes\":[\"{}\"]", "x".repeat(LINE_BYTES_MAX));
    for (from, to) in [
        ("\"uid\":1000", "\"uid\":1000,\"uid\":1000"),
        ("\"dev\":1", "\"dev\":1,\"\\u0064ev\":1"),
        ("repo", "re\0po"),
        ("repo", "\\ud800"),
        ("repo", "\\udc00\\ud800"),
        ("\"notes\":[]", long.as_str()),
        ("\"v\":1", "\"v\":2"),
        ("\"kind\"", "\"knid\""),
        ("\"sess\":\"s-1\",\"id\"", "\"id\":\"s-1\",\"sess\""),
        ("\"seq\":1,", "\"seq\":18446744073709551615,"),
        ("\"seq\":1,", "\"seq\":-1,"),
        ("\"prev\":", "\"prev\": "),
        ("\"boot\":\"", "\"boot\":7,\"b\":\""),
    ] {
        let changed = sound.replacen(from, to, 1);
        assert_ne!(changed, sound, "{from}");
        assert!(line::decode(changed.as_bytes()).is_err(), "{to}");
        let text = [&lines_of(&dir)[0], changed.as_bytes(), b"\n"].concat();
        let (_state, dir) = with_text(&text);
        assert_ne!(verify(&dir).verdict, Verdict::Valid, "{to}");
    }
    let not_utf8 = sound.replace("repo", "re\u{7f}o").into_bytes();
    let not_utf8: Vec<u8> = not_utf8.iter().map(|b| if *b == 0x7f { 0xff } else { *b }).collect();
    assert_eq!(line::decode(&not_utf8), Err("the line is not UTF-8".to_owned()));
}

#[test]
fn a_call_is_on_the_disk_in_order_and_can_be_read() {
    let (_state, dir) = state();
    one_call(&dir);
    assert_eq!(kinds(&dir), ["log.open", "intent", "started", "output", "end"]);
    let report = valid(&dir);
    let stats = stats(&dir).expect("readable");
    assert_eq!((stats.records, stats.intents, stats.ends, stats.refusals), (5, 1, 1, 0));
    assert_eq!((stats.size, stats.root), (report.size, report.root));
    let shown: Vec<String> =
        records(&dir).expect("readable").map(|record| human(&record.expect("sound"))).collect();
    assert!(shown[0].contains("log.open      - origin=\"pinfold/"), "{}", shown[0]);
    assert!(shown[1].contains("argv=[git status] template=git-status"), "{}", shown[1]);
    assert!(shown[4].ends_with("outcome=ok exit_code=0 duration_ms=12"), "{}", shown[4]);
    let id = fs::read_to_string(dir.join("id")).expect("the identity");
    let origin = id.lines().next().expect("a line");
    assert!(origin.starts_with("pinfold/") && origin.len() == 8 + 32, "{id}");
    for name in ["LOCK", "id", SEGMENT] {
        let mode = fs::metadata(dir.join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&dir).expect("there").permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_a_receipt_names_is_on_the_disk_while_the_trail_is_open() {
    let (_state, dir) = state();
    let (trail, call) = (Trail::open(&dir).expect("a new trail"), call());
    let receipt = trail.intent("s-1", &call, intent(&["git"])).expect("durable");
    assert_eq!((receipt.call(), receipt.plan()), (&call, &Digest([9; 32])));
    let lines = lines_of(&dir);
    let seq = usize::try_from(receipt.place().seqs.start).expect("small");
    let record = line::decode(lines[seq].trim_ascii_end()).expect("a record");
    assert_eq!((record.seq, record.kind.as_str()), (receipt.place().seqs.start, "intent"));
    assert_eq!((record.leaf, record.id.as_deref()), (receipt.place().root, Some(call.as_str())));
    assert_eq!(receipt.place().size, lines.len() as u64);
}

#[test]
fn shown_records_are_one_safe_line() {
    let (_state, dir) = state();
    let (trail, call) = (Trail::open(&dir).expect("a new trail"), call());
    let argv = ["x\n\u{1b}[2J", "\u{202e}", "", "a b", "\\", "\u{e0041}"];
    trail.append_durable("s\n", &call, vec![Body::Intent(intent(&argv))]).expect("durable");
    let text = String::from_utf8(text_of(&dir)).expect("text");
    assert!(!text.chars().any(|ch| is_unsafe_to_show(ch) && ch != '\n'), "{text}");
    let record = records(&dir).expect("readable").nth(1).expect("two").expect("sound");
    let shown = human(&record);
    assert!(shown.contains(r#"argv=["x\n\u{1b}[2J" \u{202e} "" "a b" \\ \u{e0041}]"#), "{shown}");
    assert!(!shown.chars().any(is_unsafe_to_show), "{shown}");
}

#[test]
fn many_writers_make_one_chain() {
    let (_state, dir) = state();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (trail, call) = (Trail::open(&dir).expect("opens"), call());
                for turn in 0..100 {
                    if turn % 10 == 0 {
                        trail.append_durable("s", &call, vec![started()]).expect("durable");
                    } else {
                        trail.append("s", &call, vec![started()]).expect("queued");
                    }
                }
            });
        }
    });
    assert_eq!(valid(&dir).records, 801);
}

#[test]
fn two_open_trails_take_turns() {
    let (_state, dir) = state();
    let (one, two) = (Trail::open(&dir).expect("opens"), Trail::open(&dir).expect("opens"));
    let call = call();
    for turn in 0..5 {
        let place = one.append_durable("s", &call, vec![started()]).expect("durable");
        assert_eq!(place.seqs, 1 + 3 * turn..2 + 3 * turn);
        let place = two.append_durable("s", &call, end()).expect("durable");
        assert_eq!(place.seqs, 2 + 3 * turn..4 + 3 * turn);
    }
    assert_eq!(valid(&dir).records, 16);
}

#[test]
fn nothing_to_append_is_a_wait_for_what_came_before() {
    let (_state, dir) = state();
    let trail = Trail::open(&dir).expect("a new trail");
    trail.append("s", &call(), vec![started()]).expect("queued");
    let place = trail.append_durable("s", &call(), Vec::new()).expect("durable");
    assert_eq!((place.seqs, place.size), (2..2, 2));
    assert_eq!(valid(&dir).root, place.root);
}

#[test]
fn a_record_that_is_too_long_is_refused_and_harms_nothing() {
    let (_state, dir) = state();
    let (trail, call) = (Trail::open(&dir).expect("a new trail"), call());
    let long = "x".repeat(LINE_BYTES_MAX);
    let error = trail.intent("s", &call, noted(&long)).expect_err("too long");
    assert!(matches!(error, Error::TooLong { limit: LINE_BYTES_MAX, .. }), "{error}");
    // What grows by escaping counts as it is written.
    let grown = "\u{1}".repeat(LINE_BYTES_MAX / 6);
    assert!(trail.append("s", &call, vec![Body::Intent(noted(&grown))]).is_err());
    let fits = "x".repeat(LINE_BYTES_MAX - 2048);
    let many = || vec![Body::Intent(noted(&fits)); 33];
    assert!(matches!(trail.append("s", &call, many()), Err(Error::TooLong { limit, .. })
        if limit == writer::BATCH_BYTES_MAX));
    trail.append_durable("s", &call, vec![Body::Intent(noted(&fits))]).expect("fits");
    drop(trail);
    assert_eq!(valid(&dir).records, 2);
    // The longest lines are found again at the end.
    let trail = Trail::open(&dir).expect("opens");
    trail.append_durable("s", &call, vec![Body::Intent(noted(&fits))]).expect("fits");
    drop(trail);
    Trail::open(&dir).expect("opens");
    assert_eq!(valid(&dir).records, 3);
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_kept_and_recorded() {
    let (_state, dir) = state();
    one_call(&dir);
    let text = text_of(&dir);
    let last = lines_of(&dir).pop().expect("a line");
    let start = text.len() - last.len();
    for length in start..text.len() {
        let (_state, dir) = with_text(&text[..length]);
        if length > start {
            let report = verify(&dir);
            let place = (report.verdict, report.records, report.line, report.offset);
            assert_eq!(place, (Verdict::Torn, 4, 5, start as u64), "{report:?}");
        }
        drop(Trail::open(&dir).expect("opens"));
        let report = valid(&dir);
        assert_eq!(report.records, if length > start { 5 } else { 4 });
        assert_eq!(&text_of(&dir)[..start], &text[..start]);
        if length > start {
            assert_eq!(kinds(&dir).last().map(String::as_str), Some("log.recovered"));
            let torn = fs::read(dir.join("torn-4")).expect("kept");
            assert_eq!(torn, &text[start..length]);
            let record = records(&dir).expect("readable").last().expect("one").expect("sound");
            assert_eq!(record.value["offset"], Value::from(start));
            assert_eq!(record.value["length"], Value::from(length - start));
        }
    }
}

#[test]
fn a_first_record_torn_at_any_byte_begins_the_log_anew() {
    let (_state, dir) = state();
    drop(Trail::open(&dir).expect("a new trail"));
    let text = text_of(&dir);
    for length in 0..text.len() {
        let (_state, dir) = with_text(&text[..length]);
        drop(Trail::open(&dir).expect("opens"));
        assert_eq!(valid(&dir).records, if length > 0 { 2 } else { 1 });
    }
}

#[test]
fn zeros_and_long_rubbish_behind_the_last_record_are_a_torn_tail() {
    let (_state, dir) = state();
    one_call(&dir);
    let text = text_of(&dir);
    for rubbish in [vec![0; 1], vec![0; 4096], vec![0; 1 << 20], b"{}\n".to_vec(), b"\n".to_vec()] {
        let (_state, dir) = with_text(&[text.as_slice(), &rubbish].concat());
        assert_eq!(verify(&dir).verdict, Verdict::Torn);
        drop(Trail::open(&dir).expect("opens"));
        assert_eq!(valid(&dir).records, 6);
    }
}

#[test]
fn a_tail_torn_under_an_open_trail_is_mended_by_its_next_write() {
    let (_state, dir) = state();
    let (trail, call) = (Trail::open(&dir).expect("a new trail"), call());
    trail.append_durable("s", &call, vec![started()]).expect("durable");
    let mut file = fs::OpenOptions::new().append(true).open(dir.join(SEGMENT)).expect("opens");
    file.write_all(b"{\"v\":1,\"seq\":2,\"ts").expect("writes");
    let place = trail.append_durable("s", &call, vec![started()]).expect("durable");
    assert_eq!(place.seqs, 3..4);
    assert_eq!(kinds(&dir), ["log.open", "started", "log.recovered", "started"]);
    valid(&dir);
}

#[test]
fn a_recovery_that_was_itself_cut_short_is_completed() {
    let (_state, dir) = state();
    one_call(&dir);
    let text = text_of(&dir);
    // Put aside, but not yet cut.
    let (_state, dir) = with_text(&[text.as_slice(), b"{\"v\""].concat());
    fs::write(dir.join("torn-5"), b"{\"v\"").expect("writes");
    drop(Trail::open(&dir).expect("opens"));
    assert_eq!(kinds(&dir)[5..], ["log.recovered"]);
    assert!(!dir.join("torn-5-1").exists());
    // Cut, but not yet recorded.
    put(&dir, &text);
    drop(Trail::open(&dir).expect("opens"));
    assert_eq!(kinds(&dir)[5..], ["log.recovered"]);
    // The record of the first cut was torn too.
    put(&dir, &[text.as_slice(), b"{\"v\":1,"].concat());
    drop(Trail::open(&dir).expect("opens"));
    assert_eq!(kinds(&dir)[5..], ["log.recovered", "log.recovered"]);
    assert_eq!(fs::read(dir.join("torn-5-1")).expect("kept"), b"{\"v\":1,");
    valid(&dir);
}

#[test]
fn damage_before_a_whole_record_is_corruption_and_left_as_it_is() {
    let (_state, dir) = state();
    one_call(&dir);
    let lines = lines_of(&dir);
    let at = lines[..3].concat().len();
    for (byte, with) in [(20, b'x'), (lines[3].len() - 1, b' ')] {
        let mut text = lines.concat();
        text[at + byte] = with;
        let (_state, dir) = with_text(&text);
        let Err(error) = Trail::open(&dir) else { panic!("opened at byte {byte}") };
        let Error::Corrupt { path, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((path, *offset), (&dir.join(SEGMENT), at as u64));
        assert!(error.to_string().contains("aside"), "{error}");
        assert_eq!(text_of(&dir), text);
        assert_eq!(verify(&dir).verdict, Verdict::Corrupt);
    }
}

#[test]
fn every_changed_byte_is_found() {
    let (_state, dir) = state();
    one_call(&dir);
    let (text, sound) = (text_of(&dir), valid(&dir));
    let last = text.len() - lines_of(&dir).pop().expect("a line").len();
    let (_state, copy) = with_text(&text);
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        put(&copy, &changed);
        let report = verify(&copy);
        // The last record has no successor that names it: its change shows in the root only.
        let is_found = report.verdict != Verdict::Valid || at >= last && report.root != sound.root;
        assert!(is_found, "byte {at}: {report:?}");
        // Both parsers say the same of the changed line, so readers agree with the verifier.
        let is_readable = records(&copy).expect("opens").all(|record| record.is_ok());
        assert!(is_readable || report.verdict != Verdict::Valid, "byte {at}: {report:?}");
    }
}

#[test]
fn deleted_doubled_and_swapped_lines_are_found() {
    let (_state, dir) = state();
    one_call(&dir);
    let lines = lines_of(&dir);
    let (_state, copy) = with_text(&[]);
    let verdict = |lines: &[Vec<u8>]| {
        put(&copy, &lines.concat());
        verify(&copy).verdict
    };
    for at in 0..lines.len() {
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at].clone());
        assert_eq!(verdict(&doubled), Verdict::Corrupt, "doubled {at}");
        if at + 1 < lines.len() {
            let mut changed = lines.clone();
            changed.remove(at);
            assert_eq!(verdict(&changed), Verdict::Corrupt, "deleted {at}");
            changed = lines.clone();
            changed.swap(at, at + 1);
            assert_eq!(verdict(&changed), Verdict::Corrupt, "swapped {at}");
        }
    }
    // The last line leaves no trace in the file; a known size and root are what shows it.
    assert_eq!(verdict(&lines[..4]), Verdict::Valid);
}

#[test]
fn a_log_in_several_segments_is_one_chain() {
    let (_state, dir) = state();
    one_call(&dir);
    let lines = lines_of(&dir);
    put(&dir, &lines[..2].concat());
    let second = dir.join("seg-00000000000000000002.jsonl");
    fs::write(&second, lines[2..].concat()).expect("writes");
    assert_eq!(valid(&dir).records, 5);
    assert_eq!(stats(&dir).expect("readable").records, 5);
    assert!(matches!(Trail::open(&dir), Err(Error::Unsafe { .. })), "not ours to continue");
    fs::rename(&second, dir.join("seg-00000000000000000003.jsonl")).expect("renames");
    assert_eq!(verify(&dir).verdict, Verdict::Corrupt);
    fs::remove_file(dir.join(SEGMENT)).expect("removes");
    assert_eq!(verify(&dir).verdict, Verdict::Corrupt);
}

#[test]
fn a_folder_without_a_trail_is_unreadable() {
    let (state, dir) = state();
    assert_eq!(verify(&dir).verdict, Verdict::Unreadable);
    assert_eq!(verify(state.path()).verdict.exit(), 125);
    assert!(records(state.path()).is_err());
}

#[test]
fn a_read_only_copy_can_be_verified() {
    let (state, dir) = state();
    one_call(&dir);
    let copy = state.path().join("copy");
    fs::create_dir(&copy).expect("a folder");
    fs::copy(dir.join(SEGMENT), copy.join(SEGMENT)).expect("copies");
    fs::set_permissions(copy.join(SEGMENT), fs::Permissions::from_mode(0o444)).expect("mode");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o555)).expect("mode");
    assert_eq!(valid(&copy), Report { segment: copy.join(SEGMENT), ..valid(&dir) });
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn what_others_can_write_is_refused() {
    let (state, dir) = state();
    one_call(&dir);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    };
    for (path, bad, good) in [
        (state.path().to_owned(), 0o770, 0o700),
        (dir.clone(), 0o702, 0o700),
        (dir.join(SEGMENT), 0o660, 0o600),
        (dir.join("LOCK"), 0o606, 0o600),
    ] {
        mode(&path, bad);
        let Err(error) = Trail::open(&dir) else { panic!("opened {}", path.display()) };
        assert!(error.to_string().contains("can be written by others"), "{error}");
        assert!(error.to_string().contains(&format!("chmod go-w {}", path.display())), "{error}");
        mode(&path, good);
        Trail::open(&dir).expect("opens again");
    }
}

#[test]
fn links_are_not_followed() {
    let (state, dir) = state();
    one_call(&dir);
    let link = state.path().join("link");
    symlink(&dir, &link).expect("links");
    let Err(error) = Trail::open(&link) else { panic!("opened a link") };
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
    fs::rename(dir.join(SEGMENT), state.path().join("elsewhere")).expect("renames");
    symlink(state.path().join("elsewhere"), dir.join(SEGMENT)).expect("links");
    assert!(Trail::open(&dir).is_err());
}

#[test]
fn a_folder_of_another_user_is_refused() {
    if !Uid::effective().is_root() {
        eprintln!("skipped: only root can give a folder away");
        return;
    }
    let (_state, dir) = state();
    one_call(&dir);
    std::os::unix::fs::chown(&dir, Some(12_345), None).expect("root may");
    let Err(error) = Trail::open(&dir) else { panic!("opened") };
    assert!(error.to_string().contains("belongs to user 12345"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_with_its_cause() {
    if Uid::effective().is_root() {
        eprintln!("skipped: root may write everywhere");
        return;
    }
    let (state, dir) = state();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o500)).expect("mode");
    let Err(error) = Trail::open(&dir) else { panic!("opened") };
    assert_eq!(error.cause(), Some(Cause::Permission), "{error}");
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).expect("mode");
}

#[test]
fn a_trail_that_was_deleted_under_its_writer_gives_no_receipts() {
    let (_state, dir) = state();
    let trail = Trail::open(&dir).expect("a new trail");
    fs::remove_file(dir.join(SEGMENT)).expect("removes");
    let error = trail.intent("s", &call(), intent(&["git"])).expect_err("nowhere to stand");
    assert!(error.to_string().contains("was deleted while it was in use"), "{error}");
}

#[test]
fn a_full_disk_poisons_the_writer_and_leaves_whole_lines() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    let state = tempfile::tempdir().expect("a temporary folder");
    let tmpfs =
        |flags, data: &str| mount(Some("tmpfs"), state.path(), Some("tmpfs"), flags, Some(data));
    if let Err(errno) = tmpfs(MsFlags::empty(), "size=64k,mode=0700") {
        eprintln!("skipped: a small filesystem cannot be mounted here ({errno})");
        return;
    }
    let dir = state.path().join("trail");
    let (trail, call) = (Trail::open(&dir).expect("a new trail"), call());
    let fill = || trail.append_durable("s", &call, vec![Body::Intent(intent(&["git"]))]);
    let (mut written, mut failed) = (1, None);
    for _ in 0..100 {
        match fill() {
            Ok(place) => written = place.size,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let failed = failed.expect("64 KiB are soon full");
    assert_eq!(failed.cause(), Some(Cause::NoSpace), "{failed}");
    assert!(failed.to_string().contains("free space"), "{failed}");
    assert_eq!(valid(&dir).records, written);
    tmpfs(MsFlags::MS_REMOUNT, "size=1m,mode=0700").expect("grows");
    assert_eq!(fill(), Err(failed), "a poisoned writer gives the same answer");
    let again = Trail::open(&dir).expect("opens");
    again.append_durable("s", &call, end()).expect("there is space again");
    drop((trail, again));
    assert_eq!(valid(&dir).records, written + 2);
    tmpfs(MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, "").expect("read-only");
    let Err(error) = Trail::open(&dir) else { panic!("opened") };
    assert_eq!(error.cause(), Some(Cause::ReadOnly), "{error}");
    umount2(state.path(), MntFlags::MNT_DETACH).expect("unmounts");
}

#[test]
fn missing_folders_are_made_for_their_owner_only() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let dir = state.path().join("a/b/trail");
    Folder::open(&dir).expect("made");
    for folder in [state.path().join("a"), state.path().join("a/b"), dir] {
        let mode = fs::metadata(&folder).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
    }
}
