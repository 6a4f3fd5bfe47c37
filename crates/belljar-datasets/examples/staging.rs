//! How long it takes to fetch a dataset, and to stage it into many sessions: `measure DIRECTORY [MEGABYTES]`.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use belljar_datasets::{DatasetStore, FetchOptions, NewDataset, Quiet, Shelf, Source};

const SESSIONS: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory to measure in")?);
    let megabytes: u64 = arguments.next().map_or(Ok(500), |text| text.parse())?;
    let source = directory.join("source.parquet");
    let mut file = File::create(&source)?;
    let mut piece = vec![0_u8; 1_000_000];
    for number in 0..megabytes {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&piece)?;
    }
    let store = DatasetStore::open(directory.join("store"));
    let options = FetchOptions::default();
    let dataset = store.add("local", NewDataset::new("big", Source::File { path: source }))?;
    let begun = Instant::now();
    let cached = store.fetch("local", "big", None, &options, &Quiet)?;
    println!("fetched {} bytes from a file in {:?}", cached.size, begun.elapsed());

    let (mut fetching, mut staging) = (Vec::new(), Vec::new());
    for number in 0..SESSIONS {
        let shelf = Shelf::open(directory.join(format!("shelves/{number}")))?;
        let begun = Instant::now();
        let cached = store.fetch("local", "big", None, &options, &Quiet)?;
        fetching.push(begun.elapsed());
        shelf.stage(&cached, &dataset)?;
        staging.push(begun.elapsed());
    }
    show("answered from the cache", fetching);
    show("answered and staged", staging);
    let mut syncing = Vec::new();
    for number in 0..SESSIONS {
        let shelf = Shelf::open(directory.join(format!("shelves/{number}")))?;
        let begun = Instant::now();
        assert!(shelf.sync(&store)?.is_empty());
        syncing.push(begun.elapsed());
    }
    show("synchronised", syncing);
    let found = fs::metadata(&cached.path)?;
    println!("{} names, {} bytes on disk", found.nlink(), found.blocks() * 512);
    Ok(())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!("{what}: median {:?}, slowest {:?}", times[times.len() / 2], times[times.len() - 1]);
}
