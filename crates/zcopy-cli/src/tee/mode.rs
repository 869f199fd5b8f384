//! What becomes of an output that fails: `--output-error`.

use std::io;

use rustix::io::Errno;

use crate::choice::Choice;

/// What an output's failure does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is diagnosed, and the others go on; but `SIGPIPE` is let happen, which ends all.
    #[default]
    Traditional,
    /// It is diagnosed, and the others go on.
    Warn,
    /// The same, but a reader that has gone is nothing to talk about.
    WarnNopipe,
    /// It is diagnosed, and ends all.
    Exit,
    /// The same, but a reader that has gone is nothing to talk about, and the others go on.
    ExitNopipe,
}

impl Choice for Mode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("warn", Mode::Warn),
        ("warn-nopipe", Mode::WarnNopipe),
        ("exit", Mode::Exit),
        ("exit-nopipe", Mode::ExitNopipe),
    ];
}

impl Mode {
    /// Whether this failure is diagnosed. What is not does not count.
    pub(super) fn diagnoses(self, cause: &io::Error) -> bool {
        let is_broken_pipe = cause.raw_os_error() == Some(Errno::PIPE.raw_os_error());
        !is_broken_pipe || matches!(self, Mode::Warn | Mode::Exit)
    }

    /// Whether a failure that is diagnosed ends all.
    pub(super) fn exits(self) -> bool {
        matches!(self, Mode::Exit | Mode::ExitNopipe)
    }

    /// Whether an output ends as soon as its reader has gone, so that all ends with the last of them,
    /// though the input has nothing to say.
    pub(super) fn watches_readers(self) -> bool {
        matches!(self, Mode::WarnNopipe | Mode::ExitNopipe)
    }
}
