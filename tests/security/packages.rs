//! Packages that all sessions share, and code that would rather own them.

use std::fs;
use std::time::Duration;

use belljar::{Sandbox, Status};
use belljar_tests::{builder, text, within};
use tempfile::TempDir;

fn sandbox() -> Sandbox {
    let site = TempDir::new().unwrap();
    fs::create_dir(site.path().join("shared")).unwrap();
    fs::write(site.path().join("shared/__init__.py"), "value = 1\n").unwrap();
    builder().site_packages(site.path()).build_blocking().unwrap()
}

#[test]
fn no_session_can_change_the_packages() {
    let sandbox = sandbox();
    let (attacker, other) = (sandbox.session_blocking().unwrap(), sandbox.session_blocking().unwrap());
    attacker.run_blocking("import os, shared\nsite = '/data/site-packages'").unwrap();
    let listing = "sorted((d, tuple(sorted(f))) for d, _, f in os.walk('/data/site-packages'))";
    let before = text(&attacker, listing);
    for root in ["/data/site-packages", "/app/site-packages", "/data/../data/./site-packages"] {
        for attack in [
            "open(site + '/shared/__init__.py', 'w')",
            "open(site + '/shared/__init__.py', 'r+')",
            "open(site + '/shared/__init__.py', 'a')",
            "os.truncate(site + '/shared/__init__.py', 0)",
            "os.unlink(site + '/shared/__init__.py')",
            "os.rename(site + '/shared', site + '/moved')",
            "os.rename('/tmp', site + '/shared/tmp')",
            "os.mkdir(site + '/evil')",
            "os.rmdir(site + '/shared')",
            "os.symlink('/tmp', site + '/link')",
            "os.link(site + '/shared/__init__.py', site + '/hard')",
            "os.utime(site + '/shared/__init__.py', (1, 1))",
            "open(site + '/evil.pth', 'w').write('import os')",
            "open(site + '/shared/__pycache__/__init__.cpython-314.pyc', 'wb').write(b'')",
            "open(site + '/shared/__pycache__/evil.cpython-314.pyc', 'wb').write(b'')",
            "__import__('shutil').rmtree(site)",
            "__import__('shutil').copytree('/tmp', site + '/copy')",
            "__import__('py_compile').compile(site + '/shared/__init__.py', doraise=True)",
            "os.chmod(site + '/shared/__init__.py', 0o777); open(site + '/shared/__init__.py', 'w')",
        ] {
            attacker.run_blocking(format!("site = {root:?}")).unwrap();
            let outcome = attacker.run_blocking(attack).unwrap();
            assert_ne!(outcome.status, Status::Ok, "{attack} in {root}");
        }
    }
    assert_eq!(text(&attacker, listing), before);
    assert_eq!(text(&other, "import shared\nshared.value"), "1");
    assert_eq!(text(&sandbox.session_blocking().unwrap(), "import shared\nshared.value"), "1");
}

#[test]
fn what_a_session_does_to_its_modules_stays_its_own() {
    let sandbox = builder().setup("import json").build_blocking().unwrap();
    let attacker = sandbox.session_blocking().unwrap();
    attacker
        .run_blocking(
            "json.loads = lambda text: 'owned'\nimport sys\nsys.path[:] = ['/tmp']\nsys.modules.clear()",
        )
        .unwrap();
    assert_eq!(text(&sandbox.session_blocking().unwrap(), "json.loads('[1]')"), "[1]");
}

/// Set-up code is a package's, and as hostile as any.
#[test]
fn hostile_set_up_code_harms_nobody() {
    for (code, why) in [
        ("while True: pass", "it never ends"),
        (
            "while True:\n try:\n  while True: pass\n except BaseException: pass",
            "it swallows what should stop it",
        ),
        (
            "import belljar_guest.kernel as k\ndef boot(self, spec):\n while True: pass\nk.Kernel._boot = boot",
            "no session boots after it",
        ),
        (
            "import belljar_guest.immortal as i\ni.write = lambda path: open(path, 'wb').write(b'\\xff' * 400)",
            "it lies about its objects",
        ),
        ("import belljar_guest.immortal as i\ni.write = lambda path: None", "it lists nothing"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "it takes all memory"),
        ("import os\nos._exit(0)", "it ends the interpreter"),
        ("def f(): f()\nimport sys\nsys.setrecursionlimit(10**9)\nf()", "it recurses"),
        ("open('/tmp/big', 'wb').write(b'x' * (1 << 30))", "it fills the files"),
    ] {
        let made = within(Duration::from_secs(120), move || {
            let mut environment = belljar::Environment { setup: code.to_owned(), ..Default::default() };
            environment.setup_timeout = Some(Duration::from_secs(2));
            builder().environment(environment).build_blocking().map(|_| ())
        });
        assert!(made.is_err(), "{why}");
    }
    // The host is well, and so is what others have.
    assert_eq!(text(&belljar_tests::session(), "1 + 1"), "2");
}

/// What goes wrong later in an image that was preloaded stays within a session's limits.
#[test]
fn an_image_that_bites_later_bites_only_itself() {
    let code = "import belljar_guest.kernel as k, builtins\nboot = k.Kernel._boot\ncount = [0]\n\
                def later(self, spec):\n count[0] += 1\n if spec.get('env'):\n  while True: pass\n return boot(self, spec)\n\
                k.Kernel._boot = later";
    let sandbox = builder().setup(code).env("A", "b").build_blocking().unwrap();
    let booted = within(Duration::from_secs(60), move || sandbox.session_blocking().map(|_| ()));
    assert!(booted.is_err(), "it must not hang, and can't boot");
}
