//! What a transfer came to.

use std::fmt;

use crate::strategy::Strategy;

mod attempt;
mod bad_range;
mod page_sharing;
mod sink;

#[cfg(test)]
mod tests;

pub use attempt::Attempt;
pub use bad_range::BadRange;
pub(crate) use page_sharing::PageSharing;
pub use sink::SinkReport;

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
#[non_exhaustive]
pub enum Ended {
    /// The source ended.
    Eof,
    /// The limit was reached, of bytes or of records, or the next message would exceed it.
    Limit,
    /// The observer said so.
    Stopped,
    /// No sink was left: each was detached when it failed. Only a transfer that
    /// [detaches](crate::OnSinkError::Detach) ends so.
    NoSink,
    /// A call failed. Only the report inside an [`Error`](crate::Error) ends so.
    Failed,
}

/// What a transfer did: how many bytes, by which strategies, and how it ended.
///
/// Its `Display` is what the tools print for `--explain`.
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, Strategy, Transfer};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// std::io::Write::write_all(&mut writer, b"hello")?;
/// drop(writer);
/// let sink = std::fs::File::create("/dev/null")?;
///
/// let report = Transfer::new(&reader, &sink).run()?;
/// assert_eq!(report.bytes(), 5);
/// assert_eq!(report.ended(), Ended::Eof);
/// assert_eq!(report.attempts().iter().map(|attempt| attempt.bytes()).sum::<u64>(), 5);
/// assert!(report.to_string().starts_with("5 bytes by "));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) ended: Ended,
    /// What would have moved the bytes, had anything been tried.
    pub(crate) first_choice: Strategy,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) hole_bytes: u64,
    pub(crate) skipped_bytes: u64,
    pub(crate) shared_pages: PageSharing,
    pub(crate) grown_source: Option<usize>,
    pub(crate) grown_sink: Option<usize>,
    pub(crate) undelivered: Undelivered,
}

/// Bytes that may be many and may be secret: debugging prints their number.
#[derive(Clone, Default)]
pub(crate) struct Undelivered(pub(crate) Vec<u8>);

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Bytes(self.0.len() as u64), f)
    }
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
    /// What one strategy did, up to the end of the source.
    pub(crate) fn of(attempt: Attempt) -> Self {
        let nothing = Self::of_nothing(Ended::Eof, attempt.strategy);
        Self {
            bytes: attempt.bytes,
            attempts: vec![attempt],
            ..nothing
        }
    }

    /// That nothing was moved.
    pub(crate) fn of_nothing(ended: Ended, first_choice: Strategy) -> Self {
        Self {
            bytes: 0,
            records: 0,
            ended,
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

    /// Bytes that the sink accepted, holes included. Of several sinks, the bytes that every one which
    /// was not detached has accepted; if all were, those of the last.
    ///
    /// # Examples
    ///
    /// See [`Report`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records among the [bytes](Self::bytes), that is delimiters; 0 unless they are
    /// [counted](crate::Transfer::records).
    ///
    /// # Examples
    ///
    /// See [`Transfer::records`](crate::Transfer::records).
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How the transfer ended.
    ///
    /// # Examples
    ///
    /// See [`Report`].
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// The [`Strategy`] that moved the most bytes. If none moved any it is the one that was tried last,
    /// and if none was tried, as with a limit of 0, the plan's choice.
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
    /// assert_eq!(report.strategy(), Strategy::Splice);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        let moved = self.attempts.iter().filter(|attempt| attempt.bytes > 0);
        // Of two that moved the same, the first is named.
        let most = moved.reduce(|most, next| if next.bytes > most.bytes { next } else { most });
        let told = most.or(self.attempts.last());
        told.map_or(self.first_choice, |attempt| attempt.strategy)
    }

    /// Every strategy that was used or tried, in the order of its first step.
    ///
    /// # Examples
    ///
    /// See [`Attempt`].
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// How each sink ended, if there are several, in their order also where nothing has moved: those of
    /// [`also_to`](crate::Transfer::also_to) follow the first. Of a single sink there is a report if it
    /// may be [detached](crate::OnSinkError::Detach) or its
    /// [reader is watched](crate::Transfer::watch_readers), and none otherwise.
    ///
    /// # Examples
    ///
    /// See [`SinkReport`].
    #[must_use]
    pub fn sinks(&self) -> &[SinkReport] {
        &self.sinks
    }

    /// Bytes that became holes in the sink instead of being written, or that `/dev/null` was not
    /// given because the source has a hole there.
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

    /// Bytes that the source could not be [read](crate::Transfer::skip_errors) for, and the sink got as
    /// zeros.
    ///
    /// # Examples
    ///
    /// See [`Transfer::skip_errors`](crate::Transfer::skip_errors).
    #[must_use]
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Whether pages were passed to a pipe or socket in which a later write to a file could still
    /// change them: those of the source file, or those that a source pipe or socket held, which may
    /// have been a file's.
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
    /// assert!(Transfer::new(&source, &writer).source_offset(0).limit(33_000).run()?.shared_pages());
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

    /// The new capacity in bytes of the caller's source pipe, if it was enlarged.
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
    /// assert_eq!(Transfer::new(&source, &sink).run()?.grown_source(), None, "it is short");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn grown_source(&self) -> Option<usize> {
        self.grown_source
    }

    /// The new capacity in bytes of the caller's sink pipe, if it was enlarged. Of several sinks, that of
    /// the first; the others are enlarged too.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (_reader, writer) = std::io::pipe()?;
    /// let source = std::fs::File::open("/proc/version")?;
    /// assert_eq!(Transfer::new(&source, &writer).run()?.grown_sink(), None, "it is short");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn grown_sink(&self) -> Option<usize> {
        self.grown_sink
    }

    /// Bytes that were taken from a source that cannot be rewound and that the sink did not get,
    /// because the transfer was stopped or failed in between, or because the limit cuts a record that
    /// can only be read whole. They come before whatever the source still holds. Of a [`FilterTransfer`](crate::FilterTransfer): what was made and the sink did not get, whatever the source is.
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
        &self.undelivered.0
    }

    /// As [`Report::undelivered`], to keep.
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
        self.undelivered.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = match self.ended {
            Ended::Eof => "to the end of the source",
            Ended::Limit => "up to the limit",
            Ended::Stopped => "until it was stopped",
            Ended::NoSink => "until no sink was left",
            Ended::Failed => "until it failed",
        };
        write!(f, "{}", Bytes(self.bytes))?;
        if !self.attempts.is_empty() {
            write!(f, " by {}", self.strategy())?;
        }
        write!(f, ", {ended}")?;
        for attempt in &self.attempts {
            write!(f, "\n  {attempt}")?;
        }
        let found_nothing = |last: &Attempt| last.bytes == 0 && last.cause.is_none();
        if self.ended == Ended::Eof && self.attempts.last().is_some_and(found_nothing) {
            write!(f, ", which found the end")?;
        }
        for sink in &self.sinks {
            write!(f, "\n{sink}")?;
        }
        if self.records > 0 {
            write!(f, "\nrecords: {}", self.records)?;
        }
        if self.hole_bytes > 0 {
            let holes = Bytes(self.hole_bytes);
            write!(f, "\nholes: {holes} of the sink left unwritten")?;
        }
        if self.skipped_bytes > 0 {
            let skipped = Bytes(self.skipped_bytes);
            write!(
                f,
                "\nskipped: {skipped} could not be read, and are zeros in the sink"
            )?;
        }
        for (end, grown) in [("source", self.grown_source), ("sink", self.grown_sink)] {
            if let Some(capacity) = grown {
                write!(f, "\npipe: the {end} was enlarged to {capacity} bytes")?;
            }
        }
        write!(f, "{}", self.shared_pages)?;
        let undelivered = Bytes(self.undelivered().len() as u64);
        if undelivered.0 > 0 {
            let verb = if undelivered.0 == 1 { "is" } else { "are" };
            write!(f, "\nundelivered: {undelivered} {verb} handed back")?;
        }
        Ok(())
    }
}
