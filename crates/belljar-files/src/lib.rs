//! belljar-files
