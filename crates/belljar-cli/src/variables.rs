//! Variables that the command itself reads: those of its environment, and of the file that `--env-file` names. Nothing
//! of it is seen by the code that is run.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::failure::Usage;

/// Longer than anybody's file of variables.
const LONGEST: u64 = 1 << 20;

/// The environment, and beside it what a file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    file: BTreeMap<String, String>,
}

impl Variables {
    /// Reads the file, if there is one.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, Usage> {
        let Some(path) = file else { return Ok(Self::default()) };
        let unreadable = |reason: String| Usage {
            message: format!("cannot read {}: {reason}", path.display()),
            hint: "--env-file names a file with lines such as SESSION_STORAGE=BIND",
        };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > LONGEST {
            return Err(unreadable("it is longer than 1 MiB".to_owned()));
        }
        let file = parse(&text).map_err(|(line, reason)| unreadable(format!("line {line}: {reason}")))?;
        Ok(Self { file })
    }

    /// What one is set to. The environment beats the file, and one that is empty isn't set.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let own = env::var(name).ok().filter(|value| !value.is_empty());
        own.or_else(|| self.file.get(name).cloned().filter(|value| !value.is_empty()))
    }
}

/// Lines `NAME=VALUE`, as Docker reads them: quotes are a part of the value. Unlike there, a `#` after a space begins a
/// comment. The error is the number of a line, and what is wrong with it.
fn parse(text: &str) -> Result<BTreeMap<String, String>, (usize, &'static str)> {
    let mut variables = BTreeMap::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // A name alone is that of a variable which has its value from the environment.
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if name.is_empty() || name.contains(|character: char| character.is_whitespace() || character == '\0')
        {
            return Err((index + 1, "write NAME=VALUE, without spaces in NAME"));
        }
        variables.insert(name.to_owned(), without_comment(value).to_owned());
    }
    Ok(variables)
}

fn without_comment(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    let comment = value.match_indices('#').find(|(index, _)| value[..*index].ends_with([' ', '\t']));
    comment.map_or(value, |(index, _)| &value[..index]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_variables() {
        let text = "\u{feff}# a comment\n\nSESSION_STORAGE=TMPFS        # TMPFS | BIND\r\n  A=b=c\nURL=http://x/#y\n\
                    QUOTED=\"x\"\nSPACED= y \nEMPTY=\nALONE\n#B=c\nNOTHING=# at all\n";
        let read = parse(text).expect("it is right");
        let expected = [
            ("SESSION_STORAGE", "TMPFS"),
            ("A", "b=c"),
            ("URL", "http://x/#y"),
            ("QUOTED", "\"x\""),
            ("SPACED", " y"),
            ("EMPTY", ""),
            ("ALONE", ""),
            ("NOTHING", ""),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        for (wrong, line) in [("A=1\nB C=2", 2), ("=x", 1), ("export A=1", 1), ("a b", 1)] {
            assert_eq!(parse(wrong).map_err(|(line, _)| line), Err(line), "{wrong}");
        }
    }
}
