//! A guest: an interpreter that answers the next cell whatever the last one did.

mod past;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_engine::frame::{self, Done, DoneStatus, Reply};
use belljar_engine::{
    Cell, CellHost, CellReport, Changes, EngineError, ExceptionReport, FileError, FileErrorCode, FileOp,
    FileReply, Guest, GuestSpec, Interrupter, Rollback, Snapshot, State, Status, Storage, ToolGate, Usage,
};
use belljar_files::Errno;
use rustix::time::{ClockId, clock_gettime};
use wasmtime::Trap;

pub(crate) use self::past::Resumption;
use self::past::{Before, Pending};
use crate::control::{Cause, Control};
use crate::engine::Shared;
use crate::ground::Ground;
use crate::host::{OutputStream, RunningCell};
use crate::instance::Instance;
use crate::output::{self, Stream};
use crate::pages::Span;
use crate::pool::{Graveyard, Mortal};
use crate::shadow::Shadow;
use crate::snapshot::WasmSnapshot;
use crate::stack::on_large_stack;
use crate::stop::Stop;
use crate::tools::{self, StartedCalls};
use crate::undo::{Attach, UndoLog};
use crate::watchdog::GuestInterrupter;

/// Memory that a cell must find to run at all.
const ROOM: u32 = 1 << 20;
/// How long a guest may take to boot: a hundred thousand times as long as it does.
const BOOT_TIME: Duration = Duration::from_secs(5);

/// An interpreter in this process.
pub(crate) struct WasmGuest {
    shared: Arc<Shared>,
    spec: Arc<GuestSpec>,
    control: Arc<Control>,
    instance: Mortal,
    /// Where its randomness began, if it was booted here.
    seed: Option<[u8; 16]>,
    /// What its memory is a view of.
    ground: Arc<Ground>,
    /// What the next cell is taken back to.
    before: Before,
    /// What must be done before the next cell.
    pending: Pending,
    /// What the interpreter must be told first in its next cell.
    attach: Option<Attach>,
    /// Cells that can be taken back.
    undo: UndoLog,
}

/// How a call into the guest ended.
enum Ending {
    Done(Done),
    /// It ended by itself, but there is no memory left for another cell.
    Exhausted(Done),
    Stopped {
        status: Status,
        exit_code: Option<i32>,
        reason: String,
    },
}

impl WasmGuest {
    pub(crate) fn boot(shared: &Arc<Shared>, spec: &Arc<GuestSpec>) -> Result<Self, EngineError> {
        let mut machine = shared.machine(spec)?;
        let mut seed = [0; 16];
        machine.entropy.fill(&mut seed).map_err(|error| EngineError::Boot(error.to_string()))?;
        let control = Arc::new(Control::default());
        let instance = shared
            .instantiate(shared.bare_ground(), shared.globals(), machine, Arc::clone(&control), spec)
            .map_err(|error| EngineError::Exhausted(format!("{error:#}")))?;
        let mut guest = Self {
            shared: Arc::clone(shared),
            spec: Arc::clone(spec),
            control,
            instance: Mortal::new(instance),
            seed: Some(seed),
            ground: Arc::clone(shared.bare_ground()),
            before: Before::Fresh,
            pending: Pending::Nothing,
            attach: None,
            undo: UndoLog::default(),
        };
        guest.send_boot(&seed)?;
        Ok(guest)
    }

    /// Runs a cell that leaves no trace, so that the first real one finds its pages in place.
    pub(crate) fn warm(&mut self) -> Result<(), EngineError> {
        let frame = frame::run(&Cell { number: 0, file: None, code: b"print(1 + 1)".to_vec() });
        self.call(&frame).map(|_| ()).map_err(|error| EngineError::Boot(format!("{error:#}")))
    }

    /// Lets the pool take the interpreter apart when the guest is dropped.
    pub(crate) fn bury_in(&mut self, graveyard: Graveyard) {
        self.instance.bury_in(graveyard);
    }

    fn send_boot(&mut self, seed: &[u8; 16]) -> Result<(), EngineError> {
        let frame = frame::boot(&self.spec, seed, self.spec.limits.output);
        match self.call(&frame) {
            Ok(Reply::Ready) => Ok(()),
            Ok(_) => Err(EngineError::Boot("it did not answer as it should".to_owned())),
            Err(error) => Err(EngineError::Boot(format!("{error:#}"))),
        }
    }

    /// Calls the guest outside any cell. What was imported ahead of time may have changed the kernel, so it is
    /// watched all the same.
    fn call(&mut self, frame: &[u8]) -> wasmtime::Result<Reply> {
        let watchdog = Arc::clone(&self.shared.watchdog);
        watchdog.guard(&mut self.instance, Instant::now() + BOOT_TIME, |instance| {
            on_large_stack(|| instance.handle(frame))?
        })
    }

    /// Runs the cell's code until it ends or is stopped.
    fn execute(&mut self, cell: &Cell) -> Ending {
        let frame = frame::run(cell);
        let attach = self
            .attach
            .as_ref()
            .map(|Attach { seed }| frame::boot_again(&self.spec, seed.as_ref(), self.spec.limits.output));
        let instance = &mut self.instance;
        let outcome = on_large_stack(|| {
            // Within the cell, so that its limits hold: who tore at the kernel harms himself.
            if let Some(attach) = &attach
                && !matches!(instance.handle(attach)?, Reply::Ready)
            {
                return Err(Stop::violation("it did not take note of where it is"));
            }
            let mut reply = instance.handle(&frame)?;
            loop {
                match reply {
                    Reply::Done(done) => return Ok(done),
                    Reply::Waiting { timeout } => {
                        let resume = await_tools(instance, timeout)?;
                        reply = instance.handle(&resume)?;
                    }
                    Reply::Ready => return Err(Stop::violation("it said it was ready in a cell")),
                }
            }
        });
        match outcome {
            Ok(Ok(done)) => self.done(done),
            Ok(Err(error)) => self.stopped(&error),
            Err(error) => Ending::Stopped {
                status: Status::Killed,
                exit_code: None,
                reason: format!("no stack for it: {error}"),
            },
        }
    }

    /// Looks whether the next cell can run: what a memory bomb left in variables stays there.
    fn done(&mut self, done: Done) -> Ending {
        let instance = &mut self.instance;
        let refused = instance.store.data().memory_limit.refused;
        if refused && !matches!(on_large_stack(|| instance.has_room(ROOM)), Ok(Ok(true))) {
            return Ending::Exhausted(done);
        }
        Ending::Done(done)
    }

    fn stopped(&self, error: &wasmtime::Error) -> Ending {
        let refused = self.instance.store.data().memory_limit.refused;
        let (status, exit_code, reason) = match (error.downcast_ref::<Stop>(), error.downcast_ref::<Trap>()) {
            (Some(Stop::Exit(code)), _) => {
                (Status::Exited, Some(*code), "the interpreter was told to exit".to_owned())
            }
            (Some(Stop::Hard), _) => (Status::Killed, None, "it did not give way and was stopped".to_owned()),
            (_, Some(Trap::OutOfFuel)) => (Status::Timeout, None, "it used up its steps".to_owned()),
            (_, Some(Trap::StackOverflow)) => {
                (Status::Killed, None, "it recursed deeper than the interpreter's stack".to_owned())
            }
            _ if refused => (Status::OutOfMemory, None, "the interpreter ran out of memory".to_owned()),
            (_, Some(trap)) => (Status::Killed, None, format!("the interpreter crashed: {trap}")),
            (Some(stop), None) => (Status::Killed, None, stop.to_string()),
            (None, None) => (Status::Killed, None, format!("the interpreter failed: {error:#}")),
        };
        Ending::Stopped { status, exit_code, reason }
    }

    fn report(
        &mut self,
        running: RunningCell,
        ending: Ending,
        cause: Option<Cause>,
        mut usage: Usage,
    ) -> CellReport {
        let memory = self.instance.memory().len() as u64;
        let state = self.instance.store.data_mut();
        let refused = state.memory_limit.refused;
        let (host, files) = (running.host.as_ref(), &mut state.machine.files);
        let stdout = output::finish(running.stdout, Stream::Stdout, host, files);
        let stderr = output::finish(running.stderr, Stream::Stderr, host, files);
        let changes = state.machine.files.take_changes();
        usage.memory = memory;
        let in_memory = state.machine.files.usage().bytes.saturating_sub(self.shared.base_file_bytes());
        let on_disk = state.machine.files.workspace_usage().map_or(0, |usage| usage.bytes);
        usage.file_bytes = in_memory.saturating_add(on_disk);
        usage.tool_calls = running.calls.total;
        let mut report = CellReport {
            status: Status::Ok,
            value: None,
            exception: None,
            exit_code: None,
            reason: None,
            stdout,
            stderr,
            displays: running.displays,
            changes: Changes {
                created: changes.created,
                modified: changes.modified,
                deleted: changes.deleted,
                truncated: changes.truncated,
            },
            usage,
            state: State::Kept,
            notes: Vec::new(),
        };
        match ending {
            Ending::Done(done) => {
                let out_of_memory =
                    refused && done.exception.as_ref().is_some_and(|raised| raised.kind == "MemoryError");
                let disk_full = running.files_full && done.exception.as_ref().is_some_and(is_disk_full);
                report.status = match (done.status, cause) {
                    (DoneStatus::Ok, _) => Status::Ok,
                    (DoneStatus::Interrupted, Some(Cause::Deadline)) => Status::Timeout,
                    (DoneStatus::Interrupted, _) => Status::Interrupted,
                    (DoneStatus::Error, _) if out_of_memory => Status::OutOfMemory,
                    (DoneStatus::Error, _) if disk_full => Status::DiskFull,
                    (DoneStatus::Error, _) => Status::Error,
                    (DoneStatus::Exited, _) => Status::Exited,
                };
                report.value = done.value;
                report.exception = done.exception;
                report.exit_code = done.exit_code;
                report.reason = match report.status {
                    Status::Timeout => Some(self.too_long()),
                    Status::DiskFull => Some(self.files_full()),
                    Status::Error if running.files_full => Some(self.files_full()),
                    _ => None,
                };
                if self.spec.rollback == Rollback::OnError && !ended_well(&report) {
                    self.take_back(&mut report);
                } else {
                    self.pending = Pending::Commit { cell: running.number };
                }
            }
            Ending::Exhausted(done) => {
                report.status = Status::OutOfMemory;
                report.exception = done.exception;
                report.reason = Some("it left no memory for another cell".to_owned());
                self.take_back(&mut report);
            }
            Ending::Stopped { status, exit_code, reason } => {
                (report.status, report.reason) = match (status, cause) {
                    (Status::Killed, Some(Cause::Deadline)) => (Status::Timeout, Some(self.too_long())),
                    (Status::Killed, Some(Cause::Interrupt)) => (Status::Interrupted, Some(reason)),
                    _ => (status, Some(reason)),
                };
                report.exit_code = exit_code;
                self.take_back(&mut report);
            }
        }
        report
    }

    /// The cell is taken back before the next one, and the report says so.
    fn take_back(&mut self, report: &mut CellReport) {
        report.state = State::RolledBack;
        if self.spec.rollback == Rollback::Never {
            self.start_afresh();
            report.state = State::Lost;
        }
        report.changes = Changes::default();
        (report.stdout.rest, report.stderr.rest) = (None, None);
        self.pending = Pending::Rollback;
    }

    /// Whoever has the files of a workspace on disk puts them back, too.
    fn recount(&self) {
        self.instance.store.data().machine.files.recount_workspace();
    }

    fn is_cancelled(&self) -> bool {
        self.instance.store.data().cell.as_ref().is_some_and(|cell| cell.host.is_cancelled())
    }

    fn files_full(&self) -> String {
        let limits = &self.spec.limits;
        format!("the session's files are full: {} bytes, {} files", limits.file_bytes, limits.file_count)
    }

    fn too_long(&self) -> String {
        match self.spec.limits.wall {
            Some(limit) => format!("it ran longer than {limit:?}"),
            None => "its time was over".to_owned(),
        }
    }
}

/// Whether it is what a guest is told when its files are full.
fn is_disk_full(raised: &ExceptionReport) -> bool {
    // The number of `ENOSPC` in WASI; older interpreters are told `EIO` where a stream failed.
    raised.kind == "OSError"
        && ["[Errno 51]", "[Errno 29]"].iter().any(|text| raised.message.starts_with(text))
}

fn ended_well(report: &CellReport) -> bool {
    match report.status {
        Status::Ok => true,
        Status::Exited => report.exit_code.unwrap_or_default() == 0,
        _ => false,
    }
}

/// Waits in the host, with no guest code on the stack, until the cell can go on.
fn await_tools(instance: &mut Instance, timeout: Option<f64>) -> wasmtime::Result<Vec<u8>> {
    let state = instance.store.data_mut();
    let until = timeout.map(|seconds| {
        let nanoseconds = (seconds * 1e9).min(1e18) as u64;
        let at = state.machine.clock.monotonic().saturating_add(nanoseconds);
        state.machine.clock.instant(at)
    });
    let cell = state.cell.as_mut().ok_or_else(|| Stop::violation("it waits outside a cell"))?;
    let results = tools::collect(&state.control, cell, until);
    let interrupt = match state.control.take_request() {
        None => false,
        Some(crate::control::Request::Soft) => true,
        Some(crate::control::Request::Hard) => return Err(Stop::Hard.into()),
    };
    Ok(frame::resume(&results, interrupt))
}

impl Guest for WasmGuest {
    fn run(&mut self, cell: Cell, host: Arc<dyn CellHost>) -> Result<CellReport, EngineError> {
        self.prepare()?;
        let limits = self.spec.limits.clone();
        let word = self.instance.poll_word().map_err(|error| EngineError::Gone(error.to_string()))?;
        let state = self.instance.store.data_mut();
        state.memory_limit.refused = false;
        state.cell = Some(RunningCell {
            number: cell.number,
            host,
            stdout: OutputStream::new(limits.output),
            stderr: OutputStream::new(limits.output),
            displays: Vec::new(),
            display_bytes_left: limits.display_bytes,
            gate: ToolGate::new(&limits),
            calls: StartedCalls::default(),
            limits: limits.clone(),
            files_full: false,
        });
        if let Some(steps) = limits.steps {
            self.instance.store.set_fuel(steps).map_err(|error| EngineError::Gone(error.to_string()))?;
        }
        let (started, cpu) = (Instant::now(), thread_time());
        // SAFETY: the word is in this instance's memory, which lives until after `end` below.
        let running = unsafe { self.control.begin(word) };
        let ticket = limits
            .wall
            .and_then(|wall| started.checked_add(wall))
            .map(|at| self.shared.watchdog.watch(&self.control, running, Cause::Deadline, at, limits.grace));
        let ending = if self.is_cancelled() { Ending::Done(Done::INTERRUPTED) } else { self.execute(&cell) };
        let cause = self.control.end();
        drop(ticket);
        let mut usage =
            Usage { wall: started.elapsed(), cpu: thread_time().saturating_sub(cpu), ..Usage::default() };
        if let Some(steps) = limits.steps {
            usage.steps = self.instance.store.get_fuel().ok().map(|left| steps.saturating_sub(left));
        }
        let Some(cell) = self.instance.store.data_mut().cell.take() else {
            return Err(EngineError::Gone("its cell is not there any more".to_owned()));
        };
        if self.instance.is_torn() {
            return Err(torn());
        }
        Ok(self.report(cell, ending, cause, usage))
    }

    fn settle(&mut self) {
        if let Err(error) = self.settle_now() {
            // The next cell meets it again and reports it.
            tracing::warn!(%error, "a guest could not be settled");
        }
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>, EngineError> {
        self.settle_now()?;
        let files = &mut self.instance.store.data_mut().machine.files;
        files.read_file(path).map_err(|errno| file_error(path, errno))
    }

    fn write_file(&mut self, path: &str, contents: &[u8]) -> Result<(), EngineError> {
        self.settle_now()?;
        let machine = &mut self.instance.store.data_mut().machine;
        machine.files.set_clock(machine.clock.wall());
        machine.files.write_file(path, contents).map_err(|errno| file_error(path, errno))?;
        // The next cell's outcome lists what the cell changed, not this.
        machine.files.take_changes();
        self.note_host_write().map_err(|error| exhausted(&error))
    }

    fn file(&mut self, operation: FileOp) -> Result<FileReply, FileError> {
        let failed =
            |error: &dyn std::fmt::Display| FileError::told(FileErrorCode::Failed, "", error.to_string());
        if let Storage::Disk(_) = self.spec.storage {
            return Err(failed(&"the files of this guest are in a directory of the host"));
        }
        self.settle_now().map_err(|error| failed(&error))?;
        let reads = matches!(
            operation,
            FileOp::Stat { .. } | FileOp::List { .. } | FileOp::Read { .. } | FileOp::ReadLink { .. }
        );
        let machine = &mut self.instance.store.data_mut().machine;
        machine.files.set_clock(machine.clock.wall());
        let reply = machine.files.operate(&self.spec.workspace, operation)?;
        if !reads {
            // The next cell's outcome lists what the cell changed, not this.
            machine.files.take_changes();
            self.note_host_write().map_err(|error| failed(&error))?;
        }
        Ok(reply)
    }

    fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>, EngineError> {
        self.settle_now()?;
        let snapshot = self.freeze()?;
        if self.instance.is_torn() {
            return Err(torn());
        }
        Ok(Arc::new(snapshot))
    }

    fn roll_back_to(&mut self, snapshot: &dyn Snapshot) -> Result<(), EngineError> {
        self.settle_now()?;
        let snapshot = WasmSnapshot::of(snapshot, self.shared.environment())?;
        self.become_snapshot(snapshot)?;
        self.recount();
        Ok(())
    }

    fn undoable(&mut self) -> Result<Vec<u32>, EngineError> {
        self.settle_now()?;
        Ok(self.undo.cells(&self.ground, self.spec.undo))
    }

    fn undo(&mut self, cells: usize) -> Result<(), EngineError> {
        self.settle_now()?;
        self.take_back_cells(cells)?;
        self.recount();
        Ok(())
    }

    fn interrupter(&self) -> Arc<dyn Interrupter> {
        Arc::new(GuestInterrupter {
            control: Arc::clone(&self.control),
            watchdog: Arc::clone(&self.shared.watchdog),
        })
    }

    fn private_memory(&self) -> u64 {
        // Pages that are only tracked look private, so where they are the copy is counted.
        if let Before::Copied { slot, .. } = &self.before
            && let Some(bytes) = slot.with(Shadow::bytes)
        {
            return bytes as u64 + self.ground.resident_share();
        }
        let memory = self.instance.memory();
        let span = Span { base: memory.as_ptr() as usize, length: memory.len() };
        self.shared
            .page_source
            .private(span)
            .map(|ranges| ranges.iter().map(|range| range.len() as u64).sum())
            .unwrap_or(0_u64)
            + self.ground.resident_share()
    }
}

fn file_error(path: &str, errno: Errno) -> EngineError {
    EngineError::File { path: path.to_owned(), reason: errno.to_string() }
}

fn torn() -> EngineError {
    EngineError::Gone("a file that its memory was read from has been damaged".to_owned())
}

fn exhausted(error: &io::Error) -> EngineError {
    EngineError::Exhausted(format!("no memory to make the cell reversible: {error}"))
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
