//! Sweeps all scenarios: each call of each program gets a lower count once, and from then on.

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::ValueEnum;

use crate::scenario::Scenario;
use crate::sweep::{Options, Report, Sweep, TracedRun, report_without_fault};
use crate::tracer::{Amount, Call, Extent, Intervention, Shortening};
use crate::verdict::judge;

/// The sweep lowers the counts of this many calls of each name in each scenario.
const MOST: usize = 20;

/// Sweeps scenarios with one shortening, or with each that their calls allow.
///
/// # Errors
///
/// A scenario fails without lower counts, or any run is wrong.
pub(super) fn sweep(
    options: &Options,
    scenarios: &[Scenario],
    only: Option<Shortening>,
) -> anyhow::Result<()> {
    let sweep = Sweep::prepare(options)?;
    let runs = sweep.find_all(scenarios, |scenario| {
        let report = report_without_fault(&sweep, scenario)?;
        let shortenings = only.map_or_else(|| shortenings(&report), |only| vec![only]);
        let runs = shortenings.into_iter().map(|shortening| TracedRun {
            scenario,
            intervention: Intervention::Shorten(shortening),
        });
        Ok(runs.collect())
    })?;
    let runs = options.draw(runs, |run| {
        let call = match run.intervention {
            Intervention::Shorten(shortening) => Some(shortening.call),
            Intervention::Kill { .. } => None,
        };
        (run.scenario.program.name(), call)
    });

    let n_lowered = AtomicUsize::new(0);
    sweep.for_each(&runs, |run| {
        let scenario = run.scenario;
        let (observed, report) = run.run(&sweep)?;
        let lowered = report.lines().filter(|line| line.contains(" lowered to "));
        let lowered: Vec<_> = lowered.take(3).map(str::to_owned).collect();
        n_lowered.fetch_add(usize::from(!lowered.is_empty()), Ordering::Relaxed);
        let mut wrong = judge(scenario, &observed, &[], None);
        if !scenario.has_succeeded(&observed) {
            wrong.push("it failed".to_owned());
        }
        if !wrong.is_empty() {
            let how = [run.repeating_command(&sweep)];
            let how = how.into_iter().chain(lowered);
            sweep.report_wrong(scenario, &observed, how, &wrong);
        }
        Ok(())
    })?;
    let n_lowered = n_lowered.into_inner();
    let report = Report {
        title: "Short counts",
        restriction: only.map(|only| only.to_string()),
        lines: vec![
            format!(
                "{} scenarios, {} runs, and in {n_lowered} of them the kernel moved less than the program asked for",
                scenarios.len(),
                runs.len()
            ),
            sweep.wrong_line(),
        ],
        n_reached: n_lowered,
    };
    sweep.finish(&report)
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
