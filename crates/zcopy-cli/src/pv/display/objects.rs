//! The separate output for objects in JSON: a descriptor or a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::sys;
use crate::common::terminal::tty::Tty;
use crate::pv::settings::JsonOutput;

/// The longest time that a slow reader delays an object.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// The longest time that a slow reader delays the end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The output for objects, if it is not standard error.
#[derive(Debug)]
pub(crate) struct Objects {
    name: String,
    output: Output,
}

#[derive(Debug)]
enum Output {
    /// A file on a disk.
    File(File),
    /// A pipe, a socket or a terminal, whose reader may be slow.
    Stream(Tty),
    /// A write has failed, or the reader has gone. Later objects would be incomplete.
    Ended,
}

impl Objects {
    /// Opens the output. Does not truncate a file yet, because it may be an input.
    ///
    /// # Errors
    ///
    /// Returns the error of `open(2)` or `dup(2)`, and `EBADF` if the descriptor cannot be written
    /// to.
    pub(crate) fn open(output: &JsonOutput) -> io::Result<Self> {
        let fd: OwnedFd = match output {
            JsonOutput::Fd(fd) => {
                let fd = sys::duplicate(*fd)?;
                if rustix::fs::fcntl_getfl(&fd)? & OFlags::ACCMODE == OFlags::RDONLY {
                    return Err(Errno::BADF.into());
                }
                fd
            }
            JsonOutput::File(path) => {
                let mut options = File::options();
                options.write(true).create(true).truncate(false);
                options.open(path)?.into()
            }
        };
        let mode = rustix::fs::fstat(&fd)?.st_mode;
        Ok(Self {
            name: output.name(),
            output: match FileType::from_raw_mode(mode) {
                FileType::RegularFile => Output::File(fd.into()),
                _ => Output::Stream(Tty::on(fd.as_fd())?),
            },
        })
    }

    /// Returns the name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file, if the output is a regular file.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.output {
            Output::File(file) => Some(file),
            Output::Stream(_) | Output::Ended => None,
        }
    }

    /// Writes an object. If the reader is slow, the object is queued.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`, once. The end of a reader is no error. Returns `ENOBUFS` if
    /// this object or an earlier one was dropped, because the queue was full.
    pub(crate) fn put(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let written = match &mut self.output {
            Output::File(file) => file.write_all(line.as_bytes()),
            Output::Stream(stream) => {
                stream.queue(line.as_bytes(), WRITE_TIMEOUT);
                stream.error().map_or(Ok(()), Err)
            }
            Output::Ended => Ok(()),
        };
        self.check(written)
    }

    /// Writes the last object, and waits for at most a second until the reader has accepted
    /// everything.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Objects::put`], and `EAGAIN` if the reader has not accepted everything.
    pub(crate) fn put_last(&mut self, line: &str) -> io::Result<()> {
        // A full queue would drop the object.
        let before = self.flush();
        let written = self.put(line);
        before.and(written).and(self.flush())?;
        let is_pending = matches!(&self.output, Output::Stream(stream) if stream.has_pending());
        self.check(if is_pending {
            Err(Errno::AGAIN.into())
        } else {
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.output {
            Output::Stream(stream) => {
                stream.flush(EXIT_TIMEOUT);
                stream.error().map_or(Ok(()), Err)
            }
            Output::File(_) | Output::Ended => Ok(()),
        };
        self.check(flushed)
    }

    fn check(&mut self, written: io::Result<()>) -> io::Result<()> {
        let Err(error) = written else {
            return Ok(());
        };
        if !is_dropped(&error) {
            self.output = Output::Ended;
        }
        if is_broken_pipe(&error) {
            Ok(())
        } else {
            Err(error)
        }
    }
}

/// Returns whether objects were dropped, and later ones can be written.
fn is_dropped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}

/// Returns whether the reader of objects has gone, which is no failure.
pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Returns the message about objects that could not be written.
pub(crate) fn write_error(name: &str, error: &io::Error) -> String {
    format!("{name}: write error: {}", message::worded(error))
}

impl JsonOutput {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Fd(fd) => format!("--json={fd}"),
            Self::File(path) => quoted(path.as_os_str()),
        }
    }
}
