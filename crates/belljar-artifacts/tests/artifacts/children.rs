//! Other processes that use the same store.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Says to a child where its store is.
const STORE: &str = "BELLJAR_TEST_STORE";
const SEED: &str = "BELLJAR_TEST_SEED";

/// A child that is ready, with what it says.
pub(crate) struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    /// The test of this name in a process of its own. It is one that is ignored otherwise.
    pub(crate) fn start(test: &str, store: &Path, seed: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(STORE, store)
            .env(SEED, seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, said };
        assert_eq!(process.hear().as_deref(), Some("ready"), "{:?}", process.child.wait());
        process
    }

    /// The next thing that it says; nothing if it is dead.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.said.read_line(&mut line).unwrap();
            if line.is_empty() {
                return None;
            }
            if let Some(said) = line.strip_prefix("> ") {
                // A line that was cut off by death wasn't said.
                return said.strip_suffix('\n').map(str::to_owned);
            }
        }
    }

    /// Kills it, and returns what else it said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9), "it ended by itself");
        let mut lines = Vec::new();
        while let Some(line) = self.hear() {
            lines.push(line);
        }
        lines
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// The place of a child's store, and its seed; nothing in a process that isn't one.
pub(crate) fn child() -> Option<(PathBuf, u64)> {
    let store = std::env::var_os(STORE)?.into();
    // A failure must not look like the end that the parent brings.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(io::stderr(), "{panic}");
        std::process::abort();
    }));
    Some((store, std::env::var(SEED).unwrap().parse().unwrap()))
}

/// Not by `println`: what a test prints may be kept back.
pub(crate) fn say(line: &str) {
    io::stdout().write_all(format!("\n> {line}\n").as_bytes()).unwrap();
}
