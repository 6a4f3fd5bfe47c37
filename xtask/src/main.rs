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
    step("building", cargo(["build", "--release", "--package", "belljar-cli"]))?;
    step("making the interpreter", belljar(["run", "-c", "print('the interpreter works')"]))?;
    step("testing the guest kernel", &mut guest_tests()?)?;
    step("testing the documentation", cargo(["test", "--release", "--doc", "--workspace", "--quiet"]))?;
    step("testing", &mut rust_tests())
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
