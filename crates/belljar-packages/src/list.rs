//! A `requirements.txt`, read for what uv doesn't check, and for what it must not be told.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    str::FromStr,
};

use pep508_rs::{Requirement, VerbatimUrl};

use crate::{
    error::PackageError,
    file_name::normalised,
    spec::{is_archive, wheel_address},
    target::Target,
    text_file::read_text,
};

const INCLUDES: [&str; 4] = ["--requirement", "--constraint", "-r", "-c"];

/// The hashes that a list gives for a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// Normalised.
    pub(crate) package: String,
    pub(crate) list: PathBuf,
    /// SHA-256, in lower case.
    pub(crate) hashes: BTreeSet<String>,
}

/// A list and all that it includes.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) texts: Vec<String>,
    /// What is asked for, line by line, and what it may be.
    pub(crate) requirements: Vec<String>,
    pub(crate) constraints: Vec<String>,
    pub(crate) pinned: Vec<Pinned>,
    seen: BTreeSet<PathBuf>,
}

/// What stands on one line, or on several that are joined by `\`.
struct Line {
    number: usize,
    text: String,
}

impl List {
    /// Reads a list and those that it includes.
    ///
    /// # Errors
    /// If one can't be read, or names something that lists may not.
    pub(crate) fn read(path: &Path, target: &Target) -> Result<Self, PackageError> {
        let mut list = Self::default();
        list.include(path, false, target, &|_| true)?;
        Ok(list)
    }

    /// The list and those that it includes, also those that mustn't be read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn files(
        path: &Path,
        may_read: &dyn Fn(&Path) -> bool,
    ) -> Result<impl Iterator<Item = PathBuf>, PackageError> {
        let mut list = Self::default();
        // Lists include others whatever they are for.
        list.include(path, false, &Target::Wasm, may_read)?;
        Ok(list.seen.into_iter())
    }

    fn include(
        &mut self,
        path: &Path,
        constrains: bool,
        target: &Target,
        may_read: &dyn Fn(&Path) -> bool,
    ) -> Result<(), PackageError> {
        if !self.seen.insert(path.to_owned()) || !may_read(path) {
            return Ok(());
        }
        let text = read_text(path).map_err(|error| PackageError::unreadable(path, error))?;
        let mut pinned: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines(&text) {
            let refuse = |reason: String| PackageError::List {
                place: format!("{}:{}", path.display(), line.number),
                reason,
            };
            check(&line.text).map_err(refuse)?;
            if let Some(included) = included(&line.text) {
                if included.contains("://") {
                    return Err(refuse(format!("lists from elsewhere aren't read: {included}")));
                }
                let constrains = constrains || line.text.starts_with("-c") || line.text.starts_with("--c");
                let included = path.parent().unwrap_or(Path::new("/")).join(included);
                self.include(&included, constrains, target, may_read)?;
                continue;
            }
            if line.text.starts_with('-') {
                let reason =
                    "options aren't read from lists; uv's own settings name an index, e.g. UV_INDEX_URL";
                return Err(refuse(format!("{reason}: {}", line.text)));
            }
            if let Some((package, hashes)) = hashes(&line.text, target).map_err(refuse)? {
                pinned.entry(package).or_default().extend(hashes);
            }
            let requirement = line.text.split(" --").next().unwrap_or_default().trim();
            let requirement = match wheel_address(requirement) {
                Some(name) => format!("{name} @ {requirement}"),
                None => requirement.to_owned(),
            };
            if target.applies(&requirement).map_err(refuse)? {
                let lines = if constrains { &mut self.constraints } else { &mut self.requirements };
                lines.push(requirement);
            }
        }
        let named = |(package, hashes)| Pinned { package, list: path.to_owned(), hashes };
        self.pinned.extend(pinned.into_iter().map(named));
        self.texts.push(text);
        Ok(())
    }
}

/// Without comments and empty lines, as uv sees them.
fn lines(text: &str) -> Vec<Line> {
    let text =
        text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n").replace('\t', " ");
    let mut lines: Vec<Line> = Vec::new();
    let mut continues = false;
    for (index, line) in text.split('\n').enumerate() {
        let plain = without_comment(line).trim();
        let (part, goes_on) = match plain.strip_suffix('\\') {
            Some(part) => (part.trim_end(), true),
            None => (plain, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some(last) => {
                last.text.push(' ');
                last.text.push_str(part);
            }
            None => lines.push(Line { number: index + 1, text: part.to_owned() }),
        }
        continues = goes_on;
    }
    lines.retain(|line| !line.text.trim().is_empty());
    lines
}

/// A `#` begins a comment at the start, or after white space: addresses have it too.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// Refuses paths, which uv would take from another directory, and what would have packages built.
fn check(line: &str) -> Result<(), String> {
    if line.contains("--no-binary") {
        return Err("--no-binary isn't supported: building a package would run its code".into());
    }
    let path = |named: &str| format!("paths in lists aren't supported: name {named} with --package");
    for option in ["--editable", "-e"] {
        if let Some(named) = line.split_whitespace().find_map(|word| word.strip_prefix(option)) {
            let rest = line.split_whitespace().skip_while(|word| !word.starts_with(option)).nth(1);
            let named = named.trim_start_matches('=');
            let named = if named.is_empty() { rest.unwrap_or("it") } else { named };
            return Err(path(named));
        }
    }
    if line.starts_with('-') {
        return Ok(());
    }
    let requirement = line.split_whitespace().next().unwrap_or_default();
    let target = line.split_once('@').map(|(_, target)| target.split_whitespace().next().unwrap_or_default());
    let named = [Some(requirement), target].into_iter().flatten().find(|text| is_path(text));
    named.map_or(Ok(()), |named| Err(path(named)))
}

fn is_path(text: &str) -> bool {
    let begins = ["./", "../", "/", "~/", "file:"].iter().any(|start| text.starts_with(start));
    let name = text.split(';').next().unwrap_or(text);
    let file = name.ends_with(".whl") || name.ends_with(".zip") || is_archive(name);
    begins || text == "." || text == ".." || (file && !text.contains("://") && !text.contains('@'))
}

fn included(line: &str) -> Option<&str> {
    let rest = INCLUDES.iter().find_map(|option| line.strip_prefix(option))?;
    Some(rest.trim_start().trim_start_matches('=').trim())
}

/// The name of a requirement and its hashes, if it has any and applies.
fn hashes(line: &str, target: &Target) -> Result<Option<(String, BTreeSet<String>)>, String> {
    let Some((requirement, options)) = line.split_once(" --hash") else { return Ok(None) };
    if requirement.starts_with('-') {
        return Ok(None);
    }
    let requirement = requirement.trim();
    let name = match wheel_address(requirement) {
        Some(name) => name,
        None => {
            // First: it refuses what the parser couldn't bear.
            if !target.applies(requirement)? {
                return Ok(None);
            }
            let parsed = Requirement::<VerbatimUrl>::from_str(requirement)
                .map_err(|error| format!("`{requirement}` isn't a requirement: {}", error.message))?;
            normalised(parsed.name.as_ref())
        }
    };
    let options = format!(" --hash{options}");
    let given = options.split(" --hash").skip(1).map(|hash| hash.trim_start_matches(['=', ' ']).trim());
    let sha256: BTreeSet<String> =
        given.filter_map(|hash| hash.strip_prefix("sha256:")).map(str::to_ascii_lowercase).collect();
    match sha256.is_empty() {
        true => Err(format!("the hashes of {name} aren't SHA-256, and no others are known here")),
        false => Ok(Some((name, sha256))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<List, PackageError> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("requirements.txt");
        fs::write(&path, text).expect("written");
        List::read(&path, &Target::Wasm)
    }

    #[test]
    fn hashes_are_collected_over_lines() {
        let list = read(
            "# all\nSix==1.16 --hash=sha256:AA \\\n    --hash=sha256:bb  # two\n\nplain>=1\n\
             other ; sys_platform == 'win32' --hash=sha256:cc\n",
        )
        .expect("a list");
        let found: Vec<_> =
            list.pinned.iter().map(|pinned| (pinned.package.as_str(), &pinned.hashes)).collect();
        assert_eq!(found, [("six", &BTreeSet::from(["aa".to_owned(), "bb".to_owned()]))]);
        let error = read("six --hash=sha512:aa\n").expect_err("no SHA-256").to_string();
        assert!(error.contains("requirements.txt:1: the hashes of six"), "{error}");
    }

    #[test]
    fn paths_are_refused_with_their_line() {
        for (line, named) in [
            ("./evil", "./evil"),
            ("../evil[x]", "../evil[x]"),
            ("/evil", "/evil"),
            ("file:///evil", "file:///evil"),
            ("-e ./evil", "./evil"),
            ("-e./evil", "./evil"),
            ("--editable=evil", "evil"),
            ("--editable \\\n evil", "evil"),
            ("evil @ ./x", "./x"),
            ("evil@file:x", "file:x"),
            ("evil-1-py3-none-any.whl", "evil-1-py3-none-any.whl"),
            ("# comment \\\n./evil", "./evil"),
            ("# comment\r./evil", "./evil"),
        ] {
            let error = read(&format!("# first\nsix\n{line}\n")).expect_err(line);
            assert!(matches!(error, PackageError::List { .. }), "{error:?}");
            let (message, number) = (error.to_string(), if line.starts_with('#') { 4 } else { 3 });
            let expected = format!(
                "requirements.txt:{number}: paths in lists aren't supported: name {named} with --package"
            );
            assert!(message.ends_with(&expected), "{message}");
        }
    }

    #[test]
    fn options_that_would_build_are_refused() {
        for line in
            ["--no-binary six", "--no-binary=:all:", "six \\\n --no-binary six", "# x\r--no-binary six"]
        {
            let error = read(&format!("six\n{line}\n")).expect_err(line).to_string();
            assert!(error.contains("would run its code"), "{error}");
        }
        assert!(read("-r https://h.example/list.txt\n").is_err());
        for line in [
            "--index-url https://h.example/simple",
            "-i https://h.example/simple",
            "--extra-index-url=https://h.example/simple",
            "--find-links https://h.example",
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains("UV_INDEX_URL"), "{error}");
        }
        for line in
            ["six @ https://h.example/six-1-py3-none-any.whl#sha256=aa", "six  # ./not-a-path --no-binary"]
        {
            read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
