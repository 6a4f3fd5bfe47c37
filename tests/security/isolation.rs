//! Sessions beside each other, all of them hostile.

use std::time::Duration;

use belljar::{Policy, Status};
use belljar_tests::{Hostile, block_on, builder};

const HOSTILE: [&str; 12] = [
    "while True: pass",
    "import os\nos._exit(1)",
    "import os\nos.abort()",
    "'a' * 10**9",
    "import json\njson.loads('[' * 100_000)",
    "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "while True: print('x' * 10_000)",
    "for n in range(10**6): open(f'f{n}', 'w').close()",
    "import wit_world\nwit_world.exchange(b'')",
    "def f(): pass\nf.__code__ = f.__code__.replace(co_code=bytes(range(256)))\nf()",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sum(range(10**15))",
];

#[test]
fn hostile_sessions_at_the_same_time() {
    block_on(async {
        let policy = Policy { timeout: Some(Duration::from_secs(1)), ..Hostile::policy() };
        let sandbox = builder().policy(policy).build().await.unwrap();
        let tasks: Vec<_> = (0..24)
            .map(|number| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move {
                    let session = sandbox.session().await.unwrap();
                    session.run(format!("keep = {number}")).await.unwrap();
                    for round in 0..3 {
                        session.run(HOSTILE[(number + round * 5) % HOSTILE.len()]).await.unwrap();
                        let outcome = session.run("keep").await.unwrap();
                        assert_eq!(
                            outcome.value.map(|value| value.text),
                            Some(number.to_string()),
                            "{round}"
                        );
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn one_session_survives_them_all() {
    let policy = Policy { timeout: Some(Duration::from_secs(1)), ..Hostile::policy() };
    let session = builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("count = 0\nwords = []").unwrap();
    for (number, code) in HOSTILE.iter().enumerate() {
        session.run_blocking(format!("count += 1\nwords.append('w' * {number})")).unwrap();
        session.run_blocking(*code).unwrap();
        let expected = format!("({}, {})", number + 1, (0..=number).sum::<usize>());
        assert_eq!(belljar_tests::text(&session, "count, sum(map(len, words))"), expected, "{code}");
    }
}

#[test]
fn a_rollback_takes_back_everything_and_nothing_else() {
    let session = builder().build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("import os, random, sys\nx = {'a': [1, 2]}\ndef g():\n    n = 0\n    while True: n += 1; yield n\ni = g(); next(i)\nf = open('log', 'w+'); f.write('one')\nrandom.seed(5)").unwrap();
    let drawn = belljar_tests::text(&session, "random.getstate()[1][:3]");
    let outcome = session
        .run_blocking("x['a'].append(3); x['b'] = 1; next(i); next(i); f.write('two'); f.flush(); random.random(); os.chdir('/tmp'); os.environ['E'] = '1'; sys.path.append('/x'); big = bytearray(30_000_000); os.mkdir('/workspace/d'); os._exit(0)")
        .unwrap();
    assert_eq!(outcome.status, Status::Exited);
    assert_eq!(
        belljar_tests::text(
            &session,
            "x, next(i), os.getcwd(), os.listdir(), 'E' in os.environ, '/x' in sys.path, 'big' in globals()"
        ),
        "({'a': [1, 2]}, 2, '/workspace', ['log'], False, False, False)"
    );
    assert_eq!(belljar_tests::text(&session, "random.getstate()[1][:3]"), drawn);
    assert_eq!(belljar_tests::text(&session, "f.write('!'); f.seek(0); f.read()"), "'one!'");
}

#[test]
fn the_first_cell_can_be_hostile() {
    for code in HOSTILE {
        let policy = Policy { timeout: Some(Duration::from_secs(1)), ..Hostile::policy() };
        let session = builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
        session.run_blocking(code).unwrap();
        assert_eq!(belljar_tests::text(&session, "6 * 7"), "42", "{code}");
    }
}

#[test]
fn many_rollbacks_in_a_row() {
    let session = builder().build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("import os\nx = 0").unwrap();
    for number in 0..100 {
        session.run_blocking("x += 1").unwrap();
        session.run_blocking("x = None; y = bytearray(3_000_000); os._exit(0)").unwrap();
        session.run_blocking("x = None; os._exit(0)").unwrap();
        assert_eq!(belljar_tests::text(&session, "x"), (number + 1).to_string());
    }
}
