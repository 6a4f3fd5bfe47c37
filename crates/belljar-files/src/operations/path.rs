//! Paths in a workspace: as operations take them, and as agents write them.

use belljar_engine::{FileError, FileErrorCode};

use crate::path::{NAME_LIMIT, PATH_LIMIT};

/// Refuses what no path of an operation may be: it is relative, without `.`, `..`, empty names and NUL, and not too
/// long. An empty path is the workspace itself.
pub fn check(path: &str) -> Result<(), FileError> {
    let refuse = |message: &str| Err(FileError::told(FileErrorCode::InvalidPath, path, message));
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > PATH_LIMIT {
        let shown: String = path.chars().take(64).chain("…".chars()).collect();
        let message = format!("a path has at most {PATH_LIMIT} bytes");
        return Err(FileError::told(FileErrorCode::InvalidPath, shown, message));
    }
    if path.starts_with('/') {
        return refuse("the path must be relative to the workspace");
    }
    if path.contains('\0') {
        return refuse("a path has no NUL");
    }
    for name in path.split('/') {
        match name {
            "" | "." => return refuse("the path has an empty name or a `.` in it"),
            ".." => return refuse("the path has a `..` in it"),
            name if name.len() > NAME_LIMIT => {
                return refuse("a name in the path is longer than 255 bytes");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The path of an operation for what an agent wrote: `a/./b`, `./a`, `~/a`, `/workspace/a`, and `/session/a` where
/// that is an alias. A `..` that stays inside is taken lexically; what leads out is refused.
pub fn workspace_path(given: &str, workspace: &str, aliases: &[&str]) -> Result<String, FileError> {
    let refuse = |message: String| FileError::told(FileErrorCode::InvalidPath, given, message);
    let outside =
        || refuse(format!("it is outside of the workspace; use a path below {workspace}, or a relative one"));
    let rest = if given.starts_with('/') {
        let known = std::iter::once(workspace).chain(aliases.iter().copied());
        let names = normalised(given).map_err(|_| outside())?;
        let found = known.filter_map(|name| {
            let above = normalised(name).ok().filter(|above| !above.is_empty())?;
            names.strip_prefix(above.as_slice()).map(|rest| rest.join("/"))
        });
        // The longest name is the nearest: what is left is the shortest.
        found.min_by_key(String::len).ok_or_else(outside)?
    } else {
        let rest = given.strip_prefix("~/").unwrap_or(if given == "~" { "" } else { given });
        normalised(rest).map_err(|_| outside())?.join("/")
    };
    check(&rest).map_err(|error| refuse(error.message))?;
    Ok(rest)
}

/// The names of a path without `.`, `..` and empty ones; an error where it leads above its beginning.
fn normalised(path: &str) -> Result<Vec<&str>, ()> {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop().ok_or(())?),
            name => names.push(name),
        }
    }
    Ok(names)
}
