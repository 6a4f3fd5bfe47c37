//! What of the host, and of other sessions, could be seen or reached.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::Session;

#[test]
fn nothing_of_the_host_can_be_connected_to() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("belljar-attack-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let named = UnixListener::bind(&path).unwrap();
    tcp.set_nonblocking(true).unwrap();
    everywhere.set_nonblocking(true).unwrap();
    hidden.set_nonblocking(true).unwrap();
    named.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let mut session = Session::new();
    let ports = [tcp.local_addr().unwrap().port(), everywhere.local_addr().unwrap().port()];
    session.check(&format!(
        r#"
def connect(family, address):
    with socket.socket(family) as one:
        one.settimeout(2)
        return one.connect(address)
for port in {ports:?}:
    for host in ("127.0.0.1", "0.0.0.0", "127.0.0.2", "localhost"):
        assert error_of(connect, socket.AF_INET, (host, port)) == "ECONNREFUSED", (host, port)
assert error_of(connect, socket.AF_UNIX, "\0{name}") == "ECONNREFUSED"
assert error_of(connect, socket.AF_UNIX, {path:?}) == "ENOENT"
with socket.socket(type=socket.SOCK_DGRAM) as one:
    one.sendto(b"hello", ("127.0.0.1", {udp}))
for host in ("1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1", "255.255.255.255", "224.0.0.1"):
    assert error_of(connect, socket.AF_INET, (host, 80)) in ("ENETUNREACH", "EHOSTUNREACH", "EACCES"), host
assert error_of(connect, socket.AF_INET6, ("2606:4700:4700::1111", 80)) in ("ENETUNREACH", "EADDRNOTAVAIL"), host
assert [name for _, name in socket.if_nameindex()] == ["lo"] if not error_of(socket.if_nameindex) else True
assert len(open("/proc/net/route").read().splitlines()) == 1
assert sorted(line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]) == ["lo"]
try:
    socket.getaddrinfo("example.com", 80)
    raise AssertionError
except socket.gaierror:
    pass
# Its own loopback works.
server = socket.create_server(("127.0.0.1", 0))
connect(socket.AF_INET, server.getsockname())
# Lists of the host's sockets are its own.
assert "{name}" not in open("/proc/net/unix").read()
"#,
        path = path.to_str().unwrap(),
        udp = udp.local_addr().unwrap().port(),
    ));
    assert!(
        tcp.accept().is_err()
            && everywhere.accept().is_err()
            && hidden.accept().is_err()
            && named.accept().is_err()
    );
    assert!(udp.recv(&mut [0; 10]).is_err());
    session.survives();
}

/// What this process has in its environment and arguments is nowhere in there.
#[test]
fn no_secret_of_the_supervisor_is_seen() {
    const SECRET: &str = "BELLJAR_TEST_SECRET";
    if std::env::var_os(SECRET).is_none() {
        // Only a process that was started with it has it where `/proc` shows it.
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "attacks_host::no_secret_of_the_supervisor_is_seen", "--nocapture"]);
        let output = child.env(SECRET, "correct-horse-battery").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let mut session = Session::new();
    session.check(
        r#"
import re
needle = re.compile(b"correct-horse|BELLJAR_TEST|no_secret_of_the_supervisor")
found, looked = [], 0
for top, directories, names in os.walk("/proc"):
    # Those of this process have the pattern itself in memory.
    directories[:] = [d for d in directories if d not in ("task", "fd", "map_files", "sys", "self", "thread-self", str(os.getpid()))]
    if top.count("/") > 3: directories[:] = []
    for name in names:
        if name in ("kmsg", "kpagecount", "kpageflags", "kpagecgroup", "pagemap", "mem", "kcore", "trace_pipe"): continue
        path = os.path.join(top, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            data = os.read(descriptor, 1 << 20)
            looked += 1
            if needle.search(data): found.append(path)
        except OSError:
            pass
        finally:
            os.close(descriptor)
assert looked > 50 and not found, (looked, found)
assert not [name for name in os.environ if "BELLJAR_TEST" in name], dict(os.environ)
pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
assert len(pids) < 20 and max(pids) < 1000 and os.getppid() in (0, 1), pids
names = {open(f"/proc/{pid}/comm").read().strip() for pid in pids}
assert all(name.startswith(("python", "belljar-jail", "exe", "4", "bash")) for name in names), names
"#,
    );
    let report = session.command("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'");
    assert!(!report.stdout.text.contains("correct-horse"), "{report:#?}");
}

#[test]
fn files_of_the_host_are_absent() {
    let directory = tempfile::Builder::new().prefix("belljar-host-secret").tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "4711").unwrap();
    let mut session = Session::new();
    let path = directory.path().to_str().unwrap();
    session.check(&format!(
        r#"
for path in ("/home", "/root", "/var/tmp", "/data/site-packages"):
    assert not os.path.exists(path) or os.listdir(path) == [], path
for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/work", "/boot", "/var/log", "/var/lib", "/var/run", "/srv", "/media",
             "/lost+found", "/.dockerenv", "/sys/kernel", {path:?}, "/own/workspace", "/fresh/usr"):
    assert not os.path.exists(path), path
assert open("/etc/passwd").read().count("\n") == 3
assert "root" not in open("/etc/hosts").read()
for root in ("/proc/self/root", "/proc/self/cwd/../../../../..", "/proc/thread-self/root", "/../../.."):
    assert os.path.samefile(root, "/") and sorted(os.listdir(root)) == sorted(os.listdir("/")), root
os.chdir("/")
for _ in range(100): os.chdir("..")
assert os.path.samefile(".", "/")
os.chdir("/workspace")
expected = {{"app", "belljar", "bin", "data", "dev", "etc", "fresh", "home", "lib", "lib32", "lib64", "libx32", "opt", "own", "proc", "root", "run", "sbin", "session", "tmp", "usr", "var", "workspace"}}
assert set(os.listdir("/")) <= expected, os.listdir("/")
"#
    ));
    session.survives();
}

#[test]
fn two_sessions_share_nothing() {
    let (mut one, mut other) = (Session::new(), Session::new());
    one.check(
        r#"
secret = "swordfish-" + "4711"
for place in ("/workspace", "/tmp", "/dev/shm"):
    open(place + "/of-one", "w").write(secret)
hidden = socket.socket(socket.AF_UNIX); hidden.bind("\0of-one"); hidden.listen()
server = socket.create_server(("127.0.0.1", 4711))
child = os.fork()
if child == 0:
    time.sleep(1000)
    os._exit(0)
"#,
    );
    other.check(
        r#"
for place in ("/workspace", "/tmp", "/dev/shm"):
    assert not os.path.exists(place + "/of-one")
def connect(family, address):
    with socket.socket(family) as one: one.connect(address)
assert error_of(connect, socket.AF_INET, ("127.0.0.1", 4711)) == "ECONNREFUSED"
assert error_of(connect, socket.AF_UNIX, "\0of-one") == "ECONNREFUSED"
ours = {1, os.getpid(), *others()}
for pid in range(1, 5000):
    if pid not in ours:
        assert error_of(os.kill, pid, 9) == "ESRCH", pid
"#,
    );
    let said = other.command("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; ls -R /tmp /dev/shm /workspace");
    assert!(!said.stdout.text.contains("swordfish") && !said.stdout.text.contains("of-one"), "{said:#?}");
    assert_eq!(one.value("secret"), "'swordfish-4711'");
    drop(one);
    other.survives();
}

/// Sends as many descriptors as can be sent, which nobody receives.
const UNDER_WAY: &str = r#"
import array
keep = []
def fill():
    while True:
        a, b = socket.socketpair()
        keep.append((a, b))
        try:
            for _ in range(20):
                a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
        except OSError as error:
            return errno.errorcode[error.errno]
fill()
"#;

/// Those of other sessions may be refused meanwhile, but nothing else may be.
///
/// Descriptors under way are counted per user, and sessions are one user to the kernel.
#[test]
fn descriptors_under_way_are_no_weapon() {
    let (mut one, mut other) = (Session::new(), Session::new());
    one.check(UNDER_WAY);
    // Processes whose limit is the usual one must not notice, wherever they are.
    other.survives();
    assert_eq!(Session::new().value("1 + 1"), "2");
    one.survives();
}

/// The same where the jail was started with the usual limit of descriptors: its own processes send some too.
#[test]
fn descriptors_under_way_with_the_usual_limit() {
    let usual = || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure lives.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        limit
    };
    let set = |soft: u64| {
        let limit = libc::rlimit { rlim_cur: soft, ..usual() };
        // SAFETY: the structure lives.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    };
    let before = usual().rlim_cur;
    set(1024);
    let engine = crate::load();
    set(before);
    let (mut one, mut other) = (Session::of(&engine, |_| {}), Session::of(&engine, |_| {}));
    one.check(UNDER_WAY);
    other.survives();
    assert_eq!(Session::of(&engine, |_| {}).value("1 + 1"), "2");
}

/// So are watches of files.
#[test]
fn watches_are_no_weapon() {
    let (mut one, mut other) = (Session::new(), Session::new());
    one.check("held = 0\nwhile held < 2000 and _libc.inotify_init() >= 0: held += 1");
    let held = one.value("held");
    // SAFETY: no pointers.
    let ours = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
    assert!(ours >= 0, "after {held} in a session there is none left for the host");
    // SAFETY: it was opened above.
    unsafe { libc::close(ours) };
    // What one has, or hasn't, the other has or hasn't.
    let same = format!("assert (_libc.inotify_init() >= 0) == ({held} > 0)");
    other.check(&same);
    one.survives();
}

/// The same for pipes: no session takes the room of another's.
#[test]
fn pipes_are_no_weapon() {
    let (mut one, mut other) = (Session::new(), Session::new());
    one.check(
        r#"
import fcntl
pipes = []
try:
    while True:
        r, w = os.pipe()
        pipes.append((r, w))
        try: fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
except OSError: pass
for r, w in pipes[:8]: os.close(r); os.close(w)
"#,
    );
    other.survives();
    other.check("r, w = os.pipe(); os.set_blocking(w, False); assert os.write(w, b'x' * 65536) == 65536, 'a pipe of a page'");
    assert_eq!(Session::new().value("1 + 1"), "2");
    one.survives();
}

/// Reads and writes of the host's neighbours go on while a session is at its worst.
#[test]
fn a_neighbour_works_on() {
    let mut quiet = Session::new();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let loud = thread::spawn(move || {
        let mut loud = Session::with(|spec| spec.limits.wall = Some(Duration::from_secs(2)));
        while !told.load(Ordering::Relaxed) {
            loud.run("while True:\n    try:\n        if os.fork() == 0:\n            while True: pass\n    except OSError: pass");
        }
        loud
    });
    for number in 0..20 {
        assert_eq!(quiet.value(&format!("{number} + kept")), (number + 41).to_string());
    }
    stop.store(true, Ordering::Relaxed);
    let mut loud = loud.join().unwrap();
    loud.survives();
    quiet.survives();
}

/// Nobody listens in there; what is written is gone.
#[test]
fn the_zygote_is_out_of_reach() {
    let mut session = Session::new();
    session.check(
        r#"
assert os.getppid() == 0
assert error_of(os.kill, 0, 0) is None  # its own group
for sign in (signal.SIGCONT, 0):
    for pid in (2, 3, 4, 5):
        if pid not in others() and pid != os.getpid():
            assert error_of(os.kill, pid, sign) == "ESRCH", pid
assert os.getsid(0) in (os.getpid(), 0) and os.getpgid(0) == os.getpid()
"#,
    );
    assert_eq!(Session::new().value("1 + 1"), "2");
}
