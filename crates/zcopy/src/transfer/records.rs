//! Records, such as lines: their number, its limit, and its rate.

use std::num::NonZeroU64;

use super::Transfer;
use crate::rate::RateLimiter;

#[cfg(doc)]
use crate::{Ended, Progress, Report, Strategy};

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Counts records: sequences of bytes that end in `delimiter` [default: not counted]. Lines end
    /// in `b'\n'`, and the output of `find -print0` in 0.
    ///
    /// [`Progress::records`] and [`Report::records`] return the number of delimiters that the sink
    /// has accepted; of several sinks, the number that all of them have accepted. Bytes after the
    /// last delimiter do not count as a record. The zeros of a hole, and those that replace a [bad
    /// block](Self::skip_errors), are bytes with the value 0.
    ///
    /// Choose it to count without a callback. [`inspect`](Self::inspect) passes all bytes to a
    /// callback of yours, at the same cost: the bytes must pass through user space, so that only
    /// [`Strategy::Buffered`] remains.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"one\ntwo\nthree")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&reader, &sink).records(b'\n').run()?;
    /// assert_eq!((report.bytes(), report.records()), (13, 2));
    /// assert_eq!(report.strategy(), Some(Strategy::Buffered));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn records(mut self, delimiter: u8) -> Self {
        self.settings.options.records.delimiter = Some(delimiter);
        self
    }

    /// Stops right behind the `n`th delimiter [default: no limit]: the sink receives no further
    /// byte. The transfer ends with [`Ended::Limit`].
    ///
    /// Records are lines, unless [`records`](Self::records) sets another delimiter. If there is
    /// also a [`limit`](Self::limit) of bytes, the transfer ends at the first of the two. A limit
    /// of bytes suits every strategy; a limit of records leaves only [`Strategy::Buffered`].
    ///
    /// The transfer finds a delimiter only after reading it, and may therefore read beyond the last
    /// one. It moves the cursor of a file or block device back to right behind the delimiter, and
    /// returns the excess bytes of any other source in [`Report::undelivered`].
    ///
    /// A message of a datagram socket is moved whole. If it has a byte behind the `n`th delimiter,
    /// the transfer moves none of it and returns it in the report.
    ///
    /// # Errors
    ///
    /// With [several sinks](Self::also_to), [`FanOut::run`](crate::FanOut::run) fails with
    /// `EINVAL`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"one\ntwo\nthree\n")?;
    /// let (mut head, sink) = std::io::pipe()?;
    /// let report = Transfer::new(&reader, &sink).record_limit(2).run()?;
    /// drop(sink);
    /// assert_eq!(std::io::read_to_string(&mut head)?, "one\ntwo\n");
    /// assert_eq!((report.records(), report.ended()), (2, Ended::Limit));
    /// assert_eq!(report.undelivered(), b"three\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_limit(mut self, n: u64) -> Self {
        self.settings.options.records.limit = Some(n);
        self
    }

    /// Moves at most this many records per second [default: no limit; 0 means 1], in bursts of at
    /// most a tenth of a second's records, and of at least one. A number limits this transfer
    /// alone. A [`RateLimiter`] of records per second, by value or by reference, limits all
    /// transfers that share it, and can be [changed](RateLimiter::set_rate) while they run.
    ///
    /// Records are lines, unless [`records`](Self::records) sets another delimiter. An incomplete
    /// record is not delayed. The transfer holds at most one buffer of bytes until their time
    /// comes. If it ends earlier, it returns them as [`record_limit`](Self::record_limit) does. A
    /// message of a datagram socket is moved whole; records beyond the rate delay the next message.
    ///
    /// Choose [`rate_limit`](Self::rate_limit) for bytes per second: it keeps every strategy but
    /// [`Strategy::Reflink`], where this leaves only [`Strategy::Buffered`].
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with `EINVAL` where it does with
    /// [`record_limit`](Self::record_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::{Duration, Instant};
    /// use zcopy::Transfer;
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"one\ntwo\nthree\n")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let start = Instant::now();
    /// let report = Transfer::new(&reader, &sink).record_rate_limit(30).run()?;
    /// assert_eq!(report.records(), 3);
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_rate_limit(mut self, limit: impl Into<RateLimiter>) -> Self {
        let rate_limiter = limit.into();
        self.settings.options.records.rate = NonZeroU64::new(rate_limiter.rate());
        self.settings.record_rate_limiter = Some(rate_limiter);
        self
    }
}
