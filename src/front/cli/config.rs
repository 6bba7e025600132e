//! `pinfold config check|show|schema`.

use super::args::{ConfigCommand, SchemaOf};
use super::{Surroundings, print, say_faults};
use crate::front::config::Value;
use crate::record::Text;
use serde_json::json;
use std::path::{Path, PathBuf};

const CONFIG: &str = include_str!("../../../docs/schemas/config.schema.json");
const CATALOG: &str = include_str!("../../../docs/schemas/catalog.schema.json");
const PROFILE: &str = include_str!("../../../docs/schemas/profile.schema.json");

/// Answers a question about the configuration.
pub(super) fn config(command: &ConfigCommand, surroundings: &Surroundings) -> u8 {
    match command {
        ConfigCommand::Check { file } => check(file.as_deref(), surroundings),
        ConfigCommand::Show { json } => show(*json, surroundings),
        ConfigCommand::Schema { of } => {
            let schema = match of {
                SchemaOf::Config => CONFIG,
                SchemaOf::Catalog => CATALOG,
                SchemaOf::Profile => PROFILE,
            };
            print(schema.trim_end())
        }
    }
}

fn check(file: Option<&Path>, surroundings: &Surroundings) -> u8 {
    let named = file.map(|file| std::path::absolute(file).unwrap_or(file.to_owned()));
    let path = named.or_else(|| surroundings.config.clone());
    match surroundings.reader.load(path.as_deref(), None).rules {
        Err(faults) => say_faults(&faults),
        Ok(_) => match path {
            Some(path) => print(&format!("{} is sound", Text::from(path.as_path()).escaped())),
            None => print("there is no configuration file; what is compiled in serves"),
        },
    }
}

fn show(as_json: bool, surroundings: &Surroundings) -> u8 {
    let considered = surroundings.config.as_ref().or(surroundings.default_config.as_ref());
    let there = surroundings.config.as_ref().is_some_and(|path| path.exists());
    let values = surroundings.reader.values(surroundings.config.as_deref());
    let path = |path: Option<&PathBuf>| path.map(|path| Text::from(path.as_path()).escaped());
    let (config, state) = (path(considered), path(surroundings.state.as_ref()));
    let (config_from, state_from) = (surroundings.config_from, surroundings.state_from);
    let printed = if as_json {
        let answer = json!({
            "configuration": { "path": config, "exists": there, "from": config_from },
            "state": { "path": state, "from": state_from },
            "values": values.as_ref().ok(),
        });
        print(&answer.to_string())
    } else {
        let none = || "none".to_owned();
        let is = if there { "there" } else { "not there" };
        let mut text = format!(
            "configuration  {} ({is}; named by {config_from})\nstate folder   {} (named by \
             {state_from})",
            config.unwrap_or_else(none),
            state.unwrap_or_else(none)
        );
        for Value { key, value, origin } in values.iter().flatten() {
            text.push_str(&format!("\n{key} = {value}  # {origin}"));
        }
        print(&text)
    };
    match values {
        Err(faults) => say_faults(&faults),
        Ok(_) => printed,
    }
}
