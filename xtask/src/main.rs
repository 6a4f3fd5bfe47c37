//! The project's own tasks: `cargo xtask <task>`.
//!
//! | task | what it does |
//! |---|---|
//! | `test` | everything that must pass: Rust suites, documentation, guest kernel |
//! | `lint` | formatting, clippy, dependencies |
//! | `bench` | `belljar bench` with the peers |
//! | `heavy` | the long versions: more fuzzing, more rounds |
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "it talks to a developer")]

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        Some("test") => test(),
        Some("lint") => lint(),
        Some("bench") => bench(),
        Some("heavy") => heavy(),
        _ => {
            eprintln!("usage: cargo xtask test|lint|bench|heavy");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// All tests. The interpreter is made first, so that no test waits for it.
fn test() -> anyhow::Result<()> {
    if !has_postgres() {
        step("installing PostgreSQL, for the tests", Command::new(root().join("scripts/install-postgres")))?;
    }
    step("building", cargo(["build", "--release", "--package", "belljar-cli"]))?;
    step("making the interpreter", belljar(["run", "-c", "print('the interpreter works')"]))?;
    step("testing the guest kernel", &mut guest_tests()?)?;
    step("testing the documentation", cargo(["test", "--release", "--doc", "--workspace", "--quiet"]))?;
    step("testing", &mut rust_tests())?;
    native()
}

/// The functional suite once more, on the native engine: as whoever runs this, and as an ordinary user where that is
/// root. What is about the other engine, or about its version of Python, is left out by name.
fn native() -> anyhow::Result<()> {
    let binary = newest_binary("functional")?;
    let left_out = std::fs::read_to_string(root().join("tests/functional/wasm-only.txt"))?;
    let left_out: Vec<&str> = left_out.lines().filter(|line| !line.starts_with('#')).map(str::trim).collect();
    let listed = Command::new(&binary).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| {
            !left_out.iter().any(|left| {
                !left.is_empty()
                    && (name == left
                        || name
                            .strip_prefix(left)
                            .is_some_and(|rest| left.ends_with("::") && !rest.is_empty()))
            })
        })
        .collect();
    let arguments = |command: &mut Command| {
        command.args(["--test-threads", "3", "--exact"]).args(&names);
        command.env("BELLJAR_TEST_ENGINE", "native").current_dir(root().join("tests"));
    };
    let mut own = Command::new(&binary);
    arguments(&mut own);
    step("testing the native engine", &mut own)?;
    if !is_root() {
        return Ok(());
    }
    // In a directory that others can reach, with a home of its own.
    let home = std::env::temp_dir().join(format!("belljar-ordinary-{}", std::process::id()));
    std::fs::create_dir(&home)?;
    let copy = home.join("functional");
    std::fs::copy(&binary, &copy)?;
    let done = Command::new("chown").args(["-R", "1234:1234"]).arg(&home).status()?;
    anyhow::ensure!(done.success(), "the ordinary user's directory can't be made");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=1234", "--regid=1234", "--clear-groups"]).arg(&copy);
    arguments(&mut other);
    other.current_dir(&home).env_clear().env("BELLJAR_TEST_ENGINE", "native").env("HOME", &home);
    other.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", &home);
    for name in [
        "PIP_INDEX_URL",
        "UV_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "NPM_CONFIG_REGISTRY",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "HTTPS_PROXY",
        "HTTP_PROXY",
    ] {
        if let Some(value) = env::var_os(name) {
            other.env(name, value);
        }
    }
    let done = step("testing the native engine as an ordinary user", &mut other);
    let _ = std::fs::remove_dir_all(&home);
    done
}

/// Whether tests will find it: on the path, or where Debian has it.
fn has_postgres() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places = env::split_paths(&path).chain(versions.map(|version| version.path().join("bin")));
    places.any(|place| place.join("initdb").exists())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// The test binary of this name that was built last.
fn newest_binary(name: &str) -> anyhow::Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let prefix = format!("{name}-");
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(target.join("release/deps"))?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.starts_with(&prefix) && !file.contains('.') {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    found.pop().map(|(_, path)| path).context("the functional suite isn't built")
}

fn rust_tests() -> Command {
    let mut nextest = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let has_nextest = nextest
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if has_nextest {
        cargo(["nextest", "run", "--release", "--workspace"])
    } else {
        eprintln!("xtask: cargo-nextest isn't installed; cargo test does the same, more slowly");
        cargo(["test", "--release", "--workspace", "--tests", "--lib", "--bins", "--no-fail-fast"])
    }
}

fn guest_tests() -> anyhow::Result<Command> {
    let python = python().context("the guest kernel's tests need python3 (3.10 or newer) on the path")?;
    let mut command = Command::new(python);
    command.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1").args([
        "-m",
        "unittest",
        "discover",
        "guest/tests",
    ]);
    Ok(command)
}

fn lint() -> anyhow::Result<()> {
    step("checking the formatting", cargo(["fmt", "--all", "--check"]))?;
    step(
        "clippy",
        cargo(["clippy", "--release", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    )?;
    if has_deny() {
        step("checking dependencies", cargo(["deny", "--offline", "check", "bans", "licenses", "sources"]))
    } else {
        eprintln!("xtask: cargo-deny isn't installed; dependencies aren't checked");
        Ok(())
    }
}

fn has_deny() -> bool {
    let mut command = cargo(["deny", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn bench() -> anyhow::Result<()> {
    step("building", cargo(["build", "--release", "--package", "belljar-cli"]))?;
    step("measuring", belljar(["bench", "--peers", "benches/peers/peers.py"]))
}

/// What takes too long for every change.
fn heavy() -> anyhow::Result<()> {
    let mut tests = rust_tests();
    tests.env("BELLJAR_HEAVY", "1").env("PROPTEST_CASES", "4000");
    step("testing, the long way", &mut tests)?;
    // Not by nextest, which ends tests that take so long.
    let mut kills =
        cargo(["test", "--release", "--package", "belljar-tests", "--test", "durability", "kill::nothing"]);
    kills.env("BELLJAR_KILL_ROUNDS", "5000");
    step("killing processes", &mut kills)?;
    bench()
}

fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

fn belljar<const N: usize>(arguments: [&str; N]) -> Command {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = Command::new(target.join("release/belljar"));
    command.current_dir(root()).args(arguments);
    command
}

fn step(what: &str, mut command: impl AsMutCommand) -> anyhow::Result<()> {
    eprintln!("\nxtask: {what}");
    let started = Instant::now();
    let status = command.command().status().with_context(|| format!("{what}: cannot be started"))?;
    if !status.success() {
        bail!("{what} failed ({status})");
    }
    eprintln!("xtask: {what} took {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Lets `step` take a command or a reference to one.
trait AsMutCommand {
    fn command(&mut self) -> &mut Command;
}

impl AsMutCommand for Command {
    fn command(&mut self) -> &mut Command {
        self
    }
}

impl AsMutCommand for &mut Command {
    fn command(&mut self) -> &mut Command {
        self
    }
}

fn python() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(OsStr::new("python3"))).find(|file| file.exists())
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
