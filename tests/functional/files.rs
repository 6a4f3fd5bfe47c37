use belljar::{Policy, Status};
use belljar_tests::{builder, session, text};

#[test]
fn files_created_modified_and_deleted_are_listed() {
    let session = session();
    let outcome = session.run_blocking("open('a.txt', 'w').write('1')\nopen('/tmp/b', 'w').close()\nimport os\nos.makedirs('d/e')\nopen('d/e/c', 'w').close()").unwrap();
    assert_eq!(outcome.files_created, ["/tmp/b", "/workspace/a.txt", "/workspace/d/e/c"]);
    assert!(outcome.files_modified.is_empty() && outcome.files_deleted.is_empty());

    let outcome = session.run_blocking("open('a.txt', 'a').write('2')\nos.unlink('/tmp/b')\nopen('brief', 'w').close(); os.unlink('brief')").unwrap();
    assert!(outcome.files_created.is_empty(), "{outcome:#?}");
    assert_eq!(
        (outcome.files_modified, outcome.files_deleted),
        (vec!["/workspace/a.txt".into()], vec!["/tmp/b".into()])
    );

    let outcome = session.run_blocking("open('a.txt').read()\nos.rename('d', 'f')").unwrap();
    assert_eq!(
        (outcome.files_created, outcome.files_deleted),
        (vec!["/workspace/f/e/c".into()], vec!["/workspace/d/e/c".into()])
    );
    assert!(outcome.files_modified.is_empty());
}

#[test]
fn reading_changes_nothing() {
    let session = session();
    session.run_blocking("open('a', 'w').write('1')").unwrap();
    let outcome = session.run_blocking("open('a').read(), open('a', 'r+').read()").unwrap();
    assert!(outcome.files_created.is_empty() && outcome.files_modified.is_empty(), "{outcome:#?}");
}

#[test]
fn importing_leaves_no_files() {
    let session = session();
    let outcome = session.run_blocking("import wave, imaplib, mailbox").unwrap();
    assert!(outcome.files_created.is_empty(), "{:?}", outcome.files_created);
}

#[test]
fn the_quota_is_an_error_and_not_the_end() {
    let session = builder()
        .policy(Policy { file_bytes: 1 << 20, ..Policy::default() })
        .build_blocking()
        .unwrap()
        .session_blocking()
        .unwrap();
    let outcome = session
        .run_blocking("with open('big', 'wb') as file:\n    while True: file.write(bytes(100_000))")
        .unwrap();
    let raised = outcome.exception.unwrap();
    assert_eq!((outcome.status, raised.kind.as_str()), (Status::DiskFull, "OSError"));
    assert!(outcome.reason.unwrap().contains("1048576 bytes"));
    assert!(raised.message.contains("No space left on device"), "{raised:?}");
    assert_eq!(text(&session, "import os\nos.unlink('big')\nopen('small', 'w').write('fits')"), "4");
}

#[test]
fn errors_are_the_usual_ones() {
    let session = session();
    session
        .run_blocking("import os\nos.mkdir('d'); open('d/f', 'w').close(); open('f', 'w').close()")
        .unwrap();
    for (code, kind) in [
        ("open('nowhere')", "FileNotFoundError"),
        ("open('d')", "IsADirectoryError"),
        ("open('f/x')", "NotADirectoryError"),
        ("open('f', 'x')", "FileExistsError"),
        ("os.mkdir('d')", "FileExistsError"),
        ("os.rmdir('d')", "OSError"),
        ("os.unlink('nowhere')", "FileNotFoundError"),
        ("os.listdir('f')", "NotADirectoryError"),
        ("open('x' * 300, 'w')", "OSError"),
        ("open('a\\0b')", "ValueError"),
        ("os.rename('d', 'd/inside')", "OSError"),
        ("os.close(99)", "OSError"),
    ] {
        let raised = session.run_blocking(code).unwrap().exception.map(|raised| raised.kind);
        assert_eq!(raised.as_deref(), Some(kind), "{code}");
    }
}

#[test]
fn links_and_times_and_sizes() {
    let session = session();
    session
        .run_blocking("import os\nopen('f', 'w').write('12345')\nos.symlink('f', 's'); os.link('f', 'h')")
        .unwrap();
    assert_eq!(
        text(&session, "os.readlink('s'), os.path.islink('s'), open('s').read(), os.stat('h').st_nlink"),
        "('f', True, '12345', 2)"
    );
    assert_eq!(
        text(&session, "os.utime('f', (1, 2))\nos.stat('h').st_mtime, os.path.getsize('f')"),
        "(2.0, 5)"
    );
    assert_eq!(text(&session, "os.truncate('f', 2)\nopen('h').read()"), "'12'");
    assert_eq!(
        text(&session, "sorted(entry.name for entry in os.scandir('.') if entry.is_file())"),
        "['f', 'h', 's']"
    );
}

#[test]
fn seeking_appending_and_both_ways() {
    let session = session();
    assert_eq!(
        text(
            &session,
            "f = open('f', 'w+b'); f.write(b'hello world'); f.seek(6); f.write(b'W'); f.seek(-5, 2); f.read(), f.tell()"
        ),
        "(b'World', 11)"
    );
    assert_eq!(
        text(&session, "f.close()\nwith open('f', 'ab') as g: g.write(b'!')\nopen('f').read()"),
        "'hello World!'"
    );
}

#[test]
fn files_of_a_cell_that_was_stopped_hard_are_taken_back() {
    let session = session();
    session.run_blocking("open('a', 'w').write('before')").unwrap();
    let outcome = session
        .run_blocking("import os\nopen('a', 'w').write('after')\nopen('b', 'w').close()\nos._exit(0)")
        .unwrap();
    assert!(outcome.files_created.is_empty() && outcome.files_modified.is_empty());
    assert_eq!(text(&session, "import os\nopen('a').read(), os.listdir()"), "('before', ['a'])");
}
