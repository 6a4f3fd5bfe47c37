//! The command line as typed.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::artifact::ArtifactCommands;
use crate::bench::BenchArguments;
use crate::dataset::DatasetCommands;
use crate::environment::EnvironmentCommands;
use crate::environments::EnvironmentArguments;
use crate::files::FilesCommands;
use crate::limits::LimitArguments;
use crate::runtimes::RuntimeArguments;
use crate::session::SessionCommands;
use crate::sessions::SessionArguments;
use crate::workspace::WorkspaceCommands;

/// What runs the guest, for `--version`. A test compares it with the guest and the lock file.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (CPython 3.14 on wasmtime 48)");

/// Run untrusted Python under glass
#[derive(Parser, Debug)]
#[command(name = "belljar", version = VERSION, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a program, like `python`, but behind the glass
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Talk to a session: variables stay, whatever a cell does
    #[command(after_help = REPL_NOTES)]
    Repl(ReplArguments),
    /// Run a shell command in a session of the native engine, with its files
    #[command(after_help = EXEC_NOTES)]
    Exec(Box<ExecArguments>),
    /// Keep sessions: list, rewind, fork, move and remove them
    #[command(after_help = SESSION_EXAMPLES)]
    Session(SessionCommands),
    /// Look at a session's files and change them: list, read, write, find, search
    #[command(after_help = FILES_NOTES)]
    Files(FilesCommands),
    /// Move whole workspaces: archives, directories, S3; sizes and old copies
    #[command(after_help = WORKSPACE_NOTES)]
    Workspace(WorkspaceCommands),
    /// What came out of cells: list, read, link to, keep, make again
    #[command(after_help = ARTIFACT_NOTES)]
    Artifact(ArtifactCommands),
    /// What goes into cells: named inputs, fetched once and checked
    #[command(after_help = DATASET_NOTES)]
    Dataset(DatasetCommands),
    /// Make environments: packages that sessions share, and what is imported before they start
    #[command(after_help = ENVIRONMENT_NOTES)]
    Env(EnvironmentCommands),
    /// Check what works on this machine, and say what to do about the rest
    #[command(after_help = "Exit status: 0 if `belljar run` works here, 1 if it doesn't.")]
    Doctor(DoctorArguments),
    /// Make, find or remove the interpreter
    Runtime(RuntimeCommands),
    /// Measure what SPECIFICATION.md promises
    Bench(BenchArguments),
    /// Print the JSON schema of what `run --json` prints
    Schema {
        /// The schema of what `exec --json` prints instead
        #[arg(long)]
        exec: bool,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: belljar completions bash > ~/.local/share/bash-completion/completions/belljar"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// The program: a file, or `-` for standard input, which is also read where nothing is named
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,

    /// What the program finds in `sys.argv[1:]`; write `--` before those that begin with a hyphen
    #[arg(value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,

    /// Run this code instead of a file
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) code: Option<String>,

    /// Print one Outcome object on standard output, and nothing else (see `belljar schema`)
    #[arg(long)]
    pub(crate) json: bool,

    /// What an agent's framework calls the tool call that this is; artifacts remember it
    #[arg(long, value_name = "ID")]
    pub(crate) tool_call: Option<String>,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) environment: EnvironmentArguments,

    #[command(flatten)]
    pub(crate) session: SessionArguments,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ReplArguments {
    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) environment: EnvironmentArguments,

    #[command(flatten)]
    pub(crate) session: SessionArguments,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ExecArguments {
    /// A program and its arguments; or one text, which is a line for the shell
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,

    /// Where it runs: a path behind the glass [default: /workspace]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,

    /// Read standard input to its end, and give it to the command
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,

    /// Print one CommandOutcome object on standard output, and nothing else (see `belljar schema --exec`)
    #[arg(long)]
    pub(crate) json: bool,

    // They can't do here what their names promise, and say so.
    #[arg(long, hide = true)]
    pub(crate) background: bool,
    #[arg(long, hide = true)]
    pub(crate) ps: bool,
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) logs: Option<String>,
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) kill: Option<String>,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) environment: EnvironmentArguments,

    #[command(flatten)]
    pub(crate) session: SessionArguments,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct RuntimeCommands {
    #[command(subcommand)]
    pub(crate) command: RuntimeCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RuntimeCommand {
    /// Make the interpreter and compile it, if that hasn't been done: about a minute
    Build {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        runtime: RuntimeArguments,
    },
    /// Print the interpreter's directory; exit with 1 if it hasn't been made
    Path {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        runtime: RuntimeArguments,
    },
    /// Remove the interpreters of all versions, and their compiled code
    Clean {
        /// Remove the fetched wheels too
        #[arg(long)]
        all: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        runtime: RuntimeArguments,
    },
}

const EXAMPLES: &str = "\
Examples:
  belljar run -c 'print(6 * 7)'
  belljar run script.py --timeout 5 --mount ./data:/data
  belljar run --session work -c 'x = 41'
  belljar run --session work -c 'print(x + 1)'
  belljar run --package tabulate -c 'import tabulate; print(tabulate.tabulate([[1, 2]]))'
  belljar exec 'python3 --version; ls /workspace'
  belljar files ls --session work
  belljar artifact ls
  belljar repl
  belljar doctor";

const RUN_EXAMPLES: &str = "\
The program sees no file of the host and no network. Its working directory is /workspace, in memory or with --storage disk in a directory of the host.

With --session variables and files stay for the next process that names the session: they are on disk \
before this one exits. Limits make the policy of a new session; of one that is there they hold for this \
run only. A run that is killed, or whose output nobody reads any more, leaves the session as it was, but for files on disk.

Packages are fetched once, shared by all sessions and on `sys.path`. A belljar.toml in the working directory \
sets what the command line doesn't; --package, --lock and --environment replace the file's [environment]. A \
session keeps the packages that it was made with.

Exit status:
  0    it ran to its end          124  it ran out of time or steps
  1    a Python exception         130  interrupted
  2    wrong usage                137  out of memory, or killed
  n    sys.exit(n)                125  Belljar itself failed

Examples:
  belljar run script.py input.csv -- --verbose
  belljar run -c 'import sys; print(sys.version)'
  belljar run --timeout 2 --memory 128MiB --json script.py
  belljar run --mount ./data:/data --mount ./out:/out:rw script.py
  belljar run --session work -c 'x = 41' && belljar run --session work -c 'print(x + 1)'
  belljar run --package 'jinja2>=3' --package ./helpers-1.0-py3-none-any.whl --preload jinja2 script.py
  generate-code | belljar run -";

const EXEC_NOTES: &str = "\
The command runs beside the interpreter, behind the same glass: it sees the session's files and packages, no file of \
the host and no network. Without --session it has a session of its own, which ends with it. The engine is `native`, \
unless the session has another, which can't run commands.

One word is a line for the shell (`bash -lc`); several are a program and its arguments, which no shell looks into.

Whatever a command leaves running ends with this process. Commands in the background live in `belljar repl`: \
%start, %ps, %logs and %kill.

Exit status: the command's own; 124 after a timeout, 130 interrupted, 137 out of memory, 125 if Belljar itself failed.

Examples:
  belljar exec -- python3 -m unittest
  belljar exec --session work 'ls -l | wc -l'
  belljar exec --session work --cwd src --timeout 60 -- pytest -q
  echo data | belljar exec -i -- wc -c";

const REPL_NOTES: &str = "\
Ctrl-C clears the line at the prompt, and interrupts a running cell; the session stays.
Ctrl-D or exit() leaves. %help lists what else there is. With --engine native `!COMMAND` runs a shell command.
Each cell has the limits above. What is piped in is run without prompts.
With --session each cell is on disk before the next one is read; leaving puts the session to sleep.

Examples:
  belljar repl --memory 512MiB
  belljar repl --session work
  echo '%history' | belljar repl --session work";

const ENVIRONMENT_NOTES: &str = "\
Packages are pure Python, or native code that was built for WASI; with `--engine native` what is built for this \
machine. No code of a package is run outside of the \
sandbox: only wheels are fetched. Index and credentials are uv's own settings.

belljar.toml, in the working directory:
  [environment]
  packages = [\"jinja2>=3\", \"./wheels/helpers-1.0-py3-none-any.whl\"]
  preload = [\"jinja2\"]
  lock = \"pylock.toml\"

  [policy]
  timeout = \"5s\"
  memory = \"512MiB\"

  [mounts]
  \"/data/input\" = \"./input\"

Examples:
  belljar env create web --package 'jinja2>=3' --preload jinja2
  belljar run --environment web -c 'import jinja2; print(jinja2.__version__)'
  belljar env ls
  belljar env lock
  belljar env prune --older-than 7d";

const ARTIFACT_NOTES: &str = "\
What a cell leaves under artifacts/ is kept by its hash, however often it occurs once, and removed from the workspace. What \
is known of it is in a database, with the code that made it. Both are in the state directory, or where --artifact-db and \
--artifact-blobs say, or BELLJAR_ARTIFACT_DB and BELLJAR_ARTIFACT_BLOBS, or [artifacts] of belljar.toml: `database` and \
`blobs`. Credentials of a bucket are in AWS_ACCESS_KEY_ID and the like.

Examples:
  belljar run -c 'open(\"artifacts/report.csv\", \"w\").write(\"a,b\\n1,2\\n\")'
  belljar artifact ls
  belljar artifact get art_… -o report.csv
  belljar artifact show art_… --provenance
  belljar artifact verify art_…";

const DATASET_NOTES: &str = "\
A dataset is fetched once, checked, and shared read-only by all sessions that have it: at data/NAME.parquet, or whatever it \
is. Sessions have datasets if they are made with --dataset-access api or hybrid; --dataset NAME stages one before a run. Code \
finds those it may have by datasets.list(), and has them by datasets.path(\"NAME\").

Examples:
  belljar dataset add sales https://data.example.com/sales.parquet --sha256 …
  belljar run --dataset sales -c 'print(len(open(\"data/sales.parquet\", \"rb\").read()))'
  belljar dataset ls";

const FILES_NOTES: &str = "\
Paths are relative to the workspace, or begin with where the session sees it: /workspace/a, /session/a. Links are never \
followed out of it. Files on disk are used as they are, also while a cell runs; a session that has them in memory is \
woken for it.

Examples:
  belljar files put --session work input.csv data/
  belljar files ls --session work -l
  belljar files grep --session work TODO
  belljar files get --session work artifacts/plot.png";

const WORKSPACE_NOTES: &str = "\
A session made with --storage disk has its files in ROOT/threads/NAME; ROOT is --workspace-root, BELLJAR_WORKSPACE_ROOT or \
`workspaces/local` in the state directory. ROOT/skills/system is seen by all sessions at .skills/system, ROOT/skills/USER by \
those made with --user USER at .skills/user, both read-only.

Examples:
  belljar session create work --storage disk --quota 2GiB
  belljar workspace du
  belljar workspace export work.tar.zst --session work
  belljar workspace sync s3://bucket/threads/work --session work";

const SESSION_EXAMPLES: &str = "\
A session is variables, files, open files: everything. It sleeps on disk between two uses.

Examples:
  belljar run --session work -c 'x = 41'
  belljar session ls
  belljar session checkpoint work before
  belljar session fork work attempt
  belljar session rollback work before
  belljar session history work --notebook work.ipynb";
