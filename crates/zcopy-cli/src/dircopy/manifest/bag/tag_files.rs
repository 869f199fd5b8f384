//! Reads the tag files of a bag.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::CStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};

use super::lines::{Lines, Listed, UncheckedPaths};
use super::{DECLARATION, PathBase};
use crate::common::digest::{Algorithm, AlgorithmSet};
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::walk::listing;

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

    pub(super) fn from_name(name: &CStr) -> Option<Self> {
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
    let mut manifests = manifests(root)?;
    manifests.retain(|manifest| manifest.listing == Listing::TagFiles);
    let mut verified = HashSet::new();
    for manifest in &manifests {
        if let Err(damage) = verify_tag_files(root, manifest, &mut verified, &mut damaged) {
            damaged.push((manifest.name.clone(), damage));
        }
    }
    for manifest in manifests {
        if manifest.algorithm.is_none()
            && let Err(damage) = verify_listed_elsewhere(root, &manifest, &verified)
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

/// Compares the files that a manifest lists with their digests, and adds their paths to `verified`.
fn verify_tag_files(
    root: BorrowedFd<'_>,
    manifest: &Manifest,
    verified: &mut HashSet<Vec<u8>>,
    damaged: &mut Vec<(String, Damage)>,
) -> Result<(), Damage> {
    let Some(algorithm) = manifest.algorithm else {
        return Ok(());
    };
    let mut lines = Lines::open(root, &manifest.name, algorithm).map_err(Damage::from_error)?;
    while let Some(Listed { path, checksum }) = lines.next()? {
        let damage = match checksum_of(root, &path, algorithm) {
            Ok(found) if found == checksum => None,
            Ok(_) => Some(Damage::Other(
                "it differs from its digest in the manifest of the tag files",
            )),
            Err(error) => Some(Damage::Unreadable(error)),
        };
        let name = damage.map(|damage| (String::from_utf8_lossy(&path).into_owned(), damage));
        damaged.extend(name);
        verified.insert(path);
    }
    Ok(())
}

/// Fails if a manifest whose digests cannot be made lists a tag file that no other one lists.
fn verify_listed_elsewhere(
    root: BorrowedFd<'_>,
    manifest: &Manifest,
    verified: &HashSet<Vec<u8>>,
) -> Result<(), Damage> {
    let mut paths = UncheckedPaths::open(root, &manifest.name).map_err(Damage::from_error)?;
    while let Some(path) = paths.next()? {
        if !verified.contains(&path) {
            return Err(Damage::UnknownFunction);
        }
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
        let lines = Lines::open(root, &manifest.name, algorithm)?;
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
        let path = path.ok_or(Damage::BagLine(self.lines.n_read()))?;
        Ok(Some((path, checksum)))
    }
}

/// The paths in a manifest of the payload whose digests cannot be made.
#[derive(Debug)]
pub(crate) struct UncheckedPayload<'a> {
    paths: UncheckedPaths<'a>,
    base: PathBase,
}

impl<'a> UncheckedPayload<'a> {
    /// Opens a manifest. `None` if its digests can be made.
    ///
    /// # Errors
    ///
    /// The manifest cannot be opened.
    pub(crate) fn open(
        root: BorrowedFd<'a>,
        manifest: &Manifest,
        base: PathBase,
    ) -> io::Result<Option<Self>> {
        if manifest.algorithm.is_some() {
            return Ok(None);
        }
        let paths = UncheckedPaths::open(root, &manifest.name)?;
        Ok(Some(Self { paths, base }))
    }

    /// The path of the next file in `data`.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(path) = self.paths.next()? {
            if path.starts_with(super::PAYLOAD) {
                return Ok(self.base.of_bag_path(path));
            }
        }
        Ok(None)
    }
}
