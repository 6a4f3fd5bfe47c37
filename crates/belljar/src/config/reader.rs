//! Reads a TOML table by table, and knows the place of everything in it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml_edit::{Item, TableLike, Value};

use super::error::{ConfigError, Place};
use super::suggestion::advice;
use crate::parse_size;

/// A file, and how what it names is understood.
pub(super) struct Source<'t> {
    pub(super) file: &'t Path,
    pub(super) text: &'t str,
    /// Where relative paths begin.
    pub(super) base: &'t Path,
    pub(super) home: Option<PathBuf>,
    /// Nobody named the file: it can name nothing outside of its directory.
    pub(super) confined: bool,
}

/// A table that has only keys which are known.
pub(super) struct Section<'t> {
    source: &'t Source<'t>,
    name: String,
    table: &'t dyn TableLike,
}

/// A value, and what it is called.
pub(super) struct Entry<'t> {
    source: &'t Source<'t>,
    key: String,
    value: &'t Value,
}

type Result<T> = std::result::Result<T, ConfigError>;

impl Source<'_> {
    pub(super) fn place(&self, span: Option<Range<usize>>) -> Place {
        let before = span.and_then(|span| self.text.get(..span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl<'t> Section<'t> {
    /// A table with any keys.
    pub(super) fn open(source: &'t Source<'t>, name: &str, table: &'t dyn TableLike) -> Self {
        Self { source, name: name.to_owned(), table }
    }

    /// Refuses keys that aren't among these.
    pub(super) fn knows(self, known: &[&str]) -> Result<Self> {
        match self.keys().into_iter().find(|key| !known.contains(key)) {
            None => Ok(self),
            Some(key) => Err(ConfigError::UnknownKey {
                place: self.place(key),
                key: key.to_owned(),
                advice: advice(key, &self.name, known),
                table: self.name,
            }),
        }
    }

    /// In the order of the file.
    pub(super) fn keys(&self) -> Vec<&'t str> {
        self.table.iter().map(|(key, _)| key).collect()
    }

    /// A table in this one.
    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'t>>> {
        let Some(item) = self.table.get(key) else { return Ok(None) };
        let name = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        match item.as_table_like() {
            Some(table) => Ok(Some(Section { source: self.source, name, table })),
            None => {
                let problem = format!("`{key}` is {}, and must be a table", article(item.type_name()));
                let advice = format!("write [{name}], and below it one line for each key");
                Err(self.problem(key, problem, &advice))
            }
        }
    }

    /// A value in this table.
    pub(super) fn entry(&self, key: &str) -> Result<Option<Entry<'t>>> {
        match self.table.get(key) {
            None | Some(Item::None) => Ok(None),
            Some(Item::Value(value)) => Ok(Some(Entry { source: self.source, key: key.to_owned(), value })),
            Some(other) => {
                let problem = format!("`{key}` is {}, and must be a value", article(other.type_name()));
                Err(self.problem(key, problem, &format!("write `{key} = …`")))
            }
        }
    }

    /// Both of them make no sense together.
    pub(super) fn exclude(&self, first: &str, second: &str, advice: &str) -> Result<()> {
        if self.table.contains_key(first) && self.table.contains_key(second) {
            return Err(self.problem(
                second,
                format!("`{first}` and `{second}` cannot both be given"),
                advice,
            ));
        }
        Ok(())
    }

    pub(super) fn problem(&self, key: &str, problem: String, advice: &str) -> ConfigError {
        ConfigError::Value { place: self.place(key), problem, advice: Some(advice.to_owned()) }
    }

    fn place(&self, key: &str) -> Place {
        self.source.place(self.table.key(key).and_then(toml_edit::Key::span))
    }
}

impl<'t> Entry<'t> {
    pub(super) fn place(&self) -> Place {
        self.source.place(self.value.span())
    }

    pub(super) fn text(&self) -> Result<&'t str> {
        self.value.as_str().ok_or_else(|| self.wrong("a text in quotes"))
    }

    pub(super) fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    pub(super) fn number(&self) -> Result<u64> {
        let number = self.value.as_integer().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| self.wrong("a whole number that is not negative"))
    }

    pub(super) fn fraction(&self) -> Result<f64> {
        let number = self.value.as_float().or_else(|| self.value.as_integer().map(|number| number as f64));
        number.ok_or_else(|| self.wrong("a number such as 0.5 or 2"))
    }

    /// The elements of an array.
    pub(super) fn elements(&self) -> Result<Vec<Entry<'t>>> {
        let array = self.value.as_array().ok_or_else(|| self.wrong("an array: [\"…\", \"…\"]"))?;
        let entry = |value| Entry { source: self.source, key: format!("an element of {}", self.key), value };
        Ok(array.iter().map(entry).collect())
    }

    pub(super) fn texts(&self) -> Result<Vec<String>> {
        self.elements()?.iter().map(|element| element.text().map(str::to_owned)).collect()
    }

    pub(super) fn size(&self) -> Result<u64> {
        let expected = "a number of bytes, or a text such as \"256MiB\"";
        match self.value {
            Value::Integer(_) => self.number().map_err(|_| self.wrong(expected)),
            Value::String(text) => {
                parse_size(text.value()).map_err(|error| self.invalid(error.to_string(), error.hint()))
            }
            _ => Err(self.wrong(expected)),
        }
    }

    /// Seconds; none for `"none"`.
    pub(super) fn seconds(&self) -> Result<Option<Duration>> {
        let expected = "a number of seconds, or a text such as \"30s\"";
        let seconds = match self.value {
            Value::Integer(number) => *number.value() as f64,
            Value::Float(number) => *number.value(),
            Value::String(text) if text.value() == "none" => return Ok(None),
            Value::String(text) => {
                let text = text.value().trim();
                text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| self.wrong(expected))?
            }
            _ => return Err(self.wrong(expected)),
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(limit) if !limit.is_zero() => Ok(Some(limit)),
            _ => Err(self.invalid(format!("`{}` must be more than 0 seconds", self.key), None)),
        }
    }

    /// A limit; none for `"none"`.
    pub(super) fn limit<T>(&self, read: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        match self.value.as_str() {
            Some("none") => Ok(None),
            _ => read(self).map(Some),
        }
    }

    /// How long something is kept: seconds, or a text with a unit.
    pub(super) fn age(&self) -> Result<Duration> {
        let wrong = || self.wrong("a number of seconds, or a text such as \"90s\", \"12h\" or \"30d\"");
        let seconds = match self.value {
            Value::Integer(number) => u64::try_from(*number.value()).map_err(|_| wrong())?,
            Value::String(text) => {
                let text = text.value().trim();
                let factor = match text.bytes().next_back() {
                    Some(b's') => 1,
                    Some(b'm') => 60,
                    Some(b'h') => 3600,
                    Some(b'd') => 86_400,
                    _ => return Err(wrong()),
                };
                let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
                number.checked_mul(factor).ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        };
        Ok(Duration::from_secs(seconds))
    }

    /// A path: `~` is the home directory, others begin at the file's directory.
    pub(super) fn path(&self) -> Result<PathBuf> {
        self.path_of(self.text()?)
    }

    /// The same of a text that is a part of the value.
    pub(super) fn path_of(&self, text: &str) -> Result<PathBuf> {
        let path = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let no_home = || self.invalid("there is no home directory".to_owned(), None);
                self.source.home.as_ref().ok_or_else(no_home)?.join(rest.trim_start_matches('/'))
            }
            _ => self.source.base.join(text),
        };
        self.confine(path)
    }

    /// Refuses a path outside of the file's directory, if nobody named the file.
    pub(super) fn confine(&self, path: PathBuf) -> Result<PathBuf> {
        match self.may_read(&path) {
            true => Ok(path),
            false => Err(self.untrusted(outside(&path))),
        }
    }

    pub(super) fn may_read(&self, path: &Path) -> bool {
        !self.source.confined || is_inside(self.source.base, path)
    }

    /// Refuses the value if nobody named the file.
    pub(super) fn trusted(&self, problem: &str) -> Result<()> {
        if self.source.confined { Err(self.untrusted(problem.to_owned())) } else { Ok(()) }
    }

    fn untrusted(&self, problem: String) -> ConfigError {
        ConfigError::Untrusted { place: self.place(), problem }
    }

    pub(super) fn wrong(&self, expected: &str) -> ConfigError {
        let Self { key, value, .. } = self;
        self.invalid(format!("`{key}` is {}, and must be {expected}", shown(value)), None)
    }

    pub(super) fn invalid(&self, problem: String, advice: Option<String>) -> ConfigError {
        ConfigError::Value { place: self.place(), problem, advice }
    }
}

/// Whether a path leads to something in a directory.
pub(super) fn is_inside(base: &Path, path: &Path) -> bool {
    let inside = Path::new(".").join(base).canonicalize().ok();
    // What isn't there yet lies where its parent does.
    let there = Path::new(".").join(path).ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    let climbs = !path.exists() && path.components().any(|part| part.as_os_str() == "..");
    inside.zip(there).is_some_and(|(inside, there)| there.starts_with(&inside) && !climbs)
}

pub(super) fn outside(path: &Path) -> String {
    format!("{} is outside of the file's directory", path.display())
}

/// A value in a few words.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.value().len() < 40 => format!("the text {:?}", text.value()),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(flag) => flag.value().to_string(),
        other => article(other.type_name()),
    }
}

fn article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}
