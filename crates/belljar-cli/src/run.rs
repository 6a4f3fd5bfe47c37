//! `belljar run`.

use std::process::{self, ExitCode};

use belljar::{ArtifactScope, Error, Policy, Session, StorageKind};

use crate::arguments::RunArguments;
use crate::dataset::stage;
use crate::interrupts::Interrupts;
use crate::program::Program;
use crate::progress::Audience;
use crate::sessions::{Plan, Use};
use crate::{console, failure, printer, verdict};

pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { file, arguments, code, json, tool_call, limits, environment, session, runtime } =
        arguments;
    let mut program = Program::read(code, file, arguments)?;
    program.request.tool_call = tool_call;
    let audience = if json { Audience::Program } else { Audience::Person };
    let Plan { builder, policy, named } = session.plan(&limits, environment, runtime, audience, Use::Once)?;
    let sandbox = builder.argv(program.argv).build_blocking()?;
    let session = match &named {
        Some(named) => named.open(&sandbox, &limits, &policy)?.0,
        None => sandbox.session_blocking()?,
    };
    if !limits.datasets().is_empty() {
        stage(&session, &sandbox.datasets()?, limits.datasets(), audience)?;
    }
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
    if named.is_none() && leaves_something(&policy) {
        drop(session);
    }
    // Taking the sandbox apart would only cost time.
    process::exit(outcome.exit_status().into())
}

/// Whether a session that isn't kept has directories, which go with it.
pub(crate) fn leaves_something(policy: &Policy) -> bool {
    policy.workspace.storage == StorageKind::Disk
        || policy.datasets.access.is_staged()
        || policy.artifacts.read != ArtifactScope::None
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
