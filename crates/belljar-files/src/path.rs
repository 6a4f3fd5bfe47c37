//! Guest paths as text: limits and components. What they lead to is `file_system/resolve.rs`.

use crate::{Errno, Result};

/// As in Linux: a name has at most this many bytes.
pub(crate) const NAME_LIMIT: usize = 255;
/// As in Linux, whose 4,096 include the terminating zero.
pub(crate) const PATH_LIMIT: usize = 4095;
/// As in Linux: this many symbolic links in one walk.
pub(crate) const LINK_LIMIT: u32 = 40;

/// Refuses what no path can be.
pub(crate) fn check(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Errno::NoEntry);
    }
    if path.len() > PATH_LIMIT {
        return Err(Errno::NameTooLong);
    }
    if path.contains('\0') {
        return Err(Errno::Invalid);
    }
    Ok(())
}

/// One component of a path and what stands around it.
pub(crate) struct Component<'path> {
    pub(crate) name: &'path str,
    /// Where the rest begins, slash included.
    pub(crate) end: usize,
    /// Nothing but slashes follow.
    pub(crate) last: bool,
    /// A slash follows, so it must be a directory.
    pub(crate) slash: bool,
}

/// The next component of `path` at or after `start`, empty ones skipped.
pub(crate) fn next_component(path: &str, start: usize) -> Option<Component<'_>> {
    let rest = path.get(start..)?;
    let begin = start + (rest.len() - rest.trim_start_matches('/').len());
    let rest = &path[begin..];
    if rest.is_empty() {
        return None;
    }
    let name = rest.split('/').next().unwrap_or(rest);
    let end = begin + name.len();
    Some(Component { name, end, last: path[end..].bytes().all(|byte| byte == b'/'), slash: end < path.len() })
}

/// The absolute form of a path that the host gives: no `.`, `..`, doubled or trailing slashes.
pub(crate) fn normalise_absolute(path: &str) -> Result<String> {
    check(path)?;
    if !path.starts_with('/') {
        return Err(Errno::Invalid);
    }
    let mut absolute = String::with_capacity(path.len());
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => return Err(Errno::Invalid),
            name if name.len() > NAME_LIMIT => return Err(Errno::NameTooLong),
            name => {
                absolute.push('/');
                absolute.push_str(name);
            }
        }
    }
    if absolute.is_empty() {
        absolute.push('/');
    }
    Ok(absolute)
}

/// `name` under `directory`; the empty directory is where relative paths start.
pub(crate) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        "/" => format!("/{name}"),
        _ => format!("{directory}/{name}"),
    }
}

/// A relative path's directory, empty where relative paths start, and its last name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn components(path: &str) -> Vec<(&str, bool, bool)> {
        let mut at = 0;
        let mut found = Vec::new();
        while let Some(component) = next_component(path, at) {
            at = component.end;
            found.push((component.name, component.last, component.slash));
        }
        found
    }

    #[test]
    fn components_know_their_surroundings() {
        assert_eq!(components("a"), [("a", true, false)]);
        assert_eq!(components("//a//b//"), [("a", false, true), ("b", true, true)]);
        assert_eq!(components("a/."), [("a", false, true), (".", true, false)]);
        assert_eq!(components("///"), []);
        assert_eq!(components("ä/ö"), [("ä", false, true), ("ö", true, false)]);
    }

    #[test]
    fn absolute_paths_are_normalised_or_refused() {
        assert_eq!(normalise_absolute("/a//b/./c/").as_deref(), Ok("/a/b/c"));
        assert_eq!(normalise_absolute("//").as_deref(), Ok("/"));
        assert_eq!(normalise_absolute("a"), Err(Errno::Invalid));
        assert_eq!(normalise_absolute("/a/../b"), Err(Errno::Invalid));
        assert_eq!(normalise_absolute("/\0"), Err(Errno::Invalid));
    }
}
