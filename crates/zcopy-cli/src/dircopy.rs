//! What `zc-dircopy` does: a tree is copied, file by file, and its sums are left behind.
//!
//! Everything here goes by directory descriptors and names in them, never by paths, so that whatever somebody
//! renames or replaces during the run, nothing is read or written outside of the two trees. Names are bytes.
//! No file's contents are moved here.
//!
//! - [`containment`]: that the destination does not lie in the source.
//! - [`tree`]: walks the source and mirrors its directories.
//! - [`policy`]: which files are copied.
//! - [`place`]: files under construction, which get their names once they are whole.
//! - [`attributes`]: owners, modes, extended attributes, access lists and times.

pub mod containment;
pub mod tree;

pub mod policy;

pub mod place;

pub mod attributes;

mod counts;
mod end;
mod face;
mod listing;
mod prescan;
mod progress;
mod summary;

#[cfg(test)]
mod ground;
