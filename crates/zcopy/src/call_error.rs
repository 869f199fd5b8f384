//! What one refused call means: which side, and why.

use std::io;

use crate::side::Side;
use crate::sys::Errno;

/// Why a call moved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The kernel's error number.
    Errno(Errno),
    /// It claimed success and moved nothing, where there was something to move.
    WriteZero,
    /// No call at all: a filter neither took nor made anything.
    Idle,
    /// No call at all: somebody else moves the cursor of a file, where only read and write are exact.
    SharedCursor,
    /// Bytes that were reserved of a sink were not to be had any more, and the range stays a gap.
    Gap,
    /// No call at all: the file system of the sink is nearly full, where only read and write are exact beside others.
    LittleRoom,
}

/// A call that failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The call's name, as `man 2` has it.
    pub(crate) call: &'static str,
    pub(crate) side: Side,
    pub(crate) cause: Cause,
}

impl CallError {
    pub(crate) fn new(call: &'static str, side: Side, errno: Errno) -> Self {
        Self {
            call,
            side,
            cause: Cause::Errno(errno),
        }
    }
}

impl Cause {
    pub(crate) fn errno(self) -> Option<Errno> {
        match self {
            Cause::Errno(errno) => Some(errno),
            Cause::WriteZero
            | Cause::Idle
            | Cause::SharedCursor
            | Cause::Gap
            | Cause::LittleRoom => None,
        }
    }

    pub(crate) fn to_io_error(self) -> io::Error {
        match self {
            Cause::Errno(errno) => errno.into(),
            Cause::WriteZero => io::Error::new(io::ErrorKind::WriteZero, "the call moved nothing"),
            Cause::Idle => io::Error::other("it took none of the bytes that it had to take"),
            Cause::SharedCursor => io::Error::other("somebody else moves the cursor of a file"),
            Cause::Gap => io::Error::other(
                "a gap stays before what somebody else wrote, because the source became shorter",
            ),
            Cause::LittleRoom => io::Error::other("the file system of the sink is nearly full"),
        }
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::Errno(errno)
    }
}
