//! belljar
