//! Bags: trees whose tag files list the files below `data` (RFC 8493).
//!
//! - `path`: the paths in the lines of a manifest.
//! - `tag_files`: reads the tag files of a bag, and compares them with their digests.
//! - `info`: the lines of `bag-info.txt`.
//! - `write`: writes the tag files.

pub(crate) mod tag_files;
pub(crate) mod write;

mod info;
mod path;

/// The file that declares a directory to be a bag.
pub(crate) const DECLARATION: &str = "bagit.txt";

/// The file with the metadata of a bag.
const INFO: &str = "bag-info.txt";

/// The directory of the files, with a slash.
pub(crate) const PAYLOAD: &[u8] = b"data/";

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
