//! The keys that links are signed with: a file that only its owner reads.
//!
//! The newest key signs; older ones are checked with until they retire. Processes that share the file see what others
//! do to it at their next link.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hmac::{Hmac, KeyInit};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::clock;

/// As large as a file of keys can sensibly be.
const LARGEST: u64 = 1 << 20;
const SECRET: usize = 32;
const ID: usize = 8;

/// What failed about the keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file, or its directory, refused an operation.
    #[error("can't {action} the link keys in {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others than its owner can read or write the file.
    #[error("the link keys in {} can be read by others (mode {mode:o}); they aren't used", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file makes no sense. It is left as it is.
    #[error("the link keys in {} are damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no key of that name.
    #[error("there is no link key {id:?}; nothing was changed")]
    NoSuchKey {
        /// The name.
        id: String,
    },
}

impl KeyError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Exposed { .. } => "chmod 600 the file, and rotate the keys if somebody may have read them",
            Self::Damaged { .. } => {
                "bring the file back from a backup, or remove it: links made so far end then"
            }
            Self::NoSuchKey { .. } => "list the keys to see their names",
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                io::ErrorKind::PermissionDenied => "look at who owns the file and its directory",
                _ => return None,
            },
        })
    }
}

/// What may be told of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name, which is in each link that it signed.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// From when on its links are refused; the key that signs has no such time.
    pub retired_ms: Option<u64>,
}

/// The keys in a file.
pub struct LinkKeys {
    path: PathBuf,
    loaded: RwLock<Arc<Ring>>,
}

impl LinkKeys {
    /// Reads the keys, or makes the first one if there is no file. The directory is made too.
    ///
    /// # Errors
    /// If the file can't be read or made, makes no sense, or is open to others.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let path = path.into();
        let ring = match Ring::load(&path)? {
            Some(ring) => ring,
            None => {
                let _lock = lock(&path)?;
                // Somebody may have been faster.
                match Ring::load(&path)? {
                    Some(ring) => ring,
                    None => Ring::store(&path, vec![StoredKey::make(&path, clock::now_ms())?])?,
                }
            }
        };
        Ok(Self { path, loaded: RwLock::new(Arc::new(ring)) })
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys, the one that signs first.
    ///
    /// # Errors
    /// If the file can't be read any more.
    pub fn list(&self) -> Result<Vec<KeyInfo>, KeyError> {
        let ring = self.current()?;
        Ok(ring
            .stored
            .iter()
            .map(|key| KeyInfo { id: key.id.clone(), created_ms: key.created_ms, retired_ms: key.retired_ms })
            .collect())
    }

    /// Makes a new key to sign with, and tells its name. Links of the one before it are good for `retention` from now
    /// on, however late they expire; keys that have retired are forgotten.
    ///
    /// # Errors
    /// If the file can't be read or written; the keys are as before then.
    pub fn rotate(&self, retention: Duration, now_ms: u64) -> Result<String, KeyError> {
        let end = now_ms.saturating_add(u64::try_from(retention.as_millis()).unwrap_or(u64::MAX));
        let made = StoredKey::make(&self.path, now_ms)?;
        let id = made.id.clone();
        self.change(|stored| {
            for key in stored.iter_mut() {
                key.retired_ms.get_or_insert(end);
            }
            stored.retain(|key| key.retired_ms.is_none_or(|retired| retired > now_ms));
            stored.insert(0, made);
            Ok(())
        })?;
        Ok(id)
    }

    /// Forgets a key: its links are refused at once. If it was the one that signs, there is a new one.
    ///
    /// # Errors
    /// If there is no such key, or if the file can't be read or written.
    pub fn revoke(&self, id: &str) -> Result<(), KeyError> {
        let made = StoredKey::make(&self.path, clock::now_ms())?;
        self.change(|stored| {
            let before = stored.len();
            stored.retain(|key| key.id != id);
            if stored.len() == before {
                return Err(KeyError::NoSuchKey { id: id.to_owned() });
            }
            if stored.first().is_none_or(|key| key.retired_ms.is_some()) {
                stored.insert(0, made);
            }
            Ok(())
        })
    }

    /// What signs. If the file can't be read just now, the key that signed before does: whoever checks decides.
    pub(crate) fn signing(&self) -> Key {
        let ring = self.current().unwrap_or_else(|_| self.loaded());
        ring.signing.clone()
    }

    /// The key of that name, if its links are still good.
    pub(crate) fn checking(&self, id: &str, now_ms: u64) -> Result<Option<Key>, KeyError> {
        let ring = self.current()?;
        let found = ring.stored.iter().find(|key| key.id == id);
        Ok(found.filter(|key| key.retired_ms.is_none_or(|retired| retired > now_ms)).map(StoredKey::key))
    }

    fn loaded(&self) -> Arc<Ring> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is in the file now. It is read again only if it is another one.
    fn current(&self) -> Result<Arc<Ring>, KeyError> {
        let loaded = self.loaded();
        let metadata = fs::metadata(&self.path).map_err(|source| failed("look at", &self.path, source))?;
        if Stamp::of(&metadata) == loaded.stamp {
            return Ok(loaded);
        }
        let gone = || failed("read", &self.path, io::ErrorKind::NotFound.into());
        let ring = Arc::new(Ring::load(&self.path)?.ok_or_else(gone)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&ring);
        Ok(ring)
    }

    fn change(&self, how: impl FnOnce(&mut Vec<StoredKey>) -> Result<(), KeyError>) -> Result<(), KeyError> {
        let _lock = lock(&self.path)?;
        let mut stored = self.current()?.stored.clone();
        how(&mut stored)?;
        let ring = Arc::new(Ring::store(&self.path, stored)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }
}

impl fmt::Debug for LinkKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LinkKeys").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A key, ready for use.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) mac: Hmac<Sha256>,
}

/// Which file it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.len(),
        }
    }
}

/// What was in the file. The first key signs.
struct Ring {
    stamp: Stamp,
    stored: Vec<StoredKey>,
    signing: Key,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    id: String,
    /// In hexadecimal digits.
    #[serde(with = "hexadecimal")]
    secret: [u8; SECRET],
    created_ms: u64,
    #[serde(default)]
    retired_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    keys: Vec<StoredKey>,
}

const VERSION: u32 = 1;

impl StoredKey {
    fn make(path: &Path, now_ms: u64) -> Result<Self, KeyError> {
        let mut random = [0; SECRET + ID];
        let mut filled = 0;
        while filled < random.len() {
            match rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(more) => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("find randomness for", path, error.into())),
            }
        }
        let (secret, id) = random.split_at(SECRET);
        let id =
            id.iter().map(|byte| char::from(b"0123456789abcdefghijklmnopqrstuv"[usize::from(byte % 32)]));
        let mut own = [0; SECRET];
        own.copy_from_slice(secret);
        Ok(Self { id: id.collect(), secret: own, created_ms: now_ms, retired_ms: None })
    }

    fn key(&self) -> Key {
        // A key that is shorter than a block of the hash is filled up with zeros, by definition.
        let mut block = [0; 64];
        block[..SECRET].copy_from_slice(&self.secret);
        Key { id: self.id.clone(), mac: Hmac::new(&block.into()) }
    }
}

impl Ring {
    /// Nothing if there is no file.
    fn load(path: &Path) -> Result<Option<Self>, KeyError> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|source| failed("open", path, source))?,
        };
        let metadata = file.metadata().map_err(|source| failed("look at", path, source))?;
        let damaged = |reason: &str| KeyError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(damaged("it isn't a file of keys"));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
        }
        let mut text = Vec::new();
        (&mut file).take(LARGEST).read_to_end(&mut text).map_err(|source| failed("read", path, source))?;
        let document: Document = serde_json::from_slice(&text).map_err(|error| {
            // Where, but not what: that may be a secret.
            damaged(&format!("line {}, column {} isn't as it should be", error.line(), error.column()))
        })?;
        if document.version != VERSION {
            return Err(damaged("it is of another version"));
        }
        let ids = document.keys.iter().all(|key| {
            let valid = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            !key.id.is_empty() && key.id.len() <= 64 && key.id.bytes().all(valid)
        });
        if !ids {
            return Err(damaged("a key has a name that can't be"));
        }
        Self::new(Stamp::of(&metadata), document.keys)
            .map(Some)
            .ok_or_else(|| damaged("there is no key to sign with"))
    }

    /// Puts the keys into the file, whole or not at all. The lock is held.
    fn store(path: &Path, stored: Vec<StoredKey>) -> Result<Self, KeyError> {
        let document = Document { version: VERSION, keys: stored };
        let text = serde_json::to_vec_pretty(&document)
            .map_err(|error| failed("write", path, io::Error::other(error.to_string())))?;
        let unfinished = beside(path, ".new");
        let write = || -> io::Result<Stamp> {
            // One that is there was left by a process that was killed, and may have been opened to others.
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&unfinished, path)?;
            File::open(directory(path))?.sync_all()?;
            // Renaming changes the time that the stamp has.
            Ok(Stamp::of(&file.metadata()?))
        };
        let stamp = write().map_err(|source| failed("write", path, source))?;
        Self::new(stamp, document.keys)
            .ok_or_else(|| failed("write", path, io::Error::other("there is no key to sign with")))
    }

    fn new(stamp: Stamp, stored: Vec<StoredKey>) -> Option<Self> {
        let signing = stored.first().filter(|key| key.retired_ms.is_none())?.key();
        Some(Self { stamp, stored, signing })
    }
}

/// Keeps other processes from changing the keys until it is dropped.
fn lock(path: &Path) -> Result<File, KeyError> {
    let fail = |source| failed("lock", path, source);
    fs::create_dir_all(directory(path)).map_err(fail)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(beside(path, ".lock")).map_err(fail)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(fail(error.into())),
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> KeyError {
    KeyError::File { action, path: path.to_owned(), source }
}

mod hexadecimal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom("a secret has 64 hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut secret = [0; 32];
        for (index, byte) in secret.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn opened() -> (tempfile::TempDir, LinkKeys) {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let keys = LinkKeys::open(directory.path().join("made/keys.json")).expect("keys can be made");
        (directory, keys)
    }

    fn ids(keys: &LinkKeys) -> Vec<String> {
        keys.list().expect("keys can be read").into_iter().map(|key| key.id).collect()
    }

    #[test]
    fn the_file_is_for_its_owner_only_and_is_found_again() {
        let (_directory, keys) = opened();
        let mode = fs::metadata(keys.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let again = LinkKeys::open(keys.path()).expect("keys can be read");
        assert_eq!(ids(&keys), ids(&again));
    }

    #[test]
    fn a_rotation_keeps_older_keys_until_they_retire() {
        let (_directory, keys) = opened();
        let first = ids(&keys).remove(0);
        let second = keys.rotate(Duration::from_millis(100), 1_000).expect("keys rotate");
        assert_eq!(keys.signing().id, second);
        assert!(keys.checking(&first, 1_099).expect("keys can be read").is_some());
        assert!(keys.checking(&first, 1_100).expect("keys can be read").is_none());
        let third = keys.rotate(Duration::MAX, 1_100).expect("keys rotate");
        assert_eq!(ids(&keys), [third, second.clone()]);
        assert!(keys.checking(&second, u64::MAX - 1).expect("keys can be read").is_some());
    }

    #[test]
    fn a_revoked_key_is_gone_at_once_and_there_is_always_one_that_signs() {
        let (_directory, keys) = opened();
        let other = LinkKeys::open(keys.path()).expect("keys can be read");
        let first = keys.signing().id;
        keys.revoke(&first).expect("it is there");
        assert!(other.checking(&first, 0).expect("keys can be read").is_none());
        let second = other.signing().id;
        assert_ne!(first, second);
        assert!(matches!(keys.revoke(&first), Err(KeyError::NoSuchKey { .. })));
        let third = keys.rotate(Duration::from_secs(1), 0).expect("keys rotate");
        other.revoke(&third).expect("it is there");
        // The one before it has a time to retire, and doesn't sign again.
        assert!(![second, third].contains(&keys.signing().id));
    }

    #[test]
    fn a_file_that_is_damaged_or_open_to_others_is_refused_and_kept() {
        let (_directory, keys) = opened();
        fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o640)).expect("it is ours");
        assert!(matches!(LinkKeys::open(keys.path()), Err(KeyError::Exposed { mode: 0o640, .. })));
        assert!(matches!(keys.checking("x", 0), Err(KeyError::Exposed { .. })));
        fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o600)).expect("it is ours");
        for text in ["", "{", "{\"version\":1,\"keys\":[]}", "{\"version\":2,\"keys\":[]}", "[1]"] {
            fs::write(keys.path(), text).expect("it is ours");
            let error = LinkKeys::open(keys.path()).expect_err(text);
            assert!(matches!(error, KeyError::Damaged { .. }), "{error}");
            assert!(error.hint().is_some());
            assert_eq!(fs::read_to_string(keys.path()).expect("it is there"), text);
        }
        fs::remove_file(keys.path()).expect("it is ours");
        assert!(keys.checking("x", 0).is_err(), "without keys nothing is let through");
    }

    #[test]
    fn what_a_killed_writer_left_is_in_nobodys_way() {
        let (_directory, keys) = opened();
        fs::write(beside(keys.path(), ".new"), "half").expect("it can be written");
        keys.rotate(Duration::ZERO, 1).expect("keys rotate");
        assert!(!beside(keys.path(), ".new").exists());
        assert_eq!(LinkKeys::open(keys.path()).expect("keys can be read").signing().id, keys.signing().id);
    }

    #[test]
    fn many_that_open_at_once_have_the_same_first_key_and_lose_no_rotation() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("keys.json");
        let all: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| LinkKeys::open(&path).expect("keys can be made").signing().id))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        assert!(all.iter().all(|id| *id == all[0]));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let keys = LinkKeys::open(&path).expect("keys can be read");
                    keys.rotate(Duration::MAX, 5).expect("keys rotate");
                });
            }
        });
        assert_eq!(ids(&LinkKeys::open(&path).expect("keys can be read")).len(), 9);
    }

    #[test]
    fn secrets_are_not_shown() {
        let (_directory, keys) = opened();
        let text = fs::read_to_string(keys.path()).expect("it is there");
        let document: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let secret = document["keys"][0]["secret"].as_str().expect("it is there").to_owned();
        assert!(!format!("{keys:?}").contains(&secret));
        fs::write(keys.path(), text.replace(&secret, &format!("{secret}0"))).expect("it is ours");
        let error = LinkKeys::open(keys.path()).expect_err("it is damaged");
        assert!(!format!("{error} {error:?}").contains(&secret));
    }
}
