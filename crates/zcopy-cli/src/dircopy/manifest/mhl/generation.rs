//! Reads a generation.

use std::io::{self, BufRead};

use super::format;
use super::xml::{Tag, Tags};
use crate::dircopy::hash::FileDigest;

/// A file or directory of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) is_directory: bool,
    /// The checksums that the file should have: those of a file that failed are not among them.
    pub(super) file: Option<FileDigest>,
    /// The checksums that the file has, and that differed from earlier ones.
    pub(super) failed: Option<FileDigest>,
    /// The path that the file had in earlier generations.
    pub(super) previous_path: Option<String>,
}

/// The files and directories of a generation, one after another.
pub(super) struct Generation<R> {
    tags: Tags<R>,
    /// The patterns that were read so far.
    pub(super) patterns: Vec<String>,
    /// The program that wrote it.
    pub(super) tool: String,
}

impl<R: BufRead> Generation<R> {
    pub(super) fn of(source: R) -> Self {
        Self {
            tags: Tags::of(source),
            patterns: Vec::new(),
            tool: String::new(),
        }
    }

    /// The next file or directory.
    ///
    /// # Errors
    ///
    /// The generation cannot be read, or is malformed.
    pub(super) fn next(&mut self) -> io::Result<Option<Listed>> {
        let mut listed: Option<Listed> = None;
        let mut has_failed = false;
        while let Some(tag) = self.tags.next()? {
            match tag {
                Tag::Start { name, action, .. } => {
                    if matches!(&*name, "hash" | "directoryhash") {
                        listed = Some(Listed {
                            path: String::new(),
                            is_directory: name == "directoryhash",
                            file: None,
                            failed: None,
                            previous_path: None,
                        });
                    }
                    has_failed = action.as_deref() == Some("failed");
                }
                Tag::End { name, text } => match (&*name, &mut listed) {
                    ("pattern", None) => self.patterns.push(text),
                    ("tool", None) => self.tool = text,
                    ("path", Some(listed)) => listed.path = text,
                    ("previousPath", Some(listed)) => listed.previous_path = Some(text),
                    ("hash" | "directoryhash", Some(_)) => return Ok(listed),
                    (format, Some(listed)) if !listed.is_directory => {
                        let Some(algorithm) = format::algorithm_of(format) else {
                            continue;
                        };
                        let checksum = format::parse(algorithm, text.trim());
                        let malformed =
                            || io::Error::other(format!("{format}: {text:?} is no digest"));
                        let checksum = checksum.ok_or_else(malformed)?;
                        let new = FileDigest::from_checksum(algorithm, &checksum);
                        let found = if has_failed {
                            &mut listed.failed
                        } else {
                            &mut listed.file
                        };
                        *found = match (*found, new) {
                            (Some(file), Some(new)) => Some(file.joined(new)),
                            (file, new) => file.or(new),
                        };
                    }
                    _ => {}
                },
            }
        }
        Ok(None)
    }
}
