//! The records of all manifests of a tree, merged by their paths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::spool::PieceReader;
use crate::dircopy::manifest::record::{Change, LineReader, Record};

/// Changes in the order of their paths, each path once.
#[derive(Debug)]
pub(crate) enum Sorted {
    Lines(LineReader),
    Piece(PieceReader),
}

impl Sorted {
    fn next(&mut self) -> io::Result<Option<(Vec<u8>, Change)>> {
        match self {
            Self::Lines(lines) => {
                let listed = lines.next()?;
                Ok(listed.map(|listed| (listed.path, Change::has(listed.file))))
            }
            Self::Piece(piece) => piece.next(),
        }
    }
}

/// The record of every path that any manifest has, in the order of the paths. Newer manifests take
/// precedence.
///
/// Manifests are merged as they are read, so that a million records take no memory.
#[derive(Debug)]
pub(crate) struct Records {
    /// The newest comes first.
    inputs: Vec<Sorted>,
    /// The next change of each input. The heap yields the least path, and of equal paths the newest
    /// input.
    heads: BinaryHeap<Reverse<Head>>,
    /// The record that comes next.
    next: Option<Record>,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    path: Vec<u8>,
    input: usize,
    change: Change,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let paths = self.path.cmp(&other.path);
        paths.then(self.input.cmp(&other.input))
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
    pub(crate) fn merge(inputs: Vec<Sorted>) -> io::Result<Self> {
        let heads = BinaryHeap::with_capacity(inputs.len());
        let mut records = Self {
            inputs,
            heads,
            next: None,
        };
        for input in 0..records.inputs.len() {
            records.refill(input)?;
        }
        records.advance()?;
        Ok(records)
    }

    fn refill(&mut self, input: usize) -> io::Result<()> {
        if let Some((path, change)) = self.inputs[input].next()? {
            self.heads.push(Reverse(Head {
                path,
                input,
                change,
            }));
        }
        Ok(())
    }

    /// Finds the record that comes next.
    fn advance(&mut self) -> io::Result<()> {
        self.next = None;
        while self.next.is_none()
            && let Some(Reverse(newest)) = self.heads.pop()
        {
            self.refill(newest.input)?;
            let mut change = newest.change;
            let is_same = |head: &Reverse<Head>| head.0.path == newest.path;
            while self.heads.peek().is_some_and(is_same)
                && let Some(Reverse(older)) = self.heads.pop()
            {
                self.refill(older.input)?;
                change = change.after(older.change);
            }
            self.next = change.into_record(newest.path);
        }
        Ok(())
    }

    /// The path of the next record.
    pub(crate) fn peek(&self) -> Option<&[u8]> {
        Some(&self.next.as_ref()?.path)
    }

    /// The next record.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record>> {
        let record = self.next.take();
        self.advance()?;
        Ok(record)
    }

    /// The record of a path. Skips the records before it.
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
