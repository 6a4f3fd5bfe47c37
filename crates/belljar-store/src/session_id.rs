//! The names of sessions and tenants.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::StoreError;

const LONGEST: usize = 64;

/// The name of a session: letters, digits, `.`, `_` and `-`; the first is a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidName`] says which rule it breaks.
    pub fn parse(name: &str) -> Result<Self, StoreError> {
        check_name("a session", name)?;
        Ok(Self(name.to_owned()))
    }

    /// A new name that nobody has: `s-<time>-<random>`. Later names sort after earlier ones.
    #[must_use]
    pub fn generate() -> Self {
        let time = base32(clock::now_ms(), 9);
        let random = base32(u64::from_le_bytes(clock::random()) & ((1 << 40) - 1), 8);
        Self(format!("s-{time}-{random}"))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether something of a tenant's own can be called this.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let refuse = |reason| Err(StoreError::InvalidName { what, given: clipped(name), reason });
    let Some(first) = name.bytes().next() else { return refuse("it is empty") };
    if name.len() > LONGEST {
        return refuse("it is longer than 64 characters");
    }
    if !first.is_ascii_alphanumeric() {
        return refuse("it doesn't begin with a letter or digit");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return refuse("it has characters other than letters, digits, '.', '_' and '-'");
    }
    Ok(())
}

/// Whose sessions: nothing is ever shared between two tenants. Small letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

impl Tenant {
    /// The tenant of whoever runs Belljar on their own machine.
    #[must_use]
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidName`] says which rule it breaks.
    pub fn parse(name: &str) -> Result<Self, StoreError> {
        let refuse = |reason| Err(StoreError::InvalidName { what: "a tenant", given: clipped(name), reason });
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > LONGEST {
            return refuse("it is longer than 64 characters");
        }
        if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return refuse("it has characters other than small letters, digits and '-'");
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! a_name {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = StoreError;

            fn from_str(name: &str) -> Result<Self, StoreError> {
                Self::parse(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = StoreError;

            fn try_from(name: String) -> Result<Self, StoreError> {
                Self::parse(&name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

a_name!(SessionId);
a_name!(Tenant);

/// Errors quote names that strangers gave; a megabyte of it helps nobody.
fn clipped(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Digits that sort like numbers and can't be misread for each other.
fn base32(number: u64, digits: u32) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..digits).rev().map(|digit| char::from(DIGITS[(number >> (5 * digit)) as usize & 31])).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for name in ["", ".", "..", "-x", "a/b", "a\0", "é", &"x".repeat(65), ".hidden", "a b"] {
            assert!(SessionId::parse(name).is_err(), "{name:?}");
            assert!(Tenant::parse(name).is_err() || name == "-x", "{name:?}");
        }
        assert!(Tenant::parse("Local").is_err());
        for name in ["a", "0", "a.b_c-D", &"x".repeat(64)] {
            assert_eq!(SessionId::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn generated_names_are_names_and_differ_and_sort_by_time() {
        let one = SessionId::generate();
        std::thread::sleep(std::time::Duration::from_millis(3));
        let two = SessionId::generate();
        assert_ne!(one, two);
        assert!(one.as_str()[..11] <= two.as_str()[..11]);
        SessionId::parse(one.as_str()).unwrap();
        assert_eq!(one.as_str().len(), 2 + 9 + 1 + 8);
    }
}
