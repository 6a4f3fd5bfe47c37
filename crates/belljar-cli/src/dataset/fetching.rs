//! Getting datasets, and giving them to sessions.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use belljar::{Cached, Datasets, Error, FetchProgress, Sandbox, Session, Staged};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::arguments::{Common, FetchArguments};
use crate::console;
use crate::limits::NamedDataset;
use crate::progress::{self, Audience};
use crate::runtimes::RuntimeArguments;
use crate::session::printable;
use crate::sessions::Keeping;
use crate::size::Size;

impl FetchArguments {
    fn apply(&self, keeping: Keeping) -> Keeping {
        keeping.fetching(|options| options.allow_private |= self.allow_private)
    }
}

pub(super) fn fetch(
    names: &[NamedDataset],
    refresh: bool,
    fetching: &FetchArguments,
    common: &Common,
) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let keeping = fetching.apply(keeping).fetching(|options| options.refresh = refresh);
    let datasets = keeping.datasets();
    let mut fetched = Vec::new();
    for NamedDataset { name, version } in names {
        let bar = FetchBar::new(answer.audience());
        fetched.push((name, datasets.fetch_with(name, version.as_deref(), &bar)?));
    }
    let document = |(name, cached): &(&String, Cached)| {
        let Cached { sha256, size, version, was_cached, .. } = cached;
        json!({ "name": name, "version": version, "sha256": sha256, "bytes": size, "was_cached": was_cached })
    };
    let line = |(name, cached): &(&String, Cached)| {
        let done = if cached.was_cached { "here already" } else { "fetched" };
        let version = printable(&cached.version);
        format!("{name}@{version}: {done}, {}, sha256 {}\n", Size(cached.size), cached.sha256)
    };
    let documents = || json!({ "fetched": fetched.iter().map(document).collect::<Vec<_>>() });
    answer.give(documents, || fetched.iter().map(line).collect())
}

pub(super) fn stage_into(
    names: &[NamedDataset],
    session: &str,
    fetching: &FetchArguments,
    runtime: RuntimeArguments,
    common: &Common,
) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let keeping = fetching.apply(keeping);
    let builder = Sandbox::builder()
        .environment(keeping.environment_of(session)?)
        .runtimes(runtime.runtimes()?)
        .progress(progress::for_audience(answer.audience()));
    let sandbox = keeping.tell(builder).build_blocking()?;
    let opened = sandbox.open_blocking(session)?;
    let staged = stage(&opened, &sandbox.datasets()?, names, answer.audience())?;
    let line = |one: &Staged| {
        format!("{}@{}: data/{}, {}\n", one.name, printable(&one.version), one.file_name, Size(one.size))
    };
    let document = || json!({ "session": session, "staged": staged });
    answer.give(document, || staged.iter().map(line).collect())
}

/// Stages datasets into a session, and shows how far it is.
pub(crate) fn stage(
    session: &Session,
    datasets: &Datasets,
    names: &[NamedDataset],
    audience: Audience,
) -> Result<Vec<Staged>, Error> {
    let mut staged = Vec::new();
    for NamedDataset { name, version } in names {
        let version = version.as_deref();
        let bar = FetchBar::new(audience);
        if bar.bar.is_some() {
            // Ahead of it, so that somebody sees how far it is.
            datasets.fetch_with(name, version, &bar)?;
        }
        drop(bar);
        staged.push(session.stage_blocking(name, version)?);
    }
    Ok(staged)
}

/// How far a fetch is, on a terminal.
struct FetchBar {
    bar: Option<ProgressBar>,
    audience: Audience,
}

impl FetchBar {
    fn new(audience: Audience) -> Self {
        let visible = audience == Audience::Person && io::stderr().is_terminal();
        let bar = visible.then(|| {
            let template = "{spinner} {bar:24} {bytes} of {total_bytes} ({bytes_per_sec}): {msg}";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━━┄");
            let bar = ProgressBar::new(0).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, audience }
    }
}

impl FetchProgress for FetchBar {
    fn advance(&self, name: &str, bytes: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            bar.set_length(total.unwrap_or(bytes));
            bar.set_position(bytes);
            bar.set_message(printable(name));
        }
    }

    fn retry(&self, name: &str, reason: &str, after: Duration) {
        let line = format!("{}: {}; again in {after:.1?}", printable(name), printable(reason));
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.audience == Audience::Person => console::note(format_args!("{line}")),
            None => {}
        }
    }
}

impl Drop for FetchBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
