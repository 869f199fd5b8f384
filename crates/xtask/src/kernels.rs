//! Runs the tests on other kernels: boots those that Debian packages, in an emulator.
//!
//! The guest sees this machine's root through 9p, read-only, so that the test programs and all that
//! they call stand where they were built. The emulator needs no KVM, and is much slower than
//! the machine.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::integration_tests::{Outcome, Results, Selection, Tests, all_or};
use crate::programs::target_dir;
use crate::proof;
use guest::{Guest, Scratch};
use package::{Kernel, Suite};

mod guest;
mod package;

/// The page that holds the results, from the root of the workspace.
const PAGE: &str = "docs/kernels.md";

/// Arguments for the runs on other kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Boot the kernels of these suites of Debian [default: all]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<Suite>,
    /// Have the tests make their files here
    #[arg(long, value_enum, default_value = "ext4")]
    scratch: Scratch,
    /// End the tests of a package on a kernel after this time, and name those that have not ended
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    time_limit: u64,
    /// Write the result to docs/kernels.md
    #[arg(long)]
    record: bool,
    /// Fetch the kernels, and boot none
    #[arg(long, conflicts_with = "record")]
    fetch: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Boots the kernels in turn.
///
/// # Errors
///
/// A kernel cannot be had or booted, or a test fails or does not end there.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cache = target_dir()?.join("kernels");
    if args.fetch {
        for suite in all_or(&args.suites) {
            println!("{}", suite.fetch(&cache)?.release);
        }
        return Ok(());
    }
    let all_tests = args.selection.build()?;
    let mut all_right = true;
    for suite in all_or(&args.suites) {
        let kernel = suite.fetch(&cache)?;
        for tests in &all_tests {
            let mut results = Results::new("kernel");
            results.add(&kernel.release, tests, &run_on(&kernel, tests, args)?);
            let (text, is_right) = results.finish();
            all_right &= is_right;
            if args.record {
                // A run that takes hours leaves what it has come to.
                let (suite, files) = (name_of(suite)?, name_of(&args.scratch)?);
                let heading = format!("{suite}: tests of `{}`, files on {files}", tests.package);
                proof::record_in(PAGE, &heading, &text)?;
            }
        }
    }
    ensure!(all_right, "not all tests pass on each kernel");
    Ok(())
}

/// The name of a value in an argument.
fn name_of(value: &impl ValueEnum) -> anyhow::Result<String> {
    let value = value.to_possible_value().context("it has no name")?;
    Ok(value.get_name().to_owned())
}

/// Runs the tests of a package on a kernel.
fn run_on(kernel: &Kernel, tests: &Tests, args: &Args) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let guest = Guest {
        kernel,
        tests,
        arguments: &args.selection.arguments,
        time_limit: Duration::from_secs(args.time_limit),
        scratch: args.scratch,
    };
    let console = guest.boot().with_context(|| kernel.release.clone())?;
    let log = kernel.dir.join(format!("{}.log", tests.package));
    fs::write(&log, &console).with_context(|| log.display().to_string())?;
    let (_, said) = console.split_once("\nBEGIN ").with_context(|| {
        format!(
            "{} did not come to its tests: {}",
            kernel.release,
            log.display()
        )
    })?;
    let (messages, results) = said.rsplit_once("\nRESULTS\n").unwrap_or((said, ""));
    let outcome = Outcome::read(
        tests,
        messages,
        results,
        results.contains("END 0\n"),
        started.elapsed(),
    );
    if !outcome.is_right() {
        println!("The messages are in {}.", log.display());
    }
    Ok(outcome)
}
