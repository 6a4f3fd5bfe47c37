//! Making a session of a file that may come from anywhere.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::clock;
use crate::create::create;
use crate::draft::{Draft, sync_directory};
use crate::error::{At, Result, StoreError};
use crate::hash::Hash;
use crate::history;
use crate::layout::{TenantDirectory, point_file};
use crate::lease::Lease;
use crate::load;
use crate::pack::{self, Pack, check_cold};
use crate::parcel::{HEAD, Kind, MAGIC, VERSION, section_hash};
use crate::point::{Point, PointFile};
use crate::record::SessionRecord;
use crate::session_id::{SessionId, Tenant};
use crate::sharing;
use crate::store::Store;

const LONGEST_RECORD: u64 = 64 << 20;
/// More points than anybody makes checkpoints.
const MOST_POINTS: usize = 1 << 16;

impl Store {
    /// Makes a session from a file that [`Lease::export`] wrote, under its own name or another. What travelled along
    /// is a file that has no name any more.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`], [`StoreError::Future`], [`StoreError::Exists`], or why it can't be written. Nothing of it
    /// is there then.
    pub fn import(
        &self,
        tenant: &Tenant,
        from: &Path,
        id: Option<SessionId>,
    ) -> Result<(Lease, Option<File>)> {
        let directory = self.layout.establish_tenant(tenant)?;
        let held = directory.hold_garbage()?;
        let imported = self.import_held(&directory, from, id);
        drop(held);
        if imported.is_err() {
            // Somebody who imports the same at this moment may count on its packs already, so they can't just be
            // removed; if nobody does, this finds them.
            let _ = self.collect_tenant(tenant);
        }
        imported
    }

    fn import_held(
        &self,
        directory: &TenantDirectory,
        from: &Path,
        id: Option<SessionId>,
    ) -> Result<(Lease, Option<File>)> {
        let parcel = Parcel::read(from, directory)?;
        let attachment = parcel.attachment;
        let mut record = parcel.record;
        record.tenant = directory.tenant.clone();
        record.id = id.unwrap_or(record.id);
        // The packs came from elsewhere: this session may not remove them by itself.
        record.writer = clock::random();
        record.token = 0;
        record.garbage = 0;
        if let Some(missing) = record.points().find(|point| !parcel.points.contains_key(point)) {
            return Err(StoreError::damaged(from, format!("point {missing} isn't in it")));
        }

        let packs_path = directory.packs();
        let mut ids = Vec::new();
        for (name, point) in &parcel.points {
            let name = Path::new(&point_file(*name)).to_owned();
            let open = |pack: &pack::PackReference| in_parcel(from, Pack::open(&packs_path, pack.id));
            let packs = point.whole.summary.packs.iter().map(open).collect::<Result<Vec<_>>>()?;
            let tables = &point.whole.tables;
            in_parcel(from, load::check_places(&name, &packs, &tables.extents, &tables.chunks))?;
            ids.extend(packs.iter().map(|pack| pack.id));
        }
        sharing::mark(directory, &ids)?;
        sync_directory(&packs_path)?;

        let fill = |session: &Path| {
            for (name, point) in parcel.points {
                point.draft.sync()?;
                point.draft.place(&session.join(point_file(name)))?.keep();
            }
            if let Some(history) = parcel.history {
                history.sync()?;
                history.place(&session.join(history::FILE))?.keep();
            }
            Ok(())
        };
        Ok((create(self, directory, record, Some(fill))?, attachment))
    }
}

/// Whatever is wrong with a part is wrong with the file that the user knows.
fn in_parcel<T>(from: &Path, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        StoreError::Damaged { reason, .. } => StoreError::damaged(from, format!("a part of it: {reason}")),
        StoreError::Future { version, .. } => StoreError::Future { path: from.to_owned(), version },
        error => error,
    })
}

struct Parcel {
    record: SessionRecord,
    history: Option<Draft>,
    points: HashMap<Hash, ImportedPoint>,
    attachment: Option<File>,
}

struct ImportedPoint {
    draft: Draft,
    whole: Point,
}

impl Parcel {
    /// Reads and checks everything; packs are put in their place.
    fn read(from: &Path, directory: &TenantDirectory) -> Result<Self> {
        let damaged = |reason: &str| StoreError::damaged(from, reason);
        let mut input = Input::open(from)?;
        let packs_path = directory.packs();
        let (mut record, mut history, mut points, mut attachment) = (None, None, HashMap::new(), None);
        loop {
            let section = input.head()?;
            match section.kind {
                Kind::Record if record.is_none() && section.length <= LONGEST_RECORD => {
                    let mut bytes = Vec::new();
                    input.payload(&section, &mut bytes, from)?;
                    record = Some(SessionRecord::decode(&bytes, from)?);
                }
                Kind::History if history.is_none() => {
                    let draft = Draft::create(&packs_path)?;
                    input.payload(&section, &mut draft.file(), draft.path())?;
                    history = Some(draft);
                }
                Kind::Attachment if attachment.is_none() => {
                    // Its name goes with the draft; the caller reads it from the beginning.
                    let draft = Draft::create(&packs_path)?;
                    input.payload(&section, &mut draft.file(), draft.path())?;
                    attachment = Some(File::open(draft.path()).at("open", draft.path())?);
                }
                Kind::Point if points.len() < MOST_POINTS => {
                    let draft = Draft::create(&packs_path)?;
                    input.payload(&section, &mut draft.file(), draft.path())?;
                    let file = File::open(draft.path()).at("open", draft.path())?;
                    let point = PointFile::read(file, draft.path().to_owned(), section.name)
                        .and_then(PointFile::load);
                    points.insert(section.name, ImportedPoint { whole: in_parcel(from, point)?, draft });
                }
                Kind::Pack => {
                    let draft = Draft::create(&packs_path)?;
                    input.payload(&section, &mut draft.file(), draft.path())?;
                    let file = File::open(draft.path()).at("open", draft.path())?;
                    if in_parcel(from, check_cold(file, draft.path()))? != section.name {
                        return Err(damaged("a pack in it is another than its name says"));
                    }
                    if !pack::exists(&packs_path, section.name) {
                        draft.sync()?;
                        draft.place(&pack::cold_path(&packs_path, section.name))?.keep();
                    }
                }
                Kind::End => {
                    input.end(&section)?;
                    let record = record.ok_or_else(|| damaged("it has no record"))?;
                    return Ok(Self { record, history, points, attachment });
                }
                _ => return Err(damaged("it has a section too many, or one that is too long")),
            }
        }
    }
}

struct Section {
    kind: Kind,
    name: Hash,
    length: u64,
    head: [u8; HEAD],
}

/// A parcel that is being read.
struct Input {
    file: BufReader<File>,
    path: PathBuf,
    all: blake3::Hasher,
    /// How many bytes are left: nothing is longer than that.
    left: u64,
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).at("open", path)?;
        let metadata = file.metadata().at("read", path)?;
        let file = BufReader::with_capacity(1 << 20, file);
        let mut input =
            Self { file, path: path.to_owned(), all: blake3::Hasher::new(), left: metadata.len() };
        if input.bytes::<8>()? != MAGIC {
            return Err(StoreError::damaged(path, "it isn't an exported session"));
        }
        match u32::from_le_bytes(input.bytes()?) {
            VERSION => Ok(input),
            version if version > VERSION => Err(StoreError::Future { path: path.to_owned(), version }),
            _ => Err(StoreError::damaged(path, "its version makes no sense")),
        }
    }

    fn head(&mut self) -> Result<Section> {
        let head: [u8; HEAD] = self.bytes()?;
        let damaged = |reason| StoreError::damaged(&self.path, reason);
        let kind = Kind::from_byte(head[0]).ok_or_else(|| damaged("it has a section of an unknown kind"))?;
        let mut name = [0; 32];
        name.copy_from_slice(&head[1..33]);
        let mut length = [0; 8];
        length.copy_from_slice(&head[33..]);
        let length = u64::from_le_bytes(length);
        if length > self.left {
            return Err(damaged("it is cut short"));
        }
        Ok(Section { kind, name: Hash::from_bytes(name), length, head })
    }

    /// Copies a payload, and checks it.
    fn payload(&mut self, section: &Section, output: &mut impl Write, path: &Path) -> Result<()> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; section.length.min(256 << 10) as usize];
        let mut left = section.length;
        while left > 0 {
            let part = &mut buffer[..left.min(256 << 10) as usize];
            self.file.read_exact(part).at("read", &self.path)?;
            hasher.update(part);
            output.write_all(part).at("write", path)?;
            left -= part.len() as u64;
        }
        self.left -= section.length;
        let hash = section_hash(&section.head, hasher.finalize().as_bytes());
        if self.bytes::<32>()? != *hash.as_bytes() {
            return Err(StoreError::damaged(&self.path, "the checksum of a section is wrong"));
        }
        if section.kind != Kind::End {
            self.all.update(hash.as_bytes());
        }
        Ok(())
    }

    fn end(&mut self, section: &Section) -> Result<()> {
        let all = self.all.finalize();
        let mut payload = Vec::new();
        if section.length == 32 {
            self.payload(section, &mut payload, &self.path.clone())?;
        }
        if payload != all.as_bytes() {
            return Err(StoreError::damaged(&self.path, "a section of it is missing or out of place"));
        }
        if self.left != 0 {
            return Err(StoreError::damaged(&self.path, "something follows its end"));
        }
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).at("read", &self.path)?;
        self.left = self.left.saturating_sub(N as u64);
        Ok(bytes)
    }
}
