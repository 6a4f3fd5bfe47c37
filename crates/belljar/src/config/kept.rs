//! `[artifacts]` and `[datasets]`: what becomes of what comes out of cells, and what goes in.

use std::path::PathBuf;
use std::time::Duration;

use belljar_transfer::S3Place;

use super::error::ConfigError;
use super::reader::{Entry, Section};
use super::sections::optional;
use crate::{
    ArtifactPolicy, ArtifactScope, ArtifactSettings, BlobPlace, Database, DatasetAccess, DatasetPolicy,
    FetchOptions,
};

type Result<T> = std::result::Result<T, ConfigError>;

/// A limit that was said: of so much, or none.
type Said<T> = Option<Option<T>>;

/// `[artifacts]`: what it says, and nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArtifactSection {
    keep: Option<bool>,
    leave: Option<bool>,
    displays: Option<bool>,
    read: Option<ArtifactScope>,
    seeded: Option<bool>,
    max_size: Said<u64>,
    max_count: Said<u64>,
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    /// The database, and the place of its contents: one is nothing without the other.
    place: Option<(Database, BlobPlace)>,
    url_base: Option<String>,
    link_life: Option<Duration>,
    session_quota: Said<u64>,
    session_count: Said<u64>,
    tenant_quota: Said<u64>,
    tenant_count: Said<u64>,
    total_quota: Said<u64>,
    total_count: Said<u64>,
    max_age: Said<Duration>,
}

impl ArtifactSection {
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        let flag = |key| optional(section.entry(key)?, |entry| entry.flag());
        let number = |key| optional(section.entry(key)?, |entry| entry.limit(Entry::number));
        let size = |key| optional(section.entry(key)?, |entry| entry.limit(Entry::size));
        let texts = |key| optional(section.entry(key)?, |entry| entry.texts());
        let database = optional(section.entry("database")?, database)?;
        let blobs = optional(section.entry("blobs")?, blobs)?;
        let place = match (database, blobs) {
            (Some(database), Some(blobs)) => Some((database, blobs)),
            (None, None) => None,
            (given, _) => {
                let (here, other) =
                    if given.is_some() { ("database", "blobs") } else { ("blobs", "database") };
                let problem = format!("`{here}` is given without `{other}`");
                let advice = "contents belong to one database: name both, or neither";
                return Err(section.problem(here, problem, advice));
            }
        };
        Ok(Self {
            keep: flag("keep")?,
            leave: flag("leave")?,
            displays: flag("displays")?,
            read: optional(section.entry("read")?, scope)?,
            seeded: flag("seeded")?,
            max_size: size("max_size")?,
            max_count: number("max_count")?,
            allow: texts("allow")?,
            deny: texts("deny")?,
            place,
            url_base: optional(section.entry("url_base")?, |entry| {
                // Whoever follows a link shows it what lets them have the file.
                entry.trusted("it names an address")?;
                entry.text().map(str::to_owned)
            })?,
            link_life: optional(section.entry("link_life")?, |entry| entry.age())?,
            session_quota: size("session_quota")?,
            session_count: number("session_count")?,
            tenant_quota: size("tenant_quota")?,
            tenant_count: number("tenant_count")?,
            total_quota: size("total_quota")?,
            total_count: number("total_count")?,
            max_age: optional(section.entry("max_age")?, |entry| entry.limit(Entry::age))?,
        })
    }

    pub(super) fn change(&self, policy: &mut ArtifactPolicy) {
        policy.keep = self.keep.unwrap_or(policy.keep);
        policy.leave = self.leave.unwrap_or(policy.leave);
        policy.displays = self.displays.unwrap_or(policy.displays);
        policy.read = self.read.unwrap_or(policy.read);
        policy.seeded = self.seeded.unwrap_or(policy.seeded);
        policy.max_bytes = self.max_size.unwrap_or(policy.max_bytes);
        policy.max_count = self.max_count.unwrap_or(policy.max_count);
        if let Some(allow) = &self.allow {
            policy.allow.clone_from(allow);
        }
        if let Some(deny) = &self.deny {
            policy.deny.clone_from(deny);
        }
    }

    /// Whether it names a place of their own.
    pub(crate) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    pub(crate) fn change_settings(&self, settings: &mut ArtifactSettings) {
        if let Some((database, blobs)) = &self.place {
            (settings.database, settings.blobs) = (database.clone(), blobs.clone());
        }
        settings.base = self.url_base.clone().or(settings.base.take());
        settings.link_life = self.link_life.unwrap_or(settings.link_life);
        let limits = &mut settings.limits;
        limits.session_bytes = self.session_quota.unwrap_or(limits.session_bytes);
        limits.session_count = self.session_count.unwrap_or(limits.session_count);
        limits.tenant_bytes = self.tenant_quota.unwrap_or(limits.tenant_bytes);
        limits.tenant_count = self.tenant_count.unwrap_or(limits.tenant_count);
        limits.total_bytes = self.total_quota.unwrap_or(limits.total_bytes);
        limits.total_count = self.total_count.unwrap_or(limits.total_count);
        limits.max_age = self.max_age.unwrap_or(limits.max_age);
    }
}

/// `[datasets]`: what it says, and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct DatasetSection {
    access: Option<DatasetAccess>,
    directory: Option<PathBuf>,
    allow: Option<Vec<String>>,
    cache_lists: Option<PathBuf>,
    max_size: Option<u64>,
    attempts: Option<u32>,
    timeout: Option<Duration>,
    allow_private: Option<bool>,
}

impl DatasetSection {
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        Ok(Self {
            access: optional(section.entry("access")?, access)?,
            directory: optional(section.entry("directory")?, |entry| entry.path())?,
            allow: optional(section.entry("allow")?, |entry| entry.texts())?,
            cache_lists: optional(section.entry("cache_lists")?, |entry| entry.path())?,
            max_size: optional(section.entry("max_size")?, |entry| entry.size())?,
            attempts: optional(section.entry("attempts")?, |entry| {
                let number = u32::try_from(entry.number()?).ok().filter(|number| *number > 0);
                number.ok_or_else(|| entry.wrong("a whole number above 0"))
            })?,
            timeout: optional(section.entry("timeout")?, |entry| entry.age())?,
            allow_private: optional(section.entry("allow_private")?, |entry| {
                let allow = entry.flag()?;
                if allow {
                    entry.trusted("it lets datasets be fetched from private networks")?;
                }
                Ok(allow)
            })?,
        })
    }

    pub(super) fn change(&self, policy: &mut DatasetPolicy) {
        policy.access = self.access.unwrap_or(policy.access);
        policy.directory = self.directory.clone().or(policy.directory.take());
        policy.allow = self.allow.clone().or(policy.allow.take());
        policy.cache_lists = self.cache_lists.clone().or(policy.cache_lists.take());
    }

    pub(super) fn change_options(&self, options: &mut FetchOptions) {
        options.max_bytes = self.max_size.unwrap_or(options.max_bytes);
        options.attempts = self.attempts.unwrap_or(options.attempts);
        options.timeout = self.timeout.unwrap_or(options.timeout);
        options.allow_private = self.allow_private.unwrap_or(options.allow_private);
    }
}

fn database(entry: Entry<'_>) -> Result<Database> {
    let parsed = Database::parse(entry.text()?);
    match parsed.map_err(|error| entry.invalid(error.to_string(), None))? {
        Database::Sqlite(path) => {
            let Some(text) = path.to_str() else { return Err(entry.wrong("a path")) };
            Ok(Database::Sqlite(entry.path_of(text)?))
        }
        server @ Database::Postgres(_) => {
            // What is kept there would be somebody else's.
            entry.trusted("it names an address")?;
            Ok(server)
        }
    }
}

fn blobs(entry: Entry<'_>) -> Result<BlobPlace> {
    let text = entry.text()?;
    if !text.starts_with("s3://") {
        return match text.contains("://") {
            true => Err(entry.wrong("a directory or \"s3://BUCKET/PREFIX\"")),
            false => Ok(BlobPlace::Directory(entry.path()?)),
        };
    }
    entry.trusted("it names an address")?;
    let place = S3Place::parse(text).map_err(|error| entry.invalid(error.to_string(), None))?;
    Ok(BlobPlace::S3(place))
}

/// What others made is nobody's to give himself.
fn scope(entry: Entry<'_>) -> Result<ArtifactScope> {
    match entry.text()? {
        "none" => Ok(ArtifactScope::None),
        "session" => Ok(ArtifactScope::Session),
        "tenant" => {
            entry.trusted("it lets code read what other sessions made")?;
            Ok(ArtifactScope::Tenant)
        }
        _ => Err(entry.wrong("\"none\", \"session\" or \"tenant\"")),
    }
}

/// Nor is what the user has of datasets. A directory of the file's own is.
fn access(entry: Entry<'_>) -> Result<DatasetAccess> {
    let access = match entry.text()? {
        "none" => DatasetAccess::None,
        "local-ro" => DatasetAccess::LocalRo,
        "api" => DatasetAccess::Api,
        "hybrid" => DatasetAccess::Hybrid,
        _ => return Err(entry.wrong("\"none\", \"local-ro\", \"api\" or \"hybrid\"")),
    };
    if access.is_staged() {
        entry.trusted("it lets code have your datasets")?;
    }
    Ok(access)
}
