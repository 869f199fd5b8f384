//! Copies a tree to several destinations, and reads each file once.
//!
//! Each destination has a complete run of its own, in a thread of its own. The runs share the
//! interrupt, the rate limiter and the console; [`Lead`] keeps them together, and [`SharedReads`]
//! lets them read long files together. What fails in one run leaves the others alone.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::fs::{Mode, OFlags};

use super::copy_tree::{Context, Opened, Part, copy_tree, scan_options};
use super::free_space::SharedSpace;
use super::manifest::Reported;
use super::{Outcome, distinct, dry_run, misused};
use crate::common::sys;
use crate::common::threads;
use crate::dircopy::counts::Counts;
use crate::dircopy::hash::null::open_null;
use crate::dircopy::interrupt::{self, Interrupt};
use crate::dircopy::reporter::console::Console;
use crate::dircopy::reporter::several::{self, Shown};
use crate::dircopy::reporter::summary::State;
use crate::dircopy::reporter::{Reporter, Verbosity};
use crate::dircopy::schedule::fd_budget::{Descriptors, FdBudget};
use crate::dircopy::schedule::lead::Lead;
use crate::dircopy::settings::Settings;
use crate::dircopy::shared_reads::SharedReads;
use crate::dircopy::stop_flag::{StopFlag, StopOnDrop};
use crate::dircopy::walk::prescan::{Total, prescan};

/// The size from which files are read together: 256 KiB. Shorter ones are read again from the page
/// cache, and hashed together with their neighbours.
const MIN_SHARED: u64 = 256 << 10;

/// How often the display looks whether the runs have ended before any of them has copied.
const BEGIN_INTERVAL: Duration = Duration::from_millis(100);

/// The run to one destination.
struct Run<'a> {
    counts: &'a Counts,
    reporter: Reporter<'a>,
    /// Set when it has ended.
    has_ended: StopFlag,
}

impl Run<'_> {
    /// Reports that the run has no thread.
    fn without_thread(&self, error: io::Error, started: Instant, interrupt: &Interrupt) -> Ended {
        let error = anyhow!(error).context("cannot start a thread");
        self.reporter.report_run_error(&error);
        self.has_ended.stop();
        Ended {
            manifests: Err(Reported),
            elapsed: started.elapsed(),
            state: self.reporter.state(interrupt),
        }
    }
}

/// The values that all runs share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    interrupt: &'a Interrupt,
    /// The budget of each.
    budget: FdBudget,
    null: &'a File,
}

impl<'a> Shared<'a> {
    fn context(self, run: &'a Run<'a>) -> Context<'a> {
        Context {
            reporter: &run.reporter,
            counts: run.counts,
            interrupt: self.interrupt,
            budget: self.budget,
            null: self.null,
            part: None,
        }
    }
}

/// How a run has ended.
struct Ended {
    /// The manifests that it has written.
    manifests: Result<Vec<PathBuf>, Reported>,
    elapsed: Duration,
    state: State,
}

/// Copies a tree to all destinations, and writes the summaries.
///
/// # Errors
///
/// The copy cannot begin, or a summary cannot be written. Every other error has been reported.
pub(super) fn copy(settings: Vec<Settings>, verbosity: Verbosity) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    sys::hold_closed_descriptors()?;
    let n_runs = NonZeroUsize::new(settings.len()).unwrap_or(NonZeroUsize::MIN);
    let budget = FdBudget::of(Descriptors::of_process().divided_by(n_runs))?;
    // A reader that closes the pipe does not end the copy.
    sys::ignore_sigpipe();
    let console = Arc::new(Console::new(verbosity)?);
    let interrupt = Interrupt::default();
    let null = open_null()?;
    let counts: Vec<_> = settings.iter().map(|_| Counts::default()).collect();
    let runs = settings.iter().zip(&counts).map(|(settings, counts)| Run {
        counts,
        reporter: Reporter::to(&console, counts, &settings.destination),
        has_ended: StopFlag::default(),
    });
    let runs: Vec<_> = runs.collect();
    let shared = Shared {
        interrupt: &interrupt,
        budget,
        null: &null,
    };
    let ended = if settings.iter().any(|settings| settings.is_dry_run) {
        for (settings, run) in settings.into_iter().zip(&runs) {
            run.reporter.begin_plan();
            let told = if let Ok(plan) = dry_run::plan(settings, shared.context(run)) {
                run.reporter.tell_totals(plan)
            } else {
                let state = run.reporter.state(&interrupt);
                run.reporter.summarize_failure(started.elapsed(), state)
            };
            told.context("write error")?;
        }
        Vec::new()
    } else {
        let opened = settings.into_iter().zip(&runs);
        let opened: Vec<_> = opened
            .map(|(settings, run)| Opened::new(settings, &run.reporter))
            .collect();
        let made: Vec<_> = opened.iter().flatten().collect();
        if let Err(message) = distinct::check_opened(&made) {
            made.into_iter().for_each(Opened::remove_if_new);
            return Ok(misused(&message));
        }
        copy_all(opened, &runs, shared, started)
    };
    if let Some(signal) = interrupt.signal() {
        console.report_interrupt(interrupt::name(signal));
    }
    for (run, ended) in runs.iter().zip(ended) {
        let Ended { elapsed, state, .. } = ended;
        match ended.manifests {
            Ok(manifests) => run.reporter.summarize(elapsed, &manifests, state),
            Err(Reported) => run.reporter.summarize_absence(elapsed, state),
        }
        .context("write error")?;
    }
    sys::close_stdout().context("write error")?;
    if let Some(signal) = interrupt.signal() {
        // The exit status tells the parent process which signal it was.
        sys::raise_default(signal);
        return Ok(Outcome::Incomplete);
    }
    Ok(if counts.iter().any(Counts::has_errors) {
        Outcome::Incomplete
    } else {
        Outcome::Complete
    })
}

/// Runs all copies at the same time.
fn copy_all<'a>(
    opened: Vec<Result<Opened, Reported>>,
    runs: &'a [Run<'a>],
    shared: Shared<'a>,
    started: Instant,
) -> Vec<Ended> {
    let min_shared = opened
        .iter()
        .flatten()
        .next()
        .map_or(MIN_SHARED, min_shared);
    let lead = Lead::new(runs.len(), min_shared);
    let reads = SharedReads::new(runs.len(), min_shared);
    let destinations = opened.iter().flatten();
    let space = SharedSpace::new(destinations.map(|opened| opened.root.destination().as_fd()));
    let scanned = opened.iter().flatten().next();
    let scanned = scanned.map(|opened| opened.settings.clone());
    let (progress, all_ended) = (StopFlag::default(), StopFlag::default());
    thread::scope(|scope| {
        let (lead, reads, space) = (&lead, &reads, &space);
        let (progress, all_ended) = (&progress, &all_ended);
        let _all_ended = StopOnDrop(all_ended);
        // A run whose thread cannot be started drops its parts, so that no other waits for it.
        let parts = (0..runs.len()).map(|index| (lead.follower(index), reads.member(index)));
        let parts: Vec<_> = parts.collect();
        let threads = opened.into_iter().zip(runs).zip(parts);
        let threads = threads.map(|((opened, run), (follower, member))| {
            let context = shared.context(run);
            let copy = move || {
                let _has_ended = StopOnDrop(&run.has_ended);
                let (follower, member) = (follower, member);
                let part = Some(Part {
                    follower: &follower,
                    member: &member,
                    space,
                    progress,
                });
                let manifests =
                    opened.and_then(|opened| copy_tree(opened, Context { part, ..context }));
                Ended {
                    manifests,
                    elapsed: started.elapsed(),
                    state: run.reporter.state(shared.interrupt),
                }
            };
            threads::spawn_scoped(scope, copy)
        });
        let threads: Vec<_> = threads.collect();
        if let (Some(run), Some(settings)) = (runs.first(), scanned)
            && run.reporter.shows_progress()
        {
            let budget = shared.budget;
            let show = move || show_progress(runs, &settings, budget, (progress, all_ended));
            // If the thread cannot be started, no progress is shown.
            let _ = threads::spawn_scoped(scope, show);
        }
        let ended = threads
            .into_iter()
            .map(|thread| thread.map(ScopedJoinHandle::join));
        let ended: Vec<_> = ended.collect();
        let ended = ended.into_iter().zip(runs).map(|(ended, run)| match ended {
            Ok(Ok(ended)) => ended,
            // A panic ends the program after the other runs have ended.
            Ok(Err(panicked)) => panic::resume_unwind(panicked),
            Err(error) => run.without_thread(error, started, shared.interrupt),
        });
        ended.collect()
    })
}

/// The size from which files are read together. With a rate limit all are, so that bytes that are
/// read once count once.
fn min_shared(opened: &Opened) -> u64 {
    match opened.settings.rate_limiter {
        Some(_) => 1,
        None => MIN_SHARED,
    }
}

/// Shows the progress from the time at which the first run copies until all have ended, and counts
/// the files of the source.
fn show_progress(
    runs: &[Run<'_>],
    settings: &Settings,
    budget: FdBudget,
    (progress, all_ended): (&StopFlag, &StopFlag),
) {
    while !progress.wait(BEGIN_INTERVAL) {
        if all_ended.is_set() {
            return;
        }
    }
    let total = Total::default();
    let shown = runs.iter().map(|run| Shown {
        reporter: &run.reporter,
        has_ended: &run.has_ended,
    });
    let shown: Vec<_> = shown.collect();
    thread::scope(|scope| {
        if let (Some(n_levels), Ok(source)) = (budget.prescan_levels(), open(&settings.source)) {
            let (options, total) = (scan_options(settings, n_levels), &total);
            let count = move || {
                prescan(source.as_fd(), options, &settings.exclude, total, all_ended);
            };
            let _ = threads::spawn_scoped(scope, count);
        }
        several::draw_until(&shown, all_ended, &total);
    });
}

fn open(source: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(source, flags, Mode::empty())
}
