//! Runs of scenarios under the tracer, which is this very program.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::Sweep;
use crate::scenario::{Observed, Scenario};
use crate::tracer::Intervention;

/// A scenario, and the tracer's intervention in it.
#[derive(Debug)]
pub(crate) struct TracedRun<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) intervention: Intervention,
}

impl TracedRun<'_> {
    /// Runs the scenario, and returns the tracer's report.
    ///
    /// # Errors
    ///
    /// As [`Scenario::run`].
    pub(crate) fn run(&self, sweep: &Sweep) -> anyhow::Result<(Observed, String)> {
        let mut tracer = tracer(self.intervention.subcommand(), sweep)?;
        let intervention = self.intervention.to_string();
        tracer.args(intervention.split(' '));
        sweep.run(self.scenario, |report| with_report(tracer, report))
    }

    /// The command that repeats the run.
    pub(crate) fn repeating_command(&self, sweep: &Sweep) -> String {
        let subcommand = self.intervention.subcommand();
        sweep.repeating_command(subcommand, self.scenario, &self.intervention)
    }
}

impl fmt::Display for TracedRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scenario.name(), self.intervention)
    }
}

/// Runs a scenario without faults, and returns the tracer's report.
///
/// # Errors
///
/// As [`Sweep::run_without_fault`].
pub(crate) fn report_without_fault(sweep: &Sweep, scenario: &Scenario) -> anyhow::Result<String> {
    // Without an intervention, each subcommand of the tracer does the same.
    let tracer = tracer("short-counts", sweep)?;
    sweep.run_without_fault(scenario, |report| with_report(tracer, report))
}

/// This program as a tracer.
fn tracer(subcommand: &str, sweep: &Sweep) -> anyhow::Result<Command> {
    let mut tracer = Command::new(std::env::current_exe().context("the path of this program")?);
    let limit = sweep.options.time_limits().traced().as_secs();
    tracer.args([subcommand, "--limit", &limit.to_string()]);
    Ok(tracer)
}

/// The tracer, writing its report to a file. The arguments of the program follow.
fn with_report(mut tracer: Command, report: &Path) -> Command {
    tracer.arg("--report").arg(report).arg("--");
    tracer
}
