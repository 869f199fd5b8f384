//! Files that have the name of a manifest and came from a source.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;

use super::candidate::{Candidate, Hashed};
use super::contents::open_regular;
use super::metadata::Copied;
use super::name::Name;
use super::root_names::names_in;
use crate::digest::{Algorithm, Digest, Stream};

/// The files in the root of a source that have the name of a manifest, and their digests.
///
/// # Errors
///
/// The directory or one of the files cannot be read.
pub(crate) fn manifests_in_source(root: BorrowedFd<'_>) -> io::Result<Vec<Copied>> {
    let mut copied = Vec::new();
    for name in names_in(root)? {
        let digest = match digest_of(root, name) {
            Ok(digest) => digest,
            // A file of this name that cannot be read, or is not regular, is no manifest either.
            Err(_) => Stream::new(Algorithm::Sha256).finish(),
        };
        copied.push(Copied { name, digest });
    }
    Ok(copied)
}

pub(super) fn digest_of(root: BorrowedFd<'_>, name: Name) -> io::Result<Digest> {
    let (file, _) = open_regular(root, &*name.to_string())?;
    let mut hashed = Hashed {
        inner: file,
        stream: Stream::new(Algorithm::Sha256),
    };
    io::copy(&mut hashed, &mut io::sink())?;
    Ok(hashed.stream.finish())
}

/// Takes those candidates away that are files like others, and returns them.
///
/// A manifest names such files with their digests, which no file can foresee of a later manifest. So
/// a file that names a manifest of this tree is believed only if nobody names that file.
pub(super) fn separate_copied<'a>(
    root: BorrowedFd<'_>,
    candidates: &mut Vec<Candidate>,
    in_journals: impl Iterator<Item = &'a Copied>,
) -> (Vec<Copied>, Vec<Candidate>) {
    let mut named: Vec<(Option<Name>, Copied)> = Vec::new();
    named.extend(in_journals.map(|copied| (None, *copied)));
    for candidate in &*candidates {
        if let Ok(Some(header)) = &candidate.header {
            let others = header.copied.iter();
            let others = others.filter(|copied| copied.name != candidate.name);
            named.extend(others.map(|copied| (Some(candidate.name), *copied)));
        }
    }
    let mut found: Vec<Copied> = Vec::new();
    for (_, copied) in &named {
        let is_known = found.iter().any(|found| found.name == copied.name);
        if !is_known && digest_of(root, copied.name).is_ok_and(|digest| digest == copied.digest) {
            found.push(*copied);
        }
    }
    let certain: HashSet<Name> = found.iter().map(|found| found.name).collect();
    for (by, copied) in named {
        let is_present = candidates.iter().any(|found| found.name == copied.name);
        let is_known = found.iter().any(|found| found.name == copied.name);
        // The file has changed since.
        if is_present && !is_known && by.is_none_or(|by| !certain.contains(&by)) {
            found.push(copied);
        }
    }
    let is_found = |candidate: &mut Candidate| {
        let name = candidate.name;
        found.iter().any(|found| found.name == name)
    };
    let disowned = candidates.extract_if(.., is_found).collect();
    (found, disowned)
}
