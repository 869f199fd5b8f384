//! `--delete`: moves entries of the destination that the source lacks into a dated folder in it.
//!
//! Nothing is unlinked, and nothing is read: each entry is moved by one rename(2). Its records follow
//! it. The journal announces them before: if the run is killed, the records of the old and of the
//! new path count for whichever has the file.
//!
//! - `find`: what the source lacks; `originals` and `own_names`: what else stays.
//! - `folder`: the dated folder; `mover`: moves one entry into it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::anyhow;
use rustix::fs::AtFlags;

use super::copy_tree::Context;
use super::manifest::Reported;
use crate::common::cli::quote::quoted;
use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::settings::Settings;
use crate::dircopy::walk::{Root, containment};
use crate::dircopy::write::atomic_file::Durability;
use mover::{FileRecord, Mover, new_path};

pub(super) use find::{Gone, find};

mod find;
mod folder;
mod mover;
mod originals;
mod own_names;

/// Refuses to move anything while the journal of an earlier run is left: it may announce files that
/// have not got their names, and only a run that copies finds out which.
pub(super) fn check_journals(
    settings: &Settings,
    reporter: &Reporter<'_>,
    archive: &Archive,
) -> Result<(), Reported> {
    if !settings.deletes || !archive.has_journals() {
        return Ok(());
    }
    let error = anyhow!(
        "an earlier run has not finished here, and --delete would move files whose digests are not \
         certain yet; run without --delete first"
    );
    reporter.report_destination_error(&settings.destination, &error);
    Err(Reported)
}

/// Refuses a source that lies in the destination: it would be moved.
///
/// # Errors
///
/// A message with both paths; the errors of `open(2)` on the way up.
pub(super) fn check_source(
    settings: &Settings,
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
) -> anyhow::Result<()> {
    let root = rustix::fs::fstat(destination).map_err(io::Error::from)?;
    containment::check_open(&root, source).map_err(|error| {
        if error.kind() != io::ErrorKind::InvalidInput {
            return anyhow!(error).context("cannot look whether the destination holds it");
        }
        let destination = quoted(settings.destination.as_os_str());
        anyhow!("the source is inside the destination {destination}, and --delete would move it")
    })
}

/// Moves entries into a new folder, and reports what cannot be moved. Returns the lines that the
/// manifest gets for it, in the order of their paths.
pub(super) fn move_all(
    gone: &[Gone],
    root: &Root,
    archive: &Archive,
    journal: &RunJournal<'_>,
    context: Context<'_>,
    durability: Durability,
) -> io::Result<Vec<(Vec<u8>, Line)>> {
    let (reporter, destination) = (context.reporter, root.destination().as_fd());
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let mut records = records_of(gone, archive)?;
    let (folder, opened) = folder::make(root.source(), destination)?;
    let mut lines = Vec::new();
    for (place, entry) in gone.iter().enumerate() {
        if context.interrupt.is_requested() {
            break;
        }
        let records = records.remove(&place).unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let moved = Mover {
            destination,
            folder: opened.as_fd(),
            folder_name: folder.as_bytes(),
            journal,
        }
        .move_entry(entry, &records);
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                reporter.report_error(path, &error);
                continue;
            }
        };
        context.counts.moved.add(1);
        reporter.report_moved(path, &Path::new(&folder).join(path));
        for (path, file) in records {
            lines.push((new_path(folder.as_bytes(), &path), Line::Set(file)));
            lines.push((path, Line::Remove));
        }
        // Its records follow it even so.
        if let Err(error) = moved.finish(durability) {
            reporter.report_error(path, &error);
        }
    }
    drop(opened);
    // Nothing could be moved, and the folder is empty.
    let _ = rustix::fs::unlinkat(destination, &*folder, AtFlags::REMOVEDIR);
    lines.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}

/// The records of the entries and of what is in them, by the place of the entry.
fn records_of(gone: &[Gone], archive: &Archive) -> io::Result<HashMap<usize, Vec<FileRecord>>> {
    let mut found = HashMap::<usize, Vec<FileRecord>>::new();
    if archive.is_empty() {
        return Ok(found);
    }
    let places: HashMap<&[u8], usize> = gone
        .iter()
        .enumerate()
        .map(|(place, entry)| (&*entry.path, place))
        .collect();
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        let path = &record.path;
        let parents = memchr::memchr_iter(b'/', path).map(|slash| &path[..slash]);
        let place = parents
            .chain([&path[..]])
            .find_map(|path| places.get(path).copied());
        let file = match (record.file, record.announced) {
            (Some(file), None) | (_, Some(Announced::Adds(file))) => Some(file),
            // It would have to be read.
            _ => None,
        };
        if let (Some(place), Some(file)) = (place, file) {
            found.entry(place).or_default().push((record.path, file));
        }
    }
    Ok(found)
}
