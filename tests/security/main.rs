//! What hostile code can't do.
