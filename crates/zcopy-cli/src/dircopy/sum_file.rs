//! The sum file of a run, which gets its name when all is done.

use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::anyhow;
use rustix::fs::Mode;

use super::face::Face;
use super::place::{Durability, Place, Replace};
use crate::digest::{Algorithm, Digest};
use crate::dircopy::manifest::line;
use crate::dircopy::manifest::name::Name;
use crate::sys;

/// How much is written at once, in bytes.
const BLOCK: usize = 64 << 10;

/// The most names that are tried. Stops if every name gives `EEXIST`.
const MAX_NAMES: u32 = 1_000;

/// A sum file that is being written. If the process is killed, or this dropped, there is none.
#[derive(Debug)]
pub(super) struct SumFile {
    place: Place<Arc<OwnedFd>>,
    name: Name,
    has_lines: bool,
    /// Those that are not in the file yet.
    lines: Vec<u8>,
}

impl SumFile {
    /// Begins one in this directory, of which everybody may read what `mode` allows.
    ///
    /// # Errors
    ///
    /// What `open(2)` and `fchmod(2)` say.
    pub(super) fn begin(
        directory: &Arc<OwnedFd>,
        algorithm: Algorithm,
        mode: Mode,
    ) -> io::Result<Self> {
        let place = Place::new(Arc::clone(directory))?;
        rustix::fs::fchmod(&place, mode)?;
        Ok(Self {
            place,
            name: Name::now(algorithm),
            has_lines: false,
            lines: Vec::with_capacity(BLOCK),
        })
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// What `write(2)` says.
    pub(super) fn add(&mut self, digest: &Digest, path: &[u8]) -> io::Result<()> {
        line::write(digest, path, &mut self.lines);
        self.has_lines = true;
        if self.lines.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// Whether anything is listed.
    pub(super) fn has_lines(&self) -> bool {
        self.has_lines
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = self.place.file();
        file.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }

    /// Gives it the first name of its second that nothing bears, and tells which.
    ///
    /// # Errors
    ///
    /// What `write(2)`, `close(2)` and [`Place::commit`] say.
    pub(super) fn finish(mut self, durability: Durability) -> io::Result<Name> {
        self.flush()?;
        self.place.settle()?;
        let mut retries = 1..MAX_NAMES;
        loop {
            let name = CString::new(self.name.to_string())?;
            match self.place.try_commit(&name, Replace::No, durability) {
                Ok(()) => break,
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && retries.next().is_some() =>
                {
                    self.name = self.name.next();
                }
                Err(error) => return Err(error),
            }
        }
        sys::close_file(self.place.into_file().into())?;
        Ok(self.name)
    }
}

/// Says that there will be no sum file, and why.
pub(super) fn complain(face: &Face<'_>, error: io::Error) {
    let error = anyhow!(error).context("cannot write the sum file");
    face.complain("".as_ref(), &error);
}
