//! A project that has what the examples of the catalogs name, so that each of them does something.
//!
//! Whatever of it is code also tries to write beside the workspace, at `../beside.txt`, so that a
//! run in which nothing was written there shows something.

use super::Env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// What a shell script of the project tries first.
const BESIDE_SH: &str = "(echo x >> ../beside.txt) 2>/dev/null || :\n";

const MAIN_RS: &str = "mod parser;\n\nfn main() {\n    println!(\"{}\", parser::lines(\"\"));\n}\n";
const PARSER_RS: &str = "pub fn lines(text: &str) -> usize {\n    text.lines().count()\n}\n\n\
    #[cfg(test)]\nmod tests {\n    #[test]\n    fn empty_line() {\n        \
    assert_eq!(super::lines(\"\"), 0);\n    }\n\n    #[test]\n    fn my_test() {\n        \
    assert_eq!(super::lines(\"a\\nb\"), 2);\n    }\n}\n";
const BUILD_RS: &str = "fn main() {\n    let beside = \
    std::fs::write(\"../beside.txt\", \"from a build script\");\n    \
    println!(\"cargo::warning={}\", beside.is_ok());\n}\n";
const LIB_RS: &str = "pub fn twice(number: u32) -> u32 {\n    2 * number\n}\n";
const CODEC_RS: &str =
    "#[test]\nfn round_trip() {\n    assert_eq!(core_lib::twice(core_lib::twice(1)), 4);\n}\n";
const XTASK_RS: &str = "fn main() {\n    println!(\"{:?}\", std::env::args().nth(1));\n}\n";
const CARGO_TOML: &str = "[workspace]\nmembers = [\"core-lib\", \"xtask\"]\n\n\
    [package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
    [dev-dependencies]\ncore-lib = { path = \"core-lib\" }\n\n\
    [profile.dev]\ndebug = 0\nincremental = false\n";
const CORE_TOML: &str = "\
    [package]\nname = \"core-lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
    [features]\nserde = []\nstd = []\n";
const XTASK_TOML: &str = "[package]\nname = \"xtask\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const CARGO_LOCK: &str = "version = 3\n\n\
    [[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"core-lib\",\n]\n\n\
    [[package]]\nname = \"core-lib\"\nversion = \"0.1.0\"\n\n\
    [[package]]\nname = \"xtask\"\nversion = \"0.1.0\"\n";

/// What a JavaScript file of the project does: it tries to write beside, writes, and tells.
const SCRIPT_JS: &str = "const fs = require('fs');\n\
    try { fs.appendFileSync('../beside.txt', 'x'); } catch {}\n\
    try { fs.writeFileSync('made.txt', 'made'); } catch {}\n\
    console.log('ran');\n";
/// The same as a module.
const SCRIPT_MJS: &str = "import fs from 'fs';\n\
    try { fs.appendFileSync('../beside.txt', 'x'); } catch {}\n\
    fs.writeFileSync('made.txt', 'made');\n";
/// What stands for a package's program: it tells what it was called with, and tries to write.
const STAND_IN_JS: &str = "#!/usr/bin/env node\nconst fs = require('fs');\n\
    for (const path of ['../beside.txt', 'made.txt']) {\n\
    \x20 try { fs.appendFileSync(path, 'x'); } catch {}\n}\n\
    const [program, ...rest] = process.argv.slice(1);\n\
    console.log([require('path').basename(program), ...rest].join(' '));\n";
const PACKAGE_JSON: &str = "\
    {\n  \"name\": \"app\",\n  \"version\": \"1.0.0\",\n  \"private\": true,\n\
    \x20 \"scripts\": {\n    \"build\": \"sh task.sh build\",\n    \"test\": \"sh task.sh test\",\n\
    \x20   \"lint\": \"sh task.sh lint\",\n    \"typecheck\": \"sh task.sh typecheck\",\n\
    \x20   \"format:check\": \"sh task.sh format\"\n  }\n}\n";

const MAKEFILE: &str = ".PHONY: all build test\nall build test:\n\t@sh task.sh $@\n";
const PYPROJECT: &str = "[project]\nname = \"app\"\nversion = \"0.1.0\"\n\
    requires-python = \">=3.9\"\n\n[tool.mypy]\nfiles = \"src\"\n";
const PARSER_PY: &str =
    "def lines(text: str) -> int:\n    return len(text.splitlines())\n\n\nprint(lines(\"a\"))\n";
const TEST_A_PY: &str = "\
    def test_b() -> None:\n    with open(\"made.txt\", \"w\") as file:\n        \
    file.write(\"made\")\n\n\ndef test_c() -> None:\n    pass\n";
const TEST_PARSER_PY: &str = "class TestHeader:\n    def test_empty(self) -> None:\n        \
    assert \"\".splitlines() == []\n\n\ndef test_slow() -> None:\n    assert True\n";
const CONFTEST_PY: &str = "from typing import Any\n\n\n\
    def pytest_collection_modifyitems(items: list[Any]) -> None:\n    for item in items:\n        \
    if item.name == \"test_slow\":\n            item.add_marker(\"slow\")\n";
const CI_JUST: &str = "check:\n    sh task.sh check\n\nlint:\n    sh task.sh lint\n\n\
    test:\n    sh task.sh test\n";
const WEB_YAML: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: web\ndata:\n  a: b\n";
const CHART_YAML: &str = "apiVersion: v2\nname: shop\nversion: 0.1.0\n";

/// Files of the first commit. Nothing under `.pinfold`, `.venv` and `node_modules` is recorded.
const FILES: [(&str, &str); 58] = [
    (".gitignore", "/target\n/node_modules\n/.pinfold\n/.venv\n__pycache__\n"),
    ("README.md", "# App\n\nWhat it is for.\n"),
    ("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n"),
    ("a", "one word\n"),
    ("b/c.txt", "c\n"),
    ("docs/a.md", "a\n"),
    ("docs/b.txt", "b\n"),
    ("log.txt", "a line\nanother\n"),
    ("build.log", "built\n"),
    ("task.sh", ""),
    ("scripts/p1_gates.sh", ""),
    ("scripts/gate.sh", ""),
    ("scripts/release-gate.sh", ""),
    ("Makefile", MAKEFILE),
    ("Cargo.toml", CARGO_TOML),
    ("Cargo.lock", CARGO_LOCK),
    (".cargo/config.toml", "[alias]\nxtask = \"run --quiet --package xtask --\"\n"),
    ("build.rs", BUILD_RS),
    ("src/main.rs", MAIN_RS),
    ("src/parser.rs", PARSER_RS),
    ("src/a.rs", "// A file of its own.\n"),
    ("tests/codec.rs", CODEC_RS),
    ("core-lib/Cargo.toml", CORE_TOML),
    ("core-lib/src/lib.rs", LIB_RS),
    ("xtask/Cargo.toml", XTASK_TOML),
    ("xtask/src/main.rs", XTASK_RS),
    ("package.json", PACKAGE_JSON),
    ("tsconfig.json", "{}\n"),
    ("build.js", SCRIPT_JS),
    ("index.js", SCRIPT_JS),
    ("scripts/gen.mjs", SCRIPT_MJS),
    ("scripts/build.mjs", SCRIPT_MJS),
    ("test/parser.test.js", SCRIPT_JS),
    ("src/main.js", "console.log('main');\n"),
    ("src/a.js", "console.log('a');\n"),
    ("src/a.cjs", "console.log('a');\n"),
    ("node_modules/.bin/tsc", STAND_IN_JS),
    ("node_modules/.bin/eslint", STAND_IN_JS),
    ("node_modules/.bin/prettier", STAND_IN_JS),
    ("pyproject.toml", PYPROJECT),
    ("src/main.py", PARSER_PY),
    ("src/parser.py", PARSER_PY),
    ("my_package/__init__.py", ""),
    ("my_package/parser.py", PARSER_PY),
    ("tests/__init__.py", ""),
    ("tests/conftest.py", CONFTEST_PY),
    ("tests/test_a.py", TEST_A_PY),
    ("tests/test_parser.py", TEST_PARSER_PY),
    ("tests/test_header.py", "def test_empty() -> None:\n    assert True\n"),
    ("tests/parser/__init__.py", ""),
    ("tests/parser/test_header.py", "def test_header() -> None:\n    assert True\n"),
    (".venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n"),
    (".venv/bin/ci", ""),
    (".venv/bin/pytest", ""),
    ("justfile", "mod ci\n"),
    ("ci.just", CI_JUST),
    ("deploy/web.yaml", WEB_YAML),
    ("charts/shop/Chart.yaml", CHART_YAML),
];

/// Distributions that lie in the folder that pip is told to install into.
const INSTALLED: [&str; 4] = ["requests", "a", "b", "foo"];

impl Env {
    /// Fills the workspace: a repository with three commits, a tag, staged and other changes.
    pub fn project(&self) {
        for (name, content) in FILES {
            self.file(name, content);
        }
        for name in ["task", "scripts/p1_gates", "scripts/gate", "scripts/release-gate"] {
            self.file(&format!("{name}.sh"), &format!("{BESIDE_SH}echo \"$0 $*\" > made.txt\n"));
        }
        for name in ["ci", "pytest"] {
            let text = format!("#!/bin/sh\n{BESIDE_SH}echo \"{name} $*\" | tee made.txt\n");
            self.file(&format!(".venv/bin/{name}"), &text);
        }
        for name in ["ci", "pytest", "tsc", "eslint", "prettier"] {
            for folder in [".venv/bin", "node_modules/.bin"] {
                let path = self.workspace().join(folder).join(name);
                if path.exists() {
                    let mode = fs::Permissions::from_mode(0o755);
                    fs::set_permissions(path, mode).expect("a mode");
                }
            }
        }
        symlink("/usr/bin/python3", self.workspace().join(".venv/bin/python")).expect("a link");
        for name in INSTALLED {
            let folder = format!(".pinfold/site/{name}-1.0.dist-info");
            let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
            self.file(&format!("{folder}/METADATA"), &metadata);
            self.file(&format!("{folder}/INSTALLER"), "pip\n");
            let record = format!(
                "{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n\
                 {name}-1.0.dist-info/INSTALLER,,\n{name}-1.0.dist-info/RECORD,,\n"
            );
            self.file(&format!("{folder}/RECORD"), &record);
            self.file(&format!(".pinfold/site/{name}.py"), "");
        }
        self.history();
    }

    fn history(&self) {
        self.git(&["init", "-q", "-b", "main"]);
        // Samples that do nothing.
        let hooks = self.workspace().join(".git/hooks");
        for hook in fs::read_dir(hooks).expect("a folder") {
            fs::remove_file(hook.expect("an entry").path()).expect("a sample");
        }
        let commit = |message: &str| {
            self.git(&["add", "."]);
            self.git(&["commit", "-q", "-m", message]);
        };
        commit("first");
        self.file("src/a.js", "console.log('b');\n");
        commit("fix the parser");
        self.git(&["tag", "-a", "-m", "release", "v1.4.0"]);
        self.file("docs/b.txt", "more\n");
        commit("third");
        self.git(&["repack", "-q", "-a", "-d"]);
        self.file("src/a.rs", "// A file of its own, changed.\n");
        self.git(&["add", "src/a.rs"]);
        for (name, more) in [
            ("README.md", "More.\n"),
            ("a.txt", "seven\n"),
            ("b/c.txt", "more\n"),
            ("docs/a.md", "more\n"),
            ("src/main.rs", "\n// More.\n"),
            ("src/main.js", "// More.\n"),
            ("src/main.py", "# More.\n"),
        ] {
            let (_, old) = FILES.into_iter().find(|(file, _)| *file == name).expect("a file");
            self.file(name, &format!("{old}{more}"));
        }
    }
}
