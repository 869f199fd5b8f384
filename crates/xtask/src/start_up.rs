//! Times programs that move one byte, so that almost all of their time is their start.
//!
//! Builds of the tools and the originals run in turns, in an order that is drawn anew for every
//! round, so that other work on the machine slows all of them alike. `std::process::Command` starts
//! them with `posix_spawn(3)`, which does not copy this program.
//!
//! Copies of the programs are run, of the originals, too. A file that the linker has written starts
//! up to 15 % slower than its copy, and people run what `install` or `dpkg` has copied.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::proof;

mod case;
mod table;

use case::{Case, Ends};

/// Arguments for a comparison of builds with the originals.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A build of the tools, with a name for the table:
    /// static=target/x86_64-unknown-linux-gnu/release
    #[arg(value_name = "NAME=DIR", required = true, value_parser = build)]
    builds: Vec<Build>,

    /// The directory of the originals
    #[arg(long, value_name = "DIR", default_value = "/opt/peers/bin")]
    peers: PathBuf,

    /// Run every program this many times
    #[arg(long, value_name = "N", default_value_t = 300)]
    runs: usize,

    /// Draw another order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Run only the cases whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
}

/// A directory of built tools.
#[derive(Debug, Clone)]
struct Build {
    name: String,
    dir: PathBuf,
}

fn build(value: &str) -> Result<Build, String> {
    let (name, dir) = value.split_once('=').ok_or("it is not NAME=DIR")?;
    Ok(Build {
        name: name.to_owned(),
        dir: dir.into(),
    })
}

/// A program of a case, with the times of its runs.
struct Series {
    case: &'static Case,
    /// The name of the build, or `original`.
    build: String,
    path: PathBuf,
    times: Vec<Duration>,
}

/// Times the builds and the originals, and prints a table.
///
/// # Errors
///
/// If a program cannot be run, or does not pass on the byte.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.runs > 0, "--runs is 0");
    let ends = Ends::new()?;
    let mut series = Vec::new();
    for case in case::CASES {
        if !case.name().contains(&args.only) {
            continue;
        }
        let original = ("original".to_owned(), args.peers.join(case.program));
        let tool = format!("zc-{}", case.program);
        let builds = args.builds.iter();
        let builds = builds.map(|build| (build.name.clone(), build.dir.join(&tool)));
        for (build, path) in std::iter::once(original).chain(builds) {
            series.push(Series {
                case,
                build,
                path: ends.copy_program(&path)?,
                times: Vec::with_capacity(args.runs),
            });
        }
    }
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut order: Vec<usize> = (0..series.len()).collect();
    // The first round reads the programs from the disk, and does not count.
    for round in 0..=args.runs {
        random.shuffle(&mut order);
        for &index in &order {
            let series = &mut series[index];
            let time = ends
                .time(series.case, &series.path)
                .with_context(|| series.path.display().to_string())?;
            if round > 0 {
                series.times.push(time);
            }
        }
    }
    let text = table::render(&series);
    println!("{text}");
    if args.record {
        proof::record("Start-up", &text)?;
    }
    Ok(())
}
