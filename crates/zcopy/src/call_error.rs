//! Why a call failed and on which side, and why a strategy cannot go on.

use std::io;

use crate::side::Side;
use crate::sys::Errno;

/// Why a call failed, or why a strategy cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The kernel's error number.
    Errno(Errno),
    /// The call returned 0 although there were bytes to move.
    ReturnedZero,
    /// A reader or writer of the caller's returned an error of this kind, which has no errno.
    Kind(io::ErrorKind),
    /// No call was made: a filter needs more input than there is, or than its input buffer holds.
    NeedsMoreInput,
    /// No call was made: another process or thread moves the cursor of a file, so that only read
    /// and write are exact.
    SharedCursor,
    /// The source became shorter after a range of the sink was reserved, and the rest of the range
    /// stays a gap.
    Gap,
    /// The bytes of the source are packets, of which a reader of the sink could lose parts.
    Packets,
    /// No call was made: the sink's file system is nearly full, so that only read and write are
    /// exact while other processes write too.
    DiskNearlyFull,
}

/// A failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The name of the call in section 2 of the manual, or of the method of a reader or writer.
    pub(crate) call: &'static str,
    pub(crate) side: Side,
    pub(crate) cause: Cause,
}

impl CallError {
    pub(crate) fn new(call: &'static str, side: Side, cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        Self { call, side, cause }
    }

    /// Returns the error for memory that was refused (`ENOMEM`).
    pub(crate) fn no_memory(errno: Errno) -> Self {
        Self::new("malloc", Side::Neither, errno)
    }

    /// Returns a function for `map_err`, which makes the error of this call from its errno.
    pub(crate) fn of_call(call: &'static str, side: Side) -> impl Fn(Errno) -> Self + Copy {
        move |errno| Self::new(call, side, errno)
    }
}

impl Cause {
    /// Returns the cause that stands for an error of a reader or writer of the caller's.
    pub(crate) fn of(error: &io::Error) -> Self {
        Errno::from_io_error(error).map_or(Self::Kind(error.kind()), Self::Errno)
    }

    pub(crate) fn errno(self) -> Option<Errno> {
        match self {
            Cause::Errno(errno) => Some(errno),
            _ => None,
        }
    }

    pub(crate) fn to_io_error(self) -> io::Error {
        match self {
            Cause::Errno(errno) => errno.into(),
            Cause::Kind(kind) => kind.into(),
            Cause::ReturnedZero => io::Error::new(io::ErrorKind::WriteZero, "the call returned 0"),
            Cause::NeedsMoreInput => io::Error::other(
                "it asked for more input when the input had ended or its buffer was full",
            ),
            Cause::SharedCursor => io::Error::other(
                "another process or thread moves the cursor of the file, \
                 so only read and write are exact",
            ),
            Cause::Gap => io::Error::other(
                "the source was truncated, \
                 and the rest of the range that was reserved for it in the sink remains a gap",
            ),
            Cause::Packets => io::Error::other(
                "the source is a pipe in packet mode, \
                 and only read and write make a stream of its packets",
            ),
            Cause::DiskNearlyFull => io::Error::other(
                "the sink's file system is nearly full, so no range of the sink can be reserved",
            ),
        }
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::Errno(errno)
    }
}
