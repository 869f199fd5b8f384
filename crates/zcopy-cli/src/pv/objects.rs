//! A descriptor or a file of their own for objects in JSON.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::settings::JsonOutput;
use crate::quote::quoted;
use crate::sys;
use crate::tty::Tty;

/// How long a reader that takes nothing holds up an object.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// How long a reader that takes nothing holds up the end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where objects go, if not to standard error.
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
    /// A write has failed. What follows would make no sense.
    Failed,
}

impl Objects {
    /// Opens it. A file is not emptied yet: it may turn out to be an input.
    ///
    /// # Errors
    ///
    /// What `open(2)` or `dup(2)` says, and `EBADF` if the descriptor cannot be written to.
    pub(crate) fn open(output: &JsonOutput) -> io::Result<Self> {
        let fd: OwnedFd = match output {
            JsonOutput::Fd(fd) => {
                let fd = sys::duplicate(*fd)?;
                if rustix::fs::fcntl_getfl(&fd)? & OFlags::ACCMODE == OFlags::RDONLY {
                    return Err(rustix::io::Errno::BADF.into());
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

    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file on a disk, if it is one.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.output {
            Output::File(file) => Some(file),
            Output::Stream(_) | Output::Failed => None,
        }
    }

    /// Writes an object, which a slow reader gets later.
    ///
    /// # Errors
    ///
    /// What `write(2)` says of a file, once.
    pub(crate) fn put(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let written = match &mut self.output {
            Output::File(file) => file.write_all(line.as_bytes()),
            Output::Stream(stream) => {
                stream.queue(line.as_bytes(), WRITE_TIMEOUT);
                Ok(())
            }
            Output::Failed => Ok(()),
        };
        if written.is_err() {
            self.output = Output::Failed;
        }
        written
    }

    /// Writes the last object, and waits for a second until the reader has taken everything.
    ///
    /// # Errors
    ///
    /// As [`Objects::put`].
    pub(crate) fn put_last(&mut self, line: &str) -> io::Result<()> {
        // A queue that is full would not take it.
        self.flush();
        self.put(line)?;
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        if let Output::Stream(stream) = &mut self.output {
            stream.flush(EXIT_TIMEOUT);
        }
    }
}

impl JsonOutput {
    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Fd(fd) => format!("--json={fd}"),
            Self::File(path) => quoted(path.as_os_str()),
        }
    }
}
