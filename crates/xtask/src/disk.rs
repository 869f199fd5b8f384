//! A file system in an image, for the time of a sweep.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// The size of an image, which takes no more room than what is written. `mkfs.xfs` wants 300 MB.
const SIZE: u64 = 1 << 30;

/// A file system that images can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileSystem {
    Btrfs,
    Ext4,
    Xfs,
    /// Here `copy_file_range` copies.
    XfsWithoutReflink,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Btrfs => "btrfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::XfsWithoutReflink => "xfs without reflink",
        })
    }
}

impl FileSystem {
    /// The command that makes one.
    fn mkfs(self) -> Command {
        let (name, options): (_, &[&str]) = match self {
            Self::Btrfs => ("mkfs.btrfs", &[]),
            Self::Ext4 => ("mkfs.ext4", &[]),
            Self::Xfs => ("mkfs.xfs", &[]),
            Self::XfsWithoutReflink => ("mkfs.xfs", &["-m", "reflink=0"]),
        };
        let mut mkfs = Command::new(name);
        mkfs.args(options);
        mkfs
    }
}

/// An image with a file system, mounted where only this process and its children see it.
#[derive(Debug)]
pub(crate) struct Disk {
    mounted: PathBuf,
    /// The image, and the directory where it is mounted.
    _dir: TempDir,
}

impl Disk {
    /// Makes the image, and mounts it.
    ///
    /// The calling thread leaves the namespace of mounts that it had. Threads that it starts later,
    /// and their children, see the mount; others do not.
    ///
    /// # Errors
    ///
    /// If the process is not root, or `mkfs` or `mount` fails.
    pub(crate) fn new(kind: FileSystem) -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("zcopy-disk-")?;
        let (image, mounted) = (dir.path().join("image"), dir.path().join("mounted"));
        File::create(&image)?.set_len(SIZE)?;
        fs::create_dir(&mounted)?;
        run(kind.mkfs().arg(&image))?;
        unshare(CloneFlags::CLONE_NEWNS).context("a namespace of mounts")?;
        // What is mounted from now on is not passed on to the namespace that was left.
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
        run(Command::new("mount").arg(&image).arg(&mounted))?;
        Ok(Self { mounted, _dir: dir })
    }

    /// The directory where it is mounted.
    pub(crate) fn dir(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The namespace ends with the process, but the directory can only be removed before.
        let _ = run(Command::new("umount").arg(&self.mounted));
    }
}

/// Runs a command that says nothing unless it fails.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
