//! Records that are sorted on disk.
//!
//! Manifests of this tool are sorted by path. Others may be in any order, and so are journals: their
//! records are sorted in pieces that fit in memory, and each piece is written to a temporary file.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::sync::Arc;

use super::contents::{Contents, FileRange, Reader};
use super::record::{FileDigest, Record};
use crate::digest::{Algorithm, Digest};

/// How many bytes of records are sorted at once.
const PIECE: usize = 4 << 20;

/// How many bytes each reader of a piece reads ahead. There may be hundreds.
const READ_AHEAD: usize = 16 << 10;

/// A temporary file of sorted pieces, without a name.
#[derive(Debug)]
pub(super) struct Spool {
    file: BufWriter<File>,
    /// How long the file is.
    n_bytes: u64,
}

/// A piece of a spool: records in the order of their paths.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    start: u64,
    end: u64,
}

impl Spool {
    /// Begins an empty one in the directory for temporary files.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile()?),
            n_bytes: 0,
        })
    }

    /// Sorts records and stores them. Of several records for one path, the last one of each piece
    /// stays. Returns the pieces in the order of the records.
    ///
    /// # Errors
    ///
    /// That of `next`; the temporary file cannot be written.
    pub(super) fn sort(
        &mut self,
        mut next: impl FnMut() -> io::Result<Option<Record>>,
    ) -> io::Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut records = Vec::new();
        let mut n_bytes = 0;
        while let Some(record) = next()? {
            n_bytes += size_of::<Record>() + record.path.capacity();
            records.push(record);
            if n_bytes >= PIECE {
                pieces.push(self.store(&mut records)?);
                n_bytes = 0;
            }
        }
        if !records.is_empty() {
            pieces.push(self.store(&mut records)?);
        }
        Ok(pieces)
    }

    fn store(&mut self, records: &mut Vec<Record>) -> io::Result<Piece> {
        // Records for the same path stay in their order.
        records.sort_by(|a, b| a.path.cmp(&b.path));
        let start = self.n_bytes;
        let mut records = records.drain(..).peekable();
        while let Some(record) = records.next() {
            if records.peek().is_some_and(|next| next.path == record.path) {
                continue;
            }
            let algorithm = match record.file.algorithm {
                Algorithm::Sha256 => b's',
                Algorithm::Blake3 => b'b',
            };
            self.file.write_all(&[algorithm])?;
            self.file.write_all(record.file.digest.as_bytes())?;
            self.file.write_all(&record.path)?;
            // No path has a NUL.
            self.file.write_all(&[0])?;
            self.n_bytes += (1 + Digest::BYTES + record.path.len() + 1) as u64;
        }
        let end = self.n_bytes;
        Ok(Piece { start, end })
    }

    /// Ends the writing.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn finish(self) -> io::Result<Arc<File>> {
        let mut file = self.file.into_inner().map_err(io::Error::from)?;
        file.rewind()?;
        Ok(Arc::new(file))
    }
}

/// Reads a piece.
#[derive(Debug)]
pub(super) struct PieceReader(BufReader<Reader>);

impl PieceReader {
    pub(super) fn new(file: &Arc<File>, Piece { start, end }: Piece) -> Self {
        let file = Arc::clone(file);
        let contents = Contents::new(vec![FileRange { file, start, end }]);
        Self(BufReader::with_capacity(READ_AHEAD, contents.reader()))
    }

    /// The next record.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        let mut algorithm = [0];
        if self.0.read(&mut algorithm)? == 0 {
            return Ok(None);
        }
        let mut digest = [0; Digest::BYTES];
        self.0.read_exact(&mut digest)?;
        let mut path = Vec::new();
        self.0.read_until(0, &mut path)?;
        path.pop();
        Ok(Some(Record {
            path,
            file: FileDigest {
                algorithm: match algorithm {
                    [b'b'] => Algorithm::Blake3,
                    _ => Algorithm::Sha256,
                },
                digest: Digest::from_bytes(digest),
            },
        }))
    }
}
