use std::sync::{Arc, Mutex};

use belljar::{Event, Policy, Status};
use belljar_tests::{block_on, builder, run, sandbox, session, text};

#[test]
fn stdout_and_stderr_are_apart() {
    let outcome = run("import sys\nprint('out')\nprint('err', file=sys.stderr)");
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((outcome.stdout_cut, outcome.stderr_cut), (None, None));
}

#[test]
fn output_before_an_error_is_kept() {
    let outcome = run("import sys\nprint('before')\nsys.stderr.write('also')\nraise ValueError('x')");
    assert_eq!(
        (outcome.status, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Status::Error, "before\n", "also")
    );
}

#[test]
fn output_before_a_hard_stop_is_kept() {
    let outcome = run("import os\nprint('before')\nos._exit(3)");
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Exited, "before\n"));
}

#[test]
fn no_newline_is_needed() {
    assert_eq!(run("print('a', end=''); print('b', end='')").stdout, "ab");
}

#[test]
fn an_outcome_prints_as_its_output() {
    assert_eq!(run("print('hello')").to_string(), "hello\n");
}

#[test]
fn unicode_passes() {
    assert_eq!(run("print('grüße 日本 🐍 \\x00|')").stdout, "grüße 日本 🐍 \0|\n");
}

#[test]
fn lone_surrogates_are_printed_visibly() {
    assert_eq!(run("print('a\\udc80b')").stdout, "a\\udc80b\n");
}

#[test]
fn descriptors_one_and_two_are_the_streams() {
    let outcome = run("import os\nos.write(1, b'one\\n')\nos.write(2, b'two\\n')\nNone");
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("one\n", "two\n"));
}

#[test]
fn bytes_that_are_not_utf8_do_not_fail() {
    assert_eq!(
        run("import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb')\nNone").stdout,
        "a\u{fffd}\u{fffd}b"
    );
}

#[test]
fn the_order_of_print_and_write_is_kept() {
    assert_eq!(
        run("import os\nprint('1', flush=True)\nos.write(1, b'2\\n')\nprint('3')").stdout,
        "1\n2\n3\n"
    );
}

#[test]
fn nothing_carries_over_to_the_next_cell() {
    let session = session();
    session.run_blocking("print('a', end='')").unwrap();
    assert_eq!(session.run_blocking("print('b')").unwrap().stdout, "b\n");
}

#[test]
fn long_output_keeps_its_beginning_and_its_end() {
    let policy = Policy { output: 1000, ..Policy::default() };
    let session = builder().policy(policy).build_blocking().unwrap().session_blocking().unwrap();
    let outcome = session.run_blocking("for n in range(1000): print(f'line {n}')").unwrap();
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.stdout.starts_with("line 0\nline 1\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("line 998\nline 999\n"), "{}", outcome.stdout);
    let cut = outcome.stdout_cut.unwrap();
    assert_eq!((cut.total_bytes, cut.cut_bytes), (8890, 7890));
    assert!(outcome.stdout.contains("… 7890 bytes cut …"));

    let rest = cut.rest.unwrap();
    assert_eq!(
        text(&session, format!("open({rest:?}).read() == ''.join(f'line {{n}}\\n' for n in range(1000))")),
        "True"
    );
}

#[test]
fn long_standard_error_is_cut_too() {
    let policy = Policy { output: 1000, ..Policy::default() };
    let outcome = builder().policy(policy).build_blocking().unwrap();
    let outcome =
        outcome.run_blocking("import sys\nfor n in range(1000): print('e' * 99, file=sys.stderr)").unwrap();
    let cut = outcome.stderr_cut.unwrap();
    assert_eq!((cut.total_bytes, cut.cut_bytes), (100_000, 99_000));
    assert!(outcome.stdout_cut.is_none());
}

#[test]
fn output_of_just_the_limit_is_whole() {
    let policy = Policy { output: 1000, ..Policy::default() };
    let sandbox = builder().policy(policy).build_blocking().unwrap();
    let outcome = sandbox.run_blocking("print('x' * 999)").unwrap();
    assert_eq!((outcome.stdout.len(), outcome.stdout_cut), (1000, None));
    assert!(outcome.files_created.is_empty());
    let outcome = sandbox.run_blocking("for n in range(20): print('y' * 49)").unwrap();
    assert_eq!((outcome.stdout.len(), outcome.stdout_cut), (1000, None));
    assert!(outcome.files_created.is_empty(), "{:?}", outcome.files_created);
}

#[test]
fn events_arrive_before_the_cell_ends() {
    block_on(async {
        let session = sandbox().session().await.unwrap();
        let mut cell = session.start("print('early')\nimport time\nwhile True: time.sleep(0.01)").await;
        let mut heard = Vec::new();
        while !heard.ends_with(b"early\n") {
            match cell.next().await.unwrap() {
                Event::Stdout(bytes) => heard.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
        cell.interrupt();
        let outcome = cell.outcome().await.unwrap();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Interrupted, "early\n"));
    });
}

#[test]
fn events_come_in_order() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearer = Arc::clone(&heard);
    let code = "import sys\nprint('a')\ndisplay(1)\nprint('b', file=sys.stderr)\nprint('c')";
    let outcome =
        session().run_observed_blocking(code, move |event| hearer.lock().unwrap().push(event)).unwrap();
    let heard: Vec<String> = heard
        .lock()
        .unwrap()
        .iter()
        .map(|event| match event {
            Event::Stdout(bytes) => format!("out {}", String::from_utf8_lossy(bytes).trim()),
            Event::Stderr(bytes) => format!("err {}", String::from_utf8_lossy(bytes).trim()),
            Event::Display(bundle) => format!("display {}", bundle.text()),
        })
        .collect();
    assert_eq!(heard, ["out a", "display 1", "err b", "out c"]);
    assert_eq!(outcome.stdout, "a\nc\n");
}

#[test]
fn a_replaced_stdout_works_until_it_is_put_back() {
    let session = session();
    session.run_blocking("import sys, io\nbuffer = io.StringIO()\nsys.stdout = buffer").unwrap();
    assert_eq!(session.run_blocking("print('caught')").unwrap().stdout, "");
    let outcome = session.run_blocking("sys.stdout = sys.__stdout__\nprint(buffer.getvalue())").unwrap();
    assert_eq!(outcome.stdout, "caught\n\n");
}

#[test]
fn a_closed_stdout_comes_back() {
    let session = session();
    session.run_blocking("import sys\nsys.stdout.close()").unwrap();
    assert_eq!(session.run_blocking("print('alive')").unwrap().stdout, "alive\n");
    session.run_blocking("import os\nos.close(1)").unwrap();
    assert_eq!(session.run_blocking("keep = 1\nkeep").unwrap().status, Status::Ok);
}

#[test]
fn warnings_and_logging_go_to_stderr() {
    let outcome = run("import warnings, logging\nwarnings.warn('careful')\nlogging.warning('logged')");
    assert!(outcome.stderr.contains("UserWarning: careful"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("WARNING:root:logged"), "{}", outcome.stderr);
}
