//! Shell commands beside the interpreter, in the same namespaces, locked down in the same way.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use belljar_engine::{
    CellHost, Command, CommandReport, EngineError, ProcessInfo, ProcessOutput, Status, Usage,
};
use rustix::event::{PollFd, PollFlags};

use crate::conversation::{Cause, Told};
use crate::engine::is_over;
use crate::guest::NativeGuest;
use crate::init::Init;
use crate::kernel::wait;
use crate::pipes::{Pipes, Stream};
use crate::{plan, sys};

/// Between the request to end and the end.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes of output of a background command that wait to be read.
const MOST_WAITING: usize = 1 << 20;
/// Background commands at once.
const MOST_PROCESSES: usize = 64;
/// How long init may take to tell of a process that has ended.
const TELLING: Duration = Duration::from_secs(5);

/// What the shell does first: it reads the `.bashrc` of its home, with aliases, and goes on whatever that does. The
/// line comes after it, as if it were alone.
const PRELUDE: &str = concat!(
    "__line=$1; shift; if [ -f ~/.bashrc ]; then shopt -s expand_aliases; ",
    "trap 'trap - EXIT; set +eu; eval \"unset __line; $__line\"; exit $?' EXIT; ",
    ". ~/.bashrc; set +eu; trap - EXIT; fi; eval \"unset __line; $__line\"",
);

/// Commands that run in the background.
#[derive(Default)]
pub(crate) struct Background {
    processes: BTreeMap<u32, Process>,
    last: u32,
}

struct Process {
    line: String,
    pid: i32,
    code: Option<i32>,
    output: Arc<Mutex<Output>>,
}

#[derive(Default)]
struct Output {
    streams: [Waiting; 2],
    lost: u64,
}

#[derive(Default)]
struct Waiting {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Background {
    /// The processes that outlive a cell.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.processes.values().filter(|process| process.code.is_none()).map(|process| process.pid).collect()
    }

    pub(crate) fn list(&mut self, init: &Init) -> Vec<ProcessInfo> {
        for process in self.processes.values_mut().filter(|process| process.code.is_none()) {
            process.code = init.exit_code(process.pid, Duration::ZERO).unwrap_or(Some(137));
        }
        let mut list = Vec::new();
        for (id, process) in &self.processes {
            let output = process.output.lock().unwrap_or_else(PoisonError::into_inner);
            list.push(ProcessInfo {
                id: *id,
                line: process.line.clone(),
                exit_code: process.code,
                stdout_bytes: output.streams[0].total,
                stderr_bytes: output.streams[1].total,
            });
        }
        list
    }

    pub(crate) fn output(&mut self, id: u32) -> Result<ProcessOutput, EngineError> {
        let process = self.processes.get(&id).ok_or_else(|| unknown(id))?;
        let mut output = process.output.lock().unwrap_or_else(PoisonError::into_inner);
        let lost_bytes = std::mem::take(&mut output.lost);
        let [stdout, stderr] = &mut output.streams;
        let stdout = stdout.bytes.drain(..).collect();
        let stderr = stderr.bytes.drain(..).collect();
        Ok(ProcessOutput { stdout, stderr, lost_bytes })
    }

    /// Numbers of those that run.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.processes.iter().filter(|(_, process)| process.code.is_none()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn kill(&mut self, id: u32, init: &Init) -> Result<(), EngineError> {
        let process = self.processes.get_mut(&id).ok_or_else(|| unknown(id))?;
        if process.code.is_none() {
            init.signal_group(process.pid, libc::SIGKILL).map_err(gone)?;
            process.code = init.exit_code(process.pid, TELLING).map_err(gone)?;
        }
        Ok(())
    }
}

impl NativeGuest {
    /// The environment of commands: the interpreter's, the session's, the command's own.
    fn surroundings(&self, command: &Command) -> Vec<String> {
        let mut variables = plan::surroundings(&self.shared.environment, &self.spec);
        variables.extend(command.directory.clone().map(|directory| ("PWD".to_owned(), directory)));
        variables.extend(self.spec.env.clone());
        variables.extend(command.env.clone());
        variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    fn check(&self, command: &Command) -> Result<(), EngineError> {
        let refuse = |what: &str| EngineError::Unsupported { engine: "native", what: what.to_owned() };
        if command.line.contains('\0') {
            return Err(refuse("run a command with a NUL in it"));
        }
        if command.line.len() > 100_000 {
            return Err(refuse("run a command of more than 100,000 bytes; write it into a file first"));
        }
        let odd = |(name, value): (&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if command.env.iter().any(odd) {
            return Err(refuse("set such a variable"));
        }
        Ok(())
    }

    fn begin(&self, command: &Command) -> Result<(i32, std::os::fd::OwnedFd, Pipes), EngineError> {
        self.check(command)?;
        let (pipes, stdout, stderr) = Pipes::new().map_err(gone)?;
        let stdin = input(&command.stdin).map_err(gone)?;
        let argv = ["/bin/bash", "-lc", PRELUDE, "bash", &command.line].map(str::to_owned).to_vec();
        let directory = command.directory.clone().unwrap_or_else(|| self.spec.workspace.clone());
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let started = self.room.init.command(argv, self.surroundings(command), directory, &streams);
        let (pid, process) = started.map_err(|error| match is_over(&error) {
            true => gone(error),
            false => EngineError::Exhausted(error.to_string()),
        })?;
        Ok((pid, process, pipes))
    }

    pub(crate) fn run_command(
        &mut self,
        command: Command,
        host: &Arc<dyn CellHost>,
    ) -> Result<CommandReport, EngineError> {
        let limits = self.spec.limits.clone();
        let since = sys::ticks();
        let started = Instant::now();
        let timeout = command.timeout.or(limits.wall);
        self.control.begin();
        let begun = self.begin(&command);
        let (pid, process, mut pipes) = begun.inspect_err(|_| self.control.end())?;
        let host_pid = sys::host_pid(process.as_fd());
        let mut told = Told::new(&format!("command-{since}"), &limits);
        let mut stopping: Option<(Instant, Cause)> = None;
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let mut cpu = Duration::ZERO;
        let mut open = [true; 2];
        let code = loop {
            let next = stopping.map(|(at, _)| at).or(deadline);
            let left = next.map(|next| next.saturating_duration_since(Instant::now()));
            let mut polled = vec![
                PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.control.descriptor(), PollFlags::IN),
            ];
            for (stream, open) in [Stream::Stdout, Stream::Stderr].into_iter().zip(open) {
                if open {
                    polled.push(PollFd::from_borrowed_fd(pipes.descriptor(stream), PollFlags::IN));
                }
            }
            wait(&mut polled, left).map_err(gone)?;
            let ended = !polled[0].revents().is_empty();
            if !polled[1].revents().is_empty() {
                drop(self.control.take_ended());
            }
            drop(polled);
            cpu = host_pid.and_then(sys::processor_time).unwrap_or(cpu).max(cpu);
            for (place, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
                open[place] &=
                    !self.pump(&mut pipes, stream, &mut told, host.as_ref(), if ended { 256 } else { 1 });
            }
            if ended {
                break self.room.init.exit_code(pid, TELLING).map_err(gone)?.unwrap_or(137);
            }
            let now = Instant::now();
            if self.control.is_filled() && !matches!(stopping, Some((_, Cause::Full))) {
                let _ = self.room.init.signal_group(pid, libc::SIGKILL);
                stopping = Some((now + GRACE, Cause::Full));
            }
            match stopping {
                Some((at, _)) if now >= at => {
                    let _ = self.room.init.signal_group(pid, libc::SIGKILL);
                    stopping = stopping.map(|(_, cause)| (now + GRACE, cause));
                }
                Some(_) => {}
                None => {
                    let cause = match deadline.is_some_and(|deadline| now >= deadline) {
                        true => Some(Cause::Deadline),
                        false => self.control.is_interrupted().then_some(Cause::Interrupt),
                    };
                    if let Some(cause) = cause {
                        let _ = self.room.init.signal_group(pid, libc::SIGTERM);
                        stopping = Some((now + GRACE, cause));
                    }
                }
            }
        };
        self.control.end();
        if stopping.is_some() {
            // Also those of its processes that left its group.
            let _ = self.room.init.end(since, vec![pid], self.kept_processes());
        }
        let tree = &self.room.tree;
        let (status, reason) = match stopping {
            Some((_, Cause::Interrupt)) => (Status::Interrupted, Some("it was interrupted".to_owned())),
            Some((_, Cause::Full)) => (Status::DiskFull, Some(self.files_full())),
            Some(_) => {
                let limit = timeout.unwrap_or_default();
                (Status::Timeout, Some(format!("it ran longer than {limit:?}")))
            }
            None if code == 0 => (Status::Ok, None),
            None if tree.is_full() => (Status::DiskFull, Some(self.files_full())),
            None => (Status::Error, None),
        };
        let mut report = CommandReport {
            status,
            exit_code: Some(code),
            reason,
            stdout: told.stdout.finish(host.as_ref(), tree),
            stderr: told.stderr.finish(host.as_ref(), tree),
            changes: belljar_engine::Changes::default(),
            usage: Usage { wall: started.elapsed(), cpu, file_bytes: tree.bytes(), ..Usage::default() },
            notes: Vec::new(),
        };
        match self.room.tree.compare(&self.files) {
            Ok((files, changes)) => (self.files, report.changes) = (files, changes),
            Err(error) => report.notes.push(format!("the files that it changed cannot be listed: {error}")),
        }
        self.note_files();
        Ok(report)
    }

    /// Reads what a command wrote. Says whether it can't write any more.
    fn pump(
        &self,
        pipes: &mut Pipes,
        stream: Stream,
        told: &mut Told,
        host: &dyn CellHost,
        pieces: usize,
    ) -> bool {
        let mut buffer = [0; 64 << 10];
        for _ in 0..pieces {
            let (bytes, over) = pipes.read(stream, &mut buffer);
            if bytes.is_empty() {
                return over;
            }
            let collector = match stream {
                Stream::Stdout => &mut told.stdout,
                Stream::Stderr => &mut told.stderr,
            };
            collector.push(bytes, host, &self.room.tree);
        }
        false
    }

    pub(crate) fn start_command(&mut self, command: Command) -> Result<u32, EngineError> {
        let running = self.background.pids().len();
        if running >= MOST_PROCESSES {
            return Err(EngineError::Exhausted(format!("{running} commands run in the background already")));
        }
        let (pid, _, pipes) = self.begin(&command)?;
        let output = Arc::new(Mutex::new(Output::default()));
        for (place, stream) in [pipes.stdout, pipes.stderr].into_iter().enumerate() {
            let output = Arc::clone(&output);
            collect(stream, place, output).map_err(gone)?;
        }
        self.background.last += 1;
        let id = self.background.last;
        // Of those that have ended the oldest are forgotten.
        let ended: Vec<u32> = self
            .background
            .processes
            .iter()
            .filter(|(_, process)| process.code.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in ended.iter().take(self.background.processes.len().saturating_sub(2 * MOST_PROCESSES)) {
            self.background.processes.remove(id);
        }
        self.background.processes.insert(id, Process { line: command.line, pid, code: None, output });
        Ok(id)
    }
}

/// Reads a stream in the background until it ends.
fn collect(mut stream: PipeReader, place: usize, output: Arc<Mutex<Output>>) -> io::Result<()> {
    let read = move || {
        let mut buffer = [0; 16 << 10];
        loop {
            let mut polled = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
            if wait(&mut polled, None).is_err() {
                return;
            }
            let length = match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = &mut output.streams[place];
            waiting.total += length as u64;
            waiting.bytes.extend(&buffer[..length]);
            let surplus = waiting.bytes.len().saturating_sub(MOST_WAITING);
            waiting.bytes.drain(..surplus);
            output.lost += surplus as u64;
        }
    };
    thread::Builder::new().name("belljar-output".to_owned()).spawn(read).map(drop)
}

/// Standard input: a file with what it is given, or nothing.
fn input(bytes: &[u8]) -> io::Result<File> {
    if bytes.is_empty() {
        return File::open("/dev/null");
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    // Opened anew, so that it can't be written to.
    File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)))
}

fn unknown(id: u32) -> EngineError {
    EngineError::Unsupported { engine: "native", what: format!("find a background command {id}") }
}

fn gone(error: io::Error) -> EngineError {
    EngineError::Gone(error.to_string())
}
