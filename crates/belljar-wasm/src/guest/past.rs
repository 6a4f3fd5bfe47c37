//! A guest's way back: to the state before a cell, before several, or to a snapshot.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_engine::{Descent, EngineError, GuestSpec, Rollback, frame};

use super::{WasmGuest, exhausted, torn};
use crate::control::Control;
use crate::delta::{Delta, older_page};
use crate::engine::Shared;
use crate::ground::{Ground, Run};
use crate::host::Machine;
use crate::instance::Instance;
use crate::memory;
use crate::pages::{HOST_PAGE, Span};
use crate::pool::Mortal;
use crate::shadow::Shadow;
use crate::shadows::ShadowSlot;
use crate::snapshot::WasmSnapshot;
use crate::undo::{Attach, ROOM, Record, Stand, UndoLog, Way};

/// The state before a cell.
pub(super) enum Before {
    /// As it was booted.
    Fresh,
    /// The ground, as it is.
    Ground { machine: Box<Machine>, globals: Vec<i32> },
    /// The ground, and a copy of the pages that differ; the copy may have been given up to save memory.
    Copied { slot: Arc<ShadowSlot>, machine: Box<Machine>, globals: Vec<i32> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    Nothing,
    /// The cell's effects are to stay.
    Commit {
        cell: u32,
    },
    /// The cell is to be taken back.
    Rollback,
}

/// All that a guest needs to go on, but for an interpreter.
#[derive(Clone)]
pub(crate) struct Resumption {
    ground: Arc<Ground>,
    globals: Vec<i32>,
    machine: Machine,
    attach: Option<Attach>,
    undo: UndoLog,
}

impl Resumption {
    /// From a snapshot, in surroundings that may be others than where that was made.
    pub(crate) fn new(
        shared: &Shared,
        spec: &GuestSpec,
        snapshot: &WasmSnapshot,
        descent: Descent,
    ) -> Result<Self, EngineError> {
        let (has, may) = (snapshot.ground.length() as u64, spec.limits.memory);
        if has > may {
            let (has, may) = (has >> 20, may >> 20);
            return Err(EngineError::Restore(format!("it has {has} MiB of memory, and may have {may}")));
        }
        let mut machine = shared.surround(snapshot.machine.clone(), spec)?;
        let mut attach = snapshot.attach.clone();
        if snapshot.told != told(spec) {
            attach.get_or_insert(Attach { seed: None });
        }
        if let Descent::Child(number) = descent {
            machine.entropy = machine.entropy.branch(number);
            let mut seed = [0; 16];
            machine.entropy.fill(&mut seed).map_err(|error| EngineError::Boot(error.to_string()))?;
            attach = Some(Attach { seed: Some(seed) });
        }
        Ok(Self {
            ground: Arc::clone(&snapshot.ground),
            globals: snapshot.globals.clone(),
            machine,
            attach,
            // What the parent did is the parent's to take back: it would bring its randomness back, too.
            undo: match descent {
                Descent::Same => snapshot.undo.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                Descent::Child(_) => UndoLog::default(),
            },
        })
    }

    /// The guest as it would be.
    pub(crate) fn snapshot(&self, shared: &Shared, spec: &GuestSpec) -> WasmSnapshot {
        let used = self.machine.files.usage().bytes;
        WasmSnapshot {
            environment: Arc::clone(shared.environment()),
            ground: Arc::clone(&self.ground),
            globals: self.globals.clone(),
            machine: self.machine.clone(),
            attach: self.attach.clone(),
            undo: Mutex::new(self.undo.clone()),
            undo_depth: spec.undo,
            told: told(spec),
            file_bytes: used.saturating_sub(shared.base_file_bytes()),
        }
    }
}

impl WasmGuest {
    /// A guest that goes on where it stopped.
    pub(crate) fn resume(
        shared: &Arc<Shared>,
        spec: &Arc<GuestSpec>,
        control: &Arc<Control>,
        from: Resumption,
    ) -> Result<Self, EngineError> {
        let Resumption { ground, globals, machine, attach, undo } = from;
        let instance = shared
            .instantiate(&ground, &globals, machine.clone(), Arc::clone(control), spec)
            .map_err(|error| EngineError::Exhausted(format!("{error:#}")))?;
        Ok(Self {
            shared: Arc::clone(shared),
            spec: Arc::clone(spec),
            control: Arc::clone(control),
            instance: Mortal::new(instance),
            seed: None,
            ground,
            before: Before::Ground { machine: Box::new(machine), globals },
            pending: Pending::Nothing,
            attach,
            undo,
        })
    }

    /// Makes sure that the cell about to run can be taken back.
    pub(super) fn prepare(&mut self) -> Result<(), EngineError> {
        self.settle_now()?;
        if self.spec.rollback == Rollback::Never {
            return Ok(());
        }
        if let Before::Copied { slot, machine, .. } = &mut self.before {
            let memory = self.instance.exports.memory.data(&self.instance.store);
            let reserved = self.shared.shadow_reservation(&self.spec);
            slot.ensure(|| Shadow::new(memory, reserved, self.shared.page_source))
                .map_err(|error| exhausted(&error))?;
            **machine = self.instance.store.data().machine.clone();
        }
        Ok(())
    }

    /// Does what was put off until after the last cell's report.
    pub(super) fn settle_now(&mut self) -> Result<(), EngineError> {
        match self.pending {
            Pending::Nothing => {}
            Pending::Commit { cell } => self.commit(cell).map_err(|error| exhausted(&error))?,
            Pending::Rollback => {
                self.roll_back()?;
                self.recount();
            }
        }
        // Not before it is done: whoever comes next must not find half of it.
        self.pending = Pending::Nothing;
        Ok(())
    }

    /// The state after the cell becomes the one that the next is taken back to; that before it goes to the log.
    fn commit(&mut self, cell: u32) -> io::Result<()> {
        let attach = self.attach.take();
        if self.spec.rollback == Rollback::Never {
            // There is no way back to anything any more.
            self.before = Before::Fresh;
            return Ok(());
        }
        let depth = self.spec.undo;
        let globals = self.instance.globals();
        let mut delta = Delta::with_room(if depth > 0 { ROOM } else { 0 });
        let (way, retained) = match &mut self.before {
            Before::Fresh => (self.seed.map(|seed| Way::Fresh { seed }), 0),
            Before::Ground { machine, globals } => {
                let now = &self.instance.store.data().machine;
                let (ground, length) = (Arc::clone(&self.ground), self.ground.length());
                let retained = machine.files.retained(&now.files);
                let stand =
                    Stand { ground, length, globals: globals.clone(), machine: machine.clone(), attach };
                (Some(Way::Ground(stand)), retained)
            }
            Before::Copied { slot, machine, globals: before } => {
                let memory = self.instance.exports.memory.data(&self.instance.store);
                let mut length = 0;
                let updated = slot.update(|shadow| {
                    length = shadow.length();
                    shadow.update(memory, &mut delta)
                });
                let globals = std::mem::replace(before, globals);
                let stays = updated && !delta.is_full() && depth > 0;
                let now = &self.instance.store.data().machine;
                let retained = if stays { machine.files.retained(&now.files) } else { 0 };
                let way = stays.then(|| {
                    let ground = Arc::clone(&self.ground);
                    let stand = Stand { ground, length, globals, machine: machine.clone(), attach };
                    Way::Pages { stand, delta }
                });
                self.remember(cell, way, retained);
                return Ok(());
            }
        };
        let machine = Box::new(self.instance.store.data().machine.clone());
        self.before = Before::Copied { slot: self.shared.shadows.slot(), machine, globals };
        self.remember(cell, way, retained);
        Ok(())
    }

    fn remember(&mut self, cell: u32, way: Option<Way>, retained: u64) {
        if self.spec.undo == 0 {
            return;
        }
        match way {
            Some(way) if retained <= ROOM as u64 => self.undo.push(Record { cell, way }, self.spec.undo),
            _ => self.undo.interrupt(cell),
        }
    }

    /// The host wrote a file: that isn't a cell, and stays when the next one is taken back.
    pub(super) fn note_host_write(&mut self) -> io::Result<()> {
        let now = self.instance.store.data().machine.clone();
        let globals = self.instance.globals();
        match &mut self.before {
            Before::Fresh if self.spec.rollback != Rollback::Never => {
                // It isn't as it was booted any more.
                let slot = self.shared.shadows.slot();
                self.before = Before::Copied { slot, machine: Box::new(now), globals };
            }
            Before::Ground { machine, .. } => **machine = now,
            // A copy is taken before the next cell.
            Before::Fresh | Before::Copied { .. } => {}
        }
        Ok(())
    }

    /// The next cell runs in a fresh interpreter.
    pub(super) fn start_afresh(&mut self) {
        self.before = Before::Fresh;
        self.undo.clear();
    }

    pub(super) fn roll_back(&mut self) -> Result<(), EngineError> {
        match &self.before {
            Before::Fresh => self.boot_afresh(self.seed),
            Before::Ground { machine, globals } => {
                let ground = Arc::clone(&self.ground);
                let (machine, globals) = (Machine::clone(machine), globals.clone());
                let fresh = self.instantiate(&ground, &globals, machine)?;
                self.instance.replace(fresh);
                Ok(())
            }
            Before::Copied { slot, machine, globals } => {
                let ground = Arc::clone(&self.ground);
                let (machine, globals, slot) = (Machine::clone(machine), globals.clone(), Arc::clone(slot));
                let mut fresh = self.instantiate(&ground, &globals, machine)?;
                let restored = slot
                    .with(|shadow| {
                        fresh.grow_to(shadow.length())?;
                        shadow.restore(fresh.memory_mut());
                        fresh.set_globals(&globals)
                    })
                    .ok_or_else(|| EngineError::Gone("its last state is not there any more".to_owned()))?;
                restored.map_err(gone)?;
                // The copy tracked the memory that is thrown away now.
                slot.clear();
                self.instance.replace(fresh);
                Ok(())
            }
        }
    }

    /// Everything that the guest is, shared with it from now on.
    pub(super) fn freeze(&mut self) -> Result<WasmSnapshot, EngineError> {
        let failed =
            |error: io::Error| EngineError::Exhausted(format!("no memory for a checkpoint: {error}"));
        let own = self.own_pages().map_err(failed)?;
        let changed = self.changed_pages(&own).map_err(failed)?;
        let globals = self.instance.globals();
        let machine = self.instance.store.data().machine.clone();
        let memory = self.instance.memory();
        if !changed.is_empty() || memory.len() != self.ground.length() {
            let ground = Arc::new(self.ground.with_pages(memory, &changed).map_err(failed)?);
            if self.instance.is_torn() {
                return Err(torn());
            }
            self.stand_on(ground);
            self.undo.trim(&self.ground);
        }
        if self.spec.rollback != Rollback::Never {
            // No copy is needed any more.
            let machine = Box::new(machine.clone());
            self.before = Before::Ground { machine, globals: globals.clone() };
        }
        let file_bytes = machine.files.usage().bytes.saturating_sub(self.shared.base_file_bytes());
        Ok(WasmSnapshot {
            environment: Arc::clone(self.shared.environment()),
            ground: Arc::clone(&self.ground),
            globals,
            machine,
            attach: self.attach.clone(),
            undo: Mutex::new(self.undo.clone()),
            undo_depth: self.spec.undo,
            told: told(&self.spec),
            file_bytes,
        })
    }

    /// Ranges of the memory that may differ from the ground.
    fn own_pages(&self) -> io::Result<Vec<Range<usize>>> {
        // Pages that are only tracked look private, so where they are the copy is asked.
        if let Before::Copied { slot, .. } = &self.before
            && let Some(ranges) = slot.with(Shadow::ranges)
        {
            return Ok(ranges);
        }
        let memory = self.instance.memory();
        let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
        self.shared.page_source.private(span)
    }

    /// Leaves out pages that are as in the ground: some were only copied from it, and not written.
    fn changed_pages(&self, own: &[Range<usize>]) -> io::Result<Vec<Range<usize>>> {
        let memory = self.instance.memory();
        let precise = self.shared.page_source != crate::pages::PageSource::All;
        let mut changed: Vec<Range<usize>> = Vec::new();
        let mut old = vec![0; HOST_PAGE];
        for start in own.iter().flat_map(|range| range.clone().step_by(HOST_PAGE)) {
            let page = start..start + HOST_PAGE;
            let copied = match self.ground.run_at(start) {
                Some(run) => !self.ground.is_mapped(run),
                // Those that every cell writes were copied ahead of time.
                None => start < self.ground.image.length(),
            };
            if copied || !precise {
                self.ground.read_page(start, &mut old)?;
                if memory[page.clone()] == old {
                    continue;
                }
            }
            match changed.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => changed.push(page),
            }
        }
        Ok(changed)
    }

    /// Makes a new ground, which has all that the memory has, the one that the memory is a view of.
    fn stand_on(&mut self, ground: Arc<Ground>) {
        if let Before::Copied { slot, .. } = &self.before {
            // Tracking ends where something else is mapped.
            slot.clear();
        }
        // What moved to another file is mapped anew, too: the old one could not go before.
        let moved =
            |run: &&Run| self.ground.run_at(run.memory.start).is_none_or(|old| !old.has_same_bytes(run));
        let runs: Vec<Run> =
            ground.runs().iter().filter(|run| ground.is_mapped(run)).filter(moved).cloned().collect();
        let memory = self.instance.memory_mut();
        for run in runs {
            // Where the kernel refuses, the pages stay the guest's own, which is as good.
            if let Err(error) = memory::share(memory, &run) {
                tracing::debug!(%error, "a run of pages stays private");
            }
        }
        self.ground = ground;
    }

    /// The guest as it was when the snapshot was made.
    pub(super) fn become_snapshot(&mut self, snapshot: &WasmSnapshot) -> Result<(), EngineError> {
        let machine = self.shared.surround(snapshot.machine.clone(), &self.spec)?;
        let fresh = self.instantiate(&snapshot.ground, &snapshot.globals, machine.clone())?;
        self.instance.replace(fresh);
        self.ground = Arc::clone(&snapshot.ground);
        self.before = Before::Ground { machine: Box::new(machine), globals: snapshot.globals.clone() };
        self.attach = snapshot.attach.clone();
        if snapshot.told != told(&self.spec) {
            self.attach.get_or_insert(Attach { seed: None });
        }
        self.undo = snapshot.undo.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(())
    }

    /// Takes back the last cells.
    pub(super) fn take_back_cells(&mut self, count: usize) -> Result<(), EngineError> {
        if count == 0 {
            return Ok(());
        }
        let log = self.undo.clone();
        let records = self.undo.take(count, &self.ground, self.spec.undo).map_err(EngineError::Undo)?;
        let rest = self.undo.clone();
        let done = self.walk_back(&records);
        self.undo = if done.is_ok() { rest } else { log };
        done
    }

    fn walk_back(&mut self, records: &[Arc<Record>]) -> Result<(), EngineError> {
        let failed = |error: io::Error| EngineError::Undo(format!("what was kept cannot be read: {error}"));
        // What the target's pages are a change of, and that change.
        let mut base: Option<Arc<Ground>> = None;
        let mut pages: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let length = match records.last().map(|record| &record.way) {
            Some(Way::Ground(stand) | Way::Pages { stand, .. }) => stand.length,
            Some(Way::Fresh { .. }) | None => 0,
        };
        for record in records {
            match &record.way {
                Way::Fresh { seed } => return self.boot_afresh(Some(*seed)),
                Way::Ground(stand) => {
                    pages.clear();
                    base = Some(Arc::clone(&stand.ground));
                }
                Way::Pages { stand, delta } => {
                    for (address, lines) in delta.pages().filter(|(address, _)| *address < length) {
                        let page = match pages.entry(address) {
                            Entry::Occupied(entry) => entry.into_mut(),
                            Entry::Vacant(entry) => {
                                entry.insert(self.newer_page(base.as_deref(), address).map_err(failed)?)
                            }
                        };
                        older_page(lines, &stand.ground, address, page).map_err(failed)?;
                    }
                }
            }
        }
        let Some(Way::Ground(stand) | Way::Pages { stand, .. }) = records.last().map(|record| &record.way)
        else {
            return Ok(());
        };
        self.become_stand(stand, base, &pages)
    }

    /// A page after the cell that is about to be taken back.
    fn newer_page(&self, base: Option<&Ground>, address: usize) -> io::Result<Vec<u8>> {
        let mut page = vec![0; HOST_PAGE];
        match base {
            Some(ground) if address < ground.length() => ground.read_page(address, &mut page)?,
            Some(_) => {}
            None => {
                if let Some(now) = self.instance.memory().get(address..address + HOST_PAGE) {
                    page.copy_from_slice(now);
                }
            }
        }
        Ok(page)
    }

    fn become_stand(
        &mut self,
        stand: &Stand,
        base: Option<Arc<Ground>>,
        pages: &BTreeMap<usize, Vec<u8>>,
    ) -> Result<(), EngineError> {
        if stand.length as u64 > self.spec.limits.memory {
            return Err(EngineError::Undo("it had more memory then than it may have".to_owned()));
        }
        let machine = self.shared.surround((*stand.machine).clone(), &self.spec)?;
        if base.is_none() && self.instance.memory().len() == stand.length {
            return self.change_back(stand, machine, pages);
        }
        let from = base.as_ref().unwrap_or(&self.ground);
        let ground = match from.length() > stand.length {
            true => Arc::new(from.with_length(stand.length)),
            false => Arc::clone(from),
        };
        let mut fresh = self.instantiate(&ground, &stand.globals, machine.clone())?;
        fresh.grow_to(stand.length).map_err(gone)?;
        let own = match base {
            Some(_) => Vec::new(),
            None => self.own_pages().map_err(|error| exhausted(&error))?,
        };
        let target = fresh.memory_mut();
        for range in own {
            let range = range.start..range.end.min(target.len());
            if !range.is_empty() {
                target[range.clone()].copy_from_slice(&self.instance.memory()[range]);
            }
        }
        for (address, page) in pages {
            if let Some(slot) = target.get_mut(*address..address + HOST_PAGE) {
                slot.copy_from_slice(page);
            }
        }
        if self.instance.is_torn() {
            return Err(torn());
        }
        self.instance.replace(fresh);
        self.ground = ground;
        let slot = self.shared.shadows.slot();
        let globals = stand.globals.clone();
        self.before = Before::Copied { slot, machine: Box::new(machine), globals };
        self.attach = stand.attach.clone();
        Ok(())
    }

    /// Changes pages of the memory back in place.
    fn change_back(
        &mut self,
        stand: &Stand,
        machine: Machine,
        pages: &BTreeMap<usize, Vec<u8>>,
    ) -> Result<(), EngineError> {
        let memory = self.instance.memory_mut();
        for (address, page) in pages {
            if let Some(slot) = memory.get_mut(*address..address + HOST_PAGE) {
                slot.copy_from_slice(page);
            }
        }
        self.instance.set_globals(&stand.globals).map_err(gone)?;
        self.instance.store.data_mut().machine = machine.clone();
        let (machine, globals) = (Box::new(machine), stand.globals.clone());
        self.before = match std::mem::replace(&mut self.before, Before::Fresh) {
            Before::Copied { slot, .. } => {
                let memory = self.instance.exports.memory.data(&self.instance.store);
                slot.update(|shadow| shadow.update(memory, &mut Delta::default()));
                Before::Copied { slot, machine, globals }
            }
            Before::Fresh | Before::Ground { .. } => {
                Before::Copied { slot: self.shared.shadows.slot(), machine, globals }
            }
        };
        self.attach = stand.attach.clone();
        Ok(())
    }

    /// As it was booted.
    fn boot_afresh(&mut self, seed: Option<[u8; 16]>) -> Result<(), EngineError> {
        let mut machine = self.shared.machine(&self.spec)?;
        let mut drawn = [0; 16];
        machine.entropy.fill(&mut drawn).map_err(|error| EngineError::Gone(error.to_string()))?;
        let seed = seed.unwrap_or(drawn);
        let ground = Arc::clone(self.shared.bare_ground());
        let fresh = self.instantiate(&ground, self.shared.globals(), machine)?;
        self.instance.replace(fresh);
        self.ground = ground;
        self.seed = Some(seed);
        self.before = Before::Fresh;
        self.attach = None;
        self.send_boot(&seed)
    }

    fn instantiate(
        &self,
        ground: &Arc<Ground>,
        globals: &[i32],
        machine: Machine,
    ) -> Result<Instance, EngineError> {
        self.shared.instantiate(ground, globals, machine, Arc::clone(&self.control), &self.spec).map_err(gone)
    }
}

fn gone(error: wasmtime::Error) -> EngineError {
    EngineError::Gone(format!("it could not be rolled back: {error:#}"))
}

/// What a guest is told of its surroundings, in short.
fn told(spec: &GuestSpec) -> [u8; 16] {
    let frame = frame::boot_again(spec, None, spec.limits.output);
    let mut digest = [0; 16];
    blake3::Hasher::new().update(&frame).finalize_xof().fill(&mut digest);
    digest
}
