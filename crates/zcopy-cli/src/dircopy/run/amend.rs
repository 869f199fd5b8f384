//! Changes records without copying: accepts files as they are now, and forgets missing ones.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags};

use super::accepted_maps::{Failure, remove_maps};
use super::lock::RunLock;
use crate::common::cli::quote::quoted;
use crate::common::digest::Algorithm;
use crate::dircopy::args::{Args, accepted};
use crate::dircopy::hash::null::open_null;
use crate::dircopy::manifest::bag::PathBase;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl::write::MissingOptions;
use crate::dircopy::manifest::read::archive::{Archive, DamagedFile, Verify};
use crate::dircopy::manifest::write::output::Place;
use crate::dircopy::manifest::write::update::{Carrying, OnChange, Update};
use crate::dircopy::schedule::fd_budget::Descriptors;
use crate::dircopy::settings::FIRST_DIGESTS;
use crate::dircopy::walk::Exclude;

/// The changes to make.
#[derive(Clone, Debug)]
pub(crate) struct Amendment {
    /// The paths of files that are recorded as they are now.
    pub(crate) accepted: BTreeSet<Vec<u8>>,
    /// Whether records of files that are gone are dropped.
    pub(crate) forgets_missing: bool,
    /// The mode of a new manifest.
    pub(crate) mode: Mode,
    /// The kind of the manifest. Without it, the tree tells.
    pub(crate) kind: Option<ManifestKind>,
    /// The most levels of the tree that are held open.
    pub(crate) most_open: usize,
}

/// The result of an amendment.
#[derive(Debug)]
pub(crate) struct Amended {
    /// The paths of the new manifests. Empty if nothing changed.
    pub(crate) manifests: Vec<PathBuf>,
    /// The paths of files that could not be accepted or searched for, each with the reason.
    pub(crate) failures: Vec<(PathBuf, anyhow::Error)>,
}

impl Amendment {
    /// Returns the changes that the command line asks for, if any. A new manifest gets the mode
    /// `mode`.
    ///
    /// # Errors
    ///
    /// A message, if they conflict with other options.
    pub(crate) fn from_args(args: &Args, mode: Mode) -> Result<Option<Self>, String> {
        if args.accept.is_empty() && !args.forget_missing {
            return Ok(None);
        }
        if args.hash_file.is_some() {
            return Err(
                "--accept and --forget-missing change manifests, and not --hash-file".to_owned(),
            );
        }
        if !args.accept.is_empty() && args.paths.len() > 1 {
            return Err("--accept takes one tree".to_owned());
        }
        let here = PathBuf::from(".");
        let tree = args.paths.first().unwrap_or(&here);
        Ok(Some(Self {
            accepted: accepted(args, tree)?,
            forgets_missing: args.forget_missing,
            mode,
            kind: args.manifest,
            most_open: Descriptors::of_process().check_levels(),
        }))
    }

    /// Changes the records of a tree.
    ///
    /// `on_wait` is called before this waits for a run that copies to the tree, and `on_change` for
    /// each record that is changed or dropped.
    ///
    /// # Errors
    ///
    /// The tree has no manifest, or a damaged one; the new one cannot be written.
    pub(crate) fn apply(
        &self,
        tree: &Path,
        on_wait: impl FnOnce(),
        on_change: OnChange<'_>,
    ) -> anyhow::Result<Amended> {
        let null = open_null()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(tree, flags, Mode::empty()).map_err(io::Error::from)?;
        let root = Arc::new(root);
        let _lock = RunLock::acquire(&root, on_wait);
        let detect = || ManifestKind::detect(root.as_fd());
        let kind = self.kind.map_or_else(detect, Ok);
        let kind = kind.context("cannot read its manifests")?;
        let base = PathBase::Bag;
        if kind.keeps_first_digest() {
            bail!(FIRST_DIGESTS);
        }
        let archive = Archive::open_kind(kind, root.as_fd(), Verify::Needed, true, base, None);
        let mut archive = archive.context("cannot read its manifests")?;
        if let Some(damaged) = archive.damaged().first() {
            let DamagedFile { name, damage, .. } = damaged;
            bail!("the manifest {name} {}: {damage}", damaged.state());
        }
        if archive.is_empty() {
            bail!("no manifest found");
        }
        if let Some(path) = self.accepted.iter().find(|path| !archive.covers(path)) {
            let path = quoted(OsStr::from_bytes(path));
            bail!("{path} is not among the files that the manifest lists");
        }
        let carrying = Carrying {
            root: root.as_fd(),
            forgets_missing: self.forgets_missing,
            accepted: self.accepted.clone(),
            algorithm: archive.algorithm().unwrap_or(Algorithm::Sha256),
            reading: ReadOptions::unlimited(&null),
            on_change,
        };
        // Nothing is copied, so there is no source.
        let header = archive.next_header(Vec::new(), Vec::new());
        let place = Place {
            directory: &root,
            mode: self.mode,
            base,
            path: tree,
        };
        let update = Update::begin(place, &archive, header, carrying);
        let mut update = update.context("cannot write the manifest")?;
        let failures = update.complete().context("cannot write the manifest")?;
        let as_path = |path| PathBuf::from(OsString::from_vec(path));
        let failures = failures.into_iter();
        let failures = failures.map(|(path, error)| (as_path(path), error));
        let mut failures: Vec<_> = failures.collect();
        if !update.has_changed() && !archive.has_journals() {
            return Ok(Amended {
                manifests: Vec::new(),
                failures,
            });
        }
        let accepted = update.take_accepted();
        let exclude = Exclude::default();
        let missing = MissingOptions {
            exclude: &exclude,
            are_errors: true,
        };
        let mismatches = update
            .compare(self.most_open, missing)
            .context("cannot read the tree")?;
        if !mismatches.is_empty() {
            let mismatches = mismatches.into_iter();
            failures.extend(mismatches.map(|(path, error)| (as_path(path), error)));
            return Ok(Amended {
                manifests: Vec::new(),
                failures,
            });
        }
        let manifests = update.finish().context("cannot write the manifest")?;
        let kept = remove_maps(root.as_fd(), &archive, accepted);
        let kept = kept.context("cannot read its manifests")?.into_iter();
        failures.extend(kept.map(|Failure { path, error }| (as_path(path), error)));
        archive.remove_journals(root.as_fd());
        let paths = manifests.iter();
        let paths = paths.map(|manifest| tree.join(&manifest.path));
        Ok(Amended {
            manifests: paths.collect(),
            failures,
        })
    }
}
