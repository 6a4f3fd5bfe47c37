//! What things may be called. Names are only ever metadata: no file of the host is named after one.

use crate::error::{ArtifactError, Result};

const LONGEST: usize = 1024;
const LONGEST_SCOPE: usize = 256;

/// What is wrong with a file's name, if something is. Names with newlines and the like are strange, but harmless.
pub(crate) fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > LONGEST {
        return Some("it is longer than 1,024 bytes");
    }
    if name.contains('\0') {
        return Some("it has a NUL in it");
    }
    if name.starts_with('/') {
        return Some("it begins at the root");
    }
    if name.split('/').any(|part| part == "..") {
        return Some("it leads out of its directory");
    }
    if name.split('/').any(|part| part.is_empty() || part == ".") {
        return Some("a part of it is empty");
    }
    None
}

/// Checks the name of a tenant or session. Which they are is decided elsewhere; here they only have to fit.
pub(crate) fn check_scope(what: &'static str, name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        name if name.len() > LONGEST_SCOPE => "it is longer than 256 bytes",
        name if name.contains('\0') => "it has a NUL in it",
        _ => return Ok(()),
    };
    Err(ArtifactError::invalid(what, name, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused_and_strange_ones_are_not() {
        let long = "x".repeat(1025);
        for name in ["", "/", "/x", "..", "../x", "a/../b", "a/..", "a//b", "a/", "./a", "a\0b", &long] {
            assert!(fault(name).is_some(), "{name:?}");
        }
        let long = "é".repeat(512);
        for name in ["a", "CON", "a/b/c.png", "...", "..a", "a..", "\n", "a\u{7f}\u{1b}[31m", "🦀.png", &long]
        {
            assert_eq!(fault(name), None, "{name:?}");
        }
    }
}
