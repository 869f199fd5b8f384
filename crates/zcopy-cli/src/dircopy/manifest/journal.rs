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
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::contents::{Contents, FileRange, open_regular, peek};
use super::damage::Damage;
use super::journal_entry::JournalEntry;
use super::line;
use super::lines::LONGEST;
use super::metadata::{Header, HeaderParser, ParseHeaderError};
use super::open_beneath;
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
    /// None once the journal is removed.
    file: Option<File>,
    /// The digest of all entries so far.
    chain: Digest,
    buffer: Vec<u8>,
    /// Whether a write has failed, so that a part of an entry may stand at the end of the file.
    /// Entries behind it would make the journal damaged.
    is_broken: bool,
}

/// The error of an entry that is not written because an earlier one could not be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an earlier entry could not be written")]
pub(crate) struct EarlierFailure;

impl Journal {
    /// Begins a journal in the root of the destination.
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
        let mut lines = MAGIC.to_vec();
        header.write_comments(&mut lines);
        let chain = digest_of(&[&lines]);
        let mut file = File::from(file);
        let journal = |file| Self {
            directory: Arc::clone(directory),
            name: name.clone(),
            is_durable,
            state: Mutex::new(State {
                file: Some(file),
                chain,
                buffer: Vec::new(),
                is_broken: false,
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
            is_broken,
        } = &mut *guard;
        if *is_broken {
            return Err(io::Error::other(EarlierFailure));
        }
        let Some(file) = file else {
            return Err(io::Error::other("the journal has been removed"));
        };
        let mut must_sync = false;
        buffer.clear();
        for (path, entry) in entries {
            must_sync |= matches!(
                entry,
                JournalEntry::Announced(Announced::Replaces(_) | Announced::Clears)
            );
            let entry = write_entry(path, entry);
            *chain = digest_of(&[chain.as_bytes(), &entry]);
            let check = chain.to_string();
            buffer.extend_from_slice(&check.as_bytes()[..CHECK_DIGITS]);
            buffer.extend_from_slice(&entry);
        }
        if buffer.is_empty() {
            return Ok(());
        }
        if let Err(error) = file.write_all(buffer) {
            *is_broken = true;
            return Err(error);
        }
        if must_sync && self.is_durable {
            // Or else a loss of power could leave the new file with the old digest.
            rustix::fs::fdatasync(&*file)?;
        }
        Ok(())
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
        let root = self.directory.as_fd();
        let (_, mut entries) = match Left::new(self.name.clone()).entries(root) {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(()),
            // The manifest has its entries.
            Err(Damage::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
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
    /// libfuse renames a file that is removed while it is open, and removes it when it is closed: so that is done now, before the run
    /// sets the time of the root. A file that is removed just after it was closed may keep libfuse's name for it, because the driver
    /// hears of both at once.
    pub(crate) fn remove(&self) {
        hidden::remove(self.directory.as_fd(), &self.name);
        drop(self.lock().file.take());
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
#[derive(Debug)]
pub(crate) struct Left {
    name: CString,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.to_string_lossy())
    }
}

impl Left {
    pub(super) fn new(name: CString) -> Self {
        Self { name }
    }

    /// Begins to read the entries. Returns `None` if there is not even a header, so that nothing
    /// was done yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its header is damaged.
    pub(super) fn entries(
        &self,
        root: BorrowedFd<'_>,
    ) -> Result<Option<(Header, Entries<impl Read + use<>>)>, Damage> {
        let (file, size) = open_regular(root, self.name.as_c_str()).map_err(Damage::Unreadable)?;
        let range = FileRange {
            file: Arc::new(file),
            start: 0,
            end: size,
        };
        let mut source = BufReader::new(Contents::new(vec![range]).reader());
        let mut comments = Vec::new();
        let mut parser = HeaderParser::default();
        for n in 0.. {
            if n > 0 && peek(&mut source).map_err(Damage::Unreadable)? != Some(b'#') {
                break;
            }
            let before = comments.len();
            let mut line = source.by_ref().take(LONGEST);
            line.read_until(b'\n', &mut comments)
                .map_err(Damage::Unreadable)?;
            let line = &comments[before..];
            if !line.ends_with(b"\n") {
                // The header is written at once, before anything is done.
                return Ok(None);
            }
            if n == 0 && line != MAGIC {
                return Err(ParseHeaderError::Damaged.into());
            }
            parser.push(line)?;
        }
        let header = match parser.finish() {
            // It was cut.
            Err(_) if peek(&mut source).map_err(Damage::Unreadable)?.is_none() => return Ok(None),
            header => header?,
        };
        let chain = digest_of(&[&comments]);
        let entries = Entries {
            source,
            chain,
            is_damaged: false,
        };
        Ok(Some((header, entries)))
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
        hidden::remove(root, &self.name);
    }
}

/// The entries of a journal.
#[derive(Debug)]
pub(super) struct Entries<R> {
    source: BufReader<R>,
    chain: Digest,
    is_damaged: bool,
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
            self.look_behind()?;
            return Ok(None);
        }
        self.chain = chain;
        let parsed = parse_entry(entry);
        self.is_damaged |= parsed.is_none();
        Ok(parsed)
    }

    /// Looks whether entries follow one whose check is wrong. After a loss of power there are none.
    fn look_behind(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut next = self.source.by_ref().take(LONGEST);
            if next.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let entry = line.get(CHECK_DIGITS..).unwrap_or_default();
            self.is_damaged |= parse_entry(entry).is_some();
        }
    }

    /// Whether entries were found that do not belong to those before them.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
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
