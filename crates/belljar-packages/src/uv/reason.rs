//! Why uv failed, sorted by what its user can do.

use std::{io::ErrorKind, path::Path};

use belljar_runtime::host::Finished;

use crate::{error::PackageError, target::Target};

/// How many lines of its explanation an error shows.
const SHOWN_LINES: usize = 25;

/// How it begins to speak of what it was given.
const INPUT: [&str; 14] = [
    "Couldn't parse requirement",
    "Failed to parse: `",
    "Error parsing included file",
    "Unexpected '",
    "Unexpected `",
    "The wheel filename",
    "Invalid URL in",
    "Invalid value for",
    "Unsupported scheme",
    "Expected direct URL",
    "relative URL without a base",
    "404 Not Found",
    "410 Gone",
    "Distribution not found at",
];

/// `place` is where it wrote.
pub(crate) fn reason(doing: &str, target: &Target, finished: &Finished, place: &Path) -> PackageError {
    match finished.stderr.contains("No space left on device")
        || finished.stderr.contains("Disk quota exceeded")
    {
        true => PackageError::write(place, ErrorKind::StorageFull.into()),
        false => classify(doing, target, &finished.stderr),
    }
}

fn classify(doing: &str, target: &Target, stderr: &str) -> PackageError {
    let reason = trimmed(stderr);
    let flat = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let any = |signs: &[&str]| signs.iter().any(|sign| flat.contains(sign));
    if any(&["network was disabled", "Network connectivity is disabled"]) {
        let what = word_before(&flat, " was not found in the cache").unwrap_or_else(|| "something".into());
        return PackageError::Offline { what };
    }
    if any(&[
        "error sending request",
        "tcp connect error",
        "dns error",
        "operation timed out",
        "connection closed",
        "Could not resolve host",
    ]) {
        return PackageError::Network { reason };
    }
    let unknown =
        [" was not found in the package registry", " was not found in the provided package locations"];
    if let Some(package) = unknown.iter().find_map(|sign| word_before(&flat, sign)) {
        return PackageError::NotFound { package, reason };
    }
    let source = [" has no usable wheels", " have no usable wheels", " is disabled"];
    if any(&["no usable wheels", "Building source distributions"]) {
        let found = source.iter().find_map(|sign| word_before(&flat, sign));
        return PackageError::OnlySource { package: found.unwrap_or_else(|| "a package".into()), reason };
    }
    let other = [" has no wheels with a matching", " have no wheels with a matching"];
    if let Some(package) = other.iter().find_map(|sign| word_before(&flat, sign)) {
        return PackageError::OtherPython { package, python: target.python(), reason };
    }
    let version = word_after(&flat, "there is no version of ")
        .or_else(|| word_after(&flat, "there are no versions of "));
    if let Some(package) = version {
        return PackageError::NotFound { package, reason };
    }
    if any(&["No solution found", "unsatisfiable", "Requirements contain conflicting"]) {
        return PackageError::Conflict { reason };
    }
    let doing = doing.to_owned();
    match any(&INPUT) {
        true => PackageError::Input { doing, reason },
        false => PackageError::Uv { doing, reason },
    }
}

/// Without warnings, hints for uv's own options, and the words at the start of lines.
fn trimmed(stderr: &str) -> String {
    let mut lines = Vec::new();
    let mut skipping = false;
    for line in stderr.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            skipping = ["warning:", "hint:", "Using "].iter().any(|start| line.starts_with(start))
                && !line.contains("network was disabled");
        }
        let plain = line.trim_start();
        let plain = plain.strip_prefix("error: ").or_else(|| plain.strip_prefix("cause: ")).unwrap_or(plain);
        if !skipping && !plain.starts_with("No solution found when resolving") {
            lines.push(plain.to_owned());
        }
    }
    // A conflict may be explained at any length; the end has the conclusion.
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

fn word_before(text: &str, sign: &str) -> Option<String> {
    let word = text[..text.find(sign)?].rsplit(' ').next()?;
    Some(word.trim_matches(['`', ',']).to_owned()).filter(|word| !word.is_empty())
}

fn word_after(text: &str, sign: &str) -> Option<String> {
    // A marker follows in braces.
    let word = text[text.find(sign)? + sign.len()..].split([' ', '{']).next()?;
    Some(word.trim_matches(['`', ',']).to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(stderr: &str) -> PackageError {
        classify("resolving", &Target::Wasm, stderr)
    }

    #[test]
    fn failures_are_told_apart() {
        let conflict = "error: No solution found when resolving dependencies\n  cause: Because jinja2>=3.1.6 depends on \
            markupsafe>=2.0 and you require markupsafe<2, we can conclude that your requirements are unsatisfiable.\n";
        assert!(
            matches!(sorted(conflict), PackageError::Conflict { reason } if reason.starts_with("Because jinja2"))
        );
        let missing = "  cause: Because nothing was not found in the package registry and you require nothing, we can\n";
        assert!(matches!(sorted(missing), PackageError::NotFound { package, .. } if package == "nothing"));
        let version = "  cause: Because there is no version of a==99 and you require a==99, we can conclude that your \
            requirements are unsatisfiable.\n";
        assert!(matches!(sorted(version), PackageError::NotFound { package, .. } if package == "a==99"));
        let source = "  cause: Because docopt==0.6.2 has no usable wheels and you require docopt==0.6.2, we can\n\n\
            hint: Wheels are required for `docopt` because building from source is disabled\n";
        assert!(
            matches!(sorted(source), PackageError::OnlySource { package, .. } if package == "docopt==0.6.2")
        );
        let offline = "  cause: Because a was not found in the cache and you require a, we can\n\n\
            hint: Packages were unavailable because the network was disabled.\n";
        assert!(matches!(sorted(offline), PackageError::Offline { what } if what == "a"));
        let network =
            "error: Failed to fetch: `x`\n  cause: error sending request for url (x)\n  cause: dns error\n";
        assert!(matches!(sorted(network), PackageError::Network { .. }));
        let other = "  cause: Because a==2 has no wheels with a matching Python version tag (e.g., `cp314`) and you\n";
        assert!(matches!(sorted(other), PackageError::OtherPython { package, .. } if package == "a==2"));
        for input in [
            "error: Unexpected '!', expected '-c', '-e', '-r' or the start of a requirement: in.txt:1:1\n",
            "error: Couldn't parse requirement in `in.txt` at position 0\n  cause: expected version\n",
            "error: The wheel filename `six-bad.whl` is invalid: Must have a Python tag\n",
            "error: Failed to download `six @ https://h/x.whl`\n  cause: Failed to fetch: https://h/x.whl\n  \
             cause: HTTP status client error (404 Not Found) for url (https://h/x.whl)\n",
        ] {
            assert!(matches!(sorted(input), PackageError::Input { .. }), "{input}");
        }
        assert!(matches!(sorted("error: broken\n"), PackageError::Uv { reason, .. } if reason == "broken"));
    }
}
