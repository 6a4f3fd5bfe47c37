//! `belljar bench`: the numbers of `SPECIFICATION.md`, measured here and now.
//!
//! One run measures Belljar, plain Python beside it where it is the baseline, and other sandboxes if
//! `--peers` names the script that runs them. Machines are noisy: look at medians and ratios.
//!
//! | module | its noun |
//! |---|---|
//! | `measure` | what one session without a name costs: `basics` |
//! | `sessions` | what keeping, forking and rewinding sessions costs: most names |
//! | `packages` | what packages cost: `packages` |
//! | `workspaces` | what files on disk and in memory cost: `workspaces` |
//! | `artifacts` | what it costs that cells' files are kept, and datasets shared: `artifacts` |
//! | `native` | the native engine beside bubblewrap, Jupyter and plain Python: `native` |
//! | `scene` | what is common to them: sandboxes, a directory that is gone afterwards |
//! | `peers` | other sandboxes |
//! | `sample`, `row`, `report` | many measurements of one thing; one number; all of them |

mod artifacts;
mod measure;
mod native;
mod packages;
mod peers;
mod report;
mod row;
mod sample;
mod scene;
mod sessions;
mod workspaces;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use belljar::EngineKind;
use clap::{Args, ValueEnum};

use self::peers::Peers;
use self::scene::Scene;
use crate::console;
use crate::environments::engine_values;
use crate::failure::Usage;
use crate::runtimes::RuntimeArguments;

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// What to measure; by default everything but `crowd` and `native`, which take minutes
    #[arg(value_name = "NAME")]
    names: Vec<Name>,

    /// The engine to measure; `native` has neither `fallbacks` nor `packages`
    #[arg(long, value_name = "ENGINE", default_value = "wasm", value_parser = engine_values())]
    engine: EngineKind,

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

    /// Keep the sessions of this run in a new directory below this one; by default on the disk of the user's data
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Wake this session, and print how long it took: what a new process does for `checkpoint`
    #[arg(long, hide = true, value_name = "NAME", requires = "scratch")]
    wake: Option<String>,

    #[command(flatten)]
    runtimes: RuntimeArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// New sessions, cells, tools, memory, speed, deadlines
    Basics,
    /// `belljar run --session` as a process
    Process,
    /// Children of a session that holds 64 MB
    Fork,
    /// Checkpoints, sleeping and waking
    Checkpoint,
    /// Keeping 1 MB and going back to it, as the peers do
    Snapshot,
    /// What it costs that cells can be taken back
    Cells,
    /// The same where the kernel helps less
    Fallbacks,
    /// Taking cells back, and going back to checkpoints
    Undo,
    /// Environments with packages: making them, starting from them, sharing them
    Packages,
    /// Threads, files on disk and in memory, what changed, archives
    Workspaces,
    /// Keeping what cells leave, signed links, datasets that are shared
    Artifacts,
    /// 200 sessions awake and 2,000 asleep
    Crowd,
    /// The native engine beside bubblewrap, Jupyter and plain Python, whatever the engine
    Native,
}

/// What is to be measured.
fn names(engine: EngineKind, named: &[Name]) -> Result<Vec<Name>, Usage> {
    let measures =
        |name: &Name| engine == EngineKind::Wasm || !matches!(name, Name::Fallbacks | Name::Packages);
    if named.is_empty() {
        let usual = Name::value_variants()
            .iter()
            .filter(|name| !matches!(name, Name::Crowd | Name::Native) && measures(name));
        return Ok(usual.copied().collect());
    }
    match named.iter().find(|name| !measures(name)) {
        None => Ok(named.to_vec()),
        Some(name) => Err(Usage {
            message: format!("{name:?} is about the wasm engine"),
            hint: "leave out --engine, or measure something else",
        }),
    }
}

pub(crate) fn run(arguments: BenchArguments) -> anyhow::Result<ExitCode> {
    let runtimes = arguments.runtimes.runtimes()?;
    if let (Some(name), Some(directory)) = (&arguments.wake, &arguments.scratch) {
        return sessions::wake_once(runtimes, arguments.engine, directory, name);
    }
    let names = names(arguments.engine, &arguments.names)?;
    let basics = names.contains(&Name::Basics);
    let ours = basics.then(|| measure::all(&runtimes, arguments.engine, arguments.quick)).transpose()?;
    let compared = names.iter().any(|name| *name != Name::Native);
    let peers = match (&arguments.peers, &arguments.peers_from) {
        (Some(_), _) if !compared => Peers::default(),
        (Some(script), _) => Peers::run(script, arguments.quick, &names)?,
        (None, Some(file)) => Peers::read(file)?,
        (None, None) => Peers::default(),
    };
    let scene = Scene::new(runtimes, arguments.engine, arguments.quick, arguments.scratch.as_deref())?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for name in names.into_iter().filter(|name| *name != Name::Basics) {
        let started = Instant::now();
        let measured = match name {
            Name::Packages => packages::measure(&scene, &peers),
            Name::Workspaces => workspaces::measure(&scene),
            Name::Artifacts => artifacts::measure(&scene),
            Name::Native => native::measure(&scene, arguments.peers.as_deref()).map(|(rows, told)| {
                notes.extend(told);
                rows
            }),
            _ => sessions::measure(name, &scene, &peers),
        };
        rows.extend(measured.with_context(|| format!("measuring {name:?}"))?);
        console::note(format_args!("{name:?} took {:.0} s", started.elapsed().as_secs_f64()));
    }
    let state = (!rows.is_empty()).then(|| scene.describe());
    drop(scene);
    let report = report::Report::new(ours, rows, state, peers, notes);
    if arguments.json {
        console::print_line(&serde_json::to_string_pretty(&report)?);
    } else {
        console::print(report.table().as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}
