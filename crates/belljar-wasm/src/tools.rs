//! What the guest kernel tells and asks: displays and tool calls.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar_engine::frame::{self, CallAnswer, Message, StartedResult};
use belljar_engine::{Event, Limits, MimeBundle, ToolCall, ToolFailure};
use serde_json::Value;
use wasmtime::Linker;

use crate::abi::{self, Allocator, Call, Record, hand_over};
use crate::control::CallResult;
use crate::host::{HostState, RunningCell};
use crate::output::{self, Stream};
use crate::stop::Stop;
use crate::waiting;

/// The largest frame that is looked at.
const MAX_FRAME: u32 = 64 << 20;
/// A call whose time the clock can't tell may take this long.
const LONGEST: Duration = Duration::from_secs(86_400 * 365);
/// How many started calls may be under way at once.
const MAX_STARTED: usize = 250_000;
/// How many times the arguments of one call may be under way at once.
const MAX_STARTED_SHARE: u64 = 16;
/// Set in the numbers of calls that the host itself waits for, so that the guest's don't meet them.
const HOST_ID: u64 = 1 << 63;

/// Tool calls that the guest started and hasn't heard of yet.
#[derive(Debug, Default)]
pub(crate) struct StartedCalls {
    waiting: BTreeMap<u64, StartedCall>,
    /// Length of the arguments of all that wait.
    bytes: u64,
    pub(crate) total: u64,
}

#[derive(Clone, Copy, Debug)]
struct StartedCall {
    /// The end of its time.
    at: Instant,
    bytes: u64,
}

impl StartedCalls {
    fn insert(&mut self, id: u64, call: StartedCall) {
        self.bytes += call.bytes;
        self.waiting.insert(id, call);
    }

    fn remove(&mut self, id: u64) -> bool {
        let removed = self.waiting.remove(&id);
        self.bytes -= removed.map_or(0, |call| call.bytes);
        removed.is_some()
    }

    /// Lets a call with so many bytes of arguments, which stay in the host's memory, begin beside the others.
    fn admit(&self, bytes: usize, limits: &Limits) -> Result<(), ToolFailure> {
        let most = limits.tool_bytes.saturating_mul(MAX_STARTED_SHARE);
        if self.bytes > 0 && self.bytes.saturating_add(bytes as u64) > most {
            let message =
                format!("the calls under way have {most} bytes of arguments, as many as may be; await some");
            return Err(ToolFailure::new("ToolError", message));
        }
        Ok(())
    }
}

pub(crate) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("$root", "exchange", |mut call: Call<'_>, frame: u32, length: u32, result: u32| {
        if length > MAX_FRAME {
            return Err(Stop::violation("a frame that is too large"));
        }
        let tool_bytes = cell(&mut call)?.limits.tool_bytes;
        let bytes = abi::bytes(&mut call, frame, length)?;
        let message =
            frame::decode_message(bytes, tool_bytes).map_err(|error| Stop::violation(error.to_string()))?;
        abi::free(&mut call, frame, length)?;
        let answer = answer(&mut call, message)?;
        let (pointer, length) = hand_over(&mut call, Allocator::Kernel, 1, &answer)?;
        Record::<8>::new().u32(0, pointer).u32(4, length).write(&mut call, result)
    })?;
    Ok(())
}

fn answer(call: &mut Call<'_>, message: Message) -> wasmtime::Result<Vec<u8>> {
    match message {
        Message::Display(bundle) => {
            display(call, bundle)?;
            Ok(Vec::new())
        }
        Message::Stream { stream, bytes } => {
            let stream = if stream == 1 { Stream::Stdout } else { Stream::Stderr };
            output::write(call.data_mut(), stream, &bytes);
            Ok(Vec::new())
        }
        Message::Call { call: tool, bytes } => {
            let result = call_and_wait(call, tool, bytes)?;
            let answer = CallAnswer::from(result);
            let encoded = frame::call_answer(&answer);
            match cell(call)?.gate.admit_result(encoded.len()) {
                Ok(()) => Ok(encoded),
                Err(failure) => Ok(frame::call_answer(&CallAnswer::Error(failure))),
            }
        }
        Message::Start { id, call: tool, bytes } => {
            start(call, id & !HOST_ID, tool, bytes)?;
            Ok(Vec::new())
        }
        Message::Exit { code } => Err(Stop::Exit(code).into()),
        Message::Wait { timeout } => {
            let results = wait(call, timeout)?;
            waiting::obey(call)?;
            Ok(frame::wait_answer(&results, false))
        }
    }
}

fn cell<'a>(call: &'a mut Call<'_>) -> wasmtime::Result<&'a mut RunningCell> {
    call.data_mut().cell.as_mut().ok_or_else(|| Stop::violation("a frame outside a cell"))
}

fn display(call: &mut Call<'_>, bundle: MimeBundle) -> wasmtime::Result<()> {
    let cell = cell(call)?;
    // Each form costs its bookkeeping too: a bundle can have a million names for nothing.
    let length = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
    let size: usize = bundle.0.iter().map(|(mime, value)| mime.len() + length(value) + 1024).sum();
    match cell.display_bytes_left.checked_sub(size as u64) {
        Some(left) => {
            cell.display_bytes_left = left;
            cell.host.event(Event::Display(bundle.clone()));
            cell.displays.push(bundle);
        }
        None => {
            let note = format!(
                "belljar: a display of {size} bytes was dropped: this cell may show {} bytes in all\n",
                cell.limits.display_bytes
            );
            output::write(call.data_mut(), Stream::Stderr, note.as_bytes());
        }
    }
    Ok(())
}

/// Hands a call to the host; the answer comes back through the control.
fn begin(call: &mut Call<'_>, id: u64, tool: ToolCall, bytes: usize) -> wasmtime::Result<Instant> {
    let control = call.data().control.clone();
    let running = control.running().ok_or_else(|| Stop::violation("a tool call outside a cell"))?;
    let cell = cell(call)?;
    cell.calls.total += 1;
    let now = Instant::now();
    let deadline = now.checked_add(cell.limits.tool_time).unwrap_or(now + LONGEST);
    match cell.calls.admit(bytes, &cell.limits).and_then(|()| cell.gate.admit(bytes)) {
        Ok(()) => {
            let reply = control.clone();
            cell.host.call(tool, Box::new(move |result| reply.end_call(running, id, result)));
        }
        Err(failure) => control.end_call(running, id, Err(failure)),
    }
    Ok(deadline)
}

fn call_and_wait(call: &mut Call<'_>, tool: ToolCall, bytes: usize) -> wasmtime::Result<CallResult> {
    let name = tool.name.clone();
    let id = HOST_ID | cell(call)?.calls.total;
    let deadline = begin(call, id, tool, bytes)?;
    let ended = call.data().control.take_ended_call(id, deadline);
    // An interrupt ends the wait; the interpreter raises it when this call returns.
    waiting::obey(call)?;
    Ok(match ended {
        Some(result) => result,
        None if Instant::now() >= deadline => Err(too_slow(&name, cell(call)?.limits.tool_time)),
        None => Err(ToolFailure::new("ToolError", format!("the call of {name} was interrupted"))),
    })
}

fn start(call: &mut Call<'_>, id: u64, tool: ToolCall, bytes: usize) -> wasmtime::Result<()> {
    let waiting = &cell(call)?.calls.waiting;
    if waiting.len() >= MAX_STARTED || waiting.contains_key(&id) {
        return Err(Stop::violation("too many tool calls at once, or two of one number"));
    }
    let at = begin(call, id, tool, bytes)?;
    cell(call)?.calls.insert(id, StartedCall { at, bytes: bytes as u64 });
    Ok(())
}

/// Waits until started calls have ended, but not longer than `timeout` seconds.
fn wait(call: &mut Call<'_>, timeout: Option<f64>) -> wasmtime::Result<Vec<StartedResult>> {
    let control = call.data().control.clone();
    let machine = &mut call.data_mut().machine;
    let until = timeout.map(|seconds| {
        let nanoseconds = (seconds * 1e9).min(1e18) as u64;
        let at = machine.clock.monotonic().saturating_add(nanoseconds);
        machine.clock.instant(at)
    });
    let cell = cell(call)?;
    Ok(collect(&control, cell, until))
}

/// Waits for the cell's started calls; those whose time is over count as ended.
pub(crate) fn collect(
    control: &crate::control::Control,
    cell: &mut RunningCell,
    until: Option<Instant>,
) -> Vec<StartedResult> {
    let RunningCell { calls, gate, limits, .. } = cell;
    let deadline = calls.waiting.values().map(|call| call.at).chain(until).min();
    let mut results = Vec::new();
    for (id, result) in control.take_ended(deadline) {
        if calls.remove(id) {
            let result = result.and_then(|value| gate.admit_result(json_length(&value)).map(|()| value));
            results.push(StartedResult { id, outcome: result.into() });
        }
    }
    let now = Instant::now();
    let late: Vec<u64> = calls.waiting.iter().filter(|(_, call)| call.at <= now).map(|(id, _)| *id).collect();
    for id in late {
        calls.remove(id);
        let failure: Result<Value, ToolFailure> = Err(too_slow("a tool", limits.tool_time));
        results.push(StartedResult { id, outcome: failure.into() });
    }
    results
}

/// The length of a value as JSON.
fn json_length(value: &Value) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    match serde_json::to_writer(&mut length, value) {
        Ok(()) => length.0,
        Err(_) => usize::MAX,
    }
}

fn too_slow(name: &str, limit: Duration) -> ToolFailure {
    ToolFailure::new("TimeoutError", format!("{name} gave no answer within {limit:?}"))
}
