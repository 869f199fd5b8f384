//! The early end of a transfer, which is asked to return before the process exits.
//!
//! A transfer reserves ranges of files whose cursors other processes share. If the process exited
//! in the middle of a step, a reserved range of the output would stay a gap, and the next reader of
//! the input would miss one.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::sys::{self, ThreadId};

/// The longest wait for the transfer to return. A step takes milliseconds unless a disk stalls.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of interruptions of a call that may block. A call that blocks right after an
/// interruption is not woken by it.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(10);

/// A handle that stops the transfer from another thread.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_asked: AtomicBool,
    /// Whether the transfer has seen the request. After that its calls must not be interrupted.
    is_heard: AtomicBool,
    /// The thread that runs a transfer.
    running: Mutex<Option<ThreadId>>,
    has_ended: Condvar,
}

/// A guard of a transfer in this thread.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Stop);

impl Stop {
    /// Marks the start of a transfer in this thread. Returns `None` if no more transfers may start.
    pub(crate) fn begin(&self) -> Option<Running<'_>> {
        let mut running = self.lock();
        if self.is_asked.load(Ordering::Relaxed) {
            return None;
        }
        *running = Some(ThreadId::current());
        Some(Running(self))
    }

    /// Returns the observer's answer: `Break` once the transfer is asked to stop.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if !self.is_asked.load(Ordering::Relaxed) {
            return ControlFlow::Continue(());
        }
        self.is_heard.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// Asks the transfer to stop, and waits until it has returned, for at most [`EXIT_TIMEOUT`]. No
    /// other transfer starts.
    ///
    /// The signal that has arrived interrupts calls in which the transfer blocks. It must have a
    /// handler.
    pub(crate) fn stop(&self, signal: i32) {
        let begin = Instant::now();
        let mut running = self.lock();
        self.is_asked.store(true, Ordering::Relaxed);
        if running.is_some() {
            sys::do_not_restart_calls(signal);
        }
        while let Some(thread) = *running
            && begin.elapsed() < EXIT_TIMEOUT
        {
            if !self.is_heard.load(Ordering::Relaxed) {
                thread.interrupt(signal);
            }
            let waited = self.has_ended.wait_timeout(running, INTERRUPT_INTERVAL);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.has_ended.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::io::{ErrorKind, PipeReader, Read as _};
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// Reads where nothing ever comes, until it is asked to stop.
    fn sleep_in_read(stop: &Stop, silent: &mut PipeReader) {
        let _running = stop.begin().unwrap();
        while stop.flow().is_continue() {
            let read = silent.read(&mut [0]);
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Interrupted);
        }
    }

    #[test]
    fn a_transfer_that_sleeps_is_woken_and_no_other_one_begins() {
        let signal = libc::SIGUSR1;
        signal_hook::flag::register(signal, Arc::default()).unwrap();
        let (mut silent, _writer) = std::io::pipe().unwrap();
        let stop = Stop::default();
        thread::scope(|scope| {
            scope.spawn(|| sleep_in_read(&stop, &mut silent));
            while stop.lock().is_none() {
                thread::yield_now();
            }
            stop.stop(signal);
            assert!(stop.lock().is_none(), "it has not returned");
        });
        assert!(stop.begin().is_none());
    }

    #[test]
    fn a_transfer_that_does_not_return_is_not_waited_for_for_ever() {
        signal_hook::flag::register(libc::SIGUSR2, Arc::default()).unwrap();
        let stop = Stop::default();
        let running = stop.begin().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| stop.stop(libc::SIGUSR2)).join().unwrap();
        });
        assert!(stop.lock().is_some());
        drop(running);
    }

    #[test]
    fn without_a_transfer_nothing_is_waited_for_and_no_signal_sent() {
        let stop = Stop::default();
        // Sent, it would end this process.
        stop.stop(libc::SIGTERM);
        assert!(stop.begin().is_none());
    }
}
