//! The command's environment: built from the profile and the template, never taken over.

use super::filesystem::Scratch;
use super::{Call, Settings, Toolchain};
use crate::catalog::Guard;
use crate::profile::{Profile, Root, expand};
use crate::record::Access;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// The tree that every repository has without storing it: no file, so no attributes.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Settings of git for one command, which no file can override.
const GIT_SETTINGS: [(&str, &str); 17] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.untrackedCache", "false"),
    ("sequence.editor", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.bareRepository", "explicit"),
    ("init.templateDir", ""),
    ("credential.helper", ""),
    ("core.askPass", "false"),
];

/// Builds the environment.
pub fn environment(
    call: &Call<'_>,
    profile: &Profile,
    settings: &Settings,
    toolchains: &[&Toolchain],
    scratch: &Scratch,
) -> BTreeMap<String, OsString> {
    let home = scratch.home();
    let folder = |root: Root| match root {
        Root::Workspace => call.workspace.path.as_path(),
        Root::Home => home.as_path(),
        _ => scratch.path.as_path(),
    };
    let mut env = BTreeMap::new();
    env.insert("PATH".to_owned(), search_path(settings, toolchains));
    for (name, value) in &profile.environment {
        env.insert(name.clone(), expand(value, folder));
    }
    for toolchain in toolchains {
        env.extend(toolchain.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    if call.template.guard == Some(Guard::Git) {
        git(call, settings, &mut env);
    }
    for (name, value) in &call.template.env {
        env.insert(name.clone(), expand(value, folder));
    }
    env
}

/// Tool roots first, then the catalog's fixed list.
fn search_path(settings: &Settings, toolchains: &[&Toolchain]) -> OsString {
    let tools = toolchains.iter().filter_map(|toolchain| toolchain.bin.as_deref());
    let folders: Vec<&Path> = tools.chain(settings.path.iter().map(AsRef::as_ref)).collect();
    let bytes = folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes());
    OsString::from_vec(bytes.collect::<Vec<_>>().join(&b':'))
}

/// Git's environment: no configuration but the repository's own and these settings, no way to
/// ask or to fetch, no attributes of the tree, a fixed author.
fn git(call: &Call<'_>, settings: &Settings, env: &mut BTreeMap<String, OsString>) {
    let workspace = &call.workspace.path;
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.into());
    set("GIT_CONFIG_GLOBAL", "/dev/null");
    set("GIT_CONFIG_NOSYSTEM", "1");
    set("GIT_TERMINAL_PROMPT", "0");
    set("GIT_ATTR_NOSYSTEM", "1");
    set("GIT_PAGER", "cat");
    if call.access <= Access::ReadOnly {
        set("GIT_OPTIONAL_LOCKS", "0");
    }
    if has_repository(call) {
        set("GIT_ATTR_SOURCE", EMPTY_TREE);
    }
    for role in ["AUTHOR", "COMMITTER"] {
        set(&format!("GIT_{role}_NAME"), &settings.git_identity.name);
        set(&format!("GIT_{role}_EMAIL"), &settings.git_identity.email);
    }
    let mut pairs: Vec<(&str, OsString)> =
        GIT_SETTINGS.map(|(key, value)| (key, OsString::from(value))).into();
    if !workspace.join(".git/logs").is_dir() {
        // Logs cannot be started where their folder may not be made.
        pairs.push(("core.logAllRefUpdates", "false".into()));
    }
    // The workspace may belong to another user than the command; it is the one repository that
    // git is pointed at, and nothing of it is executed.
    pairs.push(("safe.directory", workspace.clone().into()));
    set("GIT_CONFIG_COUNT", &pairs.len().to_string());
    if let Some(parent) = workspace.parent() {
        env.insert("GIT_CEILING_DIRECTORIES".to_owned(), parent.into());
    }
    for (index, (key, value)) in pairs.into_iter().enumerate() {
        env.insert(format!("GIT_CONFIG_KEY_{index}"), key.into());
        env.insert(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
}

/// `git init` has no repository yet, and then git refuses the name of a tree.
fn has_repository(call: &Call<'_>) -> bool {
    call.workspace.path.join(".git").exists()
}
