//! The progress of several runs, which is shown together.

use super::Reporter;
use super::event::Event;
use super::progress::{Gauge, Progress};
use crate::dircopy::stop_flag::StopFlag;
use crate::dircopy::walk::prescan::Total;

/// A run whose progress is shown with that of others.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) reporter: &'a Reporter<'a>,
    /// Set when the run has ended.
    pub(crate) has_ended: &'a StopFlag,
}

/// Shows the progress of all runs until the flag is set: on the line of a terminal that of the run
/// which is furthest behind, and with `--json` that of each. The clock starts now.
pub(crate) fn draw_until(runs: &[Shown<'_>], stop: &StopFlag, total: &Total) {
    let Some(first) = runs.first() else {
        return;
    };
    let console = &first.reporter.console;
    let gauges = runs
        .iter()
        .map(|run| Gauge::new(run.reporter.counts, total));
    let mut gauges: Vec<_> = gauges.collect();
    console.draw_until(stop, |elapsed| {
        let read = gauges.iter_mut().map(|gauge| gauge.read(elapsed));
        draw(runs, read.collect());
    });
}

/// Shows the progress once.
fn draw(runs: &[Shown<'_>], progress: Vec<Progress>) {
    let n_failed = progress.iter().map(|progress| progress.failed).sum();
    let live = runs.iter().zip(progress);
    let live: Vec<_> = live.filter(|(run, _)| !run.has_ended.is_set()).collect();
    for (run, progress) in &live {
        run.reporter.write_event(&Event::Progress(progress));
    }
    let last = live.into_iter().min_by_key(|(_, progress)| progress.bytes);
    if let Some((run, mut progress)) = last {
        progress.current = run.reporter.files.oldest();
        progress.failed = n_failed;
        let screen = || run.reporter.console.screen();
        screen().draw(|columns| progress.line(columns));
    }
}
