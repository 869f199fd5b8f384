//! The records of manifests.

use crate::dircopy::hash::FileDigest;
use std::io::{self, BufRead as _, BufReader, Read};

use super::line;
use crate::common::digest::Algorithm;
use crate::dircopy::file_ranges::RangesReader;

/// A path and its digest, as a line of a manifest has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The path from the root.
    pub(crate) path: Vec<u8>,
    pub(crate) file: FileDigest,
}

/// The record of a path. `file` or `announced` is set, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The path from the root.
    pub(crate) path: Vec<u8>,
    /// The digest of the file. `None` if a killed run was about to add it.
    pub(crate) file: Option<FileDigest>,
    /// The change that a killed run may have made.
    pub(crate) announced: Option<Announced>,
}

impl Record {
    /// Whether a run made a file of this path, or may have.
    pub(crate) fn may_have_file(&self) -> bool {
        let adds = matches!(
            self.announced,
            Some(Announced::Adds(_) | Announced::Replaces(_))
        );
        self.file.is_some() || adds
    }
}

/// A change that a run is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Adds a file. The name was free.
    Adds(FileDigest),
    /// Replaces a file.
    Replaces(FileDigest),
    /// Replaces a file by something that gets no digest.
    Clears,
}

impl Announced {
    /// The digest of the new file, or zeros.
    pub(crate) fn file(self) -> FileDigest {
        match self {
            Self::Adds(file) | Self::Replaces(file) => file,
            Self::Clears => FileDigest::NONE,
        }
    }
}

/// How one manifest or journal changes the record of a path that older ones have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    file: Field<FileDigest>,
    announced: Field<Announced>,
}

/// How a field of a record changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field<T> {
    #[default]
    Unchanged,
    Set(T),
    Cleared,
    /// Adds to an older value.
    Joined(T),
}

impl<T> Field<T> {
    /// This change, made after an older one.
    fn after(self, older: Self, join: impl Fn(T, T) -> T) -> Self {
        match (self, older) {
            (Self::Unchanged, older) => older,
            (Self::Joined(newer), Self::Set(older)) => Self::Set(join(newer, older)),
            (Self::Joined(newer), Self::Joined(older)) => Self::Joined(join(newer, older)),
            (Self::Joined(newer), Self::Cleared) => Self::Set(newer),
            (newer, _) => newer,
        }
    }

    fn value(self) -> Option<T> {
        match self {
            Self::Set(value) | Self::Joined(value) => Some(value),
            Self::Unchanged | Self::Cleared => None,
        }
    }
}

impl Change {
    /// The file has this digest.
    pub(crate) fn has(file: FileDigest) -> Self {
        Self {
            file: Field::Set(file),
            announced: Field::Cleared,
        }
    }

    /// The file has this digest, and maybe others.
    pub(crate) fn has_also(file: FileDigest) -> Self {
        Self {
            file: Field::Joined(file),
            announced: Field::Unchanged,
        }
    }

    /// No digest is known of the file any more.
    pub(crate) const REMOVED: Self = Self {
        file: Field::Cleared,
        announced: Field::Cleared,
    };

    /// The announced change has not been made.
    pub(crate) const CANCELLED: Self = Self {
        file: Field::Unchanged,
        announced: Field::Cleared,
    };

    /// This is about to happen.
    pub(crate) fn announced(announced: Announced) -> Self {
        Self {
            file: Field::Unchanged,
            announced: Field::Set(announced),
        }
    }

    /// This change, made after an older one.
    #[must_use]
    pub(crate) fn after(self, older: Self) -> Self {
        Self {
            file: self.file.after(older.file, FileDigest::joined),
            announced: self.announced.after(older.announced, |newer, _| newer),
        }
    }

    /// The record of a path after all changes.
    pub(crate) fn into_record(self, path: Vec<u8>) -> Option<Record> {
        let file = self.file.value();
        let announced = self.announced.value();
        (file.is_some() || announced.is_some()).then_some(Record {
            path,
            file,
            announced,
        })
    }
}

/// The origin of lines, which decides how they are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The algorithm of lines without a tag.
    pub(crate) algorithm: Algorithm,
    /// Whether another program may have written them.
    pub(crate) is_foreign: bool,
    /// Whether backslashes in the paths of another program separate names.
    pub(crate) converts_paths: bool,
}

/// Parses a line of a manifest.
///
/// Another program may spell a path in other ways than this one. Programs for Windows write
/// backslashes, which they do not escape as `sha256sum` does.
///
/// # Errors
///
/// The line is malformed.
pub(crate) fn parse(line: &[u8], origin: Origin) -> Result<Listed, line::ParseLineError> {
    let parsed = line::parse(line)?;
    let mut path = parsed.path;
    if origin.is_foreign {
        let is_escaped = line.trim_ascii_start().starts_with(b"\\");
        if origin.converts_paths && !is_escaped {
            line::convert_backslashes(&mut path);
        }
        path = normalized(&path);
    } else if path == b"./-" {
        path = b"-".to_vec();
    }
    Ok(Listed {
        path,
        file: FileDigest {
            algorithm: parsed.algorithm.unwrap_or(origin.algorithm),
            digest: parsed.digest,
        },
    })
}

/// The path without `.` and repeated slashes. `..` and a slash in front stay.
fn normalized(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<_> = names.filter(|name| !matches!(*name, b"" | b".")).collect();
    let mut normalized = names.join(&b'/');
    if path.starts_with(b"/") {
        normalized.insert(0, b'/');
    }
    normalized
}

/// Reads the lines of a manifest, which are sorted and have been verified.
#[derive(Debug)]
pub(crate) struct LineReader<R = RangesReader> {
    lines: BufReader<R>,
    origin: Origin,
    line: Vec<u8>,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(contents: R, origin: Origin) -> Self {
        Self {
            lines: BufReader::with_capacity(64 << 10, contents),
            origin,
            line: Vec::new(),
        }
    }

    /// The next line.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read, or has changed since it was verified.
    pub(crate) fn next(&mut self) -> io::Result<Option<Listed>> {
        loop {
            self.line.clear();
            if self.lines.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if !self.line.starts_with(b"#") && !self.line.trim_ascii().is_empty() {
                let listed = parse(&self.line, self.origin);
                return listed.map(Some).map_err(io::Error::other);
            }
        }
    }
}
