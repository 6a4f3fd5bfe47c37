//! What a guest tries with what is kept and shared: names, links, floods, and what belongs to others.

use std::fs;
use std::os::unix::fs::MetadataExt;

use belljar::{
    DatasetAccess, DatasetSource, NewDataset, Outcome, Refusal, Sandbox, Session, Status, StorageKind,
};
use belljar_tests::{builder, text};
use tempfile::TempDir;

struct Root {
    directory: TempDir,
    sandbox: Sandbox,
}

fn root(storage: StorageKind) -> Root {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = builder()
        .state_dir(directory.path().join("state"))
        .dataset_access(DatasetAccess::Api)
        .storage(storage)
        .build_blocking()
        .unwrap();
    let path = directory.path().join("sales.csv");
    fs::write(&path, "1,2\n").unwrap();
    sandbox.datasets().unwrap().add(NewDataset::new("sales", DatasetSource::File { path })).unwrap();
    Root { directory, sandbox }
}

fn run(session: &Session, code: &str) -> Outcome {
    session.run_blocking(code).unwrap()
}

#[test]
fn nothing_on_the_shelf_can_be_changed() {
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = root(storage);
        let session = root.sandbox.session_blocking().unwrap();
        session.stage_blocking("sales", None).unwrap();
        let made = run(&session, "open('artifacts/a', 'w').write('kept')").artifacts.remove(0);
        run(&session, &format!("import os\nat = str(artifacts.path({:?}))", made.id.as_str()));
        for attack in [
            "open('data/sales.csv', 'r+').write('9')",
            "open('/shelf/data/sales.csv', 'a').write('9')",
            "open(at, 'r+').write('9')",
            "os.truncate(at, 0)",
            "os.truncate('/shelf/data/sales.csv', 0)",
            "os.remove(at)",
            "os.rename('/shelf/data/sales.csv', '/shelf/data/x')",
            "os.rename(at, 'mine')",
            "os.link(at, 'mine'); open('mine', 'a').write('9')",
            "os.link('/shelf/data/sales.csv', 'mine2'); open('mine2', 'a').write('9')",
            "open('/shelf/new', 'w')",
            "os.mkdir('/shelf/artifacts/new')",
            "os.symlink('/etc/passwd', '/shelf/data/evil')",
        ] {
            assert_eq!(run(&session, attack).status, Status::Error, "{attack}");
        }
        for harmless in ["os.chmod(at, 0o777)", "os.utime(at, (0, 0))", "os.remove('data/sales.csv')"] {
            run(&session, harmless);
        }
        assert_eq!(text(&session, "open('data/sales.csv').read(), open(at).read()"), "('1,2\\n', 'kept')");
        let other = root.sandbox.session_blocking().unwrap();
        other.stage_blocking("sales", None).unwrap();
        assert_eq!(text(&other, "open('data/sales.csv').read()"), "'1,2\\n'");
        let shelf = root.directory.path().join("state/shelves/local").join(session.id().as_str());
        assert_eq!(fs::metadata(shelf.join("data/sales.csv")).unwrap().mode() & 0o222, 0);
        root.sandbox.artifacts().unwrap().check(made.id.as_str()).unwrap();
    }
}

#[test]
fn a_place_for_artifacts_that_is_something_else_leads_nowhere() {
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = root(storage);
        fs::write(root.directory.path().join("secret"), "of the host").unwrap();
        let secret = root.directory.path().join("secret");
        for attack in [
            format!("import os\nos.rmdir('artifacts')\nos.symlink({:?}, 'artifacts')", root.directory.path()),
            format!("import os\nos.symlink({secret:?}, 'artifacts/a')"),
            "import os\nos.rmdir('artifacts')\nopen('artifacts', 'w').write('x')".to_owned(),
            "import os\nos.makedirs('elsewhere')\nopen('elsewhere/x', 'w').write('x')\nos.rmdir('artifacts')\nos.symlink('elsewhere', 'artifacts')".to_owned(),
            "import os\nos.makedirs('artifacts/' + '/'.join('d' * 100 for _ in range(30)))".to_owned(),
        ] {
            let session = root.sandbox.session_blocking().unwrap();
            let outcome = run(&session, &attack);
            for artifact in &outcome.artifacts {
                assert!(artifact.size <= 1, "{attack}: {artifact:?}");
            }
            assert_eq!(text(&session, "1 + 1"), "2");
        }
    }
}

#[test]
fn floods_are_bounded_and_told() {
    let root = root(StorageKind::Memory);
    let session = root
        .sandbox
        .session_with_blocking(|policy| {
            policy.artifacts.max_count = Some(50);
            policy.artifacts.max_bytes = Some(1 << 20);
            policy.file_bytes = 64 << 20;
        })
        .unwrap();
    let outcome = run(&session, "for n in range(5000):\n    open(f'artifacts/{n}', 'w').close()");
    assert_eq!(outcome.artifacts.len(), 50, "{:?}", outcome.status);
    assert!(outcome.artifacts_refused.len() <= 1000);
    assert!(outcome.artifacts_refused.iter().all(|refused| refused.why == Refusal::TooMany));
    let outcome = run(&session, "f = open('artifacts/giant', 'wb')\nf.truncate(50 << 20)\nf.close()");
    assert_eq!(outcome.artifacts_refused[0].why, Refusal::TooLarge, "{outcome:#?}");
}

#[test]
fn calls_that_make_no_sense_are_answered() {
    let root = root(StorageKind::Memory);
    let session = root.sandbox.session_blocking().unwrap();
    for attack in [
        "artifacts.path('../../etc/passwd')",
        "artifacts.path('')",
        "artifacts.path('art_' + 'z' * 26)",
        "artifacts.path('x' * 1000000)",
        "artifacts.path('\\x00')",
        "datasets.path('../sales')",
        "datasets.path('sales', version='../../x')",
        "datasets.path('nul\\x00')",
        "datasets.path('x' * 1000000)",
    ] {
        let outcome = run(&session, attack);
        assert_eq!(outcome.status, Status::Error, "{attack}");
        let message = outcome.exception.unwrap().message;
        let host = root.directory.path().to_str().unwrap();
        assert!(!message.contains(host) && message.len() < 2000, "{attack}: {message}");
    }
    assert_eq!(text(&session, "len([artifacts.list() for _ in range(300)])"), "300");
}

#[test]
fn errors_and_records_have_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = builder()
        .state_dir(directory.path())
        .env("KEY", "correct-horse-battery")
        .secret("staple-staple")
        .build_blocking()
        .unwrap();
    let session = sandbox.session_blocking().unwrap();
    run(
        &session,
        "a = 'correct-horse-battery'; b = 'staple-staple'\nimport os\nopen('artifacts/x', 'w').write('x')",
    );
    let mut found = Vec::new();
    look_for(directory.path(), &[b"correct-horse-battery", b"staple-staple"], &mut found);
    assert_eq!(found, Vec::<String>::new());
}

fn look_for(directory: &std::path::Path, words: &[&[u8]], found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            look_for(&path, words, found);
        } else if let Ok(bytes) = fs::read(&path)
            && words.iter().any(|word| bytes.windows(word.len()).any(|window| window == *word))
        {
            found.push(path.display().to_string());
        }
    }
}
