//! The calls and bytes of one strategy in a transfer.

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
/// let [attempt] = report.attempts() else { panic!("one strategy") };
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
    /// Bytes among these that are holes, which took no call of this strategy.
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

    /// Returns whether a call of this strategy has moved anything.
    pub(crate) fn has_moved(&self) -> bool {
        self.bytes > self.hole_bytes
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns the number of bytes that the sink accepted from this strategy.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of system calls that it made to move bytes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the error that made the transfer change to another strategy, or fail.
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
