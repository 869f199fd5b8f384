//! What manifests record about files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead as _, BufReader, Read};

use super::contents::Reader;
use super::line::{self, ChecksumLine};
use super::spool::PieceReader;
use crate::digest::{Algorithm, Digest};

/// The digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) algorithm: Algorithm,
    pub(crate) digest: Digest,
}

/// The digest that a file was recorded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The path from the root.
    pub(crate) path: Vec<u8>,
    pub(crate) file: FileDigest,
}

impl From<Record> for ChecksumLine {
    fn from(Record { path, file }: Record) -> Self {
        Self {
            checksum: file.digest.into(),
            path,
            is_escaped: true,
            algorithm: Some(file.algorithm.into()),
        }
    }
}

/// Parses a line of a manifest into a record. `default` is the algorithm of lines that name none.
/// `is_foreign` tells that another program may have written the manifest.
///
/// Programs for Windows write paths with backslashes, which they do not escape as `sha256sum` does.
///
/// # Errors
///
/// The line is malformed.
pub(super) fn parse(
    line: &[u8],
    default: Algorithm,
    is_foreign: bool,
) -> Result<Record, line::ParseLineError> {
    let parsed = line::parse(line)?;
    let mut path = parsed.path;
    if is_foreign && !line.trim_ascii_start().starts_with(b"\\") {
        for byte in &mut path {
            if *byte == b'\\' {
                *byte = b'/';
            }
        }
    }
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest.to_vec();
    }
    Ok(Record {
        path,
        file: FileDigest {
            algorithm: parsed.algorithm.unwrap_or(default),
            digest: parsed.digest,
        },
    })
}

/// Reads the lines of a manifest that this tool wrote, which are sorted and have been verified.
#[derive(Debug)]
pub(super) struct LineReader<R = Reader> {
    lines: BufReader<R>,
    algorithm: Algorithm,
    line: Vec<u8>,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(contents: R, algorithm: Algorithm) -> Self {
        Self {
            lines: BufReader::with_capacity(64 << 10, contents),
            algorithm,
            line: Vec::new(),
        }
    }

    /// The next record.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read, or has changed since it was verified.
    fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            self.line.clear();
            if self.lines.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if !self.line.starts_with(b"#") {
                let record = parse(&self.line, self.algorithm, false);
                return record.map(Some).map_err(io::Error::other);
            }
        }
    }
}

/// Records in the order of their paths.
#[derive(Debug)]
pub(super) enum Sorted {
    Lines(LineReader),
    Piece(PieceReader),
}

impl Sorted {
    fn next(&mut self) -> io::Result<Option<Record>> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Piece(piece) => piece.next(),
        }
    }
}

/// The newest record of every path that any manifest knows, in the order of the paths.
///
/// Manifests are merged as they are read, so that a million records take no memory.
#[derive(Debug)]
pub(crate) struct Records {
    /// The newest comes first.
    inputs: Vec<Sorted>,
    /// The next record of each input. The heap yields the least path, and of equal paths the newest
    /// input.
    heads: BinaryHeap<Reverse<Head>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    record: Record,
    input: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (this, that) = (&self.record.path, &other.record.path);
        this.cmp(that).then(self.input.cmp(&other.input))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Records {
    /// Merges inputs, of which the newest comes first.
    ///
    /// # Errors
    ///
    /// An input cannot be read.
    pub(super) fn merge(inputs: Vec<Sorted>) -> io::Result<Self> {
        let heads = BinaryHeap::with_capacity(inputs.len());
        let mut records = Self { inputs, heads };
        for input in 0..records.inputs.len() {
            records.refill(input)?;
        }
        Ok(records)
    }

    fn refill(&mut self, input: usize) -> io::Result<()> {
        if let Some(record) = self.inputs[input].next()? {
            self.heads.push(Reverse(Head { record, input }));
        }
        Ok(())
    }

    /// The path of the next record.
    pub(crate) fn peek(&self) -> Option<&[u8]> {
        let Reverse(head) = self.heads.peek()?;
        Some(&head.record.path)
    }

    /// The next record.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse(Head { record, input })) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(input)?;
        while self.peek() == Some(&record.path)
            && let Some(Reverse(older)) = self.heads.pop()
        {
            self.refill(older.input)?;
        }
        Ok(Some(record))
    }

    /// The record of a path. Records before it are passed over.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn find(&mut self, path: &[u8]) -> io::Result<Option<Record>> {
        while self.peek().is_some_and(|next| next < path) {
            self.next()?;
        }
        if self.peek() == Some(path) {
            return self.next();
        }
        Ok(None)
    }
}
