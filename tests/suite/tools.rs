//! Toolchains that live in homes: given by `[[tools]]`, looked up first, read-only, for the named
//! profiles only; and what is said where one is missing.

use crate::init::{command, pinfold, script, shell, text};
use crate::support::{Answer, Env, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Has init write the configuration of the made-up home.
fn set_up(env: &Env) -> String {
    let init = pinfold(env, &["init"]);
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    fs::read_to_string(env.path("home/.config/pinfold/pinfold.toml")).expect("written")
}

/// Runs a command with the configuration that init wrote.
fn run(env: &Env, words: &[&str]) -> Value {
    let output = pinfold(env, &[&["run", "--json", "--"], words].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Adds lines to the configuration of the test's own host.
fn add(env: &Env, lines: &str) {
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    fs::write(&config, format!("{old}{lines}")).expect("the configuration");
}

fn message(answer: &Answer) -> &str {
    answer.reply["message"].as_str().unwrap_or_default()
}

/// What `node build.js` runs where node is a shell: tells what it sees, and tries to write.
const BUILD: &str = "echo \"PATH=$PATH\"\n\
    if cat \"$SECRET\" 2>/dev/null; then echo seen; else echo hidden; fi\n\
    if touch \"$ROOT/made\" 2>/dev/null; then echo wrote; else echo kept; fi\n";

#[test]
fn g24_node_of_every_manager_is_found_first_and_cannot_be_changed() {
    for root in [
        ".nvm/versions/node/v22.11.0",
        ".local/share/mise/installs/node/22.11.0",
        "node-v22.11.0-linux-x64",
        ".local/node",
    ] {
        let Some(env) = Env::new() else { return };
        shell(&env, &format!("{root}/bin/node"));
        let secret = script(&env, "secret", "not for commands\n");
        set_up(&env);
        let root = fs::canonicalize(env.path("home").join(root)).expect("a folder");
        let shown = root.display();
        env.file("build.js", &format!("ROOT={shown}\nSECRET={}\n{BUILD}", secret.display()));
        let reply = run(&env, &["node", "build.js"]);
        let out = reply["stdout"].as_str().unwrap_or_default();
        assert!(out.starts_with(&format!("PATH={shown}/bin:/usr/local/bin:")), "{reply}");
        assert!(out.ends_with("hidden\nkept\n"), "{reply}");
        assert!(!root.join("made").exists());
        // The control: outside, the same user writes there.
        fs::write(root.join("made"), "").expect("our own folder");
    }
}

#[test]
fn g10_a_cache_below_the_home_goes_to_the_scratch_home_of_the_run() {
    let Some(env) = Env::new() else { return };
    shell(&env, "node/bin/node");
    set_up(&env);
    let cache = "mkdir -p \"$HOME/.cache/x\" && echo kept > \"$HOME/.cache/x/y\"\n\
        echo \"$HOME $(cat \"$HOME/.cache/x/y\")\"\n";
    env.file("build.js", cache);
    assert_eq!(run(&env, &["node", "build.js"])["stdout"], "/tmp/home kept\n");
    assert!(!env.path("home/.cache").exists(), "nothing of it is in the real home");
}

#[test]
fn g24_npm_finds_its_interpreter_by_the_same_rules() {
    let Some(env) = Env::new() else { return };
    let root = ".nvm/versions/node/v22.11.0";
    shell(&env, &format!("{root}/bin/node"));
    let cli = format!("{root}/lib/node_modules/npm/bin/npm-cli.js");
    script(&env, &cli, "#!/usr/bin/env node\necho \"npm $*\"\n");
    let link = env.path("home").join(root).join("bin/npm");
    symlink("../lib/node_modules/npm/bin/npm-cli.js", link).expect("a link");
    set_up(&env);
    let reply = run(&env, &["npm", "run", "build"]);
    assert_eq!(reply["stdout"], "npm run build\n", "{reply}");
    let node = fs::canonicalize(env.path("home").join(root)).expect("it").join("bin/node");
    let intent = env.records_of("intent").pop().expect("an intent");
    assert_eq!(intent["interpreter"]["path"], node.to_str().expect("UTF-8"), "{intent}");
}

/// A home with rustup as it installs itself: cargo is a link to rustup.
fn rustup(env: &Env) {
    let proxy = "#!/bin/sh\necho \"$RUSTUP_HOME $CARGO_HOME\"\n\
        cat \"$CARGO_HOME/credentials.toml\" 2>/dev/null || echo no token\n\
        exec \"$RUSTUP_HOME/toolchains/stable-x/bin/cargo\" -c 'echo from the toolchain'\n";
    script(env, ".cargo/bin/rustup", proxy);
    symlink("rustup", env.path("home/.cargo/bin/cargo")).expect("a link");
    fs::write(env.path("home/.cargo/credentials.toml"), "token\n").expect("a file");
    shell(env, ".rustup/toolchains/stable-x/bin/cargo");
}

#[test]
fn rustup_gets_its_variables_and_no_token_is_seen() {
    let Some(env) = Env::new() else { return };
    rustup(&env);
    set_up(&env);
    let reply = run(&env, &["cargo", "build", "--offline"]);
    let home = fs::canonicalize(env.path("home")).expect("a folder");
    let home = home.display();
    let wanted = format!("{home}/.rustup {home}/.cargo\nno token\nfrom the toolchain\n");
    assert_eq!(reply["stdout"], wanted, "{reply}");
}

#[test]
fn g24_a_proxy_of_rustup_that_is_not_told_its_folder_is_refused_and_names_it() {
    let Some(env) = Env::new() else { return };
    rustup(&env);
    symlink(env.path("home/.cargo/bin/rustup"), env.path("bin/cargo")).expect("a link");
    let call = ["cargo", "build", "--offline"];
    let rustup = fs::canonicalize(env.path("home")).expect("a folder").join(".rustup");
    let refused = |env: &Env| {
        let answer = env.cmd(&call);
        assert_eq!((answer.code, answer.refusal()), (127, "program-unavailable"), "{answer:?}");
        let told = message(&answer).to_owned();
        let folder = format!("{}, which profile `build` must see", rustup.display());
        assert!(told.contains("a shim of rustup") && told.contains(&folder), "{told}");
        told
    };
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    // Seen, but the home of a command is not the home that rustup was installed in.
    add(&env, "\n[[tools]]\nroot = [\"~/.rustup\", \"~/.cargo\"]\nprofiles = [\"build\"]\n");
    refused(&env);
    fs::write(&config, old).expect("the configuration");
    let told = refused(&env);
    add(&env, told.split_once('\n').expect("lines").1);
    let answer = env.cmd(&call);
    assert!(answer.stdout().ends_with("from the toolchain\n"), "{answer:?}");
}

#[test]
fn a_program_that_a_home_has_is_refused_with_the_lines_that_would_bring_it() {
    let Some(env) = Env::new() else { return };
    rustup(&env);
    let call = ["cargo", "build", "--offline"];
    let answer = env.cmd(&call);
    assert_eq!((answer.code, answer.refusal()), (127, "program-unavailable"), "{answer:?}");
    let next = answer.reply["decision"]["next"].as_str().expect("a next action");
    assert!(next.contains("`pinfold init`") && next.contains("cargo is in ~/.cargo/bin"), "{next}");
    // The lines that it prints are the lines that it takes.
    let (_, lines) = message(&answer).split_once('\n').expect("lines");
    assert!(lines.starts_with("[[tools]]\n"), "{lines}");
    add(&env, lines);
    let answer = env.cmd(&call);
    assert!(answer.stdout().ends_with("from the toolchain\n"), "{answer:?}");
}

#[test]
fn tools_are_for_the_named_profiles_and_the_refusal_says_where_to_add_one() {
    let Some(env) = Env::new() else { return };
    let root = ".pyenv/versions/3.12.1";
    shell(&env, &format!("{root}/bin/python3"));
    let python = env.path("home").join(root).join("bin/python3");
    let echo = |name: &str| {
        let text = format!("#!{}\necho \"{name} of the home\"\n", python.display());
        script(&env, &format!("{root}/bin/{name}"), &text);
    };
    echo("pytest");
    echo("made-up");
    let tool = "\n[[tool]]\nid = \"m\"\nprogram = \"made-up\"\ndescribe = \"T.\"\n\
        access = \"none\"\ndecision = \"auto\"\nprofile = \"look\"\n\
        operands = { kind = \"none\" }\nmatch = [\"made-up\"]\nno_match = [\"made-up x\"]\n";
    let catalog = env.path("config/catalog.toml");
    let old = fs::read_to_string(&catalog).expect("the catalog");
    fs::write(&catalog, old + tool).expect("the catalog");
    let line = format!("\n[[tools]]\nroot = \"~/{root}\"\nbin = \"~/{root}/bin\"\n");
    add(&env, &format!("{line}profiles = [\"build\"]\n"));
    assert_eq!(env.cmd(&["pytest"]).stdout(), "pytest of the home\n");
    let answer = env.cmd(&["made-up"]);
    assert_eq!(answer.refusal(), "program-unavailable", "{answer:?}");
    let place = format!("{}:5:1", env.path("config/pinfold.toml").display());
    let next = format!("adds \"look\" to `profiles` at {place}");
    assert!(message(&answer).contains(&next), "{answer:?}");
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    fs::write(&config, old.replace("[\"build\"]", "[\"build\", \"look\"]")).expect("it");
    assert_eq!(env.cmd(&["made-up"]).stdout(), "made-up of the home\n", "the twin");
}

#[test]
fn g24_a_shim_works_where_its_manager_is_seen_and_else_names_the_folder() {
    let Some(env) = Env::new() else { return };
    let root = fs::canonicalize(env.path("home")).expect("a folder").join(".pyenv");
    script(&env, ".pyenv/versions/3.12.1/bin/pytest", "#!/bin/sh\necho the real pytest\n");
    shell(&env, ".pyenv/versions/3.12.1/bin/python3");
    let real = root.join("versions/3.12.1/bin");
    let manager = format!("#!/usr/bin/env bash\nexec {}/\"${{1##*/}}\"\n", real.display());
    script(&env, ".pyenv/libexec/pyenv", &manager);
    let shim = format!("#!/usr/bin/env bash\nexec {}/libexec/pyenv \"$0\"\n", root.display());
    let shim = script(&env, ".pyenv/shims/pytest", &shim);
    // The shim is first on the lookup path, its manager is not seen.
    symlink(&shim, env.path("bin/pytest")).expect("a link");
    let answer = env.cmd(&["pytest"]);
    assert_eq!((answer.code, answer.refusal()), (127, "program-unavailable"), "{answer:?}");
    let told = message(&answer).to_owned();
    assert!(told.contains("a shim of pyenv"), "{told}");
    assert!(told.contains(root.to_str().expect("UTF-8")), "{told}");
    let (_, lines) = told.split_once("\n").expect("lines");
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    add(&env, lines);
    assert_eq!(env.cmd(&["pytest"]).stdout(), "the real pytest\n", "the lines that it names");
    let whole =
        "\n[[tools]]\nroot = \"~/.pyenv\"\nbin = \"~/.pyenv/shims\"\nprofiles = [\"build\"]\n";
    fs::write(&config, old + whole).expect("the configuration");
    assert_eq!(env.cmd(&["pytest"]).stdout(), "the real pytest\n", "the shim, with its manager");
}

#[test]
fn g23_a_program_of_a_store_outside_usr_runs_through_a_profile_of_links() {
    let Some(env) = Env::new() else { return };
    shell(&env, "../store/aaa-node-22/bin/node");
    fs::create_dir_all(env.path("store/bbb-profile/bin")).expect("a folder");
    symlink("../../aaa-node-22/bin/node", env.path("store/bbb-profile/bin/node")).expect("a link");
    symlink(env.path("store/bbb-profile"), env.path("home/.nix-profile")).expect("a link");
    env.file("build.js", "echo from the store\n");
    // `node` may also be one of the host's; the store's comes first.
    let lines = format!(
        "\n[[tools]]\nroot = \"{}\"\nbin = \"~/.nix-profile/bin\"\nprofiles = [\"build\"]\n",
        env.path("store").display()
    );
    add(&env, &lines);
    assert_eq!(env.cmd(&["node", "build.js"]).stdout(), "from the store\n");
}

/// The home of this user, if it has a real rustup; where a toolchain is required it must.
fn real_home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    if home.join(".rustup/toolchains").is_dir() && home.join(".cargo/bin/cargo").exists() {
        return Some(home);
    }
    assert!(std::env::var_os("PINFOLD_REQUIRE_TOOLCHAIN").is_none(), "required: rustup");
    skip("no rustup in this user's home");
    None
}

/// Runs a command in the real home, with a configuration of the test's own.
fn run_at(env: &Env, home: &Path, words: &[&str]) -> Value {
    let mut run = command(env, &[&["run", "--json", "--"], words].concat());
    let output = run.env("HOME", home).output().expect("pinfold starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn the_real_rustup_builds_and_tests_with_the_lines_that_init_writes() {
    let Some(home) = real_home() else { return };
    let Some(env) = Env::new() else { return };
    let init = command(&env, &["init"]).env("HOME", &home).output().expect("pinfold starts");
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    assert!(text(&init.stdout).contains("found rustup"), "{init:?}");
    env.file("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    env.file("src/lib.rs", "#[test]\nfn sums() { assert_eq!(20 + 22, 42); }\n");
    env.file("src/main.rs", "fn main() { println!(\"built\"); }\n");
    let reply = run_at(&env, &home, &["cargo", "build", "--offline"]);
    assert_eq!(reply["outcome"], "ok", "{reply}");
    assert!(env.workspace().join("target/debug/app").exists());
    let reply = run_at(&env, &home, &["cargo", "test", "--offline"]);
    let out = reply["stdout"].as_str().unwrap_or_default();
    assert!(reply["outcome"] == "ok" && out.contains("test sums ... ok"), "{reply}");
}

#[test]
fn the_real_pyenv_lists_packages_and_its_shims_run() {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return };
    if !home.join(".pyenv/versions").is_dir() {
        return skip("no pyenv in this user's home");
    }
    let Some(env) = Env::new() else { return };
    let init = command(&env, &["init"]).env("HOME", &home).output().expect("pinfold starts");
    assert_eq!(init.status.code(), Some(0), "{init:?}");
    let reply = run_at(&env, &home, &["pip", "list", "--format=freeze"]);
    assert!(reply["stdout"].as_str().is_some_and(|out| out.contains("pip==")), "{reply}");
    env.file("Makefile", "all:\n\t@python3 -c 'import sys; print(sys.prefix)'\n");
    let prefix = home.join(".pyenv/versions");
    let prefix = prefix.to_str().expect("UTF-8");
    let reply = run_at(&env, &home, &["make"]);
    assert!(reply["stdout"].as_str().is_some_and(|out| out.starts_with(prefix)), "{reply}");
    let whole = "schema = 1\n[[tools]]\nroot = \"~/.pyenv\"\nbin = \"~/.pyenv/shims\"\n\
        profiles = [\"build\"]\n";
    fs::write(env.path("home/.config/pinfold/pinfold.toml"), whole).expect("it");
    let reply = run_at(&env, &home, &["make"]);
    assert!(reply["stdout"].as_str().is_some_and(|out| out.starts_with(prefix)), "{reply}");
}
