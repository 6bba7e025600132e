//! `pinfold profile list|show|check`.

use super::args::{ProfileCommand, ShowArgs};
use super::{Surroundings, effective, print, say_fault, say_faults};
use crate::profile::{Origin, Profiles};
use crate::source::Faults;

/// Answers a question about profiles.
pub(super) fn profile(command: ProfileCommand, surroundings: &Surroundings) -> u8 {
    match command {
        ProfileCommand::Check { files } if !files.is_empty() => {
            return check(surroundings.reader.profiles(&files));
        }
        ProfileCommand::Show(args) if args.effective => {
            let ShowArgs { call, json, argv, .. } = args;
            return effective::show(call, argv, json, surroundings);
        }
        _ => {}
    }
    let profiles = match surroundings.load().rules {
        Ok(rules) => rules.profiles,
        Err(faults) => return check(Err(faults)),
    };
    match command {
        ProfileCommand::List => print(&list(&profiles)),
        ProfileCommand::Show(ShowArgs { name, .. }) => {
            let name = name.unwrap_or_default();
            match profiles.get(&name) {
                Some(profile) => print(profile.to_toml().trim_end()),
                None => {
                    let known = profiles.names().collect::<Vec<_>>().join(", ");
                    say_fault(&format!("no profile `{name}`. Profiles: {known}"))
                }
            }
        }
        ProfileCommand::Check { .. } => check(Ok(profiles)),
    }
}

fn list(profiles: &Profiles) -> String {
    let line = |(profile, origin): (&crate::profile::Profile, &Origin)| {
        let origin = match origin {
            Origin::Shipped => "shipped".to_owned(),
            Origin::File(path) => path.display().to_string(),
        };
        format!("{:<10} rung {}  {}  ({origin})", profile.name, profile.rung, profile.why)
    };
    profiles.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Exit code 0 where every profile is sound, 1 where one is not.
fn check(profiles: Result<Profiles, Faults>) -> u8 {
    match profiles {
        Ok(profiles) => print(&format!("{} profiles are sound", profiles.names().count())),
        Err(faults) => say_faults(&faults),
    }
}
