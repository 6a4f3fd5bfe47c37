//! Compiles packages to bytecode, behind the glass: no byte of a package is looked at by a Python of the host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use belljar_packages::Compiler;
use belljar_runtime::Progress;

use crate::{Error, Rollback, Runtimes, Sandbox, Session, Status};

/// Raised when other bytecode comes out.
const VERSION: &str = "cpython-314-1";
const SITE: &str = "/data/site-packages";
const RESULT: &str = "/tmp/bytecode";
/// Of one file's source, and of all sources that one cell compiles.
const LARGEST: u64 = 4 << 20;
const BATCH: u64 = 512 << 10;
/// For one batch; it takes a second.
const TIME: Duration = Duration::from_secs(60);

/// Compiles what is named in `PATHS`, and writes lengths and bytecode in that order. What can't be compiled has
/// no bytecode; importing it will say why.
const PROGRAM: &str = r#"
def _compile(paths):
    from importlib._bootstrap_external import _code_to_hash_pyc
    from importlib.util import source_hash
    from warnings import simplefilter
    simplefilter("ignore")
    with open("/tmp/bytecode", "wb") as file:
        for path in paths:
            path = "/data/site-packages/" + path
            try:
                with open(path, "rb") as source:
                    source = source.read()
                code = _code_to_hash_pyc(compile(source, path, "exec", dont_inherit=True), source_hash(source), False)
            except Exception:
                code = b""
            file.write(len(code).to_bytes(4, "little"))
            file.write(code)
"#;

/// An interpreter in a sandbox.
pub(crate) struct Bytecode<'a> {
    pub(crate) runtimes: &'a Runtimes,
}

impl Compiler for Bytecode<'_> {
    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn compile(&self, directory: &Path, progress: &dyn Progress) -> Result<(), String> {
        let mut batches = batches(directory).map_err(|error| error.to_string())?;
        if batches.is_empty() {
            return Ok(());
        }
        let sandbox = self.sandbox(directory).map_err(|error| error.to_string())?;
        let (total, done) = (batches.len(), AtomicUsize::new(0));
        let workers = thread::available_parallelism().map_or(1, usize::from).min(4).min(total);
        batches.reverse();
        let queue = Mutex::new(batches);
        let work = || {
            let mut session = None;
            loop {
                let batch = queue.lock().ok()?.pop()?;
                // One that was stopped hard is lost with its functions.
                if compile(&sandbox, &mut session, directory, &batch).is_err() {
                    session = None;
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            let helpers: Vec<_> = (0..workers).map(|_| scope.spawn(|| -> Option<()> { work() })).collect();
            while helpers.iter().any(|helper| !helper.is_finished()) {
                progress.advance(done.load(Ordering::Relaxed) as f32 / total as f32);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Ok(())
    }
}

impl Bytecode<'_> {
    fn sandbox(&self, directory: &Path) -> Result<Sandbox, Error> {
        let builder = Sandbox::builder()
            .runtimes(self.runtimes.clone())
            .mount(directory, SITE)
            .timeout(TIME)
            .memory(1 << 30);
        builder.change(|policy| policy.rollback = Rollback::Never).build_blocking()
    }
}

/// Compiles some files and writes their bytecode beside them.
fn compile(
    sandbox: &Sandbox,
    session: &mut Option<Session>,
    directory: &Path,
    batch: &[PathBuf],
) -> Result<(), Error> {
    let session = match session {
        Some(session) => session,
        None => {
            let fresh = sandbox.session_blocking()?;
            fresh.run_blocking(PROGRAM)?;
            session.insert(fresh)
        }
    };
    let paths: Vec<_> = batch.iter().map(|path| path.to_string_lossy()).collect();
    let paths = serde_json::to_string(&paths).unwrap_or_default();
    // JSON strings are Python strings too.
    if session.run_blocking(format!("_compile({paths})"))?.status != Status::Ok {
        return Err(Error::Abandoned);
    }
    let result = session.read_file_blocking(RESULT)?;
    let mut rest = result.as_slice();
    for path in batch {
        let Some((length, after)) = rest.split_first_chunk::<4>() else { break };
        let Some((code, after)) = after.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
        rest = after;
        if !code.is_empty() {
            write(&directory.join(path), code).map_err(Error::Temporary)?;
        }
    }
    Ok(())
}

fn write(source: &Path, code: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(stem)) = (source.parent(), source.file_stem()) else { return Ok(()) };
    let cache = parent.join("__pycache__");
    fs::create_dir_all(&cache)?;
    fs::write(cache.join(format!("{}.cpython-314.pyc", stem.to_string_lossy())), code)
}

/// The modules below a directory but for tests, which nobody imports, in batches.
fn batches(directory: &Path) -> io::Result<Vec<Vec<PathBuf>>> {
    let mut sources = Vec::new();
    collect(directory, Path::new(""), &mut sources)?;
    sources.sort();
    let mut batches: Vec<Vec<PathBuf>> = Vec::new();
    let mut size = u64::MAX;
    for (path, length) in sources {
        if size.saturating_add(length) > BATCH {
            batches.push(Vec::new());
            size = 0;
        }
        size += length;
        if let Some(batch) = batches.last_mut() {
            batch.push(path);
        }
    }
    Ok(batches)
}

fn collect(directory: &Path, inside: &Path, sources: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        if entry.file_type()?.is_dir() {
            if !["tests", "test", "__pycache__"].contains(&text) {
                collect(&entry.path(), &inside.join(text), sources)?;
            }
        } else if text.ends_with(".py") {
            let length = entry.metadata()?.len();
            if length <= LARGEST {
                sources.push((inside.join(text), length));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_batched_without_tests() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["a/b/x.py", "a/tests/t.py", "a/__pycache__/x.pyc", "a/data.txt", "z.py"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, vec![b'#'; 300 << 10]).expect("written");
        }
        let batches = batches(directory.path()).expect("listed");
        assert_eq!(batches, [vec![PathBuf::from("a/b/x.py")], vec![PathBuf::from("z.py")]]);
    }
}
