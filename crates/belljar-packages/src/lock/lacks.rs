//! Whether a lock has what is asked for.

use std::str::FromStr;

use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl, pep440_rs::Version};

use super::Lock;
use crate::{
    file_name::{WheelName, normalised},
    spec::Spec,
};

/// What a [`Lock`] lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lacking {
    /// The package's normalised name.
    pub package: String,
    /// The version of it that the lock has, if any.
    pub found: Option<String>,
    /// What is asked for.
    pub wanted: String,
}

impl Lock {
    /// What the lock lacks of `spec`, as far as that can be told without asking anybody: requirements and wheels are
    /// compared, by name and version.
    pub fn lacks(&self, spec: &Spec) -> Option<Lacking> {
        match spec {
            Spec::Requirement(text) => self.lacks_requirement(text),
            Spec::Wheel(path) => {
                let name = WheelName::parse(path.file_name()?.to_str()?)?;
                let wanted = format!("{}=={}", name.name, name.version);
                self.compare(&name.name, wanted, |found| same(found, &name.version))
            }
            _ => None,
        }
    }

    fn lacks_requirement(&self, text: &str) -> Option<Lacking> {
        // First: it refuses what the parser couldn't bear.
        if !self.target.applies(text).unwrap_or(false) {
            return None;
        }
        let parsed = Requirement::<VerbatimUrl>::from_str(text).ok()?;
        let wanted = text.split(';').next().unwrap_or(text).trim().to_owned();
        let fits = |found: &Version| match &parsed.version_or_url {
            None => true,
            Some(VersionOrUrl::VersionSpecifier(range)) => range.contains(found),
            Some(VersionOrUrl::Url(url)) => {
                let file = url.raw().path().rsplit('/').next().and_then(WheelName::parse);
                file.is_none_or(|file| same(found, &file.version))
            }
        };
        self.compare(&normalised(parsed.name.as_ref()), wanted, fits)
    }

    fn compare(&self, name: &str, wanted: String, fits: impl Fn(&Version) -> bool) -> Option<Lacking> {
        let lacking = |found| Some(Lacking { package: name.to_owned(), found, wanted });
        let Some(package) = self.packages().find(|package| package.name == name) else {
            return lacking(None);
        };
        // Those without a version are from this machine, and stand for any.
        let version = Version::from_str(&package.version).ok().filter(|_| package.version != "0");
        match version.is_none_or(|version| fits(&version)) {
            true => None,
            false => lacking(Some(package.version.clone())),
        }
    }
}

/// However they are spelled: `1.0` is `1.0.0`.
fn same(found: &Version, wanted: &str) -> bool {
    Version::from_str(wanted).is_ok_and(|wanted| wanted == *found)
}
