//! Digests of directories.
//!
//! The content digest of a directory is that of the sorted digests of its files and directories. The
//! structure digest has, in place of each, the digest of its name and its digest.

use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm, Hasher};

/// The digests of a directory, by one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryDigest {
    pub(super) content: Checksum,
    pub(super) structure: Checksum,
}

/// The entries of a directory, by one function.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    algorithm: ChecksumAlgorithm,
    content: Vec<Checksum>,
    structure: Vec<Checksum>,
}

impl Entries {
    pub(super) fn new(algorithm: ChecksumAlgorithm) -> Self {
        Self {
            algorithm,
            content: Vec::new(),
            structure: Vec::new(),
        }
    }

    pub(super) fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Adds a file.
    pub(super) fn add_file(&mut self, name: &[u8], checksum: Checksum) {
        self.add(name, checksum, checksum);
    }

    /// Adds a directory.
    pub(super) fn add_directory(&mut self, name: &[u8], digest: DirectoryDigest) {
        self.add(name, digest.content, digest.structure);
    }

    fn add(&mut self, name: &[u8], content: Checksum, structure: Checksum) {
        let mut hasher = Hasher::new(self.algorithm);
        hasher.update(name);
        hasher.update(structure.as_bytes());
        self.content.push(content);
        self.structure.push(hasher.finish());
    }

    /// The digests of the directory.
    pub(super) fn finish(self) -> DirectoryDigest {
        let algorithm = self.algorithm;
        let digest = |mut checksums: Vec<Checksum>| {
            checksums.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
            let mut hasher = Hasher::new(algorithm);
            for checksum in checksums {
                hasher.update(checksum.as_bytes());
            }
            hasher.finish()
        };
        DirectoryDigest {
            content: digest(self.content),
            structure: digest(self.structure),
        }
    }
}
