//! A hostile guest in a directory of the host.

use std::os::unix::fs::symlink;

use super::*;

/// What a guest is told when its files are full.
const FULL: &str = "ENOSPC";

#[test]
fn no_link_and_no_path_leads_out_of_the_directory() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let directory = tempfile::Builder::new().tempdir_in(outside.path()).unwrap();
    let host = outside.path().display().to_string();
    symlink(outside.path(), directory.path().join("absolute")).unwrap();
    symlink("..", directory.path().join("above")).unwrap();
    symlink("above/secret", directory.path().join("indirect")).unwrap();
    symlink("/proc/self/root", directory.path().join("magic")).unwrap();
    let mut guest = boot(on_disk(&directory));
    let guest = guest.as_mut();
    let outside_paths = [
        "absolute/secret",
        "above/secret",
        "indirect",
        "magic/etc/passwd",
        "./above/../secret",
        "above/../secret",
    ];
    for path in outside_paths {
        for code in [
            format!("open('{path}').read()"),
            format!("open('{path}', 'w').write('x')"),
            format!("open('{path}', 'r+').write('x')"),
            format!("import os\nos.remove('{path}/secret')"),
            format!("os.rename('{path}/secret', 'mine')"),
            format!("os.truncate('{path}', 0)"),
            format!("os.listdir('{path}')"),
        ] {
            assert_ne!(fails(guest, &code), "it worked", "{code}");
        }
    }
    for path in ["absolute/secret", "above/secret"] {
        assert_ne!(fails(guest, &format!("os.link('{path}', 'mine')")), "it worked", "{path}");
        assert_ne!(fails(guest, &format!("os.rename('{path}', 'mine')")), "it worked", "{path}");
        assert_ne!(fails(guest, &format!("os.remove('{path}')")), "it worked", "{path}");
    }
    // These are the guest's own, and the host has no part in them.
    for path in
        ["../secret", "../../../../../../etc/passwd", "/workspace/../secret", &format!("{host}/secret")]
    {
        assert_eq!(fails(guest, &format!("open('{path}').read()")), "ENOENT", "{path}");
    }
    text(guest, "open('../secret', 'w').write('mine')");
    // A link that goes up leads to what the guest has there, not the host.
    assert_eq!(text(guest, "os.symlink('../secret', 'planted')\nopen('planted').read()"), "'mine'");
    run(guest, "os.remove('planted')");
    for target in ["/etc/passwd", "../../etc"] {
        let code = format!("os.symlink('{target}', 'planted')\nopen('planted').read()");
        assert_ne!(fails(guest, &code), "it worked", "{target}");
        run(guest, "import os\nos.path.lexists('planted') and os.remove('planted')");
    }
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[test]
fn what_is_neither_file_nor_directory_is_not_opened() {
    let directory = TempDir::new().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    let mut guest = boot(on_disk(&directory));
    for name in ["fifo", "socket"] {
        for mode in ["r", "w", "r+", "a"] {
            assert_ne!(
                fails(guest.as_mut(), &format!("open('{name}', '{mode}')")),
                "it worked",
                "{name} {mode}"
            );
        }
    }
}

/// Each of these would write more than the quota allows.
const DODGES: &[(&str, &str)] = &[
    ("at once", "open('f', 'wb', 0).write(b'x' * 3_000_000)"),
    ("piece by piece", "f = open('f', 'wb', 0)\nfor _ in range(300): f.write(b'x' * 10_000)"),
    ("a hole", "f = open('f', 'wb')\nf.seek(1 << 40)\nf.write(b'x')\nf.flush()"),
    ("a truncation upwards", "f = open('f', 'wb')\nf.truncate(3_000_000)"),
    ("an append", "for _ in range(300): open('f', 'ab', 0).write(b'x' * 10_000)"),
    (
        "files without names",
        "import os\nheld = []\nfor i in range(30):\n    f = open('f', 'wb', 0)\n    held.append(f)\n    f.write(b'x' * 50_000)\n    os.remove('f')",
    ),
    (
        "files that others replace",
        "import os\nheld = []\nfor i in range(30):\n    f = open('f', 'wb', 0)\n    held.append(f)\n    f.write(b'x' * 50_000)\n    os.rename('f', 'g')",
    ),
    ("many small files", "for i in range(3_000): open(f'f{i}', 'w').close()"),
    ("many directories", "import os\nfor i in range(3_000): os.mkdir(f'd{i}')"),
    ("many links", "import os\nfor i in range(3_000): os.symlink('x', f'l{i}')"),
    ("huge names", "for i in range(3_000): open(f'{i:0>255}', 'w').close()"),
    (
        "names for one file, and then others",
        "import os\nopen('a', 'wb', 0).write(b'x' * 900_000)\nos.link('a', 'b')\nos.remove('a')\nopen('c', 'wb', 0).write(b'x' * 900_000)",
    ),
];

fn used(directory: &Path) -> (u64, u64) {
    let (mut bytes, mut files) = (0, 0);
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            files += 1;
            bytes += if metadata.is_file() { metadata.len() } else { 0 };
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    (bytes, files)
}

#[test]
fn nothing_gets_round_the_quota_of_a_directory() {
    for (name, code) in DODGES {
        let directory = TempDir::new().unwrap();
        let mut guest = boot(with_quota(&directory, 1_000_000, 200));
        let report = run(guest.as_mut(), code);
        assert_eq!(report.status, Status::DiskFull, "{name}: {:#?}", report.exception);
        let reason = report.reason.unwrap();
        assert!(reason.contains("1000000 bytes, 200 files"), "{name}: {reason}");
        let (bytes, files) = used(directory.path());
        assert!(bytes <= 1_000_000 && files <= 200, "{name}: {bytes} bytes, {files} files");
    }
}

#[test]
fn what_was_there_counts_and_what_goes_makes_room() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("old"), vec![0; 600_000]).unwrap();
    let mut guest = boot(with_quota(&directory, 1_000_000, 200));
    let guest = guest.as_mut();
    assert_eq!(fails(guest, "open('f', 'wb', 0).write(b'x' * 500_000)"), FULL);
    text(guest, "import os\nos.remove('old')\nopen('f', 'wb', 0).write(b'x' * 500_000)");
    text(guest, "open('f', 'wb', 0).write(b'x' * 900_000)");
    assert_eq!(fails(guest, "open('g', 'wb', 0).write(b'x' * 500_000)"), FULL);
    // Somebody else makes room.
    std::fs::remove_file(directory.path().join("f")).unwrap();
    text(guest, "open('g', 'wb', 0).write(b'x' * 900_000)");
}

#[test]
fn a_file_without_a_name_counts_until_it_is_closed() {
    let directory = TempDir::new().unwrap();
    let mut guest = boot(with_quota(&directory, 1_000_000, 200));
    let guest = guest.as_mut();
    text(guest, "import os\nf = open('f', 'wb', 0)\nf.write(b'x' * 900_000)\nos.remove('f')");
    for _ in 0..3 {
        assert_eq!(fails(guest, "open('g', 'wb', 0).write(b'x' * 500_000)"), FULL);
    }
    text(guest, "f.close()\nopen('g', 'wb', 0).write(b'x' * 500_000)");
}

#[test]
fn memory_beside_the_directory_is_bounded_whatever_its_quota() {
    let directory = TempDir::new().unwrap();
    let mut guest = boot(with_quota(&directory, 1 << 40, 1 << 40));
    let code = "f = open('/tmp/f', 'wb', 0)\nfor _ in range(100): f.write(b'x' * (1 << 20))";
    assert_eq!(run(guest.as_mut(), code).status, Status::DiskFull);
}
