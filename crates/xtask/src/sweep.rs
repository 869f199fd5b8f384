//! A sweep: it runs many scenarios under faults, several at a time, and records the totals.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::image::MountedImage;
use crate::programs::Programs;
use crate::proof;
use crate::scenario::{Observed, Scenario};
use crate::verdict::judge;

pub(crate) use options::{Options, print_names};
pub(crate) use traced::{TracedRun, report_without_fault};

mod options;
mod pool;
mod traced;

/// Text for a sweep without wrong outcomes.
pub(crate) const NONE_LOST: &str = ": no byte was lost, doubled or miscounted";

/// A sweep under way: its options, the programs, and a directory for what their runs need.
#[derive(Debug)]
pub(crate) struct Sweep {
    options: Options,
    programs: Programs,
    // Dropped before the file system that it may be on.
    scratch: TempDir,
    _image: Option<MountedImage>,
    /// Set by ^C. The runs under way end then, and no new ones begin.
    is_interrupted: Arc<AtomicBool>,
    start: Instant,
    n_wrong: AtomicUsize,
}

/// The totals of a sweep.
#[derive(Debug)]
pub(crate) struct Report {
    /// The heading of its section in `docs/proof.md`.
    pub(crate) title: &'static str,
    /// The options, other than [`Options`], by which the user leaves out runs.
    pub(crate) restriction: Option<String>,
    /// The totals.
    pub(crate) lines: Vec<String>,
    /// The number of runs that a fault has reached. A sweep without any fails.
    pub(crate) n_reached: usize,
}

impl Sweep {
    /// Builds the programs, and makes the directory.
    ///
    /// # Errors
    ///
    /// If cargo fails, or no directory can be made.
    pub(crate) fn prepare(options: &Options) -> anyhow::Result<Self> {
        let programs = Programs::build(&options.build)?;
        let is_interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))?;
        }
        let image = options.fs.map(MountedImage::new).transpose()?;
        let dir = match (&image, &options.dir) {
            (Some(image), _) => image.mount_point().to_owned(),
            (None, Some(dir)) => dir.clone(),
            (None, None) => std::env::temp_dir(),
        };
        // strace prints paths without symbolic links.
        let dir = dir
            .canonicalize()
            .with_context(|| dir.display().to_string())?;
        Ok(Self {
            options: options.clone(),
            programs,
            scratch: TempDir::with_prefix_in("zcopy-sweep-", dir)?,
            _image: image,
            is_interrupted,
            start: Instant::now(),
            n_wrong: AtomicUsize::new(0),
        })
    }

    /// Calls `probe` for every item, several at a time.
    ///
    /// # Errors
    ///
    /// The first error of `probe`, or an interruption. The sweep then begins no more items.
    pub(crate) fn for_each<'a, T: Sync>(
        &self,
        items: &'a [T],
        probe: impl Fn(&'a T) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<()> {
        pool::for_each(&self.is_interrupted, items, probe)
    }

    /// Calls `find` for every item, several at a time. Returns everything that it finds and that
    /// belongs to the part the user chose, in the order of the names.
    ///
    /// # Errors
    ///
    /// As [`for_each`](Self::for_each).
    pub(crate) fn find_all<'a, T: Sync, F: Display + Send>(
        &self,
        items: &'a [T],
        find: impl Fn(&'a T) -> anyhow::Result<Vec<F>> + Sync,
    ) -> anyhow::Result<Vec<F>> {
        let all = Mutex::new(Vec::new());
        self.for_each(items, |item| {
            let found = find(item)?;
            // A poisoned lock means a panic, which ends the sweep.
            all.lock()
                .map(|mut all| all.extend(found))
                .ok()
                .context("a panic")
        })?;
        let mut all = all.into_inner().ok().context("a panic")?;
        all.retain(|found| self.options.is_in_part(&found.to_string()));
        // A seed has to draw the same sample each time, and threads find runs in any order.
        all.sort_by_cached_key(ToString::to_string);
        Ok(all)
    }

    /// Runs a scenario under the command that `wrapper` makes, and returns the log.
    ///
    /// # Errors
    ///
    /// As [`Scenario::run`].
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        wrapper: impl FnOnce(&Path) -> Command,
    ) -> anyhow::Result<(Observed, String)> {
        let limits = self.options.time_limits();
        scenario.run(&self.programs, self.scratch.path(), limits, wrapper)
    }

    /// Runs a scenario without faults, and returns the log.
    ///
    /// # Errors
    ///
    /// The scenario cannot be run, or it fails.
    pub(crate) fn run_without_fault(
        &self,
        scenario: &Scenario,
        wrapper: impl FnOnce(&Path) -> Command,
    ) -> anyhow::Result<String> {
        let (observed, log) = self.run(scenario, wrapper)?;
        let wrong = judge(scenario, &observed, &[], None);
        ensure!(
            wrong.is_empty() && scenario.has_succeeded(&observed),
            "{} fails without a fault: {:?}, {wrong:?}\n{}",
            scenario.name(),
            observed.status,
            observed.stderr
        );
        Ok(log)
    }

    /// Prints and counts a wrong outcome. `how` tells how it came about.
    pub(crate) fn report_wrong(
        &self,
        scenario: &Scenario,
        observed: &Observed,
        how: impl Iterator<Item = String>,
        wrong: &[String],
    ) {
        self.n_wrong.fetch_add(1, Ordering::Relaxed);
        println!("{}", observed.finding(scenario, how, wrong));
    }

    /// The command that repeats a run: `subcommand`, the options of this sweep, and the options of
    /// the run.
    pub(crate) fn repeating_command(
        &self,
        subcommand: &str,
        scenario: &Scenario,
        run: &impl Display,
    ) -> String {
        let options = self.options.repeating(scenario);
        format!("cargo xtask {subcommand} {options} {run}")
    }

    /// Returns the line of a report that tells the number of wrong outcomes.
    pub(crate) fn wrong_line(&self) -> String {
        let n_wrong = self.n_wrong();
        let note = if n_wrong == 0 { NONE_LOST } else { "" };
        format!("{n_wrong} wrong outcomes{note}")
    }

    /// The number of wrong outcomes until now.
    pub(crate) fn n_wrong(&self) -> usize {
        self.n_wrong.load(Ordering::Relaxed)
    }

    /// Prints the totals, and records them if the user wants it.
    ///
    /// # Errors
    ///
    /// No run was reached, an outcome was wrong, or the totals cannot be recorded.
    pub(crate) fn finish(self, report: &Report) -> anyhow::Result<()> {
        let seconds = self.start.elapsed().as_secs();
        let ending = format!("{seconds} s, {}", self.programs.description);
        let lines = report.lines.iter().chain([&ending]);
        let lines: Vec<_> = lines.map(|line| format!("- {line}")).collect();
        let text = lines.join("\n");
        println!("{text}");
        ensure!(report.n_reached > 0, "no fault has reached a run");
        let restriction = report.restriction.as_deref();
        if self.options.are_recorded(restriction) {
            proof::record(&self.options.heading(report.title, restriction), &text)?;
        }
        let n_wrong = self.n_wrong();
        ensure!(n_wrong == 0, "{n_wrong} wrong outcomes");
        Ok(())
    }
}
