//! A host program that replaces what is masked or protected while a command runs: the place is
//! covered again, the record says for how long it was off, and as root nothing opened it meanwhile.

use crate::support::{Answer, Env, is_root, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const SECRET: &str = "SECRET";
/// Saves in a series.
const SAVES: usize = 50;
/// A loss may not be longer; machines differ, and this says only that it ends at all.
const LOST_MAX_US: u64 = 100_000;

/// Whether root can have opens refused: only in the first user namespace.
fn closes() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    is_root() && map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
}

/// Saves as editors do: the new content under another name, which is then renamed.
fn save(path: &Path, content: &str) {
    let new = path.with_extension("new");
    fs::write(&new, content).expect("the new file");
    fs::rename(&new, path).expect("it takes the place");
}

/// A program that reads a place and prints how often it saw a secret. It ends when a file `stop` is
/// there and three reads after that found none, or where `give-up` is there.
fn reader(place: &str) -> String {
    format!(
        "seen=0; clean=0; over=; : > started; \
         while :; do text=; read -r text 2>/dev/null < {place}; \
         case \"$text\" in {SECRET}*) seen=$((seen+1)); clean=0;; *) clean=$((clean+1));; esac; \
         if [ -z \"$over\" ] && [ -e stop ]; then over=1; clean=0; fi; \
         if [ -n \"$over\" ] && {{ [ $clean -ge 3 ] || [ -e give-up ]; }}; then break; fi; done; \
         echo seen=$seen clean=$clean"
    )
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "{} appears", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a script in `build` and does something on the host while it runs.
fn meanwhile(env: &Env, script: &str, host: impl FnOnce()) -> Answer {
    let child = env.start(&["--json", "--", "msh", "-c", script]);
    wait_for(&env.workspace().join("started"));
    host();
    fs::write(env.workspace().join("stop"), "").expect("the sign");
    std::thread::sleep(Duration::from_millis(100));
    fs::write(env.workspace().join("give-up"), "").expect("the sign");
    let answer = Answer::of(child.wait_with_output().expect("it ends"));
    for name in ["started", "stop", "give-up"] {
        fs::remove_file(env.workspace().join(name)).expect("a sign");
    }
    answer
}

fn with_shell(env: Env) -> Env {
    env.shell("msh", "workspace-write", "build");
    env
}

fn number(text: &str, name: &str) -> u64 {
    let rest = text.split(&format!("{name}=")).nth(1).expect("the number is told");
    rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// Lengths of what was lost, sorted; every record has the path, and its length is below the bound.
fn lost(env: &Env, path: &Path, refused: bool) -> Vec<u64> {
    let mut lengths = Vec::new();
    for record in env.records_of("mask.lost") {
        assert_eq!(record["path"].as_str().map(Path::new), Some(path), "{record}");
        assert_eq!(record["opens_refused"], refused, "{record}");
        let length = record["lost_us"].as_u64().expect("a length");
        assert!(length < LOST_MAX_US, "{record}");
        lengths.push(length);
    }
    lengths.sort_unstable();
    lengths
}

fn show(what: &str, lengths: &[u64]) {
    let at = |percent: usize| lengths[(lengths.len() - 1) * percent / 100];
    let number = lengths.len();
    eprintln!("{what}: {number} losses, median {} us, p99 {} us", at(50), at(99));
}

fn real(path: &Path) -> std::path::PathBuf {
    fs::canonicalize(path).expect("a path")
}

fn save_often(path: &Path) {
    for at in 0..SAVES {
        save(path, &format!("{SECRET} {at}\n"));
        std::thread::sleep(Duration::from_millis(4));
    }
}

#[test]
fn a49_control_without_covering_again_the_command_reads_what_the_host_saved() {
    let Some(env) = Env::without("covers").map(with_shell) else { return };
    env.file(".env", "SECRET first\n");
    let path = env.workspace().join(".env");
    let answer = meanwhile(&env, &reader(".env"), || save(&path, "SECRET second\n"));
    assert!(number(answer.stdout(), "seen") > 0, "{answer:?}");
    assert_eq!(number(answer.stdout(), "clean"), 0, "it stays open: {answer:?}");
    assert!(env.records_of("mask.lost").is_empty());
}

/// Without refusing opens, as an ordinary user has it.
#[test]
fn a49_a_replaced_mask_is_covered_again_and_the_record_says_for_how_long_it_was_off() {
    let env = if closes() { Env::without("closes") } else { Env::new() };
    let Some(env) = env.map(with_shell) else { return };
    env.file(".env", "SECRET first\n");
    let path = env.workspace().join(".env");
    let answer = meanwhile(&env, &reader(".env"), || save_often(&path));
    assert_eq!(answer.outcome(), "ok", "{answer:?}");
    assert!(number(answer.stdout(), "clean") >= 3, "covered at the end: {answer:?}");
    let lengths = lost(&env, &real(&path), false);
    assert!(lengths.len() >= SAVES / 2, "{lengths:?}");
    show("covered again by inotify alone", &lengths);
    eprintln!("reads that saw a secret: {}", number(answer.stdout(), "seen"));
    let message = answer.reply["message"].as_str().expect("it is said");
    assert!(message.contains(".env") && message.contains("mask.lost"), "{message}");
    let shown = env.pinfold(&["trail", "show"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("mask.lost") && shown.contains("lost_us="), "{shown}");
    assert!(env.pinfold(&["trail", "verify"]).status.success());
}

#[test]
fn a49_as_root_no_read_of_many_saves_sees_the_secret() {
    let Some(env) = Env::new().map(with_shell) else { return };
    if !closes() {
        skip("only root of the first namespaces can have opens refused");
        return;
    }
    env.file(".env", "SECRET first\n");
    let path = env.workspace().join(".env");
    let answer = meanwhile(&env, &reader(".env"), || save_often(&path));
    assert_eq!(number(answer.stdout(), "seen"), 0, "{answer:?}");
    assert!(number(answer.stdout(), "clean") >= 3, "{answer:?}");
    let lengths = lost(&env, &real(&path), true);
    assert!(lengths.len() >= SAVES / 2, "{lengths:?}");
    show("covered again, opens refused", &lengths);
    let intent = &env.records_of("intent")[0];
    assert!(intent["layers"].to_string().contains("covers:fanotify"), "{intent}");
}

/// The host reads its own file all the while, and other files of the folder stay open to the run.
#[test]
fn refusing_opens_touches_neither_the_host_nor_other_files() {
    let Some(env) = Env::new().map(with_shell) else { return };
    env.file(".env", "SECRET first\n");
    env.file("plain", "SECRET only by name\n");
    env.file("deep/.env", "SECRET of no mask\n");
    let path = env.workspace().join(".env");
    let script = format!("cat plain deep/.env; {}", reader(".env"));
    let answer = meanwhile(&env, &script, || {
        for at in 0..SAVES {
            let text = format!("SECRET {at}\n");
            save(&path, &text);
            assert_eq!(fs::read_to_string(&path).expect("the host reads it"), text);
        }
    });
    assert!(answer.stdout().starts_with("SECRET only by name\nSECRET of no mask\n"), "{answer:?}");
}

#[test]
fn a_masked_folder_that_the_host_replaces_is_covered_again() {
    let Some(env) = Env::new() else { return };
    let mask = "[[mask]]\npath = \"{workspace}/vault\"\nwhy = \"m\"\n\
                [[write]]\npath = \"{workspace}\"\nwhy = \"w\"\n\
                [[execute]]\npath = \"{system}\"\nwhy = \"a shell\"\n";
    env.profile("vaults", "workspace-write", mask);
    env.shell("msh", "workspace-write", "vaults");
    env.file("vault/key", "SECRET first\n");
    let folder = env.workspace().join("vault");
    let replace = || {
        fs::rename(&folder, env.workspace().join("old")).expect("it moves away");
        env.file("next/key", "SECRET second\n");
        fs::rename(env.workspace().join("next"), &folder).expect("it takes the place");
    };
    let answer = meanwhile(&env, &reader("vault/key"), replace);
    assert!(number(answer.stdout(), "clean") >= 3, "{answer:?}");
    let lengths = lost(&env, &real(&folder), false);
    assert_eq!(lengths.len(), 1, "{lengths:?}");
    let notes = env.records_of("intent")[0]["notes"].to_string();
    assert!(notes.contains("can be opened until it is covered again"), "{notes}");
}

/// A link in the masked place is covered itself, whatever it leads to.
#[test]
fn a_masked_file_that_becomes_a_link_or_is_made_anew_is_covered_again() {
    let Some(env) = Env::new().map(with_shell) else { return };
    env.file("other", "SECRET elsewhere\n");
    let path = env.workspace().join(".env");
    let link = || {
        let new = env.workspace().join("link");
        std::os::unix::fs::symlink("other", &new).expect("a link");
        fs::rename(&new, &path).expect("it takes the place");
    };
    let anew = || {
        fs::remove_file(&path).expect("it goes");
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "SECRET anew\n").expect("it is made");
    };
    let changes: [&dyn Fn(); 2] = [&link, &anew];
    for change in changes {
        fs::remove_file(&path).ok();
        env.file(".env", "SECRET first\n");
        let before = env.records_of("mask.lost").len();
        let answer = meanwhile(&env, &reader(".env"), change);
        assert!(number(answer.stdout(), "clean") >= 3, "{answer:?}");
        assert!(env.records_of("mask.lost").len() > before, "{answer:?}");
    }
}

/// Another folder above the masked file is another file by the same path, also two folders above.
#[test]
fn a_folder_above_a_masked_file_that_the_host_replaces_leaves_the_file_covered() {
    let mask = "[[mask]]\npath = \"{workspace}/a/b/key\"\nwhy = \"m\"\n\
                [[write]]\npath = \"{workspace}\"\nwhy = \"w\"\n\
                [[execute]]\npath = \"{system}\"\nwhy = \"a shell\"\n";
    let near = |env: &Env| {
        env.file("next/key", "SECRET near\n");
        fs::rename(env.workspace().join("a/b"), env.workspace().join("old")).expect("it moves");
        fs::rename(env.workspace().join("next"), env.workspace().join("a/b")).expect("it comes");
    };
    let far = |env: &Env| {
        env.file("next/b/key", "SECRET far\n");
        fs::rename(env.workspace().join("a"), env.workspace().join("old")).expect("it moves");
        fs::rename(env.workspace().join("next"), env.workspace().join("a")).expect("it comes");
    };
    let anew = |env: &Env| {
        fs::rename(env.workspace().join("a"), env.workspace().join("old")).expect("it moves");
        std::thread::sleep(Duration::from_millis(20));
        env.file("a/b/key", "SECRET anew\n");
    };
    // Where the file comes with its folder, nobody watched the folder before.
    let changes: [&dyn Fn(&Env); 3] = [&near, &far, &anew];
    for (change, comes_with_folder) in changes.into_iter().zip([true, true, false]) {
        for (env, covered) in [(Env::without("covers"), false), (Env::new(), true)] {
            let Some(env) = env else { continue };
            env.profile("deep", "workspace-write", mask);
            env.shell("msh", "workspace-write", "deep");
            env.file("a/b/key", "SECRET first\n");
            let answer = meanwhile(&env, &reader("a/b/key"), || change(&env));
            let clean = number(answer.stdout(), "clean");
            let lost = env.records_of("mask.lost");
            if covered {
                assert!(clean >= 3, "{answer:?}");
                assert_eq!(lost.len(), 1, "{lost:?}");
                assert!(!comes_with_folder || lost[0]["opens_refused"] == false, "{lost:?}");
            } else {
                assert!(clean == 0 && number(answer.stdout(), "seen") > 0, "{answer:?}");
            }
        }
    }
}

/// git on the host writes its settings by rename, which takes the mount of the file away.
#[test]
fn the_settings_of_a_repository_stay_read_only_when_the_host_rewrites_them() {
    let script = ": > .git/started; while ! [ -e stop ]; do sleep 0.01; done; \
                  if echo x 2>/dev/null >> .git/config; then echo written; else echo refused; fi";
    for (env, expected) in [(Env::without("covers"), "written"), (Env::new(), "refused")] {
        let Some(env) = env else { continue };
        env.repository();
        let extra = "[[write]]\npath = \"{workspace}/.git\"\nmake = [\"file\"]\nwhy = \"w\"\n\
                     [[read]]\npath = \"{workspace}\"\nwhy = \"r\"\n\
                     [[protect]]\npath = \"{workspace}/.git/config\"\nwhy = \"p\"\n\
                     [[execute]]\npath = \"{system}\"\nwhy = \"a shell\"\n";
        env.profile("keeps", "workspace-write", extra);
        env.shell("gsh", "workspace-write", "keeps");
        let child = env.start(&["--json", "--", "gsh", "-c", script]);
        wait_for(&env.workspace().join(".git/started"));
        env.git(&["config", "user.name", "somebody else"]);
        std::thread::sleep(Duration::from_millis(100));
        fs::write(env.workspace().join("stop"), "").expect("the sign");
        let answer = Answer::of(child.wait_with_output().expect("it ends"));
        assert_eq!(answer.stdout().trim(), expected, "{answer:?}");
        let lengths = lost(&env, &real(&env.workspace().join(".git/config")), false);
        assert_eq!(lengths.is_empty(), expected == "written", "{lengths:?}");
    }
}

#[test]
fn a_run_without_masks_of_what_is_there_starts_nothing() {
    let Some(env) = Env::new().map(with_shell) else { return };
    let layers = |at: usize| env.records_of("intent")[at]["layers"].to_string();
    env.cmd(&["msh", "-c", "true"]);
    assert!(!layers(0).contains("covers:"), "{}", layers(0));
    env.file(".env", "SECRET\n");
    env.cmd(&["msh", "-c", "true"]);
    assert!(layers(1).contains("covers:inotify"), "{}", layers(1));
}

/// Returns the helper of a supervisor: the child that shares its memory, and so its words. The
/// tree's init does so too, until a moment after the command has started.
fn helper(supervisor: u32) -> Pid {
    let of = |pid: &str, what: &str| fs::read_to_string(format!("/proc/{pid}/{what}"));
    let words = of(&supervisor.to_string(), "cmdline").expect("it is there");
    let parent = format!("PPid:\t{supervisor}\n");
    let is_like = |pid: &String| {
        of(pid, "status").is_ok_and(|status| status.contains(&parent))
            && of(pid, "cmdline").is_ok_and(|found| found == words)
    };
    let began = Instant::now();
    loop {
        let pids = fs::read_dir("/proc").expect("processes").flatten();
        let pids = pids.filter_map(|pid| pid.file_name().into_string().ok());
        if let [helper] = &pids.filter(is_like).collect::<Vec<_>>()[..] {
            return Pid::from_raw(helper.parse().expect("a process id"));
        }
        assert!(began.elapsed() < Duration::from_secs(20), "there is one helper");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The command ends, and its helper before it, while the supervisor sees neither.
#[test]
fn a_helper_that_ended_before_the_command_did_is_not_passed_over() {
    let Some(env) = Env::new().map(with_shell) else { return };
    env.file(".env", "SECRET\n");
    let signs = ["started", "stop", "over"].map(|name| env.workspace().join(name));
    let [started, stop, over] = &signs;
    let script = ": > started; while ! [ -e stop ]; do sleep 0.01; done; : > over";
    // Which of the two is seen first is left to chance.
    for ends in [false, true, true, true, true, true, true] {
        let child = env.start(&["--json", "--", "msh", "-c", script]);
        wait_for(started);
        let supervisor = Pid::from_raw(child.id().try_into().expect("a process id"));
        let helper = helper(child.id());
        kill(supervisor, Signal::SIGSTOP).expect("it is stopped");
        if ends {
            kill(helper, Signal::SIGKILL).expect("it is killed");
        }
        fs::write(stop, "").expect("the sign");
        wait_for(over);
        std::thread::sleep(Duration::from_millis(50));
        kill(supervisor, Signal::SIGCONT).expect("it goes on");
        let answer = Answer::of(child.wait_with_output().expect("it ends"));
        assert_eq!(answer.outcome(), if ends { "error" } else { "ok" }, "{answer:?}");
        if ends {
            let message = answer.reply["message"].as_str().expect("it is said");
            assert!(message.contains("helper has ended"), "{message}");
        }
        signs.iter().for_each(|sign| fs::remove_file(sign).expect("a sign"));
    }
}
