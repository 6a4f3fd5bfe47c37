//! `belljar bench`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: BenchArguments) -> anyhow::Result<ExitCode> {
    bail!("there is no benchmark in this build (json: {})", arguments.json)
}
