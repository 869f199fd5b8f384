//! What a run does if another one has left a manifest meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::archive::Archive;
use super::hash_file::hash_file;
use super::merge::Records;
use super::record::FileDigest;
use super::update::{Update, Writers};

/// Keeps other runs from finishing their manifests in the same tree until this is dropped.
#[derive(Debug)]
pub(crate) struct FinishLock {
    _directory: Option<OwnedFd>,
}

impl FinishLock {
    /// Waits for the lock of the tree's root. A file system without locks has none.
    ///
    /// # Errors
    ///
    /// The root cannot be opened.
    pub(crate) fn acquire(root: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
        let lock = || rustix::fs::flock(&directory, FlockOperation::LockExclusive);
        let locked = rustix::io::retry_on_intr(lock);
        let directory = locked.is_ok().then_some(directory);
        Ok(Self {
            _directory: directory,
        })
    }
}

impl Update<'_> {
    /// Makes this manifest anew on top of those that other runs have left since `base` was read.
    /// `fresh` has all of them.
    ///
    /// A path that only one of the runs has changed gets the digest of that run. If both have, the
    /// file itself tells which of them was the last.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read; the new one cannot be written.
    pub(crate) fn rebase(&mut self, base: &Archive, fresh: &Archive) -> io::Result<()> {
        let (root, null) = (self.carrying.root, self.carrying.null);
        let mut ours = self.writers.records()?;
        let (mut base, mut theirs) = (base.records()?, fresh.records()?);
        let mut header = fresh.next_header(
            self.writers.header.source.clone(),
            self.writers.header.copied.clone(),
        );
        header.journals.append(&mut self.writers.header.journals);
        let writers = &self.writers;
        let (directory, algorithm) = (&writers.directory, writers.main_algorithm);
        let mut rebased = Writers::begin(directory, algorithm, header, writers.mode)?;
        let next_path = |all: [&Records; 3]| {
            let paths = all.into_iter().filter_map(Records::peek);
            paths.min().map(<[u8]>::to_vec)
        };
        while let Some(path) = next_path([&ours, &base, &theirs]) {
            let take = |records: &mut Records| -> io::Result<Option<FileDigest>> {
                let record = records.find(&path)?;
                Ok(record.and_then(|record| record.resolve(root, null)))
            };
            let (our, old, their) = (take(&mut ours)?, take(&mut base)?, take(&mut theirs)?);
            let file = if our == old {
                their
            } else if their == old || their == our {
                our
            } else {
                last_of(our, their, &path, root, null)
            };
            if let Some(file) = file {
                rebased.add(&path, file)?;
            }
        }
        self.writers = rebased;
        Ok(())
    }
}

/// Which of two digests a file has. If it has neither, ours counts.
fn last_of(
    our: Option<FileDigest>,
    their: Option<FileDigest>,
    path: &[u8],
    root: BorrowedFd<'_>,
    null: &File,
) -> Option<FileDigest> {
    let has = |file: FileDigest| {
        let found = hash_file(root, path, file.algorithm, null);
        found.is_ok_and(|found| found == file)
    };
    let theirs = their.filter(|file| !our.is_some_and(has) && has(*file));
    theirs.or(our)
}
