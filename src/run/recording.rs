//! What is written about a call, and the reply that goes with it.

use super::losses;
use super::{Refused, Request, Words};
use crate::catalog::Catalog;
use crate::plan::limits::Keeper;
use crate::plan::{GitIdentity, Plan};
use crate::profile::size_text;
use crate::record::{
    Approval, Body, Code, Decision, Digest, GuardReport, Intent, LimitHit, Outcome, Refusal, Reply,
    Rung, Text, TrailPlace, Truncated, Word, argv_digest, fit,
};
use crate::sandbox::Fault;
use crate::supervise::{Ended, Stop};
use crate::sys::wait::{self, Usage};
use crate::trail::{self, CallId, Place, Receipt, Trail};
use nix::sys::signal::Signal;
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::io;

/// Writes the records of one call.
#[derive(Debug)]
pub(super) struct Recorder {
    trail: Trail,
    session: String,
    call: CallId,
}

/// Most characters of what went wrong after the record; with the words around it and Pinfold's
/// name in front, the message stays below 400 characters.
const FAULT_CHARS_MAX: usize = 280;

/// How a call ended after its intent was durable.
#[derive(Debug)]
pub(super) enum Ending {
    /// The child never passed the gate.
    NeverRan {
        /// Why.
        fault: Fault,
        /// Where the intent stands.
        place: Place,
    },
    /// The caller cancelled before the gate opened; nothing was executed.
    Cancelled {
        /// The signal.
        signal: i32,
        /// Where the intent stands.
        place: Place,
    },
    /// The tree is gone.
    Ran {
        /// How it ended.
        ended: Ended,
        /// Where the intent stands.
        place: Place,
    },
    /// The watch failed; the tree was killed.
    Lost {
        /// Why.
        error: io::Error,
        /// Where the intent stands.
        place: Place,
    },
}

/// What the `end` record and the reply say.
struct Summary {
    outcome: Outcome,
    exit_code: Option<i32>,
    signal: Option<i32>,
    limit: Option<LimitHit>,
    error: Option<String>,
    duration_ms: u64,
    usage: Usage,
}

impl Recorder {
    pub(super) fn new(trail: Trail, request: &Request) -> Result<Self, trail::Error> {
        let session = match &request.session {
            Some(session) => session.clone(),
            None => trail::session_id()?,
        };
        Ok(Self { trail, session, call: CallId::new()? })
    }

    pub(super) fn call(&self) -> &CallId {
        &self.call
    }

    /// Records a refusal and makes its reply. A refusal that cannot be recorded becomes the
    /// fault that says so.
    pub(super) fn refuse(&self, request: &Request, argv: &[OsString], refused: &Refused) -> Reply {
        let Refused { refusal, template } = refused;
        let argv: Vec<Text> = argv.iter().map(Text::from).collect();
        let line = match &request.words {
            Words::Line(line) => Some(Word::one(line.as_os_str())),
            Words::Argv(_) => None,
        };
        let body = Body::Refusal {
            tool: request.tool,
            line,
            argv: Word::list(&argv),
            argv_count: argv.len() as u64,
            argv_sha256: argv_digest(&argv),
            workspace: Word::one(request.workspace.as_path()),
            template: template.clone(),
            code: refusal.code,
            reason: refusal.reason().to_owned(),
            next: refusal.next().to_owned(),
            counted: refusal.counted,
        };
        match self.trail.append_durable(&self.session, &self.call, vec![body]) {
            Ok(place) => {
                let mut reply = refused_reply(refusal, template.as_deref());
                reply.trail = TrailPlace { intent: Some(place.seqs.start), ..after(&place) };
                reply
            }
            Err(error) => unrecorded(&unavailable(&error)),
        }
    }

    /// Records the intent; it is on stable storage when this returns.
    pub(super) fn intent(&self, intent: Intent) -> Result<Receipt, trail::Error> {
        self.trail.intent(&self.session, &self.call, Box::new(intent))
    }

    /// Records that the program was executed; not waited for.
    pub(super) fn started(&self, pid: u32, layers: &[String]) {
        let body = Body::Started { pid, layers: layers.to_vec() };
        if let Err(error) = self.trail.append(&self.session, &self.call, vec![body]) {
            // The end of this call is durable or the reply says that it is not.
            tracing::warn!(%error, "the start is not recorded");
        }
    }

    /// Records what stands in no run's own order; not waited for, since the end follows.
    pub(super) fn append(&self, bodies: Vec<Body>) -> Result<(), trail::Error> {
        self.trail.append_durable(&self.session, &self.call, bodies).map(|_| ())
    }

    /// Records the end, durably, and makes the reply.
    pub(super) fn end(
        &self,
        plan: &Plan,
        decision: Decision,
        approval: Approval,
        ending: Ending,
    ) -> Reply {
        let lost = matches!(ending, Ending::Lost { .. });
        let (summary, ended, place) = summarize(ending);
        let mut bodies = ended.as_ref().map(during).unwrap_or_default();
        let Summary { outcome, exit_code, signal, limit, error, duration_ms, usage } = summary;
        bodies.push(Body::End {
            outcome,
            exit_code,
            signal,
            limit,
            error: error.clone(),
            duration_ms,
            user_us: usage.user_us,
            system_us: usage.system_us,
            max_rss_kib: usage.max_rss_kib,
        });
        let written = self.trail.append_durable(&self.session, &self.call, bodies);
        let became = match (&ended, plan.rung) {
            (None, _) if !lost => "Nothing ran.",
            (Some(ended), _) if ended.losses.uncovered.is_some() && ended.program.is_some() => {
                "The command has ended."
            }
            // Only somebody outside can end a guardian, and then nobody ends its tree.
            (Some(_), Rung::C) => "Its guardian was ended from outside: processes may be left.",
            _ => "The command was killed.",
        };
        let uncovered = ended.as_ref().and_then(losses::message);
        let (stdout, stderr) = ended.map_or_else(Default::default, |e| (e.stdout, e.stderr));
        let truncated = Truncated { stdout: stdout.truncated(), stderr: stderr.truncated() };
        let mut reply = Reply {
            outcome,
            exit_code,
            signal,
            limit,
            decision,
            approval: Some(approval),
            profile: Some(plan.profile.clone()),
            rung: Some(plan.rung),
            layers: plan.layers.clone(),
            truncated,
            stdout: Text(stdout.kept),
            stderr: Text(stderr.kept),
            duration_ms,
            denials: Vec::new(),
            guard: None,
            trail: TrailPlace { intent: Some(place.seqs.start), ..after(&place) },
            message: match error {
                Some(error) => Some(failed(&error, became)),
                None => limit.map(|limit| reached(limit, plan, truncated)).or(uncovered),
            },
        };
        match written {
            Ok(end) => {
                let last = end.seqs.end.saturating_sub(1);
                let intent = reply.trail.intent;
                reply.trail = TrailPlace { intent, end: Some(last), ..after(&end) };
            }
            Err(error) => {
                reply.outcome = Outcome::Error;
                reply.message = Some(end_unrecorded(&error));
            }
        }
        reply
    }
}

/// Adds to a reply what the guard saw, or that it could not look.
pub(super) fn guarded(reply: &mut Reply, looked: io::Result<Option<GuardReport>>) {
    match looked {
        Ok(report) => reply.guard = report,
        Err(error) => {
            let [error] = fit([error.to_string()], FAULT_CHARS_MAX / 2);
            reply.message = Some(format!(
                "the guard could not look at the workspace after the command: {error}. Nothing \
                 else starts there before it has. Next: see that the workspace can be read and \
                 the state folder be written."
            ));
        }
    }
}

/// Adds to the reply of a commit that nobody configured whose it is, where nothing else is said.
pub(super) fn committed(reply: &mut Reply, identity: &GitIdentity) {
    if reply.exit_code == Some(0) && reply.message.is_none() {
        let GitIdentity { name, email } = identity;
        reply.message = Some(format!(
            "author and committer are {name} <{email}>, because no identity is configured. Next: \
             an operator can set `git_identity` in pinfold.toml."
        ));
    }
}

/// What is recorded of a run beside its end.
fn during(ended: &Ended) -> Vec<Body> {
    let mut bodies: Vec<Body> = losses::records(ended).collect();
    bodies.push(Body::Output { stream: "stdout", summary: ended.stdout.summary() });
    bodies.push(Body::Output { stream: "stderr", summary: ended.stderr.summary() });
    bodies
}

fn end_unrecorded(error: &trail::Error) -> String {
    let [reason, next] = fit([error.reason(), error.next()], FAULT_CHARS_MAX);
    format!("the command ended, and its end cannot be recorded: {reason}. Next: {next}.")
}

fn failed(error: &str, became: &str) -> String {
    let [error] = fit([error.to_owned()], FAULT_CHARS_MAX);
    format!(
        "failed [{}] {error}. {became} Next: see `pinfold trail show` and the host's log.",
        Code::Host
    )
}

/// Says which limit a run reached, its value, and what would raise it.
fn reached(hit: LimitHit, plan: &Plan, cut: Truncated) -> String {
    let limit = plan.limit(hit.as_str());
    let value = limit.map_or(0, |limit| limit.value);
    let whole = limit.is_some_and(|limit| limit.keeper == Keeper::Group);
    let size = size_text(value);
    let what = match hit {
        LimitHit::Memory => format!(
            "the kernel killed for lack of memory: all processes of the command together may \
             have {size}"
        ),
        LimitHit::Pids if whole => {
            format!("the command may have {value} processes and threads at a time")
        }
        LimitHit::Pids => format!("the command's user may have {value} processes and threads"),
        LimitHit::Cpu if whole => {
            format!("the command was ended after {value} s of processor time")
        }
        LimitHit::Cpu => {
            format!("a process was ended after {value} s of processor time of its own")
        }
        LimitHit::FileSize => {
            format!("the command was ended because it wrote a file beyond {size}")
        }
        LimitHit::Tmp => format!("/tmp or /dev/shm was full: each holds {size}"),
        LimitHit::TmpInodes => {
            format!("/tmp or /dev/shm had room for no other file: each holds {value}")
        }
        LimitHit::Output => {
            let streams = match (cut.stdout, cut.stderr) {
                (true, true) => "stdout and stderr were",
                (true, false) => "stdout was",
                _ => "stderr was",
            };
            format!("{streams} cut: {size} of a stream are passed on, the rest is only counted")
        }
    };
    let next = match hit {
        LimitHit::Output => format!("`output_kib` of template `{}`", plan.template),
        _ => format!("`{}` in [limits] of profile `{}`", hit.as_str(), plan.profile),
    };
    format!("limit [{}] {what}. Next: let it need less, or raise {next}.", hit.as_str())
}

fn after(place: &Place) -> TrailPlace {
    TrailPlace { intent: None, end: None, size: place.size, root: place.root.base64url() }
}

fn summarize(ending: Ending) -> (Summary, Option<Ended>, Place) {
    let nothing = |error: String| Summary {
        outcome: Outcome::Error,
        exit_code: None,
        signal: None,
        limit: None,
        error: Some(error),
        duration_ms: 0,
        usage: Usage::default(),
    };
    match ending {
        Ending::NeverRan { fault, place } => (nothing(fault.to_string()), None, place),
        Ending::Cancelled { signal, place } => {
            let (outcome, signal) = (Outcome::Cancelled, Some(signal));
            let cancelled = Summary { outcome, signal, error: None, ..nothing(String::new()) };
            (cancelled, None, place)
        }
        Ending::Lost { error, place } => {
            (nothing(format!("the command could not be watched: {error}")), None, place)
        }
        Ending::Ran { ended, place } => (ran(&ended), Some(ended), place),
    }
}

/// Sums up a run whose tree is gone.
fn ran(ended: &Ended) -> Summary {
    let Ended { program, stopped, limit, duration, usage, losses, .. } = ended;
    let (exit_code, by_signal) = match program {
        Some(wait::Ended::Exit(code)) => (Some(*code), None),
        Some(wait::Ended::Signal(signal)) => (None, Some(*signal)),
        None => (None, None),
    };
    let outcome = match stopped {
        // Whatever else ended the run, nobody knows what it saw.
        _ if losses.uncovered.is_some() => Outcome::Error,
        Some(Stop::Deadline) => Outcome::Timeout,
        Some(Stop::Cancelled(_)) => Outcome::Cancelled,
        Some(Stop::Uncovered) => Outcome::Error,
        // Without a word of the program, the kernel killed the tree's init too, or it was lost.
        None if program.is_none() && *limit != Some(LimitHit::Memory) => Outcome::Error,
        _ if limit.is_some() => Outcome::Limit,
        _ if exit_code == Some(0) => Outcome::Ok,
        _ => Outcome::Nonzero,
    };
    let signal = match stopped {
        Some(Stop::Cancelled(signal)) => Some(*signal),
        // The kernel's own kill; the limit says more.
        _ if *limit == Some(LimitHit::Memory) => {
            by_signal.filter(|signal| *signal != Signal::SIGKILL as i32)
        }
        _ => by_signal,
    };
    let why = match &losses.uncovered {
        Some(why) => why.to_string(),
        None => "the tree ended without a word of the command".to_owned(),
    };
    Summary {
        outcome,
        exit_code: exit_code.filter(|_| outcome != Outcome::Cancelled),
        signal,
        limit: *limit,
        error: (outcome == Outcome::Error).then_some(why),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        usage: *usage,
    }
}

/// Makes the intent of a plan.
pub(super) fn intent(
    tool: &'static str,
    plan: &Plan,
    catalog: &Catalog,
    approval: Approval,
) -> Intent {
    // The deadline has a member of its own.
    let limits = plan.limits.iter().filter(|limit| limit.name != "timeout");
    let limits = limits.map(|limit| (limit.name.to_owned(), limit.value));
    Intent {
        tool,
        template: plan.template.clone(),
        argv: Word::list(&plan.argv),
        argv_count: plan.argv.len() as u64,
        argv_sha256: argv_digest(&plan.argv),
        program: plan.program.clone(),
        interpreter: plan.interpreter.clone(),
        workspace: Word::one(plan.workspace.as_path()),
        cwd: Word::one(plan.cwd.as_path()),
        env: plan.environment.keys().cloned().collect(),
        env_sha256: environment_digest(plan),
        stdin_sha256: plan.stdin_sha256,
        profile: plan.profile.clone(),
        access: plan.access,
        rung: plan.rung,
        layers: plan.layers.clone(),
        lacks: plan.lacks.clone(),
        limits: limits.collect(),
        uid: plan.identity.uid,
        timeout_ms: plan.timeout_ms,
        notes: plan.notes.iter().map(|note| Text::from(note.as_str()).shown()).collect(),
        catalog_sha256: catalog.digest(),
        tighten_sha256: catalog.overlay(),
        plan_sha256: plan.digest(),
        approval,
    }
}

/// Digest of the environment: for each variable in order of its name, name and value, each
/// behind its length in 32 bits, big-endian.
fn environment_digest(plan: &Plan) -> Digest {
    let mut hash = Sha256::new();
    for (name, variable) in &plan.environment {
        for part in [name.as_bytes(), variable.value.as_encoded_bytes()] {
            hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            hash.update(part);
        }
    }
    Digest(hash.finalize().into())
}

/// The refusal for a record that cannot be made durable.
pub(super) fn unavailable(error: &trail::Error) -> Refusal {
    Refusal::new(Code::TrailUnavailable, "the call", error.reason(), error.next())
}

/// The reply to a call of which nothing could be written.
pub(super) fn unrecorded(refusal: &Refusal) -> Reply {
    refused_reply(refusal, None)
}

fn refused_reply(refusal: &Refusal, template: Option<&str>) -> Reply {
    Reply {
        outcome: Outcome::Refused,
        exit_code: None,
        signal: None,
        limit: None,
        decision: Decision::refused(refusal, template),
        approval: None,
        profile: None,
        rung: None,
        layers: Vec::new(),
        stdout: Text(Vec::new()),
        stderr: Text(Vec::new()),
        truncated: Truncated::default(),
        duration_ms: 0,
        denials: Vec::new(),
        guard: None,
        trail: TrailPlace::default(),
        message: Some(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MESSAGE_CHARS_MAX;

    #[test]
    fn no_fault_after_the_record_makes_a_message_too_long() {
        let error = trail::Error::Unsafe {
            path: "/é".repeat(2_000).into(),
            why: "w".repeat(900),
            next: "n".repeat(900),
        };
        let long = "é".repeat(5_000);
        for message in [failed(&long, "Nothing ran."), end_unrecorded(&error)] {
            let length = format!("pinfold: {message}").chars().count();
            assert!(length <= MESSAGE_CHARS_MAX && message.contains('…'), "{length}: {message}");
        }
        assert!(
            failed("short", "Nothing ran.").starts_with("failed [host] short. Nothing ran. Next: ")
        );
    }
}
