//! What the tests need to set a scene: threads that are known to sleep, and tests that end.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::skip::skip;

/// How long a test may take that takes no time unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test that might hang, and fails rather than hang with it.
#[track_caller]
pub(crate) fn bounded(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
        Err(RecvTimeoutError::Disconnected) => {
            let Err(panic) = thread.join() else {
                return;
            };
            std::panic::resume_unwind(panic);
        }
    }
}

/// Where scratch files go, on the file systems that need no mounting: usually a disk's, and tmpfs.
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

/// A thread, to look at from another one.
#[derive(Debug)]
pub(crate) struct Thread(PathBuf);

impl Thread {
    /// The calling one.
    pub(crate) fn current() -> Self {
        let task = std::fs::read_link("/proc/thread-self").unwrap();
        Self(PathBuf::from("/proc").join(task))
    }

    /// The first one of another process.
    #[allow(dead_code, reason = "the tests of the tools need it")]
    pub(crate) fn of_process(pid: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{pid}")))
    }

    /// Waits until it sleeps in a system call, and goes on sleeping. Nothing is asserted: a thread that has not fallen
    /// asleep yet makes the test see less, and does not make it fail.
    pub(crate) fn until_asleep(&self) {
        let start = Instant::now();
        let mut before = None;
        while start.elapsed() < PATIENCE / 4 {
            let Ok(status) = std::fs::read_to_string(self.0.join("status")) else {
                // It has ended.
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

/// How often a thread has gone to sleep, if it sleeps now.
fn n_sleeps(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)
    };
    let n_sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
    (field("State:") == Some("S")).then_some(n_sleeps)
}

/// Random numbers that are the same for the same seed (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds are far apart, and none gives the state 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn below_len(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below_len(from.len())]
    }
}
