//! Too many, too large, and somebody else's.

use std::fs;
use std::os::unix::fs::symlink;

use belljar::{Policy, Status};
use belljar_tests::{Hostile, builder, text};
use tempfile::TempDir;

use crate::cells::{hostile, raising};

hostile! {
    a_million_files("for n in range(10**6): open(f'f{n}', 'w').close()") => [Error, DiskFull, Timeout];
    a_million_directories("import os\nfor n in range(10**6): os.mkdir(f'd{n}')") => [Error, DiskFull, Timeout];
    a_million_links("import os\nopen('f', 'w').close()\nfor n in range(10**6): os.link('f', f'l{n}')") => [Error, DiskFull, Timeout];
    a_million_symlinks("import os\nfor n in range(10**6): os.symlink('x' * 1000, f's{n}')") => [Error, DiskFull, Timeout];
    one_huge_file("with open('f', 'wb') as f:\n    while True: f.write(bytes(1_000_000))") => [Error, DiskFull];
    a_sparse_file("with open('f', 'wb') as f:\n    f.seek(10**12)\n    f.write(b'x')") => [Error, DiskFull];
    a_truncated_file("import os\nopen('f', 'w').close()\nos.truncate('f', 10**12)") => [Error, DiskFull];
    a_file_of_the_largest_size("import os\nopen('f', 'w').close()\nos.truncate('f', 2**63 - 1)") => [Error, DiskFull];
    an_offset_beyond_all("import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.pwrite(fd, b'x', 2**63 - 1)") => [Error, DiskFull];
    a_negative_offset("import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.lseek(fd, -1, 0)") => [Error];
    reading_beyond_all("import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.pread(fd, 10, 2**63 - 1), os.pread(fd, 2**31 - 1, 0)") => [Ok, Error, OutOfMemory];
    many_open_files("files = [open('f', 'w') for _ in range(10**5)]") => [Error];
    many_open_descriptors("import os\nwhile True: os.open('/', os.O_RDONLY)") => [Error];
    many_open_directories("import os\nx = []\nwhile True: x.append(os.scandir('/'))") => [Error, OutOfMemory];
    duplicated_descriptors("import os\nwhile True: os.dup(1)") => [Error];
    closing_everything("import os\nfor n in range(5000):\n    try: os.close(n)\n    except OSError: pass\nos.listdir('/')") => [Ok, Error, Killed];
    closing_everything_then_opening("import os\nos.closerange(0, 5000)\nfor n in range(10): os.open('/workspace/kept.txt', os.O_RDONLY)") => [Ok, Error, Killed];
    deep_directories("import os\nfor n in range(100_000):\n    os.mkdir('d'); os.chdir('d')") => [Ok, Error, Timeout];
    deep_directories_and_back("import os, shutil\nfor n in range(1500):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/workspace')\nshutil.rmtree('d')\nos.listdir()") => [Ok, Error];
    removing_the_working_directory("import os\nos.mkdir('d'); os.chdir('d'); os.rmdir('/workspace/d')\nopen('f', 'w')") => [Error];
    removing_the_workspace("import os, shutil\nos.chdir('/')\nshutil.rmtree('/workspace')") => [Ok, Error];
    removing_everything("import shutil, os\nfor name in os.listdir('/'): shutil.rmtree('/' + name, ignore_errors=True)\nimport textwrap, wave") => [Ok, Error];
    renaming_everything("import os\nfor name in os.listdir('/'):\n    try: os.rename('/' + name, '/x' + name)\n    except OSError as e: print(name, e)") => [Ok];
    a_link_to_itself("import os\nos.symlink('s', 's')\nopen('s')") => [Error];
    links_in_a_ring("import os\nos.symlink('b', 'a'); os.symlink('a', 'b')\nos.stat('a')") => [Error];
    a_tower_of_links("import os\nos.symlink('/workspace/kept.txt', 's0')\nfor n in range(100): os.symlink(f's{n}', f's{n + 1}')\nopen('s100')") => [Error];
    links_that_double("import os\nos.mkdir('d')\nfor n in range(40): os.symlink('/'.join(['..', 'workspace', f's{n - 1}' if n else 'd'] * 20), f's{n}')\nos.stat('s39')") => [Ok, Error];
    a_long_name("open('x' * 5000, 'w')") => [Error];
    a_long_path("open('x/' * 5_000 + 'y', 'w')") => [Error];
    a_huge_path("open('x' * 50_000_000, 'w')") => [Error, OutOfMemory, Timeout];
    a_zero_in_a_path("import os\nopen(b'a\\0b', 'w')") => [Error];
    an_empty_path("open('', 'w')") => [Error];
    names_of_dots("import os\nfor name in '.', '..', '/', '//', './', '../..':\n    for f in os.rmdir, os.unlink, os.mkdir:\n        try: f(name)\n        except OSError: pass") => [Ok];
    names_that_are_not_utf8("import os\nfor name in b'\\xff', b'a\\xc3', '\\udc80', '\\ud800':\n    for f in os.mkdir, os.stat, os.unlink, os.listdir:\n        try: f(name)\n        except (OSError, UnicodeError): pass") => [Ok];
    special_files("import os\ngetattr(os, 'mkfifo', lambda *a: None)('p')\ngetattr(os, 'mknod', lambda *a: None)('n')") => [Ok, Error];
    permissions("import os\nfor f, a in ('chmod', (0,)), ('chown', (0, 0)), ('chroot', ()), ('umask', ()):\n    try: getattr(os, f)('/workspace/kept.txt', *a)\n    except Exception as e: print(f, e)") => [Ok];
    writing_to_the_library("open('/python/json/__init__.py', 'w').write('evil')") => [Error];
    removing_the_library("import shutil\nshutil.rmtree('/python')") => [Error];
    renaming_the_library("import os\nos.rename('/python', '/workspace/python')") => [Error];
    writing_to_the_zones("open('/usr/share/zoneinfo/UTC', 'w')") => [Error];
    devices("for path in '/dev/null', '/dev/zero', '/dev/mem', '/proc/self/mem', '/proc/self/environ', '/sys/kernel':\n    try: open(path)\n    except OSError: pass\n    else: raise SystemError(path)") => [Ok];
    writing_while_reading("with open('f', 'w+') as f:\n    f.write('x' * 100)\n    f.seek(0)\n    for line in f: f.write(line)") => [Error, Ok, OutOfMemory, Timeout];
    a_full_quota("import os\ntry:\n    with open('a', 'wb') as f:\n        while True: f.write(bytes(1_000_000))\nexcept OSError: pass\nfor n in range(1000):\n    try: open(f'b{n}', 'w').write('x' * 10_000)\n    except OSError: pass\nraise ValueError") => [Error];
    times("import os\nfor t in (0, -1, 2**63 - 1, -2**63, 2**70, 1e300):\n    try: os.utime('/workspace/kept.txt', (t, t))\n    except (OSError, OverflowError, ValueError): pass\n    try: os.utime('/workspace/kept.txt', ns=(int(t), int(t)))\n    except (OSError, OverflowError, ValueError): pass\nos.stat('/workspace/kept.txt')\nNone") => [Ok];
}

raising! {
    the_hosts_password_file("open('/etc/passwd').read()") => "FileNotFoundError";
    the_hosts_password_file_from_below("open('../../etc/passwd').read()") => "FileNotFoundError";
    the_hosts_password_file_from_far_below("open('../' * 500 + 'etc/passwd').read()") => "FileNotFoundError";
    a_link_to_the_host("import os\nos.symlink('/etc/passwd', 's')\nopen('s').read()") => "FileNotFoundError";
    a_link_out_of_the_tree("import os\nos.symlink('../../../../../etc', 's')\nopen('s/passwd').read()") => "FileNotFoundError";
}

/// A directory to mount and, beside it, a secret that must not be reached.
struct Host {
    directory: TempDir,
}

const SECRET: &str = "the host's own secret";

impl Host {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("mount")).unwrap();
        fs::write(directory.path().join("mount/in.txt"), "in").unwrap();
        fs::write(directory.path().join("secret.txt"), SECRET).unwrap();
        let mount = directory.path().join("mount");
        symlink("../secret.txt", mount.join("up")).unwrap();
        symlink(directory.path().join("secret.txt"), mount.join("absolute")).unwrap();
        symlink("..", mount.join("parent")).unwrap();
        symlink("/", mount.join("root")).unwrap();
        symlink("loop", mount.join("loop")).unwrap();
        Self { directory }
    }

    fn hostile(&self, access: belljar::MountAccess) -> Hostile {
        let mount = belljar::Mount { host: self.directory.path().join("mount"), guest: "/m".into(), access };
        Hostile::under(Policy { mounts: vec![mount], ..Hostile::policy() })
    }

    fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(self.directory.path().join("secret.txt")).unwrap(), SECRET);
        let beside: Vec<_> = fs::read_dir(self.directory.path()).unwrap().collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
    }
}

/// Tries every way out of a mount that has links in it; prints what it found.
const ESCAPE: &str = "
import os
found = []
secret = SECRET_PATH
ways = ['/m/up', '/m/absolute', '/m/parent/secret.txt', '/m/root' + secret, '/m/../secret.txt', '/m/./../secret.txt',
        '/m/in.txt/../../secret.txt', '/m/loop', '/m/parent/mount/up', secret, '/m/' + secret, '/m/parent/../secret.txt']
def attempt(function, *args):
    try: found.append((function.__name__, args, function(*args)))
    except (OSError, ValueError): pass
def read(path):
    with open(path) as file: return file.read()
def write(path):
    with open(path, 'r+') as file: file.write('overwritten')
    return 'written'
def create(path):
    with open(path, 'x') as file: file.write('created')
    return 'created'
for way in ways:
    attempt(read, way); attempt(write, way)
for way in '/m/parent/new', '/m/root/tmp/belljar-escape', '/m/../new', '/m/parent/../new':
    attempt(create, way) if not way.startswith('/m/..') else None
attempt(os.listdir, '/m/parent'); attempt(os.listdir, '/m/root'); attempt(os.listdir, '/m/root/etc')
attempt(os.rename, '/m/in.txt', '/m/parent/moved'); attempt(os.link, '/m/up', '/m/hard')
os.chdir('/m')
attempt(read, '../secret.txt'); attempt(read, 'parent/secret.txt'); attempt(os.listdir, 'parent')
try:
    os.symlink(secret, '/m/mine'); attempt(read, '/m/mine'); attempt(write, '/m/mine')
    os.symlink('..', '/m/above'); attempt(read, '/m/above/secret.txt'); attempt(os.listdir, '/m/above')
except OSError: pass
fd = os.open('/m', os.O_RDONLY)
for way in '../secret.txt', 'up', 'parent/secret.txt', secret:
    try: found.append(('openat', way, os.open(way, os.O_RDONLY, dir_fd=fd)))
    except (OSError, NotImplementedError, TypeError, ValueError): pass
os.close(fd)
os.chdir('/workspace')
found";

fn escape(host: &Host) -> String {
    let secret = host.directory.path().join("secret.txt");
    ESCAPE.replace("SECRET_PATH", &format!("{:?}", secret.to_str().unwrap()))
}

#[test]
fn links_lead_out_of_no_read_only_mount() {
    let host = Host::new();
    host.hostile(belljar::MountAccess::ReadOnly).run(escape(&host)).said("[]");
    host.is_untouched();
}

#[test]
fn links_lead_out_of_no_writable_mount() {
    let host = Host::new();
    let outcome =
        host.hostile(belljar::MountAccess::ReadWrite).run(escape(&host)).ended(&[Status::Ok]).outcome;
    assert!(!outcome.value.unwrap().text.contains("secret"));
    host.is_untouched();
}

#[test]
fn nothing_is_renamed_across_mounts() {
    let host = Host::new();
    let code = "
import os
seen = set()
for pair in ('/m/in.txt', '/workspace/in'), ('/workspace/kept.txt', '/m/kept'), ('/m/in.txt', '/python/x'), ('/python/json', '/m/json'):
    for function in os.rename, os.link:
        try: function(*pair)
        except OSError as error: seen.add(error.strerror)
sorted(seen)";
    let outcome = host.hostile(belljar::MountAccess::ReadWrite).run(code).ended(&[Status::Ok]).outcome;
    insta::assert_snapshot!(outcome.value.unwrap().text, @"['Cross-device link']");
    host.is_untouched();
}

/// Output that is too long goes to a file whose name the guest can guess.
#[test]
fn the_overflow_file_is_no_way_into_a_mount() {
    let host = Host::new();
    let mount = host.directory.path().join("mount");
    let sandbox = builder().mount(&mount, "/m").build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session
        .run_blocking("import os\nfor n in range(20): os.symlink('/m/in.txt', f'/tmp/cell-{n}.stdout')")
        .unwrap();
    let outcome = session.run_blocking("print('x' * 5_000_000)").unwrap();
    assert_eq!(outcome.status, Status::Ok);
    assert_eq!(fs::read_to_string(mount.join("in.txt")).unwrap(), "in");
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("import os\nfor n in range(20): os.mkdir(f'/tmp/cell-{n}.stdout')").unwrap();
    let outcome = session.run_blocking("print('x' * 5_000_000)").unwrap();
    assert_eq!((outcome.status, outcome.stdout_cut.unwrap().rest), (Status::Ok, None));
    host.is_untouched();
}

#[test]
fn a_writable_mount_has_a_quota() {
    let host = Host::new();
    let mount = belljar::Mount {
        host: host.directory.path().join("mount"),
        guest: "/m".into(),
        access: belljar::MountAccess::ReadWrite,
    };
    let policy = Policy { mounts: vec![mount], file_bytes: 1 << 20, file_count: 100, ..Hostile::policy() };
    let code = "
def fill():
    with open('/m/big', 'wb') as file:
        while True: file.write(bytes(100_000))
def crowd():
    for n in range(10_000): open(f'/m/f{n}', 'w').close()
seen = []
for function in fill, crowd:
    try: function()
    except OSError: seen.append(function.__name__)
seen";
    Hostile::under(policy).run(code).said("['fill', 'crowd']");
    assert!(fs::metadata(host.directory.path().join("mount/big")).unwrap().len() <= 1 << 20);
    assert!(fs::read_dir(host.directory.path().join("mount")).unwrap().count() < 150);
}

#[test]
fn special_files_of_the_host_do_not_block() {
    let host = Host::new();
    let fifo = host.directory.path().join("mount/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(host.directory.path().join("mount/socket")).unwrap();
    let code = "
for name in 'fifo', 'socket':
    for mode in 'rb', 'r+b', 'wb', 'ab':
        try: open('/m/' + name, mode).read(1)
        except OSError: pass";
    host.hostile(belljar::MountAccess::ReadWrite).run(code).ended(&[Status::Ok]);
}

#[test]
fn a_swapped_link_leads_nowhere() {
    let host = Host::new();
    let mount = host.directory.path().join("mount");
    let swapped = mount.join("swap");
    fs::create_dir(&swapped).unwrap();
    fs::write(swapped.join("secret.txt"), "harmless").unwrap();
    let session = builder().mount(&mount, "/m").build_blocking().unwrap().session_blocking().unwrap();
    session.run_blocking("import os\nfd = os.open('/m/swap', os.O_RDONLY)\nos.chdir('/m/swap')").unwrap();
    fs::rename(&swapped, mount.join("aside")).unwrap();
    symlink("..", &swapped).unwrap();
    let seen = text(
        &session,
        "
seen = []
for path in 'secret.txt', '/m/swap/secret.txt':
    try: seen.append(open(path).read())
    except OSError: seen.append(None)
seen",
    );
    assert!(!seen.contains("secret"), "{seen}");
}
