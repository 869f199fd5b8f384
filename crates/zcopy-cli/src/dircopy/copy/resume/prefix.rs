//! Proves the first bytes of a partial copy.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use rustix::fs::Advice;
use zcopy::{Sparse, Transfer};

use super::writing::{OnBadBlocks, Progress, WriteOptions};
use crate::common::digest::{Algorithm, AlgorithmSet, Digest, Stream};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::pool::StreamHasher;
use crate::dircopy::hash::read_from::{clear_direct, set_direct};
use crate::dircopy::hash::reader::READ_SIZE;
use crate::dircopy::hash::transfers::{limited, read_error, stop_if_interrupted};
use crate::dircopy::write::partial_file::{Checkpoint, OpenPartial};

/// The number of bytes of the original that are compared with its partial copy, at the start and at
/// the end of that: 1 MiB. File systems without numbers of their own for files, such as FAT, may
/// have another file of the same size and time in place of the original.
const SAMPLE: u64 = 1 << 20;

/// The first bytes of a partial copy, and the digests that they may have.
pub(super) struct Prefix<'a> {
    /// `/dev/null`.
    null: &'a File,
    /// The algorithm of this run.
    algorithm: Algorithm,
    options: WriteOptions<'a>,
    /// In the order of their offsets, which differ.
    checkpoints: Vec<Checkpoint>,
}

impl<'a> Prefix<'a> {
    /// Takes a partial copy of an original with this size. If several checkpoints have the same
    /// offset, the last one counts.
    pub(super) fn of(
        left: &OpenPartial,
        size: u64,
        null: &'a File,
        algorithm: Algorithm,
        options: WriteOptions<'a>,
    ) -> Self {
        let len = left.file.file().metadata();
        let len = len.map_or(0, |metadata| metadata.len()).min(size);
        let is_within = |checkpoint: &&Checkpoint| (1..=len).contains(&checkpoint.offset);
        let noted = left.checkpoints.iter().rev();
        let mut checkpoints: Vec<_> = noted.filter(is_within).copied().collect();
        checkpoints.sort_by_key(|checkpoint| checkpoint.offset);
        checkpoints.dedup_by_key(|checkpoint| checkpoint.offset);
        Self {
            null,
            algorithm,
            options,
            checkpoints,
        }
    }

    /// Reads the partial copy, and returns the checkpoints that it agrees with, in the order of their
    /// offsets. `stream` has got the bytes up to the last one, and no others. `explain` gets the
    /// reason why fewer bytes are proven than were noted.
    ///
    /// # Errors
    ///
    /// The run is interrupted, or a file cannot be read. This tells nothing about the partial copy,
    /// which serves a later run.
    pub(super) fn prove(
        mut self,
        stream: &mut StreamHasher<'_, '_>,
        partial: &File,
        original: &File,
        progress: &mut Progress<'_>,
        explain: impl Fn(&str),
    ) -> anyhow::Result<Vec<Checkpoint>> {
        while let Some(end) = self.end() {
            let ReadBack { proven, error } = self.read_past_cache(stream, partial, progress)?;
            let proven = match error {
                _ if proven == end => match is_alike(original, partial, end) {
                    Ok(true) => return Ok(self.checkpoints),
                    // What cannot be read any more was read once, and has a digest.
                    Err(_) if self.options.on_bad_blocks == OnBadBlocks::Skip => {
                        return Ok(self.checkpoints);
                    }
                    Err(error) => {
                        let failed = "cannot compare it with its partial copy";
                        return Err(anyhow!(error).context(failed));
                    }
                    Ok(false) => {
                        explain("its partial copy has other bytes than it has now");
                        0
                    }
                },
                Some(error) if proven == 0 => {
                    return Err(error.context("cannot read its partial copy"));
                }
                Some(error) => {
                    explain(&format!("its partial copy cannot be read: {error:#}"));
                    proven
                }
                None => {
                    explain("its partial copy has other bytes than were noted");
                    proven
                }
            };
            self.checkpoints.retain(|it| it.offset <= proven);
            stream.restart();
        }
        Ok(Vec::new())
    }

    /// The offset of the last checkpoint.
    fn end(&self) -> Option<u64> {
        Some(self.checkpoints.last()?.offset)
    }

    /// Reads the partial copy up to the last checkpoint, to one that it differs from, or to bytes
    /// that cannot be read.
    fn read_past_cache(
        &self,
        stream: &mut StreamHasher<'_, '_>,
        partial: &File,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<ReadBack> {
        // Pages that are not on the disk yet stay.
        let _ = rustix::fs::fadvise(partial, 0, None, Advice::DontNeed);
        // Without O_DIRECT the read takes longer.
        let _ = set_direct(partial);
        let read = self.read(stream, partial, progress);
        clear_direct(partial)?;
        read
    }

    fn read(
        &self,
        stream: &mut StreamHasher<'_, '_>,
        partial: &File,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<ReadBack> {
        let own = AlgorithmSet::from(self.algorithm);
        let mut others: Vec<(Algorithm, Stream)> = Vec::new();
        for Checkpoint { algorithm, .. } in &self.checkpoints {
            let is_known = others.iter().any(|(other, _)| other == algorithm);
            if !own.intersects((*algorithm).into()) && !is_known {
                others.push((*algorithm, Stream::new(*algorithm)));
            }
        }
        let mut found = Found {
            algorithm: self.algorithm,
            waiting: VecDeque::new(),
            proven: 0,
            differs: &AtomicBool::new(false),
        };
        let differs = found.differs;
        let mut next = self.checkpoints.iter().peekable();
        let mut position = 0;
        let transfer = Transfer::new(partial, self.null)
            .source_offset(0)
            .limit(self.end().unwrap_or(0))
            .buffer_size(self.options.block_size.max(READ_SIZE))
            .sparse(Sparse::KeepUnwritten);
        let transfer =
            limited(transfer, self.options.rate_limiter).inspect(|mut bytes: &[u8]| {
                let end = position + bytes.len() as u64;
                while let Some(checkpoint) = next.next_if(|next| next.offset <= end) {
                    let (before, behind) = bytes.split_at((checkpoint.offset - position) as usize);
                    push(stream, &mut others, before);
                    (position, bytes) = (checkpoint.offset, behind);
                    let mut others = others.iter();
                    if let Some((algorithm, other)) =
                        others.find(|(of, _)| *of == checkpoint.algorithm)
                    {
                        found.compare(checkpoint, *algorithm, other.clone().finish());
                    } else {
                        stream.request_digest();
                        found.waiting.push_back(*checkpoint);
                    }
                }
                push(stream, &mut others, bytes);
                position = end;
                progress.reach(position);
                found.take(stream);
            });
        let run = transfer.observe(|_| {
            if differs.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                stop_if_interrupted(self.options.interrupt)
            }
        });
        let error = run.run().err();
        self.options.interrupt.check()?;
        found.take_all(stream);
        let error = error.filter(|_| !differs.load(Ordering::Relaxed));
        Ok(ReadBack {
            proven: found.proven,
            error: error.map(|error| anyhow!(read_error(&error))),
        })
    }
}

/// The result of reading a partial copy back.
struct ReadBack {
    /// The offset of the last checkpoint that it agrees with, or 0.
    proven: u64,
    /// The bytes behind that cannot be read.
    error: Option<anyhow::Error>,
}

/// Adds bytes to a stream, and to those of other algorithms.
fn push(stream: &mut StreamHasher<'_, '_>, others: &mut [(Algorithm, Stream)], bytes: &[u8]) {
    stream.push(bytes);
    for (_, other) in others {
        other.update(bytes);
    }
}

/// The checkpoints that were compared.
struct Found<'a> {
    algorithm: Algorithm,
    /// Those whose digests were asked for.
    waiting: VecDeque<Checkpoint>,
    /// The offset of the last one that agrees.
    proven: u64,
    /// Whether one differs. Then all behind it differ, too.
    differs: &'a AtomicBool,
}

impl Found<'_> {
    fn compare(&mut self, checkpoint: &Checkpoint, algorithm: Algorithm, digest: Digest) {
        let noted = FileDigest {
            algorithm: checkpoint.algorithm,
            digest: checkpoint.digest,
        };
        if noted.agrees_with(FileDigest { algorithm, digest }) {
            self.proven = self.proven.max(checkpoint.offset);
        } else {
            self.differs.store(true, Ordering::Relaxed);
        }
    }

    /// Compares the digests that have come.
    fn take(&mut self, stream: &mut StreamHasher<'_, '_>) {
        while let Some(checkpoint) = self.waiting.front().copied()
            && let Some(digest) = stream.requested_digest()
        {
            self.waiting.pop_front();
            self.compare(&checkpoint, self.algorithm, digest);
        }
    }

    /// Waits for the other digests.
    fn take_all(&mut self, stream: &mut StreamHasher<'_, '_>) {
        while let Some(checkpoint) = self.waiting.pop_front()
            && let Some(digest) = stream.wait_for_digest()
        {
            self.compare(&checkpoint, self.algorithm, digest);
        }
    }
}

/// Whether samples of an original equal those of its partial copy, which has `end` bytes that are
/// proven. The rest is proven by its version.
///
/// # Errors
///
/// Those of `pread(2)`.
fn is_alike(original: &File, partial: &File, end: u64) -> io::Result<bool> {
    let len = SAMPLE.min(end);
    for at in [0, end - len] {
        // A MiB fits.
        let (mut one, mut other) = (vec![0; len as usize], vec![0; len as usize]);
        read_exact(original, &mut one, at)?;
        read_exact(partial, &mut other, at)?;
        if one != other {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_exact(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let worded = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "end of file"),
        _ => error,
    };
    file.read_exact_at(bytes, at).map_err(worded)
}
