//! A file system in an image, for the time of a sweep.

use std::fmt;
use std::fs::File;
use std::path::Path;
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
    pub(crate) fn mkfs(self) -> Command {
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

/// A file system, mounted where only this process and its children see it.
#[derive(Debug)]
pub(crate) struct Mounted {
    place: TempDir,
}

impl Mounted {
    /// Mounts an image, or what behaves like one.
    ///
    /// # Errors
    ///
    /// `mount` fails.
    pub(crate) fn new(image: &Path) -> anyhow::Result<Self> {
        Self::by_script("mount -o loop \"$1\" \"$2\"", image)
    }

    /// Mounts what a shell script mounts on `$2`. `$1` is the image.
    ///
    /// # Errors
    ///
    /// The script fails.
    pub(crate) fn by_script(script: &str, image: &Path) -> anyhow::Result<Self> {
        let place = TempDir::with_prefix("zcopy-mounted-")?;
        let mut shell = Command::new("sh");
        run(shell
            .args(["-ec", script, "sh"])
            .arg(image)
            .arg(place.path()))?;
        Ok(Self { place })
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // `TempDir` cannot remove a mount point. A process that is being killed may keep the file
        // system busy for a moment.
        if let Err(error) = run(Command::new("umount").arg("-l").arg(self.path())) {
            println!("{error:#}");
        }
    }
}

/// An image with a file system, mounted where only this process and its children see it.
#[derive(Debug)]
pub(crate) struct MountedImage {
    // Unmounted before the image is removed.
    mounted: Mounted,
    _dir: TempDir,
}

impl MountedImage {
    /// Makes the image, and mounts it.
    ///
    /// # Errors
    ///
    /// As [`private_mounts`], or `mkfs` or `mount` fails.
    pub(crate) fn new(kind: FileSystem) -> anyhow::Result<Self> {
        private_mounts()?;
        let dir = TempDir::with_prefix("zcopy-image-")?;
        let image = dir.path().join("image");
        File::create(&image)?.set_len(SIZE)?;
        run(kind.mkfs().arg(&image))?;
        Ok(Self {
            mounted: Mounted::new(&image)?,
            _dir: dir,
        })
    }

    pub(crate) fn mount_point(&self) -> &Path {
        self.mounted.path()
    }
}

/// Moves the calling thread into a mount namespace of its own. Threads that it starts later, and
/// their children, see its mounts; others do not.
///
/// # Errors
///
/// The process is not root.
pub(crate) fn private_mounts() -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("only root can mount a file system")?;
    // Later mounts do not propagate to the parent namespace.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .context("cannot make mounts private")
}

/// Runs a command that says nothing unless it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
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
    use std::fs;

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
        assert!(!mount_point.exists());
    }
}
