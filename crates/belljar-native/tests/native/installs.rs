//! Packages that a session asks for while it runs, from a shop with a few of its own; and what asks for harm.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use belljar_engine::{Changes, Descent, Engine, GuestSpec};
use belljar_native::{
    InstallFailure, InstallRequest, InstalledModules, InstalledPackage, Installer, ModulesRequest,
    NativeEngine,
};

use super::Session;

/// Has `one` in two versions, `two` that depends on it, and `large`.
struct Shop {
    shelves: PathBuf,
    asked: AtomicUsize,
}

impl Shop {
    fn open() -> Self {
        let shelves = std::env::temp_dir().join(format!("belljar-native-shop-{}", std::process::id()));
        for (name, version) in [("one", "1.0"), ("one", "2.0"), ("two", "1.0"), ("large", "1.0")] {
            let package = shelves.join(format!("{name}-{version}"));
            let info = package.join(format!("{name}-{version}.dist-info"));
            fs::create_dir_all(&info).unwrap();
            fs::create_dir_all(package.join("bin")).unwrap();
            fs::create_dir_all(package.join(name)).unwrap();
            let program = format!("#!/usr/bin/env python3\nimport {name}\nprint('{name}', {name}.version)\n");
            for (file, text) in [
                (format!("bin/{name}-tool"), program.as_str()),
                ("bin/python3".to_owned(), "#!/bin/sh\necho stolen\n"),
                (format!("{name}/__init__.py"), &format!("version = '{version}'\n")),
                (format!("{name}/only_{}.py", version.replace('.', "_")), "x = 1\n"),
            ] {
                fs::write(package.join(&file), text).unwrap();
                let mode = if file.starts_with("bin/") { 0o755 } else { 0o644 };
                fs::set_permissions(package.join(&file), fs::Permissions::from_mode(mode)).unwrap();
            }
            let metadata =
                format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: A test\n");
            fs::write(info.join("METADATA"), metadata).unwrap();
            let record = format!(
                "{name}/__init__.py,,\n{name}/only_{}.py,,\nbin/{name}-tool,,\n{name}-{version}.dist-info/METADATA,,\n\
                 {name}-{version}.dist-info/RECORD,,\n../../../../outside,,\n",
                version.replace('.', "_")
            );
            fs::write(info.join("RECORD"), record).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", package.join("link")).ok();
        }
        fs::write(shelves.join("large-1.0/large/data"), vec![1; 30 << 20]).unwrap();
        Self { shelves, asked: AtomicUsize::new(0) }
    }
}

impl Installer for Shop {
    fn install(
        &self,
        request: &InstallRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<InstalledPackage>, InstallFailure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        for _ in 0..100 {
            progress(&"resolving ".repeat(100));
        }
        let mut found = Vec::new();
        for requirement in &request.requirements {
            match requirement.as_str() {
                "one" | "one==2.0" | "one>=2.0" => found.push(("one", "2.0")),
                "one==1.0" => found.push(("one", "1.0")),
                "two" | "two>=1.0" => found.extend([("one", "2.0"), ("two", "1.0")]),
                "large" => found.push(("large", "1.0")),
                "slow" => std::thread::sleep(Duration::from_secs(3)),
                other => {
                    let reason = format!("there is no {other}\u{1b}[31m");
                    return Err(InstallFailure { reason, bytes: 0 });
                }
            }
        }
        let package = |(name, version): (&str, &str)| InstalledPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            directory: self.shelves.join(format!("{name}-{version}")),
            bytes: 1000,
        };
        Ok(found.into_iter().map(package).collect())
    }

    fn install_modules(
        &self,
        request: &ModulesRequest,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<InstalledModules, InstallFailure> {
        progress("resolving");
        super::installs_node::sell(&self.shelves, request)
    }
}

pub(super) struct Place {
    pub(super) engine: NativeEngine,
    shop: Arc<Shop>,
}

pub(super) fn place() -> &'static Place {
    static PLACE: LazyLock<Place> = LazyLock::new(|| {
        let (engine, shop) = (super::load(), Arc::new(Shop::open()));
        engine.set_installer(Arc::clone(&shop) as Arc<dyn Installer>);
        Place { engine, shop }
    });
    &PLACE
}

pub(super) fn session() -> Session {
    with(|_| {})
}

pub(super) fn with(change: impl FnOnce(&mut GuestSpec)) -> Session {
    Session::of(&place().engine, |spec| {
        spec.install = true;
        change(spec);
    })
}

/// What a command says, with its exit code.
pub(super) fn said(session: &mut Session, line: &str) -> (i32, String) {
    let report = session.command(line);
    let text = report.stdout.text + &report.stderr.text;
    (report.exit_code.unwrap(), text)
}

pub(super) fn good(session: &mut Session, line: &str) -> String {
    let (code, text) = said(session, line);
    assert_eq!(code, 0, "{line}\n{text}");
    text
}

#[test]
fn packages_are_installed_listed_shown_and_removed() {
    let mut session = session();
    assert_eq!(
        good(&mut session, "pip install two"),
        "Collecting two\nSuccessfully installed one-2.0 two-1.0\n"
    );
    assert_eq!(
        session.value("import two, one\nimport one.only_2_0\none.version, one.__file__[:17]"),
        "('2.0', '/workspace/.venv/')"
    );
    assert_eq!(
        good(&mut session, "one-tool; which one-tool python3"),
        "one 2.0\n/workspace/.venv/bin/one-tool\n/workspace/.venv/bin/python3\n"
    );
    assert_eq!(good(&mut session, "uv pip list | tail -n +3"), "one     2.0\ntwo     1.0\n");
    assert_eq!(
        good(&mut session, "pip3 freeze; python -m pip freeze -q"),
        "one==2.0\ntwo==1.0\none==2.0\ntwo==1.0\n"
    );
    assert!(good(&mut session, "python3 -m pip show one").contains("Summary: A test\n"));
    let again = good(&mut session, "pip install 'one>=1,<3' two");
    assert_eq!(again.matches("Requirement already satisfied").count(), 2, "{again}");
    assert_eq!(
        good(&mut session, "uv pip install one==1.0"),
        "Uninstalled 1 package\nInstalled 1 package\n - one==2.0\n + one==1.0\n"
    );
    assert_eq!(good(&mut session, "ls .venv/lib/python3*/site-packages/one"), "__init__.py\nonly_1_0.py\n");
    good(
        &mut session,
        "touch outside; pip uninstall -y one two; test -e outside; test -z \"$(ls .venv/lib/python3*/site-packages)\"; ! test -e .venv/bin/one-tool",
    );
    good(&mut session, "! python3 -c 'import two' 2> /dev/null");
    session.survives();
}

#[test]
fn one_cell_installs_and_imports() {
    let mut session = session();
    let code = "import subprocess, sys, os\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '-q', 'one'], check=True)\nimport one\none.version, os.environ['VIRTUAL_ENV']";
    assert_eq!(session.value(code), "('2.0', '/workspace/.venv')");
    session.survives();
}

#[test]
fn what_is_installed_is_kept() {
    let mut session = session();
    good(&mut session, "pip install -q two; pip install pip");
    session.check("before = 1");
    let snapshot = session.on_guest("a snapshot", |guest| guest.snapshot().unwrap());
    let saved = snapshot.save().unwrap();
    let restored = place().engine.restore(saved).unwrap();
    let spec = GuestSpec { install: true, ..GuestSpec::default() };
    let resumed = place().engine.resume(restored.as_ref(), Arc::new(spec), Descent::Same).unwrap();
    let mut woken = Session { guest: Some(resumed), number: 100 };
    assert_eq!(woken.value("import two, one\none.version, before"), "('2.0', 1)");
    assert_eq!(woken.check("1").changes, Changes::default());
    good(
        &mut woken,
        "one-tool && pip uninstall -y two && pip install one==1.0 && test ! -e .venv/lib/python3*/site-packages/two",
    );
    session.survives();
}

#[test]
fn files_are_the_sessions_own() {
    let mut session = session();
    good(&mut session, "pip install one");
    session.check("import glob\npath, = glob.glob('.venv/lib/python3*/site-packages/one/__init__.py')\nimport os\nassert os.stat(path).st_nlink == 1 and os.stat(path).st_uid == 1000\nopen(path, 'a').write('version = 3\\n')");
    let kept = place().shop.shelves.join("one-2.0/one/__init__.py");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "version = '2.0'\n");
    assert_eq!(fs::metadata(kept).unwrap().nlink(), 1);
    assert_eq!(session.value("import one\none.version"), "3");
    // No link of a package, and nothing in place of the interpreter.
    good(&mut session, "! test -e .venv/lib/python3*/site-packages/link; python3 -c 'print(1)' | grep -q 1");
}

#[test]
fn projects() {
    let mut session = session();
    good(&mut session, "uv init --name thing . && uv add one");
    let text = good(&mut session, "cat pyproject.toml");
    assert!(
        text.contains("name = \"thing\"") && text.contains("dependencies = [\n    \"one>=2.0\",\n]"),
        "{text}"
    );
    good(
        &mut session,
        "uv remove one; ! pip show one; uv add two && rm -r .venv && uv sync && uv run python -c 'import two'",
    );
    good(
        &mut session,
        "python -m venv third && third/bin/pip install -q one==1.0 && ls third/lib/python3*/site-packages/one/only_1_0.py",
    );
    good(
        &mut session,
        "uv venv other && . other/bin/activate && test \"$VIRTUAL_ENV\" = /workspace/other && python -c 'import sys; assert sys.prefix == \"/workspace/other\"'",
    );
    good(
        &mut session,
        ". .venv/bin/activate && python -c 'import sys; assert sys.prefix == \"/workspace/.venv\"; import two'",
    );
    good(
        &mut session,
        "printf '# list\\none==1.0  # why\\n\\ntwo\\n' > requirements.txt && pip install -q -r requirements.txt",
    );
}

#[test]
fn projects_with_extras_and_groups() {
    let mut session = session();
    good(
        &mut session,
        "test ! -e .venv && uv init --python 3.99 --name thing && test \"$(which python)\" = $PWD/.venv/bin/python",
    );
    good(
        &mut session,
        "uv add --dev one==1.0 && uv add --optional more two && rm -rf .venv && uv sync && ! pip show two 2> /dev/null",
    );
    good(&mut session, "uv sync --extra more && python -c 'import one, two'");
    good(
        &mut session,
        "rm -rf .venv && uv init && uv pip install -r pyproject.toml --all-extras && python -c 'import two' && rm -rf .venv",
    );
    let (code, text) = said(&mut session, "pip install '.[more]'");
    assert!(code == 1 && text.contains("the project itself is not"), "{text}");
    good(
        &mut session,
        "python -c 'import two'; echo 'import two; print(two.version)' > script.py; uv run script.py | grep 1.0",
    );
    for (file, words) in [
        ("mkfifo pyproject.toml", "not a regular file"),
        ("ln -s /proc/self/environ pyproject.toml", "not TOML"),
        ("ln -s /etc pyproject.toml", "not a regular file"),
        ("head -c 2000000 /dev/zero > pyproject.toml", "more than"),
        ("printf 'x = %0100000d' 0 | tr 0 '[' > pyproject.toml", "not TOML"),
        ("echo '[project]\ndependencies = \"one\"' > pyproject.toml", "not"),
    ] {
        let (code, text) = said(&mut session, &format!("rm -f pyproject.toml; {file}; uv sync"));
        assert!(code != 0 && (text.contains(words) || text.contains("No `pyproject")), "{file}: {text}");
    }
    session.survives();
}

#[test]
fn what_is_refused_is_said() {
    let mut session = session();
    for (line, code, words) in [
        ("pip install nothing", 1, "ERROR: there is no nothing[31m\n"),
        ("pip install --target x one", 2, "--target"),
        ("pip install ./one.whl", 1, "not files"),
        ("pip install https://x/one.whl", 1, "not addresses"),
        ("pip install -i https://x one", 2, "index"),
        ("pip install", 1, "at least one requirement"),
        ("pip wheel one", 2, "unknown command"),
        ("uv tool install one", 2, "unknown subcommand"),
        ("uv add one", 2, "pyproject.toml"),
        ("pip install -r none.txt", 1, "requirements file"),
        ("npm view one", 1, "network"),
    ] {
        let (found, text) = said(&mut session, line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains(words), "{line}: {text}");
    }
    session.survives();
}

#[test]
fn without_permission_nothing_is_installed() {
    let mut session = with(|spec| spec.install = false);
    let (code, text) = said(&mut session, "pip install one");
    assert_eq!(
        (
            code,
            text.ends_with(
                "this session may not install packages: allow it with --allow-install (Policy.install)\n"
            )
        ),
        (1, true),
        "{text}"
    );
    assert_eq!(said(&mut session, "ls -A /run/belljar"), (0, String::new()));
    assert_eq!(said(&mut session, "uv pip install one").0, 1);
    session.survives();
}

#[test]
fn what_is_too_large_is_not_copied() {
    let mut session = with(|spec| spec.limits.file_bytes = 16 << 20);
    let (code, text) = said(&mut session, "pip install large");
    assert_eq!((code, text.contains("not enough room")), (1, true), "{text}");
    good(
        &mut session,
        "! test -e .venv/lib/python3*/site-packages/large; dd if=/dev/zero of=x bs=1M count=8 status=none; pip install one",
    );
    session.survives();
}

#[test]
fn mounts_leave_the_socket_where_it_is() {
    let directory = std::env::temp_dir().join(format!("belljar-native-mounted-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let mut session = with(|spec| {
        let access = belljar_engine::MountAccess::ReadOnly;
        spec.mounts.push(belljar_engine::Mount {
            host: directory.clone(),
            guest: "/data/in".to_owned(),
            access,
        });
    });
    good(&mut session, "pip install -q one && one-tool");
}

/// Speaks with the supervisor directly.
pub(super) const ATTACK: &str = r#"
import json, os, socket, struct, time

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect('/run/belljar/install')
    s.settimeout(30)
    return s

def ask(text):
    s = connect()
    s.sendall(text if isinstance(text, bytes) else json.dumps(text).encode() + b'\n')
    return answer(s)

def answer(s):
    data = b''
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        data += piece
        if b'"packages"' in data or b'"error"' in data:
            break
    lines = [json.loads(line) for line in data.splitlines()]
    return lines[-1] if lines else None

def request(**change):
    return {'requirements': ['one'], 'venv': '/workspace/.venv', 'site': 'lib/x', **change}
"#;

#[test]
fn requests_that_make_no_sense() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        r#"
for bad in (b'\n', b'x\n', b'null\n', b'[]\n', b'{}\n', b'{"requirements": 1}\n', b'\xff\xfe\n', b'[' * 60000 + b'\n',
            request(requirements=[]), request(requirements=['one'] * 101), request(requirements=['a' * 501]),
            request(venv='/workspace/../x'), request(venv=''), request(site='..'), request(site='/etc'), request(venv='a\0b'),
            request(installed={str(n): '1' for n in range(1001)}), b'x' * (1 << 17)):
    reply = ask(bad)
    assert reply is None or 'error' in reply, (bad[:50] if isinstance(bad, bytes) else bad, reply)
for bad in ('-r /etc/passwd', '--index-url=http://x', '/etc/passwd', './x', 'one @ file:///etc/passwd', 'one\n-r /etc/passwd', 'x.whl',
            'one @ https://x/y.whl', 'git+https://x', '${HOME}', 'requirements.txt', 'one;\0', '', ' ', '-'):
    assert 'not a requirement' in ask(request(requirements=[bad]))['error'], bad
"#,
    );
    session.survives();
    good(&mut session, "pip install one");
}

#[test]
fn a_thousand_connections_and_nobody_reads() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        r#"
for number in range(1000):
    s = connect()
    if number % 3 == 0: s.send(b'{')
    if number % 3 == 1: s.sendall(json.dumps(request()).encode() + b'\n')
    s.close()
# Descriptors that come along are nobody's.
s = connect()
socket.send_fds(s, [json.dumps(request()).encode() + b'\n'], [0] * 100)
s.close()
# Never read: hundreds of words of progress don't fit into the socket.
s = connect()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
s.sendall(json.dumps(request()).encode() + b'\n')
time.sleep(0.2)
kept_open = s
"#,
    );
    session.survives();
    let before = std::time::Instant::now();
    session.guest = None;
    assert!(before.elapsed() < Duration::from_secs(10), "it ends with the session");
}

#[test]
fn links_lead_nowhere() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        r#"
def install(**change):
    s = connect()
    s.sendall(json.dumps(request(**change)).encode() + b'\n')
    assert 'packages' in answer(s)
    s.sendall(b'{"copy": ["one", "../../two", "large"]}\n')
    data = b''
    while b'done' not in data and b'error' not in data:
        piece = s.recv(65536)
        if not piece: break
        data += piece
    return json.loads(data.splitlines()[-1])

# Out of the tree there is nothing: `/etc` is the session's own.
os.makedirs('/workspace/v')
os.symlink('/etc', '/workspace/v/lib')
os.symlink('/proc/self/root/etc', '/workspace/v/bin')
print(install(venv='/workspace/v', site='lib/x'))
os.symlink('../../../../../../../..', '/workspace/w')
print(install(venv='/workspace/w', site='lib/x'))
# In place of a directory of the package there is a link; in place of a file a directory.
os.makedirs('/workspace/u/lib/x')
os.makedirs('/workspace/target')
os.symlink('/workspace/target', '/workspace/u/lib/x/one')
assert 'error' in install(venv='/workspace/u')
assert os.listdir('/workspace/target') == []
os.unlink('/workspace/u/lib/x/one')
os.makedirs('/workspace/u/lib/x/one/__init__.py/x')
assert 'error' in install(venv='/workspace/u')
# A file that is there is replaced, and not written to.
os.makedirs('/workspace/t/lib/x/one')
open('/workspace/precious', 'w').write('kept')
os.link('/workspace/precious', '/workspace/t/lib/x/one/__init__.py')
assert install(venv='/workspace/t') == {'done': 1}
assert open('/workspace/precious').read() == 'kept'
os.mkfifo('/workspace/fifo')
os.rename('/workspace/fifo', '/workspace/t/lib/x/one/__init__.py')
assert install(venv='/workspace/t') == {'done': 1}
"#,
    );
    for path in ["/etc/x", "/lib/x", "/one", "/bin/one-tool"] {
        assert!(!Path::new(path).exists(), "{path}");
    }
    session.survives();
}

#[test]
fn a_session_ends_while_it_installs() {
    let mut session = session();
    session.check(ATTACK);
    session.check("s = connect()\ns.sendall(json.dumps(request(requirements=['slow'])).encode() + b'\\n')");
    let before = std::time::Instant::now();
    session.guest = None;
    assert!(before.elapsed() < Duration::from_secs(2), "nobody waits for it");
    let mut other = self::session();
    good(&mut other, "pip install one");
}

#[test]
fn requests_are_counted() {
    let mut session = session();
    session.check(ATTACK);
    session.check(
        "replies = [ask(request(requirements=['nothing'])) for _ in range(201)]\nassert 'no nothing' in replies[199]['error'], replies[199]\nassert 'may not ask again' in replies[200]['error']",
    );
    session.survives();
}

#[test]
fn the_socket_stays() {
    let mut session = session();
    let code = "import os, shutil\nfor act in (lambda: os.unlink('/run/belljar/install'), lambda: open('/run/belljar/x', 'w'), lambda: os.rename('/run/belljar', '/run/x'), lambda: os.mkdir('/run/belljar/y')):\n    try: act()\n    except OSError: continue\n    raise SystemError";
    session.check(code);
    good(&mut session, "pip install one");
}

/// Packages go where the workspace is; what was there before is found, and nothing else of the host is.
#[test]
fn packages_go_into_a_workspace_on_disk() {
    let thread = crate::workspaces::directory();
    let place = "/mnt/r2/bucket/threads/abc123";
    for round in 0..2 {
        let host = thread.path().to_owned();
        let mut session = with(move |spec| {
            spec.storage = belljar_engine::Storage::Disk(host);
            spec.workspace = place.to_owned();
        });
        if round == 0 {
            good(&mut session, "pip install one==1.0");
        }
        let code = "import one, os\none.version, one.__file__.startswith(os.getcwd() + '/.venv/'), os.environ['VIRTUAL_ENV']";
        assert_eq!(session.value(code), format!("('1.0', True, '{place}/.venv')"));
        assert_eq!(
            good(&mut session, "one-tool; which one-tool"),
            format!("one 1.0\n{place}/.venv/bin/one-tool\n")
        );
        let report = session.check("open(one.__file__, 'a').write('# its own\\n')");
        assert!(report.changes.created.is_empty() && report.changes.modified.is_empty(), "{report:#?}");
    }
    let venv = fs::metadata(thread.path().join(".venv/bin/one-tool")).unwrap();
    assert_eq!(venv.uid(), rustix::process::geteuid().as_raw());
    let kept = self::place().shop.shelves.join("one-1.0/one/__init__.py");
    assert!(!fs::read_to_string(kept).unwrap().contains("its own"));
    let mut session = Session::with(|_| {});
    session.check("assert not os.path.exists('.venv')");
}
