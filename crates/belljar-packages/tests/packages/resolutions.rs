//! Specs that are resolved without the package index: from this machine, or from a directory that stands for it.

use std::{fs, path::Path};

use belljar_packages::{Lock, NoBytecode, PackageError, Resolver, Site, Spec};
use belljar_runtime::Quiet;

use crate::fixture::{Fixture, path, uv};

fn names(site: &Site) -> Vec<String> {
    site.packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect()
}

fn tar(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_bytes()).expect("added");
    }
    builder.into_inner().expect("finished")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).expect("written");
    encoder.finish().expect("finished")
}

#[test]
fn directories() {
    let fixture = Fixture::new();
    fixture.write("project/pyproject.toml", "[project]\nname = 'My-Project'\nversion = '2.1'\n");
    fixture.write("project/my_project/__init__.py", "");
    fixture.write("project/setup.py", "raise SystemExit('was run')");
    fixture.write("project/tests/test_it.py", "");
    fixture.write("project/.git/config", "");
    fixture.write("package/__init__.py", "");
    fixture.write("package/part.py", "");
    fixture.write("modules/loose.py", "");
    let specs = ["project", "package", "modules"].map(|name| Spec::Directory(fixture.path(name)));
    let site = fixture.site(&specs).expect("installed");
    assert_eq!(names(&site), ["modules 0", "my-project 2.1", "package 0"]);
    for file in ["my_project/__init__.py", "package/part.py", "loose.py", "my_project-2.1.dist-info/METADATA"]
    {
        assert!(site.directory.join(file).is_file(), "{file}");
    }
    for file in ["setup.py", "tests", ".git", "package/package"] {
        assert!(!site.directory.join(file).exists(), "{file}");
    }
}

#[test]
fn a_directory_that_changed_is_named() {
    let fixture = Fixture::new();
    let module = fixture.write("modules/loose.py", "x = 1");
    let spec = [Spec::Directory(fixture.path("modules"))];
    let lock = fixture.resolver.lock(&spec, &Quiet).expect("locked");
    fs::write(&module, "x = 2").expect("written");
    let error = fixture.resolver.install(&lock, &NoBytecode, &Quiet).expect_err("changed");
    assert!(
        matches!(&error, PackageError::Changed { path, .. } if *path == fixture.path("modules")),
        "{error:?}"
    );
    // Locked again it is another lock.
    let again = fixture.resolver.lock(&spec, &Quiet).expect("locked");
    assert_ne!(again.id(), lock.id());
    fixture.resolver.install(&again, &NoBytecode, &Quiet).expect("installed");
}

#[test]
fn a_link_in_a_directory_is_refused() {
    let fixture = Fixture::new();
    fixture.write("modules/loose.py", "");
    std::os::unix::fs::symlink("/etc", fixture.path("modules/etc")).expect("linked");
    let error = fixture.site(&[Spec::Directory(fixture.path("modules"))]).expect_err("a link");
    assert!(error.to_string().contains("is a link"), "{error}");
}

#[test]
fn archives() {
    let fixture = Fixture::new();
    let release = tar(&[
        ("thing-1.2/PKG-INFO", "Metadata-Version: 2.1\nName: thing\nVersion: 1.2\n"),
        ("thing-1.2/src/thing/__init__.py", ""),
        ("thing-1.2/setup.py", "raise SystemExit('was run')"),
    ]);
    fixture.write("thing-1.2.tar.gz", gzip(&release));
    let loose = tar(&[("one/__init__.py", ""), ("two.py", "")]);
    fixture.write("loose.tar.zst", zstd::encode_all(&loose[..], 1).expect("compressed"));
    let specs = ["thing-1.2.tar.gz", "loose.tar.zst"].map(|name| Spec::Archive(fixture.path(name)));
    let site = fixture.site(&specs).expect("installed");
    assert_eq!(names(&site), ["loose 0", "thing 1.2"]);
    for file in ["thing/__init__.py", "one/__init__.py", "two.py"] {
        assert!(site.directory.join(file).is_file(), "{file}");
    }
    assert!(!site.directory.join("setup.py").exists());
}

#[test]
fn bad_archives() {
    let fixture = Fixture::new();
    let refused = |bytes: Vec<u8>| {
        let path = fixture.write("bad.tar.gz", bytes);
        let error = fixture.site(&[Spec::Archive(path)]).expect_err("refused");
        assert!(matches!(error, PackageError::Refused { .. }), "{error:?}");
        error.to_string()
    };
    let good = gzip(&tar(&[("a.py", &"x".repeat(10_000))]));
    refused(good[..good.len() / 2].to_vec());
    refused(b"no archive".to_vec());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_link(&mut header, "link", "/etc").expect("added");
    assert!(refused(gzip(&builder.into_inner().expect("finished"))).contains("is a link"));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(2 << 20);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &vec![b'x'; 2 << 20][..]).expect("added");
    assert!(refused(gzip(&builder.into_inner().expect("finished"))).contains("too long"));
    // The builder wouldn't write such a name.
    let mut outside = tar(&[("xx/evil.py", "")]);
    outside[..2].copy_from_slice(b"..");
    let sum: u32 =
        (0..512).map(|at| if (148..156).contains(&at) { 32 } else { u32::from(outside[at]) }).sum();
    outside[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    assert!(refused(gzip(&outside)).contains("outside"));
}

#[test]
fn directories_that_are_taken_as_they_are() {
    let fixture = Fixture::new();
    fixture.write("site/a/__init__.py", "");
    fixture.write("site/a-1.dist-info/METADATA", "Name: a\nVersion: 1\n");
    fixture.write("site/a/__pycache__/x.pyc", "");
    fixture.write("site/tests/x.py", "");
    let site = fixture.site(&[Spec::SitePackages(fixture.path("site"))]).expect("installed");
    assert!(
        site.directory.join("a-1.dist-info/METADATA").is_file()
            && site.directory.join("tests/x.py").is_file()
    );
    assert!(!site.directory.join("a/__pycache__").exists());
}

#[test]
fn requirements_wheels_and_local_packages_together() {
    let fixture = Fixture::new().with_local_index();
    fixture.wheel("base", "1", &[("base.py", b"1")]);
    fixture.wheel("base", "2", &[("base.py", b"2")]);
    fixture.wheel_requiring(
        "top",
        "1",
        &["base<2", "absent; sys_platform == 'win32' and python_version < '3'"],
        &[("top.py", b"")],
    );
    let own = fixture.wheel_requiring("own", "5", &["base"], &[("own.py", b"")]);
    fixture.write("list.txt", "-r more.txt\n");
    fixture.write("more.txt", "top\n");
    fixture
        .write("project/pyproject.toml", "[project]\nname = 'p'\nversion = '1'\ndependencies = ['base']\n");
    fixture.write("project/p.py", "");
    let specs = [
        Spec::Wheel(own),
        Spec::Requirements(fixture.path("list.txt")),
        Spec::Project(fixture.path("project/pyproject.toml")),
        Spec::Directory(fixture.path("project")),
    ];
    let lock = fixture.resolver.lock(&specs, &Quiet).expect("locked");
    assert!(lock.text().contains("created-by = \"belljar\""), "{}", lock.text());
    assert_eq!(Lock::parse(lock.text()).expect("a lock").id(), lock.id());
    let site = fixture.resolver.install(&lock, &NoBytecode, &Quiet).expect("installed");
    assert_eq!(names(&site), ["base 1", "own 5", "p 1", "top 1"]);
    // Written beside what it names, it can be moved with that.
    let text = lock.text_in(fixture.directory.path());
    assert!(!text.contains(fixture.directory.path().to_str().expect("UTF-8")), "{text}");
    assert_eq!(Lock::parse_in(&text, fixture.directory.path()).expect("a lock").id(), lock.id());
    let inside = lock.text_in(&fixture.path("project"));
    assert!(inside.contains("path = \".\""), "{inside}");
    let inside = Lock::parse_in(&inside, &fixture.path("project")).expect("a lock");
    assert_eq!(inside.id(), lock.id());
    fixture.cache.clean("packages").expect("cleaned");
    fixture.cache.clean("wheel").expect("cleaned");
    fixture.resolver.install(&inside, &NoBytecode, &Quiet).expect("installed again");
    // The same again, though a new version came; until the lists change or an upgrade is asked for.
    fixture.wheel("top", "2", &[("top.py", b"")]);
    assert_eq!(fixture.resolver.lock(&specs, &Quiet).expect("locked").id(), lock.id());
    let fresh = fixture.resolver.clone().upgrade(true).lock(&specs, &Quiet).expect("locked");
    assert_ne!(fresh.id(), lock.id());
    assert_eq!(fixture.resolver.lock(&specs, &Quiet).expect("locked").id(), fresh.id());
    fixture.write("more.txt", "top<2\n");
    assert_eq!(fixture.resolver.lock(&specs, &Quiet).expect("locked").id(), lock.id());
}

#[test]
fn a_local_package_wins_over_the_index() {
    let fixture = Fixture::new().with_local_index();
    fixture.wheel("base", "1", &[("base.py", b"1")]);
    fixture.wheel_requiring("top", "1", &["base"], &[("top.py", b"")]);
    fixture.write("mine/pyproject.toml", "[project]\nname = 'base'\nversion = '9'\n");
    fixture.write("mine/base.py", "mine");
    let specs = [Spec::Requirement("top".into()), Spec::Directory(fixture.path("mine"))];
    let site = fixture.site(&specs).expect("installed");
    assert_eq!(names(&site), ["base 9", "top 1"]);
    assert_eq!(fs::read(site.directory.join("base.py")).expect("read"), b"mine");
}

#[test]
fn why_there_is_no_solution() {
    let fixture = Fixture::new().with_local_index();
    fixture.wheel("base", "1", &[("base.py", b"1")]);
    fixture.wheel("base", "2", &[("base.py", b"2")]);
    fixture.wheel_requiring("top", "1", &["base<2"], &[("top.py", b"")]);
    let metadata = "Metadata-Version: 2.1\nName: source\nVersion: 1\n";
    let source =
        tar(&[("source-1/PKG-INFO", metadata), ("source-1/setup.py", "raise SystemExit('was run')")]);
    fixture.write("wheels/source-1.tar.gz", gzip(&source));
    let error = |requirements: &[&str]| {
        let specs: Vec<Spec> = requirements.iter().map(|text| Spec::Requirement((*text).into())).collect();
        fixture.resolver.lock(&specs, &Quiet).expect_err("no solution")
    };
    let conflict = error(&["top", "base>=2"]);
    assert!(matches!(conflict, PackageError::Conflict { .. }), "{conflict:?}");
    assert!(conflict.to_string().contains("base<2"), "{conflict}");
    let unknown = error(&["no-such-thing"]);
    assert!(
        matches!(&unknown, PackageError::NotFound { package, .. } if package == "no-such-thing"),
        "{unknown:?}"
    );
    let version = error(&["base==7"]);
    assert!(matches!(version, PackageError::NotFound { .. }), "{version:?}");
    let source = error(&["source"]);
    assert!(matches!(source, PackageError::OnlySource { .. }), "{source:?}");
    let hint = source.hint().expect("a hint");
    assert!(hint.contains("--package ./source.tar.gz"), "{hint}");
    for error in [conflict, unknown, version, source] {
        assert!(error.hint().is_some() && !error.to_string().contains("warning"), "{error}");
    }
}

#[test]
fn a_uv_that_is_too_old_is_passed_over() {
    let fixture = Fixture::new();
    let program = |name: &str, script: &str| {
        let path = fixture.write(name, script);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        path
    };
    let old = program("old/uv", "#!/bin/sh\necho 'uv 0.4.1 (abc)'\n");
    let wanted = [Spec::Requirement("tabulate".into())];
    let resolver = Resolver::new(fixture.cache.clone()).search(path());
    let error = resolver.clone().uv(Some(old.clone())).lock(&wanted, &Quiet).expect_err("too old");
    assert!(error.to_string().contains("0.4"), "{error}");
    // Offline, so that what comes next is known: the pinned one isn't there.
    let directory = old.parent().map(Path::to_owned);
    let offline =
        resolver.search(directory.into_iter().chain(path().into_iter().filter(|at| !at.join("uv").exists())));
    let error = offline.offline(true).lock(&wanted, &Quiet).expect_err("none");
    assert!(matches!(&error, PackageError::Offline { what } if what.starts_with("uv")), "{error:?}");
}

#[test]
fn offline_without_a_cache() {
    let fixture = Fixture::new();
    let resolver =
        Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned())).offline(true);
    let error = resolver.lock(&[Spec::Requirement("tabulate".into())], &Quiet).expect_err("offline");
    assert!(matches!(&error, PackageError::Offline { what } if what == "tabulate"), "{error:?}");
}
