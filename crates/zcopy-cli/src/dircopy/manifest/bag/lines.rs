//! The lines of a bag's manifests.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::BorrowedFd;

use super::path::{PercentSign, decode};
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::open_beneath::{self, Found};
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::manifest::read::lines::LONGEST;

/// How much is read at once, in bytes.
const BLOCK: usize = 64 << 10;

/// A line of a manifest: a path from the root of the bag, and its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: Vec<u8>,
    pub(super) checksum: Checksum,
}

/// The lines of a manifest.
#[derive(Debug)]
pub(super) struct Lines<'a, R = File> {
    root: BorrowedFd<'a>,
    pub(super) algorithm: ChecksumAlgorithm,
    source: LineSource<R>,
}

impl<'a> Lines<'a> {
    /// Opens a manifest in the root.
    ///
    /// # Errors
    ///
    /// The manifest cannot be opened.
    pub(super) fn open(
        root: BorrowedFd<'a>,
        name: &str,
        algorithm: ChecksumAlgorithm,
    ) -> io::Result<Self> {
        let (file, _) = open_regular(root, name)?;
        Ok(Self::of(root, algorithm, file))
    }
}

impl<'a, R: io::Read> Lines<'a, R> {
    pub(super) fn of(root: BorrowedFd<'a>, algorithm: ChecksumAlgorithm, source: R) -> Self {
        Self {
            root,
            algorithm,
            source: LineSource::of(source),
        }
    }

    /// The number of the line that was read last.
    pub(super) fn n_read(&self) -> u64 {
        self.source.n_read
    }

    /// The next line that is not blank.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read; the line is malformed.
    pub(super) fn next(&mut self) -> Result<Option<Listed>, Damage> {
        let Some(line) = self.source.next().map_err(Damage::Unreadable)? else {
            return Ok(None);
        };
        let listed = self.parse(&line);
        listed.map(Some).ok_or(Damage::BagLine(self.n_read()))
    }

    fn parse(&self, line: &[u8]) -> Option<Listed> {
        let (digits, path) = split(line)?;
        let checksum = Checksum::from_digits(digits)?;
        let has_digits = checksum.n_digits() == self.algorithm.n_digits();
        has_digits.then(|| Listed {
            path: decode_existing(self.root, path),
            checksum,
        })
    }
}

/// The paths in a manifest whose digests cannot be made.
#[derive(Debug)]
pub(super) struct UncheckedPaths<'a> {
    root: BorrowedFd<'a>,
    source: LineSource<File>,
}

impl<'a> UncheckedPaths<'a> {
    /// Opens a manifest in the root.
    ///
    /// # Errors
    ///
    /// The manifest cannot be opened.
    pub(super) fn open(root: BorrowedFd<'a>, name: &str) -> io::Result<Self> {
        let (file, _) = open_regular(root, name)?;
        Ok(Self {
            root,
            source: LineSource::of(file),
        })
    }

    /// The path in the next line that has one.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(line) = self.source.next()? {
            if let Some((_, path)) = split(&line) {
                return Ok(Some(decode_existing(self.root, path)));
            }
        }
        Ok(None)
    }
}

/// The lines of a manifest, as they stand in it.
#[derive(Debug)]
struct LineSource<R> {
    source: BufReader<R>,
    n_read: u64,
}

impl<R: io::Read> LineSource<R> {
    fn of(source: R) -> Self {
        Self {
            source: BufReader::with_capacity(BLOCK, source),
            n_read: 0,
        }
    }

    /// The next line that is not blank.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut line = Vec::new();
            let mut limited = self.source.by_ref().take(LONGEST);
            limited.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(None);
            }
            self.n_read += 1;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

/// The digits of a line, and its path as it is encoded.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blank = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let (digits, rest) = line.split_at(blank);
    let path = rest.trim_ascii_start();
    // md5deep and its like mark files that were read as binary.
    let path = path.strip_prefix(b"*").unwrap_or(path);
    let path = path.strip_prefix(b"./").unwrap_or(path);
    (!path.is_empty() && !path.contains(&0)).then_some((digits, path))
}

/// Decodes a path. If only a program that encodes no percent signs can have meant a file that
/// exists, the path is taken as this program wrote it.
fn decode_existing(root: BorrowedFd<'_>, encoded: &[u8]) -> Vec<u8> {
    let path = decode(encoded, PercentSign::Encoded);
    let plain = decode(encoded, PercentSign::Plain);
    let exists = |path: &[u8]| matches!(open_beneath::find(root, path), Ok(Found::RegularFile));
    if path != plain && !exists(&path) && exists(&plain) {
        plain
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn lines_have_blanks_between_the_digest_and_the_path() {
        let scratch = scratch();
        let root = open(scratch.path());
        let digits = "0".repeat(32);
        let text = format!(
            "{digits}  data/a b\n\n{digits}\tdata/c\r\n{digits} *data/d\n{digits}  ./data/e%0Af"
        );
        let mut lines = Lines::of(root.as_fd(), ChecksumAlgorithm::Md5, text.as_bytes());
        let paths = std::iter::from_fn(|| lines.next().unwrap());
        let paths: Vec<_> = paths.map(|listed| listed.path).collect();
        assert_eq!(
            paths,
            [&b"data/a b"[..], b"data/c", b"data/d", b"data/e\nf"]
        );
    }

    #[test]
    fn a_line_with_a_digest_of_another_length_is_malformed() {
        let scratch = scratch();
        let root = open(scratch.path());
        let text = format!("{}  data/a\n", "0".repeat(32));
        let mut lines = Lines::of(root.as_fd(), ChecksumAlgorithm::Sha256, text.as_bytes());
        assert_eq!(
            lines.next().unwrap_err().to_string(),
            "line 1: it is no digest and path of a bag"
        );
    }
}
