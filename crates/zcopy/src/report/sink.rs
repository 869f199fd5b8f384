//! The report of one of several sinks.

use std::fmt;
use std::io;

use super::Bytes;
use crate::call_error::Cause;
use crate::strategy::Strategy;

/// How a transfer ended for one of several sinks.
///
/// # Examples
///
/// ```
/// use std::io::{ErrorKind, Write};
/// use zcopy::{OnSinkError, Strategy, Transfer};
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let null = std::fs::File::create("/dev/null")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///
/// let report = Transfer::new(&source, &null)
///     .also_to(&full)
///     .on_sink_error(OnSinkError::Detach)
///     .run()?;
/// assert_eq!(report.bytes(), 5, "the remaining sink has all bytes");
/// let [null, full] = report.sinks() else { panic!("two sinks") };
/// assert_eq!((null.bytes(), full.bytes()), (5, 0));
/// assert!(null.error().is_none());
/// assert!(full.error().is_some_and(|error| error.kind() == ErrorKind::StorageFull));
/// assert_eq!(full.strategy(), Strategy::Buffered);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SinkReport {
    pub(crate) index: usize,
    pub(crate) bytes: u64,
    pub(crate) strategy: Strategy,
    pub(crate) cause: Option<Cause>,
}

impl SinkReport {
    /// Returns the index of the sink: 0 is the one given to
    /// [`Transfer::new`](crate::Transfer::new) or [`FanOut::new`](crate::FanOut::new), and those of
    /// [`also_to`](crate::FanOut::also_to) follow in their order.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of bytes that this sink accepted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the strategy by which the sink received its last bytes: see
    /// [`Plan::sink_candidates`](crate::Plan::sink_candidates).
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns the error for which the sink was detached or the transfer failed.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        self.cause.map(Cause::to_io_error)
    }
}

impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, bytes) = (self.index + 1, Bytes(self.bytes));
        write!(f, "sink {number}: {bytes} by {}", self.strategy)?;
        match self.error() {
            Some(error) => write!(f, ", ended by: {error}"),
            None => Ok(()),
        }
    }
}
