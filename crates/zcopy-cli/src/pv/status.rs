//! The exit status of `zc-pv`.

use std::io;
use std::process::ExitCode;

use crate::common::terminal::tty::has_lost_reader;

/// The exit status: a set of errors, or 1 for an error outside of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// There was no error.
    pub const GOOD: Self = Self(0);
    /// The file of `-P` could not be written.
    pub const PIDFILE: Self = Self(1);
    /// The process of `-R` or `-Q` could not be reached, or did not answer.
    pub const REMOTE: Self = Self(1);
    /// The command of `-M` failed, or could not be run.
    pub const MONITOR: Self = Self(1);
    /// A file could not be opened or examined.
    pub const ACCESS: Self = Self(2);
    /// An input is the output.
    pub const INPUT_IS_OUTPUT: Self = Self(4);
    /// A file could not be closed, or the objects of `--json` or the digest of `--hash` could not be
    /// written.
    pub const INTERNAL: Self = Self(8);
    /// Moving bytes failed.
    pub const TRANSFER: Self = Self(16);
    /// A signal ended the transfer.
    pub const SIGNAL: Self = Self(32);
    /// The command line is invalid, or there was not enough memory. pv has one status for both.
    pub const MEMORY: Self = Self(64);

    /// Returns the status of what programs read from standard error, whether it was written or not.
    /// A reader that has gone is no error.
    #[must_use]
    pub fn of_written(written: &io::Result<()>) -> Self {
        match written {
            Err(error) if !has_lost_reader(rustix::stdio::stderr(), error) => Self::INTERNAL,
            _ => Self::GOOD,
        }
    }

    /// Adds errors.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Returns whether the status has this error.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the number of the status.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}
