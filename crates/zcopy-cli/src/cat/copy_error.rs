//! Why an operand was not copied whole.

use std::ffi::OsStr;
use std::io;

use anyhow::anyhow;

use crate::exit;
use crate::quote::quoted;

/// Why an operand was not copied whole.
pub(super) enum Trouble {
    /// Its own fault: the next one has its turn.
    Input(anyhow::Error),
    /// Standard output's: nothing more can be done.
    Output(anyhow::Error),
}

impl Trouble {
    pub(super) fn of_input(name: &OsStr, error: io::Error) -> Self {
        Self::Input(anyhow!(error).context(quoted(name)))
    }

    pub(super) fn of_output(error: io::Error) -> Self {
        Self::Output(anyhow!(error).context("write error"))
    }

    /// The operand is the file that standard output goes to, and would never end.
    pub(super) fn feeds_itself(name: &OsStr) -> Self {
        Self::Input(anyhow!("{}: input file is output file", quoted(name)))
    }

    /// Of a transfer, on whose sides there are the operand and standard output.
    pub(super) fn of(name: &OsStr, error: &zcopy::Error) -> Self {
        match error.side() {
            zcopy::Side::Sink => Self::of_output(exit::cause(error)),
            _ if is_pair_refused(error) => Self::feeds_itself(name),
            _ => Self::of_input(name, exit::cause(error)),
        }
    }
}

/// Whether the two ends are the same file, and what is written would be read again.
pub(super) fn is_pair_refused(error: &zcopy::Error) -> bool {
    error.is_refused() && error.side() == zcopy::Side::Neither
}
