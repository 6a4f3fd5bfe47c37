//! Files that the host puts into a session and takes out.

use std::time::Duration;

use belljar::{State, Status};
use belljar_tests::{block_on, builder, sandbox, session, text};

#[test]
fn in_and_out() {
    let session = session();
    session.write_file_blocking("table.csv", b"a,b\n1,2\n").unwrap();
    assert_eq!(text(&session, "open('table.csv').read()"), "'a,b\\n1,2\\n'");
    let outcome = session.run_blocking("open('chart.svg', 'w').write('<svg/>')").unwrap();
    assert_eq!(outcome.files_created, ["/workspace/chart.svg"]);
    assert_eq!(session.read_file_blocking("/workspace/chart.svg").unwrap(), b"<svg/>");
}

#[test]
fn by_async_too() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        session.write_file("x", b"1").await.unwrap();
        assert_eq!(session.read_file("x").await.unwrap(), b"1");
    });
}

#[test]
fn what_is_not_there_or_does_not_fit_is_an_error_and_the_session_lives() {
    let session = session();
    assert!(session.read_file_blocking("nothing").is_err());
    assert!(session.read_file_blocking("../../etc/passwd").is_err());
    assert!(session.write_file_blocking("big", &vec![0; 100 << 20]).is_err());
    assert!(session.write_file_blocking("/python/os.py", b"").is_err());
    assert_eq!(text(&session, "1 + 1"), "2");
}

/// Also before the first cell, whose rollback is a fresh start.
#[test]
fn they_stay_when_a_cell_is_taken_back() {
    let sandbox = builder().timeout(Duration::from_millis(200)).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.write_file_blocking("input", b"kept").unwrap();
    let outcome = session.run_blocking("import os; os.remove('input'); sum(range(10**12))").unwrap();
    assert_eq!((outcome.status, outcome.session.state), (Status::Timeout, State::RolledBack));
    assert_eq!(session.read_file_blocking("input").unwrap(), b"kept");
    assert_eq!(text(&session, "open('input').read()"), "'kept'");
}
