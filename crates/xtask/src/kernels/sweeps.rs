//! Sweeps in a guest: programs that this machine has built run there under faults.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;

use super::guest::Job;
use super::package::Kernel;
use super::{name_of, run_in_guest};
use crate::programs::{Build, Programs};

/// An emulated processor is about ten times slower than the machine's own.
const TIMEOUT_MULTIPLIER: u32 = 10;

/// A sweep that a guest can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sweep {
    /// Each system call fails
    Faults,
    /// The kernel moves less than the programs ask for
    ShortCounts,
    /// The tools are killed at each system call
    Kills,
}

/// The programs that sweeps run, and the arguments of the user for the sweeps.
#[derive(Debug)]
pub(super) struct Sweeps<'a> {
    programs: Programs,
    dir: PathBuf,
    arguments: &'a [String],
}

/// The end of a sweep.
#[derive(Debug)]
pub(super) struct SweepOutcome {
    pub(super) is_right: bool,
    /// The totals and the wrong outcomes, for people.
    pub(super) text: String,
}

impl<'a> Sweeps<'a> {
    /// Builds the programs.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub(super) fn build(build: &Build, arguments: &'a [String]) -> anyhow::Result<Self> {
        Ok(Self {
            programs: Programs::build(build)?,
            dir: std::env::current_dir()?,
            arguments,
        })
    }

    /// Runs a sweep on a kernel, and prints what it prints.
    ///
    /// # Errors
    ///
    /// The kernel does not boot.
    pub(super) fn run(
        &self,
        sweep: Sweep,
        kernel: &Kernel,
        args: &super::Args,
    ) -> anyhow::Result<SweepOutcome> {
        let name = name_of(&sweep)?;
        let xtask = std::env::current_exe().context("the path of this program")?;
        let mut command = vec![
            xtask.to_string_lossy().into_owned(),
            name.clone(),
            "--programs".to_owned(),
            self.programs.dir.to_string_lossy().into_owned(),
            "--timeout-multiplier".to_owned(),
            TIMEOUT_MULTIPLIER.to_string(),
        ];
        command.extend_from_slice(self.arguments);
        let job = Job {
            name: &name,
            command,
            dir: &self.dir,
        };
        let ran = run_in_guest(kernel, &job, args)?;
        println!("{}", ran.messages.trim_end());
        let is_right = ran.has_succeeded;
        let mut text = format!(
            "- {}, {}: `{name} {}`\n",
            kernel.release,
            self.programs.description,
            self.arguments.join(" ")
        );
        for line in ran.messages.lines() {
            // The totals, and the first line of each wrong outcome.
            if line.starts_with("- ") || line.starts_with("WRONG ") {
                let _ = writeln!(text, "- {}", line.trim_start_matches("- "));
            }
        }
        if !is_right {
            let last = ran.messages.trim_end().lines().last().unwrap_or_default();
            let _ = writeln!(text, "- it did not succeed: {last}");
            println!("The messages are in {}.", ran.log.display());
            println!(
                "This repeats it: cargo xtask kernels --suite {} --sweep {name} -- {}",
                name_of(&kernel.suite)?,
                self.arguments.join(" ")
            );
        }
        Ok(SweepOutcome { is_right, text })
    }
}
