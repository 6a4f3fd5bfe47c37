//! System calls, capabilities, limits, devices: what a session could ask the kernel for.
//!
//! Each list is checked in a cell and in a shell command, which come into the jail by different ways.

use belljar_engine::State;

use crate::Session;

/// Runs Python in the interpreter, and again in one that a command starts.
fn both_ways(code: &str) {
    let mut session = Session::new();
    session.check(code);
    let program = format!("{}\n{code}", include_str!("attack.py"));
    session
        .on_guest("a program", move |guest| guest.write_file("/tmp/program.py", program.as_bytes()).unwrap());
    let report = session.command("python3 /tmp/program.py");
    assert_eq!(report.exit_code, Some(0), "{report:#?}");
    session.survives();
}

#[test]
fn system_calls_that_lead_out_are_refused() {
    both_ways(
        r#"
x86 = os.uname().machine == "x86_64"
numbers = {
    "ptrace": (101, 117), "syslog": (103, 116), "pivot_root": (155, 41), "adjtimex": (159, 171),
    "chroot": (161, 51), "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39),
    "swapon": (167, 224), "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "init_module": (175, 105), "delete_module": (176, 106), "quotactl": (179, 60), "clock_settime": (227, 112),
    "kexec_load": (246, 104), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "move_pages": (279, 239), "unshare": (272, 97), "vmsplice": (278, 75), "perf_event_open": (298, 241),
    "fanotify_init": (300, 262), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266), "setns": (308, 268), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "finit_module": (313, 273), "seccomp": (317, 277),
    "memfd_create": (319, 279), "kexec_file_load": (320, 294), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "clone3": (435, 435), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "mount_setattr": (442, 442), "memfd_secret": (447, 447),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mbind": (237, 235),
    "migrate_pages": (256, 238), "lookup_dcookie": (212, 18), "rseq_of_tomorrow": (600, 600),
}
if x86:
    numbers.update({"iopl": (172,), "ioperm": (173,), "modify_ldt": (154,), "uselib": (134,), "_sysctl": (156,),
                    "create_module": (174,), "ustat": (136,), "sysfs": (139,), "x32 getpid": (0x40000000 + 39,)})
wrong = {}
for name, places in numbers.items():
    said = syscall(places[0 if x86 else 1], 0, 0, 0, 0, 0, 0)
    if said not in (errno.EPERM, errno.ENOSYS):
        wrong[name] = errno.errorcode.get(said, said)
assert not wrong, wrong
"#,
    );
}

#[test]
fn no_namespaces_can_be_made() {
    both_ways(
        r#"
CLONE, UNSHARE, SETNS = {"x86_64": (56, 272, 308)}.get(os.uname().machine, (220, 97, 268))
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x10020000):
    assert syscall(CLONE, flag | signal.SIGCHLD, 0, 0, 0, 0) == errno.EPERM, hex(flag)
    # The upper half of the register doesn't hide it.
    assert syscall(CLONE, flag | signal.SIGCHLD | 1 << 40, 0, 0, 0, 0) == errno.EPERM, hex(flag)
    assert syscall(UNSHARE, flag) == errno.EPERM, hex(flag)
    assert syscall(435, ctypes.create_string_buffer(struct.pack("<11Q", flag, *[0] * 10), 88), 88) == errno.ENOSYS
for name in os.listdir("/proc/self/ns"):
    descriptor = os.open("/proc/self/ns/" + name, os.O_RDONLY)
    assert syscall(SETNS, descriptor, 0) == errno.EPERM, name
    os.close(descriptor)
for name in os.listdir("/proc/1/ns") if os.access("/proc/1/ns", os.R_OK) else ():
    assert error_of(os.open, "/proc/1/ns/" + name, os.O_RDONLY) in ("EACCES", "EPERM"), name
assert subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0
assert open("/proc/sys/user/max_user_namespaces").read().strip() == "0"
"#,
    );
}

/// `int 0x80` has other numbers for the same calls.
#[test]
fn the_other_table_of_system_calls_is_closed() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let mut session = Session::new();
    session.check(
        r#"
import mmap
def old_call():
    # mov eax, 20 (getpid); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if call() >= 0: os._exit(99)
# Ended by the filter, or by a kernel that doesn't know them.
assert in_child(old_call) in (-signal.SIGSYS, -signal.SIGSEGV, 0), in_child(old_call)
"#,
    );
    session.survives();
}

#[test]
fn there_are_no_sockets_but_unix_and_inet() {
    both_ways(
        r#"
AF = {"netlink": 16, "packet": 17, "vsock": 40, "alg": 38, "bluetooth": 31, "can": 29, "tipc": 30, "xdp": 44,
      "key": 15, "rds": 21, "nfc": 39, "ax25": 3, "rose": 11, "ipx": 4, "appletalk": 5, "x25": 9, "kcm": 41, "qipcrtr": 42, "smc": 43}
for name, family in AF.items():
    for kind in (1, 2, 3, 5):
        assert error_of(socket.socket, family, kind) == "EPERM", (name, kind)
for family in (socket.AF_INET, socket.AF_INET6):
    for protocol in (1, 6, 17, 58, 255):
        assert error_of(socket.socket, family, socket.SOCK_RAW, protocol) in ("EPERM", "EPROTONOSUPPORT"), protocol
"#,
    );
}

/// A pair is two sockets, and what isn't there yet is loaded for it.
#[test]
fn pairs_of_sockets_are_unix_pairs() {
    both_ways(
        r#"
SOCKETPAIR = {"x86_64": 53}.get(os.uname().machine, 199)
two = ctypes.create_string_buffer(8)
wrong = {f: errno.errorcode[e] for f in range(2, 46) if (e := syscall(SOCKETPAIR, f, 1, 0, two)) not in (errno.EPERM,)}
assert not wrong, wrong
"#,
    );
}

/// Other protocols are modules that the kernel loads when they are asked for.
#[test]
fn protocols_are_those_of_the_internet() {
    both_ways(
        r#"
wrong = {}
for kind, protocol in ((1, 132), (5, 132), (6, 33), (2, 136), (2, 115), (1, 262), (2, 1), (1, 256)):
    for family in (socket.AF_INET, socket.AF_INET6):
        said = error_of(socket.socket, family, kind, protocol)
        if said != "EPERM": wrong[family, kind, protocol] = said
assert not wrong, wrong
"#,
    );
}

#[test]
fn no_capabilities_and_no_way_to_get_some() {
    both_ways(
        r#"
for process in ("self", *map(str, others())):
    try:
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{process}/status").read().splitlines() if ":\t" in line)
    except FileNotFoundError:
        continue
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, (process, name, status[name])
    assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2", status
    assert status["Uid"].split() == ["1000"] * 4 and status["Gid"].split() == ["1000"] * 4, status
    assert status["Groups"].split() in ([], ["65534"]), status
assert error_of(os.setuid, 0) and error_of(os.setgid, 0) and error_of(os.setgroups, [0])
for number in range(64):
    assert syscall({"x86_64": 157}.get(os.uname().machine, 167), 47, 2, number, 0, 0) != 0  # PR_CAP_AMBIENT_RAISE
for program in ("su", "mount", "umount", "passwd", "chsh", "newgrp", "sudo", "pkexec"):
    for directory in ("/usr/bin", "/bin", "/usr/sbin"):
        if os.path.exists(f"{directory}/{program}"):
            done = subprocess.run([f"{directory}/{program}", "root"], input=b"", capture_output=True, timeout=20)
            assert b"uid=0" not in done.stdout and (done.returncode != 0 or program in ("mount",)), (program, done)
# No program gets the bit set, whoever it may belong to on the host.
source = "/bin/id" if os.path.exists("/bin/id") else "/usr/bin/id"
open("id", "wb").write(open(source, "rb").read())
os.chmod("id", 0o755)
for mode in (0o4755, 0o2755, 0o6755): assert error_of(os.chmod, "id", mode) == "EPERM", mode
assert subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout == "1000\n"
"#,
    );
}

#[test]
fn limits_are_as_promised() {
    both_ways(
        r#"
import resource
for which, most in (("CORE", 0), ("NOFILE", 512), ("MEMLOCK", 64 << 10), ("MSGQUEUE", 64 << 10), ("SIGPENDING", 1024),
                    ("NPROC", 256 + 8 + 6)):
    number = getattr(resource, "RLIMIT_" + which, None) or {"MSGQUEUE": 12, "SIGPENDING": 11}[which]
    assert resource.getrlimit(number) == (most, most), (which, resource.getrlimit(number))
    try:
        resource.setrlimit(number, (most + 1, most + 1))
        raise AssertionError(which)
    except (ValueError, OSError):
        pass
data = resource.getrlimit(resource.RLIMIT_DATA)
assert 512 << 20 <= data[1] <= 1 << 30, data
"#,
    );
}

#[test]
fn time_and_names_belong_to_the_host() {
    both_ways(
        r#"
assert error_of(time.clock_settime, time.CLOCK_REALTIME, 1.0) == "EPERM"
assert error_of(socket.sethostname, "mine") == "EPERM"
assert socket.gethostname() == "belljar"
before = open("/proc/sys/kernel/hostname").read()
for path in ("kernel/hostname", "kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory", "fs/file-max",
             "net/ipv4/ip_forward", "net/ipv4/ping_group_range", "user/max_user_namespaces"):
    try:
        open("/proc/sys/" + path, "r+").write("1")
        raise AssertionError(path)
    except OSError:
        pass
writable = []
for directory, _, names in os.walk("/proc/sys"):
    for name in names:
        try:
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY))
            writable.append(os.path.join(directory, name))
        except OSError:
            pass
assert not writable, (len(writable), writable[:30])
for path in ("sysrq-trigger", "kcore", "kmem", "kpagemap", "acpi", "scsi/scsi", "timer_list", "irq/0/smp_affinity"):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            descriptor = os.open("/proc/" + path, flags)
        except OSError:
            continue
        try:
            assert flags == os.O_RDONLY and not os.read(descriptor, 100), path
        except OSError:
            pass
"#,
    );
}

#[test]
fn devices_are_few_and_none_can_be_made() {
    both_ways(
        r#"
import stat
assert sorted(os.listdir("/dev")) == ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
for place in ("/workspace/n", "/tmp/n", "/dev/n", "/dev/shm/n"):
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        assert error_of(os.mknod, place, kind | 0o666, os.makedev(1, 1)) in ("EPERM", "EACCES", "EROFS"), place
        assert error_of(os.mknod, place, kind | 0o666, os.makedev(8, 0)) in ("EPERM", "EACCES", "EROFS"), place
assert not os.path.exists("/sys") or not os.listdir("/sys")
for path in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"):
    assert error_of(os.unlink, path) and error_of(os.chmod, path, 0), path
"#,
    );
}

#[test]
fn writing_is_possible_where_it_is_meant_to_be() {
    both_ways(
        r#"
for directory in ("/", "/belljar", "/belljar/belljar_native", "/usr", "/usr/bin", "/usr/lib", "/data", "/data/site-packages",
                  "/etc", "/dev", "/proc", "/root", "/home", "/run", "/var/tmp", "/own", "/fresh", "/mnt", "/opt"):
    if not os.path.isdir(directory): continue
    for action in (lambda p: open(p, "x"), os.mkdir, lambda p: os.symlink("x", p), os.mkfifo):
        assert error_of(action, directory + "/planted") in ("EROFS", "EACCES", "EPERM", "ENOENT"), directory
for path in ("/etc/passwd", "/usr/bin/env", "/belljar/seccomp.bpf", "/etc/resolv.conf", os.path.realpath(sys.executable)):
    for action in (lambda p: open(p, "r+b"), os.unlink, lambda p: os.rename(p, "/tmp/x"), lambda p: os.chmod(p, 0o777),
                   lambda p: os.utime(p), lambda p: os.truncate(p, 0), lambda p: os.link(p, "/workspace/linked")):
        assert error_of(action, path) in ("EROFS", "EACCES", "EPERM", "EXDEV", "ENOENT", "ETXTBSY"), path
"#,
    );
}

#[test]
fn a_filter_of_ones_own_locks_nobody_else_out() {
    // Even where code may restrict itself further, the session goes on from before.
    let mut session = Session::new();
    session.check("assert syscall(157, 22, 1) if os.uname().machine == 'x86_64' else True");
    let report = session.run("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); resource.setrlimit(resource.RLIMIT_DATA, (0, 0)); x = bytearray(1 << 26)");
    if report.state == State::Kept {
        // Its own limits are its own doing.
        session.run("import os; os._exit(0)");
    }
    session.run("import os; os._exit(0)");
    assert_eq!(session.value("6 * 7"), "42");
}
