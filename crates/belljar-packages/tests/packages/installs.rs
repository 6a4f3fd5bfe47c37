use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use belljar_packages::{Compiler, NoBytecode, PackageError, Site, Spec};
use belljar_runtime::{Progress, Quiet};

use crate::fixture::{Fixture, lock};

/// Writes something that looks like bytecode, and counts.
#[derive(Default)]
struct Counting {
    compiled: AtomicUsize,
}

impl Compiler for Counting {
    fn version(&self) -> String {
        "counting 1".into()
    }

    fn compile(&self, directory: &Path, _: &dyn Progress) -> Result<(), String> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        fs::create_dir(directory.join("__pycache__")).map_err(|error| error.to_string())?;
        let names = fs::read_dir(directory).map_err(|error| error.to_string())?.flatten();
        for module in
            names.filter(|found| found.path().extension().is_some_and(|extension| extension == "py"))
        {
            let name = module.file_name().to_string_lossy().replace(".py", ".cpython-314.pyc");
            fs::write(directory.join("__pycache__").join(name), "bytecode")
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn inode(site: &Site, file: &str) -> u64 {
    fs::metadata(site.directory.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).ino()
}

#[test]
fn a_wheel_is_installed_as_installers_do() {
    let fixture = Fixture::new();
    let files: &[(&str, &[u8])] = &[
        ("thing/__init__.py", b"x = 1"),
        ("thing/__pycache__/__init__.cpython-314.pyc", b"old"),
        ("thing-1.data/purelib/more.py", b""),
        ("thing-1.data/platlib/thing/other.py", b""),
        ("thing-1.data/scripts/run", b"#!python"),
        ("thing-1.data/headers/thing.h", b""),
        ("thing-1.data/data/share/man/thing.1", b""),
        ("thing.pth", b"import evil"),
        ("thing-1.dist-info/INSTALLER", b"pip"),
        ("thing-1.dist-info/direct_url.json", b"{}"),
    ];
    let site = fixture.install(&[&fixture.wheel("thing", "1", files)]).expect("installed");
    let mut found: Vec<String> = walk(&site.directory, "");
    found.sort();
    assert_eq!(
        found,
        [
            "more.py",
            "thing-1.dist-info/METADATA",
            "thing-1.dist-info/RECORD",
            "thing-1.dist-info/WHEEL",
            "thing/__init__.py",
            "thing/other.py"
        ]
    );
    assert_eq!(site.packages.len(), 1);
    assert_eq!((site.packages[0].name.as_str(), site.packages[0].version.as_str()), ("thing", "1"));
    assert_eq!(site.bytes, site.packages[0].bytes);
}

fn walk(directory: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("listed").flatten();
    entries
        .flat_map(|found| {
            let name = format!("{prefix}{}", found.file_name().to_string_lossy());
            match found.path().is_dir() {
                true => walk(&found.path(), &format!("{name}/")),
                false => vec![name],
            }
        })
        .collect()
}

#[test]
fn sites_share_the_files_and_the_bytecode_of_a_package() {
    let fixture = Fixture::new();
    let (one, two) =
        (fixture.wheel("one", "1", &[("one.py", b"1")]), fixture.wheel("two", "1", &[("two.py", b"2")]));
    let compiler = Counting::default();
    let first = fixture.resolver.install(&lock(&[&one]), &compiler, &Quiet).expect("installed");
    let both = fixture.resolver.install(&lock(&[&two, &one]), &compiler, &Quiet).expect("installed");
    assert_ne!(first.id, both.id);
    assert_eq!(inode(&first, "one.py"), inode(&both, "one.py"));
    let bytecode = "__pycache__/one.cpython-314.pyc";
    assert_eq!(inode(&first, bytecode), inode(&both, bytecode));
    assert_eq!(compiler.compiled.load(Ordering::Relaxed), 2, "each package once");
    // Another compiler, another site.
    let plain = fixture.install(&[&one]).expect("installed");
    assert_ne!(plain.id, first.id);
    assert!(!plain.directory.join(bytecode).exists());
}

#[test]
fn a_compiler_that_fails_is_no_harm() {
    struct Failing;
    impl Compiler for Failing {
        fn version(&self) -> String {
            "failing".into()
        }
        fn compile(&self, _: &Path, _: &dyn Progress) -> Result<(), String> {
            Err("no".into())
        }
    }
    let fixture = Fixture::new();
    let wheel = fixture.wheel("one", "1", &[("one.py", b"1")]);
    let site = fixture.resolver.install(&lock(&[&wheel]), &Failing, &Quiet).expect("installed");
    assert!(site.directory.join("one.py").is_file());
}

#[test]
fn a_site_is_found_at_once() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("one", "1", &[("one.py", b"1")]);
    let lock = lock(&[&wheel]);
    assert!(fixture.resolver.find(&lock, &NoBytecode).is_none());
    let made = fixture.resolver.install(&lock, &NoBytecode, &Quiet).expect("installed");
    // The wheel isn't needed any more.
    fs::remove_file(&wheel).expect("removed");
    let start = Instant::now();
    let found = fixture.resolver.find(&lock, &NoBytecode).expect("found");
    assert!(start.elapsed() < Duration::from_millis(20), "{:?}", start.elapsed());
    assert_eq!((found.id, found.directory, found.packages), (made.id, made.directory, made.packages));
    fixture.resolver.install(&lock, &NoBytecode, &Quiet).expect("found, too");
}

#[test]
fn damaged_entries_are_made_again() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("one", "1", &[("one.py", b"1"), ("two.py", b"2")]);
    let site = fixture.install(&[&wheel]).expect("installed");
    fs::remove_file(site.directory.join("two.py")).expect("removed");
    let again = fixture.install(&[&wheel]).expect("made again");
    assert_eq!(fs::read(again.directory.join("two.py")).expect("there"), b"2");
    // Cut short in the package itself, so in all sites.
    let path = again.directory.join("one.py");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("writable");
    fs::write(&path, "").expect("cut");
    let again = fixture.install(&[&wheel]).expect("made again");
    assert_eq!(fs::read(again.directory.join("one.py")).expect("there"), b"1");
    // The directory itself.
    fs::remove_dir_all(&again.directory).expect("removed");
    assert!(fixture.resolver.find(&lock(&[&wheel]), &NoBytecode).is_none());
    fixture.install(&[&wheel]).expect("made again");
}

#[test]
fn two_at_once_make_one() {
    let fixture = Fixture::new();
    let wheels: Vec<_> = (0..6)
        .map(|number| fixture.wheel(&format!("p{number}"), "1", &[(&format!("p{number}.py"), b"")]))
        .collect();
    let wheels: Vec<&Path> = wheels.iter().map(AsRef::as_ref).collect();
    let (lock, compiler, ids) = (lock(&wheels), Counting::default(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let site = fixture.resolver.install(&lock, &compiler, &Quiet).expect("installed");
                assert!(site.directory.join("p5.py").is_file());
                ids.lock().expect("whole").push(site.id);
            });
        }
    });
    let mut ids = ids.into_inner().expect("whole");
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(compiler.compiled.load(Ordering::Relaxed), 6);
}

#[test]
fn files_in_two_packages() {
    let fixture = Fixture::new();
    let namespace: &[u8] = b"__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n";
    let one =
        fixture.wheel("one", "1", &[("ns/__init__.py", namespace), ("same.py", b"x"), ("LICENSE", b"1")]);
    let two =
        fixture.wheel("two", "1", &[("ns/__init__.py", b"# empty\n"), ("same.py", b"x"), ("LICENSE", b"2")]);
    fixture.install(&[&one, &two]).expect("harmless");
    let three = fixture.wheel("three", "1", &[("same.py", b"y")]);
    let error = fixture.install(&[&one, &three]).expect_err("they differ");
    assert!(matches!(error, PackageError::Clash { .. }), "{error:?}");
    let message = error.to_string();
    assert!(["one 1", "three 1", "same.py"].iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn native_modules_for_the_guest() {
    let fixture = Fixture::new();
    let module = "fast/core.cpython-314-wasm32-wasi.so";
    let wheel = fixture.wheel("fast", "1", &[("fast/__init__.py", b""), (module, b"\0asm\x01\0\0\0")]);
    let site = fixture.install(&[&wheel]).expect("installed");
    assert_eq!(site.extensions.len(), 1);
    assert_eq!(
        (site.extensions[0].path.as_str(), &site.extensions[0].file),
        (module, &site.directory.join(module))
    );
    let bytes: Arc<[u8]> = Arc::from(&b"\0asm\x01\0\0\0"[..]);
    let given = Spec::Extension { name: "other.core".into(), bytes };
    let site = fixture.site(std::slice::from_ref(&given)).expect("installed");
    assert_eq!(site.extensions[0].path, "other/core.cpython-314-wasm32-wasi.so");
    assert_eq!(fixture.site(&[given]).expect("installed").id, site.id);
    let elf = Spec::Extension { name: "other.core".into(), bytes: Arc::from(&b"\x7fELF"[..]) };
    assert!(matches!(fixture.site(&[elf]), Err(PackageError::Native { .. })));
}

#[test]
fn optional_native_parts_are_left_out() {
    let fixture = Fixture::new();
    let files: &[(&str, &[u8])] = &[("markupsafe/__init__.py", b""), ("markupsafe/_speedups.so", b"\x7fELF")];
    let site = fixture.install(&[&fixture.wheel("markupsafe", "3", files)]).expect("installed");
    assert!(site.packages[0].without_native);
    assert!(!site.directory.join("markupsafe/_speedups.so").exists());
}

#[test]
fn a_cache_over_another_finds_what_is_there() {
    let fixture = Fixture::new();
    let (one, two) =
        (fixture.wheel("one", "1", &[("one.py", b"1")]), fixture.wheel("two", "1", &[("two.py", b"2")]));
    let below = fixture.install(&[&one]).expect("installed");
    let upper = fixture.path("upper");
    let layered = belljar_runtime::Cache::layered(&upper, fixture.cache.root());
    let resolver = belljar_packages::Resolver::new(layered).offline(true);
    assert_eq!(resolver.find(&lock(&[&one]), &NoBytecode).expect("found below").directory, below.directory);
    let above = resolver.install(&lock(&[&one, &two]), &NoBytecode, &Quiet).expect("installed");
    assert!(above.directory.starts_with(&upper));
    assert_eq!(inode(&above, "one.py"), inode(&below, "one.py"));
}
