//! More than there is.

use belljar::Status;
use belljar_tests::Hostile;

use crate::cells::hostile;

hostile! {
    a_long_string("'a' * 10**9") => [OutOfMemory];
    longer_than_the_address_space("'a' * 10**18") => [Error, OutOfMemory];
    a_string_that_doubles("x = 'a'\nwhile True: x += x") => [OutOfMemory];
    a_list_that_grows("x = []\nwhile True: x.append([0] * 1000)") => [OutOfMemory, Timeout];
    a_list_of_itself("x = [0]\nwhile True: x.extend(x)") => [OutOfMemory];
    a_list_comprehension("[bytes(1_000_000) for _ in range(10_000)]") => [OutOfMemory, Timeout];
    a_bytearray("x = bytearray()\nwhile True: x.extend(bytes(10_000_000))") => [OutOfMemory, Timeout];
    a_huge_bytearray("bytearray(2**31 - 1)") => [OutOfMemory, Error];
    bytes_of_an_integer("(1).to_bytes(10**9, 'big')") => [OutOfMemory, Error];
    a_dict("x = {}\nn = 0\nwhile True:\n    x[n] = [n] * 200; n += 1") => [OutOfMemory, Timeout];
    a_set("x = set()\nn = 0\nwhile True:\n    x.add((n,) * 200); n += 1") => [OutOfMemory, Timeout];
    join("','.join(['a' * 1_000_000] * 10_000)") => [OutOfMemory, Error];
    a_range("list(range(10**9))") => [OutOfMemory, Error, Timeout];
    a_tuple("(0,) * 10**9") => [OutOfMemory, Error];
    shifting("1 << 10**10") => [OutOfMemory, Error, Timeout];
    shifting_much("1 << 10**18") => [OutOfMemory, Error];
    a_factorial("import math\nmath.factorial(10**6)\nNone") => [Ok, OutOfMemory, Timeout];
    padding("'%1000000000d' % 1") => [OutOfMemory, Error];
    padding_a_format("format(1, '>1000000000')") => [OutOfMemory, Error];
    precision("'%.1000000000f' % 1.5") => [OutOfMemory, Error];
    replacing("('a' * 100_000).replace('a', 'b' * 100_000)") => [OutOfMemory, Error];
    translating("('a' * 1_000_000).translate({97: 'b' * 10_000})") => [OutOfMemory, Timeout];
    expanding_tabs("('\\t' * 1_000_000).expandtabs(10_000)") => [OutOfMemory, Error];
    centring("'a'.center(2**31 - 1)") => [OutOfMemory, Error];
    a_deflate_bomb("import zlib\nzlib.decompress(zlib.compress(bytes(50_000_000)), bufsize=2**30)") => [OutOfMemory, Error, Ok, Timeout];
    a_zip_bomb("import zipfile\nwith zipfile.ZipFile('z', 'w', 8) as z:\n    for n in range(20): z.writestr(str(n), bytes(10_000_000))\n[zipfile.ZipFile('z').read(str(n)) for n in range(20)] * 100 and [bytearray(zipfile.ZipFile('z').read(str(n))) for n in range(20) for _ in range(100)]") => [OutOfMemory, Timeout];
    a_pickle_bomb("import pickle\nx = b'\\x80\\x02]q\\x00' + b''.join(b'(h%c' % 0 + b'h\\x00' * 10 + b'le.' for _ in range(1)) if False else b'\\x80\\x02X\\xff\\xff\\xff\\x7fa.'\npickle.loads(x)") => [Error, OutOfMemory];
    a_pickle_that_doubles("import pickle\npickle.loads(b'\\x80\\x02]' + b'(' + b'2' * 2_000_000 + b'e.')") => [Ok, Error, OutOfMemory];
    a_huge_pickled_length("import pickle\npickle.loads(b'\\x80\\x05\\x8e\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f.')") => [Error, OutOfMemory];
    an_array("import array\narray.array('q', [0]) * 10**9") => [OutOfMemory, Error];
    a_deque("import collections\ncollections.deque([0]) * 10**9") => [OutOfMemory, Timeout, Error];
    a_struct("import struct\nstruct.pack('1000000000x')") => [OutOfMemory, Error];
    a_struct_of_many("import struct\nstruct.calcsize('2147483647q' * 100)") => [Error];
    a_memory_view("m = memoryview(bytearray(100_000_000))\nm.tolist()") => [OutOfMemory, Timeout];
    random_bytes("import os\nos.urandom(2**31 - 1)") => [OutOfMemory, Error];
    random_bits("import random\nrandom.getrandbits(2**31 - 1)\nNone") => [Ok, OutOfMemory, Error, Timeout];
    string_io("import io\nf = io.StringIO()\nwhile True: f.write('a' * 1_000_000)") => [OutOfMemory, Timeout];
    seeking_in_memory("import io\nf = io.BytesIO()\nf.seek(2**31 - 2)\nf.write(b'a')") => [OutOfMemory, Error];
    a_sqlite_blob("import sqlite3\nsqlite3.connect(':memory:').execute('select zeroblob(900000000), randomblob(900000000)').fetchone()") => [OutOfMemory, Error];
    a_sqlite_database("import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('create table t (b)')\nwhile True: d.execute('insert into t values (randomblob(1000000))')") => [OutOfMemory, Error, Timeout];
    regex_repeats("import re\nre.compile('(?:a{1,65000}){1,65000}')\nre.compile('(' + '|'.join(str(n) for n in range(300_000)) + ')')") => [Ok, OutOfMemory, Error, Timeout];
    generators("def g(): yield\nx = []\nwhile True: x.append(g()); next(x[-1])") => [OutOfMemory, Timeout];
    classes("x = []\nwhile True: x.append(type('T', (), {}))") => [OutOfMemory, Timeout];
    interned_strings("import sys\nn = 0\nwhile True: sys.intern(str(n) * 2000); n += 1") => [OutOfMemory, Timeout, Ok];
    tasks("import asyncio\nasync def f(): await asyncio.sleep(1000)\nx = []\nwhile True: x.append(asyncio.ensure_future(f()))") => [OutOfMemory, Error, Timeout];
    caught_and_tried_again("x = []\nwhile True:\n    try: x.append(bytearray(1_000_000))\n    except MemoryError: x.append(0)") => [OutOfMemory, Timeout];
    handled_without_memory("x = []\ntry:\n    while True: x.append(bytearray(100_000))\nexcept MemoryError:\n    try:\n        while True: x.append(bytearray(100))\n    except MemoryError:\n        while True: x.append(None)") => [OutOfMemory, Timeout];
    kept_in_a_global("import builtins\nbuiltins.hoard = []\nwhile True: builtins.hoard.append(bytearray(50_000))") => [OutOfMemory, Timeout];
}

/// What a cell hoarded in a variable stays until it is deleted, and a small cell must work beside it.
#[test]
fn a_full_memory_can_be_emptied() {
    let sandbox = belljar_tests::builder().policy(Hostile::policy()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("keep = 41").unwrap();
    let outcome = session.run_blocking("hoard = []\nwhile True: hoard.append(bytearray(1_000_000))").unwrap();
    assert!([Status::OutOfMemory, Status::Timeout].contains(&outcome.status), "{outcome:#?}");
    assert_eq!(belljar_tests::text(&session, "keep"), "41");
    session.run_blocking("hoard = None").unwrap();
    assert_eq!(belljar_tests::text(&session, "len(bytearray(100_000_000))"), "100000000");
}

#[test]
fn running_out_again_and_again() {
    let sandbox = belljar_tests::builder().policy(Hostile::policy()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("keep = 41").unwrap();
    for _ in 0..5 {
        let outcome = session.run_blocking("x = 'a'\nwhile True: x += x").unwrap();
        assert_eq!(outcome.status, Status::OutOfMemory, "{outcome:#?}");
        assert_eq!(belljar_tests::text(&session, "keep"), "41");
    }
}
