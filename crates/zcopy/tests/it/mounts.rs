//! File systems and block devices in images, made for the tests.
//!
//! Each file system is mounted, its root opened, and the mount detached at once. It exists as long
//! as the descriptor, so that nothing is left behind however the process ends. Its files are
//! reached through `/proc/PID/fd`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::skip::{has_program, report, skip};

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

    /// Those whose files can be open with `O_DIRECT`. tmpfs is one of them since Linux 6.6.
    pub(crate) fn direct() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|fs| {
            let Some(dir) = fs.dir() else {
                return false;
            };
            let file = tempfile::NamedTempFile::new_in(dir).unwrap();
            let flags = OFlags::DIRECT | OFlags::CLOEXEC;
            let is_direct = rustix::fs::open(file.path(), flags, Mode::empty()).is_ok();
            if !is_direct {
                report(&format!("files on {fs:?} do not open with O_DIRECT"));
            }
            is_direct
        })
    }

    /// A directory on it; `None`, reported, if this machine cannot mount it.
    pub(crate) fn dir(self) -> Option<PathBuf> {
        static EXT4: LazyLock<Option<Root>> = LazyLock::new(|| loop_mount("ext4", 500));
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
            // Another test may have made the attempt.
            skip_mount(&format!("{self:?}").to_lowercase());
        }
        root.as_ref().map(Root::dir)
    }
}

/// The root directory of a file system that nobody else can see.
#[derive(Debug)]
pub(crate) struct Root(File);

impl Root {
    /// Its path, which other processes can use too.
    pub(crate) fn dir(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// A tmpfs of at most `mib` MiB (0: half the memory); `None`, reported, if it cannot be mounted.
pub(crate) fn mount_tmpfs(mib: u64) -> Option<Root> {
    let script = format!("mount -t tmpfs -o size={mib}m none \"$2\"");
    mount_with_script("tmpfs", 0, &script)
}

/// A file system of `mib` MiB in a sparse image; `None`, reported, if it cannot be mounted.
pub(crate) fn loop_mount(name: &str, mib: u64) -> Option<Root> {
    loop_mount_with(name, mib, &[])
}

/// The same, with these options for `mkfs`.
pub(crate) fn loop_mount_with(name: &str, mib: u64, options: &[&str]) -> Option<Root> {
    let mkfs = format!("mkfs.{name}");
    if !has_program(&mkfs) {
        return None;
    }
    // `-f` of mkfs.xfs and mkfs.btrfs, and `-F` of mkfs.ext4, accept a plain file without a
    // question.
    let force = if name == "ext4" { "-F" } else { "-f" };
    let options = options.join(" ");
    let script =
        format!("{mkfs} -q {force} {options} \"$1\"; mount -t {name} -o loop \"$1\" \"$2\"");
    mount_with_script(name, mib, &script)
}

/// Mounts a file system by a shell script: `$1` is a sparse image of `mib` MiB, `$2` the directory
/// to mount on. A FUSE daemon that the script starts exits when the [`Root`] is dropped.
///
/// Returns `None`, and reports it, if the script fails.
pub(crate) fn mount_with_script(name: &str, mib: u64, script: &str) -> Option<Root> {
    let root = try_mount(image(mib).path(), script);
    if root.is_none() {
        skip_mount(name);
    }
    root
}

pub(crate) fn skip_mount(name: &str) {
    skip(&format!("{name} cannot be mounted here"));
}

/// Mounts a file system by a shell script as [`mount_with_script`] does, in the caller's image and
/// without a report.
pub(crate) fn try_mount(image: &Path, script: &str) -> Option<Root> {
    let dir = TempDir::new().unwrap();
    run_script(script, image, dir.path()).then(|| detach(&dir))
}

/// Runs a shell script with these paths as `$1` and `$2`. Returns false if it fails.
pub(crate) fn run_script(script: &str, image: &Path, dir: &Path) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script, "sh"]).arg(image).arg(dir);
    succeeds(&mut shell)
}

/// Opens the root of the file system that is mounted on `dir`, and detaches the mount.
pub(crate) fn detach(dir: &TempDir) -> Root {
    let root = File::open(dir.path()).unwrap();
    assert!(succeeds(Command::new("umount").arg("-l").arg(dir.path())));
    Root(root)
}

/// A file system in the caller's image or device, so that it can be damaged from below; `None`,
/// reported, if it cannot be mounted.
pub(crate) fn mount_image(name: &str, image: &Path) -> Option<Root> {
    let mkfs = format!("mkfs.{name}");
    if !has_program(&mkfs) {
        return None;
    }
    let force = match name {
        // Small file systems would have smaller blocks.
        "ext4" => "-F -b 4096",
        _ => "-f",
    };
    let options = if image.starts_with("/dev") {
        "rw"
    } else {
        "loop"
    };
    let script = format!("{mkfs} -q {force} \"$1\"; mount -t {name} -o {options} \"$1\" \"$2\"");
    let root = try_mount(image, &script);
    if root.is_none() {
        skip_mount(name);
    }
    root
}

/// A block device of 8 MiB; one for sources and one for sinks, so that a transfer can hold both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    ForSource,
    ForSink,
}

impl Device {
    /// The device, for one test at a time; `None`, reported, if it cannot be made.
    pub(crate) fn get(self) -> Option<&'static Mutex<File>> {
        static SOURCE: LazyLock<Option<Mutex<File>>> = LazyLock::new(loop_device);
        static SINK: LazyLock<Option<Mutex<File>>> = LazyLock::new(loop_device);
        let device: &'static Option<_> = match self {
            Self::ForSource => &SOURCE,
            Self::ForSink => &SINK,
        };
        if device.is_none() {
            // Another test may have made the attempt.
            skip(NO_LOOP_DEVICE);
        }
        device.as_ref()
    }
}

fn loop_device() -> Option<Mutex<File>> {
    device_over(image(8).path()).map(|(device, _)| Mutex::new(device))
}

const NO_LOOP_DEVICE: &str = "a loop device cannot be made here";

/// A block device that is backed by a file, and its path; `None`, reported, if it cannot be made.
pub(crate) fn device_over(file: &Path) -> Option<(File, PathBuf)> {
    let made = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(file)
        .output();
    let Some(made) = made.ok().filter(|output| output.status.success()) else {
        skip(NO_LOOP_DEVICE);
        return None;
    };
    let path = String::from_utf8(made.stdout).unwrap();
    let path = PathBuf::from(path.trim());
    let device = OpenOptions::new().read(true).write(true).open(&path);
    // The device exists until the last descriptor is closed.
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
