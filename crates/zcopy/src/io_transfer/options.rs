//! The options of an [`IoTransfer`].

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::IoTransfer;
use crate::buffer;
use crate::progress::Progress;
use crate::rate::RateLimiter;
use crate::stop::Stop;

#[cfg(doc)]
use crate::{Ended, Report, Strategy, Transfer};

impl<'a, Source, Sink> IoTransfer<'a, Source, Sink> {
    /// Moves at most `bytes` bytes [default: `None`, no limit], as [`Transfer::limit`]. A transfer
    /// that reaches the limit ends with [`Ended::Limit`].
    ///
    /// It reads no further byte from a reader, file, pipe or stream socket.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, Transfer};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut reader = &b"hello world"[..];
    /// let report = Transfer::from_reader(&mut reader, &null).limit(6).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (6, Ended::Limit));
    /// assert_eq!(reader, b"world");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.settings.options.limit = bytes.into();
        self
    }

    /// Moves at most `bytes_per_second` bytes per second [default: no limit; 0 means 1], in bursts
    /// of at most a tenth of a second's bytes, as [`Transfer::rate_limit`].
    ///
    /// A [`RateLimiter`] limits all transfers that share it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let limiter = RateLimiter::new(1_000_000);
    /// let start = Instant::now();
    /// Transfer::from_reader(&[7; 50_000][..], &null).rate_limit(&limiter).run()?;
    /// Transfer::new(&zeros, &null).limit(50_000).rate_limit(&limiter).run()?;
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limit(mut self, limit: impl Into<RateLimiter>) -> Self {
        let rate_limiter = limit.into();
        self.settings.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.settings.rate_limiter = Some(rate_limiter);
        self
    }

    /// Calls the [observer](Self::observe) at least once every `tick`, also while the transfer
    /// waits for the descriptor or for its rate [default: only after steps; at least 1 ms], as
    /// [`Transfer::tick`].
    ///
    /// While a `read` or `write` of the reader or writer sleeps, the observer is not called.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Side, Transfer};
    ///
    /// // No process reads this pipe.
    /// let (_pipe, sink) = std::io::pipe()?;
    /// let report = Transfer::from_reader(std::io::repeat(7), &sink)
    ///     .tick(Duration::from_millis(1))
    ///     .observe(|progress| match progress.blocked() {
    ///         Some(Side::Sink) => ControlFlow::Break(()),
    ///         _ => ControlFlow::Continue(()),
    ///     })
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.options.tick = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Calls `observer` after every step, with the [`Progress`] so far [default: no observer]. If
    /// it returns [`ControlFlow::Break`], the transfer stops with [`Ended::Stopped`], and its
    /// report counts exactly what arrived. See [`Transfer::observe`].
    ///
    /// A step moves at most what the [buffer](Self::buffer_size) holds.
    ///
    /// # Panics
    ///
    /// If the observer panics, the panic propagates to the caller of `run`; bytes in flight at that
    /// moment are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut seen = 0;
    /// let report = Transfer::from_reader(std::io::repeat(7), &null)
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

    /// Passes every byte that the sink or the writer accepts to `inspect`, once and in order
    /// [default: no inspector], as [`Transfer::inspect`].
    ///
    /// # Panics
    ///
    /// A panic of `inspect` propagates as with [`observe`](Self::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let version = std::fs::File::open("/proc/version")?;
    /// let (mut bytes, mut sum) = (Vec::new(), 0);
    /// Transfer::to_writer(&version, &mut bytes)
    ///     .inspect(|bytes| sum += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())
    ///     .run()?;
    /// assert_eq!(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>(), sum);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inspect(mut self, inspect: impl FnMut(&[u8]) + Send + 'a) -> Self {
        self.settings.options.inspected = true;
        self.settings.callbacks.inspect = Some(Box::new(inspect));
        self
    }

    /// Counts records: sequences of bytes that end in `delimiter` [default: not counted], as
    /// [`Transfer::records`]. [`Progress::records`] and [`Report::records`] return their number.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::from_reader(&b"one\ntwo\nthree"[..], &null).records(b'\n').run()?;
    /// assert_eq!((report.bytes(), report.records()), (13, 2));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn records(mut self, delimiter: u8) -> Self {
        self.settings.options.records.delimiter = Some(delimiter);
        self
    }

    /// Sets the size of the buffer in bytes [default: 256 KiB], as [`Transfer::buffer_size`].
    ///
    /// The reader or writer never gets more than this much at a time, except a longer message of a
    /// socket or device. Choose a smaller size for many transfers at once, or for an observer that
    /// is called more often. It is rounded up to whole pages of 4 KiB, to at least one and at most
    /// 1 GiB.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::Transfer;
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut n_steps = 0;
    /// Transfer::from_reader(std::io::repeat(7), &null)
    ///     .limit(1 << 20)
    ///     .buffer_size(8192)
    ///     .observe(|_| {
    ///         n_steps += 1;
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(n_steps, 128);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.settings.options.buffer_size = Some(buffer::whole_pages(bytes));
        self
    }

    /// Ends the transfer with [`Ended::TimedOut`] when the descriptor has accepted or given no byte
    /// for `timeout` [default: it waits for ever], as [`Transfer::idle_timeout`].
    ///
    /// The time runs while the transfer waits for the descriptor. It cannot end a `read` or `write`
    /// of the reader or writer that sleeps: use a time-out of what that reads from or writes to,
    /// such as [`TcpStream::set_read_timeout`](std::net::TcpStream::set_read_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let (source, mut peer) = std::io::pipe()?;
    /// peer.write_all(b"hello")?;
    /// let mut bytes = Vec::new();
    /// let report = Transfer::to_writer(&source, &mut bytes)
    ///     .idle_timeout(Duration::from_millis(10))
    ///     .run()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::TimedOut));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.options.idle_timeout = Some(timeout);
        self
    }

    /// Ends the transfer with [`Ended::TimedOut`] at this time, whatever it has moved [default: no
    /// deadline], as [`Transfer::deadline`].
    ///
    /// The transfer looks at the clock between two calls of the reader or writer. If one of them
    /// sleeps, the transfer ends later. It still flushes a writer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::{Ended, Transfer};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let deadline = Instant::now() + Duration::from_millis(10);
    /// let report = Transfer::from_reader(std::io::repeat(7), &null).deadline(deadline).run()?;
    /// assert_eq!(report.ended(), Ended::TimedOut);
    /// assert!(Instant::now() >= deadline);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.settings.options.deadline = Some(deadline);
        self
    }

    /// Lets `stop` end the transfer, from any thread, with [`Ended::Stopped`] [default: only an
    /// observer can], as [`Transfer::stop_with`].
    ///
    /// It ends a wait for the descriptor at once. A `read` or `write` of the reader or writer that
    /// sleeps ends first, because nothing can interrupt it.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, Stop, Transfer};
    ///
    /// // No process reads this pipe.
    /// let (_pipe, sink) = std::io::pipe()?;
    /// let stop = Stop::new()?;
    /// let transfer = Transfer::from_reader(std::io::repeat(7), sink).stop_with(&stop);
    /// let waiting = std::thread::spawn(|| transfer.run());
    /// stop.stop();
    /// let report = waiting.join().expect("the thread does not panic")?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stop_with(mut self, stop: &Stop) -> Self {
        self.settings.options.stoppable = true;
        self.settings.stop = Some(stop.clone());
        self
    }
}

impl<Source, Sink> std::fmt::Debug for IoTransfer<'_, Source, Sink> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoTransfer")
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}
