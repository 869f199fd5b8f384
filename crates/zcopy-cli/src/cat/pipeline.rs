//! [`Pipeline`]: how the bytes of the operands go to standard output.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::fd::BorrowedFd;

use anyhow::Context as _;
use rustix::io::Errno;
use zcopy::{Filter, FilterTransfer, Report, Series, Side, Strategy, Transfer};

use super::copy_error::CopyError;
use super::format::Format;
use super::lines::Lines;
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::io::probe::read_one_byte;
use crate::common::io::same_file::is_pair_refused;
use crate::common::io::same_file::{self, Relation};

/// Copies one operand after the other to standard output.
pub(super) struct Pipeline<'a> {
    pub(super) stdout: BorrowedFd<'a>,
    pub(super) mode: Mode<'a>,
    pub(super) is_stable: bool,
    pub(super) explains: bool,
}

/// How the bytes change on the way.
pub(super) enum Mode<'a> {
    /// They do not change.
    Unchanged(Series<'a>),
    /// The options of GNU cat change them. Line numbers continue from operand to operand.
    Formatted(Box<FilterTransfer<'a, Format>>),
    /// As `Formatted`, and each line gets a timestamp or colours.
    ByLine(Box<FilterTransfer<'a, Lines<Format>>>),
}

impl Pipeline<'_> {
    /// Copies `input` to standard output.
    pub(super) fn copy(&mut self, name: &OsStr, input: BorrowedFd<'_>) -> Result<(), CopyError> {
        let explains = self.explains;
        let outcome = match &mut self.mode {
            Mode::Unchanged(series) => {
                let transfer = || series.transfer(input).stable(self.is_stable);
                copy_unchanged(transfer, name, input, self.stdout, explains)?
            }
            Mode::Formatted(filter) => run_filter(filter, name, input, explains),
            Mode::ByLine(filter) => run_filter(filter, name, input, explains),
        };
        outcome.or_else(|error| convert_error(name, input, &error))
    }

    /// Checks whether the input can be copied, without reading it. Errors of standard output are
    /// left to the first write.
    pub(super) fn check(&self, name: &OsStr, input: BorrowedFd<'_>) -> Result<(), CopyError> {
        let planned = match &self.mode {
            Mode::Unchanged(series) => series.transfer(input).plan(),
            Mode::Formatted(filter) => filter.plan(input),
            Mode::ByLine(filter) => filter.plan(input),
        };
        match planned {
            Err(error) if is_pair_refused(&error) => match &self.mode {
                Mode::Unchanged(_) => check_in_place(name, input, self.stdout),
                _ => Err(CopyError::input_is_output(name)),
            },
            Err(error) if error.side() != Side::Sink => Err(CopyError::from_transfer(name, &error)),
            _ => Ok(()),
        }
    }

    /// Writes the bytes that a filter still holds. No input follows.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let outcome = match &mut self.mode {
            Mode::Unchanged(_) => return Ok(()),
            Mode::Formatted(filter) => filter.finish(),
            Mode::ByLine(filter) => filter.finish(),
        };
        match outcome {
            // Nothing was to be written, or `copy` would have failed.
            Err(error) if error.is_refused() => Ok(()),
            Err(error) => Err(message::cause(&error)).context("write error"),
            Ok(_) => Ok(()),
        }
    }
}

/// Runs a transfer. If the input is the file that the output goes to, it runs in order, by read
/// and write.
fn copy_unchanged<'a>(
    transfer: impl Fn() -> Transfer<'a>,
    name: &OsStr,
    input: BorrowedFd<'_>,
    stdout: BorrowedFd<'_>,
    explains: bool,
) -> Result<zcopy::Result<()>, CopyError> {
    let outcome = run_transfer(transfer(), name, explains);
    if !outcome.as_ref().is_err_and(is_pair_refused) {
        return Ok(outcome);
    }
    // The library refuses before it moves a byte. So other operands cost no comparison.
    check_in_place(name, input, stdout)?;
    let in_order = transfer().strategy(Strategy::Buffered);
    Ok(run_transfer(in_order, name, explains))
}

/// Checks that a file can be copied onto itself, in order, so that no byte is read twice.
fn check_in_place(
    name: &OsStr,
    input: BorrowedFd<'_>,
    stdout: BorrowedFd<'_>,
) -> Result<(), CopyError> {
    let relation = same_file::relation(input, stdout);
    match relation.map_err(CopyError::output)? {
        Relation::Feedback => Err(CopyError::input_is_output(name)),
        Relation::InPlace => Ok(()),
    }
}

/// Converts the error of a transfer. A standard output that is not open for writing is an error
/// only if there is a byte to write, as for GNU cat, which learns it from write(2).
fn convert_error(
    name: &OsStr,
    input: BorrowedFd<'_>,
    error: &zcopy::Error,
) -> Result<(), CopyError> {
    if !(error.is_refused() && error.side() == Side::Sink) {
        return Err(CopyError::from_transfer(name, error));
    }
    match read_one_byte(input) {
        Ok(false) => Ok(()),
        Ok(true) => Err(CopyError::output(Errno::BADF.into())),
        Err(error) => Err(CopyError::input(name, message::cause(&error))),
    }
}

/// Runs a transfer, and explains it if `explains` is set.
fn run_transfer(transfer: Transfer<'_>, name: &OsStr, explains: bool) -> zcopy::Result<()> {
    if explains {
        explain(name, &transfer.plan()?);
    }
    explain_outcome(transfer.run(), name, explains)
}

/// Filters an input, and explains it if `explains` is set.
fn run_filter<F: Filter>(
    filter: &mut FilterTransfer<'_, F>,
    name: &OsStr,
    input: BorrowedFd<'_>,
    explains: bool,
) -> zcopy::Result<()> {
    if explains {
        explain(name, &filter.plan(input)?);
    }
    explain_outcome(filter.run(input), name, explains)
}

/// Prints the report of a transfer, also of one that failed, if `explains` is set.
fn explain_outcome(
    outcome: zcopy::Result<Report>,
    name: &OsStr,
    explains: bool,
) -> zcopy::Result<()> {
    if explains {
        let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
        explain(name, &format_args!("{report:#}"));
    }
    outcome.map(|_| ())
}

fn explain(name: &OsStr, text: &dyn Display) {
    message::warn(&format!("{}: {text}", quoted(name)));
}
