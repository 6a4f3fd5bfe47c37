//! What goes into cells: local directories, and datasets that are fetched, checked, staged and shared.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use belljar::{
    DatasetAccess, DatasetSource, Error, NewDataset, Sandbox, SandboxBuilder, Session, Status, StorageKind,
    Verdict,
};
use belljar_tests::{builder, text};
use tempfile::TempDir;

struct Root {
    directory: TempDir,
    sandbox: Sandbox,
}

impl Root {
    fn new(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = change(builder().state_dir(directory.path().join("state"))).build_blocking().unwrap();
        Self { directory, sandbox }
    }

    /// Adds a dataset from a file of the host.
    fn add(&self, name: &str, contents: &str) {
        let path = self.directory.path().join(format!("{name}.csv"));
        fs::write(&path, contents).unwrap();
        let source = DatasetSource::File { path };
        self.sandbox.datasets().unwrap().add(NewDataset::new(name, source)).unwrap();
    }
}

fn staged(storage: StorageKind) -> Root {
    let root = Root::new(|builder| builder.dataset_access(DatasetAccess::Api).storage(storage));
    root.add("sales", "month,eur\n1,10\n2,20\n");
    root
}

fn blob_of(session: &Session, root: &Path) -> fs::Metadata {
    let shelf = root.join("state/shelves/local").join(session.id().as_str());
    fs::metadata(shelf.join("data/sales.csv")).unwrap()
}

#[test]
fn a_staged_dataset_is_in_data_and_shared() {
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = staged(storage);
        let (one, two) = (root.sandbox.session_blocking().unwrap(), root.sandbox.session_blocking().unwrap());
        for session in [&one, &two] {
            let staged = session.stage_blocking("sales", None).unwrap();
            assert_eq!((staged.file_name.as_str(), staged.size), ("sales.csv", 20));
            assert_eq!(text(session, "open('data/sales.csv').readline()"), "'month,eur\\n'");
            assert_eq!(text(session, "open('/session/data/sales.csv').readline()"), "'month,eur\\n'");
            assert_eq!(session.files().unwrap().read_blocking("data/sales.csv").unwrap().len(), 20);
            // Once more changes nothing.
            session.stage_blocking("sales", None).unwrap();
            assert_eq!(session.staged_blocking().unwrap().len(), 1);
        }
        // One file on disk, whatever the number of sessions.
        let (first, second) = (blob_of(&one, root.directory.path()), blob_of(&two, root.directory.path()));
        assert_eq!((first.ino(), first.nlink() >= 3), (second.ino(), true));
        // Nobody writes there, and what is beside it is the session's own.
        let outcome = one.run_blocking("open('data/sales.csv', 'a').write('3,30')").unwrap();
        assert_eq!(outcome.status, Status::Error, "{outcome:#?}");
        // Where modes can be changed at all, this one can't.
        let _ = one.run_blocking("import os; os.chmod('data/sales.csv', 0o777)").unwrap();
        assert_eq!(blob_of(&one, root.directory.path()).mode() & 0o777, 0o444);
        assert_eq!(text(&one, "open('data/own.csv', 'w').write('x')"), "1");
        assert_eq!(text(&two, "open('data/sales.csv').read()[-5:]"), "'2,20\\n'");
    }
}

#[test]
fn a_cell_asks_for_what_it_needs() {
    let root = staged(StorageKind::Memory);
    let session = root.sandbox.session_blocking().unwrap();
    assert_eq!(
        text(&session, "[(one['id'], one['staged']) for one in datasets.list()]"),
        "[('sales', False)]"
    );
    assert_eq!(text(&session, "open(datasets.path('sales')).readline()"), "'month,eur\\n'");
    let outcome = session.run_blocking("datasets.path('nothing')").unwrap();
    assert_eq!(outcome.exception.unwrap().kind, "FileNotFoundError");
    // It is in data/ from the next cell on.
    assert_eq!(text(&session, "open('data/sales.csv').readline()"), "'month,eur\\n'");
    let outcome = session.run_blocking("load('sales')").unwrap();
    if let Some(exception) = outcome.exception {
        assert!(exception.message.contains("pandas"), "{exception:#?}");
    }
    let picky = root
        .sandbox
        .session_with_blocking(|policy| policy.datasets.allow = Some(vec!["other".to_owned()]))
        .unwrap();
    assert_eq!(text(&picky, "datasets.list()"), "[]");
    assert!(matches!(picky.stage_blocking("sales", None), Err(Error::DatasetRefused { .. })));
}

#[test]
fn what_was_staged_is_there_again_whatever_happened() {
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = staged(storage);
        let session = root.sandbox.create_blocking(Some("kept")).unwrap();
        session.stage_blocking("sales", None).unwrap();
        // A cell removes the link; the next one has it again.
        assert_eq!(text(&session, "import os; os.remove('data/sales.csv')\nos.listdir('data')"), "[]");
        assert_eq!(text(&session, "os.listdir('data')"), "['sales.csv']");
        let child = session.fork_blocking(1).unwrap().remove(0);
        assert_eq!(text(&child, "open('data/sales.csv').readline()"), "'month,eur\\n'");
        drop(session);
        // Somebody has cleared the shelf, and the next process brings it back.
        fs::remove_dir_all(root.directory.path().join("state/shelves/local/kept/data")).unwrap();
        let session = root.sandbox.open_blocking("kept").unwrap();
        assert_eq!(text(&session, "open('data/sales.csv').readline()"), "'month,eur\\n'");
    }
}

#[test]
fn artifacts_name_the_data_that_they_come_from() {
    let root = staged(StorageKind::Memory);
    let session = root.sandbox.session_blocking().unwrap();
    let staged = session.stage_blocking("sales", None).unwrap();
    let code = "total = sum(int(line.split(',')[1]) for line in list(open('data/sales.csv'))[1:])\n\
                open('artifacts/total', 'w').write(str(total))";
    let outcome = session.run_blocking(code).unwrap();
    assert_eq!(outcome.datasets[0].sha256, staged.sha256);
    let id = outcome.artifacts[0].id.as_str();
    let found = root.sandbox.artifacts().unwrap().provenance(id).unwrap();
    assert_eq!(found.cells[0].datasets[0].sha256, staged.sha256);
    let verified = root.sandbox.verify_artifact_blocking(id).unwrap();
    assert_eq!(verified.verdict, Verdict::Same, "{verified:#?}");
}

#[test]
fn a_directory_of_the_host_is_seen_at_data() {
    let inputs = tempfile::tempdir().unwrap();
    fs::write(inputs.path().join("prices.csv"), "1,2\n").unwrap();
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = Root::new(|builder| {
            builder.dataset_access(DatasetAccess::LocalRo).dataset_directory(inputs.path()).storage(storage)
        });
        let session = root.sandbox.session_blocking().unwrap();
        assert_eq!(text(&session, "open('/data/prices.csv').read()"), "'1,2\\n'");
        assert_eq!(text(&session, "str(datasets.path('prices'))"), "'/data/prices.csv'");
        assert_eq!(text(&session, "[one['id'] for one in datasets.list()]"), "['prices']");
        assert_eq!(session.run_blocking("open('/data/x', 'w')").unwrap().status, Status::Error);
        assert!(matches!(session.stage_blocking("sales", None), Err(Error::NotStaged)));
    }
    let both =
        Root::new(|builder| builder.dataset_access(DatasetAccess::Hybrid).dataset_directory(inputs.path()));
    both.add("sales", "a\n");
    let session = both.sandbox.session_blocking().unwrap();
    session.stage_blocking("sales", None).unwrap();
    let code = "open('/data/prices.csv').read(), open('data/sales.csv').read(), sorted(one['id'] for one in datasets.list())";
    assert_eq!(text(&session, code), "('1,2\\n', 'a\\n', ['prices', 'sales'])");
}

#[test]
fn impossible_datasets_are_refused() {
    let without = builder().dataset_access(DatasetAccess::LocalRo).build_blocking();
    assert!(matches!(without.err(), Some(Error::Policy(belljar::PolicyError::NoDatasets))));
    let gone = builder()
        .dataset_access(DatasetAccess::LocalRo)
        .dataset_directory("/nowhere/at/all")
        .build_blocking();
    assert!(matches!(gone.err(), Some(Error::Policy(belljar::PolicyError::DatasetDirectory(_)))));
    let homeless = builder().dataset_access(DatasetAccess::Api).build_blocking().unwrap();
    assert!(matches!(homeless.session_blocking().err(), Some(Error::NoDatasets)));
    let root = staged(StorageKind::Memory);
    let session = root.sandbox.session_blocking().unwrap();
    assert!(matches!(session.stage_blocking("nothing", None), Err(Error::Dataset(_))));
    for name in ["", "../x", "a/b", "x\0", "-x"] {
        assert!(session.stage_blocking(name, None).is_err(), "{name:?}");
    }
}

#[test]
fn the_lists_that_other_systems_read_are_kept() {
    let root = staged(StorageKind::Memory);
    let lists = root.directory.path().join("sessions");
    let session = root
        .sandbox
        .session_with_blocking(|policy| policy.datasets.cache_lists = Some(lists.clone()))
        .unwrap();
    session.stage_blocking("sales", None).unwrap();
    session.stage_blocking("sales", None).unwrap();
    let list = lists.join(session.id().as_str()).join("cache_datasets.txt");
    assert_eq!(fs::read_to_string(list).unwrap(), "sales\n");
}
