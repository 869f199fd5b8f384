//! The digest of a file of the tree.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use zcopy::{Sparse, Transfer};

use super::open_beneath;
use crate::common::cli::message;
use crate::common::digest::{Algorithm, Stream};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::reader::{read_whole, stop_if_interrupted};
use crate::dircopy::interrupt::{Interrupt, Interrupted};

/// Reads the file at `path` below `root`, and returns its digest. `null` is `/dev/null`.
///
/// # Errors
///
/// The file cannot be opened or read, or its path leads out of the tree; a signal ended the run.
pub(crate) fn hash_file(
    root: BorrowedFd<'_>,
    path: &[u8],
    algorithm: Algorithm,
    null: &File,
    interrupt: Option<&Interrupt>,
) -> io::Result<FileDigest> {
    let is_ended = || interrupt.is_some_and(Interrupt::is_requested);
    let file = open_beneath::open(root, path)?;
    let mut stream = Stream::new(algorithm);
    let report = read_whole(&file, |limit| {
        let transfer = Transfer::new(&file, null).sparse(Sparse::KeepUnwritten);
        let transfer = transfer.inspect(|bytes| stream.update(bytes));
        let observe = |_: &_| interrupt.map_or(ControlFlow::Continue(()), stop_if_interrupted);
        transfer.limit(limit).observe(observe).run()
    });
    report.map_err(|error| message::cause(&error))?;
    if is_ended() {
        return Err(io::Error::other(Interrupted));
    }
    let digest = stream.finish();
    Ok(FileDigest { algorithm, digest })
}
