//! What runs sessions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What runs sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// CPython on WebAssembly, in this process.
    #[default]
    Wasm,
    /// The machine's own CPython, in a jail of the kernel's.
    Native,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Wasm => "wasm",
            Self::Native => "native",
        })
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "wasm" => Ok(Self::Wasm),
            "native" => Ok(Self::Native),
            _ => Err(format!("there is no engine {name:?}, only wasm and native")),
        }
    }
}
