//! What to do about a program that a profile cannot have, although the user has it at home.
//!
//! Version managers install below homes, which no profile sees. Whoever meets that learns which
//! lines of the configuration would change it.

use crate::catalog::identity::{Program, Unavailable};
use crate::plan::Settings;
use crate::profile::{Profile, Root};
use crate::record::{Code, Refusal, Text};
use std::path::{Path, PathBuf};

/// Refuses a program that is not available; where it lies in one of the user's toolchains the
/// next action names the lines that would bring it.
pub(super) fn unavailable(fault: Unavailable, settings: &Settings, profile: &Profile) -> Refusal {
    let advice = fault.absent.as_deref().and_then(|name| advice(name, settings, profile));
    let refusal = Refusal::from(fault);
    match advice {
        Some(advice) => advise(refusal, advice),
        None => refusal,
    }
}

/// Checks that a shim's manager, which starts the real program, is seen by the profile and told
/// where its folder is.
///
/// # Errors
/// A refusal that names the missing folder and the lines to add.
pub(super) fn shim_sees_its_manager(
    program: &Program,
    settings: &Settings,
    profile: &Profile,
) -> Result<(), Refusal> {
    let Some(shim) = settings.homes.shim(&program.name, &program.file.path) else { return Ok(()) };
    let needs = std::fs::canonicalize(&shim.needs).unwrap_or(shim.needs);
    let told = match shim.variable {
        Some(name) => variable(name, settings, profile),
        None => Some(needs.clone()),
    };
    if told.is_some_and(|folder| sees(&folder, settings, profile)) {
        return Ok(());
    }
    let named = shim.variable.map(|name| format!(" and {name} must name"));
    let reason = format!(
        "it is a shim of {}: the real program lies in {}, which profile `{}` must see{}",
        shim.manager,
        Text::from(needs.as_path()).escaped(),
        profile.name,
        named.unwrap_or_default()
    );
    let next = "ask the operator for [[tools]] with that folder as `root`";
    let refusal = Refusal::new(Code::ProgramUnavailable, program.name.as_str(), reason, next);
    Err(match found(&program.name, settings, profile) {
        Some(advice) => advise(refusal, advice),
        None => refusal,
    })
}

/// The value that a variable has for every command of the profile.
fn variable(name: &str, settings: &Settings, profile: &Profile) -> Option<PathBuf> {
    let variables = settings.toolchains_of(profile).flat_map(|toolchain| &toolchain.env);
    let given = variables.rev().find(|(known, _)| known == name);
    let given = given.map(|(_, value)| PathBuf::from(value));
    given.or_else(|| profile.environment.get(name).map(PathBuf::from))
}

fn sees(folder: &Path, settings: &Settings, profile: &Profile) -> bool {
    let mut roots = settings.toolchains_of(profile).flat_map(|toolchain| &toolchain.roots);
    let entries = profile.read.iter().chain(&profile.execute);
    let mut named = entries.filter(|entry| entry.path.root == Root::Absolute);
    folder.starts_with("/usr")
        || roots.any(|root| folder.starts_with(root))
        || named.any(|entry| folder.starts_with(&entry.path.rest))
}

/// The next action, and the lines that it speaks of.
type Advice = (String, Option<String>);

fn advise(refusal: Refusal, (next, detail): Advice) -> Refusal {
    let mut advised = Refusal::new(refusal.code, refusal.what(), refusal.reason(), next);
    (advised.counted, advised.detail) = (refusal.counted, detail);
    advised
}

fn advice(name: &str, settings: &Settings, profile: &Profile) -> Option<Advice> {
    let has = |bin: &Path| bin.join(name).exists();
    let given = settings.toolchains.iter().find(|tools| tools.bin.as_deref().is_some_and(has));
    if let Some(tools) = given {
        let next =
            format!("the operator adds \"{}\" to `profiles` at {}", profile.name, tools.place);
        return Some((next, None));
    }
    found(name, settings, profile)
}

fn found(name: &str, settings: &Settings, profile: &Profile) -> Option<Advice> {
    let mut found = settings.homes.with_program(name)?;
    if !found.profiles.contains(&profile.name) {
        found.profiles.push(profile.name.clone());
    }
    let lines = settings.homes.toml(&found)?;
    let next = format!(
        "the operator runs `pinfold init`, or adds these lines to pinfold.toml: {name} is in {}",
        settings.homes.shown(&found.bin)?
    );
    Some((next, Some(lines.trim_end().to_owned())))
}
