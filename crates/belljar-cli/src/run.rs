//! `belljar run`.

use std::process::{self, ExitCode};

use belljar::{Error, Sandbox, Session};

use crate::arguments::RunArguments;
use crate::interrupts::Interrupts;
use crate::program::Program;
use crate::progress::{self, Audience};
use crate::{console, failure, printer, verdict};

pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { file, arguments, code, json, limits, session, runtime } = arguments;
    let program = Program::read(code, file, arguments)?;
    let named = session.named()?;
    let audience = if json { Audience::Program } else { Audience::Person };
    let mut builder = Sandbox::builder()
        .policy(limits.policy())
        .argv(program.argv)
        .runtimes(runtime.runtimes()?)
        .progress(progress::for_audience(audience));
    if let Some(named) = &named {
        builder = named.tell(builder);
    }
    let sandbox = builder.build_blocking()?;
    let session = match &named {
        Some(named) => named.open(&sandbox, &limits)?.0,
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
        printer::finish(&outcome);
        verdict::tell(&outcome);
    }
    if named.is_some() {
        keep(&session);
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
fn not_kept(session: &Session, error: Error) -> ! {
    let what = format!("what was run is not kept, the session {} is as it was before", session.id());
    process::exit(failure::tell(&anyhow::Error::from(error).context(what)).into())
}
