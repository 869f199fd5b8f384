//! Entries that are sorted on disk.
//!
//! Manifests of this tool are sorted by path. Others may be in any order, and so are journals:
//! their entries are sorted in pieces that fit in memory, and each piece is written to a temporary
//! file.

use std::borrow::BorrowMut;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::sync::Arc;

use super::contents::peek;
use crate::dircopy::file_ranges::{FileRange, FileRanges, RangesReader};
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::record::Change;
use crate::dircopy::write::temporary_file::{temporary_file, unwritten};

/// How many bytes of entries are sorted at once.
const PIECE: usize = 4 << 20;

/// How many bytes the reader of a piece reads ahead. There may be hundreds of readers.
const READ_AHEAD: usize = 16 << 10;

/// A temporary file of sorted pieces, without a name.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    /// The length of the file.
    n_bytes: u64,
}

/// A piece of a spool: entries in the order of their paths.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    start: u64,
    end: u64,
}

impl Spool {
    /// Makes an empty spool in the directory for temporary files, or in memory if that fails.
    ///
    /// # Errors
    ///
    /// Both fail.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(temporary_file()?),
            n_bytes: 0,
        })
    }

    /// Sorts entries and stores them. Returns the pieces in the order of the entries.
    ///
    /// # Errors
    ///
    /// The error of `next`; the temporary file cannot be written.
    pub(crate) fn sort(
        &mut self,
        mut next: impl FnMut() -> io::Result<Option<(Vec<u8>, JournalEntry)>>,
    ) -> io::Result<Vec<Piece>> {
        let mut sorter = Sorter::new(self);
        while let Some((path, entry)) = next()? {
            sorter.add(path, entry)?;
        }
        Ok(sorter.finish()?.1)
    }

    fn store(&mut self, entries: &mut Vec<(Vec<u8>, JournalEntry)>) -> io::Result<Piece> {
        // Entries for the same path stay in their order.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let start = self.n_bytes;
        for (path, entry) in entries.drain(..) {
            let head = entry.to_bytes();
            // No path has a NUL.
            for part in [&head[..], &path, &[0]] {
                self.file
                    .write_all(part)
                    .map_err(|error| unwritten(&error))?;
            }
            self.n_bytes += (head.len() + path.len() + 1) as u64;
        }
        let end = self.n_bytes;
        Ok(Piece { start, end })
    }

    /// Ends the writing.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(crate) fn finish(self) -> io::Result<Arc<File>> {
        let file = self.file.into_inner().map_err(io::Error::from);
        let mut file = file.map_err(|error| unwritten(&error))?;
        file.rewind()?;
        Ok(Arc::new(file))
    }
}

/// Sorts entries that come one after another.
#[derive(Debug)]
pub(crate) struct Sorter<S> {
    spool: S,
    pieces: Vec<Piece>,
    /// The entries of the next piece.
    entries: Vec<(Vec<u8>, JournalEntry)>,
    /// The memory that these entries take.
    n_bytes: usize,
}

impl<S: BorrowMut<Spool>> Sorter<S> {
    pub(crate) fn new(spool: S) -> Self {
        Self {
            spool,
            pieces: Vec::new(),
            entries: Vec::new(),
            n_bytes: 0,
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(crate) fn add(&mut self, path: Vec<u8>, entry: JournalEntry) -> io::Result<()> {
        self.n_bytes += size_of::<(Vec<u8>, JournalEntry)>() + path.capacity();
        self.entries.push((path, entry));
        if self.n_bytes >= PIECE {
            self.store()?;
        }
        Ok(())
    }

    fn store(&mut self) -> io::Result<()> {
        let piece = self.spool.borrow_mut().store(&mut self.entries)?;
        self.pieces.push(piece);
        self.n_bytes = 0;
        Ok(())
    }

    /// Returns the pieces in the order of the entries.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<(S, Vec<Piece>)> {
        if !self.entries.is_empty() {
            self.store()?;
        }
        Ok((self.spool, self.pieces))
    }
}

/// Reads a piece.
#[derive(Debug)]
pub(crate) struct PieceReader {
    source: BufReader<RangesReader>,
    /// The first entry of the next path.
    ahead: Option<(Vec<u8>, JournalEntry)>,
}

impl PieceReader {
    pub(crate) fn new(file: &Arc<File>, Piece { start, end }: Piece) -> Self {
        let file = Arc::clone(file);
        let contents = FileRanges::new(vec![FileRange { file, start, end }]);
        Self {
            source: BufReader::with_capacity(READ_AHEAD, contents.reader()),
            ahead: None,
        }
    }

    /// The next path, and the changes of all its entries.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u8>, Change)>> {
        let first = match self.ahead.take() {
            Some(first) => Some(first),
            None => self.read()?,
        };
        let Some((path, entry)) = first else {
            return Ok(None);
        };
        let mut change = entry.change();
        loop {
            self.ahead = self.read()?;
            match &self.ahead {
                Some((next, entry)) if *next == path => change = entry.change().after(change),
                _ => return Ok(Some((path, change))),
            }
        }
    }

    fn read(&mut self) -> io::Result<Option<(Vec<u8>, JournalEntry)>> {
        let mut head = [0; JournalEntry::HEAD_BYTES];
        if peek(&mut self.source)?.is_none() {
            return Ok(None);
        }
        self.source.read_exact(&mut head)?;
        let n_bytes = JournalEntry::digest_bytes(head).ok_or(io::ErrorKind::InvalidData)?;
        let mut digest = vec![0; n_bytes];
        self.source.read_exact(&mut digest)?;
        let mut path = Vec::new();
        self.source.read_until(0, &mut path)?;
        path.pop();
        let entry = JournalEntry::from_parts_of(head, &digest);
        let entry = entry.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((path, entry)))
    }
}
