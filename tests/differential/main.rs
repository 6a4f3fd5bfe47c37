//! Flattening changes nothing: the same programs run on the component as componentize-py made it, under the
//! `wasmtime` package of PyPI with its own WASI, and on Belljar's engine, and say the same.
//!
//! `programs/` holds them, cells apart by `# %%`. `# %% raises ValueError` and `# %% exits 3` say how a cell ends
//! when it doesn't end well, so that a slip in a program isn't taken for agreement.
//!
//! | module | its noun |
//! |---|---|
//! | `program` | the programs |
//! | `component` | what the component says (`component.py`, for which `install.py` gets the package) |
//! | `flattened` | what Belljar says |
//! | `ending` | how a cell ended, and how two endings differ |
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod component;
mod ending;
mod flattened;
mod program;

use std::thread;

use program::Program;

#[test]
fn the_flattened_interpreter_says_what_the_component_says() {
    let programs = Program::all();
    assert!(programs.len() >= 60, "only {} programs were found", programs.len());
    let (expected, found) = thread::scope(|scope| {
        let component = scope.spawn(|| component::run(&programs));
        let found = flattened::run(&programs);
        (component.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), found)
    });
    let mut complaints = Vec::new();
    for (program, (expected, found)) in programs.iter().zip(expected.iter().zip(&found)) {
        for (cell, (expected, found)) in program.cells.iter().zip(expected.iter().zip(found)) {
            let place = format!("{}, line {}", program.name, cell.line);
            if let Some(surprise) = expected.surprise(&cell.expected) {
                complaints.push(format!("{place}: the program itself is wrong: {surprise}"));
            }
            complaints.extend(expected.differences(found).map(|difference| format!("{place}: {difference}")));
        }
    }
    assert!(complaints.is_empty(), "{} complaints\n\n{}", complaints.len(), complaints.join("\n\n"));
}
