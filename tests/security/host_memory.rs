//! What a session of 256 MiB may cost the host: its memory, a copy of it for rollback, and bounded buffers.
//! Each test runs in a process of its own (nextest), so the process's peak is the test's.

use std::thread;
use std::time::Duration;

use belljar::{Policy, Tool};
use belljar_tests::{Hostile, builder};
use serde_json::json;

/// The largest resident size of this process so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[track_caller]
fn costs_at_most(mebibytes: u64, hostile: Hostile, code: &str) {
    let outcome = hostile.ruin(code).outcome;
    let peak = peak();
    #[expect(clippy::print_stderr, reason = "for those who look")]
    {
        eprintln!("{peak} MiB: {:?} {:?}", outcome.status, outcome.reason);
    }
    assert!(
        peak <= mebibytes,
        "{peak} MiB: {:?} {:?} {:?}",
        outcome.status,
        outcome.reason,
        outcome.exception
    );
}

macro_rules! costs {
    ($($name:ident($most:expr, $code:expr);)*) => {
        $(#[test] fn $name() { costs_at_most($most, Hostile::default(), $code); })*
    };
}

costs! {
    nothing_much(150, "1");
    full_memory(800, "x = bytearray(b'\\1') * 200_000_000");
    full_files(800, "with open('f', 'wb') as f:\n    while True: f.write(b'x' * 1_000_000)");
    many_files(800, "for n in range(10**6): open('x' * 200 + str(n), 'w').close()");
    many_rewrites(800, "while True:\n    with open('f', 'wb') as f: f.write(b'x' * 30_000_000)");
    much_output(500, "while True: print('x' * 1_000_000)");
    many_displays(900, "while True: display('x' * 500_000)");
    displays_of_many_names(900, "import wit_world, json\nframe = b'\\x20' + json.dumps({'data': {f'{n:07}': '' for n in range(500_000)}}).encode()\nwhile True: wit_world.exchange(frame)");
    displays_of_many_lists(900, "import wit_world\nframe = b'\\x20{\"data\":{\"a\":[' + b'[],' * 1_000_000 + b'0]}}'\nwhile True: wit_world.exchange(frame)");
    a_call_of_many_lists(900, "import wit_world\nframe = b'\\x21{\"name\":\"x\",\"arguments\":{\"kwargs\":{},\"args\":[' + b'[],' * 20_000_000 + b'0]}}'\nwhile True: wit_world.exchange(frame)");
    a_reply_of_many_lists(900, "import belljar_guest_wasm as w\nreply = b'\\x11{\"status\":\"ok\",\"value\":{\"a\":[' + b'[],' * 20_000_000 + b'0]}}'\nw.WitWorld.handle = lambda self, frame: reply");
    a_reply_of_many_frames(900, "import belljar_guest_wasm as w\nreply = b'\\x11{\"status\":\"error\",\"exception\":{\"type\":\"\",\"message\":\"\",\"traceback\":\"\",\"frames\":[' + b'{\"file\":\"\",\"line\":1,\"function\":\"\"},' * 1_500_000 + b'{\"file\":\"\",\"line\":1,\"function\":\"\"}]}}'\nw.WitWorld.handle = lambda self, frame: reply");
    starts_that_nobody_awaits(500, "import wit_world\nfor n in range(10**7): wit_world.exchange(b'\\x22{\"id\":%d,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}' % n)");
    starts_of_one_number(500, "import wit_world\nwhile True: wit_world.exchange(b'\\x22{\"id\":1,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}')");
    ten_rollbacks(900, "import os\nx = bytearray(b'\\1') * 100_000_000\nos._exit(0)");
}

/// Arguments of calls that are under way are in the host's memory.
#[test]
fn large_arguments_of_slow_calls() {
    let slow = Tool::new("slow", "", |given| {
        thread::sleep(Duration::from_secs(4));
        Ok(json!(given.args.len()))
    });
    let sandbox = builder()
        .policy(Policy { timeout: Some(Duration::from_secs(4)), ..Hostile::policy() })
        .tool(slow)
        .build_blocking()
        .unwrap();
    let code = "import asyncio\nx = 'x' * 4_000_000\nawait asyncio.gather(*(tools.slow(x) for _ in range(400)), return_exceptions=True)\nNone";
    costs_at_most(1000, Hostile::within(sandbox), code);
}
