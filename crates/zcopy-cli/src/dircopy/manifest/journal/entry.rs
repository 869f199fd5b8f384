//! An entry of a journal.

use crate::common::digest::{Algorithm, Digest};
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
    /// No digest is known of the file that has this name now.
    Removed,
}

impl JournalEntry {
    /// The length of an entry in bytes, without its path.
    pub(crate) const BYTES: usize = 2 + Digest::BYTES;

    /// The sign of this kind of entry in a journal.
    pub(crate) fn sign(self) -> u8 {
        match self {
            Self::Announced(Announced::Adds(_)) => b'+',
            Self::Announced(Announced::Replaces(_)) => b'~',
            Self::Announced(Announced::Clears) => b'?',
            Self::Cancelled => b'!',
            Self::Has(_) => b'=',
            Self::Removed => b'-',
        }
    }

    /// The digest of the entry, or zeros.
    pub(crate) fn file(self) -> FileDigest {
        match self {
            Self::Announced(announced) => announced.file(),
            Self::Has(file) => file,
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
            Self::Removed => Change::REMOVED,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let FileDigest { algorithm, digest } = self.file();
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.sign();
        bytes[1] = match algorithm {
            Algorithm::Sha256 => b's',
            Algorithm::Blake3 => b'b',
        };
        bytes[2..].copy_from_slice(digest.as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let ([sign, algorithm], digest) = bytes.split_first_chunk()?;
        let algorithm = match algorithm {
            b's' => Algorithm::Sha256,
            _ => Algorithm::Blake3,
        };
        let digest = Digest::from_bytes(digest.try_into().ok()?);
        Self::from_parts(*sign, FileDigest { algorithm, digest })
    }
}
