//! What another process has open.
//!
//! This is read from `/proc` by hand: the procfs crate tells neither a descriptor's position nor the size of
//! what it leads to.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Process;
use crate::pv::device;

/// A process that is held on to by its directory in `/proc`.
///
/// A descriptor of that directory does not come to mean another process when the number is given again:
/// everything asked through it then fails with `ESRCH`.
#[derive(Debug)]
pub struct Held {
    directory: OwnedFd,
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The descriptor's number.
    pub fd: RawFd,
    /// What it leads to.
    pub kind: Kind,
    /// The file's device and number.
    pub identity: (u64, u64),
    /// What the process may do with it.
    pub access: Access,
    /// Where the next byte is read or written.
    pub position: u64,
    /// How much there is, if that can be told.
    pub size: Option<u64>,
    /// What the kernel calls it.
    pub path: PathBuf,
}

/// What a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// Whatever has no position that tells how far somebody has come.
    Other,
}

/// What may be done with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read.
    Read,
    /// It is written to, and perhaps also read.
    Write,
}

/// What there is to see of a process.
#[derive(Debug)]
pub enum Sight {
    /// These are open.
    Open(Vec<OpenFile>),
    /// These are open, and nothing more will happen to them.
    Last(Vec<OpenFile>),
    /// The process has ended.
    Ended,
    /// The process may not be examined.
    Hidden(io::Error),
}

impl Held {
    /// Holds on to a process.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none of this number, `EPERM` if what it has open is none of our business.
    pub fn on(pid: i32) -> io::Result<Self> {
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
            // A zombie has no descriptors left, not even none.
            Err(Errno::NOENT) => Err(Errno::SRCH.into()),
            // As kill(2) would put it, which pv asks.
            Err(Errno::ACCESS) => Err(Errno::PERM.into()),
            Err(errno) => Err(errno.into()),
            Ok(_) => Ok(held),
        }
    }

    /// What a descriptor leads to.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is closed, `ESRCH` if the process has ended.
    pub fn file(&self, fd: RawFd) -> io::Result<OpenFile> {
        Ok(self.open_file(fd)?)
    }

    /// The descriptor by which the process writes to a file, if it does.
    pub(super) fn writes_to(&self, identity: (u64, u64)) -> Option<RawFd> {
        let is_writer = |fd: &RawFd| {
            let stat = rustix::fs::statat(&self.directory, format!("fd/{fd}"), AtFlags::empty());
            stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
                && self
                    .file(*fd)
                    .is_ok_and(|file| file.access == Access::Write)
        };
        self.fds().ok()?.into_iter().find(is_writer)
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

    /// Whether nothing is left of the process but what its parent has not asked for yet.
    fn has_ended(&self) -> Result<bool, Errno> {
        let stat = self.text("stat")?;
        // The name before the state may hold anything, closing parentheses too.
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
                // Closed since it was listed.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(files))
    }
}

impl Process for Held {
    fn sight(&mut self, only: Option<RawFd>) -> Sight {
        match self.open_files(only) {
            Ok(Some(files)) => Sight::Open(files),
            Ok(None) | Err(Errno::SRCH | Errno::NOENT) => Sight::Ended,
            Err(Errno::ACCESS) => Sight::Hidden(Errno::PERM.into()),
            Err(errno) => Sight::Hidden(errno.into()),
        }
    }
}

impl OpenFile {
    /// Whether its position tells how far somebody has come.
    #[must_use]
    pub fn is_told(&self) -> bool {
        matches!(self.kind, Kind::Regular | Kind::Block)
    }

    /// Whether a later look sees the same file, open in the same way.
    #[must_use]
    pub fn is_still(&self, later: &Self) -> bool {
        (self.fd, self.identity, self.access) == (later.fd, later.identity, later.access)
    }

    /// How far the position is going to move, if that can be told: a file that is written grows.
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
            // Whoever may watch the process may still not open the device.
            device::size(stat)
        }
        Kind::Other => None,
    }
}

/// The value of a line of `/proc/PID/fdinfo/FD`.
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

    fn this_process() -> Held {
        Held::on(rustix::process::getpid().as_raw_nonzero().get()).unwrap()
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
        assert!(!seen.is_told());
        assert_eq!(seen.total(), None);
    }

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_never_was() {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut held = Held::on(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(matches!(held.sight(None), Sight::Open(_)));
        // At the end of its input it ends, and stays a zombie until it is waited for.
        drop(child.stdin.take());
        while !matches!(held.sight(None), Sight::Ended) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(matches!(held.sight(None), Sight::Ended));

        let error = Held::on(i32::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
