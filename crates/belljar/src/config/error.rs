//! What can be wrong with a `belljar.toml`.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A `belljar.toml` that can't be used. Nothing was started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It isn't TOML.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser said.
        message: String,
    },
    /// A key that nobody knows.
    #[error("{place}: there is no key `{key}` {}", of_table(table))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The table that it is in; empty outside of tables.
        table: String,
        /// What to write instead.
        advice: String,
    },
    /// A value that makes no sense.
    #[error("{place}: {problem}")]
    Value {
        /// Where.
        place: Place,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        advice: Option<String>,
    },
    /// A file that nobody named asks for what only one that is trusted may have.
    #[error("{place}: {problem}")]
    Untrusted {
        /// Where.
        place: Place,
        /// What it asks for.
        problem: String,
    },
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl ConfigError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => Some("name a file that is there and can be read".to_owned()),
            Self::Syntax { .. } => {
                Some("the file is TOML: `key = value` below `[table]`, with texts in quotes".to_owned())
            }
            Self::UnknownKey { advice, .. } => Some(advice.clone()),
            Self::Value { advice, .. } => advice.clone(),
            Self::Untrusted { place, .. } => Some(format!(
                "if you trust the file, name it: `--config {}`; one that is only found can name nothing outside of \
                 its directory",
                place.file.display()
            )),
        }
    }
}

fn of_table(table: &str) -> String {
    if table.is_empty() { "outside of tables".to_owned() } else { format!("in [{table}]") }
}
