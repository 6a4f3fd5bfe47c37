//! A frame of 200 MB to the disk and back, beside cloudpickle.

use anyhow::{Context, ensure};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{expect, run};
use super::Ground;

const MAKE: &str = "\
import numpy as np, pandas as pd
df = pd.DataFrame(np.random.default_rng().random((250_000, 100)))
";
const SHAPE: &str = "df.shape";
const CELL: &str = "df.iloc[5, 3]";

pub(super) fn measure(ground: &Ground<'_>) -> anyhow::Result<Vec<Row>> {
    let state = ground.scene.state("native");
    let sandbox = ground.science().state_dir(state).build_blocking()?;
    let file = ground.scene.directory().join("frame.pickle");
    let pickle = format!(
        "{MAKE}\
         import cloudpickle, os, time\n\
         began = time.perf_counter()\n\
         with open({file:?}, 'wb') as file:\n    \
             cloudpickle.dump(df, file)\n    \
             file.flush()\n    \
             os.fsync(file.fileno())\n\
         dumped = time.perf_counter()\n\
         del df\n\
         loading = time.perf_counter()\n\
         with open({file:?}, 'rb') as file:\n    \
             df = cloudpickle.load(file)\n\
         {SHAPE}; {CELL}\n\
         print(dumped - began, time.perf_counter() - loading)\n"
    );
    let (mut sleeping, mut waking, mut touching) = (Vec::new(), Vec::new(), Vec::new());
    let (mut dumping, mut loading) = (Vec::new(), Vec::new());
    for round in 0..ground.scene.many(6) + 1 {
        let output = ground.plain.python(&pickle).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.split_whitespace().map(str::parse::<f64>);
        let (dumped, loaded) = numbers.next().zip(numbers.next()).with_context(|| {
            format!("cloudpickle could not be measured: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        let (dumped, loaded) = (dumped? * 1e3, loaded? * 1e3);
        std::fs::remove_file(&file)?;

        let session = sandbox.create_blocking(None)?;
        run(&session, MAKE)?;
        session.settle_blocking();
        let (slept, _) = time(|| Ok(session.hibernate_blocking()?))?;
        ensure!(!session.is_live_blocking(), "it isn't asleep");
        let (woke, ()) = time(|| expect(&session, SHAPE, "(250000, 100)"))?;
        let (touched, _) = time(|| run(&session, CELL))?;
        session.close_blocking()?;
        if round > 0 {
            sleeping.push(milliseconds(slept));
            waking.push(milliseconds(woke));
            touching.push(milliseconds(woke + touched));
            dumping.push(dumped);
            loading.push(loaded);
        }
    }
    let (dumping, loading) = (Sample::new(dumping).median, Sample::new(loading).median);
    Ok(vec![
        Row::new("hibernate a frame of 200 MB, durable", "ms", &Sample::new(sleeping))
            .against("cloudpickle + fsync", Some(dumping))
            .promise(Promise::RatioAtMost(1.3)),
        Row::new("wake it, to df.shape", "ms", &Sample::new(waking))
            .against("cloudpickle.load", Some(loading))
            .promise(Promise::Faster(5.0)),
        Row::new("  and df.iloc[5, 3] in the next cell", "ms", &Sample::new(touching))
            .against("cloudpickle.load", Some(loading)),
    ])
}
