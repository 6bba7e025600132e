//! Request to decision: the catalog's word, then everything that can only tighten it.

use super::guarding::stricter;
use super::{Refused, Request, Rules, STDIN_BYTES_MAX, Stdin, Supervisor, Words, homes};
use crate::catalog::identity::{self, Program};
use crate::catalog::{INDEX, Matched, Template, Via};
use crate::plan::Call;
use crate::plan::workspace::{Lookup, Workspace, is_plain_relative};
use crate::profile::Profile;
use crate::record::{Code, Digest, Refusal, Text, Verdict};
use crate::source::Faults;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Longest deadline that can be asked for, in seconds.
const TIMEOUT_S_MAX: u64 = 24 * 60 * 60;

/// A call that may run, as far as the catalog and the circumstances go.
#[derive(Debug)]
pub(super) struct Decided<'r> {
    pub(super) rules: &'r Rules,
    pub(super) profile: &'r Profile,
    pub(super) call: Call<'r>,
    pub(super) verdict: Verdict,
}

impl Supervisor {
    /// Returns what is called, a line as the vector that it stands for.
    pub(super) fn argv<'a>(&self, request: &'a Request) -> Result<Cow<'a, [OsString]>, Refused> {
        match &request.words {
            Words::Argv(argv) => Ok(Cow::Borrowed(argv)),
            Words::Line(line) => {
                let rules = self.rules.as_ref().map_err(config_refusal)?;
                Ok(Cow::Owned(rules.catalog.split(line)?))
            }
        }
    }

    /// Decides a request, whose vector comes with it. `opened` is its workspace, or why that
    /// cannot be one; `shown` lets a call that asks pass, because it is only to be looked at.
    pub(super) fn decide<'r>(
        &'r self,
        (request, argv): (&Request, &[OsString]),
        opened: &'r Result<Workspace, Refusal>,
        shown: bool,
    ) -> Result<Decided<'r>, Refused> {
        let rules = self.rules.as_ref().map_err(config_refusal)?;
        let timeout_ms = request.timeout.as_deref().map(parse_timeout).transpose()?;
        let matched = rules.catalog.decide(argv)?;
        let template = matched.template;
        let named = |refusal| Refused { refusal, template: Some(template.id.clone()) };
        if let Some(refusal) = matched.refusal(argv) {
            return Err(named(refusal));
        }
        let executed = with_index(&matched, argv, rules).map_err(named)?;
        let profile = available_profile(rules, &matched).map_err(named)?;
        let workspace = opened.as_ref().map_err(|refusal| named(refusal.clone()))?;
        let cwd = working_folder(workspace, request.cwd.as_deref()).map_err(named)?;
        needed(template, workspace, &cwd).map_err(named)?;
        let repository = self.repository(rules, template, workspace, &cwd).map_err(named)?;
        let (program, digests) =
            self.program(rules, (&matched, argv), profile, workspace).map_err(named)?;
        let guarded = self.guarded(workspace, repository.as_ref(), template).map_err(named)?;
        let (verdict, why) = stricter(asks(&matched, rules), guarded);
        if verdict == Verdict::Ask && !shown {
            return Err(named(nobody_to_ask(argv, why)));
        }
        let stdin_sha256 = stdin_digest(&request.stdin).map_err(named)?;
        let operands = matched.operand_indices();
        let operands = operands.filter_map(|at| argv.get(at).cloned()).collect();
        let call = Call {
            template,
            place: rules.catalog.source_place(template),
            access: template.access,
            argv: executed,
            env: matched.environment(),
            operands,
            workspace,
            repository,
            cwd,
            program,
            program_sha256: digests.0,
            interpreter_sha256: digests.1,
            timeout_ms,
            stdin_sha256,
        };
        Ok(Decided { rules, profile, call, verdict })
    }

    /// Pins the program and everything it needs to be executed.
    fn program(
        &self,
        rules: &Rules,
        (matched, argv): (&Matched<'_>, &[OsString]),
        profile: &Profile,
        workspace: &Workspace,
    ) -> Result<(Program, (Digest, Option<Digest>)), Refusal> {
        // The catalog lets only names through that are plain ASCII.
        let name = matched.program(argv).to_str().unwrap_or_default();
        let program = rules.pin(name, profile, Some(&workspace.path))?;
        let cache = self.state.join("cache");
        let digest =
            |file| identity::digest(file, Some(&cache)).map_err(|error| unreadable(name, &error));
        let file = digest(&program.file)?;
        if matched.pinned().is_some_and(|pinned| pinned != file) {
            return Err(changed(name, file));
        }
        let interpreter = program.interpreter.as_ref().map(|i| digest(&i.file)).transpose()?;
        Ok((program, (file, interpreter)))
    }
}

impl Rules {
    /// Finds the file that a name stands for under a profile.
    fn pin(
        &self,
        name: &str,
        profile: &Profile,
        workspace: Option<&Path>,
    ) -> Result<Program, Refusal> {
        let settings = &self.settings;
        let tools = settings.toolchains_of(profile).filter_map(|tools| tools.bin.clone());
        let path: Vec<PathBuf> = tools.chain(settings.path.iter().cloned()).collect();
        let written = self.profiles.written_outside();
        let owner_uid = nix::unistd::geteuid().as_raw();
        let places = identity::Places { path: &path, owner_uid, workspace, written: &written };
        let program = identity::resolve(name, &places)
            .map_err(|fault| homes::unavailable(fault, settings, profile))?;
        homes::shim_sees_its_manager(&program, settings, profile)?;
        Ok(program)
    }

    /// Lists the programs of the catalog that this host does not have, or that are not
    /// trustworthy: the templates of each, and why.
    pub fn unavailable(&self) -> Vec<(Vec<String>, Refusal)> {
        let mut found: Vec<(&str, Vec<String>, Refusal)> = Vec::new();
        for template in self.catalog.templates() {
            let Some(profile) = self.profiles.get(&template.profile) else { continue };
            let pinned = self.pin(&template.program, profile, None).and_then(|program| {
                let Some(wanted) = template.sha256 else { return Ok(()) };
                let name = &template.program;
                let found = identity::digest(&program.file, None);
                let found = found.map_err(|error| unreadable(name, &error))?;
                if found == wanted { Ok(()) } else { Err(changed(name, found)) }
            });
            let Err(refusal) = pinned else { continue };
            let known = found.iter_mut().find(|(program, ..)| *program == template.program);
            match known {
                Some((_, templates, _)) => templates.push(template.id.clone()),
                None => found.push((&template.program, vec![template.id.clone()], refusal)),
            }
        }
        found.into_iter().map(|(_, templates, refusal)| (templates, refusal)).collect()
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Refusal {
    let next = "see that the program is installed whole and readable, then call again";
    Refusal::new(Code::ProgramUnavailable, name, error.to_string(), next)
}

fn changed(name: &str, found: Digest) -> Refusal {
    Refusal::new(
        Code::ProgramUnavailable,
        name,
        format!("its content is sha256:{found}, not what the catalog pins"),
        "the operator installs the pinned program, or pins the new one",
    )
}

/// The record names the first fault; whoever must mend them sees all.
fn config_refusal(faults: &Faults) -> Refusal {
    let next = "correct the places shown; the compiled-in rules do not step in for broken ones";
    let reason = match faults.len() {
        1 => format!("it has a fault: {}", faults.first_line()),
        count => format!("it has {count} faults, the first: {}", faults.first_line()),
    };
    let mut refusal = Refusal::new(Code::Config, "the configuration", reason, next);
    refusal.detail = Some(faults.to_string());
    refusal
}

/// The verdict after what can turn `auto` into `ask`, and why it asks.
fn asks(matched: &Matched<'_>, rules: &Rules) -> (Verdict, String) {
    let id = &matched.template.id;
    let why = match (matched.via, matched.verdict) {
        (_, Verdict::Auto) if rules.auto_approve => String::new(),
        (_, Verdict::Auto) => "PINFOLD_AUTO_APPROVE=0 makes every call ask a person".to_owned(),
        (Via::Unlisted, _) => {
            "no template fits, and the catalog asks a person about such calls".to_owned()
        }
        (Via::Interpreter(_), _) => {
            format!("template `{id}`, called through an interpreter, asks a person")
        }
        (Via::Itself, _) => format!("template `{id}` asks a person"),
    };
    (if why.is_empty() { matched.verdict } else { matched.verdict.max(Verdict::Ask) }, why)
}

fn nobody_to_ask(argv: &[OsString], why: String) -> Refusal {
    let shown: Vec<String> = argv.iter().map(|word| Text::from(word).escaped()).collect();
    Refusal::new(
        Code::NobodyToAsk,
        Text::from(shown.join(" ").as_str()).shown(),
        format!("{why}, and none is attached"),
        "stop asking; do something else, or tell your operator what you need and why",
    )
}

/// Returns the argv to execute, with the operator's index where the template names it. The same
/// word in the request stands for itself.
pub(super) fn with_index(
    matched: &Matched<'_>,
    argv: &[OsString],
    rules: &Rules,
) -> Result<Vec<OsString>, Refusal> {
    let url = rules.settings.index.as_ref();
    let injected = &matched.template.inject_after_sub;
    let injected = matched.inject_at..matched.inject_at + injected.len();
    let put = |(at, word): (usize, OsString)| match url {
        _ if word != INDEX || !injected.contains(&at) => Ok(word),
        Some(url) => Ok(OsString::from(url)),
        None => Err(Refusal::new(
            Code::NoIndex,
            "a package index",
            "packages come from the index that the operator names, and none is named",
            "ask the operator for `[index]` with `pip = \"https://…\"` in pinfold.toml",
        )),
    };
    matched.executed(argv).into_iter().enumerate().map(put).collect()
}

/// Looks for the file of the project that a template needs, in the working folder and in those
/// above it, as programs of a project are looked up.
fn needed(template: &Template, workspace: &Workspace, cwd: &Path) -> Result<(), Refusal> {
    let Some(needs) = &template.needs else { return Ok(()) };
    let is_there = |folder: &Path| match workspace.resolve(&folder.join(needs)) {
        Lookup::Found(found) => !found.is_folder,
        _ => false,
    };
    if cwd.ancestors().any(is_there) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ProgramUnavailable,
        template.program.as_str(),
        format!("the project has no {needs}, without which it would do something else"),
        "ask the operator to install it in the project",
    ))
}

/// The profile that the template names, if this version can give it at all.
fn available_profile<'r>(rules: &'r Rules, matched: &Matched<'_>) -> Result<&'r Profile, Refusal> {
    let name = &matched.template.profile;
    let profile = rules.profiles.get(name).ok_or_else(|| {
        let next = "the operator adds the profile, or names another in the template";
        Refusal::new(
            Code::ProfileUnavailable,
            format!("profile `{name}`"),
            "it does not exist",
            next,
        )
    })?;
    crate::plan::network::loopback(profile)?;
    Ok(profile)
}

/// Reads a deadline: `N`, `Ns` or `Nm`, in milliseconds.
fn parse_timeout(text: &OsStr) -> Result<u64, Refusal> {
    let refuse = |reason: &str| {
        let next = format!("give N, Ns or Nm, from 1 second to {TIMEOUT_S_MAX} seconds");
        Refusal::new(Code::TimeoutValue, Text::from(text).shown(), reason, next)
    };
    let plain = text.to_str().unwrap_or_default();
    let (digits, unit) = match plain.strip_suffix('m') {
        Some(digits) => (digits, 60),
        None => (plain.strip_suffix('s').unwrap_or(plain), 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse("it is not a whole number of seconds or minutes"));
    }
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match seconds {
        Some(0) => Err(refuse("a deadline of zero leaves no time to run")),
        Some(seconds) if seconds <= TIMEOUT_S_MAX => Ok(seconds * 1_000),
        _ => Err(refuse("it is longer than a day")),
    }
}

/// Finds the working folder below the workspace.
fn working_folder(workspace: &Workspace, cwd: Option<&Path>) -> Result<PathBuf, Refusal> {
    let Some(cwd) = cwd else { return Ok(PathBuf::new()) };
    let refuse = |reason: &str| {
        let next = "name a folder below the workspace, relative and without `..`";
        Refusal::new(Code::Cwd, Text::from(cwd).shown(), reason, next)
    };
    if !is_plain_relative(cwd) {
        return Err(refuse("it is not a relative path below the workspace"));
    }
    match workspace.resolve(cwd) {
        Lookup::Found(found) if found.is_folder => Ok(found.path),
        Lookup::Found(_) => Err(refuse("it is not a folder")),
        Lookup::Absent => Err(refuse("it does not exist")),
        Lookup::Outside => Err(refuse("it leads out of the workspace")),
    }
}

fn stdin_digest(stdin: &Stdin) -> Result<Option<Digest>, Refusal> {
    match stdin {
        Stdin::None => Ok(None),
        Stdin::Bytes(content) => Ok(Some(Digest(Sha256::digest(content).into()))),
        Stdin::TooLarge => Err(Refusal::new(
            Code::StdinTooLarge,
            "standard input",
            format!("it is larger than {STDIN_BYTES_MAX} bytes"),
            "write it to a file of the workspace and name the file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_whole_seconds_or_minutes() {
        let parse = |text: &str| parse_timeout(OsStr::new(text)).map_err(|refusal| refusal.code);
        assert_eq!(parse("30"), Ok(30_000));
        assert_eq!(parse("30s"), Ok(30_000));
        assert_eq!(parse("2m"), Ok(120_000));
        let bad = ["", "0", "0s", "-1", "+1", "1.5", "x", "s", "m", "1h", " 1", "1 ", "86401"];
        for text in bad.into_iter().chain(["99999999999999999999", "1441m", "NaN"]) {
            assert_eq!(parse(text), Err(Code::TimeoutValue), "{text}");
        }
    }
}
