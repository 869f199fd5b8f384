//! `zc-tee`: copies standard input to files and to standard output.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;

use anyhow::anyhow;
use clap::ValueHint;
use zcopy::{Cache, FanOut, OnSinkError, Report, Side, SinkReport, Strategy, Transfer};

use crate::args::Common;
use crate::choice::{self, Choice};
use crate::own_output::{self, Relation};
use crate::probe::gives_anything;
use crate::quote::quoted;
use crate::{exit, sys};
use error_policy::{Abandoned, Troubles};
pub use mode::Mode;
use output::Output;

mod error_policy;
mod mode;
mod output;

/// The command line of `zc-tee`.
#[derive(Debug, clap::Parser)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
#[command(
    name = "zc-tee",
    version,
    about = "Copy standard input to each FILE, and also to standard output, by the best route the \
             kernel offers.",
    after_help = "MODE says what a write error does:\n  \
                  warn         diagnose it, and go on with the other outputs\n  \
                  warn-nopipe  the same, but say nothing of pipes whose reader has gone\n  \
                  exit         diagnose it, and exit\n  \
                  exit-nopipe  the same, but go on without pipes whose reader has gone\n\
                  With -p it is warn-nopipe. The nopipe modes end when the last reader has gone, \
                  without waiting for more input. Without either option errors are diagnosed, and \
                  SIGPIPE ends it all."
)]
pub struct Args {
    /// Files to write; - is a file of that name
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,

    /// Append to the files instead of writing them anew
    #[arg(short, long)]
    append: bool,

    /// Ignore interrupts
    #[arg(short, long)]
    ignore_interrupts: bool,

    /// Go on when a pipe's reader goes away, until there is none left
    #[arg(short = 'p', overrides_with = "output_error")]
    outlives_readers: bool,

    /// What a write error does; see below [default: warn-nopipe]
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "warn-nopipe",
        hide_possible_values = true,
        value_parser = choice::parser::<Mode>(),
        overrides_with = "outlives_readers"
    )]
    output_error: Option<Mode>,

    /// Keep or drop what the files leave in the page cache [default: drop]
    #[arg(
        short,
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "drop",
        hide_possible_values = true,
        value_parser = choice::parser::<Pages>()
    )]
    cache: Option<Pages>,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long)]
    stable: bool,

    // Without a long name, so that `--ver` stays short for `--version`.
    /// Say at the end how many bytes went to each output, and by which route
    #[arg(short)]
    verbose: bool,

    #[command(flatten)]
    common: Common,
}

/// What becomes of pages in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They stay.
    Keep,
    /// They go, once they are on the disk.
    Drop,
}

impl Choice for Pages {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Pages::Keep), ("drop", Pages::Drop)];
}

impl Args {
    fn mode(&self) -> Mode {
        match self.output_error {
            Some(mode) => mode,
            None if self.outlives_readers => Mode::WarnNopipe,
            None => Mode::default(),
        }
    }
}

/// Whether every output was served. What was not has been complained about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every one, with all of the input.
    Complete,
    /// At least one was not, or not all of the input could be read.
    Incomplete,
}

/// Copies standard input to standard output and every file, and complains of what fails when it
/// fails.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    let mode = args.mode();
    if args.ignore_interrupts {
        sys::ignore_sigint();
    }
    if mode != Mode::Traditional {
        sys::ignore_sigpipe();
    }
    let troubles = Troubles::new(mode);
    match tee(args, mode, &troubles) {
        Ok(()) if !troubles.any() => Outcome::Complete,
        _ => Outcome::Incomplete,
    }
}

/// Opens, moves and closes.
fn tee(args: &Args, mode: Mode, troubles: &Troubles) -> Result<(), Abandoned> {
    let stdout = Output::standard();
    let is_mute = !stdout.takes_writes();
    let mut outputs = Vec::with_capacity(args.files.len() + 1);
    if !is_mute {
        outputs.push(stdout);
    }
    for name in &args.files {
        match Output::open(name, args.append) {
            Ok(output) => outputs.push(output),
            Err(error) => troubles.lose(name, error)?,
        }
    }
    if is_mute {
        troubles.expect_of_stdout();
    }
    if outputs.is_empty() || is_mute && mode.exits() {
        move_nothing(troubles)?;
    } else {
        move_all(args, mode, &mut outputs, troubles)?;
    }
    for output in outputs {
        let name = quoted(&output.name);
        if let Err(error) = output.close() {
            troubles.complain(&anyhow!(error).context(name));
        }
    }
    if let Err(error) = sys::close_stdin() {
        troubles.complain(&anyhow!(error).context("standard input"));
    }
    if !is_mute && let Err(error) = sys::close_stdout() {
        troubles.complain(&anyhow!(error).context("write error"));
    }
    Ok(())
}

/// Finds out what to complain about where nothing can be written: of standard output, if there is
/// anything to write.
fn move_nothing(troubles: &Troubles) -> Result<(), Abandoned> {
    match gives_anything(rustix::stdio::stdin()) {
        Ok(true) => {
            troubles.bytes_have_come();
            return troubles.ends_all();
        }
        Ok(false) => {}
        Err(error) => troubles.complain(&of_input(&error)),
    }
    Ok(())
}

/// Moves everything from standard input to all outputs. Those that failed are taken off the list.
fn move_all(
    args: &Args,
    mode: Mode,
    outputs: &mut Vec<Output>,
    troubles: &Troubles,
) -> Result<(), Abandoned> {
    let mut strategy = None;
    let mut has_looked = false;
    let outcome = loop {
        let outcome = transfer(args, mode, outputs, strategy, troubles);
        match &outcome {
            // Refused before anything moved, which costs others nothing: only now look closer.
            Err(error) if is_pair_refused(error) && !has_looked => {
                has_looked = true;
                strategy = without_own_input(outputs, troubles)?;
            }
            Err(error) => match unfit(error) {
                Some(index) => {
                    let output = outputs.remove(index);
                    troubles.lose(&output.name, exit::cause(error))?;
                }
                None => break outcome,
            },
            Ok(_) => break outcome,
        }
        if outputs.is_empty() {
            return Ok(());
        }
    };
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    let mut failed: Vec<usize> = report
        .sinks()
        .iter()
        .filter(|sink| sink.error().is_some())
        .map(SinkReport::index)
        .collect();
    match &outcome {
        // Of several sinks each was asked about when it failed, and one of the answers was to stop.
        Err(error) if error.side() == Side::Sink && !report.sinks().is_empty() => {
            return Err(Abandoned);
        }
        Err(error) if error.side() == Side::Sink => {
            troubles.lose(&outputs[0].name, exit::cause(error))?;
            failed.push(0);
        }
        Err(error) => troubles.complain(&of_input(error)),
        Ok(_) => {}
    }
    for index in failed.into_iter().rev() {
        outputs.remove(index);
    }
    Ok(())
}

/// Runs one transfer, and explains it if asked to.
fn transfer(
    args: &Args,
    mode: Mode,
    outputs: &[Output],
    strategy: Option<Strategy>,
    troubles: &Troubles,
) -> zcopy::Result<Report> {
    let stdin = rustix::stdio::stdin();
    let mut transfer = Transfer::new(stdin, &outputs[0]).stable(args.stable);
    if args.cache == Some(Pages::Drop) {
        transfer = transfer.cache(Cache::DropBehind);
    }
    if let Some(strategy) = strategy {
        transfer = transfer.strategy(strategy);
    }
    if troubles.expects_bytes() {
        transfer = transfer.observe(|progress| {
            if progress.bytes() > 0 {
                troubles.bytes_have_come();
            }
            ControlFlow::Continue(())
        });
    }
    let explains = args.common.explain;
    // One output alone, and nothing special, is served by what serves one.
    let outcome = if outputs.len() > 1 || mode.watches_readers() {
        let fan_out = outputs[1..].iter();
        let fan_out = fan_out.fold(FanOut::from(transfer), FanOut::also_to);
        let fan_out = fan_out
            .watch_readers(mode.watches_readers())
            .on_sink_error_with(|sink| match sink.error() {
                Some(error) => troubles.of_output(&outputs[sink.index()].name, error),
                None => OnSinkError::Detach,
            });
        if explains {
            exit::say(&fan_out.plan()?.to_string());
        }
        fan_out.run()
    } else {
        if explains {
            exit::say(&transfer.plan()?.to_string());
        }
        transfer.run()
    };
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    if explains {
        exit::say(&format!("{report:#}"));
    }
    if args.verbose && !has_not_begun(&outcome) {
        say_who_got_what(outputs, report);
    }
    outcome
}

fn has_not_begun(outcome: &zcopy::Result<Report>) -> bool {
    let error = outcome.as_ref().err();
    error.is_some_and(|error| error.report().attempts().is_empty())
}

/// The index of the output that kept the transfer from beginning, if one of several did.
fn unfit(error: &zcopy::Error) -> Option<usize> {
    let report = error.report();
    // The library asks the policy about a sink that fails later.
    let is_unfit = error.side() == Side::Sink && report.attempts().is_empty();
    let mut sinks = report.sinks().iter().filter(|_| is_unfit);
    sinks
        .find(|sink| sink.error().is_some())
        .map(SinkReport::index)
}

/// Whether an output is what standard input comes from, and what is written would be read again.
fn is_pair_refused(error: &zcopy::Error) -> bool {
    error.is_refused() && error.side() == Side::Neither
}

/// Takes off the list what would be fed by itself for ever: GNU tee fills the disk. What is written
/// where it has been read already is fine, if that is done in order.
fn without_own_input(
    outputs: &mut Vec<Output>,
    troubles: &Troubles,
) -> Result<Option<Strategy>, Abandoned> {
    let stdin = rustix::stdio::stdin();
    // If `fstat` fails on the input, the transfer reports it.
    let input = rustix::fs::fstat(stdin);
    let mut strategy = None;
    let mut kept = Vec::with_capacity(outputs.len());
    for output in outputs.drain(..) {
        let sink = output.as_fd();
        let relation = rustix::fs::fstat(sink)
            .map_err(Into::into)
            .and_then(|status| {
                let is_same = input.is_ok_and(|input| own_output::is_same(&input, &status));
                let relation = is_same.then(|| own_output::relation(stdin, sink));
                relation.transpose()
            });
        match relation {
            Ok(None) => kept.push(output),
            Ok(Some(Relation::Shifting)) => {
                strategy = Some(Strategy::Buffered);
                kept.push(output);
            }
            Ok(Some(Relation::Growing)) => {
                let name = quoted(&output.name);
                troubles.complain(&anyhow!("{name}: input file is output file"));
                troubles.ends_all()?;
            }
            Err(error) => troubles.lose(&output.name, error)?,
        }
    }
    *outputs = kept;
    Ok(strategy)
}

fn of_input(error: &zcopy::Error) -> anyhow::Error {
    let cause = anyhow!(exit::cause(error));
    match error.side() {
        Side::Source => cause.context("read error"),
        _ => cause,
    }
}

/// One line for each output.
fn say_who_got_what(outputs: &[Output], report: &Report) {
    let say =
        |output: &Output, bytes: u64, strategy: Option<Strategy>, cause: Option<io::Error>| {
            let name = quoted(&output.name);
            let cause = cause.map(|cause| format!(", ended by: {}", exit::worded(&cause)));
            let cause = cause.unwrap_or_default();
            let by = strategy.map(|strategy| format!(" by {strategy}"));
            let by = by.unwrap_or_default();
            exit::say(&format!("{name}: {bytes} bytes{by}{cause}"));
        };
    match report.sinks() {
        [] => say(&outputs[0], report.bytes(), report.strategy(), None),
        sinks => {
            for (output, sink) in outputs.iter().zip(sinks) {
                say(output, sink.bytes(), sink.strategy(), sink.error());
            }
        }
    }
}
