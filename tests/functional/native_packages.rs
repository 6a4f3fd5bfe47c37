//! Native modules for WASI, compiled here from C and linked into an interpreter of their own.

use std::fs;

use belljar::{Error, Status};
use belljar_tests::native::compile_extension;
use belljar_tests::{builder, text};
use tempfile::TempDir;

const FASTSUM: &str = include_str!("../programs/native/fastsum.c");
const LEGACY: &str = include_str!("../programs/native/legacy.c");
const SUFFIX: &str = "cpython-314-wasm32-wasi.so";

/// One environment with both, since linking takes half a minute: modules of both kinds, state that is kept and
/// forked, endless loops in C.
#[test]
fn native_modules_are_linked_and_run() {
    let site = TempDir::new().unwrap();
    fs::create_dir(site.path().join("fast")).unwrap();
    fs::write(site.path().join("fast/__init__.py"), "from .fastsum import add\n").unwrap();
    fs::write(site.path().join(format!("fast/fastsum.{SUFFIX}")), compile_extension(FASTSUM, "fastsum"))
        .unwrap();
    let state = TempDir::new().unwrap();
    let sandbox = builder()
        .site_packages(site.path())
        .native_extension("legacy", compile_extension(LEGACY, "legacy"))
        .timeout(std::time::Duration::from_secs(2))
        .state_dir(state.path())
        .build_blocking()
        .unwrap();
    let session = sandbox.create_blocking(Some("native")).unwrap();
    assert_eq!(text(&session, "import fast\nfast.add(40, 2)"), "42.0");
    assert_eq!(
        text(&session, "import legacy\nlegacy.__file__"),
        format!("'/data/site-packages/legacy.{SUFFIX}'")
    );
    assert_eq!(
        text(
            &session,
            "from fast import fastsum\nfastsum.__file__, fastsum.__spec__.origin == fastsum.__file__"
        ),
        format!("('/data/site-packages/fast/fastsum.{SUFFIX}', True)")
    );
    let raised = session.run_blocking("fastsum.total(['a'])").unwrap();
    assert_eq!(raised.status, Status::Error);

    // An endless loop in C is stopped, and the session goes on.
    session.run_blocking("fastsum.keep(4)").unwrap();
    let outcome = session.run_blocking("fastsum.spin()").unwrap();
    assert_eq!(outcome.status, Status::Timeout);
    assert_eq!(text(&session, "fastsum.kept_total()"), "6.0");

    // What C keeps on its own heap is the session's too.
    let child = session.fork_blocking(1).unwrap().remove(0);
    session.run_blocking("fastsum.keep(5)").unwrap();
    assert_eq!(
        (text(&session, "fastsum.kept_total()"), text(&child, "fastsum.kept_total()")),
        ("10.0".into(), "6.0".into())
    );
    session.hibernate_blocking().unwrap();
    assert_eq!(text(&session, "fastsum.kept_total(), fast.add(1, 1)"), "(10.0, 2.0)");
}

#[test]
fn code_for_another_platform_is_refused_with_the_ways_out() {
    let site = TempDir::new().unwrap();
    fs::create_dir(site.path().join("fast")).unwrap();
    fs::write(site.path().join("fast/core.cpython-314-x86_64-linux-gnu.so"), b"\x7fELF\x02\x01\x01").unwrap();
    let Err(error) = builder().package(site.path().to_str().unwrap()).unwrap().build_blocking() else {
        panic!("it was taken");
    };
    assert!(matches!(error, Error::Package(_)), "{error}");
    let (message, hint) = (error.to_string(), error.hint().unwrap());
    assert!(message.contains("core.cpython-314-x86_64-linux-gnu.so"), "{message}");
    for way in ["pure", "WASI", "--engine native"] {
        assert!(hint.contains(way), "{way}: {hint}");
    }
}

#[test]
fn a_module_that_is_no_webassembly_is_refused() {
    let Err(error) = builder().native_extension("x", &b"\0asm\x01\0\0\0 and nonsense"[..]).build_blocking()
    else {
        panic!("it was taken");
    };
    assert!(error.to_string().contains("x."), "{error}");
}
