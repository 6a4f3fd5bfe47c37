use std::sync::Arc;
use std::time::Duration;

use belljar::Status;
use belljar_tests::{block_on, builder, sandbox, text, within};

#[test]
fn fifty_sessions_at_once() {
    block_on(async {
        let sandbox = builder().build().await.unwrap();
        let tasks: Vec<_> = (0..50_u64)
            .map(|number| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move {
                    let session = sandbox.session().await.unwrap();
                    session.run(format!("n = {number}\nname = str(n) * 3")).await.unwrap();
                    for _ in 0..3 {
                        session.run("n += 1\nopen('n.txt', 'w').write(str(n))").await.unwrap();
                    }
                    let outcome = session.run("n, name, open('n.txt').read()").await.unwrap();
                    outcome.value.unwrap().text
                })
            })
            .collect();
        for (number, task) in (0..).zip(tasks) {
            let n = number + 3;
            assert_eq!(task.await.unwrap(), format!("({n}, '{number}{number}{number}', '{n}')"));
        }
    });
}

#[test]
fn a_session_runs_one_cell_at_a_time() {
    block_on(async {
        let session = Arc::new(sandbox().session().await.unwrap());
        session.run("seen = []").await.unwrap();
        let tasks: Vec<_> = (0..10)
            .map(|number| {
                let session = Arc::clone(&session);
                tokio::spawn(async move {
                    session.run(format!("seen.append(({number}, 'in'))\nimport time\ntime.sleep(0.005)\nseen.append(({number}, 'out'))")).await
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().status, Status::Ok);
        }
        let code = "len(seen), all(a[0] == b[0] and b[1] == 'out' for a, b in zip(seen[::2], seen[1::2]))";
        assert_eq!(session.run(code).await.unwrap().value.unwrap().text, "(20, True)");
    });
}

#[test]
fn a_busy_session_does_not_hold_up_others() {
    block_on(async {
        let (busy, quick) = (sandbox().session().await.unwrap(), sandbox().session().await.unwrap());
        let mut cell = busy.start("print('go', flush=True)\nwhile True: pass").await;
        cell.next().await.unwrap();
        for _ in 0..10 {
            let outcome = tokio::time::timeout(Duration::from_secs(10), quick.run("1")).await;
            assert_eq!(outcome.unwrap().unwrap().value.unwrap().text, "1");
        }
        cell.interrupt();
        cell.outcome().await.unwrap();
    });
}

#[test]
fn many_sessions_live_at_the_same_time() {
    let sessions: Vec<_> = (0..200).map(|_| sandbox().session_blocking().unwrap()).collect();
    for (number, session) in sessions.iter().enumerate() {
        session.run_blocking(format!("n = {number}")).unwrap();
    }
    for (number, session) in sessions.iter().enumerate().rev() {
        assert_eq!(text(session, "n"), number.to_string());
    }
}

#[test]
fn many_sessions_one_after_another_leak_nothing() {
    fn descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
    }
    sandbox().run_blocking("1").unwrap();
    let before = descriptors();
    for number in 0..500 {
        assert_eq!(
            sandbox().run_blocking(format!("{number}")).unwrap().value.unwrap().text,
            number.to_string()
        );
    }
    assert!(descriptors() <= before + 5, "{before} {}", descriptors());
}

#[test]
fn warm_sessions_are_independent() {
    let sandbox = builder().warm(4).build_blocking().unwrap();
    let mut drawn = std::collections::BTreeSet::new();
    for number in 0..20 {
        let session = sandbox.session_blocking().unwrap();
        assert_eq!(text(&session, "'x' in globals()"), "False");
        session
            .run_blocking(format!("x = {number}\nimport math\nmath.mark = x\nopen('f', 'x').close()"))
            .unwrap();
        drawn.insert(text(&session, "import random, os\nrandom.random(), os.urandom(4)"));
        assert_eq!(text(&session, "x"), number.to_string());
        assert_eq!(session.run_blocking("1/0").unwrap().session.cell, 5);
        std::thread::sleep(Duration::from_millis(number % 3));
    }
    assert_eq!(drawn.len(), 20);
}

#[test]
fn warm_sessions_can_be_rolled_back() {
    let sandbox = builder().warm(2).build_blocking().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("import os\nos._exit(1)").unwrap();
    session.run_blocking("x = 1").unwrap();
    session.run_blocking("import os\nos._exit(1)").unwrap();
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn a_session_may_move_between_threads() {
    let session = Arc::new(sandbox().session_blocking().unwrap());
    session.run_blocking("n = 0").unwrap();
    for _ in 0..10 {
        let session = Arc::clone(&session);
        within(Duration::from_secs(30), move || session.run_blocking("n += 1").unwrap());
    }
    assert_eq!(text(&session, "n"), "10");
}

#[test]
fn a_session_outlives_its_sandbox() {
    let session = builder().build_blocking().unwrap().session_blocking().unwrap();
    assert_eq!(text(&session, "6 * 7"), "42");
    let limited =
        builder().timeout(Duration::from_millis(200)).build_blocking().unwrap().session_blocking().unwrap();
    assert_eq!(limited.run_blocking("while True: pass").unwrap().status, Status::Timeout);
}
