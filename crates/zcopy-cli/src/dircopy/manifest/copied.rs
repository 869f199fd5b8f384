//! Files that came from a source and have the name of a manifest.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;

use super::candidate::{Candidate, hash_named};
use super::metadata::Copied;
use super::name::Name;
use super::root_names::names_in;
use crate::digest::{Algorithm, Stream};

/// The files in the root of a source that have the name of a manifest, and their digests.
///
/// # Errors
///
/// The directory cannot be read.
pub(crate) fn manifests_in_source(root: BorrowedFd<'_>) -> io::Result<Vec<Copied>> {
    let mut copied = Vec::new();
    for name in names_in(root)? {
        let digest = match hash_named(root, name) {
            Ok(digest) => digest,
            // A file that cannot be read, or is not regular, gets the digest of an empty one: only
            // its name counts.
            Err(_) => Stream::new(Algorithm::Sha256).finish(),
        };
        copied.push(Copied { name, digest });
    }
    Ok(copied)
}

/// The files that came from a source.
pub(super) struct Separated {
    /// The files as the headers name them.
    pub(super) copied: Vec<Copied>,
    /// The candidates among them.
    pub(super) candidates: Vec<Candidate>,
}

/// A file that a header names.
struct Claim {
    /// The manifest with the header. `None` if it is the header of a journal.
    by: Option<Name>,
    copied: Copied,
}

/// Takes the files that came from a source away from the candidates, and returns them.
///
/// A header names such a file with its digest. A file that came from a source cannot name a later
/// manifest with the right digest. If a header names a file with a wrong digest, the header is
/// believed unless its own file is named with the right digest.
pub(super) fn separate_copied<'a>(
    root: BorrowedFd<'_>,
    candidates: &mut Vec<Candidate>,
    in_journals: impl Iterator<Item = &'a Copied>,
) -> Separated {
    let mut claims: Vec<_> = in_journals
        .map(|copied| Claim {
            by: None,
            copied: *copied,
        })
        .collect();
    for candidate in &*candidates {
        if let Ok(Some(header)) = &candidate.header {
            let others = header.copied.iter();
            let others = others.filter(|copied| copied.name != candidate.name);
            claims.extend(others.map(|copied| Claim {
                by: Some(candidate.name),
                copied: *copied,
            }));
        }
    }
    let mut found: Vec<Copied> = Vec::new();
    for Claim { copied, .. } in &claims {
        let is_known = found.iter().any(|found| found.name == copied.name);
        if !is_known && hash_named(root, copied.name).is_ok_and(|digest| digest == copied.digest) {
            found.push(*copied);
        }
    }
    let certain: HashSet<Name> = found.iter().map(|found| found.name).collect();
    for Claim { by, copied } in claims {
        let is_present = candidates.iter().any(|found| found.name == copied.name);
        let is_known = found.iter().any(|found| found.name == copied.name);
        // The file has changed since the header was written.
        if is_present && !is_known && by.is_none_or(|by| !certain.contains(&by)) {
            found.push(copied);
        }
    }
    let is_found = |candidate: &mut Candidate| {
        let name = candidate.name;
        found.iter().any(|found| found.name == name)
    };
    Separated {
        candidates: candidates.extract_if(.., is_found).collect(),
        copied: found,
    }
}
