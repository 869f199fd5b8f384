//! `zc-dircopy --check`: verifies trees, and shows the progress on a terminal.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;

use super::amend::{Amended, Amendment};
use super::lock::WAITING;
use super::{Outcome, current_umask};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::sys;
use crate::common::threads;
use crate::dircopy::args::Args;
use crate::dircopy::interrupt::{self, Interrupt};
use crate::dircopy::manifest::check::total::Total;
use crate::dircopy::manifest::check::{self, Checked, Progress};
use crate::dircopy::manifest::write::manifest_mode;
use crate::dircopy::manifest::write::update::OnChange;
use crate::dircopy::reporter::Verbosity;
use crate::dircopy::schedule::fd_budget::{Descriptors, TooFew};
use crate::dircopy::stop_flag::{StopFlag, StopOnDrop};
use output::CheckOutput;

mod output;
mod progress;

/// Verifies trees against their manifests.
pub(crate) fn verify(args: &Args) -> Outcome {
    if args.hash.len() > 1 {
        message::warn("--check takes one --hash");
        message::refer_to_help();
        return Outcome::Misused;
    }
    let amendment = match Amendment::from_args(args, manifest_mode(current_umask())) {
        Ok(amendment) => amendment,
        Err(message) => {
            message::warn(&message);
            message::refer_to_help();
            return Outcome::Misused;
        }
    };
    // They are counted before any is opened.
    let descriptors = Descriptors::of_process();
    try_verify(args, amendment.as_ref(), descriptors).unwrap_or_else(|error| {
        message::error(&error);
        Outcome::Incomplete
    })
}

/// Changes the records of all trees. Reports errors, and returns how many there were.
fn amend_all(args: &Args, amendment: &Amendment, output: &CheckOutput) -> u64 {
    let here = [PathBuf::from(".")];
    let trees = match &args.paths[..] {
        [] => &here[..],
        trees => trees,
    };
    let mut n_errors = 0;
    for tree in trees {
        let name = quoted(tree.as_os_str());
        let on_wait = || message::warn(&format!("{name}: {WAITING}"));
        let on_change = |path: &[u8], change| output.report_change(tree, path, change);
        match amendment.apply(tree, on_wait, OnChange(&on_change)) {
            Ok(Amended {
                manifests,
                failures,
            }) => {
                for manifest in manifests
                    .iter()
                    .filter(|_| args.verbosity() == Verbosity::Normal)
                {
                    let manifest = quoted(manifest.as_os_str());
                    message::warn(&format!("digests in {manifest}"));
                }
                for (path, error) in failures {
                    output.report_walk_error(&path, error);
                    n_errors += 1;
                }
            }
            Err(error) => {
                output.report_walk_error(tree, error);
                n_errors += 1;
            }
        }
    }
    n_errors
}

/// Changes records, verifies all trees, and writes the total.
///
/// # Errors
///
/// Standard output or standard error cannot be written.
fn try_verify(
    args: &Args,
    amendment: Option<&Amendment>,
    descriptors: Descriptors,
) -> anyhow::Result<Outcome> {
    let options = check_options(args, descriptors);
    let output = match CheckOutput::new(args.verbosity()) {
        Ok(output) => output,
        // This fails too if there are too few descriptors.
        Err(error) => {
            let _ = options?;
            return Err(error.into());
        }
    };
    let n_errors = amendment.map_or(0, |amendment| amend_all(args, amendment, &output));
    let interrupt = Interrupt::default();
    // An amendment that waits for another run ends at once.
    interrupt.catch_signals();
    let checked = match &options {
        Ok(options) => check_trees(options, &output, &interrupt),
        Err(error) => Err((*error).into()),
    };
    let mut total = match checked {
        Ok(Checked { total, .. }) => total,
        Err(error) => {
            output.report_error(&error);
            let mut total = Total::of_nothing();
            total.add_errors(1);
            total
        }
    };
    total.add_errors(n_errors);
    if let Some(signal) = interrupt.signal() {
        total.set_interrupted();
        message::warn(&format!("interrupted by {}", interrupt::name(signal)));
    }
    let outcome = if total.is_success() {
        Outcome::Complete
    } else {
        Outcome::Incomplete
    };
    // Without options only programs are told that nothing was verified.
    let options = options.unwrap_or_else(|_| {
        let options = check::Options::new().summary(!args.no_summary);
        options.json(args.json)
    });
    check::write_total(
        &options,
        &total,
        &mut output.results(),
        &mut output.messages(),
    )?;
    drop(output);
    sys::close_stdout().context("write error")?;
    if let Some(signal) = interrupt.signal() {
        // The exit status tells the parent process which signal it was.
        sys::raise_default(signal);
    }
    Ok(outcome)
}

/// Verifies all trees, and shows the progress meanwhile.
fn check_trees(
    options: &check::Options,
    output: &CheckOutput,
    interrupt: &Interrupt,
) -> anyhow::Result<Checked> {
    let (progress, stop) = (Progress::default(), StopFlag::default());
    thread::scope(|scope| {
        if output.shows_progress() {
            progress.want_total();
            // Without a thread nothing is shown.
            let draw = || output.draw_until(&stop, &progress);
            let _ = threads::spawn_scoped(scope, draw);
        }
        let _stop = StopOnDrop(&stop);
        let (mut stdout, mut stderr) = (output.results(), output.messages());
        check::check_trees(options, &mut stdout, &mut stderr, &progress, interrupt)
    })
}

/// The options of `--check`.
///
/// # Errors
///
/// There are too few descriptors.
fn check_options(args: &Args, descriptors: Descriptors) -> Result<check::Options, TooFew> {
    let mut options = check::Options::new()
        .convert_paths(!args.no_convert_paths)
        .strict(args.strict)
        .silent(args.silent || args.quiet)
        .summary(!args.no_summary)
        .total(!args.quiet);
    if args.json {
        options = options.json(true);
    } else if args.verbose {
        options = options.verbose(true);
    }
    if let Some(size) = args.block_size {
        options = options.block_size(size);
    }
    if let Some(size) = args.queue_size {
        options = options.queue_size(size);
    }
    for directory in &args.paths {
        options = options.directory(directory);
    }
    if let Some(file) = &args.hash_file {
        options = options.hash_file(file);
    }
    if let Some(kind) = args.manifest {
        options = options.manifest(kind);
    }
    if let Some(algorithm) = args.hash.first() {
        options = options.hash(*algorithm);
    }
    let n_threads = match args.jobs {
        Some(n_jobs) => n_jobs,
        None => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    Ok(options
        .threads(descriptors.verifiers(n_threads)?)
        .most_open(descriptors.check_levels()))
}
