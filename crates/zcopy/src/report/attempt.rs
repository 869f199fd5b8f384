//! What one strategy did in a transfer.

use std::fmt;
use std::io;

use crate::call_error::Cause;
use crate::strategy::Strategy;

/// What one strategy did in a transfer.
///
/// # Examples
///
/// ```
/// use zcopy::{Strategy, Transfer};
///
/// let status = std::fs::File::open("/proc/self/status")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let report = Transfer::new(&status, &sink).run()?;
/// let [attempt] = report.attempts() else { panic!("one strategy was enough") };
/// assert_eq!(attempt.strategy(), Strategy::Buffered);
/// assert_eq!(attempt.bytes(), report.bytes());
/// assert_eq!(attempt.calls(), 3, "a read, a write, and the read that finds the end");
/// assert!(attempt.error().is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub(crate) strategy: Strategy,
    pub(crate) bytes: u64,
    /// How many of these are holes that were stepped over, without a call of this strategy.
    pub(crate) hole_bytes: u64,
    pub(crate) calls: u64,
    pub(crate) cause: Option<Cause>,
}

impl Attempt {
    pub(crate) fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            bytes: 0,
            hole_bytes: 0,
            calls: 0,
            cause: None,
        }
    }

    /// Whether a call of this strategy has moved anything.
    pub(crate) fn has_moved(&self) -> bool {
        self.bytes > self.hole_bytes
    }

    /// The strategy.
    ///
    /// # Examples
    ///
    /// See [`Attempt`].
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Bytes that the sink accepted from it.
    ///
    /// # Examples
    ///
    /// See [`Attempt`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// System calls it made to move bytes.
    ///
    /// # Examples
    ///
    /// See [`Attempt`].
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What made the transfer go on with another strategy, or fail.
    ///
    /// # Examples
    ///
    /// See [`Attempt`].
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        self.cause.map(Cause::to_io_error)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, calls) = (self.bytes, self.calls);
        let byte = if bytes == 1 { "byte" } else { "bytes" };
        let plural = if calls == 1 { "" } else { "s" };
        write!(
            f,
            "{:<15}  {bytes:>13} {byte} in {calls} call{plural}",
            self.strategy
        )?;
        match self.error() {
            Some(error) => write!(f, ", ended by: {error}"),
            None => Ok(()),
        }
    }
}
