//! Host functions that guest code may call by name.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::Limits;

/// What the guest is told of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name it is called by: a Python identifier.
    pub name: String,
    /// What it does, for `help()`.
    pub description: String,
    /// JSON schema of its arguments, for `help()`.
    pub parameters: Value,
}

/// One call of a tool by guest code. Name and arguments are the guest's words: untrusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Keyword arguments.
    pub kwargs: serde_json::Map<String, Value>,
}

/// Why a tool call gave no result. The guest sees it as a Python exception of type `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{kind}: {message}")]
pub struct ToolFailure {
    /// Name of the Python exception, e.g. `ValueError`; anything unknown becomes a `ToolError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What to tell the guest.
    pub message: String,
}

impl ToolFailure {
    /// A failure that the guest sees as the exception `kind`.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }
}

/// Takes the answer to one tool call, from any thread.
pub type ToolReply = Box<dyn FnOnce(Result<Value, ToolFailure>) + Send>;

/// Counts the tool calls of one cell against its limits.
#[derive(Debug)]
pub struct ToolGate {
    left: u64,
    limit: u64,
    bytes: u64,
}

impl ToolGate {
    /// A gate for one cell.
    pub fn new(limits: &Limits) -> Self {
        Self { left: limits.tool_calls, limit: limits.tool_calls, bytes: limits.tool_bytes }
    }

    /// Lets one call with so many bytes of arguments pass, or says why not.
    pub fn admit(&mut self, bytes: usize) -> Result<(), ToolFailure> {
        if bytes as u64 > self.bytes {
            return Err(ToolFailure::new(
                "ValueError",
                format!("the arguments are {bytes} bytes of JSON; a tool call may have {}", self.bytes),
            ));
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Err(ToolFailure::new(
                "ToolError",
                format!("this cell has used up its {} tool calls", self.limit),
            ));
        };
        self.left = left;
        Ok(())
    }

    /// Whether a result of so many bytes may go back to the guest.
    pub fn admit_result(&self, bytes: usize) -> Result<(), ToolFailure> {
        if bytes as u64 > self.bytes {
            return Err(ToolFailure::new(
                "ValueError",
                format!("the result is {bytes} bytes of JSON; a tool call may return {}", self.bytes),
            ));
        }
        Ok(())
    }
}
