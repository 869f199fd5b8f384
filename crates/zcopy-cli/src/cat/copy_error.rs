//! Why an operand was not copied to its end.

use std::ffi::OsStr;
use std::io;

use anyhow::anyhow;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::io::same_file::is_pair_refused;

/// Why an operand was not copied to its end.
pub(super) enum CopyError {
    /// The operand failed. The next one is tried.
    Input(anyhow::Error),
    /// The program ends: standard output failed, or memory is refused.
    Output(anyhow::Error),
}

impl CopyError {
    pub(super) fn input(name: &OsStr, error: io::Error) -> Self {
        Self::Input(anyhow!(error).context(quoted(name)))
    }

    pub(super) fn output(error: io::Error) -> Self {
        Self::Output(anyhow!(error).context("write error"))
    }

    /// The operand is the file that standard output writes to, and would never end.
    pub(super) fn input_is_output(name: &OsStr) -> Self {
        Self::Input(anyhow!("{}: input file is output file", quoted(name)))
    }

    /// Converts the error of a transfer from the operand to standard output.
    pub(super) fn from_transfer(name: &OsStr, error: &zcopy::Error) -> Self {
        match error.side() {
            zcopy::Side::Sink => Self::output(message::cause(error)),
            _ if is_pair_refused(error) => Self::input_is_output(name),
            _ if message::is_out_of_memory(error) => Self::Output(message::memory_exhausted()),
            _ => Self::input(name, message::cause(error)),
        }
    }
}
