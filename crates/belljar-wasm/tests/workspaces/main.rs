//! Workspaces, at the level of the engine: where they are, and what is on the host's disk.
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod attacks;
mod disk;
mod memory;
mod places;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use belljar_engine::{
    Cell, CellHost, CellReport, Engine, Event, Guest, GuestSpec, Limits, Mount, MountAccess, Status, Storage,
    ToolCall, ToolReply,
};
use belljar_wasm::WasmEngine;
use tempfile::TempDir;

struct Deaf;

impl CellHost for Deaf {
    fn event(&self, _event: Event) {}
    fn call(&self, _call: ToolCall, _reply: ToolReply) {}
}

fn engine() -> &'static WasmEngine {
    static ENGINE: LazyLock<WasmEngine> = LazyLock::new(|| {
        let (runtime, cache) = belljar::Runtimes::default().ensure(&belljar::Quiet).unwrap();
        WasmEngine::builder(runtime, cache).load().unwrap()
    });
    &ENGINE
}

fn boot(spec: GuestSpec) -> Box<dyn Guest> {
    engine().boot(Arc::new(spec)).unwrap()
}

fn on_disk(directory: &TempDir) -> GuestSpec {
    GuestSpec { storage: Storage::Disk(directory.path().to_owned()), ..GuestSpec::default() }
}

fn with_quota(directory: &TempDir, bytes: u64, files: u64) -> GuestSpec {
    let limits = Limits { file_bytes: bytes, file_count: files, ..Limits::default() };
    GuestSpec { limits, ..on_disk(directory) }
}

fn mount(host: &Path, guest: &str) -> Mount {
    Mount { host: host.to_owned(), guest: guest.to_owned(), access: MountAccess::ReadOnly }
}

fn run(guest: &mut dyn Guest, code: &str) -> CellReport {
    let cell = Cell { number: 1, file: None, code: code.as_bytes().to_vec() };
    guest.run(cell, Arc::new(Deaf)).unwrap()
}

/// The text of the last expression of a cell that must run to its end.
fn text(guest: &mut dyn Guest, code: &str) -> String {
    let report = run(guest, code);
    assert_eq!(report.status, Status::Ok, "{code}\n{:#?}", report.exception);
    report.value.map_or_else(String::new, |value| value.text().to_owned())
}

/// How an expression fails: the class and number of the error, or what it was.
fn fails(guest: &mut dyn Guest, code: &str) -> String {
    let indented: String = code.lines().map(|line| format!("    {line}\n")).collect();
    let code = format!(
        "try:\n{indented}    how = 'it worked'\nexcept OSError as e:\n    import errno\n    how = errno.errorcode.get(e.errno, str(e))\nhow"
    );
    text(guest, &code).trim_matches('\'').to_owned()
}

fn tree(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(&path).unwrap().map(Result::unwrap) {
            let name = entry.path().strip_prefix(directory).unwrap().display().to_string();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                pending.push(entry.path());
                found.insert(name, "/".to_owned());
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(entry.path()).unwrap().display()));
            } else {
                found.insert(
                    name,
                    String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned(),
                );
            }
        }
    }
    found
}
