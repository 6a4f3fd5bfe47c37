//! Processes that are killed in the middle of anything.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};

use belljar::{Checkpoint, Prune, Registry, Sandbox, Session, SessionLife};

use crate::ledger::Ledger;
use crate::noise::Noise;
use crate::places::{assert_gives_all_back, child, childs_state, keeping, on_disk_and_in_memory, sandbox};
use crate::tally;

const SESSIONS: [&str; 2] = ["first", "second"];
/// Numbers that one process may use.
const NUMBERS: u64 = 100_000;
const ROUND: &str = "BELLJAR_TEST_ROUND";
/// How many processes are killed; `cargo xtask heavy` asks for more.
const ROUNDS: &str = "BELLJAR_KILL_ROUNDS";

/// Run by `nothing_acknowledged_is_lost` in a process of its own, until that is killed.
#[test]
#[ignore = "a part of another test"]
fn victim() {
    let Some(state) = childs_state() else { return };
    // A failure must not look like the end that the parent brings.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(io::stderr(), "{panic}");
        std::process::abort();
    }));
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let sandbox = keeping(&state).build_blocking().unwrap();
    let children = Children::default();
    say("ready");
    thread::scope(|scope| {
        for (place, name) in SESSIONS.iter().enumerate() {
            let (sandbox, children) = (&sandbox, &children);
            let first = round * NUMBERS + place as u64 * NUMBERS / 4;
            scope.spawn(move || Worker::new(sandbox, children, name, first).work());
        }
    });
}

/// Not by `println`: what a test prints may be kept back.
fn say(line: &str) {
    io::stdout().write_all(format!("\n> {line}\n").as_bytes()).unwrap();
}

/// Forks that are asleep, by name.
#[derive(Default)]
struct Children {
    numbers: Mutex<BTreeMap<String, u64>>,
    /// Held alone by who prunes: while sessions are awake, only children can be closed by that.
    awake: RwLock<()>,
}

/// Uses one session, in all ways.
struct Worker<'a> {
    sandbox: &'a Sandbox,
    registry: Registry,
    children: &'a Children,
    name: &'a str,
    session: Session,
    /// What the session has now.
    number: u64,
    next: u64,
    noise: Noise,
}

impl<'a> Worker<'a> {
    fn new(sandbox: &'a Sandbox, children: &'a Children, name: &'a str, first: u64) -> Self {
        let _awake = children.awake.read().unwrap();
        let session = sandbox.open_blocking(name).unwrap();
        let registry = sandbox.registry().unwrap();
        let number = tally::number(&session);
        let noise = Noise::new(first);
        Self { sandbox, registry, children, name, session, number, next: first + 1, noise }
    }

    fn work(mut self) {
        loop {
            let what = self.noise.below(100);
            let awake = (what != 0).then(|| self.children.awake.read().unwrap());
            match what {
                0 => self.prune(),
                1..30 => self.mark(),
                30..47 => self.checkpoint(),
                47..62 => self.sleep(),
                62..68 => self.commit(),
                68..76 => self.roll_back(),
                76..84 => self.undo(),
                84..90 => self.fork(),
                90..94 => self.close_a_child(),
                94..97 => drop(self.registry.collect().unwrap()),
                _ => {
                    let cooled = self.registry.cool(Duration::ZERO).unwrap();
                    assert!(cooled.damaged.is_empty(), "{:?}", cooled.damaged);
                }
            }
            drop(awake);
        }
    }

    fn mark(&mut self) {
        self.number = self.next;
        self.next += 1;
        tally::mark(&self.session, self.number);
    }

    fn look(&self) {
        assert_eq!(tally::number(&self.session), self.number, "{}", self.name);
    }

    fn checkpoint(&mut self) {
        say(&format!("point? {} {}", self.name, self.number));
        // The name says what it has, to this process and to later ones.
        let name = format!("{} at {}", self.number, self.next);
        self.next += 1;
        let point = self.session.checkpoint_blocking(Some(&name)).unwrap();
        say(&format!("point! {} {} {}", self.name, point.number, self.number));
        let points = self.session.checkpoints_blocking().unwrap();
        if points.len() > 3 {
            let point = &points[self.noise.below(points.len())];
            say(&format!("drop? {} {}", self.name, point.number));
            self.session.delete_checkpoint_blocking(point).unwrap();
            say(&format!("drop! {} {}", self.name, point.number));
        }
    }

    fn sleep(&mut self) {
        say(&format!("head? {} {}", self.name, self.number));
        self.session.hibernate_blocking().unwrap();
        say(&format!("head! {} {}", self.name, self.number));
        self.look();
    }

    fn commit(&mut self) {
        say(&format!("head? {} {}", self.name, self.number));
        self.session.commit_blocking().unwrap();
        say(&format!("head! {} {}", self.name, self.number));
    }

    fn any_checkpoint(&mut self) -> Option<(Checkpoint, u64)> {
        let mut points = self.session.checkpoints_blocking().unwrap();
        if points.is_empty() {
            return None;
        }
        let point = points.swap_remove(self.noise.below(points.len()));
        let number = point.name.as_ref()?.split(' ').next()?.parse().ok()?;
        Some((point, number))
    }

    fn roll_back(&mut self) {
        let Some((point, number)) = self.any_checkpoint() else { return };
        self.session.rollback_blocking(&point).unwrap();
        self.number = number;
        self.look();
    }

    fn undo(&mut self) {
        let before = self.number;
        self.mark();
        if self.noise.below(2) == 0 {
            self.commit();
        }
        self.session.undo_blocking(1).unwrap();
        self.number = before;
        self.look();
    }

    fn fork(&mut self) {
        let from = if self.noise.below(2) == 0 { self.any_checkpoint() } else { None };
        let (which, number) = match &from {
            Some((point, number)) => (Some(point.into()), *number),
            None => (None, self.number),
        };
        let child = format!("{}-{}", self.name, self.next);
        self.next += 1;
        // The parent is made durable too.
        say(&format!("head? {} {}", self.name, self.number));
        say(&format!("fork? {child} {number}"));
        drop(self.session.fork_named_blocking(which, &child).unwrap());
        say(&format!("head! {} {}", self.name, self.number));
        say(&format!("fork! {child} {number}"));
        self.children.numbers.lock().unwrap().insert(child, number);
    }

    fn close_a_child(&self) {
        let Some((child, _)) = self.children.numbers.lock().unwrap().pop_first() else { return };
        say(&format!("gone? {child}"));
        self.sandbox.open_blocking(&child).unwrap().close_blocking().unwrap();
        say(&format!("gone! {child}"));
    }

    fn prune(&self) {
        let _alone = self.children.awake.write().unwrap();
        let mut children = self.children.numbers.lock().unwrap();
        for child in children.keys() {
            say(&format!("gone? {child}"));
        }
        let prune = Prune { idle: Some(Duration::from_millis(20)), ..Prune::default() };
        let pruned = self.registry.prune(&prune).unwrap();
        for child in pruned.closed {
            assert!(children.remove(child.as_str()).is_some(), "{child} was in use");
            say(&format!("gone! {child}"));
        }
        for (child, number) in children.iter() {
            say(&format!("fork! {child} {number}"));
        }
    }
}

/// A child that is ready, with what it says.
fn start(state: &Path, test: &str, round: u64) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = child(test, state).env(ROUND, round.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    while next_line(&mut said).unwrap_or_else(|| panic!("{:?}", child.wait())) != Some("ready".to_owned()) {}
    (child, said)
}

/// The next line, if it is one that the child said; nothing if it is dead.
fn next_line(said: &mut impl BufRead) -> Option<Option<String>> {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    (!line.is_empty()).then(|| Some(line.strip_prefix("> ")?.trim_end().to_owned()))
}

/// Kills the child, and returns what else it said.
fn kill(mut child: Child, mut said: impl BufRead) -> Vec<String> {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended by itself");
    let mut lines = Vec::new();
    while let Some(line) = next_line(&mut said) {
        lines.extend(line);
    }
    lines
}

fn rounds(state: &Path, lane: u64, rounds: u64) {
    let sandbox = sandbox(state);
    let mut ledger = Ledger::default();
    for (name, number) in SESSIONS.iter().zip(1..) {
        let session = sandbox.create_blocking(Some(name)).unwrap();
        tally::begin(&session, number);
        session.hibernate_blocking().unwrap();
        ledger.hear(&format!("head! {name} {number}"));
    }
    let mut noise = Noise::new(lane);
    let (mut begun, mut done) = (0, 0);
    for round in 1..=rounds {
        let (child, mut said) = start(state, "kill::victim", round * 2 + lane);
        // So that it gets somewhere on any machine; then at any moment.
        let mut lines = Vec::new();
        let enough = noise.below(12);
        while lines.len() < enough {
            lines.extend(next_line(&mut said).unwrap());
        }
        thread::sleep(Duration::from_micros(noise.next() % 30_000));
        lines.extend(kill(child, said));
        for line in lines {
            begun += u64::from(line.contains('?'));
            done += u64::from(line.contains('!'));
            ledger.hear(&line);
        }
        ledger.settle(&sandbox, (round * 2 + lane) * NUMBERS + NUMBERS / 2);
    }
    #[expect(clippy::print_stderr, reason = "for those who look")]
    {
        eprintln!("{rounds} killed, {done} acknowledged, {} were in the middle of something", begun - done);
    }
    assert!(begun > done && done > rounds, "they are killed too early, or only between their deeds");
    let problems = sandbox.registry().unwrap().verify().unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    assert_gives_all_back(&sandbox);
}

#[test]
fn nothing_acknowledged_is_lost() {
    let all: u64 = std::env::var(ROUNDS).map_or(200, |rounds| rounds.parse().unwrap());
    let states = on_disk_and_in_memory();
    thread::scope(|scope| {
        for (lane, state) in states.iter().enumerate() {
            scope.spawn(move || rounds(state.path(), lane as u64, all.div_ceil(2)));
        }
    });
}

/// Run by `a_directory_can_be_half_made` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn first() {
    let Some(state) = childs_state() else { return };
    let sandbox = keeping(&state).build_blocking().unwrap();
    say("ready");
    let session = sandbox.create_blocking(Some("first")).unwrap();
    say("created");
    tally::begin(&session, 1);
    session.checkpoint_blocking(None).unwrap();
    say("kept");
    tally::mark(&session, 2);
    session.hibernate_blocking().unwrap();
    say("asleep");
    loop {
        thread::park();
    }
}

#[test]
fn a_directory_can_be_half_made() {
    let mut noise = Noise::new(5);
    for round in 0..16 {
        let states = on_disk_and_in_memory();
        let state = states[round % 2].path();
        let (child, said) = start(state, "kill::first", 0);
        thread::sleep(Duration::from_micros(noise.next() % 120_000));
        let said = kill(child, said);
        let said = |line: &str| said.iter().any(|said| said == line);

        let sandbox = sandbox(state);
        let registry = sandbox.registry().unwrap();
        let list = registry.sessions().unwrap();
        assert!(list.damaged.is_empty(), "{:?}", list.damaged);
        assert!(list.sessions.iter().all(|session| session.state == SessionLife::Hibernated));
        let there = registry.contains("first").unwrap();
        assert!(there || !said("created"));
        let session =
            if there { sandbox.open_blocking("first") } else { sandbox.create_blocking(Some("first")) };
        let session = session.unwrap();
        let points = session.checkpoints_blocking().unwrap();
        if said("kept") {
            assert_eq!(points.len(), 1);
        }
        if said("asleep") {
            assert_eq!(tally::number(&session), 2);
        }
        match points.first() {
            Some(point) => {
                session.rollback_blocking(point).unwrap();
                assert_eq!(tally::number(&session), 1);
            }
            None => tally::begin(&session, 1),
        }
        tally::mark(&session, 3);
        session.hibernate_blocking().unwrap();
        assert_eq!(tally::number(&session), 3);
        drop(session);
        // Half an environment may be somebody's who is still at it, for an hour.
        let environments = registry.directory().join("environments");
        for entry in fs::read_dir(environments).unwrap() {
            let directory = File::open(entry.unwrap().path()).unwrap();
            let before = SystemTime::now() - Duration::from_secs(2 * 3600);
            directory.set_times(FileTimes::new().set_modified(before)).unwrap();
        }
        assert_gives_all_back(&sandbox);
        assert_eq!(fs::read_dir(registry.directory().join("environments")).unwrap().count(), 1);
    }
}
