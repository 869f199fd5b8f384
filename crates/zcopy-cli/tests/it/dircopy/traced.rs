//! Runs into which `strace` meddles.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::{Run, run};
use crate::child::{under, with_default_signals};

/// A run, and what `strace` tells of it.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) run: Run,
    /// A line for each call, with paths for descriptors.
    pub(super) log: String,
}

impl Traced {
    /// Counts the calls whose lines contain these words.
    pub(super) fn n_lines_with(&self, words: &str) -> usize {
        let lines = self.log.lines();
        lines.filter(|line| line.contains(words)).count()
    }

    /// The calls that failed because they were made to.
    pub(super) fn injected(&self) -> Vec<&str> {
        let lines = self.log.lines();
        lines.filter(|line| line.contains("(INJECTED)")).collect()
    }
}

/// The same command under `strace`, which is told more.
fn under_strace(command: &Command, options: &[String], log: &NamedTempFile) -> Command {
    let mut runner = vec!["strace", "-f", "-qq", "-y", "-s", "4096", "-o"];
    runner.push(log.path().to_str().unwrap());
    runner.extend(options.iter().map(String::as_str));
    runner.push("--");
    with_default_signals(&under(&runner, command))
}

/// Runs it while `strace` meddles as it is told to.
pub(super) fn traced(command: &Command, options: &[String]) -> Traced {
    let log = NamedTempFile::new().unwrap();
    let mut strace = under_strace(command, options, &log);
    let run = run(&mut strace);
    let log = fs::read(log.path()).unwrap();
    let log = joined(&String::from_utf8_lossy(&log));
    Traced { run, log }
}

/// A log with a line for each call, where `strace` has two for one that another thread came
/// between.
fn joined(log: &str) -> String {
    let mut begun = HashMap::new();
    let mut lines = Vec::new();
    for line in log.lines() {
        let (thread, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(thread, first);
        } else if let Some((_, last)) = rest.split_once(" resumed>")
            && let Some(first) = begun.remove(thread)
        {
            lines.push(format!("{thread} {first}{last}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

#[test]
fn a_call_that_another_thread_came_between_is_one_line() {
    let log = "7 fcntl(8</a>, F_GETFD <unfinished ...>\n9 close(3) = 0\n7 <... fcntl resumed>) = -1 EIO (INJECTED)";
    let expected = "9 close(3) = 0\n7 fcntl(8</a>, F_GETFD ) = -1 EIO (INJECTED)";
    assert_eq!(joined(log), expected);
}

/// The same, and these calls alone are written down.
pub(super) fn meddled(command: &Command, calls: &str, with: &str) -> Traced {
    let options = [format!("--trace={calls}"), format!("--inject={with}")];
    traced(command, &options)
}

/// Calls that read a file or map it.
const READING: &str = "read,pread64,readv,preadv,preadv2,copy_file_range,splice,sendfile,ioctl";

/// When a run is stopped: as it reads that file for the first time.
pub(super) fn as_it_reads(file: &Path) -> Vec<String> {
    let stop = format!("--inject={READING}:signal=SIGSTOP:when=1");
    vec!["-P".to_owned(), file.to_str().unwrap().to_owned(), stop]
}

/// When a run is stopped: as it asks for the first of some clones to be read ahead.
pub(super) fn as_it_has_cloned() -> Vec<String> {
    vec!["--inject=fadvise64:signal=SIGSTOP:when=1".to_owned()]
}

/// Runs it, stops it once, has the test do something meanwhile, and lets it go on.
pub(super) fn while_stopped(
    command: &Command,
    options: &[String],
    meanwhile: impl FnOnce(),
) -> Traced {
    let log = NamedTempFile::new().unwrap();
    let mut strace = under_strace(command, options, &log);
    strace.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = strace.stderr(Stdio::piped()).spawn().unwrap();
    let read = || String::from_utf8_lossy(&fs::read(log.path()).unwrap()).into_owned();
    let mut meanwhile = Some(meanwhile);
    let mut n_stops = 0;
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        // A few threads may be stopped for the same signal.
        let stops = read().matches("--- SIGSTOP {").count();
        let is_stopped = read().contains("--- stopped by SIGSTOP ---");
        if stops > n_stops && is_stopped {
            n_stops = stops;
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile();
            }
        }
        if n_stops > 0 {
            go_on(&child);
        }
        thread::sleep(Duration::from_millis(2));
    }
    assert!(meanwhile.is_none(), "it was never stopped: {}", read());
    let run = Run::from(child.wait_with_output().unwrap());
    Traced { run, log: read() }
}

/// Lets what `strace` runs go on.
fn go_on(strace: &Child) {
    let pid = strace.id();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    for child in children.split_whitespace() {
        let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(child, rustix::process::Signal::CONT);
    }
}
