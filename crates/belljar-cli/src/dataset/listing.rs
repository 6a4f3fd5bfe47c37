//! What datasets there are, and adding to them.

use std::fmt::Write;
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use belljar::{Dataset, DatasetSource, Error, NewDataset};
use serde_json::json;

use super::arguments::{AddArguments, Common};
use crate::failure::Usage;
use crate::limits::NamedDataset;
use crate::moment::Ago;
use crate::places::Places;
use crate::session::printable;
use crate::size::Size;
use crate::table::Align::{Left, Right};
use crate::table::table;

pub(super) fn add(arguments: AddArguments) -> anyhow::Result<ExitCode> {
    let AddArguments { name, source, version, sha256, format, header, description, replace, common } =
        arguments;
    let (answer, keeping) = common.open()?;
    let source = read_source(&source, header, keeping.places())?;
    let mut new = NewDataset::new(name, source);
    (new.version, new.sha256, new.format) = (version, sha256, format);
    (new.description, new.replace) = (description, replace);
    let added = keeping.datasets().add(new)?;
    answer.give(
        || &added,
        || {
            format!(
                "{}@{}: data/{}, from {}",
                added.name,
                added.version,
                added.file_name,
                shown(&added.source)
            )
        },
    )
}

/// Where a dataset comes from, as it is typed.
fn read_source(text: &str, headers: Vec<(String, String)>, places: &Places) -> anyhow::Result<DatasetSource> {
    let source = match text.contains("://") {
        true => match DatasetSource::parse(text).map_err(Error::from)? {
            DatasetSource::Http { url, .. } => {
                return Ok(DatasetSource::Http { url, headers: headers.into_iter().collect() });
            }
            DatasetSource::S3 { url, .. } => {
                DatasetSource::S3 { url, endpoint: places.endpoint(), region: places.region() }
            }
            other => other,
        },
        false => match text.rsplit_once(':') {
            Some((file, function)) if file.ends_with(".py") => {
                DatasetSource::Python { file: readable(file)?, function: function.to_owned() }
            }
            _ => DatasetSource::File { path: readable(text)? },
        },
    };
    if !headers.is_empty() {
        return Err(Usage {
            message: format!("{text} is not fetched by HTTP, and has no headers"),
            hint: "leave out --header",
        }
        .into());
    }
    Ok(source)
}

fn readable(text: &str) -> Result<PathBuf, Usage> {
    let path = Path::new(text);
    match path.is_file() {
        true => Ok(path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        false => Err(Usage {
            message: format!("there is no file {text:?}"),
            hint: "a source is http(s)://…, s3://BUCKET/KEY, a file that is there, or FILE.py:FUNCTION",
        }),
    }
}

/// A source in a few words, without secrets.
fn shown(source: &DatasetSource) -> String {
    match source {
        DatasetSource::Bytes => "a caller".to_owned(),
        source => printable(&source.address()),
    }
}

pub(super) fn list(common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let found = keeping.datasets().list()?;
    answer.give(
        || json!({ "datasets": found }),
        || match &found[..] {
            [] => "no datasets; `belljar dataset add NAME SOURCE` adds one".to_owned(),
            found => dataset_table(found),
        },
    )
}

fn dataset_table(datasets: &[Dataset]) -> String {
    let columns = [
        ("NAME", Left),
        ("VERSION", Left),
        ("SIZE", Right),
        ("FETCHED", Left),
        ("FILE", Left),
        ("SOURCE", Left),
    ];
    let row = |dataset: &Dataset| {
        vec![
            dataset.name.clone(),
            dataset.version.clone(),
            dataset.size.map_or_else(|| "-".to_owned(), |size| Size(size).to_string()),
            dataset.fetched_ms.map_or_else(|| "never".to_owned(), |fetched| Ago(fetched).to_string()),
            dataset.file_name.clone(),
            shown(&dataset.source),
        ]
    };
    table(&columns, &datasets.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn show(name: &NamedDataset, common: &Common) -> anyhow::Result<ExitCode> {
    let (answer, keeping) = common.open()?;
    let dataset = keeping.datasets().get(&name.name, name.version.as_deref())?;
    answer.give(|| &dataset, || described(&dataset))
}

fn described(dataset: &Dataset) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("name", &dataset.name);
    match &dataset.reported_version {
        Some(reported) if *reported != dataset.version => {
            line("version", &format!("{}, which the source calls {}", dataset.version, printable(reported)));
        }
        _ => line("version", &dataset.version),
    }
    if let Some(description) = &dataset.description {
        line("description", &printable(description));
    }
    line("source", &shown(&dataset.source));
    line("file", &format!("data/{}", dataset.file_name));
    line("sha256", dataset.sha256.as_deref().unwrap_or("-"));
    line("size", &dataset.size.map_or_else(|| "-".to_owned(), |size| Size(size).to_string()));
    line("added", &Ago(dataset.added_ms).to_string());
    line(
        "fetched",
        &dataset.fetched_ms.map_or_else(|| "never".to_owned(), |fetched| Ago(fetched).to_string()),
    );
    text
}
