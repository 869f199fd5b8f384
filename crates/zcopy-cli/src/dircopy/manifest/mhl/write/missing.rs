//! Entries that earlier generations list, and that the destination lacks.
//!
//! `ascmhl` calls them missing, unless a pattern of the newest generation names them. Those that the
//! run excludes get patterns. A pattern with a `/` in front would be one from the root of the file
//! system there; one with `**/` in front names a path in any directory.

use std::io;
use std::os::fd::BorrowedFd;

use anyhow::anyhow;

use super::below::Below;
use super::listing::FileError;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::inventory::Inventory;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::mhl::files::is_hidden;
use crate::dircopy::manifest::mhl::history::History;
use crate::dircopy::manifest::mhl::ignore::{Ignore, matches_with_above};
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{PieceReader, Sorter, Spool};
use crate::dircopy::walk::Exclude;

/// The error of an entry that is gone.
const MISSING: &str = "an earlier generation lists it, and it is missing";

/// The error of an entry that is excluded, if a pattern would leave out others, too.
const NO_PATTERN: &str =
    "it is excluded and missing, and no pattern leaves it out that leaves out nothing else";

/// What a run does with entries that are missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingOptions<'a> {
    /// Entries that may be missing.
    pub(crate) exclude: &'a Exclude,
    /// Whether the other ones are errors. They need not be if the run has failed for some.
    pub(crate) are_errors: bool,
}

/// The entries that the destination lacks.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The patterns of those that are excluded.
    pub(super) patterns: Vec<String>,
    /// The other ones.
    pub(super) failures: Vec<FileError>,
}

impl Missing {
    /// Compares the generations, and the histories below the root, with an inventory.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be read or written.
    pub(super) fn find(
        root: BorrowedFd<'_>,
        history: &History,
        below: &Below,
        inventory: &Inventory,
        options: MissingOptions<'_>,
    ) -> io::Result<Self> {
        let mut sorter = Sorter::new(Spool::new()?);
        let has_none = JournalEntry::Has(FileDigest::NONE);
        history.each_path(|path| sorter.add(path, has_none))?;
        for path in &below.directories {
            sorter.add(path.clone(), has_none)?;
        }
        let mut files = below.records()?;
        while let Some(record) = files.next()? {
            sorter.add(record.path, has_none)?;
        }
        let (spool, pieces) = sorter.finish()?;
        let spool = spool.finish()?;
        let pieces = pieces.into_iter();
        let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(&spool, piece)));
        let mut listed = Records::merge(pieces.collect())?;
        let mut present = inventory.paths()?;
        let mut missing = Self::default();
        let mut excluded: Vec<Vec<u8>> = Vec::new();
        while let Some(record) = listed.next()? {
            let is_present = present.find(&record.path)?.is_some();
            let (path, is_directory) = match record.path.strip_suffix(b"/") {
                Some(path) => (path, true),
                None => (&*record.path, false),
            };
            if is_present || history.ignore.matches_file(&record.path) {
                continue;
            }
            let is_below = |above: &Vec<u8>| {
                let below = path.strip_prefix(&**above);
                below.is_some_and(|below| below.starts_with(b"/"))
            };
            if excluded.last().is_some_and(is_below) {
                continue;
            }
            // A file of another type has its name.
            let is_excluded = matches_with_above(options.exclude, path, is_directory)
                || history.earlier.matches_file(&record.path)
                || is_hidden(path);
            if is_excluded && (is_hidden(path) || open_beneath::stat(root, path).is_err()) {
                excluded.push(path.to_vec());
            } else if options.are_errors {
                missing.failures.push((path.to_vec(), anyhow!(MISSING)));
            }
        }
        missing.add_patterns(excluded, inventory)?;
        Ok(missing)
    }

    /// Adds the patterns of these paths, unless one would leave out an entry that is present.
    fn add_patterns(&mut self, excluded: Vec<Vec<u8>>, inventory: &Inventory) -> io::Result<()> {
        if excluded.is_empty() {
            return Ok(());
        }
        let all = excluded.iter().map(|path| pattern(path)).collect();
        let ignore = Ignore::new(all);
        let mut others = Vec::new();
        let mut present = inventory.paths()?;
        while let Some(record) = present.next()? {
            if ignore.matches_file(&record.path) {
                others.push([b"/", &record.path[..], b"/"].concat());
            }
        }
        for path in excluded {
            let within = [b"/", &path[..], b"/"].concat();
            let is_within = |other: &Vec<u8>| memchr::memmem::find(other, &within).is_some();
            if path.contains(&b'\n') || others.iter().any(is_within) {
                self.failures.push((path, anyhow!(NO_PATTERN)));
            } else {
                self.patterns.push(pattern(&path));
            }
        }
        Ok(())
    }
}

/// A pattern that names a path.
fn pattern(path: &[u8]) -> String {
    let mut pattern = String::from("**/");
    for letter in String::from_utf8_lossy(path).chars() {
        // A blank at the end would not count.
        if matches!(letter, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ' ') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
