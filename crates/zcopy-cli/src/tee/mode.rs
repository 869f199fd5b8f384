//! [`Mode`]: what to do when an output fails (`--output-error`).

use std::io;

use rustix::io::Errno;

use crate::common::cli::keyword::Keyword;

/// What to do when an output fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Report it and continue with the other outputs. `SIGPIPE` keeps its action, which ends the
    /// program.
    #[default]
    Traditional,
    /// Report it and continue with the other outputs.
    Warn,
    /// As `Warn`, but do not report a pipe whose reader has closed.
    WarnNopipe,
    /// Report it and exit.
    Exit,
    /// As `Exit`, but continue without a report if the reader of a pipe has closed.
    ExitNopipe,
}

impl Keyword for Mode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("warn", Mode::Warn),
        ("warn-nopipe", Mode::WarnNopipe),
        ("exit", Mode::Exit),
        ("exit-nopipe", Mode::ExitNopipe),
    ];
}

impl Mode {
    /// Returns whether this failure is reported, and so makes the exit status 1.
    pub(super) fn reports(self, cause: &io::Error) -> bool {
        let is_broken_pipe = cause.raw_os_error() == Some(Errno::PIPE.raw_os_error());
        !is_broken_pipe || matches!(self, Mode::Warn | Mode::Exit)
    }

    /// Returns whether a reported failure ends the program.
    pub(super) fn exits(self) -> bool {
        matches!(self, Mode::Exit | Mode::ExitNopipe)
    }

    /// Returns whether an output ends as soon as its reader closes. Then the program ends with the
    /// last reader, even while the input is idle.
    pub(super) fn watches_readers(self) -> bool {
        matches!(self, Mode::WarnNopipe | Mode::ExitNopipe)
    }
}
