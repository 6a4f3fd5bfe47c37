use std::future::Future;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use belljar::{Event, Policy, Status};
use belljar_tests::{block_on, builder, sandbox, session, text};

/// Code that runs for ever, in different ways; it prints a line once it runs.
const ENDLESS: [&str; 6] = [
    "print('go', flush=True)\nwhile True: pass",
    "print('go', flush=True)\nimport time\nwhile True: time.sleep(1000)",
    "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(1000)",
    "import asyncio\nasync def main():\n    print('go', flush=True)\n    await asyncio.sleep(1000)\nasyncio.run(main())",
    "print('go', flush=True)\nsum(range(10**15))",
    "print('go', flush=True)\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
];

#[test]
fn an_interrupt_from_another_thread_keeps_variables() {
    for code in ENDLESS {
        let session = session();
        session.run_blocking("x = 41").unwrap();
        let interrupt = session.interrupter();
        let started = Instant::now();
        let outcome = session
            .run_observed_blocking(code, move |event| {
                if matches!(event, Event::Stdout(_)) {
                    let interrupt = interrupt.clone();
                    thread::spawn(move || interrupt());
                }
            })
            .unwrap();
        assert_eq!(outcome.status, Status::Interrupted, "{code}: {outcome:#?}");
        assert_eq!(outcome.stdout, "go\n");
        assert!(started.elapsed() < Duration::from_secs(15));
        assert_eq!(text(&session, "x + 1"), "42", "{code}");
    }
}

#[test]
fn an_interrupt_is_a_keyboard_interrupt() {
    let session = session();
    let interrupt = session.interrupter();
    let code = "
import time
try:
    print('go', flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    cleaned = True
    raise";
    let outcome = session
        .run_observed_blocking(code, move |event| {
            if matches!(event, Event::Stdout(_)) {
                let interrupt = interrupt.clone();
                thread::spawn(move || interrupt());
            }
        })
        .unwrap();
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(outcome.exception.unwrap().kind, "KeyboardInterrupt");
    assert_eq!(text(&session, "cleaned"), "True");
}

#[test]
fn an_interrupt_between_cells_does_nothing() {
    let session = session();
    session.interrupt();
    assert_eq!(text(&session, "1"), "1");
    session.interrupt();
    session.interrupt();
    assert_eq!(text(&session, "2"), "2");
}

#[test]
fn a_timeout_keeps_variables() {
    let sandbox = builder().timeout(Duration::from_millis(300)).build_blocking().unwrap();
    for code in ENDLESS {
        let session = sandbox.session_blocking().unwrap();
        session.run_blocking("x = 41").unwrap();
        let outcome = session.run_blocking(code).unwrap();
        assert_eq!((outcome.status, outcome.exit_status()), (Status::Timeout, 124), "{code}: {outcome:#?}");
        assert_eq!(
            (outcome.stdout.as_str(), outcome.reason.as_deref()),
            ("go\n", Some("it ran longer than 300ms"))
        );
        assert!((300.0..15_000.0).contains(&outcome.usage.wall_ms), "{:?}", outcome.usage);
        assert_eq!(text(&session, "x + 1"), "42", "{code}");
    }
}

#[test]
fn without_a_timeout_there_is_none() {
    let sandbox = builder().policy(Policy { timeout: None, ..Policy::default() }).build_blocking().unwrap();
    assert_eq!(sandbox.run_blocking("import time\ntime.sleep(0.1)\n1").unwrap().value.unwrap().text, "1");
}

#[test]
fn a_running_cell_can_be_interrupted() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        session.run("x = 41").await.unwrap();
        let mut cell = session.start(ENDLESS[0]).await;
        cell.next().await.unwrap();
        cell.interrupt();
        assert_eq!(cell.outcome().await.unwrap().status, Status::Interrupted);
        assert_eq!(session.run("x + 1").await.unwrap().value.unwrap().text, "42");
    });
}

#[test]
fn dropping_a_running_cell_interrupts_it() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        session.run("x = 41").await.unwrap();
        let mut cell = session.start(ENDLESS[0]).await;
        cell.next().await.unwrap();
        drop(cell);
        let answer = tokio::time::timeout(Duration::from_secs(15), session.run("x + 1")).await;
        assert_eq!(answer.unwrap().unwrap().value.unwrap().text, "42");
    });
}

#[test]
fn dropping_the_future_of_run_interrupts_the_cell() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        session.run("x = 41").await.unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(300), session.run("while True: pass")).await;
        assert!(ended.is_err());
        let answer = tokio::time::timeout(Duration::from_secs(15), session.run("x + 1")).await;
        assert_eq!(answer.unwrap().unwrap().value.unwrap().text, "42");
    });
}

#[test]
fn dropping_the_future_of_run_at_once_interrupts_the_cell() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        for _ in 0..20 {
            // Given up right after its first poll, when the cell has hardly begun.
            let mut future = Box::pin(session.run("while True: pass"));
            let first = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
            assert!(first.is_pending());
            drop(future);
        }
        let answer = tokio::time::timeout(Duration::from_secs(15), session.run("1")).await;
        assert_eq!(answer.expect("the dropped cell still runs").unwrap().value.unwrap().text, "1");
    });
}

#[test]
fn many_interrupts_leave_the_session_sound() {
    let session = session();
    session.run_blocking("values = {}\ncount = 0").unwrap();
    for round in 0..40_u64 {
        let interrupt = session.interrupter();
        let outcome = session
            .run_observed_blocking(
                "print('go', flush=True)\nwhile True:\n    count += 1\n    values[count % 1000] = str(count)",
                move |_| {
                    let interrupt = interrupt.clone();
                    thread::spawn(move || {
                        thread::sleep(Duration::from_micros(round * 53 % 3000));
                        interrupt();
                    });
                },
            )
            .unwrap();
        assert_eq!(outcome.status, Status::Interrupted, "{outcome:#?}");
    }
    assert_eq!(text(&session, "all(int(v) % 1000 == k for k, v in values.items()) and count > 0"), "True");
}

#[test]
fn an_interrupt_before_the_cell_begins_is_not_lost() {
    block_on(async {
        let session = session_of_its_own().await;
        for _ in 0..50 {
            let running = session.start("while True: pass").await;
            running.interrupt();
            let outcome = running.outcome().await.unwrap();
            assert_eq!(outcome.status, Status::Interrupted);
        }
        // Dropped at once: the next cell doesn't wait for its time to be over.
        let started = Instant::now();
        drop(session.start("while True: pass").await);
        assert_eq!(session.run("1").await.unwrap().status, Status::Ok);
        assert!(started.elapsed() < Duration::from_secs(15));
    });
}

async fn session_of_its_own() -> belljar::Session {
    sandbox().session().await.unwrap()
}

#[test]
fn dropping_a_cell_that_ended_disturbs_no_other() {
    block_on(async {
        let session = session_of_its_own().await;
        let mut ended = session.start("1").await;
        while ended.next().await.is_some() {}
        let running = session.start("import time; time.sleep(0.3); 2").await;
        ended.interrupt();
        drop(ended);
        assert_eq!(running.outcome().await.unwrap().status, Status::Ok);
    });
}
