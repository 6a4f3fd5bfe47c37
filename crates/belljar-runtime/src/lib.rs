//! belljar-runtime
