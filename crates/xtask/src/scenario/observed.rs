//! The results of a run.

use std::collections::BTreeMap;
use std::fs;
#[cfg(test)]
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use anyhow::{Context, ensure};
use tempfile::TempDir;

#[cfg(test)]
use super::STDOUT;
use super::{Scenario, TimeLimits};
use crate::strace::{self, Call};

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Its status, or `None` if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stderr: String,
    /// The bytes in each output. An output that does not exist is not among them.
    pub(crate) outputs: BTreeMap<&'static str, Vec<u8>>,
    /// Where the cursor of a regular file on standard input stands.
    pub(crate) cursor: Option<u64>,
    /// Descriptors 0, 1 and 2, as `/proc/self/fd` names them.
    pub(crate) stdio: [PathBuf; 3],
    /// The path of the program.
    pub(super) program: PathBuf,
    pub(super) limits: TimeLimits,
    /// The directory the program ran in, and what belongs to the run beside it.
    pub(super) scratch: TempDir,
}

impl Observed {
    /// Describes a wrong outcome: the scenario, the command that repeats it (`how`), the status,
    /// the messages, and the mistakes (`wrong`).
    pub(crate) fn finding(
        &self,
        scenario: &Scenario,
        how: impl Iterator<Item = String>,
        wrong: &[String],
    ) -> String {
        let status = self
            .status
            .map_or("no status".to_owned(), |status| status.to_string());
        let mut lines = vec![format!("WRONG {}", scenario.name())];
        lines.extend(how);
        lines.push(status);
        let said = self.stderr.lines().take(6);
        lines.extend(said.map(|line| format!("said: {line}")));
        lines.extend(wrong.iter().map(|text| format!("wrong: {text}")));
        lines.push(String::new());
        lines.join("\n  ")
    }

    /// The calls that strace made fail. Empty without strace.
    pub(crate) fn injected(&self) -> Vec<Call> {
        let log = fs::read(self.scratch.path().join("log")).unwrap_or_default();
        let mut calls = strace::parse(&String::from_utf8_lossy(&log));
        calls.retain(Call::is_injected);
        calls
    }

    /// Whether a call failed as if the file system had no hard links.
    pub(crate) fn is_refused_hard_links(&self) -> bool {
        let errnos = ["EPERM", "EOPNOTSUPP", "ENOSYS", "EINVAL", "EXDEV", "EMLINK"];
        self.injected().iter().any(|call| {
            call.name == "linkat" && errnos.iter().any(|errno| call.text.contains(errno))
        })
    }

    /// Whether a call failed as if nothing had this path in the program's directory.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        let (path, cwd) = (self.dir().join(path), self.dir());
        self.injected().iter().any(|call| call.denies(&path, &cwd))
    }

    /// Whether every message is known: no write to standard error failed, and no call reported it
    /// as closed.
    pub(crate) fn is_heard(&self) -> bool {
        let mut calls = self.injected();
        calls.retain(|call| {
            let is_closed = call.name == "fcntl" && call.text.contains("EBADF");
            call.name.starts_with("write") || is_closed
        });
        let mut descriptors = calls.iter().flat_map(Call::descriptors);
        descriptors.all(|(_, path)| Path::new(path) != self.stdio[2])
    }

    /// The bytes in an output. Empty if it does not exist.
    pub(crate) fn output(&self, name: &str) -> &[u8] {
        self.outputs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Runs the program once more in its directory, with other arguments and without any fault.
    ///
    /// # Errors
    ///
    /// It cannot be run, or it hangs.
    pub(crate) fn run_again(&self, args: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new("timeout");
        let limit = self.limits.wall().as_secs();
        command.args(["--signal=KILL", &limit.to_string()]);
        command
            .arg(&self.program)
            .args(args)
            .current_dir(self.dir());
        set_environment(&mut command, self.scratch.path());
        let output = command.stdin(Stdio::null()).output().context("timeout")?;
        let is_killed = output.status.code().is_none_or(|code| code > 128);
        ensure!(!is_killed, "another run with {args:?}: {}", output.status);
        Ok(output)
    }

    /// The directory that the program ran in.
    pub(crate) fn dir(&self) -> PathBuf {
        self.scratch.path().join("dir")
    }
}

/// Sets the variables that change the output of a program. Tests of colours and of terminals belong
/// to the tools.
pub(super) fn set_environment(command: &mut Command, scratch: &Path) {
    command
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", scratch)
        .env_remove("RUST_BACKTRACE");
}

#[cfg(test)]
impl Observed {
    /// A run that ended with this status and message, and whose standard output is a pipe.
    pub(crate) fn example(code: i32, stderr: &str, output: &[u8]) -> Self {
        Self {
            status: Some(ExitStatus::from_raw(code << 8)),
            stderr: stderr.to_owned(),
            outputs: BTreeMap::from([(STDOUT, output.to_vec())]),
            cursor: None,
            stdio: ["/stdin", "pipe:[1]", "/stderr"].map(PathBuf::from),
            program: PathBuf::from("/program"),
            limits: TimeLimits::multiplied(1),
            scratch: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn with_cursor(self, cursor: u64) -> Self {
        Self {
            cursor: Some(cursor),
            ..self
        }
    }

    /// The log of strace.
    pub(crate) fn log(&self) -> PathBuf {
        self.scratch.path().join("log")
    }
}
