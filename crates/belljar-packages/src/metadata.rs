//! What a distribution says of itself: `METADATA`, `PKG-INFO`, `pyproject.toml`.

use std::str::FromStr;

use pep508_rs::pep440_rs::Version;
use serde::Deserialize;

use crate::file_name::normalised;

/// A package's name, version and dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Normalised.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) requires: Vec<String>,
}

impl Metadata {
    /// Reads `METADATA` or `PKG-INFO`: headers like those of a mail.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut metadata = Self { version: "0".into(), ..Self::default() };
        // The description follows after an empty line.
        for line in text.lines().take_while(|line| !line.trim().is_empty()) {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.to_ascii_lowercase().as_str() {
                "name" => metadata.name = normalised(value),
                "version" => metadata.version = value.to_owned(),
                "requires-dist" => metadata.requires.push(value.to_owned()),
                _ => {}
            }
        }
        metadata.is_named().then_some(metadata)
    }

    /// Whether its name is one; a version that isn't one is forgotten. Both are shown, and go into locks.
    fn is_named(&mut self) -> bool {
        if Version::from_str(&self.version).is_err() {
            self.version = "0".into();
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !self.name.is_empty() && self.name.len() <= 200 && self.name.bytes().all(allowed)
    }

    /// Reads `pyproject.toml`. What is dynamic in it would only be known by running its build.
    pub(crate) fn parse_project(text: &str) -> Result<Option<Self>, String> {
        let project: Pyproject = toml_edit::de::from_str(text).map_err(|error| error.message().to_owned())?;
        let Some(project) = project.project else { return Ok(None) };
        if project.dynamic.iter().any(|field| field == "dependencies") {
            return Err("its dependencies are dynamic: only running its build would tell them".into());
        }
        let mut metadata = Self {
            name: normalised(&project.name),
            version: project.version.unwrap_or_else(|| "0".into()),
            requires: project.dependencies,
        };
        match metadata.is_named() {
            true => Ok(Some(metadata)),
            false => Err("its name isn't one".into()),
        }
    }

    /// A `METADATA` for packages that come without.
    pub(crate) fn text(&self) -> String {
        let requires: String = self.requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
        format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n{requires}", self.name, self.version)
    }
}

#[derive(Deserialize)]
struct Pyproject {
    project: Option<Project>,
}

#[derive(Deserialize)]
struct Project {
    name: String,
    version: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    dynamic: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_the_description_is_not() {
        let text =
            "Metadata-Version: 2.1\nName: My.Package\nVersion: 1.2\nRequires-Dist: a>=1\n\nName: other\n";
        let metadata = Metadata::parse(text).expect("metadata");
        assert_eq!((metadata.name.as_str(), metadata.version.as_str()), ("my-package", "1.2"));
        assert_eq!(metadata.requires, ["a>=1"]);
        assert_eq!(Metadata::parse(&metadata.text()), Some(metadata));
        assert_eq!(Metadata::parse("nothing"), None);
    }

    #[test]
    fn projects_are_read() {
        let text = "[project]\nname = 'P'\nversion = '2'\ndependencies = ['b']\n";
        let metadata = Metadata::parse_project(text).expect("read").expect("a project");
        assert_eq!(metadata, Metadata { name: "p".into(), version: "2".into(), requires: vec!["b".into()] });
        let dynamic = "[project]\nname = 'p'\ndynamic = ['dependencies']\n";
        assert!(Metadata::parse_project(dynamic).expect_err("dynamic").contains("dynamic"));
        assert_eq!(Metadata::parse_project("[tool.x]\n"), Ok(None));
        assert!(Metadata::parse_project("[").is_err());
    }
}
