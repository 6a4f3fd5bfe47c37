//! A session's files from outside: the same for files on disk and in memory.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use belljar::{Error, FileErrorCode, FileEventKind, FileKind, Files, GrepOptions, Session, StorageKind};
use belljar_tests::{block_on, builder, text};

/// Runs a test with files on disk, and with files in memory.
fn both(test: impl Fn(&Session, &Files)) {
    let directory = tempfile::tempdir().unwrap();
    for storage in [StorageKind::Disk, StorageKind::Memory] {
        let sandbox = builder()
            .workspace_root(directory.path())
            .storage(storage)
            .quota(8 << 20)
            .build_blocking()
            .unwrap();
        let session = sandbox.session_blocking().unwrap();
        let files = session.files().unwrap();
        test(&session, &files);
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> FileErrorCode {
    match result {
        Err(Error::File(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_text_and_lines() {
    both(|session, files| {
        files.write_blocking("a/b/c.txt", "eins\nzwei\ndrei\nvier\n".as_bytes()).unwrap();
        assert_eq!(text(session, "open('a/b/c.txt').read()"), r"'eins\nzwei\ndrei\nvier\n'");
        files.append_blocking("a/b/c.txt", b"last").unwrap();
        assert_eq!(files.read_text_blocking("/workspace/a/b/c.txt").unwrap(), "eins\nzwei\ndrei\nvier\nlast");
        let lines = files.read_lines_blocking("/session/a/b/c.txt", 2, 2).unwrap();
        assert_eq!((lines.text.as_str(), lines.first, lines.count), ("zwei\ndrei\n", 2, 2));
        session.run_blocking("open('raw', 'wb').write(bytes(range(256)))").unwrap();
        assert_eq!(files.read_blocking("raw").unwrap(), (0..=255).collect::<Vec<u8>>());
        assert_eq!(code(files.read_text_blocking("raw")), FileErrorCode::InvalidText);
    });
}

#[test]
fn edits() {
    both(|session, files| {
        files.write_blocking("main.py", b"x = 1\ny = 1\n").unwrap();
        assert_eq!(files.edit_blocking("main.py", "x = 1", "x = 2", false).unwrap(), 1);
        assert_eq!(code(files.edit_blocking("main.py", " = ", ": int = ", false)), FileErrorCode::NoMatch);
        assert_eq!(files.edit_blocking("main.py", " = ", ": int = ", true).unwrap(), 2);
        assert_eq!(code(files.edit_blocking("main.py", "absent", "", false)), FileErrorCode::NoMatch);
        assert_eq!(text(session, "open('main.py').read()"), r"'x: int = 2\ny: int = 1\n'");
    });
}

#[test]
fn listing_and_finding() {
    both(|session, files| {
        session
            .run_blocking("import os\nos.makedirs('src/deep')\nfor p in ('src/a.py', 'src/deep/b.py', 'c.txt', '.hidden'): open(p, 'w').write('# TODO ' + p)\nos.symlink('c.txt', 'link')")
            .unwrap();
        let listed = files.list_blocking("").unwrap();
        let kinds: Vec<_> = listed.iter().map(|entry| (entry.name.as_str(), entry.stat.kind)).collect();
        for expected in [(".hidden", FileKind::File), ("link", FileKind::Link), ("src", FileKind::Directory)]
        {
            assert!(kinds.contains(&expected), "{kinds:?}");
        }
        let found = files.glob_blocking("**/*.py").unwrap();
        let paths: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/a.py", "src/deep/b.py"]);
        let found = files.grep_blocking("TODO src/.*b", &GrepOptions::default()).unwrap();
        assert_eq!((found.matches.len(), found.matches[0].path.as_str()), (1, "src/deep/b.py"));
        let stat = files.stat_blocking("c.txt").unwrap();
        assert_eq!((stat.kind, stat.size, stat.read_only), (FileKind::File, 12, false));
        assert!(files.exists_blocking("link").unwrap() && !files.exists_blocking("absent").unwrap());
        assert!(files.usage_blocking("").unwrap().files >= 4);
    });
}

#[test]
fn moving_copying_and_removing() {
    both(|session, files| {
        files.make_directory_blocking("one/two").unwrap();
        files.write_blocking("one/two/f", b"f").unwrap();
        files.rename_blocking("one", "uno").unwrap();
        let copied = files.copy_blocking("uno", "dos").unwrap();
        assert_eq!((copied.files, copied.bytes), (1, 1));
        assert_eq!(code(files.remove_blocking("uno", false)), FileErrorCode::NotEmpty);
        files.remove_blocking("uno", true).unwrap();
        assert_eq!(
            text(session, "import os; os.path.exists('uno'), open('dos/two/f').read()"),
            "(False, 'f')"
        );
    });
}

#[test]
fn codes_that_agents_know() {
    both(|session, files| {
        session.run_blocking("import os; os.mkdir('d'); open('f', 'w').close(); os.symlink('/etc/passwd', 'out'); os.symlink('../../..', 'up')").unwrap();
        for (result, expected) in [
            (files.read_blocking("absent"), FileErrorCode::FileNotFound),
            (files.read_blocking("d"), FileErrorCode::IsDirectory),
            (files.read_blocking("f/x"), FileErrorCode::NotDirectory),
            (files.read_blocking("../x"), FileErrorCode::InvalidPath),
            (files.read_blocking("/etc/passwd"), FileErrorCode::InvalidPath),
            (files.read_blocking("a\0b"), FileErrorCode::InvalidPath),
        ] {
            assert_eq!(code(result), expected);
        }
        for path in ["out", "up/etc/passwd"] {
            let found = code(files.read_blocking(path));
            assert!(
                matches!(found, FileErrorCode::InvalidPath | FileErrorCode::FileNotFound),
                "{path}: {found}"
            );
        }
        assert_eq!(code(files.write_blocking("d", b"")), FileErrorCode::IsDirectory);
        assert_eq!(FileErrorCode::FileNotFound.as_str(), "file_not_found");
    });
}

#[test]
fn many_at_once() {
    both(|_, files| {
        let uploaded = files
            .upload_blocking(&[
                ("a".into(), b"1".to_vec()),
                ("../b".into(), vec![]),
                ("c/d".into(), b"2".to_vec()),
            ])
            .unwrap();
        let failed: Vec<_> = uploaded.iter().map(|file| file.error.is_some()).collect();
        assert_eq!(failed, [false, true, false]);
        let downloaded = files.download_blocking(&["c/d".into(), "nothing".into()]).unwrap();
        assert_eq!(downloaded[0].contents.as_deref(), Some(&b"2"[..]));
        assert_eq!(downloaded[1].error.as_ref().unwrap().code, FileErrorCode::FileNotFound);
    });
}

#[test]
fn what_the_host_writes_counts_for_the_quota_and_is_undone_with_cells() {
    both(|session, files| {
        session.run_blocking("x = 1").unwrap();
        files.write_blocking("a", b"host").unwrap();
        session.run_blocking("open('a', 'w').write('guest')").unwrap();
        session.undo_blocking(1).unwrap();
        assert_eq!(files.read_text_blocking("a").unwrap(), "host");
        assert_eq!(code(files.write_blocking("large", &vec![1; 16 << 20])), FileErrorCode::DiskFull);
        assert_eq!(files.read_text_blocking("a").unwrap(), "host");
    });
}

#[test]
fn async_twins() {
    both(|_, files| {
        block_on(async {
            files.write("a", b"1\n2\n").await.unwrap();
            assert_eq!(files.read_lines("a", 2, 1).await.unwrap().text, "2\n");
            files.remove("a", false).await.unwrap();
            assert!(!files.exists("a").await.unwrap());
        });
    });
}

#[test]
fn changes_are_heard() {
    both(|session, files| {
        let mut watch = files.watch_blocking().unwrap();
        session.run_blocking("open('made', 'w').write('x')").unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        let mut heard = Vec::new();
        while !heard.iter().any(|(path, kind)| path == "made" && *kind == FileEventKind::Created) {
            assert!(Instant::now() < limit, "{heard:?}");
            let events = watch.next_blocking(Duration::from_millis(100)).unwrap();
            heard.extend(events.into_iter().map(|event| (event.path, event.kind)));
        }
    });
}

#[test]
fn files_on_disk_can_be_used_while_a_cell_runs() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox =
        builder().workspace_root(directory.path()).storage(StorageKind::Disk).build_blocking().unwrap();
    let session = Arc::new(sandbox.session_blocking().unwrap());
    let files = session.files().unwrap();
    let runner = {
        let session = Arc::clone(&session);
        let wait = "import os, time\nopen('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nopen('go').read()";
        thread::spawn(move || session.run_blocking(wait).unwrap())
    };
    while !files.exists_blocking("ready").unwrap() {
        thread::sleep(Duration::from_millis(5));
    }
    files.write_blocking("go", b"now").unwrap();
    let outcome = runner.join().unwrap();
    assert_eq!(outcome.value.unwrap().text, "'now'");
}

#[test]
fn links_to_what_is_mounted_are_followed_and_nothing_is_written_through_them() {
    let (directory, shelf) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(shelf.path().join("data")).unwrap();
    std::fs::write(shelf.path().join("data/x.csv"), "a,b\n1,2\n").unwrap();
    for storage in [StorageKind::Disk, StorageKind::Memory] {
        let sandbox = builder()
            .workspace_root(directory.path())
            .storage(storage)
            .mount(shelf.path(), "/inputs")
            .build_blocking()
            .unwrap();
        let session = sandbox.session_blocking().unwrap();
        session
            .run_blocking(
                "import os\nos.makedirs('data', exist_ok=True)\nos.symlink('/inputs/data/x.csv', 'data/x.csv')\nos.symlink('/inputs/data', 'all')\nos.symlink('/inputs/data/later', 'later')",
            )
            .unwrap();
        let seen = text(
            &session,
            "open('data/x.csv').read(), open('all/x.csv').read()[:3], os.listdir('all'), os.stat('data/x.csv').st_size, os.access('data/x.csv', os.R_OK), os.readlink('data/x.csv'), os.path.realpath('data/x.csv')",
        );
        assert_eq!(
            seen,
            r"('a,b\n1,2\n', 'a,b', ['x.csv'], 8, True, '/inputs/data/x.csv', '/inputs/data/x.csv')"
        );
        for code in [
            "open('data/x.csv', 'w')",
            "open('later', 'w')",
            "open('all/new', 'w')",
            "os.remove('all/x.csv')",
        ] {
            let raised = session.run_blocking(code).unwrap().exception.unwrap();
            assert!(raised.message.contains("Read-only file system"), "{code}: {raised:?}");
        }
        let raised = session.run_blocking("open('later')").unwrap().exception.unwrap();
        assert_eq!(raised.kind, "FileNotFoundError");
        // What comes onto the shelf later is there at once.
        std::fs::write(shelf.path().join("data/later"), "now").unwrap();
        assert_eq!(text(&session, "open('later').read()"), "'now'");
        std::fs::remove_file(shelf.path().join("data/later")).unwrap();
        if storage == StorageKind::Memory {
            let files = session.files().unwrap();
            assert_eq!(files.read_blocking("data/x.csv").unwrap(), b"a,b\n1,2\n");
            assert_eq!(code(files.write_blocking("data/x.csv", b"mine")), FileErrorCode::PermissionDenied);
            assert_eq!(session.read_file_blocking("data/x.csv").unwrap(), b"a,b\n1,2\n");
        }
    }
    assert_eq!(std::fs::read_dir(shelf.path().join("data")).unwrap().count(), 1);
    assert_eq!(std::fs::read(shelf.path().join("data/x.csv")).unwrap(), b"a,b\n1,2\n");
}
