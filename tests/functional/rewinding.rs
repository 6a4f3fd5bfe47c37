//! Random cells, checkpoints, rollbacks, undos, forks, sleeps and hard stops, against a model of what must be
//! there afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar::{Policy, Sandbox, Session, State as After, Tracking};
use belljar_tests::{builder, text};

const UNDO: usize = 8;

/// What the session must hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    x: u64,
    /// Bytes of a large array that aren't zero.
    bytes: BTreeMap<usize, u8>,
    file: String,
    /// Megabytes that a variable holds.
    big: usize,
}

impl Model {
    fn expected(&self) -> String {
        let sum: u64 = self.bytes.values().map(|byte| u64::from(*byte)).sum();
        let places: usize = self.bytes.keys().map(|place| place / 997).sum();
        format!("({}, {}, {sum}, {places}, '{}', {})", self.x, self.bytes.len(), self.file, self.big << 20)
    }
}

const BEGIN: &str = "x = 0; b = bytearray(3 << 20); big = bytearray(); open('f', 'w').close()";
const LOOK: &str = "(x, len(b) - b.count(0), sum(b[::997]), sum(i for i, n in enumerate(b[::997]) if n), open('f').read(), len(big))";

/// A session and what must be in it.
struct Life {
    session: Session,
    now: Model,
    /// The states before the last cells, the newest last.
    before: Vec<Model>,
    points: Vec<(u32, Model, Vec<Model>)>,
}

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

impl Life {
    fn new(session: Session) -> Self {
        session.run_blocking(BEGIN).unwrap();
        Self { session, now: Model::default(), before: Vec::new(), points: Vec::new() }
    }

    fn ran(&mut self, next: Model) {
        self.before.push(std::mem::replace(&mut self.now, next));
        if self.before.len() > UNDO {
            self.before.remove(0);
        }
    }

    fn look(&mut self) {
        assert_eq!(text(&self.session, LOOK), self.now.expected());
        self.ran(self.now.clone());
    }

    fn change(&mut self, numbers: &mut Numbers) {
        let mut next = self.now.clone();
        next.x = numbers.below(1 << 40);
        let mut code = format!("x = {}", next.x);
        for _ in 0..numbers.below(4) {
            let place = numbers.below((3 << 20) / 997) as usize * 997;
            let byte = numbers.below(255) as u8 + 1;
            next.bytes.insert(place, byte);
            code += &format!("; b[{place}] = {byte}");
        }
        if numbers.below(3) == 0 {
            next.file = format!("file {}", numbers.below(1000));
            code += &format!("; open('f', 'w').write('{}')", next.file);
        }
        if numbers.below(6) == 0 {
            next.big = numbers.below(12) as usize;
            code += &format!("; big = bytearray({} << 20)", next.big);
        }
        self.session.run_blocking(code).unwrap();
        self.ran(next);
    }

    fn stop_hard(&mut self) {
        let code =
            "import os\nx = 'spoilt'; b[:] = bytes(len(b)); open('f', 'w').write('spoilt')\nos._exit(1)";
        let outcome = self.session.run_blocking(code).unwrap();
        assert_eq!(outcome.session.state, After::RolledBack);
    }

    fn undo(&mut self, cells: usize) {
        if cells > self.before.len() {
            // The first cell of all can be taken back too; then there is nothing to look at.
            return;
        }
        self.session.undo_blocking(cells).unwrap();
        for _ in 0..cells {
            self.now = self.before.pop().unwrap();
        }
    }

    fn roll_back(&mut self, numbers: &mut Numbers) {
        if self.points.is_empty() {
            return;
        }
        let (number, now, before) = self.points[numbers.below(self.points.len() as u64) as usize].clone();
        self.session.rollback_blocking(number).unwrap();
        (self.now, self.before) = (now, before);
    }

    fn fork(&self) -> Self {
        let session = self.session.fork_blocking(1).unwrap().remove(0);
        // What the parent did is the parent's to take back.
        Self { session, now: self.now.clone(), before: Vec::new(), points: Vec::new() }
    }
}

fn live(sandbox: &Sandbox, registered: bool, seed: u64, steps: usize) {
    let mut numbers = Numbers(seed);
    let session = match registered {
        true => sandbox.create_blocking(None).unwrap(),
        false => sandbox.session_blocking().unwrap(),
    };
    let mut lives = vec![Life::new(session)];
    for step in 0..steps {
        let which = numbers.below(lives.len() as u64) as usize;
        let may_fork = lives.len() < 4;
        let life = &mut lives[which];
        match numbers.below(20) {
            0..8 => life.change(&mut numbers),
            8..10 => life.undo(1 + numbers.below(4) as usize),
            10..12 => {
                let point = life.session.checkpoint_blocking(None).unwrap();
                life.points.push((point.number, life.now.clone(), life.before.clone()));
            }
            12..14 => life.roll_back(&mut numbers),
            14..16 if registered => {
                life.session.hibernate_blocking().unwrap();
            }
            16 if may_fork => {
                let child = life.fork();
                lives.push(child);
            }
            17 => life.stop_hard(),
            _ => life.look(),
        }
        if step % 10 == 9 {
            lives.iter_mut().for_each(Life::look);
        }
    }
    lives.iter_mut().for_each(Life::look);
}

fn sandbox(tracking: Tracking, state: &tempfile::TempDir) -> Sandbox {
    let policy = Policy { undo: UNDO, timeout: Some(Duration::from_secs(60)), ..Policy::default() };
    builder().policy(policy).tracking(tracking).state_dir(state.path()).build_blocking().unwrap()
}

#[test]
fn in_memory() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tracking::Automatic, &state);
    for seed in 1..=4 {
        live(&sandbox, false, seed * 7919, 80);
    }
}

#[test]
fn in_the_registry() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tracking::Automatic, &state);
    for seed in 1..=4 {
        live(&sandbox, true, seed * 104_729, 80);
    }
    let registry = sandbox.registry().unwrap();
    assert!(registry.verify().unwrap().is_empty());
}

#[test]
fn by_comparing() {
    let state = tempfile::tempdir().unwrap();
    live(&sandbox(Tracking::Compare, &state), true, 15_485_863, 80);
    live(&sandbox(Tracking::PageTable, &state), true, 32_452_843, 80);
}
