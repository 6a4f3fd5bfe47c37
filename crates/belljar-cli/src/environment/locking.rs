//! Writing locks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use belljar::Lock;
use serde_json::json;

use super::arguments::LockArguments;
use crate::answer::Answer;
use crate::failure::Usage;
use crate::{console, progress};

const DEFAULT: &str = "pylock.toml";

pub(super) fn lock(arguments: LockArguments) -> anyhow::Result<ExitCode> {
    let LockArguments { output, json, packages, runtime } = arguments;
    let answer = Answer { json };
    let setting = packages.setting(runtime)?;
    let environment = setting.unlocked_environment()?;
    if environment.packages.is_empty() {
        return Err(Usage {
            message: "there are no packages to lock".to_owned(),
            hint: "name them with --package SPEC, or in [environment] of a belljar.toml in the working directory",
        }
        .into());
    }
    let progress = progress::for_audience(answer.audience());
    let lock = environment.lock(&setting.runtimes, &*progress)?;
    drop(progress);
    let output = output.or_else(|| setting.lock_file().map(Path::to_owned));
    let output = output.unwrap_or_else(|| PathBuf::from(DEFAULT));
    if output == Path::new("-") {
        console::print(lock.text().as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let (before, now) = (versions(read(&output).as_ref()), versions(Some(&lock)));
    // Files below the lock's directory move with it.
    let directory = std::path::absolute(&output).unwrap_or_else(|_| output.clone());
    let text = lock.text_in(directory.parent().unwrap_or(Path::new("/")));
    write(&output, &text).with_context(|| format!("cannot write {}", output.display()))?;
    let changes = changes(&before, &now);
    let document = || json!({ "file": output, "packages": now, "changes": changes });
    answer.give(document, || {
        let mut text: String = changes.iter().map(|change| format!("{change}\n")).collect();
        let count = if now.len() == 1 { "1 package".to_owned() } else { format!("{} packages", now.len()) };
        text += &match changes.len() {
            0 => format!("{}: {count}, as before\n", output.display()),
            _ => format!("{}: {count}\n", output.display()),
        };
        text
    })
}

/// What was locked, if it can be read.
fn read(path: &Path) -> Option<Lock> {
    Lock::parse_in(&fs::read_to_string(path).ok()?, path.parent().unwrap_or(Path::new(""))).ok()
}

/// Whole, or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let draft = path.with_file_name(name);
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn versions(lock: Option<&Lock>) -> BTreeMap<String, String> {
    let packages = lock.into_iter().flat_map(Lock::packages);
    packages.map(|package| (package.name.clone(), package.version.clone())).collect()
}

fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let removed = before.iter().filter(|(name, _)| !now.contains_key(*name));
    let removed = removed.map(|(name, version)| format!("- {name} {version}"));
    let other = now.iter().filter_map(|(name, version)| match before.get(name) {
        None => Some(format!("+ {name} {version}")),
        Some(old) if old != version => Some(format!("~ {name} {old} → {version}")),
        Some(_) => None,
    });
    removed.chain(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let lock = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect()
        };
        let before = lock(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let now = lock(&[("a", "1"), ("b", "2"), ("d", "1")]);
        assert_eq!(changes(&before, &now), ["- c 1", "~ b 1 → 2", "+ d 1"]);
        assert_eq!(changes(&now, &now), [""; 0]);
    }
}
