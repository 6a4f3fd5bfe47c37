//! What would reach uv, pip or the host's files through lists, locks and names. Each was once a way to run code there.

use std::fs;

use belljar_packages::{Lock, PackageError, Spec};
use belljar_runtime::Quiet;

use crate::fixture::Fixture;

/// A project whose build leaves a mark.
fn trap(fixture: &Fixture) -> std::path::PathBuf {
    let mark = fixture.path("mark");
    fixture.write(
        "evil/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n[project]\nname = 'evil'\nversion = '1'\n",
    );
    let hook = format!("open({:?}, 'w')\n", mark.to_str().expect("UTF-8"));
    fixture.write("evil/backend.py", hook);
    mark
}

fn refused(fixture: &Fixture, spec: Spec, what: &str) -> PackageError {
    fixture.resolver.lock(&[spec], &Quiet).expect_err(what)
}

#[test]
fn lists_have_nothing_built() {
    let fixture = Fixture::new().with_local_index();
    let mark = trap(&fixture);
    let evil = fixture.path("evil");
    let evil = evil.to_str().expect("UTF-8");
    for text in [
        format!("--no-binary evil\nevil @ file://{evil}\n"),
        format!("--no-binary=evil\revil @ file://{evil}\n"),
        format!("-e {evil}\n"),
        format!("evil @ file://{evil} --config-settings x=y\n"),
        "evil @ file://${PWD}/evil\n".to_owned(),
        "--no-build-isolation\nsix\n".to_owned(),
        "--index-url http://127.0.0.1:1/\nsix\n".to_owned(),
        "-r http://127.0.0.1:1/list.txt\n".to_owned(),
        "six --no-binary six\n".to_owned(),
    ] {
        let list = fixture.write("list.txt", &text);
        refused(&fixture, Spec::Requirements(list), &text);
        assert!(!mark.exists(), "{text}");
    }
}

#[test]
fn a_wheel_is_what_it_says() {
    let fixture = Fixture::new().with_local_index();
    let mark = trap(&fixture);
    let evil = fixture.path("evil");
    for name in ["#\r-e EVIL\r#", "other", "a b", "\u{1b}]0;x\u{7}", ""] {
        let name = name.replace("EVIL", evil.to_str().expect("UTF-8"));
        let wheel = fixture.wheel_called("mine-1-py3-none-any.whl", &name, &[]);
        refused(&fixture, Spec::Wheel(wheel), &name);
        assert!(!mark.exists(), "{name:?}");
    }
}

#[test]
fn what_a_wheel_requires_is_a_requirement() {
    let fixture = Fixture::new().with_local_index();
    let mark = trap(&fixture);
    let evil = fixture.path("evil");
    let nested = format!("six; {}os_name == 'posix'{}", "(".repeat(100_000), ")".repeat(100_000));
    for requirement in [
        format!("evil @ file://{}", evil.display()),
        "b @ http://127.0.0.1:1/${HOME}/b-1-py3-none-any.whl".to_owned(),
        "six\r--no-binary six".to_owned(),
        nested,
    ] {
        let wheel = fixture.wheel_requiring("mine", "1", &[&requirement], &[("mine.py", b"")]);
        let shown: String = requirement.chars().take(40).collect();
        refused(&fixture, Spec::Wheel(wheel), &shown);
        assert!(!mark.exists(), "{shown}");
    }
}

#[test]
fn addresses_in_locks_are_addresses() {
    let hash = "0".repeat(64);
    for url in [
        "-rhttp://127.0.0.1:1/a-1-cp314-cp314-wasi_0_0_wasm32.whl",
        "--index-url=http://127.0.0.1:1/a-1-py3-none-any.whl",
        "ftp://127.0.0.1/a-1-py3-none-any.whl",
        "http://127.0.0.1:1/${HOME}/a-1-py3-none-any.whl",
        "http://127.0.0.1:1/a-1-py3-none-any.whl\\n-e /evil",
    ] {
        let text = format!(
            "lock-version = \"1.0\"\ncreated-by = \"x\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nwheels = [{{ url = \"{url}\", hashes = {{ sha256 = \"{hash}\" }} }}]\n"
        );
        let error = Lock::parse(&text).expect_err(url);
        assert!(
            matches!(
                error,
                PackageError::Lock { .. } | PackageError::Form { .. } | PackageError::Native { .. }
            ),
            "{url}: {error:?}"
        );
    }
}

#[test]
fn markers_that_nest_for_ever() {
    let deep = format!("{}os_name == 'posix'{}", "(".repeat(200_000), ")".repeat(200_000));
    let text = format!(
        "lock-version = \"1.0\"\ncreated-by = \"x\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nmarker = \"{deep}\"\n"
    );
    Lock::parse(&text).expect_err("too deep");
    Spec::parse(&format!("six; {deep}"), std::path::Path::new("")).expect_err("too deep");
}

#[test]
fn links_in_projects_lead_nowhere() {
    let fixture = Fixture::new();
    fixture.write("secret/inner/key.py", "SECRET = 1\n");
    fixture.write("project/pyproject.toml", "[project]\nname = 'p'\nversion = '1'\n");
    std::os::unix::fs::symlink(fixture.path("secret"), fixture.path("project/src")).expect("linked");
    let spec = Spec::Directory(fixture.path("project"));
    if let Ok(lock) = fixture.resolver.lock(&[spec], &Quiet) {
        let site = fixture.resolver.install(&lock, &belljar_packages::NoBytecode, &Quiet);
        let leaked = site.is_ok_and(|site| fs::exists(site.directory.join("inner/key.py")).unwrap_or(true));
        assert!(!leaked);
    }
}
