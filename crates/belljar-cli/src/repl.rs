//! `belljar repl`.

mod block;
mod commands;
mod input;

use std::process::{self, ExitCode};

use belljar::{EngineKind, Outcome, Policy, Sandbox, Session, Status};

use self::commands::Command;
use self::input::{Input, Typed};
use crate::arguments::ReplArguments;
use crate::dataset::stage;
use crate::interrupts::Interrupts;
use crate::progress::Audience;
use crate::run::{keep, leaves_something};
use crate::sessions::{Plan, Use};
use crate::{console, failure, limits, printer, verdict};

/// Somebody who types, and the session that answers.
struct Repl {
    sandbox: Sandbox,
    session: Session,
    /// Those that `%fork` left, the last one at the end.
    parents: Vec<Parent>,
    /// The session is in the registry.
    kept: bool,
    policy: Policy,
    /// What was run in a session that nobody else remembers.
    cells: Vec<Ran>,
}

struct Parent {
    session: Session,
    /// How many cells were run before it was left.
    cells: usize,
}

struct Ran {
    number: u32,
    status: Status,
    code: String,
}

pub(crate) fn run(arguments: ReplArguments) -> anyhow::Result<ExitCode> {
    let ReplArguments { limits, environment, session, runtime } = arguments;
    let Plan { builder, policy, named } =
        session.plan(&limits, environment, runtime, Audience::Person, Use::Often)?;
    let sandbox = builder.argv(vec![String::new()]).build_blocking()?;
    let (session, policy) = match &named {
        Some(named) => named.open(&sandbox, &limits, &policy)?,
        None => (sandbox.session_blocking()?, policy),
    };
    if !limits.datasets().is_empty() {
        stage(&session, &sandbox.datasets()?, limits.datasets(), Audience::Person)?;
    }
    let mut input = Input::open()?;
    let interrupts = Interrupts::listen()?;
    let kept = named.is_some();
    let mut repl = Repl { sandbox, session, parents: Vec::new(), kept, policy, cells: Vec::new() };
    if input.is_terminal() {
        repl.greet();
    }
    loop {
        match input.next()? {
            Typed::Cell(code) => {
                let outcome = repl.run_cell(&interrupts, code)?;
                if outcome.status == Status::Exited {
                    repl.leave(outcome.exit_status());
                }
            }
            Typed::Command(line) => repl.obey(&line),
            Typed::Shell(line) => repl.run_command(&interrupts, &line),
            Typed::End => repl.leave(0),
        }
    }
}

impl Repl {
    fn greet(&self) {
        let (version, limits) = (env!("CARGO_PKG_VERSION"), limits::describe(&self.policy));
        let python = match self.sandbox.engine() {
            EngineKind::Wasm => "Python 3.14 under glass",
            EngineKind::Native => "this machine's Python under glass",
        };
        console::print_line(&format!("Belljar {version}: {python} ({limits}). %help helps."));
        if self.kept {
            console::print_line(&format!(
                "The session {} is kept; %history shows its past.",
                self.session.id()
            ));
        }
    }

    fn run_cell(&mut self, interrupts: &Interrupts, code: Vec<u8>) -> anyhow::Result<Outcome> {
        let source = (!self.kept).then(|| String::from_utf8_lossy(&code).into_owned());
        let running = interrupts.reach(self.session.interrupter());
        let outcome = self.session.run_observed_blocking(code, printer::hear)?;
        drop(running);
        printer::finish(outcome.stdout_cut.as_ref(), outcome.stderr_cut.as_ref());
        if let Some(value) = &outcome.value {
            console::print_line(&value.text);
        }
        verdict::tell(&outcome);
        match source {
            Some(code) => {
                self.cells.push(Ran { number: outcome.session.cell, status: outcome.status, code });
            }
            None if outcome.status != Status::Exited => self.commit(),
            None => {}
        }
        Ok(outcome)
    }

    /// Runs a shell command beside the interpreter.
    fn run_command(&mut self, interrupts: &Interrupts, line: &str) {
        let running = interrupts.reach(self.session.interrupter());
        let ran = self.session.command_observed_blocking(line, printer::hear);
        drop(running);
        match ran {
            Ok(outcome) => {
                printer::finish(outcome.stdout_cut.as_ref(), outcome.stderr_cut.as_ref());
                verdict::tell_command(&outcome);
                self.commit();
            }
            // The next line may be better.
            Err(error) => drop(failure::tell(&error.into())),
        }
    }

    fn obey(&mut self, line: &str) {
        let done = Command::parse(line).and_then(|command| command.run(self));
        match done {
            Ok(answer) => console::print_line(answer.trim_end()),
            // The next line may be better.
            Err(error) => drop(failure::tell(&error)),
        }
    }

    /// Puts the session on disk, so that whatever ends this process takes no more than the running cell.
    fn commit(&self) {
        if self.kept
            && let Err(error) = self.session.commit_blocking()
        {
            let what = "the session is not on disk as it is now";
            failure::tell(&anyhow::Error::from(error).context(what));
        }
    }

    /// Taking the sandbox apart would only cost time.
    fn leave(self, status: u8) -> ! {
        if self.kept {
            keep(&self.session);
        } else if leaves_something(&self.policy) {
            drop((self.session, self.parents));
        }
        process::exit(status.into())
    }
}
