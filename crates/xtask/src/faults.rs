//! Makes each system call of the tools and examples fail, under strace.
//!
//! A *fault* is one call, one error, and the calls of that name that get it: the K-th of each
//! thread, or all from there on. Calls of the dynamic loader and of Rust's runtime before `main`
//! are left alone.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};

use crate::strace;
use crate::sweep::{NONE_LOST, Options, Report, Sweep, print_names};
use crate::verdict::judge;
use series::{Fault, Offer, Series};

mod accepted;
mod errnos;
mod series;

/// Text for a sweep with no wrong outcomes but accepted ones.
const NONE_ELSE_LOST: &str = ", but for those below: no other byte was lost, doubled or miscounted";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// Make only this call fail
    #[arg(long)]
    call: Option<String>,
    /// Inject only this error, such as EIO
    #[arg(long)]
    errno: Option<String>,
    /// Begin only with the Nth call, as strace counts
    #[arg(long, value_name = "N", conflicts_with = "sample")]
    when: Option<u32>,
}

/// The counts of a sweep.
#[derive(Debug, Default)]
struct Totals {
    /// Runs in which at least one call failed.
    faults: AtomicUsize,
    /// Runs in which the program did not come to the call that was to fail.
    unreached: AtomicUsize,
    /// Calls that failed.
    calls: AtomicUsize,
    /// Runs that ended in success all the same.
    survived: AtomicUsize,
    /// Wrong outcomes that [`accepted`] explains, by their reasons.
    accepted: Mutex<BTreeMap<&'static str, usize>>,
}

/// A range of the calls by which a series may begin.
#[derive(Debug)]
struct Piece<'a> {
    series: &'a Series<'a>,
    first: u32,
    /// The last one. Without it, the piece ends where the program makes no more.
    last: Option<u32>,
}

impl Piece<'_> {
    /// The last call that a run without faults reaches.
    fn usual_last(&self) -> u32 {
        self.series.first + self.series.count - 1
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let options = &args.options;
    let scenarios = options.scenarios(|_| true);
    if options.list {
        print_names(&scenarios);
        return Ok(());
    }
    let strace = Command::new("strace").arg("-V").output();
    strace.context("strace is needed")?;
    let sweep = Sweep::prepare(options)?;
    let offers = [Offer::Everything, Offer::NoOffload];
    let settings: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| offers.map(|offer| (scenario, offer)))
        .collect();
    let mut all = sweep.find_all(&settings, |(scenario, offer)| {
        series::find(scenario, *offer, &sweep)
    })?;
    all.retain(|series| {
        args.call.as_ref().is_none_or(|call| *call == series.call)
            && args
                .errno
                .as_ref()
                .is_none_or(|errno| errno == series.errno.name)
    });
    let work = all.iter().flat_map(|series| pieces(series, args)).collect();
    let work = options.draw(work, |piece: &Piece<'_>| {
        let Series { call, errno, .. } = piece.series;
        (&call[..], errno.name)
    });

    ensure!(
        !work.is_empty(),
        "no scenario makes such a call, or no such error is injected into it"
    );
    let counts = work.iter().map(|piece| match piece.last {
        None => piece.series.count,
        Some(last) => last - piece.first + 1,
    });
    let n_faults: u32 = counts.sum();
    println!("about {n_faults} faults");

    let totals = Totals::default();
    sweep.for_each(&work, |piece| {
        for nth in piece.first..=piece.last.unwrap_or(u32::MAX) {
            let fault = Fault {
                series: piece.series,
                nth,
            };
            let is_reached = probe(fault, &sweep, &totals)
                .with_context(|| format!("{}: {fault}", piece.series.scenario.name()))?;
            // Threads share work in another way each time: what one run does not reach, the next
            // may.
            if !is_reached && nth >= piece.usual_last() {
                break;
            }
        }
        Ok(())
    })?;

    let faults = totals.faults.into_inner();
    let wrong = sweep.n_wrong();
    let accepted = totals.accepted.into_inner().ok().context("a panic")?;
    let note = match (wrong, accepted.is_empty()) {
        (0, true) => NONE_LOST,
        (0, false) => NONE_ELSE_LOST,
        _ => "",
    };
    let n_scenarios = scenarios.len();
    let mut lines = vec![
        format!(
            "{n_scenarios} scenarios, each with and without the calls that move bytes inside the kernel"
        ),
        format!(
            "{} runs ended before the call that was to fail",
            totals.unreached.into_inner()
        ),
        format!(
            "{faults} runs with a fault, in which {} calls failed",
            totals.calls.into_inner()
        ),
        format!(
            "{} of these runs succeeded all the same, with exact bytes",
            totals.survived.into_inner()
        ),
        format!("{wrong} wrong outcomes{note}"),
    ];
    let accepted = accepted.into_iter();
    lines.extend(
        accepted.map(|(reason, n)| format!("{n} outcomes that are wrong and stay: {reason}")),
    );
    sweep.finish(&Report {
        title: "Failing calls",
        restriction: args.restriction(),
        lines,
        n_reached: faults,
    })
}

impl Args {
    /// The options by which the user leaves out faults.
    fn restriction(&self) -> Option<String> {
        let Self {
            call, errno, when, ..
        } = self;
        let options = [
            call.as_ref().map(|call| format!("--call {call}")),
            errno.as_ref().map(|errno| format!("--errno {errno}")),
            when.map(|when| format!("--when {when}")),
        ];
        let options: Vec<_> = options.into_iter().flatten().collect();
        (!options.is_empty()).then(|| options.join(" "))
    }
}

/// One piece for the whole series, or for a sample one for each call.
fn pieces<'a>(series: &'a Series<'a>, args: &Args) -> Vec<Piece<'a>> {
    let first = series.first;
    if let Some(nth) = args.when {
        return vec![Piece {
            series,
            first: nth,
            last: Some(nth),
        }];
    }
    if !args.options.is_sample() {
        return vec![Piece {
            series,
            first,
            last: None,
        }];
    }
    let calls = first..first + series.count;
    calls
        .map(|nth| Piece {
            series,
            first: nth,
            last: Some(nth),
        })
        .collect()
}

/// Runs one fault, and prints what is wrong. Whether any call failed.
fn probe(fault: Fault<'_>, sweep: &Sweep, totals: &Totals) -> anyhow::Result<bool> {
    let Series {
        scenario,
        offer,
        call,
        errno,
        ..
    } = fault.series;
    let options = [vec![fault.to_string()], offer.options()]
        .concat()
        .join(" ");
    let (observed, log) = sweep.run(scenario, |log| {
        let mut strace = strace::command(log, &offer.traced(call));
        strace.args(options.split(' ')).arg("--");
        strace
    })?;
    let mut injected = strace::parse(&log);
    injected.retain(|found| found.name == *call && found.is_injected());
    if injected.is_empty() {
        totals.unreached.fetch_add(1, Ordering::Relaxed);
        return Ok(false);
    }
    totals.faults.fetch_add(1, Ordering::Relaxed);
    totals.calls.fetch_add(injected.len(), Ordering::Relaxed);
    let is_success = scenario.has_succeeded(&observed);
    let mut wrong = judge(scenario, &observed, &injected, Some(*errno));
    if fault.is_refusal() && !is_success {
        wrong.push(format!("it does not go on without {call}"));
    }
    if wrong.is_empty() {
        totals
            .survived
            .fetch_add(usize::from(is_success), Ordering::Relaxed);
        return Ok(true);
    }
    if let Some(reason) = accepted::reason(scenario, &observed, &injected, &wrong) {
        // A poisoned lock means a panic, which ends the sweep.
        let mut accepted = totals.accepted.lock().ok().context("a panic")?;
        *accepted.entry(reason).or_default() += 1;
        return Ok(true);
    }
    let calls = injected.iter().take(3);
    let calls = calls.map(|call| format!("call: {}({}", call.name, call.text));
    let (errno, nth) = (errno.name, fault.nth);
    let fault = format!("--call {call} --errno {errno} --when {nth}");
    let again = sweep.repeating_command("faults", scenario, &fault);
    let how = [again, format!("strace -f {options}")];
    sweep.report_wrong(scenario, &observed, how.into_iter().chain(calls), &wrong);
    Ok(true)
}
