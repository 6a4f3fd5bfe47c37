use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use belljar_runtime::{Cache, CacheError, Quiet};
use tempfile::{TempDir, tempdir};

/// Tells a child process where its cache is.
const CHILD_CACHE: &str = "BELLJAR_TEST_CACHE";

fn cache() -> (TempDir, Cache) {
    let directory = tempdir().expect("a directory");
    let cache = Cache::open(directory.path().join("cache"));
    (directory, cache)
}

fn fill(directory: &Path) -> Result<(), CacheError> {
    fs::create_dir(directory.join("tree")).expect("made");
    fs::write(directory.join("tree/leaf"), "leaf").expect("written");
    fs::write(directory.join("file"), "content").expect("written");
    Ok(())
}

fn never(_: &Path) -> Result<(), CacheError> {
    panic!("made a second time")
}

/// Runs `child_makes_slowly` in a process of its own, and waits until it is at work.
fn slow_child(cache: &Cache) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--ignored", "--exact", "cache::child_makes_slowly"]).env(CHILD_CACHE, cache.root());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("spawned");
    let start = Instant::now();
    while !scratches(cache).iter().any(|scratch| scratch.join("started").exists()) {
        assert!(start.elapsed() < Duration::from_secs(20), "the child doesn't start");
        thread::sleep(Duration::from_millis(2));
    }
    child
}

/// The directories that entries of `key` are, or were, being made in.
fn scratches(cache: &Cache) -> Vec<PathBuf> {
    let found =
        fs::read_dir(cache.root().join("kind")).into_iter().flatten().flatten().map(|entry| entry.path());
    found.filter(|path| path.is_dir() && path.to_string_lossy().contains("/.key.")).collect()
}

#[test]
#[ignore = "the other half of tests that need a second process"]
fn child_makes_slowly() {
    let Some(root) = std::env::var_os(CHILD_CACHE) else { return };
    let made = Cache::open(root).make("kind", "key", &Quiet, |directory| {
        fs::write(directory.join("started"), "").expect("written");
        thread::sleep(Duration::from_millis(300));
        fill(directory)
    });
    made.expect("made");
}

#[test]
fn an_entry_is_made_once_and_read_only() {
    let (_directory, cache) = cache();
    assert_eq!(cache.find("kind", "key"), None);
    let entry = cache.make("kind", "key", &Quiet, fill).expect("made");
    assert_eq!(cache.find("kind", "key"), Some(entry.clone()));
    assert_eq!(cache.make("kind", "key", &Quiet, never).expect("found"), entry);
    for file in ["file", "tree/leaf", "manifest.json"] {
        let mode = fs::metadata(entry.join(file)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o444, "{file}");
    }
    cache.verify(&entry).expect("untouched");
}

#[test]
fn threads_that_race_make_one_entry() {
    let (_directory, cache) = cache();
    let made = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let entry = cache.make("kind", "key", &Quiet, |directory| {
                    made.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(20));
                    fill(directory)
                });
                entry.expect("made or found");
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn a_second_process_waits_and_finds_the_entry() {
    let (_directory, cache) = cache();
    let mut child = slow_child(&cache);
    let entry = cache.make("kind", "key", &Quiet, never).expect("found");
    assert!(child.wait().expect("waited").success());
    cache.verify(&entry).expect("whole");
}

#[test]
fn what_a_killed_maker_leaves_is_swept() {
    let (_directory, cache) = cache();
    let mut child = slow_child(&cache);
    cache.make("kind", "other", &Quiet, fill).expect("made");
    assert_eq!(scratches(&cache).len(), 1, "a live maker's directory was swept");
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert_eq!(scratches(&cache).len(), 1);
    assert_eq!(cache.find("kind", "key"), None);
    cache.make("kind", "third", &Quiet, fill).expect("made");
    assert!(scratches(&cache).is_empty(), "a dead maker's directory is still there");
    let entry = cache.make("kind", "key", &Quiet, fill).expect("made");
    assert!(!entry.join("started").exists());
}

#[test]
fn a_failed_build_leaves_nothing() {
    let (_directory, cache) = cache();
    let failed = cache.make("kind", "key", &Quiet, |directory| {
        fill(directory)?;
        Err(CacheError::Name("on purpose".into()))
    });
    assert!(failed.is_err());
    assert!(scratches(&cache).is_empty());
    assert!(cache.entries().expect("listed").is_empty());
}

#[test]
fn tampering_is_found() {
    type Tamper = fn(&Path);
    let tampers: [(&str, Tamper); 5] = [
        ("file", |entry| overwrite(&entry.join("file"), "CONTENT")),
        ("tree", |entry| overwrite(&entry.join("tree/leaf"), "LEAF")),
        ("tree", |entry| fs::rename(entry.join("tree/leaf"), entry.join("tree/fael")).expect("renamed")),
        ("extra", |entry| fs::write(entry.join("extra"), "").expect("written")),
        ("manifest.json", |entry| overwrite(&entry.join("manifest.json"), "{}")),
    ];
    for (name, tamper) in tampers {
        let (_directory, cache) = cache();
        let entry = cache.make("kind", "key", &Quiet, fill).expect("made");
        tamper(&entry);
        let error = cache.verify(&entry).expect_err(name);
        assert!(matches!(&error, CacheError::Damaged { what, .. } if what.contains(name)), "{error}");
    }
}

#[test]
fn an_entry_with_a_missing_or_short_file_is_made_again() {
    for damage in
        [|path: &Path| fs::remove_file(path).expect("removed"), |path: &Path| overwrite(path, "short")]
    {
        let (_directory, cache) = cache();
        let entry = cache.make("kind", "key", &Quiet, fill).expect("made");
        damage(&entry.join("file"));
        assert_eq!(cache.find("kind", "key"), None);
        let entry = cache.make("kind", "key", &Quiet, fill).expect("made again");
        cache.verify(&entry).expect("whole");
    }
}

#[test]
fn cleaning_removes_one_kind_and_tells_its_size() {
    let (_directory, cache) = cache();
    cache.make("kind", "key", &Quiet, fill).expect("made");
    cache.make("other", "key", &Quiet, fill).expect("made");
    let entries = cache.entries().expect("listed");
    assert_eq!(entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), ["kind", "other"]);
    assert_eq!(cache.clean("kind").expect("cleaned"), entries[0].bytes);
    assert_eq!(cache.entries().expect("listed"), entries[1..]);
    assert_eq!(cache.clean("kind").expect("nothing to do"), 0);
}

#[test]
fn names_that_are_paths_are_refused() {
    let (_directory, cache) = cache();
    for name in ["", ".", "..", "../up", "a/b", "/etc", ".hidden", "null\0"] {
        assert!(matches!(cache.make("kind", name, &Quiet, fill), Err(CacheError::Name(_))), "{name:?}");
        assert!(matches!(cache.make(name, "key", &Quiet, fill), Err(CacheError::Name(_))), "{name:?}");
    }
}

#[test]
fn a_cache_that_cannot_be_made_is_named() {
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("written");
    let error = Cache::open(&file).make("kind", "key", &Quiet, fill).expect_err("a file is in the way");
    assert!(error.to_string().contains("file/kind"), "{error}");
    assert!(!error.hint().is_empty());
}

fn overwrite(path: &Path, content: &str) {
    fs::remove_file(path).expect("removed");
    fs::write(path, content).expect("written");
}

#[test]
fn one_entry_is_removed_and_the_others_stay() {
    let (_directory, cache) = cache();
    let gone = cache.make("kind", "gone", &Quiet, fill).expect("made");
    let kept = cache.make("kind", "kept", &Quiet, fill).expect("made");
    assert!(cache.remove("kind", "gone").expect("removed") > 0);
    assert!(!gone.exists() && cache.find("kind", "gone").is_none());
    assert_eq!(cache.find("kind", "kept"), Some(kept));
    assert_eq!(cache.remove("kind", "gone").expect("nothing"), 0);
    assert!(cache.remove("kind", "../kept").is_err());
    // Also one that is damaged.
    fs::remove_file(cache.root().join("kind/kept/file")).expect("removed");
    assert!(cache.remove("kind", "kept").expect("removed") > 0);
}

#[test]
fn entries_tell_when_they_were_used() {
    let (_directory, cache) = cache();
    cache.make("kind", "key", &Quiet, fill).expect("made");
    let used = |cache: &Cache| cache.entries().expect("listed")[0].used.expect("a time");
    let made = used(&cache);
    // By the hour: what was used just now needs no note.
    cache.touch("kind", "key");
    assert_eq!(used(&cache), made);
    let entry = fs::File::open(cache.root().join("kind/key")).expect("opened");
    entry.set_modified(made - Duration::from_secs(7200)).expect("set");
    cache.touch("kind", "key");
    assert!(used(&cache) >= made);
    cache.verify(&cache.root().join("kind/key")).expect("still whole");
    // No harm.
    cache.touch("kind", "missing");
}

#[test]
fn a_cache_over_another() {
    let (directory, under) = cache();
    let below = under.make("kind", "below", &Quiet, fill).expect("made");
    let layered = Cache::layered(directory.path().join("over"), under.root());
    assert_eq!(layered.find("kind", "below"), Some(below.clone()));
    assert_eq!(layered.make("kind", "below", &Quiet, never).expect("found"), below);
    let above = layered.make("kind", "above", &Quiet, fill).expect("made");
    assert!(above.starts_with(directory.path().join("over")));
    assert!(under.find("kind", "above").is_none());
    assert_eq!(layered.remove("kind", "below").expect("not its own"), 0);
    assert!(below.exists());
}

#[test]
fn a_tool_stays_executable() {
    let (_directory, cache) = cache();
    let entry = cache.make("kind", "tool", &Quiet, |directory| -> Result<(), CacheError> {
        fs::write(directory.join("tool"), "").expect("written");
        fs::set_permissions(directory.join("tool"), fs::Permissions::from_mode(0o755)).expect("executable");
        Ok(())
    });
    let mode = fs::metadata(entry.expect("made").join("tool")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o555);
}
