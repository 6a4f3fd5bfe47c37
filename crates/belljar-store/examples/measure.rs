//! Prints what saving, loading and listing cost here: `cargo run --release -p belljar-store --example measure [directory]`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people at a terminal")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_engine::{BLOCK, EXTENT, Known, PageRun, SavedGuest, SavedMemory};
use belljar_store::{Facts, NewSession, SessionId, Store, Tenant};

const MANY: u64 = 64 << 20;

fn main() {
    let parent = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".to_owned());
    let directory = tempfile::tempdir_in(parent).unwrap();
    let store = Store::open(directory.path().join("state")).unwrap();
    fsyncs(directory.path());
    small(&store);
    large(&store, directory.path(), MANY);
    listing(&store);
}

fn fsyncs(directory: &Path) {
    let file = File::create(directory.join("sync")).unwrap();
    let times = (0..50).map(|_| {
        file.write_all_at(&[1; 4096], 0).unwrap();
        time(|| file.sync_data().unwrap())
    });
    print("fdatasync of 4 KiB", times.collect());
    let times = (0..50).map(|number| {
        let path = directory.join(format!("file-{number}"));
        time(|| {
            let file = File::create(&path).unwrap();
            (&file).write_all(&[1; 4096]).unwrap();
            file.sync_data().unwrap();
        })
    });
    print("create, write, fdatasync", times.collect());
}

fn small(store: &Store) {
    let tenant = Tenant::local();
    let mut lease = store.create(&tenant, NewSession::default()).unwrap();
    let memory = noise(64 * EXTENT, 1);
    // A hundred blocks, scattered over 64 extents.
    let blocks: Vec<u64> = (0..100).map(|number| number * 10).collect();
    let runs = blocks.iter().map(|block| run(&memory, block * BLOCK, BLOCK)).collect();
    let mut guest = guest(64 * EXTENT, runs);
    let mut tag = lease.commit(&guest, Facts::default()).unwrap();
    let mut times = Vec::new();
    for round in 0..50 {
        let other = noise(64 * EXTENT, 2 + round);
        guest.memory.runs = blocks.iter().map(|block| run(&other, block * BLOCK, BLOCK)).collect();
        let changed = (0..64).collect();
        guest.memory.known = Some(Known { tag: tag.clone(), changed });
        let start = Instant::now();
        tag = lease.commit(&guest, Facts::default()).unwrap();
        times.push(start.elapsed());
    }
    print("commit, 100 scattered blocks", times);
    let id = lease.id().clone();
    drop(lease);
    let mut acquires = Vec::new();
    let times = (0..200).map(|_| {
        let start = Instant::now();
        let lease = store.acquire(&tenant, &id, Duration::ZERO, &|| false).unwrap();
        acquires.push(start.elapsed());
        lease.load().unwrap().unwrap();
        start.elapsed()
    });
    print("acquire and load, small", times.collect());
    print("  of which acquire", acquires);
}

fn large(store: &Store, directory: &Path, length: u64) {
    let tenant = Tenant::local();
    let megabytes = length as f64 / 1e6;
    let (mut commits, mut plains) = (Vec::new(), Vec::new());
    let mut id = SessionId::generate();
    for round in 0..5 {
        let memory = noise(length, 99 + round);
        let mut bytes = vec![0; length as usize];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        let path = directory.join("plain");
        let plain = time(|| {
            let file = File::create(&path).unwrap();
            for part in bytes.chunks(1 << 20) {
                (&file).write_all(part).unwrap();
            }
            file.sync_data().unwrap();
        });
        std::fs::remove_file(path).unwrap();
        plains.push(plain);
        let mut lease = store.create(&tenant, NewSession::default()).unwrap();
        id = lease.id().clone();
        let guest = guest(length, vec![run(&memory, 0, length)]);
        let start = Instant::now();
        lease.commit(&guest, Facts::default()).unwrap();
        commits.push(start.elapsed());
    }
    print("64 MiB, plain write and fdatasync", plains);
    print("64 MiB, commit", commits);
    let load = || {
        let lease = store.acquire(&tenant, &id, Duration::ZERO, &|| false).unwrap();
        let start = Instant::now();
        let loaded = lease.load().unwrap().unwrap();
        (start.elapsed(), loaded)
    };
    print("64 MiB, hot load", (0..20).map(|_| load().0).collect());
    let (_, loaded) = load();
    println!("  in {} runs", loaded.guest.memory.runs.len());
    let verify = time(|| loaded.unverified.verify().unwrap());
    println!("  verify: {:.0} MB/s", megabytes / verify.as_secs_f64());

    // Something that compresses like memory does: half of it noise.
    let mut lease = store.create(&tenant, NewSession::default()).unwrap();
    id = lease.id().clone();
    let memory = half_noise(length);
    lease.commit(&guest(length, vec![run(&memory, 0, length)]), Facts::default()).unwrap();
    drop(lease);
    let cooling = Instant::now();
    let cooled = store.cool(&tenant, Duration::ZERO).unwrap();
    println!(
        "cool: {} packs, {} MB freed, {:?}",
        cooled.packs,
        cooled.freed_bytes / 1_000_000,
        cooling.elapsed()
    );
    for _ in 0..5 {
        let lease = store.acquire(&tenant, &id, Duration::ZERO, &|| false).unwrap();
        let start = Instant::now();
        let loaded = lease.load().unwrap().unwrap();
        let took = start.elapsed();
        assert!(loaded.unverified.is_empty());
        println!("64 MiB, cold load, half noise: {took:?}, {:.0} MB/s", megabytes / took.as_secs_f64());
    }
}

fn listing(store: &Store) {
    let tenant = Tenant::parse("many").unwrap();
    let memory = noise(EXTENT, 5);
    let policy = serde_json::json!({
        "memory": 536_870_912, "wall_ms": 30_000, "network": "none", "rollback": "on_kill",
        "mounts": [{"host": "/srv/data", "guest": "/data", "write": false}], "tools": ["search", "fetch"],
    });
    for number in 0..2000 {
        let id = SessionId::parse(&format!("session-{number}")).unwrap();
        let new = NewSession { id: Some(id), policy: policy.clone(), ..NewSession::default() };
        let mut lease = store.create(&tenant, new).unwrap();
        if number % 10 == 0 {
            lease.commit(&guest(EXTENT, vec![run(&memory, 0, BLOCK)]), Facts::default()).unwrap();
        }
    }
    let times = (0..20).map(|_| time(|| assert_eq!(store.sessions(&tenant).unwrap().sessions.len(), 2000)));
    print("list of 2,000 sessions", times.collect());
    let collect = time(|| assert!(store.collect().is_ok()));
    println!("collect with 2,000 sessions: {collect:?}");
}

fn guest(length: u64, runs: Vec<PageRun>) -> SavedGuest {
    SavedGuest {
        environment: "0123456789abcdef".to_owned(),
        state: vec![1; 20_000],
        undo: vec![2; 20_000],
        memory: SavedMemory { length, runs, known: None },
        chunks: Vec::new(),
    }
}

fn run(file: &Arc<File>, start: u64, length: u64) -> PageRun {
    PageRun { start, length, file: file.clone(), offset: start }
}

fn noise(length: u64, seed: u64) -> Arc<File> {
    let mut bytes = vec![0; length as usize];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    in_memory(&bytes)
}

fn half_noise(length: u64) -> Arc<File> {
    let mut bytes = vec![0; length as usize];
    let mut noise = blake3::Hasher::new().finalize_xof();
    for part in bytes.chunks_mut(64) {
        noise.fill(&mut part[..32]);
    }
    in_memory(&bytes)
}

fn in_memory(bytes: &[u8]) -> Arc<File> {
    let file = File::from(rustix::fs::memfd_create("noise", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    (&file).write_all(bytes).unwrap();
    Arc::new(file)
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!(
        "{what}: median {:?}, best {:?}, worst {:?}",
        times[times.len() / 2],
        times[0],
        times[times.len() - 1]
    );
}
