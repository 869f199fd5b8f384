//! An entry of a journal.

use crate::common::digest::{AlgorithmSet, Digest};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::record::{Announced, Change};

/// A change of the copy of a file, made or announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalEntry {
    /// A file is about to be added or replaced.
    Announced(Announced),
    /// The announced change has not been made.
    Cancelled,
    /// The file has this digest.
    Has(FileDigest),
    /// The file has this digest, and maybe others of other functions.
    HasAlso(FileDigest),
    /// No digest is known of the file that has this name now.
    Removed,
}

impl JournalEntry {
    /// The length of the head of an entry in bytes: its sign, and its algorithms.
    pub(crate) const HEAD_BYTES: usize = 2;

    /// The sign of this kind of entry in a journal.
    pub(crate) fn sign(self) -> u8 {
        match self {
            Self::Announced(Announced::Adds(_)) => b'+',
            Self::Announced(Announced::Replaces(_)) => b'~',
            Self::Announced(Announced::Clears) => b'?',
            Self::Cancelled => b'!',
            Self::Has(_) => b'=',
            Self::HasAlso(_) => b'&',
            Self::Removed => b'-',
        }
    }

    /// The digest of the entry, or zeros.
    pub(crate) fn file(self) -> FileDigest {
        match self {
            Self::Announced(announced) => announced.file(),
            Self::Has(file) | Self::HasAlso(file) => file,
            Self::Cancelled | Self::Removed => FileDigest::NONE,
        }
    }

    /// The entry of this kind.
    pub(crate) fn from_parts(sign: u8, file: FileDigest) -> Option<Self> {
        match sign {
            b'+' => Some(Self::Announced(Announced::Adds(file))),
            b'~' => Some(Self::Announced(Announced::Replaces(file))),
            b'?' => Some(Self::Announced(Announced::Clears)),
            b'!' => Some(Self::Cancelled),
            b'=' => Some(Self::Has(file)),
            b'&' => Some(Self::HasAlso(file)),
            b'-' => Some(Self::Removed),
            _ => None,
        }
    }

    /// The change that the entry makes to the record.
    pub(crate) fn change(self) -> Change {
        match self {
            Self::Announced(announced) => Change::announced(announced),
            Self::Cancelled => Change::CANCELLED,
            Self::Has(file) => Change::has(file),
            Self::HasAlso(file) => Change::has_also(file),
            Self::Removed => Change::REMOVED,
        }
    }

    /// Its bytes: the head, and the digest.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let FileDigest { algorithm, digest } = self.file();
        let head = [self.sign(), AlgorithmSet::from(algorithm).bits()];
        [&head, digest.as_bytes()].concat()
    }

    /// The length of the digest behind a head.
    pub(crate) fn digest_bytes(head: [u8; Self::HEAD_BYTES]) -> Option<usize> {
        Some(AlgorithmSet::from_bits(head[1])?.n_bytes())
    }

    /// The entry with this head and this digest.
    pub(crate) fn from_parts_of(head: [u8; Self::HEAD_BYTES], digest: &[u8]) -> Option<Self> {
        let [sign, bits] = head;
        let file = FileDigest {
            algorithm: AlgorithmSet::from_bits(bits)?.into(),
            digest: Digest::from_slice(digest)?,
        };
        Self::from_parts(sign, file)
    }
}
