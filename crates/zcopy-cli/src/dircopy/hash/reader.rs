//! Reads files and hashes them.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{OFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use zcopy::{Ended, FanOut, RateLimiter, Report, Side, Sparse, Transfer};

use super::FileDigest;
use super::pool::{Client, Contents, StreamHasher};
use crate::common::cli::message;
use crate::common::digest::{Algorithm, AlgorithmSet, Digest, Stream};
use crate::dircopy::counts::Count;
use crate::dircopy::interrupt::{Interrupt, Interrupted};
use crate::dircopy::mtime::Time;
use crate::dircopy::stat::identity;
use crate::dircopy::stat::{open_regular, size};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::file_system::Storage;
use crate::dircopy::write::metadata::Named;

/// The size of a read past the page cache, where the kernel does not read ahead: 1 MiB.
pub(crate) const READ_SIZE: usize = 1 << 20;

/// How often a file is read whose [attributes](Changes::Attributes) changed meanwhile.
const MAX_READS: usize = 2;

/// The least that is read of a file at first: files in `/proc` and `/sys` are to be read whole by
/// one call.
const MIN_READ_LIMIT: u64 = 1 << 20;

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
        let contents = self.contents_of(transfer, self.block_size, size, counter)?;
        Ok(self.client.digest_of(&contents))
    }

    /// Reads a whole file that is not in the page cache. A file of 1 MiB or more is read with
    /// `O_DIRECT`, so that it does not fill the cache. [`ReadFrom::of`] tells where its bytes come
    /// from.
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
            return self.contents_of(transfer, self.block_size, size, counter);
        }
        // Without O_DIRECT the read takes longer.
        let _ = set_direct(file);
        self.contents_of(transfer, self.block_size.max(READ_SIZE), size, counter)
    }

    fn contents_of(
        &mut self,
        transfer: Transfer<'_, impl AsFd, impl AsFd>,
        read_size: usize,
        size: u64,
        counter: Option<&Count>,
    ) -> anyhow::Result<Contents> {
        let transfer = transfer
            .source_offset(0)
            .buffer_size(read_size)
            .sparse(Sparse::KeepUnwritten);
        let (_, contents) = self
            .run(transfer, size, |n| {
                if let Some(counter) = counter {
                    counter.add(n);
                }
            })
            .map_err(|error| anyhow!(read_error(&error)))?;
        contents.ok_or_else(|| self.no_contents())
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
        let (_, contents) = run.map_err(|error| anyhow!(read_error(&error)))?;
        let contents = contents.ok_or_else(|| self.no_contents())?;
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

/// A transfer at the rate of the limiter, if there is one.
pub(crate) fn limited<'a, Source: AsFd, Sink: AsFd>(
    transfer: Transfer<'a, Source, Sink>,
    rate_limiter: Option<&RateLimiter>,
) -> Transfer<'a, Source, Sink> {
    match rate_limiter {
        Some(rate_limiter) => transfer.rate_limit(rate_limiter),
        None => transfer,
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

/// Where the bytes of a file come from that is [read past the cache](Reader::read_past_cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// The disk, with `O_DIRECT`.
    Disk,
    /// The page cache, which has to read them first: it holds none of them.
    EmptiedCache,
    /// Memory, as far as is known: the file system has no disk, or the cache has kept pages.
    Memory,
    /// A server, a process or another file system, past the page cache of this one. What they have
    /// in memory is not known.
    Elsewhere,
}

impl ReadFrom {
    /// Examines a file of this size, before it is read. Its pages have been dropped if possible.
    pub(crate) fn of(file: &File, size: u64) -> Self {
        let storage = Storage::of(file);
        let is_direct = size >= READ_SIZE as u64 && set_direct(file).is_ok();
        let is_cached = || size > 0 && [0, size - 1].iter().any(|at| is_cached(file, *at));
        match storage {
            Storage::Memory => Self::Memory,
            _ if !is_direct && is_cached() => Self::Memory,
            Storage::Elsewhere => Self::Elsewhere,
            Storage::Disk if is_direct => Self::Disk,
            Storage::Disk => Self::EmptiedCache,
        }
    }
}

/// Lets reads pass by the page cache.
pub(crate) fn set_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)?)
}

/// Lets reads and writes use the page cache again.
pub(crate) fn clear_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)?)
}

/// Whether a byte can be read without the disk. Where the file system does not tell, it may be.
fn is_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut bytes = [io::IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(file, &mut bytes, at, ReadWriteFlags::NOWAIT);
    read != Err(Errno::AGAIN)
}

/// The change of a file since it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    None,
    /// Only the time of change: another attribute, or the number of names, has changed. Over FUSE,
    /// the kernel may have guessed the earlier time before the driver reported it.
    Attributes,
    /// The size, the modification time, or the file itself.
    Contents,
}

/// Compares a file with its state before.
pub(crate) fn changes(file: &File, before: &Stat) -> io::Result<Changes> {
    let after = rustix::fs::fstat(file)?;
    let version = |stat: &Stat| (identity(stat), stat.st_size, Time::modified(stat));
    let changed = |stat: &Stat| (stat.st_ctime, stat.st_ctime_nsec);
    Ok(if version(before) != version(&after) {
        Changes::Contents
    } else if changed(before) != changed(&after) {
        Changes::Attributes
    } else {
        Changes::None
    })
}

/// The most bytes that are read of a file with this size.
///
/// A file in `/proc` has the size 0 and any length. Of any other file one more byte is read: it
/// shows that the file has grown, and a file that grows without end is not followed.
pub(crate) fn read_limit(size: u64) -> u64 {
    match size {
        0 => u64::MAX,
        size => size.saturating_add(1),
    }
}

/// Reads a file to its end by transfers that `run` makes from the file's cursor, each with the
/// limit that it is given. Returns the report of the last one.
///
/// A file that grows meanwhile is not read to its end, which it may not have: one byte more than
/// its size gives it another digest. A file of more bytes than its size (in `/proc`, or of a FUSE
/// driver) is read whole.
///
/// # Errors
///
/// The error of the transfer.
pub(crate) fn read_whole(
    file: &File,
    mut run: impl FnMut(Option<u64>) -> Result<Report, zcopy::Error>,
) -> Result<Report, zcopy::Error> {
    let size = || file.metadata().map_or(0, |metadata| metadata.len());
    let size_before = size();
    let limit = size_before.saturating_add(1).max(MIN_READ_LIMIT);
    let report = run(Some(limit))?;
    if report.ended() == Ended::Limit && size() == size_before {
        return run(None);
    }
    Ok(report)
}

/// Stops a transfer after a signal.
pub(crate) fn stop_if_interrupted(interrupt: &Interrupt) -> ControlFlow<()> {
    if interrupt.is_requested() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The kernel's error of a transfer that failed. The error of a read names the offset.
pub(crate) fn read_error(error: &zcopy::Error) -> io::Error {
    read_error_from(error, 0)
}

/// The same for a transfer from this offset on.
pub(crate) fn read_error_from(error: &zcopy::Error, start: u64) -> io::Error {
    let cause = message::cause(error);
    if error.side() != Side::Source || error.call().is_none() {
        return cause;
    }
    let offset = start + error.bytes();
    let cause_words = message::worded(&cause);
    io::Error::new(cause.kind(), format!("{cause_words} at offset {offset}"))
}

/// Whether an entry failed because of a signal.
pub(crate) fn is_interrupted(error: &anyhow::Error) -> bool {
    error.is::<Interrupted>()
}

/// The error of a file whose hashing thread has exited.
pub(crate) fn no_digest() -> anyhow::Error {
    anyhow!("cannot hash: the hashing thread has exited")
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use zcopy::Transfer;

    use super::{MIN_READ_LIMIT, read_whole};

    #[test]
    fn a_file_that_grows_is_read_to_a_byte_beyond_its_size() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MIN_READ_LIMIT + 5).unwrap();
        let null = File::create("/dev/null").unwrap();
        let reader = file.try_clone().unwrap();
        let report = read_whole(&reader, |limit| {
            file.set_len(2 * MIN_READ_LIMIT).unwrap();
            Transfer::new(&reader, &null).limit(limit).run()
        });
        assert_eq!(report.unwrap().bytes(), MIN_READ_LIMIT + 6);
    }

    #[test]
    fn a_file_of_more_bytes_than_its_size_is_read_whole() {
        let (kernel_symbols, null) = ("/proc/kallsyms", File::create("/dev/null").unwrap());
        let file = File::open(kernel_symbols).unwrap();
        let (mut bytes, mut n_runs) = (0, 0);
        read_whole(&file, |limit| {
            let report = Transfer::new(&file, &null).limit(limit).run()?;
            (bytes, n_runs) = (bytes + report.bytes(), n_runs + 1);
            Ok(report)
        })
        .unwrap();
        let expected = std::fs::read(kernel_symbols).unwrap().len() as u64;
        assert!(expected > MIN_READ_LIMIT);
        assert_eq!((bytes, n_runs), (expected, 2));
    }
}
