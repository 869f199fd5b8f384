//! The common parts of the sweeps: options, programs, and several runs side by side.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::programs::{Build, Programs};
use crate::scenario::Scenario;
use crate::scenarios;

/// How many more runs than processors go on side by side, as each waits for its tracer at times.
const MORE_WORKERS: usize = 1;

/// After how many pieces of work the progress is shown.
const SHOWN: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    build: Build,
    /// Make only N runs, drawn at random
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,
    /// Draw the sample from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Make the scratch directories here, for example on another file system
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List the scenarios, and run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the totals to docs/proof.md though only a part was run
    #[arg(long)]
    record: bool,
}

impl Options {
    /// Whether the totals go to `docs/proof.md`: those of the whole do, and others on request.
    pub(crate) fn are_recorded(&self, is_restricted: bool) -> bool {
        let is_whole = self.sample.is_none() && self.scenario.is_none() && !is_restricted;
        self.record || is_whole
    }

    /// The scenarios that are asked for.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let text = self.scenario.as_deref().unwrap_or("");
        let mut scenarios = scenarios::all();
        scenarios.retain(|scenario| scenario.name().contains(text));
        scenarios
    }

    /// Draws the sample that is asked for, or puts everything in random order.
    pub(crate) fn draw<T>(&self, work: &mut Vec<T>) {
        fastrand::Rng::with_seed(self.seed).shuffle(work);
        work.truncate(self.sample.unwrap_or(work.len()));
    }
}

/// The programs, and a directory for what their runs need.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) programs: Programs,
    scratch: TempDir,
    /// Where the scratch directory was asked for.
    dir: Option<PathBuf>,
    start: Instant,
}

impl Ground {
    /// Builds the programs.
    ///
    /// # Errors
    ///
    /// If cargo fails, or no directory can be made.
    pub(crate) fn prepare(options: &Options) -> anyhow::Result<Self> {
        let programs = Programs::build(&options.build)?;
        let scratch = match &options.dir {
            Some(dir) => TempDir::with_prefix_in("zcopy-sweep-", dir)?,
            None => TempDir::with_prefix("zcopy-sweep-")?,
        };
        let start = Instant::now();
        Ok(Self {
            programs,
            scratch,
            dir: options.dir.clone(),
            start,
        })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The heading of its section in `docs/proof.md`: builds for other targets, and other
    /// directories, have sections of their own.
    pub(crate) fn heading(&self, part: &str) -> String {
        let target = self.programs.target.iter();
        let target = target.map(|target| format!(" of programs for {target}"));
        let dir = self.dir.iter();
        let dir = dir.map(|dir| format!(" in {}", dir.display()));
        let words = std::iter::once(part.to_owned());
        words.chain(target).chain(dir).collect()
    }

    /// The elapsed seconds, and the build.
    pub(crate) fn ending(&self) -> String {
        format!(
            "{} s, {}",
            self.start.elapsed().as_secs(),
            self.programs.description
        )
    }
}

/// Calls `probe` for every piece of work, several at a time.
///
/// # Errors
///
/// The first that `probe` gives. No more work is begun then.
pub(crate) fn run_all<'a, T: Sync>(
    work: &'a [T],
    probe: impl Fn(&'a T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(Ok(()));
    // ^C ends the sweep behind the runs under way, which leave nothing.
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_interrupted))?;
    }
    let n_workers = thread::available_parallelism()?.get() + MORE_WORKERS;
    thread::scope(|threads| {
        for _ in 0..n_workers {
            threads.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = work.get(n) else { break };
                    if n > 0 && n.is_multiple_of(SHOWN) {
                        println!("{n} of {} done", work.len());
                    }
                    let outcome = if is_interrupted.load(Ordering::Relaxed) {
                        Err(anyhow::anyhow!("interrupted"))
                    } else {
                        probe(piece)
                    };
                    if let Err(error) = outcome {
                        next.store(work.len(), Ordering::Relaxed);
                        // A poisoned lock means a panic, which the scope passes on.
                        if let Ok(mut failure) = failure.lock() {
                            *failure = Err(error);
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_an_error_ends_the_rest() {
        let work: Vec<usize> = (0..1_000).collect();
        let sum = AtomicUsize::new(0);
        run_all(&work, |n| {
            sum.fetch_add(*n, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 499_500);
        let failed = run_all(&work, |n| match n {
            3 => anyhow::bail!("three"),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "three");
    }
}
