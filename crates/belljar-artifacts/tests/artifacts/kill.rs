//! Processes that are killed in the middle of anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use belljar_artifacts::{Admission, ArtifactStore, CollectOptions, Filter, StoreLimits};

use crate::children::{Process, child, say};
use crate::local::files_below;
use crate::support::{TENANT, file, noise, settings, try_keep_as};

/// How many processes are killed.
const ROUNDS: &str = "BELLJAR_KILL_ROUNDS";

fn open(directory: &Path) -> ArtifactStore {
    let limits = StoreLimits {
        session_count: None,
        session_bytes: None,
        tenant_bytes: None,
        ..StoreLimits::default()
    };
    ArtifactStore::open(settings(directory, limits)).unwrap()
}

/// The contents of a number. Some have the same, some are large.
fn contents(number: u64) -> Vec<u8> {
    match number % 64 {
        0 => noise(number % 192, (1 << 20) + 10_000),
        1..12 => noise(number % 5, 900),
        _ => noise(number, 20 + (number % 1_500) as usize),
    }
}

/// Run by `nothing_acknowledged_is_lost` in a process of its own, until that is killed.
#[test]
#[ignore = "a part of another test"]
fn victim() {
    let Some((directory, seed)) = child() else { return };
    let store = open(&directory);
    say("ready");
    thread::scope(|scope| {
        for lane in 0..2 {
            let store = &store;
            scope.spawn(move || work(store, seed * 100_000 + lane * 50_000, &format!("s{lane}")));
        }
    });
}

fn work(store: &ArtifactStore, first: u64, session: &str) {
    let mut number = first;
    let mut kept: Vec<String> = Vec::new();
    for round in 0_u64.. {
        let count = [1, 3, 9, 20][(first + round * 7) as usize % 4];
        let numbers: Vec<u64> = (number..number + count).collect();
        number += count;
        let bytes: Vec<Vec<u8>> = numbers.iter().map(|number| contents(*number)).collect();
        let files =
            numbers.iter().zip(&bytes).map(|(number, bytes)| file(&number.to_string(), bytes)).collect();
        say(&format!("keep? {first}"));
        let ingested = try_keep_as(store, (TENANT, session, 1), files, &Admission::default()).unwrap();
        assert!(ingested.refused.is_empty(), "{:?}", ingested.refused);
        for artifact in ingested.kept {
            say(&format!("keep! {} {}", artifact.id, artifact.name));
            kept.push(artifact.id.to_string());
        }
        if round % 3 == 2 {
            for id in kept.drain(..kept.len() / 2) {
                say(&format!("gone? {id}"));
                store.remove(TENANT, &id).unwrap();
                say(&format!("gone! {id}"));
            }
        }
        if round % 5 == 4 {
            store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
        }
    }
}

/// What children said.
#[derive(Default)]
struct Ledger {
    /// Ids with the numbers of their contents.
    kept: BTreeMap<String, u64>,
    /// May be there or not.
    unsure: BTreeSet<String>,
    begun: u64,
    done: u64,
}

impl Ledger {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["keep?", _] => self.begun += 1,
            ["keep!", id, number] => {
                self.done += 1;
                self.kept.insert(id.to_owned(), number.parse().unwrap());
            }
            ["gone?", id] => {
                self.kept.remove(id).unwrap();
                self.unsure.insert(id.to_owned());
            }
            ["gone!", id] => assert!(self.unsure.remove(id)),
            _ => panic!("{line}"),
        }
    }

    /// All that was acknowledged is there, and all that is there is whole.
    fn settle(&mut self, store: &ArtifactStore, directory: &Path) {
        for (id, number) in &self.kept {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut store.read(TENANT, id, None).unwrap(), &mut bytes).unwrap();
            assert!(bytes == contents(*number), "{id}");
        }
        let now = CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() };
        store.collect(&now).unwrap();
        let mut filter = Filter::default();
        let (mut count, mut hashes) = (0, BTreeSet::new());
        loop {
            let page = store.list(TENANT, &filter).unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(last.id.clone());
            for artifact in page {
                store.local(TENANT, artifact.id.as_str()).unwrap();
                count += 1;
                hashes.insert(artifact.sha256);
            }
        }
        assert!(count >= self.kept.len(), "{count}");
        assert_eq!(store.usage(None).unwrap().count, count as u64);
        assert_eq!(
            files_below(&directory.join("blobs/sha256")).len(),
            hashes.len(),
            "contents that nothing names"
        );
        assert_eq!(files_below(&directory.join("blobs/.new")), Vec::<std::path::PathBuf>::new());
        assert_eq!(store.collect(&now).unwrap().blobs, 0);
        // The next ones begin with an empty store, so that this doesn't take longer each time.
        let everything = CollectOptions { max_age: Some(Duration::ZERO), now_ms: Some(u64::MAX >> 1), ..now };
        store.collect(&everything).unwrap();
        assert_eq!(store.usage(None).unwrap(), belljar_artifacts::StoreUsage::default());
        assert!(files_below(&directory.join("blobs/sha256")).is_empty());
        self.kept.clear();
        self.unsure.clear();
    }
}

fn rounds(directory: &Path, lane: u64, rounds: u64) {
    let store = open(directory);
    let mut ledger = Ledger::default();
    for round in 1..=rounds {
        let seed = round * 2 + lane;
        let mut process = Process::start("kill::victim", directory, seed);
        // So that it gets somewhere on any machine; then at any moment.
        let mut lines = Vec::new();
        while (lines.len() as u64) < seed * 31 % 23 {
            lines.push(process.hear().unwrap());
        }
        let random = u64::from_le_bytes(noise(seed, 8).try_into().unwrap());
        thread::sleep(Duration::from_micros(random % 25_000));
        lines.extend(process.kill());
        lines.iter().for_each(|line| ledger.hear(line));
        // Once in a while, so that some children find what others left.
        if round % 8 == 0 || round == rounds {
            ledger.settle(&store, directory);
        }
    }
    assert!(ledger.done > rounds && ledger.begun > rounds, "they are killed too early");
    #[expect(clippy::print_stderr, reason = "for those who look")]
    {
        eprintln!("{rounds} killed, {} batches begun, {} files acknowledged", ledger.begun, ledger.done);
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let all: u64 = std::env::var(ROUNDS).map_or(200, |rounds| rounds.parse().unwrap());
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let directories = [tempfile::tempdir().unwrap(), memory];
    thread::scope(|scope| {
        for (lane, directory) in directories.iter().enumerate() {
            scope.spawn(move || rounds(directory.path(), lane as u64, all.div_ceil(2)));
        }
    });
}
