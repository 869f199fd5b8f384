//! The manifest that a run leaves: the records of the earlier ones, with the changes of the run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::anyhow;

use super::output::{Output, Place};
use super::writer::Finished;
use crate::common::cli::message;
use crate::common::digest::{Algorithm, AlgorithmSet};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::bag::misread::Misread;
use crate::dircopy::manifest::hash_file::{ReadOptions, hash_file};
use crate::dircopy::manifest::header::Header;
use crate::dircopy::manifest::mhl::knowledge::Knowledge;
use crate::dircopy::manifest::mhl::write::MissingOptions;
use crate::dircopy::manifest::open_beneath::{self, Found};
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::read::merge::Records;
use crate::dircopy::manifest::read::resolve::{Presence, presence};
use crate::dircopy::manifest::record::Record;
use crate::dircopy::walk::spelling::paths::PathSpellings;

/// The line of a file in the new manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Line {
    /// The line of the earlier manifests, if they have one.
    #[default]
    Keep,
    /// This digest.
    Set(FileDigest),
    /// The line of the earlier manifests; the file has been read, and has this other digest.
    Differs(FileDigest),
    /// No line: no digest is known of the file that has this name now.
    Remove,
}

/// How a record is changed on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordChange {
    /// The file is recorded as it is now.
    Accepted,
    /// The file is gone, and has no record any more.
    Forgotten,
}

impl fmt::Display for RecordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted: it is recorded as it is now",
            Self::Forgotten => "forgotten: it is gone, and its record is dropped",
        })
    }
}

/// Is told the path of each record that is changed on request.
#[derive(Clone, Copy)]
pub(crate) struct OnChange<'a>(pub(crate) &'a (dyn Fn(&[u8], RecordChange) + Sync));

impl fmt::Debug for OnChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnChange")
    }
}

/// How records are carried over of files that the run does not copy.
#[derive(Debug)]
pub(crate) struct Carrying<'a> {
    /// The root of the tree.
    pub(crate) root: BorrowedFd<'a>,
    /// Whether records of files that are gone are dropped.
    pub(crate) forgets_missing: bool,
    /// The paths of files that are recorded as they are now.
    pub(crate) accepted: BTreeSet<Vec<u8>>,
    /// The algorithm of the digests of accepted files.
    pub(crate) algorithm: Algorithm,
    /// How files are read that lack digests.
    pub(crate) reading: ReadOptions<'a>,
    pub(crate) on_change: OnChange<'a>,
}

/// A new manifest under construction.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    records: Records,
    carrying: Carrying<'a>,
    spellings: PathSpellings,
    output: Output,
    has_changed: bool,
    /// Files that cannot be accepted or searched for, each with its error.
    failures: Vec<(Vec<u8>, anyhow::Error)>,
    /// The paths of files whose records lack a digest.
    incomplete: BTreeSet<Vec<u8>>,
    /// The paths of files that have been accepted, in order.
    accepted: Vec<Vec<u8>>,
}

impl<'a> Update<'a> {
    /// Begins a manifest.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read; the new one cannot be made.
    pub(crate) fn begin(
        place: Place<'_>,
        archive: &Archive,
        header: Header,
        carrying: Carrying<'a>,
    ) -> io::Result<Self> {
        Ok(Self {
            records: archive.records()?,
            output: Output::begin(place, archive, carrying.algorithm, header)?,
            carrying,
            spellings: PathSpellings::default(),
            has_changed: false,
            failures: Vec::new(),
            incomplete: BTreeSet::new(),
            accepted: Vec::new(),
        })
    }

    /// Sets the line of a path. Paths come in ascending order; records of paths in between are
    /// carried over. Returns the digest that the path is recorded with now.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read; the new one cannot be written.
    pub(crate) fn set(&mut self, path: &[u8], line: Line) -> io::Result<Option<FileDigest>> {
        self.carry_until(Some(path))?;
        let is_accepted = self.carrying.accepted.remove(path);
        let mut record = None;
        if self.records.peek() == Some(path) {
            record = self.records.next()?;
        }
        let now = match (line, &record) {
            (Line::Keep | Line::Differs(_), Some(record)) => {
                let resolved = self.resolve(record)?;
                resolved.and_then(|file| self.completed(path, file))
            }
            (Line::Set(file), _) => Some(file),
            (Line::Keep | Line::Differs(_), None) | (Line::Remove, _) => None,
        };
        let has_changed = now != record.and_then(|record| record.file);
        self.has_changed |= has_changed;
        if is_accepted && has_changed && matches!(line, Line::Set(_)) {
            self.carrying.on_change.0(path, RecordChange::Accepted);
        }
        match (now, line) {
            (Some(_), Line::Differs(found)) if self.output.lists_failures() => {
                self.output.add(path, found, Knowledge::Differs)?;
            }
            (Some(file), Line::Set(_)) => self.output.add(path, file, Knowledge::Read)?,
            (Some(file), _) => self.output.add(path, file, Knowledge::Carried)?,
            (None, _) => {}
        }
        Ok(now)
    }

    /// Carries over the records of all paths before this one, or of all that remain.
    fn carry_until(&mut self, end: Option<&[u8]>) -> io::Result<()> {
        let is_before = |path: &[u8]| end.is_none_or(|end| path < end);
        loop {
            let next = self.records.peek().filter(|next| is_before(next));
            let accepted = self.carrying.accepted.first().map(Vec::as_slice);
            let accepted = accepted.filter(|accepted| is_before(accepted));
            let is_recorded = next == accepted;
            match (next, accepted) {
                (None, None) => return Ok(()),
                (next, Some(accepted)) if next.is_none_or(|next| accepted <= next) => {
                    let record = if is_recorded {
                        self.records.next()?
                    } else {
                        None
                    };
                    self.accept(record)?;
                }
                _ => {
                    if let Some(record) = self.records.next()? {
                        self.carry(&record)?;
                    }
                }
            }
        }
    }

    /// Records the first of the accepted files as it is now.
    fn accept(&mut self, record: Option<Record>) -> io::Result<()> {
        let Carrying {
            root,
            accepted,
            algorithm,
            reading,
            on_change,
            ..
        } = &mut self.carrying;
        let Some(path) = accepted.pop_first() else {
            return Ok(());
        };
        let found = match open_beneath::find(*root, &path) {
            Ok(Found::RegularFile) => hash_file(*root, &path, *algorithm, *reading),
            Ok(Found::Other | Found::BehindLink | Found::Nothing) => {
                Err(io::Error::other("there is no regular file of this name"))
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(file) => {
                if record.and_then(|record| record.file) != Some(file) {
                    on_change.0(&path, RecordChange::Accepted);
                }
                self.has_changed = true;
                self.output.add(&path, file, Knowledge::Read)?;
                self.accepted.push(path);
                Ok(())
            }
            Err(error) => {
                let error = anyhow::Error::from(error).context("cannot accept it");
                self.failures.push((path, error));
                record.map_or(Ok(()), |record| self.carry(&record))
            }
        }
    }

    fn carry(&mut self, record: &Record) -> io::Result<()> {
        let Carrying {
            root,
            forgets_missing,
            on_change,
            ..
        } = self.carrying;
        let mut file = self.resolve(record)?;
        if forgets_missing {
            match presence(root, &mut self.spellings, &record.path) {
                Ok(Presence::Gone) => {
                    if file.take().is_some() {
                        on_change.0(&record.path, RecordChange::Forgotten);
                    }
                }
                Ok(Presence::Present) => {}
                Ok(Presence::Obstructed) => {
                    let error = anyhow!("its record stays: what is there is no regular file");
                    self.failures.push((record.path.clone(), error));
                }
                Err(error) => {
                    let error = anyhow::Error::from(error).context("cannot tell if it is missing");
                    self.failures.push((record.path.clone(), error));
                }
            }
        }
        let file = file.and_then(|file| self.completed(&record.path, file));
        self.has_changed |= file != record.file;
        match file {
            Some(file) => self.output.add(&record.path, file, Knowledge::Carried),
            None => Ok(()),
        }
    }

    /// The digest of a record with the checksums of all functions that the manifest has. Reads the
    /// file if the record lacks some. `None` if that fails, which is reported, or after a signal.
    fn completed(&mut self, path: &[u8], file: FileDigest) -> Option<FileDigest> {
        let Carrying {
            root,
            algorithm,
            reading,
            ..
        } = self.carrying;
        let has_all = AlgorithmSet::from(file.algorithm).includes(algorithm.into());
        if has_all || !self.output.needs_all_checksums() {
            return Some(file);
        }
        if reading.is_interrupted() {
            return None;
        }
        let set = file.algorithms_with(algorithm.into());
        let found = hash_file(root, path, set.into(), reading);
        let found = found.map_err(anyhow::Error::from);
        let found = found.and_then(|found| {
            if found.agrees_with(file) {
                Ok(found)
            } else {
                Err(anyhow!(
                    "it differs from the digest that it was recorded with"
                ))
            }
        });
        found
            .map_err(|error| {
                if reading.is_interrupted() {
                    return;
                }
                let error = error.context("its record lacks a digest");
                self.failures.push((path.to_vec(), error));
                self.incomplete.insert(path.to_vec());
            })
            .ok()
    }

    /// Calls [`Record::resolve`], and adds the path to its error. If the directory lists the name in
    /// another spelling, the killed run has not made the file, and the record stays.
    fn resolve(&mut self, record: &Record) -> io::Result<Option<FileDigest>> {
        let root = self.carrying.root;
        if record.announced.is_some() && self.spellings.is_spelled_otherwise(root, &record.path) {
            return Ok(record.file);
        }
        // A signal ends the run with a manifest, which needs the digest, and soon.
        let all = self.carrying.reading;
        let reading = ReadOptions {
            interrupt: None,
            rate_limiter: all.rate_limiter.filter(|_| !all.is_interrupted()),
            ..all
        };
        let resolved = record.resolve(root, reading);
        resolved.map_err(|error| message::naming(OsStr::from_bytes(&record.path), &error))
    }

    /// Carries over the records that remain. Returns the files that could not be accepted or
    /// forgotten, each with the reason.
    ///
    /// # Errors
    ///
    /// The errors of [`set`](Self::set).
    pub(crate) fn complete(&mut self) -> io::Result<Vec<(Vec<u8>, anyhow::Error)>> {
        self.carry_until(None)?;
        Ok(std::mem::take(&mut self.failures))
    }

    /// Keeps the records of accepted files that have not been read. Returns their paths.
    pub(crate) fn skip_accepted(&mut self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut self.carrying.accepted)
    }

    /// The paths of files that [`complete`](Self::complete) or [`set`](Self::set) has read and
    /// accepted. Files that [`set`](Self::set) was called for are not among them.
    pub(crate) fn take_accepted(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.accepted)
    }

    /// The root of the tree.
    pub(crate) fn root(&self) -> BorrowedFd<'a> {
        self.carrying.root
    }

    /// Whether the header names files from the source that have names of manifests, and that no
    /// earlier manifest names. Without this manifest they would count as manifests of the tree.
    pub(crate) fn tells_copied(&self, archive: &Archive) -> bool {
        let mut copied = self.output.copied().iter();
        copied.any(|copied| !archive.knows_copied(copied))
    }

    /// Whether the record of any path has changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether the new manifest has any lines.
    pub(crate) fn has_lines(&self) -> bool {
        self.output.has_lines()
    }

    /// The files whose lines in the new manifest other programs may misread.
    pub(crate) fn misread(&self) -> Misread {
        self.output.misread()
    }

    /// Compares the new manifest with the files of the tree, if it has to list all of them. Returns
    /// the paths that differ, each with the reason. `missing` is for histories.
    ///
    /// # Errors
    ///
    /// The tree cannot be read; the manifest cannot be written.
    pub(crate) fn compare(
        &mut self,
        most_open: usize,
        missing: MissingOptions<'_>,
    ) -> io::Result<Vec<(Vec<u8>, anyhow::Error)>> {
        let reading = self.carrying.reading;
        let mut mismatches = self.output.compare(most_open, missing, reading)?;
        mismatches.retain(|(path, _)| !self.incomplete.contains(path));
        Ok(mismatches)
    }

    /// Gives the manifest its name. There may be several files.
    ///
    /// # Errors
    ///
    /// A file cannot be written or named.
    pub(crate) fn finish(self) -> io::Result<Vec<Finished>> {
        self.output.finish()
    }
}
