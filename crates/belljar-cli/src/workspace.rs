//! `belljar workspace`.

mod arguments;

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use belljar::{
    Error, ExportOptions, Globs, ImportOptions, Migration, Place, Policy, Registry, S3Credentials, S3Place,
    SessionId, SkippedList, SyncOptions, Synced, TransferProgress, Workspaces,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};

pub(crate) use self::arguments::WorkspaceCommands;
use self::arguments::{
    ExportArguments, ImportArguments, MigrateArguments, RootArguments, SyncArguments, WorkspaceCommand,
};
use crate::answer::Answer;
use crate::console;
use crate::failure::Usage;
use crate::files::workspaces;
use crate::progress::{self, Audience};
use crate::session::printable;
use crate::size::Size;
use crate::table::{Align, table};

pub(crate) fn run(arguments: WorkspaceCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        WorkspaceCommand::Ls(root) => list(&root),
        WorkspaceCommand::Path { name, root } => path(&name, &root),
        WorkspaceCommand::Du { names, root } => usage(&names, &root),
        WorkspaceCommand::Rm { names, root } => remove(&names, &root),
        WorkspaceCommand::Export(arguments) => export(*arguments),
        WorkspaceCommand::Import(arguments) => import(*arguments),
        WorkspaceCommand::Sync(arguments) => sync(*arguments),
        WorkspaceCommand::Migrate(arguments) => migrate(*arguments),
    }
}

impl RootArguments {
    fn open(&self) -> anyhow::Result<(Answer, Registry, Workspaces)> {
        let registry = self.state.keeping()?.registry()?;
        let workspaces = workspaces(self.workspace_root.as_ref(), &registry);
        Ok((Answer { json: self.json }, registry, workspaces))
    }
}

/// The thread of this name, which must have a directory: where its session says, or in the root.
fn thread(name: &str, registry: &Registry, root: &Workspaces) -> Result<(SessionId, Workspaces), Error> {
    let id = SessionId::parse(name)?;
    let own = registry.files(name).ok().flatten().and_then(|files| files.directory().cloned());
    let own = own.and_then(|directory| {
        let above = directory.parent()?;
        match above.ends_with("threads") {
            true => Some(Workspaces::open(above.parent()?)),
            false => Some(Workspaces::open(above).flat(true)),
        }
    });
    let workspaces = own.unwrap_or_else(|| root.clone());
    match workspaces.thread(&id).is_dir() {
        true => Ok((id, workspaces)),
        false => Err(Error::NoThread { thread: name.to_owned(), root: root.root().to_owned() }),
    }
}

fn list(root: &RootArguments) -> anyhow::Result<ExitCode> {
    let (answer, _, workspaces) = root.open()?;
    let threads = workspaces.threads()?;
    if threads.is_empty() && !answer.json {
        console::note(format_args!("there are no threads in {}", workspaces.root().display()));
        return Ok(ExitCode::SUCCESS);
    }
    let words = || threads.iter().map(|thread| format!("{thread}\n")).collect();
    answer.give(|| json!({ "root": workspaces.root(), "threads": threads }), words)
}

fn path(name: &str, root: &RootArguments) -> anyhow::Result<ExitCode> {
    let (answer, registry, workspaces) = root.open()?;
    let (id, workspaces) = thread(name, &registry, &workspaces)?;
    let path = workspaces.thread(&id);
    answer.give(|| json!({ "path": path }), || path.display().to_string())
}

fn usage(names: &[String], root: &RootArguments) -> anyhow::Result<ExitCode> {
    let (answer, registry, workspaces) = root.open()?;
    let all;
    let names = match names {
        [] => {
            all = workspaces.threads()?.iter().map(SessionId::to_string).collect::<Vec<_>>();
            &all
        }
        names => names,
    };
    let mut found = Vec::new();
    let mut failed = false;
    for name in names {
        let (id, workspaces) = thread(name, &registry, &workspaces)?;
        match workspaces.files(&id, &Policy::default()).and_then(|files| files.usage_blocking("")) {
            Ok(usage) => found.push((name, usage)),
            Err(error) => {
                failed = true;
                console::note(format_args!("{name}: {error}"));
            }
        }
    }
    let row = |(name, usage): &(&String, belljar::DiskUsage)| {
        let more = if usage.complete { "" } else { " and more" };
        vec![(*name).clone(), format!("{}{more}", Size(usage.bytes)), usage.files.to_string()]
    };
    let columns = [("THREAD", Align::Left), ("SIZE", Align::Right), ("FILES", Align::Right)];
    let words = || table(&columns, &found.iter().map(row).collect::<Vec<_>>());
    let document = |(name, usage): &(&String, belljar::DiskUsage)| json!({ "thread": name, "bytes": usage.bytes, "files": usage.files, "complete": usage.complete });
    answer.give(|| json!({ "threads": found.iter().map(document).collect::<Vec<_>>() }), words)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn remove(names: &[String], root: &RootArguments) -> anyhow::Result<ExitCode> {
    let (answer, registry, workspaces) = root.open()?;
    let mut threads = Vec::new();
    for name in names {
        if registry.files(name).is_ok_and(|files| files.is_some()) {
            return Err(Usage {
                message: format!("{name} is a session"),
                hint: "close it first: `belljar session close NAME`",
            }
            .into());
        }
        threads.push(thread(name, &registry, &workspaces)?);
    }
    for (id, workspaces) in threads {
        workspaces.remove(&id)?;
    }
    answer.give(|| json!({ "removed": names }), || format!("{} removed", names.join(", ")))
}

fn export(arguments: ExportArguments) -> anyhow::Result<ExitCode> {
    let ExportArguments { file, exclude, target } = arguments;
    let options = ExportOptions {
        globs: Globs::all().exclude(&exclude).map_err(Error::from)?,
        ..ExportOptions::default()
    };
    let target = target.open()?;
    let shown = Shown::new(target.answer);
    let exported = match file.as_os_str() == "-" {
        true if target.answer.json => Err(both_at_once())?,
        true => target.files.export_to_blocking(io::stdout().lock(), &options, &shown)?,
        false => target.files.export_blocking(&file, &options, &shown)?,
    };
    drop(shown);
    tell_skipped("not in the archive", &exported.skipped);
    tell_skipped("changed while it was read", &exported.changed);
    let answer = target.answer;
    target.close()?;
    if file.as_os_str() == "-" {
        return Ok(ExitCode::SUCCESS);
    }
    let words = || format!("{} files, {} in {}", exported.files, Size(exported.bytes), file.display());
    let document = || json!({ "file": file, "files": exported.files, "bytes": exported.bytes, "skipped": exported.skipped.total() });
    answer.give(document, words)
}

fn both_at_once() -> Usage {
    Usage {
        message: "the archive and the JSON cannot both go to standard output".to_owned(),
        hint: "name a file, or leave out --json",
    }
}

fn import(arguments: ImportArguments) -> anyhow::Result<ExitCode> {
    let ImportArguments { file, keep_existing, target } = arguments;
    let options = ImportOptions { keep_existing, ..ImportOptions::default() };
    let target = target.open()?;
    let shown = Shown::new(target.answer);
    let imported = match file.as_os_str() == "-" {
        true => target.files.import_blocking(io::stdin().lock(), &options, &shown)?,
        false => {
            let archive = File::open(&file).with_context(|| file.display().to_string())?;
            target.files.import_blocking(archive, &options, &shown)?
        }
    };
    drop(shown);
    tell_skipped("not taken", &imported.skipped);
    let answer = target.answer;
    target.close()?;
    let words =
        || format!("{} files, {} taken from {}", imported.files, Size(imported.bytes), file.display());
    let document =
        || json!({ "files": imported.files, "bytes": imported.bytes, "skipped": imported.skipped.total() });
    answer.give(document, words)
}

fn sync(arguments: SyncArguments) -> anyhow::Result<ExitCode> {
    let SyncArguments { place, pull, delete, dry_run, include, exclude, target } = arguments;
    let globs = if exclude.is_empty() { Globs::usual() } else { Globs::all() };
    let globs = globs.include(&include).and_then(|globs| globs.exclude(&exclude)).map_err(Error::from)?;
    let options = SyncOptions { globs, delete, dry_run, ..SyncOptions::default() };
    if place.contains("://") && !place.starts_with("s3://") {
        return Err(Usage {
            message: format!("{place:?} is neither a directory nor s3://BUCKET/PREFIX"),
            hint: "services that speak S3 are named by AWS_ENDPOINT_URL",
        }
        .into());
    }
    let other = match place.starts_with("s3://") {
        true => Place::S3(bucket(&place)?),
        false => Place::Directory(PathBuf::from(&place)),
    };
    let target = target.open()?;
    let shown = Shown::new(target.answer);
    let synced = match pull {
        true => target.files.pull_blocking(&other, &options, &shown)?,
        false => target.files.push_blocking(&other, &options, &shown)?,
    };
    drop(shown);
    tell_skipped("not copied", &synced.skipped);
    let answer = target.answer;
    target.close()?;
    answer.give(|| synced_document(&synced, dry_run), || synced_words(&synced, dry_run))
}

fn synced_words(synced: &Synced, dry_run: bool) -> String {
    let mut text = String::new();
    if dry_run {
        for action in &synced.actions {
            text +=
                &format!("{:<8}  {}\n", format!("{:?}", action.step).to_lowercase(), printable(&action.path));
        }
    }
    let would = if dry_run { "would be " } else { "" };
    text + &format!(
        "{} files, {} {would}copied; {} {would}removed; {} unchanged",
        synced.files,
        Size(synced.bytes),
        synced.removed,
        synced.unchanged
    )
}

fn synced_document(synced: &Synced, dry_run: bool) -> Value {
    let action = |action: &belljar::Action| json!({ "step": format!("{:?}", action.step).to_lowercase(), "path": action.path });
    json!({
        "dry_run": dry_run,
        "files": synced.files,
        "bytes": synced.bytes,
        "removed": synced.removed,
        "unchanged": synced.unchanged,
        "skipped": synced.skipped.total(),
        "actions": synced.actions.iter().map(action).collect::<Vec<_>>(),
    })
}

/// What the address says, and the environment as other programs read it.
fn bucket(address: &str) -> anyhow::Result<S3Place> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let mut place = S3Place::parse(address).map_err(Error::from)?;
    place.endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
    place.region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    if let (Some(key_id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        place.credentials = Some(S3Credentials { key_id, secret, token: variable("AWS_SESSION_TOKEN") });
    }
    Ok(place)
}

fn migrate(arguments: MigrateArguments) -> anyhow::Result<ExitCode> {
    let MigrateArguments { dry_run, directory, root, environment, runtime } = arguments;
    let (answer, _, workspaces) = root.open()?;
    let setting = environment.setting(runtime)?;
    let made = setting.environment(|| root.state.keeping())?;
    let made = made.make(&setting.runtimes, progress::for_audience(answer.audience()).as_ref())?;
    let Some(site) = made.directory else {
        return Err(Usage {
            message: "the environment has no packages to compare with".to_owned(),
            hint: "name those that the threads had: --package tabulate, or --environment NAME",
        }
        .into());
    };
    let threads = directory.unwrap_or_else(|| workspaces.root().join("threads"));
    let shown = Shown::new(answer);
    let migrated = Workspaces::migrate_blocking(&threads, &site, dry_run, &shown)?;
    drop(shown);
    let would = if dry_run { "would be removed" } else { "removed" };
    let mut text = String::new();
    let (mut freed, mut documents) = (0, Vec::new());
    for thread in &migrated {
        let name = printable(&thread.thread);
        let (line, document) = match &thread.migration {
            Migration::Removed { files, bytes } => {
                freed += bytes;
                let line = format!("{would}: {files} files, {}", Size(*bytes));
                (line, json!({ "thread": thread.thread, "removed": true, "files": files, "bytes": bytes }))
            }
            Migration::Different { path, reason } => {
                let line = format!("stays: {} {reason}", printable(path));
                (line, json!({ "thread": thread.thread, "removed": false, "path": path, "reason": reason }))
            }
            Migration::Failed { reason } => (
                format!("failed: {reason}"),
                json!({ "thread": thread.thread, "removed": false, "reason": reason }),
            ),
            _ => continue,
        };
        text += &format!("{name}  {line}\n");
        documents.push(document);
    }
    text += &format!("{} {would} in all", Size(freed));
    answer.give(|| json!({ "dry_run": dry_run, "bytes": freed, "threads": documents }), || text)
}

fn tell_skipped(what: &str, skipped: &SkippedList) {
    const SHOWN: usize = 10;
    for one in skipped.iter().take(SHOWN) {
        console::note(format_args!("{what}: {} ({})", printable(&one.path), printable(&one.reason)));
    }
    let more = skipped.total().saturating_sub(SHOWN as u64);
    if more > 0 {
        console::note(format_args!("{what}: {more} more"));
    }
}

/// A line that says how far it is, on a terminal.
struct Shown(Option<ProgressBar>);

impl Shown {
    fn new(answer: Answer) -> Self {
        let visible = answer.audience() == Audience::Person && io::stderr().is_terminal();
        Self(visible.then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        }))
    }
}

impl TransferProgress for Shown {
    fn advance(&self, path: &str, files: u64, bytes: u64) {
        if let Some(bar) = &self.0 {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            bar.set_message(format!("{files} files, {}  {}", Size(bytes), printable(&name)));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
