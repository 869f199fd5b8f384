//! The system calls whose count can be lowered.

use std::fmt;

use clap::ValueEnum;

/// A system call that answers how many bytes it has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Call {
    Read,
    Write,
    Pread64,
    Pwrite64,
    Readv,
    Writev,
    Preadv,
    Pwritev,
    Preadv2,
    Pwritev2,
    Splice,
    Tee,
    Sendfile,
    CopyFileRange,
}

impl Call {
    /// Whether the count is a sum of `iov_len`.
    pub(crate) fn is_vectored(self) -> bool {
        use Call::{Preadv, Preadv2, Pwritev, Pwritev2, Readv, Writev};
        matches!(self, Readv | Writev | Preadv | Pwritev | Preadv2 | Pwritev2)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so each has a value.
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
