//! Kills programs at each system call, and judges what they leave behind.
//!
//! The tracer counts the calls of all threads together, and sends `SIGKILL` as a thread enters the
//! Nth. The kernel does not make that call. So the sweep sees every state that a program can leave
//! behind if it is killed between two calls.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

use crate::scenario::{Kills, Scenario};
use crate::sweep::{Options, Report, Sweep, TracedRun, print_names, report_without_fault};
use crate::tracer::{self, Intervention, TracedCommand};
use crate::verdict::judge;

/// Arguments for a sweep of scenarios, or for one run of one command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// Kill only at the Nth call of all threads together.
    #[arg(long, value_name = "N")]
    when: Option<u32>,

    #[command(flatten)]
    command: TracedCommand,
}

/// Sweeps the scenarios whose check judges killed runs, or runs one command.
///
/// # Errors
///
/// A command cannot be run or traced, it hangs, or the sweep finds something.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let only = args.when.map(|nth| Intervention::Kill { nth });
    if args.command.is_given() {
        return args.command.run(only);
    }
    let options = &args.options;
    let scenarios = options.scenarios(|scenario| scenario.kills == Kills::Judged);
    if options.list {
        print_names(&scenarios);
        return Ok(());
    }
    sweep(options, &scenarios, only)
}

fn sweep(
    options: &Options,
    scenarios: &[Scenario],
    only: Option<Intervention>,
) -> anyhow::Result<()> {
    let sweep = Sweep::prepare(options)?;
    let runs = sweep.find_all(scenarios, |scenario| {
        let report = report_without_fault(&sweep, scenario)?;
        let n_calls = tracer::n_calls(&report).context("the number of calls")?;
        let kills = (1..=n_calls).map(|nth| Intervention::Kill { nth });
        let kills = only.map_or_else(|| kills.collect(), |only| vec![only]);
        let runs = kills.into_iter().map(|intervention| TracedRun {
            scenario,
            intervention,
        });
        Ok(runs.collect())
    })?;
    let runs = options.draw(runs, |run| run.scenario.name());

    let n_killed = AtomicUsize::new(0);
    sweep.for_each(&runs, |run| {
        let scenario = run.scenario;
        let (observed, _) = run.run(&sweep)?;
        let has_ended = scenario.has_succeeded(&observed);
        n_killed.fetch_add(usize::from(!has_ended), Ordering::Relaxed);
        let wrong = match scenario.check {
            Some(check) if !has_ended => check(scenario, &observed),
            _ => judge(scenario, &observed, &[], None),
        };
        if !wrong.is_empty() {
            let how = run.repeating_command(&sweep);
            sweep.report_wrong(scenario, &observed, [how].into_iter(), &wrong);
        }
        Ok(())
    })?;
    let n_killed = n_killed.into_inner();
    let report = Report {
        title: "Kills",
        restriction: only.map(|only| only.to_string()),
        lines: vec![
            format!(
                "{} scenarios, {} runs, of which {n_killed} were killed",
                scenarios.len(),
                runs.len()
            ),
            sweep.wrong_line(),
        ],
        n_reached: n_killed,
    };
    sweep.finish(&report)
}
