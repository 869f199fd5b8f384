//! Why a transfer failed, and what it had done by then.

use std::fmt;
use std::io;

use crate::call_error::{CallError, Cause};
use crate::report::{Bytes, Ended, Report};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Errno;

/// The result of what this crate does.
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

/// A transfer that failed: in which call, on which side, why, and what was already done.
///
/// `Display` says what failed and after how many bytes; the cause is in
/// [`source`](std::error::Error::source). With `{:#}` it says both:
/// `write to the sink failed after 65536 bytes: No space left on device (os error 28)`.
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
/// assert_eq!(error.kind(), ErrorKind::StorageFull);
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

/// What there is to say besides the errno.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("the {} is refused: {reason}", end(*side))]
    Refused { side: Side, reason: &'static str },
    #[error("{strategy} cannot serve this pair: {reason}")]
    Unsuitable {
        strategy: Strategy,
        reason: &'static str,
    },
    #[error("{call}{} failed", preposition(call, *side))]
    Failed { call: &'static str, side: Side },
    #[error("the filter failed")]
    Idle,
}

/// A reason to fail that does not yet know what was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunError {
    pub(crate) kind: Kind,
    pub(crate) cause: Cause,
}

impl RunError {
    /// Bad input, found before anything moved.
    pub(crate) fn refused(side: Side, errno: Errno, reason: &'static str) -> Self {
        Self {
            kind: Kind::Refused { side, reason },
            cause: errno.into(),
        }
    }

    /// The strategy that the caller insists on does not do it.
    pub(crate) fn unsuitable(strategy: Strategy, reason: &'static str) -> Self {
        Self {
            kind: Kind::Unsuitable { strategy, reason },
            cause: Errno::INVAL.into(),
        }
    }

    /// A [`Filter`](crate::Filter) leaves what it must take.
    pub(crate) fn idle() -> Self {
        Self {
            kind: Kind::Idle,
            cause: Cause::Idle,
        }
    }

    /// The same, because of what the kernel said.
    /// The error of a transfer that has done nothing.
    pub(crate) fn before_anything_moved(self) -> Error {
        let report = Report::of_nothing(Ended::Failed, Strategy::Buffered);
        Error::new(self, report)
    }

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

    /// The side that failed. [`Side::Neither`] if no one side did: the pair does not suit the
    /// strategy asked for, the two ends overlap, or a [`Filter`](crate::Filter) leaves what it must take.
    ///
    /// # Examples
    ///
    /// See [`Error`].
    #[must_use]
    pub fn side(&self) -> Side {
        match self.0.kind {
            Kind::Refused { side, .. } | Kind::Failed { side, .. } => side,
            Kind::Unsuitable { .. } | Kind::Idle => Side::Neither,
        }
    }

    /// The system call that failed, as section 2 of the manual names it. None if it was no call's failure.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, writer) = std::io::pipe()?;
    /// let error = zcopy::copy(&writer, &reader).unwrap_err();
    /// assert_eq!(error.call(), None, "neither end is open the right way round");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn call(&self) -> Option<&'static str> {
        match self.0.kind {
            Kind::Failed { call, .. } => Some(call),
            Kind::Refused { .. } | Kind::Unsuitable { .. } | Kind::Idle => None,
        }
    }

    /// The errno, if the kernel gave one.
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

    /// The kind of the cause.
    ///
    /// # Examples
    ///
    /// See [`Error`].
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.cause.kind()
    }

    /// Bytes that the sink had accepted.
    ///
    /// # Examples
    ///
    /// See [`Error`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.report.bytes()
    }

    /// Bytes that were taken from a source that cannot be rewound and that the sink did not get.
    /// They come before whatever the source still holds. A file is rewound instead, and nothing is
    /// left here. Of a [`FilterTransfer`](crate::FilterTransfer): what was made and the sink did not get, whatever the source is.
    ///
    /// # Examples
    ///
    /// See [`Error`].
    #[must_use]
    pub fn undelivered(&self) -> &[u8] {
        self.0.report.undelivered()
    }

    /// As [`Error::undelivered`], to keep.
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

    /// What was done before the failure.
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

    /// As [`Error::report`], to keep.
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

    /// Whether the transfer was refused before anything moved: a directory, a descriptor open the
    /// wrong way, an offset where there are none, ends that overlap.
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

    /// Whether the strategy that was asked for, by [`strategy`](crate::Transfer::strategy) or by
    /// [`Reflink::Always`](crate::Reflink::Always), cannot serve this pair.
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

/// Keeps the kind. The error itself, with all it knows, is inside:
/// [`io::Error::get_ref`] gives it back.
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
        io::Error::new(error.kind(), error)
    }
}

fn end(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Sink => "sink",
        Side::Neither => "pair",
    }
}

/// `read from the source`, `splice into the sink`, `write to the sink`, `fstat of the sink`.
fn preposition(call: &str, side: Side) -> &'static str {
    match (side, call) {
        (Side::Source, "fstat" | "fcntl" | "getsockopt") => " of the source",
        (Side::Sink, "fstat" | "fcntl" | "getsockopt") => " of the sink",
        (Side::Source, _) => " from the source",
        (Side::Sink, "write") => " to the sink",
        (Side::Sink, _) => " into the sink",
        (Side::Neither, _) => "",
    }
}
