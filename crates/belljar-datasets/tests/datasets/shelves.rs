//! What sessions can read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use belljar_datasets::{Cached, Dataset, DatasetError, NewDataset, Shelf, Source, cache_list};

use crate::support::{Scratch, TENANT, bytes, options};

fn dataset(scratch: &Scratch, name: &str, contents: &[u8]) -> (Dataset, Cached) {
    let path = scratch.file(&format!("{name}.csv"), contents);
    let dataset = scratch.add(name, Source::File { path });
    let cached = scratch.fetch(name).unwrap();
    (dataset, cached)
}

fn inode(path: &Path) -> (u64, u64) {
    let found = fs::symlink_metadata(path).unwrap();
    assert!(found.is_file());
    (found.dev(), found.ino())
}

#[test]
fn fifty_sessions_share_one_copy() {
    let scratch = Scratch::new();
    let body = bytes(8 << 20, 1);
    let (dataset, cached) = dataset(&scratch, "sales", &body);
    for number in 0..50 {
        let shelf = scratch.shelf(&format!("s{number}"));
        let cached = scratch.fetch("sales").unwrap();
        shelf.stage(&cached, &dataset).unwrap();
        let file = shelf.path().join("data/sales.csv");
        assert_eq!(inode(&file), inode(&cached.path));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
    }
    assert_eq!(fs::metadata(&cached.path).unwrap().nlink(), 51);
    let blocks: u64 = crate::support::files_below(&scratch.path("shelves"))
        .iter()
        .chain(&scratch.blobs())
        .map(|path| fs::metadata(path).unwrap())
        .filter(|found| found.len() == body.len() as u64)
        .map(|found| (found.ino(), found.len()))
        .collect::<std::collections::BTreeSet<_>>()
        .iter()
        .map(|(_, length)| length)
        .sum();
    assert_eq!(blocks, body.len() as u64);
    for number in 0..50 {
        scratch.shelf(&format!("s{number}")).remove().unwrap();
    }
    assert_eq!(fs::metadata(&cached.path).unwrap().nlink(), 1);
    assert!(crate::support::files_below(&scratch.path("shelves")).is_empty());
}

#[test]
fn staging_is_recorded_outside_and_repeated_without_a_change() {
    let scratch = Scratch::new();
    let (dataset, cached) = dataset(&scratch, "sales", b"a,b\n");
    let shelf = scratch.shelf("s");
    let staged = shelf.stage(&cached, &dataset).unwrap();
    let noted = inode(&scratch.path("shelves/s.json"));
    assert_eq!(shelf.stage(&cached, &dataset).unwrap(), staged);
    assert_eq!(inode(&scratch.path("shelves/s.json")), noted, "nothing was written");
    assert_eq!(Shelf::open(scratch.path("shelves/s/")).unwrap().staged().unwrap(), [staged]);
    let names: Vec<_> = fs::read_dir(shelf.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    shelf.settle().unwrap();
    // So the note may be found after the machine lost power: nothing is staged, and nothing is in the way.
    let note = fs::read(scratch.path("shelves/s.json")).unwrap();
    fs::write(scratch.path("shelves/s.json"), b"").unwrap();
    assert_eq!(shelf.staged().unwrap(), []);
    fs::write(scratch.path("shelves/s.json"), note).unwrap();
    for directory in ["", "data", "artifacts"] {
        let mode = fs::metadata(shelf.path().join(directory)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
    // What somebody who was killed left behind is in nobody's way.
    for (name, left) in [("s/data/.belljar-new", &b"x"[..]), ("s.json.new", b"y")] {
        fs::write(scratch.path("shelves").join(name), left).unwrap();
    }
    assert!(shelf.unstage("sales").unwrap());
    shelf.stage(&cached, &dataset).unwrap();
    assert!(shelf.unstage("sales").unwrap());
    assert!(!shelf.unstage("sales").unwrap());
    assert!(!shelf.path().join("data/sales.csv").exists());
    assert_eq!(shelf.staged().unwrap(), []);
}

#[test]
fn another_version_takes_the_place_and_another_dataset_does_not() {
    let scratch = Scratch::new();
    let (first, cached) = dataset(&scratch, "a", b"first");
    let shelf = scratch.shelf("s");
    shelf.stage(&cached, &first).unwrap();
    let path = scratch.file("second.parquet", b"second");
    let new = NewDataset::new("a", Source::File { path }).version("2");
    let second = scratch.store.add(TENANT, new).unwrap();
    let cached = scratch.store.fetch(TENANT, "a", Some("2"), &options(), &belljar_datasets::Quiet).unwrap();
    shelf.stage(&cached, &second).unwrap();
    assert!(!shelf.path().join("data/a.csv").exists());
    assert_eq!(fs::read(shelf.path().join("data/a.parquet")).unwrap(), b"second");
    assert_eq!(shelf.staged().unwrap().len(), 1);
    // `a.parquet` as a name is the same file.
    let path = scratch.file("third.parquet", b"third");
    let third = scratch.add("a.parquet", Source::File { path });
    assert_eq!(third.file_name, "a.parquet");
    let error = shelf.stage(&scratch.fetch("a.parquet").unwrap(), &third).unwrap_err();
    assert!(matches!(error, DatasetError::Refused { .. }), "{error}");
    assert_eq!(fs::read(shelf.path().join("data/a.parquet")).unwrap(), b"second");
}

#[test]
fn what_is_missing_is_brought_back() {
    let scratch = Scratch::new();
    let shelf = scratch.shelf("s");
    for name in ["a", "b", "c"] {
        let (dataset, cached) = dataset(&scratch, name, name.as_bytes());
        shelf.stage(&cached, &dataset).unwrap();
    }
    let given = scratch.store.import_bytes(TENANT, "given", None, b"given").unwrap();
    shelf.stage(&given, &scratch.store.get(TENANT, "given", None).unwrap()).unwrap();
    let file = |name: &str| shelf.path().join("data").join(name);
    // The link is gone; so is the cached one; a directory was made anew; something else is there.
    fs::remove_dir_all(shelf.path()).unwrap();
    fs::remove_file(scratch.fetch("b").unwrap().path).unwrap();
    let shelf = scratch.shelf("s");
    fs::write(file("c.csv"), b"x").unwrap();
    assert!(shelf.sync(&scratch.store).unwrap().is_empty());
    for name in ["a", "b", "c"] {
        assert_eq!(fs::read(file(&format!("{name}.csv"))).unwrap(), name.as_bytes());
        assert_eq!(inode(&file(&format!("{name}.csv"))), inode(&scratch.fetch(name).unwrap().path));
    }
    assert_eq!(fs::read(file("given.parquet")).unwrap(), b"given");
    // What is on the shelf alone is fine where it is.
    fs::remove_file(&given.path).unwrap();
    assert!(shelf.sync(&scratch.store).unwrap().is_empty());
    assert_eq!(fs::read(file("given.parquet")).unwrap(), b"given");
    // What nobody has is a problem, and not one of the others.
    fs::remove_file(file("given.parquet")).unwrap();
    fs::remove_file(file("a.csv")).unwrap();
    let problems = shelf.sync(&scratch.store).unwrap();
    assert_eq!(problems.len(), 1);
    assert!(matches!(&problems[0].error, DatasetError::Gone { name } if name == "given"), "{problems:?}");
    assert_eq!(fs::read(file("a.csv")).unwrap(), b"a");
    // A source that has something else by now is one too.
    fs::write(scratch.path("b.csv"), b"changed").unwrap();
    fs::remove_file(scratch.fetch("b").unwrap().path).unwrap();
    fs::remove_file(file("b.csv")).unwrap();
    let problems = shelf.sync(&scratch.store).unwrap();
    assert!(
        problems.iter().any(|problem| matches!(problem.error, DatasetError::Broken { .. })),
        "{problems:?}"
    );
}

#[test]
fn a_damaged_note_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let (dataset, cached) = dataset(&scratch, "a", b"a");
    let shelf = scratch.shelf("s");
    shelf.stage(&cached, &dataset).unwrap();
    let note = scratch.path("shelves/s.json");
    let text = fs::read_to_string(&note).unwrap();
    for damage in [text.replace("a.csv", "../../a.csv"), text[..20].to_owned()] {
        fs::write(&note, damage).unwrap();
        let error = shelf.sync(&scratch.store).unwrap_err();
        assert!(matches!(&error, DatasetError::Damaged { path, .. } if *path == note), "{error}");
        assert!(shelf.stage(&cached, &dataset).is_err());
    }
    assert_eq!(fs::read_to_string(&note).unwrap(), text[..20], "nothing wrote over it");
}

#[test]
fn artifacts_are_laid_under_safe_names() {
    let scratch = Scratch::new();
    let shelf = scratch.shelf("s");
    let blob = scratch.file("blob", b"plot");
    fs::set_permissions(&blob, fs::Permissions::from_mode(0o600)).unwrap();
    let long = format!("{}.png", "x".repeat(300));
    for (number, name) in
        ["../../../etc/cron.d/x", "CON", "a\nb", "😀.png", "..", "/", "", ".belljar-1", &long]
            .into_iter()
            .enumerate()
    {
        let id = format!("art_{number}");
        let laid = shelf.lay(&id, name, &blob).unwrap();
        assert_eq!(laid, shelf.lay(&id, name, &blob).unwrap(), "again is fine");
        let file = shelf.path().join(&laid);
        assert_eq!(inode(&file), inode(&blob), "{name:?}");
        assert_eq!(file.parent().unwrap(), shelf.path().join("artifacts").join(&id));
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o444, 0o444);
    }
    for id in ["", "..", "a/b", "../x", ".x", "a\0"] {
        assert!(matches!(shelf.lay(id, "x", &blob), Err(DatasetError::Invalid { .. })), "{id:?}");
    }
    let link = scratch.path("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    assert!(shelf.lay("art_x", "x", &link).is_err());
    assert!(shelf.lay("art_x", "x", &scratch.path("nowhere")).is_err());
}

#[test]
fn a_fork_has_the_same_on_its_own_shelf() {
    let scratch = Scratch::new();
    let (dataset, cached) = dataset(&scratch, "a", b"a");
    let shelf = scratch.shelf("s");
    shelf.stage(&cached, &dataset).unwrap();
    let blob = scratch.file("blob", b"plot");
    let laid = shelf.lay("art_1", "plot.png", &blob).unwrap();
    let fork = shelf.copy_to(scratch.path("shelves/fork")).unwrap();
    assert_eq!(fork.staged().unwrap(), shelf.staged().unwrap());
    assert_eq!(inode(&fork.path().join("data/a.csv")), inode(&cached.path));
    assert_eq!(inode(&fork.path().join(laid)), inode(&blob));
    shelf.remove().unwrap();
    assert_eq!(fs::read(fork.path().join("data/a.csv")).unwrap(), b"a");
    assert!(fork.sync(&scratch.store).unwrap().is_empty());
}

#[test]
fn the_list_of_datasets_is_kept_once_each_and_not_trusted() {
    let scratch = Scratch::new();
    let path = scratch.path(cache_list::FILE_NAME);
    assert!(cache_list::read(&path).unwrap().is_empty());
    assert!(cache_list::append(&path, "a").unwrap());
    assert!(cache_list::append(&path, "b").unwrap());
    assert!(!cache_list::append(&path, "a").unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n");
    assert!(cache_list::append(&path, "../x").is_err());
    fs::write(&path, b"a\r\n\n../x\n\xff\n b \na\nc").unwrap();
    assert_eq!(cache_list::read(&path).unwrap(), ["a", "b", "c"]);
    // It leads elsewhere: what is there is neither read nor written.
    let other = scratch.file("other", b"secret\n");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(cache_list::read(&path).unwrap().is_empty());
    assert!(cache_list::append(&path, "a").unwrap());
    assert_eq!(fs::read(&other).unwrap(), b"secret\n");
    assert_eq!(cache_list::read(&path).unwrap(), ["a"]);
    // A pipe keeps nobody waiting.
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(cache_list::read(&path).is_err());
}

#[test]
fn at_once_nothing_is_forgotten() {
    let scratch = Scratch::new();
    let shelf = scratch.shelf("s");
    let all: Vec<_> = (0..8)
        .map(|number| dataset(&scratch, &format!("d{number}"), format!("{number}").as_bytes()))
        .collect();
    std::thread::scope(|scope| {
        for (dataset, cached) in &all {
            let shelf = &shelf;
            scope.spawn(move || shelf.stage(cached, dataset).unwrap());
        }
    });
    assert_eq!(shelf.staged().unwrap().len(), 8);
}
