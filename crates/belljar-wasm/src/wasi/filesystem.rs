//! `wasi:filesystem`: descriptors over [`belljar_files`].

use belljar_files::{Errno, FileSystem, FileType, Handle, Metadata, OpenOptions, SetTime, Timestamp};
use wasmtime::Linker;

use super::interface;
use crate::abi::{self, Allocator, Call, Record, hand_over};
use crate::host::{HostState, Machine};
use crate::resources::Resource;
use crate::stop::Stop;

/// The most that one read hands over.
const MAX_READ: u64 = 1 << 20;

/// Does something to the file at a path.
type PathOperation = fn(&mut FileSystem, Handle, &str) -> Result<(), Errno>;
/// Tells the guest about a file.
type WriteMetadata = fn(&mut Call<'_>, Result<Metadata, Errno>, u32) -> wasmtime::Result<()>;

pub(super) fn define(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.func_wrap(
        &interface("filesystem/preopens"),
        "get-directories",
        |mut call: Call<'_>, result: u32| {
            let machine = &mut call.data_mut().machine;
            let root = machine.files.root().map_err(|errno| Stop::violation(errno.to_string()))?;
            let number = machine.resources.insert(Resource::Descriptor(root))?;
            let (path, length) = hand_over(&mut call, Allocator::Wasi, 1, b"/")?;
            let entry: Vec<u8> = [number, path, length].iter().flat_map(|word| word.to_le_bytes()).collect();
            let (list, _) = hand_over(&mut call, Allocator::Wasi, 4, &entry)?;
            Record::<8>::new().u32(0, list).u32(4, 1).write(&mut call, result)
        },
    )?;
    let types = interface("filesystem/types");
    descriptors(linker, &types)?;
    contents(linker, &types)?;
    paths(linker, &types)?;
    times(linker, &types)?;
    directories(linker, &types)
}

fn descriptors(linker: &mut Linker<HostState>, types: &str) -> wasmtime::Result<()> {
    linker.func_wrap(
        types,
        "[method]descriptor.open-at",
        |mut call: Call<'_>,
         directory: u32,
         path_flags: u32,
         path: u32,
         length: u32,
         open: u32,
         flags: u32,
         result: u32| {
            let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                let options = OpenOptions {
                    create: open & 1 != 0,
                    directory: open & 2 != 0,
                    exclusive: open & 4 != 0,
                    truncate: open & 8 != 0,
                    read: flags & 1 != 0,
                    write: flags & 2 != 0,
                    follow_symlinks: path_flags & 1 != 0,
                };
                machine.files.open_at(directory, path, options)
            })?;
            hold(&mut call, outcome.map(Resource::Descriptor), result)
        },
    )?;
    linker.func_wrap(types, "[resource-drop]descriptor", |mut call: Call<'_>, number: u32| {
        let machine = &mut call.data_mut().machine;
        if let Some(Resource::Descriptor(handle)) = machine.resources.remove(number) {
            let _ = machine.files.close(handle);
        }
    })?;
    linker.func_wrap(
        types,
        "[method]descriptor.get-flags",
        |mut call: Call<'_>, number: u32, result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| machine.files.access(handle))?;
            match outcome {
                Ok(access) => {
                    // `access(path, W_OK)` asks no more than whether entries of the root may change.
                    let flags =
                        u8::from(access.read) | u8::from(access.write) << 1 | u8::from(access.directory) << 5;
                    Record::<2>::new().u8(1, flags).write(&mut call, result)
                }
                Err(errno) => Record::<2>::new().u8(0, 1).u8(1, code(errno)).write(&mut call, result),
            }
        },
    )?;
    let looks: [(&str, WriteMetadata); 2] = [("stat", write_stat), ("metadata-hash", write_hash)];
    for (name, write) in looks {
        linker.func_wrap(
            types,
            &format!("[method]descriptor.{name}"),
            move |mut call: Call<'_>, number: u32, result: u32| {
                let outcome = on_descriptor(&mut call, number, |machine, handle| machine.files.stat(handle))?;
                write(&mut call, outcome, result)
            },
        )?;
    }
    for name in ["sync", "sync-data"] {
        linker.func_wrap(
            types,
            &format!("[method]descriptor.{name}"),
            |mut call: Call<'_>, number: u32, result: u32| {
                let outcome = on_descriptor(&mut call, number, |machine, handle| machine.files.sync(handle))?;
                write_unit(&mut call, outcome, result)
            },
        )?;
    }
    linker.func_wrap(
        types,
        "[method]descriptor.advise",
        |mut call: Call<'_>, _number: u32, _offset: u64, _length: u64, _advice: u32, result: u32| {
            write_unit(&mut call, Ok(()), result)
        },
    )?;
    Ok(())
}

fn contents(linker: &mut Linker<HostState>, types: &str) -> wasmtime::Result<()> {
    linker.func_wrap(
        types,
        "[method]descriptor.read-via-stream",
        |mut call: Call<'_>, number: u32, offset: u64, result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                readable(machine, handle).map(|()| Resource::FileInput { handle, offset })
            })?;
            hold(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.write-via-stream",
        |mut call: Call<'_>, number: u32, offset: u64, result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                writable(machine, handle).map(|()| Resource::FileOutput { handle, offset: Some(offset) })
            })?;
            hold(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.append-via-stream",
        |mut call: Call<'_>, number: u32, result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                writable(machine, handle).map(|()| Resource::FileOutput { handle, offset: None })
            })?;
            hold(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.read",
        |mut call: Call<'_>, number: u32, length: u64, offset: u64, result: u32| {
            let mut buffer = vec![0; length.min(MAX_READ) as usize];
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                machine.files.read(handle, offset, &mut buffer)
            })?;
            match outcome {
                Ok(count) => {
                    let (pointer, count) = hand_over(&mut call, Allocator::Wasi, 1, &buffer[..count])?;
                    let ended = u8::from(count == 0 && length > 0);
                    Record::<16>::new().u32(4, pointer).u32(8, count).u8(12, ended).write(&mut call, result)
                }
                Err(errno) => Record::<16>::new().u8(0, 1).u8(4, code(errno)).write(&mut call, result),
            }
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.write",
        |mut call: Call<'_>, number: u32, pointer: u32, length: u32, offset: u64, result: u32| {
            let data = abi::bytes(&mut call, pointer, length)?.to_vec();
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                machine.files.set_clock(machine.clock.wall());
                machine.files.write(handle, offset, &data)
            })?;
            match outcome {
                Ok(count) => Record::<16>::new().u64(8, count as u64).write(&mut call, result),
                Err(errno) => Record::<16>::new().u8(0, 1).u8(8, code(errno)).write(&mut call, result),
            }
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.set-size",
        |mut call: Call<'_>, number: u32, size: u64, result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                machine.files.set_clock(machine.clock.wall());
                machine.files.set_size(handle, size)
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    Ok(())
}

fn paths(linker: &mut Linker<HostState>, types: &str) -> wasmtime::Result<()> {
    let looks: [(&str, WriteMetadata); 2] = [("stat-at", write_stat), ("metadata-hash-at", write_hash)];
    for (name, write) in looks {
        linker.func_wrap(
            types,
            &format!("[method]descriptor.{name}"),
            move |mut call: Call<'_>, directory: u32, flags: u32, path: u32, length: u32, result: u32| {
                let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                    machine.files.stat_at(directory, path, flags & 1 != 0)
                })?;
                write(&mut call, outcome, result)
            },
        )?;
    }
    let operations: [(&str, PathOperation); 3] = [
        ("create-directory-at", FileSystem::make_directory_at),
        ("remove-directory-at", FileSystem::remove_directory_at),
        ("unlink-file-at", FileSystem::unlink_at),
    ];
    for (name, operation) in operations {
        linker.func_wrap(
            types,
            &format!("[method]descriptor.{name}"),
            move |mut call: Call<'_>, directory: u32, path: u32, length: u32, result: u32| {
                let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                    operation(&mut machine.files, directory, path)
                })?;
                write_unit(&mut call, outcome, result)
            },
        )?;
    }
    linker.func_wrap(
        types,
        "[method]descriptor.symlink-at",
        |mut call: Call<'_>,
         directory: u32,
         target: u32,
         target_length: u32,
         path: u32,
         length: u32,
         result: u32| {
            let target = abi::string(&mut call, target, target_length)?;
            let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                machine.files.symlink_at(&target.ok_or(Errno::IllegalByteSequence)?, directory, path)
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.readlink-at",
        |mut call: Call<'_>, directory: u32, path: u32, length: u32, result: u32| {
            let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                machine.files.read_link_at(directory, path)
            })?;
            match outcome {
                Ok(target) => {
                    let (pointer, length) = hand_over(&mut call, Allocator::Wasi, 1, target.as_bytes())?;
                    Record::<12>::new().u32(4, pointer).u32(8, length).write(&mut call, result)
                }
                Err(errno) => Record::<12>::new().u8(0, 1).u8(4, code(errno)).write(&mut call, result),
            }
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.rename-at",
        |mut call: Call<'_>,
         old: u32,
         path: u32,
         length: u32,
         new: u32,
         new_path: u32,
         new_length: u32,
         result: u32| {
            let new_path = abi::string(&mut call, new_path, new_length)?;
            let new = call.data().machine.resources.descriptor(new)?;
            let outcome = at_path(&mut call, old, path, length, |machine, old, path| {
                machine.files.rename_at(old, path, new, &new_path.ok_or(Errno::IllegalByteSequence)?)
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.link-at",
        |mut call: Call<'_>,
         old: u32,
         flags: u32,
         path: u32,
         length: u32,
         new: u32,
         new_path: u32,
         new_length: u32,
         result: u32| {
            let new_path = abi::string(&mut call, new_path, new_length)?;
            let new = call.data().machine.resources.descriptor(new)?;
            let outcome = at_path(&mut call, old, path, length, |machine, old, path| {
                let new_path = new_path.ok_or(Errno::IllegalByteSequence)?;
                machine.files.link_at(old, path, flags & 1 != 0, new, &new_path)
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    Ok(())
}

fn times(linker: &mut Linker<HostState>, types: &str) -> wasmtime::Result<()> {
    linker.func_wrap(
        types,
        "[method]descriptor.set-times",
        |mut call: Call<'_>,
         number: u32,
         a: u32,
         a_s: u64,
         a_ns: u32,
         m: u32,
         m_s: u64,
         m_ns: u32,
         result: u32| {
            let outcome = on_descriptor(&mut call, number, |machine, handle| {
                machine.files.set_clock(machine.clock.wall());
                machine.files.set_times(handle, new_time(a, a_s, a_ns), new_time(m, m_s, m_ns))
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]descriptor.set-times-at",
        |mut call: Call<'_>,
         directory: u32,
         flags: u32,
         path: u32,
         length: u32,
         a: u32,
         a_s: u64,
         a_ns: u32,
         m: u32,
         m_s: u64,
         m_ns: u32,
         result: u32| {
            let outcome = at_path(&mut call, directory, path, length, |machine, directory, path| {
                let (accessed, modified) = (new_time(a, a_s, a_ns), new_time(m, m_s, m_ns));
                machine.files.set_times_at(directory, path, flags & 1 != 0, accessed, modified)
            })?;
            write_unit(&mut call, outcome, result)
        },
    )?;
    Ok(())
}

fn directories(linker: &mut Linker<HostState>, types: &str) -> wasmtime::Result<()> {
    linker.func_wrap(
        types,
        "[method]descriptor.read-directory",
        |mut call: Call<'_>, number: u32, result: u32| {
            let outcome =
                on_descriptor(&mut call, number, |machine, handle| machine.files.read_directory(handle))?;
            hold(&mut call, outcome.map(Resource::Directory), result)
        },
    )?;
    linker.func_wrap(
        types,
        "[method]directory-entry-stream.read-directory-entry",
        |mut call: Call<'_>, number: u32, result: u32| {
            let Resource::Directory(stream) = call.data_mut().machine.resources.get_mut(number)? else {
                return Err(Stop::violation("a resource of another kind"));
            };
            let Some(entry) = stream.next() else { return Record::<20>::new().write(&mut call, result) };
            let (name, length) = hand_over(&mut call, Allocator::Wasi, 1, entry.name.as_bytes())?;
            Record::<20>::new()
                .u8(4, 1)
                .u8(8, kind(entry.file_type))
                .u32(12, name)
                .u32(16, length)
                .write(&mut call, result)
        },
    )?;
    linker.func_wrap(types, "[resource-drop]directory-entry-stream", |mut call: Call<'_>, number: u32| {
        call.data_mut().machine.resources.remove(number);
    })?;
    Ok(())
}

/// Does something with an open descriptor.
fn on_descriptor<T>(
    call: &mut Call<'_>,
    number: u32,
    body: impl FnOnce(&mut Machine, Handle) -> Result<T, Errno>,
) -> wasmtime::Result<Result<T, Errno>> {
    let state = call.data_mut();
    let handle = state.machine.resources.descriptor(number)?;
    let outcome = body(&mut state.machine, handle);
    state.note(&outcome);
    Ok(outcome)
}

/// Does something with a path below an open directory.
fn at_path<T>(
    call: &mut Call<'_>,
    directory: u32,
    path: u32,
    length: u32,
    body: impl FnOnce(&mut Machine, Handle, &str) -> Result<T, Errno>,
) -> wasmtime::Result<Result<T, Errno>> {
    let Some(path) = abi::string(call, path, length)? else { return Ok(Err(Errno::IllegalByteSequence)) };
    let state = call.data_mut();
    let machine = &mut state.machine;
    let directory = machine.resources.descriptor(directory)?;
    machine.files.set_clock(machine.clock.wall());
    let outcome = body(machine, directory, &path);
    state.note(&outcome);
    Ok(outcome)
}

fn readable(machine: &Machine, handle: Handle) -> Result<(), Errno> {
    let access = machine.files.access(handle)?;
    match (access.directory, access.read) {
        // What a stream says later reaches the guest as EIO.
        (true, _) => Err(Errno::IsDirectory),
        (false, true) => Ok(()),
        (false, false) => Err(Errno::BadDescriptor),
    }
}

fn writable(machine: &Machine, handle: Handle) -> Result<(), Errno> {
    if machine.files.access(handle)?.write { Ok(()) } else { Err(Errno::BadDescriptor) }
}

/// Writes `result<own<resource>, error-code>`.
fn hold(call: &mut Call<'_>, outcome: Result<Resource, Errno>, result: u32) -> wasmtime::Result<()> {
    match outcome {
        Ok(resource) => {
            let number = call.data_mut().machine.resources.insert(resource)?;
            Record::<8>::new().u32(4, number).write(call, result)
        }
        Err(errno) => Record::<8>::new().u8(0, 1).u8(4, code(errno)).write(call, result),
    }
}

/// Writes `result<_, error-code>`.
fn write_unit(call: &mut Call<'_>, outcome: Result<(), Errno>, result: u32) -> wasmtime::Result<()> {
    match outcome {
        Ok(()) => Record::<2>::new().write(call, result),
        Err(errno) => Record::<2>::new().u8(0, 1).u8(1, code(errno)).write(call, result),
    }
}

/// Writes `result<descriptor-stat, error-code>`.
fn write_stat(call: &mut Call<'_>, outcome: Result<Metadata, Errno>, result: u32) -> wasmtime::Result<()> {
    let record = Record::<104>::new();
    let metadata = match outcome {
        Ok(metadata) => metadata,
        Err(errno) => return record.u8(0, 1).u8(8, code(errno)).write(call, result),
    };
    let mut record = record.u8(8, kind(metadata.file_type)).u64(16, metadata.links).u64(24, metadata.size);
    for (offset, time) in [(32, metadata.accessed), (56, metadata.modified), (80, metadata.changed)] {
        record = record
            .u8(offset, 1)
            .u64(offset + 8, time.seconds.max(0) as u64)
            .u32(offset + 16, time.nanoseconds);
    }
    record.write(call, result)
}

/// Writes `result<metadata-hash-value, error-code>`: the guest's inode number.
fn write_hash(call: &mut Call<'_>, outcome: Result<Metadata, Errno>, result: u32) -> wasmtime::Result<()> {
    match outcome {
        Ok(metadata) => {
            Record::<24>::new().u64(8, metadata.inode).u64(16, metadata.device).write(call, result)
        }
        Err(errno) => Record::<24>::new().u8(0, 1).u8(8, code(errno)).write(call, result),
    }
}

fn new_time(how: u32, seconds: u64, nanoseconds: u32) -> SetTime {
    match how {
        1 => SetTime::Now,
        2 => SetTime::At(Timestamp {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanoseconds: nanoseconds.min(999_999_999),
        }),
        _ => SetTime::Keep,
    }
}

/// `descriptor-type`.
fn kind(file_type: FileType) -> u8 {
    match file_type {
        FileType::Directory => 3,
        FileType::Symlink => 5,
        FileType::Regular => 6,
        FileType::Other => 0,
    }
}

/// `error-code`.
fn code(errno: Errno) -> u8 {
    match errno {
        Errno::Access => 0,
        Errno::Again => 1,
        Errno::BadDescriptor => 3,
        Errno::Busy => 4,
        Errno::Exist => 7,
        Errno::TooLarge => 8,
        Errno::IllegalByteSequence => 9,
        Errno::Interrupted => 11,
        Errno::Invalid => 12,
        Errno::Io => 13,
        Errno::IsDirectory => 14,
        Errno::Loop => 15,
        Errno::TooManyLinks => 16,
        Errno::NameTooLong => 18,
        Errno::NoEntry => 20,
        Errno::NoSpace => 23,
        Errno::NotDirectory => 24,
        Errno::NotEmpty => 25,
        Errno::NotSupported => 27,
        // WASI has no word for it; the closest that libc turns into a resource error.
        Errno::TooManyOpen => 22,
        Errno::Overflow => 30,
        Errno::NotPermitted => 31,
        Errno::ReadOnly => 33,
        Errno::CrossDevice => 36,
    }
}
