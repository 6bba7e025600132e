//! Rung C: real programs that change modes and times, move files and start others go on working.

use crate::support::{Answer, Env, has_programs, is_root, skip};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project whose build does what builds do: compiles, strips, copies with times and modes,
/// packs and unpacks, installs, starts a script that it made.
const MAKEFILE: &str = "\
all: app.stripped copied unpacked installed started moved
app: main.c
\tcc -O1 -o app main.c
app.stripped: app
\tstrip -o app.stripped app
\t./app.stripped
copied: app
\tcp -p main.c copied
\tcp -a app copied-app
\ttest copied -ot Makefile || test ! copied -nt main.c
unpacked: app
\ttar cf all.tar main.c app
\tmkdir -p out && tar xpf all.tar -C out
\ttest -x out/app && ./out/app
\ttouch -d 2001-01-01 unpacked
installed: app
\tinstall -D -m 755 app root/bin/app
\t./root/bin/app
started:
\tprintf '#!/bin/sh\\necho script ran\\n' > script && chmod +x script && ./script
\tT=$$(mktemp -d) && echo x > $$T/f && mv $$T/f started
moved:
\tmkdir -p a b && echo x > a/f && mv a/f b/f && ln b/f a/g && ln -s ../b/f a/h && cat a/h > moved
";

fn succeeds(env: &Env, words: &[&str]) -> Answer {
    let answer = env.cmd(words);
    assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{words:?}: {answer:?}");
    assert_eq!(answer.reply["rung"], "C");
    answer
}

#[test]
fn make_strip_cp_tar_install_and_scripts_work() {
    if !has_programs(&["make", "cc", "strip", "tar", "install"]) {
        return;
    }
    let env = Env::contained();
    env.file("Makefile", MAKEFILE);
    env.file("main.c", "#include <stdio.h>\nint main(void) { puts(\"app ran\"); return 0; }\n");
    let old = fs::File::options().write(true).open(env.workspace().join("main.c")).expect("a file");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    old.set_modified(time).expect("a time");
    env.give_workspace();
    let answer = succeeds(&env, &["make"]);
    assert_eq!(answer.stdout().matches("app ran").count(), 3, "{answer:?}");
    assert!(answer.stdout().contains("script ran"), "{answer:?}");
    let path = |name: &str| env.workspace().join(name);
    let copied = fs::metadata(path("copied")).expect("copied");
    assert_eq!(copied.mtime(), 1_000_000_000, "cp -p keeps the time");
    assert_eq!(fs::metadata(path("out/main.c")).expect("unpacked").mtime(), 1_000_000_000);
    assert_eq!(fs::metadata(path("root/bin/app")).expect("installed").mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(path("unpacked")).expect("touched").mtime(), 978_307_200);
}

#[test]
fn git_makes_a_repository() {
    if !has_programs(&["git"]) {
        return;
    }
    let env = Env::contained();
    env.file("a.txt", "a\n");
    env.give_workspace();
    succeeds(&env, &["git", "init"]);
    assert!(env.workspace().join(".git/HEAD").exists());
    let status = succeeds(&env, &["git", "status", "--porcelain"]);
    assert_eq!(status.stdout(), "?? a.txt\n");
}

#[test]
fn npm_installs_a_local_package_and_runs_a_script() {
    if !has_programs(&["node", "npm", "make"]) {
        return;
    }
    let env = Env::contained();
    env.file("pkg/package.json", "{\"name\":\"pkg\",\"version\":\"1.0.0\",\"bin\":\"cli.js\"}\n");
    let cli = env.file("pkg/cli.js", "#!/usr/bin/env node\nconsole.log('pkg ran')\n");
    fs::set_permissions(cli, fs::Permissions::from_mode(0o644)).expect("a mode");
    env.file("package.json", "{\"name\":\"app\",\"scripts\":{\"build\":\"pkg\"}}\n");
    env.file("Makefile", "all:\n\tnpm install --offline --no-audit --no-fund ./pkg\n");
    env.give_workspace();
    succeeds(&env, &["make"]);
    assert!(env.workspace().join("node_modules/pkg/cli.js").exists());
    let answer = succeeds(&env, &["npm", "run", "build"]);
    assert!(answer.stdout().contains("pkg ran"), "{answer:?}");
}

#[test]
fn python_runs_its_tests_and_makes_an_environment() {
    if !has_programs(&["python3", "make"]) {
        return;
    }
    let env = Env::contained();
    let test = "import subprocess, sys, tempfile, threading, unittest\n\
        class T(unittest.TestCase):\n def test(self):\n  t = threading.Thread(target=print)\n  \
        t.start()\n  t.join()\n  with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n  \
        out = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True)\n  \
        self.assertEqual(out.stdout, b'1\\n')\n";
    env.file("test_a.py", test);
    let makefile = "all:\n\t/usr/bin/python3 -m unittest\n\
        \t/usr/bin/python3 -m venv --without-pip v && ./v/bin/python -c 'print(\"venv ran\")'\n";
    env.file("Makefile", makefile);
    env.give_workspace();
    let answer = succeeds(&env, &["make"]);
    assert!(answer.stdout().contains("venv ran"), "{answer:?}");
}

/// The folder of the toolchain that built this test.
fn toolchain() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    folder.join("bin/cargo").exists().then_some(folder)
}

/// Shows a folder under another name to this thread and what it starts: a toolchain below a home
/// folder is out of reach for the user that root's contained commands run as.
fn show(folder: &Path, at: &Path) {
    use nix::mount::{MsFlags, mount};
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
    fs::create_dir(at).expect("a folder");
    mount(Some(folder), at, none, MsFlags::MS_BIND, none).expect("a bind");
}

#[test]
fn cargo_tests_a_crate() {
    if !has_programs(&["cc"]) {
        return;
    }
    let Some(toolchain) = toolchain() else {
        assert!(std::env::var_os("PINFOLD_REQUIRE_TOOLCHAIN").is_none(), "a toolchain is required");
        return skip("no Rust toolchain is in reach");
    };
    let env = Env::contained();
    env.file("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let lib = "pub fn one() -> u8 { 1 }\n#[test]\nfn one_is_one() { assert_eq!(one(), 1); }\n";
    env.file("src/lib.rs", lib);
    let shown = if is_root() { env.path("toolchain") } else { toolchain.clone() };
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    let shown_text = shown.display();
    let tools = format!(
        "[[tools]]\nroot = \"{shown_text}\"\nbin = \"{shown_text}/bin\"\nprofiles = [\"build\"]\n\
         env = {{ CARGO_HOME = \"/nonexistent\" }}\n"
    );
    fs::write(&config, format!("{old}{tools}")).expect("the configuration");
    env.give_workspace();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            if is_root() {
                show(&toolchain, &shown);
            }
            let answer = succeeds(&env, &["cargo", "test", "--offline"]);
            assert!(answer.stdout().contains("1 passed"), "{answer:?}");
        });
        run.join().expect("it passed");
    });
}
