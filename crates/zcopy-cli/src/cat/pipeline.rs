//! The way that the operands' bytes go to standard output.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::fd::BorrowedFd;

use anyhow::Context as _;
use rustix::io::Errno;
use zcopy::{Filter, FilterTransfer, Report, Series, Side, Strategy, Transfer};

use super::copy_error::{Trouble, is_pair_refused};
use super::format::Format;
use super::lines::Lines;
use crate::exit;
use crate::own_output::{self, Relation};
use crate::probe::gives_anything;
use crate::quote::quoted;

/// The way to standard output.
pub(super) struct Way<'a> {
    pub(super) stdout: BorrowedFd<'a>,
    pub(super) carriage: Carriage<'a>,
    pub(super) is_stable: bool,
    pub(super) explains: bool,
}

/// By what the bytes go.
pub(super) enum Carriage<'a> {
    /// Nothing becomes of them.
    AsItIs(Series<'a>),
    /// They are changed as GNU cat's options say, whose line numbers run on from operand to operand.
    Formatted(Box<FilterTransfer<'a, Format>>),
    /// The same, and something is put into every line.
    ByLine(Box<FilterTransfer<'a, Lines<Format>>>),
}

impl Way<'_> {
    /// Gives standard output everything that `input` has.
    pub(super) fn carry(&mut self, name: &OsStr, input: BorrowedFd<'_>) -> Result<(), Trouble> {
        let explains = self.explains;
        let outcome = match &mut self.carriage {
            Carriage::AsItIs(series) => {
                let transfer = || series.transfer(input).stable(self.is_stable);
                as_it_is(transfer, name, (input, self.stdout), explains)?
            }
            Carriage::Formatted(rewrite) => rewritten(rewrite, name, input, explains),
            Carriage::ByLine(rewrite) => rewritten(rewrite, name, input, explains),
        };
        outcome.or_else(|error| failed(name, input, &error))
    }

    /// Whether the input can be carried, as far as that shows before anything is read. Of standard output it is told when there is
    /// something to write.
    pub(super) fn check(&self, name: &OsStr, input: BorrowedFd<'_>) -> Result<(), Trouble> {
        let planned = match &self.carriage {
            Carriage::AsItIs(series) => series.transfer(input).plan(),
            Carriage::Formatted(rewrite) => rewrite.plan(input),
            Carriage::ByLine(rewrite) => rewrite.plan(input),
        };
        match planned {
            Err(error) if is_pair_refused(&error) => match &self.carriage {
                Carriage::AsItIs(_) => in_order_at_least(name, (input, self.stdout)),
                _ => Err(Trouble::feeds_itself(name)),
            },
            Err(error) if error.side() != Side::Sink => Err(Trouble::of(name, &error)),
            _ => Ok(()),
        }
    }

    /// Gives standard output what waited for more. Nothing more will come.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let outcome = match &mut self.carriage {
            Carriage::AsItIs(_) => return Ok(()),
            Carriage::Formatted(rewrite) => rewrite.finish(),
            Carriage::ByLine(rewrite) => rewrite.finish(),
        };
        match outcome {
            // Nothing was written, or it would have been told.
            Err(error) if error.is_refused() => Ok(()),
            Err(error) => Err(exit::cause(&error)).context("write error"),
            Ok(_) => Ok(()),
        }
    }
}

/// Runs a transfer, in order where the input is the very file that the output goes to.
fn as_it_is<'a>(
    transfer: impl Fn() -> Transfer<'a>,
    name: &OsStr,
    (input, stdout): (BorrowedFd<'_>, BorrowedFd<'_>),
    explains: bool,
) -> Result<zcopy::Result<()>, Trouble> {
    let outcome = transferred(transfer(), name, explains);
    if !outcome.as_ref().is_err_and(is_pair_refused) {
        return Ok(outcome);
    }
    // Refused before anything moved, which costs other operands nothing: only now look closer.
    in_order_at_least(name, (input, stdout))?;
    let in_order = transfer().strategy(Strategy::Buffered);
    Ok(transferred(in_order, name, explains))
}

/// Whether the very file that the output goes to can be read and written in order, so that no byte is read twice.
fn in_order_at_least(
    name: &OsStr,
    (input, stdout): (BorrowedFd<'_>, BorrowedFd<'_>),
) -> Result<(), Trouble> {
    let relation = own_output::relation(input, stdout);
    match relation.map_err(Trouble::of_output)? {
        Relation::Growing => Err(Trouble::feeds_itself(name)),
        Relation::Shifting => Ok(()),
    }
}

/// What is to be said of a transfer that failed. Nothing, if it is for an output that nothing would have been written to.
fn failed(name: &OsStr, input: BorrowedFd<'_>, error: &zcopy::Error) -> Result<(), Trouble> {
    if !(error.is_refused() && error.side() == Side::Sink) {
        return Err(Trouble::of(name, error));
    }
    // GNU cat learns by writing what is wrong with its output: who has nothing to write never does.
    match gives_anything(input) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Trouble::of_output(Errno::BADF.into())),
        Err(error) => Err(Trouble::of_input(name, exit::cause(&error))),
    }
}

/// Runs a transfer, and explains it if asked to.
fn transferred(transfer: Transfer<'_>, name: &OsStr, explains: bool) -> zcopy::Result<()> {
    if explains {
        explain(name, &transfer.plan()?);
    }
    told(transfer.run(), name, explains)
}

/// Rewrites an input, and explains it if asked to.
fn rewritten<R: Filter>(
    rewrite: &mut FilterTransfer<'_, R>,
    name: &OsStr,
    input: BorrowedFd<'_>,
    explains: bool,
) -> zcopy::Result<()> {
    if explains {
        explain(name, &rewrite.plan(input)?);
    }
    told(rewrite.run(input), name, explains)
}

/// Explains what was done, if asked to, also by what failed.
fn told(outcome: zcopy::Result<Report>, name: &OsStr, explains: bool) -> zcopy::Result<()> {
    if explains {
        let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
        explain(name, &format_args!("{report:#}"));
    }
    outcome.map(|_| ())
}

fn explain(name: &OsStr, what: &dyn Display) {
    exit::say(&format!("{}: {what}", quoted(name)));
}
