//! Who is told what while a [`Transfer`] runs.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Transfer;
use crate::progress::Progress;

#[cfg(doc)]
use crate::Strategy;

impl<'a> Transfer<'a> {
    /// Calls the observer at least this often, also while the transfer is blocked.
    ///
    /// Less than a millisecond is taken for one.
    ///
    /// Without it a transfer on descriptors in blocking mode sleeps in the kernel until bytes
    /// arrive, and nobody is told.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// // Nobody ever writes to this pipe.
    /// let (reader, _writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut ticks = 0;
    /// let report = Transfer::new(&reader, &sink)
    ///     .tick(Duration::from_millis(1))
    ///     .observe(|_| {
    ///         ticks += 1;
    ///         if ticks < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    ///     })
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// assert_eq!(ticks, 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Kernel notes
    ///
    /// Before each call both sides are polled, so that the call itself does not sleep; a pipe that is
    /// spliced by way of a private one is polled only after a call, told not to wait, has moved nothing.
    /// A disk that is slow to answer is not covered: no call can be told not to wait for it. Two
    /// processes at the same end of one named pipe, or of one socket by another strategy than
    /// [`Buffered`](Strategy::Buffered), can make each other wait between the poll and the call.
    ///
    /// A terminal is opened once more, in non-blocking mode, for as long as the transfer lasts, so that
    /// one that is stopped (`^S`) or that nobody reads holds nothing up. Where it cannot be opened
    /// (`/dev/tty`, the master of a pseudo-terminal, another user's terminal, no `/proc`) it is given 256
    /// bytes after each poll. Those still sleep if the terminal is stopped between the poll and the
    /// write, or has less room than that, as a serial line may.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.options.tick = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Calls `observer` after every step. [`ControlFlow::Break`] stops the transfer cleanly, with
    /// everything accounted for.
    ///
    /// A step moves at most a few MiB on pipes and sockets and 64 MiB between files, unless a whole
    /// file is cloned at once. A hole is stepped over in pieces, the first of 64 MiB and each of the
    /// others twice as long as the one before.
    ///
    /// The observer is also called when a signal interrupts a call that sleeps, if the signal's handler was installed without
    /// `SA_RESTART`. So a handler that sets a flag can stop a transfer without a [`tick`](Self::tick). If it
    /// runs right before the call, the call sleeps all the same: the signal has to be sent until the transfer returns.
    ///
    /// If a signal has cut short a call that fills a [reserved range](Transfer#shared-descriptors) of a file, a transfer that is
    /// stopped then first fills the rest of the range, unless it can be given back.
    ///
    /// # Panics
    ///
    /// If the observer panics, the panic goes on to the caller of [`run`](Self::run); bytes that
    /// are in flight at that moment are lost.
    ///
    /// # Examples
    ///
    /// See [`Progress`].
    pub fn observe(mut self, observer: impl FnMut(&Progress) -> ControlFlow<()> + 'a) -> Self {
        self.options.observed = true;
        self.observer = Some(Box::new(observer));
        self
    }

    /// Shows every byte that the sink accepted to `inspect`, once and in order.
    ///
    /// The bytes then have to pass through user space, and the plan says so. Holes are shown as
    /// zeros. A hole of a regular file that goes to another one, or to `/dev/null`, is not read for
    /// that; the observer is called after every 64 MiB of it.
    ///
    /// # Panics
    ///
    /// As [`observe`](Self::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut seen = 0;
    /// let report = Transfer::new(&zeros, &sink)
    ///     .limit(1 << 20)
    ///     .inspect(|bytes| seen += bytes.len() as u64)
    ///     .run()?;
    /// assert_eq!(seen, report.bytes());
    /// assert_eq!(report.strategy(), Strategy::Buffered);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inspect(mut self, inspect: impl FnMut(&[u8]) + 'a) -> Self {
        self.options.inspected = true;
        self.inspect = Some(Box::new(inspect));
        self
    }
}
