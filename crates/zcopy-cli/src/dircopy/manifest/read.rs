//! Reads the manifests of a tree.
//!
//! - `archive`: finds the manifests and journals of a tree; `root_names`: their names.
//! - `candidate`: reads and verifies one manifest; `contents` and `lines`: its bytes and lines;
//!   `damage`: its damage; `copied_manifests`: those that came
//!   from a source.
//! - `merge`: merges the records of all manifests; `spool`: sorts them on disk; `resolve`: which
//!   record is true after a killed run.

pub(crate) mod archive;
pub(crate) mod contents;
pub(crate) mod copied_manifests;
pub(crate) mod damage;
pub(crate) mod lines;
pub(crate) mod merge;
pub(crate) mod resolve;
pub(crate) mod root_names;
pub(crate) mod spool;

mod candidate;
