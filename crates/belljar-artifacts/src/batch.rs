//! What goes into the store at once, and what came of it.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use crate::artifact::{Artifact, ArtifactId, Refusal, Refused};
use crate::record::{CellRecord, Origin};

/// What a cell left behind. All of it is kept in one go, or nothing is.
pub struct Batch<'a, 'f> {
    /// Whose it is.
    pub tenant: &'a str,
    /// The session.
    pub session: &'a str,
    /// The number of the cell.
    pub cell: u32,
    /// What the agent's framework calls the tool call that ran the cell.
    pub tool_call: Option<String>,
    /// What the session was made from.
    pub origin: &'a Origin,
    /// What happened since the last batch, the oldest first; the last one made the files. Those that are stored
    /// already may be among them.
    pub cells: &'a [CellRecord],
    /// Artifacts that the cell had read.
    pub parents: Vec<ArtifactId>,
    /// The files.
    pub files: Vec<NewFile<'f>>,
    /// Which of them may leave.
    pub admission: &'a Admission,
}

/// Begins to read a file.
pub type Opener<'a> = Box<dyn FnMut() -> io::Result<Box<dyn Read + 'a>> + 'a>;

/// A file that may be kept.
pub struct NewFile<'a> {
    /// Its path below `artifacts/`, or a made-up name.
    pub name: String,
    /// Begins to read it. It may be called more than once, and what it reads may have changed in between.
    pub open: Opener<'a>,
    /// How many bytes there seem to be.
    pub size: u64,
}

/// Which files may leave a sandbox. All of them, unless told otherwise.
#[derive(Clone, Default)]
pub struct Admission {
    /// Bytes of one file.
    pub max_bytes: Option<u64>,
    /// Files of one cell.
    pub max_count: Option<u64>,
    /// Kinds that may leave: `image/png`, `image/*`. All, if there are none.
    pub mime: Vec<String>,
    /// Kinds that may not, whatever `mime` says.
    pub deny: Vec<String>,
    /// Has the last word: its error is the reason that is given.
    pub hook: Option<Hook>,
}

/// Decides about a file.
pub type Hook = Arc<dyn Fn(&Candidate<'_>) -> Result<(), String> + Send + Sync>;

/// A file that a hook decides about.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Whose it is.
    pub tenant: &'a str,
    /// The session.
    pub session: &'a str,
    /// The number of the cell.
    pub cell: u32,
    /// Its path below `artifacts/`.
    pub name: &'a str,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub mime: &'a str,
    /// Of its contents.
    pub sha256: &'a str,
}

/// What came of a batch.
#[derive(Clone, Debug, Default)]
pub struct Ingested {
    /// What was kept, in the order of the files. It is durable.
    pub kept: Vec<Artifact>,
    /// What wasn't, in the order of the files: a thousand at most.
    pub refused: Vec<Refused>,
    /// How many more weren't.
    pub more_refused: u64,
}

/// How many refusals are listed: a guest can leave a million files.
pub(crate) const MOST_REFUSED: usize = 1000;

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Admission")
            .field("max_bytes", &self.max_bytes)
            .field("max_count", &self.max_count)
            .field("mime", &self.mime)
            .field("deny", &self.deny)
            .field("hook", &self.hook.is_some())
            .finish()
    }
}

impl Admission {
    /// Why files of a kind don't leave, if they don't.
    pub(crate) fn refuses_kind(&self, mime: &str) -> Option<String> {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| is_like(pattern, mime));
        let refused = any(&self.deny) || !(self.mime.is_empty() || any(&self.mime));
        refused.then(|| format!("files of the kind {mime} don't leave"))
    }

    /// Why the hook doesn't let a file leave, if it doesn't.
    pub(crate) fn refuses(&self, candidate: &Candidate<'_>) -> Option<String> {
        self.hook.as_ref().and_then(|hook| hook(candidate).err())
    }
}

/// Whether a kind is what a pattern says: `image/png`, `image/*`, `*/*`, `*`.
fn is_like(pattern: &str, mime: &str) -> bool {
    // Parameters such as `; charset=utf-8` don't make another kind of it.
    let bare = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (pattern, mime) = (bare(pattern), bare(mime));
    match pattern.split_once('/') {
        None => pattern == "*",
        Some(("*", "*")) => true,
        Some((kind, "*")) => mime.split_once('/').is_some_and(|(this, _)| this == kind),
        Some(_) => pattern == mime,
    }
}

pub(crate) fn refused(name: &str, size: u64, why: Refusal, reason: impl Into<String>) -> Refused {
    // Names come from strangers; a megabyte of one helps nobody.
    let shown = name.char_indices().nth(1024).map_or(name, |(end, _)| &name[..end]);
    Refused { name: shown.to_owned(), size, why, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_compared_by_their_parts() {
        for (pattern, mime, same) in [
            ("image/*", "image/png", true),
            ("image/*", "imagery/png", false),
            ("image/png", "image/png; charset=x", true),
            ("IMAGE/PNG", "image/png", true),
            ("image/pn", "image/png", false),
            ("*/*", "a/b", true),
            ("*", "a/b", true),
            ("", "a/b", false),
            ("image", "image/png", false),
        ] {
            assert_eq!(is_like(pattern, mime), same, "{pattern} {mime}");
        }
    }

    #[test]
    fn what_is_denied_stays_though_it_is_allowed() {
        let text = |text: &str| vec![text.to_owned()];
        let admission =
            Admission { mime: text("image/*"), deny: text("image/svg+xml"), ..Admission::default() };
        assert_eq!(admission.refuses_kind("image/png"), None);
        assert!(admission.refuses_kind("image/svg+xml").is_some());
        assert!(admission.refuses_kind("text/html").is_some());
        assert_eq!(Admission::default().refuses_kind("text/html"), None);
    }
}
