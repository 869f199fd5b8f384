//! File systems and block devices made for the tests, in images of their own.
//!
//! A file system is mounted, its root opened, and the mount detached at once: it lives as long as the descriptor, and
//! however the process ends, nothing is left behind. Its files are reached through `/proc/self/fd`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use tempfile::TempDir;

use super::skip::{has_program, skip};

/// The file systems that the crate treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fs {
    Ext4,
    Tmpfs,
    Btrfs,
    Xfs,
}

impl Fs {
    pub(crate) const ALL: [Self; 4] = [Self::Ext4, Self::Tmpfs, Self::Btrfs, Self::Xfs];

    /// Where to make files on it; none, said aloud, if this machine has no such file system.
    pub(crate) fn dir(self) -> Option<PathBuf> {
        static EXT4: LazyLock<Option<Root>> = LazyLock::new(|| loop_mount("ext4", 256));
        static BTRFS: LazyLock<Option<Root>> = LazyLock::new(|| loop_mount("btrfs", 512));
        static XFS: LazyLock<Option<Root>> = LazyLock::new(|| loop_mount("xfs", 320));
        static TMPFS: LazyLock<Option<Root>> = LazyLock::new(|| mount_tmpfs(0));
        let root: &'static Option<Root> = match self {
            Self::Ext4 => &EXT4,
            Self::Tmpfs => &TMPFS,
            Self::Btrfs => &BTRFS,
            Self::Xfs => &XFS,
        };
        if root.is_none() {
            skip(&format!("{self:?} cannot be mounted here"));
        }
        root.as_ref().map(Root::dir)
    }
}

/// The root directory of a file system that nobody else can see.
#[derive(Debug)]
pub(crate) struct Root(File);

impl Root {
    pub(crate) fn dir(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A tmpfs of at most so many MiB (0: half the memory).
pub(crate) fn mount_tmpfs(mib: u64) -> Option<Root> {
    let dir = TempDir::new().unwrap();
    let size = format!("size={mib}m");
    mount(&dir, &["-t", "tmpfs", "-o", &size, "none"])
}

/// A file system of so many MiB in a sparse image.
pub(crate) fn loop_mount(name: &str, mib: u64) -> Option<Root> {
    loop_mount_with(name, mib, &[])
}

/// The same, made in a particular way.
pub(crate) fn loop_mount_with(name: &str, mib: u64, options: &[&str]) -> Option<Root> {
    let mkfs = format!("mkfs.{name}");
    if !has_program(&mkfs) {
        return None;
    }
    // mkfs.xfs and mkfs.btrfs say -f, mkfs.ext4 -F, to work on a plain file without asking.
    let force = if name == "ext4" { "-F" } else { "-f" };
    let options = options.join(" ");
    let script =
        format!("{mkfs} -q {force} {options} \"$1\"; mount -t {name} -o loop \"$1\" \"$2\"");
    mount_with_script(mib, &script)
}

/// Mounts a file system by a shell script: `$1` is a sparse image of `mib` MiB, `$2` the directory
/// to mount on. A FUSE daemon that the script starts exits when the [`Root`] is dropped.
pub(crate) fn mount_with_script(mib: u64, script: &str) -> Option<Root> {
    let (dir, image) = (TempDir::new().unwrap(), image(mib));
    let mut shell = Command::new("sh");
    shell.args(["-ec", script, "sh"]).arg(image.path());
    if !succeeds(shell.arg(dir.path())) {
        return None;
    }
    Some(detach(&dir))
}

fn mount(dir: &TempDir, arguments: &[&str]) -> Option<Root> {
    if !succeeds(Command::new("mount").args(arguments).arg(dir.path())) {
        return None;
    }
    Some(detach(dir))
}

/// Opens the root of the file system that is mounted on `dir`, and detaches the mount.
pub(crate) fn detach(dir: &TempDir) -> Root {
    let root = File::open(dir.path()).unwrap();
    assert!(succeeds(Command::new("umount").arg("-l").arg(dir.path())));
    Root(root)
}

/// A file system in an image that is at hand, so that it can be damaged from below.
pub(crate) fn mount_image(name: &str, image: &Path) -> Option<Root> {
    let mkfs = format!("mkfs.{name}");
    // Small ones would have smaller blocks.
    let options: &[&str] = match name {
        "ext4" => &["-q", "-F", "-b", "4096"],
        _ => &["-q", "-f"],
    };
    if !has_program(&mkfs) || !succeeds(Command::new(mkfs).args(options).arg(image)) {
        return None;
    }
    let dir = TempDir::new().unwrap();
    let is_device = image.starts_with("/dev");
    let options = if is_device { "rw" } else { "loop" };
    mount(&dir, &["-t", name, "-o", options, image.to_str().unwrap()])
}

/// A block device of 8 MiB; one for sources and one for sinks, so that a transfer can hold both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    ForSource,
    ForSink,
}

impl Device {
    /// The device, for one test at a time.
    pub(crate) fn get(self) -> Option<&'static Mutex<File>> {
        static SOURCE: LazyLock<Option<Mutex<File>>> = LazyLock::new(loop_device);
        static SINK: LazyLock<Option<Mutex<File>>> = LazyLock::new(loop_device);
        let device: &'static Option<_> = match self {
            Self::ForSource => &SOURCE,
            Self::ForSink => &SINK,
        };
        if device.is_none() {
            skip("a loop device cannot be made here");
        }
        device.as_ref()
    }
}

fn loop_device() -> Option<Mutex<File>> {
    device_over(image(8).path()).map(|(device, _)| Mutex::new(device))
}

/// A block device that is backed by a file, and its path.
pub(crate) fn device_over(file: &Path) -> Option<(File, PathBuf)> {
    let made = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(file)
        .output();
    let made = made.ok().filter(|output| output.status.success())?;
    let path = String::from_utf8(made.stdout).unwrap();
    let path = PathBuf::from(path.trim());
    let device = OpenOptions::new().read(true).write(true).open(&path);
    // It stays until the last descriptor is closed.
    assert!(succeeds(Command::new("losetup").arg("--detach").arg(&path)));
    Some((device.unwrap(), path))
}

pub(crate) fn image(mib: u64) -> tempfile::NamedTempFile {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(mib << 20).unwrap();
    image
}

fn succeeds(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(error) => {
            eprintln!("{command:?}: {error}");
            false
        }
    }
}
