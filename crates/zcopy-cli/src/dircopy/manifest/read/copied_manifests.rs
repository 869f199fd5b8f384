//! Files that came from a source and have the name of a manifest.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;

use super::candidate::{Candidate, hash_named};
use super::root_names::names_in;
use crate::common::digest::{Algorithm, Digest, Stream};
use crate::dircopy::manifest::header::Copied;
use crate::dircopy::manifest::name::Name;

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
pub(crate) struct Separated {
    /// The files as the headers name them.
    pub(crate) copied: Vec<Copied>,
    /// The candidates among them.
    pub(crate) candidates: Vec<Candidate>,
}

/// Takes the files that came from a source away from the candidates, and returns them.
///
/// Headers of manifests and journals name such files with their digests. A name with the digest of
/// the file counts unless its own manifest came from a source: a backup of this tree, for example,
/// names the manifests of this tree, and may be copied back. A file that came from a source cannot
/// name a later manifest with the right digest, so that this begins with journals and with
/// manifests that no other one names. A name with another digest (the file has changed) counts too,
/// if it stands in a journal or a manifest of this tree.
pub(crate) fn separate_copied<'a>(
    root: BorrowedFd<'_>,
    candidates: &mut Vec<Candidate>,
    in_journals: impl Iterator<Item = &'a Copied>,
) -> Separated {
    let mut claims = Claims::default();
    for copied in in_journals {
        claims.add(None, *copied, root);
    }
    for candidate in &*candidates {
        if let Ok(Some(header)) = &candidate.header {
            let others = header.copied.iter();
            for copied in others.filter(|copied| copied.name != candidate.name) {
                claims.add(Some(candidate.name), *copied, root);
            }
        }
    }
    let mut found = claims.believed_exact(candidates);
    let exact: HashSet<Name> = found.iter().map(|found| found.name).collect();
    for Claim { by, copied } in claims.of_changed_files {
        let is_present = candidates.iter().any(|found| found.name == copied.name);
        let is_known = found.iter().any(|found| found.name == copied.name);
        if is_present && !is_known && by.is_none_or(|by| !exact.contains(&by)) {
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

/// A file that a header names.
#[derive(Clone, Copy)]
struct Claim {
    /// The manifest with the header. `None` if it is the header of a journal.
    by: Option<Name>,
    copied: Copied,
}

/// The files that headers name.
#[derive(Default)]
struct Claims {
    /// Claims with the digest of the file.
    exact: Vec<Claim>,
    /// Claims with another digest.
    of_changed_files: Vec<Claim>,
    /// The digests of the files. `None` for a file that cannot be read, or is not regular.
    digests: HashMap<Name, Option<Digest>>,
}

impl Claims {
    fn add(&mut self, by: Option<Name>, copied: Copied, root: BorrowedFd<'_>) {
        let digest = self.digests.entry(copied.name);
        let digest = *digest.or_insert_with(|| hash_named(root, copied.name).ok());
        let claims = if digest == Some(copied.digest) {
            &mut self.exact
        } else {
            &mut self.of_changed_files
        };
        claims.push(Claim { by, copied });
    }

    /// The files that journals and manifests of this tree name with the right digest.
    fn believed_exact(&self, candidates: &[Candidate]) -> Vec<Copied> {
        let mut found = Vec::new();
        let mut is_copied = HashSet::new();
        // How many exact claims to a manifest may still turn out to count.
        let mut n_open: HashMap<Name, usize> = HashMap::new();
        let mut claims_by: HashMap<Name, Vec<Copied>> = HashMap::new();
        for Claim { by, copied } in &self.exact {
            match by {
                None if is_copied.insert(copied.name) => found.push(*copied),
                None => {}
                Some(by) => {
                    *n_open.entry(copied.name).or_default() += 1;
                    claims_by.entry(*by).or_default().push(*copied);
                }
            }
        }
        let names = candidates.iter().map(|candidate| candidate.name);
        let is_decided = |name: &Name| is_copied.contains(name) || !n_open.contains_key(name);
        let mut decided: Vec<Name> = names.filter(is_decided).collect();
        let mut visited: HashSet<Name> = decided.iter().copied().collect();
        while let Some(name) = decided.pop() {
            let is_own = !is_copied.contains(&name);
            for copied in claims_by.remove(&name).unwrap_or_default() {
                if is_own && is_copied.insert(copied.name) {
                    found.push(copied);
                }
                let n_open = n_open.entry(copied.name).or_default();
                *n_open = n_open.saturating_sub(1);
                let is_decided = *n_open == 0 || is_copied.contains(&copied.name);
                if is_decided && visited.insert(copied.name) {
                    decided.push(copied.name);
                }
            }
        }
        found
    }
}
