//! Damage in every kind of file: a clear error that names it, and no other session is harmed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_store::{CheckpointNote, HistoryEntry, Store, StoreError, Tenant};

use crate::support::{Contents, Scratch, assert_head, assert_loaded, id, live};

/// A victim with everything that a session can have, and a bystander.
struct Scene {
    scratch: Scratch,
    victim: Contents,
    bystander: Contents,
}

impl Scene {
    fn new(cold: bool) -> Self {
        let scratch = Scratch::new();
        let mut bystander = live((0..30).map(|number| (number * 3, number)));
        bystander.write_file(b"bystander".to_vec());
        let mut lease = scratch.create("bystander");
        bystander.commit(&mut lease).unwrap();
        drop(lease);
        let mut victim = live((0..30).map(|number| (number * 3, 100 + number)));
        victim.write_file(b"victim".to_vec());
        victim.contents.undo = b"undo".to_vec();
        let mut lease = scratch.create("victim");
        victim.commit(&mut lease).unwrap();
        lease.checkpoint_head(CheckpointNote::default()).unwrap();
        for number in 0..3 {
            let entry =
                HistoryEntry { number, kind: "cell".into(), code: "x = 1".into(), ..Default::default() };
            lease.append_history(&entry).unwrap();
        }
        drop(lease);
        if cold {
            scratch.store.cool(&Tenant::local(), Duration::ZERO).unwrap();
        }
        Self { scratch, victim: victim.contents, bystander: bystander.contents }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.session_path("victim").join(name)
    }

    fn point(&self) -> PathBuf {
        self.scratch.points("victim").remove(0)
    }

    /// The victim's pack: the one that the bystander can be loaded without.
    fn pack(&self) -> PathBuf {
        let writer = |path: &Path| {
            let aside = path.with_extension("aside");
            fs::rename(path, &aside).unwrap();
            let loads = self.scratch.acquire("bystander").unwrap().load().is_ok();
            fs::rename(&aside, path).unwrap();
            loads
        };
        self.scratch.packs().into_iter().find(|path| writer(path)).unwrap()
    }

    /// Everything that is wrong when the victim is used; the bystander must be fine.
    fn problems(&self) -> Vec<StoreError> {
        let mut problems = Vec::new();
        let tenant = Tenant::local();
        match Store::open(self.scratch.store.root()) {
            Ok(store) => {
                match store.history(&tenant, &id("victim")) {
                    Ok(history) => problems.extend(history.damaged),
                    Err(error) => problems.push(error),
                }
                problems.extend(store.record(&tenant, &id("victim")).err());
                match store.acquire(&tenant, &id("victim"), Duration::from_secs(5), &|| false) {
                    Ok(lease) => {
                        for loaded in [lease.load().map(Option::unwrap), lease.load_checkpoint(1)] {
                            match loaded {
                                Ok(loaded) => match loaded.unverified.verify() {
                                    Ok(()) => assert_loaded(&loaded, &self.victim),
                                    Err(error) => problems.push(error),
                                },
                                Err(error) => problems.push(error),
                            }
                        }
                    }
                    Err(error) => problems.push(error),
                }
            }
            Err(error) => problems.push(error),
        }
        let bystander = self.scratch.acquire("bystander").unwrap();
        assert_head(&bystander, &self.bystander);
        problems
    }

    fn assert_names(&self, path: &Path, what: &str) -> Vec<StoreError> {
        let problems = self.problems();
        // A pack that isn't there is named in one of its two forms.
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            problems.iter().any(|problem| problem.to_string().contains(name)),
            "{what} of {name}: {problems:?}"
        );
        for problem in &problems {
            assert!(problem.is_damage() && problem.hint().is_some(), "{what} of {name}: {problem:?}");
        }
        problems
    }

    /// Every file that, damaged, must be named.
    fn named(&self) -> Vec<PathBuf> {
        vec![self.file("session.json"), self.point(), self.pack()]
    }
}

fn offsets(length: u64) -> Vec<u64> {
    let mut offsets: Vec<u64> = (0..length.min(120)).chain(length.saturating_sub(700)..length).collect();
    let mut random = blake3::Hasher::new().update(&length.to_le_bytes()).finalize_xof();
    for _ in 0..60 {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        offsets.push(u64::from_le_bytes(bytes) % length);
    }
    offsets
}

#[test]
fn bit_flips_are_found() {
    for cold in [false, true] {
        let scene = Scene::new(cold);
        assert!(scene.problems().is_empty());
        for path in scene.named() {
            let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            for (round, offset) in offsets(file.metadata().unwrap().len()).into_iter().enumerate() {
                let mut byte = [0];
                file.read_exact_at(&mut byte, offset).unwrap();
                let flipped = byte[0] ^ 1 << (round % 8);
                file.write_all_at(&[flipped], offset).unwrap();
                let problems = scene.problems();
                let name = path.file_name().unwrap().to_str().unwrap();
                // A flip in a version may look like a later version; all else is damage.
                assert!(
                    problems.iter().any(|problem| problem.to_string().contains(name)
                        && (problem.is_damage() || matches!(problem, StoreError::Future { .. }))),
                    "bit {} of byte {offset} of {name}: {problems:?}",
                    round % 8,
                );
                file.write_all_at(&byte, offset).unwrap();
            }
        }
        assert!(scene.problems().is_empty());
    }
}

#[test]
fn truncation_and_more_at_the_end_are_found() {
    for cold in [false, true] {
        let scene = Scene::new(cold);
        for path in scene.named() {
            let whole = fs::read(&path).unwrap();
            let length = whole.len();
            let cuts =
                [0, 1, 7, 8, 11, 12, 48, 49, 55, 56, 57, 4095, 4096, length / 2, length - 56, length - 1];
            for cut in cuts.into_iter().filter(|cut| *cut < length) {
                fs::write(&path, &whole[..cut]).unwrap();
                scene.assert_names(&path, &format!("{cut} bytes"));
            }
            for more in [&b"\n"[..], b"{}", &[0; 4096], &whole] {
                fs::write(&path, [&whole[..], more].concat()).unwrap();
                // Two whole packs in a row end like one, and only then the lengths differ.
                scene.assert_names(&path, &format!("{} bytes more", more.len()));
            }
            fs::write(&path, &whole).unwrap();
        }
        assert!(scene.problems().is_empty());
    }
}

#[test]
fn other_kinds_of_files_are_found() {
    for cold in [false, true] {
        let scene = Scene::new(cold);
        let files = scene.named();
        for path in &files {
            let whole = fs::read(path).unwrap();
            for other in files.iter().filter(|other| *other != path) {
                fs::copy(other, path).unwrap();
                scene.assert_names(path, "another kind");
                fs::write(path, &whole).unwrap();
            }
            fs::remove_file(path).unwrap();
            scene.assert_names(path, "absence");
            fs::create_dir(path).unwrap();
            scene.assert_names(path, "a directory in place");
            fs::remove_dir(path).unwrap();
            fs::write(path, &whole).unwrap();
        }
        assert!(scene.problems().is_empty());
    }
}

#[test]
fn the_record_of_another_session_is_refused() {
    let scene = Scene::new(false);
    let theirs = scene.scratch.session_path("bystander").join("session.json");
    fs::copy(theirs, scene.file("session.json")).unwrap();
    let problems = scene.assert_names(Path::new("session.json"), "another's");
    assert!(problems[0].to_string().contains("it belongs to session bystander"), "{}", problems[0]);
    // It can't be taken, but it can be removed.
    scene.scratch.store.discard(&Tenant::local(), &id("victim")).unwrap();
    assert!(matches!(scene.problems()[0], StoreError::NotFound { .. }));
    scene.scratch.store.collect().unwrap();
    assert_eq!(scene.scratch.packs().len(), 1);
}

#[test]
fn later_versions_are_told_from_damage_and_left_alone() {
    for cold in [false, true] {
        let scene = Scene::new(cold);
        let root = scene.scratch.store.root().to_owned();
        let patch = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
            let whole = fs::read(path).unwrap();
            let mut later = whole.clone();
            change(&mut later);
            fs::write(path, later).unwrap();
            let problems = if path.ends_with("format") {
                vec![Store::open(&root).unwrap_err()]
            } else {
                scene.problems()
            };
            assert!(
                matches!(&problems[0], StoreError::Future { path: named, version: 2 } if named == path),
                "{problems:?}"
            );
            // Nobody knows what it needs, so everything stays.
            if !path.ends_with("format") {
                scene.scratch.store.collect().unwrap();
            }
            fs::write(path, &whole).unwrap();
        };
        patch(&scene.point(), &|bytes| bytes[8] = 2);
        patch(&scene.pack(), &|bytes| {
            let at = bytes.len() - 48;
            bytes[at] = 2;
        });
        patch(&scene.file("session.json"), &|bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replacen("\"version\": 1", "\"version\": 2", 1).into_bytes();
        });
        patch(&root.join("format"), &|bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replace("version 1", "version 2").into_bytes();
        });
        assert!(scene.problems().is_empty());
    }
}

#[test]
fn a_foreign_state_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("format"), "something else").unwrap();
    assert!(Store::open(directory.path()).unwrap_err().is_damage());
    fs::write(directory.path().join("file"), "").unwrap();
    let store = Store::open(directory.path().join("file")).map(|_| ());
    assert!(store.unwrap_err().is_damage());
}

#[test]
fn files_in_place_of_directories() {
    let scene = Scene::new(false);
    let path = scene.scratch.session_path("victim");
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "not a session").unwrap();
    let problems = scene.problems();
    assert!(problems.iter().any(|problem| problem.is_damage() && problem.to_string().contains("victim")));
    let listing = scene.scratch.store.sessions(&Tenant::local()).unwrap();
    assert_eq!((listing.sessions.len(), listing.damaged.len()), (1, 1));
    scene.scratch.store.collect().unwrap();
    assert!(
        scene
            .scratch
            .store
            .create(
                &Tenant::local(),
                belljar_store::NewSession { id: Some(id("victim")), ..Default::default() }
            )
            .unwrap_err()
            .is_damage()
    );

    let scratch = Scratch::new();
    fs::create_dir(scratch.store.root()).unwrap();
    fs::write(scratch.store.root().join("tenants"), "").unwrap();
    let error = scratch.store.create(&Tenant::local(), Default::default()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("tenants"), "{error}");
}

#[test]
fn history_is_read_as_far_as_it_can_be() {
    let scene = Scene::new(false);
    let path = scene.file("history");
    let whole = fs::read(&path).unwrap();
    let lines = |scene: &Scene| {
        let history = scene.scratch.store.history(&Tenant::local(), &id("victim")).unwrap();
        (history.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), history.damaged)
    };
    assert_eq!(lines(&scene).0, [0, 1, 2]);
    // A tail that was never finished is dropped, and the next owner goes on behind the last whole line.
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (numbers, damaged) = lines(&scene);
        let expected = whole[..cut].iter().filter(|byte| **byte == b'\n').count() as u32;
        assert_eq!((numbers, damaged.is_some()), ((0..expected).collect(), false));
        if cut % 10 == 3 {
            let mut lease = scene.scratch.acquire("victim").unwrap();
            lease.append_history(&HistoryEntry { number: 9, ..Default::default() }).unwrap();
            let (numbers, damaged) = lines(&scene);
            assert_eq!((numbers.last(), damaged.is_some()), (Some(&9), false));
        }
    }
    // Damage in the middle is reported, and the rest is read.
    for offset in 0..whole.len() - 1 {
        let mut bad = whole.clone();
        bad[offset] ^= 1;
        fs::write(&path, bad).unwrap();
        let (numbers, damaged) = lines(&scene);
        assert!(numbers.len() < 3 && numbers.iter().all(|number| *number < 3));
        assert!(damaged.unwrap().to_string().contains("history"));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let problems = scene.problems();
    assert!(problems.iter().any(|problem| problem.to_string().contains("history")), "{problems:?}");
    assert!(scene.scratch.acquire("victim").unwrap().append_history(&HistoryEntry::default()).is_err());
}

#[test]
fn a_damaged_lease_file_harms_nobody() {
    let scene = Scene::new(false);
    let path = scene.file("lease");
    let token = scene.scratch.acquire("victim").unwrap().token();
    for contents in [&b""[..], b"token x", &[0xff; 32], &[0; 256], &[b'a'; 5000]] {
        fs::write(&path, contents).unwrap();
        assert!(scene.problems().is_empty());
        assert!(scene.scratch.acquire("victim").unwrap().token() > token);
    }
    fs::remove_file(&path).unwrap();
    assert!(scene.problems().is_empty());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    scene.assert_names(&path, "a directory in place");
}

#[test]
fn a_damaged_checkpoint_keeps_nobody_from_going_on() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..30).map(|number| (number, number)));
    lease.checkpoint(&live.saved(), live.facts(), CheckpointNote::default()).unwrap();
    fs::write(&scratch.points("a")[0], "damaged").unwrap();
    drop(lease);
    let mut lease = scratch.acquire("a").unwrap();
    for round in 0..5 {
        live.write(3, 1000 + round);
        live.commit(&mut lease).unwrap();
        assert_head(&lease, &live.contents);
    }
    assert!(lease.load_checkpoint(1).unwrap_err().is_damage());
    assert_eq!(scratch.store.verify(&Tenant::local()).unwrap().len(), 1);
    lease.delete_checkpoint(1).unwrap();
    assert!(scratch.store.verify(&Tenant::local()).unwrap().is_empty());
}
