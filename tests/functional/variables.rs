use belljar::{Request, Status};
use belljar_tests::{run, session, text};

#[test]
fn the_value_is_the_last_expression() {
    let outcome = run("1 + 1");
    assert_eq!(outcome.status, Status::Ok);
    assert_eq!(outcome.value.unwrap().text, "2");
}

#[test]
fn a_statement_has_no_value() {
    for code in
        ["x = 1", "", "# only a comment", "pass", "None", "1;x = 2", "if True:\n    5\n", "def f(): return 1"]
    {
        assert_eq!(run(code).value, None, "{code:?}");
    }
}

#[test]
fn a_value_after_statements() {
    assert_eq!(run("a = 20\nb = 22\na + b").value.unwrap().text, "42");
    assert_eq!(run("a = 20; a * 2").value.unwrap().text, "40");
    assert_eq!(run("def f():\n    return 'x'\n\nf()\n\n").value.unwrap().text, "'x'");
}

#[test]
fn variables_persist() {
    let session = session();
    session.run_blocking("x = 41").unwrap();
    session.run_blocking("x += 1").unwrap();
    assert_eq!(text(&session, "x"), "42");
}

#[test]
fn functions_classes_and_imports_persist() {
    let session = session();
    session
        .run_blocking("import math\nclass A:\n    n = 3\ndef area(r): return round(math.pi * r * r, 2)")
        .unwrap();
    assert_eq!(text(&session, "area(A.n)"), "28.27");
}

#[test]
fn generators_keep_their_place() {
    let session = session();
    session
        .run_blocking(
            "def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\ng = count()\nnext(g)",
        )
        .unwrap();
    assert_eq!(text(&session, "next(g)"), "2");
    assert_eq!(text(&session, "next(g)"), "3");
}

#[test]
fn open_files_persist() {
    let session = session();
    session.run_blocking("file = open('log.txt', 'w+')\nfile.write('one ')").unwrap();
    session.run_blocking("file.write('two')").unwrap();
    assert_eq!(text(&session, "file.seek(0); file.read()"), "'one two'");
}

#[test]
fn variables_survive_an_error() {
    let session = session();
    session.run_blocking("x = 1").unwrap();
    assert_eq!(session.run_blocking("y = 2\nraise ValueError").unwrap().status, Status::Error);
    assert_eq!(text(&session, "x, y"), "(1, 2)");
}

#[test]
fn the_last_value_is_underscore() {
    let session = session();
    session.run_blocking("6 * 7").unwrap();
    assert_eq!(text(&session, "_ + 1"), "43");
}

#[test]
fn main_is_a_module() {
    let session = session();
    session.run_blocking("def f(): pass\nclass P:\n    pass").unwrap();
    assert_eq!(
        text(&session, "__name__, f.__module__, P.__module__"),
        "('__main__', '__main__', '__main__')"
    );
    assert_eq!(text(&session, "import sys\nsys.modules['__main__'].f is f"), "True");
    assert_eq!(text(&session, "import pickle\ntype(pickle.loads(pickle.dumps(P()))) is P"), "True");
}

#[test]
fn future_imports_hold_for_later_cells() {
    let session = session();
    session.run_blocking("from __future__ import annotations").unwrap();
    assert_eq!(text(&session, "def f(x: nowhere): pass\nf.__annotations__"), "{'x': 'nowhere'}");
}

#[test]
fn cells_are_numbered_and_sessions_have_names() {
    let session = session();
    let first = session.run_blocking("1").unwrap();
    let second = session.run_blocking("2").unwrap();
    assert_eq!((first.session.cell, second.session.cell), (1, 2));
    assert_eq!(first.session.id, session.id().as_str());
    assert_ne!(first.session.id, run("1").session.id);
}

#[test]
fn code_from_a_file_knows_its_name() {
    let session = session();
    let request = Request::from_file("script.py", "print(__file__)\nraise KeyError('k')");
    let outcome = session.run_blocking(request).unwrap();
    assert_eq!(outcome.stdout, "script.py\n");
    assert_eq!(outcome.exception.unwrap().frames[0].file, "script.py");
}

#[test]
fn sessions_share_nothing() {
    let (one, two) = (session(), session());
    one.run_blocking("x = 1\nimport math, json, sys\nmath.tau = 0\njson.mark = 1\nsys.path.append('/mine')\nopen('f.txt', 'w').close()").unwrap();
    let outcome = two.run_blocking("x").unwrap();
    assert_eq!(outcome.exception.unwrap().kind, "NameError");
    assert_eq!(
        text(
            &two,
            "import math, json, sys, os\nmath.tau > 6, hasattr(json, 'mark'), '/mine' in sys.path, os.listdir()"
        ),
        "(True, False, False, [])"
    );
    assert_eq!(text(&one, "x, math.tau"), "(1, 0)");
}

#[test]
fn large_values_are_cut() {
    let session = session();
    let cut = text(&session, "'a' * 5_000_000");
    assert!(cut.len() < 1_100_000 && cut.contains("cut"), "{}", cut.len());
    let cut = text(&session, "list(range(1_000_000))");
    assert!(cut.len() < 1_100_000 && cut.contains("cut"), "{}", cut.len());
}

#[test]
fn a_failing_repr_is_told() {
    let outcome = run("class R:\n    def __repr__(self): raise ValueError('no repr')\nR()");
    assert_eq!(outcome.status, Status::Ok);
    insta::assert_snapshot!(outcome.value.unwrap().text, @"<R object whose repr raised ValueError: no repr>");
}

#[test]
fn lone_surrogates_in_a_value_are_escaped() {
    assert_eq!(run("'a\\udc80b'").value.unwrap().text, r"'a\udc80b'");
}
