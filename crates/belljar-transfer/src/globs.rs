use crate::error::{Result, TransferError};

/// What is left out unless something else is said: it is made again from a list, and is large.
pub const DEFAULT_EXCLUDES: [&str; 3] = [".venv/", "node_modules/", "__pycache__/"];
/// Bytes of a pattern, at most.
const LONGEST: usize = 1_000;

/// Which paths are wanted.
///
/// `*` and `?` stand for anything but `/`, `[a-z]` and `[!a-z]` for a character, `**` for any number of directories.
/// A pattern without `/`, or with one at its end only, is looked for in each directory; others begin at the top. With
/// `/` at the end it means directories only. What is excluded isn't looked into. If there are patterns to
/// include, only files that one of them means are wanted, or that are in such a directory.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    names: Vec<Vec<char>>,
    directories_only: bool,
}

impl Globs {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Everything but [`DEFAULT_EXCLUDES`].
    pub fn usual() -> Self {
        let exclude = DEFAULT_EXCLUDES.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
        Self { include: Vec::new(), exclude }
    }

    /// Only what one of the patterns means.
    ///
    /// # Errors
    /// If one isn't a pattern.
    pub fn include<S: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = S>) -> Result<Self> {
        for pattern in patterns {
            self.include.push(Pattern::parse(pattern.as_ref())?);
        }
        Ok(self)
    }

    /// Without what one of the patterns means.
    ///
    /// # Errors
    /// If one isn't a pattern.
    pub fn exclude<S: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = S>) -> Result<Self> {
        for pattern in patterns {
            self.exclude.push(Pattern::parse(pattern.as_ref())?);
        }
        Ok(self)
    }

    /// Whether something is wanted, given that the directories above it are.
    pub(crate) fn wanted(&self, path: &str, is_directory: bool) -> bool {
        if self.exclude.iter().any(|pattern| pattern.means(path, is_directory)) {
            return false;
        }
        // A directory may have something in it that is.
        is_directory || self.included(path)
    }

    /// Whether something is wanted of which only the path is known.
    pub(crate) fn wanted_anywhere(&self, path: &str, is_directory: bool) -> bool {
        above(path).all(|directory| self.wanted(directory, true)) && self.wanted(path, is_directory)
    }

    fn included(&self, path: &str) -> bool {
        self.include.is_empty()
            || self.include.iter().any(|pattern| {
                pattern.means(path, false) || above(path).any(|directory| pattern.means(directory, true))
            })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self> {
        let invalid = |reason: &str| TransferError::Invalid {
            what: "a pattern",
            given: text.to_owned(),
            reason: reason.to_owned(),
        };
        if text.len() > LONGEST {
            return Err(invalid("it is too long"));
        }
        let (body, directories_only) = match text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let anchored = body.contains('/');
        let body = body.strip_prefix('/').unwrap_or(body);
        let mut names: Vec<Vec<char>> = body.split('/').map(|name| name.chars().collect()).collect();
        if names.iter().any(Vec::is_empty) {
            return Err(invalid("a name in it is empty"));
        }
        if !anchored {
            names.insert(0, vec!['*', '*']);
        }
        Ok(Self { names, directories_only })
    }

    fn means(&self, path: &str, is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let names: Vec<Vec<char>> = path.split('/').map(|name| name.chars().collect()).collect();
        // `reached[n]`: whether the patterns so far can mean the first `n` names.
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        for pattern in &self.names {
            let mut next = vec![false; names.len() + 1];
            if pattern == &['*', '*'] {
                let mut any = false;
                for (after, before) in next.iter_mut().zip(&reached) {
                    any |= *before;
                    *after = any;
                }
            } else {
                for (place, name) in names.iter().enumerate() {
                    next[place + 1] = reached[place] && name_matches(pattern, name);
                }
            }
            reached = next;
        }
        reached[names.len()]
    }
}

/// Whether one name is meant. Takes at most as many steps as pattern and name multiplied.
fn name_matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while here < name.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, here));
            at += 1;
            continue;
        }
        if let Some(length) = one_matches(&pattern[at..], name[here]) {
            at += length;
            here += 1;
            continue;
        }
        let Some((after, from)) = star else { return false };
        star = Some((after, from + 1));
        (at, here) = (after, from + 1);
    }
    pattern[at..].iter().all(|&character| character == '*')
}

/// The length of what stands for one character, if it does.
fn one_matches(pattern: &[char], character: char) -> Option<usize> {
    match *pattern.first()? {
        '?' => Some(1),
        '[' => match class(pattern, character) {
            Some((length, found)) => found.then_some(length),
            None => (character == '[').then_some(1),
        },
        '\\' if pattern.len() > 1 => (pattern[1] == character).then_some(2),
        other => (other == character).then_some(1),
    }
}

/// The length of `[…]`, and whether the character is in it; nothing if it never ends.
fn class(pattern: &[char], character: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    let end = first + 1 + pattern.get(first + 1..)?.iter().position(|&one| one == ']')?;
    let mut found = false;
    let mut at = first;
    while at < end {
        if at + 2 < end && pattern[at + 1] == '-' {
            found |= (pattern[at]..=pattern[at + 2]).contains(&character);
            at += 3;
        } else {
            found |= pattern[at] == character;
            at += 1;
        }
    }
    Some((end + 1, found != negated))
}

/// The directories above a path, the highest first.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).expect("it is a pattern").means(path, false)
    }

    #[test]
    fn patterns_mean_what_shells_and_git_mean() {
        for (pattern, path) in [
            ("*.py", "a.py"),
            ("*.py", "d/e/a.py"),
            ("d/*.py", "d/a.py"),
            ("/a.py", "a.py"),
            ("d/**", "d/e/f"),
            ("**/f", "f"),
            ("**/f", "d/e/f"),
            ("d/**/f", "d/f"),
            ("d/**/f", "d/e/g/f"),
            ("[a-c]?", "b1"),
            ("[!a]", "b"),
            ("[", "["),
            ("\\*", "*"),
            ("*a*a*a*b", "aaaaaaab"),
            ("[]]", "]"),
        ] {
            assert!(means(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.py", "a.pyc"),
            ("d/*.py", "e/d/a.py"),
            ("d/*", "d/e/f"),
            ("/a", "d/a"),
            ("[!a]", "a"),
            ("?", "ab"),
            ("*a*a*a*b", "aaaaaaaa"),
            ("\\*", "a"),
        ] {
            assert!(!means(pattern, path), "{pattern} {path}");
        }
        assert!(Pattern::parse("a//b").is_err() && Pattern::parse("").is_err());
    }

    #[test]
    fn excluded_directories_hide_what_is_in_them() {
        let globs = Globs::usual().include(["*.py", "docs/"]).expect("they are patterns");
        assert!(globs.wanted_anywhere("a/b.py", false) && globs.wanted_anywhere("docs/a/b.txt", false));
        assert!(!globs.wanted_anywhere("a/b.txt", false));
        assert!(!globs.wanted_anywhere("x/.venv/b.py", false) && globs.wanted_anywhere(".venv.py", false));
        assert!(globs.wanted("x", true) && !globs.wanted("x/__pycache__", true));
    }
}
