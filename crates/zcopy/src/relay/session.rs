//! [`RelaySession`]: a relay whose steps the caller takes.

use std::os::fd::AsFd;

use super::both::Both;
use super::interest::RelayProgressed;
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
pub struct RelaySession<A, B> {
    /// `None` once the relay has failed or is finished.
    parts: Option<WithOwners<Both<'static, Linux>, (A, B)>>,
    /// The report of a relay that has failed.
    failed: Option<RelayReport>,
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

    /// Ends the relay, and returns the report. A relay that has not ended is stopped. After a
    /// failure, this returns the report that the error contained.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::finish`](crate::Session::finish), and the failure of a direction
    /// whose sink had gone.
    pub fn finish(mut self) -> Result<RelayReport> {
        match (self.parts.take(), self.failed.take()) {
            (Some(mut parts), _) => parts.value_mut().finish(),
            (None, Some(report)) => Ok(report),
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
        self.failed = error.relay_report().cloned();
        self.parts = None;
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
