//! A growing file, watched by its path.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat};

use super::Process;
use super::files::{Access, FdTable, Kind, OpenFile, ProcDir};

/// A growing file. It is over when it has the expected size, or when the last process that had it
/// open for writing has closed it.
#[derive(Debug)]
pub(super) struct GrowingFile {
    /// The file itself, even if its name changes.
    file: OwnedFd,
    path: PathBuf,
    expected: Option<u64>,
    /// A process that writes to the file, and its descriptor.
    writer: Option<(ProcDir, RawFd)>,
    had_writer: bool,
}

impl GrowingFile {
    /// Opens a regular file, without reading it. `expected` is its final size.
    ///
    /// # Errors
    ///
    /// Returns the error of `open(2)`, and `InvalidInput` if the file is not regular.
    pub(super) fn open(path: &Path, expected: Option<u64>) -> io::Result<Self> {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())
            .map_or_else(
                |_| path.to_owned(),
                |path| {
                    use std::os::unix::ffi::OsStringExt as _;
                    std::ffi::OsString::from_vec(path.into_bytes()).into()
                },
            );
        Ok(Self {
            file,
            path,
            expected,
            writer: None,
            had_writer: false,
        })
    }

    /// Returns the device and inode of the file, which do not change.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        let stat = fstat(&self.file).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// Reads the state of the file. Its size is the progress.
    fn read_state(&self) -> io::Result<OpenFile> {
        let stat = fstat(&self.file)?;
        Ok(OpenFile {
            fd: 0,
            kind: Kind::Regular,
            identity: (stat.st_dev, stat.st_ino),
            access: Access::Write,
            position: u64::try_from(stat.st_size).unwrap_or(0),
            size: None,
            path: self.path.clone(),
        })
    }

    /// Returns whether a process has the file open for writing, as far as this process may see.
    fn has_writer(&mut self, identity: (u64, u64)) -> bool {
        let writes = |(process, fd): &(ProcDir, RawFd)| {
            process
                .file(*fd)
                .is_ok_and(|file| file.identity == identity && file.access == Access::Write)
        };
        if !self.writer.as_ref().is_some_and(writes) {
            self.writer = writer_of(identity);
        }
        self.had_writer |= self.writer.is_some();
        self.writer.is_some()
    }
}

impl Process for GrowingFile {
    fn snapshot(&mut self, _only: Option<RawFd>) -> FdTable {
        let had_writer = self.had_writer;
        let outcome = self.read_state().and_then(|before| {
            let is_written = self.has_writer(before.identity);
            // The last writer may have written to the file and closed it since.
            Ok((self.read_state()?, is_written))
        });
        match outcome {
            Ok((file, is_written)) => {
                let is_complete = self.expected.is_some_and(|size| file.position >= size);
                if is_complete || (had_writer && !is_written) {
                    FdTable::Last(vec![file])
                } else {
                    FdTable::Open(vec![file])
                }
            }
            Err(error) => FdTable::Hidden(error),
        }
    }
}

/// Finds a process that has a file open for writing.
fn writer_of(identity: (u64, u64)) -> Option<(ProcDir, RawFd)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let processes = rustix::fs::open("/proc", flags, Mode::empty()).ok()?;
    for entry in Dir::new(processes).ok()?.flatten() {
        let pid = entry.file_name().to_str().ok();
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        let Ok(process) = ProcDir::open(pid) else {
            continue;
        };
        if let Some(fd) = process.writes_to(identity) {
            return Some((process, fd));
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;

    fn position(table: &FdTable) -> (u64, bool) {
        match table {
            FdTable::Open(files) => (files[0].position, false),
            FdTable::Last(files) => (files[0].position, true),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_over_when_its_writer_has_closed_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = File::create(&path).unwrap();
        let mut growing = GrowingFile::open(&path, None).unwrap();
        assert_eq!(position(&growing.snapshot(None)), (0, false));
        writer.write_all(b"12345").unwrap();
        std::fs::rename(&path, directory.path().join("renamed")).unwrap();
        assert_eq!(position(&growing.snapshot(None)), (5, false));
        drop(writer);
        assert_eq!(position(&growing.snapshot(None)), (5, true));
    }

    #[test]
    fn a_file_without_a_writer_is_over_when_it_has_the_expected_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "1234").unwrap();
        let mut growing = GrowingFile::open(&path, Some(5)).unwrap();
        for _ in 0..2 {
            assert_eq!(position(&growing.snapshot(None)), (4, false));
        }
        std::fs::write(&path, "123456").unwrap();
        assert_eq!(position(&growing.snapshot(None)), (6, true));
    }
}
