//! Runs the tests, the sweeps and a benchmark on other kernels: boots those that Debian packages, in
//! an emulator.
//!
//! The guest sees this machine's root through 9p, read-only, so that the programs and all that
//! they call stand where they were built. The emulator needs no KVM, and is much slower than
//! the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::integration_tests::{Outcome, Results, Selection, Tests, all_or};
use crate::programs::{Build, target_dir};
use crate::proof;
use guest::{Guest, Job, Scratch};
use package::{Kernel, Suite};
use ratios::Ratios;
use sweeps::{Sweep, Sweeps};

mod guest;
mod package;
mod ratios;
mod sweeps;

/// The page that holds the results, from the root of the workspace.
const PAGE: &str = "docs/kernels.md";

/// The log of a test program in a guest, which prints it at the end.
const RESULTS: &str = "/mnt/results";

/// The guest prints a line that begins so, and then runs its command.
const BEGIN: &str = "\nBEGIN ";

/// How often a guest is booted that does not come to its command. In the emulator a kernel panics now
/// and then while it starts (7.3 did in its idle loop), and has run nothing of ours.
const MOST_BOOTS: u32 = 3;

/// Arguments for the runs on other kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Boot the kernels of these suites of Debian [default: all]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<Suite>,
    /// Run these sweeps, and no tests: the arguments behind `--` are those of the sweeps
    #[arg(long = "sweep", value_name = "NAME", conflicts_with = "packages")]
    sweeps: Vec<Sweep>,
    /// Run this benchmark, and no tests: the arguments behind `--` choose pairs
    #[arg(long, value_name = "NAME", value_parser = ["ratios"])]
    #[arg(conflicts_with_all = ["packages", "sweeps"])]
    bench: Option<String>,
    /// Build the programs that a sweep runs with optimisation
    #[arg(long, requires = "sweeps")]
    release: bool,
    /// Have the tests or sweeps make their files here
    #[arg(long, value_enum, default_value = "ext4")]
    scratch: Scratch,
    /// End the tests of a package, or a sweep, on a kernel after this time, and name the tests that
    /// have not ended
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    time_limit: u64,
    /// Write the result to docs/kernels.md, where other kernels and other arguments behind `--` keep
    /// theirs
    #[arg(long)]
    record: bool,
    /// Fetch the kernels, and boot none
    #[arg(long, conflicts_with = "record")]
    fetch: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Args {
    /// Records a result of these tests, this sweep or this benchmark on one kernel. Records of other
    /// kernels stay, and those of other arguments behind `--`.
    fn record(&self, heading: &str, text: &str) -> anyhow::Result<()> {
        proof::record_selection_in(PAGE, heading, &self.selection.arguments, text)
    }
}

/// Boots the kernels in turn.
///
/// # Errors
///
/// A kernel cannot be had or booted, or a test or a sweep fails or does not end there.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cache = target_dir()?.join("kernels");
    if args.fetch {
        for suite in all_or(&args.suites) {
            println!("{}", suite.fetch(&cache)?.release);
        }
        return Ok(());
    }
    if !args.sweeps.is_empty() {
        return run_sweeps(args, &cache);
    }
    if args.bench.is_some() {
        return run_ratios(args, &cache);
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
                let (kernel, files) = (kernel.name()?, name_of(&args.scratch)?);
                let heading = format!("{kernel}: tests of `{}`, files on {files}", tests.package);
                args.record(&heading, &text)?;
            }
        }
    }
    ensure!(all_right, "not all tests pass on each kernel");
    Ok(())
}

/// Runs the benchmark on each kernel in turn.
fn run_ratios(args: &Args, cache: &Path) -> anyhow::Result<()> {
    let ratios = Ratios::build()?;
    for suite in all_or(&args.suites) {
        let kernel = suite.fetch(cache)?;
        let text = ratios.run(&kernel, args)?;
        if args.record {
            let heading = format!("{}: the plan's ratios", kernel.name()?);
            args.record(&heading, &text)?;
        }
    }
    Ok(())
}

/// Runs the sweeps on each kernel in turn.
fn run_sweeps(args: &Args, cache: &Path) -> anyhow::Result<()> {
    let build = Build {
        release: args.release,
        ..Build::default()
    };
    let sweeps = Sweeps::build(&build, &args.selection.arguments)?;
    let mut all_right = true;
    for suite in all_or(&args.suites) {
        let kernel = suite.fetch(cache)?;
        for sweep in &args.sweeps {
            let swept = sweeps.run(*sweep, &kernel, args)?;
            all_right &= swept.is_right;
            if args.record {
                let (kernel, files) = (kernel.name()?, name_of(&args.scratch)?);
                let build = if args.release { ", release build" } else { "" };
                let sweep = name_of(sweep)?;
                let heading = format!("{kernel}: sweep `{sweep}`{build}, files on {files}");
                args.record(&heading, &swept.text)?;
            }
        }
    }
    ensure!(all_right, "not all sweeps are right on each kernel");
    Ok(())
}

/// The name of a value in an argument.
fn name_of(value: &impl ValueEnum) -> anyhow::Result<String> {
    let value = value.to_possible_value().context("it has no name")?;
    Ok(value.get_name().to_owned())
}

/// The output of a command in a guest, and its success.
#[derive(Debug)]
struct GuestOutput {
    /// Its standard output and standard error.
    messages: String,
    /// The log of a test program, and the exit status of the command.
    results: String,
    /// The exit status was 0.
    has_succeeded: bool,
    /// The file that holds what the guest printed.
    log: PathBuf,
}

/// Runs a command on a kernel.
fn run_in_guest(kernel: &Kernel, job: &Job<'_>, args: &Args) -> anyhow::Result<GuestOutput> {
    let guest = Guest {
        kernel,
        job,
        time_limit: Duration::from_secs(args.time_limit),
        scratch: args.scratch,
    };
    let log = kernel.dir.join(format!("{}.log", job.name));
    let mut n_boots = 0;
    let console = loop {
        let console = guest.boot().with_context(|| kernel.release.clone())?;
        fs::write(&log, &console).with_context(|| log.display().to_string())?;
        n_boots += 1;
        if console.contains(BEGIN) || n_boots == MOST_BOOTS {
            break console;
        }
        println!(
            "{} did not come to its command, and is booted again",
            kernel.release
        );
    };
    let said = console.split_once(BEGIN);
    let said = said.and_then(|(_, said)| said.split_once('\n'));
    let (_, said) = said.with_context(|| {
        let (release, log) = (&kernel.release, log.display());
        format!("{release} did not come to its command in {n_boots} boots: {log}")
    })?;
    let (messages, results) = said.rsplit_once("\nRESULTS\n").unwrap_or((said, ""));
    Ok(GuestOutput {
        messages: messages.to_owned(),
        results: results.to_owned(),
        has_succeeded: results.contains("END 0\n"),
        log,
    })
}

/// Runs the tests of a package on a kernel.
fn run_on(kernel: &Kernel, tests: &Tests, args: &Args) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let mut command = vec![tests.program.to_string_lossy().into_owned()];
    command.extend_from_slice(&args.selection.arguments);
    // Messages of a test that has failed stand in the log even if the guest is ended.
    let log = ["--nocapture", "--logfile", RESULTS];
    command.extend(log.map(str::to_owned));
    let job = Job {
        name: &tests.package,
        command,
        dir: &tests.dir,
    };
    let ran = run_in_guest(kernel, &job, args)?;
    let outcome = Outcome::read(
        tests,
        &ran.messages,
        &ran.results,
        ran.has_succeeded,
        started.elapsed(),
    );
    if !outcome.is_right() {
        println!("The messages are in {}.", ran.log.display());
    }
    Ok(outcome)
}
