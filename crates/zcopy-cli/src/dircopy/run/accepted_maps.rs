//! Removes the damage maps of files that were accepted as they are.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::dircopy::damage_map::{DamageMap, EmptyFile, map_path, remove_map};
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::write::atomic_file::Durability;

/// A map that could not be removed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The path of the accepted file.
    pub(crate) path: Vec<u8>,
    pub(crate) error: anyhow::Error,
}

/// Removes the maps of files that a new manifest has. A map that has a record is a file like
/// others, and stays.
///
/// # Errors
///
/// The manifests cannot be read.
pub(crate) fn remove_maps(
    root: BorrowedFd<'_>,
    archive: &Archive,
    accepted: Vec<Vec<u8>>,
) -> io::Result<Vec<Failure>> {
    if accepted.is_empty() {
        return Ok(Vec::new());
    }
    let accepted: BTreeSet<_> = accepted.into_iter().collect();
    let maps = accepted.iter().map(|path| (map_path(path), path));
    // The records are in the order of the maps.
    let maps: BTreeSet<_> = maps.filter(|(map, _)| !accepted.contains(map)).collect();
    let mut records = archive.records()?;
    let mut failures = Vec::new();
    for (map, path) in maps {
        let record = records.find(&map)?;
        if record.is_some_and(|record| record.may_have_file()) {
            continue;
        }
        if let Err(error) = remove_map_of(root, path) {
            let error =
                anyhow::Error::from(error).context("it is accepted, but its map cannot be removed");
            let path = path.clone();
            failures.push(Failure { path, error });
        }
    }
    Ok(failures)
}

fn remove_map_of(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<()> {
    // No run writes a map at the end of a path that leads through a link.
    let Ok((directory, name)) = open_beneath::parent(root, path) else {
        return Ok(());
    };
    match DamageMap::of_file(directory.as_fd(), &name, EmptyFile::Other)? {
        // If a loss of power brings the map back, the record says that the file is whole.
        Some(_) => remove_map(directory.as_fd(), &name, Durability::Cached),
        None => Ok(()),
    }
}
