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
use crate::common::terminal::tty::{Tty, has_lost_reader};
use crate::pv::display::screen::Screen;
use crate::pv::settings::{Form, JsonOutput};
use crate::pv::status::Status;

/// The longest time that a slow reader delays an object.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// The longest time that a slow reader delays the end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The output for objects, if it is not standard error.
#[derive(Debug)]
pub(crate) struct Objects {
    name: String,
    output: Output,
    /// The message about the first error.
    error: Option<String>,
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
            error: None,
        })
    }

    /// Returns the file, if the output is a regular file.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.output {
            Output::File(file) => Some(file),
            Output::Stream(_) | Output::Ended => None,
        }
    }

    /// Writes an object. If the reader is slow, the object is queued, or dropped if too many are.
    ///
    /// Returns a message for the user if a write has failed, once. The end of a reader is no error.
    #[must_use]
    pub(crate) fn put(&mut self, line: &str) -> Option<String> {
        self.write(line, Tty::queue)
    }

    /// Writes the last object of a transfer, which is queued even if too many are.
    ///
    /// Returns a message for the user if a write has failed, once.
    #[must_use]
    pub(crate) fn put_last(&mut self, line: &str) -> Option<String> {
        self.write(line, Tty::queue_last)
    }

    fn write(&mut self, line: &str, queue: fn(&mut Tty, &[u8], Duration)) -> Option<String> {
        let line = format!("{line}\n");
        let written = match &mut self.output {
            Output::File(file) => file.write_all(line.as_bytes()),
            Output::Stream(stream) => {
                queue(stream, line.as_bytes(), WRITE_TIMEOUT);
                stream.error().map_or(Ok(()), Err)
            }
            Output::Ended => Ok(()),
        };
        self.check(written)
    }

    /// Ends the output. Waits for at most a second until the reader has accepted everything; the
    /// rest is lost.
    ///
    /// Returns a message for the user if objects are lost, once.
    #[must_use]
    pub(crate) fn close(&mut self) -> Option<String> {
        let failed = self.flush();
        let lost = match &self.output {
            Output::Stream(stream) if stream.has_pending() => Err(Errno::AGAIN.into()),
            _ => Ok(()),
        };
        let not_accepted = self.check(lost);
        failed.or(not_accepted).or_else(|| self.check_dropped())
    }

    fn error(&self) -> Option<String> {
        let has_dropped = matches!(&self.output, Output::Stream(stream) if stream.has_dropped());
        let message = || has_dropped.then(|| dropped_message(&self.name));
        self.error.clone().or_else(message)
    }

    fn flush(&mut self) -> Option<String> {
        let flushed = match &mut self.output {
            Output::Stream(stream) => {
                stream.flush(EXIT_TIMEOUT);
                stream.error().map_or(Ok(()), Err)
            }
            Output::File(_) | Output::Ended => Ok(()),
        };
        self.check(flushed)
    }

    /// Ends the output after an error, and returns the message about it.
    fn check(&mut self, written: io::Result<()>) -> Option<String> {
        let error = written.err()?;
        let is_unread = match &self.output {
            Output::Stream(stream) => has_lost_reader(stream.as_fd(), &error),
            Output::File(_) | Output::Ended => false,
        };
        // This drops the objects in the queue, too.
        self.output = Output::Ended;
        if self.error.is_some() || is_unread {
            return None;
        }
        self.error = Some(write_error(&self.name, &error));
        self.error.clone()
    }

    /// Returns the message about dropped objects, once. The output goes on.
    fn check_dropped(&mut self) -> Option<String> {
        if self.error.is_some() {
            return None;
        }
        self.error = self.error();
        self.error.clone()
    }
}

/// Returns the message about objects that are lost, if any are. They go to `separate`, or to
/// standard error without it.
pub(crate) fn loss(separate: Option<&Objects>, form: Form, screen: &Screen) -> Option<String> {
    match separate {
        Some(objects) => objects.error(),
        None if form == Form::Json => loss_on_stderr(screen),
        None => None,
    }
}

/// Returns [`Status::INTERNAL`] if objects are lost. Both outputs have been closed: what still waits
/// for a reader is lost.
pub(crate) fn status(separate: Option<&Objects>, form: Form, screen: &Screen) -> Status {
    let waits_on_stderr = separate.is_none() && form == Form::Json && screen.has_pending();
    if waits_on_stderr || loss(separate, form, screen).is_some() {
        Status::INTERNAL
    } else {
        Status::GOOD
    }
}

fn loss_on_stderr(screen: &Screen) -> Option<String> {
    const NAME: &str = "(stderr)";
    match screen.write_error() {
        Some(error) if has_lost_reader(rustix::stdio::stderr(), &error) => None,
        Some(error) => Some(write_error(NAME, &error)),
        None => screen.has_dropped().then(|| dropped_message(NAME)),
    }
}

/// Returns the message about objects that were dropped.
fn dropped_message(name: &str) -> String {
    write_error(name, &Errno::NOBUFS.into())
}

/// Returns the message about objects that could not be written.
fn write_error(name: &str, error: &io::Error) -> String {
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
