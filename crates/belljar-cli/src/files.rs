//! `belljar files`.

mod arguments;
mod target;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use belljar::{
    Error, FileEntry, FileErrorCode, FileEvent, FileEventKind, FileKind, Files, FindOptions, GrepOptions,
};
use serde_json::json;

use self::arguments::FilesCommand;
pub(crate) use self::arguments::FilesCommands;
use self::target::Target;
pub(crate) use self::target::{TargetArguments, workspaces};
use crate::console;
use crate::failure::Usage;
use crate::moment::Moment;
use crate::session::printable;
use crate::size::Size;
use crate::table::{Align, table};

/// Files that are listed with all that is below a directory.
const MOST_LISTED: usize = 1_000_000;
/// How long to wait for a change before looking whether somebody still reads.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: FilesCommands) -> anyhow::Result<ExitCode> {
    match arguments.command {
        FilesCommand::Ls { path, long, recursive, target } => {
            with(target, |target| list(target, path.as_deref().unwrap_or_default(), long, recursive))
        }
        FilesCommand::Cat { paths, lines, target } => with(target, |target| cat(target, &paths, lines)),
        FilesCommand::Put { paths, target } => with(target, |target| put(target, &paths)),
        FilesCommand::Get { paths, output, target } => with(target, |target| get(target, &paths, &output)),
        FilesCommand::Rm { paths, recursive, force, target } => {
            with(target, |target| remove(target, &paths, recursive, force))
        }
        FilesCommand::Find { pattern, hidden, most, target } => with(target, |target| {
            find(target, &pattern, &FindOptions { hidden, most, ..FindOptions::default() })
        }),
        FilesCommand::Grep { pattern, path, glob, ignore_case, fixed, hidden, most, context, target } => {
            let path = path.unwrap_or_default();
            let most_matches = most;
            let options = GrepOptions {
                path,
                glob,
                ignore_case,
                fixed,
                hidden,
                most_matches,
                context,
                ..GrepOptions::default()
            };
            with(target, |target| grep(target, &pattern, &options))
        }
        FilesCommand::Mv { from, to, target } => with(target, |target| {
            let to = into_directory(&target.files, &from, to)?;
            target.files.rename_blocking(&from, &to)?;
            target.answer.give(|| json!({ "from": from, "to": to }), || format!("{from} is {to} now"))
        }),
        FilesCommand::Cp { from, to, target } => with(target, |target| {
            let to = into_directory(&target.files, &from, to)?;
            let copied = target.files.copy_blocking(&from, &to)?;
            let words = || format!("{} files, {} copied to {to}", copied.files, Size(copied.bytes));
            target.answer.give(|| &copied, words)
        }),
        FilesCommand::Mkdir { path, target } => with(target, |target| {
            target.files.make_directory_blocking(&path)?;
            target.answer.give(|| json!({ "path": path }), || path.clone())
        }),
        FilesCommand::Edit { path, old, new, all, target } => with(target, |target| {
            let replaced = target.files.edit_blocking(&path, &old, &new, all)?;
            let words = || format!("{path}: {replaced} replaced");
            target.answer.give(|| json!({ "path": path, "replaced": replaced }), words)
        }),
        FilesCommand::Watch { target } => with(target, watch),
    }
}

/// Does something with a session's files, and puts a session that was woken for it to sleep again.
fn with(
    arguments: TargetArguments,
    body: impl FnOnce(&Target) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    let done = arguments.open().and_then(|target| {
        let done = body(&target);
        target.close()?;
        done
    });
    match done {
        // For programs, which know the codes.
        Err(error) if json => match error.downcast_ref::<Error>() {
            Some(Error::File(failed)) => {
                console::print_line(&json!({ "error": failed }).to_string());
                Ok(ExitCode::FAILURE)
            }
            _ => Err(error),
        },
        done => done,
    }
}

fn list(target: &Target, path: &str, long: bool, recursive: bool) -> anyhow::Result<ExitCode> {
    let entries = match recursive {
        true => {
            let pattern = if path.is_empty() { "**".to_owned() } else { format!("{path}/**") };
            let options = FindOptions { hidden: true, most: MOST_LISTED, ..FindOptions::default() };
            let found = target.files.glob_with_blocking(&pattern, &options)?;
            if !found.complete {
                console::note(format_args!("there are more"));
            }
            found.files.into_iter().map(|file| FileEntry { name: file.path, stat: file.stat }).collect()
        }
        false => target.files.list_blocking(path)?,
    };
    target.answer.give(|| json!({ "entries": entries }), || shown(&entries, long))
}

fn shown(entries: &[FileEntry], long: bool) -> String {
    let name = |entry: &FileEntry| match entry.stat.kind {
        FileKind::Directory => format!("{}/", printable(&entry.name)),
        FileKind::Link => format!("{}@", printable(&entry.name)),
        FileKind::Other => format!("{}|", printable(&entry.name)),
        FileKind::File => printable(&entry.name),
    };
    if !long {
        return entries.iter().map(|entry| name(entry) + "\n").collect();
    }
    let row = |entry: &FileEntry| {
        let milliseconds = u64::try_from(entry.stat.modified_ns / 1_000_000).unwrap_or(0);
        let size =
            if entry.stat.kind == FileKind::File { Size(entry.stat.size).to_string() } else { "-".into() };
        let access = if entry.stat.read_only { "read-only" } else { "" };
        vec![size, Moment(milliseconds).to_string(), name(entry), access.to_owned()]
    };
    let columns =
        [("SIZE", Align::Right), ("CHANGED", Align::Left), ("NAME", Align::Left), ("", Align::Left)];
    table(&columns, &entries.iter().map(row).collect::<Vec<_>>())
}

fn cat(target: &Target, paths: &[String], lines: Option<(u64, u64)>) -> anyhow::Result<ExitCode> {
    if target.answer.json {
        let mut texts = Vec::new();
        for path in paths {
            let text = match lines {
                Some((first, last)) => target.files.read_lines_blocking(path, first, last - first + 1)?.text,
                None => target.files.read_text_blocking(path)?,
            };
            texts.push(json!({ "path": path, "text": text }));
        }
        return target.answer.give(|| json!({ "files": texts }), String::new);
    }
    for path in paths {
        match lines {
            Some((first, last)) => {
                let count = (last - first).saturating_add(1);
                let read = target.files.read_lines_blocking(path, first, count)?;
                for (number, line) in (read.first..).zip(read.text.lines()) {
                    console::print_line(&format!("{number:>6}  {line}"));
                }
            }
            None => console::print(&target.files.read_blocking(path)?),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn put(target: &Target, paths: &[String]) -> anyhow::Result<ExitCode> {
    let Some((to, sources)) = paths.split_last() else { return Ok(ExitCode::SUCCESS) };
    let into = to.ends_with('/') || sources.len() > 1 || is_directory(&target.files, to)?;
    let mut written = Vec::new();
    for source in sources {
        let name = Path::new(source).file_name().and_then(|name| name.to_str());
        let path = match (into, name) {
            (false, _) => to.clone(),
            (true, Some(name)) if source != "-" => format!("{}/{name}", to.trim_end_matches('/')),
            (true, _) => {
                return Err(Usage {
                    message: format!("{source:?} has no name to go by in {to}"),
                    hint: "name the file that it is to be",
                }
                .into());
            }
        };
        let mut contents: Box<dyn Read> = match source.as_str() {
            "-" => Box::new(io::stdin().lock()),
            source => Box::new(open(Path::new(source))?),
        };
        target.files.write_from_blocking(&path, contents.as_mut())?;
        written.push(path);
    }
    let words = || written.iter().map(|path| format!("{path}\n")).collect();
    target.answer.give(|| json!({ "written": written }), words)
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    if file.metadata().with_context(|| path.display().to_string())?.is_dir() {
        return Err(Usage {
            message: format!("{} is a directory", path.display()),
            hint: "`belljar workspace sync` copies directories",
        }
        .into());
    }
    Ok(file)
}

/// Where something goes: into a directory by its own name.
fn into_directory(files: &Files, from: &str, to: String) -> Result<String, Error> {
    let name = from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match to.ends_with('/') || is_directory(files, &to)? {
        true => Ok(format!("{}/{name}", to.trim_end_matches('/'))),
        false => Ok(to),
    }
}

fn is_directory(files: &Files, path: &str) -> Result<bool, Error> {
    match files.stat_blocking(path) {
        Ok(stat) => Ok(stat.kind == FileKind::Directory),
        Err(Error::File(error)) if error.code == FileErrorCode::FileNotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn get(target: &Target, paths: &[String], output: &Path) -> anyhow::Result<ExitCode> {
    if output.as_os_str() == "-" {
        return cat(target, paths, None);
    }
    let into = output.is_dir() || paths.len() > 1 || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if into {
        fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    }
    let mut written = Vec::new();
    for path in paths {
        let name =
            path.trim_end_matches('/').rsplit('/').next().filter(|name| !["", ".", ".."].contains(name));
        let host = match (into, name) {
            (true, Some(name)) => output.join(name),
            (true, None) => {
                return Err(Usage { message: format!("{path:?} is no file"), hint: "name a file" }.into());
            }
            (false, _) => output.to_owned(),
        };
        save(&target.files.read_blocking(path)?, &host).with_context(|| host.display().to_string())?;
        written.push(host);
    }
    let words = || written.iter().map(|path| format!("{}\n", path.display())).collect();
    target.answer.give(|| json!({ "written": written }), words)
}

/// A file is there whole or not at all. What isn't one, such as a pipe or a link, is written to.
fn save(contents: &[u8], to: &PathBuf) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok_and(|there| !there.is_file()) {
        return File::options().write(true).truncate(true).open(to)?.write_all(contents);
    }
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // With the rights of any new file.
    let temporary = directory.join(format!(".belljar-{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).open(&temporary)?;
    let saved =
        file.write_all(contents).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, to));
    if saved.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    saved
}

fn remove(target: &Target, paths: &[String], recursive: bool, force: bool) -> anyhow::Result<ExitCode> {
    let mut gone = Vec::new();
    for path in paths {
        match target.files.remove_blocking(path, recursive) {
            Err(Error::File(error)) if force && error.code == FileErrorCode::FileNotFound => {}
            removed => {
                removed?;
                gone.push(path);
            }
        }
    }
    let words = || gone.iter().map(|path| format!("{path} removed\n")).collect();
    target.answer.give(|| json!({ "removed": gone }), words)
}

fn find(target: &Target, pattern: &str, options: &FindOptions) -> anyhow::Result<ExitCode> {
    let found = target.files.glob_with_blocking(pattern, options)?;
    if !found.complete {
        console::note(format_args!("there are more"));
    }
    let words = || found.files.iter().map(|file| printable(&file.path) + "\n").collect();
    if found.files.is_empty() && !target.answer.json {
        return Ok(ExitCode::SUCCESS);
    }
    target.answer.give(|| &found, words)
}

fn grep(target: &Target, pattern: &str, options: &GrepOptions) -> anyhow::Result<ExitCode> {
    let found = target.files.grep_blocking(pattern, options)?;
    if !found.complete {
        console::note(format_args!("there are more matches, or files too large to search"));
    }
    let mut text = String::new();
    for found in &found.matches {
        let path = printable(&found.path);
        let start = found.line - found.before.len() as u64;
        for (number, line) in (start..).zip(&found.before) {
            text += &format!("{path}-{number}-{}\n", printable(line));
        }
        text += &format!("{path}:{}:{}\n", found.line, printable(&found.text));
        for (number, line) in (found.line + 1..).zip(&found.after) {
            text += &format!("{path}-{number}-{}\n", printable(line));
        }
    }
    if target.answer.json {
        target.answer.give(|| &found, String::new)?;
    } else {
        console::print(text.as_bytes());
    }
    Ok(ExitCode::from(u8::from(found.matches.is_empty())))
}

fn watch(target: &Target) -> anyhow::Result<ExitCode> {
    if target.files.directory().is_none() {
        return Err(Usage {
            message: "the session has its files in memory, where nobody else can change them meanwhile"
                .to_owned(),
            hint: "watch a session that was made with --storage disk",
        }
        .into());
    }
    let mut watch = target.files.watch_blocking()?;
    loop {
        for FileEvent { path, kind } in watch.next_blocking(PAUSE)? {
            let kind = match kind {
                FileEventKind::Created => "created",
                FileEventKind::Modified => "modified",
                FileEventKind::Deleted => "deleted",
            };
            match target.answer.json {
                true => console::print_line(&json!({ "kind": kind, "path": path }).to_string()),
                false => console::print_line(&format!("{kind:<8}  {}", printable(&path))),
            }
        }
    }
}
