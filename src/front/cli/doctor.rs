//! `pinfold doctor`: what this host can enforce, and what would bring the rest.

use super::{Surroundings, print, say_fault, say_faults};
use crate::plan::host::{Examination, Finding, Missing, State, examine};
use crate::plan::rung;
use crate::record::{Rung, Text};
use crate::run::Rules;
use crate::source::Faults;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// Examines this host; the exit code says the rung.
pub(super) fn doctor(json: bool, surroundings: &Surroundings) -> u8 {
    let answer = match Answer::find(surroundings) {
        Ok(answer) => answer,
        Err(fault) => return say_fault(&fault),
    };
    let printed = print(&if json { answer.json().to_string() } else { answer.text() });
    if printed != 0 {
        return printed;
    }
    if let (false, Err(faults)) = (json, &answer.rules) {
        say_faults(faults);
    }
    match answer.examination.rung {
        Rung::A | Rung::B => 0,
        Rung::C => 1,
        Rung::None => 2,
    }
}

/// Everything that is told.
pub(super) struct Answer<'a> {
    surroundings: &'a Surroundings,
    examination: Examination,
    /// How long the examination took, in milliseconds.
    duration_ms: u128,
    rules: Result<Rules, Faults>,
}

/// One profile here.
struct Here {
    name: String,
    asks: Rung,
    accepts: Rung,
    refused: Option<String>,
}

/// A store, and the lines that would give it.
struct Store {
    path: String,
    lines: String,
}

impl<'a> Answer<'a> {
    /// Examines the host for runs in the current folder.
    pub(super) fn find(surroundings: &'a Surroundings) -> Result<Self, String> {
        let cache = surroundings.state.as_ref().map(|state| state.join("cache/host"));
        let began = Instant::now();
        let folder = std::env::current_dir();
        let examination = folder.and_then(|folder| examine(&folder, cache.as_deref()));
        let examination =
            examination.map_err(|error| format!("this host cannot be tried: {error}"))?;
        let duration_ms = began.elapsed().as_millis();
        Ok(Self { surroundings, examination, duration_ms, rules: surroundings.load().rules })
    }

    fn profiles(&self) -> Vec<Here> {
        let Ok(rules) = &self.rules else { return Vec::new() };
        let here = |(profile, _): (&crate::profile::Profile, _)| Here {
            name: profile.name.clone(),
            asks: profile.rung,
            accepts: rung::wanted(profile, &rules.settings),
            refused: rung::refused(profile, &rules.settings, self.examination.rung),
        };
        rules.profiles.iter().map(here).collect()
    }

    /// The stores of which the configuration gives nothing.
    fn stores(&self) -> Vec<Store> {
        let homes = &self.surroundings.reader.homes;
        let given = |root: &Path| {
            let tools = self.rules.iter().flat_map(|rules| &rules.settings.toolchains);
            tools.flat_map(|tool| &tool.roots).any(|given| root.starts_with(given))
        };
        let found = homes.stores(Path::new("/")).into_iter();
        let lines = found.filter(|found| !given(&found.roots[0])).filter_map(|found| {
            let path = Text::from(found.roots[0].as_path()).escaped();
            Some(Store { path, lines: homes.toml(&found)? })
        });
        lines.collect()
    }

    fn layers(&self) -> Vec<String> {
        match self.examination.rung {
            Rung::None => Vec::new(),
            rung => rung::layers(&self.examination.host, rung, self.examination.kept),
        }
    }

    fn lacks(&self) -> Vec<&'static str> {
        match self.examination.rung {
            Rung::None => Vec::new(),
            rung => rung::lacks(&self.examination.host, rung, self.examination.kept),
        }
    }

    fn json(&self) -> Value {
        let missing = |missing: &Missing| {
            let fix = match &missing.detail {
                Some(detail) => format!("{}\n{detail}", missing.fix),
                None => missing.fix.clone(),
            };
            json!({"layer": missing.layer, "why": missing.why, "fix": fix})
        };
        let profile = |here: Here| {
            json!({
                "name": here.name, "asks": here.asks, "accepts": here.accepts,
                "runs": here.refused.is_none(), "why": here.refused,
            })
        };
        let folder = &self.examination.folder;
        let stores = self.stores().into_iter();
        let config = self.surroundings.config.as_deref();
        json!({
            "rung": self.examination.rung,
            "layers": self.layers(),
            "missing": self.examination.missing().map(missing).collect::<Vec<_>>(),
            "lacks": self.lacks(),
            "profiles": self.profiles().into_iter().map(profile).collect::<Vec<_>>(),
            "folder": {
                "path": Text::from(folder.path.as_path()),
                "file_system": folder.kind,
                "limit": folder.limit(),
            },
            "stores": stores.map(|s| json!({"path": s.path, "fix": s.lines})).collect::<Vec<_>>(),
            "configuration": {
                "path": config.map(Text::from),
                "faults": self.rules.as_ref().err().map(ToString::to_string),
            },
            "duration_ms": u64::try_from(self.duration_ms).unwrap_or(u64::MAX),
        })
    }

    /// The answer for people.
    pub(super) fn text(&self) -> String {
        let examination = &self.examination;
        let mut rows: Vec<[String; 3]> = examination.findings.iter().flat_map(rows).collect();
        let folder = &examination.folder;
        let path = Text::from(folder.path.as_path()).escaped();
        rows.push(row("folder", "", &format!("{path} is on {}", folder.kind)));
        rows.extend(folder.limit().map(|limit| row("", "", limit)));
        for store in self.stores() {
            let why =
                format!("no command sees {}; these lines of pinfold.toml give it:", store.path);
            rows.push(row("store", "", &why));
            rows.extend(store.lines.lines().map(|line| row("", "", line)));
        }
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.push(format!("examined in {} ms", self.duration_ms));
        lines.push(String::new());
        let gives = match examination.rung {
            Rung::A => "every layer, and a cgroup that places and kills",
            Rung::B => "every layer but a cgroup that places and kills",
            Rung::C => "Landlock, seccomp, and a guardian that ends the tree",
            Rung::None => "nothing runs",
        };
        lines.push(format!("this host gives rung {}: {gives}", examination.rung));
        lines.extend(self.lacks().into_iter().map(|lack| format!("not kept: {lack}")));
        self.tell_profiles(&mut lines);
        lines.join("\n")
    }

    fn tell_profiles(&self, lines: &mut Vec<String>) {
        if self.rules.is_err() {
            return lines.push("no profile runs: the configuration has faults".to_owned());
        }
        let (runs, refused): (Vec<_>, Vec<_>) =
            self.profiles().into_iter().partition(|here| here.refused.is_none());
        let names: Vec<_> = runs.iter().map(|here| here.name.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("profiles that run: {}", names.join(", ")));
        }
        for Here { name, asks, accepts, refused } in refused {
            let accepts = match accepts == asks {
                true => String::new(),
                false => format!(", and [rungs] accepts {accepts}"),
            };
            let why = refused.unwrap_or_default();
            lines.push(format!("refused: {name}, which asks for rung {asks}{accepts}: {why}"));
        }
    }
}

fn row(state: &str, layer: &str, what: &str) -> [String; 3] {
    [state, layer, what].map(str::to_owned)
}

/// Three columns; a line without words in the first two stands below the third.
fn line([state, layer, what]: &[String; 3]) -> String {
    format!("{state:<8} {layer:<13} {what}")
}

fn rows(finding: &Finding) -> Vec<[String; 3]> {
    match &finding.state {
        State::Works(what) => vec![row("works", finding.layer, what)],
        State::Unused(why) => vec![row("unused", finding.layer, why)],
        State::Missing(missing) => {
            let mut rows = vec![
                row("missing", missing.layer, &missing.why),
                row("", "to have it", &missing.fix),
            ];
            let detail = missing.detail.as_deref().unwrap_or_default().lines();
            rows.extend(detail.map(|line| row("", "", line)));
            rows
        }
    }
}
