use std::time::Duration;

use belljar::{Error, Policy, Rollback, Status, parse_size};
use belljar_tests::{builder, sandbox, text};

#[test]
fn the_defaults_are_as_documented() {
    let policy = Policy::default();
    assert_eq!(policy.timeout, Some(Duration::from_secs(30)));
    assert_eq!((policy.memory, policy.output, policy.file_bytes), (256 << 20, 1 << 20, 64 << 20));
    assert_eq!((policy.file_count, policy.tool_calls, policy.tool_bytes), (100_000, 100_000, 4 << 20));
    assert!(policy.mounts.is_empty() && policy.env.is_empty() && policy.steps.is_none());
}

#[test]
fn impossible_policies_are_refused_with_a_hint() {
    let none = Policy::default();
    for policy in [
        Policy { timeout: Some(Duration::ZERO), ..none.clone() },
        Policy { timeout: Some(Duration::MAX), ..none.clone() },
        Policy { memory: 0, ..none.clone() },
        Policy { memory: 47 << 20, ..none.clone() },
        Policy { memory: (4 << 30) + 1, ..none.clone() },
        Policy { env: [(String::new(), "x".into())].into(), ..none.clone() },
        Policy { env: [("A=B".into(), "x".into())].into(), ..none.clone() },
        Policy { env: [("A".into(), "x\0".into())].into(), ..none.clone() },
    ] {
        let refused = builder().policy(policy.clone()).build_blocking().err();
        assert!(matches!(refused, Some(Error::Policy(_))), "{policy:?}");
        assert!(refused.unwrap().hint().is_some());
    }
}

#[test]
fn the_extremes_that_are_allowed_work() {
    for policy in [
        Policy { memory: 48 << 20, ..Policy::default() },
        Policy { memory: 4 << 30, ..Policy::default() },
        Policy { timeout: Some(Duration::from_secs(366 * 86_400)), ..Policy::default() },
        Policy { output: 0, ..Policy::default() },
        Policy { output: u64::MAX, ..Policy::default() },
        Policy { tool_timeout: Duration::MAX, ..Policy::default() },
        Policy { file_bytes: 0, file_count: 0, ..Policy::default() },
        Policy { file_bytes: u64::MAX, file_count: u64::MAX, ..Policy::default() },
        Policy { display_bytes: 0, tool_calls: 0, tool_bytes: 0, ..Policy::default() },
        Policy { display_bytes: u64::MAX, tool_calls: u64::MAX, tool_bytes: u64::MAX, ..Policy::default() },
    ] {
        let tool = belljar::Tool::new("one", "", |_| Ok(1.into()));
        let session =
            builder().policy(policy.clone()).tool(tool).build_blocking().unwrap().session_blocking().unwrap();
        session.run_blocking("x = 1").unwrap();
        let outcome = session.run_blocking("import sys\nprint('p')\ntry: tools.one()\nexcept Exception as e: print(e)\ndisplay(1)\nx + 1").unwrap();
        assert_eq!(outcome.status, Status::Ok, "{policy:?}: {outcome:#?}");
        assert_eq!(session.run_blocking("import os\nos._exit(0)").unwrap().status, Status::Exited);
        assert_eq!(session.run_blocking("x").unwrap().status, Status::Ok, "{policy:?}");
    }
}

#[test]
fn a_policy_round_trips_as_json() {
    let policy = Policy { steps: Some(5), rollback: Rollback::Never, ..Policy::default() };
    let json = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    assert!(serde_json::from_str::<Policy>(r#"{ "memroy": 1 }"#).is_err(), "a misspelt field is refused");
    assert_eq!(serde_json::from_str::<Policy>("{}").unwrap(), Policy::default());
}

#[test]
fn sizes_are_read() {
    assert_eq!(parse_size("256MiB"), Ok(256 << 20));
    assert!(parse_size("much").is_err());
}

#[test]
fn memory_is_limited() {
    let session = builder().memory(64 << 20).build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("x = 41").unwrap();
    let outcome = session.run_blocking("big = bytearray(60_000_000)").unwrap();
    assert_eq!((outcome.status, outcome.exit_status()), (Status::OutOfMemory, 137));
    assert_eq!(outcome.exception.unwrap().kind, "MemoryError");
    assert_eq!(text(&session, "x"), "41");
}

#[test]
fn caught_memory_errors_are_not_the_cells_end() {
    let outcome =
        sandbox().run_blocking("try: bytearray(2**30)\nexcept MemoryError: print('caught')\n5").unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Ok, "caught\n"));
}

#[test]
fn without_rollback_a_hard_stop_is_a_fresh_start() {
    let policy = Policy { rollback: Rollback::Never, ..Policy::default() };
    let session = builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("x = 1\nopen('f', 'w').close()").unwrap();
    let outcome = session.run_blocking("import os\nos._exit(0)").unwrap();
    assert_eq!(serde_json::to_value(outcome.session.state).unwrap(), "lost");
    assert_eq!(text(&session, "import os\n'x' in globals(), os.listdir()"), "(False, [])");
}

#[test]
fn rollback_by_comparing_works_too() {
    let sandbox = builder().tracking(belljar::Tracking::Compare).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("x = list(range(1000))").unwrap();
    session.run_blocking("x.append(1)").unwrap();
    session.run_blocking("import os\nx.clear()\nos._exit(0)").unwrap();
    assert_eq!(text(&session, "len(x), sum(x)"), "(1001, 499501)");
}
