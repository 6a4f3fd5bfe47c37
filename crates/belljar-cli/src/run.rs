//! `belljar run`.

use std::process::{self, ExitCode};

use belljar::Sandbox;

use crate::arguments::RunArguments;
use crate::interrupts::Interrupts;
use crate::program::Program;
use crate::progress::{self, Audience};
use crate::{console, printer, verdict};

pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { file, arguments, code, json, limits, runtime } = arguments;
    let program = Program::read(code, file, arguments)?;
    let audience = if json { Audience::Program } else { Audience::Person };
    let sandbox = Sandbox::builder()
        .policy(limits.policy())
        .argv(program.argv)
        .runtimes(runtime.runtimes()?)
        .progress(progress::for_audience(audience))
        .build_blocking()?;
    let session = sandbox.session_blocking()?;
    // Not earlier: until here Ctrl-C simply ends the process.
    let interrupts = Interrupts::listen()?;
    let running = interrupts.reach(session.interrupter());

    let outcome = if json {
        session.run_blocking(program.request)?
    } else {
        let outcome = session.run_observed_blocking(program.request, printer::hear)?;
        printer::finish(&outcome);
        outcome
    };
    drop(running);
    if json {
        console::print_line(&serde_json::to_string(&outcome)?);
    } else {
        verdict::tell(&outcome);
    }
    // Taking the sandbox apart would only cost time.
    process::exit(outcome.exit_status().into())
}
