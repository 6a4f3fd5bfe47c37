//! Code that doesn't want to stop. How late it is stopped is printed (`--nocapture`), and only what no machine
//! excuses is a failure.

use std::time::Duration;

use belljar::{Policy, Status};
use belljar_tests::Hostile;

const LIMIT: Duration = Duration::from_millis(500);
const LATE: f64 = 2000.0;

/// The cell must end in time. One that was about to end otherwise, and took its time to say how, may keep its
/// status.
fn stopped(code: &str, allowed: &[Status]) {
    let policy = Policy { timeout: Some(LIMIT), ..Hostile::policy() };
    let outcome = Hostile::under(policy).run(code).ended(allowed).outcome;
    let late = outcome.usage.wall_ms - LIMIT.as_secs_f64() * 1000.0;
    #[expect(clippy::print_stderr, reason = "for those who look")]
    {
        eprintln!("{late:8.2} ms late: {:?} {:?}", code, outcome.session.state);
    }
    assert!((0.0..LATE).contains(&late), "{late} ms late");
}

macro_rules! stopped {
    ($($name:ident($code:expr);)*) => { $(#[test] fn $name() { stopped($code, &[Status::Timeout]); })* };
    ($($name:ident($code:expr) => $otherwise:ident;)*) => {
        $(#[test] fn $name() { stopped($code, &[Status::Timeout, Status::$otherwise]); })*
    };
}

stopped! {
    an_endless_loop("while True: pass");
    a_huge_power("10 ** (10 ** 7)\nwhile True: 10 ** (10 ** 7)");
    backtracking("import re\nre.match('(a+)+b', 'a' * 50)");
    sorting("while True: sorted([n * 7919 % 10_000_019 for n in range(1_000_000)])");
    sorting_in_one_go("x = list(range(3_000_000))\nimport random\nwhile True: random.shuffle(x); x.sort()");
    summing("sum(range(10**12))");
    sleeping("import time\ntime.sleep(60)");
    sleeping_again_and_again("import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass");
    swallowing("while True:\n    try:\n        while True: pass\n    except BaseException: pass");
    swallowing_in_finally("def f():\n    try:\n        while True: pass\n    finally: f()\nf()");
    swallowing_in_a_finaliser("class A:\n    def __del__(self):\n        while True:\n            try:\n                while True: pass\n            except BaseException: pass\na = A()\ndel a");
    awaiting("import asyncio\nawait asyncio.sleep(60)");
    awaiting_in_run("import asyncio\nasyncio.run(asyncio.sleep(60))");
    awaiting_and_swallowing("import asyncio\nwhile True:\n    try: await asyncio.sleep(60)\n    except BaseException: pass");
    awaiting_and_cleaning_up("import asyncio\ntry: await asyncio.sleep(60)\nfinally: await asyncio.sleep(60)");
    a_shield("import asyncio\nasync def f():\n    while True:\n        try: await asyncio.shield(asyncio.sleep(60))\n        except BaseException: pass\nawait asyncio.gather(*(f() for _ in range(10)))");
    spinning_tasks("import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait asyncio.gather(*(f() for _ in range(100)))");
    callbacks("import asyncio\nloop = asyncio.get_running_loop()\ndef f(): loop.call_soon(f)\nf()\nawait asyncio.Event().wait()");
    printing("while True: print('x' * 1000)");
    displaying("while True: display('x')");
    files("while True:\n    with open('f', 'w') as file: file.write('x' * 1_000_000)");
    listing("import os\nfor n in range(1000): open(f'f{n}', 'w').close()\nwhile True: os.listdir()");
    copying("x = bytearray(50_000_000)\nwhile True: y = bytes(x)");
    searching("x = 'a' * 10_000_000 + 'b'\nwhile True: ('a' * 1000 + 'c') in x");
    splitting("x = 'a ' * 5_000_000\nwhile True: x.split()");
    hashing("import hashlib\nx = bytes(20_000_000)\nwhile True: hashlib.sha512(x)");
    hashing_otherwise("import hashlib\nx = bytes(10_000_000)\nwhile True: hashlib.blake2b(x), hashlib.sha3_512(x)");
    compressing("import zlib\nwhile True: zlib.compress(bytes(20_000_000), 9)");
    converting_digits("import sys\nsys.set_int_max_str_digits(0)\nstr(10 ** 3_000_000)\nwhile True: int('9' * 1_000_000)");
    multiplying("x = 7 ** 1_000_000\nwhile True: x * x");
    dividing("x = 7 ** 1_000_000\ny = 3 ** 500_000\nwhile True: x // y");
    modular_powers("pow(3, 7 ** 100_000, 11 ** 100_000)\nwhile True: pass");
    decimals("import decimal\ndecimal.getcontext().prec = 1_000_000\nx = decimal.Decimal(2).sqrt()\nwhile True: x = (x * x).sqrt()");
    permutations("import itertools, collections\ncollections.deque(itertools.permutations(range(20)), 0)");
    counting("import itertools, collections\ncollections.deque(itertools.count(), 0)");
    cycling("import itertools\nall(itertools.repeat(True))");
    colliding_hashes("class H(int):\n    def __hash__(self): return 1\n{H(n) for n in range(10**6)}");
    colliding_numbers("x = {n * (2**61 - 1) for n in range(10**6)}\nwhile True: x = {n * (2**61 - 1) for n in range(10**6)}");
    normalising("import unicodedata\nx = '\\u0f73' * 1_000_000\nwhile True: unicodedata.normalize('NFD', x)");
    parsing("code = '(' * 100 + '1' + ')' * 100\nwhile True: compile(code, 'x', 'eval')");
    parsing_much("while True: compile('x = 1\\n' * 500_000, 'x', 'exec')");
    sqlite("import sqlite3\nsqlite3.connect(':memory:').execute('with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r').fetchone()");
    sqlite_joins("import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('create table t (a)')\nd.executemany('insert into t values (?)', [(n,) for n in range(1000)])\nd.execute('select count(*) from t a, t b, t c, t d').fetchone()");
    fractions("from fractions import Fraction\nx = Fraction(1, 3)\nwhile True: x = x * x + 1");
    collecting("import gc\nx = [[] for _ in range(1_000_000)]\nwhile True: gc.collect()");
    importing("import sys, importlib\nwhile True:\n    sys.modules.pop('decimal', None); sys.modules.pop('_pydecimal', None); importlib.import_module('_pydecimal')");
    a_trace_function("import sys\ndef t(*a):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass\nsys.settrace(t)\n(lambda: 0)()");
    a_signal_handler("import signal\ndef h(*a):\n    while True: pass\nsignal.signal(2, h)\nwhile True: pass");
    a_slow_repr("class A:\n    def __repr__(self):\n        while True: pass\nA()");
    a_slow_html("class A:\n    def _repr_html_(self):\n        while True: pass\ndisplay(A())");
    a_slow_import("import sys\nclass F:\n    def find_spec(self, *a):\n        while True: pass\nsys.meta_path.insert(0, F())\nimport nowhere");
    a_slow_hook("import sys\ndef h(*a):\n    while True: pass\nsys.displayhook = h\nexec(compile('1', 'x', 'single'))");
    a_slow_gc_callback("import gc\ndef c(*a):\n    while True: pass\ngc.callbacks.append(c)\ngc.collect()");
    generators_that_refuse("def g():\n    while True:\n        try: yield\n        except BaseException: pass\nx = g(); next(x)\nwhile True:\n    try: x.throw(ValueError)\n    except BaseException: pass");
}

stopped! {
    a_slow_message("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E") => Error;
    a_slow_exit_code("class C:\n    def __str__(self):\n        while True: pass\nraise SystemExit(C())") => Exited;
    a_slow_stream("import sys\nclass F:\n    def write(self, x): return 1\n    def flush(self):\n        while True: pass\nsys.stdout = F()") => Ok;
    a_slow_unraisable("import sys\ndef h(*a):\n    while True: pass\nsys.unraisablehook = h\nclass A:\n    def __del__(self): 1/0\na = A()\ndel a") => Ok;
}
