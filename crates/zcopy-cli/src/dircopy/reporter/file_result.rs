//! The result of one entry, which `--json` writes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::plan::Kind;

/// What became of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Its bytes were written.
    Copied,
    /// The copy shares the blocks of the original.
    Cloned,
    /// Its name was linked to the copy of another name.
    Linked,
    /// A symbolic link or special file was made.
    Made,
    /// What the destination has was left.
    Skipped,
    /// It was not copied, or the copy may not be whole. This was reported.
    #[default]
    Failed,
}

/// The result of an entry.
#[derive(Debug, Serialize)]
pub(crate) struct FileResult {
    pub(crate) kind: Kind,
    pub(crate) action: Action,
    /// Whether it replaced a file of the destination.
    #[serde(rename = "replaced")]
    pub(crate) is_replacement: bool,
    /// The size of a regular file.
    pub(crate) bytes: u64,
    /// How many of them an earlier run has copied.
    pub(crate) resumed_bytes: u64,
    /// The algorithm of the first digest.
    pub(crate) algorithm: Option<&'static str>,
    /// The first digest that the manifest has. `None` if this run has not read the file.
    pub(crate) digest: Option<String>,
    /// All digests that the manifest has, by the names of their algorithms.
    pub(crate) digests: BTreeMap<&'static str, String>,
}
