//! Callbacks: the observer of a [`Transfer`], its tick, and the inspector of its bytes.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Transfer;
use crate::progress::Progress;

#[cfg(doc)]
use crate::{Ended, Strategy};

impl<'a, Source, Sink> Transfer<'a, Source, Sink> {
    /// Calls the [observer](Self::observe) at least once every `tick`, also while the transfer
    /// waits [default: only after steps; at least 1 ms].
    ///
    /// Without a tick, a transfer on descriptors in blocking mode sleeps in the kernel until bytes
    /// arrive, and does not call the observer meanwhile. Choose a tick for a display that must
    /// move, or for a transfer that must stop while it waits. Without an observer nothing is
    /// called.
    ///
    /// It rules out no strategy, and costs a `poll(2)` before most calls, also without an observer.
    /// A small file takes the path of longer transfers, which costs some more calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// // No process writes to this pipe.
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
    /// The transfer polls both sides before each call, so that the call itself does not sleep. A
    /// pipe that it splices through a private pipe it polls only after a non-blocking call has
    /// moved nothing. It cannot bound the time that a disk takes, because no call can be told not
    /// to wait for one. Two processes at the same end of one named pipe can make each other wait
    /// between the poll and the call. So can two processes at the same end of one socket, with
    /// another strategy than [`Strategy::Buffered`].
    ///
    /// The transfer opens a terminal a second time, in non-blocking mode, so that a terminal that
    /// is stopped (`^S`) or that nobody reads does not delay the tick. If it cannot (`/dev/tty`,
    /// the master of a pseudo-terminal, another user's terminal, no `/proc`), it writes 256 bytes
    /// after each poll. Such a write still sleeps if the terminal is stopped between the poll and
    /// the write, or if it has less room, as a serial line may.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.options.tick = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Calls `observer` after every step, with the [`Progress`] so far [default: no observer]. If
    /// it returns [`ControlFlow::Break`], the transfer stops with [`Ended::Stopped`], and its
    /// report counts exactly what arrived.
    ///
    /// Choose it to show or stop a transfer: it sees counts, not bytes, and rules out no strategy.
    /// Add a [`tick`](Self::tick) if the observer must also run while nothing moves. Choose
    /// [`inspect`](Self::inspect) to see the bytes. It costs one call of the observer for each
    /// step. A small file takes the path of longer transfers, which costs some more system calls.
    ///
    /// A step moves at most 4 MiB, or the [`buffer_size`](Self::buffer_size), on pipes and sockets,
    /// and 64 MiB between files, unless a whole file is cloned at once. The transfer skips a hole
    /// in parts, the first of 64 MiB and each following one twice as long as the one before.
    ///
    /// The transfer also calls the observer when a signal interrupts a call that sleeps, if the
    /// signal's handler was installed without `SA_RESTART`. So a handler that sets a flag can stop
    /// a transfer without a tick. If the signal comes right before the call, the call sleeps all
    /// the same: send the signal again until the transfer returns.
    ///
    /// If a signal interrupts a call that fills a [reserved range](Transfer#shared-descriptors) of
    /// a file, a transfer that stops then first fills the rest of the range, unless it can be
    /// released.
    ///
    /// # Panics
    ///
    /// If the observer panics, the panic propagates to the caller of [`run`](Self::run); bytes in
    /// flight at that moment are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut seen = 0;
    /// let report = Transfer::new(&zeros, &sink)
    ///     .observe(|progress| {
    ///         seen = progress.bytes();
    ///         if seen < 3 << 20 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    ///     })
    ///     .run()?;
    /// assert_eq!((report.bytes(), report.ended()), (seen, Ended::Stopped));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn observe(
        mut self,
        observer: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.settings.options.observed = true;
        self.settings.callbacks.observer = Some(Box::new(observer));
        self
    }

    /// Passes every byte that the sink accepts to `inspect`, once and in order [default: no
    /// inspector]. With [several sinks](Self::also_to) it passes the bytes that every sink has
    /// accepted.
    ///
    /// Choose it for a digest or a search; [`observe`](Self::observe) suits a display of progress,
    /// and [`records`](Self::records) counts lines without a callback. It costs the speed of every
    /// other strategy: the bytes must pass through user space, so that only [`Strategy::Buffered`]
    /// remains, as the plan says. To change the bytes, use a
    /// [`FilterTransfer`](crate::FilterTransfer), which copies them once more.
    ///
    /// `inspect` cannot fail or stop the transfer. Let it store what it finds, and let an
    /// [observer](Self::observe) that shares the value stop the transfer.
    ///
    /// Holes are passed as zeros. The transfer does not read a hole of a regular file for that if
    /// the sink is another regular file or `/dev/null`; it calls the observer after every 64 MiB of
    /// it.
    ///
    /// # Panics
    ///
    /// A panic of `inspect` propagates as with [`observe`](Self::observe).
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
    /// assert_eq!(report.strategy(), Some(Strategy::Buffered));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inspect(mut self, inspect: impl FnMut(&[u8]) + Send + 'a) -> Self {
        self.settings.options.inspected = true;
        self.settings.callbacks.inspect = Some(Box::new(inspect));
        self
    }
}
