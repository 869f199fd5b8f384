//! An archive that earlier runs have filled, and a source that is copied to it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{COPY, SOURCE};
use crate::scenarios::pattern;
use file::{ArchivedFile, Contents, List, Sign, file};

pub(crate) use copied::{check_archive, check_interrupted_archive};
pub(crate) use verified::{
    check_strictly_verified_archive, check_verified_archive, strictly_verified_lines,
    verified_lines,
};

mod copied;
mod file;
mod lists;
mod options;
mod verified;

/// The file that differs from its record, and has an original in the source.
pub(crate) const SPOILED: &str = "spoiled";
/// The file that differs from its record, and has no original.
pub(crate) const ROTTEN: &str = "a/rotten";
/// The messages of a run that reads [`SPOILED`].
pub(crate) const SPOILED_MESSAGE: &str =
    "zc-dircopy: spoiled: its copy differs from the digest that it was recorded with\n";
/// The file of the archive that no list has.
const UNLISTED: &str = "a/unlisted";
/// Names of one file of the source.
pub(crate) const HARD_LINKS: [&str; 3] = ["b/added", "b/link", "b/link-replaced"];
/// The time of all files in the archive, and of originals with the same size, in seconds.
const SECONDS: u64 = 1_600_000_000;
/// The time of originals with another size, in seconds. It is later than all manifests.
const NEWER_SECONDS: u64 = 1_800_000_000;

/// The end of the last run into an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastRun {
    Finished,
    /// The run was killed, and left a journal.
    Killed,
}

/// Makes a source, and an archive after a run that finished.
pub(crate) fn make_archive(dir: &Path) -> anyhow::Result<()> {
    make(dir, LastRun::Finished)
}

/// Makes a source, and an archive after a run that was killed.
pub(crate) fn make_interrupted_archive(dir: &Path) -> anyhow::Result<()> {
    make(dir, LastRun::Killed)
}

fn make(dir: &Path, last_run: LastRun) -> anyhow::Result<()> {
    let (source, archive) = (dir.join(SOURCE), dir.join(COPY));
    let files = files(last_run);
    for root in [&source, &archive] {
        for name in ["a", "b", "j"] {
            fs::create_dir_all(root.join(name))?;
        }
    }
    for file in &files {
        let (before, original) = (file.before.contents.as_ref(), file.original.as_ref());
        put(&archive, file.path, before, SECONDS)?;
        if HARD_LINKS[1..].contains(&file.path) {
            fs::hard_link(source.join(HARD_LINKS[0]), source.join(file.path))?;
        } else {
            let seconds = match (before, original) {
                (Some(Contents::Regular(before)), Some(Contents::Regular(original)))
                    if before.len() != original.len() =>
                {
                    NEWER_SECONDS
                }
                // One name of this original replaces a file of the archive.
                _ if file.path == HARD_LINKS[0] => NEWER_SECONDS,
                _ => SECONDS,
            };
            put(&source, file.path, original, seconds)?;
        }
    }
    lists::write_manifests(&archive, &files)?;
    if last_run == LastRun::Killed {
        lists::write_journal(&archive, &files)?;
    }
    Ok(())
}

fn put(root: &Path, path: &str, contents: Option<&Contents>, seconds: u64) -> anyhow::Result<()> {
    let path = root.join(path);
    match contents {
        None => {}
        Some(Contents::Symlink(target)) => symlink(target, path)?,
        Some(Contents::Regular(bytes)) => {
            fs::write(&path, bytes)?;
            let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
            File::options().write(true).open(path)?.set_modified(time)?;
        }
    }
    Ok(())
}

/// The files of the archive and of the source, in the order of their paths.
fn files(last_run: LastRun) -> Vec<ArchivedFile> {
    let large = pattern(300_000);
    let mut files = vec![
        file("a/foreign")
            .recorded(List::Foreign, b"foreign")
            .archived(b"foreign"),
        file("a/gone").recorded(List::Newest, b"gone"),
        file("a/kept")
            .recorded(List::Newest, b"kept")
            .archived(b"kept"),
        // A run has replaced this file, so that the older manifest is wrong.
        file("a/older")
            .recorded(List::Older, b"old")
            .recorded(List::Newest, b"newer")
            .archived(b"newer"),
        file(ROTTEN)
            .recorded(List::Newest, b"rotten")
            .archived(b"Rotten"),
        file(UNLISTED).archived(b"unlisted"),
        file("b/added").original(b"added"),
        file("b/link").original(b"added"),
        file("b/link-replaced")
            .recorded(List::Newest, b"old link")
            .archived(b"old link")
            .original(b"added"),
        file("b/pointer")
            .recorded(List::Newest, b"pointer")
            .archived(b"pointer")
            .linked("same"),
        file("b/replaced")
            .recorded(List::Newest, b"old")
            .archived(b"old")
            .original(b"replaced"),
        file("b/same")
            .recorded(List::Newest, b"same")
            .archived(b"same")
            .original(b"same"),
        file("large")
            .recorded(List::Newest, b"old")
            .archived(b"old")
            .original(&large),
        file(SPOILED)
            .recorded(List::Newest, b"spoiled")
            .archived(b"Spoiled")
            .original(b"spoiled"),
    ];
    if last_run == LastRun::Killed {
        files.extend(journaled());
    }
    files.sort_by_key(|file| file.path);
    files
}

/// The files that the journal of the killed run names.
fn journaled() -> Vec<ArchivedFile> {
    let replaced = |path, now: &[u8]| {
        let file = file(path).recorded(List::Newest, b"old").archived(now);
        file.journaled(Sign::Replaces, b"newer", Some(now))
    };
    vec![
        file("j/added")
            .journaled(Sign::Adds, b"added", Some(b"added"))
            .archived(b"added"),
        file("j/added-in-both")
            .journaled(Sign::Adds, b"added", Some(b"added"))
            .archived(b"added")
            .original(b"added"),
        file("j/cancelled")
            .journaled(Sign::Adds, b"cancelled", None)
            .journaled(Sign::Cancelled, b"", None),
        file("j/cleared")
            .recorded(List::Newest, b"old")
            .archived(b"old")
            .journaled(Sign::Clears, b"", Some(b"old")),
        file("j/never")
            .journaled(Sign::Adds, b"never", None)
            .original(b"never"),
        file("j/never-again").journaled(Sign::Adds, b"never", None),
        file("j/removed")
            .recorded(List::Newest, b"old")
            .journaled(Sign::Removed, b"", None),
        replaced("j/replaced", b"newer"),
        replaced("j/replaced-in-both", b"newer").original(b"newer"),
        replaced("j/untouched", b"old"),
        replaced("j/untouched-yet", b"old").original(b"newer"),
        file("j/written")
            .recorded(List::Newest, b"old")
            .archived(b"new")
            .journaled(Sign::Has, b"new", Some(b"new")),
    ]
}
