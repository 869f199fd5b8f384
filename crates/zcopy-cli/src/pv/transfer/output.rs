//! The output of a transfer.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::common::cli::quote::quoted;
use crate::common::sys;
use crate::pv::settings;
use crate::pv::transfer::output_pipe::OutputPipe;

/// The open output.
#[derive(Debug)]
pub(crate) enum Output {
    Stdout,
    File(File, PathBuf),
    Discard(File),
    /// The standard input of a command, with the name for messages.
    Command(PipeWriter, String),
}

impl Output {
    /// Opens the output. Does not truncate a file yet, because it may be an input.
    pub(crate) fn open(output: &settings::Output) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true);
        match output {
            settings::Output::Stdout => {
                sys::check_open(rustix::stdio::stdout())?;
                Ok(Self::Stdout)
            }
            settings::Output::File(path) => {
                let file = options.create(true).truncate(false).open(path)?;
                Ok(Self::File(file, path.clone()))
            }
            settings::Output::Discard(_) | settings::Output::Command => {
                options.open("/dev/null").map(Self::Discard)
            }
        }
    }

    /// Truncates the output if it is a named regular file.
    pub(crate) fn replace(&self) -> io::Result<()> {
        match self {
            Self::File(file, _) if file.metadata()?.is_file() => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// Returns the name of the output for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(_, path) => quoted(path.as_os_str()),
            Self::Stdout | Self::Discard(_) => "(stdout)".to_owned(),
            Self::Command(_, name) => name.clone(),
        }
    }

    /// Closes the output, and returns an error that is reported only then.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Stdout => sys::close_stdout(),
            Self::File(file, _) => sys::close_file(file.into()),
            Self::Discard(_) | Self::Command(..) => Ok(()),
        }
    }

    /// Duplicates the descriptor if the output is a pipe.
    pub(crate) fn pipe(&self) -> Option<Arc<OutputPipe>> {
        let pipe = self.is(FileType::Fifo);
        let fd = pipe.then(|| self.as_fd().try_clone_to_owned())?.ok()?;
        Some(Arc::new(OutputPipe::new(fd)))
    }

    /// Returns whether the output has this file type.
    pub(crate) fn is(&self, wanted: FileType) -> bool {
        let stat = rustix::fs::fstat(self);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == wanted)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::File(file, _) | Self::Discard(file) => file.as_fd(),
            Self::Command(pipe, _) => pipe.as_fd(),
        }
    }
}
