//! Every value in force with where it comes from, for people and programs that ask.

use super::file::File;
use crate::record::Text;
use crate::run::Rules;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use std::fmt;
use std::path::Path;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nothing says otherwise.
    Default,
    /// It is part of the program.
    CompiledIn,
    /// The place of its key, `path:line:col`, or the file where it has no such place.
    File(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::CompiledIn => out.write_str("compiled in"),
            Self::File(place) => out.write_str(place),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// One value in force.
#[derive(Debug, Clone, Serialize)]
pub struct Value {
    /// Its name, such as `tools[0].bin`.
    pub key: String,
    /// What it is.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// Lists what the configuration says, in the order of the file.
pub(super) fn values(rules: &Rules, file: &File) -> Vec<Value> {
    let mut all = Vec::new();
    let mut add = |key: String, value: serde_json::Value, otherwise: Origin| {
        let origin = file.places.get(&key).map_or(otherwise, |place| Origin::File(place.clone()));
        all.push(Value { key, value, origin });
    };
    let shown = |path: &Path| json!(Text::from(path).escaped());
    let (default, compiled_in) = (Origin::Default, Origin::CompiledIn);
    add("schema".to_owned(), json!(1), default.clone());
    let catalog = file.catalog.as_deref().map_or(json!("shipped"), shown);
    add("catalog".to_owned(), catalog, compiled_in.clone());
    let profiles = file.profiles.as_deref().map_or(json!("shipped"), shown);
    add("profiles".to_owned(), profiles, compiled_in.clone());
    let identity = &rules.settings.git_identity;
    let identity = json!(format!("{} <{}>", identity.name, identity.email));
    add("git_identity".to_owned(), identity, default.clone());
    let worktrees = file.worktrees.iter().map(|folder| shown(folder)).collect();
    add("worktrees".to_owned(), worktrees, default.clone());
    for (index, toolchain) in file.toolchains.iter().enumerate() {
        let mut of_tool = |key: &str, value| {
            add(format!("tools[{index}].{key}"), value, default.clone());
        };
        of_tool("root", toolchain.roots.iter().map(|root| shown(root)).collect());
        of_tool("bin", toolchain.bin.as_deref().map_or(serde_json::Value::Null, shown));
        of_tool("profiles", json!(toolchain.profiles));
        let variable = |(name, value): &(String, std::ffi::OsString)| {
            (name.clone(), json!(Text::from(value).escaped()))
        };
        of_tool("env", toolchain.env.iter().map(variable).collect::<Map<_, _>>().into());
    }
    for (profile, rung) in &file.rungs {
        add(format!("rungs.{profile}"), json!(rung.to_string()), default.clone());
    }
    let index = rules.settings.index.as_deref().map_or(serde_json::Value::Null, |url| json!(url));
    add("index.pip".to_owned(), index, default.clone());
    // The catalog's folders have no key here: whose catalog it is says where they come from.
    let from = file.catalog.as_deref().map(|path| Origin::File(Text::from(path).escaped()));
    let path = rules.settings.path.iter().map(|folder| shown(folder)).collect();
    add("path".to_owned(), path, from.unwrap_or(compiled_in));
    all
}
