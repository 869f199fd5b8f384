//! The directories in which callers listen: `/run/user/UID`, or else `$HOME/.zc-pv`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The age from which an unused socket is removed. A caller may be between its bind and its listen.
const STALE_AGE: Duration = Duration::from_secs(2);

/// A directory that belongs to this user, and that no other user can write to.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory that all names are relative to, even if its path changes.
    fd: OwnedFd,
}

impl Directory {
    /// Opens the first directory that can be used. Creates `$HOME/.zc-pv` if there is no other.
    ///
    /// # Errors
    ///
    /// Returns the last candidate and its error.
    pub(super) fn first() -> Result<Self, (PathBuf, io::Error)> {
        let mut last = Err((PathBuf::from("$HOME"), Errno::NOENT.into()));
        for (path, is_ours_to_make) in candidates() {
            if is_ours_to_make {
                // The open that follows reports an error.
                let _ = rustix::fs::mkdir(&path, Mode::RWXU);
            }
            last = Self::open(&path).map_err(|error| (path, error));
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Opens all directories that callers may use. Skips those that are missing or not safe.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        candidates()
            .into_iter()
            .filter_map(|(path, _)| Self::open(&path).ok())
    }

    /// Opens a directory of this user.
    ///
    /// # Errors
    ///
    /// Returns `EPERM` if the directory belongs to another user or others can write to it, and
    /// `ENOTDIR` if it is a symbolic link.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let status = rustix::fs::fstat(&fd)?;
        if status.st_uid != geteuid().as_raw() || status.st_mode & 0o022 != 0 {
            return Err(Errno::PERM.into());
        }
        Ok(Self { fd })
    }

    /// Listens under the name by which the process `pid` finds this one.
    pub(super) fn listen(self, pid: i32) -> io::Result<Listening> {
        let name = format!("{}{}", prefix(pid), std::process::id());
        // A socket with this process's number is left from a dead process, unless that runs in
        // another namespace.
        self.remove_stale(OsStr::new(&name), Duration::ZERO);
        let listener = UnixListener::bind(self.path(OsStr::new(&name)))?;
        Ok(Listening {
            listener,
            directory: self,
            name,
        })
    }

    /// Connects to all callers of the process `pid`, and removes the sockets of dead ones.
    pub(super) fn callers(&self, pid: i32) -> Vec<UnixStream> {
        let Ok(entries) = Dir::read_from(&self.fd) else {
            return Vec::new();
        };
        let prefix = prefix(pid);
        let mut callers = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if !name.starts_with(prefix.as_bytes()) {
                continue;
            }
            let name = OsStr::from_bytes(name);
            match UnixStream::connect(self.path(name)) {
                Ok(stream) => callers.push(stream),
                Err(_) => self.remove_stale(name, STALE_AGE),
            }
        }
        callers
    }

    /// Removes all sockets that no caller listens on.
    pub(super) fn clean(&self) {
        let Ok(entries) = Dir::read_from(&self.fd) else {
            return;
        };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_socket_name(name) {
                self.remove_stale(name, STALE_AGE);
            }
        }
    }

    /// Removes a socket that is at least this old and that no caller listens on.
    fn remove_stale(&self, name: &OsStr, age: Duration) {
        let path = self.path(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            return;
        };
        if metadata.uid() != geteuid().as_raw() {
            return;
        }
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // A socket from the future counts as old.
        let is_old = modified.elapsed().map_or(true, |elapsed| elapsed >= age);
        // If the caller is alive, this connection is closed before it sends anything.
        let refusal = UnixStream::connect(&path).map_err(|error| error.kind());
        let is_dead = matches!(
            refusal,
            Err(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        );
        if is_old && is_dead {
            self.remove(name);
        }
    }

    fn remove(&self, name: &OsStr) {
        // Another process may have removed it.
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// Returns the path of an entry. It is short enough for a socket, and stays valid if the
    /// directory is moved.
    fn path(&self, name: &OsStr) -> PathBuf {
        let directory = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Path::new(&directory).join(name)
    }
}

/// A socket that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: UnixListener,
    directory: Directory,
    name: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.directory.remove(OsStr::new(&self.name));
    }
}

/// Returns the prefix of the names of sockets for requests to a process. The number of the caller
/// follows.
fn prefix(pid: i32) -> String {
    format!("zc-pv.{pid}.")
}

/// Returns whether a name is the one of a caller's socket: `zc-pv.PID.PID`.
fn is_socket_name(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix("zc-pv."));
    let pids = name.and_then(|pids| pids.split_once('.'));
    pids.is_some_and(|(other, own)| other.parse::<i32>().is_ok() && own.parse::<i32>().is_ok())
}

/// Returns the directories in which callers may listen, and whether they may create them.
fn candidates() -> Vec<(PathBuf, bool)> {
    let run = PathBuf::from(format!("/run/user/{}", geteuid().as_raw()));
    let mut candidates = vec![(run, false)];
    let home = std::env::var_os("HOME").map(PathBuf::from);
    if let Some(home) = home.filter(|home| home.is_absolute()) {
        candidates.push((home.join(".zc-pv"), true));
    }
    candidates
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_to_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Directory::open(directory.path()).is_ok());
        for mode in [0o770, 0o702, 0o1777] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = Directory::open(directory.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
    }

    #[test]
    fn a_symbolic_link_to_a_directory_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(Directory::open(&link).is_err());
    }

    #[test]
    fn only_what_is_stale_is_removed_and_only_of_our_names() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        let victim = temporary.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        for name in ["zc-pv.1.2", "zc-pv.1.x", "pv.remote.12.3", "other"] {
            drop(UnixListener::bind(temporary.path().join(name)).unwrap());
        }
        std::os::unix::fs::symlink(&victim, temporary.path().join("zc-pv.1.3")).unwrap();
        let _alive = UnixListener::bind(temporary.path().join("zc-pv.1.4")).unwrap();
        directory.clean();
        assert!(temporary.path().join("zc-pv.1.2").exists(), "it is young");
        for name in ["zc-pv.1.2", "zc-pv.1.3", "zc-pv.1.4"] {
            directory.remove_stale(OsStr::new(name), Duration::ZERO);
        }
        let mut names: Vec<_> = fs::read_dir(temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "other",
                "pv.remote.12.3",
                "victim",
                "zc-pv.1.4",
                "zc-pv.1.x"
            ]
        );
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
    }
}
