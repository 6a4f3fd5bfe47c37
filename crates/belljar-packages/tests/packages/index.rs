//! With the real package index.

use std::{fs, os::unix::fs::MetadataExt, time::Instant};

use belljar_packages::{NoBytecode, PackageError, Resolver, Spec};
use belljar_runtime::Quiet;

use crate::fixture::{Fixture, path, uv};

fn requirements(texts: &[&str]) -> Vec<Spec> {
    texts.iter().map(|text| Spec::Requirement((*text).into())).collect()
}

#[test]
fn packages_from_the_index() {
    let fixture = Fixture::new();
    let resolver = Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned()));
    let wanted = requirements(&["jinja2", "pyyaml", "tabulate"]);
    #[expect(
        clippy::print_stderr,
        reason = "how long each step takes, for those who run it with --nocapture"
    )]
    let timed = |what: &str, start: Instant| eprintln!("{what}: {:?}", start.elapsed());

    let start = Instant::now();
    let lock = resolver.lock(&wanted, &Quiet).expect("locked");
    timed("resolve", start);
    let names: Vec<&str> = lock.packages().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["jinja2", "markupsafe", "pyyaml", "tabulate"]);

    let start = Instant::now();
    let site = resolver.install(&lock, &NoBytecode, &Quiet).expect("installed");
    timed("install, cold", start);
    for file in ["jinja2/__init__.py", "markupsafe/_native.py", "yaml/__init__.py", "tabulate/__init__.py"] {
        assert!(site.directory.join(file).is_file(), "{file}");
    }
    assert!(!site.directory.join("bin").exists());
    let without: Vec<bool> = site.packages.iter().map(|package| package.without_native).collect();
    assert_eq!(without, [false, true, true, false]);

    // Without the network, from here on.
    let offline = resolver.clone().offline(true).uv(None);
    let start = Instant::now();
    let again = offline.lock(&wanted, &Quiet).expect("locked before");
    timed("resolve, again", start);
    let start = Instant::now();
    assert_eq!(offline.find(&again, &NoBytecode).expect("installed before").directory, site.directory);
    timed("find", start);
    fixture.cache.clean("packages").expect("cleaned");
    let start = Instant::now();
    let again = offline.install(&again, &NoBytecode, &Quiet).expect("its packages are cached");
    timed("install, packages cached", start);

    let other = resolver.lock(&requirements(&["markupsafe"]), &Quiet).expect("locked");
    let other = offline.install(&other, &NoBytecode, &Quiet).expect("installed from what is cached");
    let inode = |directory: &std::path::Path| {
        fs::metadata(directory.join("markupsafe/_native.py")).expect("there").ino()
    };
    assert_eq!(inode(&again.directory), inode(&other.directory));
}

#[test]
fn packages_that_the_index_cannot_give() {
    let fixture = Fixture::new();
    let resolver = Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned()));
    let error = |texts: &[&str]| resolver.lock(&requirements(texts), &Quiet).expect_err("impossible");
    let native = error(&["numpy"]);
    assert!(
        matches!(&native, PackageError::Native { package, .. } if package.starts_with("numpy ")),
        "{native:?}"
    );
    let source = error(&["docopt==0.6.2"]);
    assert!(matches!(&source, PackageError::OnlySource { .. }), "{source:?}");
    // There is source of it, too.
    for package in ["pyarrow==14.0.1", "tensorflow==2.15.0"] {
        let older = error(&[package]);
        assert!(
            matches!(&older, PackageError::OtherPython { package: named, .. } if named == package),
            "{older:?}"
        );
        assert!(older.to_string().contains("its wheels are for other versions of Python"), "{older}");
    }
    let server = crate::served::serve(fixture.path("nothing"));
    let nowhere = error(&[&format!("six @ {server}/six-1.0-py3-none-any.whl")]);
    assert!(matches!(&nowhere, PackageError::Input { .. }), "{nowhere:?}");
    let several = error(&["numpy", "lxml"]);
    assert!(matches!(&several, PackageError::Natives { packages } if packages.len() == 2), "{several:?}");
    let unknown = error(&["no-such-package-of-belljar"]);
    assert!(matches!(&unknown, PackageError::NotFound { .. }), "{unknown:?}");
    let conflict = error(&["jinja2==3.1.6", "markupsafe<2"]);
    assert!(matches!(&conflict, PackageError::Conflict { .. }), "{conflict:?}");
}

#[test]
fn a_wheel_that_was_swapped_on_the_index() {
    let fixture = Fixture::new();
    let resolver = Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned()));
    let lock = resolver.lock(&requirements(&["tabulate==0.9.0"]), &Quiet).expect("locked");
    let sha256 = "024ca478df22e9340661486f85298cff5f6dcdba14f3813e8830015b9ed1948f";
    assert!(lock.text().contains(sha256));
    let swapped = lock.text().replace(sha256, &"0".repeat(64));
    let lock = belljar_packages::Lock::parse(&swapped).expect("a lock");
    let error = resolver.install(&lock, &NoBytecode, &Quiet).expect_err("another hash");
    assert!(matches!(&error, PackageError::Hash { found, .. } if found == sha256), "{error:?}");
}
