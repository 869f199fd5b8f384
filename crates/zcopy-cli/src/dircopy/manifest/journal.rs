//! What a run has done so far, so that its digests outlive it if it is killed.
//!
//! A journal is a file in the root of the destination. It exists while a run is at work; the run
//! removes it once the manifest has its name. Whatever ends the run before, the next one takes the
//! entries over.
//!
//! Each line is an entry, with a check that covers the entry and all before it:
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

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::contents::{open_regular, peek};
use super::journal_entry::JournalEntry;
use super::line;
use super::lines::LONGEST;
use super::metadata::{Header, HeaderParser};
use super::record::{Announced, FileDigest};
use crate::digest::{Algorithm, Digest, Stream};
use crate::dircopy::place::hidden;

/// What the names of journals begin with.
const PREFIX: &[u8] = b".zc-dircopy-journal-";

/// How many hexadecimal digits of the check are written.
const CHECK_DIGITS: usize = 16;

/// Whether a file in the root of a tree is a journal.
pub(crate) fn is_journal(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// A journal that is being written. All threads share it.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Arc<OwnedFd>,
    name: CString,
    /// Whether entries are brought to the disk before what they announce happens.
    is_durable: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// The digest of all entries so far.
    chain: Digest,
    buffer: Vec<u8>,
}

impl Journal {
    /// Begins a journal in the root of the destination, and locks it.
    ///
    /// # Errors
    ///
    /// What `open(2)` and `write(2)` say.
    pub(crate) fn begin(
        directory: &Arc<OwnedFd>,
        header: &Header,
        is_durable: bool,
    ) -> io::Result<Self> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let make = |name: &std::ffi::CStr| rustix::fs::openat(directory, name, flags, mode);
        let (file, name) = hidden::make_with_prefix(PREFIX, make)?;
        // Without locks the next run takes this one for dead, which loses nothing but this file.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut lines = MAGIC.to_vec();
        header.write_comments(&mut lines);
        let chain = digest_of(&[&lines]);
        let mut file = File::from(file);
        let journal = |file| Self {
            directory: Arc::clone(directory),
            name: name.clone(),
            is_durable,
            state: Mutex::new(State {
                file,
                chain,
                buffer: Vec::new(),
            }),
        };
        match file.write_all(&lines) {
            Ok(()) => Ok(journal(file)),
            Err(error) => {
                journal(file).remove();
                Err(error)
            }
        }
    }

    /// Adds entries for paths, in one write.
    ///
    /// # Errors
    ///
    /// What `write(2)` and `fdatasync(2)` say.
    pub(crate) fn add<'p>(
        &self,
        entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>,
    ) -> io::Result<()> {
        let mut guard = self.lock();
        let State {
            file,
            chain,
            buffer,
        } = &mut *guard;
        let mut replaces = false;
        buffer.clear();
        for (path, entry) in entries {
            replaces |= matches!(entry, JournalEntry::Announced(Announced::Replaces(_)));
            let entry = write_entry(path, entry);
            *chain = digest_of(&[chain.as_bytes(), &entry]);
            let check = chain.to_string();
            buffer.extend_from_slice(&check.as_bytes()[..CHECK_DIGITS]);
            buffer.extend_from_slice(&entry);
        }
        if buffer.is_empty() {
            return Ok(());
        }
        file.write_all(buffer)?;
        if replaces && self.is_durable {
            // Or else a loss of power could leave the new file with the old digest.
            rustix::fs::fdatasync(&*file)?;
        }
        Ok(())
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Removes the journal.
    pub(crate) fn remove(&self) {
        hidden::remove(self.directory.as_fd(), &self.name);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MAGIC: &[u8] = b"# zc-dircopy journal, version 1\n";

/// An entry as it stands behind its check.
fn write_entry(path: &[u8], entry: JournalEntry) -> Vec<u8> {
    let FileDigest { algorithm, digest } = entry.file();
    let mut line = vec![b' ', entry.sign(), b' '];
    line.extend_from_slice(match algorithm {
        Algorithm::Sha256 => b"sha256 ",
        Algorithm::Blake3 => b"blake3 ",
    });
    line::write(&digest, path, &mut line);
    line
}

fn digest_of(parts: &[&[u8]]) -> Digest {
    let mut stream = Stream::new(Algorithm::Sha256);
    for part in parts {
        stream.update(part);
    }
    stream.finish()
}

/// A journal that a run has left behind.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    name: CString,
    /// The lock is held, so that no other run takes the journal too.
    file: Arc<File>,
    size: u64,
}

impl Left {
    /// Opens a journal. Returns `None` if its run is still at work, or the journal has gone.
    ///
    /// # Errors
    ///
    /// What `open(2)` and `fstat(2)` say; the file is not regular.
    pub(super) fn open(root: BorrowedFd<'_>, name: CString) -> io::Result<Option<Self>> {
        let (file, size) = match open_regular(root, &name.to_string_lossy()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) || rustix::fs::fstat(&file)?.st_nlink == 0 {
            return Ok(None);
        }
        let file = Arc::new(file);
        Ok(Some(Self { name, file, size }))
    }

    /// Begins to read the entries. Returns `None` if there is not even a header, so that nothing
    /// was done yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a later version has written it.
    pub(super) fn entries(&self) -> io::Result<Option<(Header, Entries<impl Read + use<>>)>> {
        let range = super::contents::FileRange {
            file: Arc::clone(&self.file),
            start: 0,
            end: self.size,
        };
        let contents = super::contents::Contents::new(vec![range]);
        let mut source = BufReader::new(contents.reader());
        let mut comments = Vec::new();
        source
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut comments)?;
        if comments != MAGIC {
            return Ok(None);
        }
        let mut parser = HeaderParser::default();
        while peek(&mut source)? == Some(b'#') {
            let before = comments.len();
            source
                .by_ref()
                .take(LONGEST)
                .read_until(b'\n', &mut comments)?;
            if parser.push(&comments[before..]).is_err() {
                return Ok(None);
            }
        }
        let Ok(header) = parser.finish() else {
            return Ok(None);
        };
        let chain = digest_of(&[&comments]);
        Ok(Some((header, Entries { source, chain })))
    }

    /// The name of the file.
    pub(super) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Whether the file has this name.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }

    /// Removes the journal, whose entries stand in a manifest now.
    pub(crate) fn remove(self, root: BorrowedFd<'_>) {
        let found = rustix::fs::statat(root, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok() {
            hidden::remove(root, &self.name);
        }
    }
}

/// The entries of a journal.
#[derive(Debug)]
pub(super) struct Entries<R> {
    source: BufReader<R>,
    chain: Digest,
}

impl<R: Read> Entries<R> {
    /// The next entry that is whole, with all before it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<(Vec<u8>, JournalEntry)>> {
        let mut line = Vec::new();
        self.source
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut line)?;
        let Some((check, entry)) = line.split_at_checked(CHECK_DIGITS) else {
            return Ok(None);
        };
        let chain = digest_of(&[self.chain.as_bytes(), entry]);
        if !chain.to_string().as_bytes().starts_with(check) || !entry.ends_with(b"\n") {
            return Ok(None);
        }
        self.chain = chain;
        Ok(parse_entry(entry))
    }
}

fn parse_entry(line: &[u8]) -> Option<(Vec<u8>, JournalEntry)> {
    let (sign, rest) = match line {
        [b' ', sign, b' ', rest @ ..] => (*sign, rest),
        _ => return None,
    };
    let (algorithm, rest) = match rest.strip_prefix(b"sha256 ") {
        Some(rest) => (Algorithm::Sha256, rest),
        None => (Algorithm::Blake3, rest.strip_prefix(b"blake3 ")?),
    };
    let parsed = line::parse(rest).ok()?;
    let digest = parsed.digest;
    let file = FileDigest { algorithm, digest };
    let entry = JournalEntry::from_parts(sign, file)?;
    let path = match &parsed.path[..] {
        b"./-" => b"-".to_vec(),
        _ => parsed.path,
    };
    Some((path, entry))
}

#[cfg(test)]
mod tests;
