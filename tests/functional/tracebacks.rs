use belljar::{Exception, Status};
use belljar_tests::{run, session};

fn raised(code: &str) -> Exception {
    let outcome = run(code);
    assert_eq!(outcome.status, Status::Error, "{outcome:#?}");
    outcome.exception.unwrap()
}

#[test]
fn the_users_lines_with_source() {
    let raised = raised("def f(x):\n    return 1 / x\n\nf(0)\n");
    assert_eq!((raised.kind.as_str(), raised.message.as_str()), ("ZeroDivisionError", "division by zero"));
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 4, in <module>
        f(0)
        ~^^^
      File "<cell 1>", line 2, in f
        return 1 / x
               ~~^~~
    ZeroDivisionError: division by zero
    "#);
    let frames: Vec<_> =
        raised.frames.iter().map(|at| (at.line, at.function.as_str(), at.source.as_str())).collect();
    assert_eq!(frames, [(4, "<module>", "f(0)"), (2, "f", "return 1 / x")]);
}

#[test]
fn lines_of_the_library_are_left_out() {
    let raised = raised("import json\njson.loads('{')");
    assert_eq!(raised.kind, "json.decoder.JSONDecodeError");
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 2, in <module>
        json.loads('{')
        ~~~~~~~~~~^^^^^
    json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
    "#);
}

#[test]
fn a_callback_through_the_library_shows_both_ends() {
    let raised =
        raised("import functools\ndef add(a, b):\n    return a + b\nfunctools.reduce(add, [1, 'a'])\n");
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 4, in <module>
        functools.reduce(add, [1, 'a'])
        ~~~~~~~~~~~~~~~~^^^^^^^^^^^^^^^
      File "<cell 1>", line 3, in add
        return a + b
               ~~^~~
    TypeError: unsupported operand type(s) for +: 'int' and 'str'
    "#);
}

#[test]
fn chained_exceptions() {
    let raised =
        raised("try:\n    {}['k']\nexcept KeyError as error:\n    raise ValueError('no k') from error\n");
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 2, in <module>
        {}['k']
        ~~^^^^^
    KeyError: 'k'

    The above exception was the direct cause of the following exception:

    Traceback (most recent call last):
      File "<cell 1>", line 4, in <module>
        raise ValueError('no k') from error
    ValueError: no k
    "#);
}

#[test]
fn exceptions_while_handling_another() {
    let raised = raised("try:\n    1/0\nexcept ZeroDivisionError:\n    [].pop()\n");
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 2, in <module>
        1/0
        ~^~
    ZeroDivisionError: division by zero

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "<cell 1>", line 4, in <module>
        [].pop()
        ~~~~~~^^
    IndexError: pop from empty list
    "#);
}

#[test]
fn exception_groups() {
    let raised = raised("raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])");
    insta::assert_snapshot!(raised.traceback, @r#"
    + Exception Group Traceback (most recent call last):
    |   File "<cell 1>", line 1, in <module>
    |     raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])
    | ExceptionGroup: two (2 sub-exceptions)
    +-+---------------- 1 ----------------
      | ValueError: a
      +---------------- 2 ----------------
      | TypeError: b
      +------------------------------------
    "#);
}

#[test]
fn notes_are_shown() {
    let raised = raised("error = ValueError('v')\nerror.add_note('look here')\nraise error");
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 3, in <module>
        raise error
    ValueError: v
    look here
    "#);
}

#[test]
fn a_syntax_error_has_its_caret() {
    let raised = raised("x = 1\ny = (2 +\n");
    assert_eq!(raised.kind, "SyntaxError");
    assert_eq!(raised.frames[0].line, 2);
    insta::assert_snapshot!(raised.traceback, @r#"
      File "<cell 1>", line 2
        y = (2 +
            ^
    SyntaxError: '(' was never closed
    "#);
}

#[test]
fn an_indentation_error() {
    let raised = raised("if True:\nx = 1\n");
    assert_eq!(raised.kind, "IndentationError");
    insta::assert_snapshot!(raised.traceback, @r#"
      File "<cell 1>", line 2
        x = 1
        ^
    IndentationError: expected an indented block after 'if' statement on line 1
    "#);
}

#[test]
fn a_function_of_an_earlier_cell_shows_its_source() {
    let session = session();
    session.run_blocking("def broken():\n    raise LookupError('in cell 1')\n").unwrap();
    let raised = session.run_blocking("broken()").unwrap().exception.unwrap();
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 2>", line 1, in <module>
        broken()
        ~~~~~~^^
      File "<cell 1>", line 2, in broken
        raise LookupError('in cell 1')
    LookupError: in cell 1
    "#);
}

#[test]
fn modules_of_the_workspace_show_their_source() {
    let session = session();
    session
        .run_blocking("open('helper.py', 'w').write('def go():\\n    raise OSError(5, \"gone\")\\n')")
        .unwrap();
    let raised = session.run_blocking("import helper\nhelper.go()").unwrap().exception.unwrap();
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 2>", line 2, in <module>
        helper.go()
        ~~~~~~~~~^^
      File "/workspace/helper.py", line 2, in go
        raise OSError(5, "gone")
    OSError: [Errno 5] gone
    "#);
}

#[test]
fn deep_recursion_is_told_briefly() {
    let raised = raised("def f(n): return f(n + 1)\nf(0)");
    assert_eq!(raised.kind, "RecursionError");
    assert!(raised.frames.len() <= 60, "{}", raised.frames.len());
    assert!(raised.traceback.len() < 20_000, "{}", raised.traceback.len());
}

#[test]
fn an_exception_of_ones_own() {
    let raised = raised("class Mine(Exception):\n    def __str__(self): return 'told'\nraise Mine(1)");
    assert_eq!((raised.kind.as_str(), raised.message.as_str()), ("Mine", "told"));
}

#[test]
fn an_exception_that_cannot_be_told() {
    let raised = raised("class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute");
    assert_eq!((raised.kind.as_str(), raised.message.as_str()), ("Mute", "<exception str() failed>"));
}

#[test]
fn a_name_error_suggests() {
    let raised = raised("colour = 1\ncolor");
    assert!(raised.traceback.contains("Did you mean: 'colour'?"), "{}", raised.traceback);
}

#[test]
fn huge_messages_are_cut() {
    let raised = raised("raise ValueError('m' * 1_000_000)");
    assert!(raised.message.len() < 20_000 && raised.traceback.len() < 80_000);
}

#[test]
fn print_exc_works() {
    let outcome =
        run("import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc()");
    assert!(outcome.stderr.contains("    1/0\n"), "{}", outcome.stderr);
    assert_eq!(outcome.status, Status::Ok);
}
