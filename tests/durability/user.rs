//! Users who aren't root: those who may use a state directory, and those who may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use belljar::{Error, Policy, State, Status, StoreError};
use belljar_tests::text;
use tempfile::TempDir;

use crate::places::{STATE, childs_state, files, keeping, sandbox};
use crate::tally;

const NOBODY: u32 = 65534;
const CACHE: &str = "BELLJAR_TEST_CACHE";

/// A place where somebody else finds this program and the interpreter.
struct Elsewhere {
    directory: TempDir,
}

impl Elsewhere {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let elsewhere = Self { directory };
        let program = std::env::current_exe().unwrap();
        let copy = elsewhere.path("program");
        fs::hard_link(&program, &copy).or_else(|_| fs::copy(&program, &copy).map(drop)).unwrap();
        // The interpreter is there by now, and only read.
        let runtime = belljar::Runtimes::default().ensure(&belljar::Quiet).unwrap().0;
        let key = runtime.root.file_name().unwrap().to_str().unwrap();
        belljar_tests::session();
        for kind in ["runtime", "code", "image"] {
            let to = elsewhere.path("cache").join(kind);
            fs::create_dir_all(&to).unwrap();
            for entry in fs::read_dir(belljar::default_cache_dir().unwrap().join(kind)).unwrap() {
                let entry = entry.unwrap();
                if !entry.file_name().to_str().unwrap().starts_with(key) {
                    continue;
                }
                let copy = |how: &str| {
                    let mut command = Command::new("cp");
                    command.arg(how).arg(entry.path()).arg(&to);
                    command.stderr(std::process::Stdio::null()).status().unwrap().success()
                };
                assert!(copy("-al") || copy("-a"));
            }
        }
        elsewhere
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A test of this program, run by nobody.
    fn run(&self, test: &str, state: &Path) {
        let mut command = Command::new(self.path("program"));
        command.args([test, "--exact", "--ignored", "--nocapture"]);
        command.env_clear().env(STATE, state).env(CACHE, self.path("cache")).env("TMPDIR", "/tmp");
        let status = command.current_dir("/").uid(NOBODY).gid(NOBODY).status();
        assert!(status.unwrap().success(), "run by root, these tests run a part as somebody else");
    }
}

fn cache() -> PathBuf {
    std::env::var_os(CACHE).unwrap().into()
}

/// Run by `everything_works_for_somebody_without_privileges` as somebody else.
#[test]
#[ignore = "a part of another test"]
fn works() {
    let Some(state) = childs_state() else { return };
    assert!(fs::write("/root/x", "").is_err());
    let policy = Policy { timeout: Some(Duration::from_millis(700)), ..Policy::default() };
    let build = || keeping(&state).cache_dir(cache()).policy(policy.clone()).build_blocking().unwrap();
    let sandbox = build();
    let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    if allowed.is_ok_and(|allowed| allowed.trim() == "0") && !Path::new("/dev/userfaultfd").exists() {
        assert!(!sandbox.tracks_writes());
    }
    let session = sandbox.create_blocking(Some("s")).unwrap();
    let deadline = |policy: &mut Policy| policy.timeout = Some(Duration::from_secs(60));
    session.hibernate_blocking().unwrap();
    let session = {
        drop(session);
        sandbox.open_with_blocking("s", deadline).unwrap()
    };
    tally::begin(&session, 1);
    session.checkpoint_blocking(Some("one")).unwrap();
    tally::mark(&session, 2);
    session.hibernate_blocking().unwrap();
    assert_eq!(tally::number(&session), 2);
    tally::mark(&session, 3);
    session.undo_blocking(1).unwrap();
    assert_eq!(tally::number(&session), 2);
    let child = session.fork_named_blocking(Some("one".into()), "child").unwrap();
    assert_eq!(tally::number(&child), 1);
    tally::mark(&child, 10);
    // Taken back, because it is stopped hard.
    let outcome = session.run_blocking("mark(4); import os; os._exit(1)").unwrap();
    assert_eq!(outcome.session.state, State::RolledBack, "{outcome:#?}");
    assert_eq!(tally::number(&session), 2);
    drop((session, child));

    let sandbox = build();
    let session = sandbox.open_blocking("s").unwrap();
    let endless = "memory[0] = 99\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass";
    let outcome = session.run_blocking(endless).unwrap();
    assert_eq!((outcome.status, outcome.session.state), (Status::Timeout, State::RolledBack));
    drop(session);
    let session = sandbox.open_with_blocking("s", deadline).unwrap();
    assert_eq!(tally::number(&session), 2);
    session.rollback_blocking("one").unwrap();
    assert_eq!(tally::number(&session), 1);
    let child = sandbox.open_with_blocking("child", deadline).unwrap();
    assert_eq!(tally::number(&child), 10);
    assert_eq!(text(&child, "open('more', 'w').write('x' * 100_000)"), "100000");
    child.hibernate_blocking().unwrap();
    session.close_blocking().unwrap();
    assert_eq!(tally::number(&child), 10);
    let registry = sandbox.registry().unwrap();
    registry.cool(Duration::ZERO).unwrap();
    registry.collect().unwrap();
    drop(child);
    assert_eq!(tally::number(&sandbox.open_with_blocking("child", deadline).unwrap()), 10);
    assert!(registry.verify().unwrap().is_empty());
}

#[test]
fn everything_works_for_somebody_without_privileges() {
    let elsewhere = Elsewhere::new();
    let state = elsewhere.path("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    elsewhere.run("user::works", &state);
    // What is kept is for its owner only.
    for path in files(&state.join("tenants")) {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

/// Run by `what_belongs_to_somebody_else_is_refused` as somebody else.
#[test]
#[ignore = "a part of another test"]
fn is_refused() {
    let Some(state) = childs_state() else { return };
    let attempt = || {
        let sandbox = keeping(&state).cache_dir(cache()).build_blocking()?;
        let list = sandbox.registry()?.sessions();
        let open = sandbox.open_blocking("s").and_then(|session| session.run_blocking("1"));
        let create = sandbox.create_blocking(Some("mine"));
        Ok::<_, Error>([list.map(drop), open.map(drop), create.map(drop)])
    };
    let errors: Vec<Error> = match attempt() {
        Ok(results) => results
            .into_iter()
            .filter_map(Result::err)
            .filter(|error| !matches!(error, Error::Store(StoreError::NotFound { .. })))
            .collect(),
        Err(error) => vec![error],
    };
    assert!(!errors.is_empty());
    for error in errors {
        let denied = |source: &std::io::Error| source.kind() == std::io::ErrorKind::PermissionDenied;
        assert!(matches!(&error, Error::Store(StoreError::Io { source, .. }) if denied(source)), "{error}");
        assert!(error.to_string().contains(state.to_str().unwrap()), "{error}");
        assert!(error.hint().unwrap().contains("belong"), "{error}");
    }
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let elsewhere = Elsewhere::new();
    let state = elsewhere.path("state");
    let made = sandbox(&state);
    tally::begin(&made.create_blocking(Some("s")).unwrap(), 1);
    elsewhere.run("user::is_refused", &state);
    // Nor where the directory can be read, but not written to.
    for directory in ["", "tenants", "tenants/local", "tenants/local/sessions", "tenants/local/sessions/s"] {
        fs::set_permissions(state.join(directory), fs::Permissions::from_mode(0o755)).unwrap();
        elsewhere.run("user::is_refused", &state);
    }
    assert_eq!(tally::number(&made.open_blocking("s").unwrap()), 1);
    // A directory that can't be made.
    elsewhere.run("user::is_refused", &elsewhere.path("cannot/be/made"));
}
