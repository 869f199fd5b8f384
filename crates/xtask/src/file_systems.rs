//! Runs the tests with their files on other file systems.

use std::fs::{self, File};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::image::{Mounted, private_mounts};
use crate::integration_tests::{Outcome, Results, Selection, Tests, all_or};
use crate::proof;

/// The size of the sparse images.
const SIZE: u64 = 4 << 30;

/// Arguments for the runs on other file systems.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mount these file systems [default: all]
    #[arg(long = "fs", value_name = "NAME")]
    file_systems: Vec<Kind>,
    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    selection: Selection,
}

/// A file system with the options that make it differ from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// ext4 with blocks of 1 KiB
    Ext4SmallBlocks,
    /// ext4 that keeps short files in their inodes
    Ext4InlineData,
    /// ext4 with the journal of data and without extents, as ext3
    Ext3,
    Xfs,
    Btrfs,
    /// btrfs that compresses all that is written
    BtrfsZstd,
    /// tmpfs with pages of 2 MiB
    TmpfsHuge,
    /// overlayfs over ext4
    Overlay,
    /// ext4 by a driver in user space
    Fuse2fs,
    /// NTFS by a driver in user space
    Ntfs,
    /// exFAT by a driver in user space
    Exfat,
}

impl Kind {
    /// The shell script that mounts it on `$2`. `$1` is a sparse image in a
    /// directory of its own.
    fn script(self) -> &'static str {
        match self {
            Self::Ext4SmallBlocks => "mkfs.ext4 -qFb 1024 \"$1\"; mount -o loop \"$1\" \"$2\"",
            Self::Ext4InlineData => {
                "mkfs.ext4 -qFI 1024 -O inline_data \"$1\"; mount -o loop \"$1\" \"$2\""
            }
            Self::Ext3 => "mkfs.ext3 -qF \"$1\"; mount -o loop,data=journal \"$1\" \"$2\"",
            Self::Xfs => "mkfs.xfs -q \"$1\"; mount -o loop \"$1\" \"$2\"",
            Self::Btrfs => "mkfs.btrfs -q \"$1\"; mount -o loop \"$1\" \"$2\"",
            Self::BtrfsZstd => {
                "mkfs.btrfs -q \"$1\"; mount -o loop,compress-force=zstd \"$1\" \"$2\""
            }
            Self::TmpfsHuge => "mount -t tmpfs -o huge=always,size=8G none \"$2\"",
            Self::Overlay => {
                "cd \"$(dirname \"$1\")\"; mkdir lower upper work
                 mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none \"$2\""
            }
            Self::Fuse2fs => "mkfs.ext4 -qF \"$1\"; fuse2fs \"$1\" \"$2\"",
            Self::Ntfs => "mkfs.ntfs -qFQ \"$1\"; ntfs-3g \"$1\" \"$2\"",
            // The driver takes no file but a block device.
            Self::Exfat => {
                "mkfs.exfat \"$1\"; device=$(losetup -f --show \"$1\")
                 mount.exfat-fuse \"$device\" \"$2\" || { losetup -d \"$device\"; exit 1; }
                 losetup -d \"$device\""
            }
        }
    }

    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the tests on each file system in turn.
///
/// # Errors
///
/// A file system cannot be mounted, or a test fails there.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let all_tests = args.selection.build()?;
    private_mounts()?;
    let mut results = Results::new("file system");
    for kind in all_or(&args.file_systems) {
        for tests in &all_tests {
            let outcome = run_on(*kind, tests, args).with_context(|| kind.name())?;
            results.add(&kind.name(), tests, &outcome);
        }
    }
    let (text, all_right) = results.finish();
    if args.record {
        let seconds = started.elapsed().as_secs();
        let text = format!("{text}- {seconds} s, builds included");
        proof::record(&heading(args), &text)?;
    }
    ensure!(all_right, "not all tests pass on each file system");
    Ok(())
}

/// Returns the heading of the record. It names the selected file systems and tests, so that their
/// record does not replace the record of all.
fn heading(args: &Args) -> String {
    let mut heading = "File systems".to_owned();
    let names: Vec<_> = args.file_systems.iter().map(|kind| kind.name()).collect();
    if !names.is_empty() {
        heading = format!("{heading} {}", names.join(", "));
    }
    args.selection.heading(&heading)
}

/// Runs the tests of a package with their files on a new file system.
fn run_on(kind: Kind, tests: &Tests, args: &Args) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let scratch = TempDir::with_prefix("zcopy-fs-")?;
    let image = scratch.path().join("image");
    File::create(&image)?.set_len(SIZE)?;
    let mounted = Mounted::by_script(kind.script(), &image)?;
    let messages = scratch.path().join("messages");
    let log = scratch.path().join("log");
    let output = File::create(&messages)?;
    let files = mounted.path().join("files");
    fs::create_dir(&files)?;
    let status = Command::new(&tests.program)
        .args(&args.selection.arguments)
        .arg("--logfile")
        .arg(&log)
        .current_dir(&tests.dir)
        .env("TMPDIR", files)
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| tests.program.display().to_string())?;
    let messages = fs::read(messages)?;
    let messages = String::from_utf8_lossy(&messages);
    let log = fs::read_to_string(log)?;
    let outcome = Outcome::read(tests, &messages, &log, status.success(), started.elapsed());
    if !outcome.is_right() {
        println!("{messages}");
    }
    Ok(outcome)
}
