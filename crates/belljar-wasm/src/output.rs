//! Standard output and standard error of a running cell.

use belljar_engine::{CapturedStream, CellHost, Event};
use belljar_files::{FileSystem, OpenOptions};

use crate::host::{HostState, OutputStream};

/// The part of the file quota that one stream's overflow may fill.
const REST_SHARE: u64 = 4;

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Takes what the guest wrote: kept within the limit, streamed on, and what exceeds it put into a
/// file that the guest and the host can read afterwards. Nothing is kept between cells.
pub(crate) fn write(state: &mut HostState, which: Stream, data: &[u8]) {
    let Some(cell) = &mut state.cell else { return };
    let stream = match which {
        Stream::Stdout => &mut cell.stdout,
        Stream::Stderr => &mut cell.stderr,
    };
    let fits = stream.capture.push(data);
    if fits > 0 {
        cell.host.event(event(which, data[..fits].to_vec()));
    }
    if fits < data.len() {
        let name = if which == Stream::Stdout { "stdout" } else { "stderr" };
        spill(stream, &mut state.machine.files, cell.number, name, &data[fits..]);
    }
}

fn spill(stream: &mut OutputStream, files: &mut FileSystem, cell: u32, name: &str, data: &[u8]) {
    if stream.rest_full {
        return;
    }
    let path = format!("/tmp/cell-{cell}.{name}");
    let room = files.quota().bytes / REST_SHARE;
    let outcome = match &stream.rest {
        None => files.write_file(&path, &[stream.capture.head(), data].concat()),
        Some(_) if stream.capture.total() > room => Err(belljar_files::Errno::NoSpace),
        Some(path) => append(files, path, data),
    };
    stream.rest_full = outcome.is_err();
    if outcome.is_ok() {
        stream.rest = Some(path);
    }
}

fn append(files: &mut FileSystem, path: &str, data: &[u8]) -> belljar_files::Result<()> {
    let root = files.root()?;
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let opened = files.open_at(root, path.trim_start_matches('/'), options);
    let _ = files.close(root);
    let file = opened?;
    let outcome = files.append(file, data).map(|_| ());
    let _ = files.close(file);
    outcome
}

/// Ends a stream: its end is streamed on, and a file that turned out not to be needed is removed.
pub(crate) fn finish(
    stream: OutputStream,
    which: Stream,
    host: &dyn CellHost,
    files: &mut FileSystem,
) -> CapturedStream {
    let end = stream.capture.end();
    if !end.is_empty() {
        host.event(event(which, end));
    }
    let cut = stream.capture.is_cut();
    if let (false, Some(path)) = (cut, &stream.rest)
        && let Ok(root) = files.root()
    {
        let _ = files.unlink_at(root, path.trim_start_matches('/'));
        let _ = files.close(root);
    }
    stream.capture.finish(if cut { stream.rest } else { None })
}

fn event(which: Stream, bytes: Vec<u8>) -> Event {
    match which {
        Stream::Stdout => Event::Stdout(bytes),
        Stream::Stderr => Event::Stderr(bytes),
    }
}
