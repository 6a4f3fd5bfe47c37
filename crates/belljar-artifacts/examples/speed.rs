//! How fast files are kept in SQLite and a directory. Takes a directory to do it in, and the size of the large file in
//! mebibytes.
#![expect(clippy::print_stdout, reason = "it is what this is for")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar_artifacts::{
    Admission, ArtifactStore, Batch, BlobPlace, Database, NewFile, Origin, StoreLimits, StoreSettings,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let place = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let mebibytes: u64 = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(1024);
    let directory = tempfile::tempdir_in(place)?;
    let directory = directory.path();
    let store = ArtifactStore::open(StoreSettings {
        database: Database::Sqlite(directory.join("artifacts.db")),
        blobs: BlobPlace::Directory(directory.join("blobs")),
        scratch: directory.join("scratch"),
        limits: StoreLimits { session_bytes: None, session_count: None, ..StoreLimits::default() },
    })?;

    for round in 0..5_u32 {
        let files: Vec<Vec<u8>> = (0..1000_u32).map(|number| noise(round * 1000 + number, 10_000)).collect();
        let took = keep(&store, files.iter().map(|bytes| in_memory(bytes)).collect())?;
        println!("1,000 x 10 KB: {:.0}/s ({took:?})", 1000.0 / took.as_secs_f64());
        let took = keep(&store, files.iter().map(|bytes| in_memory(bytes)).collect())?;
        println!("  once more: {:.0}/s ({took:?})", 1000.0 / took.as_secs_f64());
    }
    for round in 0..3 {
        let bytes = noise(77_000, 10_000);
        println!(
            "one of 10 KB, {}: {:?}",
            if round == 0 { "new" } else { "known" },
            keep(&store, vec![in_memory(&bytes)])?
        );
    }
    println!("{}", peak()?);

    let large = directory.join("large");
    let mut file = File::create(&large)?;
    for piece in 0..mebibytes {
        file.write_all(&noise(100_000 + piece as u32, 1 << 20))?;
    }
    file.sync_all()?;
    drop(file);
    let size = mebibytes << 20;
    let rate = |took: Duration| format!("{:.0} MB/s ({took:?})", size as f64 / 1e6 / took.as_secs_f64());
    for round in 0..3 {
        // Otherwise the file's own blob would be there already.
        let bytes = if round == 0 { Vec::new() } else { vec![round] };
        let open = || File::open(&large).map(|file| Box::new(file.chain(bytes.as_slice())) as Box<dyn Read>);
        let file = NewFile { name: "large".into(), open: Box::new(open), size: size + bytes.len() as u64 };
        let took = keep(&store, vec![file])?;
        println!("a large file: {}; {}", rate(took), peak()?);

        let start = Instant::now();
        Command::new("sha256sum").arg(&large).output()?;
        let hashed = start.elapsed();
        Command::new("cp").arg(&large).arg(directory.join("copy")).status()?;
        let copied = start.elapsed() - hashed;
        File::open(directory.join("copy"))?.sync_all()?;
        let synced = start.elapsed() - hashed - copied;
        println!("  sha256sum {hashed:?} + cp {copied:?}: {}; and sync {synced:?}", rate(hashed + copied));
        fs::remove_file(directory.join("copy"))?;
    }
    let open = || File::open(&large).map(|file| Box::new(file) as Box<dyn Read>);
    let took = keep(&store, vec![NewFile { name: "large".into(), open: Box::new(open), size }])?;
    println!("the same again: {}; {}", rate(took), peak()?);
    Ok(())
}

fn keep(store: &ArtifactStore, files: Vec<NewFile<'_>>) -> Result<Duration, Box<dyn Error>> {
    let count = files.len();
    let start = Instant::now();
    let ingested = store.ingest(Batch {
        tenant: "local",
        session: "s",
        cell: 1,
        tool_call: None,
        origin: &Origin::default(),
        cells: &[],
        parents: Vec::new(),
        files,
        admission: &Admission::default(),
    })?;
    let took = start.elapsed();
    if ingested.kept.len() != count {
        return Err(format!("{:?}", ingested.refused).into());
    }
    Ok(took)
}

fn in_memory(bytes: &[u8]) -> NewFile<'_> {
    NewFile { name: "small".into(), open: Box::new(move || Ok(Box::new(bytes))), size: bytes.len() as u64 }
}

fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn peak() -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned())
}
