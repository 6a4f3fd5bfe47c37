//! A PostgreSQL server: one that tests share, or one of a test's own that it may mistreat.
//!
//! Each test may be a process of its own. Those that run at the same time, or soon after one another, share a server:
//! whoever needs it first starts it, everybody holds a lock on a file, and a shell that waits for that lock stops the
//! server when nobody has it any more, however they ended.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};

/// A server that is running, or was.
pub(crate) struct Server {
    programs: PathBuf,
    /// Has `data`, the sockets and a log in it.
    directory: PathBuf,
    /// Ends the server and removes its directory when this process is gone.
    guard: Option<Child>,
}

/// The server that tests share.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<(Server, File)> = OnceLock::new();
    &SHARED.get_or_init(Server::share).0
}

impl Server {
    /// One of its own.
    pub(crate) fn private() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("belljar-postgres-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        make_directory(&directory);
        let mut server = Self { programs: programs(), directory, guard: None };
        // Reads until nobody can write any more, which is when this process is gone.
        let stop = "read nothing; \"$1/pg_ctl\" stop --silent --mode=immediate --pgdata=\"$2/data\"; for try in 1 2 3; do rm -rf \"$2\" && break; sleep 1; done";
        server.guard = Some(server.shell(stop).stdin(Stdio::piped()).spawn().expect("there is a shell"));
        server.make();
        server.start();
        server
    }

    #[expect(
        clippy::zombie_processes,
        reason = "the shell outlives this process, and others use the server after it"
    )]
    fn share() -> (Self, File) {
        let above =
            env::temp_dir().join(format!("belljar-postgres-shared-{}", rustix::process::geteuid().as_raw()));
        if !above.exists() {
            // Somebody may be faster.
            let _ = fs::DirBuilder::new().mode(0o711).create(&above);
        }
        let own = rustix::process::geteuid().as_raw();
        let server = server_user().map_or(own, |(user, _)| user);
        let metadata = fs::symlink_metadata(&above).expect("the directory can be made");
        let is_ours = metadata.is_dir() && [own, server].contains(&metadata.uid());
        assert!(is_ours, "{} is somebody else's", above.display());
        give_to_server(&above);
        let users = lock_file(&above.join("users"));
        flock(&users, FlockOperation::LockShared).expect("the file can be locked");
        let starting = lock_file(&above.join("starting"));
        flock(&starting, FlockOperation::LockExclusive).expect("the file can be locked");
        let current = above.join("current");
        if let Ok(name) = fs::read_to_string(&current) {
            let server = Self { programs: programs(), directory: above.join(name), guard: None };
            if server.is_running() {
                return (server, users);
            }
            let _ = fs::remove_dir_all(&server.directory);
        }
        let name = format!("server-{}", std::process::id());
        let server = Self { programs: programs(), directory: above.join(&name), guard: None };
        let _ = fs::remove_dir_all(&server.directory);
        make_directory(&server.directory);
        // A little later than the last user: the next test may be about to begin.
        let stop = "while :; do flock \"$3/users\" true; sleep 3; \
                    flock --nonblock \"$3/users\" sh -c 'rm -f \"$3/current\"; \
                    \"$1/pg_ctl\" stop --silent --mode=immediate --pgdata=\"$2/data\"; rm -rf \"$2\" || { sleep 1; rm -rf \"$2\"; }' \
                    sh \"$@\" && exit; done";
        server.shell(stop).arg(&above).stdin(Stdio::null()).spawn().expect("there is a shell");
        server.make();
        server.start();
        fs::write(&current, &name).expect("the file can be written");
        (server, users)
    }

    /// An address of a database that nobody else has.
    pub(crate) fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.ask("postgres", &format!("DROP DATABASE IF EXISTS {name}"));
        self.ask("postgres", &format!("CREATE DATABASE {name}"));
        let socket: String =
            self.directory.to_str().expect("it is text").bytes().fold(String::new(), |text, byte| {
                if byte.is_ascii_alphanumeric() {
                    format!("{text}{}", char::from(byte))
                } else {
                    format!("{text}%{byte:02X}")
                }
            });
        format!("postgres://belljar@{socket}/{name}")
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(".s.PGSQL.5432")
    }

    /// What a statement says to a user who may do everything: a line for each row.
    pub(crate) fn ask(&self, database: &str, statement: &str) -> String {
        let done = self.client(database, statement).output().expect("psql can be started");
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{statement}: {told}{}", self.log());
        String::from_utf8(done.stdout).expect("it is text").trim().to_owned()
    }

    /// Runs a statement until what is returned is killed.
    pub(crate) fn hold(&self, database: &str, statement: &str) -> Child {
        self.client(database, statement).spawn().expect("psql can be started")
    }

    fn client(&self, database: &str, statement: &str) -> Command {
        let mut client = Command::new(self.programs.join("psql"));
        client.args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--username=belljar"]);
        client.arg("--host").arg(&self.directory).arg(format!("--dbname={database}"));
        client.arg("--command").arg(statement);
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        client
    }

    /// Ends it as a failing machine would: nothing is finished first.
    pub(crate) fn crash(&self) {
        self.control(&["stop", "--mode=immediate"]);
    }

    pub(crate) fn start(&self) {
        // Nobody but this machine, and nothing that is about power failures.
        let options = format!(
            "-k '{}' -c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=400",
            self.directory.display()
        );
        let log = self.directory.join("log");
        self.control(&["start", "--log", log.to_str().expect("it is text"), "--options", &options]);
    }

    fn make(&self) {
        let mut initdb = as_server(&self.programs.join("initdb"));
        initdb.args(["--username=belljar", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        initdb.arg("--pgdata").arg(self.directory.join("data"));
        let done = initdb.current_dir("/").stdin(Stdio::null()).output().expect("initdb can be started");
        assert!(done.status.success(), "initdb: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn is_running(&self) -> bool {
        let pid = fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
        let pid: Option<u32> = pid.lines().next().and_then(|line| line.parse().ok());
        let Some(pid) = pid else { return false };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "postgres"
            && self.client("postgres", "SELECT 1").status().is_ok_and(|status| status.success())
    }

    fn control(&self, arguments: &[&str]) {
        let mut control = as_server(&self.programs.join("pg_ctl"));
        control.args(["--silent", "--wait", "--timeout=120", "--pgdata"]).arg(self.directory.join("data"));
        control.args(&arguments[1..]).arg(arguments[0]);
        // Not to be ended with the tests' group, but by those who watch.
        control
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = control.status().expect("pg_ctl can be started");
        assert!(status.success(), "pg_ctl {arguments:?} failed: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// A shell of its own group, with the directory of programs as `$1` and that of the server as `$2`.
    fn shell(&self, script: &str) -> Command {
        let mut shell = as_server(Path::new("sh"));
        shell.args(["-c", script, "sh"]).arg(&self.programs).arg(&self.directory);
        shell.process_group(0).current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
        shell
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

/// Where Debian has them, or where they are found.
fn programs() -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    found.retain(|directory| directory.join("initdb").exists());
    found.sort();
    let on_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path).find(|directory| directory.join("initdb").exists())
    };
    let found = found.pop().or_else(on_path);
    found.expect("these tests need PostgreSQL: scripts/install-postgres installs it on Debian")
}

/// A command that runs as somebody who isn't root, as PostgreSQL wants it.
fn as_server(program: &Path) -> Command {
    let Some((user, group)) = server_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups").arg(program);
    command
}

fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let line = users.lines().find(|line| line.starts_with("postgres:")).unwrap_or("x:x:65534:65534");
    let mut fields = line.split(':').skip(2).map(|field| field.parse().expect("users have numbers"));
    Some((fields.next().expect("users have numbers"), fields.next().expect("users have groups")))
}

fn make_directory(directory: &Path) {
    fs::DirBuilder::new().mode(0o711).create(directory).expect("a directory can be made");
    give_to_server(directory);
}

fn give_to_server(directory: &Path) {
    if let Some((user, group)) = server_user() {
        std::os::unix::fs::chown(directory, Some(user), Some(group)).expect("root may give things away");
    }
}

fn lock_file(path: &Path) -> File {
    let mut options = OpenOptions::new();
    // Read by the shell that waits, which may be somebody else.
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o666).open(path);
    let file = file.expect("the file can be made");
    file.set_permissions(fs::Permissions::from_mode(0o666)).expect("the file is ours");
    file
}

#[test]
fn a_server_ends_with_the_process_that_has_it_and_comes_back_after_a_crash() {
    let server = Server::private();
    let directory = server.directory.clone();
    server.ask("postgres", "CREATE TABLE kept (x text); INSERT INTO kept VALUES ('here')");
    server.crash();
    assert!(!server.is_running());
    server.start();
    assert_eq!(server.ask("postgres", "SELECT x FROM kept"), "here");
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn the_shared_server_is_the_same_for_all_and_databases_are_not() {
    let (one, two) = (shared().database(), shared().database());
    assert_ne!(one, two);
    assert_eq!(shared().ask("postgres", "SELECT 1"), "1");
    let started = Instant::now();
    let (again, lock) = Server::share();
    assert_eq!(again.directory, shared().directory);
    drop(lock);
    let _ = writeln!(std::io::stderr(), "the server was found again in {:?}", started.elapsed());
}
