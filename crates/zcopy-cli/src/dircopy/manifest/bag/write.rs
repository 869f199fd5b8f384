//! Writes the tag files of a bag.
//!
//! Until all tag files have been written, the old ones stay. Then the manifests of the tag files
//! are removed, the new files get their names one after another, and the new manifests of the tag
//! files come last. A bag without these is valid, so that no interruption leaves one that lists a
//! file with a wrong digest.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::info::{Oxum, updated};
use super::lines::{Lines, Listed};
use super::misread::Misread;
use super::path::encode;
use super::tag_files::{Listing, Manifest, checksum_of, contents, manifests};
use super::{DECLARATION, INFO, PathBase};
use crate::common::cli::message;
use crate::common::digest::AlgorithmSet;
use crate::common::sys;
use crate::dircopy::file_ranges::{FileRange, FileRanges};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::buffered_file::{BufferedFile, remove_leftovers};
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::inventory::{Inventory, Kinds};
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::walk::scan::{Next, ScanOptions, scan};
use crate::dircopy::write::atomic_file::{Durability, Replace, temp_name};

/// The contents of `bagit.txt`.
const DECLARED: &[u8] = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";

/// The most files that [`BagWriter::compare`] returns.
const MAX_MISMATCHES: usize = 1000;

/// Why a bag cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    #[error("the bag has no record of it; accept it as it is with --accept, or remove it")]
    Unlisted,
    #[error("the bag lists it, and it is missing; --forget-missing drops its record")]
    Missing,
}

/// The tag files of a bag that are being written. If this is dropped, nothing remains of them.
#[derive(Debug)]
pub(crate) struct BagWriter {
    directory: Arc<OwnedFd>,
    base: PathBase,
    /// A manifest for each algorithm.
    manifests: Vec<(ChecksumAlgorithm, BufferedFile)>,
    mode: Mode,
    n_lines: u64,
    misread: Misread,
    oxum: Option<Oxum>,
}

impl BagWriter {
    /// Begins the manifests of a bag, with digests of these algorithms. `directory` is the root of
    /// the bag, and `mode` the mode of new files.
    ///
    /// # Errors
    ///
    /// Those of `open(2)` and `fchmod(2)`.
    pub(crate) fn begin(
        directory: &Arc<OwnedFd>,
        base: PathBase,
        algorithms: AlgorithmSet,
        mode: Mode,
    ) -> io::Result<Self> {
        let manifests = algorithms.iter().map(|algorithm| {
            let lines = BufferedFile::begin(directory, mode)?;
            Ok((algorithm, lines))
        });
        Ok(Self {
            directory: Arc::clone(directory),
            base,
            manifests: manifests.collect::<io::Result<_>>()?,
            mode,
            n_lines: 0,
            misread: Misread::default(),
            oxum: None,
        })
    }

    /// Adds a file, whose digest has a checksum of each algorithm.
    ///
    /// # Errors
    ///
    /// A checksum is missing; those of `write(2)`.
    pub(crate) fn add(&mut self, path: &[u8], file: FileDigest) -> io::Result<()> {
        let bag_path = self.base.bag_path(path);
        for (algorithm, lines) in &mut self.manifests {
            let checksum = file.checksum(*algorithm);
            let checksum = checksum.ok_or_else(|| io::Error::other("a checksum is missing"))?;
            write_line(&checksum, &bag_path, &mut lines.buffer);
            lines.flush_block()?;
        }
        self.misread.add(&bag_path, path);
        self.n_lines += 1;
        Ok(())
    }

    /// Whether it has any files.
    pub(crate) fn has_lines(&self) -> bool {
        self.n_lines > 0
    }

    /// The files whose lines other programs may misread.
    pub(crate) fn misread(&self) -> &Misread {
        &self.misread
    }

    /// Compares the lines with the files below `data`. Returns the paths that differ.
    ///
    /// # Errors
    ///
    /// A directory cannot be read; a file cannot be written.
    pub(crate) fn compare(&mut self, most_open: usize) -> io::Result<Vec<(Vec<u8>, Mismatch)>> {
        let Some((algorithm, lines)) = self.manifests.first_mut() else {
            return Ok(Vec::new());
        };
        lines.flush()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let payload = rustix::fs::openat(&self.directory, c"data", flags, Mode::empty())?;
        let inventory = Inventory::of(payload.as_fd(), most_open, Kinds::Files, |_, _| true)?;
        let file = Arc::new(lines.file().try_clone()?);
        let range = FileRange {
            start: 0,
            end: file.metadata()?.len(),
            file: Arc::clone(&file),
        };
        let (root, written) = (self.directory.as_fd(), FileRanges::new(vec![range]));
        let of_written = || {
            let mut lines = Lines::of(root, *algorithm, written.reader());
            move || {
                let next = lines.next().map_err(io::Error::other)?;
                let path = next.map(|Listed { path, .. }| path);
                io::Result::Ok(path.and_then(|path| PathBase::Payload.of_bag_path(path)))
            }
        };
        let inventory = inventory.respelled(payload.as_fd(), root, of_written())?;
        let (mut found, mut next_line) = (inventory.paths()?, of_written());
        let mut mismatches = Vec::new();
        let mut line = next_line()?;
        while mismatches.len() < MAX_MISMATCHES {
            let order = match (found.peek(), &line) {
                (None, None) => break,
                (Some(found), Some(line)) => found.cmp(line),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let unlisted = match order {
                Ordering::Less | Ordering::Equal => found.next()?,
                Ordering::Greater => None,
            };
            let missing = match order {
                Ordering::Less => None,
                Ordering::Equal | Ordering::Greater => std::mem::replace(&mut line, next_line()?),
            };
            let mismatch = match (unlisted, missing) {
                (Some(unlisted), None) => (unlisted.path, Mismatch::Unlisted),
                (None, Some(missing)) => (missing, Mismatch::Missing),
                _ => continue,
            };
            mismatches.push((self.base.of_payload_path(mismatch.0), mismatch.1));
        }
        self.oxum = Some(Oxum {
            n_bytes: inventory.n_bytes,
            n_files: inventory.n_files,
        });
        drop((found, next_line, written));
        if let Some(file) = Arc::into_inner(file) {
            // It shares the errors of late writes with the file that it is a clone of.
            sys::close_file(file.into())?;
        }
        Ok(mismatches)
    }

    /// Gives all tag files their names. Returns the names of the manifests of the payload.
    ///
    /// # Errors
    ///
    /// A tag file cannot be read or written.
    pub(crate) fn finish(mut self) -> io::Result<Vec<String>> {
        let root = self.directory.as_fd();
        remove_leftovers(root)?;
        for (_, lines) in &mut self.manifests {
            lines.flush()?;
            lines.new_file.settle()?;
        }
        let old = contents(root, INFO).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(message::naming(INFO.as_ref(), &error)),
        })?;
        let oxum = self
            .oxum
            .ok_or_else(|| io::Error::other("the bag was not examined"))?;
        let info = self.file_with(updated(&old, oxum))?;
        let declaration = self.file_with(DECLARED.to_vec())?;
        let algorithms = self.manifests.iter().map(|(algorithm, _)| *algorithm);
        let algorithms: Vec<_> = algorithms.collect();
        let known = algorithms
            .iter()
            .map(|algorithm| known_tag_files(root, *algorithm));
        let known = known.collect::<io::Result<Vec<_>>>()?;
        // From here on the bag has no manifest of its tag files.
        for old in manifests(root)? {
            if old.listing == Listing::TagFiles {
                remove(root, &old.name)?;
            }
        }
        rustix::fs::fsync(root)?;
        let name_of = |algorithm| Manifest::new(Listing::Payload, algorithm).name;
        let names: Vec<_> = algorithms.iter().copied().map(name_of).collect();
        let new = std::mem::take(&mut self.manifests).into_iter();
        // Manifests make the journal obsolete, and a bag is damaged without the other two.
        commit(info, INFO)?;
        commit(declaration, DECLARATION)?;
        for (name, (_, lines)) in names.iter().zip(new) {
            commit(lines, name)?;
        }
        for old in manifests(root)? {
            // A manifest that this run did not write lists the payload as it was before.
            if old.listing == Listing::Payload && !names.contains(&old.name) {
                remove(root, &old.name)?;
            }
        }
        let paths = tag_files(root)?;
        for (algorithm, known) in algorithms.into_iter().zip(known) {
            let mut lines = Vec::new();
            for path in &paths {
                let checksum = match known.get(path).filter(|_| !is_own(path)) {
                    Some(checksum) => *checksum,
                    None => checksum_of(root, path, algorithm)
                        .map_err(|error| message::naming(OsStr::from_bytes(path), &error))?,
                };
                write_line(&checksum, path, &mut lines);
            }
            let manifest = Manifest::new(Listing::TagFiles, algorithm);
            commit(self.file_with(lines)?, &manifest.name)?;
        }
        Ok(names)
    }

    /// A file under construction with these contents.
    fn file_with(&self, contents: Vec<u8>) -> io::Result<BufferedFile> {
        let mut file = BufferedFile::begin(&self.directory, self.mode)?;
        file.buffer = contents;
        file.flush()?;
        file.new_file.settle()?;
        Ok(file)
    }
}

/// The checksums of tag files that the bag has already.
fn known_tag_files(
    root: BorrowedFd<'_>,
    algorithm: ChecksumAlgorithm,
) -> io::Result<HashMap<Vec<u8>, Checksum>> {
    let manifest = Manifest::new(Listing::TagFiles, algorithm);
    let naming = |error: &_| message::naming(manifest.name.as_ref(), error);
    let text = match contents(root, &manifest.name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(naming(&error)),
    };
    let mut lines = Lines::of(root, algorithm, &text[..]);
    let mut known = HashMap::new();
    let mut next = || {
        lines
            .next()
            .map_err(|damage| naming(&io::Error::other(damage)))
    };
    while let Some(Listed { path, checksum }) = next()? {
        known.insert(path, checksum);
    }
    Ok(known)
}

fn write_line(checksum: &Checksum, path: &[u8], lines: &mut Vec<u8>) {
    lines.extend_from_slice(checksum.to_string().as_bytes());
    lines.extend_from_slice(b"  ");
    encode(path, lines);
    lines.push(b'\n');
}

fn commit(file: BufferedFile, name: &str) -> io::Result<()> {
    let put = || {
        let name = CString::new(name)?;
        let file = file
            .new_file
            .commit(&name, Replace::Yes, Durability::Synced)?;
        sys::close_file(file.into())
    };
    put().map_err(|error: io::Error| message::naming(name.as_ref(), &error))
}

fn remove(root: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(root, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(message::naming(name.as_ref(), &errno.into())),
    }
}

/// Whether every run writes this tag file anew.
fn is_own(path: &[u8]) -> bool {
    path == DECLARATION.as_bytes() || path == INFO.as_bytes() || path.starts_with(b"manifest-")
}

/// The paths of all tag files but the manifests of tag files, sorted.
fn tag_files(root: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let options = ScanOptions {
        follows_symlinks: false,
        one_file_system: false,
        most_open: 2,
    };
    let (mut paths, mut failure) = (Vec::new(), None);
    scan(root, options, |found| {
        let found = match found {
            Ok(found) => found,
            Err(found) => {
                let path = OsStr::from_bytes(&found.path);
                failure = Some(message::naming(path, &found.error));
                return Next::Stop;
            }
        };
        let (name, is_root) = (found.name.to_bytes(), found.node.is_root());
        let is_hidden = temp_name::is_temp_name(name) || is_root && is_journal(name);
        let is_tag_manifest = is_root && name.starts_with(b"tagmanifest-");
        if found.kind == FileType::RegularFile && !is_hidden && !is_tag_manifest {
            paths.push(found.path());
        }
        if is_root && name == b"data" {
            Next::Pass
        } else {
            Next::Enter
        }
    });
    paths.sort();
    match failure {
        Some(error) => Err(error),
        None => Ok(paths),
    }
}
