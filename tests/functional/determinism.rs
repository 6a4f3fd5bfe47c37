use belljar::{Clock, Entropy, Policy, Status};
use belljar_tests::{builder, text};

fn fixed() -> Policy {
    Policy {
        clock: Clock::Fixed(1_700_000_000_000_000_000),
        entropy: Entropy::Seeded(7),
        ..Policy::default()
    }
}

const DRAW: &str = "
import time, random, os, uuid, secrets, datetime, tempfile
time.sleep(3600)
open('f', 'w').close()
str([time.time(), time.monotonic(), random.random(), os.urandom(8), uuid.uuid4(), secrets.token_hex(4), datetime.datetime.now(), os.stat('f').st_mtime, hash('x'), id(object()), {'b', 'a', 'c'}])";

#[test]
fn a_fixed_clock_and_a_seed_repeat() {
    let draw = || {
        let session = builder().policy(fixed()).build_blocking().unwrap().session_blocking().unwrap();
        (text(&session, DRAW), text(&session, DRAW))
    };
    let (first, second) = draw();
    assert_eq!((first.clone(), second.clone()), draw());
    assert_ne!(first, second);
    assert!(first.contains("datetime.datetime(2023, 11, 14, 23, "), "{first}");
}

#[test]
fn another_seed_differs() {
    let draw = |seed| {
        let policy = Policy { entropy: Entropy::Seeded(seed), ..fixed() };
        text(
            &builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap(),
            "import random\nrandom.random()",
        )
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn a_rolled_back_cell_does_not_disturb_the_draw() {
    let sandbox = builder().policy(fixed()).build_blocking().unwrap();
    let draw = |hostile: bool| {
        let session = sandbox.session_blocking().unwrap();
        session.run_blocking("import random, os").unwrap();
        if hostile {
            session.run_blocking("random.random(); os.urandom(99); os._exit(1)").unwrap();
        }
        text(&session, "random.random(), os.urandom(4)")
    };
    assert_eq!(draw(false), draw(true));
}

/// The only test that counts steps: it compiles the interpreter a second time where that isn't cached yet.
#[test]
fn steps_are_the_same_every_time() {
    let policy = Policy { steps: Some(2_000_000_000), ..fixed() };
    let sandbox = builder().policy(policy).build_blocking().unwrap();
    let count = || {
        let session = sandbox.session_blocking().unwrap();
        let one = session.run_blocking("total = 0\nfor n in range(100_000): total += n * n").unwrap();
        let two = session.run_blocking("sorted(str(n) for n in range(10_000))[0]").unwrap();
        (one.usage.steps.unwrap(), two.usage.steps.unwrap())
    };
    let first = count();
    assert!(first.0 > 1_000_000, "{first:?}");
    assert_eq!(first, count());

    let stopped = || {
        let session = sandbox.session_blocking().unwrap();
        session.run_blocking("x = 41\nseen = 0").unwrap();
        let outcome = session
            .run_blocking("for seen in range(10**12):\n    if seen % 100_000 == 0: print(seen)")
            .unwrap();
        assert_eq!(outcome.status, Status::Timeout, "{outcome:#?}");
        assert_eq!(text(&session, "x"), "41");
        (outcome.stdout, outcome.usage.steps, outcome.reason)
    };
    let first = stopped();
    assert!(first.0.starts_with("0\n100000\n"), "{first:?}");
    assert_eq!(first, stopped());
}
