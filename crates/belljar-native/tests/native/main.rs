//! The engine by itself: real namespaces, a real interpreter; what attacks it, and what must hold all the same.
#![expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]

mod attacks_exhaustion;
mod attacks_files;
mod attacks_frames;
mod attacks_host;
mod attacks_kept;
mod attacks_processes;
mod attacks_supervisor;
mod attacks_syscalls;
mod attacks_workspaces;
mod installs;
mod installs_node;
mod ordinary;
mod workspaces;

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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

/// Held while an engine is made, by those who look which process is new.
static LOADING: Mutex<()> = Mutex::new(());

fn load() -> NativeEngine {
    let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    load_now()
}

fn load_now() -> NativeEngine {
    let cache = Cache::open(std::env::temp_dir().join(format!("belljar-native-test-{}", std::process::id())));
    NativeEngine::load(environment(), &cache).unwrap()
}

fn engine() -> &'static NativeEngine {
    static ENGINE: LazyLock<NativeEngine> = LazyLock::new(load);
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

/// A hang is a failure, and not a matter of patience.
const PATIENCE: Duration = Duration::from_secs(50);

fn within<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let thread = thread::spawn(move || {
        let _ = send.send(body());
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: {what}"),
        Err(RecvTimeoutError::Disconnected) => {
            thread.join().unwrap();
            unreachable!()
        }
    }
}

/// A session with a variable in it that no attack may cost it.
struct Session {
    guest: Option<Box<dyn Guest>>,
    number: u32,
}

impl Session {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut GuestSpec)) -> Self {
        Self::of(engine(), change)
    }

    /// Memory and time are short, so that attacks on them are.
    fn of(engine: &NativeEngine, change: impl FnOnce(&mut GuestSpec)) -> Self {
        let mut spec = GuestSpec::default();
        spec.limits.memory = 512 << 20;
        spec.limits.wall = Some(Duration::from_secs(20));
        change(&mut spec);
        Self::from(engine.boot(Arc::new(spec)).unwrap())
    }

    fn from(guest: Box<dyn Guest>) -> Self {
        let mut session = Self { guest: Some(guest), number: 0 };
        session.check(include_str!("attack.py"));
        session.check("kept = 41");
        session
    }

    /// Does something with the guest, but not without end.
    fn on_guest<T: Send + 'static>(
        &mut self,
        what: &str,
        body: impl FnOnce(&mut dyn Guest) -> T + Send + 'static,
    ) -> T {
        let mut guest = self.guest.take().unwrap();
        let (guest, value) = within(what, move || {
            let value = body(guest.as_mut());
            (guest, value)
        });
        self.guest = Some(guest);
        value
    }

    fn run(&mut self, code: &str) -> CellReport {
        self.number += 1;
        let cell = Cell { number: self.number, file: None, code: code.as_bytes().to_vec() };
        self.on_guest(code, move |guest| {
            let report = guest.run(cell, Arc::new(Host::default())).unwrap();
            guest.settle();
            report
        })
    }

    /// A cell that ends well. What must hold inside is asserted inside.
    fn check(&mut self, code: &str) -> CellReport {
        let report = self.run(code);
        assert_eq!(report.status, Status::Ok, "{code}\n{report:#?}");
        report
    }

    fn value(&mut self, code: &str) -> String {
        value(&self.check(code))
    }

    fn command(&mut self, line: &str) -> belljar_engine::CommandReport {
        let command = belljar_engine::Command { line: line.to_owned(), ..Default::default() };
        self.on_guest(line, |guest| guest.command(command, Arc::new(Host::default())).unwrap())
    }

    /// It answers, and has what it had.
    fn survives(&mut self) {
        assert_eq!(self.value("kept"), "41");
        let report = self.command("echo $((6 * 7))");
        assert_eq!(report.stdout.text, "42\n", "{report:#?}");
    }
}

#[test]
fn a_cell_runs_and_its_variables_stay() {
    let mut guest = guest();
    let report = run(guest.as_mut(), 1, "x = 20\nprint('hello')\nx + 1");
    assert_eq!(
        (report.status, value(&report).as_str(), report.stdout.text.as_str()),
        (Status::Ok, "21", "hello\n")
    );
    assert_eq!(value(&run(guest.as_mut(), 2, "x + 2")), "22");
}

#[test]
fn a_shadow_takes_over() {
    let mut guest = guest();
    run(guest.as_mut(), 1, "x = 41; open('kept', 'w').write('k')");
    for (number, code) in (2..).zip([
        "import ctypes; x = 1; open('new', 'w'); ctypes.string_at(0)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os._exit(3)",
    ]) {
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
    let report =
        run(guest.as_mut(), 3, "x = 3\nimport signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass");
    assert_eq!((report.status, report.state), (Status::Timeout, State::RolledBack), "{report:#?}");
    assert_eq!(value(&run(guest.as_mut(), 4, "x")), "2");
}

#[test]
fn tools_commands_and_files() {
    let mut guest = guest();
    guest.write_file("/workspace/data/in.txt", b"given").unwrap();
    let report = run(guest.as_mut(), 1, "open('data/in.txt').read()");
    assert_eq!(value(&report), "'given'");
    let command = belljar_engine::Command {
        line: "cat data/in.txt; id -u; echo made > out.txt; exit 3".to_owned(),
        ..Default::default()
    };
    let report = guest.command(command, Arc::new(Host::default())).unwrap();
    assert_eq!((report.exit_code, report.stdout.text.as_str()), (Some(3), "given1000\n"), "{report:#?}");
    assert_eq!(report.changes.created, ["/workspace/out.txt"]);
    assert_eq!(guest.read_file("/workspace/out.txt").unwrap(), b"made\n");
}
