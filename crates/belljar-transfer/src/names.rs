//! Paths that came from elsewhere.

use crate::skipped::printable;

/// Names of our own begin so. They are neither exported, nor imported, nor synchronised.
pub(crate) const OURS: &str = ".belljar-";
/// Bytes of a path, at most.
const LONGEST_PATH: usize = 4_096;
/// Bytes of a name, at most.
const LONGEST_NAME: usize = 255;
/// Directories inside each other, at most.
pub(crate) const DEEPEST: usize = 128;

/// What is wrong with a relative path, if something is.
pub(crate) fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("the name is empty");
    }
    if path.starts_with('/') {
        return Some("the path is absolute");
    }
    if path.len() > LONGEST_PATH {
        return Some("the path is too long");
    }
    if path.contains('\0') {
        return Some("there is a NUL in the name");
    }
    if path.split('/').count() > DEEPEST {
        return Some("too many directories are inside each other");
    }
    path.split('/').find_map(|name| match name {
        "" => Some("a name in the path is empty"),
        "." | ".." => Some("'.' and '..' aren't names"),
        name if name.len() > LONGEST_NAME => Some("a name in the path is too long"),
        name if name.starts_with(OURS) => Some("names that begin with .belljar- are reserved"),
        _ => None,
    })
}

/// Whether a link at `path` leads out of the tree that it is in, by its text alone.
pub(crate) fn leads_out(path: &str, target: &str) -> bool {
    if target.starts_with('/') {
        return true;
    }
    let mut depth = path.split('/').count() - 1;
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The same file, as a name beside it that nobody else uses.
pub(crate) fn beside(path: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(path);
    let name = format!("{OURS}part-{random:016x}");
    parent(path).map_or_else(|| name.clone(), |parent| format!("{parent}/{name}"))
}

/// Whether a name is one of [`beside`]: a copy that was interrupted.
pub(crate) fn is_part(name: &str) -> bool {
    name.strip_prefix(OURS)
        .and_then(|rest| rest.strip_prefix("part-"))
        .is_some_and(|random| random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Bytes as a path, or as something to print.
pub(crate) fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| printable(&String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_lead_elsewhere_have_a_fault() {
        for path in
            ["", "/a", "a//b", "a/", "..", "a/../b", "./a", "a\0", ".belljar-sync.json", "a/.belljar-x"]
        {
            assert!(fault(path).is_some(), "{path:?}");
        }
        for path in ["a", "a/b", "...", ".a", "a b", "ä/ö", "-", "a\\b", "c:"] {
            assert_eq!(fault(path), None, "{path:?}");
        }
        assert!(fault(&"a/".repeat(200)).is_some() && fault(&"a".repeat(256)).is_some());
    }

    #[test]
    fn links_lead_out_by_their_text() {
        assert!(leads_out("a", "/etc") && leads_out("a", "..") && leads_out("a/b", "../../c"));
        assert!(leads_out("a/b", "x/../../..") && leads_out("a", "b/../../c"));
        assert!(!leads_out("a", "b") && !leads_out("a/b", "../c") && !leads_out("a/b", ".././/c"));
    }

    #[test]
    fn a_name_beside_is_known_again() {
        let part = beside("a/b/c.txt");
        assert!(part.starts_with("a/b/.belljar-part-"));
        assert!(is_part(part.rsplit('/').next().expect("it has a name")));
        assert!(!is_part(".belljar-part-") && !is_part(".belljar-part-00000000000000zz") && !is_part("a"));
    }
}
