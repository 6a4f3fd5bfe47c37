//! A session: an interpreter that answers the next cell whatever the last one did.
//!
//! After each cell the interpreter forks a sleeping shadow of itself. When a cell kills the interpreter, its shadow
//! goes on in its place, and the files are put back as they were; so cells can also be undone. Where an interpreter
//! can't fork (it has threads), what is left is the last state that was kept, or a fresh interpreter, and the
//! report says so.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use belljar_engine::frame::{self, Done, DoneStatus, Reply};
use belljar_engine::{
    Cell, CellHost, CellReport, Changes, Clock, Command, CommandReport, Descent, EngineError, Entropy,
    ExceptionReport, FileDoor, FileError, FileErrorCode, FileOp, FileReply, Guest, GuestSpec, Interrupter,
    Mount, MountAccess, ProcessInfo, ProcessOutput, Rollback, Snapshot, State, Status, Storage, Usage,
};
use belljar_files::{DirDoor, operations};
use serde::Deserialize;

use crate::commands::Background;
use crate::control::Control;
use crate::conversation::{Cause, Conversation, Ending, Told};
use crate::engine::{BOOTING, Room, Shared};
use crate::init::{self, Init};
use crate::kernel::Kernel;
use crate::nameless::Nameless;
use crate::pipes::Pipes;
use crate::snapshot::{self, Asleep, NativeSnapshot, Source};
use crate::tree::{Moment, Top};
use crate::{plan, sys};

/// How long a fork of a kernel may take.
const FORKING: Duration = Duration::from_secs(10);
/// Shadows may hold so much memory that the interpreter itself doesn't have any more.
const MOST_SHADOWED: u64 = 64 << 20;

/// Snapshots of one session that are processes.
const MOST_AWAKE: usize = 8;

const SHADOW: u8 = 4;
const SPILL: u8 = 7;
const FORKED: u8 = 19;
const SPILLED: u8 = 22;

pub(crate) struct NativeGuest {
    pub(crate) shared: Arc<Shared>,
    pub(crate) spec: Arc<GuestSpec>,
    pub(crate) room: Room,
    kernel: Kernel,
    pipes: Pipes,
    their_stdout: PipeWriter,
    their_stderr: PipeWriter,
    pub(crate) control: Arc<Control>,
    /// Where its randomness began.
    seed: [u8; 16],
    /// The files before the first cell: directories that every session of its kind has.
    first: Moment,
    /// The files after the last cell.
    pub(crate) files: Moment,
    /// The same at the last snapshot, with what was installed into the session.
    installed: Moment,
    /// States after earlier cells, the newest last.
    past: VecDeque<Arc<Past>>,
    /// The interpreter is as it was booted, but for cells in `past`.
    from_fresh: bool,
    /// Why the newest state isn't in `past`.
    unshadowed: Option<String>,
    /// The last state that was kept, to go back to where there is no shadow.
    kept: Option<Arc<snapshot::Kept>>,
    /// What must be done before the next cell.
    unsettled: Option<u32>,
    /// For the next report.
    notes: Vec<String>,
    /// How it came to be.
    origin: String,
    pub(crate) background: Background,
    spilled: bool,
    snapshots: VecDeque<Weak<NativeSnapshot>>,
}

/// The state after a cell: a sleeping shadow, from which interpreters are forked that go on from there.
pub(crate) struct Past {
    cell: u32,
    shadow: Mutex<Kernel>,
    /// Its number in the session.
    pid: i32,
    files: Mutex<Moment>,
    /// Bytes of memory that the interpreter had.
    memory: u64,
}

impl Past {
    /// An interpreter that goes on from here.
    pub(crate) fn wake(&self, init: &Init) -> io::Result<Kernel> {
        // Whoever shares its namespaces may have stopped it.
        let _ = init.signal_group(self.pid, libc::SIGCONT);
        let mut shadow = self.shadow.lock().unwrap_or_else(PoisonError::into_inner);
        NativeGuest::shadow_of(&mut shadow)?.map_err(io::Error::other)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    fn files(&self) -> Moment {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Deserialize)]
struct Forked {
    #[serde(default)]
    pid: i32,
    refused: Option<String>,
}

impl NativeGuest {
    pub(crate) fn boot(shared: &Arc<Shared>, spec: &Arc<GuestSpec>) -> Result<Self, EngineError> {
        if spec.clock != Clock::Host {
            let what =
                "stop the clock: real programs ask the kernel for the time; the wasm engine can".to_owned();
            return Err(EngineError::Unsupported { engine: "native", what });
        }
        let room = match shared.pool.take_room(spec) {
            Some(room) => room,
            None => shared.room(spec)?,
        };
        shared.pool.refill(shared, spec);
        let mut guest = Self::in_room(shared, spec, room, "forked from the preloaded interpreter")?;
        guest.note_first().map_err(boot_error)?;
        let frame = guest.boot_frame();
        guest.tell(&frame).map_err(boot_error)?;
        Ok(guest)
    }

    /// A guest whose interpreter isn't booted.
    fn in_room(
        shared: &Arc<Shared>,
        spec: &Arc<GuestSpec>,
        room: Room,
        origin: &str,
    ) -> Result<Self, EngineError> {
        let (pipes, their_stdout, their_stderr) = Pipes::new().map_err(exhausted)?;
        let nameless = Nameless::of(spec, room.init.host_pid());
        let control = Arc::new(Control::new(nameless).map_err(exhausted)?);
        let environment = &shared.environment;
        let kernel = room.kernel(environment, spec, their_stdout.as_fd(), their_stderr.as_fd());
        let kernel = kernel.map_err(|error| EngineError::Boot(error.to_string()))?;
        Ok(Self {
            shared: Arc::clone(shared),
            spec: Arc::clone(spec),
            room,
            kernel,
            pipes,
            their_stdout,
            their_stderr,
            control,
            seed: seed(spec, 0)?,
            first: Moment::default(),
            files: Moment::default(),
            installed: Moment::default(),
            past: VecDeque::new(),
            from_fresh: true,
            unshadowed: None,
            kept: None,
            unsettled: None,
            notes: Vec::new(),
            origin: origin.to_owned(),
            background: Background::default(),
            spilled: false,
            snapshots: VecDeque::new(),
        })
    }

    /// A guest that goes on from a snapshot, in namespaces of its own.
    pub(crate) fn resume(
        shared: &Arc<Shared>,
        spec: &Arc<GuestSpec>,
        snapshot: &NativeSnapshot,
        descent: Descent,
    ) -> Result<Self, EngineError> {
        let kept = snapshot.kept(&shared.scratch)?;
        let room = match shared.pool.take_room(spec) {
            Some(room) => room,
            None => shared.room(spec)?,
        };
        shared.pool.refill(shared, spec);
        let mut guest = Self::in_room(shared, spec, room, "woken from what was kept")?;
        guest.note_first().map_err(boot_error)?;
        guest.restore_files(&snapshot.files)?;
        let child = match descent {
            Descent::Same => None,
            Descent::Child(number) => Some(seed(spec, number)?),
        };
        guest.seed = child.unwrap_or(guest.seed);
        guest.load(&kept, child.as_ref()).map_err(|error| EngineError::Restore(error.to_string()))?;
        guest.from_fresh = false;
        guest.kept = Some(kept);
        Ok(guest)
    }

    /// Looks at the files that there are before anything was run.
    fn note_first(&mut self) -> io::Result<()> {
        self.first = self.room.tree.compare(&Moment::default())?.0;
        self.files = self.first.clone();
        Ok(())
    }

    /// Runs what packages do at first use, so that the first cell doesn't have to.
    pub(crate) fn warm(&mut self) -> Result<(), EngineError> {
        const CODE: &[u8] = b"__import__('belljar_native.zygote').zygote._rehearse_packages()";
        let frame = frame::run(&Cell { number: 0, file: None, code: CODE.to_vec() });
        let reply = self.kernel.ask(&frame, &[], BOOTING).map_err(boot_error)?;
        if !matches!(frame::decode_reply(&reply), Ok(Reply::Done(Done { status: DoneStatus::Ok, .. }))) {
            return Err(EngineError::Boot("it could not be warmed".to_owned()));
        }
        self.pipes.discard();
        self.files = self.room.tree.compare(&self.files).map_err(boot_error)?.0;
        Ok(())
    }

    /// Boots a fresh interpreter and gives it the variables that were kept.
    fn load(&mut self, kept: &snapshot::Kept, seed: Option<&[u8; 16]>) -> io::Result<()> {
        let frame = self.boot_frame();
        self.tell(&frame)?;
        let lost = kept.load(&mut self.kernel)?;
        let again = frame::boot_again(&self.spec, seed, self.spec.limits.output);
        self.tell(&again)?;
        self.notes.extend(lost);
        Ok(())
    }

    fn boot_frame(&self) -> Vec<u8> {
        let surroundings = plan::surroundings(&self.shared.environment, &self.spec);
        frame::boot_in(&self.spec, &self.seed, self.spec.limits.output, &surroundings)
    }

    /// Sends a frame that is answered by `READY`.
    fn tell(&mut self, frame: &[u8]) -> io::Result<()> {
        let reply = self.kernel.ask(frame, &[], BOOTING)?;
        match frame::decode_reply(&reply) {
            Ok(Reply::Ready) => Ok(()),
            _ => Err(io::Error::other("it did not answer as it should")),
        }
    }

    fn host_pid(&self) -> Option<i32> {
        self.kernel.process.as_ref().and_then(|process| sys::host_pid(process.as_fd()))
    }

    /// Forks a shadow of a kernel: a socket to it, and its number.
    pub(crate) fn shadow_of(kernel: &mut Kernel) -> io::Result<Result<Kernel, String>> {
        let (ours, theirs) = UnixStream::pair()?;
        let reply = kernel.ask(&[SHADOW], &[theirs.as_fd()], FORKING)?;
        let Some((&FORKED, payload)) = reply.split_first() else {
            return Err(io::Error::other("it did not fork"));
        };
        let forked: Forked = serde_json::from_slice(payload)?;
        match forked.refused {
            Some(reason) => Ok(Err(reason.chars().take(500).collect())),
            None if forked.pid > 1 => Ok(Ok(Kernel::new(ours, None, forked.pid)?)),
            None => Err(io::Error::other("a shadow without a number")),
        }
    }

    /// Remembers the state after a cell.
    fn remember(&mut self, cell: u32) {
        self.unsettled = None;
        if self.spec.rollback != Rollback::Never {
            self.shadow_now(cell);
        }
    }

    fn shadow_now(&mut self, cell: u32) {
        let memory = self.host_pid().map_or(0, private_memory);
        match Self::shadow_of(&mut self.kernel) {
            Ok(Ok(shadow)) => {
                self.unshadowed = None;
                let (pid, files) = (shadow.pid, Mutex::new(self.files.clone()));
                self.past.push_back(Arc::new(Past { cell, shadow: Mutex::new(shadow), pid, files, memory }));
            }
            Ok(Err(reason)) => {
                self.past.clear();
                self.from_fresh = false;
                self.unshadowed = Some(reason);
            }
            // It is no longer known what it says, or to what.
            Err(error) => self.replace_broken(&error.to_string()),
        }
        self.forget_old(memory);
    }

    /// Lets go of states that are too many, or hold too much memory.
    fn forget_old(&mut self, memory: u64) {
        let heavy = self.past.iter().rposition(|past| past.memory > memory.saturating_add(MOST_SHADOWED));
        let surplus = self.past.len().saturating_sub(self.spec.undo + 1);
        let count = heavy.map_or(0, |place| place + 1).max(surplus).min(self.past.len().saturating_sub(1));
        if count > 0 {
            self.past.drain(..count);
            self.from_fresh = false;
        }
    }

    fn settle_now(&mut self) {
        if let Some(cell) = self.unsettled {
            self.remember(cell);
        }
    }

    /// Puts a shadow in the interpreter's place.
    fn promote(&mut self, mut shadow: Kernel) -> io::Result<()> {
        shadow.process = Some(self.room.init.watch(shadow.pid)?);
        self.kernel = shadow;
        Ok(())
    }

    fn end_process(&self) {
        if let Some(process) = &self.kernel.process {
            init::end(process.as_fd());
        }
    }

    /// Live shadows are processes: of many snapshots the oldest become files.
    fn put_old_snapshots_to_sleep(&mut self) {
        let awake: Vec<Arc<NativeSnapshot>> = self
            .snapshots
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|snapshot| snapshot.pid().is_some())
            .collect();
        for snapshot in awake.iter().take(awake.len().saturating_sub(MOST_AWAKE)) {
            if let Err(error) = snapshot.put_to_sleep() {
                tracing::debug!(%error, "a snapshot stays in memory");
            }
        }
    }

    /// Ends the interpreter with all that it started since.
    fn end_kernel(&mut self, since: u64) {
        self.end_process();
        // Also those of earlier cells: they know of a future that isn't.
        let _ = since;
        let _ = self.room.init.end(0, Vec::new(), self.kept_processes());
        self.pipes.discard();
    }

    /// Goes back to the state before the cell. Says what became of the variables.
    fn go_back(&mut self, since: u64) -> Result<State, EngineError> {
        self.end_kernel(since);
        if self.spec.rollback == Rollback::Never {
            self.start_afresh()?;
            return Ok(State::Lost);
        }
        let files = self.files.clone();
        let state = self.wake_past()?;
        self.restore_files(&files)?;
        Ok(state)
    }

    /// The newest shadow that can be woken, or what there is instead.
    fn wake_past(&mut self) -> Result<State, EngineError> {
        let mut reason = self.unshadowed.take().unwrap_or_else(|| "it had no shadow".to_owned());
        let mut skipped = 0;
        while let Some(past) = self.past.back().cloned() {
            match past.wake(&self.room.init).and_then(|kernel| self.promote(kernel)) {
                Ok(()) if skipped == 0 => return Ok(State::RolledBack),
                Ok(()) => {
                    self.notes.push(format!(
                        "the variables are those after cell {}: the shadows of later ones were gone",
                        past.cell
                    ));
                    return Ok(State::RolledBack);
                }
                Err(error) => reason = format!("its shadow is gone: {error}"),
            }
            skipped += 1;
            self.past.pop_back();
        }
        if self.from_fresh && skipped == 0 {
            self.fresh_kernel()?;
            return Ok(State::RolledBack);
        }
        self.fall_back(&reason)
    }

    /// The interpreter ended, or spoke, when nothing was asked of it. It isn't listened to any more.
    fn replace_broken(&mut self, reason: &str) {
        let state = self.go_back(sys::ticks());
        let text = match &state {
            Ok(State::Lost) => format!("the interpreter broke between cells: {reason}"),
            Ok(_) => {
                format!("the interpreter broke between cells, and went on from an earlier state: {reason}")
            }
            Err(error) => format!("the interpreter broke between cells, and cannot be replaced: {error}"),
        };
        self.notes.push(text);
    }

    /// There is no shadow: the last state that was kept, or none.
    fn fall_back(&mut self, reason: &str) -> Result<State, EngineError> {
        self.past.clear();
        self.new_kernel()?;
        if let Some(kept) = self.kept.clone() {
            if self.load(&kept, None).is_ok() {
                self.notes.push(format!(
                    "the variables are those that were last kept, and not those before this cell: {reason}"
                ));
                return Ok(State::RolledBack);
            }
            self.new_kernel()?;
        }
        self.boot_kernel()?;
        self.from_fresh = true;
        self.notes.push(format!("the variables are lost: {reason}"));
        Ok(State::Lost)
    }

    fn start_afresh(&mut self) -> Result<(), EngineError> {
        self.past.clear();
        self.fresh_kernel()?;
        let first = self.first.clone();
        self.restore_files(&first)?;
        self.from_fresh = true;
        Ok(())
    }

    fn fresh_kernel(&mut self) -> Result<(), EngineError> {
        self.new_kernel()?;
        self.boot_kernel()
    }

    /// Ends whoever of an earlier cell stands in the way: all but init.
    fn clear_the_way(&mut self) {
        let _ = self.room.init.end(0, Vec::new(), Vec::new());
        self.past.clear();
        self.notes.push("all processes of the session were ended".to_owned());
    }

    /// An interpreter that isn't booted, in the same namespaces.
    fn new_kernel(&mut self) -> Result<(), EngineError> {
        let environment = &self.shared.environment;
        let (stdout, stderr) = (self.their_stdout.as_fd(), self.their_stderr.as_fd());
        if let Ok(kernel) = self.room.kernel(environment, &self.spec, stdout, stderr) {
            self.kernel = kernel;
            return Ok(());
        }
        self.clear_the_way();
        let (stdout, stderr) = (self.their_stdout.as_fd(), self.their_stderr.as_fd());
        self.kernel = self.room.kernel(&self.shared.environment, &self.spec, stdout, stderr).map_err(gone)?;
        Ok(())
    }

    fn boot_kernel(&mut self) -> Result<(), EngineError> {
        let frame = self.boot_frame();
        self.tell(&frame).map_err(gone)
    }

    fn restore_files(&mut self, files: &Moment) -> Result<(), EngineError> {
        let failed = self
            .room
            .tree
            .restore(files)
            .map_err(|error| EngineError::Gone(format!("its files: {error}")))?;
        if failed > 0 {
            self.notes.push(format!("{failed} paths could not be put back"));
        }
        // Restored files are new ones to the file system.
        self.files = self.room.tree.compare(files).map_err(gone)?.0;
        Ok(())
    }

    fn report(
        &mut self,
        told: Told,
        ending: Ending,
        host: &dyn CellHost,
        mut usage: Usage,
        since: u64,
        kills: u64,
    ) -> Result<CellReport, EngineError> {
        let tree = &self.room.tree;
        usage.tool_calls = told.tool_calls;
        usage.file_bytes = tree.bytes();
        let cause = told.cause;
        let mut report = CellReport {
            status: Status::Ok,
            value: None,
            exception: None,
            exit_code: None,
            reason: None,
            stdout: told.stdout.finish(host, tree),
            stderr: told.stderr.finish(host, tree),
            displays: told.displays,
            changes: Changes::default(),
            usage,
            state: State::Kept,
            notes: Vec::new(),
        };
        let back = match ending {
            Ending::Done(done) => {
                self.done(&mut report, done, cause);
                self.spec.rollback == Rollback::OnError && !ended_well(&report)
            }
            Ending::Exited(code) => {
                report.status = Status::Exited;
                report.exit_code = Some(code);
                report.reason = Some("the interpreter was told to exit".to_owned());
                true
            }
            Ending::Broken { reason, hard } => {
                let out_of_memory = self.room.group.memory_kills() > kills;
                (report.status, report.reason) = match cause {
                    _ if out_of_memory => (
                        Status::OutOfMemory,
                        Some("it used more memory than it may have, and was ended".to_owned()),
                    ),
                    Some(Cause::Deadline) => (Status::Timeout, Some(self.too_long())),
                    Some(Cause::ProcessorTime) => (Status::Timeout, Some(self.too_much_time())),
                    Some(Cause::Interrupt) => (Status::Interrupted, Some(reason)),
                    Some(Cause::Full) => (Status::DiskFull, Some(self.files_full())),
                    None if hard => (Status::Killed, Some(reason)),
                    None => (Status::Killed, Some(format!("the interpreter crashed: {reason}"))),
                };
                true
            }
        };
        if back {
            report.state = self.go_back(since)?;
            (report.stdout.rest, report.stderr.rest) = (None, None);
        } else {
            let compared = self.room.tree.compare(&self.files);
            match compared {
                Ok((files, changes)) => (self.files, report.changes) = (files, changes),
                Err(error) => {
                    report.notes.push(format!("the files that it changed cannot be listed: {error}"))
                }
            }
        }
        report.notes.append(&mut self.notes);
        Ok(report)
    }

    fn done(&self, report: &mut CellReport, done: Done, cause: Option<Cause>) {
        let memory_error = done.exception.as_ref().is_some_and(|raised| raised.kind == "MemoryError");
        report.status = match (done.status, cause) {
            (DoneStatus::Ok, _) => Status::Ok,
            (DoneStatus::Interrupted, Some(Cause::Deadline | Cause::ProcessorTime)) => Status::Timeout,
            (DoneStatus::Interrupted, _) => Status::Interrupted,
            (DoneStatus::Error, _) if memory_error => Status::OutOfMemory,
            (DoneStatus::Error, _) if self.is_for_want_of_room(done.exception.as_ref()) => Status::DiskFull,
            (DoneStatus::Error, _) => Status::Error,
            (DoneStatus::Exited, _) => Status::Exited,
        };
        report.value = done.value;
        report.exception = done.exception;
        report.exit_code = done.exit_code;
        report.reason = match (report.status, cause) {
            (Status::Timeout, Some(Cause::ProcessorTime)) => Some(self.too_much_time()),
            (Status::Timeout, _) => Some(self.too_long()),
            (Status::DiskFull, _) => Some(self.files_full()),
            (Status::Error, _) if self.room.tree.is_full() => Some(self.files_full()),
            _ => None,
        };
    }

    /// Whether an exception says that nothing more could be written, and that is so.
    fn is_for_want_of_room(&self, raised: Option<&ExceptionReport>) -> bool {
        let says = |number: i32| {
            raised.is_some_and(|raised| {
                raised.kind == "OSError" && raised.message.starts_with(&format!("[Errno {number}]"))
            })
        };
        let full = says(libc::ENOSPC) || says(libc::EDQUOT);
        match self.spec.storage {
            Storage::Memory => full && self.room.tree.is_full(),
            Storage::Disk(_) => full || says(libc::EFBIG),
        }
    }

    pub(crate) fn files_full(&self) -> String {
        let limits = &self.spec.limits;
        format!("the session's files are full: {} bytes, {} files", limits.file_bytes, limits.file_count)
    }

    fn too_long(&self) -> String {
        match self.spec.limits.wall {
            Some(limit) => format!("it ran longer than {limit:?}"),
            None => "its time was over".to_owned(),
        }
    }

    fn too_much_time(&self) -> String {
        format!("it used more than {:?} of processor time", self.spec.limits.cpu_time.unwrap_or_default())
    }

    /// The number of cells that can be taken back: each state in the past but the newest is before one.
    fn undoable_count(&self) -> usize {
        let cells = self.past.iter().filter(|past| past.cell > 0).count();
        let first_is_known = self.from_fresh || self.past.front().is_some_and(|past| past.cell == 0);
        match first_is_known {
            true => cells.min(self.spec.undo),
            false => cells.saturating_sub(1).min(self.spec.undo),
        }
    }
}

fn ended_well(report: &CellReport) -> bool {
    match report.status {
        Status::Ok => true,
        Status::Exited => report.exit_code.unwrap_or_default() == 0,
        _ => false,
    }
}

fn seed(spec: &GuestSpec, child: u64) -> Result<[u8; 16], EngineError> {
    let mut seed = [0; 16];
    match spec.entropy {
        Entropy::Host => {
            rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
                .map_err(|error| EngineError::Boot(error.to_string()))?;
        }
        Entropy::Seeded(number) => {
            let hash = blake3::hash(&[number.to_le_bytes(), child.to_le_bytes()].concat());
            seed.copy_from_slice(&hash.as_bytes()[..16]);
        }
    }
    Ok(seed)
}

/// Bytes of memory that no file has.
fn private_memory(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|number| number.parse::<u64>().unwrap_or_default());
    match (pages.next(), pages.next()) {
        (Some(resident), Some(shared)) => resident.saturating_sub(shared) << 12,
        _ => 0,
    }
}

fn exhausted(error: io::Error) -> EngineError {
    EngineError::Exhausted(error.to_string())
}

fn boot_error(error: io::Error) -> EngineError {
    EngineError::Boot(error.to_string())
}

fn gone(error: io::Error) -> EngineError {
    EngineError::Gone(error.to_string())
}

impl Guest for NativeGuest {
    fn run(&mut self, cell: Cell, host: Arc<dyn CellHost>) -> Result<CellReport, EngineError> {
        self.settle_now();
        if self.kernel.has_spoken() {
            self.replace_broken("it ended, or said what nobody asked for");
        }
        self.spilled = false;
        self.pipes.discard();
        let spec = Arc::clone(&self.spec);
        let number = cell.number;
        let mut told = Told::new(&format!("cell-{number}"), &spec.limits);
        let (since, kills) = (sys::ticks(), self.room.group.memory_kills());
        let host_pid = self.host_pid();
        let (started, cpu) = (Instant::now(), host_pid.and_then(sys::processor_time));
        let running = self.control.begin();
        let ending = match host.is_cancelled() {
            true => Ending::Done(Done::INTERRUPTED),
            false => {
                let conversation = Conversation {
                    kernel: &mut self.kernel,
                    pipes: &mut self.pipes,
                    tree: &self.room.tree,
                    control: &self.control,
                    host: &host,
                    limits: &spec.limits,
                    told: &mut told,
                    host_pid,
                };
                conversation.hold(running, &frame::run(&cell))
            }
        };
        self.control.end();
        let after = host_pid.and_then(sys::processor_time);
        let usage = Usage {
            wall: started.elapsed(),
            cpu: after.zip(cpu).map_or(Duration::ZERO, |(after, before)| after.saturating_sub(before)),
            memory: host_pid.map_or(0, private_memory),
            ..Usage::default()
        };
        let report = self.report(told, ending, host.as_ref(), usage, since, kills)?;
        if report.state == State::Kept {
            self.unsettled = Some(number);
        }
        Ok(report)
    }

    fn settle(&mut self) {
        self.settle_now();
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>, EngineError> {
        let path = self.unaliased(path);
        let path = path.as_ref();
        let path_of =
            |error: io::Error| EngineError::File { path: path.to_owned(), reason: error.to_string() };
        match self.mounted(path) {
            Some((mount, rest)) => {
                let most = self.spec.limits.file_bytes;
                open_mount(mount).and_then(|top| top.read(&rest, most)).map_err(path_of)
            }
            None => match self.room.tree.read(path) {
                // Perhaps a link leads into a mount.
                Err(error) => self.read_by_door(path).ok_or_else(|| path_of(error)),
                Ok(contents) => Ok(contents),
            },
        }
    }

    fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<(), EngineError> {
        // It isn't part of the last cell, nor of the next one.
        self.settle_now();
        let path = self.unaliased(path).into_owned();
        let path = path.as_str();
        let path_of =
            |error: io::Error| EngineError::File { path: path.to_owned(), reason: error.to_string() };
        match self.mounted(path) {
            Some((mount, _)) if mount.access == MountAccess::ReadOnly => {
                return Err(path_of(io::ErrorKind::ReadOnlyFilesystem.into()));
            }
            Some((mount, rest)) => {
                let top = open_mount(mount).map_err(path_of)?;
                return top.write(&rest, contents).map_err(path_of);
            }
            None => self.room.tree.write(path, contents).map_err(path_of)?,
        }
        self.files = self.room.tree.compare(&self.files).map_err(gone)?.0;
        self.note_files();
        Ok(())
    }

    fn file(&mut self, operation: FileOp) -> Result<FileReply, FileError> {
        let door = self.open_door().map_err(|error| failed(&error.to_string()))?;
        let door = door.ok_or_else(|| failed("the workspace is on disk, and not in memory"))?;
        let looks = matches!(
            operation,
            FileOp::Stat { .. } | FileOp::List { .. } | FileOp::Read { .. } | FileOp::ReadLink { .. }
        );
        if looks {
            return door.file(operation);
        }
        // It isn't part of the last cell, nor of the next one.
        self.settle_now();
        let reply = door.file(operation)?;
        let compared = self.room.tree.compare(&self.files).map_err(|error| failed(&error.to_string()))?;
        self.files = compared.0;
        self.note_files();
        Ok(reply)
    }

    fn end_processes(&mut self) {
        for id in self.background.ids() {
            let _ = self.background.kill(id, &self.room.init);
        }
        // The interpreter must be known to be spared.
        if let Some(kernel) = self.host_pid().and_then(sys::inner_pid) {
            let mut keep = self.kept_processes();
            keep.push(kernel);
            let _ = self.room.init.end(0, Vec::new(), keep);
        }
    }

    fn door(&self) -> Option<Arc<dyn FileDoor>> {
        Some(Arc::new(self.open_door().ok()??))
    }

    fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>, EngineError> {
        self.settle_now();
        if self.past.is_empty() && self.unshadowed.is_none() {
            // Nothing has been run yet, or nothing is ever taken back.
            self.shadow_now(0);
        }
        let source = match self.past.back() {
            Some(now) if self.unshadowed.is_none() => {
                let (past, init) = (self.past.clone(), Arc::clone(&self.room.init));
                Source::Asleep(Asleep { now: Arc::clone(now), past, from_fresh: self.from_fresh, init })
            }
            // It has threads: what can be kept is written now.
            _ => {
                let kept = Arc::new(snapshot::Kept::write(&mut self.kernel, &self.shared.scratch)?);
                self.kept = Some(Arc::clone(&kept));
                Source::Kept(kept)
            }
        };
        self.installed = self.room.tree.with_installed(&self.files, &self.installed);
        let made = Arc::new(NativeSnapshot::new(
            self.shared.environment.id.clone(),
            self.installed.clone(),
            source,
            self.host_pid().map_or(0, private_memory),
            self.spec.limits.clone(),
            self.shared.scratch.clone(),
        ));
        if self.spec.rollback == Rollback::Never {
            self.past.clear();
        }
        self.snapshots.retain(|snapshot| snapshot.strong_count() > 0);
        self.snapshots.push_back(Arc::downgrade(&made));
        self.put_old_snapshots_to_sleep();
        Ok(made)
    }

    fn roll_back_to(&mut self, snapshot: &dyn Snapshot) -> Result<(), EngineError> {
        let snapshot = snapshot
            .as_any()
            .downcast_ref::<NativeSnapshot>()
            .ok_or_else(|| EngineError::Restore("it is of another engine".to_owned()))?;
        self.settle_now();
        match snapshot.asleep_in(&self.room.init) {
            Some(Asleep { now, past, from_fresh, .. }) => {
                let woken = now.wake(&self.room.init).map_err(gone)?;
                self.end_process();
                self.promote(woken).map_err(gone)?;
                (self.past, self.from_fresh, self.unshadowed) = (past, from_fresh, None);
                self.restore_files(&snapshot.files)?;
                self.note_files();
            }
            None => {
                let kept = snapshot.kept(&self.shared.scratch)?;
                self.end_process();
                self.past.clear();
                self.from_fresh = false;
                self.new_kernel()?;
                self.load(&kept, None).map_err(gone)?;
                self.kept = Some(kept);
                self.restore_files(&snapshot.files)?;
                self.remember(0);
            }
        }
        Ok(())
    }

    fn undoable(&mut self) -> Result<Vec<u32>, EngineError> {
        self.settle_now();
        let count = self.undoable_count();
        Ok(self.past.iter().rev().take(count).map(|past| past.cell).collect())
    }

    fn undo(&mut self, cells: usize) -> Result<(), EngineError> {
        self.settle_now();
        let available = self.undoable_count();
        if cells > available {
            let cells = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
            let why = match &self.unshadowed {
                Some(reason) => format!("; no state was kept: {reason}"),
                None => String::new(),
            };
            return Err(EngineError::Undo(format!(
                "{cells} cannot be taken back, but only {available}{why}"
            )));
        }
        if cells == 0 {
            return Ok(());
        }
        self.end_process();
        self.past.truncate(self.past.len() - cells);
        let files = match self.past.back().cloned() {
            Some(past) => {
                past.wake(&self.room.init).and_then(|kernel| self.promote(kernel)).map_err(gone)?;
                past.files()
            }
            None => {
                self.fresh_kernel()?;
                self.first.clone()
            }
        };
        self.restore_files(&files)?;
        self.note_files();
        Ok(())
    }

    fn interrupter(&self) -> Arc<dyn Interrupter> {
        Arc::clone(&self.control) as Arc<dyn Interrupter>
    }

    fn private_memory(&self) -> u64 {
        let pid = self.host_pid();
        let rollup = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
        let kilobytes = rollup.as_deref().map(|text| {
            let lines = text.lines().filter(|line| line.starts_with("Private_"));
            let numbers = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            numbers.sum::<u64>()
        });
        kilobytes.map_or_else(|| pid.map_or(0, private_memory), |kilobytes| kilobytes << 10)
    }

    fn command(&mut self, command: Command, host: Arc<dyn CellHost>) -> Result<CommandReport, EngineError> {
        self.settle_now();
        self.run_command(command, &host)
    }

    fn start(&mut self, command: Command) -> Result<u32, EngineError> {
        self.start_command(command)
    }

    fn processes(&mut self) -> Result<Vec<ProcessInfo>, EngineError> {
        Ok(self.background.list(&self.room.init))
    }

    fn process_output(&mut self, id: u32) -> Result<ProcessOutput, EngineError> {
        self.background.output(id)
    }

    fn kill(&mut self, id: u32) -> Result<(), EngineError> {
        self.background.kill(id, &self.room.init)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![self.origin.clone()];
        notes.extend(self.unshadowed.iter().map(|reason| format!("no state is kept after cells: {reason}")));
        notes
    }

    fn idle(&mut self) {
        if self.spilled {
            return;
        }
        self.spilled = true;
        let Ok(file) = tempfile::tempfile_in(&self.shared.scratch) else { return };
        let spill = self.spec.spill;
        let message =
            serde_json::json!({ "frame_bytes": spill.frame_bytes, "array_bytes": spill.array_bytes });
        let message = [&[SPILL], message.to_string().as_bytes()].concat();
        // Shadows would keep what is moved out of memory in theirs.
        self.settle_now();
        match self.kernel.ask(&message, &[file.as_fd()], BOOTING) {
            Ok(reply) if reply.first() == Some(&SPILLED) => {
                let moved = serde_json::from_slice::<serde_json::Value>(&reply[1..]).unwrap_or_default();
                if moved["bytes"].as_u64().unwrap_or_default() > 0 {
                    let cell = self.past.back().map(|past| past.cell);
                    self.past.clear();
                    self.from_fresh = false;
                    if let Some(cell) = cell {
                        self.remember(cell);
                    }
                }
            }
            _ => tracing::debug!("nothing was moved to disk"),
        }
    }
}

impl NativeGuest {
    /// Processes that stay when others are ended: the interpreter, its shadows, what runs in the background.
    pub(crate) fn kept_processes(&self) -> Vec<i32> {
        let mut keep: Vec<i32> = self.past.iter().map(|past| past.pid).collect();
        keep.extend(self.snapshots.iter().filter_map(Weak::upgrade).filter_map(|snapshot| snapshot.pid()));
        keep.extend(self.background.pids());
        keep
    }

    /// The files have changed outside of cells: the state to go back to has them too.
    pub(crate) fn note_files(&mut self) {
        let files = self.files.clone();
        if let Some(past) = self.past.back() {
            *past.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
        }
    }

    /// A file of a workspace in memory, also where links lead to what is mounted beside it.
    fn read_by_door(&self, path: &str) -> Option<Vec<u8>> {
        let relative = path.strip_prefix(self.spec.workspace.as_str())?.strip_prefix('/')?;
        let door = self.open_door().ok()??;
        operations::read(&door, relative, self.spec.limits.file_bytes).ok()
    }

    /// A way to the workspace, if it is in memory, with what is mounted in it and what links in it may lead to.
    fn open_door(&self) -> io::Result<Option<DirDoor>> {
        let Some(mut door) = self.room.tree.door(plan::aliases(&self.spec))? else { return Ok(None) };
        for mount in &self.spec.mounts {
            if let Some(path) = plan::below_workspace(&self.spec, mount) {
                door = door.with_mount(path, Arc::new(DirDoor::open(&mount.host)?));
            } else if mount.access == MountAccess::ReadOnly
                && let Ok(root) = DirDoor::open(&mount.host)
            {
                door = door.with_root(&mount.guest, Arc::new(root));
            }
        }
        Ok(Some(door))
    }

    /// A path by the workspace's own name, where it was given by another.
    fn unaliased<'p>(&self, path: &'p str) -> Cow<'p, str> {
        for alias in plan::aliases(&self.spec) {
            match path.strip_prefix(alias) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    return format!("{}{rest}", self.spec.workspace).into();
                }
                _ => {}
            }
        }
        path.into()
    }

    /// The mount that a path is in, and the path there.
    fn mounted(&self, path: &str) -> Option<(&Mount, String)> {
        let inside =
            |guest: &str| path.strip_prefix(guest.trim_end_matches('/')).filter(|rest| rest.starts_with('/'));
        let mounts = self.spec.mounts.iter().filter_map(|mount| Some((mount, inside(&mount.guest)?)));
        let (mount, rest) = mounts.max_by_key(|(mount, _)| mount.guest.len())?;
        Some((mount, rest.to_owned()))
    }
}

fn failed(reason: &str) -> FileError {
    FileError::told(FileErrorCode::Failed, "", reason)
}

fn open_mount(mount: &Mount) -> io::Result<Top> {
    Ok(Top::new(std::fs::File::open(&mount.host)?.into(), None))
}
