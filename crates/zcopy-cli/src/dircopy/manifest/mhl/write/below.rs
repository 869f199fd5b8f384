//! The histories below the root of a destination, as they are at the end of a run.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use anyhow::anyhow;

use super::ORPHAN;
use super::listing::FileError;
use super::orphans::Orphans;
use crate::common::digest::checksum::Checksum;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::mhl::DIRECTORY;
use crate::dircopy::manifest::mhl::history::{Part, directory_in};
use crate::dircopy::manifest::mhl::ignore::Ignore;
use crate::dircopy::manifest::mhl::nested::{NestedHistories, NestedRead};
use crate::dircopy::manifest::mhl::xml::can_have;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::DamagedFile;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{Piece, PieceReader, Spool};

/// The newest generation of a history below the root.
#[derive(Debug)]
pub(super) struct Reference {
    /// The path of its file from the root.
    pub(super) path: String,
    /// Its SHA-512.
    pub(super) checksum: Checksum,
}

/// The histories below the root, and their records.
pub(super) struct Below {
    pub(super) histories: NestedHistories,
    /// The directories that they list.
    pub(super) directories: Vec<Vec<u8>>,
    damaged: Vec<DamagedFile>,
    spool: Arc<File>,
    pieces: Vec<Piece>,
}

impl Below {
    pub(super) fn read(root: BorrowedFd<'_>) -> io::Result<Self> {
        let mut spool = Spool::new()?;
        let mut pieces = Vec::new();
        let read = NestedRead::read(root, None, false, |_: Part, next| {
            let next = || Ok(next().map(|(path, file)| (path, JournalEntry::HasAlso(file))));
            // The oldest generation takes precedence.
            pieces.extend(spool.sort(next)?.into_iter().rev());
            Ok(())
        })?;
        Ok(Self {
            histories: read.histories,
            directories: read.directories,
            damaged: read.damaged,
            spool: spool.finish()?,
            pieces,
        })
    }

    pub(super) fn records(&self) -> io::Result<Records> {
        let pieces = self.pieces.iter().cloned();
        let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(&self.spool, piece)));
        Records::merge(pieces.collect())
    }

    /// What keeps other programs from reading these histories.
    pub(super) fn failures(&self, root: BorrowedFd<'_>) -> io::Result<Vec<FileError>> {
        let damaged = self.damaged.iter().map(|DamagedFile { name, damage, .. }| {
            let error = anyhow!("{damage}").context("the manifest is damaged");
            (name.clone().into_bytes(), error)
        });
        let mut failures: Vec<_> = damaged.collect();
        for (path, nested) in self.histories.iter() {
            let history = [path, b"/", DIRECTORY.as_bytes()].concat();
            let (directory, _) = open_beneath::parent(root, &history)?;
            let directory = directory_in(directory.as_fd())?;
            let Orphans { own, kept } = Orphans::of(directory.as_fd(), &nested.links)?;
            for orphan in own.into_iter().chain(kept) {
                let path = [&history[..], b"/", orphan.as_bytes()].concat();
                failures.push((path, anyhow!(ORPHAN)));
            }
        }
        Ok(failures)
    }

    /// The generations that a new one of the root refers to.
    pub(super) fn references(
        &self,
        ignore: &Ignore,
        failures: &mut Vec<FileError>,
    ) -> Vec<Reference> {
        let mut references = Vec::new();
        for (path, nested) in self.histories.iter() {
            let is_ignored = ignore.matches_file(&[path, b"/."].concat());
            if is_ignored || self.histories.contain(path) {
                continue;
            }
            let Some(newest) = nested.links.last() else {
                continue;
            };
            let shown = OsStr::from_bytes(path);
            match shown.to_str().filter(|path| can_have(path)) {
                Some(path) => references.push(Reference {
                    path: format!("{path}/{DIRECTORY}/{}", newest.name),
                    checksum: newest.checksum,
                }),
                None => failures.push((path.to_vec(), anyhow!("XML cannot have its name"))),
            }
        }
        references
    }
}
