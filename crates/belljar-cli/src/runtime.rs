//! `belljar runtime`.

use std::process::ExitCode;
use std::time::Instant;

use belljar::{Runtimes, Sandbox};
use serde_json::json;

use crate::arguments::{RuntimeCommand, RuntimeCommands};
use crate::console;
use crate::progress::{self, Audience};
use crate::size::Size;

/// What is made, by its directory in the cache.
const MADE: [&str; 3] = ["runtime", "code", "image"];
/// What is fetched.
const FETCHED: &str = "wheels";

pub(crate) fn run(arguments: RuntimeCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        RuntimeCommand::Build { json, runtime } => build(runtime.runtimes()?, json),
        RuntimeCommand::Path { json, runtime } => path(&runtime.runtimes()?, json),
        RuntimeCommand::Clean { all, json, runtime } => clean(&runtime.runtimes()?, all, json),
    }
}

fn build(runtimes: Runtimes, json: bool) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let audience = if json { Audience::Program } else { Audience::Person };
    let progress = progress::for_audience(audience);
    for kind in runtimes.damaged()? {
        console::note(format_args!("what is cached as {kind} is damaged; it is made anew"));
        runtimes.cache()?.clean(&kind).map_err(belljar::Error::from)?;
    }
    // A sandbox needs all there is: the interpreter, its compiled code and its image.
    Sandbox::builder().runtimes(runtimes.clone()).progress(progress).build_blocking()?;
    if !json {
        let seconds = begun.elapsed().as_secs_f64();
        console::note(format_args!("the interpreter is ready ({seconds:.1} s)"));
    }
    path(&runtimes, json)
}

fn path(runtimes: &Runtimes, json: bool) -> anyhow::Result<ExitCode> {
    let Some(runtime) = runtimes.find()? else {
        console::print_error(
            b"error: the interpreter has not been made\nhint: `belljar runtime build` makes it, as does the first `belljar run`\n",
        );
        return Ok(ExitCode::FAILURE);
    };
    if json {
        let object = json!({ "id": runtime.id, "path": runtime.root, "python": runtime.facts.python });
        console::print_line(&object.to_string());
    } else {
        console::print_line(&runtime.root.display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}

fn clean(runtimes: &Runtimes, all: bool, json: bool) -> anyhow::Result<ExitCode> {
    let cache = runtimes.cache()?;
    let mut freed = serde_json::Map::new();
    let mut total = 0;
    for kind in MADE.into_iter().chain(all.then_some(FETCHED)) {
        let bytes = cache.clean(kind).map_err(belljar::Error::from)?;
        freed.insert(kind.to_owned(), bytes.into());
        total += bytes;
    }
    if json {
        let object = json!({ "cache_dir": cache.root(), "freed_bytes": total, "by_kind": freed });
        console::print_line(&object.to_string());
    } else {
        console::print_line(&format!("freed {} in {}", Size(total), cache.root().display()));
    }
    Ok(ExitCode::SUCCESS)
}
