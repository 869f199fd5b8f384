//! The digest of a file of the tree.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use zcopy::{RateLimiter, Sparse, Transfer};

use super::open_beneath;
use crate::common::cli::message;
use crate::common::digest::{Algorithm, Stream};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::transfers::{check_length, limited, read_whole, stop_if_interrupted};
use crate::dircopy::interrupt::{Interrupt, Interrupted};

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOptions<'a> {
    /// `/dev/null`.
    pub(crate) null: &'a File,
    /// Ends reading. `None` if no signal is caught.
    pub(crate) interrupt: Option<&'a Interrupt>,
    pub(crate) rate_limiter: Option<&'a RateLimiter>,
}

impl<'a> ReadOptions<'a> {
    /// Reads whole files as fast as possible.
    pub(crate) const fn unlimited(null: &'a File) -> Self {
        Self {
            null,
            interrupt: None,
            rate_limiter: None,
        }
    }

    /// Whether a signal has ended the run.
    pub(crate) fn is_interrupted(self) -> bool {
        self.interrupt.is_some_and(Interrupt::is_requested)
    }
}

/// Reads the file at `path` below `root`, and returns its digest.
///
/// # Errors
///
/// The file cannot be opened or read, or its path leads out of the tree; a signal ended the run.
pub(crate) fn hash_file(
    root: BorrowedFd<'_>,
    path: &[u8],
    algorithm: Algorithm,
    options: ReadOptions<'_>,
) -> io::Result<FileDigest> {
    let file = open_beneath::open(root, path)?;
    let size = file.metadata()?.len();
    let mut stream = Stream::new(algorithm);
    let mut n_read = 0;
    let report = read_whole(&file, |limit| {
        let transfer = Transfer::new(&file, options.null).sparse(Sparse::KeepUnwritten);
        let transfer = transfer.inspect(|bytes| {
            stream.update(bytes);
            n_read += bytes.len() as u64;
        });
        let transfer = limited(transfer, options.rate_limiter);
        let go_on = ControlFlow::Continue(());
        let observe = |_: &_| options.interrupt.map_or(go_on, stop_if_interrupted);
        transfer.limit(limit).observe(observe).run()
    });
    report.map_err(|error| message::cause(&error))?;
    if options.is_interrupted() {
        return Err(io::Error::other(Interrupted));
    }
    check_length(&file, size, n_read)?;
    let digest = stream.finish();
    Ok(FileDigest { algorithm, digest })
}
