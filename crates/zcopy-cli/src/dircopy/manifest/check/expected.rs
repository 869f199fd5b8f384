//! How much there is to verify.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dircopy::manifest::archive::Archive;
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::prescan::Total;

/// Counts the files with a record and their bytes.
pub(super) fn total_size(
    root: BorrowedFd<'_>,
    archive: &Archive,
    only: Option<ChecksumAlgorithm>,
    total: &Total,
    is_over: &AtomicBool,
) {
    // Whatever fails here fails again in the verification.
    let Ok(mut records) = archive.records() else {
        return;
    };
    while let Ok(Some(record)) = records.next() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let file = record.file.or(record.announced.map(Announced::file));
        if file.is_none_or(|file| only.is_some_and(|only| only != file.algorithm.into())) {
            continue;
        }
        total.add(open_beneath::size(root, &record.path).unwrap_or(0));
    }
}
