//! `zc-cat`: concatenates files to standard output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, anyhow};
use rustix::io::Errno;
use zcopy::{Series, Side, Strategy, Transfer};

use crate::args::Common;
use crate::own_output::{self, Relation};
use crate::probe::gives_anything;
use crate::quote::quoted;
use crate::{exit, sys};

/// The command line of `zc-cat`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-cat",
    version,
    about = "Concatenate files to standard output, by the best route the kernel offers.\n\n\
             Without FILE, or when FILE is -, read standard input."
)]
pub struct Args {
    /// Files to concatenate
    // For the help alone: see `args::parse_beside_operands`.
    #[arg(value_name = "FILE")]
    _files: Vec<OsString>,

    /// Copy what a later write to the file could change after it has been moved
    #[arg(long)]
    stable: bool,

    /// Ignored: output is never held back
    #[arg(short = 'u')]
    unbuffered: bool,

    #[command(flatten)]
    common: Common,
}

/// Whether every operand was copied. What was not has been complained about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every one, and whole.
    Complete,
    /// At least one was not, or not whole.
    Incomplete,
}

/// Why an operand was not copied whole.
enum Trouble {
    /// Its own fault: the next one has its turn.
    Input(anyhow::Error),
    /// Standard output's: nothing more can be done.
    Output(anyhow::Error),
}

/// Copies every file to standard output, in order, and complains of those it cannot. Without one it copies standard
/// input.
///
/// # Errors
///
/// When standard output fails, at which the rest is not tried.
pub fn run(args: &Args, files: &[OsString]) -> anyhow::Result<Outcome> {
    let stdout = rustix::stdio::stdout();
    rustix::fs::fstat(stdout)
        .map_err(io::Error::from)
        .context("standard output")?;
    let stdin = OsString::from("-");
    let operands = if files.is_empty() {
        std::slice::from_ref(&stdin)
    } else {
        files
    };
    let series = Series::into(&stdout);
    let mut outcome = Outcome::Complete;
    for name in operands {
        match copy(name, (stdout, &series), args) {
            Ok(()) => {}
            Err(Trouble::Input(error)) => {
                exit::complain(&error);
                outcome = Outcome::Incomplete;
            }
            Err(Trouble::Output(error)) => return Err(error),
        }
    }
    if operands.contains(&stdin) {
        sys::close_stdin().context("closing standard input")?;
    }
    sys::close_stdout().context("write error")?;
    Ok(outcome)
}

/// Copies one operand.
fn copy(
    name: &OsStr,
    (stdout, series): (BorrowedFd<'_>, &Series<'_>),
    args: &Args,
) -> Result<(), Trouble> {
    let of_input = |error: io::Error| Trouble::Input(anyhow!(error).context(quoted(name)));
    let file;
    let input = if name == "-" {
        rustix::stdio::stdin()
    } else {
        file = File::open(name).map_err(of_input)?;
        file.as_fd()
    };
    let mut outcome = transfer(name, series.transfer(&input), args);
    if outcome.as_ref().is_err_and(is_pair_refused) {
        // Refused before anything moved, which costs other operands nothing: only now look closer.
        match own_output::relation(input, stdout).map_err(of_input)? {
            Relation::Growing => return Err(feeds_itself(name)),
            Relation::Shifting => {
                let in_order = Transfer::new(&input, &stdout).strategy(Strategy::Buffered);
                outcome = transfer(name, in_order, args);
            }
        }
    }
    let Err(error) = outcome else {
        return Ok(());
    };
    if error.is_refused() && error.side() == Side::Sink {
        // GNU cat learns by writing what is wrong with its output: who has nothing to write never does.
        return match gives_anything(input) {
            Ok(false) => Ok(()),
            Ok(true) => Err(of_output(Errno::BADF.into())),
            Err(error) => Err(of_input(exit::cause(&error))),
        };
    }
    Err(match error.side() {
        Side::Sink => of_output(exit::cause(&error)),
        Side::Source | Side::Neither if is_pair_refused(&error) => feeds_itself(name),
        _ => of_input(exit::cause(&error)),
    })
}

/// Runs a transfer, and explains it if asked to.
fn transfer(name: &OsStr, transfer: Transfer<'_>, args: &Args) -> zcopy::Result<()> {
    let transfer = transfer.stable(args.stable);
    if !args.common.explain {
        return transfer.run().map(|_| ());
    }
    let plan = transfer.plan()?;
    exit::say(&format!("{}: {plan}", quoted(name)));
    let outcome = transfer.run();
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    exit::say(&format!("{}: {report}", quoted(name)));
    outcome.map(|_| ())
}

/// Whether the two ends are the same file, and what is written would be read again.
fn is_pair_refused(error: &zcopy::Error) -> bool {
    error.is_refused() && error.side() == Side::Neither
}

fn of_output(error: io::Error) -> Trouble {
    Trouble::Output(anyhow!(error).context("write error"))
}

fn feeds_itself(name: &OsStr) -> Trouble {
    Trouble::Input(anyhow!("{}: input file is output file", quoted(name)))
}
