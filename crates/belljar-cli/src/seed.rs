//! `SESSION_STORAGE`, `DATASET_ACCESS` and what belongs to them: how the sandboxes that people come from are set up.
//! They count as soon as one of them is set, an image alone excepted; what isn't set is as it was there.

use std::path::{self, PathBuf};

use belljar::{DatasetAccess, Policy, StorageKind};

use crate::failure::Usage;
use crate::variables::Variables;

const STORAGE: &str = "SESSION_STORAGE";
const ACCESS: &str = "DATASET_ACCESS";
const IMAGE: &str = "SANDBOX_IMAGE";
const SIZE: &str = "TMPFS_SIZE_MB";
/// Those that nobody sets for another reason.
const NAMES: [&str; 7] =
    [STORAGE, ACCESS, "SESSIONS_ROOT", "BLOBSTORE_DIR", "ARTIFACTS_DB", "DATASETS_HOST_RO", SIZE];
/// An image that nobody need have made.
const DEFAULT_IMAGE: &str = "sandbox";

/// What these variables say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seed {
    storage: StorageKind,
    access: DatasetAccess,
    sessions: PathBuf,
    /// The directory of local datasets.
    datasets: Option<PathBuf>,
    /// Megabytes of files in memory.
    size: u64,
    /// The database of artifacts, and the place of their contents.
    pub(crate) database: String,
    pub(crate) blobs: String,
    /// The environment that is named.
    pub(crate) image: Option<Image>,
}

/// An environment, as an image is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: String,
    /// If there is none of that name, it is the plain interpreter.
    pub(crate) is_default: bool,
}

impl Seed {
    /// Reads them; nothing if none is set.
    pub(crate) fn read(variables: &Variables) -> Result<Option<Self>, Usage> {
        let (storage, access) = (variables.get(STORAGE), variables.get(ACCESS));
        if NAMES.iter().all(|name| variables.get(name).is_none()) {
            return Ok(None);
        }
        let or = |name: &str, otherwise: &str| variables.get(name).unwrap_or_else(|| otherwise.to_owned());
        let place = |text: String| path::absolute(&text).unwrap_or_else(|_| text.into());
        Ok(Some(Self {
            storage: match storage.as_deref() {
                None | Some("TMPFS") => StorageKind::Memory,
                Some("BIND") => StorageKind::Disk,
                Some(other) => return Err(wrong(STORAGE, other, "use SESSION_STORAGE=TMPFS or BIND")),
            },
            access: match access.as_deref() {
                None | Some("API_TMPFS") => DatasetAccess::Api,
                Some("LOCAL_RO") => DatasetAccess::LocalRo,
                Some("HYBRID") => DatasetAccess::Hybrid,
                Some("NONE") => DatasetAccess::None,
                Some(other) => {
                    return Err(wrong(
                        ACCESS,
                        other,
                        "use DATASET_ACCESS=API_TMPFS, LOCAL_RO, HYBRID or NONE",
                    ));
                }
            },
            sessions: place(or("SESSIONS_ROOT", "./sessions")),
            datasets: variables.get("DATASETS_HOST_RO").map(place),
            size: megabytes(&or(SIZE, "1024"))?,
            database: or("ARTIFACTS_DB", "./artifacts.db"),
            blobs: or("BLOBSTORE_DIR", "./blobstore"),
            image: variables.get(IMAGE).map(|image| {
                let name = image.strip_suffix(":latest").unwrap_or(&image).to_owned();
                Image { is_default: name == DEFAULT_IMAGE, name }
            }),
        }))
    }

    /// Changes what they say of a policy.
    pub(crate) fn change(&self, policy: &mut Policy) {
        policy.workspace.storage = self.storage;
        match self.storage {
            StorageKind::Memory => policy.file_bytes = self.size << 20,
            StorageKind::Disk => {
                policy.workspace.root = Some(self.sessions.clone());
                policy.workspace.flat = true;
            }
        }
        policy.datasets.access = self.access;
        policy.datasets.directory = self.datasets.clone().or(policy.datasets.directory.take());
        policy.datasets.cache_lists = Some(self.sessions.clone());
    }
}

fn megabytes(text: &str) -> Result<u64, Usage> {
    match text.parse() {
        Ok(size @ 1..=1_048_576) => Ok(size),
        _ => Err(wrong(SIZE, text, "use a number of megabytes, such as TMPFS_SIZE_MB=1024")),
    }
}

fn wrong(name: &str, value: &str, hint: &'static str) -> Usage {
    Usage { message: format!("{name} cannot be {value:?}"), hint }
}
