//! What `--dry-run` writes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::FileType;
use serde::Serialize;

use super::summary::{State, size};
use crate::common::cli::quote::quoted;

/// What a run would do with one entry.
#[derive(Debug, Serialize)]
pub(crate) struct PlannedEntry<'a> {
    #[serde(serialize_with = "lossy")]
    pub(crate) path: &'a Path,
    pub(crate) action: Word,
    pub(crate) kind: Kind,
    /// The size of a regular file.
    pub(crate) bytes: u64,
    /// How many of them an earlier run has copied, unless they have been changed since.
    pub(crate) resumed_bytes: u64,
}

/// What a run would do with an entry, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    Copy,
    Replace,
    Compare,
    Link,
    Skip,
    Move,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    Special,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Replace => "replace",
            Self::Compare => "compare",
            Self::Link => "link",
            Self::Skip => "skip",
            Self::Move => "move",
        }
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

impl PlannedEntry<'_> {
    /// The entry as a line. The path of a directory ends in a slash.
    pub(super) fn line(&self) -> String {
        let mut path = self.path.as_os_str().to_owned();
        if self.kind == Kind::Directory {
            path.push("/");
        }
        let resumed = match self.resumed_bytes {
            0 => String::new(),
            n => format!(" (resumed behind {} of {})", size(n), size(self.bytes)),
        };
        format!("{} {}{resumed}\n", self.action.text(), quoted(&path))
    }
}

/// What a run would do in all.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) state: State,
    /// Files to copy, of any type but directories.
    pub(crate) copy: u64,
    pub(crate) replace: u64,
    /// Files that are replaced if their contents differ.
    pub(crate) compare: u64,
    pub(crate) link: u64,
    pub(crate) skip: u64,
    /// Entries of the destination to move, as the source lacks them.
    #[serde(rename = "move")]
    pub(crate) moves: u64,
    /// Directories to make.
    pub(crate) directories: u64,
    /// The bytes of the regular files to copy and of those to replace.
    pub(crate) bytes: u64,
    /// How many of them earlier runs have copied.
    pub(crate) resumed_bytes: u64,
    /// The bytes that the destination has free.
    pub(crate) free_bytes: Option<u64>,
    /// Errors.
    pub(crate) failed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            state: State::Done,
            copy: 0,
            replace: 0,
            compare: 0,
            link: 0,
            skip: 0,
            moves: 0,
            directories: 0,
            bytes: 0,
            resumed_bytes: 0,
            free_bytes: None,
            failed: 0,
        }
    }
}

impl Plan {
    /// Counts an entry.
    pub(crate) fn add(&mut self, entry: &PlannedEntry<'_>) {
        let count = match (entry.action, entry.kind) {
            (Word::Move, _) => &mut self.moves,
            (Word::Copy, Kind::Directory) => &mut self.directories,
            (Word::Copy, _) => &mut self.copy,
            (Word::Replace, _) => &mut self.replace,
            (Word::Compare, _) => &mut self.compare,
            (Word::Link, _) => &mut self.link,
            (Word::Skip, _) => &mut self.skip,
        };
        *count += 1;
        if matches!(entry.action, Word::Copy | Word::Replace) {
            self.bytes += entry.bytes;
            self.resumed_bytes += entry.resumed_bytes;
        }
    }

    /// The totals as text.
    pub(super) fn words(&self) -> String {
        let Self {
            copy,
            replace,
            compare,
            link,
            skip,
            directories,
            failed,
            ..
        } = self;
        let free = self
            .free_bytes
            .map_or_else(String::new, |free| format!(", and {} are free", size(free)));
        let resumed = match self.resumed_bytes {
            0 => String::new(),
            n => format!(", of which earlier runs have copied {}", size(n)),
        };
        format!(
            "{copy} to copy, {replace} to replace, {compare} to compare, {link} to link, {skip} to skip, {}\
             {directories} directories to make, {failed} failed\n\
             nothing was written; the files to copy and replace have {}{resumed}{free}\n",
            match self.moves {
                0 => String::new(),
                n => format!("{n} to move, "),
            },
            size(self.bytes)
        )
    }
}

/// A path as text. Bytes that are not UTF-8 become U+FFFD.
fn lossy<S: serde::Serializer>(path: &&Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}
