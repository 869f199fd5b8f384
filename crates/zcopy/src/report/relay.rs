//! The report of a relay.

use std::fmt;

use super::{Ended, Report};

/// The report of a [`Relay`](crate::Relay), with an account of each direction.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use zcopy::{Ended, Relay};
///
/// let (mut client, front) = UnixStream::pair()?;
/// let (back, server) = UnixStream::pair()?;
/// client.write_all(b"hello")?;
/// server.shutdown(std::net::Shutdown::Write)?;
/// client.shutdown(std::net::Shutdown::Write)?;
/// let report = Relay::new(&front, &back).run()?;
/// assert_eq!(report.ended(), Ended::Eof);
/// assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (5, 0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RelayReport {
    pub(crate) a_to_b: Report,
    pub(crate) b_to_a: Report,
    pub(crate) ended: Ended,
}

impl RelayReport {
    /// Returns the report of the direction from the first end to the second. If the relay ended
    /// early, its [undelivered](Report::undelivered) bytes are those that the first end has sent
    /// and the second has not received.
    #[must_use]
    pub fn a_to_b(&self) -> &Report {
        &self.a_to_b
    }

    /// Returns the report of the direction from the second end to the first.
    #[must_use]
    pub fn b_to_a(&self) -> &Report {
        &self.b_to_a
    }

    /// Returns how the relay ended: [`Ended::Eof`] if both directions have.
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a to b: ")?;
        self.a_to_b.fmt(f)?;
        write!(f, "\nb to a: ")?;
        self.b_to_a.fmt(f)
    }
}
