//! One cell from its first frame to its last: frames, output, tool calls, time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_engine::frame::{self, CallAnswer, Done, Message, Reply, StartedResult};
use belljar_engine::{CellHost, Event, Limits, MimeBundle, ToolCall, ToolFailure, ToolGate};
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use crate::control::{CallResult, Control};
use crate::kernel::{Heard, Kernel, wait};
use crate::pipes::{Collector, Pipes, Stream};
use crate::sys;
use crate::tree::Tree;

/// How many started calls may be under way at once.
const MAX_STARTED: usize = 250_000;
/// How many times the arguments of one call may be under way at once.
const MAX_STARTED_SHARE: u64 = 16;
/// Frames that are read before time is looked at.
const FRAMES_AT_ONCE: usize = 64;
/// Bytes of a cell's last frame beyond its value.
const MOST_DONE: u64 = 1 << 20;
/// Set in the numbers of calls that the guest waits for, so that started ones don't meet them.
const HOST_ID: u64 = 1 << 63;
/// A real processor is given more time to come to a halt than an emulated one.
const GRACE_FACTOR: u32 = 25;
/// How often processor time is looked at, where it is limited.
const LOOK: Duration = Duration::from_millis(20);
/// A call whose time the clock can't tell may take this long.
const LONGEST: Duration = Duration::from_secs(86_400 * 365);

/// Why a cell was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Deadline,
    ProcessorTime,
    Interrupt,
    /// The workspace holds more than it may.
    Full,
}

/// How a conversation ended.
pub(crate) enum Ending {
    Done(Done),
    /// It called `os._exit`.
    Exited(i32),
    /// The interpreter ended, or must be ended.
    Broken {
        reason: String,
        hard: bool,
    },
}

/// What a cell has told so far.
pub(crate) struct Told {
    pub(crate) stdout: Collector,
    pub(crate) stderr: Collector,
    pub(crate) displays: Vec<MimeBundle>,
    pub(crate) tool_calls: u64,
    pub(crate) cause: Option<Cause>,
    display_bytes_left: u64,
}

impl Told {
    pub(crate) fn new(name: &str, limits: &Limits) -> Self {
        Self {
            stdout: Collector::new(Stream::Stdout, name, limits.output, limits.file_bytes),
            stderr: Collector::new(Stream::Stderr, name, limits.output, limits.file_bytes),
            displays: Vec::new(),
            tool_calls: 0,
            cause: None,
            display_bytes_left: limits.display_bytes,
        }
    }
}

/// What the guest waits for.
enum Waiting {
    Nothing,
    /// The answer to a call.
    Call {
        id: u64,
        name: String,
        at: Instant,
    },
    /// Started calls, within an `exchange`.
    Results {
        until: Option<Instant>,
    },
    /// Started calls or time, with no code on the stack.
    Resume {
        until: Option<Instant>,
    },
}

/// A conversation with a kernel.
pub(crate) struct Conversation<'a> {
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) pipes: &'a mut Pipes,
    pub(crate) tree: &'a Tree,
    pub(crate) control: &'a Arc<Control>,
    pub(crate) host: &'a Arc<dyn CellHost>,
    pub(crate) limits: &'a Limits,
    pub(crate) told: &'a mut Told,
    /// The process on the host.
    pub(crate) host_pid: Option<i32>,
}

struct Course {
    cell: u64,
    gate: ToolGate,
    started: BTreeMap<u64, (Instant, u64)>,
    started_bytes: u64,
    ended: Vec<(u64, CallResult)>,
    waiting: Waiting,
    deadline: Option<Instant>,
    /// Processor time at which the cell must stop.
    processor: Option<Duration>,
    /// It was asked to stop; when it is stopped hard.
    stopping: Option<Instant>,
}

impl Conversation<'_> {
    pub(crate) fn hold(mut self, cell: u64, frame: &[u8]) -> Ending {
        let now = Instant::now();
        let used = self.host_pid.and_then(sys::processor_time);
        let mut course = Course {
            cell,
            gate: ToolGate::new(self.limits),
            started: BTreeMap::new(),
            started_bytes: 0,
            ended: Vec::new(),
            waiting: Waiting::Nothing,
            deadline: self.limits.wall.and_then(|wall| now.checked_add(wall)),
            processor: self.limits.cpu_time.zip(used).map(|(most, used)| most + used),
            stopping: None,
        };
        if let Err(error) = self.kernel.send(frame) {
            return broken(error.to_string());
        }
        loop {
            match self.turn(&mut course) {
                Ok(None) => {}
                Ok(Some(ending)) => {
                    self.drain();
                    return ending;
                }
                Err(error) => {
                    self.drain();
                    return broken(error.to_string());
                }
            }
        }
    }

    /// Waits until something happens, and deals with it.
    fn turn(&mut self, course: &mut Course) -> io::Result<Option<Ending>> {
        let frames = if self.kernel.is_sending() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut time = self.next(course).map(|at| at.saturating_duration_since(Instant::now()));
        if self.kernel.has_frame() {
            time = Some(Duration::ZERO);
        }
        let mut polled = [
            PollFd::from_borrowed_fd(self.kernel.descriptor(), frames),
            PollFd::from_borrowed_fd(self.pipes.descriptor(Stream::Stdout), PollFlags::IN),
            PollFd::from_borrowed_fd(self.pipes.descriptor(Stream::Stderr), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.descriptor(), PollFlags::IN),
        ];
        wait(&mut polled, time)?;
        let [frames, stdout, stderr, control] = polled.map(|polled| !polled.revents().is_empty());
        if stdout {
            self.read(Stream::Stdout);
        }
        if stderr {
            self.read(Stream::Stderr);
        }
        if control {
            course.ended.extend(self.control.take_ended());
        }
        if frames || self.kernel.has_frame() {
            self.kernel.flush()?;
            if let Some(ending) = self.listen(course)? {
                return Ok(Some(ending));
            }
        }
        self.answer(course)?;
        self.keep_time(course)
    }

    /// When something must be done next.
    fn next(&self, course: &Course) -> Option<Instant> {
        let now = Instant::now();
        let mut next = match &course.stopping {
            Some(hard) => Some(*hard),
            None => course.deadline,
        };
        let mut sooner = |at: Option<Instant>| {
            next = match (next, at) {
                (Some(next), Some(at)) => Some(next.min(at)),
                (next, at) => next.or(at),
            };
        };
        if course.processor.is_some() {
            sooner(Some(now + LOOK));
        }
        match &course.waiting {
            Waiting::Nothing => {}
            Waiting::Call { at, .. } => sooner(Some(*at)),
            Waiting::Results { until } | Waiting::Resume { until } => {
                sooner(*until);
                sooner(course.started.values().map(|(at, _)| *at).min());
            }
        }
        next
    }

    fn read(&mut self, stream: Stream) {
        let mut buffer = [0; 64 << 10];
        let (bytes, _) = self.pipes.read(stream, &mut buffer);
        if !bytes.is_empty() {
            let bytes = bytes.to_vec();
            self.push(stream, &bytes);
        }
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let collector = match stream {
            Stream::Stdout => &mut self.told.stdout,
            Stream::Stderr => &mut self.told.stderr,
        };
        collector.push(bytes, self.host.as_ref(), self.tree);
    }

    /// What was written before the last frame is in the pipes by now.
    fn drain(&mut self) {
        let mut buffer = [0; 64 << 10];
        for stream in [Stream::Stdout, Stream::Stderr] {
            // Bounded: processes in the background may write without end.
            for _ in 0..256 {
                let (bytes, _) = self.pipes.read(stream, &mut buffer);
                if bytes.is_empty() {
                    break;
                }
                let bytes = bytes.to_vec();
                self.push(stream, &bytes);
            }
        }
    }

    fn listen(&mut self, course: &mut Course) -> io::Result<Option<Ending>> {
        for _ in 0..FRAMES_AT_ONCE {
            let frame = match self.kernel.hear()? {
                Heard::Frame(frame) => frame,
                Heard::Silence => return Ok(None),
                Heard::End => return Ok(Some(broken("the interpreter ended".to_owned()))),
            };
            if !matches!(course.waiting, Waiting::Nothing) {
                return Ok(Some(broken("it spoke when it was to listen".to_owned())));
            }
            if frame.first().is_some_and(|kind| *kind < 32) {
                if frame.len() as u64 > self.limits.output.saturating_mul(8).saturating_add(MOST_DONE) {
                    return Ok(Some(broken("its last message is too long".to_owned())));
                }
                match frame::decode_reply(&frame).map_err(io::Error::other)? {
                    Reply::Done(done) => return Ok(Some(Ending::Done(done))),
                    Reply::Waiting { timeout } => course.waiting = Waiting::Resume { until: after(timeout) },
                    Reply::Ready => return Ok(Some(broken("it said it was ready in a cell".to_owned()))),
                }
                continue;
            }
            match frame::decode_message(&frame, self.limits.tool_bytes).map_err(io::Error::other)? {
                Message::Exit { code } => return Ok(Some(Ending::Exited(code))),
                message => self.take(message, course)?,
            }
        }
        Ok(None)
    }

    fn take(&mut self, message: Message, course: &mut Course) -> io::Result<()> {
        match message {
            Message::Display(bundle) => {
                // In the order in which the cell did it.
                self.drain();
                self.display(bundle);
                self.kernel.send(&[])
            }
            Message::Stream { stream, bytes } => {
                // It writes to the other stream now: what is in the first comes before.
                self.drain();
                self.push(if stream == 1 { Stream::Stdout } else { Stream::Stderr }, &bytes);
                self.kernel.send(&[])
            }
            Message::Call { call, bytes } => {
                let id = HOST_ID | self.told.tool_calls;
                let name = call.name.clone();
                let at = self.begin(id, call, bytes, course);
                course.waiting = Waiting::Call { id, name, at };
                Ok(())
            }
            Message::Start { id, call, bytes } => {
                let id = id & !HOST_ID;
                if course.started.len() >= MAX_STARTED || course.started.contains_key(&id) {
                    return Err(io::Error::other("too many tool calls at once, or two of one number"));
                }
                let at = self.begin(id, call, bytes, course);
                course.started.insert(id, (at, bytes as u64));
                course.started_bytes += bytes as u64;
                self.kernel.send(&[])
            }
            Message::Wait { timeout } => {
                course.waiting = Waiting::Results { until: after(timeout) };
                Ok(())
            }
            Message::Exit { .. } => Err(io::Error::other("the interpreter was told to exit")),
        }
    }

    /// Hands a call to the host; the answer comes back through the control.
    fn begin(&mut self, id: u64, call: ToolCall, bytes: usize, course: &mut Course) -> Instant {
        self.told.tool_calls += 1;
        let now = Instant::now();
        let at = now.checked_add(self.limits.tool_time).unwrap_or(now + LONGEST);
        let most = self.limits.tool_bytes.saturating_mul(MAX_STARTED_SHARE);
        let crowded = course.started_bytes > 0 && course.started_bytes.saturating_add(bytes as u64) > most;
        let admitted = match crowded {
            true => Err(ToolFailure::new(
                "ToolError",
                format!("the calls under way have {most} bytes of arguments, as many as may be; await some"),
            )),
            false => course.gate.admit(bytes),
        };
        match admitted {
            Ok(()) => {
                let (control, cell) = (Arc::clone(self.control), course.cell);
                self.host.call(call, Box::new(move |result| control.end_call(cell, id, result)));
            }
            Err(failure) => course.ended.push((id, Err(failure))),
        }
        at
    }

    fn display(&mut self, bundle: MimeBundle) {
        let length = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
        let size: usize = bundle.0.iter().map(|(mime, value)| mime.len() + length(value) + 1024).sum();
        match self.told.display_bytes_left.checked_sub(size as u64) {
            Some(left) => {
                self.told.display_bytes_left = left;
                self.host.event(Event::Display(bundle.clone()));
                self.told.displays.push(bundle);
            }
            None => {
                let note = format!(
                    "belljar: a display of {size} bytes was dropped: this cell may show {} bytes in all\n",
                    self.limits.display_bytes
                );
                self.push(Stream::Stderr, note.as_bytes());
            }
        }
    }

    /// Answers what the guest waits for, if the answer is there.
    fn answer(&mut self, course: &mut Course) -> io::Result<()> {
        let now = Instant::now();
        let stopping = course.stopping.is_some();
        match &course.waiting {
            Waiting::Nothing => Ok(()),
            Waiting::Call { id, name, at } => {
                let place = course.ended.iter().position(|(ended, _)| ended == id);
                let result = match place {
                    Some(place) => course.ended.swap_remove(place).1,
                    None if now >= *at => Err(too_slow(name, self.limits.tool_time)),
                    None if stopping => {
                        Err(ToolFailure::new("ToolError", format!("the call of {name} was interrupted")))
                    }
                    None => return Ok(()),
                };
                course.waiting = Waiting::Nothing;
                let encoded = frame::call_answer(&CallAnswer::from(result));
                let encoded = match course.gate.admit_result(encoded.len()) {
                    Ok(()) => encoded,
                    Err(failure) => frame::call_answer(&CallAnswer::Error(failure)),
                };
                self.kernel.send(&encoded)
            }
            Waiting::Results { until } | Waiting::Resume { until } => {
                let over = until.is_some_and(|until| now >= until);
                let resume = matches!(course.waiting, Waiting::Resume { .. });
                let results = self.collect(course, now);
                if results.is_empty() && !over && !stopping {
                    return Ok(());
                }
                course.waiting = Waiting::Nothing;
                match resume {
                    true => self.kernel.send(&frame::resume(&results, stopping)),
                    false => self.kernel.send(&frame::wait_answer(&results, false)),
                }
            }
        }
    }

    /// Started calls that have ended, or whose time is over.
    fn collect(&self, course: &mut Course, now: Instant) -> Vec<StartedResult> {
        let mut results = Vec::new();
        for (id, result) in std::mem::take(&mut course.ended) {
            if let Some((_, bytes)) = course.started.remove(&id) {
                course.started_bytes -= bytes;
                let result = result
                    .and_then(|value| course.gate.admit_result(value.to_string().len()).map(|()| value));
                results.push(StartedResult { id, outcome: result.into() });
            }
        }
        let late: Vec<u64> =
            course.started.iter().filter(|(_, (at, _))| *at <= now).map(|(id, _)| *id).collect();
        for id in late {
            if let Some((_, bytes)) = course.started.remove(&id) {
                course.started_bytes -= bytes;
            }
            let failure: CallResult = Err(too_slow("a tool", self.limits.tool_time));
            results.push(StartedResult { id, outcome: failure.into() });
        }
        results
    }

    /// Asks a cell to stop whose time is over, and says when it must be stopped hard.
    fn keep_time(&mut self, course: &mut Course) -> io::Result<Option<Ending>> {
        let now = Instant::now();
        if self.control.is_filled() {
            self.told.cause = Some(Cause::Full);
            let reason = "the workspace holds more than it may".to_owned();
            return Ok(Some(Ending::Broken { reason, hard: true }));
        }
        if course.stopping.is_none() {
            let cause = if self.control.is_interrupted() {
                Cause::Interrupt
            } else if course.deadline.is_some_and(|deadline| now >= deadline) {
                Cause::Deadline
            } else if self.processor_time_is_over(course) {
                Cause::ProcessorTime
            } else {
                return Ok(None);
            };
            self.told.cause = Some(cause);
            course.stopping = Some(now + self.limits.grace * GRACE_FACTOR);
            self.interrupt();
            return self.answer(course).map(|()| None);
        }
        if course.stopping.is_some_and(|hard| now >= hard) {
            let reason = "it did not give way and was stopped".to_owned();
            return Ok(Some(Ending::Broken { reason, hard: true }));
        }
        Ok(None)
    }

    fn processor_time_is_over(&self, course: &Course) -> bool {
        let Some(most) = course.processor else { return false };
        self.host_pid.and_then(sys::processor_time).is_some_and(|used| used >= most)
    }

    fn interrupt(&self) {
        if let Some(process) = &self.kernel.process {
            let _ = sys::signal(process.as_fd(), libc::SIGINT);
        }
    }
}

fn broken(reason: String) -> Ending {
    Ending::Broken { reason, hard: false }
}

fn after(seconds: Option<f64>) -> Option<Instant> {
    let now = Instant::now();
    seconds.map(|seconds| {
        let time = Duration::try_from_secs_f64(seconds.min(LONGEST.as_secs_f64())).unwrap_or(LONGEST);
        now.checked_add(time).unwrap_or(now + LONGEST)
    })
}

fn too_slow(name: &str, limit: Duration) -> ToolFailure {
    ToolFailure::new("TimeoutError", format!("{name} gave no answer within {limit:?}"))
}
