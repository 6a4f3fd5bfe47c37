//! `belljar run`.

use std::process::{self, ExitCode};

use belljar::{Error, Session, StorageKind};

use crate::arguments::RunArguments;
use crate::interrupts::Interrupts;
use crate::program::Program;
use crate::progress::Audience;
use crate::sessions::Plan;
use crate::{console, failure, printer, verdict};

pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { file, arguments, code, json, limits, environment, session, runtime } = arguments;
    let program = Program::read(code, file, arguments)?;
    let audience = if json { Audience::Program } else { Audience::Person };
    let Plan { builder, policy, named } = session.plan(&limits, environment, runtime, audience)?;
    let sandbox = builder.argv(program.argv).build_blocking()?;
    let session = match &named {
        Some(named) => named.open(&sandbox, &limits, &policy)?.0,
        None => sandbox.session_blocking()?,
    };
    // Not earlier: until here Ctrl-C simply ends the process.
    let interrupts = Interrupts::listen()?;
    let running = interrupts.reach(session.interrupter());

    let ran = if json {
        session.run_blocking(program.request)
    } else {
        session.run_observed_blocking(program.request, printer::hear)
    };
    drop(running);
    let outcome = match ran {
        Ok(outcome) => outcome,
        Err(error) if named.is_some() => not_kept(&session, error),
        Err(error) => return Err(error.into()),
    };
    if json {
        console::print_line(&serde_json::to_string(&outcome)?);
    } else {
        printer::finish(outcome.stdout_cut.as_ref(), outcome.stderr_cut.as_ref());
        verdict::tell(&outcome);
    }
    if named.is_some() {
        keep(&session);
    }
    if named.is_none() && policy.workspace.storage == StorageKind::Disk {
        // Its directory goes with it.
        drop(session);
    }
    // Taking the sandbox apart would only cost time.
    process::exit(outcome.exit_status().into())
}

/// Puts the session on disk, or ends the process.
pub(crate) fn keep(session: &Session) {
    if let Err(error) = session.hibernate_blocking() {
        not_kept(session, error);
    }
}

/// Ends the process without dropping the session, which would try to keep it again: what is said must stay true.
pub(crate) fn not_kept(session: &Session, error: Error) -> ! {
    let what = format!("what was run is not kept, the session {} is as it was before", session.id());
    process::exit(failure::tell(&anyhow::Error::from(error).context(what)).into())
}
