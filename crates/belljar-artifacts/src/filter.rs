//! Which artifacts are listed.

use crate::artifact::ArtifactId;
use crate::database::Value;
use crate::rows;
use crate::store::clean;

const MOST: u64 = 1_000;

/// Which artifacts are listed. All of them, unless told otherwise; a thousand at once.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of a session.
    pub session: Option<String>,
    /// Those of a cell.
    pub cell: Option<u32>,
    /// Those of a name.
    pub name: Option<String>,
    /// Those of a kind: `image/png`, or `image/*`.
    pub mime: Option<String>,
    /// Those with some contents.
    pub sha256: Option<String>,
    /// Those that are pinned, or aren't.
    pub pinned: Option<bool>,
    /// Those that are listed after this one, which are older.
    pub after: Option<ArtifactId>,
    /// So many, at most.
    pub limit: Option<u64>,
}

impl Filter {
    /// The statement; nothing, if nothing can be found.
    pub(crate) fn query(&self, tenant: &str) -> Option<(String, Vec<Value>)> {
        let mut sql = format!("SELECT {} FROM artifacts WHERE tenant = $1", rows::ARTIFACT);
        let mut values = vec![Value::from(clean(tenant))];
        let mut and = |condition: &str, value: Value, rest: &str| {
            values.push(value);
            sql.push_str(&format!(" AND {condition} ${}{rest}", values.len()));
        };
        for (condition, text) in
            [("session =", &self.session), ("name =", &self.name), ("sha256 =", &self.sha256)]
        {
            if let Some(text) = text {
                if text.contains('\0') {
                    return None;
                }
                and(condition, text.as_str().into(), "");
            }
        }
        if let Some(mime) = &self.mime {
            if mime.contains('\0') {
                return None;
            }
            match mime.strip_suffix("/*") {
                Some(kind) => {
                    let kind = kind.replace('!', "!!").replace('%', "!%").replace('_', "!_");
                    and("mime LIKE", format!("{kind}/%").into(), " ESCAPE '!'");
                }
                None => and("mime =", mime.as_str().into(), ""),
            }
        }
        if let Some(cell) = self.cell {
            and("cell =", u64::from(cell).into(), "");
        }
        if let Some(pinned) = self.pinned {
            and("pinned =", pinned.into(), "");
        }
        if let Some(after) = &self.after {
            and("id <", after.as_str().into(), "");
        }
        let limit = self.limit.unwrap_or(MOST).min(MOST);
        values.push(limit.into());
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", values.len()));
        Some((sql, values))
    }
}
