//! Files that are read whole, to be hashed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use zcopy::{Ended, Report, Side, Sparse, Transfer};

use super::attributes::Named;
use super::containment::identity;
use super::counts::Count;
use super::hashing::{Contents, Tap};
use super::interrupt::{Interrupt, Interrupted};
use super::manifest::record::FileDigest;
use super::tree::Entry;
use crate::digest::{Algorithm, Digest, Stream};
use crate::exit;

/// So much is read at once past the cache, where nobody reads ahead: 1 MiB.
pub(super) const AT_ONCE: usize = 1 << 20;

/// The digest of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CopyDigest {
    pub(super) digest: Digest,
    /// Whether the copy has the digest that it was recorded with, if it was.
    pub(super) is_as_recorded: bool,
}

/// Has what passes digested.
pub(super) struct Reader<'a> {
    pub(super) tap: Tap<'a>,
    /// The algorithm of the digests.
    pub(super) algorithm: Algorithm,
    /// `/dev/null`, into which is read what is only to be hashed.
    pub(super) null: &'a File,
    /// How much is read at once, in bytes.
    pub(super) block_size: usize,
    /// Whether transfers are to end early.
    pub(super) interrupt: &'a Interrupt,
}

impl Reader<'_> {
    /// Runs a transfer of about so many bytes, counts what passes as it does, and says what it was; nothing, if the thread that hashed it has
    /// ended, or the transfer was [interrupted](Self::no_contents).
    ///
    /// # Errors
    ///
    /// The transfer's.
    pub(super) fn run(
        &mut self,
        transfer: Transfer<'_>,
        size: u64,
        passed: Option<&Count>,
    ) -> Result<(Report, Option<Contents>), zcopy::Error> {
        self.run_and_inspect(transfer, size, |bytes| {
            if let Some(passed) = passed {
                passed.add(bytes.len() as u64);
            }
        })
    }

    /// As [`run`](Self::run), and shows the bytes.
    fn run_and_inspect(
        &mut self,
        transfer: Transfer<'_>,
        size: u64,
        mut inspect: impl FnMut(&[u8]),
    ) -> Result<(Report, Option<Contents>), zcopy::Error> {
        let mut flow = self.tap.begin(size);
        let transfer = transfer.inspect(|bytes| {
            flow.push(bytes);
            inspect(bytes);
        });
        let interrupt = self.interrupt;
        let report = transfer.observe(|_| flow_until(interrupt)).run()?;
        if report.ended() == Ended::Stopped {
            return Ok((report, None));
        }
        Ok((report, flow.finish()))
    }

    /// The digest of all that a file holds, wherever it stands.
    ///
    /// # Errors
    ///
    /// What the kernel says of reading.
    pub(super) fn digest_of(
        &mut self,
        file: &File,
        size: u64,
        passed: Option<&Count>,
    ) -> anyhow::Result<Digest> {
        let transfer = Transfer::new(file, self.null).limit(limit(size));
        let contents = self.contents_of(transfer, self.block_size, size, passed)?;
        Ok(self.tap.digest_of(&contents))
    }

    /// What a file holds of which nothing is in memory yet, nor to be kept there. It is read past the cache, unless it is short.
    ///
    /// # Errors
    ///
    /// As [`digest_of`](Self::digest_of).
    pub(super) fn contents_past_cache(
        &mut self,
        file: &File,
        size: u64,
        passed: Option<&Count>,
    ) -> anyhow::Result<Contents> {
        let transfer = Transfer::new(file, self.null);
        if size < AT_ONCE as u64 {
            return self.contents_of(transfer, self.block_size, size, passed);
        }
        if let Ok(flags) = rustix::fs::fcntl_getfl(file) {
            // It is only slower if the file system cannot do that.
            let _ = rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT);
        }
        self.contents_of(transfer, self.block_size.max(AT_ONCE), size, passed)
    }

    fn contents_of(
        &mut self,
        transfer: Transfer<'_>,
        at_once: usize,
        size: u64,
        passed: Option<&Count>,
    ) -> anyhow::Result<Contents> {
        let transfer = transfer
            .source_offset(0)
            .buffer_size(at_once)
            .sparse(Sparse::KeepUnwritten);
        let (_, contents) = self
            .run(transfer, size, passed)
            .map_err(|error| anyhow!(read_error(&error)))?;
        contents.ok_or_else(|| self.no_contents())
    }

    /// The error of a transfer without contents.
    pub(super) fn no_contents(&self) -> anyhow::Error {
        match self.interrupt.check() {
            Err(interrupted) => interrupted.into(),
            Ok(()) => no_digest(),
        }
    }

    /// The digest of an entry, and whether it is one of the digests that are expected, if any are.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is written to meanwhile.
    pub(super) fn digest_of_original(
        &mut self,
        entry: &Entry,
        expected: &[FileDigest],
    ) -> anyhow::Result<(Digest, bool)> {
        let (file, stat) = entry.open().context("cannot open")?;
        let digests = self.digest_and_compare(&file, &stat, None, expected);
        let CopyDigest {
            digest,
            is_as_recorded,
        } = digests.context("cannot read")?;
        if !is_untouched(&file, &stat).context("cannot stat")? {
            bail!("it changed while it was read");
        }
        Ok((digest, is_as_recorded))
    }

    /// The digest of what bears an entry's name in the destination, and whether that is one of the
    /// digests that it has to have.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is written to meanwhile.
    pub(super) fn digest_of_copy(
        &mut self,
        entry: &Entry,
        passed: Option<&Count>,
        expected: &[FileDigest],
    ) -> anyhow::Result<CopyDigest> {
        let Named { directory, name } = entry.destination();
        let (file, stat) = open_regular(directory, name).context("cannot open its copy")?;
        let digests = self.digest_and_compare(&file, &stat, passed, expected);
        let digests = digests.context("cannot read its copy")?;
        if !is_untouched(&file, &stat).context("cannot stat its copy")? {
            bail!("its copy changed while it was read");
        }
        Ok(digests)
    }

    /// The digest of all that a file holds, and whether it has one of the digests that are
    /// expected. All digests are made in one pass.
    fn digest_and_compare(
        &mut self,
        file: &File,
        stat: &Stat,
        passed: Option<&Count>,
        expected: &[FileDigest],
    ) -> anyhow::Result<CopyDigest> {
        let others = expected
            .iter()
            .filter(|file| file.algorithm != self.algorithm);
        let mut others: Vec<_> = others
            .map(|file| (Stream::new(file.algorithm), file.digest))
            .collect();
        let transfer = Transfer::new(file, self.null)
            .limit(limit(size(stat)))
            .source_offset(0)
            .buffer_size(self.block_size)
            .sparse(Sparse::KeepUnwritten);
        let run = self.run_and_inspect(transfer, size(stat), |bytes| {
            for (stream, _) in &mut others {
                stream.update(bytes);
            }
            if let Some(passed) = passed {
                passed.add(bytes.len() as u64);
            }
        });
        let (_, contents) = run.map_err(|error| anyhow!(read_error(&error)))?;
        let contents = contents.ok_or_else(|| self.no_contents())?;
        let digest = self.tap.digest_of(&contents);
        let algorithm = self.algorithm;
        let is_as_recorded = expected.is_empty()
            || expected.contains(&FileDigest { algorithm, digest })
            || others
                .into_iter()
                .any(|(stream, other)| stream.finish() == other);
        Ok(CopyDigest {
            digest,
            is_as_recorded,
        })
    }
}

/// Opens a regular file in a directory of the destination, and no link to one.
pub(super) fn open_regular(directory: impl AsFd, name: &CStr) -> io::Result<(File, Stat)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file.into(), stat))
}

/// Whether nobody has touched a file since it was looked at: its size, its times of modification and change, and which it is.
pub(super) fn is_untouched(file: &File, before: &Stat) -> io::Result<bool> {
    let version = |stat: &Stat| {
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        (identity(stat), stat.st_size, modified, changed)
    };
    Ok(version(before) == version(&rustix::fs::fstat(file)?))
}

/// How many bytes a file claims to have.
pub(super) fn size(stat: &Stat) -> u64 {
    // No size is negative.
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// How much is read of what others may write to. What claims to be empty, as in `/proc`, may hold anything. Of anything else a byte more than
/// it had says that it grows, and to follow it may never end.
pub(super) fn limit(size: u64) -> u64 {
    match size {
        0 => u64::MAX,
        size => size.saturating_add(1),
    }
}

/// Stops a transfer if the run is to end.
pub(super) fn flow_until(interrupt: &Interrupt) -> ControlFlow<()> {
    if interrupt.is_requested() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The kernel's error behind a failed transfer. If it speaks of reading, it names the offset.
pub(super) fn read_error(error: &zcopy::Error) -> io::Error {
    let cause = exit::cause(error);
    if error.side() != Side::Source || error.call().is_none() {
        return cause;
    }
    let offset = error.bytes();
    let cause_words = exit::worded(&cause);
    io::Error::new(cause.kind(), format!("{cause_words} at offset {offset}"))
}

/// Whether an entry failed because of a signal.
pub(super) fn is_interrupted(error: &anyhow::Error) -> bool {
    error.is::<Interrupted>()
}

pub(super) fn no_digest() -> anyhow::Error {
    anyhow!("cannot hash: what does so has ended")
}
