//! Hostile and broken archives. None may write outside, fill the disk, or be half installed.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use belljar_packages::{Limits, PackageError};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::fixture::{Fixture, lock};

const RECORD: &str = "bad-1.dist-info/RECORD";

/// A wheel of these members, and nothing that makes it a good one but an empty RECORD.
fn raw_wheel(fixture: &Fixture, members: &[(&str, &[u8])]) -> PathBuf {
    let path = fixture.path("bad-1-py3-none-any.whl");
    let mut zip = ZipWriter::new(File::create(&path).expect("created"));
    for (name, content) in members.iter().chain(&[(RECORD, &b""[..])]) {
        zip.start_file(*name, SimpleFileOptions::default()).expect("started");
        zip.write_all(content).expect("written");
    }
    zip.finish().expect("finished");
    path
}

fn refusal(fixture: &Fixture, wheel: &Path) -> String {
    let error = fixture.install(&[wheel]).expect_err("refused");
    assert!(matches!(error, PackageError::Refused { .. }), "{error:?}");
    assert!(error.hint().is_some());
    let left: Vec<_> = fixture.cache.entries().expect("listed").into_iter().map(|entry| entry.kind).collect();
    assert!(left.is_empty(), "half installed: {left:?}");
    error.to_string()
}

/// Replaces bytes of a file, which both have the same length.
fn patch(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(path).expect("read");
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| &bytes[*at..*at + from.len()] == from).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(path, bytes).expect("written");
}

#[test]
fn truncated_wheels() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("bad", "1", &[("bad.py", &[b'#'; 5000])]);
    let whole = fs::read(&wheel).expect("read");
    for length in [0, 1, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&wheel, &whole[..length]).expect("written");
        refusal(&fixture, &wheel);
    }
}

#[test]
fn damaged_contents() {
    let fixture = Fixture::new();
    let wheel = raw_wheel(&fixture, &[("bad.py", b"the content is stored here as it is")]);
    let mut bytes = fs::read(&wheel).expect("read");
    let start = 30 + "bad.py".len();
    bytes[start + 3] ^= 0xff;
    fs::write(&wheel, bytes).expect("written");
    assert!(refusal(&fixture, &wheel).contains("damaged"));
}

#[test]
fn paths_that_lead_outside() {
    for name in [
        "../evil.py",
        "/evil.py",
        "a/../../evil.py",
        "..\\evil.py",
        "C:/evil.py",
        "bad-1.data/purelib/../../evil",
    ] {
        let fixture = Fixture::new();
        let message = refusal(&fixture, &raw_wheel(&fixture, &[(name, b"")]));
        assert!(["outside", "absolute", "characters"].iter().any(|word| message.contains(word)), "{message}");
        assert!(!fixture.path("evil.py").exists());
    }
}

#[test]
fn odd_names() {
    let (long, deep) = ("x".repeat(300), "d/".repeat(70) + "x");
    for name in ["a\0b.py", "a\nb.py", &long, &deep] {
        let fixture = Fixture::new();
        refusal(&fixture, &raw_wheel(&fixture, &[(name, b"")]));
    }
}

#[test]
fn links() {
    let fixture = Fixture::new();
    let path = fixture.path("bad-1-py3-none-any.whl");
    let mut zip = ZipWriter::new(File::create(&path).expect("created"));
    zip.add_symlink("link", "/etc", SimpleFileOptions::default()).expect("added");
    zip.finish().expect("finished");
    assert!(refusal(&fixture, &path).contains("is a link"));
}

#[test]
fn names_that_differ_only_by_case() {
    for (one, other) in [("a.py", "A.py"), ("pkg/a.py", "Pkg/b.py"), ("straße", "STRAßE")] {
        let fixture = Fixture::new();
        let message = refusal(&fixture, &raw_wheel(&fixture, &[(one, b""), (other, b"")]));
        assert!(message.contains("differ only by case"), "{message}");
    }
}

#[test]
fn a_name_twice() {
    let fixture = Fixture::new();
    let wheel = raw_wheel(&fixture, &[("one.py", b"1"), ("two.py", b"2")]);
    patch(&wheel, b"two.py", b"one.py");
    assert!(refusal(&fixture, &wheel).contains("same name"));
    // Two that only meet in site-packages.
    let wheel = raw_wheel(&fixture, &[("one.py", b"1"), ("bad-1.data/purelib/one.py", b"2")]);
    assert!(refusal(&fixture, &wheel).contains("twice"));
    let wheel = raw_wheel(&fixture, &[("one", b"1"), ("one/two.py", b"2")]);
    assert!(refusal(&fixture, &wheel).contains("twice"));
}

fn limited(limits: Limits) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.resolver = fixture.resolver.limits(limits);
    fixture
}

#[test]
fn zip_bombs() {
    let zeros = vec![0; 4 << 20];
    let fixture = limited(Limits { file_bytes: 1 << 20, ..Limits::default() });
    let bomb = raw_wheel(&fixture, &[("bomb", &zeros)]);
    assert!(fs::metadata(&bomb).expect("there").len() < 20_000);
    assert!(refusal(&fixture, &bomb).contains("unpacks to more than 1048576 bytes"));
    let fixture = limited(Limits { bytes: 6 << 20, ..Limits::default() });
    let bomb = raw_wheel(&fixture, &[("one", &zeros), ("two", &zeros)]);
    assert!(refusal(&fixture, &bomb).contains("unpacks to more than 6291456 bytes"));
}

#[test]
fn a_bomb_that_lies_about_its_size() {
    let fixture = limited(Limits { file_bytes: 1 << 20, ..Limits::default() });
    let bomb = raw_wheel(&fixture, &[("bomb", &vec![0; 4 << 20])]);
    patch(&bomb, &(4_u32 << 20).to_le_bytes(), &16_u32.to_le_bytes());
    refusal(&fixture, &bomb);
}

#[test]
fn too_many_files() {
    let fixture = limited(Limits { entries: 50, ..Limits::default() });
    let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refusal(&fixture, &raw_wheel(&fixture, &members)).contains("more than 50 files"));
    // Directories count too.
    let names: Vec<String> = (0..30).map(|number| format!("d{number}/f")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refusal(&fixture, &raw_wheel(&fixture, &members)).contains("more than 50 files"));
}

#[test]
fn a_million_files_that_are_only_declared() {
    let fixture = Fixture::new();
    let path = fixture.path("bad-1-py3-none-any.whl");
    let mut bytes = b"PK\x06\x06".to_vec();
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([1_000_000_u64; 2].map(u64::to_le_bytes).concat());
    bytes.extend([0; 16]);
    bytes.extend(b"PK\x06\x07");
    bytes.extend([0; 12]);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    bytes.extend([0xff; 8]);
    bytes.extend([0; 2]);
    fs::write(&path, bytes).expect("written");
    assert!(refusal(&fixture, &path).contains("more than 100000 files"));
}

#[test]
fn contents_that_the_record_denies() {
    let fixture = Fixture::new();
    let path = fixture.path("bad-1-py3-none-any.whl");
    let mut zip = ZipWriter::new(File::create(&path).expect("created"));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in [("bad.py", "x = 1"), (RECORD, "bad.py,sha256=AAAA,5\n")] {
        zip.start_file(name, options).expect("started");
        zip.write_all(content.as_bytes()).expect("written");
    }
    zip.finish().expect("finished");
    assert!(refusal(&fixture, &path).contains("RECORD"));
}

#[test]
fn machine_code() {
    for start in [&b"\x7fELF\x02"[..], b"MZ\x90\0", b"\xcf\xfa\xed\xfe"] {
        let fixture = Fixture::new();
        let wheel = fixture.wheel("fast", "2", &[("fast/__init__.py", b""), ("fast/core.abi3.so", start)]);
        let error = fixture.install(&[&wheel]).expect_err("machine code");
        let message = error.to_string();
        assert!(matches!(error, PackageError::Native { .. }), "{error:?}");
        assert!(message.contains("fast 2") && message.contains("fast/core.abi3.so"), "{message}");
        let hint = error.hint().expect("a hint");
        assert!(["pure Python", "WASI", "--engine native"].iter().all(|way| hint.contains(way)), "{hint}");
    }
}

#[test]
fn modules_for_the_guest_that_are_none() {
    for (name, content) in
        [("fast/core.abi3.so", &b"text"[..]), ("fast/core.cpython-314-wasm32-wasi.so", b"")]
    {
        let fixture = Fixture::new();
        let wheel = fixture.wheel("fast", "2", &[("fast/__init__.py", b""), (name, content)]);
        let message = refusal(&fixture, &wheel);
        assert!(message.contains(name) && message.contains("fast 2"), "{message}");
    }
}

#[test]
fn a_wheel_with_another_hash() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("good", "1", &[("good.py", b"")]);
    let lock = lock(&[&wheel]);
    fixture.wheel("good", "1", &[("good.py", b"evil")]);
    let error = fixture
        .resolver
        .install(&lock, &belljar_packages::NoBytecode, &belljar_runtime::Quiet)
        .expect_err("changed");
    assert!(matches!(&error, PackageError::Changed { path, .. } if *path == wheel), "{error:?}");
    fs::remove_file(&wheel).expect("removed");
    let error = fixture
        .resolver
        .install(&lock, &belljar_packages::NoBytecode, &belljar_runtime::Quiet)
        .expect_err("gone");
    assert!(matches!(&error, PackageError::Unreadable { path, .. } if *path == wheel), "{error:?}");
}
