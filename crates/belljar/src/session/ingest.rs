//! Before a cell its datasets are put in place; after it, what it left under `artifacts/` is kept.

use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_artifacts::{
    Admission, Artifact, Batch, Ingested, NewFile, Origin, RecordKind, Refusal, Refused,
};
use belljar_engine::{
    ALIASES, Changes, Entropy, FileDoor, FileError, FileErrorCode, FileKind, FileOp, FileReply, FileStat,
    Guest, MimeBundle, State, Status,
};
use belljar_files::operations::{self, Contents, Step as WalkStep, path::workspace_path, walk};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::disk::is_on_disk;
use super::kept::{Kept, shelf_path};
use super::lineage::{Lineage, RECORDED_CODE, Step};
use super::{Life, Live, Slot};
use crate::{Error, Outcome};

/// Where cells leave what is to be kept.
const DIRECTORY: &str = "artifacts";
/// Forms of a display that are kept, the best first, and how their names end.
const PICTURES: [(&str, &str); 6] = [
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("application/pdf", "pdf"),
];

/// What was run, for the record.
pub(super) struct Ran<'a> {
    pub(super) kind: RecordKind,
    pub(super) number: u32,
    pub(super) code: &'a str,
    pub(super) started_ms: u64,
    pub(super) status: Status,
    pub(super) tool_calls: u64,
    pub(super) tool_call: Option<String>,
    pub(super) state: State,
    /// Also the value.
    pub(super) displays: Vec<MimeBundle>,
}

impl Slot {
    /// Brings the session's datasets back where they belong, before something runs.
    pub(super) fn sync_datasets(&mut self) -> Result<(), Error> {
        let Some(kept) = self.place.kept.clone() else { return Ok(()) };
        let (staged, problems) = kept.sync()?;
        self.pending.extend(problems);
        if staged.is_empty() {
            return Ok(());
        }
        let live = self.live()?;
        let mut changed = false;
        let door = LiveDoor::of(live);
        for dataset in &staged {
            changed |= link(&door, &dataset.file_name);
        }
        live.changed |= changed;
        Ok(())
    }

    /// Something has run: remembers it, and keeps what it left. What can't be kept is told, and stays where it is.
    pub(super) fn keep(&mut self, ran: &Ran<'_>, changes: &mut Changes) -> (Vec<Artifact>, Vec<Refused>) {
        let Some(kept) = self.place.kept.clone() else { return Default::default() };
        let Some(artifacts) = kept.artifacts.clone() else { return Default::default() };
        let (parents, own_calls) = (kept.take_read(), kept.take_calls());
        let step = self.remember(ran, &kept, own_calls);
        if ran.state == State::RolledBack || !kept.artifact_policy.keep {
            return Default::default();
        }
        let mut found = match self.left(changes, &kept) {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(session = %self.id, %error, "artifacts could not be looked for");
                return Default::default();
            }
        };
        found.displays = shown(ran, &kept);
        self.pending.extend(found.note.take());
        if found.files.is_empty() && found.displays.is_empty() {
            return (Vec::new(), found.refused);
        }
        let (ingested, records) = {
            let origin = self.origin();
            let mut lineage = match self.lineage.take() {
                Some(lineage) => lineage,
                None => self.read_lineage(),
            };
            if let Some(step) = step {
                lineage.add(step, ran.state);
            }
            let mut records = lineage.records(&origin.id(), kept.redactor());
            // Somebody may have removed all that came of it, and then its records.
            let before = records.cells.first().and_then(|first| first.previous.clone());
            if let (Some(before), Ok(store)) = (before, artifacts.store())
                && matches!(store.knows(&before), Ok(false))
            {
                lineage.forget_stored();
                records = lineage.records(&origin.id(), kept.redactor());
            }
            let session = self.id.to_string();
            let told = Told { session: &session, ran, origin: &origin, parents, cells: &records.cells };
            let ingested = match self.live() {
                Ok(live) => found.ingest(live, told, &artifacts, &kept),
                Err(error) => Err(error),
            };
            if ingested.is_ok() {
                lineage.mark_stored(&records);
            }
            self.lineage = Some(lineage);
            (ingested, records)
        };
        match ingested {
            Ok(Ingested { kept: made, mut refused, more_refused }) => {
                if more_refused > 0 {
                    self.pending.push(format!("{more_refused} more files under artifacts/ were not kept"));
                }
                if records.lost {
                    self.pending.push("the first cells are missing from the artifacts' history".to_owned());
                }
                refused.append(&mut found.refused);
                if !kept.artifact_policy.leave {
                    self.remove_kept(&found.files, &found.displays, &made, changes);
                }
                (made.into_iter().map(|artifact| artifacts.linked(artifact)).collect(), refused)
            }
            Err(error) => {
                tracing::error!(session = %self.id, %error, "artifacts were not kept");
                let why = |name: &str, size| Refused {
                    name: name.to_owned(),
                    size,
                    why: Refusal::Failed,
                    reason: match error.hint() {
                        Some(hint) => format!("{error} ({hint})"),
                        None => error.to_string(),
                    },
                };
                let mut refused = std::mem::take(&mut found.refused);
                refused.extend(found.files.iter().map(|file| why(&file.name, file.stat.size)));
                refused.extend(found.displays.iter().map(|(name, bytes)| why(name, bytes.len() as u64)));
                (Vec::new(), refused)
            }
        }
    }

    /// Notes what was run. Of a session in the registry whose history hasn't been read, it is returned.
    fn remember(&mut self, ran: &Ran<'_>, kept: &Kept, own_calls: u64) -> Option<Step> {
        let step = Step {
            status: status_word(ran.status),
            tool_calls: ran.tool_calls.saturating_sub(own_calls),
            datasets: kept.uses(),
            ..Step::new(self.id.as_str(), ran.kind, ran.number, ran.code.to_owned(), ran.started_ms)
        };
        if self.lineage.is_none() && self.registered {
            return Some(step);
        }
        self.lineage.get_or_insert_default().add(step, ran.state);
        None
    }

    /// What the state of a session in the registry comes from, before what has just run.
    fn read_lineage(&self) -> Lineage {
        let Ok(keeping) = self.shared.keeping() else { return Lineage::default() };
        keeping.lineage(&self.id, self.cells, 0)
    }

    /// Says of what cells made that they were taken back.
    pub(super) fn mark_taken_back(&self, cells: RangeInclusive<u32>) {
        let artifacts = self.place.kept.as_ref().and_then(|kept| kept.artifacts.as_ref());
        let Some(artifacts) = artifacts.filter(|artifacts| artifacts.is_there()) else { return };
        let marked = artifacts
            .store()
            .and_then(|store| Ok(store.take_back(artifacts.tenant(), self.id.as_str(), cells)?));
        if let Err(error) = marked {
            tracing::error!(session = %self.id, %error, "artifacts aren't marked as taken back");
        }
    }

    /// What the session was made from.
    fn origin(&mut self) -> Origin {
        let engine = self.engine().ok();
        let spec = &self.place.spec;
        Origin {
            engine: engine.as_ref().map_or("", |engine| engine.name()).to_owned(),
            environment: engine.as_ref().map_or("", |engine| engine.environment()).to_owned(),
            lock: self.shared.lock_of(engine.as_ref().map_or("", |engine| engine.environment())),
            policy: self.recorded_policy(),
            seed: match spec.entropy {
                Entropy::Seeded(seed) => Some(seed),
                Entropy::Host => None,
            },
            foreign_files: self.host_wrote || is_on_disk(&self.place.workspace),
        }
    }

    /// The policy without what is secret.
    fn recorded_policy(&self) -> serde_json::Value {
        let mut policy = crate::Policy::clone(&self.place.granted);
        // A session in the registry has the one that it was made with, whatever others allowed it for a while.
        if let Life::Live(live) = &self.life
            && let Some(lease) = &live.lease
            && let Ok(made) = serde_json::from_value(lease.record().policy.clone())
        {
            policy = made;
        }
        policy.env.values_mut().for_each(String::clear);
        let policy = serde_json::to_value(&policy).unwrap_or_default();
        match &self.place.kept {
            Some(kept) => kept.redactor().redact_json(&policy).0,
            None => policy,
        }
    }

    /// An outcome for the history, with what is to be recorded of the code instead of it, if that has secrets. Who runs
    /// a later cell may not know them.
    pub(super) fn with_record(&self, mut outcome: serde_json::Value, code: &str) -> serde_json::Value {
        if let Some(kept) = self.place.kept.as_ref().filter(|kept| kept.artifacts.is_some())
            && let (redacted, true) = kept.redactor().redact(code)
        {
            outcome[RECORDED_CODE] = redacted.into();
        }
        outcome
    }

    /// The files that something left to be kept.
    fn left(&mut self, changes: &Changes, kept: &Kept) -> Result<Left, Error> {
        let workspace = self.place.spec.workspace.clone();
        let below = format!("{DIRECTORY}/");
        let mut left = Left::default();
        let mut paths = Vec::new();
        for path in changes.created.iter().chain(&changes.modified) {
            if let Ok(path) = workspace_path(path, &workspace, &ALIASES)
                && path.starts_with(&below)
            {
                paths.push(path);
            }
        }
        let replaced = changes
            .created
            .iter()
            .any(|path| workspace_path(path, &workspace, &ALIASES).is_ok_and(|path| path == DIRECTORY));
        if replaced {
            self.pending.push("artifacts is no directory any more: nothing is kept from there".to_owned());
        }
        if paths.is_empty() && !changes.truncated {
            return Ok(left);
        }
        let most = kept.artifact_policy.max_count.unwrap_or(u64::MAX);
        let most_bytes = self.place.spec.limits.file_bytes;
        let mut room = most_bytes;
        let live = self.live()?;
        let door = LiveDoor::of(live);
        if changes.truncated {
            let mut all = Vec::new();
            let walked = walk(&door, DIRECTORY, &mut |path, stat| {
                if stat.kind != FileKind::Directory {
                    all.push(path.to_owned());
                }
                // One more than may be kept, so that it is told.
                if all.len() as u64 > most { WalkStep::Stop } else { WalkStep::Into }
            });
            match walked {
                Ok(_) => {
                    if all.len() as u64 > most {
                        left.note = Some(format!("there are more than {most} files under artifacts/"));
                    }
                    paths = all;
                }
                Err(error) if error.code == FileErrorCode::FileNotFound => return Ok(left),
                Err(error) => return Err(error.into()),
            }
        }
        paths.sort();
        paths.dedup();
        for path in paths {
            let name = path[below.len()..].to_owned();
            match operations::stat_link(&door, &path) {
                // Holes take no room in the workspace, and all of it here.
                Ok(stat) if stat.kind == FileKind::File && stat.size > room => left.refused.push(Refused {
                    name,
                    size: stat.size,
                    why: Refusal::TooLarge,
                    reason: format!(
                        "what a cell leaves may have {most_bytes} bytes together, as its files may"
                    ),
                }),
                Ok(stat) if stat.kind == FileKind::File => {
                    room -= stat.size;
                    left.files.push(LeftFile { path, name, stat });
                }
                Ok(stat) => left.refused.push(Refused {
                    name,
                    size: stat.size,
                    why: Refusal::NotAFile,
                    reason: "it is not a file".to_owned(),
                }),
                Err(error) if error.code == FileErrorCode::FileNotFound && !name.contains('\u{fffd}') => {}
                Err(error) => left.refused.push(Refused {
                    name,
                    size: 0,
                    why: Refusal::Failed,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(left)
    }

    /// Removes from the workspace what is kept elsewhere now, unless it was changed meanwhile.
    fn remove_kept(
        &mut self,
        files: &[LeftFile],
        displays: &[(String, Vec<u8>)],
        made: &[Artifact],
        changes: &mut Changes,
    ) {
        let workspace = self.place.spec.workspace.clone();
        let Ok(live) = self.live() else { return };
        live.changed = true;
        let door = LiveDoor::of(live);
        let mut removed = std::collections::BTreeSet::new();
        for file in files {
            // What was displayed may have the same name.
            let shown = displays.iter().filter(|(name, _)| *name == file.name).count();
            let is_kept = made.iter().filter(|artifact| artifact.name == file.name).count() > shown;
            let is_same = || operations::stat_link(&door, &file.path).is_ok_and(|stat| stat == file.stat);
            if is_kept
                && is_same()
                && matches!(door.file(FileOp::Remove { path: file.path.clone() }), Ok(FileReply::Done))
            {
                removed.insert(file.path.as_str());
            }
        }
        let is_there = |path: &String| {
            let path = workspace_path(path, &workspace, &ALIASES).unwrap_or_default();
            !removed.contains(path.as_str())
        };
        changes.created.retain(is_there);
        changes.modified.retain(is_there);
    }
}

/// As it is in an outcome's JSON.
fn status_word(status: Status) -> String {
    let word = serde_json::to_value(status).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// Makes `data/{name}` lead to the shelf. Says whether it had to.
fn link(door: &dyn FileDoor, name: &str) -> bool {
    let (path, target) = (format!("data/{name}"), shelf_path(name));
    match operations::stat_link(door, &path) {
        Ok(_) => return false,
        Err(error) if error.code == FileErrorCode::FileNotFound => {}
        Err(_) => return false,
    }
    match door.file(FileOp::MakeLink { path, target }) {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(%error, "a dataset is on the shelf only");
            false
        }
    }
}

/// What something left to be kept.
#[derive(Default)]
struct Left {
    files: Vec<LeftFile>,
    /// By name.
    displays: Vec<(String, Vec<u8>)>,
    refused: Vec<Refused>,
    note: Option<String>,
}

struct LeftFile {
    path: String,
    name: String,
    stat: FileStat,
}

/// What is told with it.
struct Told<'a> {
    session: &'a str,
    ran: &'a Ran<'a>,
    origin: &'a Origin,
    parents: Vec<belljar_artifacts::ArtifactId>,
    cells: &'a [belljar_artifacts::CellRecord],
}

impl Left {
    fn ingest(
        &self,
        live: &mut Live,
        told: Told<'_>,
        artifacts: &crate::Artifacts,
        kept: &Kept,
    ) -> Result<Ingested, Error> {
        let store = artifacts.store()?;
        let door = LiveDoor::of(live);
        let files = self.files.iter().map(|file| NewFile {
            name: file.name.clone(),
            size: file.stat.size,
            open: Box::new(|| {
                // As much as it had, whoever adds to it meanwhile.
                let contents = Contents::of_length(&door, &file.path, file.stat.size);
                Ok(Box::new(contents) as Box<dyn Read + '_>)
            }),
        });
        let displays = self.displays.iter().map(|(name, bytes)| NewFile {
            name: name.clone(),
            size: bytes.len() as u64,
            open: Box::new(|| Ok(Box::new(bytes.as_slice()) as Box<dyn Read + '_>)),
        });
        let policy = &kept.artifact_policy;
        let admission = Admission {
            max_bytes: policy.max_bytes,
            max_count: policy.max_count,
            mime: policy.allow.clone(),
            deny: policy.deny.clone(),
            hook: kept.hook.clone(),
        };
        Ok(store.ingest(Batch {
            tenant: artifacts.tenant(),
            session: told.session,
            cell: told.ran.number,
            tool_call: told.ran.tool_call.clone(),
            origin: told.origin,
            cells: told.cells,
            parents: told.parents,
            files: files.chain(displays).collect(),
            admission: &admission,
        })?)
    }
}

/// What was displayed and isn't text, if that is kept, by names of its own.
fn shown(ran: &Ran<'_>, kept: &Kept) -> Vec<(String, Vec<u8>)> {
    if !kept.artifact_policy.displays {
        return Vec::new();
    }
    let mut shown = Vec::new();
    for bundle in &ran.displays {
        if let Some((bytes, ending)) = picture(bundle) {
            shown.push((format!("display-{}-{}.{ending}", ran.number, shown.len() + 1), bytes));
        }
    }
    shown
}

/// The picture of this name that a cell has displayed.
pub(crate) fn displayed(outcome: &Outcome, cell: u32, name: &str) -> Option<Vec<u8>> {
    let index = name.strip_prefix(&format!("display-{cell}-"))?.split_once('.')?.0.parse::<usize>().ok()?;
    let mut pictures = outcome.displays.iter().chain(&outcome.value).filter_map(|value| picture(&value.data));
    pictures.nth(index.checked_sub(1)?).map(|(bytes, _)| bytes)
}

/// The best form of something displayed that is a picture, and how its name ends.
fn picture(bundle: &MimeBundle) -> Option<(Vec<u8>, &'static str)> {
    PICTURES.iter().find_map(|&(mime, ending)| {
        let text = bundle.get_str(mime)?;
        if mime == "image/svg+xml" {
            return Some((text.as_bytes().to_vec(), ending));
        }
        let plain: String = text.split_ascii_whitespace().collect();
        Some((BASE64_STANDARD.decode(plain).ok()?, ending))
    })
}

/// The files of a guest that is awake.
struct LiveDoor<'a> {
    disk: Option<Arc<dyn FileDoor>>,
    guest: Mutex<&'a mut dyn Guest>,
}

impl<'a> LiveDoor<'a> {
    fn of(live: &'a mut Live) -> Self {
        let disk = live.disk.as_ref().map(|disk| Arc::clone(&disk.door));
        Self { disk, guest: Mutex::new(live.guest.as_mut()) }
    }
}

impl FileDoor for LiveDoor<'_> {
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError> {
        match &self.disk {
            Some(door) => door.file(operation),
            None => self.guest.lock().unwrap_or_else(PoisonError::into_inner).file(operation),
        }
    }
}
