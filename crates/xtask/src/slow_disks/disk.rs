//! Disks that the kernel slows down.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::image::{Mounted, run};

/// The directory of the images: memory, so that only the throttle makes a disk slow.
const MEMORY: &str = "/dev/shm";

/// The settings of the kernel's throttle, in version 1 of control groups. Version 2 has no limit for
/// all writes of the page cache to a disk.
const THROTTLE: &str = "/sys/fs/cgroup/blkio";

const READ_RATE: &str = "blkio.throttle.read_bps_device";

const WRITE_RATE: &str = "blkio.throttle.write_bps_device";

/// How long a disk works between two stalls, in milliseconds.
const WORKS: Range<u64> = 1000..3000;

/// How long it stalls, in milliseconds.
const STALLS: Range<u64> = 100..2000;

/// How fast a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// As fast as memory.
    Full,
    /// A disk that moves this number of bytes a second.
    Slow(u64),
    /// A disk that moves this number of bytes a second, and stalls. The second number is the seed of
    /// the stalls.
    Stalling(u64, u64),
}

/// A loop device over an image in memory, with ext4.
pub(super) struct Disk {
    /// `None` only while it is mounted again.
    mounted: Option<Mounted>,
    device: PathBuf,
    // Removed after the device was detached.
    _dir: TempDir,
}

impl Disk {
    /// Makes an empty disk of `size` bytes, and mounts it.
    ///
    /// # Errors
    ///
    /// The kernel has no throttle, or a command fails.
    pub(super) fn new(size: u64) -> anyhow::Result<Self> {
        let settings = Path::new(THROTTLE).join(WRITE_RATE);
        ensure!(
            settings.exists(),
            "no {}: version 1 of control groups is needed",
            settings.display()
        );
        let dir = TempDir::with_prefix_in("zcopy-slow-", MEMORY)?;
        let image = dir.path().join("image");
        File::create(&image)?.set_len(size)?;
        run(Command::new("mkfs.ext4").arg("-qF").arg(&image))?;
        let shown = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&image)
            .output()
            .context("losetup")?;
        ensure!(shown.status.success(), "losetup: {}", shown.status);
        let device = PathBuf::from(String::from_utf8(shown.stdout)?.trim_end());
        let mut disk = Self {
            mounted: None,
            device,
            _dir: dir,
        };
        disk.mount_again()?;
        Ok(disk)
    }

    /// Mounts the disk anew, so that nothing of it is in the page cache.
    pub(super) fn mount_again(&mut self) -> anyhow::Result<()> {
        self.mounted = None;
        self.mounted = Some(Mounted::by_script("mount \"$1\" \"$2\"", &self.device)?);
        Ok(())
    }

    /// The root of its files.
    pub(super) fn path(&self) -> &Path {
        self.mounted.as_ref().map_or(Path::new(""), Mounted::path)
    }

    /// Runs `work` while the disk has this speed. Stalls begin with it.
    pub(super) fn at<T>(
        &self,
        at: Speed,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let done = match at {
            Speed::Full => work(),
            Speed::Slow(rate) => self.set_rate(rate).and_then(|()| work()),
            Speed::Stalling(rate, seed) => thread::scope(|scope| {
                let (end, is_over) = mpsc::channel();
                let stalls = scope.spawn(move || self.stall(rate, seed, &is_over));
                let done = work();
                drop(end);
                let stalled = stalls.join();
                let stalled = stalled.unwrap_or_else(|_| Err(anyhow::anyhow!("a panic")));
                stalled.and(done)
            }),
        };
        // No limit.
        self.set_rate(0).and(done)
    }

    /// Lets the disk work and stall in turns, until the other end of `is_over` is dropped.
    fn stall(&self, rate: u64, seed: u64, is_over: &mpsc::Receiver<()>) -> anyhow::Result<()> {
        let mut random = fastrand::Rng::with_seed(seed);
        // At one byte a second nothing moves. The next rate releases what waits.
        for (rate, milliseconds) in [(rate, WORKS), (1, STALLS)].into_iter().cycle() {
            self.set_rate(rate)?;
            let time = Duration::from_millis(random.u64(milliseconds));
            if is_over.recv_timeout(time) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        Ok(())
    }

    /// Limits reads to `rate` bytes a second, and writes, too. A rate of 0 is no limit.
    fn set_rate(&self, rate: u64) -> anyhow::Result<()> {
        let number = number_of(&self.device)?;
        for name in [READ_RATE, WRITE_RATE] {
            let setting = Path::new(THROTTLE).join(name);
            let line = format!("{number} {rate}");
            fs::write(&setting, line).with_context(|| setting.display().to_string())?;
        }
        Ok(())
    }
}

/// The number of a device, as the throttle wants it.
fn number_of(device: &Path) -> anyhow::Result<String> {
    let name = device.file_name().context("the name of the device")?;
    let number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"))?;
    Ok(number.trim_end().to_owned())
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The device is detached when the file system has let go of it.
        self.mounted = None;
        if let Err(error) = run(Command::new("losetup").arg("-d").arg(&self.device)) {
            println!("{error:#}");
        }
    }
}
