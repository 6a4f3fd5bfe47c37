//! The `belljar` command: it parses, calls the library, and prints.
//!
//! | module | its noun |
//! |---|---|
//! | `arguments`, `limits`, `environments`, `runtimes`, `sessions`, `places` | the command line as typed, and as the library wants it |
//! | `variables`, `seed` | what the environment and `--env-file` say |
//! | `run`, `program` | `belljar run`, and the code it runs |
//! | `repl` | `belljar repl` |
//! | `exec` | `belljar exec` |
//! | `session` | `belljar session` |
//! | `files` | `belljar files` |
//! | `workspace` | `belljar workspace` |
//! | `artifact` | `belljar artifact` |
//! | `dataset` | `belljar dataset` |
//! | `environment` | `belljar env` |
//! | `doctor` | `belljar doctor` |
//! | `runtime` | `belljar runtime` |
//! | `bench` | `belljar bench` |
//! | `printer`, `verdict` | a cell's output while it runs, and what is said at its end |
//! | `answer` | a document for programs, or a text for people |
//! | `size`, `moment`, `table` | bytes, times and rows, for people |
//! | `progress`, `interrupts`, `console`, `failure` | the terminal: bars, Ctrl-C, output, errors |
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod artifact;
mod bench;
mod console;
mod dataset;
mod doctor;
mod environment;
mod environments;
mod exec;
mod failure;
mod files;
mod interrupts;
mod limits;
mod moment;
mod places;
mod printer;
mod program;
mod progress;
mod repl;
mod run;
mod runtime;
mod runtimes;
mod seed;
mod session;
mod sessions;
mod size;
mod table;
mod variables;
mod verdict;
mod workspace;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Repl(arguments) => repl::run(arguments),
        Command::Exec(arguments) => exec::run(*arguments),
        Command::Session(arguments) => session::run(arguments),
        Command::Files(arguments) => files::run(arguments),
        Command::Workspace(arguments) => workspace::run(arguments),
        Command::Artifact(arguments) => artifact::run(arguments),
        Command::Dataset(arguments) => dataset::run(arguments),
        Command::Env(arguments) => environment::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Runtime(arguments) => runtime::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Schema { exec } => print_schema(exec),
        Command::Completions { shell } => print_completions(shell),
    };
    done.unwrap_or_else(|error| failure::report(&error))
}

fn print_schema(exec: bool) -> anyhow::Result<ExitCode> {
    let schema = if exec { belljar::command_outcome_schema() } else { belljar::outcome_schema() };
    console::print_line(&serde_json::to_string_pretty(&schema)?);
    Ok(ExitCode::SUCCESS)
}

fn print_completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "belljar", &mut script);
    console::print(&script);
    Ok(ExitCode::SUCCESS)
}
