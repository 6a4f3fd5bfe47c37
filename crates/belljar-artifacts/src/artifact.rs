//! What is told of an artifact.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::{ArtifactError, Result};

/// Names an artifact: `art_` and 26 characters of `0-9a-z`, the first ten of which are the time. Later ones sort
/// later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactId(pub(crate) String);

const PREFIX: &str = "art_";
/// Of the time, and of what nobody can guess.
const DIGITS: (u32, u32) = (10, 16);

impl ArtifactId {
    /// A new one, at a time in milliseconds since 1970. It sorts after all that this process made before, also if the
    /// clock was set back.
    #[must_use]
    pub fn generate(now_ms: u64) -> Self {
        static LAST: Mutex<(u64, u128)> = Mutex::new((0, 0));
        let now = now_ms.min((1 << (5 * DIGITS.0)) - 1);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        *last = if now > last.0 {
            // Room is left above for those of the same millisecond.
            (now, u128::from_le_bytes(clock::random()) >> (128 - 5 * DIGITS.1 + 1))
        } else {
            (last.0, last.1 + 1)
        };
        let (time, random) = *last;
        Self(format!("{PREFIX}{}{}", base32(time.into(), DIGITS.0), base32(random, DIGITS.1)))
    }

    /// Reads an id.
    ///
    /// # Errors
    /// If it can't be one.
    pub fn parse(text: &str) -> Result<Self> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        if digits.len() != (DIGITS.0 + DIGITS.1) as usize || !digits.bytes().all(is_digit) {
            let reason = "it isn't art_ and 26 small letters and digits";
            return Err(ArtifactError::invalid("an artifact's id", text, reason));
        }
        Ok(Self(text.to_owned()))
    }

    /// When it was made, in milliseconds since 1970.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        let digits = self.0[PREFIX.len()..].bytes().take(DIGITS.0 as usize);
        digits.fold(0, |time, digit| time << 5 | value_of(digit))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for ArtifactId {
    type Err = ArtifactError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ArtifactId {
    type Error = ArtifactError;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> Self {
        id.0
    }
}

/// Digits that sort like numbers and can't be misread for each other.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn base32(number: u128, digits: u32) -> String {
    (0..digits).rev().map(|digit| char::from(ALPHABET[(number >> (5 * digit)) as usize & 31])).collect()
}

/// What a digit stands for; nothing, if it is none.
fn value_of(digit: u8) -> u64 {
    ALPHABET.iter().position(|one| *one == digit).unwrap_or_default() as u64
}

/// A file that came out of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id.
    pub id: ArtifactId,
    /// Its path below `artifacts/`, or a made-up name for what was displayed.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What its first bytes say that it is; where they say nothing, what its name says.
    pub mime: String,
    /// Of its contents, in 64 hexadecimal digits.
    pub sha256: String,
    /// When it was kept, as RFC 3339 in UTC with milliseconds.
    pub created_at: String,
    /// A signed link, if there are keys to sign with.
    #[serde(default)]
    pub url: Option<String>,
    /// The session.
    pub session: String,
    /// The number of its cell.
    pub cell: u32,
    /// What the agent's framework calls the tool call that ran the cell.
    #[serde(default)]
    pub tool_call: Option<String>,
    /// Artifacts that the cell had read.
    #[serde(default)]
    pub parents: Vec<ArtifactId>,
    /// Kept until it is removed by name.
    #[serde(default)]
    pub pinned: bool,
    /// Its cell was taken back later.
    #[serde(default)]
    pub taken_back: bool,
}

/// A file that wasn't kept. It is still in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its path below `artifacts/`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What kind of reason there is.
    pub why: Refusal,
    /// The reason in words.
    pub reason: String,
}

/// Why a file wasn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It is larger than one may be.
    TooLarge,
    /// There are more of one cell than there may be.
    TooMany,
    /// Files of its kind don't leave.
    Mime,
    /// The host's hook said no.
    Hook,
    /// The session has no room for it.
    SessionQuota,
    /// The tenant has no room for it.
    TenantQuota,
    /// The store has no room for it.
    StoreQuota,
    /// It isn't a file: a link, a pipe.
    NotAFile,
    /// It can't be called that.
    Name,
    /// It could not be read, or not be written.
    Failed,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_they_were_made_whatever_the_clock_does() {
        let ids: Vec<_> = [5_000, 5_000, 4_000, 0, 5_001, u64::MAX, 7].map(ArtifactId::generate).into();
        assert!(ids.is_sorted_by(|one, two| one < two), "{ids:?}");
        for id in ids {
            assert_eq!(ArtifactId::parse(id.as_str()).unwrap(), id);
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let id = ArtifactId::generate(1).to_string();
        for text in ["", "art_", "../../x", &id[4..], &id[..29], &format!("{id}0"), &id.to_uppercase()] {
            assert!(ArtifactId::parse(text).is_err(), "{text}");
            assert!(serde_json::from_value::<ArtifactId>(text.into()).is_err(), "{text}");
        }
        assert!(ArtifactId::parse(&format!("{}\0", &id[..29])).is_err());
    }
}
