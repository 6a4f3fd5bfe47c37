//! `belljar repl`.

mod block;
mod input;

use std::process::{self, ExitCode};

use belljar::{Outcome, Policy, Sandbox, Session, Status};

use self::input::{Input, Typed};
use crate::arguments::ReplArguments;
use crate::interrupts::Interrupts;
use crate::progress::{self, Audience};
use crate::{console, limits, printer, verdict};

const HELP: &str = "\
Type Python. A block ends with an empty line; the value of the last expression is shown, and is `_`.
Whatever a cell does, the next one finds the variables: as they are, or as they were before the cell.

  %help    this
  %limits  what a cell may use
  %reset   a new session: no variables, no files
  exit()   leave, as Ctrl-D does

Ctrl-C clears the line, or interrupts the running cell.";

pub(crate) fn run(arguments: ReplArguments) -> anyhow::Result<ExitCode> {
    let policy = arguments.limits.policy();
    let sandbox = Sandbox::builder()
        .policy(policy.clone())
        .argv(vec![String::new()])
        .runtimes(arguments.runtime.runtimes()?)
        .progress(progress::for_audience(Audience::Person))
        .build_blocking()?;
    let mut input = Input::open()?;
    let interrupts = Interrupts::listen()?;
    if input.is_terminal() {
        let (version, limits) = (env!("CARGO_PKG_VERSION"), limits::describe(&policy));
        console::print_line(&format!("Belljar {version}: Python 3.14 under glass ({limits}). %help helps."));
    }
    let mut session = sandbox.session_blocking()?;
    loop {
        match input.next()? {
            Typed::Cell(code) => {
                let outcome = run_cell(&session, &interrupts, code)?;
                if outcome.status == Status::Exited {
                    // Taking the sandbox apart would only cost time.
                    process::exit(outcome.exit_status().into());
                }
            }
            Typed::Command(command) => match command.as_str() {
                "reset" => session = sandbox.session_blocking()?,
                _ => console::print_line(&answer(&command, &policy)),
            },
            Typed::End => process::exit(0),
        }
    }
}

fn run_cell(session: &Session, interrupts: &Interrupts, code: Vec<u8>) -> anyhow::Result<Outcome> {
    let running = interrupts.reach(session.interrupter());
    let outcome = session.run_observed_blocking(code, printer::hear)?;
    drop(running);
    printer::finish(&outcome);
    if let Some(value) = &outcome.value {
        console::print_line(&value.text);
    }
    verdict::tell(&outcome);
    Ok(outcome)
}

fn answer(command: &str, policy: &Policy) -> String {
    match command {
        "help" => HELP.to_owned(),
        "limits" => limits::describe(policy),
        _ => format!("there is no %{command}; %help lists what there is"),
    }
}
