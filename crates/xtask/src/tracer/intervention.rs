//! The ways in which the tracer disturbs a program.

use std::fmt;

use super::Shortening;

/// A way in which the tracer disturbs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intervention {
    /// The tracer lowers counts.
    Shorten(Shortening),
    /// The tracer kills the program as a thread enters the Nth call of all threads together. The
    /// kernel does not make that call.
    Kill { nth: u32 },
}

impl Intervention {
    /// The command of this program that intervenes so.
    pub(crate) fn subcommand(self) -> &'static str {
        match self {
            Self::Shorten(_) => "short-counts",
            Self::Kill { .. } => "kills",
        }
    }
}

/// As the options that repeat it.
impl fmt::Display for Intervention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shorten(shortening) => shortening.fmt(f),
            Self::Kill { nth } => write!(f, "--when {nth}"),
        }
    }
}
