//! What was kept of a session is the attacker's: it is believed nowhere, and runs nowhere but in the jail.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use belljar_engine::{BLOCK, Descent, Engine, GuestSpec, PageRun, SavedChunk, SavedGuest, SavedMemory};

use crate::{Session, engine, within};

impl Session {
    fn keep(&mut self) -> SavedGuest {
        self.on_guest("keeping", |guest| guest.snapshot().unwrap().save().unwrap())
    }
}

fn spec() -> Arc<GuestSpec> {
    let mut spec = GuestSpec::default();
    spec.limits.memory = 512 << 20;
    Arc::new(spec)
}

/// Wakes a session; whatever is wrong with it is an error.
fn wake(saved: SavedGuest) -> Result<Session, belljar_engine::EngineError> {
    within("waking", move || {
        let snapshot = engine().restore(saved)?;
        let guest = engine().resume(snapshot.as_ref(), spec(), Descent::Same)?;
        Ok(Session { guest: Some(guest), number: 100 })
    })
}

/// A memory that is these bytes.
fn memory(bytes: &[u8]) -> SavedMemory {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let length = (bytes.len() as u64).next_multiple_of(BLOCK);
    file.set_len(length).unwrap();
    file.rewind().unwrap();
    SavedMemory {
        length,
        runs: vec![PageRun { start: 0, length, file: Arc::new(file), offset: 0 }],
        known: None,
    }
}

fn bytes_of(saved: &SavedGuest) -> Vec<u8> {
    let run = &saved.memory.runs[0];
    let mut bytes = vec![0; run.length as usize];
    run.file.read_exact_at(&mut bytes, run.offset).unwrap();
    bytes
}

/// Numbers that look random enough.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as u8
    };
    (0..length).map(|_| next(&mut state)).collect()
}

#[test]
fn what_was_kept_wakes() {
    let mut session = Session::new();
    session.check("open('file', 'w').write('contents')");
    let saved = session.keep();
    let mut woken = wake(saved).unwrap();
    assert_eq!(woken.value("kept, open('file').read()"), "(41, 'contents')");
}

/// Code in a state runs when it is read, and only where it may: in the jail.
#[test]
fn a_pickle_that_runs_commands() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let mut session = Session::new();
    session.check(&format!(
        r#"
class Evil:
    def __reduce__(self):
        return (exec, ("""import os
for p in ({mark:?}, '/tmp/belljar-evil', '/workspace/evil'):
    os.system('id > ' + p + '; cat /etc/shadow >> ' + p)""",))
evil = Evil()
"#,
        mark = mark.to_str().unwrap()
    ));
    let saved = session.keep();
    if let Ok(mut woken) = wake(saved) {
        woken.check("import os\nfor p in ('/tmp/belljar-evil', '/workspace/evil'):\n    assert not os.path.exists(p) or 'uid=1000' in open(p).read() and 'root:' not in open(p).read()");
        assert_eq!(woken.value("6 * 7"), "42");
    }
    assert!(
        !mark.exists()
            && !std::path::Path::new("/tmp/belljar-evil").exists()
            && !std::path::Path::new("/workspace/evil").exists()
    );
    session.survives();
}

/// A pickle that never ends, or ends the interpreter, costs whoever wakes it an error.
#[test]
fn a_pickle_that_breaks_the_interpreter() {
    for code in [
        "import os; os._exit(0)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os.write(3, b'x' * 100)",
        "raise SystemExit",
        "import os; os.close(3)",
    ] {
        let mut session = Session::new();
        session.check(&format!(
            "class Evil:\n    def __reduce__(self): return (exec, ({code:?},))\nevil = Evil()"
        ));
        // The test of whether it can be read may be the end of it already.
        let saved =
            session.on_guest("keeping", |guest| guest.snapshot().and_then(|snapshot| snapshot.save()));
        if let Ok(mut woken) = saved.and_then(wake) {
            assert_eq!(woken.value("6 * 7"), "42", "{code}");
        }
        session.survives();
    }
}

#[test]
fn garbage_wakes_nobody() {
    let mut session = Session::new();
    session
        .check("open('file', 'w').write('contents' * 20_000); os.makedirs('a/b'); os.symlink('x', 'a/link')");
    let saved = session.keep();
    let good = bytes_of(&saved);
    let mut tries: Vec<(String, SavedGuest)> = Vec::new();
    let mut add = |what: &str, change: &dyn Fn(&mut SavedGuest)| {
        let mut changed = saved.clone();
        change(&mut changed);
        tries.push((what.to_owned(), changed));
    };
    add("no state", &|saved| saved.state.clear());
    add("another environment", &|saved| saved.environment = "other".to_owned());
    add("no chunks", &|saved| saved.chunks.clear());
    add("longer chunks", &|saved| {
        for chunk in &mut saved.chunks {
            *chunk = SavedChunk { bytes: Arc::new(vec![1; 1 << 20]), tag: Arc::default() };
        }
    });
    add("no runs", &|saved| saved.memory.runs.clear());
    add("no memory", &|saved| saved.memory = SavedMemory { length: 0, runs: Vec::new(), known: None });
    add("a giant", &|saved| saved.memory.length = u64::MAX);
    for (offset, start, length) in [
        (u64::MAX, 0, BLOCK),
        (0, u64::MAX, BLOCK),
        (0, 0, u64::MAX),
        (u64::MAX - 1, 1, u64::MAX),
        (1 << 63, 0, 1 << 63),
    ] {
        add("runs beyond all", &|saved| {
            let run = &mut saved.memory.runs[0];
            (run.offset, run.start, run.length) = (offset, start, length);
        });
    }
    add("a file that can't be read", &|saved| saved.memory.runs[0].file = Arc::new(File::open("/").unwrap()));
    for seed in 1..60 {
        add("bits of the state", &|saved| {
            for byte in noise(seed, 4).chunks(2) {
                let place = usize::from(byte[0]) * saved.state.len() / 256;
                saved.state[place] = byte[1];
            }
        });
        add("a state cut short", &|saved| saved.state.truncate(saved.state.len() * seed as usize / 60));
    }
    for seed in 1..9 {
        add("bits of the memory", &|saved| {
            let mut bytes = good.clone();
            for (place, byte) in noise(seed, 64).into_iter().enumerate() {
                let at = (place * bytes.len() / 64 + usize::from(byte)) % bytes.len();
                bytes[at] ^= byte;
            }
            saved.memory = memory(&bytes);
        });
        add("noise", &|saved| {
            saved.state = noise(seed, 200);
            saved.memory = memory(&noise(seed, 20_000));
        });
        add("noise for a memory", &|saved| saved.memory = memory(&noise(seed, good.len())));
    }
    for (what, changed) in tries {
        if let Ok(mut woken) = wake(changed) {
            assert_eq!(woken.value("6 * 7"), "42", "{what}");
        }
    }
    session.survives();
}

/// The file that has a kept state never changes, whoever held it when it was written.
#[test]
fn a_kept_state_stays_as_it_is() {
    let mut session = Session::new();
    session.check(
        r#"
class Thief:
    def __reduce__(self):
        for name in os.listdir("/proc/self/fd"):
            try: path = os.readlink("/proc/self/fd/" + name)
            except OSError: continue
            if int(name) > 3 and "/proc" not in path and not path.startswith(("socket:", "pipe:", "anon")):
                held = os.dup(int(name))
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(1.5)
                    try: os.pwrite(held, b"tampered with", 0)
                    except OSError: pass
                    try: os.ftruncate(held, 0)
                    except OSError: pass
                    os.kill(os.getpid(), 9)
                os.close(held)
        return (int, ())
thief = Thief()
"#,
    );
    let saved = session.keep();
    let before = bytes_of(&saved);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let length = saved.memory.runs[0].file.metadata().unwrap().len();
    assert_eq!(length, before.len() as u64, "it was cut");
    assert!(before == bytes_of(&saved), "it was changed");
    session.survives();
}

/// Whoever is asked to write a state writes as much as a session may have, and not more.
#[test]
fn keeping_fills_no_disk() {
    let mut session = Session::new();
    session.check(
        r#"
class Hog:
    def __reduce__(self):
        for name in os.listdir("/proc/self/fd"):
            try: path = os.readlink("/proc/self/fd/" + name)
            except OSError: continue
            if int(name) > 3 and "/proc" not in path and not path.startswith(("socket:", "pipe:", "anon")):
                try: os.posix_fallocate(int(name), 0, 1 << 30)
                except OSError: pass
        return (int, ())
hog = Hog()
"#,
    );
    use std::os::unix::fs::MetadataExt;
    let saved = session.on_guest("keeping", |guest| guest.snapshot().unwrap().save());
    if let Ok(saved) = saved {
        let blocks = saved.memory.runs[0].file.metadata().unwrap().blocks() * 512;
        assert!(blocks <= 700 << 20, "{} MiB on the host's disk", blocks >> 20);
    }
    session.survives();
}
