//! Workspaces in buckets, by a service that speaks S3.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_files::DirDoor;
use belljar_transfer::{Globs, Place, Progress, Quiet, Step, SyncOptions, Synced, TransferError, pull, push};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use crate::server::{TestBucket, place};
use crate::tree::{Node, Tree, plant, survey, trees};

fn options() -> SyncOptions {
    SyncOptions { globs: Globs::all(), ..SyncOptions::default() }
}

fn mirror() -> SyncOptions {
    SyncOptions { delete: true, ..options() }
}

fn push_with(from: &Path, place: &Place<'_>, options: &SyncOptions) -> Synced {
    push(&DirDoor::open(from).unwrap(), place, options, &Quiet).unwrap()
}

fn pull_with(to: &Path, place: &Place<'_>, options: &SyncOptions) -> Synced {
    pull(&DirDoor::open(to).unwrap(), place, options, &Quiet).unwrap()
}

fn steps(synced: &Synced) -> Vec<(&str, Step)> {
    let mut steps: Vec<_> = synced.actions.iter().map(|action| (action.path.as_str(), action.step)).collect();
    steps.sort_unstable();
    steps
}

fn file(contents: &str) -> Node {
    Node::File { contents: contents.into(), executable: false, seconds: 1_000 }
}

fn small_workspace() -> TempDir {
    let directory = tempdir().unwrap();
    let tree: Tree = [
        ("a.txt", file("a")),
        ("d/run.sh", Node::File { contents: b"#!".to_vec(), executable: true, seconds: 2_000 }),
        ("d/ö %25+.txt", file("strange")),
        ("empty", Node::Directory),
        ("link", Node::Link("d/run.sh".to_owned())),
    ]
    .map(|(path, node)| (path.to_owned(), node))
    .into();
    plant(directory.path(), &tree);
    directory
}

#[test]
fn what_is_pushed_comes_back_and_only_changes_are_copied() {
    let (from, to, bucket) = (small_workspace(), tempdir().unwrap(), TestBucket::new());
    let place = bucket.place("threads/7");
    let first = push_with(from.path(), &place, &options());
    assert_eq!((first.files, first.skipped.total()), (3, 0));
    assert_eq!(bucket.get("threads/7/a.txt").unwrap(), b"a");

    pull_with(to.path(), &place, &options());
    assert_eq!(survey(from.path()), survey(to.path()));

    for again in [push_with(from.path(), &place, &options()), pull_with(to.path(), &place, &options())] {
        assert_eq!(again.actions, []);
        assert_eq!(again.unchanged, 6);
    }

    // The same size, the same time: seen only by those who look.
    fs::write(from.path().join("a.txt"), "b").unwrap();
    let mode = |path: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(from.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("d/run.sh", 0o644);
    fs::remove_file(from.path().join("link")).unwrap();
    std::os::unix::fs::symlink("a.txt", from.path().join("link")).unwrap();
    let changed = push_with(from.path(), &place, &options());
    assert_eq!(steps(&changed), [("a.txt", Step::Copy), ("d/run.sh", Step::Touch), ("link", Step::Link)]);
    pull_with(to.path(), &place, &options());
    assert_eq!(survey(from.path()), survey(to.path()));
}

#[test]
fn what_is_gone_goes_only_if_that_is_wanted() {
    let (from, to, bucket) = (small_workspace(), small_workspace(), TestBucket::new());
    let place = bucket.place("w");
    push_with(from.path(), &place, &options());
    for name in ["a.txt", "link", "d/run.sh"] {
        fs::remove_file(from.path().join(name)).unwrap();
    }
    fs::remove_dir(from.path().join("empty")).unwrap();
    assert_eq!(push_with(from.path(), &place, &options()).actions, []);
    let before = bucket.keys();
    let dry = push_with(from.path(), &place, &SyncOptions { dry_run: true, ..mirror() });
    assert_eq!(bucket.keys(), before);
    let wet = push_with(from.path(), &place, &mirror());
    assert_eq!(dry.actions, wet.actions);
    assert_eq!(
        steps(&wet),
        [
            ("a.txt", Step::Remove),
            ("d/run.sh", Step::Remove),
            ("empty", Step::Remove),
            ("link", Step::Remove)
        ]
    );
    assert_eq!(bucket.keys(), ["w/.belljar-sync.json", "w/d/ö %25+.txt"]);

    assert_eq!(pull_with(to.path(), &place, &options()).removed, 0);
    let dry = pull_with(to.path(), &place, &SyncOptions { dry_run: true, ..mirror() });
    assert_eq!(dry.removed, 4);
    assert_eq!(survey(to.path()).len(), 6);
    pull_with(to.path(), &place, &mirror());
    assert_eq!(survey(from.path()), survey(to.path()));
}

#[test]
fn what_is_excluded_stays_on_both_sides() {
    let (from, to, bucket) = (tempdir().unwrap(), tempdir().unwrap(), TestBucket::new());
    let tree = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), file("x"))).collect::<Tree>();
    plant(from.path(), &tree(&["a", ".venv/bin/python", "p/node_modules/m.js"]));
    plant(to.path(), &tree(&["old", ".venv/mine"]));
    bucket.put("w/.venv/theirs", b"theirs");
    let delete = SyncOptions { delete: true, ..SyncOptions::default() };
    push_with(from.path(), &bucket.place("w"), &delete);
    assert_eq!(bucket.keys(), ["w/.belljar-sync.json", "w/.venv/theirs", "w/a"]);
    pull_with(to.path(), &bucket.place("w"), &delete);
    let there: Vec<_> = survey(to.path()).into_keys().collect();
    assert_eq!(there, [".venv", ".venv/mine", "a", "p"]);
}

#[test]
fn objects_that_others_put_there_are_pulled_and_the_manifest_is_not_believed() {
    let (from, to, bucket) = (small_workspace(), tempdir().unwrap(), TestBucket::new());
    let place = bucket.place("w");
    push_with(from.path(), &place, &options());
    bucket.put("w/a.txt", b"A");
    bucket.put("w/new", b"new");
    bucket.remove("w/d/run.sh");
    // Directories, as consoles show them.
    bucket.put("w/d/", b"");
    pull_with(to.path(), &place, &options());
    assert_eq!(fs::read(to.path().join("a.txt")).unwrap(), b"A");
    assert_eq!(fs::read(to.path().join("new")).unwrap(), b"new");
    assert!(!to.path().join("d/run.sh").exists());
    assert_eq!(pull_with(to.path(), &place, &options()).files, 0);

    let again = push_with(from.path(), &place, &options());
    assert_eq!(steps(&again), [("a.txt", Step::Copy), ("d/run.sh", Step::Copy)]);
    assert_eq!(bucket.get("w/a.txt").unwrap(), b"a");

    for nonsense in [&b"{"[..], br#"{"version":1,"entries":{"../x":{}}}"#, b""] {
        bucket.put("w/.belljar-sync.json", nonsense);
        let synced = pull_with(to.path(), &place, &options());
        assert_eq!(synced.skipped[0].path, ".belljar-sync.json");
    }
    // Without it, the objects say the same of themselves.
    let again = push_with(from.path(), &place, &options());
    assert_eq!(again.files, 0, "{:?}", again.actions);
}

#[test]
fn contents_that_are_not_what_was_put_there_are_refused() {
    let (from, to, bucket) = (small_workspace(), tempdir().unwrap(), TestBucket::new());
    let place = bucket.place("w");
    push_with(from.path(), &place, &options());
    let headers = [("x-amz-meta-belljar-blake3", &*"0".repeat(64))];
    bucket.request("PUT", "w/a.txt", &headers, b"forged");
    let synced = pull_with(to.path(), &place, &options());
    assert_eq!(synced.skipped[0].path, "a.txt");
    assert!(!to.path().join("a.txt").exists());
    assert_eq!(survey(to.path()).keys().filter(|path| path.contains(".belljar")).count(), 0);
}

#[test]
fn keys_and_links_never_lead_out() {
    let (outer, bucket) = (tempdir().unwrap(), TestBucket::new());
    let workspace = outer.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(outer.path().join("precious"), "precious").unwrap();
    std::os::unix::fs::symlink("..", workspace.join("up")).unwrap();

    let link = [("x-amz-meta-belljar-kind", "link"), ("x-amz-meta-belljar-blake3", "")];
    let target = "../precious";
    let hash = blake3::hash(target.as_bytes()).to_hex().to_string();
    bucket.request("PUT", "w/out", &[link[0], (link[1].0, &hash)], target.as_bytes());
    bucket.put("w/up/precious", b"evil");
    bucket.put("w/.belljar-part-0123456789abcdef", b"evil");
    bucket.put("w/fine", b"fine");
    let synced = pull_with(&workspace, &bucket.place("w"), &options());
    let mut skipped: Vec<_> = synced.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    skipped.sort_unstable();
    assert_eq!(skipped, [".belljar-part-0123456789abcdef", "out"]);
    // Where the link was, there is a directory now.
    assert_eq!(survey(&workspace).into_keys().collect::<Vec<_>>(), ["fine", "up", "up/precious"]);

    // A listing with keys that can't be paths is refused as a whole.
    for key in ["x/%2E%2E/precious", "x/%2E%2E/%2E%2E/precious", "x//precious", "x/a%00b"] {
        bucket.put(key, b"evil");
        let refused = pull(&DirDoor::open(&workspace).unwrap(), &bucket.place("x"), &options(), &Quiet);
        assert!(matches!(&refused, Err(TransferError::Key { .. })), "{key}: {refused:?}");
        assert!(refused.unwrap_err().hint().is_some());
        bucket.remove(key);
    }
    assert_eq!(fs::read(outer.path().join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2);
}

#[test]
fn a_link_or_a_file_where_a_directory_will_be_is_replaced_and_not_followed() {
    let (from, to, bucket) = (tempdir().unwrap(), tempdir().unwrap(), TestBucket::new());
    fs::create_dir(to.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", to.path().join("d")).unwrap();
    fs::write(to.path().join("f"), "a file").unwrap();
    // Objects of others, of which no manifest says that they are in directories.
    bucket.put("w/d/x", b"x");
    bucket.put("w/f/g/y", b"y");
    let synced = pull_with(to.path(), &bucket.place("w"), &options());
    assert_eq!((synced.files, synced.skipped.total()), (2, 0));
    assert_eq!(fs::read_dir(to.path().join("real")).unwrap().count(), 0);
    assert_eq!(fs::read(to.path().join("d/x")).unwrap(), b"x");
    assert_eq!(fs::read(to.path().join("f/g/y")).unwrap(), b"y");

    // What was a file and is a directory doesn't stay in the way, though nothing else is removed.
    fs::write(from.path().join("d"), "was a file").unwrap();
    push_with(from.path(), &bucket.place("v"), &options());
    fs::remove_file(from.path().join("d")).unwrap();
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/x"), "x").unwrap();
    push_with(from.path(), &bucket.place("v"), &options());
    let again = tempdir().unwrap();
    assert_eq!(pull_with(again.path(), &bucket.place("v"), &options()).skipped.total(), 0);
    assert_eq!(survey(from.path()), survey(again.path()));
}

#[test]
fn names_that_cannot_be_keys_are_reported() {
    let (from, bucket) = (tempdir().unwrap(), TestBucket::new());
    fs::write(from.path().join("line\nbreak"), "x").unwrap();
    fs::write(from.path().join("fine"), "x").unwrap();
    let synced = push_with(from.path(), &bucket.place("w"), &options());
    assert_eq!((synced.files, synced.skipped[0].path.as_str()), (1, "line\\nbreak"));
}

#[test]
fn large_files_go_in_parts() {
    let (from, to, bucket) = (tempdir().unwrap(), tempdir().unwrap(), TestBucket::new());
    let contents: Vec<u8> = (0..(21 << 20) + 7_u32).map(|number| (number % 251) as u8).collect();
    fs::write(from.path().join("large"), &contents).unwrap();
    let place = bucket.place("");
    push_with(from.path(), &place, &options());
    pull_with(to.path(), &place, &options());
    assert_eq!(survey(from.path()), survey(to.path()));
    assert_eq!(push_with(from.path(), &place, &options()).actions, []);
    // Its time alone isn't a reason to send it again.
    fs::File::open(from.path().join("large")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(steps(&push_with(from.path(), &place, &options())), [("large", Step::Touch)]);
}

#[test]
fn limits_hold_before_anything_is_copied() {
    let (from, to, bucket) = (small_workspace(), tempdir().unwrap(), TestBucket::new());
    let place = bucket.place("w");
    let door = DirDoor::open(from.path()).unwrap();
    let few = SyncOptions { most_bytes: 3, ..options() };
    assert!(matches!(push(&door, &place, &few, &Quiet), Err(TransferError::TooMuch { what: "bytes", .. })));
    push_with(from.path(), &place, &options());
    let door = DirDoor::open(to.path()).unwrap();
    assert!(matches!(pull(&door, &place, &few, &Quiet), Err(TransferError::TooMuch { what: "bytes", .. })));
    let few = SyncOptions { most_files: 2, ..options() };
    assert!(matches!(pull(&door, &place, &few, &Quiet), Err(TransferError::TooMuch { what: "objects", .. })));
    assert_eq!(survey(to.path()).into_values().filter(|node| *node != Node::Directory).count(), 0);
}

#[test]
fn a_bucket_that_is_not_there_is_an_error_with_a_hint() {
    let from = small_workspace();
    let missing = Place::S3(place("no-such-bucket", "", &TestBucket::endpoint()));
    let error = push(&DirDoor::open(from.path()).unwrap(), &missing, &options(), &Quiet).unwrap_err();
    assert!(matches!(error, TransferError::Bucket { .. }), "{error}");
    assert!(error.hint().is_some());
}

/// Tells another process how far it is.
struct Counting(String, AtomicU64);

impl Progress for Counting {
    fn advance(&self, _: &str, files: u64, _: u64) {
        if self.1.swap(files, Ordering::Relaxed) != files {
            fs::write(&self.0, files.to_string()).unwrap();
        }
    }
}

/// Run by `a_push_that_is_killed_is_finished_by_the_next` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let variable = |name: &str| std::env::var(format!("BELLJAR_TRANSFER_TEST_{name}")).ok();
    let (Some(from), Some(bucket), Some(endpoint)) =
        (variable("FROM"), variable("BUCKET"), variable("ENDPOINT"))
    else {
        return;
    };
    let counting = Counting(format!("{from}.count"), AtomicU64::new(0));
    let place = Place::S3(place(&bucket, "w", &endpoint));
    push(&DirDoor::open(from.as_ref()).unwrap(), &place, &mirror(), &counting).unwrap();
}

#[test]
fn a_push_that_is_killed_is_finished_by_the_next() {
    const FILES: usize = 300;
    let (outer, to, bucket) = (tempdir().unwrap(), tempdir().unwrap(), TestBucket::new());
    let from = outer.path().join("from");
    fs::create_dir(&from).unwrap();
    let write = |round: usize| {
        for number in 0..FILES {
            fs::write(from.join(format!("{number}.txt")), format!("{round} {number}")).unwrap();
        }
    };
    write(0);
    push_with(&from, &bucket.place("w"), &mirror());
    write(1);
    fs::write(from.join("large"), vec![7; 20 << 20]).unwrap();
    let count = outer.path().join("from.count");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["buckets::child", "--exact", "--ignored"])
        .env("BELLJAR_TRANSFER_TEST_FROM", &from)
        .env("BELLJAR_TRANSFER_TEST_BUCKET", &bucket.name)
        .env("BELLJAR_TRANSFER_TEST_ENDPOINT", TestBucket::endpoint())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let done = || fs::read_to_string(&count).ok().and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    while done() < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    // Each file is whole there: as it was, or as it is.
    pull_with(to.path(), &bucket.place("w"), &mirror());
    for number in 0..FILES {
        let contents = fs::read_to_string(to.path().join(format!("{number}.txt"))).unwrap();
        assert!(contents == format!("0 {number}") || contents == format!("1 {number}"), "{contents}");
    }
    let rest = push_with(&from, &bucket.place("w"), &mirror());
    assert!(rest.files > 0 && rest.files <= (FILES + 1) as u64 - 20, "{}", rest.files);
    assert_eq!(rest.skipped.total(), 0);
    pull_with(to.path(), &bucket.place("w"), &mirror());
    assert_eq!(survey(&from), survey(to.path()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_becomes_any_other_by_way_of_a_bucket(one in trees(), two in trees()) {
        let (first, second, to, bucket) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap(), TestBucket::new());
        plant(first.path(), &one);
        plant(second.path(), &two);
        for from in [&first, &second] {
            push_with(from.path(), &bucket.place("p/q"), &mirror());
            let pulled = pull_with(to.path(), &bucket.place("p/q"), &mirror());
            prop_assert_eq!(&pulled.skipped[..], []);
            prop_assert_eq!(survey(from.path()), survey(to.path()));
        }
    }
}
