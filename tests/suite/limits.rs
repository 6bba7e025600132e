//! Limits that the kernel keeps for each process and each file system of a run.

use crate::support::{Env, skip};
use std::time::{Duration, Instant};

/// Size of the scratch folder of profile `read`, and how many files it holds.
const SCRATCH_BYTES: u64 = 64 << 20;
const SCRATCH_FILES: u64 = 16_384;

/// Splits what a probe printed: a number, and why there was no more.
fn number_and_why(told: &str) -> (u64, String) {
    let (number, why) = told.split_once(' ').unwrap_or_else(|| panic!("not two words: {told}"));
    (number.parse().unwrap_or_else(|_| panic!("not a number: {told}")), why.to_owned())
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
