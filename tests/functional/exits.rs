use belljar::Status;
use belljar_tests::{run, session, text};

#[test]
fn sys_exit_ends_the_cell_not_the_session() {
    let session = session();
    let outcome = session.run_blocking("x = 1\nprint('before')\nimport sys\nsys.exit(3)\nx = 2").unwrap();
    assert_eq!((outcome.status, outcome.exit_code, outcome.exit_status()), (Status::Exited, Some(3), 3));
    assert_eq!(outcome.stdout, "before\n");
    assert!(!outcome.is_success());
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn exit_codes_as_in_python() {
    for (code, expected) in [
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(None)", 0),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(True)", 1),
        ("import sys; sys.exit(256 + 7)", 7),
        ("import sys; sys.exit(-1)", 255),
        ("exit()", 0),
        ("exit(4)", 4),
        ("quit(5)", 5),
        ("raise SystemExit(6)", 6),
        ("import asyncio\nawait asyncio.sleep(0)\nraise SystemExit(8)", 8),
    ] {
        let outcome = run(code);
        assert_eq!((outcome.status, outcome.exit_code), (Status::Exited, Some(expected)), "{code}");
        assert_eq!(outcome.is_success(), expected == 0, "{code}");
    }
}

#[test]
fn a_message_goes_to_stderr() {
    let outcome = run("import sys\nsys.exit('went wrong')");
    assert_eq!((outcome.exit_code, outcome.stderr.as_str()), (Some(1), "went wrong\n"));
}

#[test]
fn input_is_a_clear_error() {
    let raised = run("input('name? ')").exception.unwrap();
    assert_eq!(raised.kind, "EOFError");
    insta::assert_snapshot!(raised.message, @"there is no keyboard in the sandbox, so input() can't ask. Put the answer into a variable, pass it in a file or an environment variable, or call a tool.");
}

#[test]
fn breakpoint_and_getpass_are_clear_errors() {
    assert_eq!(run("breakpoint()").exception.unwrap().kind, "RuntimeError");
    assert_eq!(run("import getpass; getpass.getpass()").exception.unwrap().kind, "EOFError");
}
