//! `wasi:io`: streams over files and the standard streams, and waiting.

use belljar_files::Errno;
use wasmtime::Linker;

use super::interface;
use crate::abi::{self, Allocator, Call, Record, hand_over};
use crate::host::{HostState, Machine};
use crate::output::{self, Stream};
use crate::resources::Resource;
use crate::stop::Stop;
use crate::waiting;

/// The most that one read hands over.
const MAX_READ: u64 = 1 << 20;
/// The most that one write takes, as the guest is told.
const MAX_WRITE: u64 = 1 << 20;
const FAILED: u8 = 0;
const CLOSED: u8 = 1;
/// How many pollables one poll may name.
const MAX_POLL: u32 = 4096;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let streams = interface("io/streams");
    linker.func_wrap(&streams, "[method]input-stream.read", read)?;
    linker.func_wrap(
        &streams,
        "[method]output-stream.check-write",
        |mut call: Call<'_>, _stream: u32, result: u32| {
            Record::<16>::new().u64(8, MAX_WRITE).write(&mut call, result)
        },
    )?;
    for name in ["write", "blocking-write-and-flush"] {
        linker.func_wrap(&streams, &format!("[method]output-stream.{name}"), write)?;
    }
    linker.func_wrap(
        &streams,
        "[method]output-stream.blocking-flush",
        |mut call: Call<'_>, _stream: u32, result: u32| Record::<12>::new().write(&mut call, result),
    )?;
    for name in ["input-stream", "output-stream"] {
        linker.func_wrap(
            &streams,
            &format!("[method]{name}.subscribe"),
            |mut call: Call<'_>, _stream: u32| {
                call.data_mut().machine.resources.insert(Resource::Pollable { at: None })
            },
        )?;
        linker.func_wrap(&streams, &format!("[resource-drop]{name}"), drop_resource)?;
    }
    linker.func_wrap(&interface("io/error"), "[resource-drop]error", drop_resource)?;
    let poll = interface("io/poll");
    linker.func_wrap(&poll, "[method]pollable.block", |mut call: Call<'_>, pollable: u32| {
        wait_for(&mut call, &[pollable]).map(|_| ())
    })?;
    linker.func_wrap(&poll, "[resource-drop]pollable", drop_resource)?;
    linker.func_wrap(&poll, "poll", |mut call: Call<'_>, list: u32, count: u32, result: u32| {
        if count > MAX_POLL {
            return Err(Stop::violation("a poll of too many things"));
        }
        let bytes = abi::bytes(&mut call, list, count * 4)?;
        let pollables: Vec<u32> =
            bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
        let ready = wait_for(&mut call, &pollables)?;
        let bytes: Vec<u8> = ready.iter().flat_map(|index| index.to_le_bytes()).collect();
        let (pointer, _) = hand_over(&mut call, Allocator::Wasi, 4, &bytes)?;
        Record::<8>::new().u32(0, pointer).u32(4, ready.len() as u32).write(&mut call, result)
    })?;
    Ok(())
}

fn drop_resource(mut call: Call<'_>, resource: u32) {
    call.data_mut().machine.resources.remove(resource);
}

fn read(mut call: Call<'_>, stream: u32, length: u64, result: u32) -> wasmtime::Result<()> {
    let Resource::FileInput { .. } = call.data_mut().machine.resources.get_mut(stream)? else {
        return fail(&mut call, result, CLOSED);
    };
    // The host reads straight into the guest's memory.
    let room = length.min(MAX_READ) as usize;
    let pointer = abi::allocate(&mut call, Allocator::Wasi, 1, room)?;
    let (buffer, state) = abi::bytes_mut(&mut call, pointer, room)?;
    let Machine { files, resources, .. } = &mut state.machine;
    let outcome = match resources.get_mut(stream)? {
        Resource::FileInput { handle, offset } => {
            files.read(*handle, *offset, buffer).inspect(|count| *offset += *count as u64)
        }
        _ => Err(Errno::BadDescriptor),
    };
    match outcome {
        Ok(count) if count > 0 || length == 0 => {
            Record::<12>::new().u32(4, pointer).u32(8, count as u32).write(&mut call, result)
        }
        ended => {
            abi::free(&mut call, pointer, room as u32)?;
            match ended {
                Ok(_) => fail(&mut call, result, CLOSED),
                Err(errno) => fail_with(&mut call, result, errno),
            }
        }
    }
}

fn write(mut call: Call<'_>, stream: u32, pointer: u32, length: u32, result: u32) -> wasmtime::Result<()> {
    let (data, state) = abi::bytes_mut(&mut call, pointer, length as usize)?;
    let outcome = write_to(state, stream, data)?;
    state.note(&outcome);
    match outcome {
        Ok(()) => Record::<12>::new().write(&mut call, result),
        Err(errno) => fail_with(&mut call, result, errno),
    }
}

fn write_to(state: &mut HostState, stream: u32, data: &[u8]) -> wasmtime::Result<Result<(), Errno>> {
    let Machine { files, resources, clock, .. } = &mut state.machine;
    match resources.get_mut(stream)? {
        Resource::Stdout => output::write(state, Stream::Stdout, data),
        Resource::Stderr => output::write(state, Stream::Stderr, data),
        Resource::FileOutput { handle, offset } => {
            files.set_clock(clock.wall());
            let mut left = data;
            while !left.is_empty() {
                let outcome = match offset {
                    Some(offset) => files.write(*handle, *offset, left),
                    None => files.append(*handle, left),
                };
                match outcome {
                    Ok(0) => return Ok(Err(Errno::NoSpace)),
                    Ok(count) => {
                        if let Some(offset) = offset {
                            *offset += count as u64;
                        }
                        left = left.get(count..).unwrap_or_default();
                    }
                    Err(errno) => return Ok(Err(errno)),
                }
            }
        }
        _ => return Err(Stop::violation("a write to something that is not an output stream")),
    }
    Ok(Ok(()))
}

/// Fails, and leaves word of the reason where libc looks for it: a stream's error has no number.
fn fail_with(call: &mut Call<'_>, result: u32, errno: Errno) -> wasmtime::Result<()> {
    let number: u32 = match errno {
        Errno::BadDescriptor => 8,
        Errno::TooLarge => 22,
        Errno::Invalid => 28,
        Errno::NoSpace => 51,
        Errno::ReadOnly => 69,
        _ => 29,
    };
    let word = call.data().error_word;
    abi::write(call, word, &number.to_le_bytes())?;
    fail(call, result, FAILED)
}

fn fail(call: &mut Call<'_>, result: u32, how: u8) -> wasmtime::Result<()> {
    Record::<12>::new().u8(0, 1).u8(4, how).write(call, result)
}

/// Sleeps until one of the pollables is ready; returns the positions of those that are.
fn wait_for(call: &mut Call<'_>, pollables: &[u32]) -> wasmtime::Result<Vec<u32>> {
    let mut times = Vec::with_capacity(pollables.len());
    for &number in pollables {
        match call.data().machine.resources.get(number)? {
            Resource::Pollable { at } => times.push(*at),
            _ => return Err(Stop::violation("a poll of something else")),
        }
    }
    let Some(earliest) = times.iter().map(|at| at.unwrap_or(0)).min() else {
        return Err(Stop::violation("a poll of nothing"));
    };
    if earliest > call.data_mut().machine.clock.monotonic() {
        waiting::sleep_until(call, earliest)?;
    }
    let now = call.data_mut().machine.clock.monotonic();
    let mut ready: Vec<u32> =
        (0..).zip(&times).filter(|(_, at)| at.unwrap_or(0) <= now).map(|(i, _)| i).collect();
    if ready.is_empty() {
        // Woken by an interrupt: say that something is ready, so that the interpreter looks for it.
        ready.push(0);
    }
    Ok(ready)
}
