//! The result of the verification of one file.

use std::io;
use std::time::Duration;

use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::reporter::summary::{per_second, rate};

/// The result for one file or line.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The file has the digest.
    Matches(Hashed),
    /// The file has another digest.
    Differs(Hashed),
    /// The file does not exist.
    Missing(io::Error),
    /// The file could not be opened, or not be read to its end.
    Unreadable(io::Error),
    /// No manifest lists the file.
    Unlisted,
    /// No manifest lists the file, and a map beside it says that bytes are missing.
    Damaged,
    /// The line is malformed.
    Malformed,
    /// A signal came before the end of the file.
    Interrupted,
}

/// How a file was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) source: AlgorithmSource,
}

/// How the algorithm of a checksum is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlgorithmSource {
    /// A record, the line or an option names it.
    Named,
    /// The name of the list or the number of digits implies it.
    Implied,
}

/// The result for one file. The path is empty if the line is malformed.
#[derive(Debug)]
pub(crate) struct FileResult {
    pub(crate) path: Vec<u8>,
    pub(crate) verdict: Verdict,
}

impl FileResult {
    /// The bytes of memory that this takes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Option<Self>>() + self.path.capacity()
    }

    /// The bytes of the file, if it was read to its end.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.verdict {
            Verdict::Matches(hashed) | Verdict::Differs(hashed) => hashed.bytes,
            _ => 0,
        }
    }
}

impl Verdict {
    /// The result in `sha256sum`'s words.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Matches(_) => "OK",
            Self::Differs(_) => "FAILED",
            Self::Missing(_) | Self::Unreadable(_) => "FAILED open or read",
            Self::Unlisted => "FAILED not listed",
            Self::Damaged => "FAILED damaged",
            // They have no line.
            Self::Malformed | Self::Interrupted => "",
        }
    }

    /// The algorithm, the size and the rate of a file that was read to its end.
    pub(super) fn details(&self) -> String {
        let (Self::Matches(hashed) | Self::Differs(hashed)) = self else {
            return String::new();
        };
        let Hashed {
            algorithm,
            bytes,
            elapsed,
            ..
        } = hashed;
        let rate = rate(per_second(*bytes, *elapsed));
        let plural = if *bytes == 1 { "" } else { "s" };
        format!(" ({}, {bytes} byte{plural}, {rate})", algorithm.name())
    }
}
