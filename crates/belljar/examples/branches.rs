//! Tries three ways from the same point, keeps the best, and finds it again in another process.
//!
//! `cargo run --release -p belljar --example branches`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use belljar::{Error, Sandbox};

fn main() -> Result<(), Error> {
    let state = std::env::temp_dir().join("belljar-branches");
    let sandbox = Sandbox::builder().state_dir(&state).build_blocking()?;
    // A second run of this example goes on where the first stopped.
    let known = sandbox.registry()?.contains("model")?;
    let session =
        if known { sandbox.open_blocking("model")? } else { sandbox.create_blocking(Some("model"))? };
    session.run_blocking("best = globals().get('best', 0)\nopen('notes.txt', 'a').write('a run\\n')")?;
    session.checkpoint_blocking(None)?;

    let mut results = Vec::new();
    for (number, child) in session.fork_blocking(3)?.into_iter().enumerate() {
        let outcome = child.run_blocking(format!("best += {number} * 10\nbest"))?;
        let best = outcome.value.and_then(|value| value.text.parse::<i64>().ok()).unwrap_or_default();
        println!("child {number}: {best}");
        results.push((best, child));
    }
    let winner = results.iter().map(|(best, _)| *best).max().unwrap_or_default();
    session.run_blocking(format!("best = {winner}"))?;
    for (_, child) in results {
        child.close_blocking()?;
    }

    session.run_blocking("best = 'a mistake'")?;
    session.undo_blocking(1)?;
    let outcome = session.run_blocking("best, open('notes.txt').read().count('run')")?;
    println!("parent, after undo: {}", outcome.value.map(|value| value.text).unwrap_or_default());
    session.hibernate_blocking()?;
    for session in sandbox.registry()?.sessions()?.sessions {
        println!(
            "{}: {} cells, {} checkpoints, {} bytes on disk",
            session.id,
            session.cells,
            session.checkpoints.len(),
            session.stored_bytes
        );
    }
    Ok(())
}
