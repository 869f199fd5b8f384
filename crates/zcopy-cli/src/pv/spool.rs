//! Where everything waits until the last byte has come.

use std::fs::File;
use std::io;
use std::path::Path;

use super::settings::Spool;

impl Spool {
    /// Opens it, empty.
    pub(crate) fn open(&self) -> io::Result<File> {
        match self {
            Self::Nameless => tempfile::tempfile(),
            Self::File(path) => open(path),
        }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> std::ffi::OsString {
        match self {
            Self::Nameless => "(spool)".into(),
            Self::File(path) => path.into(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path)
}
