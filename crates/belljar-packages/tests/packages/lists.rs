//! Lists of requirements and projects: what is checked of them, and what may not be in them.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use belljar_packages::{PackageError, Spec};
use belljar_runtime::Quiet;

use crate::fixture::{Fixture, sha256};

#[test]
fn hashes_in_lists_are_checked() {
    let fixture = Fixture::new().with_local_index();
    let wheel = fixture.wheel("base", "1", &[("base.py", b"1")]);
    fixture.wheel_requiring("top", "1", &["base"], &[("top.py", b"")]);
    let hash = sha256(&fs::read(wheel).expect("read"));
    let specs = [Spec::Requirements(fixture.path("list.txt"))];
    let lock = |list: &str, more: &str| {
        fixture.write("list.txt", list);
        fixture.write("more.txt", more);
        fixture.resolver.lock(&specs, &Quiet)
    };
    let zeros = "0".repeat(64);
    let good = format!("Base==1 --hash=sha256:{zeros} \\\n    --hash=sha256:{hash}\n");
    lock("top\n-r more.txt\n", &good).expect("one of the hashes");
    let bad = format!("Base==1 \\\n --hash=sha256:{zeros}\n");
    for (list, more, named) in [
        ("-r more.txt\n", bad.as_str(), "more.txt"),
        (bad.as_str(), "", "list.txt"),
        ("top\n-c more.txt\n", &bad, "more.txt"),
    ] {
        // The second time nothing wrong was kept.
        for _ in 0..2 {
            let error = lock(list, more).expect_err("another hash");
            let PackageError::UnlistedHash { package, list, found } = &error else { panic!("{error:?}") };
            assert_eq!((package.as_str(), found, list), ("base 1", &hash, &fixture.path(named)));
            assert!(error.to_string().contains(&hash) && error.hint().is_some());
        }
    }
    // Only those that are given count.
    lock(&format!("top\nother ; python_version < '3' --hash=sha256:{zeros}\n"), "").expect("for others");
}

#[test]
fn hashes_of_packages_without_their_native_parts() {
    let fixture = Fixture::new().with_local_index();
    let pure = fixture.wheel("markupsafe", "3", &[("markupsafe/__init__.py", b"")]);
    let wheel = pure.with_file_name("markupsafe-3-cp314-cp314-manylinux_2_17_x86_64.whl");
    fs::rename(pure, &wheel).expect("renamed");
    let hash = sha256(&fs::read(wheel).expect("read"));
    let specs = [Spec::Requirements(fixture.path("list.txt"))];
    fixture.write("list.txt", format!("markupsafe --hash=sha256:{hash}\n"));
    assert!(
        fixture.resolver.lock(&specs, &Quiet).expect("locked").packages().all(|found| found.without_native)
    );
    fixture.write("list.txt", format!("markupsafe --hash=sha256:{}\n", "0".repeat(64)));
    let error = fixture.resolver.lock(&specs, &Quiet).expect_err("another hash");
    assert!(matches!(error, PackageError::UnlistedHash { .. }), "{error:?}");
}

#[test]
fn paths_in_lists_are_refused_before_uv_is_looked_for() {
    let fixture = Fixture::new();
    fixture.write("evil/setup.py", "raise SystemExit('was run')");
    for line in ["./evil", "-e evil", "evil @ ./evil", "--no-binary evil"] {
        let list = fixture.write("requirements.txt", format!("# all\nsix\n{line}\n"));
        let error = fixture.resolver.lock(&[Spec::Requirements(list)], &Quiet).expect_err(line);
        assert!(matches!(error, PackageError::List { .. }), "{error:?}");
        assert!(error.to_string().contains("requirements.txt:3: "), "{error}");
    }
}

#[test]
fn a_project_without_its_table() {
    let fixture = Fixture::new();
    let project =
        fixture.write("pyproject.toml", "[tool.poetry]\nname = 'p'\n[tool.poetry.dependencies]\nsix = '*'\n");
    let error = fixture.resolver.lock(&[Spec::Project(project)], &Quiet).expect_err("no table");
    let message = error.to_string();
    assert!(
        message.ends_with("pyproject.toml: it has no [project] table, so it names no dependencies"),
        "{message}"
    );
}

#[test]
fn what_uv_cannot_read_is_the_fault_of_the_input() {
    let fixture = Fixture::new().with_local_index();
    for line in ["!!bad line", "six === => 3", "six @ http://127.0.0.1:1/six-bad.whl"] {
        let list = fixture.write("list.txt", format!("{line}\n"));
        let error = fixture.resolver.lock(&[Spec::Requirements(list)], &Quiet).expect_err(line);
        // Not `Uv`, which is Belljar's own failure.
        let input = matches!(error, PackageError::Input { .. } | PackageError::List { .. });
        assert!(input, "{line}: {error:?}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn what_killed_processes_left_is_swept() {
    let fixture = Fixture::new();
    fixture.write("cache/.scratch.old/file", "");
    fixture.write("cache/.scratch.new/file", "");
    fixture.write("modules/loose.py", "");
    let old = fs::File::open(fixture.path("cache/.scratch.old")).expect("opened");
    old.set_modified(SystemTime::now() - Duration::from_secs(2 * 60 * 60)).expect("set");
    fixture.resolver.lock(&[Spec::Directory(fixture.path("modules"))], &Quiet).expect("locked");
    assert!(!fixture.path("cache/.scratch.old").exists());
    assert!(fixture.path("cache/.scratch.new").exists());
}
