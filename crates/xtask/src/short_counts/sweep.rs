//! Sweeps all scenarios: each call of each program gets a lower count once, and from then on.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::proof;
use crate::scenario::{Observed, Scenario};
use crate::sweep::{Ground, Options, run_all};
use crate::tracer::{Amount, Call, Extent, Shortening};
use crate::verdict::judge;

/// How many calls of each kind get their turn in each scenario.
const MOST: usize = 20;

/// One run: a scenario, and the calls in it that move less.
#[derive(Debug)]
struct Piece<'a> {
    scenario: &'a Scenario,
    shortening: Shortening,
}

/// Sweeps the scenarios that are asked for: with one shortening, or with each that their calls
/// allow.
///
/// # Errors
///
/// A scenario fails without lower counts, or any run is wrong.
pub(super) fn sweep(options: &Options, only: Option<Shortening>) -> anyhow::Result<()> {
    let scenarios = options.scenarios();
    if options.list {
        for scenario in &scenarios {
            println!("{}", scenario.name());
        }
        return Ok(());
    }
    let ground = Ground::prepare(options)?;
    let work = Mutex::new(Vec::new());
    run_all(&ground.is_interrupted, &scenarios, |scenario| {
        let (observed, report) = run(scenario, None, &ground)?;
        let wrong = judge(scenario, &observed, &[], None);
        let name = scenario.name();
        ensure!(
            wrong.is_empty() && scenario.has_succeeded(&observed),
            "{name} fails without lower counts: {wrong:?}\n{}",
            observed.stderr
        );
        let shortenings = only.map_or_else(|| shortenings(&report), |only| vec![only]);
        let pieces = shortenings.into_iter();
        let pieces = pieces.map(|shortening| Piece {
            scenario,
            shortening,
        });
        // A poisoned lock means a panic, which ends the sweep.
        work.lock()
            .map(|mut work| work.extend(pieces))
            .ok()
            .context("a panic")
    })?;
    let mut work = work.into_inner().ok().context("a panic")?;
    // The order in which threads found them is no part of the seed.
    work.sort_by_cached_key(|piece| (piece.scenario.name(), piece.shortening.to_string()));
    work.retain(|piece| {
        options.is_in_part(&format!("{} {}", piece.scenario.name(), piece.shortening))
    });
    let work = options.draw(work, |piece| {
        (piece.scenario.program.name(), piece.shortening.call)
    });

    let (n_lowered, n_wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    run_all(
        &ground.is_interrupted,
        &work,
        |Piece {
             scenario,
             shortening,
         }| {
            let (observed, report) = run(scenario, Some(shortening), &ground)?;
            let lowered = report.lines().filter(|line| line.contains(" lowered to "));
            let lowered: Vec<_> = lowered.take(3).map(str::to_owned).collect();
            n_lowered.fetch_add(usize::from(!lowered.is_empty()), Ordering::Relaxed);
            let mut wrong = judge(scenario, &observed, &[], None);
            if !scenario.has_succeeded(&observed) {
                wrong.push("it failed".to_owned());
            }
            if !wrong.is_empty() {
                n_wrong.fetch_add(1, Ordering::Relaxed);
                let options = ground.options_for(scenario);
                let how = format!("cargo xtask short-counts {options} {shortening}");
                let how = [how].into_iter().chain(lowered);
                println!("{}", observed.finding(scenario, how, &wrong));
            }
            Ok(())
        },
    )?;
    let (lowered, wrong) = (n_lowered.into_inner(), n_wrong.into_inner());
    let summary = format!(
        "- {} scenarios, {} runs, and in {lowered} of them the kernel moved less than the program asked for\n\
         - {wrong} wrong outcomes\n\
         - {}",
        scenarios.len(),
        work.len(),
        ground.ending(),
    );
    println!("{summary}");
    ensure!(lowered > 0, "no count was lowered");
    if options.are_recorded(only.is_some()) {
        proof::record(&ground.heading("Short counts"), &summary)?;
    }
    ensure!(wrong == 0, "{wrong} wrong outcomes");
    Ok(())
}

/// Runs a scenario, with this very program between.
fn run(
    scenario: &Scenario,
    shortening: Option<&Shortening>,
    ground: &Ground,
) -> anyhow::Result<(Observed, String)> {
    let this = std::env::current_exe().context("the path of this program")?;
    scenario.run(&ground.programs, ground.scratch(), |log: &Path| {
        let mut tracer = Command::new(this);
        tracer
            .args(["short-counts", "--limit", "15", "--report"])
            .arg(log);
        if let Some(shortening) = shortening {
            tracer.args(shortening.to_string().split(' '));
        }
        tracer.arg("--");
        tracer
    })
}

/// Lists the shortenings to try on each call of a report.
fn shortenings(report: &str) -> Vec<Shortening> {
    let mut all = Vec::new();
    for line in report.lines() {
        let Some((name, results)) = line.split_once(": ") else {
            continue;
        };
        let Some((_, results)) = results.split_once(" calls returned ") else {
            continue;
        };
        let Ok(call) = Call::from_str(name, false) else {
            continue;
        };
        let results = results
            .split(' ')
            .map_while(|result| result.parse::<i64>().ok());
        for (first, result) in (1..).zip(results.take(MOST)) {
            let variants = variants(result).into_iter();
            all.extend(variants.map(|(extent, amount)| Shortening {
                call,
                first,
                extent,
                amount,
            }));
        }
    }
    all
}

/// Lists the variants to try on a call that returned `result` when its count was whole.
///
/// Most reads ask for more than there is, and half of such a count changes nothing. So the lower
/// counts of single calls are parts of the result.
fn variants(result: i64) -> Vec<(Extent, Amount)> {
    let mut variants = vec![
        (Extent::Once, Amount::One),
        (Extent::FromThen, Amount::One),
        (Extent::FromThen, Amount::Half),
        (Extent::FromThen, Amount::AllButOne),
    ];
    match u64::try_from(result) {
        Ok(moved @ 3..) => variants.extend([
            (Extent::Once, Amount::Bytes(moved / 2)),
            (Extent::Once, Amount::Bytes(moved - 1)),
            (Extent::FromThen, Amount::Bytes(moved / 2)),
        ]),
        _ => variants.extend([
            (Extent::Once, Amount::Half),
            (Extent::Once, Amount::AllButOne),
        ]),
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_a_report_gets_lower_counts_once_and_from_then_on() {
        let report = "read: 2 calls returned 300000 0\ncopy_file_range: 1 calls returned -22\nexited with status 0\n";
        let all = shortenings(report);
        assert_eq!(all.len(), 7 + 6 + 6);
        let half = Shortening {
            call: Call::Read,
            first: 1,
            extent: Extent::Once,
            amount: Amount::Bytes(150_000),
        };
        assert!(all.contains(&half));
        assert!(all.iter().any(|piece| piece.call == Call::CopyFileRange));
    }
}
