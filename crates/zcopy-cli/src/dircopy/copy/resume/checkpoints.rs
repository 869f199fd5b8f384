//! Notes the digests of the first bytes of a copy in its log.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::keep_after;
use crate::common::digest::{Algorithm, Digest};
use crate::dircopy::copy::file::AtomicFile;
use crate::dircopy::hash::pool::StreamHasher;
use crate::dircopy::write::partial_file::{Checkpoint, PartialLog};

/// The least number of bytes between two checkpoints: 64 MiB.
const DISTANCE: u64 = 64 << 20;

/// The least time between two checkpoints.
const INTERVAL: Duration = Duration::from_secs(1);

/// The checkpoints of a copy under way.
pub(super) struct Checkpoints<'f> {
    log: PartialLog,
    file: BorrowedFd<'f>,
    algorithm: Algorithm,
    /// The last checkpoint.
    last: (u64, Instant),
    /// The offsets whose digests were asked for.
    requested: VecDeque<u64>,
    has_stopped: bool,
    /// The error of a sync of the copy. The kernel does not report it again.
    sync_error: Option<io::Error>,
}

impl<'f> Checkpoints<'f> {
    /// Those of a copy that has `start` bytes.
    pub(super) fn new(
        log: PartialLog,
        file: &'f AtomicFile,
        algorithm: Algorithm,
        start: u64,
    ) -> Self {
        Self {
            log,
            file: file.as_fd(),
            algorithm,
            last: (start, Instant::now()),
            requested: VecDeque::new(),
            has_stopped: false,
            sync_error: None,
        }
    }

    /// Asks for the digest of the bytes that the hasher has got, if it is time.
    pub(super) fn pass(&mut self, stream: &mut StreamHasher<'_, '_>, position: u64) {
        let (last, time) = self.last;
        if self.has_stopped || position - last < DISTANCE || time.elapsed() < INTERVAL {
            return;
        }
        self.last = (position, Instant::now());
        stream.request_digest();
        self.requested.push_back(position);
    }

    /// Notes the digests that have come.
    pub(super) fn note(&mut self, stream: &mut StreamHasher<'_, '_>) {
        while let Some(offset) = self.requested.front().copied()
            && let Some(digest) = stream.requested_digest()
        {
            self.requested.pop_front();
            self.note_digest(offset, digest);
        }
    }

    /// Notes the digest of all bytes that the hasher has got.
    pub(super) fn note_end(&mut self, stream: &mut StreamHasher<'_, '_>, position: u64) {
        if self.has_stopped {
            return;
        }
        stream.request_digest();
        self.requested.push_back(position);
        while let Some(offset) = self.requested.pop_front() {
            let Some(digest) = stream.wait_for_digest() else {
                return;
            };
            self.note_digest(offset, digest);
        }
    }

    /// Notes the digest of the first bytes.
    pub(super) fn note_digest(&mut self, offset: u64, digest: Digest) {
        if self.has_stopped {
            return;
        }
        let checkpoint = Checkpoint {
            offset,
            algorithm: self.algorithm,
            digest,
        };
        if let Err(error) = self.log.add(self.file, checkpoint) {
            self.has_stopped = true;
            self.sync_error = Some(error);
        }
    }

    /// Notes nothing more.
    pub(super) fn stop(&mut self) {
        self.has_stopped = true;
    }

    /// Leaves the copy to a later run if it does not get its name.
    pub(super) fn keep(&self) {
        self.log.keep();
    }

    /// Whether the copy could not be brought to the disk.
    pub(super) fn have_failed(&self) -> bool {
        self.sync_error.is_some()
    }

    /// Checks that the copy was brought to the disk. If not, what was noted before stays for a
    /// later run, unless the disk is full.
    ///
    /// # Errors
    ///
    /// The copy could not be brought to the disk. The error is returned once.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let Some(error) = self.sync_error.take() else {
            return Ok(());
        };
        keep_after(&self.log, &error);
        Err(anyhow!(error).context("cannot write its copy"))
    }

    /// The log, which lives as long as the copy has no name.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub(super) fn into_log(mut self) -> anyhow::Result<PartialLog> {
        self.check()?;
        Ok(self.log)
    }
}
