//! The command line of `belljar session`, as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::environments::EnvironmentArguments;
use crate::limits::{LimitArguments, size};
use crate::moment::parse_duration;
use crate::runtimes::RuntimeArguments;
use crate::sessions::HomeArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct SessionCommands {
    #[command(subcommand)]
    pub(super) command: SessionCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum SessionCommand {
    /// Make a session; without a name it gets one, which is printed
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Box<CreateArguments>),
    /// List the sessions
    #[command(visible_alias = "list", after_help = LS_NOTES)]
    Ls(Common),
    /// Show all that is known of a session: sizes, policy, checkpoints
    #[command(after_help = "Example: belljar session show work")]
    Show {
        /// The session
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Print the cells that were run, and what came of them
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        /// The session
        name: String,
        /// Write a Jupyter notebook instead; `-` is standard output
        #[arg(long, value_name = "FILE.ipynb", conflicts_with = "json")]
        notebook: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Keep a session as it is now, to go back to; or list and delete what was kept
    #[command(after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(CheckpointArguments),
    /// Make a session what it was at a checkpoint: variables, files, open files
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback {
        /// The session
        name: String,
        /// A checkpoint, by number or name [default: the latest]
        checkpoint: Option<String>,
        #[command(flatten)]
        waking: Waking,
    },
    /// Take back the last cells that ended well
    #[command(after_help = UNDO_EXAMPLES)]
    Undo {
        /// The session
        name: String,
        /// How many
        #[arg(value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
        cells: u16,
        #[command(flatten)]
        waking: Waking,
    },
    /// Make children of a session, which go their own ways
    #[command(after_help = FORK_EXAMPLES)]
    Fork(ForkArguments),
    /// See to it that a session is on disk, and in no process
    #[command(after_help = HIBERNATE_NOTES)]
    Hibernate {
        /// The session
        name: String,
        #[command(flatten)]
        waking: Waking,
    },
    /// Check that a session wakes; nothing is run in it
    #[command(after_help = "Example: belljar session wake work")]
    Wake {
        /// The session
        name: String,
        #[command(flatten)]
        waking: Waking,
    },
    /// Write a session into one file, with its checkpoints and history
    #[command(after_help = "Example: belljar session export work work.belljar")]
    Export {
        /// The session
        name: String,
        /// The file to write
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Make a session from a file that `export` wrote
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// The file
        file: PathBuf,
        /// What to call it [default: as it was called]
        name: Option<String>,
        #[command(flatten)]
        runtime: RuntimeArguments,
        #[command(flatten)]
        common: Common,
    },
    /// End sessions and forget all that was kept of them: state, checkpoints, history
    #[command(after_help = "Example: belljar session close work attempt-1 attempt-2")]
    Close {
        /// The sessions
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Close sessions that nobody uses, and free the disk of what nothing needs
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(PruneArguments),
    /// Read all that is kept, and say what is damaged
    #[command(after_help = "Exit status: 0 if all is well, 1 if something is damaged.")]
    Verify(Common),
}

/// What all of them take.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) home: HomeArguments,
}

/// What those take that wake a session.
#[derive(Args, Debug)]
pub(super) struct Waking {
    #[command(flatten)]
    pub(super) common: Common,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
pub(super) struct CreateArguments {
    /// What to call it: letters, digits, '-', '_' and '.'
    pub(super) name: Option<String>,

    #[command(flatten)]
    pub(super) waking: Waking,

    #[command(flatten)]
    pub(super) limits: LimitArguments,

    #[command(flatten)]
    pub(super) environment: EnvironmentArguments,
}

#[derive(Args, Debug)]
pub(super) struct CheckpointArguments {
    /// The session
    pub(super) name: String,

    /// What to call the checkpoint; it has a number in any case
    #[arg(conflicts_with_all = ["list", "delete"])]
    pub(super) label: Option<String>,

    /// List the checkpoints
    #[arg(long, conflicts_with = "delete")]
    pub(super) list: bool,

    /// Forget a checkpoint, by number or name
    #[arg(long, value_name = "WHICH")]
    pub(super) delete: Option<String>,

    #[command(flatten)]
    pub(super) waking: Waking,
}

#[derive(Args, Debug)]
pub(super) struct ForkArguments {
    /// The session
    pub(super) name: String,

    /// What to call the child; several get a number behind it [default: made up]
    pub(super) new_name: Option<String>,

    /// Begin at this checkpoint, instead of now
    #[arg(long, value_name = "CHECKPOINT")]
    pub(super) from: Option<String>,

    /// How many children
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) count: u16,

    #[command(flatten)]
    pub(super) waking: Waking,
}

#[derive(Args, Debug)]
pub(super) struct PruneArguments {
    /// Close those that nobody used for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) idle: Option<Duration>,

    /// Then close the least recently used, until all together have no more on disk than this
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) keep: Option<u64>,

    /// Compress what was written longer ago; waking it takes a little longer then
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) cool: Option<Duration>,

    /// Only say what would be closed
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

const CREATE_EXAMPLES: &str = "\
`belljar run --session NAME` makes the session too, if there is none. The limits are the session's policy; what they don't say, and the packages, comes from the belljar.toml in the \
working directory. Both stay the session's own.

Examples:
  belljar session create work --memory 512MiB --rollback on-error
  belljar session create report --package openpyxl --preload openpyxl
  name=$(belljar session create) && belljar run --session $name -c 'x = 1'";

const LS_NOTES: &str = "\
MEMORY is what a session has of its own, DISK what was written for it; children share much of it with \
their parents. What can't be read is named on standard error, and the exit status is 1.

Example: belljar session ls --json | jq -r '.sessions[].id'";

const HISTORY_EXAMPLES: &str = "\
Long outputs are shortened; --json and --notebook have all of it.

Examples:
  belljar session history work
  belljar session history work --notebook work.ipynb";

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  belljar session checkpoint work
  belljar session checkpoint work before-cleanup
  belljar session checkpoint work --list
  belljar session checkpoint work --delete before-cleanup";

const ROLLBACK_EXAMPLES: &str = "\
Checkpoints stay, later ones too. What was written into a writable mount stays as well.

Examples:
  belljar session rollback work
  belljar session rollback work before-cleanup
  belljar session rollback work 3";

const UNDO_EXAMPLES: &str = "\
The session's --undo says how many cells are kept for this; if there aren't so many, nothing changes.

Examples:
  belljar session undo work
  belljar session undo work 3";

const FORK_EXAMPLES: &str = "\
A child has copies of the variables and files, its own randomness, and no checkpoints.

Examples:
  belljar session fork work attempt
  belljar session fork work attempt --count 3     # attempt-1, attempt-2, attempt-3
  belljar session fork work --from before-cleanup";

const HIBERNATE_NOTES: &str = "\
A session that a process has awake is waited for, as long as --wait says.

Example: belljar session hibernate work --wait 5";

const IMPORT_EXAMPLES: &str = "\
Mounts aren't taken over: they are the other machine's.

Examples:
  belljar session import work.belljar
  belljar session import work.belljar work-again";

const PRUNE_EXAMPLES: &str = "\
Sessions that are in use are left alone. Without options only what nothing needs is removed.
A DURATION is 90s, 15m, 12h or 7d.

Examples:
  belljar session prune --idle 30d --dry-run
  belljar session prune --idle 7d --keep 2GiB
  belljar session prune --cool 1d";
