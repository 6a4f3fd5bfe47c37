//! Children of a session that holds 64 MB.

use std::thread;
use std::time::Duration;

use belljar::{Sandbox, Session};

use super::super::row::{Promise, Row};
use super::super::sample::{Sample, milliseconds, time};
use super::super::scene::{Scene, expect, run, whole_memory};
use super::{BIG, FILL_BIG, fill};

const CHILDREN: usize = 50;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let sandbox = scene.builder().build_blocking()?;
    let first_ever = Sample::collect(scene.many(10), || {
        let parent = parent(&sandbox)?;
        first_child(&parent)
    })?;
    let parent = parent(&sandbox)?;
    let first = Sample::collect(scene.many(30), || {
        run(&parent, "x = 1")?;
        parent.settle_blocking();
        first_child(&parent)
    })?;
    let each = Sample::collect(scene.many(30), || {
        run(&parent, "x = 1")?;
        parent.settle_blocking();
        first_child(&parent)?;
        let (taken, children) = time(|| Ok(parent.fork_blocking(CHILDREN)?))?;
        drop(children);
        Ok(milliseconds(taken) / CHILDREN as f64)
    })?;
    let answer = Sample::collect(scene.many(30), || {
        let children = parent.fork_blocking(1)?;
        Ok(milliseconds(time(|| expect(&children[0], "len(big)", "67108864"))?.0))
    })?;
    drop(parent);
    let mut rows = vec![
        Row::new("fork of a 64 MB session, its first child ever", "ms", &first_ever),
        Row::new("  the first child after a cell", "ms", &first),
        Row::new("  each child after the first", "ms", &each).promise(Promise::AtMost(0.2)),
        Row::new("  a child's first answer", "ms", &answer),
    ];
    rows.extend(memory_of_children(&sandbox)?);
    Ok(rows)
}

fn parent(sandbox: &Sandbox) -> anyhow::Result<Session> {
    let session = sandbox.session_blocking()?;
    fill(&session, BIG, FILL_BIG)?;
    Ok(session)
}

fn first_child(parent: &Session) -> anyhow::Result<f64> {
    Ok(milliseconds(time(|| Ok(parent.fork_blocking(1)?))?.0))
}

/// Each child writes to every page of a megabyte of its own.
fn memory_of_children(sandbox: &Sandbox) -> anyhow::Result<Vec<Row>> {
    let empty = whole_memory()?;
    let parent = parent(sandbox)?;
    let alone = whole_memory()?;
    // From here on its pages are frozen, where they can be shared.
    first_child(&parent)?;
    let frozen = whole_memory()?;
    let children = parent.fork_blocking(CHILDREN)?;
    let forked = whole_memory()?;
    for (number, child) in children.iter().enumerate() {
        run(child, &format!("for n in range({number} << 20, {number} + 1 << 20, 4096): big[n] ^= 1"))?;
    }
    let touched = whole_memory()?;
    thread::sleep(Duration::from_millis(2500));
    let idle = whole_memory()?;
    let more = |what: &str, now: f64| Row::new(what, "MB", now - frozen);
    Ok(vec![
        Row::new("memory of the parent, frozen pages included", "MB", alone - empty),
        Row::new("  after its first child is gone", "MB", frozen - empty),
        more("  + 50 children that did nothing", forked),
        more("  + 50 children that each wrote 1 MB", touched).promise(Promise::AtMost(100.0)),
        more("  + the same after 2.5 s of rest", idle),
    ])
}
