//! How much there is to verify.

use std::os::fd::BorrowedFd;

use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::stop_flag::StopFlag;
use crate::dircopy::walk::prescan::Total;

/// Whether all files of a tree were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    All,
    Part,
}

/// Adds the files with a record, and their bytes, to `total`. If `only` is given, records of other
/// algorithms are left out. Stops at the end of the verification.
pub(super) fn count_files(
    root: BorrowedFd<'_>,
    archive: &Archive,
    only: Option<ChecksumAlgorithm>,
    total: &Total,
    stop: &StopFlag,
) -> Counted {
    // An error here is also an error of the verification, which reports it.
    let Ok(mut records) = archive.records() else {
        return Counted::Part;
    };
    loop {
        if stop.is_set() {
            return Counted::Part;
        }
        let record = match records.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Counted::All,
            Err(_) => return Counted::Part,
        };
        let file = record.file.or(record.announced.map(Announced::file));
        if file.is_none_or(|file| only.is_some_and(|only| file.checksum(only).is_none())) {
            continue;
        }
        total.add(open_beneath::size(root, &record.path).unwrap_or(0));
    }
}
