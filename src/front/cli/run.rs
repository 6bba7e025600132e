//! `pinfold run`.

use super::args::{CallArgs, RunArgs};
use super::output::{Quiet, Terminal};
use super::{Surroundings, print, say, say_fault, say_refusal};
use crate::front::reply;
use crate::record::{LimitHit, Outcome, Reply};
use crate::run::{Request, STDIN_BYTES_MAX, Stdin, Supervisor, Words};
use crate::supervise::Sink;
use std::io::Read;
use tokio::signal::unix::{SignalKind, signal};

/// Runs one command.
pub(super) fn run(args: RunArgs, surroundings: &Surroundings) -> u8 {
    let RunArgs { call, session, json, line, argv } = args;
    let words = line.map_or(Words::Argv(argv), Words::Line);
    let (supervisor, request) = match ready(call, words, surroundings) {
        Ok(ready) => ready,
        Err(fault) => return say_fault(&fault),
    };
    match reply(&supervisor, Request { session, ..request }, json) {
        Ok(reply) => tell(&reply, json),
        Err(fault) => say_fault(&fault),
    }
}

/// Starts the supervisor for one call and makes its request, or says why that cannot be.
pub(super) fn ready(
    call: CallArgs,
    words: Words,
    surroundings: &Surroundings,
) -> Result<(Supervisor, Request), String> {
    let supervisor = supervisor(&surroundings.tightened(call.tighten.as_deref()))?;
    let request = request(call, words).map_err(|error| format!("{error}. Nothing ran."))?;
    Ok((supervisor, request))
}

/// Starts the supervisor, or says why that cannot be.
pub(super) fn supervisor(surroundings: &Surroundings) -> Result<Supervisor, String> {
    let no_state = "no state folder: set HOME or PINFOLD_HOME. Nothing ran.";
    let state = surroundings.state.as_ref().ok_or(no_state)?;
    let load = || {
        let loaded = surroundings.load();
        (loaded.rules, loaded.places)
    };
    let supervisor = Supervisor::start(state, load)
        .map_err(|error| format!("the supervisor cannot start: {error}"))?;
    #[cfg(feature = "test-layers")]
    let supervisor = match super::variable("PINFOLD_TEST_WITHOUT") {
        Some(names) => {
            let layers = crate::sandbox::Layers::without(&names.to_string_lossy());
            supervisor
                .with_layers(layers)
                .map_err(|error| format!("no layers to leave out: {error}"))?
        }
        None => supervisor,
    };
    Ok(supervisor)
}

/// Has one request answered. A quiet one keeps the output for the reply instead of passing it on.
pub(super) fn reply(
    supervisor: &Supervisor,
    request: Request,
    quiet: bool,
) -> Result<Reply, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}. Nothing ran."))?;
    runtime.block_on(answer(supervisor, request, quiet)).map_err(|error| error.to_string())
}

/// Makes the request of a call that has no session yet; standard input is read whole here.
fn request(call: CallArgs, words: Words) -> std::io::Result<Request> {
    let CallArgs { workspace, cwd, timeout, stdin, tighten: _ } = call;
    let stdin = if stdin { read_stdin()? } else { Stdin::None };
    let workspace = match workspace {
        Some(folder) => std::path::absolute(folder)?,
        None => std::env::current_dir()?,
    };
    let (tool, session) = ("run_command", None);
    Ok(Request { tool, session, words, workspace, cwd, timeout, stdin })
}

fn read_stdin() -> std::io::Result<Stdin> {
    let mut content = Vec::new();
    let limit = STDIN_BYTES_MAX + 1;
    let read = std::io::stdin().lock().take(limit).read_to_end(&mut content)?;
    Ok(if read as u64 == limit { Stdin::TooLarge } else { Stdin::Bytes(content) })
}

async fn answer(supervisor: &Supervisor, request: Request, quiet: bool) -> std::io::Result<Reply> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let cancel = async move {
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value()
    };
    if quiet {
        let reply = supervisor.run(request, &mut Quiet, cancel).await;
        crate::sys::signal::end_by_signal_again()?;
        return Ok(reply);
    }
    let mut terminal = Terminal::default();
    let sink: &mut dyn Sink = &mut terminal;
    let reply = supervisor.run(request, sink, cancel).await;
    // The run is over and recorded; whoever does not want to wait for a reader may end this.
    crate::sys::signal::end_by_signal_again()?;
    terminal.finish();
    Ok(reply)
}

/// Tells the reply: as JSON, or in Pinfold's own words where there is something to say.
fn tell(reply: &Reply, json: bool) -> u8 {
    let code = reply::exit_code(reply);
    if json {
        let printed = match serde_json::to_string(reply) {
            Ok(text) => print(&text),
            Err(error) => say_fault(&format!("the reply cannot be written: {error}")),
        };
        return if printed == 0 { code } else { printed };
    }
    let cut_is_told = reply.limit == Some(LimitHit::Output);
    for (cut, name) in [(reply.truncated.stdout, "stdout"), (reply.truncated.stderr, "stderr")] {
        if cut && !cut_is_told {
            say(&format!("{name} was cut: the command wrote more than the template lets through"));
        }
    }
    if let Some(message) = &reply.message {
        match reply.decision.code {
            Some(code) => say_refusal(message, code),
            None => say(message),
        }
    }
    if let Some(report) = &reply.guard {
        report.message().iter().for_each(|message| say(message));
        for notice in &report.noticed {
            say(&format!("{} changed: {}", notice.path.shown(), notice.why));
        }
    }
    match reply.outcome {
        Outcome::Timeout => {
            say(&format!(
                "ended by the deadline after {} ms; nothing of it is left",
                reply.duration_ms
            ));
        }
        Outcome::Cancelled => say("cancelled; nothing of the command is left"),
        _ => {}
    }
    code
}
