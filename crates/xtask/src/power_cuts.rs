//! Cuts the power of a disk at any moment of durable runs of `zc-dircopy`, and judges what is left.
//!
//! The disk is a loop device over a file that notes each write and each flush. A cut keeps all
//! writes before the last flush, and any of those behind it. The state that it leaves is mounted in
//! another image. There each file that has its name has to be whole; `--check` must find nothing
//! damaged; after the end of a run all of its files have to be there, with their digests; and the
//! next run has to complete the copy.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::image::{FileSystem, Mounted, private_mounts, run as run_silently};
use crate::programs::{Build, Program, Programs};
use crate::proof;
use disk::Disk;
use log::Cut;
use tree::{Changes, Source, VERSIONS};

mod disk;
mod log;
mod tree;

/// The size of a disk. `mkfs.xfs` needs 300 MB.
const SIZE: u64 = 320 << 20;

/// The copy, from the mount point.
const COPY: &str = "copy";

const TOOL: Program = Program::Tool("zc-dircopy");

/// Arguments for cuts of several file systems.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    build: Build,
    /// The file systems [default: ext4, xfs and btrfs]
    #[arg(long = "fs", value_enum)]
    file_systems: Vec<FileSystem>,
    /// The number of cuts of each kind of manifest on each file system
    #[arg(long, default_value_t = 100)]
    cuts: usize,
    /// Draw other cuts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the images of wrong states in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
}

/// The kinds of manifests, as the options that choose them.
const MANIFESTS: [&str; 3] = ["sha256sum", "bagit", "ascmhl"];

/// The runs with one kind of manifest, to one file system.
struct Runs {
    disk: Disk,
    /// The number of events when the file system was ready.
    ready: usize,
    /// The number of events when each run had ended.
    ended: Vec<usize>,
}

/// Cuts the power as often as the arguments say.
///
/// # Errors
///
/// A file system cannot be made or mounted, or a state is wrong.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    private_mounts()?;
    let started = Instant::now();
    let programs = Programs::build(&args.build)?;
    let tool = programs.path(TOOL);
    let all = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
    let file_systems = if args.file_systems.is_empty() {
        &all[..]
    } else {
        &args.file_systems
    };
    let mut text = String::new();
    let mut n_wrong = 0;
    for &file_system in file_systems {
        for manifest in MANIFESTS {
            let line = cut(args, &tool, file_system, manifest, &mut n_wrong)?;
            println!("{line}");
            writeln!(text, "- {line}")?;
        }
    }
    let seconds = started.elapsed().as_secs();
    writeln!(text, "- {n_wrong} wrong states")?;
    write!(text, "- {seconds} s, {}", programs.description)?;
    println!("{n_wrong} wrong states, {seconds} s");
    if args.record {
        proof::record("Power cuts", &text)?;
    }
    ensure!(n_wrong == 0, "{n_wrong} states are wrong");
    Ok(())
}

/// Cuts the power during runs with one kind of manifest. Returns what was done.
fn cut(
    args: &Args,
    tool: &Path,
    file_system: FileSystem,
    manifest: &str,
    n_wrong: &mut usize,
) -> anyhow::Result<String> {
    let changes = if manifest == "ascmhl" {
        Changes::Additions
    } else {
        Changes::Any
    };
    let source = Source::new(changes)?;
    let runs = record(tool, &source, file_system, manifest)?;
    let log = runs.disk.log();
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut cuts: Vec<Cut> = (0..args.cuts)
        .map(|_| log.cut(random.usize(runs.ready..=log.len()), &mut random))
        .collect();
    cuts.sort_by_key(|cut| cut.at);

    let dir = TempDir::with_prefix("zcopy-power-")?;
    let [certain, image] = ["certain", "image"].map(|name| dir.path().join(name));
    let base = File::options()
        .create_new(true)
        .write(true)
        .open(&certain)?;
    base.set_len(SIZE)?;
    let mut n_applied = 0;
    for cut in &cuts {
        n_applied = log.apply_certain(cut, n_applied, &base)?;
        let n_ended = runs.ended.iter().filter(|ended| **ended <= cut.at).count();
        let _ = fs::remove_file(&image);
        copy_sparse(&certain, &image)?;
        log.apply_kept(cut, &File::options().write(true).open(&image)?)?;
        if let Some(keep) = &args.keep {
            fs::create_dir_all(keep)?;
            copy_sparse(&image, &keep.join("latest"))?;
        }
        let wrong = judge(tool, &source, &image, manifest, n_ended)?;
        if !wrong.is_empty() {
            *n_wrong += 1;
            println!(
                "wrong, on {file_system}, --manifest={manifest}, seed {}, cut after {} of {} events, {n_ended} runs had ended:",
                args.seed,
                cut.at,
                log.len()
            );
            for line in wrong {
                println!("  {line}");
            }
            if let Some(keep) = &args.keep {
                let name = format!("{file_system}-{manifest}-{}-{}", args.seed, cut.at);
                fs::rename(keep.join("latest"), keep.join(name))?;
            }
        }
    }
    Ok(format!(
        "{file_system}, `--manifest={manifest}`: {} cuts within {} writes and flushes",
        cuts.len(),
        log.len() - runs.ready
    ))
}

/// Copies an image, whose holes stay holes.
fn copy_sparse(from: &Path, to: &Path) -> anyhow::Result<()> {
    run_silently(Command::new("cp").arg("--sparse=always").args([from, to]))
}

/// Makes a file system on a disk, and copies each version of the source to it.
fn record(
    tool: &Path,
    source: &Source,
    file_system: FileSystem,
    manifest: &str,
) -> anyhow::Result<Runs> {
    let disk = Disk::new(SIZE)?;
    run_silently(file_system.mkfs().arg(disk.path()))?;
    let mounted = Mounted::new(&disk.path())?;
    run_silently(&mut Command::new("sync"))?;
    let ready = disk.log().len();
    let mut ended = Vec::new();
    for version in VERSIONS {
        source.become_version(version)?;
        let copied = copy(tool, source, mounted.path(), manifest)?;
        ensure!(copied.status.success(), "{}", said(&copied));
        ended.push(disk.log().len());
    }
    drop(mounted);
    Ok(Runs { disk, ready, ended })
}

fn copy(tool: &Path, source: &Source, mounted: &Path, manifest: &str) -> anyhow::Result<Output> {
    let mut copy = Command::new(tool);
    copy.args(["--durable", "--quiet", "--no-owner", "--manifest", manifest]);
    let copy = copy.arg(source.path()).arg(mounted.join(COPY)).output();
    copy.context("zc-dircopy")
}

fn check(tool: &Path, copy: &Path, options: &[&str]) -> anyhow::Result<Output> {
    let check = Command::new(tool)
        .arg("--check")
        .args(options)
        .arg(copy)
        .output();
    check.context("zc-dircopy --check")
}

/// Mounts the state that a cut has left. Says what is wrong with it.
fn judge(
    tool: &Path,
    source: &Source,
    image: &Path,
    manifest: &str,
    n_ended: usize,
) -> anyhow::Result<Vec<String>> {
    let mounted = Mounted::new(image)?;
    let path = mounted.path().join(COPY);
    // A bag has its files in a directory of their own.
    let files = if manifest == "bagit" {
        path.join("data")
    } else {
        path.clone()
    };
    let mut wrong = source.judge(&files, n_ended)?;
    if path.exists() {
        let checked = check(tool, &path, &["--json"])?;
        let stdout = String::from_utf8_lossy(&checked.stdout);
        let damaged = stdout.lines().filter(|line| is_damaged(line));
        wrong.extend(damaged.map(|line| format!("--check: {line}")));
        if !stdout
            .lines()
            .any(|line| line.contains("\"event\":\"summary\""))
        {
            wrong.push(format!("--check did not end: {}", said(&checked)));
        }
    }
    if n_ended == VERSIONS.len() {
        let checked = check(tool, &path, &["--strict", "--quiet"])?;
        if !checked.status.success() {
            wrong.push(format!(
                "--check --strict after the end: {}",
                said(&checked)
            ));
        }
    }
    // The source has its last version by now.
    let copied = copy(tool, source, mounted.path(), manifest)?;
    if !copied.status.success() {
        wrong.push(format!("the next run: {}", said(&copied)));
    }
    let after = source.judge(&files, VERSIONS.len())?.into_iter();
    wrong.extend(after.map(|line| format!("after the next run: {line}")));
    let checked = check(tool, &path, &["--strict", "--quiet"])?;
    if !checked.status.success() {
        wrong.push(format!(
            "--check --strict after the next run: {}",
            said(&checked)
        ));
    }
    Ok(wrong)
}

/// Whether a line of `--check --json` tells of a file that is not as its record says.
fn is_damaged(line: &str) -> bool {
    let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    matches!(
        event["result"].as_str(),
        Some("differs" | "missing" | "unreadable")
    )
}

/// The status and the messages of a command, in one line.
fn said(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}: {stderr}{stdout}", output.status).replace('\n', "; ")
}
