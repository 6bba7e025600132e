//! The command's environment: built from the profile and the template, never taken over.

use super::filesystem::{HOME, Scratch};
use super::{Call, Settings, Toolchain};
use crate::catalog::Guard;
use crate::profile::{Profile, Root, expand};
use crate::record::{Access, Text};
use serde::{Serialize, Serializer};
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

/// A variable of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its value.
    #[serde(skip)]
    pub value: OsString,
    /// Its value as a plan writes it: with `{tmp}` for a scratch folder of the host.
    #[serde(rename = "value", serialize_with = "as_text")]
    pub written: OsString,
    /// Where it comes from.
    pub place: String,
}

impl Variable {
    fn plain(value: OsString, place: &str) -> Self {
        Self { written: value.clone(), value, place: place.to_owned() }
    }
}

fn as_text<S: Serializer>(text: &OsString, out: S) -> Result<S::Ok, S::Error> {
    Text::from(text).serialize(out)
}

/// Builds the environment.
pub fn environment(
    call: &Call<'_>,
    profile: &Profile,
    settings: &Settings,
    toolchains: &[&Toolchain],
    scratch: &Scratch,
) -> BTreeMap<String, Variable> {
    let workspace = call.workspace.path.as_path();
    let (tmp, home) = (scratch.path.as_path(), scratch.home());
    let (written_tmp, written_home) =
        (Path::new(scratch.written), Path::new(scratch.written).join(HOME));
    let expanded = |text: &str, place: &str| {
        let value = expand(text, folders(workspace, tmp, &home));
        let written = expand(text, folders(workspace, written_tmp, &written_home));
        Variable { value, written, place: place.to_owned() }
    };
    let mut env = BTreeMap::new();
    env.insert("PATH".to_owned(), search_path(settings, toolchains));
    for (name, value) in &profile.environment {
        let place = profile.places.get(&format!("environment.{name}")).unwrap_or_default();
        env.insert(name.clone(), expanded(value, place));
    }
    for toolchain in toolchains {
        let given = toolchain.env.iter();
        let given = given.map(|(n, v)| (n.clone(), Variable::plain(v.clone(), &toolchain.place)));
        env.extend(given);
    }
    if call.template.guard == Some(Guard::Git) {
        git(call, settings, &mut env);
    }
    for (name, value) in &call.template.env {
        env.insert(name.clone(), expanded(value, &call.place));
    }
    for (name, value) in call.env {
        let place = "always: for pip that an interpreter runs as its module";
        env.insert((*name).to_owned(), Variable::plain((*value).into(), place));
    }
    env
}

/// Says which folder a token stands for.
fn folders<'f>(workspace: &'f Path, tmp: &'f Path, home: &'f Path) -> impl Fn(Root) -> &'f Path {
    move |root| match root {
        Root::Workspace => workspace,
        Root::Home => home,
        _ => tmp,
    }
}

/// Tool roots first, then the catalog's fixed list.
fn search_path(settings: &Settings, toolchains: &[&Toolchain]) -> Variable {
    let tools = toolchains.iter().filter_map(|toolchain| toolchain.bin.as_deref());
    let folders: Vec<&Path> = tools.chain(settings.path.iter().map(AsRef::as_ref)).collect();
    let bytes = folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes());
    let value = OsString::from_vec(bytes.collect::<Vec<_>>().join(&b':'));
    let with_bin = toolchains.iter().filter(|toolchain| toolchain.bin.is_some());
    let places = with_bin.map(|toolchain| toolchain.place.as_str());
    let places: Vec<&str> = places.chain([settings.path_place.as_str()]).collect();
    Variable::plain(value, &places.join(", "))
}

/// Git's environment: no configuration but the repository's own and these settings, no way to
/// ask or to fetch, no attributes of the tree, a fixed author.
fn git(call: &Call<'_>, settings: &Settings, env: &mut BTreeMap<String, Variable>) {
    let workspace = &call.workspace.path;
    let place = format!("guard of the template, {}", call.place);
    let mut put = |name: String, value: OsString, place: &str| {
        env.insert(name, Variable::plain(value, place));
    };
    let mut set = |name: &str, value: &str| put(name.to_owned(), value.into(), &place);
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
    let mut pairs: Vec<(&str, OsString)> =
        GIT_SETTINGS.map(|(key, value)| (key, OsString::from(value))).into();
    let has_logs = match &call.repository {
        Some(repository) => repository.has_logs(),
        None => workspace.join(".git/logs").is_dir(),
    };
    if !has_logs {
        // Logs cannot be started where their folder may not be made.
        pairs.push(("core.logAllRefUpdates", "false".into()));
    }
    // The workspace may belong to another user than the command; it is the one repository that
    // git is pointed at, and nothing of it is executed.
    pairs.push(("safe.directory", workspace.clone().into()));
    set("GIT_CONFIG_COUNT", &pairs.len().to_string());
    if let Some(parent) = workspace.parent() {
        put("GIT_CEILING_DIRECTORIES".to_owned(), parent.into(), &place);
    }
    // What was checked is what is used: git looks for no repository, and reads no file that names
    // the place of one.
    let own = has_repository(call).then(|| workspace.join(".git"));
    let folders = match &call.repository {
        Some(it) => Some((it.admin.path.clone(), it.common.path.clone())),
        None => own.map(|own| (own.clone(), own)),
    };
    if let Some((repository, common)) = folders {
        put("GIT_DIR".to_owned(), repository.into(), &place);
        put("GIT_COMMON_DIR".to_owned(), common.into(), &place);
        put("GIT_WORK_TREE".to_owned(), workspace.clone().into(), &place);
    }
    for (index, (key, value)) in pairs.into_iter().enumerate() {
        put(format!("GIT_CONFIG_KEY_{index}"), key.into(), &place);
        put(format!("GIT_CONFIG_VALUE_{index}"), value, &place);
    }
    let who = settings.identity_place.as_deref().unwrap_or(&place);
    for role in ["AUTHOR", "COMMITTER"] {
        put(format!("GIT_{role}_NAME"), settings.git_identity.name.clone().into(), who);
        put(format!("GIT_{role}_EMAIL"), settings.git_identity.email.clone().into(), who);
    }
}

/// `git init` has no repository yet, and then git refuses the name of a tree.
fn has_repository(call: &Call<'_>) -> bool {
    call.workspace.path.join(".git").exists()
}
