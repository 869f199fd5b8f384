//! `zc-cat`: concatenates files to standard output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::Context as _;
use clap::ValueHint;
use zcopy::{FilterTransfer, Series};

use crate::args::Common;
use crate::choice;
use crate::{exit, sys};
use copy_error::Trouble;
use format::{Format, Look, Numbering};
use highlight::Paint;
use highlight::when::{self, ColorWhen};
use lines::Lines;
use pipeline::{Carriage, Way};
use timestamp::{Stamp, Zone};

pub mod format;
pub mod highlight;
pub mod lines;
pub mod timestamp;

mod copy_error;
mod pipeline;
mod strict;

/// The command line of `zc-cat`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-cat",
    version,
    about = "Concatenate files to standard output, by the best route the kernel offers.\n\n\
             Without FILE, or when FILE is -, read standard input."
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Args {
    /// Files to concatenate
    // For the help alone: see `args::parse_beside_operands`.
    #[arg(id = "files", value_name = "FILE", value_hint = ValueHint::FilePath)]
    _files: Vec<OsString>,

    /// Equivalent to -vET
    #[arg(short = 'A', long)]
    show_all: bool,

    /// Number the lines that are not blank, which overrides -n
    #[arg(short = 'b', long)]
    number_nonblank: bool,

    /// Equivalent to -vE
    #[arg(short = 'e')]
    shown_with_ends: bool,

    /// Put $ at the end of each line, and ^M before it where the line ends in CR LF
    #[arg(short = 'E', long)]
    show_ends: bool,

    /// Number all lines
    #[arg(short = 'n', long)]
    number: bool,

    /// Keep only the first of several blank lines that follow each other
    #[arg(short = 's', long)]
    squeeze_blank: bool,

    /// Equivalent to -vT
    #[arg(short = 't')]
    shown_with_tabs: bool,

    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    show_tabs: bool,

    /// Ignored: output is never held back
    #[arg(short = 'u')]
    unbuffered: bool,

    /// Use ^ and M- notation, except for newlines and tabs
    #[arg(short = 'v', long)]
    show_nonprinting: bool,

    /// Put the time at which it was read in front of each line, in the manner of strftime(3)
    /// [default: %Y-%m-%dT%H:%M:%S%.6f%z]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = timestamp::DEFAULT_FORMAT)]
    timestamp: Option<OsString>,

    /// Tell the time of --timestamp in UTC
    #[arg(long)]
    utc: bool,

    /// Put the seconds since the previous line in front of each line
    #[arg(long)]
    timestamp_delta: bool,

    /// Colour what matches SPEC: PATTERN=STYLE, a regular expression (of which only the groups are
    /// coloured, if it has any) and a style, for example 'timeout|refused=bold,red' or
    /// 'id=(\d+)=208,on-black'; or log, for levels, failures and times in logs of programs, syslog
    /// and the kernel. A later SPEC overrides those before it
    // No value is an argument of its own, so that what is an operand shows without parsing.
    #[arg(long, value_name = "SPEC", require_equals = true)]
    highlight: Vec<OsString>,

    // As an attribute, because clippy wants backquotes around NO_COLOR, which help would show.
    #[arg(
        long,
        help = "When to colour matches: always, never, or auto (if standard output is a terminal, TERM is set and not dumb, and NO_COLOR is not set); without WHEN, always",
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "always",
        hide_possible_values = true,
        value_parser = choice::parser::<ColorWhen>()
    )]
    color: ColorWhen,

    /// Open and check every FILE before anything is written, and write nothing if one of them cannot be read
    #[arg(long)]
    strict: bool,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long)]
    stable: bool,

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

/// Copies every file to standard output, in order, and complains of those it cannot. Without one it copies standard input.
///
/// # Errors
///
/// When standard output fails, at which the rest is not tried.
pub fn run(args: &Args, files: &[OsString]) -> anyhow::Result<Outcome> {
    let stdout = rustix::stdio::stdout();
    let mut way = match way(args, &stdout) {
        Ok(way) => way,
        Err(error) => {
            exit::complain(&error);
            exit::refer_to_help();
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
        match strict::open_all(operands, &way) {
            Some(opened) => opened,
            None => return Ok(Outcome::Incomplete),
        }
    } else {
        Vec::new()
    };
    let outcome = copy_all(operands, opened, &mut way)?;
    way.finish()?;
    if operands.contains(&stdin) {
        sys::close_stdin().context("closing standard input")?;
    }
    sys::close_stdout().context("write error")?;
    Ok(outcome)
}

/// Copies every operand, of which the first may be open already.
fn copy_all(
    operands: &[OsString],
    opened: Vec<Option<File>>,
    way: &mut Way<'_>,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Complete;
    let opened = opened.into_iter().chain(std::iter::repeat_with(|| None));
    for (name, file) in operands.iter().zip(opened) {
        match copy(name, file, way) {
            Ok(()) => {}
            Err(Trouble::Input(error)) => {
                exit::complain(&error);
                outcome = Outcome::Incomplete;
            }
            Err(Trouble::Output(error)) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Copies one operand.
fn copy(name: &OsStr, opened: Option<File>, way: &mut Way<'_>) -> Result<(), Trouble> {
    let file = match opened {
        Some(file) => file,
        None if name == "-" => return way.carry(name, rustix::stdio::stdin()),
        None => File::open(name).map_err(|error| Trouble::of_input(name, error))?,
    };
    way.carry(name, file.as_fd())
}

/// Which way the bytes go, by what is to become of them.
fn way<'a>(args: &Args, stdout: &'a BorrowedFd<'a>) -> anyhow::Result<Way<'a>> {
    let look = look(args);
    let stamp = stamp(args)?;
    let paint = paint(args, *stdout)?;
    let carriage = if stamp.is_some() || paint.is_some() {
        let lines = Lines::new(Format::new(look)).stamp(stamp).paint(paint);
        Carriage::ByLine(Box::new(FilterTransfer::new(stdout, lines)))
    } else if look.is_plain() {
        Carriage::AsItIs(Series::new(stdout))
    } else {
        Carriage::Formatted(Box::new(FilterTransfer::new(stdout, Format::new(look))))
    };
    Ok(Way {
        stdout: *stdout,
        carriage,
        is_stable: args.stable,
        explains: args.common.explain,
    })
}

/// What GNU cat's options make of the bytes.
fn look(args: &Args) -> Look {
    let shows_all = args.show_all;
    Look {
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

/// What stands in front of each line, if anything does.
fn stamp(args: &Args) -> anyhow::Result<Option<Stamp>> {
    anyhow::ensure!(
        !args.utc || args.timestamp.is_some(),
        "option '--utc' requires '--timestamp'"
    );
    let zone = if args.utc { Zone::Utc } else { Zone::Local };
    let mut stamp = Stamp::new().delta(args.timestamp_delta);
    if let Some(format) = &args.timestamp {
        stamp = stamp.time(format, zone)?;
    }
    let is_wanted = args.timestamp.is_some() || args.timestamp_delta;
    Ok(is_wanted.then_some(stamp))
}

/// How lines are coloured, if they are. What is wrong with a pattern is said all the same.
fn paint(args: &Args, stdout: BorrowedFd<'_>) -> anyhow::Result<Option<Paint>> {
    if args.highlight.is_empty() {
        return Ok(None);
    }
    let is_wanted = when::is_wanted(
        args.color,
        stdout.is_terminal(),
        std::env::var_os("NO_COLOR").as_deref(),
        std::env::var_os("TERM").as_deref(),
    );
    let mut paint = Paint::new();
    for value in &args.highlight {
        // To make the patterns for logs takes 2 ms.
        if is_wanted || value != "log" {
            paint = paint.option(value)?;
        }
    }
    Ok(is_wanted.then_some(paint))
}
