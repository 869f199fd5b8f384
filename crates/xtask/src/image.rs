//! A file system in an image, for the time of a sweep.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// The size of the sparse image. `mkfs.xfs` needs 300 MB.
const SIZE: u64 = 1 << 30;

/// A file system that images can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileSystem {
    Btrfs,
    Ext4,
    Xfs,
    /// It cannot share blocks, so that `copy_file_range` copies.
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
pub(crate) struct MountedImage {
    mount_point: PathBuf,
    /// The directory of the image and the mount point.
    _dir: TempDir,
}

impl MountedImage {
    /// Makes the image, and mounts it.
    ///
    /// The calling thread moves into a new mount namespace. Threads that it starts later, and their
    /// children, see the mount; others do not.
    ///
    /// # Errors
    ///
    /// If the process is not root, or `mkfs` or `mount` fails.
    pub(crate) fn new(kind: FileSystem) -> anyhow::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("only root can mount a file system")?;
        // Later mounts do not propagate to the parent namespace.
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .context("cannot make mounts private")?;
        let dir = TempDir::with_prefix("zcopy-image-")?;
        let (image, mount_point) = (dir.path().join("image"), dir.path().join("mounted"));
        File::create(&image)?.set_len(SIZE)?;
        fs::create_dir(&mount_point)?;
        run(kind.mkfs().arg(&image))?;
        run(Command::new("mount").arg(&image).arg(&mount_point))?;
        Ok(Self {
            mount_point,
            _dir: dir,
        })
    }

    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }
}

impl Drop for MountedImage {
    fn drop(&mut self) {
        // `TempDir` cannot remove a mount point. A process that is being killed may keep the file
        // system busy for a moment.
        if let Err(error) = run(Command::new("umount").arg("-l").arg(&self.mount_point)) {
            println!("{error:#}");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_sees_the_file_system_and_nothing_stays() {
        if !rustix::process::getuid().is_root() {
            assert!(
                std::env::var_os("ZCOPY_REQUIRE").is_none(),
                "root is needed"
            );
            println!("SKIPPED: only root can mount a file system");
            return;
        }
        // A thread of its own leaves the namespace of the other tests alone.
        let mount_point = std::thread::spawn(|| {
            let image = MountedImage::new(FileSystem::Ext4).unwrap();
            let mount_point = image.mount_point().to_owned();
            let mounted = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            assert!(mounted.contains(mount_point.to_str().unwrap()));
            let of_others = fs::read_to_string("/proc/self/mounts").unwrap();
            assert!(!of_others.contains(mount_point.to_str().unwrap()));
            fs::write(mount_point.join("file"), "bytes").unwrap();
            mount_point
        });
        let mount_point = mount_point.join().unwrap();
        assert!(!mount_point.parent().unwrap().exists());
    }
}
