//! [`Stop`]: ends transfers from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

#[cfg(feature = "tokio")]
mod wakers;

/// Ends the transfers that have it, from any thread, at once.
///
/// Clones end the same transfers. A transfer that has been given a `Stop` by
/// [`Transfer::stop_with`](crate::Transfer::stop_with) polls for it while it waits, and looks at it
/// before each step. A program that takes the steps of a [session](crate::Session) polls the `Stop`
/// ([`AsFd`]) beside the ends, and then takes a step. A transfer ends within one step: with
/// [`Ended::Stopped`](crate::Ended), exact counts, and its bytes in flight [handed
/// back](crate::Report::undelivered). One `Stop` serves any number of transfers, also those that
/// begin after it was used: these end before they move a byte.
///
/// It cannot be taken back: do not give it to a transfer that has to drain something afterwards.
/// [`Relay`](crate::Relay#graceful-ends) says how a relay delivers what is under way before it
/// ends.
///
/// Choose an [observer](crate::Transfer::observe) to stop a transfer by what it has done, and a
/// `Stop` to stop it from outside: a server that shuts down, Ctrl-C.
///
/// A signal handler must not call [`stop`](Self::stop), which may lock a mutex and wake tasks. Call
/// it from a thread that waits for signals, such as the one that runs the handlers of the crate
/// `ctrlc`.
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, Stop, Transfer};
///
/// // No process writes to this pipe, so that the transfer would wait for ever.
/// let (reader, _writer) = std::io::pipe()?;
/// let stop = Stop::new()?;
/// let transfer = Transfer::new(reader, std::fs::File::create("/dev/null")?).stop_with(&stop);
/// let waiting = std::thread::spawn(|| transfer.run());
///
/// stop.stop();
/// let report = waiting.join().expect("the thread does not panic")?;
/// assert_eq!(report.ended(), Ended::Stopped);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # References
/// - [eventfd(2)](https://man7.org/linux/man-pages/man2/eventfd.2.html)
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_stopped: AtomicBool,
    /// An event descriptor, which is readable from the first [`Stop::stop`] on.
    event: OwnedFd,
    /// The tasks that wait for transfers.
    #[cfg(feature = "tokio")]
    wakers: wakers::Wakers,
}

impl Stop {
    /// Creates a `Stop`. It holds one descriptor.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENFILE` or `ENOMEM`, as `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            is_stopped: AtomicBool::new(false),
            event: sys::event()?,
            #[cfg(feature = "tokio")]
            wakers: wakers::Wakers::default(),
        })))
    }

    /// Ends all transfers that have this `Stop` or a clone of it. A second call changes nothing.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        // A counter that is full is readable, too.
        let _ = sys::signal_event(self.0.event.as_fd());
        #[cfg(feature = "tokio")]
        self.0.wakers.wake_all();
    }

    /// Returns whether [`stop`](Self::stop) has been called.
    ///
    /// # Examples
    ///
    /// ```
    /// let stop = zcopy::Stop::new()?;
    /// assert!(!stop.is_stopped());
    /// stop.clone().stop();
    /// assert!(stop.is_stopped());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }
}

#[cfg(feature = "tokio")]
impl Stop {
    /// Waits until [`stop`](Self::stop) is called.
    pub(crate) fn stopped(&self) -> wakers::Stopped<'_> {
        wakers::Stopped::new(&self.0.is_stopped, &self.0.wakers)
    }
}

/// The event descriptor becomes readable when the `Stop` is used, so that a program can poll it
/// with its own descriptors.
impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
