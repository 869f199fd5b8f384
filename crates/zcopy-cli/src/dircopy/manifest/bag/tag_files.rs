//! Reads the tag files of a bag.

use std::cmp::Reverse;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};

use super::path::{PercentSign, decode};
use super::{DECLARATION, PathBase};
use crate::common::digest::{Algorithm, AlgorithmSet};
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::open_beneath::{self, Found};
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::manifest::read::lines::LONGEST;
use crate::dircopy::walk::listing;

/// How much is read at once, in bytes.
const BLOCK: usize = 64 << 10;

/// The prefix of the names of manifests of the payload.
const MANIFEST: &str = "manifest-";

/// The prefix of the names of manifests of the tag files.
const TAG_MANIFEST: &str = "tagmanifest-";

/// Whether a file of the root with this name is a manifest, of the payload or of the tag files.
pub(super) fn is_manifest(name: &[u8]) -> bool {
    let prefixes = [MANIFEST, TAG_MANIFEST];
    let has_prefix = prefixes
        .iter()
        .any(|prefix| name.starts_with(prefix.as_bytes()));
    has_prefix && name.ends_with(b".txt")
}

/// Which files a manifest lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Payload,
    TagFiles,
}

/// A manifest of a bag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(super) listing: Listing,
    /// `None` if digests of this kind cannot be made.
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    pub(crate) name: String,
}

impl Manifest {
    pub(super) fn new(listing: Listing, algorithm: ChecksumAlgorithm) -> Self {
        let prefix = match listing {
            Listing::Payload => MANIFEST,
            Listing::TagFiles => TAG_MANIFEST,
        };
        Self {
            listing,
            algorithm: Some(algorithm),
            name: format!("{prefix}{}.txt", algorithm.name()),
        }
    }

    fn from_name(name: &CStr) -> Option<Self> {
        let name = name.to_str().ok()?;
        let stem = name.strip_suffix(".txt")?;
        let (listing, algorithm) = if let Some(algorithm) = stem.strip_prefix(MANIFEST) {
            (Listing::Payload, algorithm)
        } else {
            (Listing::TagFiles, stem.strip_prefix(TAG_MANIFEST)?)
        };
        let is_named = |known: &ChecksumAlgorithm| known.name() == algorithm;
        Some(Self {
            listing,
            algorithm: ChecksumAlgorithm::ALL.into_iter().find(is_named),
            name: name.to_owned(),
        })
    }

    /// When the file was modified.
    pub(crate) fn modified(&self, root: BorrowedFd<'_>) -> io::Result<Timestamp> {
        let (file, _) = open_regular(root, &*self.name)?;
        Timestamp::try_from(file.metadata()?.modified()?).map_err(io::Error::other)
    }
}

/// All manifests in the root of a bag, sorted by their names.
///
/// # Errors
///
/// The root cannot be listed.
pub(super) fn manifests(root: BorrowedFd<'_>) -> io::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    listing::each(directory.as_fd(), |name, _| {
        manifests.extend(Manifest::from_name(name));
    })?;
    manifests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(manifests)
}

/// Whether the root has manifests of the payload or of tag files.
///
/// # Errors
///
/// The root cannot be listed.
pub(super) fn has_manifests(root: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(!manifests(root)?.is_empty())
}

/// The manifests of the payload, those with the longest digests first.
///
/// # Errors
///
/// The root cannot be listed.
pub(crate) fn payload_manifests(root: BorrowedFd<'_>) -> io::Result<Vec<Manifest>> {
    let mut manifests = manifests(root)?;
    manifests.retain(|manifest| manifest.listing == Listing::Payload);
    manifests.sort_by_key(|manifest| Reverse(manifest.algorithm.map(ChecksumAlgorithm::n_digits)));
    Ok(manifests)
}

/// The algorithm of the digests in all these manifests, as far as there is room.
pub(crate) fn algorithm_of(manifests: &[Manifest]) -> Option<Algorithm> {
    let mut set = AlgorithmSet::default();
    for algorithm in manifests.iter().filter_map(|manifest| manifest.algorithm) {
        set = set.with(algorithm).unwrap_or(set);
    }
    (set != AlgorithmSet::default()).then(|| set.into())
}

/// Compares the tag files with their digests. Returns the names of the damaged ones.
///
/// # Errors
///
/// The root cannot be listed.
pub(crate) fn verify(root: BorrowedFd<'_>) -> io::Result<Vec<(String, Damage)>> {
    let mut damaged = Vec::new();
    if let Err(damage) = verify_declaration(root) {
        damaged.push((DECLARATION.to_owned(), damage));
    }
    for manifest in manifests(root)? {
        if manifest.listing == Listing::TagFiles
            && let Err(damage) = verify_tag_files(root, &manifest, &mut damaged)
        {
            damaged.push((manifest.name, damage));
        }
    }
    Ok(damaged)
}

/// Fails unless the tag files are in UTF-8.
fn verify_declaration(root: BorrowedFd<'_>) -> Result<(), Damage> {
    let text = contents(root, DECLARATION).map_err(Damage::from_error)?;
    let text = String::from_utf8(text).map_err(|_| Damage::Other("it is not in UTF-8"))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let value = |line: Option<&str>, label| {
        let (found, value) = line?.split_once(':')?;
        (found == label).then(|| value.trim().to_ascii_lowercase())
    };
    let version = value(lines.next(), "BagIt-Version");
    let encoding = value(lines.next(), "Tag-File-Character-Encoding");
    match (version, encoding.as_deref()) {
        (Some(_), Some("utf-8")) => Ok(()),
        (Some(_), Some(_)) => Err(Damage::Other("its tag files are not in UTF-8")),
        _ => Err(Damage::Other("it declares no version and no encoding")),
    }
}

fn verify_tag_files(
    root: BorrowedFd<'_>,
    manifest: &Manifest,
    damaged: &mut Vec<(String, Damage)>,
) -> Result<(), Damage> {
    let Some(algorithm) = manifest.algorithm else {
        return Ok(());
    };
    let mut lines = Lines::open(root, manifest, algorithm).map_err(Damage::from_error)?;
    while let Some(Listed { path, checksum }) = lines.next()? {
        let damage = match checksum_of(root, &path, algorithm) {
            Ok(found) if found == checksum => continue,
            Ok(_) => Damage::Other("it differs from its digest in the manifest of the tag files"),
            Err(error) => Damage::Unreadable(error),
        };
        damaged.push((String::from_utf8_lossy(&path).into_owned(), damage));
    }
    Ok(())
}

/// The checksum of a file of the bag.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn checksum_of(
    root: BorrowedFd<'_>,
    path: &[u8],
    algorithm: ChecksumAlgorithm,
) -> io::Result<Checksum> {
    Checksum::of(open_beneath::open(root, path)?, algorithm)
}

/// The contents of a tag file in the root.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn contents(root: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let (mut file, _) = open_regular(root, name)?;
    let mut contents = Vec::new();
    file.read_to_end(&mut contents)?;
    Ok(contents)
}

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
    algorithm: ChecksumAlgorithm,
    source: BufReader<R>,
    n_read: u64,
}

impl<'a> Lines<'a> {
    fn open(
        root: BorrowedFd<'a>,
        manifest: &Manifest,
        algorithm: ChecksumAlgorithm,
    ) -> io::Result<Self> {
        let (file, _) = open_regular(root, &*manifest.name)?;
        Ok(Self::of(root, algorithm, file))
    }
}

impl<'a, R: io::Read> Lines<'a, R> {
    pub(super) fn of(root: BorrowedFd<'a>, algorithm: ChecksumAlgorithm, source: R) -> Self {
        Self {
            root,
            algorithm,
            source: BufReader::with_capacity(BLOCK, source),
            n_read: 0,
        }
    }

    /// The next line that is not blank.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read; the line is malformed.
    pub(super) fn next(&mut self) -> Result<Option<Listed>, Damage> {
        loop {
            let mut line = Vec::new();
            let mut limited = self.source.by_ref().take(LONGEST);
            limited
                .read_until(b'\n', &mut line)
                .map_err(Damage::Unreadable)?;
            if line.is_empty() {
                return Ok(None);
            }
            self.n_read += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let listed = self.parse(&line);
            return listed.map(Some).ok_or(Damage::BagLine(self.n_read));
        }
    }

    fn parse(&self, line: &[u8]) -> Option<Listed> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let blank = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
        let (digits, rest) = line.split_at(blank);
        let path = rest.trim_ascii_start();
        // md5deep and its like mark files that were read as binary.
        let path = path.strip_prefix(b"*").unwrap_or(path);
        let path = path.strip_prefix(b"./").unwrap_or(path);
        let checksum = Checksum::from_digits(digits)?;
        let is_well_formed = checksum.n_digits() == self.algorithm.n_digits()
            && !path.is_empty()
            && !path.contains(&0);
        is_well_formed.then(|| Listed {
            path: self.decode(path),
            checksum,
        })
    }

    /// Decodes a path. If only a program that encodes no percent signs can have meant a file that
    /// exists, the path is taken as this program wrote it.
    fn decode(&self, encoded: &[u8]) -> Vec<u8> {
        let path = decode(encoded, PercentSign::Encoded);
        let plain = decode(encoded, PercentSign::Plain);
        let exists =
            |path: &[u8]| matches!(open_beneath::find(self.root, path), Ok(Found::RegularFile));
        if path != plain && !exists(&path) && exists(&plain) {
            plain
        } else {
            path
        }
    }
}

/// The lines of a manifest of the payload.
#[derive(Debug)]
pub(crate) struct PayloadLines<'a> {
    lines: Lines<'a>,
    base: PathBase,
}

impl<'a> PayloadLines<'a> {
    /// The algorithm of the checksums.
    pub(crate) fn algorithm(&self) -> ChecksumAlgorithm {
        self.lines.algorithm
    }

    /// Opens a manifest. `None` if digests of its kind cannot be made.
    ///
    /// # Errors
    ///
    /// The manifest cannot be opened.
    pub(crate) fn open(
        root: BorrowedFd<'a>,
        manifest: &Manifest,
        base: PathBase,
    ) -> io::Result<Option<Self>> {
        let Some(algorithm) = manifest.algorithm else {
            return Ok(None);
        };
        let lines = Lines::open(root, manifest, algorithm)?;
        Ok(Some(Self { lines, base }))
    }

    /// The path of the next file, and its checksum.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read; the line is malformed, or names a file outside of `data`.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, Checksum)>, Damage> {
        let Some(Listed { path, checksum }) = self.lines.next()? else {
            return Ok(None);
        };
        let is_payload = path.starts_with(super::PAYLOAD);
        let path = self.base.of_bag_path(path).filter(|_| is_payload);
        let path = path.ok_or(Damage::BagLine(self.lines.n_read))?;
        Ok(Some((path, checksum)))
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
