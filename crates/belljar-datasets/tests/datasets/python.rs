//! Fetchers in Python, run by the host's own interpreter.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_datasets::{Cached, DatasetError, FetchOptions, NewDataset, Source};

use crate::support::{Scratch, TENANT, options, sha256};

fn add(scratch: &Scratch, code: &str) {
    let file = scratch.file("fetcher.py", code.as_bytes());
    let source = Source::Python { file, function: "fetch_dataset".into() };
    scratch.store.add(TENANT, NewDataset::new("sales", source).replace()).unwrap();
}

fn fetch(code: &str) -> (Scratch, Result<Cached, DatasetError>) {
    let scratch = Scratch::new();
    add(&scratch, code);
    let fetched = scratch.fetch_with("sales", &FetchOptions { attempts: 2, ..options() });
    (scratch, fetched)
}

#[test]
fn a_function_returns_bytes_in_any_way_it_likes() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let hash = sha256(&body);
    let make = "import hashlib, io, os\nbody = bytes(n % 251 for n in range(3_000_000))\n";
    for returned in [
        "def fetch_dataset(ds_id): return body",
        "def fetch_dataset(ds_id): return bytearray(body)",
        "def fetch_dataset(ds_id): return memoryview(body)",
        "def fetch_dataset(ds_id): return io.BytesIO(body)",
        "def fetch_dataset(ds_id):\n  for start in range(0, len(body), 700_000): yield body[start:start + 700_000]",
        "def fetch_dataset(ds_id): return (body, hashlib.sha256(body).hexdigest(), 'v7')",
        "def fetch_dataset(ds_id): return ((body[n:n + 999_999] for n in range(0, len(body), 999_999)), None, 'v7')",
        "async def fetch_dataset(ds_id): return body",
        "def fetch_dataset(ds_id):\n  print('this is no data')\n  os.system('echo nor this')\n  return body",
        "def fetch_dataset(ds_id):\n  f = open(__file__ + '.data', 'wb')\n  f.write(body)\n  f.close()\n  return f.name",
        "import pathlib\ndef fetch_dataset(ds_id):\n  f = open(__file__ + '.data', 'wb')\n  f.write(body)\n  f.close()\n  return pathlib.Path(f.name)",
        "def fetch_dataset(ds_id, version=None):\n  assert (ds_id, version) == ('sales', 'latest')\n  return body",
    ] {
        let (scratch, fetched) = fetch(&format!("{make}{returned}\n"));
        let fetched = fetched.unwrap_or_else(|error| panic!("{returned}: {error}"));
        assert_eq!((fetched.size, &fetched.sha256), (3_000_000, &hash), "{returned}");
        assert_eq!(fetched.version, if returned.contains("v7") { "v7" } else { "latest" });
        assert_eq!(scratch.fetch("sales").unwrap().version, fetched.version, "from the cache as well");
    }
    let (_scratch, fetched) = fetch("def fetch_dataset(ds_id): return b''");
    assert_eq!(fetched.unwrap().size, 0);
}

#[test]
fn neighbours_of_the_file_can_be_imported() {
    let scratch = Scratch::new();
    scratch.file("neighbour.py", b"BODY = b'from next door'\n");
    add(&scratch, "import neighbour\ndef fetch_dataset(ds_id): return neighbour.BODY\n");
    assert_eq!(std::fs::read(scratch.fetch("sales").unwrap().path).unwrap(), b"from next door");
    assert!(!scratch.path("__pycache__").exists(), "it leaves nothing beside the operator's files");
}

#[test]
fn a_function_is_held_to_what_it_says() {
    let (scratch, fetched) = fetch("def fetch_dataset(ds_id): return (b'x', '00' * 32, None)");
    assert!(matches!(fetched, Err(DatasetError::Broken { what: "SHA-256", .. })), "{fetched:?}");
    scratch.assert_nothing_was_kept();

    let scratch = Scratch::new();
    let file = scratch.file("fetcher.py", b"def fetch_dataset(ds_id): return (b'x', None, '2')");
    let source = Source::Python { file, function: "fetch_dataset".into() };
    scratch.store.add(TENANT, NewDataset::new("a", source).version("1")).unwrap();
    let error = scratch.fetch("a").unwrap_err();
    assert!(matches!(error, DatasetError::Broken { what: "version", .. }), "{error}");
    scratch.assert_nothing_was_kept();
}

#[test]
fn an_exception_is_told_and_tried_again() {
    let (scratch, fetched) =
        fetch("def fetch_dataset(ds_id): raise RuntimeError('no such dataset: ' + ds_id)");
    let error = fetched.unwrap_err();
    assert!(
        matches!(&error, DatasetError::Failed { reason, attempts: 2, .. }
            if reason.contains("RuntimeError: no such dataset: sales")),
        "{error}"
    );
    scratch.assert_nothing_was_kept();
    // In the middle as well; the second time it works.
    let scratch = Scratch::new();
    let marker = scratch.path("tried");
    add(
        &scratch,
        &format!(
            "import os\ndef fetch_dataset(ds_id):\n  yield b'abc'\n  if not os.path.exists({marker:?}):\n    \
             open({marker:?}, 'w').close()\n    raise OSError('a hiccup')\n  yield b'def'\n"
        ),
    );
    assert_eq!(std::fs::read(scratch.fetch("sales").unwrap().path).unwrap(), b"abcdef");
}

#[test]
fn what_can_not_work_is_not_tried_again() {
    for (code, word) in [
        ("def other(ds_id): return b''", "fetch_dataset"),
        ("this is no Python", "SyntaxError"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("def fetch_dataset(ds_id): return 5", "it should be bytes"),
        ("def fetch_dataset(ds_id): return ['text']", "it should be of bytes"),
        ("def fetch_dataset(ds_id): return (b'', 'x')", "tuple"),
        ("import io\ndef fetch_dataset(ds_id): return io.StringIO('text')", "file of text"),
    ] {
        let (scratch, fetched) = fetch(code);
        let error = fetched.unwrap_err();
        assert!(
            matches!(&error, DatasetError::Refused { reason, .. } if reason.contains(word)),
            "{code}: {error}"
        );
        scratch.assert_nothing_was_kept();
    }
    let scratch = Scratch::new();
    add(&scratch, "def fetch_dataset(ds_id): return b''");
    let no_python = FetchOptions { python: PathBuf::from("/nowhere/python3"), ..options() };
    let error = scratch.fetch_with("sales", &no_python).unwrap_err();
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains("/nowhere")), "{error}");
}

#[test]
fn a_function_that_is_unwanted_or_takes_too_long_is_ended_with_all_that_it_started() {
    let scratch = Scratch::new();
    let pids = scratch.path("pids");
    add(
        &scratch,
        &format!(
            "import os, subprocess, time\ndef fetch_dataset(ds_id):\n  child = subprocess.Popen(['sleep', '300'])\n  \
             with open({pids:?} + '.new', 'w') as f: f.write('%d %d' % (os.getpid(), child.pid))\n  \
             os.rename({pids:?} + '.new', {pids:?})\n  time.sleep(300)\n"
        ),
    );
    let cancel = Arc::new(AtomicBool::new(false));
    let options = FetchOptions { cancel: Some(Arc::clone(&cancel)), ..options() };
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| scratch.fetch_with("sales", &options));
        while !pids.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        cancel.store(true, Ordering::Relaxed);
        let error = fetching.join().unwrap().unwrap_err();
        assert!(matches!(error, DatasetError::Stopped { .. }), "{error}");
    });
    wait_for_the_end_of(&std::fs::read_to_string(pids).unwrap());
    let options = FetchOptions { timeout: Duration::from_millis(500), ..crate::support::options() };
    let error = scratch.fetch_with("sales", &options).unwrap_err();
    assert!(matches!(error, DatasetError::TimedOut { .. }), "{error}");
    scratch.assert_nothing_was_kept();
}

/// Waits until none of these processes is alive. Whoever adopts one may take a moment to bury it.
fn wait_for_the_end_of(pids: &str) {
    for pid in pids.split(' ') {
        let is_alive = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
        };
        while is_alive() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_function_does_not_outlive_a_host_that_is_killed() {
    let scratch = Scratch::new();
    let pid = scratch.path("pid");
    let code = format!(
        "import os, time\ndef fetch_dataset(ds_id):\n  with open({pid:?} + '.new', 'w') as f: f.write(str(os.getpid()))\n  \
         os.rename({pid:?} + '.new', {pid:?})\n  time.sleep(300)\n"
    );
    let file = scratch.file("fetcher.py", code.as_bytes());
    scratch.add("a", Source::Python { file, function: "fetch_dataset".into() });
    let mut host = crate::races::start_child(&scratch);
    while !pid.exists() {
        assert!(host.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for_the_end_of(&std::fs::read_to_string(pid).unwrap());
}

#[test]
fn a_flood_of_bytes_or_words_is_bounded() {
    let flood = "import sys\ndef fetch_dataset(ds_id):\n  while True: yield b'x' * 65536\n";
    let scratch = Scratch::new();
    add(&scratch, flood);
    let error = scratch.fetch_with("sales", &FetchOptions { max_bytes: 1 << 20, ..options() }).unwrap_err();
    assert!(matches!(error, DatasetError::TooLarge { .. }), "{error}");
    scratch.assert_nothing_was_kept();
    let (_scratch, fetched) = fetch(
        "import sys\ndef fetch_dataset(ds_id):\n  for _ in range(200): sys.stderr.write('y' * 65536)\n  raise ValueError('end')",
    );
    let text = fetched.unwrap_err().to_string();
    assert!(text.len() < 5_000 && text.contains("ValueError: end"), "{}", text.len());
}
