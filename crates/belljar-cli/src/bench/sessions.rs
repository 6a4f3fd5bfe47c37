//! What keeping, forking and rewinding sessions costs.

mod cells;
mod checkpoint;
mod crowd;
mod fallbacks;
mod fork;
mod process;
mod sleep;
mod snapshot;
mod undo;

use belljar::Session;

pub(super) use self::sleep::wake_once;
use super::Name;
use super::peers::Peers;
use super::row::Row;
use super::scene::{Scene, run};

/// Bytes of the session that is called big, and of what fills it.
const BIG_BYTES: usize = 64 << 20;
const BIG: &str = "import os\nbig = bytearray(64 << 20)";
/// In place: no temporary of the same size is left behind.
const FILL_BIG: &str = "for n in range(64): big[n << 20:(n + 1) << 20] = os.urandom(1 << 20)";

/// A session of 3 MB, and a cell that writes all of it.
const SMALL: &str = "import os\nsmall = bytearray(3 << 20)";
const FILL_SMALL: &str = "for n in range(0, 3 << 20, 1 << 16): small[n:n + (1 << 16)] = os.urandom(1 << 16)";

pub(super) fn measure(name: Name, scene: &Scene, peers: &Peers) -> anyhow::Result<Vec<Row>> {
    match name {
        Name::Basics | Name::Packages | Name::Workspaces | Name::Artifacts | Name::Native => Ok(Vec::new()),
        Name::Process => process::measure(scene),
        Name::Fork => fork::measure(scene),
        Name::Checkpoint => {
            let mut rows = checkpoint::measure(scene)?;
            rows.extend(sleep::measure(scene)?);
            Ok(rows)
        }
        Name::Snapshot => snapshot::measure(scene, peers),
        Name::Cells => cells::measure(scene, peers),
        Name::Fallbacks => fallbacks::measure(scene),
        Name::Undo => undo::measure(scene),
        Name::Crowd => crowd::measure(scene),
    }
}

fn fill(session: &Session, make: &str, fill: &str) -> anyhow::Result<()> {
    run(session, make)?;
    run(session, fill)?;
    session.settle_blocking();
    Ok(())
}

/// Bytes in a time, in 10⁶ bytes per second.
fn speed(bytes: usize, milliseconds: f64) -> f64 {
    bytes as f64 / 1e3 / milliseconds
}
