//! Whole trees at one moment: put back, saved, loaded, copied; and what damage does to them.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_files::{Moment, Objects, TrackedSettings, clone_tree};
use tempfile::TempDir;

use crate::scratch;
use crate::tracked::{Workspace, picture, settings};

fn prepare(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), "one").unwrap();
    fs::write(root.join("a/same"), "one").unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("large"), vec![7; 3_000_000]).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 36).unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    fs::set_permissions(root.join("a/b/file"), fs::Permissions::from_mode(0o700)).unwrap();
}

fn open(directory: &Path) -> OwnedFd {
    fs::File::open(directory).unwrap().into()
}

type Picture = Vec<(PathBuf, (u32, Vec<u8>))>;

/// A picture without what is too large to look at.
fn seen(directory: &Path) -> Picture {
    let sparse = directory.join("sparse");
    let aside = scratch();
    let moved = sparse.exists();
    if moved {
        fs::rename(&sparse, aside.path().join("sparse")).unwrap();
    }
    let picture = picture(directory).into_iter().collect();
    if moved {
        fs::rename(aside.path().join("sparse"), &sparse).unwrap();
    }
    picture
}

#[test]
fn a_moment_is_restored_whole_whatever_the_bounds_are() {
    let limits = TrackedSettings { most_file: 10, most_total: 10, ..settings() };
    let mut workspace = Workspace::new(limits, prepare);
    let before = seen(workspace.directory.path());
    let moment = workspace.tracked.moment().unwrap();
    assert_eq!(moment.files(), 8);
    assert_eq!(moment.bytes(), 3_000_006);
    workspace.cell(|root| {
        fs::remove_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a"), "two").unwrap();
        fs::write(root.join("large"), "two").unwrap();
        fs::write(root.join("sparse"), "two").unwrap();
        fs::remove_file(root.join("link")).unwrap();
        fs::create_dir(root.join("new")).unwrap();
    });
    let put = workspace.tracked.restore(&moment.clone()).unwrap();
    assert_eq!(put.failed, Vec::<String>::new());
    assert_eq!(seen(workspace.directory.path()), before);
    assert_eq!(fs::metadata(workspace.path("sparse")).unwrap().len(), 1 << 36);
    assert_eq!(workspace.tracked.undoable().count(), 0);
    assert!(workspace.tracked.undo_to(1).is_err());
    // Again, from where nothing is to be done.
    assert_eq!(workspace.tracked.restore(&moment).unwrap().failed_count, 0);
    assert_eq!(seen(workspace.directory.path()), before);
}

#[test]
fn a_moment_outlives_the_workspace() {
    let mut workspace = Workspace::new(settings(), prepare);
    let before = seen(workspace.directory.path());
    let moment = workspace.tracked.moment().unwrap();
    drop(workspace.tracked);
    let target = scratch();
    moment.write_to(open(target.path())).unwrap();
    assert_eq!(seen(target.path()), before);
}

#[test]
fn a_moment_sees_what_raised_no_event() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "one").unwrap();
    });
    workspace.cell(|_| {});
    // A name that is gone is what the change is told of.
    let mut file = fs::File::options().write(true).open(workspace.path("a/file")).unwrap();
    fs::hard_link(workspace.path("a/file"), workspace.path("b")).unwrap();
    fs::remove_file(workspace.path("a/file")).unwrap();
    workspace.cell(|_| {});
    std::io::Write::write_all(&mut file, b"two").unwrap();
    let target = scratch();
    workspace.tracked.moment().unwrap().write_to(open(target.path())).unwrap();
    assert_eq!(fs::read(target.path().join("b")).unwrap(), b"two");
}

fn saved() -> (Vec<u8>, Objects, TempDir, Picture) {
    let mut workspace = Workspace::new(settings(), prepare);
    let before = seen(workspace.directory.path());
    let directory = scratch();
    let objects = Objects::open(directory.path()).unwrap();
    let manifest = workspace.tracked.moment().unwrap().save(&objects).unwrap();
    (manifest, objects, directory, before)
}

fn object_files(objects: &Path) -> Vec<PathBuf> {
    let shelves =
        fs::read_dir(objects).unwrap().map(|shelf| shelf.unwrap().path()).filter(|path| path.is_dir());
    shelves.flat_map(|shelf| fs::read_dir(shelf).unwrap().map(|object| object.unwrap().path())).collect()
}

#[test]
fn what_was_saved_is_loaded_and_shared() {
    let (manifest, objects, directory, before) = saved();
    // The same contents are there once.
    assert_eq!(object_files(directory.path()).len(), 4);
    let moment = Moment::load(&manifest, &objects).unwrap();
    assert_eq!(moment.files(), 8);
    let target = scratch();
    moment.write_to(open(target.path())).unwrap();
    assert_eq!(seen(target.path()), before);
    assert_eq!(moment.save(&objects).unwrap(), manifest);
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join("other"), "a").unwrap());
    assert_eq!(workspace.tracked.restore(&moment).unwrap().failed_count, 0);
    assert_eq!(seen(workspace.directory.path()), before);
}

#[test]
fn no_damaged_manifest_is_believed() {
    let (manifest, objects, ..) = saved();
    for place in 0..manifest.len() * 8 {
        let mut damaged = manifest.clone();
        damaged[place / 8] ^= 1 << (place % 8);
        assert_eq!(Moment::load(&damaged, &objects).unwrap_err().kind(), ErrorKind::InvalidData);
    }
    for end in 0..manifest.len() {
        assert!(Moment::load(&manifest[..end], &objects).is_err());
    }
    assert!(Moment::load(&[&manifest[..], b"a"].concat(), &objects).is_err());
}

#[test]
fn a_damaged_object_is_never_a_file() {
    let (manifest, objects, directory, _) = saved();
    let small = object_files(directory.path())
        .into_iter()
        .find(|path| fs::metadata(path).unwrap().len() == 3)
        .unwrap();
    let good = fs::read(&small).unwrap();
    let bad = (0..24).map(|place| {
        let mut bad = good.clone();
        bad[place / 8] ^= 1 << (place % 8);
        bad
    });
    for bad in bad.chain([b"".to_vec(), b"on".to_vec(), b"one!".to_vec()]) {
        fs::write(&small, &bad).unwrap();
        let target = scratch();
        let written =
            Moment::load(&manifest, &objects).and_then(|moment| moment.write_to(open(target.path())));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(!target.path().join("a/b/file").exists());
        assert!(!target.path().join("a/same").exists());
    }
    // What can't be put back is told, and what was there stays.
    fs::write(&small, &good).unwrap();
    let moment = Moment::load(&manifest, &objects).unwrap();
    fs::write(&small, "two").unwrap();
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/same"), "mine").unwrap();
    });
    assert_eq!(workspace.tracked.restore(&moment).unwrap().failed, ["a/b/file", "a/same"]);
    assert_eq!(fs::read(workspace.path("a/same")).unwrap(), b"mine");
    fs::remove_file(&small).unwrap();
    assert_eq!(Moment::load(&manifest, &objects).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn only_what_no_manifest_refers_to_is_collected() {
    let (manifest, objects, directory, before) = saved();
    let mut workspace = Workspace::new(settings(), |root| {
        fs::write(root.join("shared"), "one").unwrap();
        fs::write(root.join("own"), vec![1; 50_000]).unwrap();
    });
    let other = workspace.tracked.moment().unwrap().save(&objects).unwrap();
    assert_eq!(object_files(directory.path()).len(), 5);
    assert_eq!(objects.collect([manifest.clone(), other.clone()].into_iter()).unwrap(), 0);
    assert!(objects.collect([manifest.clone(), b"damaged".to_vec()].into_iter()).is_err());
    assert!(objects.collect([manifest.clone()].into_iter()).unwrap() >= 50_000);
    assert!(Moment::load(&other, &objects).is_err());
    let target = scratch();
    Moment::load(&manifest, &objects).unwrap().write_to(open(target.path())).unwrap();
    assert_eq!(seen(target.path()), before);
    objects.collect(std::iter::empty()).unwrap();
    assert_eq!(object_files(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_collected_while_somebody_saves() {
    let directory = scratch();
    let objects = Objects::open(directory.path()).unwrap();
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join("file"), "one").unwrap());
    let hold = objects.hold().unwrap();
    let asked = AtomicBool::new(false);
    let stored = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let collecting = scope.spawn(|| {
            let others = Objects::open(directory.path()).unwrap();
            let manifests = std::iter::once_with(|| {
                asked.store(true, Ordering::SeqCst);
                stored.lock().unwrap().clone()
            });
            others.collect(manifests).unwrap()
        });
        let manifest = workspace.tracked.moment().unwrap().save(&objects).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!asked.load(Ordering::SeqCst));
        *stored.lock().unwrap() = manifest;
        drop(hold);
        assert_eq!(collecting.join().unwrap(), 0);
    });
    Moment::load(&stored.lock().unwrap(), &objects).unwrap();
}

#[test]
fn a_tree_is_cloned_with_links_modes_and_times_but_nothing_special() {
    let (from, to) = (scratch(), scratch());
    prepare(from.path());
    fs::create_dir_all(from.path().join(".venv/bin")).unwrap();
    fs::write(from.path().join(".venv/bin/python"), "a").unwrap();
    let expected = seen(from.path());
    fs::create_dir_all(from.path().join(".skills/system")).unwrap();
    fs::create_dir(to.path().join(".skills")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        from.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let ignored = [".skills/system".to_owned()];
    let (source, target) = (open(from.path()), open(to.path()));
    let cloned = clone_tree(source.as_fd(), target.as_fd(), &ignored, 4 << 20).unwrap();
    assert_eq!((cloned.files, cloned.left_out), (12, 1));
    fs::remove_dir(to.path().join(".skills")).unwrap();
    assert_eq!(seen(to.path()), expected);
    assert_eq!(fs::metadata(to.path().join("sparse")).unwrap().len(), 1 << 36);
    let again = scratch();
    let refused = clone_tree(source.as_fd(), open(again.path()).as_fd(), &ignored, 1 << 20);
    // Nothing is copied where blocks are shared.
    assert!(cloned.copied == 0 || refused.unwrap_err().kind() == ErrorKind::FileTooLarge);
}
