//! The lines and entries that the records of a tree are merged from.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use crate::dircopy::file_ranges::FileRanges;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::read::lines::Lines;
use crate::dircopy::manifest::read::merge::Sorted;
use crate::dircopy::manifest::read::spool::{Piece, PieceReader, Spool};
use crate::dircopy::manifest::record::{self, LineReader, Listed, Origin};

/// Lines and entries that are sorted by their paths. The newest come first.
#[derive(Debug)]
pub(super) struct Inputs {
    inputs: Vec<Input>,
    /// The temporary file that holds the pieces.
    spool: Option<Arc<File>>,
}

#[derive(Debug)]
enum Input {
    /// The lines of a manifest, which are sorted.
    Lines(FileRanges, Origin),
    Piece(Piece),
}

impl Inputs {
    /// The readers of all inputs.
    pub(super) fn sorted(&self) -> Vec<Sorted> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match (input, &self.spool) {
                (Input::Lines(contents, origin), _) => {
                    let lines = LineReader::new(contents.reader(), *origin);
                    inputs.push(Sorted::Lines(lines));
                }
                (Input::Piece(piece), Some(spool)) => {
                    inputs.push(Sorted::Piece(PieceReader::new(spool, piece.clone())));
                }
                // Every piece is in the spool.
                (Input::Piece(_), None) => {}
            }
        }
        inputs
    }
}

/// Collects [`Inputs`], the newest first. Sorts unsorted input on disk.
#[derive(Debug, Default)]
pub(super) struct InputsBuilder {
    inputs: Vec<Input>,
    spool: Option<Spool>,
}

impl InputsBuilder {
    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Adds the lines of a manifest, which are sorted and have been verified.
    pub(super) fn add_sorted_lines(&mut self, contents: FileRanges, origin: Origin) {
        self.inputs.push(Input::Lines(contents, origin));
    }

    /// Adds the lines of a manifest, each as the entry that `entry` returns for its path and
    /// digest, if any. Of several lines for a path the last one counts. Malformed lines are
    /// skipped.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read; the temporary file cannot be written.
    pub(super) fn add_lines(
        &mut self,
        contents: &FileRanges,
        origin: Origin,
        entry: impl Fn(&[u8], FileDigest) -> Option<JournalEntry>,
    ) -> io::Result<()> {
        let mut lines = Lines::of(contents.reader());
        self.sort(|| {
            while let Some(listed) = next_listed(&mut lines, origin)? {
                if let Some(entry) = entry(&listed.path, listed.file) {
                    return Ok(Some((listed.path, entry)));
                }
            }
            Ok(None)
        })
    }

    /// Sorts entries and adds them. The last ones are the newest.
    ///
    /// # Errors
    ///
    /// The error of `next`; the temporary file cannot be written.
    pub(super) fn sort(
        &mut self,
        next: impl FnMut() -> io::Result<Option<(Vec<u8>, JournalEntry)>>,
    ) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            spool => spool.insert(Spool::new()?),
        };
        let pieces = spool.sort(next)?;
        // The last piece has the newest entries.
        self.inputs
            .extend(pieces.into_iter().rev().map(Input::Piece));
        Ok(())
    }

    /// Ends the collecting.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn finish(self) -> io::Result<Inputs> {
        Ok(Inputs {
            inputs: self.inputs,
            spool: self.spool.map(Spool::finish).transpose()?,
        })
    }
}

/// The next line that is well-formed.
fn next_listed<R: Read>(lines: &mut Lines<R>, origin: Origin) -> io::Result<Option<Listed>> {
    while let Some(line) = lines.next()? {
        let parsed = line.and_then(|line| record::parse(&line, origin));
        if let Ok(listed) = parsed {
            return Ok(Some(listed));
        }
    }
    Ok(None)
}
