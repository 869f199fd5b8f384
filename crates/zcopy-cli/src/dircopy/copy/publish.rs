//! Gives a copy its name.

use std::io;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::Stat;

use super::file::{AtomicFile, Method, PendingCopy, Target};
use super::resume::keep_after;
use super::{Copier, CopyResult, Proof};
use crate::common::cli::message;
use crate::common::digest::Digest;
use crate::common::sys;
use crate::dircopy::changes::{Changes, changes};
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::policy::{Decision, Policy, decide};
use crate::dircopy::schedule::lookup::PriorRecord;
use crate::dircopy::stat::is_regular;
use crate::dircopy::stat::open_regular;
use crate::dircopy::stat::size;
use crate::dircopy::stat::{Identity, identity};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{Durability, Replace};
use crate::dircopy::write::metadata::{self, Named, Permissions, Replaces};
use crate::dircopy::write::partial_file::PartialLog;

impl Copier<'_> {
    /// Gives a [prepared](Self::prepare_or_cancel) copy its name. With [`Durability::Synced`] it
    /// brings the copy and its name to the disk.
    ///
    /// If the copy fails, its announcement is taken back. If the copy has its name and may not have
    /// its contents, or may lose the name, this is reported.
    ///
    /// # Errors
    ///
    /// The copy has no name.
    pub(super) fn publish(
        &mut self,
        entry: &Entry,
        copy: PendingCopy<'_>,
        digest: Option<Digest>,
        durability: Durability,
    ) -> anyhow::Result<CopyResult> {
        self.try_publish(entry, copy, digest, durability)
            .inspect_err(|_| self.cancel(entry))
    }

    /// [Prepares](Self::prepare) a copy that was announced. If it fails, its announcement is taken
    /// back.
    ///
    /// # Errors
    ///
    /// The copy is to get no name.
    pub(super) fn prepare_or_cancel(
        &mut self,
        entry: &Entry,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        self.prepare(entry, copy, digest)
            .inspect_err(|_| self.cancel(entry))
    }

    fn try_publish(
        &mut self,
        entry: &Entry,
        copy: PendingCopy<'_>,
        digest: Option<Digest>,
        durability: Durability,
    ) -> anyhow::Result<CopyResult> {
        let announced = self.durability_of_announcement(&copy, digest);
        let PendingCopy {
            stat,
            mut new_file,
            target:
                Target {
                    replace,
                    prior,
                    map,
                    ..
                },
            method,
            n_bytes,
            resumed_bytes,
            mut partial_log,
            ..
        } = copy;
        let pending = self
            .journal
            .allow_name(replace, announced)
            .and_then(|()| stat_of(&new_file))
            .inspect_err(|_| {
                if let Some(log) = &partial_log {
                    log.keep();
                }
            })?;
        ensure_length(partial_log.as_ref(), &pending, n_bytes)?;
        let pending = identity(&pending);
        // Without its map, a damaged copy that comes back after a crash would pass for a whole one.
        let durability = match map {
            Some(_) => Durability::Synced,
            None => durability,
        };
        let name = || new_file.try_commit(entry.name(), replace, durability);
        let exclusivity = match named(name, partial_log.as_mut()) {
            Ok(exclusivity) => exclusivity,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.ensure_own_name(entry, PriorRecord::default())?;
                drop(new_file);
                let accepted = self.accept_existing(entry, &stat, digest)?;
                return accepted
                    .ok_or_else(|| anyhow!(error).context("cannot give its copy the name"));
            }
            Err(error) if durability == Durability::Synced && has_name(entry, pending) => {
                return Ok(self.report_uncertain_name(entry, &error));
            }
            Err(error) => {
                let failed = match durability {
                    Durability::Cached => "cannot give its copy the name",
                    Durability::Synced => "cannot give its copy the name, or not for certain",
                };
                if let Some(log) = &partial_log {
                    keep_after(log, &error);
                }
                self.unwritten.keep(new_file, &error);
                return Err(anyhow!(error).context(failed));
            }
        };
        self.reporter.report_exclusivity(exclusivity);
        // Whatever fails from here on, its line tells the next run and `--check` whether the copy is
        // whole.
        let line = digest
            .filter(|_| self.settings.writes_manifest)
            .map_or(Line::Remove, |digest| self.listed(digest));
        // Additional names are linked to this file and to no other. Over FUSE the new name may have
        // changed the inode number.
        let may_get_names = entry.stat().st_nlink > 1;
        let file = may_get_names
            .then(|| rustix::fs::fstat(&new_file))
            .transpose();
        let file = match file {
            Ok(stat) => stat.map(|stat| identity(&stat)),
            Err(errno) => {
                let error = errno.into();
                return Ok(self.report_uncertain(entry, error, "cannot stat its copy", line));
            }
        };
        if let Err(error) = sys::close_file(new_file.into_file().into()) {
            return Ok(self.report_uncertain(entry, error, "cannot close its copy", line));
        }
        if map.is_some() {
            self.remove_map(entry);
        }
        self.count_copy(method, n_bytes);
        if resumed_bytes > 0 {
            self.counts.resumed.add(1);
            self.counts.resumed_bytes.add(resumed_bytes);
        }
        if replace == Replace::Yes {
            self.counts.replaced.add(1);
        }
        if line == Line::Remove && prior.recorded.is_some() {
            self.counts.records_dropped.add(1);
        }
        Ok(CopyResult {
            line,
            // The announcement of a new file records it.
            needs_journal: replace == Replace::Yes || line == Line::Remove,
            proof: Proof::Written,
            file,
            is_copy: true,
            is_damaged: false,
            action: method.into(),
            is_replacement: replace == Replace::Yes,
            resumed_bytes,
        })
    }

    /// Prepares a copy for its name: checks that the original is unchanged, [reads it back](Self::read_back)
    /// if that is wanted, sets its attributes, and waits for errors of its writes.
    pub(super) fn prepare(
        &mut self,
        entry: &Entry,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        self.try_prepare(entry, copy, digest)
            .inspect_err(|error| copy.keep_after(error))
    }

    fn try_prepare(
        &mut self,
        entry: &Entry,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        let PendingCopy {
            source,
            stat,
            new_file,
            ..
        } = copy;
        if changes(source, stat).context("cannot stat")? != Changes::None {
            bail!("it changed while it was copied");
        }
        self.read_back(copy, digest)?;
        let preserve = self.settings.preserve;
        let replaces = self.replaces(entry, copy.target.replace)?;
        // A file that an earlier run has made may have got other attributes since.
        let applied = if entry.directory().hands_down() || copy.resumed_bytes > 0 {
            metadata::apply(source, new_file, stat, preserve, replaces)
        } else {
            metadata::apply_to_new(source, new_file, stat, preserve, replaces)
        };
        if let Err(error) = applied {
            self.reporter.report_metadata_error(&entry.path(), &error);
        }
        // A clone has no pages to write.
        if copy.method == Method::Written {
            new_file.settle().context("cannot write its copy")?;
        }
        Ok(())
    }

    /// The file that a copy replaces, if the mode of the copy depends on it.
    fn replaces<'e>(&self, entry: &'e Entry, replace: Replace) -> anyhow::Result<Replaces<'e>> {
        let existing = match (self.settings.preserve.permissions, replace) {
            (Permissions::Created { .. }, Replace::Yes) => entry.existing(),
            _ => Ok(None),
        };
        let existing = existing.context("cannot stat its copy")?;
        Ok(match existing.filter(is_regular) {
            Some(stat) => {
                let mode = metadata::mode_to_hand_on(entry.destination(), &stat);
                Replaces::Mode(mode.context("cannot examine its copy")?)
            }
            None => Replaces::Nothing {
                directory: entry.destination().directory,
            },
        })
    }

    /// Counts a copy that has its name.
    pub(super) fn count_copy(&self, method: Method, n_bytes: u64) {
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(n_bytes);
        match method {
            Method::Written => self.counts.copied.add(1),
            Method::Cloned => self.counts.cloned.add(1),
        }
    }

    /// Reports a copy that may lose its name if the power fails.
    pub(super) fn report_uncertain_name(&self, entry: &Entry, error: &io::Error) -> CopyResult {
        let error = io::Error::new(error.kind(), message::worded(error));
        let failed = "cannot give its copy the name for certain";
        self.report_uncertain(entry, error, failed, Line::Remove)
    }

    /// Reports a copy that has its name, and may not have its contents.
    fn report_uncertain(
        &self,
        entry: &Entry,
        error: io::Error,
        failed: &'static str,
        line: Line,
    ) -> CopyResult {
        let error = anyhow!(error).context(failed);
        self.reporter.report_error(&entry.path(), &error);
        CopyResult {
            line,
            needs_journal: true,
            ..CopyResult::default()
        }
    }

    /// Accepts a file that another process created under this name, if its contents match. Returns
    /// None if they do not.
    fn accept_existing(
        &mut self,
        entry: &Entry,
        stat: &Stat,
        digest: Option<Digest>,
    ) -> anyhow::Result<Option<CopyResult>> {
        let Named { directory, name } = entry.destination();
        let (file, existing) = open_regular(directory, name).context("cannot open its copy")?;
        let rounding = |time| self.granularities.rounding(entry, time);
        match decide(Policy::Default, stat, &existing, rounding) {
            Decision::Skip => {}
            Decision::CompareInDoubt if digest.is_some() => {}
            _ => return Ok(None),
        }
        if let Some(digest) = digest {
            let read = self.reader.digest_of(&file, size(&existing), None);
            if read.context("cannot read its copy")? != digest {
                return Ok(None);
            }
        }
        let line = digest.map_or(Line::Keep, |digest| self.listed(digest));
        Ok(Some(self.left(line, &existing, PriorRecord::default())))
    }
}

/// Fails if a copy that could outlive the run has not the length that was written: it has a name
/// meanwhile, by which others can change it.
fn ensure_length(log: Option<&PartialLog>, stat: &Stat, n_bytes: u64) -> anyhow::Result<()> {
    if log.is_some() && size(stat) != n_bytes {
        bail!("its copy has another length than was written");
    }
    Ok(())
}

/// The state of a copy under construction.
pub(super) fn stat_of(new_file: &AtomicFile) -> anyhow::Result<Stat> {
    let stat = rustix::fs::fstat(new_file).map_err(io::Error::from);
    stat.context("cannot stat its copy")
}

/// Whether the name of an entry is a name of this file.
pub(super) fn has_name(entry: &Entry, file: Identity) -> bool {
    let existing = entry.existing().ok().flatten();
    existing.is_some_and(|existing| identity(&existing) == file)
}

/// Gives a copy its name by `name`. The log of a copy that a later run could go on with tells that
/// it may have the name, until this has failed.
pub(super) fn named<T>(
    name: impl FnOnce() -> io::Result<T>,
    mut log: Option<&mut PartialLog>,
) -> io::Result<T> {
    if let Some(log) = &mut log {
        log.begin_naming();
    }
    name().inspect_err(|_| {
        if let Some(log) = log {
            log.cancel_naming();
        }
    })
}
