//! Runs the tests on other kernels: boots those that Debian packages, in an emulator.
//!
//! The guest sees this machine's root through 9p, read-only, so that the test programs and all that
//! they call stand where they were built. Its scratch disk has ext4. The emulator needs no KVM, and
//! is some ten times slower than the machine.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::programs::target_dir;
use crate::proof;
use guest::Guest;
use outcome::Outcome;
use package::{Kernel, Suite};

mod guest;
mod outcome;
mod package;

/// Arguments for the runs on other kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Boot the kernels of these suites of Debian [default: all]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<Suite>,
    /// Run the tests of these packages [default: both]
    #[arg(long = "package", value_name = "NAME", value_parser = ["zcopy", "zcopy-cli"])]
    packages: Vec<String>,
    /// End the tests of a package on a kernel after this time, and name those that have not ended
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    time_limit: u64,
    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
    /// Arguments for the test programs, such as names of tests [default: all tests]
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// The integration tests of a package.
#[derive(Debug)]
struct Tests {
    package: String,
    program: PathBuf,
    /// The directory of the package, where cargo runs its tests.
    dir: PathBuf,
}

/// Boots the kernels in turn.
///
/// # Errors
///
/// A kernel cannot be had or booted, or a test fails or does not end there.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let all_tests = build(&args.packages)?;
    let cache = target_dir()?.join("kernels");
    let suites = if args.suites.is_empty() {
        <Suite as clap::ValueEnum>::value_variants()
    } else {
        &args.suites
    };
    let mut table = String::from(
        "| kernel | tests of | passed | failed | not ended | ignored | seconds |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    let mut details = String::new();
    let mut all_right = true;
    for suite in suites {
        let kernel = suite.fetch(&cache)?;
        for tests in &all_tests {
            let outcome = run_on(&kernel, tests, args)?;
            let row = format!(
                "| {} | `{}` | {}",
                kernel.release,
                tests.package,
                outcome.cells()
            );
            println!("{row}");
            writeln!(table, "{row}")?;
            details += &outcome.details(&kernel.release);
            all_right &= outcome.is_right();
        }
    }
    print!("{details}");
    let seconds = started.elapsed().as_secs();
    writeln!(table, "\n{details}- {seconds} s, builds included")?;
    if args.record {
        proof::record("Kernels", table.trim_end())?;
    }
    ensure!(all_right, "not all tests pass on each kernel");
    Ok(())
}

/// Runs the tests of a package on a kernel.
fn run_on(kernel: &Kernel, tests: &Tests, args: &Args) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let listed = Command::new(&tests.program)
        .args(&args.arguments)
        .arg("--list")
        .output()
        .context("the list of the tests")?;
    ensure!(listed.status.success(), "--list: {}", listed.status);
    let listed = String::from_utf8(listed.stdout)?;
    let expected = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let guest = Guest {
        kernel,
        program: &tests.program,
        dir: &tests.dir,
        arguments: &args.arguments,
        time_limit: Duration::from_secs(args.time_limit),
    };
    let console = guest.boot().with_context(|| kernel.release.clone())?;
    let log = kernel.dir.join(format!("{}.log", tests.package));
    fs::write(&log, &console).with_context(|| log.display().to_string())?;
    let mut outcome = Outcome::read(&console, expected).with_context(|| {
        format!(
            "{} did not come to its tests: {}",
            kernel.release,
            log.display()
        )
    })?;
    outcome.seconds = started.elapsed().as_secs();
    if !outcome.is_right() {
        println!("The messages are in {}.", log.display());
    }
    Ok(outcome)
}

/// Builds the integration tests of these packages, or of both.
fn build(packages: &[String]) -> anyhow::Result<Vec<Tests>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--locked", "--test", "it"]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let both = ["zcopy".to_owned(), "zcopy-cli".to_owned()];
    let packages = if packages.is_empty() { &both } else { packages };
    for package in packages {
        cargo.args(["--package", package]);
    }
    let built = cargo.stderr(Stdio::inherit()).output().context("cargo")?;
    ensure!(built.status.success(), "cargo test: {}", built.status);
    let messages = serde_json::Deserializer::from_slice(&built.stdout);
    let mut tests = Vec::new();
    for message in messages.into_iter::<serde_json::Value>() {
        let message = message.context("a message of cargo")?;
        let manifest = message["manifest_path"].as_str().map(PathBuf::from);
        if message["target"]["name"] == "it"
            && let Some(program) = message["executable"].as_str()
            && let Some(dir) = manifest.as_deref().and_then(std::path::Path::parent)
            && let Some(package) = dir.file_name()
        {
            tests.push(Tests {
                package: package.to_string_lossy().into_owned(),
                program: program.into(),
                dir: dir.to_owned(),
            });
        }
    }
    ensure!(
        tests.len() == packages.len(),
        "cargo has not built all tests"
    );
    Ok(tests)
}
