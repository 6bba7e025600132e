//! `pinfold profile show --effective`: the whole plan of a call, each part with its origin.

use super::args::CallArgs;
use super::{Surroundings, print, run, say_fault, say_refusal};
use crate::plan::Plan;
use crate::plan::filesystem::{Mount, Rule, RuleAt, TMP};
use crate::plan::limits::{Keeper, Limit};
use crate::record::{Decision, Refusal, Rung, Text};
use crate::run::{Preview, Words};
use crate::sys::seccomp::{self, Sockets};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

/// What every call gets that no list names.
const OTHERS: &str = "ENOSYS; another architecture's numbers end the process";
/// Where the parts come from that the caller named.
const CALL: &str = "the call";
/// Where the parts come from that no profile can change.
const ALWAYS: &str = "always: whatever a profile says";

/// Shows the plan of one call, or the refusal that it would get.
pub(super) fn show(
    call: CallArgs,
    argv: Vec<OsString>,
    as_json: bool,
    surroundings: &Surroundings,
) -> u8 {
    let (supervisor, request) = match run::ready(call, Words::Argv(argv), surroundings) {
        Ok(ready) => ready,
        Err(fault) => return say_fault(&fault),
    };
    match supervisor.preview(&request) {
        Ok(preview) if as_json => print(&object(&preview)),
        Ok(preview) => print(text(&preview).trim_end()),
        Err((refusal, template)) => refused(&refusal, template.as_deref(), as_json),
    }
}

fn refused(refusal: &Refusal, template: Option<&str>, as_json: bool) -> u8 {
    if as_json {
        let decision = Decision::refused(refusal, template);
        let answer = json!({
            "plan": null, "decision": decision, "taken": null, "syscalls": null,
            "message": refusal.to_string(), "digest": null,
        });
        let printed = print(&answer.to_string());
        return if printed == 0 { refusal.code.exit() } else { printed };
    }
    say_refusal(&refusal.to_string(), refusal.code);
    refusal.code.exit()
}

/// The answer of `--json`. The plan stands in it byte for byte as its digest was made.
fn object(Preview { decision, plan, .. }: &Preview) -> String {
    let (uid, gid) = (plan.identity.uid, plan.identity.gid);
    let on_host = plan.view.scratch.path != Path::new(TMP);
    let scratch = on_host.then(|| Text::from(plan.view.scratch.path.as_path()));
    let rest = [
        ("decision", json!(decision)),
        ("taken", json!({ "uid": uid, "gid": gid, "scratch": scratch })),
        ("syscalls", calls(plan)),
        ("message", Value::Null),
        ("digest", json!(plan.digest())),
    ];
    let members = rest.map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{\"plan\":{},{}}}", plan.json(), members.join(","))
}

/// Every system call by its name, with what it gets.
fn calls(plan: &Plan) -> Value {
    let entry = |name: &str, place: &str| json!({ "name": name, "place": place });
    let allowed: Vec<Value> = allowed(plan)
        .into_iter()
        .flat_map(|(_, names, place)| names.into_iter().map(move |name| entry(name, place)))
        .collect();
    let refused: Vec<Value> = seccomp::refused(guarded(plan))
        .into_iter()
        .flat_map(|part| {
            part.names().map(move |name| json!({ "name": name, "answer": part.answer }))
        })
        .collect();
    let arguments = seccomp::by_arguments(plan.sockets, plan.rung == Rung::C);
    let arguments: Vec<Value> = arguments
        .into_iter()
        .map(|(calls, answer)| {
            let calls: Vec<&str> = calls.split(' ').collect();
            json!({ "calls": calls, "answer": answer })
        })
        .collect();
    json!({ "allowed": allowed, "refused": refused, "arguments": arguments, "others": OTHERS })
}

/// The calls that are let through, by set, each with its origin. The stricter filter counts.
fn allowed(plan: &Plan) -> Vec<(String, Vec<&'static str>, &str)> {
    let refused: BTreeSet<&str> =
        seccomp::refused(guarded(plan)).into_iter().flat_map(|part| part.names()).collect();
    let kept = |names: &mut dyn Iterator<Item = &'static str>| {
        names.filter(|name| !refused.contains(name)).collect::<Vec<_>>()
    };
    let mut all = vec![("allowed".to_owned(), kept(&mut seccomp::always()), ALWAYS)];
    all.extend(plan.syscalls.iter().map(|listed| {
        let names = kept(&mut listed.set.names());
        (format!("allowed, set {:?}", listed.set), names, listed.place.as_str())
    }));
    all
}

/// For a tree without namespaces: whether the supervisor performs its changes of modes and times.
fn guarded(plan: &Plan) -> Option<bool> {
    (plan.rung == Rung::C).then_some(plan.brokered)
}

/// The text being made: groups of lines, each line with where it comes from.
#[derive(Default)]
struct Page(String);

impl Page {
    fn group(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        self.0.push_str(&format!("{gap}{name}\n"));
    }

    fn line(&mut self, what: impl Display, place: &str) {
        let place = Text::from(place).escaped();
        self.0.push_str(&format!("  {what}  [{place}]\n"));
    }

    fn word(&mut self, what: impl Display) {
        self.0.push_str(&format!("  {what}\n"));
    }
}

fn text(preview: &Preview) -> String {
    let plan = &preview.plan;
    let mut page = Page::default();
    call(preview, &mut page);
    page.group("variables");
    for (name, variable) in &plan.environment {
        page.line(format_args!("{name}={}", escaped(&variable.value)), &variable.place);
    }
    page.group(if plan.rung == Rung::C { "mounts: none on this rung" } else { "mounts, in order" });
    plan.view.mounts.iter().for_each(|mount| {
        let (what, place) = mounted(plan, mount);
        page.line(what, place);
    });
    landlock(plan, &mut page);
    system_calls(plan, &mut page);
    page.group("namespaces and network");
    let place = |name: &str| plan.places.get(name).map_or(ALWAYS, String::as_str);
    for name in &plan.namespaces {
        page.line(name, place("namespaces"));
    }
    let network = if plan.loopback { "loopback of the run's own" } else { "no network" };
    page.line(network, place("loopback"));
    limits(plan, &mut page);
    page.group("layers");
    page.word(plan.layers.join(", "));
    for (name, lines) in [("lacks", words(&plan.lacks)), ("notes", words(&plan.notes))] {
        page.group(name);
        lines.iter().for_each(|line| page.word(line));
    }
    page.group("digest");
    page.word(plan.digest());
    page.0
}

fn words(list: &[impl AsRef<str>]) -> Vec<String> {
    if list.is_empty() {
        return vec!["none".to_owned()];
    }
    list.iter().map(|word| Text::from(word.as_ref()).escaped()).collect()
}

fn escaped(text: impl AsRef<std::ffi::OsStr>) -> String {
    Text::from(text.as_ref()).escaped()
}

/// Who calls what, and who it is then.
fn call(Preview { decision, describe, plan }: &Preview, page: &mut Page) {
    let place = |name: &str| plan.places.get(name).map_or(ALWAYS, String::as_str);
    page.group("call");
    let verdict = json!(decision.verdict);
    let verdict = verdict.as_str().unwrap_or_default();
    page.line(format_args!("{verdict}: template {}, {describe}", plan.template), place("template"));
    page.line(format_args!("access {}", json!(plan.access)), place("access"));
    page.line(format_args!("profile {}", plan.profile), place("profile"));
    page.line(format_args!("rung {}", plan.rung), place("rung"));
    let argv: Vec<String> = plan.argv.iter().map(Text::escaped).collect();
    page.line(format_args!("argv {}", json!(argv)), CALL);
    page.line(format_args!("workspace {}", escaped(&plan.workspace)), CALL);
    page.line(format_args!("working folder {}", escaped(&plan.cwd)), CALL);
    let stdin = plan.stdin_sha256.map_or("the null device".to_owned(), |it| format!("sha256:{it}"));
    page.line(format_args!("standard input {stdin}"), CALL);
    let found = &plan.environment.get("PATH").map_or(ALWAYS, |path| path.place.as_str());
    for (name, file) in
        [("program", Some(&plan.program)), ("interpreter", plan.interpreter.as_ref())]
    {
        let Some(file) = file else { continue };
        page.line(format_args!("{name} {} sha256:{}", file.path.escaped(), file.sha256), found);
    }
    let who = plan.identity;
    let kind = match (who.same_user, who.taken) {
        (true, _) => "the supervisor's own user",
        (_, true) => "ids of no account, free at the time",
        _ => "the workspace's owner",
    };
    page.line(format_args!("uid {}, gid {}: {kind}", who.uid, who.gid), ALWAYS);
    if let Some((uid, gid)) = who.swapped_with {
        page.line(format_args!("seen as the owner of the workspace, {uid}:{gid}"), ALWAYS);
    }
}

/// What a mount shows where, and where that comes from.
fn mounted<'p>(plan: &'p Plan, mount: &'p Mount) -> (String, &'p str) {
    let mode = |writable: bool| if writable { "writable" } else { "read-only" };
    let below = |piece: &usize, rest: &Path| {
        let at = plan.view.pieces().nth(*piece).map(|piece| piece.at.as_path());
        let parts = [plan.workspace.as_path(), at.unwrap_or(Path::new("")), rest];
        let parts = parts.into_iter().filter(|part| !part.as_os_str().is_empty());
        escaped(parts.collect::<std::path::PathBuf>())
    };
    match mount {
        Mount::New { kind, path, holds, place } => (format!("{path}: new {kind}, {holds}"), place),
        Mount::Host { path, writable, place, .. } => {
            (format!("{}: the host's, {}", escaped(path), mode(*writable)), place)
        }
        Mount::HostMask { path, place, .. } => (format!("{}: covered", escaped(path)), place),
        Mount::Link { path, to, place } => {
            (format!("{}: a link to {}", escaped(path), escaped(to)), place)
        }
        Mount::Device { path, place, .. } => {
            (format!("{}: the host's device", escaped(path)), place)
        }
        Mount::Repository { path, writable, place, .. } => {
            (format!("{}: the worktree's repository, {}", escaped(path), mode(*writable)), place)
        }
        Mount::Piece(piece) => {
            let path = if piece.at.as_os_str().is_empty() {
                plan.workspace.clone()
            } else {
                plan.workspace.join(&piece.at)
            };
            let through = plan.view.is_seen_through_another(piece);
            let through = if through { ", seen through the folder above" } else { "" };
            let run = if plan.view.workspace_executable { "executable" } else { "not executable" };
            let mode = mode(piece.writable);
            (format!("{}: the workspace's, {mode}, {run}{through}", escaped(path)), &piece.place)
        }
        Mount::Hold { piece, rest, writable, place, .. } => {
            (format!("{}: held in its place, {}", below(piece, rest), mode(*writable)), place)
        }
        Mount::Mask { piece, rest, place, .. } => {
            (format!("{}: covered", below(piece, rest)), place)
        }
    }
}

fn landlock(plan: &Plan, page: &mut Page) {
    page.group("Landlock rules");
    for Rule { at, rights, place } in &plan.view.rules {
        let at = match at {
            RuleAt::Host(path) | RuleAt::View(path) | RuleAt::Scratch(path) => escaped(path),
            RuleAt::Device(path, _) | RuleAt::Repository(path, _) => escaped(path),
            RuleAt::Inside(path, _) if path.as_os_str().is_empty() => escaped(&plan.workspace),
            RuleAt::Inside(path, _) => escaped(plan.workspace.join(path)),
        };
        page.line(format_args!("{at}: {}", rights.known()), place);
    }
    page.line("no other right on any file", ALWAYS);
    let outside = if plan.loopback {
        "no signal and no abstract socket out of the run"
    } else {
        "no signal and no abstract socket out of the run, no TCP"
    };
    page.line(format_args!("{outside}, as far as this kernel's Landlock goes"), ALWAYS);
}

fn system_calls(plan: &Plan, page: &mut Page) {
    page.group("system calls");
    for (what, names, place) in allowed(plan) {
        page.line(format_args!("{what}: {}", names.join(" ")), place);
    }
    for part in seccomp::refused(guarded(plan)) {
        let answer = match part.answer {
            "the supervisor" => "performed by the supervisor, below what is writable".to_owned(),
            errno => format!("refused with {errno}"),
        };
        let names: Vec<&str> = part.names().collect();
        page.line(format_args!("{answer}: {}", names.join(" ")), ALWAYS);
    }
    for (calls, answer) in seccomp::by_arguments(plan.sockets, plan.rung == Rung::C) {
        page.line(format_args!("{calls}: {answer}"), ALWAYS);
    }
    page.line(format_args!("every other call: {OTHERS}"), ALWAYS);
    page.group("sockets");
    let sockets = match plan.sockets {
        Sockets::None => "none but pairs",
        Sockets::Local => "path and abstract sockets of the run's own",
        Sockets::Internet => "path and abstract sockets, TCP and UDP within the run",
    };
    page.line(sockets, plan.places.get("sockets").map_or(ALWAYS, String::as_str));
}

fn limits(plan: &Plan, page: &mut Page) {
    page.group("limits");
    for Limit { name, value, keeper, place } in &plan.limits {
        let kept = match keeper {
            Keeper::Group => "of the whole tree, kept by its cgroup",
            // The kernel counts all of the user's processes there.
            Keeper::Rlimit(_) if *name == "pids" && plan.rung == Rung::C => {
                "beside the processes that the user has, kept by the kernel"
            }
            Keeper::Rlimit(_) if *name == "pids" => "of the command's user, kept by the kernel",
            Keeper::Rlimit(_) => "of each process, kept by the kernel",
            Keeper::Scratch => "of each scratch file system, kept by itself",
            Keeper::Supervisor => "kept by the supervisor",
        };
        let unit = match *name {
            "memory" | "file_size" | "tmp" | "core" => " bytes",
            "output" => " bytes a stream",
            "cpu" => " s",
            "timeout" => " ms",
            _ => "",
        };
        page.line(format_args!("{name} {value}{unit} {kept}"), place);
    }
    let scratch = &plan.view.scratch;
    let run = if scratch.executable { "executable" } else { "not executable" };
    let place = plan.places.get("scratch.executable").map_or(ALWAYS, String::as_str);
    page.line(format_args!("scratch folder {}, {run}", escaped(&scratch.path)), place);
}
