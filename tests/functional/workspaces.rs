//! Where files live: threads on disk and in memory, skills, quotas, what changed, and going back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use belljar::{Error, Policy, Rollback, Sandbox, SandboxBuilder, Session, State, Status, StorageKind};
use belljar_tests::{builder, text};
use tempfile::TempDir;

/// A sandbox that keeps sessions, with files on disk, in a directory that goes with it.
struct Root {
    directory: TempDir,
    sandbox: Sandbox,
}

impl Root {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = builder()
            .state_dir(directory.path().join("state"))
            .workspace_root(directory.path().join("root"))
            .storage(StorageKind::Disk);
        let sandbox = change(builder).build_blocking().unwrap();
        Self { directory, sandbox }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join("root").join(path)
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn thread(&self, name: &str) -> Session {
        self.sandbox.thread_blocking(name, |_| ()).unwrap()
    }
}

fn run(session: &Session, code: &str) -> belljar::Outcome {
    let outcome = session.run_blocking(code).unwrap();
    assert_eq!(outcome.status, Status::Ok, "{outcome:#?}");
    outcome
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_threads_files_are_in_its_directory() {
    let root = Root::new();
    let session = root.thread("abc123");
    run(&session, "open('note.txt', 'w').write('from inside')");
    assert_eq!(root.read("threads/abc123/note.txt"), "from inside");
    root.write("threads/abc123/data/in.csv", "1,2,3");
    assert_eq!(text(&session, "open('data/in.csv').read()"), "'1,2,3'");
    assert_eq!(names(&root.at("threads/abc123")), ["artifacts", "data", "note.txt"]);
    assert_eq!(session.directory().unwrap(), root.at("threads/abc123"));
}

#[test]
fn the_seeds_paths_lead_to_the_workspace() {
    let root = Root::new();
    let session = root.sandbox.thread_blocking("one", |policy| policy.artifacts.leave = true).unwrap();
    run(&session, "open('/session/artifacts/plot.svg', 'w').write('<svg/>')\nopen('/app/x', 'w').write('x')");
    assert_eq!(root.read("threads/one/artifacts/plot.svg"), "<svg/>");
    assert_eq!(text(&session, "open('/workspace/x').read()"), "'x'");
    assert_eq!(text(&session, "import os; os.getcwd(), os.environ['HOME']"), "('/workspace', '/workspace')");
}

#[test]
fn a_workspace_can_be_seen_elsewhere() {
    let root = Root::with(|builder| builder.workspace_path("/mnt/r2/bucket/threads/{id}"));
    let session = root.thread("abc123");
    let outcome = run(
        &session,
        "import os\nprint(os.getcwd(), os.environ['HOME'])\nopen('test.txt', 'w').write('Hello World!')\nprint(os.path.exists('test.txt'))",
    );
    let path = "/mnt/r2/bucket/threads/abc123";
    assert_eq!(outcome.stdout, format!("{path} {path}\nTrue\n"));
    assert_eq!(outcome.files_created, [format!("{path}/test.txt")]);
    assert_eq!(root.read("threads/abc123/test.txt"), "Hello World!");
    assert_eq!(text(&session, "open('/session/test.txt').read()"), "'Hello World!'");
    let memory = root
        .sandbox
        .create_with_blocking(Some("memory"), |policy| policy.workspace.storage = StorageKind::Memory)
        .unwrap();
    assert_eq!(text(&memory, "import os; os.getcwd()"), "'/mnt/r2/bucket/threads/memory'");
    run(&memory, "open('a', 'w').write('b')");
    assert_eq!(memory.read_file_blocking("a").unwrap(), b"b");
    assert_eq!(memory.read_file_blocking("/workspace/a").unwrap(), b"b");
}

#[test]
fn skills_are_seen_and_not_changed() {
    let root = Root::with(|builder| builder.user("ada"));
    root.write("skills/system/pdf/SKILL.md", "read PDFs");
    root.write("skills/ada/notes.md", "mine");
    root.write("skills/bob/secret.md", "not hers");
    for storage in [StorageKind::Disk, StorageKind::Memory] {
        let session =
            root.sandbox.create_with_blocking(None, |policy| policy.workspace.storage = storage).unwrap();
        assert_eq!(text(&session, "open('.skills/system/pdf/SKILL.md').read()"), "'read PDFs'");
        assert_eq!(text(&session, "open('.skills/user/notes.md').read()"), "'mine'");
        assert_eq!(text(&session, "import os; sorted(os.listdir('.skills'))"), "['system', 'user']");
        for attempt in [
            "open('.skills/system/pdf/SKILL.md', 'w')",
            "open('.skills/user/new', 'w')",
            "import os; os.remove('.skills/user/notes.md')",
            "import os; os.rename('.skills/user', 'mine')",
            "import shutil; shutil.rmtree('.skills')",
        ] {
            let outcome = session.run_blocking(attempt).unwrap();
            assert_eq!(outcome.status, Status::Error, "{attempt}: {outcome:#?}");
        }
        assert_eq!(root.read("skills/ada/notes.md"), "mine");
        let files = session.files().unwrap();
        if storage == StorageKind::Disk {
            assert_eq!(files.read_text_blocking(".skills/user/notes.md").unwrap(), "mine");
        }
        let refused = files.write_blocking(".skills/user/notes.md", b"theirs");
        assert!(refused.is_err());
        assert_eq!(root.read("skills/ada/notes.md"), "mine");
    }
    assert!(matches!(
        root.sandbox.create_with_blocking(None, |policy| policy.workspace.user = Some("../bob".to_owned())),
        Err(Error::Policy(_))
    ));
}

#[test]
fn skills_can_be_called_otherwise_and_old_links_are_in_nobodys_way() {
    let root = Root::with(|builder| builder.skills(".solven/skills"));
    root.write("skills/system/a.md", "a");
    root.write("threads/old/.solven/keep", "kept");
    root.write("threads/old/work.py", "print('old')");
    fs::create_dir_all(root.at("threads/old/.solven/skills")).unwrap();
    symlink("/nowhere/skills/system", root.at("threads/old/.solven/skills/system")).unwrap();
    let session = root.thread("old");
    assert_eq!(text(&session, "open('.solven/skills/system/a.md').read()"), "'a'");
    assert_eq!(text(&session, "open('work.py').read()"), "\"print('old')\"");
    assert_eq!(root.read("threads/old/.solven/keep"), "kept");
}

#[test]
fn another_thread_can_be_seen_as_the_ticket() {
    let root = Root::new();
    root.write("threads/t-9/report.txt", "it is broken");
    let session = root
        .sandbox
        .thread_blocking("work", |policy| policy.workspace.ticket = Some("t-9".to_owned()))
        .unwrap();
    assert_eq!(text(&session, "open('.ticket/report.txt').read()"), "'it is broken'");
    let outcome = session.run_blocking("open('.ticket/report.txt', 'a')").unwrap();
    assert_eq!(outcome.status, Status::Error);
    let missing =
        root.sandbox.thread_blocking("other", |policy| policy.workspace.ticket = Some("t-10".to_owned()));
    assert!(matches!(missing, Err(Error::NoThread { .. })));
}

#[test]
fn what_a_cell_changed_is_told() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "for name in 'abc': open(name, 'w').write(name)");
    let outcome = run(
        &session,
        "import os\nos.remove('a')\nopen('b', 'a').write('more')\nos.makedirs('d/e')\nopen('d/e/new', 'w').write('n')\nos.rename('c', 'd/c')\nopen('gone', 'w').close()\nos.remove('gone')",
    );
    assert_eq!(outcome.files_created, ["/workspace/d/c", "/workspace/d/e/new"]);
    assert_eq!(outcome.files_modified, ["/workspace/b"]);
    assert_eq!(outcome.files_deleted, ["/workspace/a", "/workspace/c"]);
    // Others changed it, and not the cell.
    root.write("threads/one/outside.txt", "people");
    session.files().unwrap().write_blocking("host.txt", b"host").unwrap();
    let outcome = run(&session, "1");
    assert!(outcome.files_created.is_empty() && outcome.files_modified.is_empty(), "{outcome:#?}");
}

#[test]
fn a_cell_that_is_taken_back_leaves_no_trace_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut policy = Policy { rollback: Rollback::OnError, ..Policy::for_engine(belljar_tests::engine()) };
    policy.workspace.storage = StorageKind::Disk;
    policy.workspace.root = Some(directory.path().join("root"));
    let sandbox =
        builder().policy(policy).state_dir(directory.path().join("state")).build_blocking().unwrap();
    let session = sandbox.create_blocking(Some("one")).unwrap();
    let at = |path: &str| directory.path().join("root/threads/one").join(path);
    run(
        &session,
        "import os\nos.makedirs('d')\nopen('d/a', 'w').write('first')\nopen('b', 'w').write('second')\nx = 1",
    );
    fs::write(at("people.txt"), "theirs").unwrap();
    let outcome = session
        .run_blocking(
            "import shutil\nshutil.rmtree('d')\nopen('b', 'w').write('spoilt')\nopen('people.txt', 'w').write('spoilt')\nopen('new', 'w').write('n')\nos.symlink('b', 'link')\nx = 2\n1/0",
        )
        .unwrap();
    assert_eq!(outcome.session.state, State::RolledBack, "{outcome:#?}");
    assert!(outcome.files_created.is_empty() && outcome.files_deleted.is_empty(), "{outcome:#?}");
    assert_eq!(fs::read_to_string(at("d/a")).unwrap(), "first");
    assert_eq!(fs::read_to_string(at("b")).unwrap(), "second");
    assert_eq!(fs::read_to_string(at("people.txt")).unwrap(), "theirs");
    assert_eq!(names(&at("")), ["artifacts", "b", "d", "data", "people.txt"]);
    assert_eq!(text(&session, "x, open('b').read()"), "(1, 'second')");
}

#[test]
fn files_on_disk_are_undone_with_the_cell() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "open('a', 'w').write('1'); x = 1");
    run(&session, "open('a', 'w').write('2'); open('b', 'w').write('b'); x = 2");
    run(&session, "import os; os.remove('a'); x = 3");
    session.undo_blocking(2).unwrap();
    assert_eq!(root.read("threads/one/a"), "1");
    assert!(!root.at("threads/one/b").exists());
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn checkpoints_have_the_files_on_disk() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "import os\nos.makedirs('d/e')\nopen('d/e/f', 'w').write('then' * 100_000)\nx = 'then'");
    session.checkpoint_blocking(Some("then")).unwrap();
    run(&session, "import shutil\nshutil.rmtree('d')\nopen('later', 'w').write('later')\nx = 'later'");
    session.hibernate_blocking().unwrap();
    session.rollback_blocking("then").unwrap();
    assert_eq!(root.read("threads/one/d/e/f"), "then".repeat(100_000));
    assert!(!root.at("threads/one/later").exists());
    assert_eq!(text(&session, "x"), "'then'");
    let child = session.fork_named_blocking(Some("then".into()), "child").unwrap();
    assert_eq!(root.read("threads/child/d/e/f"), "then".repeat(100_000));
    run(&child, "open('d/e/f', 'w').write('child')");
    assert_eq!(root.read("threads/one/d/e/f"), "then".repeat(100_000));
    assert_eq!(root.read("threads/child/d/e/f"), "child");
    // What nothing needs any more goes.
    let objects = root.at(".belljar/objects");
    let count = || walk(&objects);
    assert!(count() > 0);
    session.delete_checkpoint_blocking("then").unwrap();
    assert_eq!(count(), 0);
}

fn walk(directory: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let is_object = entry.file_name().len() >= 32;
        count += if entry.path().is_dir() { walk(&entry.path()) } else { usize::from(is_object) };
    }
    count
}

#[test]
fn forks_have_directories_of_their_own() {
    let root = Root::new();
    let session = root.thread("one");
    run(
        &session,
        "import os\nopen('a', 'w').write('parent')\nos.makedirs('.venv/lib')\nopen('.venv/lib/m.py', 'w').write('1')\nf = open('a')",
    );
    let children = session.fork_blocking(3).unwrap();
    for (number, child) in children.iter().enumerate() {
        run(child, &format!("open('a', 'w').write('child {number}')"));
    }
    assert_eq!(root.read("threads/one/a"), "parent");
    for (number, child) in children.iter().enumerate() {
        assert!(child.directory().unwrap().join(".venv/lib/m.py").exists());
        assert_eq!(
            fs::read_to_string(child.directory().unwrap().join("a")).unwrap(),
            format!("child {number}")
        );
    }
}

#[test]
fn a_thread_outlives_its_process_and_its_session() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "open('a', 'w').write('kept'); x = 41");
    drop(session);
    root.write("threads/one/b", "added while it slept");
    let session = root.thread("one");
    assert_eq!(
        text(&session, "x + 1, open('a').read(), open('b').read()"),
        "(42, 'kept', 'added while it slept')"
    );
    session.close_blocking().unwrap();
    assert_eq!(root.read("threads/one/a"), "kept");
    // Somebody begins anew in the same directory.
    let session = root.thread("one");
    assert_eq!(text(&session, "open('a').read(), 'x' in globals()"), "('kept', False)");
}

#[test]
fn a_directory_that_is_gone_is_told() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "x = 1");
    drop(session);
    fs::rename(root.at("threads/one"), root.at("threads/elsewhere")).unwrap();
    let session = root.thread("one");
    let error = session.run_blocking("x").unwrap_err();
    assert!(matches!(error, Error::Workspace { .. }), "{error:?}");
    assert!(error.hint().is_some());
    fs::rename(root.at("threads/elsewhere"), root.at("threads/one")).unwrap();
    assert_eq!(text(&session, "x"), "1");
}

#[test]
fn a_session_without_a_name_leaves_nothing() {
    let root = Root::new();
    let session = root.sandbox.session_blocking().unwrap();
    run(&session, "open('a', 'w').write('b')");
    assert_eq!(names(&root.at("threads")).len(), 1);
    drop(session);
    assert!(names(&root.at("threads")).is_empty());
}

#[test]
fn the_quota_holds_on_disk_and_in_memory() {
    for storage in [StorageKind::Disk, StorageKind::Memory] {
        let root = Root::with(|builder| builder.quota(4 << 20).storage(storage));
        let session = root.thread("one");
        run(&session, "open('small', 'wb').write(bytes(1 << 20)); x = 1");
        let outcome = session
            .run_blocking(
                "import time\nwith open('large', 'wb') as file:\n    for _ in range(400):\n        file.write(bytes(1 << 20)); file.flush(); time.sleep(0.01)",
            )
            .unwrap();
        assert_eq!(outcome.status, Status::DiskFull, "{storage:?}: {outcome:#?}");
        assert!(outcome.reason.is_some());
        // It can go on.
        run(
            &session,
            "import os\nif os.path.exists('large'): os.remove('large')\nopen('next', 'w').write('n')",
        );
        assert_eq!(text(&session, "x, len(open('small', 'rb').read())"), "(1, 1048576)");
    }
}

#[test]
fn two_threads_do_not_meet() {
    let root = Root::new();
    let (one, two) = (root.thread("one"), root.thread("two"));
    run(&one, "import os; open('thread.txt', 'w').write('Thread 1'); os.environ['A'] = '1'");
    run(&two, "import os; open('thread.txt', 'w').write('Thread 2'); os.environ['A'] = '2'");
    assert_eq!(text(&one, "open('thread.txt').read(), os.environ['A']"), "('Thread 1', '1')");
    assert_eq!(text(&two, "open('thread.txt').read(), os.environ['A']"), "('Thread 2', '2')");
    for attempt in ["open('../two/thread.txt')", "open('/workspace/../two/thread.txt')"] {
        let outcome = one.run_blocking(attempt).unwrap();
        assert_eq!(outcome.status, Status::Error, "{attempt}");
    }
}

#[test]
fn the_quota_cannot_be_dodged() {
    let root = Root::with(|builder| builder.quota(4 << 20));
    let session = root.thread("one");
    run(&session, "import os, time\nblock = bytes(1 << 20)\nopen('small', 'wb').write(block)");
    for (dodge, code) in [
        ("quick", "for n in range(12):\n    with open(f'f{n}', 'wb') as file: file.write(block)"),
        (
            "nameless",
            "held = []\nfor n in range(12):\n    held.append(open(f'f{n}', 'wb', buffering=0)); os.unlink(f'f{n}'); held[-1].write(block)\ntime.sleep(0.5)",
        ),
        (
            "deep",
            "for n in range(150):\n    os.mkdir('d'); os.chdir('d')\nfor n in range(12):\n    with open(f'f{n}', 'wb') as file: file.write(block)",
        ),
        ("large", "with open('f', 'wb') as file:\n    for n in range(12): file.write(block)"),
    ] {
        let outcome = session.run_blocking(code).unwrap();
        assert_eq!(outcome.status, Status::DiskFull, "{dodge}: {outcome:#?}");
        run(
            &session,
            "held = None\nos.chdir(os.environ['HOME'])\nimport shutil\nshutil.rmtree('d', ignore_errors=True)\nfor name in os.listdir():\n    if name.startswith('f'): os.remove(name)",
        );
        assert_eq!(names(&root.at("threads/one")), ["artifacts", "data", "small"], "{dodge}");
    }
    assert_eq!(text(&session, "len(open('small', 'rb').read())"), "1048576");
}

#[test]
fn damage_in_a_checkpoints_files_is_told() {
    let root = Root::new();
    let session = root.thread("one");
    run(&session, "open('a', 'w').write('then' * 50_000)");
    session.checkpoint_blocking(Some("then")).unwrap();
    run(&session, "open('a', 'w').write('later')");
    let shelf = fs::read_dir(root.at(".belljar/objects")).unwrap().map(|entry| entry.unwrap().path());
    let object = shelf
        .filter(|path| path.is_dir())
        .flat_map(|shelf| fs::read_dir(shelf).unwrap())
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&object).unwrap();
    bytes[1000] ^= 1;
    fs::write(&object, bytes).unwrap();
    assert!(!root.sandbox.registry().unwrap().verify().unwrap().is_empty());
    let error = session.rollback_blocking("then").unwrap_err();
    assert!(matches!(error, Error::NotPutBack { .. }), "{error:?}");
}
