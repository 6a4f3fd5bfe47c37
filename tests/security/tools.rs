//! Tools as a way to hurt the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use belljar::{Policy, Sandbox, Status, Tool};
use belljar_tests::{Hostile, builder};
use serde_json::json;

fn with_tools(policy: Policy) -> (Sandbox, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let echo = Tool::new("echo", "", move |given| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(json!(given.args))
    });
    let slow = Tool::new("slow", "", |_| {
        thread::sleep(Duration::from_millis(500));
        Ok(json!(1))
    });
    (builder().policy(policy).tool(echo).tool(slow).build_blocking().unwrap(), calls)
}

#[test]
fn a_million_calls() {
    let (sandbox, calls) = with_tools(Policy { tool_calls: 1000, ..Hostile::policy() });
    let code = "for n in range(10**6):\n    try: tools.echo(n)\n    except Exception: pass";
    Hostile::within(sandbox).run(code).ended(&[Status::Ok, Status::Timeout]);
    assert_eq!(calls.load(Ordering::SeqCst), 1000);
}

#[test]
fn a_million_calls_at_once() {
    let (sandbox, calls) = with_tools(Policy { tool_calls: 1000, ..Hostile::policy() });
    let code = "import asyncio\nx = await asyncio.gather(*(tools.echo(n) for n in range(10**6)), return_exceptions=True)";
    Hostile::within(sandbox).run(code).ended(&[
        Status::Ok,
        Status::Timeout,
        Status::OutOfMemory,
        Status::Killed,
    ]);
    assert!(calls.load(Ordering::SeqCst) <= 1000);
}

#[test]
fn a_huge_argument() {
    for call in [
        "tools.echo('x' * 100_000_000)",
        "await tools.echo('x' * 100_000_000)",
        "tools.echo([0] * 10_000_000)",
    ] {
        let (sandbox, calls) = with_tools(Hostile::policy());
        Hostile::within(sandbox).run(call).ended(&[
            Status::Error,
            Status::OutOfMemory,
            Status::Killed,
            Status::Timeout,
        ]);
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn an_argument_of_ten_megabytes_is_a_plain_error() {
    for call in ["tools.echo('x' * 10_000_000)", "await tools.echo('x' * 10_000_000)"] {
        let (sandbox, _) = with_tools(Hostile::policy());
        Hostile::within(sandbox).run(call).ended(&[Status::Error]).raised("ValueError");
    }
}

#[test]
fn nested_arguments() {
    let (sandbox, _) = with_tools(Hostile::policy());
    let code = "x = 1\nfor _ in range(100_000): x = [x]\ntools.echo(x)";
    Hostile::within(sandbox).run(code).ended(&[Status::Error]).raised("TypeError");
}

#[test]
fn strange_arguments() {
    let (sandbox, _) = with_tools(Hostile::policy());
    let code = r"
class S(str):
    def encode(self, *a): raise SystemExit
class D(dict):
    def items(self): return [(1, 2)]
    def __iter__(self): raise KeyboardInterrupt
class I(int):
    def __repr__(self): return '}}}'
    __str__ = __repr__
class F(float):
    def __repr__(self): return 'NaN'
class L(list):
    def __iter__(self): return iter([object()])
for value in ('\ud800', '\x00', S('x'), D(a=1), I(5), F(1.5), L([1]), 10**5000, 1e308, '\u2028</script>', {'a' * 100000: 1}, {'\ud800': 1}):
    try: tools.echo(value, **{'k\x00': value})
    except (TypeError, ValueError, KeyError): pass
tools.echo(1)";
    Hostile::within(sandbox).run(code).ended(&[
        Status::Ok,
        Status::Error,
        Status::Interrupted,
        Status::Exited,
        Status::Killed,
    ]);
}

#[test]
fn tools_called_from_everywhere() {
    let (sandbox, _) = with_tools(Hostile::policy());
    let code = "
import sys, gc
class A:
    def __del__(self): tools.echo('del')
    def __repr__(self): return str(tools.echo('repr'))
    def _repr_html_(self): return str(tools.echo('html'))
A()
gc.callbacks.append(lambda *a: tools.echo('gc'))
gc.collect()
def t(*a): tools.echo('trace')
sys.settrace(t)
(lambda: 0)()
sys.settrace(None)
gc.callbacks.clear()
class E(Exception):
    def __str__(self): return str(tools.echo('str'))
display(A())
raise E";
    Hostile::within(sandbox).run(code).ended(&[Status::Error]);
}

#[test]
fn calls_that_outlive_their_cell() {
    let (sandbox, _) = with_tools(Policy { timeout: Some(Duration::from_millis(200)), ..Hostile::policy() });
    let code = "import asyncio\nawait asyncio.gather(*(tools.slow() for _ in range(50)))";
    Hostile::within(sandbox).run(code).ended(&[Status::Timeout]);
}

#[test]
fn tools_of_another_sandbox_cannot_be_called() {
    let (_with, calls) = with_tools(Hostile::policy());
    let code = "
import wit_world, json
r = wit_world.exchange(b'\\x21' + json.dumps({'name': 'echo', 'arguments': {'args': [], 'kwargs': {}}}).encode())
'error' in json.loads(bytes(r))";
    Hostile::default().run(code).said("True");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

/// Each call that is under way has a thread of the host's: a guest must not get as many as it likes.
#[test]
fn slow_calls_do_not_fill_the_host_with_threads() {
    let (sandbox, _) = with_tools(Hostile::policy());
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    let counter = thread::spawn(move || {
        for _ in 0..150 {
            let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) as u64;
            seen.fetch_max(threads, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(10));
        }
    });
    let code = "import asyncio\nawait asyncio.gather(*(tools.slow() for _ in range(3_000)), return_exceptions=True)\nNone";
    Hostile::within(sandbox).run(code).ended(&[Status::Ok, Status::Timeout]);
    counter.join().unwrap();
    let most = most.load(Ordering::SeqCst);
    assert!(most < 1000, "{most} threads");
}
