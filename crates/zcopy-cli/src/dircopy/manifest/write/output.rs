//! The manifest of a run, of whichever kind.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use rustix::fs::Mode;

use super::writer::{Finished, Writer};
use crate::common::digest::Algorithm;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::bag::PathBase;
use crate::dircopy::manifest::bag::misread::Misread;
use crate::dircopy::manifest::bag::write::BagWriter;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::header::{Copied, Header};
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl::knowledge::Knowledge;
use crate::dircopy::manifest::mhl::write::{GenerationWriter, MissingOptions};
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::write::atomic_file::Exclusivity;

/// Where a manifest is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The root of the destination.
    pub(crate) directory: &'a Arc<OwnedFd>,
    /// The mode of new files.
    pub(crate) mode: Mode,
    /// The directory that the paths of a bag begin at.
    pub(crate) base: PathBase,
    /// The path of the destination.
    pub(crate) path: &'a Path,
}

/// A manifest under construction. The kinds know nothing of each other.
#[derive(Debug)]
pub(super) enum Output {
    Sums(Box<Sums>),
    Bag(BagWriter),
    Mhl(Box<GenerationWriter>),
}

impl Output {
    pub(super) fn begin(
        place: Place<'_>,
        archive: &Archive,
        algorithm: Algorithm,
        header: Header,
    ) -> io::Result<Self> {
        let Place {
            directory,
            mode,
            base,
            path,
        } = place;
        Ok(match header.kind {
            ManifestKind::Sums => {
                let sums = Sums::begin(directory, algorithm, header, mode)?;
                Self::Sums(Box::new(sums))
            }
            ManifestKind::Mhl => {
                let (history, recorded) = archive.history()?;
                let algorithms = algorithm.into();
                let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
                let generation =
                    GenerationWriter::begin(directory, algorithms, history, recorded, &path, mode)?;
                Self::Mhl(Box::new(generation))
            }
            ManifestKind::Bag => {
                Self::Bag(BagWriter::begin(directory, base, algorithm.into(), mode)?)
            }
        })
    }

    /// Adds a file. Paths come in ascending order.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        file: FileDigest,
        knowledge: Knowledge,
    ) -> io::Result<()> {
        match self {
            Self::Sums(sums) => sums.add(path, file),
            Self::Bag(bag) => bag.add(path, file),
            Self::Mhl(generation) => generation.add(path, file, knowledge),
        }
    }

    /// Whether a file that differs from its record is listed with the digest that it has.
    pub(super) fn lists_failures(&self) -> bool {
        match self {
            Self::Sums(_) | Self::Bag(_) => false,
            Self::Mhl(_) => true,
        }
    }

    /// Whether each record needs the checksums of all functions of the run.
    pub(super) fn needs_all_checksums(&self) -> bool {
        match self {
            Self::Sums(_) | Self::Mhl(_) => false,
            Self::Bag(_) => true,
        }
    }

    /// Files from the source whose names are those of manifests.
    pub(super) fn copied(&self) -> &[Copied] {
        match self {
            Self::Sums(sums) => &sums.header.copied,
            Self::Bag(_) | Self::Mhl(_) => &[],
        }
    }

    pub(super) fn has_lines(&self) -> bool {
        match self {
            Self::Sums(sums) => sums.main.has_lines() || sums.other.is_some(),
            Self::Bag(bag) => bag.has_lines(),
            Self::Mhl(generation) => generation.has_lines(),
        }
    }

    /// The files whose lines other programs may misread.
    pub(super) fn misread(&self) -> Misread {
        match self {
            Self::Bag(bag) => bag.misread().clone(),
            Self::Sums(_) | Self::Mhl(_) => Misread::default(),
        }
    }

    /// The paths that keep the manifest from being finished, each with the reason.
    pub(super) fn compare(
        &mut self,
        most_open: usize,
        missing: MissingOptions<'_>,
        reading: ReadOptions<'_>,
    ) -> io::Result<Vec<(Vec<u8>, anyhow::Error)>> {
        match self {
            Self::Sums(_) => Ok(Vec::new()),
            Self::Mhl(generation) => generation.list(most_open, missing, reading),
            Self::Bag(bag) => {
                let mismatches = bag.compare(most_open)?.into_iter();
                Ok(mismatches
                    .map(|(path, mismatch)| (path, anyhow!(mismatch)))
                    .collect())
            }
        }
    }

    pub(super) fn finish(self) -> io::Result<Vec<Finished>> {
        match self {
            Self::Sums(sums) => sums.finish(),
            // Both replace their own files.
            Self::Bag(bag) => Ok(finished(bag.finish()?)),
            Self::Mhl(generation) => Ok(finished(generation.finish()?)),
        }
    }
}

fn finished(paths: Vec<String>) -> Vec<Finished> {
    let exclusivity = Exclusivity::Atomic;
    let finished = paths.into_iter().map(|path| Finished { path, exclusivity });
    finished.collect()
}

/// Lists of sums: one manifest for each algorithm that records use.
#[derive(Debug)]
pub(super) struct Sums {
    directory: Arc<OwnedFd>,
    header: Header,
    mode: Mode,
    main: Writer,
    main_algorithm: Algorithm,
    /// The manifest of the other algorithm. It has only lines of earlier manifests.
    other: Option<Writer>,
}

impl Sums {
    pub(super) fn begin(
        directory: &Arc<OwnedFd>,
        main_algorithm: Algorithm,
        header: Header,
        mode: Mode,
    ) -> io::Result<Self> {
        Ok(Self {
            main: Writer::begin(directory, main_algorithm, &header, mode)?,
            directory: Arc::clone(directory),
            header,
            mode,
            main_algorithm,
            other: None,
        })
    }

    pub(super) fn add(&mut self, path: &[u8], file: FileDigest) -> io::Result<()> {
        let FileDigest { algorithm, digest } = file;
        if algorithm == self.main_algorithm {
            return self.main.add(&digest, path);
        }
        if let Some(other) = &mut self.other {
            return other.add(&digest, path);
        }
        let header = self.header.of_other_algorithm();
        let begun = Writer::begin(&self.directory, algorithm, &header, self.mode);
        self.other.insert(begun?).add(&digest, path)
    }

    /// Gives the manifest its name. If earlier digests are of another algorithm, there are two.
    fn finish(self) -> io::Result<Vec<Finished>> {
        let Self {
            directory,
            main,
            other,
            ..
        } = self;
        // The other one repeats lines of earlier manifests, and replaces none of them. Once the
        // main one has its name too, both replace all.
        let other = other.map(|other| other.finish(&directory)).transpose()?;
        let main = main.finish(&directory)?;
        Ok([main].into_iter().chain(other).collect())
    }
}
