//! The reference programs of the formats that others read: `bagit.py`, and `ascmhl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Run, run};
use crate::skip::{report, skip};

/// Where `.ci/run` installs them, unless `ZCOPY_REFERENCE` names another place, or says `none`:
/// they cannot be had.
const DIRECTORY: &str = "/opt/reference/bin";

/// A reference program. Without it the test is skipped aloud.
pub(super) fn reference(name: &str) -> Option<Reference> {
    let directory = std::env::var_os("ZCOPY_REFERENCE");
    let directory = directory.map_or(PathBuf::from(DIRECTORY), PathBuf::from);
    let path = directory.join(name);
    if path.exists() {
        return Some(Reference(path));
    }
    if directory.as_os_str() == "none" {
        report(&format!("{name} cannot be had"));
        return None;
    }
    let path = path.display();
    skip(&format!("{path} is missing (pip install ascmhl bagit)"));
    None
}

#[derive(Debug)]
pub(super) struct Reference(PathBuf);

impl Reference {
    /// Runs it on a directory.
    pub(super) fn run(&self, options: &[&str], directory: &Path) -> Run {
        // It writes what it thinks of names that it cannot print.
        let mut command = Command::new(&self.0);
        command.env("PYTHONIOENCODING", "utf-8:backslashreplace");
        run(command.args(options).arg(directory))
    }
}
