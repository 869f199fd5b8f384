//! Reads files and hashes them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::Stat;
use zcopy::{Ended, FanOut, RateLimiter, Report, Sparse, Transfer};

use super::FileDigest;
use super::pool::{Client, Contents, StreamHasher};
use super::read_from::set_direct;
use super::transfers::{check_length, limited, read_error, read_limit, stop_if_interrupted};
use crate::common::digest::{Algorithm, AlgorithmSet, Digest, Stream};
use crate::dircopy::changes::{Changes, changes};
use crate::dircopy::counts::Count;
use crate::dircopy::interrupt::Interrupt;
use crate::dircopy::stat::{open_regular, size};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::metadata::Named;

/// The size of a read past the page cache, where the kernel does not read ahead: 1 MiB.
pub(crate) const READ_SIZE: usize = 1 << 20;

/// How often a file is read whose [attributes](Changes::Attributes) changed meanwhile.
const MAX_READS: usize = 2;

/// The digest of a file that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundDigest {
    pub(crate) digest: Digest,
    /// Whether it is one of the expected digests. True if there are none.
    pub(crate) is_as_recorded: bool,
}

/// Reads files and hashes them, one after another.
pub(crate) struct Reader<'a> {
    pub(crate) client: Client<'a>,
    /// The algorithm of the digests.
    pub(crate) algorithm: Algorithm,
    /// `/dev/null`, the sink of files that are only hashed.
    pub(crate) null: &'a File,
    /// The size of a read in bytes.
    pub(crate) block_size: usize,
    /// Stops transfers early.
    pub(crate) interrupt: &'a Interrupt,
    /// Limits the bytes per second of all threads together.
    pub(crate) rate_limiter: Option<&'a RateLimiter>,
}

impl Reader<'_> {
    /// Runs a transfer of about `size` bytes, and hashes the bytes. `pass` gets the number of bytes
    /// of each piece. If the transfer was interrupted, or the hashing thread has exited, it
    /// returns no contents, and [`no_contents`](Self::no_contents) makes the error.
    ///
    /// # Errors
    ///
    /// The error of the transfer.
    pub(crate) fn run(
        &mut self,
        transfer: Transfer<'_, impl AsFd, impl AsFd>,
        size: u64,
        mut pass: impl FnMut(u64) + Send,
    ) -> Result<(Report, Option<Contents>), zcopy::Error> {
        let transfer = limited(transfer, self.rate_limiter);
        let stream_hasher = self.client.begin(size);
        run_and_inspect(transfer, stream_hasher, self.interrupt, |bytes| {
            pass(bytes.len() as u64);
        })
    }

    /// Runs a fan-out of about `size` bytes to the copies of several destinations, and hashes the
    /// bytes if a digest is wanted. `pass` gets the number of bytes so far after each piece.
    /// Without a digest although one is wanted, the fan-out was interrupted, or the hashing thread
    /// has exited.
    pub(crate) fn run_for_all(
        &mut self,
        fan_out: FanOut<'_, impl AsFd>,
        size: u64,
        wants_digest: bool,
        mut pass: impl FnMut(u64) + Send,
    ) -> (Result<Report, zcopy::Error>, Option<Digest>) {
        let fan_out = match self.rate_limiter {
            Some(rate_limiter) => fan_out.rate_limit(rate_limiter),
            None => fan_out,
        };
        let interrupt = self.interrupt;
        let fan_out = fan_out.observe(|progress| {
            pass(progress.bytes());
            stop_if_interrupted(interrupt)
        });
        if !wants_digest {
            return (fan_out.run(), None);
        }
        let mut stream_hasher = self.client.begin_alone(size);
        let read = fan_out.inspect(|bytes| stream_hasher.push(bytes)).run();
        let is_whole = |report: &Report| report.ended() != Ended::Stopped;
        let contents = if read.as_ref().is_ok_and(is_whole) {
            stream_hasher.finish()
        } else {
            drop(stream_hasher);
            None
        };
        let digest = contents.map(|contents| self.client.digest_of(&contents));
        (read, digest)
    }

    /// The digest of a whole file. The file's cursor does not matter.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the run is interrupted.
    pub(crate) fn digest_of(
        &mut self,
        file: &File,
        size: u64,
        counter: Option<&Count>,
    ) -> anyhow::Result<Digest> {
        let transfer = Transfer::new(file, self.null).limit(read_limit(size));
        let contents = self.contents_of(file, transfer, self.block_size, size, counter)?;
        Ok(self.client.digest_of(&contents))
    }

    /// Reads a whole file that is not in the page cache. A file of 1 MiB or more is read with
    /// `O_DIRECT`, so that it does not fill the cache. [`ReadFrom`](super::read_from::ReadFrom)
    /// tells where its bytes come from.
    ///
    /// # Errors
    ///
    /// As [`digest_of`](Self::digest_of).
    pub(crate) fn read_past_cache(
        &mut self,
        file: &File,
        size: u64,
        counter: Option<&Count>,
    ) -> anyhow::Result<Contents> {
        let transfer = Transfer::new(file, self.null);
        if size < READ_SIZE as u64 {
            return self.contents_of(file, transfer, self.block_size, size, counter);
        }
        // Without O_DIRECT the read takes longer.
        let _ = set_direct(file);
        self.contents_of(
            file,
            transfer,
            self.block_size.max(READ_SIZE),
            size,
            counter,
        )
    }

    fn contents_of(
        &mut self,
        file: &File,
        transfer: Transfer<'_, impl AsFd, impl AsFd>,
        read_size: usize,
        size: u64,
        counter: Option<&Count>,
    ) -> anyhow::Result<Contents> {
        let transfer = transfer
            .source_offset(0)
            .buffer_size(read_size)
            .sparse(Sparse::KeepUnwritten);
        let (report, contents) = self
            .run(transfer, size, |n| {
                if let Some(counter) = counter {
                    counter.add(n);
                }
            })
            .map_err(|error| anyhow!(read_error(&error)))?;
        let contents = contents.ok_or_else(|| self.no_contents())?;
        check_length(file, size, report.bytes())?;
        Ok(contents)
    }

    /// The error of a transfer without contents.
    pub(crate) fn no_contents(&self) -> anyhow::Error {
        match self.interrupt.check() {
            Err(interrupted) => interrupted.into(),
            Ok(()) => no_digest(),
        }
    }

    /// The digest of an entry, compared with the `expected` ones.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or changes while it is read.
    pub(crate) fn digest_of_original(
        &mut self,
        entry: &Entry,
        expected: &[FileDigest],
    ) -> anyhow::Result<FoundDigest> {
        for _ in 0..MAX_READS {
            let (file, stat) = entry.open().context("cannot open")?;
            let found = self.digest_and_compare(&file, &stat, None, expected);
            let found = found.context("cannot read")?;
            match changes(&file, &stat).context("cannot stat")? {
                Changes::None => return Ok(found),
                Changes::Attributes => {}
                Changes::Contents => break,
            }
        }
        bail!("it changed while it was read");
    }

    /// The digest of an entry's copy, compared with the `expected` ones.
    ///
    /// # Errors
    ///
    /// The copy cannot be read, or changes while it is read.
    pub(crate) fn digest_of_copy(
        &mut self,
        entry: &Entry,
        counter: Option<&Count>,
        expected: &[FileDigest],
    ) -> anyhow::Result<FoundDigest> {
        let Named { directory, name } = entry.destination();
        for n_read in 0..MAX_READS {
            // Bytes that are read again are not counted again.
            let counter = counter.filter(|_| n_read == 0);
            let (file, stat) = open_regular(directory, name).context("cannot open its copy")?;
            let found = self.digest_and_compare(&file, &stat, counter, expected);
            let found = found.context("cannot read its copy")?;
            match changes(&file, &stat).context("cannot stat its copy")? {
                Changes::None => return Ok(found),
                Changes::Attributes => {}
                Changes::Contents => break,
            }
        }
        bail!("its copy changed while it was read");
    }

    /// Whether a whole file has one of the `expected` digests.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn compare_file(
        &mut self,
        file: &File,
        expected: &[FileDigest],
    ) -> anyhow::Result<bool> {
        let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
        let found = self.digest_and_compare(file, &stat, None, expected)?;
        Ok(found.is_as_recorded)
    }

    /// The digest of a whole file, compared with the `expected` ones. The file is read once,
    /// whatever their algorithms.
    fn digest_and_compare(
        &mut self,
        file: &File,
        stat: &Stat,
        counter: Option<&Count>,
        expected: &[FileDigest],
    ) -> anyhow::Result<FoundDigest> {
        let own = AlgorithmSet::from(self.algorithm);
        let others = expected
            .iter()
            .filter(|file| !own.intersects(file.algorithm.into()));
        let mut others: Vec<_> = others
            .map(|file| (Stream::new(file.algorithm), file.digest))
            .collect();
        let transfer = Transfer::new(file, self.null)
            .limit(read_limit(size(stat)))
            .source_offset(0)
            .buffer_size(self.block_size)
            .sparse(Sparse::KeepUnwritten);
        let transfer = limited(transfer, self.rate_limiter);
        let stream_hasher = self.client.begin_alone(size(stat));
        let run = run_and_inspect(transfer, stream_hasher, self.interrupt, |bytes| {
            for (stream, _) in &mut others {
                stream.update(bytes);
            }
            if let Some(counter) = counter {
                counter.add(bytes.len() as u64);
            }
        });
        let (report, contents) = run.map_err(|error| anyhow!(read_error(&error)))?;
        let contents = contents.ok_or_else(|| self.no_contents())?;
        check_length(file, size(stat), report.bytes())?;
        let digest = self.client.digest_of(&contents);
        let algorithm = self.algorithm;
        let found = FileDigest { algorithm, digest };
        let is_as_recorded = expected.is_empty()
            || expected.iter().any(|file| found.agrees_with(*file))
            || others
                .into_iter()
                .any(|(stream, other)| stream.finish() == other);
        Ok(FoundDigest {
            digest,
            is_as_recorded,
        })
    }
}

/// As [`Reader::run`], for any stream, and calls `inspect` with the bytes.
fn run_and_inspect(
    transfer: Transfer<'_, impl AsFd, impl AsFd>,
    mut stream_hasher: StreamHasher<'_, '_>,
    interrupt: &Interrupt,
    mut inspect: impl FnMut(&[u8]) + Send,
) -> Result<(Report, Option<Contents>), zcopy::Error> {
    let transfer = transfer.inspect(|bytes| {
        stream_hasher.push(bytes);
        inspect(bytes);
    });
    let report = transfer.observe(|_| stop_if_interrupted(interrupt)).run()?;
    if report.ended() == Ended::Stopped {
        return Ok((report, None));
    }
    Ok((report, stream_hasher.finish()))
}

/// The error of a file whose hashing thread has exited.
pub(crate) fn no_digest() -> anyhow::Error {
    anyhow!("cannot hash: the hashing thread has exited")
}
