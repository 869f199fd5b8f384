//! The common parts of the sweeps: options, programs, and several runs side by side.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use clap::ValueEnum;
use sha2::{Digest, Sha256};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::image::{FileSystem, MountedImage};
use crate::programs::{Build, Programs};
use crate::scenario::Scenario;
use crate::scenarios;

/// How many more runs than processors go on side by side, as each waits for its tracer at times.
const MORE_WORKERS: usize = 1;

/// After how many pieces of work the progress is shown.
const SHOWN: usize = 1_000;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    build: Build,
    /// Make only N runs, drawn at random: first one of each call and error, then any
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,
    /// Make only the runs of one part of several, which together are the whole: 1/3, 2/3 and 3/3
    #[arg(long, value_name = "I/N", conflicts_with = "sample")]
    part: Option<Part>,
    /// Draw the sample from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Make the scratch directories here
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make the scratch directories on a new file system, which only the sweep sees (as root)
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    fs: Option<FileSystem>,
    /// List the scenarios, and run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the totals to docs/proof.md though only a part was run
    #[arg(long)]
    record: bool,
}

/// One part of a sweep that is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Counted from 1.
    nth: u64,
    of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(nth, of)| {
            let (nth, of) = (nth.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&nth).then_some(Self { nth, of })
        });
        parsed.ok_or_else(|| "not a part such as 1/3".to_owned())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of {}", self.nth, self.of)
    }
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
        if scenarios.is_empty() {
            println!("no scenario's name contains '{text}': --list lists them");
        }
        scenarios
    }

    /// Draws the sample that is asked for, or puts everything in random order. One piece of each
    /// group comes before all others, so that a sample larger than the number of groups leaves none
    /// out.
    pub(crate) fn draw<T, K: Hash + Eq>(
        &self,
        mut work: Vec<T>,
        group: impl Fn(&T) -> K,
    ) -> Vec<T> {
        fastrand::Rng::with_seed(self.seed).shuffle(&mut work);
        let mut seen = HashSet::new();
        let (mut drawn, rest): (Vec<_>, Vec<_>) = work
            .into_iter()
            .partition(|piece| seen.insert(group(piece)));
        drawn.extend(rest);
        drawn.truncate(self.sample.unwrap_or(drawn.len()));
        drawn
    }

    /// Whether a piece of work of this name belongs to the part that is asked for. That does not
    /// depend on other pieces, of which another run may find more.
    pub(crate) fn is_in_part(&self, name: &str) -> bool {
        let Some(Part { nth, of }) = self.part else {
            return true;
        };
        let mut first = [0; 8];
        first.copy_from_slice(&Sha256::digest(name)[..8]);
        u64::from_le_bytes(first) % of == nth - 1
    }
}

/// The programs, and a directory for what their runs need.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) programs: Programs,
    // Dropped before the file system that it may be on.
    scratch: TempDir,
    _image: Option<MountedImage>,
    options: Options,
    /// Set by ^C. The runs under way end then, and no new ones begin.
    pub(crate) is_interrupted: Arc<AtomicBool>,
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
        let start = Instant::now();
        Ok(Self {
            programs,
            scratch: TempDir::with_prefix_in("zcopy-sweep-", dir)?,
            _image: image,
            options: options.clone(),
            is_interrupted,
            start,
        })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The heading of its section in `docs/proof.md`: samples, parts, builds for other targets, and
    /// other directories or file systems, have sections of their own.
    pub(crate) fn heading(&self, part: &str) -> String {
        let Options {
            build,
            fs,
            dir,
            part: of_whole,
            sample,
            ..
        } = &self.options;
        let target = build.target.iter();
        let target = target.map(|target| format!("of programs for {target}"));
        let fs = fs.iter().map(|fs| format!("on {fs}"));
        let dir = dir.iter().map(|dir| format!("in {}", dir.display()));
        let words = std::iter::once(part.to_owned());
        let words = words.chain(target).chain(fs).chain(dir);
        let sample = sample.map(|_| "sampled".to_owned());
        let words = words.chain(of_whole.map(|part| part.to_string()));
        let words: Vec<_> = words.chain(sample).collect();
        words.join(" ")
    }

    /// The options that repeat a run of this scenario in the same surroundings.
    pub(crate) fn options_for(&self, scenario: &Scenario) -> String {
        let Options { build, fs, dir, .. } = &self.options;
        let release = build.release.then(|| "--release".to_owned());
        let target = build.target.iter();
        let target = target.map(|target| format!("--target {target}"));
        let fs = fs.and_then(|fs| fs.to_possible_value());
        let fs = fs.map(|fs| format!("--fs {}", fs.get_name()));
        let dir = dir.iter().map(|dir| format!("--dir '{}'", dir.display()));
        let surroundings = release.into_iter().chain(target).chain(fs).chain(dir);
        let scenario = format!("--scenario '{}'", scenario.name());
        let options: Vec<_> = surroundings.chain([scenario]).collect();
        options.join(" ")
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
/// The first that `probe` gives, or that the sweep is interrupted. No more work is begun then.
pub(crate) fn run_all<'a, T: Sync>(
    is_interrupted: &AtomicBool,
    work: &'a [T],
    probe: impl Fn(&'a T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(Ok(()));
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
    fn a_sample_has_one_of_each_group() {
        let options = Options {
            sample: Some(12),
            ..Options::default()
        };
        // A thousand even numbers, and ten odd ones in groups of their own.
        let work = (0..2_000).step_by(2).chain((1..20).step_by(2)).collect();
        let group = |n: &u32| if n.is_multiple_of(2) { 0 } else { *n };
        let drawn = options.draw(work, group);
        assert_eq!(drawn.len(), 12);
        assert_eq!(drawn.iter().filter(|n| !n.is_multiple_of(2)).count(), 10);
    }

    #[test]
    fn the_parts_are_the_whole() {
        let mut n_parts = [0; 100];
        for part in ["1/3", "2/3", "3/3"] {
            let options = Options {
                part: Some(part.parse().unwrap()),
                ..Options::default()
            };
            for (name, n) in (0..).zip(&mut n_parts) {
                *n += usize::from(options.is_in_part(&format!("{name}")));
            }
        }
        assert_eq!(n_parts, [1; 100]);
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_piece_is_done_once_and_an_error_ends_the_rest() {
        let work: Vec<usize> = (0..1_000).collect();
        let sum = AtomicUsize::new(0);
        let is_interrupted = AtomicBool::new(false);
        run_all(&is_interrupted, &work, |n| {
            sum.fetch_add(*n, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 499_500);
        let failed = run_all(&is_interrupted, &work, |n| match n {
            3 => anyhow::bail!("three"),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "three");
    }
}
