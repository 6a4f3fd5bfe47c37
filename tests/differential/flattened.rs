use belljar::{Tool, ToolFailure};
use belljar_tests::builder;
use serde_json::json;

use crate::ending::Ending;
use crate::program::Program;

/// Runs each program in a session of its own.
pub(crate) fn run(programs: &[Program]) -> Vec<Vec<Ending>> {
    // As in `component.py`.
    let echo =
        Tool::new("echo", "", |arguments| Ok(json!({ "args": arguments.args, "kwargs": arguments.kwargs })));
    let fail = Tool::new("fail", "", |_| Err(ToolFailure::new("ValueError", "as told")));
    let sandbox = builder().tool(echo).tool(fail).build_blocking().unwrap();
    let run = |program: &Program| {
        let session = sandbox.session_blocking().unwrap();
        let run = |code: &str| Ending::from_outcome(&session.run_blocking(code).unwrap());
        program.cells.iter().map(|cell| run(&cell.code)).collect()
    };
    programs.iter().map(run).collect()
}
