//! Helpers of the tests: scratch directories, users without privileges, file systems that lack
//! something.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::process::{Gid, Uid};
use tempfile::TempDir;

use crate::skip::{is_root, skip};

/// Whom everything is forbidden that is not allowed to all.
pub(crate) const NOBODY: u32 = 65534;

/// A directory on a disk, where file systems have all that they can have. Anybody may look into it.
pub(crate) fn scratch() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    scratch
}

/// Does something as a user without privileges; none, said aloud, if this one is without already.
pub(crate) fn as_nobody<T: Send>(task: impl FnOnce() -> T + Send) -> Option<T> {
    if !is_root() {
        return None;
    }
    let task = || {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        // Of this thread alone; its capabilities go too.
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        task()
    };
    std::thread::scope(|scope| Some(scope.spawn(task).join().unwrap()))
}

/// A file system that is gone with the descriptor of its root.
pub(crate) struct Mounted(File);

impl Mounted {
    /// Where it is; none, said aloud, if it cannot be mounted.
    pub(crate) fn new(kind: &str) -> Option<Self> {
        let scratch = scratch();
        let mounted = Command::new("mount")
            .args(["-t", kind, "none"])
            .arg(scratch.path())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip(&format!("{kind} cannot be mounted here"));
            return None;
        }
        let root = File::open(scratch.path()).unwrap();
        let unmount = Command::new("umount")
            .arg("-l")
            .arg(scratch.path())
            .status();
        assert!(unmount.unwrap().success());
        Some(Self(root))
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// A mount over a directory, until it is dropped.
pub(crate) struct Covered(PathBuf);

impl Covered {
    /// Mounts something there, as `mount` is told; none, said aloud, if that cannot be done.
    pub(crate) fn new(path: &Path, arguments: &[&OsStr]) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let mounted = Command::new("mount").args(arguments).arg(path).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("nothing can be mounted here");
            return None;
        }
        Some(Self(path.to_owned()))
    }

    /// Has a directory stand there as well.
    pub(crate) fn bind(path: &Path, directory: &Path) -> Option<Self> {
        Self::new(path, &["--bind".as_ref(), directory.as_os_str()])
    }
}

impl Drop for Covered {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Opens a directory.
pub(crate) fn open(path: &Path) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap()
}

/// The status of a name. Does not follow a link.
pub(crate) fn stat(path: &Path) -> Stat {
    rustix::fs::lstat(path).unwrap()
}

/// The permissions, in octal digits.
pub(crate) fn mode(path: &Path) -> String {
    format!("{:o}", stat(path).st_mode & 0o7777)
}

/// The names in a directory, sorted.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
