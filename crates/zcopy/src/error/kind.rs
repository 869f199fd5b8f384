//! The kinds of errors that callers tell apart, and the details of an error.

use crate::side::Side;
use crate::strategy::Strategy;

#[cfg(doc)]
use crate::{Error, Filter, IoTransfer, Reflink, Transfer};

/// The kind of an error, as [`Error::kind`] returns it.
///
/// [`Error::io_error_kind`] returns the kind of the standard library, such as
/// [`StorageFull`](std::io::ErrorKind::StorageFull), which tells the errnos of failed calls apart.
///
/// # Examples
///
/// ```
/// use zcopy::{ErrorKind, Strategy, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
/// let directory = std::fs::File::open("/")?;
///
/// let error = Transfer::new(&zeros, &full).run().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::CallFailed);
///
/// let error = Transfer::new(&directory, &full).run().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Refused);
///
/// let error = Transfer::new(&zeros, &full).strategy(Strategy::Reflink).run().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Unsuitable);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input was rejected before anything moved: a descriptor that is not open, or is open the
    /// wrong way; a directory; an offset that the descriptor does not accept; the same pipe, or
    /// overlapping ranges of one file, at both ends; options that do not serve several sinks; an
    /// empty pattern.
    ///
    /// This is a mistake of the caller: the same call fails again.
    Refused,
    /// The strategy that the caller requested, by [`Transfer::strategy`] or [`Reflink::Always`],
    /// cannot serve this pair. The transfer may succeed without the request. If the strategy fails
    /// only at some later call, [`bytes`](Error::bytes) have already moved.
    Unsuitable,
    /// A system call failed. [`Error::call`] returns its name, [`Error::side`] its descriptor, and
    /// [`Error::raw_os_error`] its errno. Or a method of the caller's reader or writer failed
    /// ([`IoTransfer`]), whose error [`Error::io_error`] returns.
    CallFailed,
    /// A [`Filter`] needs more input than there is, or than its input buffer holds.
    FilterFailed,
}

/// The details that the text of an error names.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Details {
    #[error("the {} cannot be used: {reason}", endpoint(*side))]
    Refused { side: Side, reason: &'static str },
    #[error("{strategy} cannot serve this pair: {reason}")]
    Unsuitable {
        strategy: Strategy,
        reason: &'static str,
    },
    #[error("{} failed", what_failed(call, *side))]
    CallFailed { call: &'static str, side: Side },
    #[error("the filter failed")]
    FilterFailed,
}

impl Details {
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            Details::Refused { .. } => ErrorKind::Refused,
            Details::Unsuitable { .. } => ErrorKind::Unsuitable,
            Details::CallFailed { .. } => ErrorKind::CallFailed,
            Details::FilterFailed => ErrorKind::FilterFailed,
        }
    }
}

fn endpoint(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Sink => "sink",
        Side::Neither => "pair",
    }
}

/// Returns the failed call and its side. A `poll` of one side did not fail: it found the side
/// broken.
fn what_failed(call: &str, side: Side) -> String {
    match side {
        Side::Source | Side::Sink if call == "poll" => format!("the {}", endpoint(side)),
        _ => format!("{call}{}", preposition(call, side)),
    }
}

/// Returns the end of the phrase for a failed call: `read from the source`, `splice into the sink`,
/// `write to the sink`, `fstat of the sink`, `lseek on the source`.
fn preposition(call: &str, side: Side) -> &'static str {
    match (side, call) {
        (Side::Neither, _) => "",
        (Side::Source, "dup" | "fstat" | "fcntl" | "getsockopt") => " of the source",
        (Side::Sink, "dup" | "flush" | "fstat" | "fcntl" | "getsockopt") => " of the sink",
        (Side::Source, "close" | "epoll_ctl" | "epoll_wait" | "lseek") => " on the source",
        (
            Side::Sink,
            "close" | "epoll_ctl" | "epoll_wait" | "fdatasync" | "lseek" | "shutdown"
            | "sync_file_range",
        ) => " on the sink",
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
            ("dup", Side::Source, "dup of the source failed"),
            ("epoll_ctl", Side::Sink, "epoll_ctl on the sink failed"),
            ("fstat", Side::Source, "fstat of the source failed"),
            ("splice", Side::Sink, "splice into the sink failed"),
            ("write", Side::Sink, "write to the sink failed"),
            ("pwrite", Side::Sink, "pwrite to the sink failed"),
            ("flush", Side::Sink, "flush of the sink failed"),
            ("close", Side::Sink, "close on the sink failed"),
            ("fdatasync", Side::Sink, "fdatasync on the sink failed"),
            (
                "sync_file_range",
                Side::Sink,
                "sync_file_range on the sink failed",
            ),
            ("poll", Side::Neither, "poll failed"),
        ] {
            assert_eq!(Details::CallFailed { call, side }.to_string(), expected);
        }
    }
}
