//! A session may live for days: what cells do again and again must not make it grow.

use belljar::{EngineKind, Tool};
use belljar_tests::{builder, engine};
use serde_json::json;

/// Bytes by which a session's memory may grow for other reasons.
const SLACK: u64 = 3 << 20;

#[track_caller]
fn does_not_grow(code: &str, times: usize) {
    let echo = Tool::new("echo", "", |given| Ok(json!(given.args)));
    let sandbox = builder().tool(echo).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("import os, time, asyncio\nx = 'x' * 1_000_000\nopen('f', 'w').write(x)").unwrap();
    let memory = || session.run_blocking(code).unwrap().usage.memory_bytes;
    let before = (0..times / 10).map(|_| memory()).max();
    let after = (0..times).map(|_| memory()).max();
    assert!(after <= before.map(|bytes| bytes + SLACK), "from {before:?} to {after:?}");
}

#[test]
fn by_small_cells() {
    // A native cell takes fifty times as long: it is forked.
    let times = if engine() == EngineKind::Native { 1_000 } else { 40_000 };
    does_not_grow("1", times);
}

#[test]
fn by_large_values() {
    does_not_grow("x", 60);
}

#[test]
fn by_large_code() {
    does_not_grow(&format!("y = '{}'", "z".repeat(500_000)), 60);
}

#[test]
fn by_exceptions() {
    does_not_grow("raise ValueError(x)", 200);
}

#[test]
fn by_output_and_displays() {
    does_not_grow("print(x)\ndisplay(x)", 60);
}

#[test]
fn by_tool_calls() {
    does_not_grow("for _ in range(100): tools.echo(1)\ntools.echo(x)\nNone", 100);
}

#[test]
fn by_awaited_tool_calls() {
    does_not_grow(
        "await asyncio.gather(*(tools.echo(n) for n in range(100)))\nawait tools.echo(x)\nNone",
        100,
    );
}

#[test]
fn by_files_and_clocks() {
    does_not_grow(
        "open('f').read()\nopen('g', 'w').write(x)\nos.listdir('/python')\nos.urandom(100_000)\ntime.sleep(0)",
        100,
    );
}

#[test]
fn by_rollbacks() {
    does_not_grow("y = bytearray(1_000_000)\nos._exit(0)", 60);
}
