//! Creates files, and sets their metadata.
//!
//! - [`atomic_file`]: files under construction, which get their names once they are complete.
//! - `metadata`: owners, modes, extended attributes, access lists and times.
//! - `temporary_file`: files that never get a name.
//! - `partial_file`: files under construction that outlive their run, and the logs beside them.
//! - `unwritten_files`: files that stay open because the disk did not take their contents.
//! - `file_system` and `limitation`: features that a file system lacks.

pub mod atomic_file;
pub(crate) mod metadata;

pub(crate) mod file_system;
pub(crate) mod limitation;
pub(crate) mod partial_file;
pub(crate) mod temporary_file;
pub(crate) mod unwritten_files;
