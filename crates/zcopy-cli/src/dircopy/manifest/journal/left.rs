//! A journal that a killed run has left.

use std::ffi::CString;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::entry::JournalEntry;
use super::{CHECK_DIGITS, MAGIC, parse_entry, sha256_of};
use crate::common::digest::Digest;
use crate::dircopy::file_ranges::{FileRange, FileRanges, RangesReader};
use crate::dircopy::manifest::header::{Header, HeaderParser, ParseHeaderError};
use crate::dircopy::manifest::read::contents::{open_regular, peek};
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::manifest::read::lines::LONGEST;
use crate::dircopy::write::atomic_file::temp_name;

/// A journal that a run has left behind.
#[derive(Debug)]
pub(crate) struct LeftJournal {
    name: CString,
}

impl fmt::Display for LeftJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.to_string_lossy())
    }
}

/// The contents of a journal that an earlier run left.
pub(crate) type HeaderAndEntries = (Header, Entries<RangesReader>);

impl LeftJournal {
    pub(crate) fn new(name: CString) -> Self {
        Self { name }
    }

    /// Begins to read the entries. Returns `None` if the header is cut: the run did nothing yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its header is damaged.
    pub(crate) fn entries(&self, root: BorrowedFd<'_>) -> Result<Option<HeaderAndEntries>, Damage> {
        let (file, size) = open_regular(root, self.name.as_c_str()).map_err(Damage::Unreadable)?;
        let range = FileRange {
            file: Arc::new(file),
            start: 0,
            end: size,
        };
        let mut source = BufReader::new(FileRanges::new(vec![range]).reader());
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
        let chain = sha256_of(&[&comments]);
        let entries = Entries {
            source,
            chain,
            is_damaged: false,
        };
        Ok(Some((header, entries)))
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Whether the file has this name.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }

    /// Removes the journal.
    pub(crate) fn remove(self, root: BorrowedFd<'_>) {
        temp_name::remove(root, &self.name);
    }
}

/// The entries of a journal.
#[derive(Debug)]
pub(crate) struct Entries<R> {
    source: BufReader<R>,
    chain: Digest,
    is_damaged: bool,
}

impl<R: Read> Entries<R> {
    /// The next entry, unless it or an earlier one is damaged.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u8>, JournalEntry)>> {
        let mut line = Vec::new();
        self.source
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut line)?;
        let Some((check, entry)) = line.split_at_checked(CHECK_DIGITS) else {
            return Ok(None);
        };
        let chain = sha256_of(&[self.chain.as_bytes(), entry]);
        if !chain.to_string().as_bytes().starts_with(check) || !entry.ends_with(b"\n") {
            self.find_entries_behind()?;
            return Ok(None);
        }
        self.chain = chain;
        let parsed = parse_entry(entry);
        self.is_damaged |= parsed.is_none();
        Ok(parsed)
    }

    /// Searches for entries behind one whose check is wrong. After a loss of power there are none.
    fn find_entries_behind(&mut self) -> io::Result<()> {
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

    /// Whether the journal is damaged elsewhere than at its end.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}
