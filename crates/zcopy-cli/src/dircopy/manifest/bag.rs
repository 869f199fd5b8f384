//! Bags: trees whose tag files list the files below `data` (RFC 8493).
//!
//! - `path`: the paths in the lines of a manifest; `lines`: its lines.
//! - `tag_files`: reads the tag files of a bag, and compares them with their digests.
//! - `misread`: names that other programs may misread there.
//! - `info`: the lines of `bag-info.txt`.
//! - `write`: writes the tag files.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::AtFlags;

use super::journal::LeftJournal;
use super::kind::ManifestKind::Bag;
use super::read::damage::Damage;
use super::read::root_names::journals_in;
use tag_files::{Listing, Manifest};

pub(crate) mod misread;
pub(crate) mod tag_files;
pub(crate) mod write;

mod info;
mod lines;
mod path;

/// The file that declares a directory to be a bag.
pub(crate) const DECLARATION: &str = "bagit.txt";

/// The file with the metadata of a bag.
pub(crate) const INFO: &str = "bag-info.txt";

/// The directory of the files, with a slash.
pub(crate) const PAYLOAD: &[u8] = b"data/";

/// The file with the addresses of files that are not in the bag yet. This tool does not write it.
const FETCH: &str = "fetch.txt";

/// Whether a directory is a bag, or has the journal of a run that did not finish one.
pub(crate) fn is_in(root: BorrowedFd<'_>) -> bool {
    let declaration = rustix::fs::statat(root, DECLARATION, AtFlags::SYMLINK_NOFOLLOW);
    let has_journal = || {
        let journals = journals_in(root).unwrap_or_default();
        journals.into_iter().any(|name| {
            let entries = LeftJournal::new(name).entries(root);
            entries.is_ok_and(|entries| entries.is_some_and(|found| found.0.kind == Bag))
        })
    };
    declaration.is_ok() || has_journal()
}

/// The files of a root by which a bag is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BagFiles {
    has_declaration: bool,
    has_manifest: bool,
    has_tag_manifest: bool,
}

impl BagFiles {
    /// Adds a file by its name.
    pub(crate) fn add(&mut self, name: &CStr) {
        let manifest = Manifest::from_name(name);
        let is_of = |listing| manifest.as_ref().is_some_and(|one| one.listing == listing);
        self.has_declaration |= name.to_bytes() == DECLARATION.as_bytes();
        self.has_manifest |= is_of(Listing::Payload);
        self.has_tag_manifest |= is_of(Listing::TagFiles);
    }

    /// Whether these are the files of a bag. One of them may be missing, and the declaration alone
    /// makes no bag.
    pub(crate) fn is_bag(self) -> bool {
        let Self {
            has_declaration,
            has_manifest,
            has_tag_manifest,
        } = self;
        let n_found = [has_declaration, has_manifest, has_tag_manifest];
        n_found.iter().filter(|found| **found).count() > 1
    }
}

/// Fails if `bag-info.txt` tells another number of bytes or files than `data` has.
pub(crate) fn verify_total(root: BorrowedFd<'_>) -> Result<(), Damage> {
    info::verify(root)
}

/// Whether an entry of the root of a bag is the directory of its files, or a tag file that the
/// standard names.
pub(crate) fn has_name(name: &[u8], is_directory: bool) -> bool {
    if is_directory {
        return PAYLOAD.strip_suffix(b"/") == Some(name);
    }
    let named = [DECLARATION, INFO, FETCH];
    named.iter().any(|named| named.as_bytes() == name) || tag_files::is_manifest(name)
}

/// The directory that the paths of records begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathBase {
    /// The root of the bag: paths begin with `data/`.
    Bag,
    /// The directory `data` in it.
    Payload,
}

impl PathBase {
    /// A path of a file in the bag from this base. `None` if the file is elsewhere.
    pub(crate) fn of_bag_path(self, path: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Bag => Some(path),
            Self::Payload => Some(path.strip_prefix(PAYLOAD)?.to_vec()),
        }
    }

    /// A path from `data` as a path from this base.
    pub(crate) fn of_payload_path(self, path: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Bag => [PAYLOAD, &path].concat(),
            Self::Payload => path,
        }
    }

    /// The path from the root of the bag.
    fn bag_path(self, path: &[u8]) -> Vec<u8> {
        match self {
            Self::Bag => path.to_vec(),
            Self::Payload => [PAYLOAD, path].concat(),
        }
    }
}
