//! [`RelaySession`]: a relay whose steps the caller takes.

use std::os::fd::AsFd;

use super::both::Both;
use super::interest::{RelayProgress, RelayProgressed};
use crate::error::{Error, Result};
use crate::report::{Ended, RelayReport};
use crate::sys::{Linux, WithOwners};

#[cfg(doc)]
use crate::{Relay, Session};

/// A [`Relay`] in steps, which never wait for one of its ends: what [`Session`] is to a transfer.
///
/// Choose it to serve many relays in one thread, by `poll(2)` or `epoll(7)`. [`Relay::start`]
/// begins one. Dropping it finishes the relay, and discards the report and the bytes in flight.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use zcopy::{Relay, RelayProgressed};
///
/// let (mut client, front) = UnixStream::pair()?;
/// let (back, mut server) = UnixStream::pair()?;
/// let mut session = Relay::new(front, back).start()?;
///
/// let RelayProgressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
/// assert!(interest.a().readable() && interest.b().readable());
///
/// client.write_all(b"hello")?;
/// assert!(matches!(session.step(1 << 20)?, RelayProgressed::Moved { a_to_b: 5, b_to_a: 0 }));
/// let mut word = [0; 5];
/// server.read_exact(&mut word)?;
/// assert_eq!(&word, b"hello");
///
/// let report = session.finish()?;
/// assert_eq!(report.a_to_b().bytes(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Many relays in one thread, around `poll(2)`. An end of no interest is left out. A server that
/// has thousands of relays would register their ends with `epoll(7)`, and step those that are
/// ready:
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
/// use rustix::io::Errno;
/// use zcopy::{EndInterest, RelayProgressed, RelaySession};
///
/// fn events(interest: EndInterest) -> Option<PollFlags> {
///     let mut events = PollFlags::empty(); // An error is reported unasked.
///     events.set(PollFlags::IN, interest.readable());
///     events.set(PollFlags::OUT, interest.writable());
///     (!events.is_empty() || interest.hang_up()).then_some(events)
/// }
///
/// fn serve(mut relays: Vec<RelaySession<UnixStream, UnixStream>>) -> u64 {
///     let mut n_bytes = 0;
///     while !relays.is_empty() {
///         let mut interests = Vec::new();
///         relays.retain_mut(|relay| loop {
///             match relay.step(1 << 20) {
///                 Ok(RelayProgressed::Moved { a_to_b, b_to_a }) => n_bytes += a_to_b + b_to_a,
///                 Ok(RelayProgressed::Blocked(interest)) => {
///                     interests.push(interest);
///                     break true;
///                 }
///                 Ok(_) => break false,
///                 Err(error) => {
///                     eprintln!("a relay failed: {error:#}");
///                     break false;
///                 }
///             }
///         });
///         let mut fds = Vec::new();
///         for (relay, interest) in relays.iter().zip(&interests) {
///             let ends = [(relay.a(), interest.a()), (relay.b(), interest.b())];
///             for (end, interest) in ends {
///                 if let (Some(end), Some(events)) = (end, events(interest)) {
///                     fds.push(PollFd::new(end, events));
///                 }
///             }
///         }
///         let timeout = interests.iter().filter_map(|interest| interest.timeout()).min();
///         let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
///         if !relays.is_empty() {
///             match poll(&mut fds, timeout.as_ref()) {
///                 Ok(_) | Err(Errno::INTR) => {}
///                 Err(errno) => panic!("poll: {errno}"),
///             }
///         }
///     }
///     n_bytes
/// }
/// # use std::io::Write;
/// # use zcopy::Relay;
///
/// let (mut client, front) = UnixStream::pair()?;
/// let (back, mut server) = UnixStream::pair()?;
/// client.write_all(b"question")?;
/// client.shutdown(std::net::Shutdown::Write)?;
/// server.write_all(b"answer")?;
/// server.shutdown(std::net::Shutdown::Write)?;
/// assert_eq!(serve(vec![Relay::new(front, back).start()?]), 14);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RelaySession<A, B> {
    /// `None` once the relay has failed or is finished.
    parts: Option<WithOwners<Both<'static, Linux>, (A, B)>>,
    /// The progress and the report of a relay that has failed.
    failed: Option<(RelayProgress, RelayReport)>,
}

impl<A: AsFd, B: AsFd> RelaySession<A, B> {
    pub(super) fn new(parts: WithOwners<Both<'static, Linux>, (A, B)>) -> Self {
        Self {
            parts: Some(parts),
            failed: None,
        }
    }

    /// Takes one step in each direction, of up to `max` bytes, or returns what to wait for.
    ///
    /// # Errors
    ///
    /// Those of [`Relay::run`]. The relay is then over, and further steps return
    /// [`Ended::Failed`].
    pub fn step(&mut self, max: u64) -> Result<RelayProgressed> {
        let Some(parts) = &mut self.parts else {
            return Ok(RelayProgressed::Ended(Ended::Failed));
        };
        let progressed = parts.value_mut().step(max);
        progressed.map_err(|error| self.fail(error))
    }

    /// Takes steps until the relay ends, and waits with `poll(2)` between them.
    ///
    /// # Errors
    ///
    /// Those of [`Relay::run`].
    pub fn drive(&mut self) -> Result<Ended> {
        let Some(parts) = &mut self.parts else {
            return Ok(Ended::Failed);
        };
        let ended = parts.value_mut().drive();
        ended.map_err(|error| self.fail(error))
    }

    /// Returns the state of both directions, also after the relay has ended or failed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::Relay;
    ///
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, server) = UnixStream::pair()?;
    /// client.write_all(b"hello")?;
    /// let mut session = Relay::new(front, back).start()?;
    /// let _ = session.step(1 << 20)?;
    /// assert_eq!(session.progress().a_to_b().bytes(), 5);
    /// assert_eq!(session.progress().b_to_a().bytes(), 0);
    /// # drop(server);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn progress(&self) -> RelayProgress {
        match (&self.parts, &self.failed) {
            (Some(parts), _) => parts.value().progress(),
            (None, Some((progress, _))) => *progress,
            (None, None) => unreachable!("only a failure takes the parts of a session"),
        }
    }

    /// Ends the relay, and returns the report. A relay that has not ended is stopped.
    ///
    /// # Errors
    ///
    /// A failure that no step has returned: one of [`Session::finish`](crate::Session::finish), or
    /// that of a direction whose sink has gone while the other direction went on. The
    /// [error](Error::relay_report) has the report. If a step has returned the failure, `finish`
    /// returns the report that was in it, and no error.
    pub fn finish(mut self) -> Result<RelayReport> {
        match (self.parts.take(), self.failed.take()) {
            (Some(mut parts), _) => parts.value_mut().finish(),
            (None, Some((_, report))) => Ok(report),
            (None, None) => unreachable!("only a failure takes the parts of a session"),
        }
    }

    /// Returns both directions with the ends that they use. `None` after a failure.
    #[cfg(feature = "tokio")]
    pub(crate) fn split_mut(&mut self) -> Option<(&mut Both<'static, Linux>, &(A, B))> {
        self.parts.as_mut().map(WithOwners::split_mut)
    }

    /// Remembers what the relay had done when it failed.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if let Some(report) = error.relay_report()
            && let Some(parts) = self.parts.take()
        {
            self.failed = Some((parts.value().progress(), report.clone()));
        }
        error
    }

    /// Returns the first end, to register it with a poller. `None` after a failure.
    #[must_use]
    pub fn a(&self) -> Option<&A> {
        Some(&self.parts.as_ref()?.owners().0)
    }

    /// Returns the second end. `None` after a failure.
    #[must_use]
    pub fn b(&self) -> Option<&B> {
        Some(&self.parts.as_ref()?.owners().1)
    }
}

impl<A, B> std::fmt::Debug for RelaySession<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelaySession").finish_non_exhaustive()
    }
}
