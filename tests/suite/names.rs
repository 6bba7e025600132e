//! The command line tells its names to people, shells and `man`: explanations, completions, pages.

use crate::programs::host;
use crate::support::{Env, binary, skip};
use pinfold::record::Code;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line that needs no host; returns what it prints.
fn answer(words: &[&str]) -> String {
    let output = pinfold(words);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{words:?}");
    text(&output.stdout)
}

fn pinfold(words: &[&str]) -> Output {
    let mut command = Command::new(binary("pinfold"));
    command.env_clear().args(words).output().expect("pinfold starts")
}

#[test]
fn a_code_is_explained_with_an_example_and_what_to_do() {
    for code in Code::ALL {
        let page = answer(&["explain", code.as_str()]);
        for part in [code.as_str(), code.means(), code.example(), code.next()] {
            assert!(page.contains(part), "{code}: {page}");
        }
        assert!(page.contains(&format!("{}. Nothing ran.", code.exit())), "{page}");
        assert_eq!(answer(&["explain", &format!("[{code}]")]), page, "as messages show it");
    }
}

#[test]
fn without_a_code_all_are_listed_and_each_form_has_json() {
    let list = answer(&["explain"]);
    let names: Vec<_> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>());
    assert!(list.lines().zip(Code::ALL).all(|(line, code)| line.ends_with(code.means())));
    let all: Value = serde_json::from_str(&answer(&["explain", "--json"])).expect("JSON");
    let all = all.as_array().expect("a list");
    assert_eq!(all.len(), Code::ALL.len());
    for (object, code) in all.iter().zip(Code::ALL) {
        let one = answer(&["explain", "--json", code.as_str()]);
        assert_eq!(serde_json::from_str::<Value>(&one).expect("JSON"), *object);
        assert_eq!(
            (&object["code"], &object["exit"]),
            (&code.as_str().into(), &code.exit().into())
        );
    }
}

#[test]
fn an_unknown_code_is_a_fault_that_names_the_nearest() {
    for (asked, nearest) in
        [("operand-kinds", "operand-kind"), ("Unknown_Program", "unknown-program")]
    {
        let output = pinfold(&["explain", asked]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{said}");
        assert!(said.contains(&format!("Nearest: {nearest},")), "{said}");
    }
}

/// A folder with the completions of a shell, if it is installed.
fn completions(shell: &str) -> Option<(Env, PathBuf)> {
    let env = host(&[shell])?;
    let script = env.path("home").join(format!("_pinfold.{shell}"));
    fs::write(&script, answer(&["completions", shell])).expect("the script");
    let name = env.path("home").join("_pinfold");
    fs::copy(&script, &name).expect("zsh finds it by this name");
    let sound = Command::new(shell).arg("-n").arg(&script).output().expect("the shell starts");
    assert!(sound.status.success() && sound.stderr.is_empty(), "{sound:?}");
    Some((env, script))
}

/// Runs a script of a shell with the completions as `$1`, and returns what it prints.
fn printed(shell: &str, options: &[&str], script: &str, path: &Path) -> String {
    let mut command = Command::new(shell);
    command.args(options).arg("-c").arg(script).env("SCRIPT", path);
    command.env("FOLDER", path.parent().expect("a folder")).env("TERM", "dumb");
    let output = command.output().expect("the shell starts");
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn bash_completes_verbs_options_and_codes() {
    let Some((_env, script)) = completions("bash") else { return };
    let complete = "source \"$SCRIPT\"\n\
        complete_words() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _pinfold \
        pinfold \"${@: -1}\" \"${@: -2:1}\"; echo \"${COMPREPLY[@]}\"; }\n\
        complete_words pinfold ex\ncomplete_words pinfold run --wo\n\
        complete_words pinfold explain operand-k\ncomplete_words pinfold profile sh";
    let found = printed("bash", &["--norc"], complete, &script);
    assert_eq!(found, "explain\n--workspace\noperand-kind\nshow\n");
}

#[test]
fn fish_completes_verbs_and_options() {
    let Some((_env, script)) = completions("fish") else { return };
    let complete = "source $SCRIPT; complete -C 'pinfold ex'; complete -C 'pinfold run --wo'; \
        complete -C 'pinfold profile sh'";
    let found = printed("fish", &["--no-config"], complete, &script);
    let names: Vec<_> = found.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["explain", "--workspace", "show"]);
}

#[test]
fn zsh_completes_verbs_options_and_codes() {
    let Some((_env, script)) = completions("zsh") else { return };
    // A shell of its own on a terminal of its own, where a tabulator completes what was typed.
    let complete = "zmodload zsh/zpty\n\
        zpty z \"TERM=dumb zsh -f -i\"\n\
        zpty -w z \"fpath=($FOLDER \\$fpath); autoload -Uz compinit; compinit -u -D\"\n\
        zpty -w z \"print rea''dy\"\n\
        zpty -r z line '*ready*'\n\
        for typed whole in 'pinfold expl' explain 'pinfold run --wo' --workspace \
        'pinfold explain operand-k' operand-kind; do\n\
        zpty -w -n z $typed$'\\t'\n\
        zpty -r -m z line \"*$whole*\" && print -- $whole\n\
        zpty -w -n z $'\\x15'\n\
        done\nzpty -d z";
    let mut command = Command::new("timeout");
    command.args(["60", "zsh", "-f", "-c", complete]);
    command.env("FOLDER", script.parent().expect("a folder")).env("TERM", "dumb");
    let output = command.output().expect("zsh starts");
    let found = text(&output.stdout);
    assert_eq!(found, "explain\n--workspace\noperand-kind\n", "{output:?}");
}

#[test]
fn each_verb_has_a_man_page_that_renders_without_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("a/man");
    assert_eq!(answer(&["man", pages.to_str().expect("UTF-8")]), "");
    let entries = fs::read_dir(&pages).expect("pages");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("a page").file_name().to_string_lossy().into()).collect();
    names.sort();
    for verb in ["", "-run", "-profile", "-profile-show", "-trail-verify", "-explain", "-man"] {
        assert!(names.contains(&format!("pinfold{verb}.1")), "{verb}: {names:?}");
    }
    let run = fs::read_to_string(pages.join("pinfold-run.1")).expect("a page");
    assert!(run.contains("\\-\\-workspace") && run.contains("the deadline ended it"), "{run}");
    if host(&["groff"]).is_none() {
        return skip("pages are not rendered");
    }
    for name in names {
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Tutf8", "-ww", "-rLL=90n"]).arg(pages.join(&name));
        let output = groff.output().expect("groff starts");
        assert_eq!((output.status.success(), text(&output.stderr).as_str()), (true, ""), "{name}");
        assert!(output.stdout.len() > 200, "{name} is empty");
    }
}
