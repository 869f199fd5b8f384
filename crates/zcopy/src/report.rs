//! The report of a transfer.

use std::fmt;
use std::time::Duration;

use crate::strategy::Strategy;

mod attempt;
mod bad_range;
mod display;
mod page_sharing;
mod relay;
#[cfg(feature = "serde")]
mod serialize;
mod sink;
mod sum;
mod undelivered;

#[cfg(test)]
mod tests;

pub use attempt::Attempt;
pub use bad_range::BadRange;
pub(crate) use page_sharing::PageSharing;
pub use relay::RelayReport;
pub use sink::SinkReport;
pub(crate) use undelivered::Undelivered;

/// How a transfer ended.
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let report = Transfer::new(&zeros, &sink).limit(10).run()?;
/// assert_eq!(report.ended(), Ended::Limit);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Ended {
    /// The source ended.
    Eof,
    /// The limit of bytes or records was reached, or the next message would exceed it.
    Limit,
    /// The observer returned [`ControlFlow::Break`](std::ops::ControlFlow::Break), a
    /// [`Stop`](crate::Stop) was used, or the caller finished a [`Session`](crate::Session) before
    /// its end.
    Stopped,
    /// The [deadline](crate::Transfer::deadline) passed, or no byte moved for the
    /// [idle time-out](crate::Transfer::idle_timeout).
    TimedOut,
    /// Every sink failed and was [detached](crate::OnSinkError::Detach).
    NoSink,
    /// The transfer failed. Only the report inside an [`Error`](crate::Error) has this value.
    Failed,
}

/// What a transfer did: how many bytes it moved, by which strategies, and how it ended.
///
/// `Display` prints one line: the bytes, the strategy that moved the most, the time, and how the
/// transfer ended. `{:#}` prints a line for each attempt, each of several sinks, and everything
/// else that happened; the tools print it for `--explain`. The feature `serde` serializes every
/// value but the undelivered bytes, of which it gives the number.
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, Strategy, Transfer};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// std::io::Write::write_all(&mut writer, b"hello")?;
/// let sink = std::fs::File::create("/dev/null")?;
///
/// let report = Transfer::new(&reader, &sink).limit(5).run()?;
/// assert_eq!(report.bytes(), 5);
/// assert_eq!(report.ended(), Ended::Limit);
/// assert_eq!(report.attempts().iter().map(|attempt| attempt.bytes()).sum::<u64>(), 5);
///
/// // 5 bytes by splice in 16.2µs, up to the limit
/// let line = report.to_string();
/// assert!(line.starts_with("5 bytes by splice in "));
/// assert!(line.ends_with(", up to the limit"));
///
/// assert_eq!(
///     format!("{report:#}"),
///     "5 bytes by splice, up to the limit\n  \
///      splice                       5 bytes in 1 call"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) ended: Ended,
    pub(crate) elapsed: Duration,
    /// The first strategy of the plan, if there was a plan.
    pub(crate) first_choice: Option<Strategy>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) hole_bytes: u64,
    pub(crate) skipped_bytes: u64,
    pub(crate) shared_pages: PageSharing,
    pub(crate) grown_source: Option<usize>,
    pub(crate) grown_sink: Option<usize>,
    pub(crate) undelivered: Undelivered,
}

/// `1 byte`, `2 bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl Report {
    /// Returns the report of a single attempt that reached the end of the source.
    pub(crate) fn of(attempt: Attempt) -> Self {
        let nothing = Self::of_nothing(Ended::Eof, Some(attempt.strategy));
        Self {
            bytes: attempt.bytes,
            attempts: vec![attempt],
            ..nothing
        }
    }

    /// Returns the report of a transfer that could not begin. It hands back the prefix.
    pub(crate) fn of_prefix(prefix: Vec<u8>) -> Self {
        Self {
            undelivered: prefix.into(),
            ..Self::of_nothing(Ended::Failed, None)
        }
    }

    /// Returns the report of a transfer that moved nothing.
    pub(crate) fn of_nothing(ended: Ended, first_choice: Option<Strategy>) -> Self {
        Self {
            bytes: 0,
            records: 0,
            ended,
            elapsed: Duration::ZERO,
            first_choice,
            attempts: Vec::new(),
            sinks: Vec::new(),
            hole_bytes: 0,
            skipped_bytes: 0,
            shared_pages: PageSharing::None,
            grown_source: None,
            grown_sink: None,
            undelivered: Undelivered::default(),
        }
    }

    /// Returns the number of bytes that the sink accepted, holes and a
    /// [prefix](crate::Transfer::prefix) included.
    ///
    /// A socket has accepted what is in its kernel's send buffer. If the connection dies, only the
    /// peer knows how much it has received.
    ///
    /// With several sinks, this is the number of bytes that each sink has accepted that was not
    /// detached. If every sink was detached, it is the number that the last one had accepted when
    /// it was detached.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records, that is delimiters, among the [bytes](Self::bytes); 0 unless
    /// records are [counted](crate::Transfer::records).
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns how the transfer ended.
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// Returns the [`Strategy`] that moved the most bytes.
    ///
    /// If no strategy moved any, this is the one that was tried last. If none was tried, for
    /// example with a limit of 0, it is the plan's first choice. `None` means that there was no
    /// plan, because the input was [refused](crate::ErrorKind::Refused) or the requested strategy
    /// was [unsuitable](crate::ErrorKind::Unsuitable).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&reader, &sink).run()?;
    /// assert_eq!(report.strategy(), Some(Strategy::Splice));
    ///
    /// let directory = std::fs::File::open("/")?;
    /// let error = Transfer::new(&directory, &sink).run().unwrap_err();
    /// assert_eq!(error.report().strategy(), None, "nothing was tried");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn strategy(&self) -> Option<Strategy> {
        let moved = self.attempts.iter().filter(|attempt| attempt.bytes > 0);
        // `max_by_key` would return the last of several that moved the same number.
        let most = moved.reduce(|most, next| if next.bytes > most.bytes { next } else { most });
        let named = most.or(self.attempts.last());
        named.map(|attempt| attempt.strategy).or(self.first_choice)
    }

    /// Returns the time from the start of [`run`](crate::Transfer::run) to its end, by the
    /// monotonic clock. It includes the time in which the transfer waited for its ends or for a
    /// rate limit. It is 0 if the input was refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let before = Instant::now();
    /// let report = Transfer::new(&zeros, &sink).limit(64 << 20).run()?;
    /// assert!(report.elapsed() <= before.elapsed());
    ///
    /// let speed = report.bytes() as f64 / report.elapsed().as_secs_f64();
    /// assert!(speed > 0.0, "bytes per second");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns every strategy that was tried, in the order of their first calls.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns how each sink of a [`FanOut`](crate::FanOut) ended, in the order in which the sinks
    /// were given. The sink of a [`Transfer`](crate::Transfer) has no entry.
    #[must_use]
    pub fn sinks(&self) -> &[SinkReport] {
        &self.sinks
    }

    /// Returns the number of bytes that became holes in the sink instead of being written. For
    /// `/dev/null` these are the holes of the source that were not read. On FUSE a hole of less
    /// than 64 KiB over old bytes of the sink counts, too, though zeros are written for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Sparse, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-holes-{}", std::process::id()));
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create(&path)?;
    /// let report = Transfer::new(&zeros, &sink).limit(1 << 20).sparse(Sparse::Detect).run()?;
    /// assert_eq!(report.hole_bytes(), 1 << 20);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Returns the number of unreadable bytes of the source that were
    /// [skipped](crate::Transfer::skip_errors). The sink received zeros in their place.
    #[must_use]
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Returns whether a pipe or socket received pages that a later write to a file can still
    /// change.
    ///
    /// They are pages of the source file, or pages that the source pipe or socket held and that may
    /// belong to a file. [`Transfer::stable`](crate::Transfer::stable) prevents this.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-shared-{}", std::process::id()));
    /// std::fs::write(&path, [7; 60_000])?;
    /// let (_reader, writer) = std::io::pipe()?;
    ///
    /// let source = std::fs::File::open(&path)?;
    /// let report = Transfer::new(&source, &writer).source_offset(0).limit(33_000).run()?;
    /// assert!(report.shared_pages());
    ///
    /// let (_reader, writer) = std::io::pipe()?;
    /// let report = Transfer::new(&source, &writer).stable(true).run()?;
    /// assert!(!report.shared_pages());
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn shared_pages(&self) -> bool {
        self.shared_pages != PageSharing::None
    }

    /// Returns the new capacity in bytes of the caller's source pipe, if it was enlarged.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// assert_eq!(Transfer::new(&source, &sink).run()?.grown_source(), None, "only 5 bytes");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn grown_source(&self) -> Option<usize> {
        self.grown_source
    }

    /// Returns the new capacity in bytes of the caller's sink pipe, if it was enlarged. With
    /// several sinks this is the capacity of the first one; the others are enlarged too.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (_reader, writer) = std::io::pipe()?;
    /// let source = std::fs::File::open("/proc/version")?;
    /// assert_eq!(Transfer::new(&source, &writer).run()?.grown_sink(), None, "a short file");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn grown_sink(&self) -> Option<usize> {
        self.grown_sink
    }

    /// Returns the bytes that the transfer has taken from the source and the sink has not accepted.
    /// They precede the bytes that the source still holds. With several sinks, these are the bytes
    /// that not every sink has accepted: some have the [first](SinkReport::ahead) of them already.
    ///
    /// The transfer takes such bytes if it fails or is stopped, if it ends behind the last record
    /// of a [limit](crate::Transfer::record_limit), or if a limit falls inside a message that can
    /// only be read whole.
    ///
    /// The bytes of a regular file or block device are not returned, because the file still has
    /// them: the transfer moves the cursor back over them. It returns them if it cannot move the
    /// cursor, because another process or thread has moved it meanwhile, or because the file has no
    /// positions. If memory is refused, it returns the first of the bytes, and the rest is lost.
    ///
    /// For a [`FilterTransfer`](crate::FilterTransfer) these are the bytes that the filter has
    /// produced and the sink has not accepted, whatever the source is.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// drop(writer);
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// let error = Transfer::new(&reader, &full).run().unwrap_err();
    /// assert_eq!(error.report().undelivered(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn undelivered(&self) -> &[u8] {
        self.undelivered.as_slice()
    }

    /// Returns the [undelivered](Report::undelivered) bytes. They are copied only if
    /// another report shares them: a clone, or that of a session that still exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// let report = Transfer::new(&reader, &full).run().unwrap_err().into_report();
    /// let undelivered: Vec<u8> = report.into_undelivered();
    /// assert_eq!(undelivered, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_undelivered(self) -> Vec<u8> {
        self.undelivered.into_vec()
    }
}
