//! Whether there is an interpreter, or can be one, and whether it runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use belljar::{Runtimes, Sandbox};
use rustix::fs::{Access, access, statvfs};

use super::check::Check;
use crate::progress::{self, Audience};
use crate::size::Size;

/// What the interpreter and its compiled code take, and what making them takes for a while.
const ROOM: u64 = 400 << 20;
const PYTHONS: [&str; 6] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];
const OLDEST_PYTHON: (u32, u32) = (3, 10);
const WHEELS: &str = "wheels";
const CODE: &str = "code";
const TOOLS: &str = "tool";

pub(crate) fn check(runtimes: &Runtimes, json: bool, tell: &mut dyn FnMut(Check)) {
    let (cache, made) = match (runtimes.cache(), runtimes.find()) {
        (Ok(cache), Ok(made)) => (cache, made),
        (Err(error), _) | (_, Err(error)) => return tell(failed("cache", &error)),
    };
    let is_made = made.is_some();
    tell(directory(cache.root(), is_made));
    maker(cache.root(), is_made, runtimes.offline, tell);
    tell(packages(cache.root(), runtimes.offline));
    let Some(runtime) = made else {
        return tell(Check::poor(
            "interpreter",
            "not made yet",
            "`belljar runtime build` makes it, as does the first `belljar run`; it takes about a minute, once",
        ));
    };
    tell(Check::good("interpreter", format!("Python {}, {}", runtime.facts.python, runtime.root.display())));
    let compiled = cache
        .entries()
        .unwrap_or_default()
        .into_iter()
        .find(|entry| entry.kind == CODE && entry.key.starts_with(&runtime.id));
    tell(match compiled {
        Some(entry) => Check::good("compiled code", Size(entry.bytes).to_string()),
        None => Check::poor("compiled code", "not there", "the first run compiles it, in about 15 s"),
    });
    // Before any of it is run.
    match runtimes.damaged() {
        Ok(kinds) if kinds.is_empty() => run_cell(runtimes, json, tell),
        Ok(kinds) => tell(Check::bad(
            "cached files",
            format!("damaged: {}", kinds.join(", ")),
            "`belljar runtime build` makes them anew",
        )),
        Err(error) => tell(failed("cached files", &error)),
    }
}

fn directory(root: &Path, is_made: bool) -> Check {
    let name = "cache";
    let there = root.ancestors().find(|path| path.exists()).unwrap_or(root);
    let shown = root.display();
    if !there.is_dir() {
        return Check::bad(
            name,
            format!("{} is not a directory", there.display()),
            "name another one with --cache-dir",
        );
    }
    let free = statvfs(there).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let free_text = free.map(|free| format!(", {} free", Size(free))).unwrap_or_default();
    let writable = access(there, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let full = free.is_some_and(|free| free < ROOM);
    match (writable && !full, is_made) {
        (true, _) => Check::good(name, format!("{shown}{free_text}")),
        (false, true) => Check::poor(
            name,
            format!("{shown}{free_text}{}", if writable { "" } else { ", not writable" }),
            "what is in it works, but nothing can be added; --cache-dir names another one",
        ),
        (false, false) if !writable => Check::bad(
            name,
            format!("{shown} is not writable"),
            "make it writable, or name another one with --cache-dir",
        ),
        (false, false) => Check::bad(
            name,
            format!("{shown}{free_text}"),
            format!("free {} there, or use --cache-dir", Size(ROOM)),
        ),
    }
}

/// What making the interpreter needs. Where it is made, this is only good to know.
fn maker(root: &Path, is_made: bool, offline: bool, tell: &mut dyn FnMut(Check)) {
    let missing = |name, found: &str, advice: &str| match is_made {
        true => Check::good(name, format!("{found}; not needed, the interpreter is made")),
        false => Check::bad(name, found, advice),
    };
    let Some((python, version)) = find_python() else {
        let advice = "install Python 3.10 or newer; it is only used to make the interpreter, once";
        return tell(missing("host Python", "no Python from 3.10 on is on the path", advice));
    };
    tell(Check::good("host Python", format!("{version}, {}", python.display())));
    let fetched = fs::read_dir(root.join(WHEELS)).map_or(0, |wheels| {
        wheels.flatten().filter(|wheel| wheel.path().extension().is_some_and(|name| name == "whl")).count()
    });
    if fetched >= 2 {
        tell(Check::good("wheels", "fetched"));
    } else if offline {
        tell(missing("wheels", "not fetched, and fetching is switched off", "leave out --offline once"));
    } else {
        let pip = output(Command::new(&python).args(["-m", "pip", "--version"]));
        let tool = match pip.as_deref().and_then(|text| text.split(' ').nth(1)) {
            Some(version) => format!("pip {version}"),
            None => "urllib, since there is no pip".to_owned(),
        };
        tell(Check::good("wheels", format!("to be fetched from the package index with {tool}")));
    }
}

/// What finds and fetches packages. Without it everything runs that needs none.
fn packages(root: &Path, offline: bool) -> Check {
    let name = "packages";
    let path = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&path).map(|directory| directory.join("uv")).find(|uv| uv.is_file());
    let version = there.as_ref().and_then(|uv| output(Command::new(uv).arg("--version")));
    let fetched = fs::read_dir(root.join(TOOLS)).is_ok_and(|tools| tools.flatten().next().is_some());
    match (there, version, fetched, offline) {
        (Some(uv), Some(version), ..) => {
            let version = version.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned();
            Check::good(name, format!("uv {version}, {}", uv.display()))
        }
        (_, _, true, _) => Check::good(name, "uv, fetched"),
        (_, _, false, false) => Check::good(name, "uv, to be fetched when it is first needed"),
        (_, _, false, true) => Check::poor(
            name,
            "no uv, and fetching is switched off",
            "what needs no packages works; for packages leave out --offline once, or install uv",
        ),
    }
}

fn find_python() -> Option<(PathBuf, String)> {
    let path = env::var_os("PATH")?;
    let candidates = env::split_paths(&path).flat_map(|directory| PYTHONS.map(|name| directory.join(name)));
    candidates.filter(|candidate| candidate.is_file()).find_map(|python| {
        let text = output(Command::new(&python).args(["-I", "-S", "--version"]))?;
        let version = text.trim().strip_prefix("Python ")?.to_owned();
        let mut numbers = version.split('.').map_while(|number| number.parse().ok());
        ((numbers.next()?, numbers.next()?) >= OLDEST_PYTHON).then_some((python, version))
    })
}

fn output(command: &mut Command) -> Option<String> {
    let Output { status, stdout, .. } = command.stdin(Stdio::null()).output().ok()?;
    status.success().then(|| String::from_utf8_lossy(&stdout).into_owned())
}

/// The proof: a new session and a cell in it.
fn run_cell(runtimes: &Runtimes, json: bool, tell: &mut dyn FnMut(Check)) {
    let name = "a cell";
    let audience = if json { Audience::Program } else { Audience::Person };
    let begun = Instant::now();
    let builder = Sandbox::builder().runtimes(runtimes.clone()).progress(progress::for_audience(audience));
    let sandbox = match builder.build_blocking() {
        Ok(sandbox) => sandbox,
        Err(error) => return tell(failed(name, &error)),
    };
    let loaded = begun.elapsed();
    let begun = Instant::now();
    let outcome = sandbox.run_blocking("print(6 * 7)");
    let ran = begun.elapsed();
    tell(write_tracking(&sandbox));
    tell(match outcome {
        Err(error) => failed(name, &error),
        Ok(outcome) if outcome.stdout == "42\n" => {
            Check::good(name, format!("ran in {ran:.1?}, after {loaded:.1?} to load the interpreter"))
        }
        Ok(outcome) => Check::bad(
            name,
            format!("6 * 7 ended as {:?}: {}", outcome.status, outcome.reason.unwrap_or(outcome.stdout)),
            "`belljar runtime clean`, then `belljar runtime build`; if it fails again, please report it",
        ),
    });
}

fn write_tracking(sandbox: &Sandbox) -> Check {
    let name = "write tracking";
    if sandbox.tracks_writes() {
        return Check::good(name, "by the kernel (userfaultfd, PAGEMAP_SCAN)");
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    Check::poor(
        name,
        format!("by comparing pages (kernel {})", kernel.trim()),
        "cells that follow others are a little slower; Linux 6.7 with userfaultfd does it better \
         (`sysctl vm.unprivileged_userfaultfd=1`)",
    )
}

fn failed(name: &'static str, error: &belljar::Error) -> Check {
    let advice = error.hint().unwrap_or_else(|| "please report it".to_owned());
    Check::bad(name, error.to_string(), advice)
}
