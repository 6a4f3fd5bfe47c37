//! Where contents are.

mod bucket;
mod directory;

pub(crate) use bucket::Bucket;
pub(crate) use directory::{Directory, Temporary};

/// A directory, or a bucket.
pub(crate) enum Blobs {
    Directory(Directory),
    Bucket(Bucket),
}

/// Contents that were found.
pub(crate) struct Found {
    /// What the database calls them.
    pub(crate) place: String,
    pub(crate) sha256: String,
    pub(crate) size: u64,
    /// In milliseconds since 1970.
    pub(crate) modified_ms: u64,
}
