//! What is written to the database, and how it is read.

use std::collections::HashMap;

use crate::artifact::{Artifact, ArtifactId};
use crate::clock;
use crate::database::{Database, ROWS, Row, Value, Writing, placeholders};
use crate::error::{ArtifactError, Result};
use crate::quota::Held;

/// The columns of an artifact, in the order in which [`artifact`] reads them.
pub(crate) const ARTIFACT: &str =
    "id, name, size, mime, sha256, created_ms, session, cell, tool_call, parents, pinned, taken_back";

/// Contents that are there.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) size: u64,
    pub(crate) place: String,
}

/// Reads an artifact from a row that begins with [`ARTIFACT`].
pub(crate) fn artifact(row: &Row) -> Result<Artifact> {
    let damaged = |reason: String| ArtifactError::Damaged { what: "the database".into(), reason };
    let parents = row.text(9)?;
    Ok(Artifact {
        id: ArtifactId(row.text(0)?),
        name: row.text(1)?,
        size: row.number(2)?,
        mime: row.text(3)?,
        sha256: row.text(4)?,
        created_at: clock::rfc3339(row.number(5)?),
        url: None,
        session: row.text(6)?,
        cell: u32::try_from(row.number(7)?).map_err(|error| damaged(error.to_string()))?,
        tool_call: row.optional_text(8)?,
        parents: serde_json::from_str(&parents).map_err(|error| damaged(error.to_string()))?,
        pinned: row.number(10)? != 0,
        taken_back: row.number(11)? != 0,
    })
}

/// Which of these contents the database has.
pub(crate) async fn blobs(database: &Database, hashes: &[&str]) -> Result<HashMap<String, Blob>> {
    let mut found = HashMap::new();
    for some in hashes.chunks(ROWS) {
        let (sql, values) = blobs_query(some);
        for row in database.rows("look for contents", &sql, values).await? {
            insert_blob(&row, &mut found)?;
        }
    }
    Ok(found)
}

/// Which of these contents the database has, until the transaction ends.
pub(crate) async fn blobs_within(
    writing: &mut Writing<'_>,
    hashes: &[&str],
) -> Result<HashMap<String, Blob>> {
    let mut found = HashMap::new();
    for some in hashes.chunks(ROWS) {
        let (sql, values) = blobs_query(some);
        for row in writing.rows("look for contents", &sql, values).await? {
            insert_blob(&row, &mut found)?;
        }
    }
    Ok(found)
}

fn blobs_query(hashes: &[&str]) -> (String, Vec<Value>) {
    let marks = placeholders(0, hashes.len());
    let sql = format!("SELECT sha256, size, place FROM blobs WHERE sha256 IN ({marks})");
    (sql, hashes.iter().map(|hash| Value::from(*hash)).collect())
}

fn insert_blob(row: &Row, found: &mut HashMap<String, Blob>) -> Result<()> {
    found.insert(row.text(0)?, Blob { size: row.number(1)?, place: row.text(2)? });
    Ok(())
}

const HELD: &str = "SELECT tenant, session, bytes, files FROM held \
                    WHERE (tenant = $1 AND session IN ($2, '')) OR (tenant = '' AND session = '')";

/// What a session, its tenant and all hold.
pub(crate) async fn held(database: &Database, tenant: &str, session: &str) -> Result<[Held; 3]> {
    read_held(database.rows("look at quotas", HELD, vec![tenant.into(), session.into()]).await?)
}

/// What a session, its tenant and all hold, until the transaction ends.
pub(crate) async fn held_within(writing: &mut Writing<'_>, tenant: &str, session: &str) -> Result<[Held; 3]> {
    read_held(writing.rows("look at quotas", HELD, vec![tenant.into(), session.into()]).await?)
}

fn read_held(rows: Vec<Row>) -> Result<[Held; 3]> {
    let mut held = [Held::default(); 3];
    for row in rows {
        let place = match (row.text(0)?.is_empty(), row.text(1)?.is_empty()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        held[place] = Held { bytes: row.number(2)?, files: row.number(3)? };
    }
    Ok(held)
}

/// Writes what a session, its tenant and all hold.
pub(crate) async fn set_held(
    writing: &mut Writing<'_>,
    tenant: &str,
    session: &str,
    [of_session, of_tenant, in_all]: [Held; 3],
) -> Result<()> {
    let rows = [(tenant, session, of_session), (tenant, "", of_tenant), ("", "", in_all)]
        .map(|(tenant, session, held)| {
            vec![tenant.into(), session.into(), held.bytes.into(), held.files.into()]
        })
        .into();
    let conflict =
        "ON CONFLICT (tenant, session) DO UPDATE SET bytes = excluded.bytes, files = excluded.files";
    writing.insert("write quotas", ("held", "tenant, session, bytes, files", conflict), rows).await
}

/// Takes what was removed from what is held. Nothing becomes negative, should it have been wrong.
pub(crate) async fn release(
    writing: &mut Writing<'_>,
    tenant: &str,
    session: &str,
    bytes: u64,
    files: u64,
) -> Result<()> {
    let sql = "UPDATE held SET bytes = CASE WHEN bytes > $1 THEN bytes - $1 ELSE 0 END, \
               files = CASE WHEN files > $2 THEN files - $2 ELSE 0 END WHERE tenant = $3 AND session = $4";
    let values = vec![bytes.into(), files.into(), tenant.into(), session.into()];
    writing.execute("write quotas", sql, values).await?;
    Ok(())
}
