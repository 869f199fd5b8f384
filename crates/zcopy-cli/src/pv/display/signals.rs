//! Delivery of signals to the display thread.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::backend::{Handle, PollResult, SignalDelivery, SignalIterator};
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::common::sys;
use crate::common::threads;

/// The pause after a failed read of the socket.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
    /// The user suspends the process (^Z): tidy up the screen, and call [`stop`].
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
    /// The signals that would end or stop the process.
    taken: Vec<i32>,
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
        let pausing = (!sys::is_ignored(SIGTSTP)).then_some(SIGTSTP);
        let mut taken = ending.clone();
        taken.extend(pausing);
        let (read, write) = UnixStream::pair()?;
        let wanted = taken.iter().chain(&[SIGCONT, SIGWINCH, SIGUSR2]);
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, wanted)?;
        let incoming = delivery.handle();
        let mut signals = SignalIterator::new(delivery);
        // This comes after the iterator, so that an event follows whenever the flag is set.
        let is_interrupted = Arc::new(AtomicBool::new(false));
        for signal in ending {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))?;
        }
        // They are handled and not ignored, so that commands do not inherit that.
        for signal in [SIGALRM, SIGUSR1] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        let started = threads::spawn(THREAD, move || {
            while let Some(signal) = next(&mut signals) {
                let event = meaning(signal);
                let is_heard = events.send(event.into()).is_ok();
                if !is_heard && matches!(event, Event::Interrupted(_) | Event::Pause) {
                    sys::raise_default(signal);
                }
            }
        });
        // If no thread handles the signals, the drop lets them end the process again.
        let signals = Self {
            incoming,
            is_interrupted,
            taken,
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
        for signal in &self.taken {
            sys::reset(*signal);
        }
        self.incoming.close();
    }
}

/// Waits for the next signal. Returns `None` after the subscription has ended.
fn next(
    signals: &mut SignalIterator<SignalDelivery<UnixStream, SignalOnly>, SignalOnly>,
) -> Option<i32> {
    loop {
        match signals.poll_signal(&mut |bytes: &mut UnixStream| Ok(wait_for_byte(bytes))) {
            PollResult::Signal(signal) => return Some(signal),
            PollResult::Closed => return None,
            PollResult::Pending | PollResult::Err(_) => {}
        }
    }
}

/// Waits for a byte, which every signal sends. If the read fails, sleeps for [`POLL_INTERVAL`] and
/// returns true.
fn wait_for_byte(bytes: &mut UnixStream) -> bool {
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
        SIGTSTP => Event::Pause,
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

/// Stops the process, as ^Z does by default, and returns the time for which it was stopped.
///
/// The kernel does not stop the process if no other process could continue it, as in a container
/// without a shell.
#[must_use = "the time asleep is no part of the elapsed time"]
pub fn stop() -> Duration {
    let begin = Instant::now();
    sys::raise_default(SIGTSTP);
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
            (libc::SIGTSTP, Event::Pause),
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
