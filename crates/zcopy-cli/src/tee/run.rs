//! Opens the outputs, copies standard input to them, and reports each failure.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;

use anyhow::anyhow;
use zcopy::{Cache, FanOut, OnSinkError, Report, Side, SinkReport, Strategy, Transfer};

use super::args::{Args, Pages};
use super::error_policy::{Abort, ErrorPolicy};
use super::mode::Mode;
use super::output::Output;
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::io::probe::read_one_byte;
use crate::common::io::same_file::is_pair_refused;
use crate::common::io::same_file::{self, Relation};
use crate::common::sys;

/// Whether every output got the whole input. Each failure has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every output got the whole input.
    Complete,
    /// At least one output or the input failed.
    Incomplete,
}

/// Copies standard input to standard output and every file. Reports each failure at once.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    let mode = args.mode();
    if args.ignore_interrupts {
        sys::ignore_sigint();
    }
    if mode != Mode::Traditional {
        sys::ignore_sigpipe();
    }
    let policy = ErrorPolicy::new(mode);
    match tee(args, mode, &policy) {
        Ok(()) if !policy.has_reported() => Outcome::Complete,
        _ => Outcome::Incomplete,
    }
}

/// Opens the outputs, copies the input to them, and closes them.
fn tee(args: &Args, mode: Mode, policy: &ErrorPolicy) -> Result<(), Abort> {
    let stdout = Output::standard();
    let stdout_is_closed = !stdout.is_writable();
    let mut outputs = Vec::with_capacity(args.files.len() + 1);
    if !stdout_is_closed {
        outputs.push(stdout);
    }
    for name in &args.files {
        match Output::open(name, args.append) {
            Ok(output) => outputs.push(output),
            Err(error) => policy.output_failed(name, error)?,
        }
    }
    if stdout_is_closed {
        policy.report_closed_stdout_later();
    }
    if outputs.is_empty() || stdout_is_closed && mode.exits() {
        read_without_output(policy)?;
    } else {
        copy_all(args, mode, &mut outputs, policy)?;
    }
    for output in outputs {
        let name = quoted(&output.name);
        if let Err(error) = output.close() {
            policy.report(&anyhow!(error).context(name));
        }
    }
    if let Err(error) = sys::close_stdin() {
        policy.report(&anyhow!(error).context("standard input"));
    }
    if !stdout_is_closed && let Err(error) = sys::close_stdout() {
        policy.report(&anyhow!(error).context("write error"));
    }
    Ok(())
}

/// Reads at most one byte, if there is no output: a closed standard output is an error only if
/// there is a byte to write.
fn read_without_output(policy: &ErrorPolicy) -> Result<(), Abort> {
    match read_one_byte(rustix::stdio::stdin()) {
        Ok(true) => {
            policy.note_input();
            return policy.after_error();
        }
        Ok(false) => {}
        Err(error) => policy.report(&input_error(&error)),
    }
    Ok(())
}

/// Copies standard input to all outputs. Removes those that fail from the list.
fn copy_all(
    args: &Args,
    mode: Mode,
    outputs: &mut Vec<Output>,
    policy: &ErrorPolicy,
) -> Result<(), Abort> {
    let mut strategy = None;
    let mut has_compared = false;
    let outcome = loop {
        let outcome = transfer(args, mode, outputs, strategy, policy);
        match &outcome {
            // The library refuses before it moves a byte. So other runs cost no comparison.
            Err(error) if is_pair_refused(error) && !has_compared => {
                has_compared = true;
                strategy = remove_own_input(outputs, policy)?;
            }
            Err(error) => match unusable_output(error) {
                Some(index) => {
                    let output = outputs.remove(index);
                    policy.output_failed(&output.name, message::cause(error))?;
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
        // The policy has decided about each sink that failed, and once to stop.
        Err(error) if error.side() == Side::Sink && !report.sinks().is_empty() => {
            return Err(Abort);
        }
        Err(error) if error.side() == Side::Sink => {
            policy.output_failed(&outputs[0].name, message::cause(error))?;
            failed.push(0);
        }
        Err(error) => policy.report(&input_error(error)),
        Ok(_) => {}
    }
    for index in failed.into_iter().rev() {
        outputs.remove(index);
    }
    Ok(())
}

/// Runs one transfer, and explains it if `--explain` is given.
fn transfer(
    args: &Args,
    mode: Mode,
    outputs: &[Output],
    strategy: Option<Strategy>,
    policy: &ErrorPolicy,
) -> zcopy::Result<Report> {
    let stdin = rustix::stdio::stdin();
    let mut transfer = Transfer::new(stdin, &outputs[0]).stable(args.stable);
    if args.cache == Some(Pages::Drop) {
        transfer = transfer.cache(Cache::DropBehind);
    }
    if let Some(strategy) = strategy {
        transfer = transfer.strategy(strategy);
    }
    if policy.waits_for_input() {
        transfer = transfer.observe(|progress| {
            if progress.bytes() > 0 {
                policy.note_input();
            }
            ControlFlow::Continue(())
        });
    }
    let explains = args.common.explain;
    // A `Transfer` is cheaper than a `FanOut` for a single output.
    let outcome = if outputs.len() > 1 || mode.watches_readers() {
        let fan_out = outputs[1..].iter();
        let fan_out = fan_out.fold(FanOut::from(transfer), FanOut::also_to);
        let fan_out = fan_out
            .watch_readers(mode.watches_readers())
            .on_sink_error_with(|sink| match sink.error() {
                Some(error) => policy.on_sink_error(&outputs[sink.index()].name, error),
                None => OnSinkError::Detach,
            });
        if explains {
            message::warn(&fan_out.plan()?.to_string());
        }
        fan_out.run()
    } else {
        if explains {
            message::warn(&transfer.plan()?.to_string());
        }
        transfer.run()
    };
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    if explains {
        message::warn(&format!("{report:#}"));
    }
    if args.verbose && has_begun(&outcome) {
        print_outputs(outputs, report);
    }
    outcome
}

/// Returns whether the transfer has tried a strategy.
fn has_begun(outcome: &zcopy::Result<Report>) -> bool {
    let error = outcome.as_ref().err();
    error.is_none_or(|error| !error.report().attempts().is_empty())
}

/// Returns the index of the output that kept a fan-out from beginning, if one did.
fn unusable_output(error: &zcopy::Error) -> Option<usize> {
    let report = error.report();
    // The library asks the policy about sinks that fail later, and about readers that poll(2) finds
    // gone at once.
    let has_begun = !report.attempts().is_empty() || error.call() == Some("poll");
    let has_failed = error.side() == Side::Sink && !has_begun;
    let mut sinks = report.sinks().iter().filter(|_| has_failed);
    sinks
        .find(|sink| sink.error().is_some())
        .map(SinkReport::index)
}

/// Removes and reports outputs that would feed the input for ever, with which GNU tee fills the
/// disk. An output that is written behind where the input is read stays. Then the strategy is read
/// and write, in order.
fn remove_own_input(
    outputs: &mut Vec<Output>,
    policy: &ErrorPolicy,
) -> Result<Option<Strategy>, Abort> {
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
                let is_same = input.is_ok_and(|input| same_file::is_same(&input, &status));
                let relation = is_same.then(|| same_file::relation(stdin, sink));
                relation.transpose()
            });
        match relation {
            Ok(None) => kept.push(output),
            Ok(Some(Relation::InPlace)) => {
                strategy = Some(Strategy::Buffered);
                kept.push(output);
            }
            Ok(Some(Relation::Feedback)) => {
                let name = quoted(&output.name);
                policy.report(&anyhow!("{name}: input file is output file"));
                policy.after_error()?;
            }
            Err(error) => policy.output_failed(&output.name, error)?,
        }
    }
    *outputs = kept;
    Ok(strategy)
}

fn input_error(error: &zcopy::Error) -> anyhow::Error {
    let cause = anyhow!(message::cause(error));
    match error.side() {
        _ if message::is_out_of_memory(error) => message::memory_exhausted(),
        Side::Source => cause.context("read error"),
        _ => cause,
    }
}

/// Prints one line for each output.
fn print_outputs(outputs: &[Output], report: &Report) {
    let print =
        |output: &Output, bytes: u64, strategy: Option<Strategy>, cause: Option<io::Error>| {
            let name = quoted(&output.name);
            let cause = cause.map(|cause| format!(", ended by: {}", message::worded(&cause)));
            let cause = cause.unwrap_or_default();
            let by = strategy.map(|strategy| format!(" by {strategy}"));
            let by = by.unwrap_or_default();
            message::warn(&format!("{name}: {bytes} bytes{by}{cause}"));
        };
    match report.sinks() {
        [] => print(&outputs[0], report.bytes(), report.strategy(), None),
        sinks => {
            for (output, sink) in outputs.iter().zip(sinks) {
                print(output, sink.bytes(), sink.strategy(), sink.error());
            }
        }
    }
}
