//! Where things are in a state directory.
//!
//! ```text
//! format                                version of this layout
//! environments/<hash>/                  what sessions were made from; opaque
//! environments/lock                     held by whoever collects environments
//! tenants/<tenant>/lock                 shared by commits, held alone by whoever collects
//! tenants/<tenant>/environments/<name>  what a named environment is to be made of
//! tenants/<tenant>/packs/<id>.hot       memory and contents, raw
//! tenants/<tenant>/packs/<id>.cold      the same, compressed
//! tenants/<tenant>/sessions/<id>/session.json, lease, history, <hash>.point
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::draft::{Draft, make_directory, sync_directory};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::session_id::{SessionId, Tenant};

const VERSION: u32 = 1;
const MARKER: &str = "belljar state directory, version ";

/// The state directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: Arc<Path>,
}

impl Layout {
    /// Looks at the version marker, and makes nothing.
    pub(crate) fn open(root: PathBuf) -> Result<Self> {
        let root = std::path::absolute(&root).at("find", &root)?;
        let layout = Self { root: root.into() };
        layout.check_marker()?;
        Ok(layout)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn environments(&self) -> PathBuf {
        self.root.join("environments")
    }

    pub(crate) fn tenants(&self) -> PathBuf {
        self.root.join("tenants")
    }

    pub(crate) fn tenant(&self, tenant: &Tenant) -> TenantDirectory {
        TenantDirectory { tenant: tenant.clone(), path: self.tenants().join(tenant.as_str()).into() }
    }

    /// Makes the root with its marker; it is fine if it is there.
    pub(crate) fn establish(&self) -> Result<()> {
        if self.check_marker()? {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root).at("create", &self.root)?;
        let draft = Draft::of(&self.root, format!("{MARKER}{VERSION}\n").as_bytes())?;
        draft.sync()?;
        draft.place(&self.marker())?.keep();
        sync_directory(&self.root)?;
        // The directory above may be somebody else's, and not readable.
        let _ = self.root.parent().map(sync_directory);
        Ok(())
    }

    /// Makes a tenant's directories; it is fine if they are there.
    pub(crate) fn establish_tenant(&self, tenant: &Tenant) -> Result<TenantDirectory> {
        let directory = self.tenant(tenant);
        if directory.lock_path().exists() {
            return Ok(directory);
        }
        self.establish()?;
        for path in [self.tenants(), directory.path.to_path_buf(), directory.packs(), directory.sessions()] {
            make_directory(&path)?;
        }
        // Last: who finds the lock finds everything.
        let lock = directory.lock_path();
        OpenOptions::new().create(true).append(true).mode(0o600).open(&lock).at("create", &lock)?;
        sync_directory(&directory.path)?;
        Ok(directory)
    }

    fn marker(&self) -> PathBuf {
        self.root.join("format")
    }

    fn check_marker(&self) -> Result<bool> {
        let path = self.marker();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            // Not of the marker: of what somebody named as the directory.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(error).at("keep sessions in", &self.root);
            }
            Err(error) => return Err(error).at("read", &path),
        };
        let version = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.strip_prefix(MARKER)?.strip_suffix('\n')?.parse::<u32>().ok());
        match version {
            Some(VERSION) => Ok(true),
            Some(version) if version > VERSION => Err(StoreError::Future { path, version }),
            _ => Err(StoreError::damaged(&path, "it isn't the marker of a state directory")),
        }
    }
}

/// One tenant's part of a state directory.
#[derive(Clone, Debug)]
pub(crate) struct TenantDirectory {
    pub(crate) tenant: Tenant,
    pub(crate) path: Arc<Path>,
}

impl TenantDirectory {
    pub(crate) fn packs(&self) -> PathBuf {
        self.path.join("packs")
    }

    pub(crate) fn definitions(&self) -> PathBuf {
        self.path.join("environments")
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.path.join("sessions")
    }

    pub(crate) fn session(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(id.as_str())
    }

    /// While this is held, nothing is collected: what is seen stays, and what is begun can be finished.
    pub(crate) fn hold_garbage(&self) -> Result<GarbageLock> {
        self.lock(FlockOperation::LockShared)
    }

    /// While this is held, nobody commits: what no point names is garbage, and so is everything unfinished.
    pub(crate) fn stop_commits(&self) -> Result<GarbageLock> {
        self.lock(FlockOperation::LockExclusive)
    }

    fn lock(&self, operation: FlockOperation) -> Result<GarbageLock> {
        let path = self.lock_path();
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).at("open", &path)?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Err(rustix::io::Errno::INTR) => {}
                result => return result.map(|()| GarbageLock { _file: file }).at("lock", &path),
            }
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }
}

/// Released when dropped, and by the kernel when the process dies.
pub(crate) struct GarbageLock {
    _file: File,
}

/// Names in a directory, without what is unfinished; none if there is no such directory.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in entries(directory)? {
        let name = entry.file_name();
        if !crate::draft::is_unfinished(&name)
            && let Some(name) = name.to_str()
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Everything in a directory; nothing if there is no such directory.
pub(crate) fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.collect::<io::Result<_>>().at("list", directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).at("list", directory),
    }
}

pub(crate) fn point_file(name: Hash) -> String {
    format!("{name}.point")
}

/// The point that a file's name names.
pub(crate) fn point_name(file: &str) -> Option<Hash> {
    Hash::parse(file.strip_suffix(".point")?)
}
