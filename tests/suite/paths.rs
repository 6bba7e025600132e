//! What a profile's paths do where they are missing, wrong or patterns.

use crate::support::Env;
use crate::support::twin::WRITES;
use std::fs;

#[test]
fn a15_a16_a_missing_path_to_read_is_noted_and_weakens_nothing() {
    let Some(env) = Env::new() else { return };
    let canary = env.outside_file("canary", "old");
    let missing = "[[read]]\npath = \"/no/such/folder\"\nwhy = \"r\"\n";
    env.profile("gap", "workspace-write", &format!("{missing}{WRITES}"));
    env.allowed("gap", &["create", "new"]);
    env.denied("gap", &["read", &canary], &["ENOENT", "EACCES"]);
    env.denied("gap", &["create", "../outside"], &["ENOENT", "EACCES", "EROFS"]);
    for intent in env.records_of("intent") {
        let notes = intent["notes"].to_string();
        assert!(notes.contains("gap.toml:") && notes.contains("/no/such/folder"), "{notes}");
    }
}

#[test]
fn a16_a_missing_path_to_write_refuses_the_run() {
    let Some(env) = Env::new() else { return };
    let write = |path: &str, more: &str| {
        let body = format!("[[write]]\npath = \"{path}\"\nwhy = \"w\"\n{more}");
        env.profile("gap", "workspace-write", &body);
        let catalog = env.path("config/catalog.toml");
        let answer = env.cmd(&["probe", "gap", "ids"]);
        // The template is added anew for each path.
        let text = fs::read_to_string(&catalog).expect("the catalog");
        let head = text.find("\n[[tool]]\nid = \"t-probe-gap\"").expect("the template");
        fs::write(&catalog, &text[..head]).expect("the catalog");
        answer
    };
    for path in ["{workspace}/missing", "/no/such/folder"] {
        let answer = write(path, "");
        assert_eq!((answer.code, answer.refusal()), (126, "profile-unavailable"), "{answer:?}");
        let message = answer.reply["message"].to_string();
        assert!(message.contains("gap.toml:") && message.contains("Nothing ran"), "{message}");
        assert!(message.contains(path), "{message}");
    }
    assert_eq!(env.records_of("intent").len(), 0);
    assert_eq!(env.records_of("refusal").len(), 2);
    // Where the profile says that it may be missing, it is only noted.
    let answer = write("{workspace}/missing", "optional = true\n");
    assert_eq!(answer.outcome(), "ok", "{answer:?}");
    let notes = env.records_of("intent")[0]["notes"].to_string();
    assert!(notes.contains("{workspace}/missing"), "{notes}");
    assert!(!env.workspace().join("missing").exists());
}

/// A mask covers a name, so a pattern cannot be one; the profile is refused before it is used.
#[test]
fn a47_a_pattern_in_a_mask_is_refused_with_an_explanation() {
    let Some(env) = Env::new() else { return };
    for (path, sound) in [
        ("**/.env", false),
        ("*.pem", false),
        (".en?", false),
        (".[a-z]nv", false),
        (".{env,key}", false),
        ("deep/.env", true),
    ] {
        let file = env.path("config/profiles/extra.toml");
        let profile = format!(
            "schema = 1\nname = \"extra\"\nwhy = \"w\"\ninherits = \"build\"\nrung = \"B\"\n\
             [[mask]]\npath = \"{{workspace}}/{path}\"\nwhy = \"m\"\n"
        );
        fs::write(&file, profile).expect("a profile");
        let check = env.pinfold(&["profile", "check", file.to_str().expect("UTF-8")]);
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert_eq!(check.status.success(), sound, "{path}: {said}");
        if !sound {
            assert!(said.contains("is a pattern") && said.contains("name the folder"), "{said}");
            assert!(said.contains("come to match a pattern later"), "{said}");
            assert!(said.contains("extra.toml:7:8"), "{said}");
            let answer = env.cmd(&["ls"]);
            assert_eq!((answer.code, answer.refusal()), (125, "config"), "{answer:?}");
        }
    }
}
