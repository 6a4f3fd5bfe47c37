use std::ops::Deref;

/// Names in a list of what was skipped; more are only counted.
pub const MOST_SKIPPED: usize = 1_000;

/// Something that wasn't moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is, as it was given, with what can't be printed escaped.
    pub path: String,
    /// Why, for people.
    pub reason: String,
}

/// What wasn't moved: the first ones by name, and how many in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedList {
    told: Vec<Skipped>,
    total: u64,
}

impl SkippedList {
    /// How many, with those that aren't listed.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn add(&mut self, path: &str, reason: impl Into<String>) {
        self.total += 1;
        if self.told.len() < MOST_SKIPPED {
            self.told.push(Skipped { path: printable(path), reason: reason.into() });
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        let untold = other.total - other.told.len() as u64;
        for skipped in other.told {
            self.add(&skipped.path, skipped.reason);
        }
        self.total += untold;
    }
}

impl Deref for SkippedList {
    type Target = [Skipped];

    fn deref(&self) -> &[Skipped] {
        &self.told
    }
}

/// A name that a terminal can show, and not too much of it.
pub(crate) fn printable(path: &str) -> String {
    const MOST: usize = 512;
    let mut shown = String::new();
    for character in path.chars() {
        if shown.len() > MOST {
            shown.push('…');
            break;
        }
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}
