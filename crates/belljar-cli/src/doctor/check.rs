//! One thing that was looked at.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: Cow<'static, str>,
    pub(crate) health: Health,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    Good,
    /// Belljar runs, but not as well as it could.
    Poor,
    /// Belljar doesn't run.
    Bad,
}

impl Check {
    pub(crate) fn good(name: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Self {
        Self { name: name.into(), health: Health::Good, found: found.into(), advice: None }
    }

    pub(crate) fn poor(
        name: impl Into<Cow<'static, str>>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), health: Health::Poor, found: found.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn bad(
        name: impl Into<Cow<'static, str>>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), health: Health::Bad, found: found.into(), advice: Some(advice.into()) }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.health {
            Health::Good => '✓',
            Health::Poor => '!',
            Health::Bad => '✗',
        };
        write!(formatter, "{mark} {:<15} {}", self.name, self.found)?;
        match &self.advice {
            Some(advice) => write!(formatter, "\n  {:<15} → {advice}", ""),
            None => Ok(()),
        }
    }
}
