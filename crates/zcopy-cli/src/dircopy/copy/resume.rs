//! Copies long files so that a later run can go on inside them (`--resume`).
//!
//! Such a file is written under a temporary name, and a log beside it notes the digest of the bytes
//! so far, now and then (`checkpoints`). A later run reads these bytes back, compares their digest
//! with the log (`prefix`), and goes on behind them (`writing`) with the hasher that has read them.
//! So each byte of a digest has been read in this run, or has been proven by a digest of an earlier
//! one.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Context as _;

use super::Copier;
use super::file::{Method, PendingCopy, create_new_file};
use crate::common::sys;
use crate::dircopy::hash::pool::Contents;
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::Keep;
use crate::dircopy::write::partial_file::{LeftPartial, MIN_SIZE, OpenPartial, PartialLog};
use checkpoints::Checkpoints;
use prefix::Prefix;
use writing::{OnBadBlocks, Progress, WriteOptions, Writing};

mod checkpoints;
mod prefix;
mod writing;

impl PendingCopy<'_> {
    /// Leaves a copy that has failed to a later run, if a file could not be read or written. It
    /// goes if the disk is full, as other files need the space, and if the error is of its contents
    /// or of those of the original.
    pub(super) fn keep_after(&self, error: &anyhow::Error) {
        let mut causes = error.chain();
        if let Some(log) = &self.partial_log
            && let Some(cause) = causes.find_map(|cause| cause.downcast_ref())
        {
            keep_after(log, cause);
        }
    }
}

/// Leaves a copy with this log to a later run, unless the disk is full.
pub(super) fn keep_after(log: &PartialLog, error: &io::Error) {
    if !is_of_space(error.kind()) {
        log.keep();
    }
}

/// Whether a write failed for want of space. Then other files need what the copy holds.
fn is_of_space(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

impl<'a> Copier<'a> {
    /// Whether a copy that this run does not complete is left to a later run. Of a damaged original
    /// it is not: the bytes that are missing would have no digest.
    pub(super) fn is_resumable(&self, copy: &PendingCopy<'_>) -> bool {
        self.settings.resumes
            && self.settings.wants_digests()
            && size(&copy.stat) >= MIN_SIZE
            && copy.damage.is_empty()
    }

    /// Writes the copy, behind what an earlier run has written of it, if this is proven. Returns
    /// its contents.
    ///
    /// If this fails, what has been written stays for a later run, unless the disk is full or the
    /// original has changed.
    pub(super) fn write_resumable(
        &mut self,
        entry: &Entry,
        copy: &mut PendingCopy<'a>,
    ) -> anyhow::Result<Option<Contents>> {
        let keep = Keep::if_set(self.interrupt.flag());
        let left = entry.directory().take_partial(entry.name());
        let left = match left {
            Some(left) => self.open_left(entry, copy, &left, &keep)?,
            None => None,
        };
        let (settings, reporter, size) = (self.settings, self.reporter, size(&copy.stat));
        let explain = |text: &str| {
            if settings.explains {
                reporter.note(&entry.path(), text);
            }
        };
        let reader = &mut self.reader;
        let (null, algorithm) = (reader.null, reader.algorithm);
        let options = WriteOptions {
            block_size: reader.block_size,
            interrupt: reader.interrupt,
            rate_limiter: reader.rate_limiter,
            on_bad_blocks: if settings.skips_errors {
                OnBadBlocks::Skip
            } else {
                OnBadBlocks::Fail
            },
        };
        let mut progress = Progress::new(copy.counter);
        let mut stream = reader.client.begin_alone(size);
        let mut proven = Vec::new();
        if let Some(left) = &left {
            let partial = left.file.file();
            let prefix = Prefix::of(left, size, null, algorithm, options);
            proven = prefix
                .prove(&mut stream, partial, &copy.source, &mut progress, explain)
                .inspect_err(|_| left.log.keep())?;
        }
        let start = proven.last().map_or(0, |checkpoint| checkpoint.offset);
        let partial = if let Some(mut left) = left.filter(|_| start > 0) {
            explain(&format!(
                "goes on behind {start} bytes that an earlier run has copied"
            ));
            left.cut(&proven)
                .inspect_err(|_| left.log.keep())
                .context("cannot write its copy")?;
            left
        } else {
            let directory = entry.destination_directory();
            let (name, durability) = (entry.name(), settings.durability);
            OpenPartial::create(directory, name, &copy.stat, &keep, durability)
                .context("cannot create its copy")?
        };
        let unused = std::mem::replace(&mut copy.new_file, partial.file);
        sys::close_file(unused.into_file().into())
            .inspect_err(|error| keep_after(&partial.log, error))
            .context("cannot create its copy")?;
        let mut writing = Writing {
            stream,
            checkpoints: Checkpoints::new(partial.log, &copy.new_file, algorithm, start),
            write_back: self.write_back.follow(entry, &copy.new_file),
            progress,
            position: start,
        };
        let written = writing.write(&copy.source, &copy.new_file, &copy.stat, options)?;
        let Some((report, skipped)) = written else {
            drop(writing);
            let permissions = settings.preserve.permissions;
            copy.new_file = create_new_file(entry, &copy.stat, permissions)?;
            copy.counter = None;
            return self.write(entry, copy);
        };
        explain(&format!("{report:#}"));
        let (contents, log) = writing.finish()?;
        copy.partial_log = Some(log);
        copy.method = Method::Written;
        copy.damage = copy.damage.union(&skipped);
        copy.n_bytes = size;
        copy.resumed_bytes = start;
        Ok(Some(contents))
    }

    /// Opens the partial file that an earlier run has left. One of no use is removed.
    ///
    /// # Errors
    ///
    /// It cannot be opened now, and stays for a later run.
    fn open_left(
        &self,
        entry: &Entry,
        copy: &PendingCopy<'_>,
        left: &LeftPartial,
        keep: &Arc<Keep>,
    ) -> anyhow::Result<Option<OpenPartial>> {
        let directory = entry.destination_directory();
        let open = || -> anyhow::Result<Option<OpenPartial>> {
            if !left.has_version(&copy.stat) {
                return Ok(None);
            }
            let new = rustix::fs::fstat(&copy.new_file).map_err(io::Error::from)?;
            Ok(left.open(directory, &new, keep, self.settings.durability)?)
        };
        if let Some(opened) = open().context("cannot open its partial copy")? {
            return Ok(Some(opened));
        }
        if self.settings.explains {
            let unusable = "its partial copy is of another version, or not as a run leaves it";
            self.reporter.note(&entry.path(), unusable);
        }
        left.remove(directory.as_fd());
        Ok(None)
    }
}
