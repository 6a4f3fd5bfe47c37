//! A gigabyte of it.

use belljar::{Policy, Status};
use belljar_tests::Hostile;

use crate::cells::hostile;

hostile! {
    a_gigabyte_printed("line = 'x' * 1_000_000\nfor _ in range(1000): print(line)") => [Ok, Timeout];
    a_gigabyte_of_errors("import sys\nline = 'x' * 1_000_000\nfor _ in range(1000): sys.stderr.write(line)") => [Ok, Timeout];
    a_gigabyte_written("import os\nline = b'x' * 1_000_000\nfor _ in range(1000): os.write(1, line)") => [Ok, Timeout];
    one_huge_write("import os\nos.write(1, bytes(100_000_000))\nos.write(2, bytes(100_000_000))\nNone") => [Ok];
    endless_lines("while True: print('y')") => [Timeout];
    endless_without_newline("while True: print('y', end='')") => [Timeout];
    many_small_writes("import os\nfor _ in range(10**9): os.write(1, b'.')") => [Timeout];
    a_flood_of_displays("while True: display('x' * 100_000)") => [Timeout];
    a_flood_of_small_displays("while True: display(1)") => [Timeout];
    a_flood_of_bundles("while True: display({f'x/{n}': '' for n in range(10_000)}, raw=True)") => [Timeout];
    a_huge_display("display('x' * 100_000_000)") => [Ok, OutOfMemory];
    a_huge_html("class H:\n    def _repr_html_(self): return 'x' * 50_000_000\nH()") => [Ok, OutOfMemory];
    a_huge_repr("class H:\n    def __repr__(self): return 'x' * 100_000_000\nH()") => [Ok, OutOfMemory, Error];
    a_huge_exception("raise ValueError('x' * 100_000_000)") => [Error, OutOfMemory];
    a_huge_type_name("raise type('x' * 50_000_000, (Exception,), {})") => [Error, OutOfMemory];
    a_huge_line("exec('x = \"' + 'y' * 20_000_000 + '\"; 1/0')") => [Error, OutOfMemory];
    notes_without_end("e = ValueError()\ne.__notes__ = ['n' * 1000] * 100_000\nraise e") => [Error, OutOfMemory];
    escapes_of_control_characters("'\\x01' * 1_000_000") => [Ok];
    a_json_bomb("class J:\n    def _repr_json_(self):\n        x = 1\n        for _ in range(30): x = [x, x]\n        return x\nJ()") => [Ok, OutOfMemory, Error, Timeout];
    a_bundle_of_nonsense("class B:\n    def _repr_mimebundle_(self, **k): return {1: 2, 'a/b': object(), None: b'', 'text/plain': 5, 'application/json': {1: {2}}, 'x' * 10_000_000: 'y'}\nB()") => [Ok];
    lying_metadata("class B:\n    def _repr_png_(self): return (b'', {'a': float('nan'), 'b': object()})\nB()") => [Ok];
    a_str_that_lies("class S(str):\n    def encode(self, *a): return b'\\xff' * 10\n    def __len__(self): return 10**9\n    def __str__(self): return self\nclass R:\n    def __repr__(self): return S('x')\nprint(S('y'), R())\nR()") => [Ok, Error];
    streams_that_fail("import sys\nclass F:\n    def write(self, *a): raise MemoryError\n    flush = close = write\nsys.stdout = sys.stderr = F()\nprint(1)") => [Error, OutOfMemory];
    streams_that_never_return("import sys\nclass F:\n    def write(self, *a):\n        while True: pass\n    flush = write\nsys.stdout = sys.stderr = F()\nprint(1)") => [Timeout];
    a_closed_descriptor("import os\nos.close(1); os.close(2); os.close(0)\nprint('into nothing')") => [Ok, Error];
    a_redirected_descriptor("import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.dup2(fd, 1) if hasattr(os, 'dup2') else 0\nprint('x')") => [Ok, Error];
}

#[test]
fn the_overflow_file_counts_against_the_quota() {
    let policy = Policy { file_bytes: 1 << 20, output: 1000, ..Hostile::policy() };
    let witness = Hostile::under(policy).run("line = 'x' * 9_999\nfor _ in range(10_000): print(line)");
    let outcome = witness.ended(&[Status::Ok]).outcome;
    let cut = outcome.stdout_cut.unwrap();
    assert_eq!(cut.total_bytes, 100_000_000);
    assert!(outcome.usage.file_bytes <= 1 << 20, "{:?}", outcome.usage);
}

#[test]
fn overflow_files_of_many_cells_stay_within_the_quota() {
    let policy = Policy { file_bytes: 1 << 20, output: 1000, ..Hostile::policy() };
    let session =
        belljar_tests::builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
    for _ in 0..20 {
        let outcome = session.run_blocking("print('x' * 300_000)").unwrap();
        assert_eq!(outcome.status, Status::Ok);
        assert!(outcome.usage.file_bytes <= 1 << 20);
    }
    assert_eq!(session.run_blocking("1").unwrap().status, Status::Ok);
}
