//! Counts the system calls of this thread, with strace(1).

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, kill_process};
use rustix::thread::gettid;
use tempfile::NamedTempFile;

/// No transfer makes this call: it marks where one begins and ends.
const MARK: &str = "getppid(";

/// strace, attached to this thread.
pub(crate) struct Counter {
    strace: Child,
    log: NamedTempFile,
}

impl Counter {
    /// Attaches strace. Without it, prints that no calls are counted, and returns `None`.
    pub(crate) fn attach() -> Option<Self> {
        let log = NamedTempFile::new().expect("a scratch file");
        let thread = gettid().as_raw_nonzero();
        let strace = Command::new("strace")
            .args(["-qq", "-p", &thread.to_string(), "-o"])
            .arg(log.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut strace) = strace else {
            eprintln!("NO SYSTEM CALLS COUNTED: there is no strace");
            return None;
        };
        let status = format!("/proc/self/task/{thread}/status");
        while strace.try_wait().is_ok_and(|ended| ended.is_none()) {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let tracer = status.lines().find(|line| line.starts_with("TracerPid:"));
            if tracer.is_some_and(|line| !line.ends_with("\t0")) {
                return Some(Self { strace, log });
            }
            thread::sleep(Duration::from_millis(1));
        }
        eprintln!("NO SYSTEM CALLS COUNTED: strace may not attach to this process");
        None
    }

    /// Marks the beginning or the end of what is counted.
    pub(crate) fn mark() {
        let _ = getppid();
    }

    /// Detaches strace, and returns the number of calls between each two marks.
    pub(crate) fn counts(mut self) -> Vec<u64> {
        let strace = Pid::from_child(&self.strace);
        kill_process(strace, Signal::INT).expect("strace runs");
        self.strace.wait().expect("strace is a child");
        let log = fs::read(self.log.path()).expect("strace writes its log");
        let log = String::from_utf8_lossy(&log);
        let mut counts = Vec::new();
        let mut count = None;
        for line in log.lines() {
            // Signals and resumed calls begin otherwise.
            let is_call =
                line.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
            match &mut count {
                Some(calls) if line.starts_with(MARK) => {
                    counts.push(*calls);
                    count = None;
                }
                None if line.starts_with(MARK) => count = Some(0),
                Some(calls) if is_call => *calls += 1,
                _ => {}
            }
        }
        counts
    }
}
