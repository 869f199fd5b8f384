//! The open files of another process.
//!
//! They are read from `/proc` without the procfs crate, which gives neither the position of a
//! descriptor nor the size of its file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Process;
use crate::pv::transfer::block_device;

/// A process, identified by its directory in `/proc`.
///
/// The descriptor of that directory never refers to another process with the same number: every
/// access through it then fails with `ESRCH`.
#[derive(Debug)]
pub struct ProcDir {
    directory: OwnedFd,
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The number of the descriptor.
    pub fd: RawFd,
    /// The type of the file.
    pub kind: Kind,
    /// The device and inode of the file.
    pub identity: (u64, u64),
    /// The access mode.
    pub access: Access,
    /// The position of the next byte.
    pub position: u64,
    /// The size of the file, if it is known.
    pub size: Option<u64>,
    /// The path of the file, as the kernel gives it.
    pub path: PathBuf,
}

/// The type of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// Any other type. Its position does not show the progress.
    Other,
}

/// The access mode of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The descriptor is only read.
    Read,
    /// The descriptor is written to, and may also be read.
    Write,
}

/// The open files of a process.
#[derive(Debug)]
pub enum FdTable {
    /// These files are open.
    Open(Vec<OpenFile>),
    /// These files are open, and nothing more will happen to them.
    Last(Vec<OpenFile>),
    /// The process has ended.
    Ended,
    /// The process may not be read.
    Hidden(io::Error),
}

impl ProcDir {
    /// Opens the directory of a process.
    ///
    /// # Errors
    ///
    /// Returns `ESRCH` if there is no such process, and `EPERM` if its files may not be read.
    pub fn open(pid: i32) -> io::Result<Self> {
        let directory = rustix::fs::open(
            format!("/proc/{pid}"),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let held = Self {
            directory: directory.map_err(|errno| match errno {
                Errno::NOENT => Errno::SRCH,
                other => other,
            })?,
        };
        match held.fds() {
            // A zombie has no descriptors.
            Err(Errno::NOENT) => Err(Errno::SRCH.into()),
            // pv asks kill(2), which returns this error.
            Err(Errno::ACCESS) => Err(Errno::PERM.into()),
            Err(errno) => Err(errno.into()),
            Ok(_) => Ok(held),
        }
    }

    /// Returns the file of a descriptor.
    ///
    /// # Errors
    ///
    /// Returns `ENOENT` if the descriptor is closed, and `ESRCH` if the process has ended.
    pub fn file(&self, fd: RawFd) -> io::Result<OpenFile> {
        Ok(self.open_file(fd)?)
    }

    /// Returns the descriptor by which the process writes to a file, if it does.
    pub(super) fn writes_to(&self, identity: (u64, u64)) -> Option<RawFd> {
        let is_writer = |fd: &RawFd| {
            self.identity(*fd) == Some(identity)
                && self
                    .file(*fd)
                    .is_ok_and(|file| file.access == Access::Write)
        };
        self.fds().ok()?.into_iter().find(is_writer)
    }

    /// Returns whether the process has a file (device and inode) open, by the descriptor `only` if
    /// that is given.
    pub(crate) fn has_open(&self, identity: (u64, u64), only: Option<RawFd>) -> bool {
        let is_open = |fd: RawFd| self.identity(fd) == Some(identity);
        match only {
            Some(fd) => is_open(fd),
            None => self.fds().is_ok_and(|fds| fds.into_iter().any(is_open)),
        }
    }

    fn identity(&self, fd: RawFd) -> Option<(u64, u64)> {
        let stat = rustix::fs::statat(&self.directory, format!("fd/{fd}"), AtFlags::empty());
        stat.ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    fn fds(&self) -> Result<Vec<RawFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::openat(&self.directory, "fd", flags, Mode::empty())?;
        let mut fds = Vec::new();
        for entry in Dir::new(listing)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            fds.extend(name.and_then(|name| name.parse::<RawFd>().ok()));
        }
        fds.sort_unstable();
        Ok(fds)
    }

    fn open_file(&self, fd: RawFd) -> Result<OpenFile, Errno> {
        let link = format!("fd/{fd}");
        let stat = rustix::fs::statat(&self.directory, &link, AtFlags::empty())?;
        let path = rustix::fs::readlinkat(&self.directory, &link, Vec::new())?;
        let info = self.text(&format!("fdinfo/{fd}"))?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::Regular,
            FileType::BlockDevice => Kind::Block,
            _ => Kind::Other,
        };
        let flags = field(&info, "flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        let mode = flags.unwrap_or_default() & OFlags::RWMODE.bits();
        Ok(OpenFile {
            fd,
            kind,
            identity: (stat.st_dev, stat.st_ino),
            access: if mode == OFlags::RDONLY.bits() {
                Access::Read
            } else {
                Access::Write
            },
            position: field(&info, "pos:")
                .and_then(|position| position.parse().ok())
                .unwrap_or_default(),
            size: size(&stat, kind),
            path: PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())),
        })
    }

    /// Returns whether the process has ended, even if its parent has not waited for it.
    fn has_ended(&self) -> Result<bool, Errno> {
        let stat = self.text("stat")?;
        // The name before the state may hold any characters, including parentheses.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        Ok(state.is_none_or(|rest| rest.starts_with(['Z', 'X'])))
    }

    fn text(&self, name: &str) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file)
            .read_to_end(&mut bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn open_files(&self, only: Option<RawFd>) -> Result<Option<Vec<OpenFile>>, Errno> {
        if self.has_ended()? {
            return Ok(None);
        }
        let fds = match only {
            Some(fd) => vec![fd],
            None => self.fds()?,
        };
        let mut files = Vec::with_capacity(fds.len());
        for fd in fds {
            match self.open_file(fd) {
                Ok(file) => files.push(file),
                // The descriptor was closed after it was listed.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(files))
    }
}

impl Process for ProcDir {
    fn snapshot(&mut self, only: Option<RawFd>) -> FdTable {
        match self.open_files(only) {
            Ok(Some(files)) => FdTable::Open(files),
            Ok(None) | Err(Errno::SRCH | Errno::NOENT) => FdTable::Ended,
            Err(Errno::ACCESS) => FdTable::Hidden(Errno::PERM.into()),
            Err(errno) => FdTable::Hidden(errno.into()),
        }
    }
}

impl OpenFile {
    /// Returns whether the position shows the progress.
    #[must_use]
    pub fn has_position(&self) -> bool {
        matches!(self.kind, Kind::Regular | Kind::Block)
    }

    /// Returns whether a later poll found the same file, open in the same mode.
    #[must_use]
    pub fn is_still(&self, later: &Self) -> bool {
        (self.fd, self.identity, self.access) == (later.fd, later.identity, later.access)
    }

    /// Returns the final position, if it is known: a file that is written grows.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        match (self.kind, self.access) {
            (Kind::Regular, Access::Read) | (Kind::Block, _) => self.size,
            _ => None,
        }
    }
}

fn size(stat: &Stat, kind: Kind) -> Option<u64> {
    match kind {
        Kind::Regular => u64::try_from(stat.st_size).ok(),
        Kind::Block => {
            // The user may watch the process, but perhaps not open the device.
            block_device::size(stat)
        }
        Kind::Other => None,
    }
}

/// Returns the value of a line of `/proc/PID/fdinfo/FD`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name).map(str::trim))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::io::Seek as _;
    use std::os::fd::AsRawFd as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn this_process() -> ProcDir {
        ProcDir::open(rustix::process::getpid().as_raw_nonzero().get()).unwrap()
    }

    #[test]
    fn a_file_is_told_with_its_position_size_and_access() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [0; 1000]).unwrap();
        let mut source = File::open(&path).unwrap();
        source.seek(io::SeekFrom::Start(300)).unwrap();
        let sink = File::options().append(true).open(&path).unwrap();

        let held = this_process();
        let seen = held.file(source.as_raw_fd()).unwrap();
        assert_eq!((seen.position, seen.total()), (300, Some(1000)));
        assert_eq!((seen.kind, seen.access), (Kind::Regular, Access::Read));
        assert_eq!(seen.path, path);
        let written = held.file(sink.as_raw_fd()).unwrap();
        assert_eq!((written.access, written.total()), (Access::Write, None));
        assert_eq!(written.identity, seen.identity);
        assert!(!seen.is_still(&written));
    }

    #[test]
    fn what_is_no_file_has_nothing_to_tell() {
        let (reader, _writer) = io::pipe().unwrap();
        let seen = this_process().file(reader.as_raw_fd()).unwrap();
        assert!(!seen.has_position());
        assert_eq!(seen.total(), None);
    }

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_never_was() {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut held = ProcDir::open(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(matches!(held.snapshot(None), FdTable::Open(_)));
        // At the end of its input it ends, and stays a zombie until it is waited for.
        drop(child.stdin.take());
        while !matches!(held.snapshot(None), FdTable::Ended) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(matches!(held.snapshot(None), FdTable::Ended));

        let error = ProcDir::open(i32::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
