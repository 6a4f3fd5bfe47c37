//! Pythons of this machine, and what isn't one.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use belljar_packages::{HostPython, PackageError};

use crate::fixture::{Fixture, path};

fn found(fixture: &Fixture, named: &Path) -> Result<HostPython, PackageError> {
    HostPython::find(Some(named), &path(), &fixture.cache)
}

fn real(fixture: &Fixture) -> HostPython {
    HostPython::find(None, &path(), &fixture.cache).expect("a Python on this machine")
}

fn program(fixture: &Fixture, name: &str, text: &str) -> PathBuf {
    let program = fixture.write(name, text);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    program
}

#[test]
fn the_one_on_the_path() {
    let fixture = Fixture::new();
    let python = real(&fixture);
    assert!(python.program().is_file() && python.executable.is_relative(), "{python:?}");
    assert!(python.prefix.join(format!("lib/python{}", python.platform.python())).is_dir(), "{python:?}");
    assert!(python.platform.minor >= 10 && python.soabi.starts_with("cpython-3"), "{python:?}");
    // Neither a shim nor a virtual environment.
    assert_eq!(python.program().canonicalize().expect("there"), python.program());
    assert_eq!(found(&fixture, &python.program()).expect("by its path"), python);
    let start = Instant::now();
    assert_eq!(real(&fixture), python);
    assert!(start.elapsed() < Duration::from_millis(50), "asked again");
}

#[test]
fn shims_lead_to_what_they_start() {
    let fixture = Fixture::new();
    let python = real(&fixture);
    let other = program(&fixture, "other", "#!/bin/sh\necho nothing\n");
    let choice = fixture.write("root/version", python.program().to_str().expect("UTF-8"));
    let text = "#!/bin/sh\nexec \"$(cat \"${0%/*}/../version\")\" \"$@\"\n";
    let shim = program(&fixture, "root/shims/python3", text);
    assert_eq!(found(&fixture, &shim).expect("behind the shim"), python);
    // The shim is the same, and starts another.
    fs::write(choice, other.to_str().expect("UTF-8")).expect("written");
    assert!(found(&fixture, &shim).is_err());
}

#[test]
fn a_virtual_environment_is_what_it_was_made_from() {
    let fixture = Fixture::new();
    let python = real(&fixture);
    let directory = fixture.path("environment");
    let made = Command::new(python.program()).args(["-m", "venv", "--without-pip"]).arg(&directory).status();
    assert!(made.expect("started").success());
    assert_eq!(found(&fixture, &directory.join("bin/python")).expect("its base"), python);
}

#[test]
fn what_cannot_be_used_is_explained() {
    let fixture = Fixture::new();
    let python = real(&fixture);
    let answers = |name: &str, change: &str| {
        // It answers as the real one, but for one word.
        let text = format!("#!/bin/sh\n'{}' \"$@\" | sed '{change}'\n", python.program().display());
        program(&fixture, name, &text)
    };
    for (program, word) in [
        (answers("pypy", r#"s/"implementation": "cpython"/"implementation": "pypy"/"#), "pypy"),
        (answers("older", r#"s/"minor": [0-9]*/"minor": 9/"#), "3.10 or newer"),
        (answers("free", r#"s/"free_threaded": false/"free_threaded": true/"#), "free-threaded"),
        (answers("musl", r#"s/"library": "[^"]*"/"library": ""/"#), "glibc"),
        (program(&fixture, "odd", "#!/bin/sh\necho unknown option -I >&2; exit 2\n"), "unknown option -I"),
        (fixture.path("nothing"), "No such file"),
    ] {
        let error = found(&fixture, &program).expect_err(word);
        assert!(matches!(error, PackageError::Interpreter { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.hint().expect("a hint").contains("--python"));
    }
}

#[test]
fn older_ones_are_passed_over() {
    let fixture = Fixture::new();
    let python = real(&fixture);
    let text = format!(
        "#!/bin/sh\n'{}' \"$@\" | sed 's/\"minor\": [0-9]*/\"minor\": 9/'\n",
        python.program().display()
    );
    let older = program(&fixture, "bin/python3", &text);
    let only = [older.parent().expect("a parent").to_owned()];
    let error = HostPython::find(None, &only, &fixture.cache).expect_err("too old");
    assert!(matches!(&error, PackageError::NoInterpreter { passed } if passed.len() == 1), "{error:?}");
    std::os::unix::fs::symlink(python.program(), fixture.path("bin/python3.10")).expect("linked");
    let mut directories = only.to_vec();
    directories.extend(path());
    assert!(HostPython::find(None, &directories, &fixture.cache).is_ok());
    assert_eq!(HostPython::find(None, &only, &fixture.cache).expect("the newer one"), python);
}
