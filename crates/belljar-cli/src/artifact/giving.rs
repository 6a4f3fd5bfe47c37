//! An artifact's contents, and links to them.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use belljar::{Artifact, Artifacts, Disposition, LinkOptions};
use serde_json::json;

use super::arguments::{Common, UrlArguments};
use crate::console;
use crate::failure::Usage;
use crate::size::Size;

/// What is read at once.
const PIECE: usize = 256 << 10;

pub(super) fn get(
    given: &str,
    output: Option<&Path>,
    audience: Option<&str>,
    common: &Common,
) -> anyhow::Result<ExitCode> {
    let (answer, artifacts) = common.open_for(given)?;
    // An id has neither.
    let id = match given.contains(['/', '?']) {
        true => artifacts.check_link(given, audience)?.artifact.to_string(),
        false => given.to_owned(),
    };
    let artifact = artifacts.get(&id)?;
    let to_output = output.is_none_or(|output| output == Path::new("-"));
    if to_output {
        if answer.json {
            return Err(Usage {
                message: "the contents and the JSON cannot both go to standard output".to_owned(),
                hint: "name a file with -o, or leave out --json",
            }
            .into());
        }
        if output.is_none() && io::stdout().is_terminal() && !is_text(&artifact) {
            return Err(Usage {
                message: format!("{} is {}, which a terminal cannot show", artifact.id, artifact.mime),
                hint: "name a file with -o FILE; -o - writes it to the terminal all the same",
            }
            .into());
        }
        print(&artifacts, &id)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = file_for(output.unwrap_or(Path::new(".")), &artifact)?;
    let bytes = artifacts.copy_to(&id, &file)?;
    let document =
        || json!({ "id": artifact.id, "written": file, "bytes": bytes, "sha256": artifact.sha256 });
    answer.give(document, || format!("{}: {}", file.display(), Size(bytes)))
}

fn is_text(artifact: &Artifact) -> bool {
    let mime = artifact.mime.as_str();
    mime.starts_with("text/") || ["application/json", "application/xml", "image/svg+xml"].contains(&mime)
}

fn print(artifacts: &Artifacts, id: &str) -> anyhow::Result<()> {
    let mut contents = artifacts.read(id)?;
    let mut piece = vec![0; PIECE];
    loop {
        match contents.read(&mut piece).with_context(|| format!("{id} cannot be read"))? {
            0 => return Ok(()),
            read => console::print(&piece[..read]),
        }
    }
}

/// The file that is meant: in a directory, it is called what the artifact is.
fn file_for(output: &Path, artifact: &Artifact) -> anyhow::Result<PathBuf> {
    let into = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !into {
        return Ok(output.to_owned());
    }
    fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    // The name comes from the guest: it hides nothing, confuses no terminal and replaces nothing.
    let name = artifact.name.rsplit('/').next().unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let name = Some(name.trim_start_matches('.')).filter(|name| !name.is_empty());
    let file = output.join(name.unwrap_or(artifact.id.as_str()));
    if file.symlink_metadata().is_ok() {
        return Err(Usage {
            message: format!("{} is there already", file.display()),
            hint: "name the file itself with -o FILE to replace it",
        }
        .into());
    }
    Ok(file)
}

pub(super) fn link(arguments: UrlArguments) -> anyhow::Result<ExitCode> {
    let UrlArguments { id, expires, audience, attachment: _, inline, direct, common } = arguments;
    let (answer, artifacts) = common.open_for(&id)?;
    let options = LinkOptions {
        life: expires,
        audience,
        disposition: if inline { Disposition::Inline } else { Disposition::Attachment },
        direct,
    };
    let url = artifacts.link(&id, &options)?;
    let life = expires.unwrap_or(artifacts.settings().link_life);
    answer.give(|| json!({ "id": id, "url": url, "expires_seconds": life.as_secs() }), || url.clone())
}
