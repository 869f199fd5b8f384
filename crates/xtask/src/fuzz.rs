//! Runs the property tests under libFuzzer, which looks for inputs that reach new code.
//!
//! The crate `zcopy-fuzz` has two drivers of the same properties: proptest, and libFuzzer in builds
//! with `cfg(fuzzing)`. This chore makes such builds, with the instrumentation that libFuzzer reads,
//! and runs one test in each process. It needs a C++ compiler and no nightly toolchain.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use crate::programs::built_by;
use crate::proof;
use statistics::Statistics;
use target::{TARGETS, Target};

mod statistics;
mod target;

/// The flags of rustc. They are those of cargo-fuzz without a sanitizer, as the code under test has
/// no `unsafe`.
const RUSTFLAGS: &[&str] = &[
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Copt-level=2",
];

/// The longest input in bytes.
const MAX_LEN: usize = 4096;

/// The lines of a failed run that are shown.
const SHOWN: usize = 40;

/// Arguments for runs of the fuzzer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run these targets [default: all]
    #[arg(long = "target", value_name = "NAME", value_parser = known())]
    targets: Vec<String>,
    /// Run each target this many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run a target on this one input, which an earlier run has kept
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
}

fn known() -> clap::builder::PossibleValuesParser {
    TARGETS
        .iter()
        .map(|target| target.name)
        .collect::<Vec<_>>()
        .into()
}

/// Runs the targets one after another.
///
/// # Errors
///
/// The tests cannot be built, a target is no test, or libFuzzer has found an input that fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let dir = root.join("target/fuzz");
    let is_wanted = |target: &&Target| {
        args.targets.is_empty() || args.targets.iter().any(|name| name == target.name)
    };
    let targets: Vec<_> = TARGETS.iter().filter(is_wanted).collect();
    if args.input.is_some() && targets.len() != 1 {
        bail!("--input needs the name of one --target");
    }
    let mut text = String::from(
        "| target | executions | blocks reached | inputs kept | slowest input | memory |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    let (mut n_right, mut failed) = (0, Vec::new());
    let mut built: Option<(&str, PathBuf)> = None;
    for target in targets {
        if built
            .as_ref()
            .is_none_or(|(package, _)| *package != target.package)
        {
            built = Some((target.package, build(&root, &dir, target.package)?));
        }
        let Some((_, program)) = &built else { continue };
        match fuzz(args, &dir, program, target)? {
            Some(statistics) => {
                n_right += 1;
                println!("{}: {statistics}", target.name);
                writeln!(text, "| `{}` | {} |", target.name, statistics.cells())?;
            }
            None => failed.push(target.name),
        }
    }
    let seconds = started.elapsed().as_secs();
    writeln!(
        text,
        "\n- {n_right} targets found nothing, {} failed",
        failed.len()
    )?;
    for name in &failed {
        writeln!(text, "- failed: `{name}`")?;
    }
    write!(text, "- {seconds} s, builds included")?;
    if args.record {
        // Some targets replace no record of all.
        let heading = match &args.targets[..] {
            [] => "Fuzzing".to_owned(),
            targets => format!("Fuzzing of {}", targets.join(", ")),
        };
        proof::record(&heading, &text)?;
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Builds the unit tests of a package for libFuzzer. Returns the path of the program.
fn build(root: &Path, dir: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let version = Command::new("rustc").arg("-vV").output().context("rustc")?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    // With a target, the flags do not apply to build scripts, which libFuzzer is not linked with.
    let host = host.context("rustc names no host")?;
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--locked", "--no-run", "--lib"]);
    cargo.args(["--package", package, "--target", host]);
    cargo.env("RUSTFLAGS", RUSTFLAGS.join(" "));
    cargo.env("CARGO_TARGET_DIR", dir).current_dir(root);
    let built = built_by(&mut cargo)?;
    let tests = built
        .iter()
        .find(|message| message["profile"]["test"] == true);
    let program = tests.and_then(|message| message["executable"].as_str());
    let program = program.with_context(|| format!("{package} has no unit tests"))?;
    Ok(program.into())
}

/// Runs one target. Returns `None` if an input has failed.
fn fuzz(
    args: &Args,
    dir: &Path,
    program: &Path,
    target: &Target,
) -> anyhow::Result<Option<Statistics>> {
    let corpus = dir.join("corpus").join(target.name);
    let findings = dir.join("findings");
    for dir in [&corpus, &findings] {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let corpus = corpus.display();
    let mut arguments = vec![
        args.input
            .as_ref()
            .map_or(corpus.to_string(), |input| input.display().to_string()),
        format!("-max_len={MAX_LEN}"),
        format!("-max_total_time={}", args.seconds),
        format!("-artifact_prefix={}/{}-", findings.display(), target.name),
        "-print_final_stats=1".to_owned(),
        "-timeout=60".to_owned(),
    ];
    if args.input.is_some() {
        arguments.push("-runs=1".to_owned());
    }
    let log = dir.join(format!("{}.log", target.name));
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    let status = Command::new(program)
        .args(["--exact", "--nocapture", target.test])
        .env("ZCOPY_LIBFUZZER", arguments.join("\n"))
        .env("RUST_BACKTRACE", "0")
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    match Statistics::parse(&said) {
        Some(statistics) if status.success() => Ok(Some(statistics)),
        _ if status.success() => bail!("{} is no test of {}", target.test, target.package),
        _ => {
            let lines: Vec<_> = said.lines().collect();
            println!("{}: {status}. The end of {}:", target.name, log.display());
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                println!("  {line}");
            }
            Ok(None)
        }
    }
}
