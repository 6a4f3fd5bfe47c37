//! The database, whichever it is: statements with values go in, rows come out.
//!
//! Statements are written so that both understand them. There is one writer at a time, on PostgreSQL too: what is
//! read in a [`Writing`] is so until it ends.

mod faults;
mod migrations;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Connection as _, PgPool, Postgres, Row as _, Sqlite, SqlitePool};
use tokio::sync::{Mutex, MutexGuard};

use crate::error::{ArtifactError, At, Result};
use crate::settings;

/// How long others may hold the database.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: u32 = 8;
/// How many rows one statement inserts, or asks for by name. SQLite takes 32,766 values.
pub(crate) const ROWS: usize = 500;

pub(crate) struct Database {
    pool: Pool,
    /// So that writers of this process queue up, rather than each asking again and again.
    queue: Mutex<()>,
}

enum Pool {
    Sqlite { pool: SqlitePool, path: PathBuf, file: (u64, u64) },
    Postgres(PgPool),
}

/// Statements with so many values are kept prepared.
const FEW: usize = 20;

/// A value that goes with a statement.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Integer(i64),
    Text(String),
    Nothing,
}

/// What comes out.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A transaction of the only one who writes. Unless it is committed, nothing has happened.
pub(crate) struct Writing<'d> {
    transaction: Transaction,
    _turn: MutexGuard<'d, ()>,
}

enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// A statement with its values. The text is made here and has nothing of anybody else in it: what comes from
/// elsewhere is a value.
macro_rules! query {
    ($sql:expr, $values:expr) => {{
        let values: Vec<Value> = $values;
        // Those of many rows come in all lengths, are large, and aren't worth keeping.
        let mut query = sqlx::query(AssertSqlSafe($sql.to_owned())).persistent(values.len() <= FEW);
        for value in values {
            query = match value {
                Value::Integer(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Nothing => query.bind(None::<String>),
            };
        }
        query
    }};
}

impl Database {
    pub(crate) async fn open(settings: &settings::Database) -> Result<Self> {
        let pool = match settings {
            settings::Database::Sqlite(path) => {
                if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    std::fs::create_dir_all(parent).at("make", parent)?;
                }
                let pool = open_sqlite(path).await?;
                let file = file_of(path).ok_or_else(|| ArtifactError::Unreachable {
                    reason: "its file was removed at once".into(),
                })?;
                Pool::Sqlite { pool, path: path.clone(), file }
            }
            settings::Database::Postgres(url) => Pool::Postgres(open_postgres(url).await?),
        };
        Ok(Self { pool, queue: Mutex::new(()) })
    }

    /// Waits until all connections are closed.
    pub(crate) async fn close(&self) {
        match &self.pool {
            Pool::Sqlite { pool, .. } => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }

    /// Reads what was committed.
    pub(crate) async fn rows(&self, action: &'static str, sql: &str, values: Vec<Value>) -> Result<Vec<Row>> {
        self.check_file()?;
        match &self.pool {
            Pool::Sqlite { pool, .. } => query!(sql, values)
                .fetch_all(pool)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Pool::Postgres(pool) => query!(sql, values)
                .fetch_all(pool)
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        }
        .map_err(|error| self.told(action, &error))
    }

    /// Waits until nobody else writes.
    pub(crate) async fn write(&self, action: &'static str) -> Result<Writing<'_>> {
        self.check_file()?;
        let turn = self.queue.lock().await;
        let told = |error: sqlx::Error| self.told(action, &error);
        let transaction = match &self.pool {
            Pool::Sqlite { pool, .. } => {
                Transaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await.map_err(told)?)
            }
            Pool::Postgres(pool) => {
                let mut transaction = pool.begin().await.map_err(told)?;
                // Others go on reading.
                sqlx::query("LOCK TABLE held IN SHARE ROW EXCLUSIVE MODE")
                    .execute(&mut *transaction)
                    .await
                    .map_err(told)?;
                Transaction::Postgres(transaction)
            }
        };
        Ok(Writing { transaction, _turn: turn })
    }

    /// Where a server refuses connections, the pool asks it again until nobody wants to wait any more: that is no lack
    /// of connections.
    fn told(&self, action: &'static str, error: &sqlx::Error) -> ArtifactError {
        match (&self.pool, error) {
            (Pool::Postgres(pool), sqlx::Error::PoolTimedOut) if pool.size() < CONNECTIONS => {
                ArtifactError::Unreachable { reason: "it takes no connections".into() }
            }
            _ => faults::told(action, error),
        }
    }

    /// SQLite goes on with a file that was removed, and what is committed to that is lost.
    fn check_file(&self) -> Result<()> {
        match &self.pool {
            Pool::Sqlite { path, file, .. } if file_of(path) != Some(*file) => {
                Err(ArtifactError::Unreachable {
                    reason: format!("{} was removed or replaced", path.display()),
                })
            }
            _ => Ok(()),
        }
    }
}

impl Writing<'_> {
    pub(crate) async fn rows(
        &mut self,
        action: &'static str,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>> {
        match &mut self.transaction {
            Transaction::Sqlite(transaction) => query!(sql, values)
                .fetch_all(&mut **transaction)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Transaction::Postgres(transaction) => query!(sql, values)
                .fetch_all(&mut **transaction)
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        }
        .map_err(|error| faults::told(action, &error))
    }

    /// Returns how many rows changed.
    pub(crate) async fn execute(
        &mut self,
        action: &'static str,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<u64> {
        match &mut self.transaction {
            Transaction::Sqlite(transaction) => {
                query!(sql, values).execute(&mut **transaction).await.map(|done| done.rows_affected())
            }
            Transaction::Postgres(transaction) => {
                query!(sql, values).execute(&mut **transaction).await.map(|done| done.rows_affected())
            }
        }
        .map_err(|error| faults::told(action, &error))
    }

    /// Inserts rows, each with as many values as there are columns. `conflict` says what happens to rows that are
    /// there.
    pub(crate) async fn insert(
        &mut self,
        action: &'static str,
        (table, columns, conflict): (&str, &str, &str),
        rows: Vec<Vec<Value>>,
    ) -> Result<()> {
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let mut sql = format!("INSERT INTO {table} ({columns}) VALUES ");
            let mut values = Vec::new();
            for (place, row) in rows.by_ref().take(ROWS).enumerate() {
                let comma = if place > 0 { ", " } else { "" };
                let marks = match self.transaction {
                    // SQLite would look up each numbered one among all that came before.
                    Transaction::Sqlite(_) => vec!["?"; row.len()].join(", "),
                    Transaction::Postgres(_) => placeholders(values.len(), row.len()),
                };
                sql.push_str(&format!("{comma}({marks})"));
                values.extend(row);
            }
            sql.push(' ');
            sql.push_str(conflict);
            self.execute(action, &sql, values).await?;
        }
        Ok(())
    }

    pub(crate) async fn commit(self, action: &'static str) -> Result<()> {
        match self.transaction {
            Transaction::Sqlite(transaction) => transaction.commit().await,
            Transaction::Postgres(transaction) => transaction.commit().await,
        }
        .map_err(|error| match faults::told(action, &error) {
            // Only the answer may have been lost.
            ArtifactError::Unreachable { reason } => ArtifactError::Unreachable {
                reason: format!("{reason}; it may have finished what it was told"),
            },
            error => error,
        })
    }

    /// Without waiting for it, the connection would be rolled back by whoever has it next.
    pub(crate) async fn roll_back(self) -> Result<()> {
        match self.transaction {
            Transaction::Sqlite(transaction) => transaction.rollback().await,
            Transaction::Postgres(transaction) => transaction.rollback().await,
        }
        .map_err(|error| faults::told("undo", &error))
    }
}

impl Row {
    pub(crate) fn text(&self, column: usize) -> Result<String> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
        .map_err(|error| faults::told("read a row", &error))
    }

    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<String>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
        .map_err(|error| faults::told("read a row", &error))
    }

    /// A number that isn't negative.
    pub(crate) fn number(&self, column: usize) -> Result<u64> {
        let number: i64 = match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
        .map_err(|error| faults::told("read a row", &error))?;
        u64::try_from(number).map_err(|_| ArtifactError::Damaged {
            what: "the database".into(),
            reason: format!("{number} can't be negative"),
        })
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Nothing, Self::Text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value {
    fn from(given: bool) -> Self {
        Self::Integer(given.into())
    }
}

/// `$5, $6, $7`, for three after four.
pub(crate) fn placeholders(before: usize, count: usize) -> String {
    let mut text = String::with_capacity(count * 6);
    for number in before + 1..=before + count {
        if number > before + 1 {
            text.push_str(", ");
        }
        text.push('$');
        text.push_str(&number.to_string());
    }
    text
}

async fn open_sqlite(path: &Path) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // What was acknowledged stays when the power fails.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(PATIENCE);
    let mut attempts = 0;
    loop {
        // The first connection is made alone: only one can set the journal's mode.
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(2 * PATIENCE)
            .connect_with(options.clone())
            .await
            .map_err(|error| faults::told("open the database", &error));
        let opened = match pool {
            Ok(pool) => match migrations::run_sqlite(&pool).await {
                Ok(()) => return Ok(pool),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        attempts += 1;
        match opened {
            // Somebody else may have made the same tables in the meantime: SQLite's migrations take no lock.
            Err(ArtifactError::Database { .. } | ArtifactError::Busy { .. }) if attempts < 5 => {
                tokio::time::sleep(Duration::from_millis(20 * attempts)).await;
            }
            other => return other,
        }
    }
}

async fn open_postgres(url: &str) -> Result<PgPool> {
    let wait = format!("{}ms", PATIENCE.as_millis());
    let options = PgConnectOptions::from_str(url)
        // Without what was given: there may be a password in it.
        .map_err(|error| {
            ArtifactError::invalid("the address of a PostgreSQL server", "postgres://…", error.to_string())
        })?
        .application_name("belljar")
        .options([("lock_timeout", wait.as_str()), ("synchronous_commit", "on")]);
    // First without a pool, which would ask a server that isn't there again and again, and not say why.
    let first = tokio::time::timeout(PATIENCE, sqlx::PgConnection::connect_with(&options)).await;
    let first = first.map_err(|_| ArtifactError::Unreachable { reason: "it doesn't answer".into() })?;
    let _ = first.map_err(|error| faults::told("open the database", &error))?.close().await;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .connect_with(options)
        .await
        .map_err(|error| faults::told("open the database", &error))?;
    migrations::run_postgres(&pool).await?;
    Ok(pool)
}

/// Which file has a name.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
