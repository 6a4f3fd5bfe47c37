//! The command line of `belljar env`, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::environments::PackageArguments;
use crate::moment::parse_duration;
use crate::runtimes::RuntimeArguments;
use crate::sessions::StateArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct EnvironmentCommands {
    #[command(subcommand)]
    pub(super) command: EnvironmentCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum EnvironmentCommand {
    /// Make an environment and give it a name, for `--environment NAME`
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArguments),
    /// List the environments that have a name
    #[command(
        visible_alias = "list",
        after_help = "Example: belljar env ls --json | jq -r '.environments[].name'"
    )]
    Ls {
        #[command(flatten)]
        runtime: RuntimeArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Show what is in an environment: packages, versions, hashes; it is made, if it isn't there
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// The environment; else the one that the options or belljar.toml describe
        #[arg(conflicts_with_all = ["package", "lock", "preload"])]
        name: Option<String>,
        #[command(flatten)]
        packages: PackageArguments,
        #[command(flatten)]
        runtime: RuntimeArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Settle which versions, and write that down with their hashes
    #[command(after_help = LOCK_EXAMPLES)]
    Lock(LockArguments),
    /// Remove what was fetched and made, if no named environment needs it and nobody used it for long
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(PruneArguments),
    /// Forget names; sessions that were made with them go on
    #[command(visible_alias = "remove", after_help = "Example: belljar env rm web && belljar env prune")]
    Rm {
        /// The environments
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
}

/// What most of them take.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) state: StateArguments,
}

#[derive(Args, Debug)]
pub(super) struct CreateArguments {
    /// What to call it: letters, digits, '-', '_' and '.'
    pub(super) name: String,

    /// Run this file once, when it is made: sessions start with its variables and files
    #[arg(long, value_name = "FILE")]
    pub(super) setup: Option<PathBuf>,

    #[command(flatten)]
    pub(super) packages: PackageArguments,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Args, Debug)]
pub(super) struct LockArguments {
    /// The file to write; `-` is standard output [default: the lock of belljar.toml, else pylock.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) packages: PackageArguments,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
pub(super) struct PruneArguments {
    /// Keep what was used since
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_duration)]
    pub(super) older_than: Duration,

    /// Only say what would be removed
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,

    #[command(flatten)]
    pub(super) common: Common,
}

const CREATE_EXAMPLES: &str = "\
An environment of that name is replaced; sessions that were made with it keep what they have.
Without packages on the command line it is the one that belljar.toml describes.

Examples:
  belljar env create web --package 'jinja2>=3' --preload jinja2
  belljar env create report --package ./requirements.txt --setup prepare.py
  belljar run --environment web -c 'import jinja2'";

const SHOW_EXAMPLES: &str = "\
Examples:
  belljar env show web
  belljar env show --package sympy --json";

const LOCK_EXAMPLES: &str = "\
The lock is a pylock.toml (PEP 751). The same lock gives the same environment on every machine. \
[environment] lock = \"pylock.toml\" in belljar.toml, or --lock, use it.

Examples:
  belljar env lock                                   # the packages of belljar.toml
  belljar env lock --upgrade
  belljar env lock --package 'jinja2>=3' -o web.toml";

const PRUNE_EXAMPLES: &str = "\
What sessions need is not in the cache but with them, and stays. What is removed is fetched or made again when \
somebody needs it. A DURATION is 90s, 15m, 12h or 7d.

Examples:
  belljar env prune --dry-run
  belljar env prune --older-than 7d";
