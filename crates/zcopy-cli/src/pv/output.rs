//! Where the bytes go.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;

use super::output_pipe::OutputPipe;
use super::settings;
use crate::quote::quoted;
use crate::sys;

/// The output, open.
#[derive(Debug)]
pub(crate) enum Output {
    Stdout,
    File(File, PathBuf),
    Nowhere(File),
    /// The standard input of a command, with the name for messages.
    Command(PipeWriter, String),
}

impl Output {
    /// Opens what the settings name. A file is not emptied yet: it may turn out to be an input.
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
            settings::Output::Nowhere | settings::Output::Command => {
                options.open("/dev/null").map(Self::Nowhere)
            }
        }
    }

    /// Empties a file that was named.
    pub(crate) fn replace(&self) -> io::Result<()> {
        match self {
            Self::File(file, _) if file.metadata()?.is_file() => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(_, path) => quoted(path.as_os_str()),
            Self::Stdout | Self::Nowhere(_) => "(stdout)".to_owned(),
            Self::Command(_, name) => name.clone(),
        }
    }

    /// Closes it, where an error may be told at last.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Stdout => sys::close_stdout(),
            Self::File(file, _) => sys::close_file(file.into()),
            Self::Nowhere(_) | Self::Command(..) => Ok(()),
        }
    }

    /// Another descriptor of it, if it is a pipe.
    pub(crate) fn pipe(&self) -> Option<Arc<OutputPipe>> {
        let pipe = self.is(FileType::Fifo);
        let fd = pipe.then(|| self.as_fd().try_clone_to_owned())?.ok()?;
        Some(Arc::new(OutputPipe::new(fd)))
    }

    /// Whether it is of this type.
    pub(crate) fn is(&self, wanted: FileType) -> bool {
        let stat = rustix::fs::fstat(self);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == wanted)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::File(file, _) | Self::Nowhere(file) => file.as_fd(),
            Self::Command(pipe, _) => pipe.as_fd(),
        }
    }
}
