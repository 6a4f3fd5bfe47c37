//! The tables, from version to version.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgPool, SqlSafeStr, SqlitePool};

use super::faults;
use crate::error::{ArtifactError, Result};

/// Only ever added to: what was released isn't changed.
const SQLITE: [(i64, &str, &str); 1] =
    [(1, "artifacts", include_str!("../../migrations/sqlite/0001_artifacts.sql"))];
const POSTGRES: [(i64, &str, &str); 1] =
    [(1, "artifacts", include_str!("../../migrations/postgres/0001_artifacts.sql"))];
const TABLE: &str = "belljar_artifacts_versions";

pub(super) async fn run_sqlite(pool: &SqlitePool) -> Result<()> {
    migrator(&SQLITE).run(pool).await.map_err(told)
}

pub(super) async fn run_postgres(pool: &PgPool) -> Result<()> {
    // A connection of its own: should this fail, its lock goes with it.
    let mut connection =
        pool.acquire().await.map_err(|error| faults::told("open the database", &error))?.detach();
    let result = migrator(&POSTGRES).run(&mut connection).await.map_err(told);
    let _ = sqlx::Connection::close(connection).await;
    result
}

fn migrator(migrations: &'static [(i64, &str, &str)]) -> Migrator {
    let migration = |(version, description, sql): &'static (i64, &str, &str)| {
        Migration::new(*version, (*description).into(), MigrationType::Simple, (*sql).into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(migrations.iter().map(migration).collect());
    // The database may be shared with others who use the usual name.
    migrator.dangerous_set_table_name(TABLE);
    migrator
}

fn told(error: MigrateError) -> ArtifactError {
    match error {
        MigrateError::VersionMissing(version) => ArtifactError::Newer { version },
        MigrateError::VersionMismatch(version) | MigrateError::Dirty(version) => ArtifactError::Damaged {
            what: "the database".into(),
            reason: format!("version {version} of its tables isn't what this Belljar knows by that number"),
        },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            faults::told("make the tables", &error)
        }
        error => ArtifactError::Database { action: "make the tables", reason: error.to_string() },
    }
}
