//! What a command can see, read and write.

use crate::support::Env;
use std::fs;

const HIDDEN: [&str; 2] = ["ENOENT", "EACCES"];
const UNWRITABLE: [&str; 2] = ["EROFS", "EACCES"];

#[test]
fn a_file_outside_cannot_be_read_or_written() {
    let Some(env) = Env::new() else { return };
    env.repository();
    let canary = env.outside_file("canary", "old");
    for profile in ["look", "repo", "build", "gate", "read", "none"] {
        env.denied(profile, &["read", &canary], &HIDDEN);
        env.denied(profile, &["write", &canary], &["ENOENT", "EACCES", "EROFS"]);
    }
}

#[test]
fn a_read_only_command_cannot_write_the_workspace_and_a_build_can() {
    let Some(env) = Env::new() else { return };
    let file = env.file("a.txt", "a");
    env.denied("read", &["write", &file], &UNWRITABLE);
    env.denied("read", &["create", "new.txt"], &UNWRITABLE);
    env.allowed("build", &["write", &file]);
    env.allowed("build", &["create", "new.txt"]);
    assert_eq!(fs::read_to_string(env.workspace().join("new.txt")).expect("made"), "probe");
}
