//! What `zc-pv` ends with.

use std::process::ExitCode;

/// The exit status: a set of everything that went wrong, or 1 for what is no transfer's fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// Nothing went wrong.
    pub const GOOD: Self = Self(0);
    /// The file that the process's number should be kept in could not be written.
    pub const PIDFILE: Self = Self(1);
    /// The process of `-R` or `-Q` could not be asked, or did not answer.
    pub const REMOTE: Self = Self(1);
    /// The command of `-M` failed, or could not be run.
    pub const MONITOR: Self = Self(1);
    /// A file could not be opened or examined.
    pub const ACCESS: Self = Self(2);
    /// An input is the output.
    pub const INPUT_IS_OUTPUT: Self = Self(4);
    /// A file could not be closed.
    pub const INTERNAL: Self = Self(8);
    /// Something failed while bytes were moved.
    pub const TRANSFER: Self = Self(16);
    /// A signal ended it early.
    pub const SIGNAL: Self = Self(32);
    /// There was not enough memory, or the command line makes no sense: pv tells them as one.
    pub const MEMORY: Self = Self(64);

    /// Adds what went wrong.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether this went wrong.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// As the number that the process ends with.
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
