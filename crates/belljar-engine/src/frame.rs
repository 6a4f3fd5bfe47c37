//! Frames between an engine and the guest kernel (`guest/PROTOCOL.md`).
//!
//! What comes out of the guest is untrusted: decoding checks kind, length, depth and type, and never
//! panics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{Cell, ExceptionReport, GuestSpec, MimeBundle, ToolCall, ToolFailure};

const BOOT: u8 = 1;
const RUN: u8 = 2;
const RESUME: u8 = 3;
const READY: u8 = 16;
const DONE: u8 = 17;
const WAITING: u8 = 18;
const DISPLAY: u8 = 32;
const CALL: u8 = 33;
const START: u8 = 34;
const WAIT: u8 = 35;
const STREAM: u8 = 36;
const EXIT: u8 = 37;

/// A frame that the guest should not have sent.
#[derive(Debug, Error)]
pub enum FrameError {
    /// There was nothing in it.
    #[error("the guest sent an empty frame")]
    Empty,
    /// It is of no kind that is known, or of one that doesn't belong there.
    #[error("the guest sent a frame of kind {0} where none was expected")]
    Kind(u8),
    /// Its payload isn't what its kind says.
    #[error("the guest sent a malformed frame of kind {kind}: {reason}")]
    Payload {
        /// Its kind.
        kind: u8,
        /// What is wrong.
        reason: String,
    },
}

/// The guest's reply to a frame of ours.
#[derive(Debug)]
pub enum Reply {
    /// It is booted.
    Ready,
    /// The cell ended.
    Done(Done),
    /// The cell waits for tools, or until so many seconds have passed.
    Waiting {
        /// `None`: as long as it takes.
        timeout: Option<f64>,
    },
}

/// How the cell ended, in the guest's words.
#[derive(Debug, Deserialize)]
pub struct Done {
    /// In what way.
    pub status: DoneStatus,
    /// The value of the last expression.
    #[serde(default)]
    pub value: Option<MimeBundle>,
    /// The exception.
    #[serde(default)]
    pub exception: Option<ExceptionReport>,
    /// What was passed to `sys.exit`.
    #[serde(default)]
    pub exit_code: Option<i32>,
}

impl Done {
    /// Interrupted before it did anything.
    pub const INTERRUPTED: Self =
        Self { status: DoneStatus::Interrupted, value: None, exception: None, exit_code: None };
}

/// In what way a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoneStatus {
    /// At its end.
    Ok,
    /// By an exception.
    Error,
    /// By `sys.exit`.
    Exited,
    /// By an interrupt.
    Interrupted,
}

/// What the guest tells or asks while it runs.
#[derive(Debug)]
pub enum Message {
    /// Show this.
    Display(MimeBundle),
    /// Call a tool and wait for it.
    Call {
        /// The call.
        call: ToolCall,
        /// Length of its JSON.
        bytes: usize,
    },
    /// Call a tool; the answer is waited for later.
    Start {
        /// The guest's name for the call.
        id: u64,
        /// The call.
        call: ToolCall,
        /// Length of its JSON.
        bytes: usize,
    },
    /// Wait until a started call ends, or so many seconds have passed.
    Wait {
        /// `None`: as long as it takes.
        timeout: Option<f64>,
    },
    /// Written to standard output (1) or standard error (2).
    Stream {
        /// Which one.
        stream: u8,
        /// What.
        bytes: Vec<u8>,
    },
    /// End the interpreter at once, as `os._exit` does.
    Exit {
        /// With this status.
        code: i32,
    },
}

/// The end of a call that the guest started.
#[derive(Debug, Serialize)]
pub struct StartedResult {
    /// The guest's name for the call.
    pub id: u64,
    /// Its result.
    #[serde(flatten)]
    pub outcome: CallAnswer,
}

/// The answer to a tool call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// Its result.
    Ok(Value),
    /// Its failure.
    Error(ToolFailure),
}

impl From<Result<Value, ToolFailure>> for CallAnswer {
    fn from(result: Result<Value, ToolFailure>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(failure) => Self::Error(failure),
        }
    }
}

/// A `BOOT` frame.
pub fn boot(spec: &GuestSpec, seed: &[u8; 16], max_value_bytes: u64) -> Vec<u8> {
    let mut body = boot_body(spec, Some(seed), max_value_bytes);
    body["cwd"] = spec.workspace.clone().into();
    boot_frame(&body)
}

/// A `BOOT` frame with variables that hold where the spec says nothing.
pub fn boot_in(
    spec: &GuestSpec,
    seed: &[u8; 16],
    max_value_bytes: u64,
    surroundings: &BTreeMap<String, String>,
) -> Vec<u8> {
    let mut body = boot_body(spec, Some(seed), max_value_bytes);
    body["cwd"] = spec.workspace.clone().into();
    body["surroundings"] = serde_json::json!(surroundings);
    boot_frame(&body)
}

/// A `BOOT` frame for a guest that was booted before: it stays in its directory, and its randomness goes on
/// unless there is a seed.
pub fn boot_again(spec: &GuestSpec, seed: Option<&[u8; 16]>, max_value_bytes: u64) -> Vec<u8> {
    boot_frame(&boot_body(spec, seed, max_value_bytes))
}

fn boot_body(spec: &GuestSpec, seed: Option<&[u8; 16]>, max_value_bytes: u64) -> Value {
    let mut body = serde_json::json!({
        "env": spec.env,
        "argv": spec.argv,
        "tools": spec.tools,
        "max_value_bytes": max_value_bytes,
    });
    if !spec.inject_setup {
        body["inject_setup"] = false.into();
    }
    if let Some(seed) = seed {
        body["seed"] = seed.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    }
    body
}

fn boot_frame(body: &Value) -> Vec<u8> {
    let mut frame = vec![BOOT];
    frame.extend_from_slice(body.to_string().as_bytes());
    frame
}

/// A `RUN` frame.
pub fn run(cell: &Cell) -> Vec<u8> {
    let file = cell.file.as_deref().unwrap_or_default();
    let length = file.floor_char_boundary(usize::from(u16::MAX).min(file.len()));
    let file = &file.as_bytes()[..length];
    let mut frame = Vec::with_capacity(7 + file.len() + cell.code.len());
    frame.push(RUN);
    frame.extend_from_slice(&cell.number.to_le_bytes());
    frame.extend_from_slice(&(file.len() as u16).to_le_bytes());
    frame.extend_from_slice(file);
    frame.extend_from_slice(&cell.code);
    frame
}

/// A `RESUME` frame.
pub fn resume(results: &[StartedResult], interrupt: bool) -> Vec<u8> {
    let mut frame = vec![RESUME];
    frame.extend_from_slice(&wait_answer(results, interrupt));
    frame
}

/// The answer to a `WAIT`.
pub fn wait_answer(results: &[StartedResult], interrupt: bool) -> Vec<u8> {
    serde_json::json!({ "results": results, "interrupt": interrupt }).to_string().into_bytes()
}

/// The answer to a `CALL`.
pub fn call_answer(answer: &CallAnswer) -> Vec<u8> {
    serde_json::to_vec(answer)
        .unwrap_or_else(|_| br#"{"error":{"type":"ToolError","message":"the result is not JSON"}}"#.to_vec())
}

/// Reads the guest's reply to a frame of ours.
pub fn decode_reply(frame: &[u8]) -> Result<Reply, FrameError> {
    let (&kind, payload) = frame.split_first().ok_or(FrameError::Empty)?;
    match kind {
        READY => Ok(Reply::Ready),
        DONE => Ok(Reply::Done(json(kind, payload)?)),
        WAITING => Ok(Reply::Waiting { timeout: json::<Timeout>(kind, payload)?.checked() }),
        _ => Err(FrameError::Kind(kind)),
    }
}

/// Reads what the guest tells or asks. Of tool calls with more than `tool_bytes` of JSON only the length is told:
/// they are to be refused.
pub fn decode_message(frame: &[u8], tool_bytes: u64) -> Result<Message, FrameError> {
    let (&kind, payload) = frame.split_first().ok_or(FrameError::Empty)?;
    let bytes = payload.len();
    match kind {
        CALL if bytes as u64 > tool_bytes => Ok(Message::Call { call: ToolCall::default(), bytes }),
        START if bytes as u64 > tool_bytes => {
            let StartId { id } = json(kind, payload)?;
            Ok(Message::Start { id, call: ToolCall::default(), bytes })
        }
        DISPLAY => Ok(Message::Display(json::<Display>(kind, payload)?.data)),
        CALL => {
            let call: Call = json(kind, payload)?;
            Ok(Message::Call { call: call.into(), bytes: payload.len() })
        }
        START => {
            let Start { id, call } = json(kind, payload)?;
            Ok(Message::Start { id, call: call.into(), bytes: payload.len() })
        }
        WAIT => Ok(Message::Wait { timeout: json::<Timeout>(kind, payload)?.checked() }),
        STREAM => match payload.split_first() {
            Some((&stream @ (1 | 2), bytes)) => Ok(Message::Stream { stream, bytes: bytes.to_vec() }),
            _ => Err(FrameError::Payload { kind, reason: "no such stream".to_owned() }),
        },
        EXIT => match payload.try_into() {
            Ok(code) => Ok(Message::Exit { code: i32::from_le_bytes(code) }),
            Err(_) => Err(FrameError::Payload { kind, reason: "no exit status".to_owned() }),
        },
        _ => Err(FrameError::Kind(kind)),
    }
}

// serde_json bounds the depth of what it reads (128), so hostile nesting is an error, not a stack overflow.
// A value takes 32 bytes and more, and may be one on the wire: their number is bounded before any is made.
fn json<'a, T: Deserialize<'a>>(kind: u8, payload: &'a [u8]) -> Result<T, FrameError> {
    if values(payload) > MOST_VALUES {
        return Err(FrameError::Payload { kind, reason: format!("more than {MOST_VALUES} values") });
    }
    serde_json::from_slice(payload).map_err(|error| FrameError::Payload { kind, reason: error.to_string() })
}

/// How many values a payload may have.
const MOST_VALUES: usize = 2_000_000;

/// Roughly how many values there are in JSON: what begins one, outside of strings.
fn values(payload: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in payload {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[derive(Deserialize)]
struct Timeout {
    timeout: Option<f64>,
}

impl Timeout {
    fn checked(self) -> Option<f64> {
        self.timeout.filter(|seconds| seconds.is_finite()).map(|seconds| seconds.max(0.0))
    }
}

#[derive(Deserialize)]
struct Display {
    data: MimeBundle,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    args: Vec<Value>,
    #[serde(default)]
    kwargs: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Arguments,
}

impl From<Call> for ToolCall {
    fn from(call: Call) -> Self {
        Self { name: call.name, args: call.arguments.args, kwargs: call.arguments.kwargs }
    }
}

#[derive(Deserialize)]
struct StartId {
    id: u64,
}

#[derive(Deserialize)]
struct Start {
    id: u64,
    #[serde(flatten)]
    call: Call,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = decode_reply(&bytes);
            let _ = decode_message(&bytes, 1 << 20);
        }

        #[test]
        fn decoding_json_like_bytes_never_panics(
            kind in 0u8..40,
            text in r#"[\{\}\[\]":,0-9a-z\\]{0,200}"#,
        ) {
            let mut frame = vec![kind];
            frame.extend_from_slice(text.as_bytes());
            let _ = decode_reply(&frame);
            let _ = decode_message(&frame, 1 << 20);
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let mut frame = vec![CALL];
        frame.extend_from_slice(br#"{"name":"x","arguments":{"args":"#);
        frame.extend(std::iter::repeat_n(b'[', 100_000));
        assert!(matches!(decode_message(&frame, 1 << 20), Err(FrameError::Payload { .. })));
    }

    #[test]
    fn too_many_values_are_an_error() {
        let many = "[],".repeat(MOST_VALUES / 2 + 1);
        let frame =
            [&[DISPLAY][..], format!("{{\"data\":{{\"application/json\":[{many}1]}}}}").as_bytes()].concat();
        assert!(matches!(decode_message(&frame, 1 << 20), Err(FrameError::Payload { .. })));
        let text = r#"[{,\"#.repeat(MOST_VALUES);
        let frame = [
            &[DISPLAY][..],
            format!("{{\"data\":{{\"text/plain\":{}}}}}", serde_json::json!(text)).as_bytes(),
        ]
        .concat();
        assert!(decode_message(&frame, 1 << 20).is_ok());
    }

    #[test]
    fn a_call_is_read() {
        let mut frame = vec![START];
        frame.extend_from_slice(br#"{"id":7,"name":"add","arguments":{"args":[1],"kwargs":{"b":2}}}"#);
        let Message::Start { id, call, .. } = decode_message(&frame, 1 << 20).unwrap() else {
            unreachable!()
        };
        assert_eq!((id, call.name.as_str(), call.args.len(), call.kwargs.len()), (7, "add", 1, 1));
    }

    #[test]
    fn hostile_timeouts_are_bounded() {
        for (text, expected) in [("null", None), ("-5", Some(0.0)), ("2.5", Some(2.5))] {
            let frame = [&[WAITING][..], format!("{{\"timeout\":{text}}}").as_bytes()].concat();
            let Reply::Waiting { timeout } = decode_reply(&frame).unwrap() else { unreachable!() };
            assert_eq!(timeout, expected);
        }
    }

    #[test]
    fn a_long_file_name_is_cut_at_a_character() {
        let cell = Cell { number: 1, file: Some("ä".repeat(40_000)), code: b"1".to_vec() };
        let frame = run(&cell);
        let length = usize::from(u16::from_le_bytes([frame[5], frame[6]]));
        assert!(std::str::from_utf8(&frame[7..7 + length]).is_ok());
    }
}
