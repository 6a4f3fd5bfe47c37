//! A session as one file.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::arguments::Common;
use crate::console;
use crate::runtimes::RuntimeArguments;
use crate::size::Size;

pub(super) fn export(name: &str, file: &Path, common: Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let registry = keeping.registry()?;
    let bytes = registry.export(name, file)?;
    if !answer.json && registry.files(name)?.is_some() {
        console::note(format_args!(
            "the files on disk are not in it: `belljar workspace export` writes those"
        ));
    }
    let document = || json!({ "session": name, "file": file, "bytes": bytes });
    answer.give(document, || format!("{name}: {} in {}", Size(bytes), file.display()))
}

pub(super) fn import(
    file: &Path,
    name: Option<&str>,
    runtime: RuntimeArguments,
    common: Common,
) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.split()?;
    let imported = keeping.registry()?.import(file, name, &runtime.runtimes()?)?;
    if !answer.json {
        for mount in &imported.dropped_mounts {
            console::note(format_args!("the mount at {mount} was not taken over; --mount gives it one"));
        }
    }
    answer.give(|| &imported, || imported.session.id.to_string())
}
