//! Making environments, and looking into them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use belljar::{Environment, EnvironmentInfo, Error, Lock, NamedEnvironment};
use serde_json::json;

use super::arguments::{Common, CreateArguments};
use crate::environments::PackageArguments;
use crate::failure::Usage;
use crate::progress;
use crate::runtimes::RuntimeArguments;
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;

pub(super) fn create(arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let CreateArguments { name, setup, packages, runtime, common } = arguments;
    let (answer, keeping) = common.split()?;
    let environments = keeping.environments()?;
    // A name that can't be is refused before anything is made.
    let replaced = match environments.get(&name) {
        Ok(_) => true,
        Err(Error::NoSuchEnvironment { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    let setting = packages.setting(runtime)?;
    let mut environment = setting.environment(|| Ok(keeping.clone()))?;
    if let Some(file) = setup {
        environment.setup = fs::read_to_string(&file).map_err(|error| Usage {
            message: format!("cannot read {}: {error}", file.display()),
            hint: "--setup names a file with Python",
        })?;
    }
    if environment.is_plain() {
        return Err(Usage {
            message: format!("there is nothing to make {name} of"),
            hint: "name packages with --package SPEC, or in [environment] of a belljar.toml in the working directory",
        }
        .into());
    }
    let progress = progress::for_audience(answer.audience());
    lock(&mut environment, &setting.runtimes, &*progress)?;
    let info = environment.make(&setting.runtimes, &*progress)?;
    drop(progress);
    environments.define(&NamedEnvironment::new(&name, setting.package_texts(), &environment))?;
    let document = || json!({ "name": name, "replaced": replaced, "environment": info });
    answer.give(document, || {
        let verb = if replaced { "made anew" } else { "made" };
        format!("{name}: {verb}, {}\n{}", summary(&info), description(&info, environment.lock.as_ref()))
    })
}

pub(super) fn show(
    name: Option<&str>,
    packages: PackageArguments,
    runtime: RuntimeArguments,
    common: Common,
) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let setting = packages.setting(runtime)?;
    let mut environment = match name {
        Some(name) => keeping.environments()?.get(name)?.environment()?,
        None => setting.environment(|| Ok(keeping.clone()))?,
    };
    let progress = progress::for_audience(answer.audience());
    lock(&mut environment, &setting.runtimes, &*progress)?;
    let info = environment.make(&setting.runtimes, &*progress)?;
    drop(progress);
    let hashes = hashes(environment.lock.as_ref());
    let document =
        || json!({ "name": name, "environment": info, "sha256": hashes, "setup": environment.setup });
    answer.give(document, || description(&info, environment.lock.as_ref()))
}

fn lock(
    environment: &mut Environment,
    runtimes: &belljar::Runtimes,
    progress: &dyn belljar::Progress,
) -> Result<(), Error> {
    if environment.lock.is_none() && !environment.packages.is_empty() {
        environment.lock = Some(environment.lock(runtimes, progress)?);
    }
    Ok(())
}

fn summary(info: &EnvironmentInfo) -> String {
    match info.packages.len() {
        1 => format!("1 package, {}", Size(info.bytes)),
        count => format!("{count} packages, {}", Size(info.bytes)),
    }
}

fn description(info: &EnvironmentInfo, lock: Option<&Lock>) -> String {
    let hashes = hashes(lock);
    let columns = [("PACKAGE", Left), ("VERSION", Left), ("SIZE", Right), ("SHA256", Left), ("", Left)];
    let rows = info.packages.iter().map(|package| {
        let hash = hashes.get(&package.name).map_or("-", |hash| hash.get(..16).unwrap_or(hash));
        let note = if package.without_native { "without its native parts" } else { "" };
        let (name, version) = (package.name.clone(), package.version.clone());
        vec![name, version, Size(package.bytes).to_string(), hash.to_owned(), note.to_owned()]
    });
    let mut text = match &info.packages[..] {
        [] => "no packages\n".to_owned(),
        _ => table(&columns, &rows.collect::<Vec<_>>()),
    };
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("size", &Size(info.bytes).to_string());
    if !info.native_modules.is_empty() {
        line("native", &shortened(&info.native_modules));
    }
    if !info.preload.is_empty() {
        line("preloaded", &info.preload.join(", "));
    }
    if let Some(directory) = &info.directory {
        line("directory", &directory.display().to_string());
    }
    line("id", &info.id);
    text
}

fn hashes(lock: Option<&Lock>) -> BTreeMap<String, String> {
    lock.map(belljar::lock_hashes).unwrap_or_default()
}

/// A package such as pandas has dozens of native modules; `--json` lists them all.
fn shortened(modules: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = modules.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match modules.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
