//! Histories in directories below the root of a tree.
//!
//! A file belongs to the history that is nearest to it on the way to the root.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::FileType;

use super::DIRECTORY;
use super::chain::Link;
use super::history::{History, Part};
use super::ignore::Ignore;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::DamagedFile;
use crate::dircopy::walk::scan::{Found, Next, ScanOptions, scan};
use crate::dircopy::walk::spelling::key;

/// How many levels of a tree are open at once while it is searched.
const MOST_OPEN: usize = 4;

/// The histories below the root of a tree, by the paths of their directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct NestedHistories(BTreeMap<Vec<u8>, Nested>);

/// A history below the root.
#[derive(Clone, Debug)]
pub(super) struct Nested {
    pub(super) links: Vec<Link>,
    ignore: Ignore,
}

impl NestedHistories {
    /// The histories whose directories hold this path, each with the path from there.
    fn above<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = (&'a Nested, &'a [u8])> {
        let has_any = !self.0.is_empty();
        let slashes = path.iter().enumerate().filter(move |_| has_any);
        let slashes = slashes.filter(|(_, byte)| **byte == b'/');
        slashes.filter_map(|(at, _)| Some((self.0.get(&path[..at])?, &path[at + 1..])))
    }

    /// Whether the path is below the directory of a history.
    pub(super) fn contain(&self, path: &[u8]) -> bool {
        self.above(path).next().is_some()
    }

    /// Whether a history leaves an entry out by its own name or path.
    pub(super) fn ignore(&self, path: &[u8], is_directory: bool) -> bool {
        let mut above = self.above(path);
        above.any(|(nested, path)| nested.ignore.matches(path, is_directory))
    }

    /// Whether a history leaves out a file, or a directory above it.
    pub(super) fn ignore_file(&self, path: &[u8]) -> bool {
        let mut above = self.above(path);
        above.any(|(nested, path)| nested.ignore.matches_file(path))
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Nested)> {
        self.0.iter().map(|(path, nested)| (&**path, nested))
    }
}

/// The histories below a root that have been read.
#[derive(Debug, Default)]
pub(crate) struct NestedRead {
    pub(crate) histories: NestedHistories,
    /// Generations that are damaged, and lists that cannot be read.
    pub(crate) damaged: Vec<DamagedFile>,
    /// The directories of those that the destination has generations of that the source lacks.
    pub(crate) kept: Vec<Vec<u8>>,
    /// The paths of directories that they list, each with a slash at its end.
    pub(crate) directories: Vec<Vec<u8>>,
    /// The files that they list.
    listed: Listed,
}

/// The hashes of paths that histories list.
#[derive(Debug, Default)]
struct Listed(HashSet<u64>);

impl NestedRead {
    /// Whether one of them lists the file. A history above leaves the file to it.
    pub(crate) fn list(&self, path: &[u8]) -> bool {
        self.listed.0.contains(&key::hash_of(path))
    }

    /// Finds and reads the histories below the root of a tree, and those below the root of a source,
    /// the inner ones first. `add` gets the files of each generation. A directory without a list is
    /// no history if `is_unfinished`: a killed run may have left it.
    ///
    /// # Errors
    ///
    /// The error of `add`.
    pub(crate) fn read(
        root: BorrowedFd<'_>,
        source: Option<BorrowedFd<'_>>,
        is_unfinished: bool,
        mut add: impl FnMut(Part, &mut dyn FnMut() -> Option<(Vec<u8>, FileDigest)>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut paths = BTreeSet::new();
        for root in [Some(root), source].into_iter().flatten() {
            find(root, &mut paths);
        }
        let mut read = Self::default();
        // An inner one comes behind those around it.
        for path in paths.into_iter().rev() {
            let own = open(root, &path);
            let others = source.and_then(|source| open(source, &path));
            let mut history = History::find(own.as_ref(), others.as_ref(), is_unfinished);
            let mut newly_listed = Listed::default();
            history.read(|part, files| {
                add(part, &mut || {
                    while let Some((below, file)) = files.next() {
                        let path = [&path[..], b"/", &below].concat();
                        if !read.list(&path) {
                            newly_listed.0.insert(key::hash_of(&path));
                            return Some((path, file));
                        }
                    }
                    None
                })
            })?;
            read.listed.0.extend(newly_listed.0);
            let shown = OsStr::from_bytes(&path).to_string_lossy();
            for damaged in history.take_damaged() {
                let name = format!("{shown}/{}", damaged.name);
                read.damaged.push(DamagedFile { name, ..damaged });
            }
            if history.has_more && others.is_some() {
                read.kept
                    .push([&path, &b"/"[..], DIRECTORY.as_bytes()].concat());
            }
            if source.is_none() {
                history.each_path(|below| {
                    let path = [&path[..], b"/", &below].concat();
                    read.directories
                        .extend(path.ends_with(b"/").then_some(path));
                    Ok(())
                })?;
            }
            if !history.is_empty() {
                let nested = Nested {
                    links: history.links(),
                    ignore: history.ignore().clone(),
                };
                read.histories.0.insert(path, nested);
            }
        }
        Ok(read)
    }
}

/// Adds the paths of the directories below a root that have a history. Directories that cannot be
/// read are skipped.
fn find(root: BorrowedFd<'_>, paths: &mut BTreeSet<Vec<u8>>) {
    let options = ScanOptions {
        follows_symlinks: false,
        one_file_system: false,
        most_open: MOST_OPEN,
    };
    scan(root, options, |found| match found {
        Ok(found) if is_history(&found) => {
            if !found.node.is_root() {
                paths.insert(found.directory_path());
            }
            Next::Pass
        }
        Ok(_) | Err(_) => Next::Enter,
    });
}

fn is_history(found: &Found<'_>) -> bool {
    found.kind == FileType::Directory && found.name.to_bytes() == DIRECTORY.as_bytes()
}

/// Opens the directory of a history.
fn open(root: BorrowedFd<'_>, path: &[u8]) -> Option<OwnedFd> {
    let history = [path, b"/", DIRECTORY.as_bytes()].concat();
    open_beneath::parent(root, &history)
        .ok()
        .map(|(directory, _)| directory)
}
