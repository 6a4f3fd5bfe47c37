use std::path::PathBuf;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use super::Lock;
use crate::{
    error::PackageError,
    file_name::normalised,
    target::{Platform, Target},
};

/// A package that comes from this machine.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sha256: String,
    pub(crate) kind: LocalKind,
    /// The packages that it stands for; their releases on the index aren't needed.
    pub(crate) provides: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum LocalKind {
    Wheel(PathBuf),
    Archive(PathBuf),
    Directory(PathBuf),
    SitePackages(PathBuf),
    Extension(String),
}

/// The text of a lock: what uv found, and what is local.
pub(crate) fn compose(
    found: Option<&str>,
    locals: &[Local],
    target: &Target,
) -> Result<String, PackageError> {
    let wrong = |reason: String| PackageError::Lock { reason };
    let mut document: DocumentMut = found
        .unwrap_or("lock-version = \"1.0\"\ncreated-by = \"belljar\"\n")
        .parse()
        .map_err(|error: toml_edit::TomlError| wrong(error.message().to_owned()))?;
    document["created-by"] = value("belljar");
    let packages = document.entry("packages").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if packages.as_array().is_some_and(Array::is_empty) {
        *packages = Item::ArrayOfTables(ArrayOfTables::new());
    }
    let packages =
        packages.as_array_of_tables_mut().ok_or_else(|| wrong("`packages` isn't a list".into()))?;
    packages.retain(|package| {
        let name = package.get("name").and_then(Item::as_str).map(normalised).unwrap_or_default();
        !locals.iter().any(|local| local.provides.contains(&name))
    });
    for local in locals {
        packages.push(table(local)?);
    }
    if let Target::Native(platform) = target {
        dedicate(&mut document, platform);
    }
    Ok(document.to_string())
}

/// Says what a lock is for: in the standard's words for all who read it, and exactly for Belljar.
fn dedicate(document: &mut DocumentMut, platform: &Platform) {
    let Platform { minor, machine, glibc, .. } = platform;
    document["requires-python"] = value(format!("==3.{minor}.*"));
    let marker = format!(
        "sys_platform == 'linux' and platform_machine == '{machine}' and implementation_name == 'cpython'"
    );
    document["environments"] = value(Array::from_iter([marker]));
    let mut ours = Table::new();
    ours["engine"] = value("native");
    ours["python"] = value(platform.python());
    ours["machine"] = value(machine);
    ours["glibc"] = value(format!("{}.{}", glibc.0, glibc.1));
    let mut tool = Table::new();
    tool.set_implicit(true);
    tool.insert("belljar", Item::Table(ours));
    document.insert("tool", Item::Table(tool));
}

impl Lock {
    /// The lock with those packages of another that it hasn't, and with what it is for.
    ///
    /// # Errors
    /// If it doesn't list its packages as `[[packages]]`.
    pub(crate) fn with(&self, other: &Self) -> Result<Self, PackageError> {
        let wrong = |reason: &str| PackageError::Lock { reason: reason.to_owned() };
        let parse = |text: &str| text.parse::<DocumentMut>().map_err(|error| wrong(error.message()));
        let (mut document, mut more) = (parse(&self.text)?, parse(&other.text)?);
        let known = |table: &Table| {
            let name = table.get("name").and_then(Item::as_str).map(normalised).unwrap_or_default();
            self.packages.iter().any(|package| package.name == name)
        };
        let packages = document.entry("packages").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if packages.as_array().is_some_and(Array::is_empty) {
            *packages = Item::ArrayOfTables(ArrayOfTables::new());
        }
        let packages =
            packages.as_array_of_tables_mut().ok_or_else(|| wrong("it has no list of [[packages]]"))?;
        let tables = more.get_mut("packages").and_then(Item::as_array_of_tables_mut).map(std::mem::take);
        for mut table in tables.unwrap_or_default().into_iter().filter(|table| !known(table)) {
            // After all that are there.
            table.set_position(isize::MAX);
            packages.push(table);
        }
        if let Target::Native(platform) = &self.target {
            dedicate(&mut document, platform);
        }
        Self::parse_for(&document.to_string(), &self.base, &self.target)
    }
}

fn table(local: &Local) -> Result<Table, PackageError> {
    let mut table = Table::new();
    table["name"] = value(&local.name);
    table["version"] = value(&local.version);
    let mut ours = Table::new();
    let place = |path: &PathBuf| -> Result<InlineTable, PackageError> {
        let text = path.to_str().ok_or_else(|| PackageError::unreadable(path, "its path isn't UTF-8"))?;
        let mut place = InlineTable::new();
        place.insert("path", text.into());
        Ok(place)
    };
    let file = |path: &PathBuf| -> Result<InlineTable, PackageError> {
        let mut file = place(path)?;
        let mut hashes = InlineTable::new();
        hashes.insert("sha256", local.sha256.as_str().into());
        file.insert("hashes", hashes.into());
        Ok(file)
    };
    ours["kind"] = match &local.kind {
        LocalKind::Wheel(path) => {
            let mut wheels = Array::new();
            wheels.push(file(path)?);
            table["wheels"] = value(wheels);
            return Ok(table);
        }
        LocalKind::Archive(path) => {
            table["archive"] = value(file(path)?);
            value("archive")
        }
        LocalKind::Directory(path) => {
            table["directory"] = value(place(path)?);
            value("directory")
        }
        LocalKind::SitePackages(path) => {
            table["directory"] = value(place(path)?);
            value("site-packages")
        }
        LocalKind::Extension(path) => {
            ours["path"] = value(path);
            value("extension")
        }
    };
    ours["sha256"] = value(&local.sha256);
    let mut tool = Table::new();
    tool.set_implicit(true);
    tool.insert("belljar", Item::Table(ours));
    table.insert("tool", Item::Table(tool));
    Ok(table)
}
