//! Delivery of signals to the display thread.
//!
//! # How the process stops
//!
//! All threads block `TSTP`, so that it stays pending until the display has left the screen to the
//! shell. Then [`stop`] lets it take effect. The kernel removes a pending `TSTP` when it generates
//! `CONT`, and decides by itself which of them came last. So the process stops if, and only if, no
//! `CONT` has come since the last `TSTP`: one that comes before the stop removes the `TSTP`, and one
//! that comes later continues the process. A handler of `TSTP` could not know: a `CONT` that comes
//! between its last look and the `raise` would be lost.

use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::backend::{Handle, PollResult, SignalDelivery, SignalIterator};
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::common::sys;
use crate::common::threads;

/// The pause after a failed read of the socket, and the interval of checks for `TSTP` if there is no
/// descriptor for it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The interval of [`Event::Pause`] while `TSTP` is pending.
const PAUSE_INTERVAL: Duration = Duration::from_millis(20);

/// The longest time that the display delays a stop. After that the process stops as it is, and the
/// display counts the time asleep.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of the thread that receives the signals. A process with such a thread handles `USR2`,
/// which ends other processes.
pub(crate) const THREAD: &str = "zc-pv signals";

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The terminal may have another size.
    Resized,
    /// The user or the system ends the process. The value is the number of the signal.
    Interrupted(i32),
    /// The user suspends the process (^Z): tidy up the screen, and call [`stop`]. The event comes
    /// again while the stop [is pending](is_stop_pending), and may come after that.
    Pause,
    /// The process continues, in the foreground or in the background.
    Continued,
    /// Another process of the user has a request (`USR2`).
    Requested,
}

/// A subscription to signals, which ends when this is dropped.
#[derive(Debug)]
pub struct Signals {
    incoming: Handle,
    is_interrupted: Arc<AtomicBool>,
    /// The signals that would end the process.
    ending: Vec<i32>,
    /// `None` if `TSTP` is ignored.
    _blocked_tstp: Option<BlockedTstp>,
}

/// Keeps `TSTP` pending in this thread and in those that it starts. The drop gives this thread the
/// mask that it had before, so that no other thread may drop it.
#[derive(Debug)]
struct BlockedTstp {
    was_blocked: bool,
    _not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl BlockedTstp {
    fn new() -> Self {
        let was_blocked = sys::is_blocked(SIGTSTP);
        sys::block_signal(SIGTSTP);
        Self {
            was_blocked,
            _not_send: PhantomData,
        }
    }
}

impl Drop for BlockedTstp {
    fn drop(&mut self) {
        if !self.was_blocked {
            sys::unblock_signal(SIGTSTP);
        }
    }
}

impl Signals {
    /// Sends `INT`, `TERM`, `HUP`, `QUIT`, `TSTP`, `CONT`, `WINCH` and `USR2` to a channel, whose
    /// messages can be made from an [`Event`].
    ///
    /// `INT`, `TERM`, `HUP`, `QUIT` and `TSTP` stay ignored if they are, for example by nohup. From
    /// now on the terminal does not stop this process for drawing in the background, so code that
    /// draws has to check. `ALRM` and `USR1`, which make other tools print their progress, do
    /// nothing. `USR2` announces a request of `-R` or `-Q`, which recognize this process by the
    /// name of the thread that receives the signals.
    ///
    /// After the drop, or if the channel has no receiver, the signals that end or stop the process
    /// do so.
    ///
    /// The process must have no other threads, because they would let `TSTP` stop the process at
    /// once. A `TSTP` that the parent blocked stops it all the same.
    ///
    /// # Errors
    ///
    /// Returns the error of `sigaction(2)`, `socketpair(2)` or the creation of the thread.
    pub fn sent_to<T>(events: Sender<T>) -> io::Result<Self>
    where
        T: From<Event> + Send + 'static,
    {
        sys::ignore_sigttou();
        let ending: Vec<i32> = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
            .into_iter()
            .filter(|&signal| !sys::is_ignored(signal))
            .collect();
        let blocked_tstp = (!sys::is_ignored(SIGTSTP)).then(BlockedTstp::new);
        let mut stops = blocked_tstp.as_ref().map(|_| PendingTstp::new());
        let (read, write) = UnixStream::pair()?;
        let wanted = ending.iter().chain(&[SIGCONT, SIGWINCH, SIGUSR2]);
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, wanted)?;
        let incoming = delivery.handle();
        let mut signals = SignalIterator::new(delivery);
        // This comes after the iterator, so that an event follows whenever the flag is set.
        let is_interrupted = Arc::new(AtomicBool::new(false));
        for &signal in &ending {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))?;
        }
        // They are handled and not ignored, so that commands do not inherit that.
        for signal in [SIGALRM, SIGUSR1] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        let started = threads::spawn(THREAD, move || {
            while let Some(event) = next(&mut signals, &mut stops) {
                let is_heard = events.send(event.into()).is_ok();
                match event {
                    Event::Interrupted(signal) if !is_heard => sys::raise_default(signal),
                    Event::Pause if !is_heard => sys::deliver_pending(SIGTSTP),
                    _ => {}
                }
            }
        });
        // If no thread handles the signals, the drop lets them end the process again.
        let signals = Self {
            incoming,
            is_interrupted,
            ending,
            _blocked_tstp: blocked_tstp,
        };
        started.map(|_| signals)
    }

    /// Returns whether an [`Event::Interrupted`] has been sent or is about to be.
    ///
    /// ^C reaches the whole pipeline at once: when this process sees the end of its input, the
    /// signal has arrived.
    #[must_use]
    pub fn has_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for signal in &self.ending {
            sys::reset(*signal);
        }
        self.incoming.close();
    }
}

/// The pending `TSTP`, as the thread that receives signals sees it.
#[derive(Debug)]
struct PendingTstp {
    /// Polls as readable while `TSTP` is pending. `None` if the kernel gives no such descriptor.
    fd: Option<OwnedFd>,
    /// When the pending `TSTP` was first seen.
    since: Option<Instant>,
}

impl PendingTstp {
    fn new() -> Self {
        Self {
            fd: sys::signalfd(SIGTSTP).ok(),
            since: None,
        }
    }

    /// Returns whether the display has to be told that `TSTP` is pending. If it has not stopped the
    /// process in time, stops it.
    fn are_due(&mut self) -> bool {
        if !is_stop_pending() {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_late = since.elapsed() >= STOP_TIMEOUT;
        if is_late {
            sys::deliver_pending(SIGTSTP);
            self.since = None;
        }
        !is_late
    }

    /// The descriptor to wait for, unless the display knows of the stop, and the longest wait.
    fn awaited(&self) -> (Option<&OwnedFd>, Option<Duration>) {
        match (self.since, &self.fd) {
            (Some(_), _) => (None, Some(PAUSE_INTERVAL)),
            (None, Some(fd)) => (Some(fd), None),
            (None, None) => (None, Some(POLL_INTERVAL)),
        }
    }
}

/// Waits for the next event. Returns `None` after the subscription has ended.
fn next(
    signals: &mut SignalIterator<SignalDelivery<UnixStream, SignalOnly>, SignalOnly>,
    stops: &mut Option<PendingTstp>,
) -> Option<Event> {
    loop {
        let mut wait = |bytes: &mut UnixStream| Ok(wait_for_byte(bytes, stops.as_ref()));
        match signals.poll_signal(&mut wait) {
            PollResult::Signal(signal) => {
                if let (SIGCONT, Some(stop)) = (signal, &mut *stops) {
                    stop.since = None;
                }
                return Some(meaning(signal));
            }
            PollResult::Closed => return None,
            PollResult::Pending | PollResult::Err(_) => {
                if stops.as_mut().is_some_and(PendingTstp::are_due) {
                    return Some(Event::Pause);
                }
            }
        }
    }
}

/// Waits for a byte. Every signal but `TSTP` sends one. Returns false if no byte has come: then `TSTP`
/// may be pending. If the read fails, sleeps for [`POLL_INTERVAL`] and returns true.
fn wait_for_byte(bytes: &mut UnixStream, stops: Option<&PendingTstp>) -> bool {
    let (fd, timeout) = stops.map_or((None, None), PendingTstp::awaited);
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let fds = [bytes.as_fd(), fd.map_or(bytes.as_fd(), AsFd::as_fd)];
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let is_ready = match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) => !fds[0].revents().is_empty(),
        Err(Errno::INTR) => false,
        // If poll(2) fails, the read waits.
        Err(_) => true,
    };
    if !is_ready {
        return false;
    }
    match bytes.read(&mut [0]) {
        Ok(n) => n > 0,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(_) => {
            thread::sleep(POLL_INTERVAL);
            true
        }
    }
}

fn meaning(signal: i32) -> Event {
    match signal {
        SIGWINCH => Event::Resized,
        SIGCONT => Event::Continued,
        SIGUSR2 => Event::Requested,
        other => Event::Interrupted(other),
    }
}

/// Returns the name of a signal for messages.
#[must_use]
pub fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "Interrupt",
        SIGHUP => "Hangup",
        _ => "Terminated",
    }
}

/// Returns whether the process is about to stop: `TSTP` has come, and no `CONT` since.
#[must_use]
pub fn is_stop_pending() -> bool {
    sys::is_pending(SIGTSTP)
}

/// Stops the process, as ^Z does by default, if a stop [is pending](is_stop_pending). Returns the
/// time for which it was stopped.
///
/// The kernel does not stop the process if no other process could continue it, as in a container
/// without a shell.
#[must_use = "the time asleep is no part of the elapsed time"]
pub fn stop() -> Duration {
    let begin = Instant::now();
    sys::deliver_pending(SIGTSTP);
    begin.elapsed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{Event, Signals};

    #[test]
    fn signals_become_events_in_order() {
        let (send, receive) = mpsc::channel::<Event>();
        let signals = Signals::sent_to(send).unwrap();
        let timeout = Duration::from_secs(60);
        for (signal, event) in [
            (libc::SIGWINCH, Event::Resized),
            (libc::SIGTERM, Event::Interrupted(libc::SIGTERM)),
            (libc::SIGCONT, Event::Continued),
            (libc::SIGUSR2, Event::Requested),
        ] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(receive.recv_timeout(timeout).unwrap(), event);
        }
        drop(signals);
        assert!(receive.recv_timeout(timeout).is_err(), "the thread ends");
    }
}
