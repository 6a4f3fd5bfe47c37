//! Wheels that come from a server, which may be hostile.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use belljar_packages::{Limits, Lock, NoBytecode, PackageError, Resolver, Site};
use belljar_runtime::Quiet;

use crate::fixture::{Fixture, path, sha256, uv};

/// Serves the files of a directory, until the test ends.
pub(crate) fn serve(directory: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let directory = directory.clone();
            thread::spawn(move || drop(answer(stream, &directory)));
        }
    });
    format!("http://{address}")
}

fn answer(stream: TcpStream, directory: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let name = request.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let content = fs::read(directory.join(name));
    let status = if content.is_ok() { "200 OK" } else { "404 Not Found" };
    let content = content.unwrap_or_default();
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len())?;
    match request.starts_with("HEAD") {
        true => Ok(()),
        false => stream.write_all(&content),
    }
}

/// Installs a wheel from a server.
fn install(fixture: &Fixture, wheel: &Path, limits: Limits) -> Result<Site, PackageError> {
    let file = wheel.file_name().expect("a name").to_str().expect("UTF-8");
    let server = serve(wheel.parent().expect("a parent").to_owned());
    let name = file.split('-').next().expect("a name");
    let hash = sha256(&fs::read(wheel).expect("read"));
    let lock = Lock::parse(&format!(
        "lock-version = '1.0'\n[[packages]]\nname = '{name}'\nversion = '1'\n\
         wheels = [{{ url = '{server}/{file}', hashes = {{ sha256 = '{hash}' }} }}]\n"
    ));
    let resolver =
        Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned())).limits(limits);
    resolver.install(&lock.expect("a lock"), &NoBytecode, &Quiet)
}

#[test]
fn a_good_wheel() {
    let fixture = Fixture::new();
    let files: &[(&str, &[u8])] = &[
        ("thing/__init__.py", b"x = 1"),
        ("thing-1.data/scripts/run", b"#!python"),
        ("thing-1.data/data/share/man/thing.1", b""),
        ("thing-1.data/purelib/more.py", b""),
    ];
    let site = install(&fixture, &fixture.wheel("thing", "1", files), Limits::default()).expect("installed");
    assert!(site.directory.join("thing/__init__.py").is_file() && site.directory.join("more.py").is_file());
    for left_out in
        ["bin", "share", ".lock", "thing-1.dist-info/INSTALLER", "thing-1.dist-info/direct_url.json"]
    {
        assert!(!site.directory.join(left_out).exists(), "{left_out}");
    }
}

#[test]
fn a_wheel_for_wasi() {
    let fixture = Fixture::new();
    let module = "fast/core.cpython-314-wasm32-wasi.so";
    let pure = fixture.wheel("fast", "1", &[("fast/__init__.py", b""), (module, b"\0asm\x01\0\0\0")]);
    let wheel = pure.with_file_name("fast-1-cp314-cp314-wasi_0_0_wasm32.whl");
    fs::rename(pure, &wheel).expect("renamed");
    let site = install(&fixture, &wheel, Limits::default()).expect("installed");
    assert_eq!(site.extensions[0].path, module);
}

#[test]
fn bombs_and_too_many_files() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("bomb", "1", &[("bomb.py", &vec![0; 8 << 20])]);
    for limits in
        [Limits { bytes: 1 << 20, ..Limits::default() }, Limits { file_bytes: 1 << 20, ..Limits::default() }]
    {
        let error = install(&fixture, &wheel, limits).expect_err("too large");
        assert!(matches!(error, PackageError::Refused { .. }), "{error:?}");
    }
    let error = install(&fixture, &wheel, Limits { entries: 3, ..Limits::default() }).expect_err("too many");
    assert!(error.to_string().contains("more than 3"), "{error}");
}

#[test]
fn a_wheel_that_leads_outside() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("evil", "1", &[("../../../../../../evil.py", b""), ("evil/__init__.py", b"")]);
    match install(&fixture, &wheel, Limits::default()) {
        Ok(site) => assert!(!site.directory.join("evil.py").exists()),
        Err(error) => {
            assert!(matches!(error, PackageError::Uv { .. } | PackageError::Refused { .. }), "{error:?}")
        }
    }
    let everywhere =
        std::process::Command::new("find").arg(fixture.directory.path()).args(["-name", "evil.py"]).output();
    assert!(everywhere.expect("searched").stdout.is_empty());
}

#[test]
fn nobody_answers() {
    let fixture = Fixture::new();
    let hash = "0".repeat(64);
    let lock = Lock::parse(&format!(
        "lock-version = '1.0'\n[[packages]]\nname = 'a'\nversion = '1'\n\
         wheels = [{{ url = 'http://127.0.0.1:1/a-1-py3-none-any.whl', hashes = {{ sha256 = '{hash}' }} }}]\n"
    ))
    .expect("a lock");
    let resolver = Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned()));
    let error = resolver.install(&lock, &NoBytecode, &Quiet).expect_err("no answer");
    assert!(matches!(error, PackageError::Network { .. }), "{error:?}");
    let error = resolver.offline(true).install(&lock, &NoBytecode, &Quiet).expect_err("offline");
    assert!(matches!(&error, PackageError::Offline { what } if what == "a 1"), "{error:?}");
}
