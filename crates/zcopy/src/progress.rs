//! The progress of a transfer, as its observer sees it.

use std::ops::ControlFlow;

use crate::side::Side;
use crate::strategy::Strategy;

/// The callback that [`Transfer::observe`](crate::Transfer::observe) sets.
pub(crate) type Observer<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a>;

/// The state of a running transfer, as passed to its [observer](crate::Transfer::observe).
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
/// use zcopy::Transfer;
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut seen = Vec::new();
/// let report = Transfer::new(&zeros, &sink)
///     .limit(3 << 20)
///     .observe(|progress| {
///         seen.push(progress.bytes());
///         ControlFlow::Continue(())
///     })
///     .run()?;
/// assert_eq!(report.bytes(), 3 << 20);
/// assert_eq!(seen.last(), Some(&(3 << 20)));
/// assert!(seen.is_sorted());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Progress {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) total: Option<u64>,
    pub(crate) strategy: Strategy,
    pub(crate) blocked: Option<Side>,
}

impl Progress {
    /// Returns the number of bytes that the sink has accepted, holes included.
    ///
    /// A hole at the end of the sink counts when the transfer seeks over it. The file gets its
    /// length when the transfer ends. If that fails, for example on a full disk, the
    /// [report](crate::Report::bytes) counts fewer bytes than the last progress did.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records, that is delimiters, among these bytes; 0 unless records are
    /// [counted](crate::Transfer::records).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::ops::ControlFlow;
    /// use zcopy::Transfer;
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"one\ntwo\nthree")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut lines = 0;
    /// Transfer::new(&reader, &sink)
    ///     .records(b'\n')
    ///     .observe(|progress| {
    ///         lines = progress.records();
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(lines, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of bytes that the whole transfer will move, if it is known.
    ///
    /// It is the limit, or what was left of a regular file or block device when the transfer began,
    /// whichever is less.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut total = None;
    /// Transfer::new(&zeros, &sink)
    ///     .limit(1000)
    ///     .observe(|progress| {
    ///         total = progress.total();
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(total, Some(1000));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns the strategy in use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let status = std::fs::File::open("/proc/self/status")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// Transfer::new(&status, &sink)
    ///     .observe(|progress| {
    ///         assert_eq!(progress.strategy(), Strategy::Buffered);
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns the side that the transfer is waiting for, or `None` if it is not waiting.
    ///
    /// The observer is called during a wait only if the transfer has a
    /// [`tick`](crate::Transfer::tick) or a signal interrupts the wait. [`Side::Neither`] means
    /// that a rate limit delays the transfer, that it waits for both sides, or that the kernel does
    /// not report which side is not ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Side, Transfer};
    ///
    /// // Nothing is ever written to this pipe.
    /// let (reader, _writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&reader, &sink)
    ///     .tick(Duration::from_millis(1))
    ///     .observe(|progress| {
    ///         assert_eq!(progress.blocked(), Some(Side::Source));
    ///         ControlFlow::Break(())
    ///     })
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn blocked(&self) -> Option<Side> {
        self.blocked
    }
}
