//! The engine by itself: real namespaces, a real interpreter.
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};

use belljar_engine::{
    Cell, CellHost, CellReport, Engine, Event, Guest, GuestSpec, State, Status, ToolCall, ToolReply,
};
use belljar_native::{NativeEngine, NativeEnvironment};
use belljar_runtime::Cache;

#[derive(Default)]
struct Host(Mutex<Vec<Event>>);

impl CellHost for Host {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn call(&self, call: ToolCall, reply: ToolReply) {
        reply(Ok(serde_json::json!({ "called": call.name })));
    }
}

fn environment() -> NativeEnvironment {
    let code = "import sys, os; print(sys.base_prefix); print('bin/python%d.%d' % sys.version_info[:2])";
    let said = Command::new("python3").args(["-I", "-c", code]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let mut lines = said.lines().map(PathBuf::from);
    NativeEnvironment {
        id: "test".to_owned(),
        prefix: lines.next().unwrap(),
        executable: lines.next().unwrap(),
        packages: None,
        preload: Vec::new(),
        setup: String::new(),
    }
}

fn engine() -> &'static NativeEngine {
    static ENGINE: LazyLock<NativeEngine> = LazyLock::new(|| {
        let cache = Cache::open(std::env::temp_dir().join(format!("belljar-native-test-{}", std::process::id())));
        NativeEngine::load(environment(), &cache).unwrap()
    });
    &ENGINE
}

fn guest() -> Box<dyn Guest> {
    let mut spec = GuestSpec::default();
    spec.limits.memory = 512 << 20;
    engine().boot(Arc::new(spec)).unwrap()
}

fn run(guest: &mut dyn Guest, number: u32, code: &str) -> CellReport {
    let cell = Cell { number, file: None, code: code.as_bytes().to_vec() };
    let report = guest.run(cell, Arc::new(Host::default())).unwrap();
    guest.settle();
    report
}

fn value(report: &CellReport) -> String {
    match &report.value {
        Some(bundle) => bundle.0.get("text/plain").and_then(|text| text.as_str()).unwrap().to_owned(),
        None => panic!("{report:#?}"),
    }
}

#[test]
fn a_cell_runs_and_its_variables_stay() {
    let mut guest = guest();
    let report = run(guest.as_mut(), 1, "x = 20\nprint('hello')\nx + 1");
    assert_eq!((report.status, value(&report).as_str(), report.stdout.text.as_str()), (Status::Ok, "21", "hello\n"));
    assert_eq!(value(&run(guest.as_mut(), 2, "x + 2")), "22");
}

#[test]
fn a_shadow_takes_over() {
    let mut guest = guest();
    run(guest.as_mut(), 1, "x = 41; open('kept', 'w').write('k')");
    for (number, code) in (2..).zip(["import ctypes; x = 1; open('new', 'w'); ctypes.string_at(0)", "import os; os.kill(os.getpid(), 9)", "import os; os._exit(3)"]) {
        let report = run(guest.as_mut(), number, code);
        assert_eq!(report.state, State::RolledBack, "{report:#?}");
        assert_eq!(value(&run(guest.as_mut(), number, "x, __import__('os').listdir('.')")), "(41, ['kept'])");
    }
}

#[test]
fn an_endless_loop_is_interrupted() {
    let mut spec = GuestSpec::default();
    spec.limits.wall = Some(std::time::Duration::from_millis(300));
    let mut guest = engine().boot(Arc::new(spec)).unwrap();
    run(guest.as_mut(), 1, "x = 1");
    let report = run(guest.as_mut(), 2, "x = 2\nwhile True: pass");
    assert_eq!((report.status, report.state), (Status::Timeout, State::Kept), "{report:#?}");
    let report = run(guest.as_mut(), 3, "x = 3\nimport signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass");
    assert_eq!((report.status, report.state), (Status::Timeout, State::RolledBack), "{report:#?}");
    assert_eq!(value(&run(guest.as_mut(), 4, "x")), "2");
}

#[test]
fn tools_commands_and_files() {
    let mut guest = guest();
    guest.write_file("/workspace/data/in.txt", b"given").unwrap();
    let report = run(guest.as_mut(), 1, "open('data/in.txt').read()");
    assert_eq!(value(&report), "'given'");
    let command = belljar_engine::Command { line: "cat data/in.txt; id -u; echo made > out.txt; exit 3".to_owned(), ..Default::default() };
    let report = guest.command(command, Arc::new(Host::default())).unwrap();
    assert_eq!((report.exit_code, report.stdout.text.as_str()), (Some(3), "given1000\n"), "{report:#?}");
    assert_eq!(report.changes.created, ["/workspace/out.txt"]);
    assert_eq!(guest.read_file("/workspace/out.txt").unwrap(), b"made\n");
}
