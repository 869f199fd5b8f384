//! What a [`Transfer`] can be told that is counted in records.

use std::num::NonZeroU64;

use super::Transfer;

#[cfg(doc)]
use crate::{Ended, Progress, Report};

impl Transfer<'_> {
    /// Counts records, stretches of bytes that end in `delimiter`: lines in `b'\n'`, what
    /// `find -print0` prints in 0.
    ///
    /// Counted are the delimiters among the bytes that the sink has accepted, or all sinks have: what follows
    /// the last of them is no record. [`Progress::records`] and [`Report::records`] have the number. The
    /// zeros of a hole, whether the sink has it as one or not, and those of a [bad block](Self::skip_errors)
    /// are bytes like others.
    ///
    /// The bytes then have to pass through user space, and the plan says so.
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
    /// assert_eq!(report.strategy(), Strategy::Buffered);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn records(mut self, delimiter: u8) -> Self {
        self.options.records.delimiter = Some(delimiter);
        self
    }

    /// Stops right behind the `n`th delimiter: not one byte more reaches the sink.
    ///
    /// Records are lines, unless [`records`](Self::records) says what ends one. Reading stops where a read
    /// does, as nobody knows before where the delimiter is. What was read beyond it is given back: a file or
    /// block device is left right behind the delimiter, and of anything else the report has
    /// [the bytes](Report::undelivered). With a [limit](Self::limit) of bytes, whichever comes first
    /// counts. The transfer ends by [`Ended::Limit`].
    ///
    /// A message of a datagram socket is moved whole or, if it goes beyond the `n`th delimiter, be it by a
    /// byte, not at all. It has been read then, and the report has it.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) refuses it for [several sinks](Self::also_to), or for one that is served as several
    /// are (`EINVAL`).
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
        self.options.records.limit = Some(n);
        self
    }

    /// Moves at most this many records per second, with bursts of at most a tenth of a second's worth, but
    /// one at least. 0 is taken for 1.
    ///
    /// Records are lines, unless [`records`](Self::records) says what ends one; one that is not complete yet
    /// is not held back. What was read is kept until its time comes, a buffer full of it at the most, and is
    /// given back if the transfer ends before, as by [`record_limit`](Self::record_limit). A message of a datagram socket is
    /// moved whole; what it has too many counts against the next.
    ///
    /// # Errors
    ///
    /// As [`record_limit`](Self::record_limit).
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
    pub fn record_rate_limit(mut self, records_per_second: u64) -> Self {
        self.options.records.rate = NonZeroU64::new(records_per_second.max(1));
        self
    }
}
