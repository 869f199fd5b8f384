//! Helpers of concurrent tests: a time limit, threads that sleep, and scratch directories.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::skip::skip;

/// A test that is still running after this time hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Runs a test in a thread of its own.
///
/// # Panics
///
/// If the test panics, or runs for longer than [`TIME_LIMIT`].
#[track_caller]
pub(crate) fn bounded(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    // A skip has the name of the test.
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        test();
        let _ = done.send(());
    });
    let thread = thread.unwrap();
    match ended.recv_timeout(TIME_LIMIT) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => panic!("the test does not end"),
        Err(RecvTimeoutError::Disconnected) => {
            let Err(panic) = thread.join() else {
                return;
            };
            std::panic::resume_unwind(panic);
        }
    }
}

/// Directories for scratch files on two file systems that are already mounted: the temporary
/// directory (usually on a disk), and tmpfs.
pub(crate) fn scratch_dirs() -> Vec<PathBuf> {
    let shm = PathBuf::from("/dev/shm");
    let mut dirs = vec![std::env::temp_dir()];
    if tempfile::tempfile_in(&shm).is_ok() {
        dirs.push(shm);
    } else {
        skip("no file can be made in /dev/shm");
    }
    dirs
}

/// A thread whose state another thread reads from `/proc`. Holds its directory in `/proc`.
#[derive(Debug)]
pub(crate) struct Thread(PathBuf);

impl Thread {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        let task = std::fs::read_link("/proc/thread-self").unwrap();
        Self(PathBuf::from("/proc").join(task))
    }

    /// The first thread of another process.
    #[allow(dead_code, reason = "the tests of the tools need it")]
    pub(crate) fn of_process(pid: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{pid}")))
    }

    /// Waits until the thread sleeps in a system call and does not wake up.
    ///
    /// Asserts nothing: if the thread does not fall asleep in time, the test covers less, and does
    /// not fail.
    pub(crate) fn until_asleep(&self) {
        let start = Instant::now();
        let mut before = None;
        while start.elapsed() < TIME_LIMIT / 4 {
            let Ok(status) = std::fs::read_to_string(self.0.join("status")) else {
                // The thread has ended.
                return;
            };
            let now = n_sleeps(&status);
            if now.is_some() && before == now {
                return;
            }
            before = now;
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The number of times that a thread has fallen asleep, if it sleeps now.
fn n_sleeps(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)
    };
    let n_sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
    (field("State:") == Some("S")).then_some(n_sleeps)
}
