//! Shell commands beside the interpreter, and what there is to know of a session's engine.

use std::sync::Arc;

use belljar_artifacts::RecordKind;
use belljar_engine::{CellHost, Event, Layer, ProcessInfo, ProcessOutput, Rollback, State, Status};
use belljar_store::HistoryEntry;
use serde::Serialize;

use super::ingest::Ran;
use super::slot::{bounded, now_ms};
use super::{Live, Session, Slot, is_on_disk};
use crate::events::EventQueue;
use crate::{CommandOutcome, CommandRequest, Error, RunningCommand};

/// What runs a session, and what stands between it and the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionDescription {
    /// The engine: `wasm` or `native`.
    pub engine: String,
    /// The environment that it was made in, by its hash.
    pub environment: String,
    /// The layers of the engine's isolation, those that are missing too. The wasm engine has none of its own: the
    /// guest is a program that can't name anything of the host.
    pub layers: Vec<Layer>,
    /// How the session came to be and what it lacks, in words.
    pub notes: Vec<String>,
}

/// Only the native engine has processes; another answers with an error, and nothing changes.
impl Session {
    /// Runs a shell command beside the interpreter, in the session's files, to its end. Dropping the future
    /// interrupts it.
    pub async fn command(&self, request: impl Into<CommandRequest>) -> Result<CommandOutcome, Error> {
        let request = request.into();
        let (receiver, mut stop) = self.start_with(None, |slot, host| slot.command(request, host)).await;
        let outcome = receiver.await.unwrap_or(Err(Error::Abandoned));
        stop.armed = false;
        outcome
    }

    /// Starts a shell command and returns at once; what it writes can be heard while it runs.
    pub async fn stream_command(&self, request: impl Into<CommandRequest>) -> RunningCommand {
        let (request, events) = (request.into(), Arc::new(EventQueue::default()));
        let heard = Some(Arc::clone(&events));
        let (outcome, stop) = self.start_with(heard, |slot, host| slot.command(request, host)).await;
        RunningCommand { events, outcome, stop }
    }

    /// Runs a shell command to its end on this thread.
    pub fn command_blocking(&self, request: impl Into<CommandRequest>) -> Result<CommandOutcome, Error> {
        self.command_observed_blocking(request, |_| ())
    }

    /// Runs a shell command to its end on this thread and hears what it writes meanwhile.
    pub fn command_observed_blocking(
        &self,
        request: impl Into<CommandRequest>,
        observer: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<CommandOutcome, Error> {
        self.slot.blocking_lock().command(request.into(), self.host(observer))
    }

    /// Starts a shell command in the background, and returns its number. It lives as long as the session is awake in
    /// this process: it isn't part of what is kept, and ends when the session is put to sleep, taken back or dropped.
    pub async fn start_process(&self, request: impl Into<CommandRequest>) -> Result<u32, Error> {
        let request = request.into();
        self.in_background(move |slot| slot.start_process(request)).await
    }

    /// [`Session::start_process`] without async.
    pub fn start_process_blocking(&self, request: impl Into<CommandRequest>) -> Result<u32, Error> {
        self.slot.blocking_lock().start_process(request.into())
    }

    /// The commands in the background, also those that have ended.
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, Error> {
        self.in_background(|slot| slot.with_guest(|guest| guest.processes())).await
    }

    /// [`Session::processes`] without async.
    pub fn processes_blocking(&self) -> Result<Vec<ProcessInfo>, Error> {
        self.slot.blocking_lock().with_guest(|guest| guest.processes())
    }

    /// What a command in the background wrote since this was last asked.
    pub async fn process_output(&self, id: u32) -> Result<ProcessOutput, Error> {
        self.in_background(move |slot| slot.with_guest(|guest| guest.process_output(id))).await
    }

    /// [`Session::process_output`] without async.
    pub fn process_output_blocking(&self, id: u32) -> Result<ProcessOutput, Error> {
        self.slot.blocking_lock().with_guest(|guest| guest.process_output(id))
    }

    /// Ends a command in the background, with all that it started.
    pub async fn kill_process(&self, id: u32) -> Result<(), Error> {
        self.in_background(move |slot| slot.with_guest(|guest| guest.kill(id))).await
    }

    /// [`Session::kill_process`] without async.
    pub fn kill_process_blocking(&self, id: u32) -> Result<(), Error> {
        self.slot.blocking_lock().with_guest(|guest| guest.kill(id))
    }

    /// How the session came to be and what it lacks, in words.
    pub async fn notes(&self) -> Result<Vec<String>, Error> {
        self.in_background(|slot| slot.with_guest(|guest| Ok(guest.notes()))).await
    }

    /// [`Session::notes`] without async.
    pub fn notes_blocking(&self) -> Result<Vec<String>, Error> {
        self.slot.blocking_lock().with_guest(|guest| Ok(guest.notes()))
    }

    /// What runs it, and what stands between it and the host.
    pub async fn describe(&self) -> Result<SessionDescription, Error> {
        self.in_background(Slot::describe).await
    }

    /// [`Session::describe`] without async.
    pub fn describe_blocking(&self) -> Result<SessionDescription, Error> {
        self.slot.blocking_lock().describe()
    }
}

impl Slot {
    /// Runs a command. Its outcome is in the history when this returns.
    pub(super) fn command(
        &mut self,
        request: CommandRequest,
        host: Arc<dyn CellHost>,
    ) -> Result<CommandOutcome, Error> {
        let command = self.prepared(request)?;
        let line = command.line.clone();
        let started_ms = now_ms();
        self.sync_datasets()?;
        let watched = self.begin()?;
        let report = self.with_guest(|guest| guest.command(command, host));
        drop(watched);
        let mut report = report?;
        /// How a shell tells that a file was to be larger than a file may be: 128 and the signal.
        const TOO_LARGE: i32 = 128 + 25;
        if let Live { guest, disk: Some(disk), .. } = self.live()?
            && disk.is_polled()
        {
            if report.exit_code == Some(TOO_LARGE) || disk.is_overfull()? {
                (report.status, report.reason) = (Status::DiskFull, Some(disk.quota()));
            }
            if report.status == Status::DiskFull {
                guest.end_processes();
            }
        }
        let full = report.status == Status::DiskFull && self.place.spec.rollback != Rollback::Never;
        let state = if full { State::RolledBack } else { State::Kept };
        self.end(state, &mut report.changes, &mut report.notes)?;
        if full && is_on_disk(&self.place.workspace) {
            report
                .notes
                .push("what the command wrote was taken back, since there was no room for it".to_owned());
        }
        let ran = Ran {
            kind: RecordKind::Command,
            number: self.cells,
            code: &line,
            started_ms,
            status: report.status,
            tool_calls: 0,
            tool_call: None,
            state,
            displays: Vec::new(),
        };
        let (artifacts, refused) = self.keep(&ran, &mut report.changes);
        report.usage.file_bytes += self.disk_bytes();
        self.used = std::time::Instant::now();
        let mut outcome = CommandOutcome::new(report, self.id.to_string());
        (outcome.artifacts, outcome.artifacts_refused) = (artifacts, refused);
        if self.registered {
            self.record_command(line, started_ms, Some(&outcome));
            self.commit_if_each()?;
        }
        Ok(outcome)
    }

    fn start_process(&mut self, request: CommandRequest) -> Result<u32, Error> {
        let command = self.prepared(request)?;
        let line = command.line.clone();
        let started_ms = now_ms();
        let id = self.with_guest(|guest| guest.start(command))?;
        self.used = std::time::Instant::now();
        if self.registered {
            self.record_command(line, started_ms, None);
        }
        Ok(id)
    }

    /// Wakes the session, which the command may change.
    fn prepared(&mut self, request: CommandRequest) -> Result<belljar_engine::Command, Error> {
        let mut command = request.checked(self.place.spec.limits.wall)?;
        command.directory = command.directory.as_deref().map(|path| self.place.guest_path(path));
        self.live()?.changed = true;
        Ok(command)
    }

    fn record_command(&mut self, line: String, started_ms: u64, outcome: Option<&CommandOutcome>) {
        let entry = HistoryEntry {
            number: self.cells,
            kind: "command".to_owned(),
            code: line.clone(),
            started_ms,
            wall_ms: outcome.map_or(0.0, |outcome| outcome.usage.wall_ms),
            outcome: outcome.map(|outcome| {
                self.with_record(bounded(serde_json::to_value(outcome).unwrap_or_default()), &line)
            }),
            note: outcome.is_none().then(|| "in the background".to_owned()),
        };
        if let Err(error) = self.append_history(&entry) {
            // It ran, and its outcome is what counts.
            tracing::error!(session = %self.id, %error, "a command is missing from the history");
        }
    }

    fn describe(&mut self) -> Result<SessionDescription, Error> {
        let engine = self.engine()?;
        Ok(SessionDescription {
            engine: engine.name().to_owned(),
            environment: engine.environment().to_owned(),
            layers: engine.layers(),
            notes: self.with_guest(|guest| Ok(guest.notes()))?,
        })
    }
}
