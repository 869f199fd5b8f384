//! The journal of a run: what it has done so far. If the run is killed, its digests are not lost.
//!
//! A journal is a file in the root of the destination. It exists while a run is at work; the run
//! removes it once the manifest has its name. If the run ends before that, the next run reads the
//! entries.
//!
//! Each line is an entry. Its check is a digest of this entry and all earlier ones:
//!
//! ```text
//! # zc-dircopy journal, version 1
//! # source: /media/card2
//! # time: 2026-11-23T07:11:18.123456789Z
//! 5f1c…  + sha256 e3b0…  a/first.mov
//! ```
//!
//! After a loss of power a file may end with anything. Reading stops at the first entry whose check
//! is wrong.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::header::Header;
use super::line;
use super::open_beneath;
use super::record::Announced;
use crate::common::digest::checksum::ChecksumAlgorithm;
use crate::common::digest::{Algorithm, AlgorithmSet, Digest, Stream};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::write::atomic_file::{Durability, temp_name};
use entry::JournalEntry;

pub(crate) use left::{HeaderAndEntries, LeftJournal};

pub(crate) mod entry;

mod left;

/// The first line of a journal.
const MAGIC: &[u8] = b"# zc-dircopy journal, version 1\n";

/// The prefix of the names of journals.
const PREFIX: &[u8] = b".zc-dircopy-journal-";

/// How many hexadecimal digits of the check are written.
const CHECK_DIGITS: usize = 16;

/// Whether a file in the root of a tree is a journal.
pub(crate) fn is_journal(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// A journal that is being written, by all threads.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Arc<OwnedFd>,
    /// The root of the files, which is the same directory as a rule.
    root: Arc<OwnedFd>,
    name: CString,
    state: Mutex<State>,
    /// A thread that syncs the journal holds the lock, so that threads that wait for it need no
    /// sync of their own.
    synced: Mutex<Synced>,
}

/// The part of a journal that is on the disk.
#[derive(Debug, Default)]
struct Synced {
    /// The number of bytes.
    n_bytes: u64,
    /// Whether a sync has failed. The kernel reports an error of a write-back once for each open
    /// file.
    has_failed: bool,
}

#[derive(Debug)]
struct State {
    /// `None` once the journal is removed.
    file: Option<Arc<File>>,
    /// The number of bytes in the file.
    written: u64,
    /// The digest of all entries so far.
    chain: Digest,
    buffer: Vec<u8>,
    /// Whether a write has failed twice. The file may end with a part of an entry, and further
    /// entries would make the journal damaged.
    is_broken: bool,
}

/// The error of entries.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// They are not in the journal.
    #[error(transparent)]
    Write(io::Error),
    /// They are in the journal, and maybe not on the disk.
    #[error(transparent)]
    Sync(io::Error),
}

/// The error of an entry that is not written because an earlier one could not be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an earlier entry could not be written")]
pub(crate) struct EarlierFailure;

impl Journal {
    /// Begins a journal in `directory` for the files below `root`.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)` and `write(2)`.
    pub(crate) fn begin(
        directory: &Arc<OwnedFd>,
        root: &Arc<OwnedFd>,
        header: &Header,
    ) -> io::Result<Self> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let make = |name: &CStr| rustix::fs::openat(directory, name, flags, mode);
        let (file, name) = temp_name::make_with_prefix(PREFIX, make)?;
        let mut lines = MAGIC.to_vec();
        header.write_comments(&mut lines);
        let chain = sha256_of(&[&lines]);
        let mut file = File::from(file);
        let journal = |file| Self {
            directory: Arc::clone(directory),
            root: Arc::clone(root),
            name: name.clone(),
            state: Mutex::new(State {
                file: Some(Arc::new(file)),
                written: lines.len() as u64,
                chain,
                buffer: Vec::new(),
                is_broken: false,
            }),
            synced: Mutex::default(),
        };
        match file.write_all(&lines) {
            Ok(()) => Ok(journal(file)),
            Err(error) => {
                journal(file).remove();
                Err(error)
            }
        }
    }

    /// Adds entries for paths, in one write. With [`Durability::Synced`] they are on the disk when
    /// this returns. A write that fails is repeated once. Returns the error of the first attempt if
    /// the second one succeeded.
    ///
    /// # Errors
    ///
    /// The errors of `write(2)` and `fdatasync(2)`.
    pub(crate) fn add<'p>(
        &self,
        entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>,
        durability: Durability,
    ) -> Result<Option<io::Error>, AddError> {
        let mut guard = self.lock();
        let State {
            file,
            written,
            chain,
            buffer,
            is_broken,
        } = &mut *guard;
        if *is_broken {
            return Err(AddError::Write(io::Error::other(EarlierFailure)));
        }
        let Some(file) = file else {
            let error = io::Error::other("the journal has been removed");
            return Err(AddError::Write(error));
        };
        buffer.clear();
        for (path, entry) in entries {
            let entry = write_entry(path, entry);
            *chain = sha256_of(&[chain.as_bytes(), &entry]);
            let check = chain.to_string();
            buffer.extend_from_slice(&check.as_bytes()[..CHECK_DIGITS]);
            buffer.extend_from_slice(&entry);
        }
        if buffer.is_empty() {
            return Ok(None);
        }
        let first_error = (&**file).write_all(buffer).err();
        if first_error.is_some() {
            let repeat = || {
                // A part of the entries may have been written.
                file.set_len(*written)?;
                (&**file).write_all(buffer)
            };
            if let Err(error) = repeat() {
                *is_broken = true;
                return Err(AddError::Write(error));
            }
        }
        *written += buffer.len() as u64;
        let (end, file) = (*written, Arc::clone(file));
        drop(guard);
        if durability == Durability::Synced {
            self.sync(&file, end).map_err(AddError::Sync)?;
        }
        Ok(first_error)
    }

    /// Writes the first `end` bytes of the file to the disk, unless they are there.
    fn sync(&self, file: &File, end: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.n_bytes >= end {
            return Ok(());
        }
        if synced.has_failed {
            return Err(io::Error::other(EarlierFailure));
        }
        let written = self.lock().written;
        // The first sync also writes the name of the journal.
        let directory =
            (synced.n_bytes == 0).then(|| supported(rustix::fs::fsync(&self.directory)));
        let done = supported(rustix::fs::fdatasync(file)).and(directory.unwrap_or(Ok(())));
        match done {
            Ok(()) => synced.n_bytes = written,
            Err(_) => synced.has_failed = true,
        }
        done.map_err(Into::into)
    }

    /// Opens each file that an entry says was written, except for files that are gone.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub(crate) fn for_each_written(
        &self,
        mut visit: impl FnMut(&[u8], io::Result<File>),
    ) -> io::Result<()> {
        let root = self.root.as_fd();
        let left = LeftJournal::new(self.name.clone());
        let (_, mut entries) = match left.entries(self.directory.as_fd()) {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(()),
            // The manifest has its entries.
            Err(damage) if damage.is_not_found() => {
                return Ok(());
            }
            Err(damage) => return Err(io::Error::other(damage)),
        };
        while let Some((path, entry)) = entries.next()? {
            if !matches!(
                entry,
                JournalEntry::Announced(Announced::Adds(_) | Announced::Replaces(_))
            ) {
                continue;
            }
            match open_beneath::open(root, &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => visit(&path, opened),
            }
        }
        Ok(())
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Removes the journal.
    ///
    /// # Kernel notes
    ///
    /// libfuse renames a file that is removed while it is open, and removes it when it is closed.
    /// The file is closed here, so that this happens before the run sets the time of the root.
    /// Closing the file first does not help: the driver gets both requests at once, and the renamed
    /// file may stay.
    pub(crate) fn remove(&self) {
        temp_name::remove(self.directory.as_fd(), &self.name);
        drop(self.lock().file.take());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a sync. A file system that has no sync is no error.
fn supported(synced: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match synced {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        synced => synced,
    }
}

/// The line of an entry, without its check.
fn write_entry(path: &[u8], entry: JournalEntry) -> Vec<u8> {
    let FileDigest { algorithm, digest } = entry.file();
    let mut line = vec![b' ', entry.sign(), b' '];
    let names = AlgorithmSet::from(algorithm).iter();
    let names: Vec<_> = names.map(ChecksumAlgorithm::name).collect();
    line.extend_from_slice(names.join("+").as_bytes());
    line.push(b' ');
    line::write(&digest, path, &mut line);
    line
}

fn sha256_of(parts: &[&[u8]]) -> Digest {
    let mut stream = Stream::new(Algorithm::Sha256);
    for part in parts {
        stream.update(part);
    }
    stream.finish()
}

fn parse_entry(line: &[u8]) -> Option<(Vec<u8>, JournalEntry)> {
    let (sign, rest) = match line {
        [b' ', sign, b' ', rest @ ..] => (*sign, rest),
        _ => return None,
    };
    let space = memchr::memchr(b' ', rest)?;
    let mut set = AlgorithmSet::default();
    for name in str::from_utf8(&rest[..space]).ok()?.split('+') {
        let mut all = ChecksumAlgorithm::ALL.into_iter();
        set = set.with(all.find(|algorithm| algorithm.name() == name)?)?;
    }
    let (digest, path) = line::parse_digest(&rest[space + 1..], set.n_bytes())?;
    let algorithm = set.into();
    let entry = JournalEntry::from_parts(sign, FileDigest { algorithm, digest })?;
    let path = match &path[..] {
        b"./-" => b"-".to_vec(),
        _ => path,
    };
    Some((path, entry))
}

#[cfg(test)]
mod tests;
