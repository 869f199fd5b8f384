//! The options of a [`FanOut`] that a [`Transfer`] has, too.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::FanOut;
use crate::buffer;
use crate::options::{Cache, SyncData};
use crate::progress::Progress;
use crate::rate::RateLimiter;
use crate::stop::Stop;
use crate::strategy::Strategy;

#[cfg(doc)]
use crate::{Ended, Report, Transfer};

/// Amount and position.
impl<Source> FanOut<'_, Source> {
    /// Moves at most `bytes` bytes to each sink [default: no limit]. Like [`Transfer::limit`].
    pub fn limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.settings.options.limit = bytes.into();
        self
    }

    /// Reads from `bytes` bytes behind the start of the source [default: the cursor], and leaves
    /// the cursor where it is. Like [`Transfer::source_offset`].
    pub fn source_offset(mut self, bytes: u64) -> Self {
        self.settings.options.source_offset = Some(bytes);
        self
    }

    /// Writes to the first sink from `bytes` bytes behind its start [default: the cursor], and
    /// leaves its cursor where it is. Like [`Transfer::sink_offset`]; the other sinks are written
    /// to at their cursors.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Seek, Write};
    /// use zcopy::FanOut;
    ///
    /// let dir = std::env::temp_dir().join(format!("zcopy-doc-offsets-{}", std::process::id()));
    /// std::fs::create_dir(&dir)?;
    /// let mut first = std::fs::File::create_new(dir.join("first"))?;
    /// let mut second = std::fs::File::create_new(dir.join("second"))?;
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    ///
    /// FanOut::new(&source, &first).also_to(&second).sink_offset(3).run()?;
    /// assert_eq!(std::fs::read(dir.join("first"))?, b"\0\0\0hello");
    /// assert_eq!(std::fs::read(dir.join("second"))?, b"hello");
    /// assert_eq!((first.stream_position()?, second.stream_position()?), (0, 5));
    /// std::fs::remove_dir_all(dir)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sink_offset(mut self, bytes: u64) -> Self {
        self.settings.options.sink_offset = Some(bytes);
        self
    }
}

/// Strategy and files.
impl<Source> FanOut<'_, Source> {
    /// Forbids strategies by which a later write to a file can change bytes that have already been
    /// moved [default: false]. Like [`Transfer::stable`]: sinks that would share such pages are
    /// written to.
    pub fn stable(mut self, stable: bool) -> Self {
        self.settings.options.stable = stable;
        self
    }

    /// Uses one strategy and no other [default: the better one, and the other if it fails]:
    /// [`Strategy::Tee`] or [`Strategy::Buffered`]. Like [`Transfer::strategy`]. With
    /// [`Strategy::Tee`], sinks that accept no splice are written to all the same.
    ///
    /// # Errors
    ///
    /// With any other strategy, or where no sink accepts shared pages, [`run`](Self::run) fails
    /// with an error that [`is_unsuitable`](crate::Error::is_unsuitable).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{FanOut, Strategy};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let fan_out = || FanOut::new(&zeros, &null).also_to(&null).limit(1000);
    /// let report = fan_out().strategy(Strategy::Tee).run()?;
    /// assert_eq!(report.strategy(), Some(Strategy::Tee));
    ///
    /// let error = fan_out().strategy(Strategy::Sendfile).run().unwrap_err();
    /// assert!(error.is_unsuitable(), "sendfile serves one sink only");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.options.strategy = Some(strategy);
        self
    }

    /// Decides how the source and the sinks use the page cache [default: [`Cache::Keep`]]. Like
    /// [`Transfer::cache`].
    pub fn cache(mut self, cache: Cache) -> Self {
        self.settings.options.cache = cache;
        self
    }

    /// Decides when the bytes that the sinks have accepted are written to the disk
    /// [default: [`SyncData::Never`]]. Like [`Transfer::sync_data`], for each sink. A disk that
    /// fails is the [failure of its sink](Self::on_sink_error).
    pub fn sync_data(mut self, when: SyncData) -> Self {
        self.settings.options.sync_data = when;
        self
    }
}

/// Memory.
impl<Source> FanOut<'_, Source> {
    /// Allows the fan-out to enlarge the caller's own pipes, source and sinks [default: true]. Like
    /// [`Transfer::grow_pipes`]. [`Report::grown_sink`] returns the new size of the first sink.
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.settings.options.grow_pipes = grow;
        self
    }

    /// Sets the size in bytes to which the caller's own pipes are enlarged [default: 1 MiB; at most
    /// 1 GiB]. Like [`Transfer::pipe_size`].
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.settings.options.pipe_size = bytes.min(buffer::LARGEST);
        self
    }

    /// Sets the size in bytes of the buffer [default: 256 KiB] and of each private pipe
    /// [default: 1 MiB]. Like [`Transfer::buffer_size`].
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.settings.options.buffer_size = Some(buffer::whole_pages(bytes));
        self
    }
}

/// Speed and the end.
impl<Source> FanOut<'_, Source> {
    /// Moves at most this many bytes per second to each sink [default: no limit; 0 means 1]: a
    /// number, or a [`RateLimiter`]. Like [`Transfer::rate_limit`]. A byte counts once, however
    /// many sinks receive it.
    pub fn rate_limit(mut self, limit: impl Into<RateLimiter>) -> Self {
        let rate_limiter = limit.into();
        self.settings.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.settings.rate_limiter = Some(rate_limiter);
        self
    }

    /// Ends the fan-out with [`Ended::TimedOut`] when no byte has moved for `timeout` [default: it
    /// waits for ever]. Like [`Transfer::idle_timeout`]. A byte that reaches any of the sinks
    /// starts the time anew: one sink that accepts nothing ends the fan-out when the others have
    /// what it lacks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::Duration;
    /// use zcopy::{Ended, FanOut};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// let (_reader, full) = std::io::pipe()?;
    /// (&full).write_all(&[0; 64 << 10])?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// writer.write_all(b"hello")?;
    ///
    /// let fan_out = FanOut::new(&source, &null).also_to(&full).grow_pipes(false);
    /// let report = fan_out.idle_timeout(Duration::from_millis(10)).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (0, Ended::TimedOut));
    /// assert_eq!(report.undelivered(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.options.idle_timeout = Some(timeout);
        self
    }

    /// Ends the fan-out with [`Ended::TimedOut`] at this time, whatever it has moved [default: no
    /// deadline]. Like [`Transfer::deadline`].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.settings.options.deadline = Some(deadline);
        self
    }

    /// Lets `stop` end the fan-out, from any thread, with [`Ended::Stopped`] [default: only an
    /// observer can]. Like [`Transfer::stop_with`].
    pub fn stop_with(mut self, stop: &Stop) -> Self {
        self.settings.options.stoppable = true;
        self.settings.stop = Some(stop.clone());
        self
    }
}

/// Progress.
impl<'a, Source> FanOut<'a, Source> {
    /// Calls the [observer](Self::observe) at least once every `tick`, also while the fan-out waits
    /// [default: only after steps; at least 1 ms]. Like [`Transfer::tick`].
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.options.tick = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Calls `observer` after every step, with the [`Progress`] so far [default: no observer]. If
    /// it returns [`ControlFlow::Break`], the fan-out stops with [`Ended::Stopped`]. Like
    /// [`Transfer::observe`]. The progress counts the bytes that every sink has accepted; the
    /// observer is also called after a step that moved bytes to some of the sinks only.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Ended, FanOut};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let report = FanOut::new(&zeros, &null)
    ///     .also_to(&null)
    ///     .observe(|progress| match progress.bytes() {
    ///         0..3_000_000 => ControlFlow::Continue(()),
    ///         _ => ControlFlow::Break(()),
    ///     })
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// assert!(report.sinks().iter().all(|sink| sink.bytes() >= 3_000_000));
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

    /// Passes every byte that all sinks have accepted to `inspect`, once and in order [default: no
    /// inspector]. Like [`Transfer::inspect`]: only [`Strategy::Buffered`] remains, so that every
    /// sink is written to.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::FanOut;
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let null = std::fs::File::create("/dev/null")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// let mut seen = Vec::new();
    /// let fan_out = FanOut::new(&source, &null).also_to(&full);
    /// let error = fan_out.inspect(|bytes| seen.extend_from_slice(bytes)).run().unwrap_err();
    /// assert_eq!(error.report().sinks()[0].bytes(), 5);
    /// assert!(seen.is_empty(), "only one of two sinks has the bytes");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inspect(mut self, inspect: impl FnMut(&[u8]) + Send + 'a) -> Self {
        self.settings.options.inspected = true;
        self.settings.callbacks.inspect = Some(Box::new(inspect));
        self
    }

    /// Counts records: sequences of bytes that end in `delimiter` [default: not counted]. Like
    /// [`Transfer::records`]: [`Report::records`] is the number of delimiters that all sinks have
    /// accepted. Only [`Strategy::Buffered`] remains.
    pub fn records(mut self, delimiter: u8) -> Self {
        self.settings.options.records.delimiter = Some(delimiter);
        self
    }
}
