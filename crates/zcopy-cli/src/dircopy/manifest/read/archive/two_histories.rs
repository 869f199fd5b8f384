//! The history of a destination, and that of a source, if neither goes on where the other one ends.

use std::io;

use super::{Archive, Inputs};
use crate::common::digest::AlgorithmSet;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::read::merge::Records;

/// Why a file cannot agree with both histories, or cannot be compared with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error("the histories of the source and the destination have different digests of it")]
    Differs,
    #[error(
        "it is not compared with the history of the source: its record leaves no room for a \
         function of it"
    )]
    NoRoom,
}

impl Archive {
    /// The functions by which files are compared with the history of the source: each file that it
    /// lists has a digest of one of them.
    pub(crate) fn compared_algorithms(&self) -> AlgorithmSet {
        self.compared_algorithms
    }

    /// The directories of histories below the root that have gone on in the destination, or that the
    /// source has another one of. The source has nothing for them.
    pub(crate) fn kept_histories(&self) -> &[Vec<u8>] {
        &self.kept_histories
    }

    /// The files that cannot agree with both histories, in the order of their paths.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be read.
    pub(crate) fn conflicts(&self) -> io::Result<Vec<(Vec<u8>, Conflict)>> {
        let [own, compared] = &self.older[..] else {
            return Ok(Vec::new());
        };
        let records = |inputs: &Inputs| Records::merge(inputs.sorted());
        let (mut own, mut compared) = (records(own)?, records(compared)?);
        let mut conflicts = Vec::new();
        while let Some(other) = compared.next()? {
            let file = own.find(&other.path)?.and_then(|record| record.file);
            let conflict = file
                .zip(other.file)
                .and_then(|(file, other)| conflict(file, other));
            conflicts.extend(conflict.map(|conflict| (other.path, conflict)));
        }
        Ok(conflicts)
    }
}

fn conflict(own: FileDigest, other: FileDigest) -> Option<Conflict> {
    match own.agreement(other) {
        Some(true) => None,
        Some(false) => Some(Conflict::Differs),
        None => {
            let joined = AlgorithmSet::from(own.joined(other).algorithm);
            let is_compared = joined.intersects(other.algorithm.into());
            (!is_compared).then_some(Conflict::NoRoom)
        }
    }
}

/// Functions of which each file has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cover(pub(super) AlgorithmSet);

impl Cover {
    /// Adds a function of a file, unless it has one of them. A file that there is no room for is a
    /// [conflict](Archive::conflicts).
    pub(super) fn add(&mut self, file: FileDigest) {
        let own = AlgorithmSet::from(file.algorithm);
        if !self.0.intersects(own) {
            let with_own = own.iter().find_map(|algorithm| self.0.with(algorithm));
            self.0 = with_own.unwrap_or(self.0);
        }
    }
}
