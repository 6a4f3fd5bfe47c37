//! Datasets: named inputs with a version and a hash, fetched once for all sessions and shared read-only.
#![forbid(unsafe_code)]
