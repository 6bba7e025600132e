//! The pipeline: the only place that calls the stages in order.
//!
//! request → decision → plan → gated child, while its intent is made durable → watch → durable
//! end → reply.
//! Whatever stops a request before the gate is recorded as a refusal, or as the end of its
//! intent, and nothing ran. If the supervisor dies after any line here, the child at the gate
//! ends without having executed anything, and a running tree ends with it.
#![forbid(unsafe_code)]

mod circumstances;
mod explain;
mod guarding;
mod homes;
mod losses;
mod recording;
mod worktrees;

use crate::catalog::{Catalog, Guard, Template};
use crate::plan::host::{Host, Mode};
use crate::plan::identity::{self, Chosen};
use crate::plan::scratch::ScratchSlot;
use crate::plan::workspace::Workspace;
use crate::plan::{Given, Plan, Settings, limits, rung};
use crate::profile::Profiles;
use crate::record::{Approval, Code, Decision, Refusal, Reply, Rung, Text};
use crate::sandbox::{Fault, Gated, Layers, Means, prepare};
use crate::source::Faults;
use crate::supervise::{Sink, watch};
use crate::sys::cgroup::{Cgroup, Parents};
use crate::sys::spawn::Spawner;
use crate::trail::{Receipt, Trail};
use circumstances::Decided;
pub use explain::{Explanation, Matching, Token};
pub use guarding::Cleared;
use recording::{Ending, Recorder};
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a child may take to put its layers in place; a host that is heavily loaded needs a
/// few hundred milliseconds.
const BUILD_WAIT: Duration = Duration::from_secs(30);

/// Most bytes of standard input that a run is given.
pub const STDIN_BYTES_MAX: u64 = 16 << 20;

/// What decides: catalog, profiles and settings, all sound.
#[derive(Debug)]
pub struct Rules {
    /// The catalog.
    pub catalog: Catalog,
    /// The profiles.
    pub profiles: Profiles,
    /// The settings.
    pub settings: Settings,
    /// Whether a call may run without a person's word at all.
    pub auto_approve: bool,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// An argument vector.
    Argv(Vec<OsString>),
    /// A line that becomes an argument vector, or is refused; no shell ever reads it.
    Line(OsString),
}

/// Standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the command reads the null device.
    None,
    /// This content.
    Bytes(Vec<u8>),
    /// More than [`STDIN_BYTES_MAX`].
    TooLarge,
}

/// One call.
#[derive(Debug)]
pub struct Request {
    /// The tool.
    pub tool: &'static str,
    /// The session; a call without one has its own.
    pub session: Option<String>,
    /// The argument vector, or the line.
    pub words: Words,
    /// The workspace, absolute.
    pub workspace: PathBuf,
    /// The working folder below it.
    pub cwd: Option<PathBuf>,
    /// The deadline as the caller wrote it.
    pub timeout: Option<OsString>,
    /// Standard input.
    pub stdin: Stdin,
}

/// What would happen to a call.
#[derive(Debug)]
pub struct Preview {
    /// The decision: `auto` or `ask`.
    pub decision: Decision,
    /// What the template is for, in the catalog's words.
    pub describe: String,
    /// The plan.
    pub plan: Plan,
}

/// The supervisor: everything that outlives one call.
#[derive(Debug)]
pub struct Supervisor {
    state: PathBuf,
    rules: Result<Rules, Faults>,
    kept_out: Vec<PathBuf>,
    passwd: String,
    spawner: Spawner,
    groups: Option<Parents>,
    layers: Layers,
}

impl Supervisor {
    /// Starts a supervisor. `state` is its folder; `load` gives the rules, and places that must lie
    /// outside every workspace. The spawning thread prepares itself while it reads them.
    ///
    /// # Errors
    /// Those of starting the spawning thread and of reading `/etc/passwd`.
    pub fn start(
        state: &Path,
        load: impl FnOnce() -> (Result<Rules, Faults>, Vec<PathBuf>),
    ) -> io::Result<Self> {
        let layers = Layers::ALL;
        let spawner = Spawner::start(crate::plan::host::mode()? == Mode::Root, layers.of_thread())?;
        let (rules, places) = load();
        let passwd = std::fs::read_to_string("/etc/passwd")?;
        let groups = groups();
        // Caches only save work; the trail, which is needed, makes and checks its own folders.
        for folder in ["", "cache", "uids"].map(|name| state.join(name)) {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            tracing::trace!(?made, folder = %folder.display(), "state folder");
        }
        // After the folders were made: a path that does not exist yet has no real form.
        let state = state.to_owned();
        let kept_out = [state.clone()].iter().chain(&places).map(|path| real(path)).collect();
        Ok(Self { state, rules, kept_out, passwd, spawner, groups, layers })
    }

    /// Leaves layers out, to show each one alone.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    #[cfg(feature = "test-layers")]
    pub fn with_layers(self, layers: Layers) -> io::Result<Self> {
        let root = crate::plan::host::mode()? == Mode::Root;
        let spawner = Spawner::start(root, layers.of_thread())?;
        Ok(Self { layers, spawner, ..self })
    }

    /// Answers one call.
    pub async fn run(
        &self,
        request: Request,
        sink: &mut dyn Sink,
        cancel: impl Future<Output = i32>,
    ) -> Reply {
        let opened = Trail::open(&self.state.join("trail"));
        let recorder = match opened.and_then(|trail| Recorder::new(trail, &request)) {
            Ok(recorder) => recorder,
            Err(error) => return recording::unrecorded(&recording::unavailable(&error)),
        };
        let opened = Workspace::open(&request.workspace, &self.kept_out, &self.passwd);
        let argv = match self.argv(&request) {
            Ok(argv) => argv,
            Err(refused) => return recorder.refuse(&request, &[], &refused),
        };
        if let Ok(workspace) = &opened
            && let Err(refused) = self.catch_up(workspace, &recorder)
        {
            return recorder.refuse(&request, &argv, &refused);
        }
        let decided = self.decide((&request, &argv), &opened, false);
        let again = |decided| self.caught_up(decided, (&request, &argv), &opened, &recorder);
        let decided = match decided.and_then(again) {
            Ok(decided) => decided,
            Err(refused) => return recorder.refuse(&request, &argv, &refused),
        };
        let planned = self.first_seen(&decided.call).and_then(|()| self.plan(&decided));
        let launch = match planned {
            Ok(launch) => launch,
            Err(refusal) => {
                let template = Some(decided.call.template.id.clone());
                return recorder.refuse(&request, &argv, &Refused { refusal, template });
            }
        };
        self.launch(&request, &decided, launch, recorder, sink, cancel).await
    }

    /// Decides and plans a call without running or recording anything, also where its template
    /// asks: the plan is what a person would be shown. What a plan takes (a user id, a scratch
    /// folder, a cgroup) is given back before this returns.
    ///
    /// # Errors
    /// The refusal that a run would record, with the template that fits where one does.
    pub fn preview(&self, request: &Request) -> Result<Preview, (Refusal, Option<String>)> {
        let opened = Workspace::open(&request.workspace, &self.kept_out, &self.passwd);
        let parts = |refused: Refused| (refused.refusal, refused.template);
        let argv = self.argv(request).map_err(parts)?;
        let decided = self.decide((request, &argv), &opened, true).map_err(parts)?;
        let template = &decided.call.template.id;
        let planned = self.plan(&decided).map_err(|refusal| (refusal, Some(template.clone())))?;
        Ok(Preview {
            decision: Decision::matched(decided.verdict, template),
            describe: decided.call.template.describe.clone(),
            plan: planned.plan,
        })
    }

    /// Decision to plan: what this host and workspace give for it.
    fn plan(&self, decided: &Decided<'_>) -> Result<Planned, Refusal> {
        let cache = self.state.join("cache");
        let slots = self.state.join("uids");
        let host = Host::probe(&self.spawner, Some(&cache.join("host"))).map_err(host_fault)?;
        let settings = &decided.rules.settings;
        host.demand(&decided.profile.name, rung::wanted(decided.profile, settings))?;
        let bare = host.rung() == Rung::C;
        let groups = self.groups.as_ref().filter(|_| !bare);
        let cgroup = groups.and_then(|groups| groups.make(limits::ceilings(decided.profile)));
        let scratch = bare.then(|| ScratchSlot::take(&host, &self.state)).transpose()?;
        let chosen = identity::choose(&host, &slots, &self.passwd, &decided.call, decided.profile)?;
        let given = Given {
            identity: chosen.identity,
            kept: cgroup.as_ref().map(Cgroup::kept).unwrap_or_default(),
            scratch: scratch.as_ref().map(|slot| slot.path.as_path()),
        };
        let plan = Plan::make(&decided.call, decided.profile, settings, &host, given)?;
        Ok(Planned { plan, host, chosen, cgroup, scratch })
    }

    /// Plan to reply. The child builds its sandbox while the intent is being synced; the gate
    /// opens when the receipt exists and the child has reported every layer in place.
    async fn launch(
        &self,
        request: &Request,
        decided: &Decided<'_>,
        planned: Planned,
        recorder: Recorder,
        sink: &mut dyn Sink,
        cancel: impl Future<Output = i32>,
    ) -> Reply {
        let Planned { plan, host, chosen, cgroup, scratch } = planned;
        let project = Text::from(decided.call.workspace.path.as_path());
        let template = plan.template.clone();
        let approval = Approval { mode: "auto", template: template.clone(), project };
        let stdin = match &request.stdin {
            Stdin::Bytes(content) => Some(content.as_slice()),
            _ => None,
        };
        let means = Means {
            workspace: decided.call.workspace,
            host: &host,
            userns: chosen.userns.as_ref(),
            cgroup,
            stdin,
            spawner: &self.spawner,
            layers: self.layers,
        };
        let running = match self.note(&plan, &decided.call, &recorder) {
            Ok(running) => running,
            Err(refusal) => {
                let argv: Vec<OsString> = plan.argv.iter().cloned().map(OsString::from).collect();
                let refused = Refused { refusal, template: Some(template) };
                return recorder.refuse(request, &argv, &refused);
            }
        };
        let gated = prepare(&plan, recorder.call().as_str(), means);
        let catalog = &decided.rules.catalog;
        let intent = recording::intent(request.tool, &plan, catalog, approval.clone());
        let receipt = match recorder.intent(intent) {
            Ok(receipt) => receipt,
            // The child at the gate ends as it is dropped.
            Err(error) => {
                self.forget(running, &decided.call);
                return recording::unrecorded(&recording::unavailable(&error));
            }
        };
        let ending = pass_gate(gated, &receipt, &plan, &recorder, sink, cancel).await;
        if matches!(&ending, Ending::NeverRan { fault, .. } if fault.is_of_the_host()) {
            // What this host was found to give may be true no more.
            let forgotten = std::fs::remove_file(self.state.join("cache/host"));
            tracing::debug!(?forgotten, "asks the host again next time");
        }
        // The id and the scratch folder are free again only when the tree is gone.
        drop((chosen, scratch));
        let looked = self.look_after((running, &ending), &decided.call, &recorder);
        let mut reply = recorder.end(&plan, Decision::allowed(&template), approval, ending);
        recording::guarded(&mut reply, looked);
        let settings = &decided.rules.settings;
        if settings.identity_place.is_none() && commits(decided.call.template) {
            recording::committed(&mut reply, &settings.git_identity);
        }
        reply
    }
}

/// Returns whether a call of a template makes a commit.
fn commits(template: &Template) -> bool {
    template.guard == Some(Guard::Git) && template.subs.iter().any(|sub| sub == &["commit"])
}

/// Opens the gate of a child whose intent is durable, and watches it to its end.
async fn pass_gate(
    gated: Result<Gated, Fault>,
    receipt: &Receipt,
    plan: &Plan,
    recorder: &Recorder,
    sink: &mut dyn Sink,
    cancel: impl Future<Output = i32>,
) -> Ending {
    let place = receipt.place().clone();
    let mut cancel = std::pin::pin!(cancel);
    let opened = match gated {
        Ok(mut gated) => {
            // A child that is dropped here is killed and has executed nothing.
            let in_place = tokio::select! {
                in_place = gated.ready() => in_place,
                signal = cancel.as_mut() => return Ending::Cancelled { signal, place },
                () = tokio::time::sleep(BUILD_WAIT) => Err(Fault::Slow),
            };
            if let Some(signal) = already(cancel.as_mut()).await {
                return Ending::Cancelled { signal, place };
            }
            match in_place {
                Ok(()) => gated.open(receipt).await,
                Err(fault) => Err(fault),
            }
        }
        Err(fault) => Err(fault),
    };
    let child = match opened {
        Ok(child) => child,
        Err(fault) => return Ending::NeverRan { fault, place },
    };
    recorder.started(child.pid(), &plan.layers);
    tracing::info!(pid = child.pid(), call = %recorder.call(), "started");
    match watch(child, plan, sink, cancel).await {
        Ok(ended) => Ending::Ran { ended, place },
        Err(error) => Ending::Lost { error, place },
    }
}

/// Finds where groups can be made, and removes what dead supervisors left there. Without groups a
/// run goes on with less, and its record says so.
fn groups() -> Option<Parents> {
    match Parents::find() {
        Ok(groups) => {
            groups.sweep();
            Some(groups)
        }
        Err(error) => {
            tracing::info!(%error, "no cgroup of a run's own");
            None
        }
    }
}

/// Returns what a future has to say by now, without waiting for it.
async fn already<T>(future: impl Future<Output = T>) -> Option<T> {
    // Lets the runtime take in what has come meanwhile, such as a signal.
    tokio::task::yield_now().await;
    tokio::select! {
        biased;
        value = future => Some(value),
        () = std::future::ready(()) => None,
    }
}

/// A refusal with the template that fits, where one does.
#[derive(Debug)]
struct Refused {
    refusal: Refusal,
    template: Option<String>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, template: None }
    }
}

/// A plan and what it needs.
#[derive(Debug)]
struct Planned {
    plan: Plan,
    host: Host,
    chosen: Chosen,
    cgroup: Option<Cgroup>,
    scratch: Option<ScratchSlot>,
}

/// The path with every link on the way followed, as far as it exists.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(found) = std::fs::canonicalize(above) {
            return match path.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
                _ => found,
            };
        }
    }
    path.to_owned()
}

fn host_fault(error: io::Error) -> Refusal {
    let next = "see that /proc is mounted and readable";
    Refusal::new(Code::Host, "this host", error.to_string(), next)
}
