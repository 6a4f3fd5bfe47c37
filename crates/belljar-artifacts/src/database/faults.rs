//! What the databases' errors mean.

use sqlx::Error;
use sqlx::error::DatabaseError;

use crate::error::{ArtifactError, reason};

/// What an error of the database means to whoever asked.
pub(super) fn told(action: &'static str, error: &Error) -> ArtifactError {
    match error {
        Error::Database(database) => from_database(action, database.as_ref()),
        Error::Io(_) | Error::Tls(_) | Error::PoolClosed | Error::WorkerCrashed | Error::Protocol(_) => {
            ArtifactError::Unreachable { reason: reason(error) }
        }
        Error::PoolTimedOut => ArtifactError::Busy { reason: "no connection became free".into() },
        error => ArtifactError::Database { action, reason: reason(error) },
    }
}

fn from_database(action: &'static str, error: &dyn DatabaseError) -> ArtifactError {
    let reason = error.message().to_owned();
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        // The lowest byte is the kind, what is above says more of it.
        return match code.parse::<u32>().unwrap_or_default() & 0xff {
            5 | 6 => ArtifactError::Busy { reason },
            8 => ArtifactError::ReadOnly { reason },
            13 => ArtifactError::Full { place: "the database".into() },
            10 | 14 => ArtifactError::Unreachable { reason },
            11 | 26 => ArtifactError::Damaged { what: "the database".into(), reason },
            _ => ArtifactError::Database { action, reason },
        };
    }
    match code.as_ref() {
        // Locks that weren't had in time; deadlocks; transactions that can be tried again; too many connections.
        "55P03" | "40P01" | "40001" | "53300" => ArtifactError::Busy { reason },
        "25006" => ArtifactError::ReadOnly { reason },
        "53100" => ArtifactError::Full { place: "the database".into() },
        code if code.starts_with("08")
            || code.starts_with("57P")
            || code.starts_with("28")
            || code == "3D000" =>
        {
            ArtifactError::Unreachable { reason }
        }
        code if code.starts_with("XX") => ArtifactError::Damaged { what: "the database".into(), reason },
        _ => ArtifactError::Database { action, reason },
    }
}
