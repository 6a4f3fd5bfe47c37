//! Processes that are killed at any moment.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar_datasets::{CollectOptions, DatasetStore, FetchOptions, Quiet, Shelf};

use crate::server::{Answer, Server};
use crate::support::{Scratch, TENANT, bytes, options, sha256};

const ROOT: &str = "BELLJAR_DATASETS_CRASH_ROOT";
const NAMES: usize = 4;

/// Fetches, stages and forgets until it is killed, and says what it has done.
#[test]
#[ignore = "it is started by another test"]
fn child() {
    let Some(root) = std::env::var_os(ROOT).map(std::path::PathBuf::from) else { return };
    let store = DatasetStore::open(root.join("store"));
    let shelf = Shelf::open(root.join("shelf")).unwrap();
    let mut log = fs::OpenOptions::new().append(true).create(true).open(root.join("log")).unwrap();
    writeln!(log, "begun").unwrap();
    let begun = fs::read_to_string(root.join("log")).unwrap().matches("begun").count();
    for round in begun - 1.. {
        let name = format!("d{}", round % NAMES);
        let dataset = store.get(TENANT, &name, None).unwrap();
        let refresh = FetchOptions { refresh: round % 3 == 0, attempts: 100, ..options() };
        let cached = store.fetch(TENANT, &name, None, &refresh, &Quiet).unwrap();
        writeln!(log, "fetched {name}").unwrap();
        shelf.stage(&cached, &dataset).unwrap();
        writeln!(log, "staged {name}").unwrap();
        if round % 7 == 6 {
            store.collect(&CollectOptions { stale: Duration::ZERO, ..CollectOptions::default() }).unwrap();
        }
    }
}

#[test]
fn whoever_is_killed_leaves_no_wrong_blob_and_loses_nothing() {
    let scratch = Scratch::new();
    let bodies: Vec<Vec<u8>> = (0..NAMES).map(|seed| bytes(400_000 + seed, seed as u64)).collect();
    let hashes: Vec<String> = bodies.iter().map(|body| sha256(body)).collect();
    let served = bodies.clone();
    // Some of what it sends is cut, so that there is something to go on with.
    let server = Server::new(move |asked, before| {
        let number: usize = asked.path.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap();
        let answer = Answer::file(asked, &served[number], &format!("\"{number}\""));
        if before % 3 == 0 { answer.cut(150_000) } else { answer }
    });
    for number in 0..NAMES {
        scratch
            .add(&format!("d{number}"), belljar_datasets::Source::http(server.url(&format!("/d{number}"))));
    }
    let log = scratch.path("log");
    let lines = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    for round in 0..40_u64 {
        // It has begun, or done something as well.
        let until = lines() + 1 + round as usize % 6;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::child", "--exact", "--ignored"])
            .env(ROOT, scratch.directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while lines() < until && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 7_919 % 60_000));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it ended by itself");
        for path in scratch.blobs() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // What was being made when it was killed has no name yet, and is collected.
            if name.starts_with(".belljar-") {
                continue;
            }
            assert_eq!(sha256(&fs::read(&path).unwrap()), name, "a wrong blob");
        }
        let shelf = Shelf::open(scratch.path("shelf")).unwrap();
        let staged = shelf.staged().unwrap();
        for line in fs::read_to_string(&log).unwrap().lines() {
            let Some((what, name)) = line.split_once(' ') else { continue };
            let number: usize = name[1..].parse().unwrap();
            let known = scratch.store.get(TENANT, name, None).unwrap();
            assert_eq!(known.sha256.as_ref(), Some(&hashes[number]), "{line}");
            if what == "staged" {
                assert!(staged.iter().any(|staged| staged.name == name), "{line}");
                let file = shelf.path().join("data").join(&known.file_name);
                assert_eq!(fs::metadata(file).unwrap().len(), bodies[number].len() as u64);
            }
        }
        assert!(shelf.sync(&scratch.store).unwrap().is_empty());
    }
    assert!(fs::read_to_string(&log).unwrap().contains("staged d3"), "it never got that far");
    for (number, hash) in hashes.iter().enumerate() {
        assert_eq!(scratch.fetch(&format!("d{number}")).unwrap().sha256, *hash);
    }
    Shelf::open(scratch.path("shelf")).unwrap().remove().unwrap();
    fs::write(scratch.path("store/registry/local/d0/.belljar-1-2-3"), b"of somebody who was killed").unwrap();
    for number in 0..NAMES {
        scratch.store.remove(TENANT, &format!("d{number}"), None).unwrap();
    }
    scratch.store.collect(&CollectOptions { stale: Duration::ZERO, ..CollectOptions::default() }).unwrap();
    let left: Vec<_> = crate::support::files_below(&scratch.path("store"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name != ".lock"))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_killed_process_had_fetched_is_gone_on_with_by_the_next() {
    let (scratch, body) = (Scratch::new(), bytes(20 << 20, 7));
    let served = body.clone();
    let server = Server::new(move |asked, before| {
        let mut answer = Answer::file(asked, &served, "\"1\"");
        if before == 0 {
            answer.pause = Some((18 << 20, Duration::from_secs(600)));
        }
        answer
    });
    scratch.add("d0", server.source());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crashes::child", "--exact", "--ignored"])
        .env(ROOT, scratch.directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let written = || {
        let sizes = scratch.partials().into_iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        sizes.max().unwrap_or(0)
    };
    while written() < 18 << 20 {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scratch.fetch("d0").unwrap().sha256, sha256(&body));
    let from = server.asked.lock().unwrap()[1].from().unwrap();
    assert!(from >= 9 << 20, "{from}");

    // A journal that promises more than there is, or something else, isn't believed.
    for damage in [true, false] {
        let scratch = Scratch::new();
        let served = body.clone();
        let server = Server::new(move |asked, before| {
            let answer = Answer::file(asked, &served, "\"1\"");
            if before == 0 { answer.cut(1 << 19) } else { answer }
        });
        scratch.add("d0", server.source());
        assert!(scratch.fetch_with("d0", &FetchOptions { attempts: 1, ..options() }).is_err());
        let part = scratch.partials().into_iter().find(|path| path.extension().unwrap() == "part").unwrap();
        let mut there = fs::read(&part).unwrap();
        assert!(there.len() > 1_000);
        if damage {
            there[5] ^= 1;
        } else {
            there.truncate(1_000);
        }
        fs::write(&part, there).unwrap();
        assert_eq!(scratch.fetch("d0").unwrap().sha256, sha256(&body));
        assert_eq!(server.asked.lock().unwrap()[1].from(), None, "from the beginning");
    }
}
