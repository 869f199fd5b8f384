//! Copies the operands in order, and reports those that fail.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::Context as _;
use zcopy::{FilterTransfer, Series};

use super::args::Args;
use super::copy_error::CopyError;
use super::format::{Format, FormatOptions, Numbering};
use super::highlight::Highlighter;
use super::lines::Lines;
use super::pipeline::{Mode, Pipeline};
use super::strict;
use super::timestamp::{Timestamper, Zone};
use crate::common::cli::message;
use crate::common::sys;
use crate::common::terminal::capabilities::Capabilities;

/// Whether every operand was copied. Each failure has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every operand was copied to its end.
    Complete,
    /// At least one operand was not.
    Incomplete,
}

/// Copies every file to standard output, in order, and reports those that fail. Without files it
/// copies standard input.
///
/// # Errors
///
/// Standard output fails. The remaining files are not tried.
pub fn run(args: &Args, files: &[OsString]) -> anyhow::Result<Outcome> {
    let stdout = rustix::stdio::stdout();
    let mut pipeline = match pipeline(args, &stdout) {
        Ok(pipeline) => pipeline,
        Err(error) => {
            message::error(&error);
            message::refer_to_help();
            return Ok(Outcome::Incomplete);
        }
    };
    rustix::fs::fstat(stdout)
        .map_err(io::Error::from)
        .context("standard output")?;
    let stdin = OsString::from("-");
    let operands = if files.is_empty() {
        std::slice::from_ref(&stdin)
    } else {
        files
    };
    let opened = if args.strict {
        match strict::open_all(operands, &pipeline) {
            Some(opened) => opened,
            None => return Ok(Outcome::Incomplete),
        }
    } else {
        Vec::new()
    };
    let outcome = copy_all(operands, opened, &mut pipeline)?;
    pipeline.finish()?;
    if operands.contains(&stdin) {
        sys::close_stdin().context("closing standard input")?;
    }
    sys::close_stdout().context("write error")?;
    Ok(outcome)
}

/// Copies every operand. The first ones may be open already.
fn copy_all(
    operands: &[OsString],
    opened: Vec<Option<File>>,
    pipeline: &mut Pipeline<'_>,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Complete;
    let opened = opened.into_iter().chain(std::iter::repeat_with(|| None));
    for (name, file) in operands.iter().zip(opened) {
        match copy(name, file, pipeline) {
            Ok(()) => {}
            Err(CopyError::Input(error)) => {
                message::error(&error);
                outcome = Outcome::Incomplete;
            }
            Err(CopyError::Output(error)) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Copies one operand.
fn copy(name: &OsStr, opened: Option<File>, pipeline: &mut Pipeline<'_>) -> Result<(), CopyError> {
    let file = match opened {
        Some(file) => file,
        None if name == "-" => return pipeline.copy(name, rustix::stdio::stdin()),
        None => File::open(name).map_err(|error| CopyError::input(name, error))?,
    };
    pipeline.copy(name, file.as_fd())
}

/// Builds the pipeline that the options ask for.
fn pipeline<'a>(args: &Args, stdout: &'a BorrowedFd<'a>) -> anyhow::Result<Pipeline<'a>> {
    let options = format_options(args);
    let timestamper = timestamper(args)?;
    let highlighter = highlighter(args, *stdout)?;
    let mode = if timestamper.is_some() || highlighter.is_some() {
        let lines = Lines::new(Format::new(options))
            .timestamper(timestamper)
            .highlighter(highlighter);
        Mode::ByLine(Box::new(FilterTransfer::new(stdout, lines)))
    } else if options.changes_nothing() {
        Mode::Unchanged(Series::new(stdout))
    } else {
        Mode::Formatted(Box::new(FilterTransfer::new(stdout, Format::new(options))))
    };
    Ok(Pipeline {
        stdout: *stdout,
        mode,
        is_stable: args.stable,
        explains: args.common.explain,
    })
}

/// Resolves the options of GNU cat, of which some imply others.
fn format_options(args: &Args) -> FormatOptions {
    let shows_all = args.show_all;
    FormatOptions {
        numbering: match (args.number_nonblank, args.number) {
            (true, _) => Numbering::NonBlank,
            (false, true) => Numbering::Every,
            (false, false) => Numbering::None,
        },
        squeeze_blank: args.squeeze_blank,
        show_ends: shows_all || args.show_ends || args.shown_with_ends,
        show_tabs: shows_all || args.show_tabs || args.shown_with_tabs,
        show_nonprinting: shows_all
            || args.show_nonprinting
            || args.shown_with_ends
            || args.shown_with_tabs,
    }
}

/// Returns what writes the time in front of each line, if an option asks for that.
fn timestamper(args: &Args) -> anyhow::Result<Option<Timestamper>> {
    anyhow::ensure!(
        !args.utc || args.timestamp.is_some(),
        "option '--utc' requires '--timestamp'"
    );
    let zone = if args.utc { Zone::Utc } else { Zone::Local };
    let mut timestamper = Timestamper::new().delta(args.timestamp_delta);
    if let Some(format) = &args.timestamp {
        timestamper = timestamper.time(format, zone)?;
    }
    let is_wanted = args.timestamp.is_some() || args.timestamp_delta;
    Ok(is_wanted.then_some(timestamper))
}

/// Returns what colours the lines, if an option asks for that and `--color` allows it. An invalid
/// pattern is an error in any case.
fn highlighter(args: &Args, stdout: BorrowedFd<'_>) -> anyhow::Result<Option<Highlighter>> {
    if args.highlight.is_empty() {
        return Ok(None);
    }
    let is_wanted = args
        .color
        .is_wanted(stdout.is_terminal(), Capabilities::from_env());
    let mut highlighter = Highlighter::new();
    for spec in &args.highlight {
        // Compiling the patterns for logs takes 2 ms.
        if is_wanted || spec != "log" {
            highlighter = highlighter.spec(spec)?;
        }
    }
    Ok(is_wanted.then_some(highlighter))
}
