//! Kills programs at each system call, and judges what they leave behind.
//!
//! A tracer counts the calls of all threads together, and sends `SIGKILL` as a thread enters the
//! Nth. That call is not made. So each state is seen that a program can leave behind if it is
//! killed between two calls.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::proof;
use crate::scenario::{Kills, Observed, Scenario};
use crate::sweep::{Ground, Options, run_all};
use crate::tracer::{self, Ending};
use crate::verdict::judge;

/// How long a program may run under the tracer.
const LIMIT: Duration = Duration::from_secs(15);

/// Arguments for a sweep of scenarios, or for one run of one command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// Kill only at the Nth call of all threads together.
    #[arg(long, value_name = "N")]
    when: Option<u32>,

    /// Write the number of calls to this file.
    #[arg(long, value_name = "FILE", hide = true, requires = "command")]
    report: Option<PathBuf>,

    /// Run this program with these arguments once, and sweep no scenario.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One run: a scenario, and the call at which it is killed.
#[derive(Debug)]
struct Piece<'a> {
    scenario: &'a Scenario,
    nth: u32,
}

/// Sweeps the scenarios whose check judges killed runs, or runs one command.
///
/// # Errors
///
/// A command cannot be run or traced, it hangs, or the sweep finds something.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command[..] {
        [] => sweep(args),
        [program, rest @ ..] => {
            let mut command = tracer::command(program);
            command.args(rest);
            let traced = tracer::run_until(command, args.when, LIMIT)?;
            if let Some(report) = &args.report {
                fs::write(report, traced.n_calls.to_string())?;
            }
            match traced.ending {
                Ending::Exited(0) => Ok(()),
                Ending::Exited(status) => std::process::exit(status),
                Ending::Killed(signal) => std::process::exit(128 + signal),
                Ending::Hung => anyhow::bail!("the command hung"),
            }
        }
    }
}

fn sweep(args: &Args) -> anyhow::Result<()> {
    let options = &args.options;
    let mut scenarios = options.scenarios();
    scenarios.retain(|scenario| scenario.kills == Kills::Judged);
    if options.list {
        for scenario in &scenarios {
            println!("{}", scenario.name());
        }
        return Ok(());
    }
    let ground = Ground::prepare(options)?;
    let work = Mutex::new(Vec::new());
    run_all(&ground.is_interrupted, &scenarios, |scenario| {
        let (observed, report) = run_killed(scenario, None, &ground)?;
        let wrong = judge(scenario, &observed, &[], None);
        let name = scenario.name();
        ensure!(
            wrong.is_empty() && scenario.has_succeeded(&observed),
            "{name} fails without being killed: {wrong:?}\n{}",
            observed.stderr
        );
        let n_calls = report.parse().context("the number of calls")?;
        let calls = args.when.map_or(1..=n_calls, |nth| nth..=nth);
        let pieces = calls.map(|nth| Piece { scenario, nth });
        // A poisoned lock means a panic, which ends the sweep.
        work.lock()
            .map(|mut work| work.extend(pieces))
            .ok()
            .context("a panic")
    })?;
    let mut work = work.into_inner().ok().context("a panic")?;
    // The order in which threads found them is no part of the seed.
    work.sort_by_cached_key(|piece| (piece.scenario.name(), piece.nth));
    work.retain(|Piece { scenario, nth }| {
        options.is_in_part(&format!("{} {nth}", scenario.name()))
    });
    let work = options.draw(work, |piece| piece.scenario.name());

    let (n_killed, n_wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    run_all(&ground.is_interrupted, &work, |Piece { scenario, nth }| {
        let (observed, _) = run_killed(scenario, Some(*nth), &ground)?;
        let has_ended = scenario.has_succeeded(&observed);
        n_killed.fetch_add(usize::from(!has_ended), Ordering::Relaxed);
        let wrong = match scenario.check {
            Some(check) if !has_ended => check(scenario, &observed),
            _ => judge(scenario, &observed, &[], None),
        };
        if !wrong.is_empty() {
            n_wrong.fetch_add(1, Ordering::Relaxed);
            let options = ground.options_for(scenario);
            let how = format!("cargo xtask kills {options} --when {nth}");
            println!("{}", observed.finding(scenario, [how].into_iter(), &wrong));
        }
        Ok(())
    })?;
    let (killed, wrong) = (n_killed.into_inner(), n_wrong.into_inner());
    let summary = format!(
        "- {} scenarios, {} runs, of which {killed} were killed\n\
         - {wrong} wrong outcomes\n\
         - {}",
        scenarios.len(),
        work.len(),
        ground.ending(),
    );
    println!("{summary}");
    ensure!(killed > 0, "nothing was killed");
    if options.are_recorded(args.when.is_some()) {
        proof::record(&ground.heading("Kills"), &summary)?;
    }
    ensure!(wrong == 0, "{wrong} wrong outcomes");
    Ok(())
}

/// Runs a scenario, with this very program between.
fn run_killed(
    scenario: &Scenario,
    nth: Option<u32>,
    ground: &Ground,
) -> anyhow::Result<(Observed, String)> {
    let this = std::env::current_exe().context("the path of this program")?;
    scenario.run(&ground.programs, ground.scratch(), |log: &Path| {
        let mut tracer = Command::new(this);
        tracer.args(["kills", "--report"]).arg(log);
        if let Some(nth) = nth {
            tracer.args(["--when", &nth.to_string()]);
        }
        tracer.arg("--");
        tracer
    })
}
