//! Where everything waits until the last byte has come.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use super::settings::Spool;
use crate::quote::quoted;

impl Spool {
    /// Opens it. A file is not emptied yet: it may turn out to be an input.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true);
        match self {
            // Not by `tempfile`, which would add to what the kernel says.
            Self::Nameless => {
                let made = tempfile::Builder::new().make(|path| {
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    options.create_new(true).mode(mode.bits()).open(path)
                })?;
                // Its name goes with what is left behind here.
                Ok(made.into_parts().0)
            }
            Self::File(path) => options.create(true).truncate(false).open(path),
        }
    }

    /// Empties it.
    pub(crate) fn empty(&self, file: &File) -> io::Result<()> {
        match self {
            Self::File(_) if file.metadata()?.is_file() => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// What messages call it.
    pub(crate) fn worded(&self) -> String {
        match self {
            Self::Nameless => "(spool)".to_owned(),
            Self::File(path) => quoted(path.as_os_str()),
        }
    }

    /// Its name, as that of an input and an output.
    pub(crate) fn name(&self) -> std::ffi::OsString {
        match self {
            Self::Nameless => "(spool)".into(),
            Self::File(path) => path.into(),
        }
    }
}
