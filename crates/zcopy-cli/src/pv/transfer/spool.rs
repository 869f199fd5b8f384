//! The spool: the storage for all bytes until the last one has come.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use crate::common::cli::quote::quoted;
use crate::pv::settings::Spool;

impl Spool {
    /// Opens the spool. Does not truncate a file yet, because it may be an input.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true);
        match self {
            // `tempfile` alone would add text to the error of the kernel.
            Self::Nameless => {
                let made = tempfile::Builder::new().make(|path| {
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    options.create_new(true).mode(mode.bits()).open(path)
                })?;
                // The name is removed when the path is dropped here.
                Ok(made.into_parts().0)
            }
            Self::File(path) => options.create(true).truncate(false).open(path),
        }
    }

    /// Truncates the spool.
    pub(crate) fn empty(&self, file: &File) -> io::Result<()> {
        match self {
            Self::File(_) if file.metadata()?.is_file() => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// Returns the name of the spool for messages.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Self::Nameless => "(spool)".to_owned(),
            Self::File(path) => quoted(path.as_os_str()),
        }
    }

    /// Returns the name of the spool as an input and output.
    pub(crate) fn name(&self) -> std::ffi::OsString {
        match self {
            Self::Nameless => "(spool)".into(),
            Self::File(path) => path.into(),
        }
    }
}
