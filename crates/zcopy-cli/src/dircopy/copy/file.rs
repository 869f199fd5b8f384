//! Writes or clones a regular file.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Advice, Mode, Stat};
use zcopy::{Ended, Reflink, Report, Side, SkipErrors, Sparse, Transfer};

use super::read_together::Together;
use super::{Copier, CopyResult};
use crate::common::digest::Digest;
use crate::dircopy::changes::{Changes, changes};
use crate::dircopy::counts::Count;
use crate::dircopy::damage_map::{BadRange, DamageMap};
use crate::dircopy::hash::pool::Contents;
use crate::dircopy::hash::reader::READ_SIZE;
use crate::dircopy::hash::transfers::{
    check_length, is_interrupted, limited, read_error_from, read_limit, stop_if_interrupted,
};
use crate::dircopy::interrupt::Interrupted;
use crate::dircopy::schedule::lookup::PriorRecord;
use crate::dircopy::stat::identity;
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{self, Replace};
use crate::dircopy::write::metadata::Permissions;
use crate::dircopy::write::partial_file::PartialLog;

/// A shorter file is copied in one call. A longer one is copied in steps, so that a signal ends the
/// copy early: 64 MiB.
const MAX_UNINTERRUPTED: u64 = 64 << 20;

/// The file under construction, in its directory.
pub(super) type AtomicFile = atomic_file::AtomicFile<Arc<OwnedFd>>;

/// How a copy gets its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Written,
    Cloned,
}

/// The name that a copy is to get.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) replace: Replace,
    pub(super) prior: PriorRecord,
    /// The map beside a damaged copy.
    pub(super) map: Option<DamageMap>,
    pub(super) version: Version,
}

/// Whether the record of a copy is of this version of the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// The original may be newer.
    #[default]
    Unknown,
    /// The original is no newer. So the copy has to have the recorded digest.
    Recorded,
}

impl Target {
    pub(super) fn new(replace: Replace, prior: PriorRecord) -> Self {
        Self {
            replace,
            prior,
            map: None,
            version: Version::Unknown,
        }
    }
}

/// A copy under construction.
pub(super) struct PendingCopy<'a> {
    pub(super) source: File,
    /// The state of the source when the copy began.
    pub(super) stat: Stat,
    pub(super) new_file: AtomicFile,
    pub(super) target: Target,
    pub(super) method: Method,
    /// Ranges of the original that cannot be read.
    pub(super) damage: DamageMap,
    /// Counts bytes as they are read or written.
    pub(super) counter: Option<&'a Count>,
    /// The length of the copy.
    pub(super) n_bytes: u64,
    /// How many of its bytes an earlier run has copied.
    pub(super) resumed_bytes: u64,
    /// The log of a file that outlives the run.
    pub(super) partial_log: Option<PartialLog>,
}

impl<'a> PendingCopy<'a> {
    /// Opens the source, and creates an empty file for the copy.
    fn begin(
        entry: &Entry,
        target: Target,
        permissions: Permissions,
        counter: Option<&'a Count>,
    ) -> anyhow::Result<Self> {
        let (source, stat) = entry.open().context("cannot open")?;
        if identity(&stat) != identity(entry.stat()) {
            bail!("it was replaced before it could be copied");
        }
        Ok(Self {
            new_file: create_new_file(entry, &stat, permissions)?,
            source,
            stat,
            target,
            method: Method::Written,
            damage: DamageMap::default(),
            counter,
            n_bytes: 0,
            resumed_bytes: 0,
            partial_log: None,
        })
    }

    /// Starts to read a short clone from the disk. A clone does not share the page cache of its
    /// original.
    pub(super) fn read_ahead(&self) {
        if size(&self.stat) < READ_SIZE as u64 {
            // Without it the clone is only read later.
            let _ = rustix::fs::fadvise(&self.new_file, 0, None, Advice::WillNeed);
        }
    }
}

/// Creates an empty file for a copy.
pub(super) fn create_new_file(
    entry: &Entry,
    stat: &Stat,
    permissions: Permissions,
) -> anyhow::Result<AtomicFile> {
    // Without these bits an owner who is not root could not set extended attributes.
    let private = Mode::RUSR | Mode::WUSR;
    let mode = match permissions {
        Permissions::Original => Mode::from_raw_mode(stat.st_mode & 0o777) | private,
        Permissions::Created { .. } => private,
    };
    AtomicFile::with_mode(Arc::clone(entry.destination_directory()), mode)
        .context("cannot create its copy")
}

/// A copy after its first step.
pub(super) enum Started<'a> {
    /// It is a clone, which has to be read to be hashed.
    Cloned(Box<PendingCopy<'a>>),
    /// Its contents have been read.
    Read(ReadCopy<'a>),
}

impl Started<'_> {
    /// A copy that needs no further step.
    pub(super) const fn finished(result: CopyResult) -> Self {
        Self::Read(ReadCopy::Finished(result))
    }
}

/// A copy whose contents have been read.
pub(super) enum ReadCopy<'a> {
    /// It is short. Its contents, which are here, have to be hashed before it gets its name.
    Unhashed(Box<PendingCopy<'a>>, Vec<u8>),
    /// It has to be announced before it gets its name. Copies are announced together, as the
    /// announcement may have to be on the disk.
    Unannounced(Box<PendingCopy<'a>>, Option<Digest>),
    /// It needs no further step.
    Finished(CopyResult),
}

impl<'a> Copier<'a> {
    /// Copies a regular file: clones it, or writes it if it cannot be cloned. `counter` counts the
    /// bytes.
    ///
    /// A clone that has to be hashed is [read](Self::read_clone) next.
    pub(super) fn copy(
        &mut self,
        entry: &Entry,
        target: Target,
        counter: Option<&'a Count>,
    ) -> anyhow::Result<Started<'a>> {
        let original_damage = Self::damage_of_original(entry)?;
        let permissions = self.settings.preserve.permissions;
        let mut copy = PendingCopy::begin(entry, target, permissions, counter)?;
        copy.damage = original_damage;
        if !self.clone_file(entry, &mut copy)? {
            let contents = if self.is_resumable(&copy) {
                self.write_resumable(entry, &mut copy)?
            } else {
                self.write(entry, &mut copy)?
            };
            return self
                .publish_if_damaged(entry, copy, contents)
                .map(Started::Read);
        }
        self.pass_by(entry);
        if self.settings.wants_digests() {
            return Ok(Started::Cloned(Box::new(copy)));
        }
        if let Some(counter) = counter {
            counter.add(size(&copy.stat));
        }
        self.publish_if_damaged(entry, copy, None)
            .map(Started::Read)
    }

    /// Reads a clone, to hash it.
    ///
    /// A clone shares the bad blocks of its original. If it cannot be read, `--skip-errors` writes
    /// a copy in place of it.
    pub(super) fn read_clone(
        &mut self,
        entry: &Entry,
        started: Started<'a>,
    ) -> anyhow::Result<ReadCopy<'a>> {
        let mut copy = match started {
            Started::Cloned(copy) => *copy,
            Started::Read(read) => return Ok(read),
        };
        let (file, size) = (copy.new_file.file(), size(&copy.stat));
        let contents = match self.reader.read_past_cache(file, size, copy.counter) {
            Err(error) if self.settings.skips_errors && !is_interrupted(&error) => {
                let permissions = self.settings.preserve.permissions;
                copy.new_file = create_new_file(entry, &copy.stat, permissions)?;
                // The bytes of the clone have been counted.
                copy.counter = None;
                self.write(entry, &mut copy)?
            }
            contents => Some(contents.context("cannot read its copy")?),
        };
        self.publish_if_damaged(entry, copy, contents)
    }

    /// Publishes a damaged copy. Every other one has to be announced first, and hashed if it is
    /// short.
    fn publish_if_damaged(
        &mut self,
        entry: &Entry,
        copy: PendingCopy<'a>,
        contents: Option<Contents>,
    ) -> anyhow::Result<ReadCopy<'a>> {
        if !copy.damage.is_empty() {
            let result = self.publish_damaged(entry, copy, contents);
            return result.map(ReadCopy::Finished);
        }
        let digest = match contents {
            Some(Contents::Buffered(bytes)) => {
                return Ok(ReadCopy::Unhashed(Box::new(copy), bytes));
            }
            Some(Contents::Digest(digest)) => Some(digest),
            None => None,
        };
        Ok(ReadCopy::Unannounced(Box::new(copy), digest))
    }

    /// Lets the copy share the blocks of its source. Returns false if the file systems cannot.
    fn clone_file(&self, entry: &Entry, copy: &mut PendingCopy<'_>) -> anyhow::Result<bool> {
        let PendingCopy {
            source,
            stat,
            new_file,
            ..
        } = copy;
        let devices = (identity(stat).0, entry.directory().destination_device());
        if size(stat) == 0 || !self.reflink_support.may_share(devices) {
            return Ok(false);
        }
        let transfer = Transfer::new(source, new_file)
            .source_offset(0)
            .sink_offset(0)
            .reflink(Reflink::Always);
        match transfer.run() {
            Ok(report) if report.bytes() == size(stat) => {
                self.explain(entry, &report);
                copy.method = Method::Cloned;
                copy.n_bytes = report.bytes();
                Ok(true)
            }
            Ok(_) => bail!("it changed while it was copied"),
            Err(error) if error.is_unsuitable() && error.bytes() == 0 => {
                self.reflink_support.learn(devices, &error);
                Ok(false)
            }
            Err(error) => Err(transfer_error(&error)),
        }
    }

    /// Writes the copy. Returns its contents if the settings want digests.
    pub(super) fn write(
        &mut self,
        entry: &Entry,
        copy: &mut PendingCopy<'_>,
    ) -> anyhow::Result<Option<Contents>> {
        if let Together::Written(contents) = self.write_together(entry, copy)? {
            return Ok(contents);
        }
        let mut skipped = DamageMap::default();
        let mut write_back = self.write_back.follow(entry, &copy.new_file);
        let size = size(&copy.stat);
        let mut transfer = Transfer::new(&copy.source, &copy.new_file).limit(read_limit(size));
        transfer = if self.settings.skips_errors {
            // Zeros in place of bytes that cannot be read become holes.
            let sparse = transfer.sparse(Sparse::Detect);
            let adaptive = sparse.skip_errors(SkipErrors::Adaptive);
            adaptive.on_skip(|range| {
                skipped.push(BadRange {
                    offset: range.offset(),
                    bytes: range.bytes(),
                });
            })
        } else {
            transfer.sparse(Sparse::KeepUnwritten)
        };
        let (report, contents) = if self.settings.wants_digests() {
            let transfer = transfer.buffer_size(self.reader.block_size);
            let counter = copy.counter;
            let run = self.reader.run(transfer, size, |n| {
                write_back.add(n);
                if let Some(counter) = counter {
                    counter.add(n);
                }
            });
            let (report, contents) = run.map_err(|error| transfer_error(&error))?;
            let contents = contents.ok_or_else(|| self.reader.no_contents())?;
            (report, Some(contents))
        } else {
            let interrupt = self.interrupt;
            let rate_limiter = self.reader.rate_limiter;
            let mut n_before = 0;
            let transfer = if size > MAX_UNINTERRUPTED || rate_limiter.is_some() {
                transfer.observe(|progress| {
                    write_back.add(progress.bytes() - n_before);
                    n_before = progress.bytes();
                    stop_if_interrupted(interrupt)
                })
            } else {
                transfer
            };
            let transfer = limited(transfer, rate_limiter);
            let report = transfer.run().map_err(|error| transfer_error(&error))?;
            if report.ended() == Ended::Stopped {
                bail!(Interrupted);
            }
            if let Some(counter) = copy.counter {
                counter.add(report.bytes());
            }
            (report, None)
        };
        write_back.finish(size);
        self.end_write(entry, copy, &report)?;
        copy.damage = copy.damage.union(&skipped);
        Ok(contents)
    }

    /// Ends a transfer to the copy, which has not failed.
    pub(super) fn end_write(
        &self,
        entry: &Entry,
        copy: &mut PendingCopy<'_>,
        report: &Report,
    ) -> anyhow::Result<()> {
        let size = size(&copy.stat);
        // Files in /proc have the size 0 and any length.
        if report.bytes() != size && size > 0 {
            check_source_length(&copy.source, &copy.stat, report.bytes())?;
        }
        self.explain(entry, report);
        copy.method = Method::Written;
        copy.n_bytes = report.bytes();
        Ok(())
    }

    fn explain(&self, entry: &Entry, report: &Report) {
        if self.settings.explains {
            self.reporter.note(&entry.path(), &format!("{report:#}"));
        }
    }
}

/// Checks the number of bytes that were read of a file.
///
/// # Errors
///
/// It is not the size that the file had. Unless the file has changed, it ended early.
pub(super) fn check_source_length(source: &File, stat: &Stat, n_read: u64) -> anyhow::Result<()> {
    let size = size(stat);
    if !matches!(changes(source, stat), Ok(Changes::Contents)) {
        check_length(source, size, n_read).context("cannot read")?;
    }
    if n_read != size {
        bail!("it changed while it was copied");
    }
    Ok(())
}

/// The error of a transfer from a file to its copy.
pub(super) fn transfer_error(error: &zcopy::Error) -> anyhow::Error {
    transfer_error_from(error, 0)
}

/// The same for a transfer from this offset on.
pub(super) fn transfer_error_from(error: &zcopy::Error, start: u64) -> anyhow::Error {
    let failed = match error.side() {
        Side::Source => "cannot read",
        Side::Sink => "cannot write its copy",
        _ => "cannot copy",
    };
    anyhow!(read_error_from(error, start)).context(failed)
}
