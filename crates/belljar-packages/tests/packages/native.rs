//! Packages for a Python of this machine.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use belljar_packages::{Compiler, HostPython, PackageError, Resolver, Site, Spec};
use belljar_runtime::Quiet;
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::fixture::{Fixture, lock, path, uv};

const ELF: &[u8] = b"\x7fELF\x02\x01\x01 and so on";

pub(crate) fn python(fixture: &Fixture) -> HostPython {
    HostPython::find(None, &path(), &fixture.cache).expect("a Python on this machine")
}

/// A resolver for the Python of this machine, without the network.
fn resolver(fixture: &Fixture, python: &HostPython) -> Resolver {
    fixture.resolver.clone().target(python.target())
}

/// A wheel of these members, with their modes.
fn wheel(fixture: &Fixture, file: &str, members: &[(&str, &[u8], u32)]) -> PathBuf {
    let path = fixture.path(&format!("wheels/{file}"));
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    let name = file.split('-').next().expect("a name");
    let mut zip = ZipWriter::new(File::create(&path).expect("created"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n");
    let metadata_file = format!("{name}-1.dist-info/METADATA");
    let record_file = format!("{name}-1.dist-info/RECORD");
    let own: [(&str, &[u8], u32); 2] =
        [(&metadata_file, metadata.as_bytes(), 0o644), (&record_file, b"", 0o644)];
    for (file, content, mode) in members.iter().chain(&own) {
        zip.start_file(*file, SimpleFileOptions::default().unix_permissions(*mode)).expect("started");
        zip.write_all(content).expect("written");
    }
    zip.finish().expect("finished");
    path
}

fn install(fixture: &Fixture, wheels: &[&Path]) -> Result<Site, PackageError> {
    let python = python(fixture);
    resolver(fixture, &python).install(&lock(wheels), &python, &Quiet)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_wheel_is_taken_whole() {
    let fixture = Fixture::new();
    let soabi = python(&fixture).soabi;
    let (native, library) = (format!("thing/fast.{soabi}.so"), "thing.libs/libx-1.so.2");
    let made = wheel(
        &fixture,
        "thing-1-py3-none-any.whl",
        &[
            ("thing/__init__.py", b"def f():\n    raise ValueError\n", 0o644),
            (&native, ELF, 0o755),
            (library, ELF, 0o644),
            ("thing/tool", b"#!/bin/sh\n", 0o755),
            ("thing-1.data/platlib/thing/part.py", b"", 0o600),
            ("thing-1.data/purelib/more.py", b"", 0o644),
            ("thing-1.data/scripts/run", b"#!python -E\nimport thing\n", 0o644),
            ("thing-1.data/scripts/shell", b"#!/bin/sh\n", 0o644),
            ("thing-1.data/data/lib/libdata.so", ELF, 0o644),
            ("thing-1.data/data/share/man/thing.1", b"", 0o644),
            ("thing-1.data/headers/thing.h", b"", 0o644),
            ("evil.pth", b"import os", 0o644),
            (
                "thing-1.dist-info/entry_points.txt",
                b"[console_scripts]\nthing = thing:f\n../x = thing:f\n",
                0o644,
            ),
        ],
    );
    let site = install(&fixture, &[&made]).expect("installed");
    let at = |name: &str| site.directory.join(name);
    for file in [&native, library, "thing/part.py", "more.py", "lib/libdata.so"] {
        assert!(at(file).is_file(), "{file}");
    }
    assert!(site.extensions.is_empty() && !site.packages[0].without_native);
    for left_out in ["share", "include", "thing.h", "evil.pth", "thing-1.data", "x"] {
        assert!(!at(left_out).exists(), "{left_out}");
    }
    assert_eq!(fs::read_to_string(at("bin/run")).expect("read"), "#!/usr/bin/env python3\nimport thing\n");
    assert_eq!(fs::read_to_string(at("bin/shell")).expect("read"), "#!/bin/sh\n");
    assert!(fs::read_to_string(at("bin/thing")).expect("read").contains("from thing import f\n"));
    // Everybody may read all of it, and nobody write.
    for program in ["bin/run", "bin/shell", "bin/thing", "thing/tool", &native] {
        assert_eq!(mode(&at(program)), 0o555, "{program}");
    }
    for file in ["thing/__init__.py", "thing/part.py", library] {
        assert_eq!(mode(&at(file)), 0o444, "{file}");
    }
    for directory in [".", "thing", "bin", "thing/__pycache__", "thing.libs"] {
        assert_eq!(mode(&at(directory)), 0o755, "{directory}");
    }
}

#[test]
fn bytecode_is_for_where_packages_will_be() {
    let fixture = Fixture::new();
    let python = python(&fixture);
    let mark = fixture.path("mark");
    let hostile = format!("open({:?}, 'w')\n", mark.to_str().expect("UTF-8"));
    let deep = format!("x = {}1{}\n", "(".repeat(100_000), ")".repeat(100_000));
    let files: &[(&str, &[u8])] = &[
        ("thing/__init__.py", hostile.as_bytes()),
        ("thing/broken.py", b"def"),
        ("thing/coded.py", b"# coding: thing.broken\n"),
        ("thing/deep.py", deep.as_bytes()),
        ("thing/zero.py", b"x = '\0'\n"),
        ("thing/whole.py", b"def f():\n    pass\n"),
        ("thing/tests/test_it.py", b""),
    ];
    let site = install(&fixture, &[&fixture.wheel("thing", "1", files)]).expect("installed");
    assert!(!mark.exists(), "it was run");
    let tag = format!("cpython-3{}", python.platform.minor);
    let compiled = |name: &str| site.directory.join(format!("thing/__pycache__/{name}.{tag}.pyc"));
    assert!(compiled("__init__").is_file() && !compiled("broken").exists());
    assert!(!site.directory.join("thing/tests/__pycache__").exists());
    let bytes = fs::read(compiled("whole")).expect("compiled");
    // By its hash, which nobody looks at: times don't matter.
    assert_eq!(bytes[4..8], [1, 0, 0, 0]);
    let inside = String::from_utf8_lossy(&bytes).into_owned();
    assert!(inside.contains("/data/site-packages/thing/whole.py"), "{inside}");
    assert!(!inside.contains(fixture.directory.path().to_str().expect("UTF-8")));
}

#[test]
fn modules_that_end_the_compiler_are_left_out() {
    let fixture = Fixture::new();
    let python = python(&fixture);
    let directory = fixture.path("modules");
    fixture.write("modules/a.py", "x = 1\n");
    fixture.write("modules/b.py", format!("x = {}\n", "-".repeat(4_000_000)));
    fixture.write("modules/c.py", "x = 1\n");
    python.compile(&directory, &Quiet).expect("compiled");
    let tag = format!("cpython-3{}", python.platform.minor);
    for name in ["a", "c"] {
        assert!(directory.join(format!("__pycache__/{name}.{tag}.pyc")).is_file(), "{name}");
    }
}

#[test]
fn hostile_wheels_are_refused() {
    let fixture = Fixture::new();
    for (members, word) in [
        (&[("../evil.py", &b""[..], 0o644)][..], "leads outside"),
        (&[("bad-1.data/scripts/../../../evil", b"", 0o755)], "leads outside"),
        (&[("/evil.py", b"", 0o644)], "absolute"),
        (&[("a\\evil.py", b"", 0o644)], "characters"),
        (&[("bin/x", b"", 0o644), ("bad-1.data/scripts/x", b"", 0o644)], "twice"),
        (&[("a.py", b"", 0o644), ("bad-1.data/purelib/a.py", b"", 0o644)], "twice"),
    ] {
        let made = wheel(&fixture, "bad-1-py3-none-any.whl", members);
        let error = install(&fixture, &[&made]).expect_err(word);
        assert!(matches!(error, PackageError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(!fixture.cache.entries().expect("listed").iter().any(|entry| entry.kind == "wheel"));
    let path = fixture.path("wheels/bad-1-py3-none-any.whl");
    let mut zip = ZipWriter::new(File::create(&path).expect("created"));
    zip.add_symlink("bin/evil", "/etc/passwd", SimpleFileOptions::default()).expect("added");
    zip.finish().expect("finished");
    assert!(install(&fixture, &[&path]).expect_err("a link").to_string().contains("is a link"));
    // A file where programs would be.
    let odd: &[(&str, &[u8], u32)] =
        &[("bin", b"", 0o644), ("bad-1.dist-info/entry_points.txt", b"[console_scripts]\nx = a:b\n", 0o644)];
    assert!(install(&fixture, &[&wheel(&fixture, "bad-1-py3-none-any.whl", odd)]).is_ok());
}

#[test]
fn local_packages_keep_their_programs() {
    let fixture = Fixture::new();
    let python = python(&fixture);
    let pickle = fixture.wheel("cloudpickle", "3.1", &[("cloudpickle/__init__.py", b"")]);
    fixture.write("project/pyproject.toml", "[project]\nname = 'mine'\nversion = '2'\n");
    fixture.write("project/mine/__init__.py", "");
    let tool = fixture.write("project/mine/tool", "#!/bin/sh\n");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o700)).expect("executable");
    fixture.write("installed/six.py", "");
    fixture.write("installed/six-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: six\nVersion: 1\n");
    fixture.write("installed/bin/six", "#!/elsewhere/bin/python3\n");
    fixture.write("installed/fast.so", ELF);
    let specs = [
        Spec::Wheel(pickle),
        Spec::Directory(fixture.path("project")),
        Spec::SitePackages(fixture.path("installed")),
    ];
    let resolver = resolver(&fixture, &python);
    let lock = resolver.lock(&specs, &Quiet).expect("locked without the index");
    let site = resolver.install(&lock, &python, &Quiet).expect("installed");
    assert_eq!(mode(&site.directory.join("mine/tool")), 0o555);
    assert_eq!(mode(&site.directory.join("bin/six")), 0o555);
    assert!(site.directory.join("fast.so").is_file());
    // Those of the other engine stay apart.
    let wasm = fixture.resolver.lock(&[Spec::Directory(fixture.path("project"))], &Quiet).expect("locked");
    assert_ne!(wasm.id(), lock.id());
    let module = Spec::Extension { name: "m".into(), bytes: b"\0asm".as_slice().into() };
    let error = resolver.lock(&[module], &Quiet).expect_err("WebAssembly");
    assert!(matches!(error, PackageError::WasmOnly { .. }), "{error:?}");
}

#[test]
fn packages_from_the_index() {
    let fixture = Fixture::new();
    let python = python(&fixture);
    let resolver = Resolver::new(fixture.cache.clone()).search(path()).uv(Some(uv().to_owned()));
    let resolver = resolver.target(python.target());
    let specs = [Spec::Requirement("markupsafe".into()), Spec::Requirement("tqdm".into())];
    let lock = resolver.lock(&specs, &Quiet).expect("locked");
    let names: Vec<&str> = lock.packages().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["cloudpickle", "markupsafe", "tqdm"]);
    let site = resolver.install(&lock, &python, &Quiet).expect("installed");
    assert!(site.packages.iter().all(|package| !package.without_native));
    let native = site.directory.join(format!("markupsafe/_speedups.{}.so", python.soabi));
    assert!(native.is_file(), "{}", native.display());
    let program = fs::read_to_string(site.directory.join("bin/tqdm")).expect("a program");
    assert!(program.starts_with("#!/usr/bin/env python3\n"), "{program}");
    assert_eq!(mode(&site.directory.join("bin/tqdm")), 0o555);
    // It can be used: here that is a test's business.
    let code = "import markupsafe._speedups, tqdm, cloudpickle; print(markupsafe.__cached__)";
    let run = Command::new(python.program())
        .args(["-S", "-B", "-c", code])
        .env_clear()
        .env("PYTHONPATH", &site.directory)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.trim_end().ends_with(".pyc"), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let offline = resolver.clone().offline(true).uv(None);
    let again = offline.lock(&specs, &Quiet).expect("locked before");
    assert_eq!(offline.find(&again, &python).expect("installed before").directory, site.directory);
    let source = resolver.lock(&[Spec::Requirement("docopt==0.6.2".into())], &Quiet).expect_err("source");
    assert!(matches!(&source, PackageError::OnlySource { .. }), "{source:?}");
}
