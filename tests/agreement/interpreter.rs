//! No spelling that makes CPython run pip comes past the templates of pip.
//!
//! What a call runs is found out by running it: a copy of the interpreter has a standard library
//! of links and, among them, a `pip` that says its name and does nothing else. It is found in
//! every mode, because no option takes the standard library away.

use crate::chance::{Chance, is_long, tell};
use crate::support::{copy_program, has_programs, lacking};
use pinfold::catalog::{Catalog, Via};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the stand-in for pip prints where it is run as a program, as pip itself looks.
const MARKER: &str = "this is pip";

/// Letters of options; the last are none of CPython's.
const LETTERS: [&str; 27] = [
    "b", "d", "h", "i", "q", "s", "t", "u", "v", "x", "B", "E", "I", "O", "P", "R", "S", "V", "?",
    "m", "c", "W", "X", "J", "z", "-", "é",
];

/// What ends an option of random letters.
const ENDS: [&[&str]; 19] = [
    &[""],
    &["mpip"],
    &["mpip"],
    &["m", "pip"],
    &["m", "pip"],
    &["m", "pip.__main__"],
    &["mpip.__main__"],
    &["m", "pip._internal"],
    &["m=pip"],
    &["Xmpip"],
    &["Xutf8"],
    &["X", "dev"],
    &["W", "ignore"],
    &["Wmpip"],
    &["W", "-mpip"],
    &["c", "pass"],
    &["cmpip"],
    &["m", "runpy"],
    &["m", "cProfile"],
];

/// Whole words.
const WORDS: [&str; 20] = [
    "-",
    "--",
    "--version",
    "--help",
    "--help-env",
    "--help-all",
    "--check-hash-based-pycs",
    "--check-hash-based-pycs=always",
    "--module",
    "--mpip",
    "always",
    "t.py",
    "pip",
    "-mpip",
    "-m",
    "-X",
    "site-packages/pip",
    "./site-packages/pip/__main__.py",
    "dist-packages/pip",
    "-W",
];

/// What stands behind: arguments of pip, for the most part.
const TAILS: [&[&str]; 12] = [
    &["list"],
    &["show", "foo"],
    &["uninstall", "foo"],
    &["install", "foo==1.0", "-q"],
    &["install", "-i", "x", "foo"],
    &["install", "foo"],
    &["freeze"],
    &["-mpip", "list"],
    &["-m", "pip", "list"],
    &["pip", "list"],
    &["--module", "pip"],
    &[],
];

/// A copy of an interpreter with its stand-in for pip.
struct Interpreter {
    folder: tempfile::TempDir,
    name: String,
}

impl Interpreter {
    /// Copies an interpreter, or says why that cannot be done.
    fn new(program: &Path) -> Result<Self, String> {
        let asks = "import sys, sysconfig; print(sys.implementation.name, sys.executable, \
                    sysconfig.get_path('stdlib'), getattr(sys, 'platlibdir', 'lib'), \
                    'python%d.%d' % sys.version_info[:2], sep='\\n')";
        let output = Command::new(program).args(["-I", "-c", asks]).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ["cpython", executable, library, folder_name, version] =
            text.lines().collect::<Vec<_>>()[..]
        else {
            return Err(format!("{} does not tell about itself: {output:?}", program.display()));
        };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let made = folder.path().join(folder_name).join(version);
        fs::create_dir_all(&made).expect("a folder");
        fs::create_dir(folder.path().join("bin")).expect("a folder");
        let real = fs::canonicalize(executable).map_err(|error| error.to_string())?;
        copy_program(&real, &folder.path().join("bin/python3"));
        for entry in fs::read_dir(library).map_err(|error| error.to_string())? {
            let entry = entry.expect("an entry");
            // The packages that are installed there have a pip of their own.
            if !entry.file_name().to_string_lossy().ends_with("-packages") {
                symlink(entry.path(), made.join(entry.file_name())).expect("a link");
            }
        }
        let pip = made.join("pip");
        fs::create_dir(&pip).expect("a folder");
        for (file, text) in [
            ("__init__.py", ""),
            ("_internal.py", ""),
            ("__main__.py", &format!("if __name__ == '__main__': print('{MARKER}')\n")),
        ] {
            fs::write(pip.join(file), text).expect("a file");
        }
        let work = folder.path().join("work");
        for name in ["site-packages", "dist-packages"] {
            fs::create_dir_all(work.join(name)).expect("a folder");
            symlink(&pip, work.join(name).join("pip")).expect("a link");
        }
        fs::write(work.join("t.py"), "\n").expect("a file");
        let it = Self { folder, name: format!("{version} of {}", program.display()) };
        let controls = [&["-mpip"][..], &["-ISsEBmpip"], &["site-packages/pip"]];
        match controls.iter().find(|words| !it.reaches_pip(&argv(words))) {
            Some(words) => Err(format!("the copy of {} reaches no pip by {words:?}", it.name)),
            None => Ok(it),
        }
    }

    /// Runs a call and returns whether it ran pip.
    fn reaches_pip(&self, argv: &[OsString]) -> bool {
        let output = Command::new(self.folder.path().join("bin/python3"))
            .args(&argv[1..])
            .current_dir(self.folder.path().join("work"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .expect("the copy starts");
        String::from_utf8_lossy(&output.stdout).contains(MARKER)
    }
}

fn argv(words: &[&str]) -> Vec<OsString> {
    ["python3"].iter().chain(words).map(OsString::from).collect()
}

/// The interpreters that are installed here, each once: those on the path, and those that pyenv
/// keeps beside it.
fn installed() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from).into();
    folders.extend(std::env::split_paths(&path));
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let kept = fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten();
    folders.extend(kept.map(|version| version.expect("an entry").path().join("bin")));
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let minor = name.strip_prefix("python3.").unwrap_or_default();
        let is_version = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
        let Ok(real) = fs::canonicalize(&path) else { continue };
        // A script of that name only chooses among others.
        let is_program = is_version && fs::read(&real).is_ok_and(|it| it.starts_with(b"\x7fELF"));
        if is_program && !found.contains(&real) {
            found.push(real);
        }
    }
    found
}

fn random_call(chance: &mut Chance) -> Vec<OsString> {
    let mut words: Vec<String> = vec!["python3".to_owned()];
    for _ in 0..=chance.below(3) {
        if chance.happens(25) {
            words.push((chance.pick(&WORDS)).to_owned());
            continue;
        }
        // Most letters stand for nothing that ends the line early.
        let known = if chance.happens(70) { 19 } else { LETTERS.len() };
        let letters = (0..chance.below(4)).map(|_| chance.pick(&LETTERS[..known]));
        let letters = letters.collect::<String>();
        let [end, more @ ..] = chance.pick(&ENDS) else { continue };
        words.push(format!("-{letters}{end}"));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        if words.concat().contains("pip") && chance.happens(60) {
            break;
        }
    }
    words.extend(chance.pick(&TAILS).iter().map(|word| (*word).to_owned()));
    words.into_iter().filter(|word| !word.is_empty()).map(OsString::from).collect()
}

/// How often what happened was said.
#[derive(Debug, Default)]
struct Counts {
    reached: usize,
    by_template: usize,
    refused: usize,
    /// Called pip, although nothing ran: the harmless direction.
    called_pip_only: usize,
}

fn tries(catalog: &Catalog, interpreter: &Interpreter, calls: &[Vec<OsString>]) -> Counts {
    let mut counts = Counts::default();
    for argv in calls {
        let decided = catalog.decide(argv);
        let is_pip = decided.as_ref().is_ok_and(|it| matches!(it.via, Via::Interpreter(_)));
        let reached = interpreter.reaches_pip(argv);
        counts.called_pip_only += usize::from(is_pip && !reached);
        if reached {
            counts.reached += 1;
            counts.by_template += usize::from(is_pip);
            counts.refused += usize::from(decided.is_err());
            let name = &interpreter.name;
            assert!(is_pip || decided.is_err(), "{name} ran pip by {argv:?}, missed: {decided:?}");
        }
    }
    counts
}

#[test]
fn no_spelling_that_makes_cpython_run_pip_is_missed() {
    if !has_programs(&["python3"]) {
        return;
    }
    let catalog = Catalog::shipped().expect("it is sound");
    let mut chance = Chance::of("interpreter");
    let counts = if is_long() { [2_000, 500] } else { [250, 25] };
    let calls: Vec<_> = (0..counts[0]).map(|_| random_call(&mut chance)).collect();
    let programs = installed();
    if programs.is_empty() {
        lacking("there is no CPython that could be copied");
    }
    for (number, program) in programs.iter().enumerate() {
        let interpreter = match Interpreter::new(program) {
            Ok(interpreter) => interpreter,
            Err(why) => {
                lacking(&why);
                continue;
            }
        };
        // All of them to the first, which is the system's own.
        let calls = &calls[..counts[number.min(1)]];
        let counts = tries(&catalog, &interpreter, calls);
        tell(&format!("agreement: {} by {} calls: {counts:?}", interpreter.name, calls.len()));
        // The few calls of the others may all go one way.
        let (least, both) = if number == 0 { (calls.len() / 20, true) } else { (0, false) };
        assert!(counts.reached > least, "too few calls reached pip: {counts:?}");
        let ways = counts.by_template > 0 && counts.refused > 0;
        assert!(ways || !both, "one way only: {counts:?}");
    }
}
