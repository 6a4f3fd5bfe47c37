//! belljar-engine
