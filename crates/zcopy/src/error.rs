//! The error of a transfer, and the report of what it had done.

use std::fmt;
use std::io;

use crate::call_error::{CallError, Cause};
use crate::report::{Bytes, Ended, RelayReport, Report, SinkReport};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Errno;

mod conversion;
mod kind;
mod predicates;

use kind::Details;
pub use kind::ErrorKind;

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
/// [`kind`](Self::kind) says what failed. [`is_disconnected`](Self::is_disconnected) and
/// [`is_timed_out`](Self::is_timed_out) answer what servers ask.
///
/// `Display` names the call and the number of bytes; [`source`](std::error::Error::source) returns
/// the cause. `{:#}` prints both: `write to the sink failed after 65536 bytes: No space left on
/// device (os error 28)`. Converted to [`std::io::Error`], the error always prints both.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use zcopy::{ErrorKind, Side, Transfer};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"hello")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///
/// let error = Transfer::new(&reader, &full).run().unwrap_err();
/// assert_eq!(error.side(), Side::Sink);
/// assert_eq!(error.bytes(), 0);
/// assert_eq!(error.undelivered(), b"hello");
/// assert_eq!(error.kind(), ErrorKind::CallFailed);
/// assert_eq!(error.io_error_kind(), std::io::ErrorKind::StorageFull);
/// assert_eq!(format!("{error}"), "write to the sink failed after 0 bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    details: Details,
    cause: io::Error,
    report: Report,
    /// The report of both directions, if the error is one of a relay.
    relay_report: Option<Box<RelayReport>>,
    /// Whether `Display` prints the cause, and [`source`](std::error::Error::source) therefore does
    /// not return it.
    displays_cause: bool,
}

/// The reason of a failure, without the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunError {
    pub(crate) details: Details,
    pub(crate) cause: Cause,
}

impl RunError {
    /// Returns the error for bad input that was found before anything moved.
    pub(crate) fn refused(side: Side, errno: Errno, reason: &'static str) -> Self {
        Self {
            details: Details::Refused { side, reason },
            cause: errno.into(),
        }
    }

    /// Returns the error for a requested strategy that cannot serve the pair.
    pub(crate) fn unsuitable(strategy: Strategy, reason: &'static str) -> Self {
        Self {
            details: Details::Unsuitable { strategy, reason },
            cause: Errno::INVAL.into(),
        }
    }

    /// Returns the error for a [`Filter`](crate::Filter) that needs more input when the input has
    /// ended or its buffer is full.
    pub(crate) fn filter_needs_more_input() -> Self {
        Self {
            details: Details::FilterFailed,
            cause: Cause::NeedsMoreInput,
        }
    }

    /// Returns the error of a transfer that has moved nothing.
    pub(crate) fn before_anything_moved(self) -> Error {
        let report = Report::of_nothing(Ended::Failed, None);
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
            details: Details::CallFailed { call, side },
            cause,
        }
    }
}

impl Error {
    pub(crate) fn new(error: RunError, report: Report) -> Self {
        let cause = error.cause.to_io_error();
        Self(Box::new(Inner {
            details: error.details,
            cause,
            report,
            relay_report: None,
            displays_cause: false,
        }))
    }

    /// Replaces the cause by the error that the caller's reader or writer has returned.
    pub(crate) fn with_cause(mut self, cause: io::Error) -> Self {
        self.0.cause = cause;
        self
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
        match self.0.details {
            Details::Refused { side, .. } | Details::CallFailed { side, .. } => side,
            Details::Unsuitable { .. } | Details::FilterFailed => Side::Neither,
        }
    }

    /// Returns the [index](crate::SinkReport::index) of the sink that failed, if a
    /// [`FanOut`](crate::FanOut) has failed because of one sink.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"hello")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = zcopy::Transfer::new(&reader, &null).also_to(&full).run().unwrap_err();
    /// assert_eq!(error.sink_index(), Some(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn sink_index(&self) -> Option<usize> {
        let sinks = self.report().sinks().iter();
        let mut failed = sinks.filter(|sink| sink.cause.is_some() && !sink.is_detached);
        failed.next().map(SinkReport::index)
    }

    /// Returns the name of the failed system call as in section 2 of the manual, or of the failed
    /// method of a reader or writer ([`IoTransfer`](crate::IoTransfer)): `read`, `write` or
    /// `flush`. Returns `None` if no call failed.
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
        match self.0.details {
            Details::CallFailed { call, .. } => Some(call),
            Details::Refused { .. } | Details::Unsuitable { .. } | Details::FilterFailed => None,
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

    /// Returns the cause: the error of the failed system call, or the one that a reader or writer
    /// of yours has returned ([`IoTransfer`](crate::IoTransfer)).
    ///
    /// [`source`](std::error::Error::source) returns the same, until the error is converted to an
    /// [`io::Error`]: from then on its text contains the cause, and this method still returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use zcopy::Transfer;
    ///
    /// #[derive(Debug, PartialEq, thiserror::Error)]
    /// #[error("block {0} is damaged")]
    /// struct Damaged(u32);
    ///
    /// struct Archive;
    ///
    /// impl io::Read for Archive {
    ///     fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
    ///         Err(io::Error::new(io::ErrorKind::InvalidData, Damaged(7)))
    ///     }
    /// }
    ///
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = Transfer::from_reader(Archive, &sink).run().unwrap_err();
    /// let cause = error.io_error().get_ref().and_then(|cause| cause.downcast_ref::<Damaged>());
    /// assert_eq!(cause, Some(&Damaged(7)));
    /// # Ok::<(), io::Error>(())
    /// ```
    #[must_use]
    pub fn io_error(&self) -> &io::Error {
        &self.0.cause
    }

    /// Returns the kind of the cause, such as [`BrokenPipe`](io::ErrorKind::BrokenPipe).
    ///
    /// [`kind`](Self::kind) returns what failed.
    ///
    /// # Examples
    ///
    /// ```
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = zcopy::copy(&zeros, &full).unwrap_err();
    /// assert_eq!(error.io_error_kind(), std::io::ErrorKind::StorageFull);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn io_error_kind(&self) -> io::ErrorKind {
        self.0.cause.kind()
    }

    /// Returns the number of bytes that the sink accepted before the failure. After a failed
    /// [`SyncData`](crate::SyncData), these are not the bytes that the disk has.
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

    /// Returns the [undelivered](Error::undelivered) bytes. They are copied only if
    /// another report shares them: a clone, or that of a session that still exists.
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
        let mut details = *self.0;
        // The report of a relay shares the bytes.
        details.relay_report = None;
        details.report.into_undelivered()
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

    /// Returns the report of both directions, if a [`Relay`](crate::Relay) failed. Then
    /// [`report`](Self::report) counts the direction that failed, and that direction has
    /// [`Ended::Failed`] in the report of both.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::{Ended, Relay};
    ///
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, server) = UnixStream::pair()?;
    /// client.write_all(b"hello")?;
    /// drop(server);
    /// let error = Relay::new(&front, &back).run().unwrap_err();
    /// let report = error.relay_report().expect("a relay failed");
    /// assert_eq!(report.a_to_b().ended(), Ended::Failed);
    /// assert_eq!(report.a_to_b().bytes(), 0);
    /// assert_eq!(report.a_to_b().undelivered(), b"hello");
    /// assert!(error.is_disconnected());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn relay_report(&self) -> Option<&RelayReport> {
        self.0.relay_report.as_deref()
    }

    pub(crate) fn with_relay(mut self, report: RelayReport) -> Self {
        self.0.relay_report = Some(Box::new(report));
        self
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.details)?;
        if self.call().is_some() || self.bytes() > 0 {
            write!(f, " after {}", Bytes(self.bytes()))?;
        }
        if f.alternate() || self.0.displays_cause {
            write!(f, ": {}", self.0.cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.0.displays_cause {
            return self.0.cause.source();
        }
        Some(&self.0.cause)
    }
}
