//! Files that are verified once more, against the records that the tree has at the end.

use std::os::fd::BorrowedFd;
use std::vec::IntoIter;

use super::Shared;
use super::suspects::Suspects;
use super::verdict::{FileResult, Verdict};
use super::verifier::Job;
use crate::dircopy::manifest::bag::PathBase;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::open_beneath::{self, Found};
use crate::dircopy::manifest::read::archive::{Archive, Verify};
use crate::dircopy::manifest::read::merge::Records;

/// The failures of a verification that another run may have caused, and the records of the tree
/// after it.
#[derive(Debug)]
pub(super) struct Recheck {
    /// `None` if the manifests cannot be read, or are damaged. The failures stay as they are then.
    records: Option<Records>,
    /// The names of the tree's manifests now.
    manifests: Vec<String>,
    /// In the order of their paths.
    results: IntoIter<FileResult>,
    suspects: Option<Suspects>,
}

impl Recheck {
    /// No failures.
    pub(super) fn none() -> Self {
        Self {
            records: None,
            manifests: Vec::new(),
            results: Vec::new().into_iter(),
            suspects: None,
        }
    }

    /// Reads the records of the tree once more.
    pub(super) fn new(
        root: BorrowedFd<'_>,
        kind: Option<ManifestKind>,
        shared: Shared<'_>,
        mut suspects: Suspects,
    ) -> Self {
        let (verify, base) = (Verify::Needed, PathBase::Bag);
        let converts_paths = shared.options.converts_paths;
        let archive = kind.and_then(|kind| {
            let opened = Archive::open_kind(kind, root, verify, converts_paths, base, None);
            opened.ok()
        });
        let archive = archive.filter(|archive| {
            let is_sound = archive.damaged().is_empty();
            is_sound && !archive.is_empty()
        });
        let names = archive.iter().flat_map(Archive::file_names);
        Self {
            manifests: names.collect(),
            records: archive.as_ref().and_then(|archive| archive.records().ok()),
            results: suspects.take().into_iter(),
            suspects: Some(suspects),
        }
    }

    /// The next file.
    pub(super) fn next(&mut self, root: BorrowedFd<'_>, shared: Shared<'_>) -> Option<Job> {
        loop {
            let result = self.results.next()?;
            if shared.interrupt.is_requested() {
                self.records = None;
            }
            let Some(records) = &mut self.records else {
                return Some(Job::Verified(result));
            };
            let Ok(record) = records.find(&result.path) else {
                self.records = None;
                return Some(Job::Verified(result));
            };
            let Some(record) = record else {
                match self.without_record(root, shared, result) {
                    Some(result) => return Some(Job::Verified(result)),
                    None => continue,
                }
            };
            match record.resolve(root, ReadOptions::unlimited(shared.null)) {
                Ok(Some(file)) if shared.wants(file) => {
                    return Some(Job::Record(record.path, file));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    if let Some(result) = self.without_record(root, shared, result) {
                        return Some(Job::Verified(result));
                    }
                }
                Err(error) => return Some(Job::Unreadable(record.path, error)),
            }
        }
    }

    /// The result for a file that has no record now. `None` if that is no failure: the file was
    /// removed and its record was dropped, or it was replaced without a record.
    fn without_record(
        &self,
        root: BorrowedFd<'_>,
        shared: Shared<'_>,
        result: FileResult,
    ) -> Option<FileResult> {
        let is_gone = match open_beneath::find(root, &result.path) {
            Ok(Found::RegularFile) => false,
            Ok(Found::Other | Found::BehindLink | Found::Nothing) => true,
            Err(_) => return Some(result),
        };
        if is_gone {
            return None;
        }
        let has_changed = || {
            let suspects = self.suspects.as_ref();
            suspects.is_some_and(|suspects| suspects.has_changed(root, &result.path))
        };
        let is_manifest = |name: &String| name.as_bytes() == result.path;
        match result.verdict {
            // A run that ended meanwhile left it.
            Verdict::Unlisted if self.manifests.iter().any(is_manifest) => None,
            Verdict::Unlisted | Verdict::Damaged => Some(result),
            // It is rotten, and somebody removed its record.
            _ if !has_changed() => Some(result),
            _ if shared.options.is_strict => Some(FileResult {
                verdict: Verdict::Unlisted,
                path: result.path,
            }),
            _ => None,
        }
    }
}
