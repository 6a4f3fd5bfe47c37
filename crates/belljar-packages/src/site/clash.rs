//! Files that two packages bring.

use std::{fs, io, path::Path};

pub(super) enum Clash {
    /// Either will do.
    Harmless,
    Differ,
}

/// What people leave in their wheels beside the packages.
const BESIDE: [&str; 6] = ["tests", "test", "docs", "doc", "examples", "benchmarks"];

pub(super) fn compare(name: &str, first: &Path, second: &Path) -> io::Result<Clash> {
    let top = name.split_once('/').map(|(top, _)| top);
    // Bytecode follows its module. What can't be imported does no harm.
    let code = [".py", ".so"].iter().any(|ending| name.ends_with(ending));
    if !code || top.is_some_and(|top| BESIDE.contains(&top)) {
        return Ok(Clash::Harmless);
    }
    let (one, other) = (fs::read(first)?, fs::read(second)?);
    let initial = name.ends_with("/__init__.py");
    match one == other || (initial && is_namespace(&one) && is_namespace(&other)) {
        true => Ok(Clash::Harmless),
        false => Ok(Clash::Differ),
    }
}

/// Whether an `__init__.py` only says that several packages share its directory.
fn is_namespace(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    text.contains("extend_path")
        || text.contains("declare_namespace")
        || !text.lines().any(|line| code(&line))
}
