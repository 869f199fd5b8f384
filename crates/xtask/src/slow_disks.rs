//! Times `zc-dircopy` between disks that are slow, or that stall.
//!
//! Each copy stands beside what the slower side can do alone: reading the source to its end, and
//! writing as many bytes and syncing them. Stalls come at the same moments after the begin of each.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::image::private_mounts;
use crate::programs::{Build, Program, Programs};
use crate::proof;
use disk::{Disk, Speed};

mod disk;

/// The sizes of the files of the source: 400 MiB.
const FILES: [(usize, usize); 4] = [
    (1, 128 << 20),
    (4, 32 << 20),
    (16, 8 << 20),
    (256, 64 << 10),
];

/// The size of a disk.
const SIZE: u64 = 1 << 30;

/// The rate of a disk that is slow.
const RATE: u64 = 60 << 20;

/// The rate of one that is still slower.
const LOWER_RATE: u64 = 40 << 20;

/// Arguments for copies between slow disks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure each case so often
    #[arg(long, value_name = "N", default_value_t = 5)]
    turns: u64,
    /// Measure only the cases whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Draw other stalls
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the result to docs/proof.md, which needs all cases
    #[arg(long, conflicts_with = "only")]
    record: bool,
}

/// How the disks behave.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    source: DiskKind,
    destination: DiskKind,
}

/// How fast a disk is.
#[derive(Debug, Clone, Copy)]
enum DiskKind {
    Fast,
    Slow,
    Stalling,
}

const CASES: [Case; 6] = {
    use DiskKind::{Fast, Slow, Stalling};
    const fn case(name: &'static str, source: DiskKind, destination: DiskKind) -> Case {
        Case {
            name,
            source,
            destination,
        }
    }
    [
        case("the source is slow", Slow, Fast),
        case("the destination is slow", Fast, Slow),
        case("both are slow", Slow, Slow),
        case("both are slow, the source stalls", Stalling, Slow),
        case("both are slow, the destination stalls", Slow, Stalling),
        case("both are slow and stall", Stalling, Stalling),
    ]
};

/// The options that are measured.
const OPTIONS: [&[&str]; 2] = [&[], &["--jobs=1"]];

/// The name of the case with two destinations.
const TWO: &str = "two destinations";

/// The times of one case, of each turn.
#[derive(Debug, Default)]
struct Times {
    /// The slower one of reading and writing alone.
    alone: Vec<Duration>,
    /// The copies, by their options.
    copies: [Vec<Duration>; OPTIONS.len()],
}

/// Measures the cases in turns, and prints a table.
///
/// # Errors
///
/// The process is not root, the kernel has no throttle, or a command fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.turns > 0, "--turns is 0");
    private_mounts()?;
    let started = Instant::now();
    let programs = Programs::build(&Build {
        release: true,
        ..Build::default()
    })?;
    let mut disks = Disks::new(programs.path(Program::Tool("zc-dircopy")))?;
    let cases = CASES.iter().filter(|case| case.name.contains(&args.only));
    let mut measured: Vec<_> = cases.map(|case| (case, Times::default())).collect();
    let mut two = TWO.contains(&args.only).then(TwoDestinationTimes::default);
    for turn in 0..args.turns {
        // Another seed has other stalls in every turn.
        let mut random = fastrand::Rng::with_seed(args.seed.wrapping_mul(1000).wrapping_add(turn));
        for (case, times) in &mut measured {
            let seeds = [random.u64(..), random.u64(..)];
            let [source, destination] = case.speeds(seeds);
            let reading = disks.read(source)?;
            let writing = disks.write(destination)?;
            times.alone.push(reading.max(writing));
            for (options, times) in OPTIONS.iter().zip(&mut times.copies) {
                times.push(disks.copy(options, source, &[destination])?);
            }
        }
        if let Some(two) = &mut two {
            let (slower, faster) = (Speed::Slow(LOWER_RATE), Speed::Slow(RATE));
            two.one.push(disks.copy(&[], Speed::Full, &[slower])?);
            two.both
                .push(disks.copy(&[], Speed::Full, &[slower, faster])?);
        }
    }
    let mut text = String::new();
    if !measured.is_empty() {
        text.push_str(&table(&mut measured)?);
    }
    if let Some(two) = &mut two {
        writeln!(text, "{two}")?;
    }
    println!("{text}");
    if args.record {
        let seconds = started.elapsed().as_secs();
        let (turns, mebibytes) = (args.turns, n_bytes() >> 20);
        let text = format!(
            "{mebibytes} MiB in {} files between disks of {} MiB/s with ext4, SHA-256 included; \
             stalls last 0.1 to 2 s, with 1 to 3 s between them. Medians of {turns} turns, with the \
             lowest and the highest part of a turn.\n\n{text}\n- {seconds} s, {}",
            FILES.iter().map(|(n, _)| n).sum::<usize>(),
            RATE >> 20,
            programs.description
        );
        proof::record("Slow disks", &text)?;
    }
    Ok(())
}

impl Case {
    fn speeds(&self, seeds: [u64; 2]) -> [Speed; 2] {
        let speed = |behaviour, seed| match behaviour {
            DiskKind::Fast => Speed::Full,
            DiskKind::Slow => Speed::Slow(RATE),
            DiskKind::Stalling => Speed::Stalling(RATE, seed),
        };
        [
            speed(self.source, seeds[0]),
            speed(self.destination, seeds[1]),
        ]
    }
}

fn n_bytes() -> usize {
    FILES.iter().map(|(n, size)| n * size).sum()
}

/// The names and sizes of the files of the source.
fn files() -> impl Iterator<Item = (String, usize)> {
    let files = FILES.iter();
    files.flat_map(|(n, size)| (0..*n).map(move |number| (format!("{size}-{number}"), *size)))
}

/// The source and the two destinations.
struct Disks {
    source: Disk,
    destinations: [Disk; 2],
    tool: PathBuf,
}

impl Disks {
    /// Makes the disks, and fills the source.
    fn new(tool: PathBuf) -> anyhow::Result<Self> {
        let (source, destinations) = (Disk::new(SIZE)?, [Disk::new(SIZE)?, Disk::new(SIZE)?]);
        let mut random = fastrand::Rng::with_seed(1);
        for (name, size) in files() {
            let mut bytes = vec![0; size];
            random.fill(&mut bytes);
            fs::create_dir_all(source.path().join("tree"))?;
            fs::write(source.path().join("tree").join(name), bytes)?;
        }
        Ok(Self {
            source,
            destinations,
            tool,
        })
    }

    /// Reads the source to its end.
    fn read(&mut self, speed: Speed) -> anyhow::Result<Duration> {
        self.source.mount_again()?;
        let tree = self.source.path().join("tree");
        self.source.at(speed, || {
            let begin = Instant::now();
            let mut block = vec![0; 1 << 20];
            for (name, _) in files() {
                let mut file = File::open(tree.join(name))?;
                while file.read(&mut block)? > 0 {}
            }
            Ok(begin.elapsed())
        })
    }

    /// Writes as many bytes, and syncs them.
    fn write(&mut self, speed: Speed) -> anyhow::Result<Duration> {
        let [disk, _] = &mut self.destinations;
        empty(disk.path())?;
        disk.mount_again()?;
        let root = disk.path();
        disk.at(speed, || {
            let begin = Instant::now();
            let block = vec![7; 1 << 20];
            for (name, size) in files() {
                let mut file = File::create(root.join(name))?;
                for part in block
                    .chunks(block.len().min(size))
                    .cycle()
                    .take(size.div_ceil(block.len()))
                {
                    file.write_all(part)?;
                }
            }
            rustix::fs::syncfs(File::open(root)?)?;
            Ok(begin.elapsed())
        })
    }

    /// Copies the source to as many destinations as there are speeds.
    fn copy(
        &mut self,
        options: &[&str],
        source: Speed,
        destinations: &[Speed],
    ) -> anyhow::Result<Duration> {
        self.source.mount_again()?;
        let mut command = Command::new(&self.tool);
        command.arg("--quiet").args(options);
        command.arg("-i").arg(self.source.path().join("tree"));
        for (disk, _) in self.destinations.iter_mut().zip(destinations) {
            empty(disk.path())?;
            disk.mount_again()?;
            command.arg("-o").arg(disk.path().join("copy"));
        }
        let mut time = || {
            let begin = Instant::now();
            let status = command.status().context("zc-dircopy")?;
            ensure!(status.success(), "{command:?}: {status}");
            Ok(begin.elapsed())
        };
        let [first, second] = &self.destinations;
        self.source.at(source, || match destinations {
            [speed] => first.at(*speed, time),
            [speed, other] => first.at(*speed, || second.at(*other, time)),
            _ => time(),
        })
    }
}

/// Removes what a copy has left on a disk.
fn empty(root: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        match path.is_dir() {
            true if path.ends_with("lost+found") => {}
            true => fs::remove_dir_all(path)?,
            false => fs::remove_file(path)?,
        }
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// The median of ratios, with the lowest and the highest.
struct Ratios(Vec<f64>);

impl Ratios {
    fn of(numerators: &[Duration], denominators: &[Duration]) -> Self {
        let pairs = numerators.iter().zip(denominators);
        let ratios = pairs.map(|(above, below)| above.as_secs_f64() / below.as_secs_f64());
        let mut ratios: Vec<_> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        Self(ratios)
    }
}

impl fmt::Display for Ratios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ratios) = self;
        let (Some(lowest), Some(highest)) = (ratios.first(), ratios.last()) else {
            return Ok(());
        };
        let median = ratios[ratios.len() / 2];
        write!(f, "{median:.2} [{lowest:.2}–{highest:.2}]")
    }
}

/// The table of all cases, with the part of the slower side's speed that each copy has.
fn table(measured: &mut [(&Case, Times)]) -> anyhow::Result<String> {
    let mut text = String::from(
        "| disks | slower side alone | copy | its speed (slower side = 1) | copy with `--jobs=1` | its speed (slower side = 1) |\n\
         |---|---:|---:|---|---:|---|\n",
    );
    for (case, times) in measured {
        write!(text, "| {} ", case.name)?;
        let parts = times
            .copies
            .each_ref()
            .map(|copies| Ratios::of(&times.alone, copies));
        write!(text, "| {:.1} s ", median(&mut times.alone))?;
        for (copies, part) in times.copies.iter_mut().zip(parts) {
            write!(text, "| {:.1} s | {part} ", median(copies))?;
        }
        text.push_str("|\n");
    }
    Ok(text)
}

/// The times of copies to a slower disk, and to that and a faster one.
#[derive(Debug, Default)]
struct TwoDestinationTimes {
    one: Vec<Duration>,
    both: Vec<Duration>,
}

impl fmt::Display for TwoDestinationTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_slower = Ratios::of(&self.both, &self.one);
        let [one, both] = [&self.one, &self.both].map(|times| median(&mut times.clone()));
        let (lower, higher) = (LOWER_RATE >> 20, RATE >> 20);
        write!(
            f,
            "\nFrom memory to a disk of {lower} MiB/s: {one:.1} s. To that and one of {higher} MiB/s: \
             {both:.1} s, {of_slower} of the time to the slower one."
        )
    }
}
