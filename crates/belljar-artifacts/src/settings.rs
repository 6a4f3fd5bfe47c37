//! Where a store is, and what it may hold.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use belljar_transfer::S3Place;

use crate::error::{ArtifactError, Result};

/// Where a store is, and what it may hold.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Where metadata is.
    pub database: Database,
    /// Where contents are.
    pub blobs: BlobPlace,
    /// A directory for local copies of contents that are in a bucket. It is made when it is needed.
    pub scratch: PathBuf,
    /// What it may hold.
    pub limits: StoreLimits,
}

/// Where metadata is.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A file. It is made if it isn't there.
    Sqlite(PathBuf),
    /// A server, as `postgres://user:password@host/database`. What the address leaves open is taken from where
    /// PostgreSQL's own programs take it.
    Postgres(String),
}

impl Database {
    /// Reads a path, `sqlite:PATH`, or `postgres://…`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(address: &str) -> Result<Self> {
        let what = "the place of a database";
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            return Ok(Self::Postgres(address.to_owned()));
        }
        let path = match address.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            // `mysql://…` isn't meant as a path.
            None if address.split_once("://").is_some_and(|(scheme, _)| !scheme.contains('/')) => {
                return Err(ArtifactError::invalid(what, address, "only SQLite and PostgreSQL are known"));
            }
            None => address,
        };
        if path.is_empty() || path.contains('\0') {
            return Err(ArtifactError::invalid(what, address, "it isn't a path"));
        }
        Ok(Self::Sqlite(path.into()))
    }
}

/// Without the password.
impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => formatter.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => formatter.debug_tuple("Postgres").finish_non_exhaustive(),
        }
    }
}

/// Where contents are.
#[derive(Clone, Debug)]
pub enum BlobPlace {
    /// A directory. It is made if it isn't there.
    Directory(PathBuf),
    /// A prefix in a bucket.
    S3(S3Place),
}

/// What a store may hold. Bytes of sessions and tenants are those of their files; bytes in all are those that are
/// stored, where contents that occur twice count once.
///
/// Unless told otherwise: 1 GiB and 10,000 files for a session, 10 GiB and 100,000 files for a tenant, no limit in
/// all, and files stay however old they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of one session.
    pub session_bytes: Option<u64>,
    /// Files of one session.
    pub session_count: Option<u64>,
    /// Bytes of one tenant.
    pub tenant_bytes: Option<u64>,
    /// Files of one tenant.
    pub tenant_count: Option<u64>,
    /// Bytes in all.
    pub total_bytes: Option<u64>,
    /// Files in all.
    pub total_count: Option<u64>,
    /// Files that are older and not pinned go when garbage is collected.
    pub max_age: Option<Duration>,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            session_bytes: Some(1 << 30),
            session_count: Some(10_000),
            tenant_bytes: Some(10 << 30),
            tenant_count: Some(100_000),
            total_bytes: None,
            total_count: None,
            max_age: None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_apart_by_their_addresses() {
        for path in ["a.db", "sqlite:a.db", "sqlite://a.db"] {
            assert_eq!(Database::parse(path).unwrap(), Database::Sqlite("a.db".into()));
        }
        assert_eq!(Database::parse("sqlite:///x/a.db").unwrap(), Database::Sqlite("/x/a.db".into()));
        assert_eq!(Database::parse("./a/b://c").unwrap(), Database::Sqlite("./a/b://c".into()));
        let server = Database::parse("postgres://somebody:hidden@host/artifacts").unwrap();
        assert!(matches!(server, Database::Postgres(_)));
        assert!(!format!("{server:?}").contains("hidden"));
        for address in ["", "sqlite:", "mysql://host/x", "a\0b"] {
            assert!(Database::parse(address).is_err(), "{address:?}");
        }
    }
}
