//! The pidfile: a file with the process's number.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A pidfile, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Pidfile(PathBuf);

impl Pidfile {
    /// Writes the file, and replaces an existing one. Readers see the old number or the new one,
    /// and never a part.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let options = |path: &Path| File::options().write(true).create_new(true).open(path);
        let mut file = tempfile::Builder::new().make_in(directory, options)?;
        writeln!(file, "{}", std::process::id())?;
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(Self(path.to_owned()))
    }

    /// Removes the file, if it still holds this process's number.
    pub(crate) fn remove(&self) {
        let ours = format!("{}\n", std::process::id());
        if std::fs::read_to_string(&self.0).is_ok_and(|held| held == ours) {
            // Another process may have removed the file.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        self.remove();
    }
}
