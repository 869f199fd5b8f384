//! Transfers that read a file: how far, how fast, until which signal, and with which errors.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use zcopy::{Ended, RateLimiter, Report, Side, Transfer};

use crate::common::cli::message;
use crate::dircopy::interrupt::{Interrupt, Interrupted};

/// The least that is read of a file at first: files in `/proc` and `/sys` are to be read whole by
/// one call.
const MIN_READ_LIMIT: u64 = 1 << 20;

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

/// Fails if fewer bytes of a file were read than its size was and is: a network file system that
/// has lost its server may read so.
pub(crate) fn check_length(file: &File, size_before: u64, n_read: u64) -> io::Result<()> {
    // The server may not even tell the size any more.
    let size = file.metadata().map_or(size_before, |facts| facts.len());
    let size = size.min(size_before);
    if n_read >= size {
        return Ok(());
    }
    let words = format!("end of file at offset {n_read}, but its size is {size}");
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, words))
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
