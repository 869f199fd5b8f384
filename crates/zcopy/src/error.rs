//! The error of a transfer, and the report of what it had done.

use std::fmt;
use std::io;

use crate::call_error::{CallError, Cause};
use crate::report::{Bytes, Ended, Report};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Errno;

/// The result of a transfer.
///
/// # Examples
///
/// ```
/// fn version_length() -> zcopy::Result<u64> {
///     let source = std::fs::File::open("/proc/version").expect("every Linux has it");
///     let sink = std::fs::File::create("/dev/null").expect("every Linux has it");
///     zcopy::copy(&source, &sink)
/// }
/// assert!(version_length().is_ok_and(|bytes| bytes > 0));
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a transfer: which call failed on which side and why, and what the transfer had done
/// before.
///
/// `Display` names the call and the number of bytes; [`source`](std::error::Error::source) returns
/// the cause. `{:#}` prints both: `write to the sink failed after 65536 bytes: No space left on
/// device (os error 28)`.
///
/// # Examples
///
/// ```
/// use std::io::{ErrorKind, Write};
/// use zcopy::{Side, Transfer};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"hello")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///
/// let error = Transfer::new(&reader, &full).run().unwrap_err();
/// assert_eq!(error.side(), Side::Sink);
/// assert_eq!(error.bytes(), 0);
/// assert_eq!(error.undelivered(), b"hello");
/// assert_eq!(error.io_error_kind(), ErrorKind::StorageFull);
/// assert_eq!(format!("{error}"), "write to the sink failed after 0 bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    cause: io::Error,
    report: Report,
}

/// What failed, besides the errno.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("the {} cannot be used: {reason}", endpoint(*side))]
    Refused { side: Side, reason: &'static str },
    #[error("{strategy} cannot serve this pair: {reason}")]
    Unsuitable {
        strategy: Strategy,
        reason: &'static str,
    },
    #[error("{call}{} failed", preposition(call, *side))]
    Failed { call: &'static str, side: Side },
    #[error("the filter failed")]
    FilterFailed,
}

/// The reason of a failure, without the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunError {
    pub(crate) kind: Kind,
    pub(crate) cause: Cause,
}

impl RunError {
    /// Returns the error for bad input that was found before anything moved.
    pub(crate) fn refused(side: Side, errno: Errno, reason: &'static str) -> Self {
        Self {
            kind: Kind::Refused { side, reason },
            cause: errno.into(),
        }
    }

    /// Returns the error for a requested strategy that cannot serve the pair.
    pub(crate) fn unsuitable(strategy: Strategy, reason: &'static str) -> Self {
        Self {
            kind: Kind::Unsuitable { strategy, reason },
            cause: Errno::INVAL.into(),
        }
    }

    /// Returns the error for a [`Filter`](crate::Filter) that needs more input when the input has
    /// ended or its buffer is full.
    pub(crate) fn filter_needs_more_input() -> Self {
        Self {
            kind: Kind::FilterFailed,
            cause: Cause::NeedsMoreInput,
        }
    }

    /// Returns the error of a transfer that has moved nothing.
    pub(crate) fn before_anything_moved(self) -> Error {
        let report = Report::of_nothing(Ended::Failed, Strategy::Buffered);
        Error::new(self, report)
    }

    /// Replaces the cause.
    pub(crate) fn caused_by(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
}

impl From<CallError> for RunError {
    fn from(CallError { call, side, cause }: CallError) -> Self {
        Self {
            kind: Kind::Failed { call, side },
            cause,
        }
    }
}

impl Error {
    pub(crate) fn new(error: RunError, report: Report) -> Self {
        let cause = error.cause.to_io_error();
        Self(Box::new(Inner {
            kind: error.kind,
            cause,
            report,
        }))
    }

    /// Returns the side that failed.
    ///
    /// [`Side::Neither`] means that no single side failed: the requested strategy cannot serve the
    /// pair; source and sink are the same pipe or overlap in one file;
    /// [`Sparse::Detect`](crate::Sparse::Detect) was set for several sinks; a
    /// [`Filter`](crate::Filter) needs more input than there is; or a call failed for lack of
    /// memory or without telling its side.
    #[must_use]
    pub fn side(&self) -> Side {
        match self.0.kind {
            Kind::Refused { side, .. } | Kind::Failed { side, .. } => side,
            Kind::Unsuitable { .. } | Kind::FilterFailed => Side::Neither,
        }
    }

    /// Returns the name of the failed system call as in section 2 of the manual, or `None` if no
    /// system call failed.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = std::io::pipe()?;
    /// let error = zcopy::copy(&writer, &reader).unwrap_err();
    /// assert_eq!(error.call(), None, "a writer cannot be read, so that no call was made");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn call(&self) -> Option<&'static str> {
        match self.0.kind {
            Kind::Failed { call, .. } => Some(call),
            Kind::Refused { .. } | Kind::Unsuitable { .. } | Kind::FilterFailed => None,
        }
    }

    /// Returns the errno of the failed system call, or the errno that stands for the reason if no
    /// call was made, such as `EISDIR` for a directory. Returns `None` if no errno describes the
    /// failure: a call that returned 0, for example, or a [`Filter`](crate::Filter) that needs more
    /// input than there is.
    ///
    /// # Examples
    ///
    /// ```
    /// let directory = std::fs::File::open("/")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = zcopy::copy(&directory, &sink).unwrap_err();
    /// assert_eq!(error.raw_os_error(), Some(21), "EISDIR");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.cause.raw_os_error()
    }

    /// Returns the kind of the cause, such as [`BrokenPipe`](io::ErrorKind::BrokenPipe).
    #[must_use]
    pub fn io_error_kind(&self) -> io::ErrorKind {
        self.0.cause.kind()
    }

    /// Returns the number of bytes that the sink accepted before the failure.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.report.bytes()
    }

    /// Returns the bytes that the transfer has taken from the source and the sink has not accepted.
    /// They precede the bytes that the source still holds.
    ///
    /// The bytes of a regular file or block device are not returned, because the transfer moves its
    /// cursor back over them, if it can. [`Report::undelivered`] says when it cannot, and which
    /// bytes these are with several sinks or a filter.
    #[must_use]
    pub fn undelivered(&self) -> &[u8] {
        self.0.report.undelivered()
    }

    /// Returns the [undelivered](Error::undelivered) bytes without copying them.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = zcopy::copy(&reader, &full).unwrap_err();
    /// assert_eq!(error.into_undelivered(), b"hello".to_vec());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_undelivered(self) -> Vec<u8> {
        self.0.report.into_undelivered()
    }

    /// Returns the report of what the transfer did before the failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Ended;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = zcopy::copy(&zeros, &full).unwrap_err();
    /// assert_eq!(error.report().ended(), Ended::Failed);
    /// assert_eq!(error.report().bytes(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    /// Returns the [report](Error::report) by value.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let report = zcopy::copy(&reader, &full).unwrap_err().into_report();
    /// assert_eq!(report.bytes(), 0);
    /// assert_eq!(report.into_undelivered(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_report(self) -> Report {
        self.0.report
    }

    /// Returns whether the input was rejected before anything moved: a descriptor that is not open,
    /// or is open the wrong way; a directory; an offset that the descriptor does not accept; the
    /// same pipe, or overlapping ranges of one file, at both ends; options that do not serve
    /// several sinks; an empty pattern.
    ///
    /// Use it to distinguish a mistake of the caller from a failure of the system.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (reader, _writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = Transfer::new(&reader, &sink).source_offset(1).run().unwrap_err();
    /// assert!(error.is_refused());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.0.kind, Kind::Refused { .. })
    }

    /// Returns whether the strategy that the caller requested, by
    /// [`strategy`](crate::Transfer::strategy) or [`Reflink::Always`](crate::Reflink::Always),
    /// cannot serve this pair. The transfer may succeed without the request. If the strategy fails
    /// only at some later call, [`bytes`](Self::bytes) have already moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = Transfer::new(&source, &sink).strategy(Strategy::Reflink).run().unwrap_err();
    /// assert!(error.is_unsuitable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_unsuitable(&self) -> bool {
        matches!(self.0.kind, Kind::Unsuitable { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind)?;
        if self.call().is_some() || self.bytes() > 0 {
            write!(f, " after {}", Bytes(self.bytes()))?;
        }
        if f.alternate() {
            write!(f, ": {}", self.0.cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.cause)
    }
}

/// Keeps the kind. [`io::Error::get_ref`] returns the original error with all its details.
///
/// # Examples
///
/// ```
/// let directory = std::fs::File::open("/")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let error = std::io::Error::from(zcopy::copy(&directory, &sink).unwrap_err());
/// assert_eq!(error.kind(), std::io::ErrorKind::IsADirectory);
/// # Ok::<(), std::io::Error>(())
/// ```
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.io_error_kind(), error)
    }
}

fn endpoint(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Sink => "sink",
        Side::Neither => "pair",
    }
}

/// Returns the end of the phrase for a failed call: `read from the source`, `splice into the sink`,
/// `write to the sink`, `fstat of the sink`, `lseek on the source`.
fn preposition(call: &str, side: Side) -> &'static str {
    match (side, call) {
        (Side::Neither, _) => "",
        (Side::Source, "fstat" | "fcntl" | "getsockopt") => " of the source",
        (Side::Sink, "fstat" | "fcntl" | "getsockopt") => " of the sink",
        (Side::Source, "close" | "lseek" | "poll") => " on the source",
        (Side::Sink, "close" | "fdatasync" | "lseek" | "poll" | "sync_file_range") => {
            " on the sink"
        }
        (Side::Source, _) => " from the source",
        (Side::Sink, "pwrite" | "write") => " to the sink",
        (Side::Sink, _) => " into the sink",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_has_the_preposition_that_fits_it() {
        for (call, side, expected) in [
            ("read", Side::Source, "read from the source failed"),
            ("splice", Side::Source, "splice from the source failed"),
            ("lseek", Side::Source, "lseek on the source failed"),
            ("fstat", Side::Source, "fstat of the source failed"),
            ("splice", Side::Sink, "splice into the sink failed"),
            ("write", Side::Sink, "write to the sink failed"),
            ("pwrite", Side::Sink, "pwrite to the sink failed"),
            ("close", Side::Sink, "close on the sink failed"),
            ("fdatasync", Side::Sink, "fdatasync on the sink failed"),
            (
                "sync_file_range",
                Side::Sink,
                "sync_file_range on the sink failed",
            ),
            ("poll", Side::Neither, "poll failed"),
        ] {
            assert_eq!(Kind::Failed { call, side }.to_string(), expected);
        }
    }
}
