//! The kinds of manifests that a destination can have.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::bag::{self, BagFiles};
use super::journal::LeftJournal;
use super::mhl::{self, history::History};
use super::name::Name;
use super::read::root_names::names_and_journals_in;
use crate::common::cli::quote::quoted;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::common::digest::{Algorithm, AlgorithmSet, Digest};

/// The kind of a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestKind {
    /// Lines of `sha256sum` or `b3sum`.
    #[default]
    Sums,
    /// The tag files of a bag (RFC 8493). The files are below `data`.
    Bag,
    /// The history of ASC MHL 2.0.
    Mhl,
}

/// The reason why an entry cannot have a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unrecordable {
    #[error("a bag cannot list it, as its name is not UTF-8")]
    BagName,
    #[error("a bag has regular files alone; -L copies the files that symbolic links lead to")]
    BagFileType,
    #[error("a history cannot list it, as XML cannot have its name")]
    MhlName,
    #[error("a history has regular files alone; -L copies the files that symbolic links lead to")]
    MhlFileType,
    #[error("the history needs its name for a directory")]
    MhlDirectory,
}

impl ManifestKind {
    /// The word of `--manifest`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Sums => "sha256sum",
            Self::Bag => "bagit",
            Self::Mhl => "ascmhl",
        }
    }

    /// The kind with this word.
    pub(crate) fn from_word(word: &[u8]) -> Option<Self> {
        let kinds = [Self::Sums, Self::Bag, Self::Mhl];
        kinds
            .into_iter()
            .find(|kind| kind.word().as_bytes() == word)
    }

    /// The directory that the files are copied to.
    pub(crate) fn payload(self, destination: &Path) -> PathBuf {
        match self {
            Self::Sums | Self::Mhl => destination.to_owned(),
            Self::Bag => destination.join("data"),
        }
    }

    /// Paths from the root of the destination as paths from the directory that the files are copied
    /// to.
    ///
    /// # Errors
    ///
    /// A message, if a path leads elsewhere.
    pub(crate) fn payload_paths(
        self,
        paths: BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>, String> {
        match self {
            Self::Sums | Self::Mhl => Ok(paths),
            Self::Bag => {
                let from_payload = |path: Vec<u8>| {
                    let name = quoted(OsStr::from_bytes(&path));
                    let outside =
                        || format!("{name} is not a path in data, where a bag has its files");
                    path.strip_prefix(bag::PAYLOAD)
                        .map(<[u8]>::to_vec)
                        .ok_or_else(outside)
                };
                paths.into_iter().map(from_payload).collect()
            }
        }
    }

    /// Whether the manifest is only written after a run without a failure. Until then the journals
    /// keep the digests.
    pub(crate) fn needs_success(self) -> bool {
        match self {
            Self::Sums | Self::Mhl => false,
            Self::Bag => true,
        }
    }

    /// Whether every file has to have a record.
    pub(crate) fn lists_all(self) -> bool {
        match self {
            Self::Sums | Self::Mhl => false,
            Self::Bag => true,
        }
    }

    /// Whether the first digest of a file counts for ever.
    pub(crate) fn keeps_first_digest(self) -> bool {
        match self {
            Self::Sums | Self::Bag => false,
            Self::Mhl => true,
        }
    }

    /// The functions that the manifest can have digests of. The first one is the default.
    fn algorithms(self) -> &'static [ChecksumAlgorithm] {
        match self {
            Self::Sums => &[ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Blake3],
            Self::Bag => &[
                ChecksumAlgorithm::Sha256,
                ChecksumAlgorithm::Sha512,
                ChecksumAlgorithm::Sha1,
                ChecksumAlgorithm::Md5,
            ],
            Self::Mhl => &[
                ChecksumAlgorithm::Xxh128,
                ChecksumAlgorithm::Xxh64,
                ChecksumAlgorithm::Xxh3,
                ChecksumAlgorithm::Md5,
                ChecksumAlgorithm::Sha1,
                ChecksumAlgorithm::Sha512,
            ],
        }
    }

    /// The name that the manifest has for a function.
    pub(crate) fn name_of(self, algorithm: ChecksumAlgorithm) -> &'static str {
        match (self, algorithm) {
            (Self::Mhl, ChecksumAlgorithm::Sha512) => "c4",
            (_, algorithm) => algorithm.name(),
        }
    }

    /// A checksum as the manifest writes it.
    pub(crate) fn text_of(self, algorithm: ChecksumAlgorithm, checksum: &Checksum) -> String {
        match self {
            Self::Mhl => mhl::text_of(algorithm, checksum),
            Self::Sums | Self::Bag => checksum.to_string(),
        }
    }

    /// The algorithm of digests that consist of those of these functions, or of the default one.
    ///
    /// # Errors
    ///
    /// A message, if the manifest cannot have them.
    pub(crate) fn algorithm(self, wanted: &[ChecksumAlgorithm]) -> Result<Algorithm, String> {
        let possible = self.algorithms();
        let word = self.word();
        if let Some(other) = wanted.iter().find(|wanted| !possible.contains(wanted)) {
            let names = possible.iter().map(|one| self.name_of(*one));
            let names = names.collect::<Vec<_>>().join(", ");
            let other = other.name();
            return Err(format!(
                "--hash={other} does not go with --manifest={word}, which has digests of {names}"
            ));
        }
        if self == Self::Sums && wanted.len() > 1 {
            return Err(format!("--manifest={word} has digests of one function"));
        }
        let wanted = match wanted {
            [] => &possible[..1],
            wanted => wanted,
        };
        let mut set = AlgorithmSet::default();
        for algorithm in wanted {
            let too_long = || {
                format!(
                    "--hash names too many functions: their digests of a file have more than {} bytes",
                    Digest::MAX_BYTES
                )
            };
            set = set.with(*algorithm).ok_or_else(too_long)?;
        }
        Ok(set.into())
    }

    /// Why an entry cannot have a record, if it cannot.
    pub(crate) fn refusal(self, path: &Path, file_type: FileType) -> Option<Unrecordable> {
        match self {
            Self::Sums => None,
            Self::Bag if file_type != FileType::RegularFile => Some(Unrecordable::BagFileType),
            Self::Bag => path.to_str().is_none().then_some(Unrecordable::BagName),
            Self::Mhl if file_type != FileType::RegularFile => Some(Unrecordable::MhlFileType),
            Self::Mhl if path == Path::new(mhl::DIRECTORY) => Some(Unrecordable::MhlDirectory),
            Self::Mhl => {
                let is_text = path.to_str().is_some_and(mhl::can_have);
                (!is_text).then_some(Unrecordable::MhlName)
            }
        }
    }

    /// The kinds of the manifests in the root of a tree, and of those that killed runs would have
    /// written, whose journals are there.
    ///
    /// # Errors
    ///
    /// The root cannot be listed.
    pub(crate) fn present(root: BorrowedFd<'_>) -> io::Result<Vec<Self>> {
        let found = Self::found(root)?;
        // A run that ended meanwhile may have hidden from the listing: it gives its manifest a name,
        // and then removes its journal.
        if found.is_empty() {
            return Self::found(root);
        }
        Ok(found)
    }

    fn found(root: BorrowedFd<'_>) -> io::Result<Vec<Self>> {
        let mut bag = BagFiles::default();
        let (names, journals) = names_and_journals_in(root, |name| bag.add(name))?;
        let headers = journals.into_iter().filter_map(|name| {
            // A journal that cannot be read is reported later.
            let entries = LeftJournal::new(name).entries(root).ok()??;
            Some(entries.0.kind)
        });
        let begun: Vec<_> = headers.collect();
        let is_present = |kind: &Self| {
            let is_written = match kind {
                Self::Sums => !names.is_empty(),
                Self::Bag => bag.is_bag(),
                Self::Mhl => History::is_in(root),
            };
            is_written || begun.contains(kind)
        };
        let kinds = [Self::Sums, Self::Bag, Self::Mhl].into_iter();
        Ok(kinds.filter(is_present).collect())
    }

    /// The first [kind](Self::present) in the root of a tree.
    ///
    /// # Errors
    ///
    /// The root cannot be listed.
    pub(crate) fn detect(root: BorrowedFd<'_>) -> io::Result<Self> {
        let present = Self::present(root)?;
        Ok(present.first().copied().unwrap_or_default())
    }

    /// Whether a file with this path from the root may be a part of a manifest of this kind.
    pub(crate) fn may_own(self, path: &[u8]) -> bool {
        let is_in_root = !path.contains(&b'/');
        match self {
            Self::Sums => is_in_root && is_list(path),
            Self::Bag => is_in_root && bag::has_name(path, false),
            Self::Mhl => path.split(|byte| *byte == b'/').next() == Some(mhl::DIRECTORY.as_bytes()),
        }
    }
}

/// Whether this is the name of a list of digests, or of the comments of one.
pub(crate) fn is_list(name: &[u8]) -> bool {
    let Ok(name) = str::from_utf8(name) else {
        return false;
    };
    let name = name.strip_suffix(super::INFO).unwrap_or(name);
    name.parse::<Name>().is_ok()
}
