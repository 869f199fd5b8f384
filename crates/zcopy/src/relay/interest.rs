//! The results of a relay's steps, its progress, and the events that it waits for.

use std::time::Duration;

use crate::progress::Progress;
use crate::report::Ended;
use crate::sys::PollFlags;

#[cfg(doc)]
use crate::RelaySession;

/// The result of one [step](RelaySession::step) of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a blocked relay has to be waited for"]
#[non_exhaustive]
pub enum RelayProgressed {
    /// At least one byte moved. Call [`step`](RelaySession::step) again.
    Moved {
        /// The bytes that the second end accepted.
        a_to_b: u64,
        /// The bytes that the first end accepted.
        b_to_a: u64,
    },
    /// Nothing moved. Call [`step`](RelaySession::step) again when one of the interests is
    /// fulfilled.
    Blocked(RelayInterest),
    /// The relay has ended. Call [`finish`](RelaySession::finish).
    Ended(Ended),
}

/// The state of both directions of a running relay, from [`RelaySession::progress`].
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RelayProgress {
    pub(super) a_to_b: Progress,
    pub(super) b_to_a: Progress,
}

impl RelayProgress {
    /// Returns the state of the direction from the first end to the second.
    #[must_use]
    pub fn a_to_b(&self) -> Progress {
        self.a_to_b
    }

    /// Returns the state of the direction from the second end to the first.
    #[must_use]
    pub fn b_to_a(&self) -> Progress {
        self.b_to_a
    }
}

/// The events at both ends, one of which a [`RelaySession`] waits for, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayInterest {
    pub(super) a: EndInterest,
    pub(super) b: EndInterest,
    pub(super) timeout: Option<Duration>,
}

/// The events at one end that a [`RelaySession`] waits for.
///
/// `poll(2)` and `epoll(7)` report `POLLHUP` and `POLLERR` unasked. Take an end of no interest out
/// of the poll set (a negative descriptor, `EPOLL_CTL_DEL`): it may stay hung up while the other
/// direction goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndInterest {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) hang_up: bool,
}

impl RelayInterest {
    /// Returns the events to wait for at the first end.
    #[must_use]
    pub fn a(&self) -> EndInterest {
        self.a
    }

    /// Returns the events to wait for at the second end.
    #[must_use]
    pub fn b(&self) -> EndInterest {
        self.b
    }

    /// Returns how long to wait at most before the next step. `None` if the relay waits for its
    /// ends alone.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl EndInterest {
    /// Returns whether to wait until the end is readable (`POLLIN`).
    #[must_use]
    pub fn readable(&self) -> bool {
        self.readable
    }

    /// Returns whether to wait until the end is writable (`POLLOUT`).
    #[must_use]
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Returns whether to wait until the end fails (`POLLHUP` or `POLLERR`, which `poll(2)` reports
    /// unasked), and for nothing else: the relay neither reads nor writes it now, and learns in no
    /// other way that its peer has reset the connection.
    #[must_use]
    pub fn hang_up(&self) -> bool {
        self.hang_up
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn events(self) -> PollFlags {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, self.readable);
        events.set(PollFlags::OUT, self.writable);
        events
    }
}
