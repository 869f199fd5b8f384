//! Finds the entries of the destination that the source lacks.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::anyhow;
use rustix::fs::FileType;

use super::originals::Originals;
use super::own_names::OwnNames;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::settings::Settings;
use crate::dircopy::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use crate::dircopy::write::atomic_file::temp_name;

/// An entry of the destination that the source lacks.
#[derive(Debug)]
pub(crate) struct Gone {
    /// The path from the root.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: FileType,
}

/// Finds the entries of the destination that the source lacks, in the order of their paths.
/// Excluded entries, manifests, journals, maps of damaged files and folders of earlier runs are no
/// such entries.
///
/// The entries of a directory that the source lacks are not listed, unless some of them are
/// excluded: then the directory stays with these, and the others are listed in its place. A part of
/// it that cannot be read stays, too.
///
/// If a directory of the source cannot be read to its end, nothing in it is taken to be gone, and
/// the error is reported. The same goes for a source that has nothing to copy: a disk that is not
/// mounted looks like that.
pub(crate) fn find(
    settings: &Settings,
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
    archive: &Archive,
    most_open: usize,
    reporter: &Reporter<'_>,
) -> Vec<Gone> {
    let options = ScanOptions {
        follows_symlinks: false,
        one_file_system: true,
        most_open,
    };
    let report = |path: &[u8], error: io::Error, context: &'static str| {
        let error = anyhow!(error).context(context);
        reporter.report_error(Path::new(OsStr::from_bytes(path)), &error);
    };
    let own = OwnNames::of(settings, destination);
    let mut gone = GoneEntries::default();
    let mut current: Option<(Vec<u8>, Option<Originals>)> = None;
    // Directories that the destination lists by another spelling than the source.
    let mut originals_of = HashMap::<Vec<u8>, Vec<u8>>::new();
    let mut is_empty = false;
    scan(destination, options, |found| {
        let found = match found {
            Ok(found) => found,
            Err(Failure { path, error }) => {
                report(&path, error, "cannot look for what is gone");
                gone.keep(&path);
                return Next::Pass;
            }
        };
        let (directory, path) = (found.directory_path(), found.path());
        if gone.has(&directory) {
            if is_excluded(settings, &found, &path) {
                gone.keep(&path);
                return Next::Pass;
            }
            gone.add(path, found.kind);
            return Next::Enter;
        }
        if current.as_ref().is_none_or(|(path, _)| *path != directory) {
            current = None;
            let original = originals_of.get(&directory).unwrap_or(&directory);
            let originals = Originals::read(settings, source, original).unwrap_or_else(|error| {
                let failed = "nothing is moved out of its copy: cannot read directory";
                report(&directory, error, failed);
                None
            });
            let copies_nothing = |originals: &Originals| originals.copies_nothing(settings);
            is_empty |= directory.is_empty() && originals.as_ref().is_some_and(copies_nothing);
            current = Some((directory, originals));
        }
        let Some((directory, Some(originals))) = &current else {
            return Next::Pass;
        };
        if is_empty {
            return Next::Stop;
        }
        let is_own = || own.has(&found) || archive.owns(found.name.to_bytes());
        if directory.is_empty() && is_own()
            || temp_name::is_temp_name(found.name.to_bytes())
            || is_excluded(settings, &found, &path)
        {
            return Next::Pass;
        }
        match originals.find(&found) {
            Ok(Some(name)) => {
                if found.kind == FileType::Directory {
                    let above = originals_of.get(directory).unwrap_or(directory);
                    let original = joined(above, name.to_bytes());
                    if original != path {
                        originals_of.insert(path, original);
                    }
                }
                Next::Enter
            }
            Ok(None) => {
                gone.add(path, found.kind);
                if settings.exclude.is_empty() {
                    Next::Pass
                } else {
                    Next::Enter
                }
            }
            Err(errno) => {
                report(&path, errno.into(), "cannot look whether it is gone");
                Next::Pass
            }
        }
    });
    if is_empty {
        let error = anyhow!("it has nothing to copy, and nothing is moved: is it mounted?");
        reporter.report_destination_error(&settings.source, &error);
    }
    gone.finish()
}

/// The entries that the source lacks, with those in directories that it lacks.
#[derive(Debug, Default)]
struct GoneEntries {
    kinds: HashMap<Vec<u8>, FileType>,
    /// The entries that stay, and the directories above them.
    kept: HashSet<Vec<u8>>,
}

impl GoneEntries {
    fn add(&mut self, path: Vec<u8>, kind: FileType) {
        self.kinds.insert(path, kind);
    }

    fn has(&self, path: &[u8]) -> bool {
        self.kinds.contains_key(path)
    }

    /// Keeps an entry, and the directories that it is in.
    fn keep(&mut self, path: &[u8]) {
        let mut path = Some(path);
        while let Some(kept) = path {
            // Those above it are kept already.
            if !self.kept.insert(kept.to_vec()) {
                break;
            }
            path = parent(kept);
        }
    }

    /// The entries to move, in the order of their paths.
    fn finish(self) -> Vec<Gone> {
        let Self { kinds, kept } = self;
        let moves_with_parent = |path: &[u8]| {
            parent(path).is_some_and(|up| kinds.contains_key(up) && !kept.contains(up))
        };
        let moved = kinds
            .iter()
            .filter(|(path, _)| !kept.contains(*path) && !moves_with_parent(path));
        let mut gone: Vec<_> = moved
            .map(|(path, kind)| Gone {
                path: path.clone(),
                kind: *kind,
            })
            .collect();
        gone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        gone
    }
}

/// The path of an entry of a directory.
fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}

/// The path of the directory of an entry, unless that is the root.
fn parent(path: &[u8]) -> Option<&[u8]> {
    memchr::memrchr(b'/', path).map(|slash| &path[..slash])
}

fn is_excluded(settings: &Settings, found: &Found<'_>, path: &[u8]) -> bool {
    let name = OsStr::from_bytes(found.name.to_bytes());
    let is_directory = found.kind == FileType::Directory;
    let whole_path = || Path::new(OsStr::from_bytes(path));
    settings.exclude.matches(name, is_directory, whole_path)
}
