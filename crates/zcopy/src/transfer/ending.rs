//! Ending early: the time limits of a [`Transfer`], and its [`Stop`].

use std::time::{Duration, Instant};

use super::Transfer;
use crate::stop::Stop;

#[cfg(doc)]
use crate::{Ended, RateLimiter, Strategy};

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Ends the transfer with [`Ended::TimedOut`] when no byte has moved for `timeout` [default: it
    /// waits for ever].
    ///
    /// Choose it against peers that have gone silent: it covers both sides and every kind of
    /// descriptor, and what has arrived by then counts. The time starts anew whenever bytes move,
    /// and while the transfer waits for its own [rate](RateLimiter). Choose
    /// [`deadline`](Self::deadline) to bound the whole transfer. A socket's own `SO_RCVTIMEO` or
    /// `SO_SNDTIMEO` fails the transfer instead, also counted from the last byte that moved.
    ///
    /// It rules out no strategy, and costs a `poll(2)` before most calls, as a
    /// [`tick`](Self::tick) does. It cannot bound the time that a disk takes.
    ///
    /// # Kernel notes
    ///
    /// Bytes count when the kernel accepts them. A TCP socket polls as writable when a third of its
    /// send buffer is free (a buffer grows to 4 MiB by default, `/proc/sys/net/ipv4/tcp_wmem`), so
    /// a client counts as silent if it needs longer than `timeout` to read that much. Choose a
    /// time-out in which the slowest client reads 2 MiB, or set `SO_SNDBUF` on its socket.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// writer.write_all(b"hello")?;
    /// let transfer = Transfer::new(&reader, &sink).idle_timeout(Duration::from_millis(10));
    /// let report = transfer.run()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::TimedOut));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.options.idle_timeout = Some(timeout);
        self
    }

    /// Ends the transfer with [`Ended::TimedOut`] at this time, whatever it has moved [default: no
    /// deadline].
    ///
    /// Choose it for a bound on the whole transfer, and [`idle_timeout`](Self::idle_timeout) for
    /// one on the time without progress. A deadline that has passed ends the transfer before it
    /// moves a byte. It costs what `idle_timeout` costs.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::{Ended, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let deadline = Instant::now() + Duration::from_millis(10);
    /// let report = Transfer::new(&zeros, &sink).deadline(deadline).run()?;
    /// assert_eq!(report.ended(), Ended::TimedOut);
    /// assert!(report.bytes() > 0 && Instant::now() >= deadline);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.settings.options.deadline = Some(deadline);
        self
    }

    /// Lets `stop` end the transfer, from any thread, with [`Ended::Stopped`] [default: only an
    /// observer can].
    ///
    /// Choose it for a server that shuts down, or for Ctrl-C. The transfer keeps a clone. It costs
    /// what [`idle_timeout`](Self::idle_timeout) costs. A step that waits for a disk ends first; a
    /// step between files moves at most 64 MiB, unless a whole file is cloned at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, Stop, Transfer};
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// writer.write_all(b"hello")?;
    /// let stop = Stop::new()?;
    /// let report = Transfer::new(&reader, &sink)
    ///     .stop_with(&stop)
    ///     .observe(|_| {
    ///         stop.stop();
    ///         std::ops::ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::Stopped));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stop_with(mut self, stop: &Stop) -> Self {
        self.settings.options.stoppable = true;
        self.settings.stop = Some(stop.clone());
        self
    }
}
