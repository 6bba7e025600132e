//! A command that looks at the project reads the paths that the call names and nothing else.

use crate::support::{Answer, Env};
use std::fs;
use std::os::unix::fs::symlink;

const HIDDEN: [&str; 2] = ["ENOENT", "EACCES"];

/// A host whose probe takes paths as operands; the act stands in an option.
fn host() -> Option<Env> {
    let env = Env::new()?;
    let keys = "values = [{ name = \"--do\", kind = \"text\", forms = [\"eq\"] }]\n\
                operands = { kind = \"path\", dot = true, min = 0, max = 4 }\n";
    env.template("probe", "see", ("read-only", "look"), keys);
    for name in ["README.md", "other.md", "src/a.rs", "src/deep/b.rs", "lib/c.rs"] {
        env.file(name, name);
    }
    Some(env)
}

/// Does an act with these operands granted.
fn see(env: &Env, act: &str, operands: &[&str]) -> String {
    let act = format!("--do={act}");
    let answer = env.cmd(&[&["probe", "see", act.as_str()], operands].concat());
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.stdout().trim().to_owned()
}

fn hidden(env: &Env, act: &str, operands: &[&str]) {
    let words: Vec<&str> = act.split(':').collect();
    let control = env.outside(&words);
    assert!(!control.starts_with('E'), "the control proves nothing: {act}: {control}");
    let seen = see(env, act, operands);
    assert!(HIDDEN.contains(&seen.as_str()), "{act} with {operands:?}: {seen}");
}

#[test]
fn cat_reads_the_file_it_names_as_outside() {
    let Some(env) = host() else { return };
    let answer = env.cmd(&["cat", "README.md", "./src/a.rs"]);
    assert_eq!((answer.code, answer.stdout()), (0, "README.mdsrc/a.rs"));
}

#[test]
fn a_command_that_names_a_file_sees_that_file_and_nothing_else() {
    let Some(env) = host() else { return };
    assert_eq!(see(&env, "read:README.md", &["README.md"]), "ok");
    for path in ["other.md", "src/a.rs", "lib/c.rs"] {
        hidden(&env, &format!("read:{path}"), &["README.md"]);
        hidden(&env, &format!("exists:{path}"), &["README.md"]);
    }
    hidden(&env, "list:.", &["README.md"]);
    hidden(&env, "list:src", &["README.md"]);
}

#[test]
fn a_command_that_names_a_folder_sees_all_below_it_and_nothing_beside() {
    let Some(env) = host() else { return };
    assert_eq!(see(&env, "list:src", &["src"]), "[a.rs deep]");
    assert_eq!(see(&env, "read:src/deep/b.rs", &["src"]), "ok");
    hidden(&env, "read:README.md", &["src"]);
    hidden(&env, "read:src/../lib/c.rs", &["src"]);
    assert_eq!(see(&env, "read:src/deep/b.rs", &["src/deep", "README.md"]), "ok");
    assert_eq!(see(&env, "read:README.md", &["src/deep", "README.md"]), "ok");
    hidden(&env, "read:src/a.rs", &["src/deep", "README.md"]);
}

/// One operand lies within another, in either order, and one is named twice.
#[test]
fn operands_within_operands_are_seen_once() {
    let Some(env) = host() else { return };
    for operands in [["src", "src/deep"], ["src/deep", "src"], ["src", "src/a.rs"], ["src", "src"]]
    {
        assert_eq!(see(&env, "read:src/a.rs", &operands), "ok", "{operands:?}");
        assert_eq!(see(&env, "list:src/deep", &operands), "[b.rs]", "{operands:?}");
        hidden(&env, "read:README.md", &operands);
    }
}

#[test]
fn a_command_without_operands_sees_its_working_folder() {
    let Some(env) = host() else { return };
    assert_eq!(see(&env, "read:README.md", &[]), "ok");
    assert_eq!(env.cmd(&["ls", "src"]).stdout(), "a.rs\ndeep\n");
    let below = |words: &[&str]| -> Answer {
        env.run(&[&["--json", "--cwd", "src", "--"], words].concat())
    };
    assert_eq!(below(&["ls"]).stdout(), "a.rs\ndeep\n");
    let beside = below(&["probe", "see", "--do=read:../README.md"]);
    assert!(HIDDEN.contains(&beside.stdout().trim()), "{beside:?}");
    assert_eq!(below(&["probe", "see", "--do=read:a.rs"]).stdout().trim(), "ok");
    assert_eq!(below(&["cat", "deep/b.rs"]).stdout(), "src/deep/b.rs");
}

/// What is named and absent is the command's own error, not a refusal.
#[test]
fn an_operand_that_is_not_there_is_reported_by_the_command() {
    let Some(env) = host() else { return };
    let answer = env.cmd(&["cat", "none.md"]);
    assert_eq!(answer.outcome(), "nonzero", "{answer:?}");
    assert!(answer.reply["stderr"].as_str().is_some_and(|text| text.contains("none.md")));
    hidden(&env, "read:README.md", &["none.md"]);
}

#[test]
fn an_operand_that_links_within_the_workspace_shows_what_it_leads_to() {
    let Some(env) = host() else { return };
    symlink("README.md", env.workspace().join("link.md")).expect("a link");
    symlink("src/deep", env.workspace().join("dir")).expect("a link");
    assert_eq!(env.cmd(&["cat", "link.md"]).stdout(), "README.md");
    assert_eq!(env.cmd(&["cat", "dir/b.rs"]).stdout(), "src/deep/b.rs");
    assert_eq!(see(&env, "list:dir", &["dir"]), "[b.rs]");
    hidden(&env, "read:src/a.rs", &["dir"]);
}

#[test]
fn a01_an_operand_that_links_out_of_the_workspace_shows_nothing() {
    let Some(env) = host() else { return };
    let canary = env.outside_file("canary", "secret");
    symlink("../canary", env.workspace().join("out.md")).expect("a link");
    symlink(&canary, env.workspace().join("far.md")).expect("a link");
    symlink("..", env.workspace().join("up")).expect("a link");
    for operand in ["out.md", "far.md", "up/canary"] {
        assert_eq!(env.outside(&["read", operand]), "ok");
        let answer = env.cmd(&["cat", operand]);
        assert_eq!(answer.outcome(), "nonzero", "{operand}: {answer:?}");
        assert_eq!(answer.stdout(), "", "{operand}");
        let intents = env.records_of("intent");
        let notes = intents.last().expect("an intent")["notes"].to_string();
        assert!(notes.contains("leads out of the workspace"), "{operand}: {notes}");
    }
}

#[test]
fn a02_a_dangling_link_is_neither_read_nor_filled() {
    let Some(env) = host() else { return };
    symlink("../not-yet", env.workspace().join("draft")).expect("a link");
    assert_eq!(env.cmd(&["cat", "draft"]).outcome(), "nonzero");
    for profile in ["build", "read"] {
        // Writing follows the link, as `echo x > draft` does; the host would make the file.
        let making = libc_creat().to_string();
        let act = ["open-mode", "draft", making.as_str(), "0o644"];
        assert_eq!(env.outside(&act), "ok");
        fs::remove_file(env.path("not-yet")).expect("the control's file");
        env.refused(profile, &act, &["ENOENT", "EACCES", "EROFS"]);
        assert!(!env.path("not-yet").exists());
    }
}

fn libc_creat() -> i32 {
    nix::fcntl::OFlag::O_CREAT.bits()
}

/// A link that is an alias of a masked file shows the mask.
#[test]
fn a48_a_link_to_a_masked_file_is_masked() {
    let Some(env) = host() else { return };
    env.file(".env", "SECRET=1");
    symlink(".env", env.workspace().join("x")).expect("a link");
    symlink(".", env.workspace().join("here")).expect("a link");
    for operand in [".env", "x", "here/.env", "./x"] {
        let answer = env.cmd(&["cat", operand]);
        assert!(!answer.reply.to_string().contains("SECRET"), "{operand}: {answer:?}");
    }
    hidden(&env, "read:x", &["x"]);
    hidden(&env, "read:.env", &[]);
    hidden(&env, "read:.env", &[".env"]);
    hidden(&env, "read:.env", &[".", ".env"]);
    hidden(&env, "read:x", &["x", "."]);
    hidden(&env, "read:here/.env", &["here"]);
    env.repository();
    for profile in ["repo", "build", "gate"] {
        env.denied(profile, &["read", "x"], &["EACCES"]);
    }
}

/// A masked place in a folder that is named twice: as an operand, and within another one.
#[test]
fn a_mask_holds_whichever_operands_show_the_place() {
    let Some(env) = host() else { return };
    env.file("src/deep/secret", "SECRET=1");
    env.file("src/vault/key", "SECRET=1");
    let mask = |path: &str| format!("[[mask]]\npath = \"{{workspace}}/{path}\"\nwhy = \"m\"\n");
    let body = format!(
        "operands_only = true\n[[read]]\npath = \"{{workspace}}\"\nwhy = \"r\"\n{}{}",
        mask("src/deep/secret"),
        mask("src/vault")
    );
    env.profile("peek", "read-only", &body);
    let keys = "values = [{ name = \"--do\", kind = \"text\", forms = [\"eq\"] }]\n\
                operands = { kind = \"path\", dot = true, min = 0, max = 4 }\n";
    env.template("probe", "spy", ("read-only", "peek"), keys);
    for operands in [
        &["src", "src/deep"][..],
        &["src/deep", "src"],
        &["src/deep/secret"],
        &["src/deep/secret", "src/deep", "."],
        &["src/vault", "src/vault/key"],
        &["src/vault/key"],
        &[],
    ] {
        for secret in ["src/deep/secret", "src/vault/key"] {
            assert_eq!(env.outside(&["read", secret]), "ok");
            let act = format!("--do=read:{secret}");
            let answer = env.cmd(&[&["probe", "spy", act.as_str()], operands].concat());
            let hidden = HIDDEN.contains(&answer.stdout().trim());
            assert!(hidden, "{secret} with {operands:?}: {answer:?}");
        }
    }
}
