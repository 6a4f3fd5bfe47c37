//! The command line of `belljar artifact`, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::environments::{ConfigArguments, EnvironmentArguments};
use crate::limits::{LimitArguments, mime};
use crate::moment::parse_duration;
use crate::runtimes::RuntimeArguments;
use crate::sessions::HomeArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct ArtifactCommands {
    #[command(subcommand)]
    pub(super) command: ArtifactCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum ArtifactCommand {
    /// List artifacts, the newest first
    #[command(visible_alias = "list", after_help = LS_EXAMPLES)]
    Ls(ListArguments),
    /// Show all that is known of an artifact, and where it comes from
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// The artifact
        id: String,
        /// The code that led to it, cell by cell, with the environment and the datasets
        #[arg(long)]
        provenance: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Write an artifact's contents to a file or to standard output
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The artifact, or a signed link to it
        #[arg(value_name = "ID|LINK")]
        id: String,
        /// A file, or a directory for it; `-` is standard output, also where that is a terminal
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Whom the link was made for
        #[arg(long, value_name = "NAME")]
        audience: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Print a signed link to an artifact
    #[command(after_help = URL_EXAMPLES)]
    Url(UrlArguments),
    /// Keep artifacts until they are removed by name, however old they are
    #[command(after_help = "Example: belljar artifact pin art_…")]
    Pin(Several),
    /// Let artifacts go when they are old
    #[command(after_help = "Example: belljar artifact unpin art_…")]
    Unpin(Several),
    /// Remove artifacts; contents that others have too stay
    #[command(visible_alias = "remove", after_help = "Example: belljar artifact rm art_… art_…")]
    Rm(Several),
    /// Remove what is too old and not pinned, and what nothing needs any more
    #[command(after_help = GC_EXAMPLES)]
    Gc {
        /// Artifacts that are older go [default: `max_age` in [artifacts] of belljar.toml; else none]
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        older_than: Option<Duration>,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Print how much is kept
    #[command(after_help = "Example: belljar artifact usage")]
    Usage(Common),
    /// Make an artifact again from what is recorded of it, and compare
    #[command(after_help = VERIFY_NOTES)]
    Verify(Box<VerifyArguments>),
}

/// What most of them take.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) config: ConfigArguments,

    #[command(flatten)]
    pub(super) home: HomeArguments,
}

#[derive(Args, Debug)]
pub(super) struct Several {
    /// The artifacts
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<String>,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Args, Debug)]
pub(super) struct ListArguments {
    /// Those of a session
    #[arg(long, value_name = "NAME")]
    pub(super) session: Option<String>,

    /// Those of a kind: text/csv, or image/* for all images
    #[arg(long, value_name = "PATTERN", value_parser = mime)]
    pub(super) mime: Option<String>,

    /// Those of a name: the path below artifacts/
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Those that are pinned
    #[arg(long)]
    pub(super) pinned: bool,

    /// How many at most
    #[arg(short = 'n', long = "count", value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: u64,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Args, Debug)]
pub(super) struct UrlArguments {
    /// The artifact
    pub(super) id: String,

    /// How long it is good for [default: `link_life` in [artifacts] of belljar.toml; else 1h]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) expires: Option<Duration>,

    /// Who may use it: whoever asks must be this one
    #[arg(long, value_name = "NAME", conflicts_with = "direct")]
    pub(super) audience: Option<String>,

    /// Browsers save it, as they do unless told otherwise
    #[arg(long, conflicts_with = "inline")]
    pub(super) attachment: bool,

    /// Browsers show it
    #[arg(long)]
    pub(super) inline: bool,

    /// Lead to the bucket itself, where the contents are in one
    #[arg(long)]
    pub(super) direct: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Args, Debug)]
pub(super) struct VerifyArguments {
    /// The artifact
    pub(super) id: String,

    /// Run nothing: only read the contents, and see that they are what they were
    #[arg(long)]
    pub(super) contents: bool,

    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) limits: LimitArguments,

    #[command(flatten)]
    pub(super) environment: EnvironmentArguments,

    #[command(flatten)]
    pub(super) home: HomeArguments,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,
}

const LS_EXAMPLES: &str = "\
Examples:
  belljar artifact ls --session work
  belljar artifact ls --mime 'image/*' -n 10
  belljar artifact ls --json | jq -r '.artifacts[].id'";

const SHOW_EXAMPLES: &str = "\
Secrets and values of environment variables are not in what is recorded.

Examples:
  belljar artifact show art_…
  belljar artifact show art_… --provenance";

const GET_EXAMPLES: &str = "\
A file is there whole or not at all, and its hash is compared. A link is checked: one that has expired, was altered or is \
somebody else's is refused, and the exit status is 1.

Examples:
  belljar artifact get art_… -o report.csv
  belljar artifact get art_… -o results/
  belljar artifact get art_… | head
  belljar artifact get \"$(belljar artifact url art_…)\" -o report.csv";

const URL_EXAMPLES: &str = "\
A DURATION is 90s, 15m, 12h or 7d. --artifact-url-base says what the link begins with.

Examples:
  belljar artifact url art_… --expires 15m
  belljar artifact url art_… --audience ada --inline
  belljar artifact url art_… --direct --artifact-db a.db --artifact-blobs s3://bucket/artifacts";

const GC_EXAMPLES: &str = "\
Pinned artifacts stay. Contents that no artifact has go after an hour, so that what is just being kept isn't harmed.
A DURATION is 90s, 15m, 12h or 7d.

Examples:
  belljar artifact gc --dry-run
  belljar artifact gc --older-than 30d";

const VERIFY_NOTES: &str = "\
The cells that led to the artifact are run again, in a session of its own, in the same environment, with the same datasets, \
randomness and beginning of time. Values that were redacted are taken from --env, where they have the same names. Why a \
difference needn't mean that the record is wrong is told as doubt.

Exit status: 0 if it is the same to the last byte, 1 if it is different or isn't made at all.

Examples:
  belljar artifact verify art_…
  belljar artifact verify art_… --env API_KEY=…
  belljar artifact verify art_… --contents";
