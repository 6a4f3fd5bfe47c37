//! What environments there are.

use std::process::ExitCode;

use belljar::NamedEnvironment;
use serde::Serialize;

use super::arguments::Common;
use crate::failure;
use crate::moment::Ago;
use crate::runtimes::RuntimeArguments;
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;

#[derive(Serialize)]
struct Listed {
    name: String,
    created_ms: u64,
    /// As they were asked for.
    packages: Vec<String>,
    preload: Vec<String>,
    /// What they take in the cache; none if they aren't there.
    bytes: Option<u64>,
}

pub(super) fn list(runtime: RuntimeArguments, common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let (environments, runtimes) = (keeping.environments()?, runtime.runtimes()?);
    let (mut listed, mut damaged) = (Vec::new(), Vec::new());
    for name in environments.names()? {
        let read = environments.get(&name).and_then(|named| {
            let bytes = named.environment()?.installed_bytes(&runtimes)?;
            Ok(Listed::new(named, bytes))
        });
        match read {
            Ok(environment) => listed.push(environment),
            Err(error) => damaged.push((name, error)),
        }
    }
    let named: Vec<&String> = damaged.iter().map(|(name, _)| name).collect();
    let document = || serde_json::json!({ "environments": listed, "damaged": named });
    let done = answer.give(document, || match &listed[..] {
        [] => "no environments; `belljar env create NAME --package SPEC` makes one".to_owned(),
        environments => environment_table(environments),
    })?;
    let damage = !damaged.is_empty();
    for (name, error) in damaged {
        failure::tell(&anyhow::Error::from(error).context(name));
    }
    Ok(if damage { ExitCode::FAILURE } else { done })
}

impl Listed {
    fn new(named: NamedEnvironment, bytes: Option<u64>) -> Self {
        let NamedEnvironment { name, created_ms, packages, preload, .. } = named;
        Self { name, created_ms, packages, preload, bytes }
    }
}

fn environment_table(environments: &[Listed]) -> String {
    let columns = [("NAME", Left), ("MADE", Left), ("SIZE", Right), ("PACKAGES", Left), ("PRELOADED", Left)];
    let words = |texts: &[String]| if texts.is_empty() { "-".to_owned() } else { texts.join(" ") };
    let row = |environment: &Listed| {
        vec![
            environment.name.clone(),
            Ago(environment.created_ms).to_string(),
            environment.bytes.map_or_else(|| "-".to_owned(), |bytes| Size(bytes).to_string()),
            words(&environment.packages),
            words(&environment.preload),
        ]
    };
    table(&columns, &environments.iter().map(row).collect::<Vec<_>>())
}
