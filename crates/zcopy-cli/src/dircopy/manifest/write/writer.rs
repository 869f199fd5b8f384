//! A manifest that is being written.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::common::digest::{Algorithm, Digest, Stream};
use crate::common::sys;
use crate::dircopy::manifest::INFO;
use crate::dircopy::manifest::buffered_file::BufferedFile;
use crate::dircopy::manifest::header::{Copied, End, Header};
use crate::dircopy::manifest::line;
use crate::dircopy::manifest::name::Name;
use crate::dircopy::write::atomic_file::{Durability, Exclusivity, Replace};

/// The most names that are tried: a limit, in case every name gives `EEXIST`.
const MAX_NAMES: u32 = 1_000;

/// A manifest that is being written. It gets its name when it is finished. If the process is
/// killed, or this is dropped, nothing remains of it.
#[derive(Debug)]
pub(crate) struct Writer {
    lines: BufferedFile,
    /// The comments of a BLAKE3 manifest.
    info: Option<Vec<u8>>,
    name: Name,
    /// Files from the source whose names this manifest must not take.
    copied: Vec<Copied>,
    mode: Mode,
    hash: Stream,
    n_lines: u64,
}

/// A manifest that has got its name.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its path from the root of the tree.
    pub(crate) path: String,
    /// Whether the kernel guaranteed that the name was free.
    pub(crate) exclusivity: Exclusivity,
}

impl Writer {
    /// Begins a manifest in this directory. `mode` is the mode of the file.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`, `fchmod(2)` and `write(2)`.
    pub(crate) fn begin(
        directory: &Arc<OwnedFd>,
        algorithm: Algorithm,
        header: &Header,
        mode: Mode,
    ) -> io::Result<Self> {
        let mut comments = Vec::new();
        header.write(&mut comments);
        let mut hash = Stream::new(Algorithm::Sha256);
        hash.update(&comments);
        let mut lines = BufferedFile::begin(directory, mode)?;
        let info = match algorithm {
            Algorithm::Sha256 | Algorithm::Several(_) => {
                lines.buffer.append(&mut comments);
                None
            }
            Algorithm::Blake3 => Some(comments),
        };
        Ok(Self {
            lines,
            info,
            name: Name::now(algorithm),
            copied: header.copied.clone(),
            mode,
            hash,
            n_lines: 0,
        })
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// The errors of `write(2)`.
    pub(crate) fn add(&mut self, digest: &Digest, path: &[u8]) -> io::Result<()> {
        let buffer = &mut self.lines.buffer;
        let before = buffer.len();
        line::write(digest, path, buffer);
        self.hash.update(&buffer[before..]);
        self.n_lines += 1;
        self.lines.flush_block()
    }

    /// Whether it has any lines.
    pub(crate) fn has_lines(&self) -> bool {
        self.n_lines > 0
    }

    /// Syncs the manifest, and gives it the first free name of its second.
    ///
    /// A manifest is always synced: every later run would fail at a part of one.
    ///
    /// # Errors
    ///
    /// The errors of `write(2)`, `close(2)` and `linkat(2)` and `renameat(2)`.
    pub(crate) fn finish(mut self, directory: &Arc<OwnedFd>) -> io::Result<Finished> {
        let end = End {
            n_lines: self.n_lines,
            digest: self.hash.finish(),
        };
        let info = match self.info {
            None => {
                end.write(&mut self.lines.buffer);
                None
            }
            Some(mut comments) => {
                end.write(&mut comments);
                let mut info = BufferedFile::begin(directory, self.mode)?;
                info.buffer = comments;
                info.flush()?;
                info.new_file.settle()?;
                Some(info.new_file)
            }
        };
        self.lines.flush()?;
        let mut lines = self.lines.new_file;
        lines.settle()?;
        let mut retries = 1..MAX_NAMES;
        let exclusivity = loop {
            let is_copied = self.copied.iter().any(|copied| copied.name == self.name);
            let info_name = format!("{}{INFO}", self.name);
            let is_taken = info.is_some() && {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                !matches!(
                    rustix::fs::statat(directory, info_name, flags),
                    Err(Errno::NOENT)
                )
            };
            let named = if is_copied || is_taken {
                Err(io::ErrorKind::AlreadyExists.into())
            } else {
                let name = CString::new(self.name.to_string())?;
                lines.try_commit(&name, Replace::No, Durability::Synced)
            };
            match named {
                Ok(exclusivity) => break exclusivity,
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && retries.next().is_some() =>
                {
                    self.name = self.name.next();
                }
                Err(error) => return Err(error),
            }
        };
        if let Some(mut info) = info {
            // The manifest has its name already. Its lines are valid without the comments.
            let name = CString::new(format!("{}{INFO}", self.name))?;
            // Its `Exclusivity` is that of the manifest: both are in the same directory.
            let _ = info.try_commit(&name, Replace::No, Durability::Synced)?;
            sys::close_file(info.into_file().into())?;
        }
        sys::close_file(lines.into_file().into())?;
        Ok(Finished {
            path: self.name.to_string(),
            exclusivity,
        })
    }
}
