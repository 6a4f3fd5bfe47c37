//! `belljar bench`: the numbers of `SPECIFICATION.md`, measured here and now.
//!
//! One run measures Belljar, plain Python beside it where it is the baseline, and other sandboxes if
//! `--peers` names the script that runs them. Machines are noisy: look at medians and ratios.

mod measure;
mod peers;
mod report;
mod sample;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::console;
use crate::runtimes::RuntimeArguments;

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Take fewer samples
    #[arg(long)]
    quick: bool,

    /// Also run other sandboxes with this script (benches/peers/peers.py), and print ratios
    #[arg(long, value_name = "SCRIPT")]
    peers: Option<PathBuf>,

    /// Take the other sandboxes' numbers from a file that the script printed
    #[arg(long, value_name = "FILE", conflicts_with = "peers")]
    peers_from: Option<PathBuf>,

    #[command(flatten)]
    runtimes: RuntimeArguments,
}

pub(crate) fn run(arguments: BenchArguments) -> anyhow::Result<ExitCode> {
    let runtimes = arguments.runtimes.runtimes()?;
    let ours = measure::all(&runtimes, arguments.quick)?;
    let peers = match (&arguments.peers, &arguments.peers_from) {
        (Some(script), _) => Some(peers::run(script, arguments.quick)?),
        (None, Some(file)) => Some(peers::read(file)?),
        (None, None) => None,
    };
    let report = report::Report::new(ours, peers);
    if arguments.json {
        console::print_line(&serde_json::to_string_pretty(&report)?);
    } else {
        console::print(report.table().as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}
