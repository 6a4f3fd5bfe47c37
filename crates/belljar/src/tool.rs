//! Host functions that guest code may call by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use belljar_engine::{ToolCall, ToolFailure, ToolReply, ToolSpec};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

use crate::Error;
use crate::tool_threads::{Run, ToolThreads};

/// What a tool returns.
pub type ToolResult = Result<Value, ToolFailure>;

type SyncFunction = dyn Fn(ToolArguments) -> ToolResult + Send + Sync;
type AsyncFunction = dyn Fn(ToolArguments) -> Pin<Box<dyn Future<Output = ToolResult> + Send>> + Send + Sync;

/// A host function that guest code calls as `tools.name(…)`.
///
/// ```
/// use belljar::{Tool, ToolFailure};
/// let add = Tool::new("add", "Adds two numbers.", |arguments| {
///     let a = arguments.get("a", 0).and_then(|value| value.as_i64());
///     let b = arguments.get("b", 1).and_then(|value| value.as_i64());
///     match (a, b) {
///         (Some(a), Some(b)) => Ok((a + b).into()),
///         _ => Err(ToolFailure::new("TypeError", "add takes two whole numbers")),
///     }
/// });
/// ```
#[derive(Clone)]
pub struct Tool {
    spec: ToolSpec,
    function: Function,
}

#[derive(Clone)]
enum Function {
    Sync(Arc<SyncFunction>),
    Async(Arc<AsyncFunction>),
}

/// What guest code passed: untrusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolArguments {
    /// By position.
    pub args: Vec<Value>,
    /// By name.
    pub kwargs: Map<String, Value>,
}

impl ToolArguments {
    /// The argument of that name, or at that position.
    pub fn get(&self, name: &str, position: usize) -> Option<&Value> {
        self.kwargs.get(name).or_else(|| self.args.get(position))
    }
}

impl Tool {
    /// A tool that blocks. It runs on a thread of its own.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(ToolArguments) -> ToolResult + Send + Sync + 'static,
    ) -> Self {
        Self::with(name.into(), description.into(), Function::Sync(Arc::new(function)))
    }

    /// A tool that awaits. It runs on the tokio runtime that the cell was run from.
    pub fn new_async<F, R>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(ToolArguments) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let function = move |arguments| {
            Box::pin(function(arguments)) as Pin<Box<dyn Future<Output = ToolResult> + Send>>
        };
        Self::with(name.into(), description.into(), Function::Async(Arc::new(function)))
    }

    /// Adds a JSON schema of the arguments, which `help()` shows in the guest.
    pub fn parameters(mut self, schema: Value) -> Self {
        self.spec.parameters = schema;
        self
    }

    fn with(name: String, description: String, function: Function) -> Self {
        Self { spec: ToolSpec { name, description, parameters: json!({}) }, function }
    }
}

/// Names that Python doesn't allow after a dot.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The tools of a sandbox.
#[derive(Default)]
pub(crate) struct ToolTable {
    tools: BTreeMap<String, Tool>,
    threads: ToolThreads,
}

impl ToolTable {
    pub(crate) fn new(tools: Vec<Tool>) -> Result<Self, Error> {
        let mut table = Self::default();
        for tool in tools {
            let name = tool.spec.name.clone();
            let identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !identifier || name.starts_with("__") || KEYWORDS.contains(&name.as_str()) {
                return Err(Error::ToolName { name, reason: "it is not a Python identifier" });
            }
            if table.tools.insert(name.clone(), tool).is_some() {
                return Err(Error::ToolName { name, reason: "there is another tool of that name" });
            }
        }
        Ok(table)
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec.clone()).collect()
    }

    /// Starts a call; the answer goes to `reply`.
    pub(crate) fn call(&self, call: ToolCall, reply: ToolReply, runtime: Option<&Handle>) {
        let Some(tool) = self.tools.get(&call.name) else {
            reply(Err(ToolFailure::new(
                "AttributeError",
                format!("there is no tool called {:?}", call.name),
            )));
            return;
        };
        let arguments = ToolArguments { args: call.args, kwargs: call.kwargs };
        match (&tool.function, runtime) {
            (Function::Async(function), Some(runtime)) => {
                let function = Arc::clone(function);
                let name = call.name;
                runtime.spawn(async move {
                    // A task of its own, so that a panic in the tool is an answer too.
                    let result = tokio::spawn(async move { function(arguments).await }).await;
                    reply(result.unwrap_or_else(|_| Err(panicked(&name))));
                });
            }
            (Function::Async(function), None) => {
                let function = Arc::clone(function);
                self.run(call.name, reply, move || {
                    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
                        Ok(runtime) => runtime.block_on(function(arguments)),
                        Err(error) => Err(ToolFailure::new("ToolError", error.to_string())),
                    }
                });
            }
            (Function::Sync(function), _) => {
                let function = Arc::clone(function);
                self.run(call.name, reply, move || function(arguments));
            }
        }
    }

    /// Runs something on a thread that may block.
    pub(crate) fn run(
        &self,
        name: String,
        reply: ToolReply,
        body: impl FnOnce() -> ToolResult + Send + 'static,
    ) {
        self.threads.run(Box::new(move |run| {
            let result = match run {
                Run::Now => catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked(&name))),
                Run::Never => Err(ToolFailure::new("ToolError", "the host has no thread for another tool")),
            };
            reply(result);
        }));
    }
}

fn panicked(name: &str) -> ToolFailure {
    ToolFailure::new("ToolError", format!("the tool {name} panicked"))
}
