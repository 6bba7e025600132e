//! Real programs on real input give inside what they give outside.

use crate::support::{Answer, Env, has_programs, lacking, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the shipped catalog looks programs up.
pub(super) const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Makes a host, if it has these programs.
pub(super) fn host(programs: &[&str]) -> Option<Env> {
    has_programs(programs).then(Env::new).flatten()
}

/// Runs a command outside, in the workspace, with a plain environment.
pub(super) fn outside(env: &Env, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(env.workspace()).env_clear();
    command.env("PATH", PATH.join(":")).env("HOME", env.path("home")).env("LANG", "C.UTF-8");
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command inside; it must succeed.
fn inside(env: &Env, words: &[&str]) -> Answer {
    let answer = env.cmd(words);
    assert_eq!((answer.code, answer.outcome()), (0, "ok"), "{words:?}: {answer:?}");
    answer
}

/// The command succeeds outside and inside and prints the same on standard output.
fn same(env: &Env, words: &[&str]) -> String {
    let control = outside(env, words);
    assert!(control.status.success(), "{words:?} fails outside: {control:?}");
    let answer = inside(env, words);
    assert_eq!(answer.stdout(), text(&control.stdout), "{words:?}");
    answer.stdout().to_owned()
}

pub(super) fn script(env: &Env, name: &str, content: &str) -> String {
    let path = env.file(name, content);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

#[test]
fn g12_git_makes_a_repository_and_its_first_commits() {
    let Some(env) = host(&["git"]) else { return };
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    let identity = "git_identity = \"Ann Agent <ann@agents.invalid>\"\n";
    fs::write(&config, format!("{old}{identity}")).expect("the configuration");
    env.file("a.txt", "one\n");
    env.file("src/b.txt", "two\n");
    inside(&env, &["git", "init", "-q", "-b", "main"]);
    let status = inside(&env, &["git", "status", "--porcelain"]);
    assert_eq!(status.stdout(), "?? a.txt\n?? src/\n");
    inside(&env, &["git", "add", "a.txt", "src/b.txt"]);
    assert_eq!(
        inside(&env, &["git", "diff", "--staged", "--name-only"]).stdout(),
        "a.txt\nsrc/b.txt\n"
    );
    let first = inside(&env, &["git", "commit", "-q", "-m", "first\n\nwith a body"]);
    assert_eq!(first.reply["message"], Value::Null, "the identity is the operator's");
    env.file("a.txt", "one\nmore\n");
    let diff = inside(&env, &["git", "diff", "--stat"]);
    assert!(diff.stdout().contains("a.txt | 1 +"), "{diff:?}");
    inside(&env, &["git", "add", "a.txt"]);
    inside(&env, &["git", "commit", "-m", "second"]);
    assert_eq!(inside(&env, &["git", "status", "--porcelain"]).stdout(), "");
    // The host's own git finds a sound repository with both commits, by the configured author.
    assert_eq!(env.git(&["log", "--format=%s"]), "second\nfirst\n");
    let author = "Ann Agent <ann@agents.invalid>";
    let people = env.git(&["log", "-1", "--format=%an <%ae>%n%cn <%ce>"]);
    assert_eq!(people, format!("{author}\n{author}\n"));
    env.git(&["fsck", "--strict"]);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    // A second `git init` is refused: there is a repository.
    assert_eq!(env.cmd(&["git", "init"]).refusal(), "already-there");
}

/// Whose a commit is that nobody configured is told, to the agent and in the commit.
#[test]
fn a_commit_without_a_configured_identity_says_whose_it_is() {
    let Some(env) = host(&["git"]) else { return };
    env.repository();
    env.file("new.txt", "new\n");
    let added = inside(&env, &["git", "add", "new.txt"]);
    assert_eq!(added.reply["message"], Value::Null, "only a commit has an author");
    let committed = inside(&env, &["git", "commit", "-q", "-m", "new"]);
    let who = "Pinfold agent <agent@pinfold.invalid>";
    let message = committed.reply["message"].as_str().expect("it is said");
    assert!(message.contains(who) && message.contains("`git_identity`"), "{message}");
    let people = env.git(&["log", "-1", "--format=%an <%ae>%n%cn <%ce>"]);
    assert_eq!(people, format!("{who}\n{who}\n"));
    // What did not commit has no author either.
    let nothing = env.cmd(&["git", "commit", "-q", "-m", "nothing is staged"]);
    assert_eq!(nothing.reply["exit_code"], 1, "{nothing:?}");
    assert_eq!(nothing.reply["message"], Value::Null, "{nothing:?}");
}

#[test]
fn git_shows_inside_what_it_shows_outside() {
    let Some(env) = host(&["git"]) else { return };
    env.repository();
    env.file("tracked.txt", "changed\n");
    env.file("new.txt", "new\n");
    let tell = |words: &[&str]| {
        let words = [&["git"], words].concat();
        assert_eq!(inside(&env, &words).stdout(), env.git(&words[1..]), "{words:?}");
    };
    for words in
        [&["status"][..], &["status", "--porcelain=v2", "--branch"], &["diff"], &["diff", "--stat"]]
    {
        tell(words);
    }
    env.git(&["add", "new.txt"]);
    tell(&["diff", "--staged"]);
    tell(&["--no-pager", "status", "-s"]);
}

/// A way to make git start a program of the repository.
struct Trap {
    name: &'static str,
    /// Sets it; gets the path of the program.
    set: fn(&Env, &str),
    /// What springs it, by the host's own git and inside.
    call: &'static [&'static str],
}

pub(super) fn config(env: &Env, key: &str, value: &str) {
    env.git(&["config", key, value]);
}

fn hooks(env: &Env, folder: &str, program: &str) {
    for name in ["pre-commit", "post-commit", "post-index-change", "reference-transaction"] {
        let hook = env.workspace().join(folder).join(name);
        fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
        fs::copy(program, hook).expect("a hook");
    }
}

const TRAPS: [Trap; 10] = [
    Trap {
        name: "e01_hooks",
        set: |env, program| hooks(env, ".git/hooks", program),
        call: &["commit", "-m", "x"],
    },
    Trap {
        name: "e04_hooks_path",
        set: |env, program| {
            hooks(env, ".husky", program);
            config(env, "core.hooksPath", ".husky");
        },
        call: &["commit", "-m", "x"],
    },
    Trap {
        name: "e03_fsmonitor_status",
        set: |env, program| config(env, "core.fsmonitor", program),
        call: &["status", "--porcelain"],
    },
    Trap {
        name: "e03_fsmonitor_add",
        set: |env, program| config(env, "core.fsmonitor", program),
        call: &["add", "tracked.txt"],
    },
    Trap {
        name: "e05_included_fsmonitor",
        set: |env, program| {
            env.file("inc", &format!("[core]\n\tfsmonitor = {program}\n"));
            config(env, "include.path", "../inc");
        },
        call: &["diff"],
    },
    Trap {
        name: "e08_clean_filter_diff",
        set: |env, program| {
            env.file(".gitattributes", "*.txt filter=evil\n");
            config(env, "filter.evil.clean", program);
        },
        call: &["diff"],
    },
    Trap {
        name: "e08_clean_filter_add",
        set: |env, program| {
            env.file(".gitattributes", "*.txt filter=evil\n");
            config(env, "filter.evil.clean", program);
        },
        call: &["add", "tracked.txt"],
    },
    Trap {
        name: "e07_external_diff",
        set: |env, program| config(env, "diff.external", program),
        call: &["diff"],
    },
    Trap {
        name: "e07_textconv",
        set: |env, program| {
            env.file(".gitattributes", "*.txt diff=evil\n");
            config(env, "diff.evil.textconv", program);
        },
        call: &["diff"],
    },
    Trap {
        name: "gpg_program",
        set: |env, program| {
            config(env, "gpg.program", program);
            config(env, "commit.gpgSign", "true");
        },
        call: &["commit", "-m", "x"],
    },
];

#[test]
fn no_program_that_a_repository_names_is_started() {
    for trap in TRAPS {
        // The guard refuses to start git here; what is shown is what holds without it.
        let Some(env) = has_programs(&["git"]).then(|| Env::without("guard")).flatten() else {
            return;
        };
        env.repository();
        let fired = env.workspace().join(".git/fired");
        let body = format!("#!/bin/sh\necho FIRED\necho FIRED >&2\ntouch {}\n", fired.display());
        let program = script(&env, ".git/trap", &body);
        (trap.set)(&env, &program);
        let change = |content: &str| {
            env.file("tracked.txt", content);
            if trap.call[0] == "commit" {
                let mut words = vec!["-c", "core.hooksPath=/dev/null"];
                words.extend(["add", "tracked.txt"]);
                env.git(&words);
            }
        };
        change("outside\n");
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
        let words = [&["git"], &identity[..], trap.call].concat();
        let control = outside(&env, &words);
        assert!(fired.exists(), "{}: the control does not fire: {control:?}", trap.name);
        fs::remove_file(&fired).expect("fired by the control");
        change("inside\n");
        let answer = env.cmd(&[&["git"], trap.call].concat());
        assert_eq!(answer.code, 0, "{}: {answer:?}", trap.name);
        assert!(!fired.exists(), "{}: {answer:?}", trap.name);
        let told = answer.reply.to_string();
        // Neither its words, nor git's complaint that it cannot be started.
        assert!(!told.contains("FIRED") && !told.contains("trap"), "{}: {told}", trap.name);
    }
}

#[test]
fn e16_a_bare_repository_among_the_files_is_not_used() {
    let Some(env) = host(&["git"]) else { return };
    env.repository();
    let fired = env.path("fired");
    let program = env.path("trap");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", fired.display())).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    env.git(&["init", "-q", "--bare", "docs/a"]);
    let bare = env.workspace().join("docs/a/config");
    let text = format!(
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = {}\n",
        program.display()
    );
    fs::write(bare, text).expect("its settings");
    let control = outside(&env, &["git", "-C", "docs/a", "status"]);
    assert!(fired.exists(), "the control does not fire: {control:?}");
    fs::remove_file(&fired).expect("fired by the control");
    let answer = env.run(&["--json", "--cwd", "docs/a", "--", "git", "status"]);
    assert!(!fired.exists(), "{answer:?}");
    assert!(answer.stdout().contains("On branch main"), "the workspace's own: {answer:?}");
}

const MAKEFILE: &str = "CFLAGS = -O1 -Wall\napp: main.o add.o\n\t$(CC) $(CFLAGS) -o $@ $^\n\
    test: app\n\t./app 20 22\nclean:\n\trm -f app main.o add.o\n";
const MAIN_C: &str = "#include <stdio.h>\n#include <stdlib.h>\nint add(int, int);\n\
    int main(int argc, char **argv) {\n  if (argc != 3) return 2;\n\
    \x20 printf(\"%d\\n\", add(atoi(argv[1]), atoi(argv[2])));\n  return 0;\n}\n";

#[test]
fn make_and_gcc_build_and_run_a_c_project() {
    let Some(env) = host(&["make", "gcc", "cc"]) else { return };
    env.file("Makefile", MAKEFILE);
    env.file("main.c", MAIN_C);
    env.file("add.c", "int add(int a, int b) { return a + b; }\n");
    let built = |output: &str| {
        assert!(output.ends_with("./app 20 22\n42\n"), "{output}");
        fs::read(env.workspace().join("app")).expect("the program")
    };
    let control = outside(&env, &["make", "test"]);
    assert!(control.status.success(), "{control:?}");
    let program = built(&text(&control.stdout));
    assert!(outside(&env, &["make", "clean"]).status.success());
    let answer = inside(&env, &["make", "test"]);
    assert_eq!(answer.stdout(), text(&control.stdout));
    assert!(built(answer.stdout()) == program, "the same program, byte for byte");
    inside(&env, &["make", "clean"]);
    let answer = inside(&env, &["make", "-s", "-j4", "app"]);
    assert_eq!(answer.stdout(), "");
    // A broken source fails inside as outside.
    env.file("add.c", "int add(int a, int b) { return a + ; }\n");
    let (control, answer) = (outside(&env, &["make"]), env.cmd(&["make"]));
    assert_eq!(Some(answer.code), control.status.code());
    assert_eq!(answer.reply["stderr"], text(&control.stderr));
}

#[test]
fn make_runs_the_tests_of_a_python_project() {
    let Some(env) = host(&["make", "python3"]) else { return };
    env.file("Makefile", "test:\n\t@python3 -m unittest -v test_sum\n");
    let tests = "import unittest\nimport json, tempfile\n\nclass T(unittest.TestCase):\n\
        \x20   def test_sum(self):\n        self.assertEqual(sum([20, 22]), 42)\n\
        \x20   def test_file(self):\n        with tempfile.TemporaryFile('w+') as f:\n\
        \x20           json.dump({'a': 1}, f)\n            f.seek(0)\n\
        \x20           self.assertEqual(json.load(f), {'a': 1})\n";
    env.file("test_sum.py", tests);
    let timeless = |text: &str| {
        let kept = text.lines().filter(|line| !line.starts_with("Ran "));
        kept.map(str::to_owned).collect::<Vec<_>>()
    };
    let control = outside(&env, &["make", "test"]);
    assert!(control.status.success(), "{control:?}");
    let answer = inside(&env, &["make", "test"]);
    let said = answer.reply["stderr"].as_str().expect("text");
    assert!(said.contains("Ran 2 tests") && said.ends_with("OK\n"), "{said}");
    assert_eq!(timeless(said), timeless(&text(&control.stderr)));
    env.file("test_sum.py", &tests.replace("42", "43"));
    assert_eq!(
        Some(env.cmd(&["make", "test"]).code),
        outside(&env, &["make", "test"]).status.code()
    );
}

const BUILD_JS: &str = "const fs = require('fs'), { execSync } = require('child_process');\n\
    const made = [20, 22].reduce((a, b) => a + b);\nfs.mkdirSync('dist', { recursive: true });\n\
    fs.writeFileSync('dist/out.json', JSON.stringify({ made }));\n\
    setTimeout(() => console.log(made, execSync('echo from a shell').toString().trim()), 10);\n";

#[test]
fn node_runs_a_script() {
    let Some(env) = host(&["node"]) else { return };
    env.file("build.js", BUILD_JS);
    assert_eq!(same(&env, &["node", "build.js"]), "42 from a shell\n");
    let made = fs::read_to_string(env.workspace().join("dist/out.json"));
    assert_eq!(made.expect("made"), "{\"made\":42}");
    env.file("bad.js", "process.exit(3)\n");
    assert_eq!(env.cmd(&["node", "bad.js"]).code, 3);
}

#[test]
fn npm_runs_a_listed_script() {
    let Some(env) = host(&["node", "npm"]) else { return };
    env.file("build.js", BUILD_JS);
    let package = "{\"name\": \"app\", \"version\": \"1.0.0\", \"private\": true,\n\
        \"scripts\": {\"build\": \"node build.js && echo done\", \"test\": \"exit 4\"}}\n";
    env.file("package.json", package);
    let answer = inside(&env, &["npm", "run", "build"]);
    assert!(answer.stdout().ends_with("42 from a shell\ndone\n"), "{answer:?}");
    assert!(env.workspace().join("dist/out.json").exists());
    assert_eq!(answer.stdout(), text(&outside(&env, &["npm", "run", "build"]).stdout));
    assert_eq!(env.cmd(&["npm", "test"]).code, 4);
}

#[test]
fn a_gate_script_judges_and_cannot_be_rewritten_by_what_it_judges() {
    let Some(env) = host(&["bash"]) else { return };
    let gate = "set -eu\nif echo ok > scripts/gate.sh; then echo rewritten; fi\n\
        if touch scripts/new.sh; then echo added; fi\necho report > report.txt\n\
        sh -c 'exit 0'\necho \"gate: $(cat report.txt)\"\n";
    env.file("scripts/gate.sh", gate);
    let answer = inside(&env, &["bash", "scripts/gate.sh"]);
    assert_eq!(answer.stdout(), "gate: report\n", "{answer:?}");
    assert_eq!(fs::read_to_string(env.workspace().join("scripts/gate.sh")).expect("it"), gate);
    assert!(!env.workspace().join("scripts/new.sh").exists());
    // The control: outside, the script rewrites itself.
    let control = text(&outside(&env, &["bash", "scripts/gate.sh"]).stdout);
    assert!(control.contains("rewritten"), "{control}");
    env.file("scripts/bad.sh", "exit 5\n");
    assert_eq!(env.cmd(&["bash", "scripts/bad.sh"]).code, 5);
}

#[test]
fn programs_that_look_tell_the_same_inside() {
    let Some(env) = host(&["which"]) else { return };
    env.file("a.txt", "one\ntwo\nthree\n");
    env.file("sub/b.txt", "b\n");
    for line in [
        "which cat",
        "which -a cat",
        "ls",
        "ls -a",
        "ls -1R sub",
        "cat -n a.txt",
        "head -n 2 a.txt",
        "tail -n +2 a.txt",
        "wc -lw a.txt sub/b.txt",
        "echo hello world",
    ] {
        same(&env, &line.split(' ').collect::<Vec<_>>());
    }
    let pwd = inside(&env, &["pwd"]);
    let real = fs::canonicalize(env.workspace()).expect("a path");
    assert_eq!(pwd.stdout().trim_end(), real.to_str().expect("UTF-8"));
}

#[test]
fn which_finds_node_and_pip_lists() {
    let Some(env) = host(&["which", "node"]) else { return };
    same(&env, &["which", "node"]);
    let Some(env) = host(&["pip", "python3"]) else { return };
    let listed = same(&env, &["pip", "list", "--format=freeze"]);
    assert!(listed.contains("pip=="), "{listed}");
}

/// The toolchain that this test itself was found with.
pub(super) struct Rust {
    pub(super) cargo_home: PathBuf,
    rustup_home: PathBuf,
    toolchain: String,
    /// Name and version of a crate in the local registry cache.
    krate: (&'static str, String),
}

fn rust() -> Result<Rust, String> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map_err(|error| format!("no rustc: {error}"))?;
    let sysroot = PathBuf::from(text(&sysroot.stdout).trim());
    let toolchains = sysroot.parent().filter(|folder| folder.ends_with("toolchains"));
    let rustup_home = toolchains.and_then(Path::parent).ok_or("no rustup")?.to_owned();
    let toolchain = sysroot.file_name().ok_or("no toolchain")?.to_string_lossy().into_owned();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let cargo_home = cargo_home.ok_or("no cargo home")?;
    if !cargo_home.join("bin/cargo").exists() {
        return Err(format!("no cargo in {}", cargo_home.display()));
    }
    let caches = fs::read_dir(cargo_home.join("registry/cache")).map_err(|e| e.to_string())?;
    for cache in caches.filter_map(Result::ok) {
        let files = fs::read_dir(cache.path()).map_err(|e| e.to_string())?;
        for file in files.filter_map(Result::ok) {
            let name = file.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix("itoa-").and_then(|rest| rest.strip_suffix(".crate"));
            if let Some(version) = version {
                let krate = ("itoa", version.to_owned());
                return Ok(Rust { cargo_home, rustup_home, toolchain, krate });
            }
        }
    }
    Err("itoa is not in the local registry cache".to_owned())
}

/// As [`rust`]; says why where there is none.
pub(super) fn toolchain() -> Option<Rust> {
    match rust() {
        Ok(rust) => Some(rust),
        // The toolchain that built this suite may be out of an ordinary user's reach.
        Err(why) if !crate::support::is_root() => {
            skip(&why);
            None
        }
        Err(why) => {
            lacking(&why);
            None
        }
    }
}

impl Rust {
    /// The lines of a configuration that give it to profile `build`.
    pub(super) fn lines(&self) -> String {
        let (cargo_home, rustup_home) = (self.cargo_home.display(), self.rustup_home.display());
        format!(
            "[[tools]]\nroot = [\"{rustup_home}\", \"{cargo_home}\"]\nbin = \"{cargo_home}/bin\"\n\
             profiles = [\"build\"]\nenv = {{ CARGO_HOME = \"{cargo_home}\", \
             RUSTUP_HOME = \"{rustup_home}\", RUSTUP_TOOLCHAIN = \"{}\" }}\n",
            self.toolchain
        )
    }
}

#[test]
fn cargo_tests_a_crate_offline_with_a_toolchain_of_the_operator() {
    let Some(rust) = toolchain() else { return };
    let Some(env) = Env::new() else { return };
    let config = env.path("config/pinfold.toml");
    let old = fs::read_to_string(&config).expect("the configuration");
    let call = ["cargo", "test", "--offline"];
    let (name, version) = &rust.krate;
    let manifest = format!(
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         [dependencies]\n{name} = \"={version}\"\n"
    );
    env.file("Cargo.toml", &manifest);
    let lib = "pub fn text(n: u32) -> String { itoa::Buffer::new().format(n).to_owned() }\n\
        #[test]\nfn numbers_are_text() { assert_eq!(text(42), \"42\"); }\n";
    env.file("src/lib.rs", lib);
    // Without the tool root the program is not there; with it, it is.
    assert_eq!(env.cmd(&call).refusal(), "program-unavailable");
    fs::write(&config, format!("{old}{}", rust.lines())).expect("the configuration");
    let answer = inside(&env, &call);
    assert!(answer.stdout().contains("test numbers_are_text ... ok"), "{answer:?}");
    assert!(answer.stdout().contains("test result: ok. 1 passed"), "{answer:?}");
    env.file("src/lib.rs", &lib.replace("\"42\"", "\"43\""));
    let answer = env.cmd(&call);
    assert_eq!(answer.code, 101, "a failing test fails: {answer:?}");
    // The tool root is for the named profiles only, and nobody writes to it.
    let cargo = rust.cargo_home.join("bin/cargo");
    let cargo = cargo.to_str().expect("UTF-8");
    assert_eq!(env.inside("build", &["exists", cargo]), "ok");
    env.refused("gate", &["exists", cargo], &["ENOENT", "EACCES"]);
    let new = rust.cargo_home.join("pinfold-made");
    let new = new.to_str().expect("UTF-8");
    env.refused("build", &["create", new], &["EROFS", "EACCES"]);
}
