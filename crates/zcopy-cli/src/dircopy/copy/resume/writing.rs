//! Writes a copy from an offset on.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use rustix::fs::Stat;
use zcopy::{Ended, RateLimiter, Report, Side, SkipErrors, Sparse, Transfer};

use super::checkpoints::Checkpoints;
use super::is_of_space;
use crate::dircopy::copy::file::{AtomicFile, check_source_length, transfer_error_from};
use crate::dircopy::copy::write_back::FileWriteBack;
use crate::dircopy::counts::Count;
use crate::dircopy::damage_map::{BadRange, DamageMap};
use crate::dircopy::hash::pool::{Contents, StreamHasher};
use crate::dircopy::hash::reader::no_digest;
use crate::dircopy::hash::transfers::{limited, read_limit, stop_if_interrupted};
use crate::dircopy::interrupt::{Interrupt, Interrupted};
use crate::dircopy::stat::size;
use crate::dircopy::write::partial_file::PartialLog;

/// How files are read and written.
#[derive(Clone, Copy)]
pub(super) struct WriteOptions<'a> {
    /// The size of a read in bytes.
    pub(super) block_size: usize,
    pub(super) interrupt: &'a Interrupt,
    pub(super) rate_limiter: Option<&'a RateLimiter>,
    pub(super) on_bad_blocks: OnBadBlocks,
}

/// The treatment of bytes of an original that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBadBlocks {
    Fail,
    Skip,
}

/// Counts the bytes of a file, each once.
pub(super) struct Progress<'a> {
    counter: Option<&'a Count>,
    n_counted: u64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(counter: Option<&'a Count>) -> Self {
        Self {
            counter,
            n_counted: 0,
        }
    }

    /// Counts the bytes up to this offset.
    pub(super) fn reach(&mut self, offset: u64) {
        if let Some(n) = offset.checked_sub(self.n_counted) {
            self.n_counted = offset;
            if let Some(counter) = self.counter {
                counter.add(n);
            }
        }
    }
}

/// A copy that is being written.
pub(super) struct Writing<'t, 'h, 'f, 'c> {
    pub(super) stream: StreamHasher<'t, 'h>,
    pub(super) checkpoints: Checkpoints<'f>,
    pub(super) write_back: FileWriteBack<'f>,
    pub(super) progress: Progress<'c>,
    /// The number of bytes that the hasher has got.
    pub(super) position: u64,
}

impl Writing<'_, '_, '_, '_> {
    /// Writes the bytes of the original, which was as `stat` says when the copy began, behind those that the hasher has got. Returns the report of
    /// the last transfer, and what was skipped. Returns `None` if the copy has to be written from
    /// its start: bytes are to be skipped, and the hasher has got some that the copy lacks.
    ///
    /// If this fails, what has been written stays for a later run, unless the disk is full or the
    /// original has changed.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, the original has changed, or the run is interrupted.
    pub(super) fn write(
        &mut self,
        original: &File,
        copy: &AtomicFile,
        stat: &Stat,
        options: WriteOptions<'_>,
    ) -> anyhow::Result<Option<(Report, DamageMap)>> {
        let size = size(stat);
        // A copy that has not come to the disk gets no name, and needs no more bytes.
        let has_failed = AtomicBool::new(false);
        let rest = |from: u64| {
            let transfer = Transfer::new(original, copy)
                .source_offset(from)
                .sink_offset(from)
                .limit(read_limit(size).saturating_sub(from))
                .buffer_size(options.block_size);
            let transfer = limited(transfer, options.rate_limiter);
            transfer.observe(|_| {
                if has_failed.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    stop_if_interrupted(options.interrupt)
                }
            })
        };
        let mut from = self.position;
        let mut skipped = DamageMap::default();
        let run = rest(from).sparse(Sparse::KeepUnwritten);
        let run = run.inspect(|bytes| {
            self.pass(bytes);
            has_failed.store(self.checkpoints.have_failed(), Ordering::Relaxed);
        });
        let report = match run.run() {
            Ok(report) => report,
            Err(error) => {
                let end = from + error.bytes();
                self.note_end(end);
                let skips = options.on_bad_blocks == OnBadBlocks::Skip;
                if !skips || error.side() != Side::Source {
                    if !is_full(&error) {
                        self.checkpoints.keep();
                    }
                    return Err(transfer_error_from(&error, from));
                }
                if self.position != end {
                    return Ok(None);
                }
                from = end;
                // Bytes behind damage are not noted: their digest would not tell which are missing.
                self.checkpoints.stop();
                let run = rest(from)
                    .sparse(Sparse::Detect)
                    .skip_errors(SkipErrors::Adaptive)
                    .on_skip(|range| {
                        skipped.push(BadRange {
                            offset: end + range.offset(),
                            bytes: range.bytes(),
                        });
                    });
                let run = run.inspect(|bytes| self.pass(bytes)).run();
                run.map_err(|error| {
                    if !is_full(&error) {
                        self.checkpoints.keep();
                    }
                    transfer_error_from(&error, from)
                })?
            }
        };
        let end = from + report.bytes();
        self.checkpoints.check()?;
        if report.ended() == Ended::Stopped {
            self.note_end(end);
            self.checkpoints.keep();
            bail!(Interrupted);
        }
        if end != size {
            check_source_length(original, stat, end).inspect_err(|error| {
                // The server of the original may come back.
                if error.is::<io::Error>() {
                    self.note_end(end);
                    self.checkpoints.keep();
                }
            })?;
        }
        Ok(Some((report, skipped)))
    }

    fn pass(&mut self, bytes: &[u8]) {
        let n = bytes.len() as u64;
        self.checkpoints.note(&mut self.stream);
        self.stream.push(bytes);
        self.position += n;
        self.write_back.add(n);
        self.progress.reach(self.position);
        self.checkpoints.pass(&mut self.stream, self.position);
    }

    /// Notes the digest of all bytes, if the copy has those that the hasher has got.
    fn note_end(&mut self, written: u64) {
        if self.position == written {
            self.checkpoints.note_end(&mut self.stream, written);
        }
    }

    /// The contents of a whole copy, and its log, which lives as long as the copy has no name.
    ///
    /// # Errors
    ///
    /// The hashing thread has exited, or the copy could not be brought to the disk.
    pub(super) fn finish(self) -> anyhow::Result<(Contents, PartialLog)> {
        let Self {
            stream,
            mut checkpoints,
            write_back,
            position,
            ..
        } = self;
        write_back.finish(position);
        let Some(contents) = stream.finish() else {
            checkpoints.keep();
            return Err(no_digest());
        };
        if let Contents::Digest(digest) = &contents {
            checkpoints.note_digest(position, *digest);
        }
        Ok((contents, checkpoints.into_log()?))
    }
}

/// Whether a write failed for want of space. Then other files need what the copy holds.
fn is_full(error: &zcopy::Error) -> bool {
    error.side() == Side::Sink && is_of_space(error.io_error_kind())
}
