//! What the native engine costs, beside bubblewrap, Jupyter and plain Python in the same minutes.
//!
//! | module | its noun |
//! |---|---|
//! | `start` | new sessions with everything imported, their first result |
//! | `jupyter` | a kernel of Jupyter's beside a session |
//! | `speed` | Python and commands as such |
//! | `memory` | what sessions hold |
//! | `sleep` | keeping a large frame, and waking it |
//! | `shadow` | what it costs that cells can be taken back |
//! | `branch` | forks and checkpoints |
//! | `plain` | the interpreter and the packages without Belljar, in bwrap or not |
//! | `processes` | memory of all processes below this one |

mod branch;
mod jupyter;
mod memory;
mod plain;
mod processes;
mod shadow;
mod sleep;
mod speed;
mod start;

use std::path::Path;

use belljar::{EngineKind, Environment, Quiet, Sandbox, SandboxBuilder};

use self::jupyter::Jupyter;
use self::plain::Plain;
use super::row::Row;
use super::scene::Scene;
use crate::console;

/// A first result: a frame, a group, its text.
const FIRST: &str = "\
import pandas as pd
df = pd.DataFrame({'k': [n % 7 for n in range(1000)], 'v': range(1000)})
print(repr(df.groupby('k').mean()))
";
const MODULES: &str =
    "import numpy, pandas, sklearn, pyarrow, pyarrow.parquet, rdkit.Chem, matplotlib.pyplot\nprint(1)";

/// All that the measurements have in common.
struct Ground<'s> {
    scene: &'s Scene,
    science: Environment,
    plain: Plain,
    jupyter: Option<Jupyter>,
}

impl Ground<'_> {
    /// For sessions of the environment `science`.
    fn science(&self) -> SandboxBuilder {
        Sandbox::builder().runtimes(self.scene.runtimes().clone()).environment(self.science.clone())
    }

    /// For sessions without packages.
    fn bare(&self) -> SandboxBuilder {
        Sandbox::builder().runtimes(self.scene.runtimes().clone()).engine(EngineKind::Native)
    }
}

/// The rows, and who could not be measured and why.
pub(super) fn measure(scene: &Scene, script: Option<&Path>) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let mut science = Environment::science();
    science.lock = Some(science.lock(scene.runtimes(), &Quiet)?);
    let (plain, jupyter, notes) = plain::find(scene, &science, script)?;
    for note in &notes {
        console::note(format_args!("{note}"));
    }
    let mut ground = Ground { scene, science, plain, jupyter };
    let mut rows = start::measure(&ground)?;
    rows.extend(jupyter::measure(&mut ground)?);
    // Its processes aren't ours, and would be counted with them.
    ground.jupyter = None;
    rows.extend(speed::measure(&ground)?);
    rows.extend(memory::measure(&ground)?);
    rows.extend(sleep::measure(&ground)?);
    rows.extend(shadow::measure(&ground)?);
    rows.extend(branch::measure(&ground)?);
    Ok((rows, notes))
}
