//! What stands between a guest and its host.

use serde::{Deserialize, Serialize};

/// One layer of an engine's isolation, and whether it is there on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name, by which a policy can require it, such as `seccomp` or `cgroup-memory`.
    pub name: String,
    /// What it stops.
    pub stops: String,
    /// Why it isn't there; `None` if it is.
    pub missing: Option<String>,
    /// How to get it.
    pub hint: Option<String>,
}

impl Layer {
    /// Whether it is there.
    pub fn is_active(&self) -> bool {
        self.missing.is_none()
    }
}
