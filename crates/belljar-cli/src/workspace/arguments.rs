//! The command line of `belljar workspace`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::environments::EnvironmentArguments;
use crate::files::TargetArguments;
use crate::runtimes::RuntimeArguments;
use crate::sessions::StateArguments;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct WorkspaceCommands {
    #[command(subcommand)]
    pub(super) command: WorkspaceCommand,
}

#[derive(Subcommand, Debug)]
pub(super) enum WorkspaceCommand {
    /// List the threads that have a directory
    #[command(
        visible_alias = "list",
        after_help = "Example: belljar workspace ls --workspace-root /srv/agents"
    )]
    Ls(RootArguments),
    /// Print where a thread's directory is
    #[command(after_help = "Example: cd \"$(belljar workspace path work)\"")]
    Path {
        /// The thread
        name: String,
        #[command(flatten)]
        root: RootArguments,
    },
    /// Print how much threads have on disk
    #[command(after_help = "Example: belljar workspace du work")]
    Du {
        /// The threads [default: all]
        names: Vec<String>,
        #[command(flatten)]
        root: RootArguments,
    },
    /// Remove the directories of threads that are no sessions any more
    #[command(after_help = "Example: belljar session close work && belljar workspace rm work")]
    Rm {
        /// The threads
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        root: RootArguments,
    },
    /// Write a session's files into an archive
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Box<ExportArguments>),
    /// Add the files of an archive to a session's
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Box<ImportArguments>),
    /// Copy what changed between a session's files and a directory or S3
    #[command(after_help = SYNC_EXAMPLES)]
    Sync(Box<SyncArguments>),
    /// Remove the copies of packages that older systems left in each thread
    #[command(after_help = MIGRATE_NOTES)]
    Migrate(Box<MigrateArguments>),
}

/// Where threads are.
#[derive(Args, Debug)]
pub(super) struct RootArguments {
    /// The directory with threads/ and skills/ [env: BELLJAR_WORKSPACE_ROOT] [default: workspaces/local in
    /// the state directory]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace_root: Option<PathBuf>,

    /// Print one JSON document on standard output, and nothing else
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) state: StateArguments,
}

#[derive(Args, Debug)]
pub(super) struct ExportArguments {
    /// The file to write, a .tar.zst; `-` is standard output
    pub(super) file: PathBuf,

    /// Leave out what is like this; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(super) exclude: Vec<String>,

    #[command(flatten)]
    pub(super) target: TargetArguments,
}

#[derive(Args, Debug)]
pub(super) struct ImportArguments {
    /// The archive: .tar.zst, .tar.gz or .tar; `-` is standard input
    pub(super) file: PathBuf,

    /// Leave files as they are that are there already
    #[arg(long)]
    pub(super) keep_existing: bool,

    #[command(flatten)]
    pub(super) target: TargetArguments,
}

#[derive(Args, Debug)]
pub(super) struct SyncArguments {
    /// The other place: a directory of the host, or s3://BUCKET/PREFIX
    pub(super) place: String,

    /// From that place to the session, instead of from the session to it
    #[arg(long)]
    pub(super) pull: bool,

    /// Remove what isn't at the source any more
    #[arg(long)]
    pub(super) delete: bool,

    /// Only say what would be done
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Only what is like this; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(super) include: Vec<String>,

    /// Leave out what is like this; can be repeated [default: .venv/, node_modules/, __pycache__/]
    #[arg(long, value_name = "PATTERN")]
    pub(super) exclude: Vec<String>,

    #[command(flatten)]
    pub(super) target: TargetArguments,
}

#[derive(Args, Debug)]
pub(super) struct MigrateArguments {
    /// Only say what would go
    #[arg(long)]
    pub(super) dry_run: bool,

    /// The directory with the threads' directories, if it isn't threads/ in the root
    #[arg(long, value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,

    #[command(flatten)]
    pub(super) root: RootArguments,

    #[command(flatten)]
    pub(super) environment: EnvironmentArguments,

    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,
}

const EXPORT_EXAMPLES: &str = "\
It is streamed: little memory is needed, however large the files are. What changes meanwhile is told.

Examples:
  belljar workspace export work.tar.zst --session work
  belljar workspace export - --session work --exclude '.venv/**' | ssh host 'cat > work.tar.zst'";

const IMPORT_EXAMPLES: &str = "\
Nothing in the archive is believed: no path leads out of the workspace, no link, no device.

Examples:
  belljar workspace import work.tar.zst --session other
  belljar workspace import data.tar.gz --session work --keep-existing";

const SYNC_EXAMPLES: &str = "\
Credentials and region come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION; another server \
than Amazon's from AWS_ENDPOINT_URL. A run that is interrupted leaves whole files; the next one goes on.

Examples:
  belljar workspace sync s3://bucket/threads/work --session work
  belljar workspace sync s3://bucket/threads/work --session work --pull --delete
  belljar workspace sync ./copy --session work --dry-run";

const MIGRATE_NOTES: &str = "\
Older systems copied site-packages/ into each thread; Belljar shows packages to all sessions at /data/site-packages. A copy \
is removed if each of its files is the same in the environment that --package or --environment name; others stay, and \
are told.

Examples:
  belljar workspace migrate --dry-run --package tabulate --package openpyxl
  belljar workspace migrate --directory ./workspace --environment reports";
