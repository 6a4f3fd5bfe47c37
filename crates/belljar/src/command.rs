//! A shell command in a session, from the caller's side.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use belljar_engine::{Command, CommandReport, Status};
use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::artifacts::{Artifact, Refused};
use crate::outcome::{Cut, OUTCOME_VERSION, Usage, stream};
use crate::policy::{check_timeout, check_variables};

/// A shell command to run beside a session's interpreter, with its files. Strings turn into it.
///
/// ```
/// use belljar::CommandRequest;
///
/// let request = CommandRequest::new("ls -l | wc -l").env("LANG", "C").directory("/workspace/src");
/// let quoted = CommandRequest::program(["echo", "two words"]);
/// assert_eq!(quoted.line, "echo 'two words'");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRequest {
    /// What `bash -lc` is given.
    pub line: String,
    /// Environment variables, beyond the session's.
    pub env: BTreeMap<String, String>,
    /// Where it runs: an absolute guest path, or one below the workspace; by default the workspace.
    pub directory: Option<String>,
    /// What it reads from standard input.
    pub stdin: Vec<u8>,
    /// How long it may take; by default as long as a cell.
    pub timeout: Option<Duration>,
}

impl CommandRequest {
    /// A line for the shell.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), ..Self::default() }
    }

    /// A program and its arguments, which no shell looks into.
    pub fn program<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Self {
        let words: Vec<String> = words.into_iter().map(|word| quoted(word.as_ref())).collect();
        Self::new(words.join(" "))
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Says where it runs.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Says what it reads from standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Says how long it may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// As the engine wants it. `timeout` is the policy's.
    pub(crate) fn checked(self, timeout: Option<Duration>) -> Result<Command, PolicyError> {
        check_timeout(self.timeout)?;
        check_variables(&self.env)?;
        if self.line.contains('\0') || self.line.trim().is_empty() {
            return Err(PolicyError::Command(self.line));
        }
        let Self { line, env, directory, stdin, timeout: own } = self;
        Ok(Command { line, env, directory, stdin, timeout: own.or(timeout) })
    }
}

impl From<&str> for CommandRequest {
    fn from(line: &str) -> Self {
        Self::new(line)
    }
}

impl From<String> for CommandRequest {
    fn from(line: String) -> Self {
        Self::new(line)
    }
}

impl From<&String> for CommandRequest {
    fn from(line: &String) -> Self {
        Self::new(line.as_str())
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// How a shell command ended, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// [`OUTCOME_VERSION`].
    pub version: u32,
    /// How it ended: `Ok` with an exit status of 0, `Error` with another.
    pub status: Status,
    /// Its exit status; 128 and the signal's number if a signal ended it.
    pub exit_code: Option<i32>,
    /// In words, why it was stopped.
    pub reason: Option<String>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// What `stdout` lacks, if it was too long.
    pub stdout_cut: Option<Cut>,
    /// What `stderr` lacks, if it was too long.
    pub stderr_cut: Option<Cut>,
    /// Guest paths of files that it made.
    pub files_created: Vec<String>,
    /// Guest paths of files that it changed.
    pub files_modified: Vec<String>,
    /// Guest paths of files that it removed.
    pub files_deleted: Vec<String>,
    /// There were more than these lists hold.
    pub files_truncated: bool,
    /// What it left under `artifacts/`, as far as it was kept.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What it left there and wasn't kept; it is still in the workspace.
    #[serde(default)]
    pub artifacts_refused: Vec<Refused>,
    /// What it used.
    pub usage: Usage,
    /// The session that it ran in.
    pub session: String,
    /// What else there is to know, in words.
    pub notes: Vec<String>,
}

impl CommandOutcome {
    pub(crate) fn new(report: CommandReport, session: String) -> Self {
        let (stdout, stdout_cut) = stream(report.stdout);
        let (stderr, stderr_cut) = stream(report.stderr);
        Self {
            version: OUTCOME_VERSION,
            status: report.status,
            exit_code: report.exit_code,
            reason: report.reason,
            stdout,
            stderr,
            stdout_cut,
            stderr_cut,
            files_created: report.changes.created,
            files_modified: report.changes.modified,
            files_deleted: report.changes.deleted,
            files_truncated: report.changes.truncated,
            artifacts: Vec::new(),
            artifacts_refused: Vec::new(),
            usage: Usage::from(report.usage),
            session,
            notes: report.notes,
        }
    }

    /// Whether it exited with 0.
    pub fn is_success(&self) -> bool {
        self.status == Status::Ok
    }

    /// The status that a command which ran this one exits with: its own, 124 after a timeout, 130 if it was
    /// interrupted, 137 if it was out of memory or killed.
    pub fn exit_status(&self) -> u8 {
        match (self.status, self.exit_code) {
            (Status::Timeout, _) => 124,
            (Status::Interrupted, _) => 130,
            (Status::OutOfMemory | Status::DiskFull, _) => 137,
            (_, Some(code)) => (code & 0xff) as u8,
            (Status::Ok, None) => 0,
            (Status::Killed, None) => 137,
            (Status::Error | Status::Exited, None) => 1,
        }
    }
}

/// Standard output.
impl fmt::Display for CommandOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        for (words, line) in [
            (&["ls", "-la", "./a"][..], "ls -la ./a"),
            (&["echo", "a b", ""], "echo 'a b' ''"),
            (&["echo", "it's", "$HOME", "*"], r"echo 'it'\''s' '$HOME' '*'"),
        ] {
            assert_eq!(CommandRequest::program(words).line, line);
        }
    }

    #[test]
    fn impossible_commands_are_refused() {
        let timeout = Some(Duration::from_secs(3));
        assert_eq!(CommandRequest::new("true").checked(timeout).map(|command| command.timeout), Ok(timeout));
        let own = CommandRequest::new("true").timeout(Duration::from_secs(9)).checked(timeout);
        assert_eq!(own.map(|command| command.timeout), Ok(Some(Duration::from_secs(9))));
        for wrong in [
            CommandRequest::new(""),
            CommandRequest::new("a\0b"),
            CommandRequest::new("true").timeout(Duration::ZERO),
            CommandRequest::new("true").env("A=B", ""),
        ] {
            let error = wrong.checked(None).expect_err("it makes no sense");
            assert!(error.hint().is_some(), "{error}");
        }
    }
}
