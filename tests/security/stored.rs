//! Stored sessions that mean harm. Whoever can write a state directory, or sends an exported session, can give every
//! checksum its right value; so these are crafted through the store itself, from what an honest session left.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar::{Error, Policy, Runtimes, Sandbox, SandboxBuilder, Session, SessionId, StoreError, Tenant};
use belljar_engine::{BLOCK, EXTENT, PageRun, SavedChunk, SavedGuest};
use belljar_store::{Facts, Lease, NewSession, Store};
use belljar_tests::{Hostile, builder, text, within};
use serde_json::json;
use tempfile::TempDir;

#[path = "../durability/noise.rs"]
mod noise;

use noise::Noise;

/// Nothing that is kept of a session may make the host use more than this.
const MOST_MEMORY: u64 = 3 << 30;
const LONG: Duration = Duration::from_secs(500);

/// What the honest session leaves: variables, files, open files, cells that can be taken back.
const CELLS: [&str; 4] = [
    "import os, sqlite3\nkeep = 41\nopen('notes.txt', 'w').write('n' * 100_000)\nos.makedirs('a/b'); os.symlink('../notes.txt', 'a/link')",
    "handle = open('notes.txt'); handle.read(5); listing = os.scandir('.'); big = bytearray(300_000)",
    "database = sqlite3.connect('d.db'); database.execute('create table t (x)')\nopen('a/b/more', 'w').write('more')",
    "big[::4096] = b'x' * len(big[::4096]); os.rename('a/b/more', 'moved')",
];

/// What somebody does who woke it, unaware.
const USES: [&str; 5] = [
    "keep",
    "[(at, names, files) for at, names, files in os.walk('/') if not at.startswith(('/python', '/usr'))][:50]",
    "handle.read(10), open('a/link').read(3), list(listing), database.execute('select * from t').fetchall()",
    "open('fresh', 'w').write('y' * 200_000), os.remove('notes.txt'), big.extend(bytes(100_000))",
    "[open(path).read() for path in ('/etc/passwd', '/proc/self/environ', '../../../etc/passwd') if os.path.exists(path)]",
];

fn keeping(state: &Path) -> SandboxBuilder {
    let policy = Policy { memory: 96 << 20, ..Hostile::policy() };
    builder().policy(policy).state_dir(state).wait(Duration::from_secs(30))
}

fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// An honest session, and a place to put its twins.
struct Forge {
    state: TempDir,
    store: Store,
    sandbox: Sandbox,
    neighbour: Session,
    honest: SavedGuest,
    policy: serde_json::Value,
}

impl Forge {
    fn new() -> Self {
        let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let sandbox = keeping(state.path()).build_blocking().unwrap();
        let session = sandbox.create_blocking(Some("honest")).unwrap();
        for cell in CELLS {
            assert_eq!(session.run_blocking(cell).unwrap().status, belljar::Status::Ok);
        }
        session.hibernate_blocking().unwrap();
        let store = Store::open(state.path()).unwrap();
        let lease = acquire(&store, "honest");
        let honest = lease.load().unwrap().unwrap().guest;
        let policy = lease.record().policy.clone();
        let neighbour = sandbox.session_blocking().unwrap();
        neighbour.run_blocking("other = 7").unwrap();
        Self { state, store, sandbox, neighbour, honest, policy }
    }

    fn create(&self, name: &str) -> Lease {
        let environment = self.honest.environment.clone();
        let policy = self.policy.clone();
        let new = NewSession { id: Some(id(name)), environment, policy, ..NewSession::default() };
        self.store.create(&Tenant::local(), new).unwrap()
    }

    /// Stores a crafted guest. What the store refuses can't be stored by anybody who goes through it.
    fn put(&self, crafted: &SavedGuest) -> Result<(), StoreError> {
        let mut lease = self.create("crafted");
        match lease.commit(crafted, Facts::default()) {
            Ok(_) => Ok(()),
            Err(error) => {
                lease.close().unwrap();
                Err(error)
            }
        }
    }

    /// Stores a crafted guest and uses it, and then the file that it is exported to. The host must live.
    fn suffer(&self, crafted: &SavedGuest, exported: bool) -> &'static str {
        match self.put(crafted) {
            Err(StoreError::Unfit { .. }) => return "unfit",
            result => result.unwrap(),
        }
        let registry = self.sandbox.registry().unwrap();
        if exported {
            let parcel = self.state.path().join("parcel");
            let imported = registry
                .export("crafted", &parcel)
                .and_then(|_| registry.import(&parcel, Some("imported"), &Runtimes::default()));
            if answered(imported) {
                self.use_it("imported");
                registry.close("imported").unwrap();
            }
        }
        let fate = self.use_it("crafted");
        registry.close("crafted").unwrap();
        fate
    }

    fn use_it(&self, name: &str) -> &'static str {
        let session = self.sandbox.open_blocking(name).unwrap();
        let woken = answered(session.wake_blocking());
        let mut fate = if woken { "broken" } else { "refused" };
        for (number, code) in USES.iter().enumerate() {
            let Ok(outcome) = session.run_blocking(*code) else { continue };
            let said = outcome.value.map(|value| value.text);
            if number == 0 && said.as_deref() == Some("41") {
                fate = "usable";
            }
            let shown = said.unwrap_or_default() + &outcome.stdout;
            assert!(!shown.contains("root:") && !shown.contains("PATH="), "files of the host are seen");
        }
        answered(session.undoable_blocking());
        answered(session.undo_blocking(1));
        answered(session.run_blocking("keep"));
        answered(session.undo_blocking(3));
        answered(session.checkpoint_blocking(Some("point")));
        answered(session.fork_blocking(1).map(|children| {
            for child in children {
                answered(child.run_blocking("keep"));
                child.close_blocking().unwrap();
            }
        }));
        answered(session.run_blocking("keep = 5"));
        answered(session.rollback_blocking("point"));
        answered(session.hibernate_blocking());
        answered(session.run_blocking("keep"));
        fate
    }

    fn assert_sound(&self) {
        assert_eq!(text(&self.neighbour, "other"), "7");
        let session = self.sandbox.open_blocking("honest").unwrap();
        assert_eq!(text(&session, "keep"), "41");
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
        assert!(peak << 10 < MOST_MEMORY, "the host had {peak} kB in memory");
    }
}

fn acquire(store: &Store, name: &str) -> Lease {
    store.acquire(&Tenant::local(), &id(name), Duration::from_secs(30), &|| false).unwrap()
}

/// Everything but a defect of Belljar is an answer.
fn answered<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(error @ (Error::Abandoned | Error::Make(_))) => panic!("{error}"),
        Err(_) => false,
    }
}

/// Says which case is next, for the one that fails; and at the end what became of all.
#[derive(Default)]
struct Count(std::collections::BTreeMap<&'static str, u32>);

#[expect(clippy::print_stderr, reason = "for those who look")]
impl Count {
    fn case(&mut self, name: &str, run: impl FnOnce() -> &'static str) {
        eprintln!("{name}");
        *self.0.entry(run()).or_default() += 1;
    }

    fn tell(&self) {
        eprintln!("{:?}", self.0);
    }
}

fn mutate(bytes: &[u8], noise: &mut Noise) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=noise.below(3) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = noise.below(bytes.len());
        let end = (at + 1 + noise.below(12)).min(bytes.len());
        match noise.below(10) {
            0..=2 => bytes[at] ^= 1 << noise.below(8),
            3 => bytes[at] = noise.next() as u8,
            // Lengths and numbers that are as large as they can be.
            4 | 5 => {
                let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
                let digits = [1, 2, 4, 5, 9, 10][noise.below(6)];
                bytes.splice(at..(at + 1), huge[10 - digits..].iter().copied());
            }
            6 => bytes.truncate(at),
            7 => drop(bytes.drain(at..end)),
            8 => {
                let count = 1 + noise.below(20);
                bytes.splice(at..at, noise.bytes(count));
            }
            _ => {
                let part = bytes[at..end].to_vec();
                let to = noise.below(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

/// Crafts so many guests, or more in `cargo xtask heavy`.
fn fuzz(cases: u64, change: fn(&mut SavedGuest, &mut Noise)) {
    let cases = if std::env::var_os("BELLJAR_HEAVY").is_some() { cases * 5 } else { cases };
    within(LONG, move || {
        let forge = Forge::new();
        let mut count = Count::default();
        for seed in 0..cases {
            let mut crafted = forge.honest.clone();
            change(&mut crafted, &mut Noise::new(seed));
            count.case(&format!("seed {seed}"), || forge.suffer(&crafted, seed % 8 == 0));
        }
        forge.assert_sound();
        count.tell();
    });
}

#[test]
fn mutated_state() {
    fuzz(80, |crafted, noise| crafted.state = mutate(&crafted.state, noise));
}

#[test]
fn mutated_undo() {
    fuzz(80, |crafted, noise| crafted.undo = mutate(&crafted.undo, noise));
}

/// Every byte of the state may be a length: none may be believed before there is as much.
#[test]
fn huge_lengths() {
    within(LONG, || {
        let forge = Forge::new();
        let mut lease = Some(forge.create("crafted"));
        let mut wake = |crafted: SavedGuest| {
            if let Some(mut lease) = lease.take() {
                lease.commit(&crafted, Facts::default()).unwrap();
            }
            let session = forge.sandbox.open_blocking("crafted").unwrap();
            if answered(session.wake_blocking()) {
                answered(session.undoable_blocking());
            }
            answered(session.hibernate_blocking());
            lease = Some(acquire(&forge.store, "crafted"));
        };
        let huge: [&[u8]; 3] = [
            &[0xff, 0xff, 0xff, 0x7f],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ];
        for at in 0..forge.honest.state.len() {
            let mut crafted = forge.honest.clone();
            crafted.state.splice(at..=at, huge[at % 3].iter().copied());
            wake(crafted);
        }
        for at in 0..forge.honest.undo.len().min(1500) {
            let mut crafted = forge.honest.clone();
            crafted.undo.splice(at..=at, huge[at % 3].iter().copied());
            wake(crafted);
        }
        forge.assert_sound();
    });
}

/// The files of the session in other chunks than its state means.
#[test]
fn mutated_chunks() {
    fuzz(80, |crafted, noise| {
        let chunk = |bytes: Vec<u8>| SavedChunk { bytes: Arc::new(bytes), tag: Arc::default() };
        let chunks = &mut crafted.chunks;
        let at = noise.below(chunks.len());
        match noise.below(6) {
            0 => chunks.truncate(at),
            1 => drop(chunks.remove(at)),
            2 => chunks.extend((0..2000).map(|number| chunk(vec![number as u8; 3]))),
            3 => chunks.swap(0, at),
            4 => chunks[at] = chunk(noise.bytes(EXTENT as usize)),
            _ => chunks[at] = chunk(Vec::new()),
        }
    });
}

/// A memory file with noise in some of its blocks.
fn noisy(crafted: &mut SavedGuest, noise: &mut Noise, one_in: usize) {
    let mut memory = tempfile::tempfile().unwrap();
    let mut runs = Vec::new();
    let mut offset = 0;
    for run in &crafted.memory.runs {
        let mut bytes = vec![0; run.length as usize];
        run.file.read_exact_at(&mut bytes, run.offset).unwrap();
        for block in bytes.chunks_mut(BLOCK as usize) {
            if noise.below(one_in) == 0 {
                let at = noise.below(block.len() / 64) * 64;
                let fresh = noise.bytes(64);
                block[at..at + 64].copy_from_slice(&fresh);
            }
        }
        memory.write_all(&bytes).unwrap();
        runs.push((run.start, run.length, offset));
        offset += run.length;
    }
    let file = Arc::new(memory);
    let run = |(start, length, offset)| PageRun { start, length, file: Arc::clone(&file), offset };
    crafted.memory.runs = runs.into_iter().map(run).collect();
    crafted.memory.known = None;
}

#[test]
fn noise_in_memory() {
    fuzz(60, |crafted, noise| {
        let one_in = [1, 4, 40, 400][noise.below(4)];
        noisy(crafted, noise, one_in);
    });
}

/// Memory that isn't where it should be, of sizes that can't be.
#[test]
fn odd_memory() {
    within(LONG, || {
        let forge = Forge::new();
        let mut count = Count::default();
        let mut case = |name: &str, change: &dyn Fn(&mut SavedGuest)| {
            let mut crafted = forge.honest.clone();
            crafted.memory.known = None;
            change(&mut crafted);
            count.case(name, || forge.suffer(&crafted, true));
        };
        let short = || Arc::new(tempfile::tempfile().unwrap());
        case("no pages at all", &|crafted| crafted.memory.runs.clear());
        case("in the wrong order", &|crafted| crafted.memory.runs.reverse());
        case("twice", &|crafted| {
            let first = crafted.memory.runs[0].clone();
            crafted.memory.runs.insert(0, first);
        });
        case("overlapping", &|crafted| crafted.memory.runs[0].length += EXTENT);
        case("in each other's place", &|crafted| {
            let (one, other) = (crafted.memory.runs[0].offset, crafted.memory.runs[1].offset);
            (crafted.memory.runs[0].offset, crafted.memory.runs[1].offset) = (other, one);
        });
        for length in [0, 1, BLOCK - 1, u64::MAX, u64::MAX - BLOCK + 1, 1 << 62, 8 << 30] {
            case(&format!("a run of {length} bytes"), &|crafted| {
                let last = crafted.memory.runs.last_mut().unwrap();
                last.length = length;
            });
        }
        for start in [1, BLOCK / 2, 4 << 30, u64::MAX - BLOCK + 1, 1 << 63] {
            case(&format!("a run at {start}"), &|crafted| {
                crafted.memory.runs.last_mut().unwrap().start = start;
            });
        }
        for offset in [1, 1 << 40, u64::MAX, u64::MAX - BLOCK + 1] {
            case(&format!("a run from {offset} of its file"), &|crafted| {
                crafted.memory.runs.last_mut().unwrap().offset = offset;
            });
        }
        case("a file that is too short", &|crafted| crafted.memory.runs[0].file = short());
        case("a directory instead of a file", &|crafted| {
            crafted.memory.runs[0].file = Arc::new(File::open("/").unwrap());
        });
        let honest = forge.honest.memory.length;
        let wasm_page = 64 << 10;
        let lengths = [0, BLOCK, wasm_page, honest - wasm_page, honest + BLOCK, honest + wasm_page]
            .into_iter()
            .chain([
                95 << 20,
                97 << 20,
                1 << 30,
                (4 << 30) - wasm_page,
                4 << 30,
                (4 << 30) + wasm_page,
                u64::MAX,
            ]);
        for length in lengths {
            case(&format!("a memory of {length} bytes"), &|crafted| crafted.memory.length = length);
            case(&format!("an empty memory of {length} bytes"), &|crafted| {
                crafted.memory.length = length;
                crafted.memory.runs.clear();
            });
        }
        case("a full memory of 4 GiB", &|crafted| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 20).unwrap();
            let file = Arc::new(file);
            crafted.memory.length = 4 << 30;
            let run = |start| PageRun { start, length: 1 << 20, file: Arc::clone(&file), offset: 0 };
            crafted.memory.runs = (64..192).map(|number| run(number << 20)).collect();
        });
        for environment in ["", "x", "../../../etc", "a/b", "\0", &"x".repeat(2 << 20)] {
            case(
                &format!("the environment {:?}", environment.get(..20).unwrap_or(environment)),
                &|crafted| {
                    crafted.environment = environment.to_owned();
                },
            );
        }
        case("a lot of state", &|crafted| crafted.state.resize(200 << 20, 0xff));
        case("a lot to undo", &|crafted| crafted.undo = vec![0x80; 50 << 20]);
        case("nothing", &|crafted| {
            (crafted.state, crafted.undo) = (Vec::new(), Vec::new());
            crafted.chunks.clear();
            crafted.memory.runs.clear();
        });
        forge.assert_sound();
        count.tell();
    });
}

/// Memory is what a policy allows, however much a stored session says that it has: this one has a `bytearray` of
/// a gigabyte that nobody ever allocated.
#[test]
fn more_memory_than_allowed() {
    const SIZE: u32 = 300_007;
    const CRAFTED: u32 = 1 << 30;
    within(LONG, || {
        let state = tempfile::tempdir().unwrap();
        let sandbox = keeping(state.path()).build_blocking().unwrap();
        let session = sandbox.create_blocking(Some("s")).unwrap();
        session.run_blocking(format!("big = bytearray({SIZE}); import os")).unwrap();
        session.hibernate_blocking().unwrap();
        let store = Store::open(state.path()).unwrap();
        let mut lease = acquire(&store, "s");
        let mut crafted = lease.load().unwrap().unwrap().guest;
        let memory = tempfile::tempfile().unwrap();
        let mut found = 0;
        for run in &mut crafted.memory.runs {
            let mut bytes = vec![0; run.length as usize];
            run.file.read_exact_at(&mut bytes, run.offset).unwrap();
            let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            for at in (0..bytes.len().saturating_sub(16)).step_by(4) {
                // Its size, what is allocated, where that begins, where it begins itself.
                let words: Vec<u32> = (0..4).map(|index| word(&bytes, at + 4 * index)).collect();
                if words[0] == SIZE && words[1] > SIZE && words[2] == words[3] {
                    for (index, value) in [CRAFTED, CRAFTED + 1, 1 << 28, 1 << 28].into_iter().enumerate() {
                        bytes[at + 4 * index..][..4].copy_from_slice(&value.to_le_bytes());
                    }
                    found += 1;
                }
            }
            memory.write_all_at(&bytes, run.start).unwrap();
            run.offset = run.start;
        }
        assert!(found > 0, "bytearrays look different by now");
        let memory = Arc::new(memory);
        crafted.memory.runs.iter_mut().for_each(|run| run.file = Arc::clone(&memory));
        crafted.memory.length = 4 << 30;
        crafted.memory.known = None;
        lease.commit(&crafted, Facts::default()).unwrap();
        drop(lease);
        let session = sandbox.open_blocking("s").unwrap();
        if answered(session.wake_blocking()) {
            answered(session.run_blocking("for at in range(0, len(big), 4096): big[at] = 1"));
            let used = session.private_memory_blocking();
            assert!(used < 128 << 20, "it has {} MiB and may have 96", used >> 20);
        }
    });
}

/// A recorded policy that nobody could have set.
#[test]
fn odd_policies() {
    within(LONG, || {
        let forge = Forge::new();
        let registry = forge.sandbox.registry().unwrap();
        let most = u64::MAX;
        let policies = [
            json!(null),
            json!("everything"),
            json!([1, 2]),
            json!({ "network": true }),
            json!({ "memory": -1 }),
            json!({ "memory": 1e300 }),
            json!({ "memory": most }),
            json!({ "memory": 0 }),
            json!({ "timeout": { "secs": most, "nanos": 4_294_967_295_u32 } }),
            json!({ "timeout": { "secs": most, "nanos": 0 } }),
            json!({ "timeout": { "secs": 0, "nanos": 0 } }),
            json!({ "tool_timeout": { "secs": most, "nanos": 0 } }),
            json!({ "output": most, "display_bytes": most, "tool_bytes": most, "tool_calls": most }),
            json!({ "output": 0, "display_bytes": 0, "tool_bytes": 0, "tool_calls": 0 }),
            json!({ "file_bytes": most, "file_count": most }),
            json!({ "file_bytes": 0, "file_count": 0 }),
            json!({ "undo": most }),
            json!({ "env": { "A=B": "x" } }),
            json!({ "env": { "A": "x\u{0}y" } }),
            json!({ "mounts": [{ "host": "/", "guest": "/", "access": "read_only" }] }),
            json!({ "mounts": [{ "host": "/nowhere", "guest": "/data", "access": "read_only" }] }),
        ];
        for policy in policies {
            let environment = forge.honest.environment.clone();
            let new = NewSession {
                id: Some(id("crafted")),
                environment,
                policy: policy.clone(),
                ..NewSession::default()
            };
            let mut lease = forge.store.create(&Tenant::local(), new).unwrap();
            lease.commit(&forge.honest, Facts::default()).unwrap();
            drop(lease);
            assert_eq!(registry.session("crafted").unwrap().id.as_str(), "crafted");
            let parcel = forge.state.path().join("parcel");
            registry.export("crafted", &parcel).unwrap();
            registry.import(&parcel, Some("imported"), &Runtimes::default()).unwrap();
            for name in ["crafted", "imported"] {
                let Ok(session) = forge.sandbox.open_blocking(name) else { continue };
                for code in USES {
                    answered(session.run_blocking(code));
                }
                answered(session.undo_blocking(2));
                answered(session.hibernate_blocking());
            }
            for name in ["crafted", "imported"] {
                registry.close(name).unwrap();
            }
        }
        forge.assert_sound();
    });
}

/// A directory that a session may see, a file in it, and a secret beside it.
fn shared_directory() -> TempDir {
    let host = tempfile::tempdir().unwrap();
    fs::create_dir(host.path().join("shared")).unwrap();
    fs::write(host.path().join("shared/inside.txt"), "may be seen").unwrap();
    fs::write(host.path().join("secret.txt"), "secret").unwrap();
    host
}

/// A session with an open file of the host, asleep.
fn with_host_file(state: &Path, host: &Path) {
    let sandbox = keeping(state).mount_writable(host.join("shared"), "/data/in").build_blocking().unwrap();
    let session = sandbox.create_blocking(Some("s")).unwrap();
    session.run_blocking("import os; file = open('/data/in/inside.txt', 'r+'); file.read(1)").unwrap();
    assert_eq!(text(&session, "file.read(2)"), "'ay'");
    session.hibernate_blocking().unwrap();
}

#[test]
fn an_imported_session_has_no_files_of_the_host() {
    let (state, host) = (tempfile::tempdir().unwrap(), shared_directory());
    with_host_file(state.path(), host.path());
    let sandbox = keeping(state.path()).build_blocking().unwrap();
    let registry = sandbox.registry().unwrap();
    let parcel = state.path().join("parcel");
    registry.export("s", &parcel).unwrap();
    let imported = registry.import(&parcel, Some("imported"), &Runtimes::default()).unwrap();
    assert_eq!(imported.dropped_mounts, ["/data/in"]);
    let recorded = serde_json::to_value(registry.session("imported").unwrap()).unwrap();
    assert_eq!(recorded["policy"]["mounts"], json!([]));
    let session = sandbox.open_blocking("imported").unwrap();
    for code in [
        "file.read()",
        "open('/data/in/inside.txt').read()",
        "os.listdir('/data/in')",
        "os.stat('/data/in/inside.txt').st_size",
        "file.seek(0); file.write('changed'); file.flush()",
        "open('/data/in/new.txt', 'w').write('new')",
        "os.rename('/data/in/inside.txt', '/data/in/other.txt')",
        "os.remove('/data/in/inside.txt')",
    ] {
        if let Ok(outcome) = session.run_blocking(code) {
            let shown = format!("{:?} {}", outcome.value, outcome.stdout);
            assert!(
                !shown.contains("seen") && !shown.contains("inside") && !shown.contains("11"),
                "{code}: {shown}"
            );
        }
    }
    answered(session.undo_blocking(1));
    answered(session.hibernate_blocking());
    drop(session);
    assert_eq!(fs::read_to_string(host.path().join("shared/inside.txt")).unwrap(), "may be seen");
    assert_eq!(fs::read_dir(host.path().join("shared")).unwrap().count(), 1);
    // The one that it was made of has its own still.
    let session = sandbox.open_blocking("s").unwrap();
    assert_eq!(text(&session, "file.seek(0); file.read()"), "'may be seen'");
}

/// What is kept of an open file names another one: outside of the mount it isn't found.
#[test]
fn a_crafted_open_file_leads_nowhere() {
    for replacement in ["../secret.txt", "/etc/hostname", "../../../../../../../etc/hostname", ".."] {
        for path in ["inside.txt", "data/in"] {
            let (state, host) = (tempfile::tempdir().unwrap(), shared_directory());
            with_host_file(state.path(), host.path());
            let store = Store::open(state.path()).unwrap();
            let mut lease = acquire(&store, "s");
            let mut crafted = lease.load().unwrap().unwrap().guest;
            for bytes in [&mut crafted.state, &mut crafted.undo] {
                *bytes = replace_strings(bytes, path, replacement);
            }
            lease.commit(&crafted, Facts::default()).unwrap();
            drop(lease);
            let sandbox = keeping(state.path()).build_blocking().unwrap();
            let session = sandbox.open_blocking("s").unwrap();
            for code in [
                "file.seek(0); file.read()",
                "[os.path.join(at, name) for at, _, names in os.walk('/data') for name in names]",
                "[open(os.path.join(at, name)).read() for at, _, names in os.walk('/data') for name in names]",
            ] {
                if let Ok(outcome) = session.run_blocking(code) {
                    let shown = format!("{:?} {}", outcome.value, outcome.stdout);
                    let name = fs::read_to_string("/etc/hostname").unwrap_or_default();
                    assert!(!shown.contains("secret"), "{shown}");
                    assert!(name.trim().len() < 3 || !shown.contains(name.trim()), "{shown}");
                }
            }
            answered(session.undo_blocking(1));
            assert_eq!(fs::read_to_string(host.path().join("secret.txt")).unwrap(), "secret");
        }
    }
}

/// Strings are kept with their length, which is one byte if they are short.
fn replace_strings(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let with_length = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let (from, to) = (with_length(from), with_length(to));
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest.starts_with(&from) {
            result.extend(&to);
            rest = &rest[from.len()..];
        } else {
            result.push(rest[0]);
            rest = &rest[1..];
        }
    }
    result
}
