//! Locks for a Python of this machine, and those for others.

use std::path::Path;

use belljar_packages::{Lock, PackageError, Platform, Spec, Target};
use belljar_runtime::Quiet;

use crate::{fixture::Fixture, native};

fn target(minor: u32, glibc: u32) -> Target {
    let version = format!("3.{minor}.4");
    Target::Native(Platform { minor, version, machine: "x86_64".into(), glibc: (2, glibc) })
}

fn text(by: &str, wheels: &[(&str, &str)]) -> String {
    let wheels: String = wheels
        .iter()
        .map(|(tags, digit)| {
            let hash = digit.repeat(64);
            format!("{{ url = 'https://h.example/a-1.0-{tags}.whl', hashes = {{ sha256 = '{hash}' }} }},")
        })
        .collect();
    format!(
        "lock-version = '1.0'\ncreated-by = '{by}'\n[[packages]]\nname = 'a'\nversion = '1.0'\nwheels = [{wheels}]\n"
    )
}

fn chosen(text: &str, target: &Target) -> Result<String, PackageError> {
    let lock = Lock::parse_for(text, Path::new(""), target)?;
    let package = lock.packages().next().expect("a package");
    Ok(package.sha256[..1].to_owned())
}

#[test]
fn the_best_wheel_is_taken() {
    let all = text(
        "uv",
        &[
            ("py3-none-any", "1"),
            ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "2"),
            ("cp311-cp311-manylinux_2_28_x86_64", "3"),
            ("cp311-cp311-musllinux_1_2_x86_64", "4"),
            ("cp310-abi3-manylinux_2_17_x86_64", "5"),
            ("cp312-cp312-linux_x86_64", "6"),
        ],
    );
    for (target, digit) in [
        (target(11, 36), "3"),
        (target(11, 27), "2"),
        (target(11, 16), "1"),
        (target(12, 36), "6"),
        (target(13, 36), "5"),
        (target(10, 12), "1"),
    ] {
        assert_eq!(chosen(&all, &target).expect("a wheel"), digit, "{target:?}");
    }
}

#[test]
fn wheels_that_this_machine_cannot_load() {
    let newer =
        text("uv", &[("cp311-cp311-manylinux_2_34_x86_64", "1"), ("cp311-cp311-musllinux_1_2_x86_64", "2")]);
    let error = chosen(&newer, &target(11, 31)).expect_err("newer glibc");
    assert!(matches!(error, PackageError::NoWheel { .. }), "{error:?}");
    let message = error.to_string();
    for word in ["a 1.0", "Python 3.11", "glibc 2.31", "manylinux_2_34_x86_64", "musllinux"] {
        assert!(message.contains(word), "{message}");
    }
    assert!(error.hint().expect("a hint").contains("--python"));
    let error = chosen(&newer, &target(12, 36)).expect_err("another Python");
    assert!(matches!(error, PackageError::OtherPython { .. }), "{error:?}");
    let range = newer.replace("[[packages]]", "requires-python = '<3.11'\n[[packages]]");
    assert!(matches!(chosen(&range, &target(11, 36)), Err(PackageError::Lock { .. })));
}

#[test]
fn locks_say_what_they_are_for() {
    let fixture = Fixture::new();
    let python = native::python(&fixture);
    let pickle = fixture.wheel("cloudpickle", "3.1", &[("cloudpickle/__init__.py", b"")]);
    let resolver = fixture.resolver.clone().target(python.target());
    let lock = resolver.lock(&[Spec::Wheel(pickle.clone())], &Quiet).expect("locked");
    for word in ["engine = \"native\"", "requires-python = \"==3.", "environments = [", "[tool.belljar]"] {
        assert!(lock.text().contains(word), "{}", lock.text());
    }
    // Who reads it knows, and it is the same wherever it is written.
    let read = Lock::parse(lock.text()).expect("a lock");
    assert!(matches!(read.target(), Target::Native(platform) if platform.minor == python.platform.minor));
    assert_eq!(resolver.complete(&read, &Quiet).expect("for this one").id(), lock.id());
    let elsewhere = lock.text_in(fixture.directory.path());
    let moved = Lock::parse_in(&elsewhere, fixture.directory.path()).expect("a lock");
    assert_eq!(moved.for_target(&python.target()).expect("for this one").id(), lock.id());

    let error = fixture.resolver.install(&lock, &python, &Quiet).expect_err("for the other engine");
    assert!(matches!(error, PackageError::OtherTarget { same_engine: false, .. }), "{error:?}");
    assert!(error.to_string().contains("the lock is for the native engine with Python 3."), "{error}");
    assert!(error.hint().expect("a hint").contains("--engine"));
    assert!(fixture.resolver.find(&lock, &python).is_none());

    let Target::Native(platform) = python.target() else { unreachable!("it is native") };
    let minor = platform.minor + 1;
    let next = Target::Native(Platform { minor, version: format!("3.{minor}.0"), ..platform });
    let error = lock.for_target(&next).expect_err("for another Python");
    assert!(matches!(error, PackageError::OtherTarget { same_engine: true, .. }), "{error:?}");
    assert!(error.hint().expect("a hint").contains("--python"));

    let wasm = fixture.resolver.lock(&[Spec::Wheel(pickle)], &Quiet).expect("locked");
    assert!(!wasm.text().contains("tool.belljar"));
    let error = resolver.install(&wasm, &python, &Quiet).expect_err("for the other engine");
    assert!(error.to_string().starts_with("the lock is for the wasm engine"), "{error}");
}

#[test]
fn locks_of_others_are_completed() {
    let fixture = Fixture::new().with_local_index();
    let python = native::python(&fixture);
    fixture.wheel("cloudpickle", "3.1", &[("cloudpickle/__init__.py", b"")]);
    let resolver = fixture.resolver.clone().target(python.target());
    let tags = format!("cp3{}-abi3-manylinux_2_17_{}", python.platform.minor, python.platform.machine);
    let foreign =
        Lock::parse_for(&text("uv", &[(&tags, "1")]), Path::new(""), &python.target()).expect("a lock");
    let complete = resolver.complete(&foreign, &Quiet).expect("completed");
    let names: Vec<&str> = complete.packages().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["a", "cloudpickle"]);
    let again = Lock::parse(complete.text()).expect("known as native");
    assert_eq!(resolver.complete(&again, &Quiet).expect("as it is").id(), complete.id());
    for (engine, python, machine) in
        [("other", "3.11", "x86_64"), ("native", "3.4294967295", "x86_64"), ("native", "3.11", "\\u001b[0m")]
    {
        let odd = format!(
            "lock-version = '1.0'\n[tool.belljar]\nengine = '{engine}'\npython = '{python}'\n\
             machine = \"{machine}\"\nglibc = '2.36'\n"
        );
        assert!(matches!(Lock::parse(&odd), Err(PackageError::Lock { .. })), "{odd}");
    }
}
