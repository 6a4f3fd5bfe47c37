//! `belljar exec`.

use std::io::{self, Read};
use std::process::{self, ExitCode};

use anyhow::Context;
use belljar::{CommandRequest, EngineKind};

use crate::arguments::ExecArguments;
use crate::dataset::stage;
use crate::failure::Usage;
use crate::interrupts::Interrupts;
use crate::progress::Audience;
use crate::run::{keep, not_kept};
use crate::sessions::{Plan, Use};
use crate::{console, printer, verdict};

/// More than anybody pipes into a sandbox.
const LONGEST_INPUT: u64 = 256 << 20;

pub(crate) fn run(mut arguments: ExecArguments) -> anyhow::Result<ExitCode> {
    let request = request(&arguments)?;
    let ExecArguments { json, limits, session, runtime, .. } = arguments;
    let audience = if json { Audience::Program } else { Audience::Person };
    arguments.environment.prefer(EngineKind::Native);
    let Plan { builder, policy, named } =
        session.plan(&limits, arguments.environment, runtime, audience, Use::Once)?;
    let sandbox = builder.build_blocking()?;
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
        session.command_blocking(request)
    } else {
        session.command_observed_blocking(request, printer::hear)
    };
    drop(running);
    let outcome = match ran {
        Ok(outcome) => outcome,
        Err(error) if named.is_some() && !error.is_refusal() => not_kept(&session, error),
        Err(error) => return Err(error.into()),
    };
    if json {
        console::print_line(&serde_json::to_string(&outcome)?);
    } else {
        printer::finish(outcome.stdout_cut.as_ref(), outcome.stderr_cut.as_ref());
        verdict::tell_command(&outcome);
    }
    if named.is_some() {
        keep(&session);
    } else {
        // What it left running must not outlive it.
        drop(session);
        drop(sandbox);
    }
    process::exit(outcome.exit_status().into())
}

fn request(arguments: &ExecArguments) -> anyhow::Result<CommandRequest> {
    let ExecArguments { words, cwd, stdin, background, ps, logs, kill, .. } = arguments;
    if *background || *ps || logs.is_some() || kill.is_some() {
        return Err(Usage {
            message: "a command in the background would end with this process".to_owned(),
            hint: "`belljar repl --engine native` has %start, %ps, %logs and %kill; they work until you leave",
        }
        .into());
    }
    let mut request = match &words[..] {
        [] => {
            return Err(Usage {
                message: "there is no command to run".to_owned(),
                hint: "write it behind `--`, e.g. `belljar exec -- ls -l`; `belljar repl --engine native` is for typing",
            }
            .into());
        }
        [line] => CommandRequest::new(line),
        words => CommandRequest::program(words),
    };
    request.directory = cwd.clone();
    request.env.extend(arguments.limits.variables());
    if *stdin {
        io::stdin()
            .take(LONGEST_INPUT)
            .read_to_end(&mut request.stdin)
            .context("cannot read standard input")?;
    }
    Ok(request)
}
