//! Everything in any order, against a model.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_store::{CheckpointNote, Facts, Lease, Moment, Tenant};
use proptest::prelude::*;

use crate::support::{Contents, Live, Scratch, assert_head, assert_loaded, id};

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<(u64, u64)>),
    WriteFile(usize, u8, usize),
    RemoveFile(usize),
    Commit(usize),
    Checkpoint(usize),
    CheckpointHead(usize),
    DeleteCheckpoint(usize, usize),
    LoadCheckpoint(usize, usize),
    ResetHead(usize, usize),
    Fork(usize),
    ForkCheckpoint(usize, usize),
    LiveFork(usize),
    Reopen(usize),
    Move(usize),
    Close(usize),
    Cool,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..4_usize;
    let blocks = proptest::collection::vec((0..1024_u64, 0..50_u64), 1..40);
    prop_oneof![
        4 => (which.clone(), blocks).prop_map(|(which, blocks)| Step::Write(which, blocks)),
        2 => (which.clone(), any::<u8>(), 0..70_000_usize)
            .prop_map(|(which, byte, length)| Step::WriteFile(which, byte, length.min(65536))),
        1 => which.clone().prop_map(Step::RemoveFile),
        5 => which.clone().prop_map(Step::Commit),
        2 => which.clone().prop_map(Step::Checkpoint),
        1 => which.clone().prop_map(Step::CheckpointHead),
        1 => (which.clone(), 0..4_usize).prop_map(|(which, number)| Step::DeleteCheckpoint(which, number)),
        1 => (which.clone(), 0..4_usize).prop_map(|(which, number)| Step::LoadCheckpoint(which, number)),
        1 => (which.clone(), 0..4_usize).prop_map(|(which, number)| Step::ResetHead(which, number)),
        1 => which.clone().prop_map(Step::Fork),
        1 => (which.clone(), 0..4_usize).prop_map(|(which, number)| Step::ForkCheckpoint(which, number)),
        1 => which.clone().prop_map(Step::LiveFork),
        2 => which.clone().prop_map(Step::Reopen),
        1 => which.clone().prop_map(Step::Move),
        1 => which.prop_map(Step::Close),
        1 => Just(Step::Cool),
        1 => Just(Step::Collect),
    ]
}

struct Session {
    lease: Lease,
    live: Live,
    head: Option<Contents>,
    checkpoints: BTreeMap<u32, Contents>,
}

struct World {
    scratch: Scratch,
    sessions: Vec<Session>,
    names: usize,
}

impl World {
    fn new() -> Self {
        let mut world = Self { scratch: Scratch::new(), sessions: Vec::new(), names: 0 };
        world.add();
        world
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("session-{}", self.names)
    }

    fn add(&mut self) {
        let name = self.name();
        let lease = self.scratch.create(&name);
        self.sessions.push(Session {
            lease,
            live: Live::default(),
            head: None,
            checkpoints: BTreeMap::new(),
        });
    }

    fn session(&mut self, which: usize) -> &mut Session {
        if self.sessions.is_empty() {
            self.add();
        }
        let count = self.sessions.len();
        &mut self.sessions[which % count]
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Write(which, blocks) => {
                let live = &mut self.session(which).live;
                blocks.into_iter().for_each(|(block, seed)| live.write(block, seed));
            }
            Step::WriteFile(which, byte, length) => {
                self.session(which).live.write_file(vec![byte; length]);
            }
            Step::RemoveFile(which) => {
                let live = &mut self.session(which).live;
                live.chunks.pop();
                live.contents.files.pop();
            }
            Step::Commit(which) => {
                let session = self.session(which);
                session.live.contents.undo = vec![which as u8; which * 10];
                session.live.commit(&mut session.lease).unwrap();
                session.head = Some(session.live.contents.clone());
            }
            Step::Checkpoint(which) => {
                let session = self.session(which);
                let (guest, facts) = (session.live.saved(), session.live.facts());
                let (record, tag) =
                    session.lease.checkpoint(&guest, facts, CheckpointNote::default()).unwrap();
                session.live.now_known(tag);
                session.checkpoints.insert(record.number, session.live.contents.clone());
            }
            Step::CheckpointHead(which) => {
                let session = self.session(which);
                if let Some(head) = &session.head {
                    let record = session.lease.checkpoint_head(CheckpointNote::default()).unwrap();
                    session.checkpoints.insert(record.number, head.clone());
                }
            }
            Step::DeleteCheckpoint(which, number) => {
                let session = self.session(which);
                if let Some(number) = session.checkpoints.keys().nth(number).copied() {
                    session.lease.delete_checkpoint(number).unwrap();
                    session.checkpoints.remove(&number);
                }
            }
            Step::LoadCheckpoint(which, number) => {
                let session = self.session(which);
                if let Some((number, contents)) = session.checkpoints.iter().nth(number) {
                    let loaded = session.lease.load_checkpoint(*number).unwrap();
                    assert_loaded(&loaded, contents);
                    session.live = Live::from_loaded(&loaded, contents);
                }
            }
            Step::ResetHead(which, number) => {
                let session = self.session(which);
                if let Some((number, contents)) = session.checkpoints.iter().nth(number) {
                    session.lease.reset_head_to(*number, Facts::default()).unwrap();
                    session.head = Some(Contents { undo: Vec::new(), ..contents.clone() });
                }
            }
            Step::Fork(which) => {
                let name = self.name();
                let session = self.session(which);
                if let Some(head) = session.head.clone() {
                    let lease = session.lease.fork(Moment::Head, Some(id(&name))).unwrap();
                    let loaded = lease.load().unwrap().unwrap();
                    let live = Live::from_loaded(&loaded, &head);
                    let checkpoints = BTreeMap::new();
                    self.sessions.push(Session { lease, live, head: Some(head), checkpoints });
                }
            }
            Step::ForkCheckpoint(which, number) => {
                let name = self.name();
                let session = self.session(which);
                if let Some((number, contents)) = session.checkpoints.iter().nth(number) {
                    let from = Moment::Checkpoint(*number);
                    let contents = contents.clone();
                    let lease = session.lease.fork(from, Some(id(&name))).unwrap();
                    assert_eq!(lease.record().parent.as_ref().unwrap().checkpoint, Some(*number));
                    let live = session.live.clone();
                    let checkpoints = BTreeMap::new();
                    self.sessions.push(Session { lease, live, head: Some(contents), checkpoints });
                }
            }
            Step::LiveFork(which) => {
                let live = self.session(which).live.clone();
                self.add();
                let session = self.sessions.last_mut().unwrap();
                session.live = live;
            }
            Step::Reopen(which) => {
                if self.sessions.is_empty() {
                    return;
                }
                let which = which % self.sessions.len();
                let Session { lease, head, checkpoints, .. } = self.sessions.remove(which);
                let name = lease.id().as_str().to_owned();
                let token = lease.token();
                drop(lease);
                let mut lease = self.scratch.acquire(&name).unwrap();
                assert!(lease.token() > token);
                let live = match &head {
                    Some(contents) => {
                        let loaded = lease.load().unwrap().unwrap();
                        assert_loaded(&loaded, contents);
                        // As an engine would that changed nothing: its runs are the store's own files.
                        lease.commit(&loaded.guest, Facts::default()).unwrap();
                        Live::from_loaded(&loaded, contents)
                    }
                    None => Live::default(),
                };
                self.sessions.push(Session { lease, live, head, checkpoints });
            }
            Step::Move(which) => {
                let name = self.name();
                let file = self.scratch.directory.path().join(&name);
                let session = self.session(which);
                session.lease.export(&file, None, &mut |_, _| ()).unwrap();
                let (head, checkpoints) = (session.head.clone(), session.checkpoints.clone());
                let (lease, _) = self.scratch.store.import(&Tenant::local(), &file, Some(id(&name))).unwrap();
                self.sessions.push(Session { lease, live: Live::default(), head, checkpoints });
            }
            Step::Close(which) => {
                if !self.sessions.is_empty() {
                    let which = which % self.sessions.len();
                    self.sessions.remove(which).lease.close().unwrap();
                }
            }
            Step::Cool => {
                let cooled = self.scratch.store.cool(&Tenant::local(), Duration::ZERO).unwrap();
                assert!(cooled.damaged.is_empty());
            }
            Step::Collect => {
                self.scratch.store.collect().unwrap();
            }
        }
    }

    fn check(&self) {
        for session in &self.sessions {
            match &session.head {
                Some(contents) => assert_head(&session.lease, contents),
                None => assert!(session.lease.load().unwrap().is_none()),
            }
            let numbers: Vec<u32> = session.lease.checkpoints().iter().map(|one| one.number).collect();
            assert_eq!(numbers, session.checkpoints.keys().copied().collect::<Vec<_>>());
            for (number, contents) in &session.checkpoints {
                assert_loaded(&session.lease.load_checkpoint(*number).unwrap(), contents);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_order(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.check();
        let problems = world.scratch.store.verify(&Tenant::local()).unwrap();
        prop_assert!(problems.is_empty(), "{problems:?}");
        world.scratch.store.collect().unwrap();
        world.check();
        for session in world.sessions.drain(..) {
            session.lease.close().unwrap();
        }
        world.scratch.store.collect().unwrap();
        prop_assert_eq!(world.scratch.packs().len(), 0);
        prop_assert_eq!(world.scratch.store.usage(&Tenant::local()).unwrap(), 0);
    }
}
